//! The audit log: one line for each call, even if nothing ran, and for each installation of a tool.
//!
//! The log is the file [`NAME`] in [`Paths::state`](crate::Paths::state). Each line is a [`Record`]
//! in JSON, which has the tool, its grant, its outcome and its costs, but no granted secret.
//! Arguments are recorded as a digest, and as text after
//! [`HostBuilder::record_arguments`](crate::HostBuilder::record_arguments). A [`LogReader`] reads the
//! log back, or follows it. `docs/reference/audit.md` of the repository describes every field.
//!
//! ```no_run
//! use ikigai_host::Paths;
//! use ikigai_host::audit::LogReader;
//!
//! # fn main() -> std::io::Result<()> {
//! let paths = Paths::of_installation("/usr");
//! let mut reader = LogReader::open(paths.state.as_deref().expect("a home"))?;
//! // The newest file first, and in each the oldest call first.
//! while let Some(batch) = reader.read_back() {
//!     for line in batch?.lines {
//!         println!("{} {} {}", line.record.time, line.record.tool, line.record.outcome);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The log never influences a call. If it cannot be written, the host sends one warning to
//! [`tracing`](https://docs.rs/tracing).

mod answer_error;
mod installation;
mod log;
mod reader;
mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_protocol::{Digest, EnvelopeCode};
use jiff::Timestamp;

pub use answer_error::AnswerError;
pub use log::{NAME, ROTATED_AT};
pub use reader::{Batch, LogLine, LogReader};
pub use record::{
    Arguments, AskedFor, CallId, GrantSummary, InstallationRecord, OK, ProgramRecord,
    QuestionRecord, Record, Requester, Via,
};

use crate::consent::{ConsentAnswer, Respondent};
use crate::exec::Outcome;
use crate::exec::envelope::{self, Envelope};
use crate::exec::scrub::SecretValues;
use crate::exec::widening::CallNotes;
use crate::policy::{Backend, Grant, Remedy, RemedyHints, RequestedAccess, UsedAccess};
use log::Log;
use record::CANCELLED;

/// The memory that is reserved for a line, in bytes. Few lines are longer.
const USUAL_LINE: usize = 2 << 10;

/// The longest recorded text of arguments, in bytes, if their text is recorded.
const ARGUMENTS_KEPT: usize = 64 * 1024;

/// The longest error that is recorded, in bytes.
const ERROR_KEPT: usize = 4 * 1024;

/// The longest error code of a tool's answer that is recorded, in bytes.
const CODE_KEPT: usize = 64;

/// The number of accesses that are recorded of one call, for each of two lists: accesses beyond its
/// grant, and granted accesses that it used.
const REACHED_KEPT: usize = 64;

/// The longest recorded name, in bytes. It has a bound because a call may name a tool that does not
/// exist.
const NAME_KEPT: usize = 128;

/// The longest recorded name of a principal, in bytes. It includes the mark of the issuer.
const PRINCIPAL_KEPT: usize = 160;

/// The audit log that one host writes.
pub(crate) struct Audit {
    log: Option<Log>,
    workspace: String,
    /// True if the log includes the text of arguments.
    arguments: bool,
    hints: RemedyHints,
}

impl Audit {
    /// Returns a log in `dir`; without one, nothing is recorded. With `arguments`, the log includes
    /// their text, without the values of variables that were granted by name.
    pub(crate) fn new(
        dir: Option<PathBuf>,
        workspace: &Path,
        arguments: bool,
        hints: RemedyHints,
    ) -> Self {
        let workspace = workspace.to_string_lossy().into_owned();
        Self { log: dir.map(Log::new), workspace, arguments, hints }
    }

    /// Begins the record of a call. It is written when the [`PendingRecord`] ends or is dropped.
    pub(crate) fn begin(self: &Arc<Self>, requester: &Requester, tool: &str) -> PendingRecord {
        let now = Timestamp::now();
        let kept = |name: &String| beginning(name, NAME_KEPT).to_owned();
        let principal = |name: &String| beginning(name, PRINCIPAL_KEPT).to_owned();
        let record = Record {
            time: now,
            id: requester.id.unwrap_or_else(CallId::choose).to_string(),
            via: requester.via,
            client: requester.client.as_ref().map(kept),
            principal: requester.principal.as_ref().map(principal),
            tool: beginning(tool, NAME_KEPT).to_owned(),
            workspace: self.workspace.clone(),
            ..Record::default()
        };
        PendingRecord {
            audit: Arc::clone(self),
            begun: Instant::now(),
            record,
            text: None,
            secrets: SecretValues::default(),
            ended: false,
        }
    }

    fn write(&self, record: &Record) {
        static ONCE: Once = Once::new();
        let Some(log) = &self.log else {
            ONCE.call_once(|| {
                tracing::warn!(
                    "calls are not recorded: set HOME or XDG_STATE_HOME, which determine the \
                     directory of the audit log"
                );
            });
            return;
        };
        let mut line = Vec::with_capacity(USUAL_LINE);
        let written = serde_json::to_writer(&mut line, record);
        let written = written.map_err(io::Error::from).and_then(|()| {
            line.push(b'\n');
            log.append(&line)
        });
        if let Err(error) = written {
            ONCE.call_once(|| {
                let path = log.path();
                let text = format!(
                    "calls are not recorded in the audit log `{}`: {error}",
                    path.display()
                );
                tracing::warn!("{}", self.hints.append(text, &Remedy::InspectAuditLog));
            });
        }
    }
}

/// The record of a call that has not ended. If it is dropped, it is written as a cancelled call.
pub(crate) struct PendingRecord {
    audit: Arc<Audit>,
    begun: Instant,
    record: Record,
    /// The arguments, if their text is recorded. The text is added at the end, when all secrets
    /// that it must not contain are known.
    text: Option<Bytes>,
    secrets: SecretValues,
    ended: bool,
}

impl PendingRecord {
    /// Sets the program that runs or, in a call that was refused, would have run.
    pub(crate) fn program(&mut self, program: ProgramRecord) {
        self.record.program = Some(program);
    }

    pub(crate) fn arguments(&mut self, bytes: Bytes) {
        let sha256 = Digest::from_bytes(&bytes);
        self.record.arguments = Some(Arguments { bytes: bytes.len() as u64, sha256, text: None });
        self.text = self.audit.arguments.then_some(bytes);
    }

    /// Sets the grant, and the rules that it comes from. From now on this record never contains a
    /// value of `secrets`.
    pub(crate) fn granted(
        &mut self,
        grant: &Grant,
        backend: Backend,
        sources: Vec<String>,
        secrets: SecretValues,
    ) {
        self.secrets = secrets;
        self.record.grant = Some(GrantSummary::from_grant(grant, backend, sources));
    }

    /// Sets the grant after the user widened it.
    pub(crate) fn widened(&mut self, grant: &Grant, backend: Backend, sources: Vec<String>) {
        self.record.grant = Some(GrantSummary::from_grant(grant, backend, sources));
    }

    /// Returns the values that texts about this call must not contain.
    pub(crate) fn secrets(&self) -> &SecretValues {
        &self.secrets
    }

    /// Sets the answer to the question whether the call may run, and the respondent.
    pub(crate) fn asked(
        &mut self,
        answer: &ConsentAnswer,
        respondent: Option<Respondent>,
        waited: Duration,
    ) {
        self.consent(answer.as_str(), respondent, waited);
    }

    /// Notes that the call was cancelled before the question was answered.
    pub(crate) fn unanswered(&mut self, respondent: Respondent, waited: Duration) {
        self.consent("cancelled", Some(respondent), waited);
    }

    fn consent(&mut self, answer: &str, respondent: Option<Respondent>, waited: Duration) {
        self.record.consent = Some(QuestionRecord {
            answer: answer.to_owned(),
            by: respondent.map(|it| it.as_str().to_owned()),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Sets the outcome.
    pub(crate) fn ran(&mut self, outcome: &Outcome) {
        let record = &mut self.record;
        record.isolation.clone_from(&outcome.isolation);
        record.exit_code = envelope::exit_code(&outcome.exit);
        record.limit = outcome.limit.map(|limit| limit.as_str().to_owned());
        record.cancelled = outcome.cancelled;
        // The program named these accesses, and may have put a granted value into a name.
        let denied = outcome.denied.first.iter();
        let scrubbed = |what: &String| match what.starts_with("net ") {
            true => self.secrets.scrub_hosts(what).into_owned(),
            false => self.secrets.scrub_text(what).into_owned(),
        };
        record.denied = denied.map(scrubbed).collect();
        if record.exit_code.is_some() {
            record.duration_us = Some(microseconds(outcome.usage.duration));
            record.fuel = outcome.usage.fuel;
            record.peak_memory = outcome.usage.peak_memory;
            record.stdout_bytes = Some(outcome.stdout.total);
            record.stderr_bytes = Some(outcome.stderr.total);
        }
    }

    /// Sets the error that the tool's own answer reports.
    pub(crate) fn answered(&mut self, envelope: &Envelope) {
        let Envelope::Success(success) = envelope else { return };
        let error = AnswerError::in_answer(success);
        let secrets = &self.secrets;
        let kept = |code: String| beginning(&secrets.scrub_text(&code), CODE_KEPT).to_owned();
        self.record.answer =
            error.map(|error| AnswerError { error_code: error.error_code.map(kept), ..error });
    }

    /// Sets the questions that the user was asked, and the accesses that the tool requested and
    /// used.
    pub(crate) fn noted(&mut self, noted: &CallNotes, by: Option<Respondent>) {
        let scrubbed = |text: &str| self.secrets.scrub_text(text).into_owned();
        let scrubbed_host = |text: &str| self.secrets.scrub_hosts(text).into_owned();
        let record = &mut self.record;
        let asked = noted.asked.iter().map(|asked| AskedFor {
            what: scrubbed_host(&asked.what),
            answer: asked.answer.to_owned(),
            by: by.map(|by| by.as_str().to_owned()),
            waited_ms: u64::try_from(asked.waited.as_millis()).unwrap_or(u64::MAX),
        });
        record.asked = asked.collect();
        // The program named these paths.
        let path = |path: &Path| PathBuf::from(scrubbed(&path.to_string_lossy()));
        record.reached = noted
            .refused
            .iter()
            .take(REACHED_KEPT)
            .map(|reached| match reached {
                RequestedAccess::Path { access, path: own } => {
                    RequestedAccess::Path { access: *access, path: path(own) }
                }
                RequestedAccess::Peer { host, port } => {
                    RequestedAccess::Peer { host: scrubbed_host(host), port: *port }
                }
                RequestedAccess::Host { host } => {
                    RequestedAccess::Host { host: scrubbed_host(host) }
                }
                RequestedAccess::Run => RequestedAccess::Run,
            })
            .collect();
        let kept = record.reached.len() as u64;
        record.reached_count = (noted.refusals > kept).then_some(noted.refusals);
        record.used = noted
            .used
            .iter()
            .take(REACHED_KEPT)
            .map(|used| match used {
                UsedAccess::Dir { path: own } => UsedAccess::Dir { path: path(own) },
                UsedAccess::File { access, path: own } => {
                    UsedAccess::File { access: *access, path: path(own) }
                }
                UsedAccess::Peer { host, port } => {
                    UsedAccess::Peer { host: scrubbed_host(host), port: *port }
                }
            })
            .collect();
    }

    /// Sets the time limit at the end of the call, if the caller had extended it.
    pub(crate) fn extended(&mut self, time: Option<Duration>) {
        self.record.extended_to_ms =
            time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    /// Writes the record of a call, which succeeded unless there is a `failure`.
    pub(crate) fn end(mut self, failure: Option<(EnvelopeCode, &str)>) {
        self.finish(failure);
    }

    fn finish(&mut self, failure: Option<(EnvelopeCode, &str)>) {
        self.ended = true;
        self.record.outcome = match failure {
            _ if self.record.cancelled => CANCELLED,
            Some((code, _)) => code.as_str(),
            None => OK,
        }
        .to_owned();
        self.record.error = failure
            .map(|(_, error)| beginning(&self.secrets.scrub_hosts(error), ERROR_KEPT).to_owned());
        if let (Some(bytes), Some(arguments)) = (&self.text, &mut self.record.arguments) {
            let text = self.secrets.head(bytes, arguments.bytes, ARGUMENTS_KEPT);
            arguments.text = Some(String::from_utf8_lossy(&text).into_owned());
        }
        self.record.total_us = microseconds(self.begun.elapsed());
        self.audit.write(&self.record);
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        if !self.ended {
            self.record.cancelled = true;
            self.finish(Some((EnvelopeCode::ToolCrashed, "nobody waited for the end of the call")));
        }
    }
}

/// Returns at most the first `bytes` bytes of a text, cut between two characters.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Exit;

    struct Trail {
        audit: Arc<Audit>,
        scratch: tempfile::TempDir,
    }

    impl Trail {
        fn new() -> Self {
            let scratch = tempfile::tempdir().expect("a directory");
            let audit = Audit::new(
                Some(scratch.path().join("log")),
                Path::new("/w"),
                true,
                RemedyHints::default(),
            );
            Self { audit: Arc::new(audit), scratch }
        }

        /// Returns the log's only record, and its line.
        fn only(&self) -> (Record, String) {
            let mut reader = LogReader::open(&self.scratch.path().join("log")).expect("a log");
            let batch = reader.read_back().expect("a file").expect("read");
            let [line] = &batch.lines[..] else { panic!("{batch:?}") };
            (line.record.clone(), String::from_utf8(line.text.clone()).expect("UTF-8"))
        }
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_recorded_too() {
        let trail = Trail::new();
        drop(trail.audit.begin(&Requester::default(), "tool"));
        let (record, _) = trail.only();
        assert!(record.cancelled && record.exit_code.is_none());
        assert_eq!(record.outcome, "cancelled");
    }

    #[test]
    fn a_front_end_knows_the_id_before_the_call() {
        let trail = Trail::new();
        let id = CallId::choose();
        let requester = Requester { id: Some(id), ..Requester::default() };
        trail.audit.begin(&requester, "tool").end(None);
        assert_eq!(trail.only().0.id, id.to_string());
        assert_ne!(CallId::choose(), id);
    }

    #[test]
    fn no_text_of_a_record_holds_a_granted_value() {
        let trail = Trail::new();
        let value = "se\"cr\net-of-the-test";
        let secrets = SecretValues::from_variables(vec![("KEY".into(), value.into())]);
        let mut entry = trail.audit.begin(&Requester::default(), "tool");
        let arguments = serde_json::json!({ "key": value }).to_string();
        entry.arguments(arguments.into());
        entry.granted(&Grant::default(), Backend::Wasm, Vec::new(), secrets);
        entry.ran(&Outcome { exit: Exit::Trap(value.into()), ..Outcome::not_started("") });
        entry.end(Some((EnvelopeCode::ToolCrashed, &format!("it said {value}"))));
        let (record, line) = trail.only();
        assert!(!line.contains("et-of-the-test"), "{line}");
        assert_eq!(record.error.as_deref(), Some("it said [redacted: KEY]"));
        let arguments = record.arguments.expect("arguments").text;
        assert_eq!(arguments.as_deref(), Some(r#"{"key":"[redacted: KEY]"}"#));
    }

    #[test]
    fn the_error_of_an_answer_is_recorded_without_a_granted_value() {
        let trail = Trail::new();
        let value = "the-secret-of-the-test";
        let mut entry = trail.audit.begin(&Requester::default(), "tool");
        let secrets = SecretValues::from_variables(vec![("KEY".into(), value.into())]);
        entry.granted(&Grant::default(), Backend::Wasm, Vec::new(), secrets);
        let code = format!("{value}{}", "x".repeat(1000));
        let answer = serde_json::json!({ "error_code": code, "exit_code": 3 }).to_string();
        let answer = serde_json::value::RawValue::from_string(answer).expect("JSON");
        entry.answered(&Envelope::answered(answer));
        entry.end(None);
        let (record, line) = trail.only();
        assert!(record.is_ok() && record.has_failure() && !line.contains(value), "{line}");
        let error = record.answer.expect("an error");
        let code = error.error_code.expect("a code");
        assert!(code.starts_with("[redacted: KEY]xxx") && code.len() == CODE_KEPT, "{code}");
        assert_eq!(error.exit_code, Some(3));
    }

    #[test]
    fn what_others_wrote_takes_no_more_than_its_room() {
        let trail = Trail::new();
        let mut entry = trail.audit.begin(&Requester::default(), &"ä".repeat(1000));
        entry.arguments("ä".repeat(100_000).into());
        entry.end(Some((EnvelopeCode::ToolNotFound, &"ä".repeat(10_000))));
        let (record, _) = trail.only();
        let text = record.arguments.expect("arguments").text.expect("asked for");
        assert_eq!(record.tool.len(), NAME_KEPT);
        assert_eq!(text.len(), ARGUMENTS_KEPT);
        assert_eq!(record.error.expect("an error").len(), ERROR_KEPT);
    }
}
