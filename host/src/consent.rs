//! The questions about a call: whether it may run, if the user has to agree to it, and whether its
//! tool may get accesses beyond its grant.
//!
//! Owns the questions and their answers; a [`FrontEnd`](crate::front_end::FrontEnd) asks. The keys
//! `approve` and `ask` of the policy decide when to ask. A [`ConsentReply`] lets a call use its grant, and
//! grants nothing itself. [`WidenReply`] grants the access in question, within every bound of the
//! policy.

use std::fmt;
use std::time::Duration;

use ikigai_protocol::{Access, Digest, written_out};

use crate::policy::{AssetAccess, Backend, Decision, Proposal, RequestedAccess};
use crate::toolchain::ToolchainOffer;

/// The most characters of the arguments in a question whether a call may run. The user agrees to
/// all of them.
const AGREED_TO: usize = 64 << 10;

/// The most characters of the arguments in any other question, and in the text for a client, which
/// sent the arguments itself.
const ARGUMENTS_SHOWN: usize = 2_000;

/// The part of `ARGUMENTS_SHOWN` that shows the end of the arguments.
const TAIL_SHOWN: usize = 500;

/// The respondent to a question, as named in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Respondent {
    /// The user in front of the program.
    Person,
    /// A client of the program, which answers for its user.
    Client,
}

impl Respondent {
    /// Returns `person` or `client`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Client => "client",
        }
    }
}

/// The reply to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentReply {
    /// The answer.
    pub answer: ConsentAnswer,
    /// The time that it took.
    pub waited: Duration,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentAnswer {
    /// The call may run.
    Yes,
    /// The call may not run.
    No,
    /// The call may not run, with a message to the model.
    Tell(String),
    /// The question timed out.
    Timeout,
    /// The host cannot ask, for this reason.
    Unavailable(String),
    /// The respondent has the question, and will repeat the call with the answer.
    Pending,
}

impl ConsentAnswer {
    /// Returns the audit log's word for the answer.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No | Self::Tell(_) => "no",
            Self::Timeout => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Pending => "pending",
        }
    }
}

/// The question whether a call may run. It prints as the text for a client's user, with the middle
/// of long arguments left out, and with deceptive characters escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentQuestion {
    /// The name of the tool, or the path of a program.
    pub tool: String,
    /// The SHA-256 digests of its file, and of the program of a server.
    pub contents: Vec<Digest>,
    /// The rules that require an answer, such as `FILE:LINE` of a policy, with the reason if the
    /// rule depends on the arguments.
    pub required_by: String,
    /// The grant in words.
    pub grant: String,
    /// The arguments, or their beginning and end.
    pub arguments: String,
    /// The number of characters left out of `arguments`. A front end must tell the user about them,
    /// and must not accept a yes given without that.
    pub left_out: usize,
}

impl ConsentQuestion {
    /// Returns the question with deceptive characters escaped, and with long arguments shortened.
    pub(crate) fn escaped(self) -> Self {
        let Self { tool, contents, required_by, grant, arguments, left_out } = self;
        let (arguments, left_out) = shortened(&written_out(&arguments), AGREED_TO, left_out);
        let (tool, required_by) = (written_out(&tool), written_out(&required_by));
        Self { tool, contents, required_by, grant: written_out(&grant), arguments, left_out }
    }
}

impl fmt::Display for ConsentQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, contents, required_by, grant, arguments, left_out } = self;
        let (arguments, _) = shortened(arguments, ARGUMENTS_SHOWN, *left_out);
        let digests: Vec<String> = contents.iter().map(Digest::to_string).collect();
        let digests = digests.join(", ");
        write!(
            f,
            "Run the tool `{tool}`?\n\nArguments: {arguments}\n\nIt may: {grant}\nIts file: sha256 \
             {digests}\nAsked because of: {required_by}"
        )
    }
}

/// The question whether a tool may get accesses beyond its grant. No text contains deceptive
/// characters.
#[derive(Clone, Debug)]
pub struct Widen {
    /// The name of the tool, or the path of a program.
    pub tool: String,
    /// The SHA-256 digests of its file.
    pub contents: Vec<Digest>,
    /// The requested accesses: one access, or every access that the tool was refused in a failed
    /// run. Empty if the run only lacked toolchains.
    pub reached: Vec<RequestedAccess>,
    /// The arguments, or their beginning and end.
    pub arguments: String,
    /// The rules that refused it, such as `FILE:LINE` of a policy or `profile standard`.
    pub denied_by: String,
    /// True if the tool has already run and failed, and would run again. Changes from the first run
    /// stay.
    pub again: bool,
    /// The change of the user's policy file that would grant it permanently; `None` if ikigai
    /// cannot write such a change.
    pub proposal: Option<Proposal>,
    /// The change of the user's policy file that would let the tool run unconfined, with all rights
    /// of its user; `None` if it could not run so.
    pub unconfined: Option<Proposal>,
    /// The toolchains that a failed run lacked; `None` if no toolchain can be granted.
    pub toolchains: Option<ToolchainOffer>,
}

impl Widen {
    /// Returns the question with deceptive characters escaped, and with long arguments shortened.
    pub(crate) fn escaped(self) -> Self {
        let (arguments, _) = shortened(&written_out(&self.arguments), ARGUMENTS_SHOWN, 0);
        let (tool, denied_by) = (written_out(&self.tool), written_out(&self.denied_by));
        Self { tool, arguments, denied_by, ..self }
    }
}

/// The reply to the question whether a tool may get more access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidenReply {
    /// The answer.
    pub answer: WidenAnswer,
    /// The time that it took.
    pub waited: Duration,
}

/// The answer to the question whether a tool may get more access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WidenAnswer {
    /// Yes, for this call.
    Once,
    /// Yes, for as long as this host lives and the tool's file stays unchanged.
    Session,
    /// As [`Session`](Self::Session), but a tool that has already run does not run again.
    Later,
    /// Yes, permanently: the front end has written the [`Proposal`].
    Always,
    /// The tool runs unconfined from now on: the front end has written the [`Proposal`] for that.
    Unconfined,
    /// The tool has the toolchains from now on: the front end has written the proposal of the
    /// [`ToolchainOffer`].
    Toolchain,
    /// No.
    No,
    /// No, with a message to the model.
    Tell(String),
    /// The question timed out.
    Timeout,
    /// The host cannot ask, for this reason.
    Unavailable(String),
}

impl WidenAnswer {
    /// Returns the audit log's word for the answer.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Later => "later",
            Self::Always => "always",
            Self::Unconfined => "unconfined",
            Self::Toolchain => "toolchain",
            Self::No | Self::Tell(_) => "no",
            Self::Timeout => "timeout",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// Returns whether it is a refusal, which applies for the session.
    pub(crate) fn refuses(&self) -> bool {
        matches!(self, Self::No | Self::Tell(_) | Self::Timeout)
    }

    /// Returns whether this call may have the access.
    #[must_use]
    pub fn allows(&self) -> bool {
        matches!(
            self,
            Self::Once | Self::Session | Self::Always | Self::Unconfined | Self::Toolchain
        )
    }
}

/// Returns the grant in words.
pub(crate) fn in_words(decision: &Decision, backend: Backend) -> String {
    if decision.is_unconfined(backend) {
        return "run unconfined, and do everything that its user may do".to_owned();
    }
    let grant = &decision.grant;
    let mut parts: Vec<String> = Vec::new();
    for dir in &grant.dirs {
        let verb = match dir.access {
            Access::ReadOnly => "read",
            Access::ReadWrite => "read and write",
        };
        parts.push(format!("{verb} {}", dir.path.display()));
    }
    if grant.net.any || !grant.net.peers.is_empty() {
        parts.push(match grant.net.any {
            true => "connect to any host".to_owned(),
            false => format!("connect to {}", grant.net),
        });
    }
    match grant.assets {
        AssetAccess::None => {}
        AssetAccess::Read => parts.push("read assets".to_owned()),
        AssetAccess::Write => parts.push("read and write assets".to_owned()),
    }
    for variable in &decision.variables {
        parts.push(format!("see the variable {}", variable.name));
    }
    if parts.is_empty() { "compute, and touch nothing".to_owned() } else { parts.join("; ") }
}

/// Returns a text of at most `most` characters. If the text is longer, keeps its beginning and end,
/// with the number of omitted characters between them. That number includes `missing`, the
/// characters that were omitted earlier.
fn shortened(text: &str, most: usize, missing: usize) -> (String, usize) {
    let count = text.chars().count();
    if count <= most {
        return (text.to_owned(), missing);
    }
    // Leave room for the mark.
    let head = most - TAIL_SHOWN - 50;
    // An earlier mark is cut out together with the text around it.
    let marked = if missing > 0 { mark(missing).chars().count() } else { 0 };
    let left = count - head - TAIL_SHOWN - marked + missing;
    let (start, end) = (place(text, head), place(text, count - TAIL_SHOWN));
    (format!("{}{}{}", &text[..start], mark(left), &text[end..]), left)
}

/// Returns the mark for omitted characters.
fn mark(left: usize) -> String {
    format!("[… {left} characters …]")
}

/// Returns the place of a character in bytes.
fn place(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_stands_between_beginning_and_end() {
        let text = |count: usize| format!("{}ä", "x".repeat(count - 1));
        let length = |text: &str| text.chars().count();
        assert_eq!(shortened(&text(AGREED_TO), AGREED_TO, 0), (text(AGREED_TO), 0));
        let count = AGREED_TO + 1_000;
        let (shown, left) = shortened(&text(count), AGREED_TO, 0);
        assert!(length(&shown) <= AGREED_TO && shown.ends_with('ä'), "{left}");
        assert!(shown.contains(&mark(left)), "{left}");
        assert_eq!(length(&shown) - length(&mark(left)) + left, count);
        // The text for a client also counts the characters that were omitted earlier.
        let (short, all) = shortened(&shown, ARGUMENTS_SHOWN, left);
        assert!(short.contains(&mark(all)) && length(&short) <= ARGUMENTS_SHOWN, "{all}");
        assert_eq!(length(&short) - length(&mark(all)) + all, count);
    }
}
