//! Peers that a call tries to use beyond its grant. The call waits for a person while its clock
//! stands still, and then continues. The address of the store is never asked about.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ikigai_host::consent::WidenAnswer;
use ikigai_host::exec::assets::{AssetCaller, AssetFuture, AssetListing, AssetStore, Window};
use ikigai_host::policy::{RequestedAccess, UsedAccess};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::consent::rig::{Person, Rig};
use crate::servers::{Server, ok};

/// The time limit of a call. The person thinks longer than that.
const SHORT: Duration = Duration::from_secs(3);

/// Returns a host with the component `_caller`, which has no grants and little time.
fn calling() -> Rig {
    let rig = Rig::new("", "", "");
    grant(&rig);
    rig
}

fn grant(rig: &Rig) {
    let digest = rig.guest("caller");
    let keys = format!("limits = {{ wall_clock = \"{}s\" }}", SHORT.as_secs());
    rig.grant("_caller", &[digest], &keys);
}

/// Makes the component connect to these targets, and returns its answer.
async fn connect(rig: &Rig, mode: &str, targets: &[&str], person: Option<&Arc<Person>>) -> Value {
    let arguments = json!({ "mode": mode, "path": targets.join(" ") });
    rig.run("_caller", &arguments, person).await
}

/// Returns a person who thinks longer than a call may take, and then gives these answers. The test
/// must run the returned future next to the call.
fn slow(answers: impl IntoIterator<Item = WidenAnswer>) -> (Arc<Person>, impl Future<Output = ()>) {
    let told = Arc::new(Notify::new());
    let thinks = Some(Arc::clone(&told));
    let person = Arc::new(Person { thinks, ..Person::with(answers) });
    let begun = Arc::clone(&person);
    (person, async move {
        begun.begun.notified().await;
        tokio::time::sleep(2 * SHORT).await;
        // Further questions are answered at once.
        loop {
            told.notify_one();
            begun.begun.notified().await;
        }
    })
}

/// Waits for the end of a call while `answers` answers its questions.
async fn answered(call: impl Future<Output = Value>, answers: impl Future<Output = ()>) -> Value {
    tokio::select! {
        envelope = call => envelope,
        () = answers => panic!("whoever answers waits for questions"),
    }
}

fn peer(server: &Server) -> RequestedAccess {
    RequestedAccess::Peer { host: server.address.ip().to_string(), port: server.port() }
}

#[tokio::test]
async fn a_component_waits_for_a_person_and_connects() {
    let rig = calling();
    let [allowed, refused] = [(); 2].map(|()| Server::greeting("127.0.0.1"));
    let [to, elsewhere] = [allowed.target(), refused.target()];
    let (person, answers) = slow([WidenAnswer::Once, WidenAnswer::No]);
    let targets = [to.as_str(), &to, &elsewhere, &elsewhere];
    let envelope = answered(connect(&rig, "tcp", &targets, Some(&person)), answers).await;
    assert_eq!(envelope["result"][&to], "REACHED", "{envelope}");
    assert_ne!(envelope["result"][&elsewhere], "REACHED", "{envelope}");
    let questions = [peer(&allowed), peer(&refused)].map(|it| (it.to_string(), false));
    assert_eq!(person.asked_when(), questions);
    assert_eq!((allowed.connections(), refused.connections()), (2, 0));
    let record = rig.last_record();
    let answers: Vec<&str> = record.asked.iter().map(|it| it.answer.as_str()).collect();
    assert_eq!(answers, ["once", "no"]);
    assert_eq!(record.reached, [peer(&refused)]);
    let used = UsedAccess::Peer { host: "127.0.0.1".to_owned(), port: allowed.port() };
    assert_eq!(record.used, [used]);
    // The answer was for this call only.
    let envelope = connect(&rig, "tcp", &[&to], None).await;
    assert_ne!(envelope["result"][&to], "REACHED", "{envelope}");
    assert_eq!(allowed.connections(), 0);
}

#[tokio::test]
async fn a_request_over_http_waits_for_a_person_too() {
    let rig = calling();
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let url = server.url("/x");
    let (person, answers) = slow([WidenAnswer::Session]);
    let envelope = answered(connect(&rig, "get", &[&url], Some(&person)), answers).await;
    assert_eq!(envelope["result"][&url], "200 /x", "{envelope}");
    assert_eq!(person.asked_when(), [(peer(&server).to_string(), false)]);
    // The answer applies to the session, even if no person is there.
    let envelope = connect(&rig, "get", &[&url], None).await;
    assert_eq!(envelope["result"][&url], "200 /x", "{envelope}");
    assert_eq!(server.connections(), 2);
    let other = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let url = other.url("/x");
    let no = Person::answering([WidenAnswer::No]);
    let envelope = connect(&rig, "get", &[&url], Some(&no)).await;
    assert_eq!(envelope["result"][&url], "ErrorCode::HttpRequestDenied", "{envelope}");
    assert_eq!((no.asked().len(), other.connections()), (1, 0));
}

/// Requests a page from the relay, and answers with the status.
const FETCH: &str = r#"bash -c 'proxy=${HTTP_PROXY#http://}
exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}"
printf "GET http://PEER/ HTTP/1.1\r\n\r\n" >&3
read -r _ status _ <&3
printf "{\"status\":\"%s\"}" "$status"'"#;

#[tokio::test]
async fn a_connection_of_a_native_tool_is_held_in_the_relay() {
    let rig = Rig::new("", "", "");
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let digest = rig.script("fetch", &json!({}), &FETCH.replace("PEER", &server.target()));
    rig.grant("fetch", &[digest], &format!("limits = {{ wall_clock = \"{}s\" }}", SHORT.as_secs()));
    let question = [(peer(&server).to_string(), false)];
    let (person, answers) = slow([WidenAnswer::Once]);
    let nothing = json!({});
    let call = rig.run("fetch", &nothing, Some(&person));
    let envelope = answered(call, answers).await;
    assert_eq!(envelope["result"], json!({ "status": "200" }), "{envelope}");
    // The connection waited for the answer, and the tool did not run a second time.
    assert_eq!((person.asked_when(), server.connections()), (question.to_vec(), 1));
    let record = rig.last_record();
    assert_eq!(record.asked[0].answer, "once");
    assert!(record.reached.is_empty(), "{record:?}");
    let used = UsedAccess::Peer { host: "127.0.0.1".to_owned(), port: server.port() };
    assert!(record.used.contains(&used), "{record:?}");
    let no = Person::answering([WidenAnswer::No]);
    let envelope = rig.run("fetch", &nothing, Some(&no)).await;
    assert_eq!(envelope["result"], json!({ "status": "403" }), "{envelope}");
    // The answer "once" applied to one call, and no question follows after the end.
    assert_eq!((no.asked_when(), server.connections()), (question.to_vec(), 0));
    let record = rig.last_record();
    assert_eq!(record.reached, [peer(&server)]);
    assert!(!record.used.contains(&used), "{record:?}");
}

#[tokio::test]
async fn nobody_is_asked_about_a_peer_of_a_native_tool_that_a_bound_forbids() {
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let to = server.target();
    let bound = |net: String| format!("[tools.\"*\"]\nnet = [{net}]\n");
    let nothing = bound(String::new());
    let elsewhere = bound("\"127.0.0.1:1\"".to_owned());
    let there = bound(format!("\"{to}\""));
    for (ceiling, workspace, may_ask) in [
        (nothing.as_str(), "", false),
        (&elsewhere, "", false),
        ("", nothing.as_str(), false),
        ("", &elsewhere, false),
        (&there, &elsewhere, false),
        // Within a bound, the person is asked.
        (&there, &there, true),
    ] {
        let rig = Rig::new(ceiling, "", workspace);
        let digest = rig.script("fetch", &json!({}), &FETCH.replace("PEER", &to));
        rig.grant("fetch", &[digest], "");
        let yes = Person::answering([WidenAnswer::Session]);
        let envelope = rig.run("fetch", &json!({}), Some(&yes)).await;
        let status = if may_ask { "200" } else { "403" };
        let case = format!("{ceiling}{workspace}{envelope}");
        assert_eq!(envelope["result"], json!({ "status": status }), "{case}");
        assert_eq!(yes.asked().len(), usize::from(may_ask), "{case}");
        assert_eq!(server.connections(), usize::from(may_ask), "{case}");
        assert!(envelope.get("allow_with").is_none(), "no command would help: {case}");
        let refused = if may_ask { vec![] } else { vec![peer(&server)] };
        assert_eq!(rig.last_record().reached, refused, "{case}");
    }
}

/// A store at these addresses that never answers.
struct Remote(Vec<(String, u16)>);

impl AssetStore for Remote {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn addresses(&self) -> Vec<(String, u16)> {
        self.0.clone()
    }

    fn read<'a>(&'a self, _: &'a AssetCaller, _: &'a str, _: Window) -> AssetFuture<'a, Bytes> {
        Box::pin(std::future::pending())
    }

    fn write<'a>(&'a self, _: &'a AssetCaller, _: &'a str, _: &'a str) -> AssetFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn edit<'a>(
        &'a self,
        _: &'a AssetCaller,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: bool,
    ) -> AssetFuture<'a, u64> {
        Box::pin(std::future::pending())
    }

    fn list<'a>(&'a self, _: &'a AssetCaller, _: &'a str) -> AssetFuture<'a, AssetListing> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn nobody_is_asked_about_the_address_of_the_store() {
    let [store, other] = [(); 2].map(|()| Server::greeting("127.0.0.1"));
    let (port, elsewhere) = (store.port(), other.target());
    for own in ["localhost", "127.0.0.1", "::1"] {
        let addresses = vec![(own.to_owned(), port), ("Store.internal".to_owned(), 5432)];
        let rig =
            Rig::built(["", "", ""], |host| host.assets(Arc::new(Remote(addresses)), "agent"));
        grant(&rig);
        let yes = Person::answering([(); 9].map(|()| WidenAnswer::Session));
        let own_targets = [
            format!("127.0.0.1:{port}"),
            format!("127.0.0.2:{port}"),
            format!("[::1]:{port}"),
            format!("[::ffff:127.0.0.1]:{port}"),
        ];
        let own_targets = own_targets.each_ref().map(String::as_str);
        let envelope = connect(&rig, "tcp", &own_targets, Some(&yes)).await;
        let urls = [
            format!("http://localhost:{port}/"),
            format!("http://LOCALHOST:{port}/"),
            format!("http://127.0.0.1:{port}/"),
            "http://store.internal:5432/".to_owned(),
        ];
        let urls = urls.each_ref().map(String::as_str);
        let over_http = connect(&rig, "get", &urls, Some(&yes)).await;
        assert_eq!(yes.asked(), [""; 0], "{own}");
        assert_eq!(store.connections(), 0, "{own} {envelope} {over_http}");
        for envelope in [envelope, over_http] {
            assert!(envelope.get("allow_with").is_none(), "no command would help: {envelope}");
        }
        // Another port of the same address is a separate question.
        let envelope = connect(&rig, "tcp", &[&elsewhere], Some(&yes)).await;
        assert_eq!(envelope["result"][&elsewhere], "REACHED", "{envelope}");
        assert_eq!(yes.asked(), [peer(&other).to_string()], "{own}");
    }
}
