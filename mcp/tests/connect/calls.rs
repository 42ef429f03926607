//! Calls: their bytes, how they end, and the server's messages in the meantime.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ikigai_mcp::{
    CallProgress, Era, FormReply, FormRequest, Interaction, RemoteCallError, RemoteConnection,
    Unattended,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::peer::Peer;

fn call(
    connection: &Arc<RemoteConnection>,
    arguments: &'static str,
    cancel: &CancellationToken,
) -> JoinHandle<Result<Bytes, RemoteCallError>> {
    let (connection, cancel) = (Arc::clone(connection), cancel.clone());
    tokio::spawn(async move {
        connection
            .call("tool", Bytes::from_static(arguments.as_bytes()), &cancel, &Unattended)
            .await
    })
}

/// A caller whose forms and progress the test sees. The test also answers the forms.
struct Caller {
    forms: UnboundedSender<(FormRequest, oneshot::Sender<FormReply>)>,
    progress: UnboundedSender<CallProgress>,
}

type Forms = UnboundedReceiver<(FormRequest, oneshot::Sender<FormReply>)>;

impl Caller {
    fn new() -> (Self, Forms, UnboundedReceiver<CallProgress>) {
        let ((forms, shown), (progress, told)) = (unbounded_channel(), unbounded_channel());
        (Self { forms, progress }, shown, told)
    }

    fn call(
        self,
        connection: &Arc<RemoteConnection>,
    ) -> JoinHandle<Result<Bytes, RemoteCallError>> {
        let connection = Arc::clone(connection);
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            connection.call("tool", Bytes::from_static(b"{}"), &cancel, &self).await
        })
    }
}

impl Interaction for Caller {
    fn fill(&self, form: FormRequest) -> Pin<Box<dyn Future<Output = FormReply> + Send + '_>> {
        let (answer, filled) = oneshot::channel();
        self.forms.send((form, answer)).expect("looked at");
        Box::pin(async { filled.await.expect("answered") })
    }

    fn progress(&self, progress: CallProgress) {
        self.progress.send(progress).expect("looked at");
    }
}

async fn connected(era: Era) -> (Peer, Arc<RemoteConnection>) {
    let (peer, connection) = Peer::connected(era).await;
    (peer, Arc::new(connection))
}

#[tokio::test]
async fn arguments_and_results_pass_through_to_the_digit() {
    for era in [Era::Legacy, Era::Modern] {
        let (mut peer, connection) = connected(era).await;
        let arguments = "{ \"b\":1.10000000000000000001e40,\n\"a\": [ -0.0 ] , \"a\":2}";
        let calling = call(&connection, arguments, &CancellationToken::new());
        let line = peer.line().await;
        let in_one_line = arguments.replace('\n', " ");
        assert!(line.contains(&format!(r#""arguments":{in_one_line}"#)), "{line}");
        assert!(line.contains(r#""name":"tool""#), "{line}");
        let asked: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(asked["method"], "tools/call");
        let result = r#"{ "content": [], "structuredContent":{"n":12345678901234567890.10} }"#;
        peer.raw(&format!(r#"{{"result":{result},"id":{},"jsonrpc":"2.0"}}"#, asked["id"])).await;
        peer.raw("\n").await;
        assert_eq!(calling.await.expect("no panic").expect("a result"), result, "{era:?}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_not_sent() {
    let (mut peer, connection) = connected(Era::Modern).await;
    for arguments in ["", "[]", "1", "{", "{}{}", "null"] {
        let answer = call(&connection, arguments, &CancellationToken::new()).await;
        assert_eq!(answer.expect("no panic"), Err(RemoteCallError::Arguments), "{arguments}");
    }
    drop(connection);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order_and_the_first_counts() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let cancel = CancellationToken::new();
    let (one, two) = (call(&connection, "{}", &cancel), call(&connection, "{}", &cancel));
    let (first, second) = (peer.asked("tools/call").await, peer.asked("tools/call").await);
    for id in [json!(4711), json!("x"), json!(-1), json!(null)] {
        peer.say(&json!({ "jsonrpc": "2.0", "id": id, "result": { "content": ["?"] } })).await;
    }
    peer.answer(&second, json!({ "content": ["second"] })).await;
    peer.answer(&second, json!({ "content": ["again"] })).await;
    peer.refuse(&second, -1, "again").await;
    peer.answer(&first, json!({ "content": ["first"] })).await;
    let mut answers = Vec::new();
    for calling in [one, two] {
        answers.push(calling.await.expect("no panic").expect("a result"));
    }
    answers.sort();
    assert_eq!(answers, [r#"{"content":["first"]}"#, r#"{"content":["second"]}"#]);
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_of_its_call_alone() {
    let (mut peer, connection) = connected(Era::Modern).await;
    for (members, expected) in [
        (r#""result":7"#, "the result is not an object"),
        (r#""result":{"resultType":"task"}"#, "`task` was not offered"),
        (r#""result":{"resultType":7}"#, "invalid type"),
        (r#""result":{},"error":{"code":1,"message":""}"#, "or both"),
        (r#""x":1"#, "neither"),
        (r#""error":"no""#, "error is malformed"),
    ] {
        let calling = call(&connection, "{}", &CancellationToken::new());
        let asked = peer.asked("tools/call").await;
        peer.raw(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{members}}}\n", asked["id"])).await;
        let error = calling.await.expect("no panic").expect_err("no result").to_string();
        assert!(error.contains(expected), "{members}: {error}");
    }
    let calling = call(&connection, "{}", &CancellationToken::new());
    let asked = peer.asked("tools/call").await;
    peer.refuse(&asked, -32602, "no such tool").await;
    let refused = RemoteCallError::Refused { code: -32602, message: "no such tool".to_owned() };
    assert_eq!(calling.await.expect("no panic"), Err(refused));
}

#[tokio::test]
async fn a_server_is_told_of_calls_that_nobody_waits_for() {
    for era in [Era::Legacy, Era::Modern] {
        let (mut peer, connection) = connected(era).await;
        let cancel = CancellationToken::new();
        let calling = call(&connection, "{}", &cancel);
        let asked = peer.asked("tools/call").await;
        cancel.cancel();
        assert_eq!(calling.await.expect("no panic"), Err(RemoteCallError::Cancelled));
        let told = peer.asked("notifications/cancelled").await;
        assert_eq!(told["params"]["requestId"], asked["id"], "{told}");
        // The late answer must not become the answer to another call.
        let calling = call(&connection, "{}", &CancellationToken::new());
        let next = peer.asked("tools/call").await;
        peer.answer(&asked, json!({ "content": ["late"] })).await;
        peer.answer(&next, json!({ "content": ["next"] })).await;
        let answer = calling.await.expect("no panic").expect("a result");
        assert_eq!(answer, r#"{"content":["next"]}"#);
        let calling = call(&connection, "{}", &CancellationToken::new());
        let asked = peer.asked("tools/call").await;
        calling.abort();
        let told = peer.asked("notifications/cancelled").await;
        assert_eq!(told["params"]["requestId"], asked["id"], "{told}");
        let cancelled = call(&connection, "{}", &cancel).await.expect("no panic");
        assert_eq!(cancelled, Err(RemoteCallError::Cancelled));
        drop(connection);
        assert_eq!(peer.next().await, None);
    }
}

#[tokio::test]
async fn calls_in_flight_end_with_the_connection_and_its_reason() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let calling = call(&connection, "{}", &CancellationToken::new());
    peer.asked("tools/call").await;
    drop(peer);
    let closed = RemoteCallError::Closed("the server closed its stream".to_owned());
    assert_eq!(calling.await.expect("no panic"), Err(closed.clone()));
    assert_eq!(&*connection.closed().await, "the server closed its stream");
    let later = call(&connection, "{}", &CancellationToken::new());
    assert_eq!(later.await.expect("no panic"), Err(closed));
}

#[tokio::test]
async fn an_answer_before_the_end_counts() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let calling = call(&connection, "{}", &CancellationToken::new());
    let asked = peer.asked("tools/call").await;
    peer.answer(&asked, json!({ "content": [] })).await;
    drop(peer);
    assert_eq!(calling.await.expect("no panic").expect("a result"), r#"{"content":[]}"#);
}

#[tokio::test]
async fn progress_arrives_at_its_call() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let (caller, _, mut receiver) = Caller::new();
    let calling = caller.call(&connection);
    let asked = peer.asked("tools/call").await;
    let token = &asked["params"]["_meta"]["progressToken"];
    assert!(token.is_number(), "{asked}");
    let said = json!({ "progressToken": "another", "progress": 1 });
    let method = "notifications/progress";
    peer.say(&json!({ "jsonrpc": "2.0", "method": method, "params": said })).await;
    let said = json!({ "progressToken": token, "progress": 2, "total": 4.5, "message": "a\u{7}" });
    peer.say(&json!({ "jsonrpc": "2.0", "method": method, "params": said })).await;
    let message = Some("a\u{fffd}".to_owned());
    let expected = CallProgress { progress: 2.0, total: Some(4.5), message };
    assert_eq!(receiver.recv().await, Some(expected));
    peer.answer(&asked, json!({})).await;
    assert!(calling.await.expect("no panic").is_ok());
    assert_eq!(receiver.recv().await, None);
}

/// A question of a server. The client may have a request with the same id.
fn question(id: &Value) -> Value {
    let params = json!({ "message": "Which colour?", "requestedSchema": schema() });
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "colour": { "type": "string" } } })
}

fn colour() -> FormReply {
    FormReply::Accepted(json!({ "colour": "red" }).as_object().expect("an object").clone())
}

#[tokio::test]
async fn a_form_of_a_server_reaches_the_only_call_and_its_answer_the_server() {
    let (mut peer, connection) = connected(Era::Legacy).await;
    let (caller, mut forms, _progress) = Caller::new();
    let calling = caller.call(&connection);
    let asked = peer.asked("tools/call").await;
    for (filled, result) in [
        (colour(), json!({ "action": "accept", "content": { "colour": "red" } })),
        (FormReply::Declined, json!({ "action": "decline" })),
        (FormReply::Cancelled, json!({ "action": "cancel" })),
    ] {
        // The ids of the two sides are independent.
        peer.say(&question(&asked["id"])).await;
        let (form, answer) = forms.recv().await.expect("a form");
        assert_eq!(form.message, "Which colour?");
        assert_eq!(form.schema["properties"], schema()["properties"]);
        answer.send(filled).expect("waited for");
        let answer = peer.next().await.expect("an answer");
        assert_eq!((&answer["id"], &answer["result"]), (&asked["id"], &result), "{answer}");
    }
    peer.answer(&asked, json!({ "content": [] })).await;
    assert!(calling.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn a_form_that_is_not_of_one_call_alone_is_declined() {
    let (mut peer, connection) = connected(Era::Legacy).await;
    let declined = json!({ "action": "decline" });
    // Without any call.
    peer.say(&question(&json!("none"))).await;
    assert_eq!(peer.next().await.expect("an answer")["result"], declined);
    let (first, mut forms, _progress) = Caller::new();
    let first = first.call(&connection);
    let asked = peer.asked("tools/call").await;
    // A second form, while one is open.
    peer.say(&question(&json!("open"))).await;
    let (_, answer) = forms.recv().await.expect("a form");
    peer.say(&question(&json!("further"))).await;
    let reply = peer.next().await.expect("an answer");
    assert_eq!((&reply["id"], &reply["result"]), (&json!("further"), &declined), "{reply}");
    // A form that opens a web page, and invalid forms.
    answer.send(colour()).expect("waited for");
    assert_eq!(peer.next().await.expect("an answer")["id"], "open");
    for params in [
        json!({ "mode": "url", "message": "Log in", "url": "https://b.example/", "elicitationId": "e" }),
        json!({ "message": "x".repeat(70_000), "requestedSchema": schema() }),
        json!({ "message": 7 }),
    ] {
        let mut question = question(&json!("other"));
        question["params"] = params;
        peer.say(&question).await;
        let reply = peer.next().await.expect("an answer");
        assert_eq!((&reply["id"], &reply["result"]), (&json!("other"), &declined), "{reply}");
    }
    // With two calls, the form could belong to either.
    let (second, mut other_forms, _progress) = Caller::new();
    let second = second.call(&connection);
    let also_asked = peer.asked("tools/call").await;
    peer.say(&question(&json!("ambiguous"))).await;
    assert_eq!(peer.next().await.expect("an answer")["result"], declined);
    for (asked, calling) in [(asked, first), (also_asked, second)] {
        peer.answer(&asked, json!({ "content": [] })).await;
        assert!(calling.await.expect("no panic").is_ok());
    }
    assert!(forms.recv().await.is_none() && other_forms.recv().await.is_none());
}

#[tokio::test]
async fn a_form_is_taken_back_with_its_question_and_with_its_call() {
    let (mut peer, connection) = connected(Era::Legacy).await;
    let (caller, mut forms, _progress) = Caller::new();
    let calling = caller.call(&connection);
    let asked = peer.asked("tools/call").await;
    peer.say(&question(&json!("q"))).await;
    let (_, mut answer) = forms.recv().await.expect("a form");
    let params = json!({ "requestId": "q" });
    let method = "notifications/cancelled";
    peer.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    answer.closed().await;
    peer.say(&question(&json!("next"))).await;
    let (_, mut answer) = forms.recv().await.expect("a form");
    peer.answer(&asked, json!({ "content": [] })).await;
    answer.closed().await;
    assert!(calling.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn a_result_that_asks_is_answered_by_repeating_the_call() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let (caller, mut forms, _progress) = Caller::new();
    let calling = caller.call(&connection);
    let asked = peer.asked("tools/call").await;
    let request = |message: &str| {
        let params = json!({ "message": message, "requestedSchema": schema() });
        json!({ "method": "elicitation/create", "params": params })
    };
    let required = |requests: Value| json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "s" });
    let requests = json!({ "one": request("1"), "two": request("2") });
    peer.answer(&asked, required(requests)).await;
    for (message, filled) in [("1", colour()), ("2", FormReply::Declined)] {
        let (form, answer) = forms.recv().await.expect("a form");
        assert_eq!(form.message, message);
        answer.send(filled).expect("waited for");
    }
    let repeated = peer.asked("tools/call").await;
    let responses = json!({
        "one": { "action": "accept", "content": { "colour": "red" } },
        "two": { "action": "decline" },
    });
    assert_eq!(repeated["params"]["inputResponses"], responses, "{repeated}");
    assert_eq!(repeated["params"]["requestState"], "s", "{repeated}");
    assert_eq!(repeated["params"]["arguments"], json!({}), "{repeated}");
    peer.answer(&repeated, json!({ "resultType": "complete", "content": [] })).await;
    assert!(calling.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn a_form_is_shown_only_if_a_request_follows_with_its_answer() {
    let (mut peer, connection) = connected(Era::Modern).await;
    let (caller, mut forms, _progress) = Caller::new();
    let calling = caller.call(&connection);
    let request = question(&Value::Null);
    let asking = json!({
        "resultType": "input_required",
        "inputRequests": { "one": { "method": request["method"], "params": request["params"] } },
        "requestState": "s",
    });
    for _ in 0..7 {
        let asked = peer.asked("tools/call").await;
        peer.answer(&asked, asking.clone()).await;
        let (_, answer) = forms.recv().await.expect("a form");
        answer.send(colour()).expect("waited for");
    }
    let last = peer.asked("tools/call").await;
    peer.answer(&last, asking).await;
    assert!(forms.recv().await.is_none(), "the eighth form was shown");
    let error = calling.await.expect("no panic").expect_err("the eighth result asks").to_string();
    assert!(error.contains("asked in 8 results in a row"), "{error}");
}

#[tokio::test]
async fn a_server_cannot_ask_for_ever_or_for_what_was_not_offered() {
    let form = json!({ "method": "elicitation/create", "params": { "message": 7 } });
    let asking = |requests: Value| json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "s" });
    let many: serde_json::Map<_, _> =
        (0..9).map(|number| (number.to_string(), form.clone())).collect();
    for (required, reason) in [
        (asking(json!({ "a": { "method": "sampling/createMessage" } })), "sampling/createMessage"),
        (asking(Value::Object(many)), "too much at once"),
        (asking(json!({ "a": form, "b": "x".repeat(70_000) })), "too much at once"),
        (asking(json!({ "a": 7 })), "malformed"),
        // An invalid form is declined, and so is the next.
        (asking(json!({ "a": form })), "asked in 8 results in a row"),
    ] {
        let (mut peer, connection) = connected(Era::Modern).await;
        let mut calling = call(&connection, "{}", &CancellationToken::new());
        let error = loop {
            tokio::select! {
                asked = peer.next() => {
                    peer.answer(&asked.expect("a message"), required.clone()).await;
                }
                ended = &mut calling => break ended.expect("no panic").expect_err(reason),
            }
        };
        let error = error.to_string();
        assert!(error.contains(reason), "{error}");
    }
    // The older revisions do not have this result.
    let (mut peer, connection) = connected(Era::Legacy).await;
    let calling = call(&connection, "{}", &CancellationToken::new());
    let asked = peer.asked("tools/call").await;
    peer.answer(&asked, asking(json!({ "a": form }))).await;
    let error = calling.await.expect("no panic").expect_err("not offered").to_string();
    assert!(error.contains("was not offered"), "{error}");
}

#[tokio::test]
async fn a_change_of_the_tools_is_told() {
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let (mut peer, connection) = connected(Era::Legacy).await;
    let mut changed = connection.changed();
    peer.say(&told).await;
    changed.changed().await.expect("connected");
    // In the newer era, the client subscribes to changes.
    let (mut peer, connecting) = Peer::new(None);
    let asked = peer.asked("server/discover").await;
    let mut introduction = crate::peer::discovered(&["2026-07-28"]);
    introduction["capabilities"]["tools"]["listChanged"] = json!(true);
    peer.answer(&asked, introduction).await;
    let connection = connecting.await.expect("no panic").expect("connected");
    let mut changed = connection.changed();
    let asked = peer.asked("subscriptions/listen").await;
    assert_eq!(asked["params"]["notifications"], json!({ "toolsListChanged": true }), "{asked}");
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": asked["id"] });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let method = "notifications/subscriptions/acknowledged";
    peer.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    peer.say(&told).await;
    changed.changed().await.expect("connected");
    assert_eq!(*changed.borrow_and_update(), 1);
    // After a subscription ended, changes may have been missed. The client subscribes again.
    let result = json!({ "resultType": "complete", "_meta": meta });
    peer.answer(&asked, result).await;
    changed.changed().await.expect("connected");
    peer.asked("subscriptions/listen").await;
}

#[tokio::test]
async fn a_call_of_a_connection_that_is_closed_ends() {
    let (mut peer, connection) = Peer::connected(Era::Modern).await;
    let cancel = CancellationToken::new();
    let calling = async {
        let call = connection.call("tool", Bytes::from_static(b"{}"), &cancel, &Unattended);
        tokio::select! {
            answer = call => panic!("nobody answers: {answer:?}"),
            asked = peer.asked("tools/call") => asked,
            () = pending() => unreachable!(),
        }
    };
    let asked = calling.await;
    let told = peer.asked("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], asked["id"]);
    connection.close().await;
    assert_eq!(peer.next().await, None);
}
