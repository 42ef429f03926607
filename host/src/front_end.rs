//! The front end of a call, which the call can address while it runs.

use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::consent::{ConsentQuestion, ConsentReply, Respondent, Widen, WidenAnswer, WidenReply};
use crate::policy::{RequestedAccess, UsedAccess};

/// A front end's answer, as a future: `Box::pin(async move { … })`.
pub type AnswerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The front end of a call.
///
/// A front end that can ask its user implements this trait, and is given to
/// [`Host::call_for`](crate::Host::call_for). Dropping a future withdraws its question.
pub trait FrontEnd: Send + Sync {
    /// Returns who answers.
    fn respondent(&self) -> Respondent;

    /// Asks whether the call may run, and waits for the answer. Must time out on its own.
    fn ask<'a>(&'a self, question: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply>;

    /// Returns whether the front end can ask the user to widen a grant. A client that answers for
    /// its user cannot: its yes grants nothing. The default is `false`.
    fn can_widen(&self) -> bool {
        false
    }

    /// Asks whether a tool may get the accesses that it requested, and waits for the answer. Must
    /// time out on its own. The default replies that it cannot ask.
    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        let _ = question;
        Box::pin(std::future::ready(WidenReply {
            answer: WidenAnswer::Unavailable("ikigai cannot ask the user here".to_owned()),
            waited: Duration::ZERO,
        }))
    }

    /// Returns how to record a call, if the front end records the accesses of tools. The default is
    /// not to record.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// Notes the accesses that a recorded call requested beyond its grant, those that it used, and
    /// its costs. In a permissive recording the call may have got the requested accesses. The
    /// default does nothing.
    fn recorded(&self, reached: &[RequestedAccess], used: &[UsedAccess], costs: Costs) {
        let _ = (reached, used, costs);
    }

    /// Notes that a recorded native call was not watched, because the kernel does not let the
    /// supervisor listen to its system calls. So its file accesses are unknown. The default does
    /// nothing.
    fn unwatched(&self) {}

    /// Lets the user fill in a form for the tool, and waits for the answer. Must time out on its
    /// own. The default declines.
    fn fill(&self, form: ServerForm) -> AnswerFuture<'_, FormAnswer> {
        let _ = form;
        Box::pin(std::future::ready(FormAnswer::Declined))
    }

    /// Takes the tool's progress report. The default does nothing.
    fn report(&self, progress: ToolProgress) {
        let _ = progress;
    }
}

/// The costs of a recorded call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The time from the start of the program to its end.
    pub duration: Duration,
    /// The fuel burnt; components only.
    pub fuel: Option<u64>,
    /// The peak of its memory, in bytes.
    pub peak_memory: Option<u64>,
    /// The length of its whole output to stdout, in bytes.
    pub output: u64,
}

/// The manner in which a call is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// True if the tool may run without a grant, and a component may read beyond its grant. A
    /// native tool runs in the sandbox. Neither kind may write beyond its grant.
    pub permissive: bool,
    /// True if the tool may connect to every public address.
    pub net: bool,
}

/// A form that a tool asks the user to fill in. Only an MCP server can have forms.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerForm {
    /// The name of the server that asks.
    pub server: String,
    /// The server's text, with deceptive characters escaped.
    pub message: String,
    /// The JSON Schema of the values: an object whose properties are primitive. Its texts come from
    /// the server too.
    pub schema: Map<String, Value>,
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormAnswer {
    /// The values.
    Accepted(Map<String, Value>),
    /// The user declined, or the host cannot ask.
    Declined,
    /// The user dismissed the form without an answer.
    Cancelled,
}

/// A tool's progress report.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolProgress {
    /// The progress so far, in the tool's own unit.
    pub progress: f64,
    /// The progress at the end, if the tool knows it.
    pub total: Option<f64>,
    /// The tool's message, without deceptive characters.
    pub message: Option<String>,
}
