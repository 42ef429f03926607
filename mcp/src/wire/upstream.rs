//! The client's end of a connection: its requests in flight, and their answers.
//!
//! The library matches answers to requests, but would read each into a tree. So the results of the
//! requests that this crate asks itself are cut out of their messages here, as the bytes that the
//! server wrote, and the library is given an empty result in their place. Messages of a server that
//! nobody waits for end here as well.

mod incoming;
mod outgoing;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

use crate::form::{Filled, Form};

pub(crate) use incoming::fuzzing;
pub(crate) use incoming::{FORM, Incoming, MAX_MESSAGE, not_modern, plain};
pub(crate) use outgoing::Outgoing;
pub(crate) use stream::ClientWire;

/// A request whose arguments and result are not the library's business: an extension of it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    arguments: Option<Arc<RawValue>>,
    /// The headers of HTTP that repeat some of the arguments.
    headers: HeaderMap,
    answers: Answers,
    /// The way of a form of the server to the caller; nothing for a request that is no call.
    forms: Option<mpsc::Sender<Question>>,
    result: OnceLock<Bytes>,
    progress: watch::Sender<Option<Progress>>,
}

/// The answers to what a server asked in the result of a call, for the call that repeats it.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) input_responses: Option<Value>,
    pub(crate) request_state: Option<String>,
}

/// A form that a server waits for.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) form: Form,
    /// Closed when the server no longer waits.
    pub(crate) answer: oneshot::Sender<Filled>,
}

/// A sign of life of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The progress so far, in a unit of the server.
    pub progress: f64,
    /// The progress at the end, if the server knows it.
    pub total: Option<f64>,
    /// The server's words, at most 300 characters.
    pub message: Option<String>,
}

impl Asked {
    /// Returns a call with these arguments, which hold no line break, and the forms that its server
    /// sends meanwhile.
    pub(crate) fn call(
        arguments: Arc<RawValue>,
        headers: HeaderMap,
        answers: Answers,
    ) -> (Arc<Self>, mpsc::Receiver<Question>) {
        let (forms, questions) = mpsc::channel(1);
        let (arguments, forms) = (Some(arguments), Some(forms));
        (Arc::new(Self { arguments, headers, answers, forms, ..Self::default() }), questions)
    }

    /// Returns the headers of HTTP that repeat arguments of the request in a message.
    pub(crate) fn headers(message: &ClientJsonRpcMessage) -> Option<&HeaderMap> {
        let JsonRpcMessage::Request(message) = message else { return None };
        message.request.extensions().get::<Arc<Self>>().map(|asked| &asked.headers)
    }

    /// Returns the JSON text of the result once the library has heard of it.
    pub(crate) fn result(&self) -> Option<Bytes> {
        self.result.get().cloned()
    }

    /// Returns the latest progress. What is not looked at in time is replaced by the next.
    pub(crate) fn progress(&self) -> watch::Receiver<Option<Progress>> {
        self.progress.subscribe()
    }
}

/// The state of a connection that its transport and its owner share.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    flights: Mutex<HashMap<RequestId, Flight>>,
    /// Counts the changes of the list of tools.
    changes: watch::Sender<u64>,
    /// True once a server that refused the newest revision was asked for it again.
    has_asked_again: AtomicBool,
    /// True once a server says that it supports the newest revision to one who opens with an older.
    is_modern: AtomicBool,
    /// The call whose server waits for a form.
    asking: Mutex<Option<Arc<Asked>>>,
    /// The reason for which the connection has ended.
    end: watch::Sender<Option<Arc<str>>>,
}

/// A request in flight.
#[derive(Debug)]
struct Flight {
    kind: Kind,
    token: Option<ProgressToken>,
}

/// The way in which the answer of a request is read.
#[derive(Clone, Debug)]
enum Kind {
    Discover,
    /// `server/discover` after the time in which an answer was waited for.
    GivenUp,
    Initialize,
    Listen,
    /// One of the library's own.
    Other,
    Asked(Arc<Asked>),
}

impl Upstream {
    /// Notes a message that is about to be sent.
    pub(crate) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(message) => {
                let kind = Kind::from_request(&message.request);
                let token = message.request.get_meta().get_progress_token();
                let mut flights = self.flights();
                if matches!(kind, Kind::Initialize) {
                    // The library no longer waits for the answer of what it tried before.
                    give_up_discovery(&mut flights);
                }
                flights.insert(message.id.clone(), Flight { kind, token });
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(it) = &message.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.flights().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Notes that a request could not be sent, so that no answer comes. One that opens the connection is
    /// followed by another.
    pub(crate) fn unsent(&self, id: &RequestId) {
        let mut flights = self.flights();
        let opens = |flight: &Flight| {
            matches!(flight.kind, Kind::Discover | Kind::GivenUp | Kind::Initialize)
        };
        if flights.get(id).is_some_and(|flight| !opens(flight)) {
            flights.remove(id);
        }
    }

    /// Takes the request that is answered by a message with this id, if there is one.
    fn answered(&self, id: &RequestId) -> Option<(RequestId, Kind)> {
        let mut flights = self.flights();
        let (id, flight) = flights.remove_entry(id).or_else(|| {
            // Some servers answer every id as a string.
            let RequestId::String(id) = id else { return None };
            flights.remove_entry(&RequestId::Number(id.parse().ok()?))
        })?;
        Some((id, flight.kind))
    }

    /// Takes the request that opens the connection, if one waits for its answer.
    fn opening(&self) -> Option<(RequestId, Kind)> {
        let mut flights = self.flights();
        let is_opening = |kind: &Kind| matches!(kind, Kind::Discover | Kind::Initialize);
        let id = flights.iter().find(|(_, flight)| is_opening(&flight.kind))?.0.clone();
        let (id, flight) = flights.remove_entry(&id)?;
        Some((id, flight.kind))
    }

    /// Gives up waiting for the answer to `server/discover`, and returns its id if one was waited for.
    fn give_up_discovery(&self) -> Option<RequestId> {
        give_up_discovery(&mut self.flights())
    }

    /// Returns whether the answer to `server/discover` is waited for.
    fn is_discovering(&self) -> bool {
        self.flights().values().any(|flight| matches!(flight.kind, Kind::Discover))
    }

    /// Returns whether a server that refused the newest revision, and says that it supports it, is
    /// asked again: once.
    fn may_ask_again(&self) -> bool {
        !self.has_asked_again.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a server that was asked for an older revision supports the newest.
    pub(crate) fn is_modern(&self) -> bool {
        self.is_modern.load(Ordering::Relaxed)
    }

    /// Notes that it does.
    fn note_modern(&self) {
        self.is_modern.store(true, Ordering::Relaxed);
    }

    /// Returns whether there is a subscription that a message may be about.
    fn is_listening(&self) -> bool {
        self.flights().values().any(|flight| matches!(flight.kind, Kind::Listen))
    }

    /// Passes the progress of a call on to whoever waits for it.
    fn progress(&self, token: &ProgressToken, progress: Progress) {
        let flights = self.flights();
        let flight = flights.values().find(|flight| flight.token.as_ref() == Some(token));
        if let Some(Flight { kind: Kind::Asked(asked), .. }) = flight {
            asked.progress.send_replace(Some(progress));
        }
    }

    /// Returns whether a form can be passed on, and keeps its place until it is answered by
    /// [`fill`](Self::fill). A request of a server does not say to which call it belongs, so that
    /// there must be one call alone: the form of one caller must not reach another.
    fn take_form(&self) -> bool {
        let flights = self.flights();
        let mut calls = flights.values().filter_map(|flight| match &flight.kind {
            Kind::Asked(asked) if asked.forms.is_some() => Some(asked),
            _ => None,
        });
        let (Some(call), None) = (calls.next(), calls.next()) else { return false };
        let mut asking = self.asking();
        let is_free = asking.is_none();
        asking.get_or_insert_with(|| Arc::clone(call));
        is_free
    }

    /// Has the caller of the only call fill a form. It is cancelled with the call.
    pub(crate) async fn fill(&self, form: Option<Form>) -> Filled {
        let _asking = Asking(self);
        let forms = self.asking().as_ref().and_then(|call| call.forms.clone());
        let (Some(form), Some(forms)) = (form, forms) else { return Filled::Declined };
        let (answer, filled) = oneshot::channel();
        if forms.try_send(Question { form, answer }).is_err() {
            return Filled::Declined;
        }
        // The caller holds the other end as long as its call runs.
        drop(forms);
        filled.await.unwrap_or(Filled::Cancelled)
    }

    /// Returns whether the server waits for a form.
    fn is_asking(&self) -> bool {
        self.asking().is_some()
    }

    fn asking(&self) -> MutexGuard<'_, Option<Arc<Asked>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the list of tools has changed.
    pub(crate) fn change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns the count of changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notes the end of the connection. The first reason counts.
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

    /// Returns the reason for which the connection has ended, if it has.
    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.end.borrow().clone()
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<RequestId, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what [`Upstream::give_up_discovery`] says. A late answer is recognised.
fn give_up_discovery(flights: &mut HashMap<RequestId, Flight>) -> Option<RequestId> {
    let is_discovery = |flight: &Flight| matches!(flight.kind, Kind::Discover);
    let (id, flight) = flights.iter_mut().find(|(_, flight)| is_discovery(flight))?;
    flight.kind = Kind::GivenUp;
    Some(id.clone())
}

/// The place of a form that is open.
struct Asking<'a>(&'a Upstream);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        *self.0.asking() = None;
    }
}

impl Kind {
    fn from_request(request: &ClientRequest) -> Self {
        if let Some(asked) = request.extensions().get::<Arc<Asked>>() {
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
