//! The client's end of a connection: its requests in flight, and their answers.
//!
//! The library matches answers to requests, but would parse each answer into a tree. So this module
//! cuts the results of this crate's own requests out of their messages, as the bytes that the
//! server wrote, and gives the library an empty result instead. It also drops the server's messages
//! that have no receiver.

mod incoming;
mod outgoing;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

use crate::form::{FormReply, FormRequest};

pub(crate) use incoming::fuzzing;
pub(crate) use incoming::{FORM, MAX_MESSAGE, ServerMessage, not_modern, plain};
pub(crate) use outgoing::OutgoingMessage;
pub(crate) use stream::ClientWire;

/// An extension of a request, for arguments and a result that bypass the library.
#[derive(Debug, Default)]
pub(crate) struct ExtensionRequest {
    arguments: Option<Arc<RawValue>>,
    /// The HTTP headers that repeat some of the arguments.
    headers: HeaderMap,
    answers: InputAnswers,
    /// Sends the server's forms to the caller. `None` for a request that is not a call.
    forms: Option<mpsc::Sender<PendingForm>>,
    result: OnceLock<Bytes>,
    progress: watch::Sender<Option<CallProgress>>,
}

/// The answers to the questions in the result of a call, for the call that repeats it.
#[derive(Debug, Default)]
pub(crate) struct InputAnswers {
    pub(crate) input_responses: Option<Value>,
    pub(crate) request_state: Option<String>,
}

/// A form that a server waits for.
#[derive(Debug)]
pub(crate) struct PendingForm {
    pub(crate) form: FormRequest,
    /// Closed when the server no longer waits.
    pub(crate) answer: oneshot::Sender<FormReply>,
}

/// A progress report of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// The progress so far, in the server's unit.
    pub progress: f64,
    /// The progress at the end, if the server knows it.
    pub total: Option<f64>,
    /// The server's message, at most 300 characters.
    pub message: Option<String>,
}

impl ExtensionRequest {
    /// Returns a call with these arguments, which must not contain line breaks, and the receiver of
    /// the forms that its server sends during the call.
    pub(crate) fn call(
        arguments: Arc<RawValue>,
        headers: HeaderMap,
        answers: InputAnswers,
    ) -> (Arc<Self>, mpsc::Receiver<PendingForm>) {
        let (forms, questions) = mpsc::channel(1);
        let (arguments, forms) = (Some(arguments), Some(forms));
        (Arc::new(Self { arguments, headers, answers, forms, ..Self::default() }), questions)
    }

    /// Returns the HTTP headers that repeat arguments of the request in a message.
    pub(crate) fn headers(message: &ClientJsonRpcMessage) -> Option<&HeaderMap> {
        let JsonRpcMessage::Request(message) = message else { return None };
        message.request.extensions().get::<Arc<Self>>().map(|asked| &asked.headers)
    }

    /// Returns the JSON text of the result, once the library has received the answer.
    pub(crate) fn result(&self) -> Option<Bytes> {
        self.result.get().cloned()
    }

    /// Returns the latest progress. A new report replaces one that was not read yet.
    pub(crate) fn progress(&self) -> watch::Receiver<Option<CallProgress>> {
        self.progress.subscribe()
    }
}

/// The state of a connection that its transport and its owner share.
#[derive(Debug, Default)]
pub(crate) struct UpstreamState {
    flights: Mutex<HashMap<RequestId, Flight>>,
    /// Counts the changes of the list of tools.
    changes: watch::Sender<u64>,
    /// True once a server that refused the newest revision has been asked for it again.
    has_asked_again: AtomicBool,
    /// True once a server has reported that it supports the newest revision, although it was opened
    /// with an older one.
    is_modern: AtomicBool,
    /// The call whose server waits for a form.
    asking: Mutex<Option<Arc<ExtensionRequest>>>,
    /// The reason why the connection has ended.
    end: watch::Sender<Option<Arc<str>>>,
}

/// A request in flight.
#[derive(Debug)]
struct Flight {
    kind: RequestKind,
    token: Option<ProgressToken>,
}

/// The kind of a request, which determines how its answer is read.
#[derive(Clone, Debug)]
enum RequestKind {
    Discover,
    /// `server/discover` after its time limit.
    GivenUp,
    Initialize,
    Listen,
    /// Another request of the library.
    Other,
    Asked(Arc<ExtensionRequest>),
}

impl UpstreamState {
    /// Records a message that is about to be sent.
    pub(crate) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(message) => {
                let kind = RequestKind::from_request(&message.request);
                let token = message.request.get_meta().get_progress_token();
                let mut flights = self.flights.lock();
                if matches!(kind, RequestKind::Initialize) {
                    // The library no longer waits for the answer to its earlier attempt.
                    give_up_discovery(&mut flights);
                }
                flights.insert(message.id.clone(), Flight { kind, token });
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(it) = &message.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.flights.lock().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Records that a request could not be sent, so that no answer will come. Keeps a request that
    /// opens the connection, because another one follows it.
    pub(crate) fn unsent(&self, id: &RequestId) {
        let mut flights = self.flights.lock();
        let opens = |flight: &Flight| {
            matches!(
                flight.kind,
                RequestKind::Discover | RequestKind::GivenUp | RequestKind::Initialize
            )
        };
        if flights.get(id).is_some_and(|flight| !opens(flight)) {
            flights.remove(id);
        }
    }

    /// Takes the request that a message with this id answers, if it is in flight.
    fn answered(&self, id: &RequestId) -> Option<(RequestId, RequestKind)> {
        let mut flights = self.flights.lock();
        let (id, flight) = flights.remove_entry(id).or_else(|| {
            // Some servers send every id back as a string.
            let RequestId::String(id) = id else { return None };
            flights.remove_entry(&RequestId::Number(id.parse().ok()?))
        })?;
        Some((id, flight.kind))
    }

    /// Takes the request that opens the connection, if its answer is still missing.
    fn opening(&self) -> Option<(RequestId, RequestKind)> {
        let mut flights = self.flights.lock();
        let is_opening =
            |kind: &RequestKind| matches!(kind, RequestKind::Discover | RequestKind::Initialize);
        let id = flights.iter().find(|(_, flight)| is_opening(&flight.kind))?.0.clone();
        let (id, flight) = flights.remove_entry(&id)?;
        Some((id, flight.kind))
    }

    /// Stops waiting for the answer to `server/discover`, and returns its id if it was in flight.
    fn give_up_discovery(&self) -> Option<RequestId> {
        give_up_discovery(&mut self.flights.lock())
    }

    /// Returns whether the answer to `server/discover` is still expected.
    fn is_discovering(&self) -> bool {
        self.flights.lock().values().any(|flight| matches!(flight.kind, RequestKind::Discover))
    }

    /// Returns true once, for a server that refused the newest revision but says that it supports
    /// it. The client then asks again.
    fn may_ask_again(&self) -> bool {
        !self.has_asked_again.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a server that was asked for an older revision supports the newest.
    pub(crate) fn is_modern(&self) -> bool {
        self.is_modern.load(Ordering::Relaxed)
    }

    /// Records that the server supports the newest revision.
    fn note_modern(&self) {
        self.is_modern.store(true, Ordering::Relaxed);
    }

    /// Returns whether a subscription exists that a message may belong to.
    fn is_listening(&self) -> bool {
        self.flights.lock().values().any(|flight| matches!(flight.kind, RequestKind::Listen))
    }

    /// Passes the progress of a call on to its caller.
    fn progress(&self, token: &ProgressToken, progress: CallProgress) {
        let flights = self.flights.lock();
        let flight = flights.values().find(|flight| flight.token.as_ref() == Some(token));
        if let Some(Flight { kind: RequestKind::Asked(asked), .. }) = flight {
            asked.progress.send_replace(Some(progress));
        }
    }

    /// Returns whether a form can be passed on, and reserves the place for it until
    /// [`fill`](Self::fill) has answered it. A server's request does not say which call it belongs
    /// to. So exactly one call must be in flight, because the form of one caller must not reach
    /// another.
    fn take_form(&self) -> bool {
        let flights = self.flights.lock();
        let mut calls = flights.values().filter_map(|flight| match &flight.kind {
            RequestKind::Asked(asked) if asked.forms.is_some() => Some(asked),
            _ => None,
        });
        let (Some(call), None) = (calls.next(), calls.next()) else { return false };
        let mut asking = self.asking.lock();
        let is_free = asking.is_none();
        asking.get_or_insert_with(|| Arc::clone(call));
        is_free
    }

    /// Has the caller of the only call fill a form. The form is cancelled with the call.
    pub(crate) async fn fill(&self, form: Option<FormRequest>) -> FormReply {
        let _asking = OpenForm(self);
        let forms = self.asking.lock().as_ref().and_then(|call| call.forms.clone());
        let (Some(form), Some(forms)) = (form, forms) else { return FormReply::Declined };
        let (answer, filled) = oneshot::channel();
        if forms.try_send(PendingForm { form, answer }).is_err() {
            return FormReply::Declined;
        }
        // The caller holds the receiver as long as its call runs.
        drop(forms);
        filled.await.unwrap_or(FormReply::Cancelled)
    }

    /// Returns whether the server waits for a form.
    fn is_asking(&self) -> bool {
        self.asking.lock().is_some()
    }

    /// Records a change of the list of tools.
    pub(crate) fn change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a counter of the changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Records the end of the connection. Only the first reason is kept.
    pub(crate) fn end(&self, reason: &str) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert_with(|| reason.into());
            is_first
        });
    }

    /// Waits for the end of the connection, and returns its reason.
    pub(crate) async fn ended(&self) -> Arc<str> {
        let mut end = self.end.subscribe();
        // The sender lives as long as `self`.
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or_default()
    }

    /// Returns the reason why the connection has ended, if it has.
    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.end.borrow().clone()
    }
}

/// Implements [`UpstreamState::give_up_discovery`]. A late answer is still recognised.
fn give_up_discovery(flights: &mut HashMap<RequestId, Flight>) -> Option<RequestId> {
    let is_discovery = |flight: &Flight| matches!(flight.kind, RequestKind::Discover);
    let (id, flight) = flights.iter_mut().find(|(_, flight)| is_discovery(flight))?;
    flight.kind = RequestKind::GivenUp;
    Some(id.clone())
}

/// Reserves the place of the open form. Dropping it frees the place.
struct OpenForm<'a>(&'a UpstreamState);

impl Drop for OpenForm<'_> {
    fn drop(&mut self) {
        *self.0.asking.lock() = None;
    }
}

impl RequestKind {
    fn from_request(request: &ClientRequest) -> Self {
        if let Some(asked) = request.extensions().get::<Arc<ExtensionRequest>>() {
            return Self::Asked(Arc::clone(asked));
        }
        match request {
            ClientRequest::DiscoverRequest(_) => Self::Discover,
            ClientRequest::InitializeRequest(_) => Self::Initialize,
            ClientRequest::SubscriptionsListenRequest(_) => Self::Listen,
            _ => Self::Other,
        }
    }
}
