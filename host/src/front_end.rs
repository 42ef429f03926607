//! The front end of a call: the side from which it came, as far as the call addresses it while it
//! runs.

use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::consent::{Question, Reply, Respondent, Widen, WidenAnswer, Widened};
use crate::policy::{Reached, Used};

/// An answer of a front end, as a future: `Box::pin(async move { … })`.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The front end of a call.
///
/// One that can ask somebody implements it, and gives it to
/// [`Host::call_for`](crate::Host::call_for). Dropping a future takes its question back.
pub trait FrontEnd: Send + Sync {
    /// Returns who answers.
    fn respondent(&self) -> Respondent;

    /// Asks whether the call may run, and waits for the answer. Must end by itself where nobody
    /// answers.
    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, Reply>;

    /// Returns whether a person can be asked to widen a grant. A client that speaks for its user cannot:
    /// its yes grants nothing. The default is `false`.
    fn can_widen(&self) -> bool {
        false
    }

    /// Asks whether a tool may have what it reached for, and waits for the answer. Must end by itself
    /// where nobody answers. The default is that nobody can be asked.
    fn widen<'a>(&'a self, question: &'a Widen) -> Answer<'a, Widened> {
        let _ = question;
        Box::pin(std::future::ready(Widened {
            answer: WidenAnswer::Unavailable("nobody can be asked here".to_owned()),
            waited: Duration::ZERO,
        }))
    }

    /// Returns how a call is recorded, if the front end records what tools reach for. The default is
    /// not to.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// Notes what a call that is recorded reached for, made use of, and cost. In a permissive recording
    /// it may have had what it reached for. The default is to do nothing.
    fn recorded(&self, reached: &[Reached], used: &[Used], costs: Costs) {
        let _ = (reached, used, costs);
    }

    /// Notes that a native call that is recorded was not watched, so that nothing is known of its files:
    /// the kernel gives the supervisor no listener for its calls. The default is to do nothing.
    fn unwatched(&self) {}

    /// Has a person fill a form of the tool, and waits for it. Must end by itself where nobody
    /// answers. The default is to decline.
    fn fill(&self, form: Form) -> Answer<'_, Filled> {
        let _ = form;
        Box::pin(std::future::ready(Filled::Declined))
    }

    /// Notes that the tool reports how far it is. The default is to do nothing.
    fn report(&self, progress: Progress) {
        let _ = progress;
    }
}

/// The costs of a call that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The time from the start of the program to its end.
    pub duration: Duration,
    /// The fuel burnt; components only.
    pub fuel: Option<u64>,
    /// The peak of its memory, in bytes.
    pub peak_memory: Option<u64>,
    /// The length of all that it wrote to stdout, in bytes.
    pub output: u64,
}

/// The manner in which a call is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// True if the tool may run without a grant, and a component read beyond its own: a native tool runs in
    /// the sandbox. Neither writes beyond its grant.
    pub permissive: bool,
    /// True if the tool may reach every public address.
    pub net: bool,
}

/// A form of a tool: only servers have such.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The name of the server that asks.
    pub server: String,
    /// The text of the server, in which characters that deceive are written out.
    pub message: String,
    /// The JSON Schema of the values: an object whose properties are primitive. Its texts are the
    /// server's, too.
    pub schema: Map<String, Value>,
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Filled {
    /// The values.
    Accepted(Map<String, Value>),
    /// The person does not want to answer, or nobody can be asked.
    Declined,
    /// The person turned away without an answer.
    Cancelled,
}

/// A report of a tool on how far it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The progress so far, in a unit of the tool.
    pub progress: f64,
    /// The progress at the end, if the tool knows it.
    pub total: Option<f64>,
    /// The tool's words, without characters that deceive.
    pub message: Option<String>,
}
