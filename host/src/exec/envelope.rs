//! The envelope, `{"tool_success": …}`: the answer to a call, from its outcome.

mod layout;

use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use bytesize::ByteSize;
use ikigai_protocol::{EnvelopeCode, ResultKind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::content::ContentAnswer;
use super::output::Captured;
use super::scrub::SecretValues;
use super::{Exit, Outcome};
use crate::limits::{CallLimits, Limit};

pub use layout::JsonLayout;
pub(crate) use layout::compact;
use layout::lay_out;

/// The longest part of stdout and of stderr in a failure, in bytes.
const SHOWN: usize = 64 * 1024;

/// The `error_code` of [`Envelope::readable`](crate::Envelope::readable) for content that its tool
/// calls a failure.
pub const CONTENT_ERROR: &str = "TOOL_ERROR";

/// The exit code of a native tool that the host killed: 128 + SIGKILL.
const KILLED: i32 = 137;

/// The exit code of a component that trapped: 128 + SIGABRT.
const TRAPPED: i32 = 134;

/// The answer to a call, for models, users and scripts.
///
/// It prints as one line of JSON, which you can pass to a model unchanged:
///
/// ```json
/// {"tool_success":true,"result":{"output":"…"}}
/// {"tool_success":false,"error":"Tool 'bash' crashed with exit code 139","error_code":"TOOL_CRASHED","exit_code":139,"stdout":"…","stderr":"…"}
/// ```
///
/// [`to_json`](Self::to_json) indents it for people, and [`readable`](Self::readable) replaces
/// images by text. A failure contains no values of variables that were granted by name. The answer
/// of a tool is passed on untouched.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Envelope {
    /// The tool ran and answered.
    Success(Success),
    /// The tool did not run, or did not answer.
    Failure(Failure),
}

/// The answer of a tool. It may be an error of the tool's own: see
/// [`ToolCode`](crate::ToolCode).
#[derive(Debug, Serialize)]
pub struct Success {
    tool_success: bool,
    /// The JSON that the tool printed, byte for byte. `result.get()` is its text.
    pub result: Box<RawValue>,
    /// The texts of the host and of the user that accompany the answer.
    #[serde(flatten)]
    pub aside: Aside,
    #[serde(skip)]
    kind: ResultKind,
}

/// The texts that accompany an answer or a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aside {
    /// The command that would allow the accesses that the tool was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_with: Option<String>,
    /// The user's message about what was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The files that the tool made at places that other programs execute, with the names that they
    /// have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The reason why no command allows a refused path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unnameable: Option<String>,
    /// The hint for a tool in the sandbox that found no server on the sandbox's own loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback: Option<String>,
    /// The hint for a tool in the sandbox that said that a file was not found, where nobody saw
    /// which files it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
    /// The number of background processes that were ended when the tool exited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
}

/// Returns the sentence about the processes that a tool left running when it exited on its own.
pub(crate) fn background(outcome: &Outcome) -> Option<String> {
    let exited = matches!(outcome.exit, Exit::Code(_)) && outcome.limit.is_none();
    match outcome.usage.left_running {
        0 => None,
        _ if !exited => None,
        1 => Some("1 background process was ended: nothing outlives the call".to_owned()),
        some => Some(format!("{some} background processes were ended: nothing outlives the call")),
    }
}

impl Success {
    fn new(result: Box<RawValue>, kind: ResultKind) -> Self {
        Self { tool_success: true, result, aside: Aside::default(), kind }
    }

    /// Returns the content blocks of the answer, if the tool answers in content blocks.
    #[must_use]
    pub fn content(&self) -> Option<ContentAnswer<'_>> {
        match self.kind {
            ResultKind::Json => None,
            // The shape was checked before the answer became a success.
            ResultKind::Content => ContentAnswer::parse(&self.result).ok(),
        }
    }
}

/// The reason that a call has no answer, and the output of the attempt.
#[derive(Debug, Serialize)]
pub struct Failure {
    tool_success: bool,
    /// The reason, for the user or a model.
    pub error: String,
    /// The code of the reason, for a program.
    pub error_code: EnvelopeCode,
    /// The limit that ended the call, if one did.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "limit_name")]
    pub limit: Option<Limit>,
    /// The texts of the host and of the user that accompany the failure.
    #[serde(flatten)]
    pub aside: Aside,
    /// The output of the tool, if it ran.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub remains: Option<Remains>,
}

/// The output of a tool that ran and failed. In JSON its fields appear among the fields of the
/// [`Failure`]. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug, Serialize)]
pub struct Remains {
    /// The exit code: 128 + N for signal N, 137 if the host killed a native tool, 134 if a
    /// component trapped.
    pub exit_code: i32,
    /// The first 64 KiB of stdout.
    pub stdout: String,
    /// The length of stdout in bytes, if it is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// The last 64 KiB of stderr.
    pub stderr: String,
    /// The length of stderr in bytes, if it is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_bytes: Option<u64>,
}

fn limit_name<S: serde::Serializer>(
    limit: &Option<Limit>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    limit.map(Limit::as_str).serialize(serializer)
}

impl Envelope {
    /// Returns the envelope of a call of `tool`, which answers in this form, under `limits`. A
    /// failure contains none of the `secrets`; the answer of a tool is not touched.
    #[doc(hidden)]
    #[must_use]
    pub fn from_outcome(
        tool: &str,
        kind: ResultKind,
        limits: &CallLimits,
        mut outcome: Outcome,
        secrets: &SecretValues,
    ) -> Self {
        let Some((error_code, error)) = failure(tool, limits, &outcome) else {
            return match answer(&mut outcome.stdout.bytes, kind, secrets) {
                Ok(result) => Self::Success(Success::new(result, kind)),
                Err(reason) => Self::failed(
                    EnvelopeCode::InvalidOutput,
                    format!("Tool '{tool}' returned {reason}"),
                    outcome,
                    secrets,
                ),
            };
        };
        Self::failed(error_code, error, outcome, secrets)
    }

    /// Returns the envelope of an answer of the host itself.
    #[must_use]
    pub fn answered(result: Box<RawValue>) -> Self {
        Self::Success(Success::new(result, ResultKind::Json))
    }

    /// Returns the envelope for a model that reads only text. If the tool answers with content, the
    /// result becomes one text, in which each image is replaced by its type and its size. Content
    /// without any block becomes the tool's `structuredContent`. A failure of such a tool gets the
    /// form of other tools: an `error`, and [`CONTENT_ERROR`] as its `error_code`. Any other
    /// envelope is returned unchanged.
    #[must_use]
    pub fn readable(self) -> Self {
        let aside = self.aside().clone();
        self.readable_answer().with(aside)
    }

    fn readable_answer(self) -> Self {
        let Self::Success(success) = &self else { return self };
        let Some(content) = success.content() else { return self };
        let data = content.structured.filter(|_| content.blocks.is_empty());
        let answer = match data {
            Some(data) if !content.is_error => return Self::answered(data.to_owned()),
            Some(data) => data.get().to_owned(),
            None => content.text(),
        };
        let json = if content.is_error {
            json!({ "error": answer, "error_code": CONTENT_ERROR })
        } else {
            answer.into()
        };
        to_raw_value(&json).map_or(self, Self::answered)
    }

    /// Returns the envelope of a call for which nothing ran.
    #[must_use]
    pub fn refused(error_code: EnvelopeCode, error: impl Into<String>) -> Self {
        let error = error.into();
        Self::Failure(Failure {
            tool_success: false,
            error,
            error_code,
            limit: None,
            aside: Aside::default(),
            remains: None,
        })
    }

    /// Returns the envelope of a call of a tool that does not exist.
    #[must_use]
    pub fn not_found(tool: &str) -> Self {
        Self::refused(EnvelopeCode::ToolNotFound, format!("Tool '{tool}' not found"))
    }

    fn failed(
        error_code: EnvelopeCode,
        error: String,
        outcome: Outcome,
        secrets: &SecretValues,
    ) -> Self {
        let limit = outcome.limit;
        let error = secrets.scrub_text(&error).into_owned();
        let remains = Remains::from_outcome(outcome, secrets);
        let aside = Aside::default();
        Self::Failure(Failure { tool_success: false, error, error_code, limit, aside, remains })
    }

    /// Returns the envelope with these accompanying texts.
    #[must_use]
    pub(crate) fn with(mut self, aside: Aside) -> Self {
        match &mut self {
            Self::Success(success) => success.aside = aside,
            Self::Failure(failure) => failure.aside = aside,
        }
        self
    }

    /// Returns the envelope with a hint after the reason of a failure.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        if let Self::Failure(failure) = &mut self {
            failure.error = format!("{}; {hint}", failure.error);
        }
        self
    }

    /// Returns the accompanying texts.
    #[must_use]
    pub fn aside(&self) -> &Aside {
        match self {
            Self::Success(success) => &success.aside,
            Self::Failure(failure) => &failure.aside,
        }
    }

    /// Returns whether the tool ran and answered.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// Returns the code and the text of a failure.
    #[must_use]
    pub fn failure(&self) -> Option<(EnvelopeCode, &str)> {
        match self {
            Self::Success(_) => None,
            Self::Failure(failure) => Some((failure.error_code, &failure.error)),
        }
    }

    /// Returns the envelope as JSON, on one line or indented for people.
    ///
    /// Only the white space of the tool's JSON changes, never its values.
    ///
    /// # Errors
    ///
    /// Fails if the envelope cannot be written as text.
    pub fn to_json(&self, layout: JsonLayout) -> serde_json::Result<String> {
        Ok(lay_out(&serde_json::to_string(self)?, layout))
    }
}

/// Writes JSON on one line.
impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json(JsonLayout::Compact).map_err(|_| fmt::Error)?)
    }
}

/// Returns the code and the text of a failure, or nothing if the tool exited with 0.
#[must_use]
pub(crate) fn failure(
    tool: &str,
    limits: &CallLimits,
    outcome: &Outcome,
) -> Option<(EnvelopeCode, String)> {
    use EnvelopeCode::{InvalidOutput, PermissionDenied, ToolCrashed, ToolTimeout};
    if outcome.cancelled {
        return Some((ToolCrashed, format!("Tool '{tool}' was cancelled")));
    }
    if let Some(limit) = outcome.limit {
        return Some(match limit {
            Limit::WallClock => {
                let after = Seconds(limits.wall_clock);
                let why = match &outcome.exit {
                    Exit::NotStarted(reason) => format!(": {reason}"),
                    _ => String::new(),
                };
                (ToolTimeout, format!("Tool '{tool}' timed out after {after}{why}"))
            }
            Limit::Fuel => {
                (ToolTimeout, format!("Tool '{tool}' used up its fuel of {}", limits.fuel))
            }
            Limit::Memory => {
                // Only components burn fuel.
                let fuel = outcome.usage.fuel;
                let most = fuel.map_or(limits.native_memory, |_| limits.wasm_memory);
                let most = ByteSize::b(most);
                (ToolCrashed, format!("Tool '{tool}' ran out of memory: its limit is {most}"))
            }
            Limit::Processes => {
                let most = limits.processes;
                (ToolCrashed, format!("Tool '{tool}' had more than {most} processes and threads"))
            }
            Limit::Output => {
                let most = limits.output;
                (InvalidOutput, format!("Tool '{tool}' wrote more than {most} bytes to stdout"))
            }
        });
    }
    match &outcome.exit {
        Exit::Code(0) => None,
        Exit::Code(_) | Exit::Signal(_) | Exit::Ended => {
            let code = exit_code(&outcome.exit).unwrap_or(KILLED);
            Some((ToolCrashed, format!("Tool '{tool}' crashed with exit code {code}")))
        }
        Exit::Trap(reason) => {
            Some((ToolCrashed, format!("Tool '{tool}' crashed with exit code {TRAPPED}: {reason}")))
        }
        Exit::Lost { reason, .. } => {
            Some((ToolCrashed, format!("Tool '{tool}' crashed: {reason}")))
        }
        Exit::Denied(reason) => {
            Some((PermissionDenied, format!("Tool '{tool}' may not be called: {reason}")))
        }
        Exit::NotStarted(reason) => {
            Some((ToolCrashed, format!("Tool '{tool}' could not be started: {reason}")))
        }
    }
}

/// Returns whether a run did its work, according to its exit and its answer. It did if it exited
/// with 0, and if its answer has neither an `error_code` nor an `exit_code` other than 0. Content
/// that its tool calls a failure does not count as done work.
pub(crate) fn did_its_work(outcome: &Outcome, has_answer: bool) -> bool {
    #[derive(Deserialize)]
    struct StatusFields<'a> {
        #[serde(borrow)]
        error_code: Option<&'a RawValue>,
        #[serde(borrow)]
        exit_code: Option<&'a RawValue>,
        #[serde(borrow, rename = "isError")]
        is_error: Option<&'a RawValue>,
    }
    if outcome.exit != Exit::Code(0) || outcome.limit.is_some() || outcome.cancelled {
        return false;
    }
    if !has_answer {
        return true;
    }
    match serde_json::from_slice(&outcome.stdout.bytes) {
        Ok(StatusFields { error_code, exit_code, is_error }) => {
            let is = |value: Option<&RawValue>, text| value.is_none_or(|value| value.get() == text);
            is(error_code, "\"\"") && is(exit_code, "0") && is(is_error, "false")
        }
        // An answer that is not an object lacks all of these members.
        Err(error) => error.is_data(),
    }
}

/// Returns the exit code that stands for the end of a tool, or nothing if it never ran.
#[must_use]
pub fn exit_code(exit: &Exit) -> Option<i32> {
    match exit {
        Exit::Code(code) | Exit::Lost { code, .. } => Some(*code),
        Exit::Signal(signal) => Some(128 + signal),
        Exit::Ended => Some(KILLED),
        Exit::Trap(_) => Some(TRAPPED),
        Exit::NotStarted(_) | Exit::Denied(_) => None,
    }
}

impl Remains {
    fn from_outcome(outcome: Outcome, secrets: &SecretValues) -> Option<Self> {
        let exit_code = exit_code(&outcome.exit)?;
        let Captured { bytes: stdout, total: stdout_total } = outcome.stdout;
        let Captured { bytes: stderr, total: stderr_total } = outcome.stderr;
        let more = |kept: &[u8], total| (total > kept.len().min(SHOWN) as u64).then_some(total);
        Some(Self {
            exit_code,
            stdout: text(secrets.head(&stdout, stdout_total, SHOWN)),
            stdout_bytes: more(&stdout, stdout_total),
            stderr: text(secrets.tail(&stderr, stderr_total, SHOWN)),
            stderr_bytes: more(&stderr, stderr_total),
        })
    }
}

fn text(bytes: Cow<'_, [u8]>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A duration in seconds, with as many decimals as it needs.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// Returns the output of a tool, if it is an answer in this form.
fn answer(
    bytes: &mut Vec<u8>,
    kind: ResultKind,
    secrets: &SecretValues,
) -> Result<Box<RawValue>, String> {
    let answer = value(bytes, secrets).map_err(|reason| format!("malformed JSON: {reason}"))?;
    if kind == ResultKind::Content
        && let Err(error) = ContentAnswer::parse(&answer)
    {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        let reason = format!("an answer that is not valid content: {error}{source}");
        *bytes = Box::<str>::from(answer).into_string().into_bytes();
        return Err(reason);
    }
    Ok(answer)
}

/// The longest answer that is copied, in bytes. A longer answer reuses the buffer in which it was
/// collected, since a copy would need as many fresh pages.
const COPIED: usize = 64 * 1024;

/// Checks that the output of a tool is exactly one JSON value, of any depth. If it is not, leaves
/// in `bytes` the part that a failure shows.
fn value(bytes: &mut Vec<u8>, secrets: &SecretValues) -> Result<Box<RawValue>, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("stdout is empty".to_owned());
    }
    let copied = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
    if bytes.len() <= COPIED {
        return copied(bytes);
    }
    let mut text = match String::from_utf8(std::mem::take(bytes)) {
        Ok(text) => text,
        Err(error) => {
            *bytes = error.into_bytes();
            return copied(bytes);
        }
    };
    let start = text.as_bytes()[..text.len().min(secrets.looked_at(SHOWN))].to_vec();
    // Leading white space makes `from_string` copy the value. Trailing white space would, too.
    text.truncate(text.trim_ascii_end().len());
    RawValue::from_string(text).map_err(|error| {
        *bytes = start;
        error.to_string()
    })
}

/// Checks that the arguments of a call are exactly one JSON object.
///
/// # Errors
///
/// Fails if the arguments are not one JSON object; the text says what they are.
pub fn check_arguments(bytes: &[u8]) -> Result<(), String> {
    let value: &RawValue = serde_json::from_slice(bytes)
        .map_err(|error| format!("arguments are not valid JSON: {error}"))?;
    let kind = match value.get().as_bytes().first() {
        Some(b'{') => return Ok(()),
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    };
    Err(format!("arguments must be a JSON object, not {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{DeniedAccesses, ResourceUsage};

    fn outcome(exit: Exit, limit: Option<Limit>, stdout: &[u8]) -> Outcome {
        let captured = |bytes: &[u8]| Captured { bytes: bytes.to_vec(), total: bytes.len() as u64 };
        Outcome {
            exit,
            limit,
            cancelled: false,
            stdout: captured(stdout),
            stderr: captured(b"why\xff"),
            usage: ResourceUsage::default(),
            isolation: None,
            denied: DeniedAccesses::default(),
        }
    }

    fn line(exit: Exit, limit: Option<Limit>, stdout: &[u8]) -> String {
        let outcome = outcome(exit, limit, stdout);
        let envelope = Envelope::from_outcome(
            "t",
            ResultKind::Json,
            &CallLimits::default(),
            outcome,
            &SecretValues::default(),
        );
        envelope.to_json(JsonLayout::Compact).expect("JSON")
    }

    #[test]
    fn the_tools_json_is_carried_as_it_was_written() {
        let text =
            b" {\"b\": 1.0,\n \"a\" : 123456789012345678901234567890, \"s\": \" \\\" { \"}\n";
        assert_eq!(
            line(Exit::Code(0), None, text),
            r#"{"tool_success":true,"result":{"b":1.0,"a":123456789012345678901234567890,"s":" \" { "}}"#
        );
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(line(Exit::Code(0), None, deep.as_bytes()).len() > deep.len());
    }

    #[test]
    fn a_long_answer_is_the_buffer_it_was_collected_in() {
        let text = format!("\"{}\"", "x".repeat(COPIED));
        let mut bytes = format!("{text}\n").into_bytes();
        let place = bytes.as_ptr();
        let answer = value(&mut bytes, &SecretValues::default()).expect("JSON");
        assert_eq!(answer.get(), text);
        assert_eq!(bytes, b"");
        assert_eq!(answer.get().as_ptr(), place);
        let mut spaced = format!(" {text} \n").into_bytes();
        assert_eq!(value(&mut spaced, &SecretValues::default()).expect("JSON").get(), text);
    }

    #[test]
    fn of_a_long_answer_that_is_none_the_failure_shows_the_beginning() {
        let secret = "the secret of this test";
        let variables = vec![("TOKEN".into(), secret.into())];
        let start = "x".repeat(SHOWN - 7);
        for end in [&b" and so on"[..], b"\xff\"", b"\" \""] {
            let mut bytes = format!("\"{start}{secret}").into_bytes();
            bytes.extend_from_slice(end);
            let total = bytes.len() as u64;
            let outcome = outcome(Exit::Code(0), None, &bytes);
            let secrets = SecretValues::from_variables(variables.clone());
            let limits = CallLimits::default();
            let envelope =
                Envelope::from_outcome("t", ResultKind::Json, &limits, outcome, &secrets);
            let Envelope::Failure(failure) = envelope else { panic!("a success") };
            assert_eq!(failure.error_code, EnvelopeCode::InvalidOutput);
            let remains = failure.remains.expect("it ran");
            assert_eq!(remains.stdout, format!("\"{start}[redac"));
            assert_eq!(remains.stdout_bytes, Some(total));
        }
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(SHOWN));
        let outcome = outcome(Exit::Code(0), None, text.as_bytes());
        let (limits, secrets) = (CallLimits::default(), SecretValues::default());
        let envelope = Envelope::from_outcome("t", ResultKind::Content, &limits, outcome, &secrets);
        let Envelope::Failure(failure) = envelope else { panic!("a success") };
        assert_eq!(failure.remains.expect("it ran").stdout, text[..SHOWN]);
    }

    #[test]
    fn content_is_checked_kept_as_it_was_written_and_readable() {
        let envelope = |text: &str| {
            let outcome = outcome(Exit::Code(0), None, text.as_bytes());
            let limits = CallLimits::default();
            Envelope::from_outcome(
                "t",
                ResultKind::Content,
                &limits,
                outcome,
                &SecretValues::default(),
            )
        };
        let image = r#"{"content": [{"type":"image","data":"AAEC","mimeType":"image/png"},
            {"type":"text","text":"a\nb"}], "structuredContent": {"a":1.0}}"#;
        let answered = envelope(image);
        assert!(matches!(&answered, Envelope::Success(success) if success.result.get() == image));
        let result = |text: &str| envelope(text).readable().to_string();
        assert_eq!(
            result(image),
            r#"{"tool_success":true,"result":"[image of type image/png, 3 bytes]\na\nb"}"#
        );
        assert_eq!(
            result(r#"{"content":[],"structuredContent":{"a":1.0}}"#),
            r#"{"tool_success":true,"result":{"a":1.0}}"#
        );
        assert_eq!(
            result(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#),
            r#"{"tool_success":true,"result":{"error":"no","error_code":"TOOL_ERROR"}}"#
        );
        let refused = result(r#"{"content":[{"type":"text"}]}"#);
        assert!(refused.contains("INVALID_OUTPUT") && refused.contains("content[0]"), "{refused}");
        assert!(line(Exit::Code(0), None, br#"{"content":1}"#).contains("true"), "any JSON goes");
    }

    #[test]
    fn what_is_not_one_json_value_is_invalid_output() {
        for bad in [&b""[..], b"{} {}", b"{", b"{\"a\":\"\xff\"}", b"nothing"] {
            let line = line(Exit::Code(0), None, bad);
            assert!(line.contains(r#""error_code":"INVALID_OUTPUT","exit_code":0"#), "{line}");
        }
    }

    #[test]
    fn every_end_has_its_code() {
        let cases = [
            (Exit::Code(3), None, "crashed with exit code 3", "TOOL_CRASHED", "\"exit_code\":3"),
            (Exit::Signal(11), None, "exit code 139", "TOOL_CRASHED", "\"exit_code\":139"),
            (Exit::Trap("unreachable".into()), None, "134: unreachable", "TOOL_CRASHED", ":134"),
            (Exit::Ended, Some(Limit::WallClock), "timed out after 30s", "TOOL_TIMEOUT", ":137"),
            (Exit::Ended, Some(Limit::Fuel), "fuel", "TOOL_TIMEOUT", "\"limit\":\"fuel\""),
            (
                Exit::Ended,
                Some(Limit::Memory),
                "is 2.0 GiB",
                "TOOL_CRASHED",
                "\"limit\":\"memory\"",
            ),
            (Exit::Ended, Some(Limit::Output), "stdout", "INVALID_OUTPUT", "\"limit\":\"output\""),
        ];
        for (exit, limit, error, code, part) in cases {
            let line = line(exit, limit, b"partial");
            for expected in
                [error, code, part, "\"stdout\":\"partial\"", "\"stderr\":\"why\u{fffd}\""]
            {
                assert!(line.contains(expected), "{expected}: {line}");
            }
        }
        let line = line(Exit::NotStarted("no such file".into()), None, b"");
        assert_eq!(
            line,
            r#"{"tool_success":false,"error":"Tool 't' could not be started: no such file","error_code":"TOOL_CRASHED"}"#
        );
        let line = self::line(Exit::Denied("the reason".into()), None, b"");
        assert_eq!(
            line,
            r#"{"tool_success":false,"error":"Tool 't' may not be called: the reason","error_code":"PERMISSION_DENIED"}"#
        );
    }

    #[test]
    fn long_streams_are_cut_and_counted() {
        let line = line(Exit::Code(1), None, &vec![b'x'; SHOWN + 7]);
        assert!(line.contains(&format!("\"stdout_bytes\":{}", SHOWN + 7)), "{}", &line[..200]);
        assert!(!line.contains("stderr_bytes"));
    }

    #[test]
    fn no_part_of_a_failure_holds_a_granted_value() {
        let value = "8024613579642";
        let secrets = SecretValues::from_variables(vec![("KEY".into(), value.into())]);
        // The value lies before the end of the shown part, across it, and across the end of the
        // kept part.
        let heads = [0, SHOWN - 20, SHOWN - 13, SHOWN - 12, SHOWN - 1, SHOWN, SHOWN + 1];
        for before in heads {
            let mut stdout = vec![b'x'; before];
            stdout.extend_from_slice(value.as_bytes());
            stdout.resize(2 * SHOWN, b'x');
            let mut outcome = outcome(Exit::Trap(format!("at {value}")), None, &stdout);
            let mut stderr: Vec<u8> = stdout.iter().rev().copied().collect();
            let at = stderr.len() - before - value.len();
            stderr[at..at + value.len()].copy_from_slice(value.as_bytes());
            outcome.stderr.total = stderr.len() as u64;
            outcome.stderr.bytes = stderr.split_off(SHOWN);
            let envelope = Envelope::from_outcome(
                "t",
                ResultKind::Json,
                &CallLimits::default(),
                outcome,
                &secrets,
            );
            let Envelope::Failure(Failure { error, remains: Some(remains), .. }) = envelope else {
                panic!("it ran");
            };
            assert!(error.ends_with(": at [redacted: KEY]"), "{error}");
            // The streams repeat one letter, so any part of the value would show.
            for stream in [&remains.stdout, &remains.stderr] {
                let leaked = stream.find(|character: char| value.contains(character));
                assert_eq!(leaked, None, "with {before} bytes before it");
            }
            assert!(remains.stdout.len() <= SHOWN && remains.stderr.len() <= SHOWN);
            assert_eq!(remains.stdout_bytes, Some(2 * SHOWN as u64));
            assert_eq!(remains.stderr_bytes, Some(2 * SHOWN as u64));
        }
    }

    #[test]
    fn arguments_are_one_object() {
        assert!(check_arguments(b" {\"a\": 1}\n").is_ok());
        for (bad, word) in
            [("[]", "array"), ("1", "number"), ("", "not valid"), ("{} x", "not valid")]
        {
            let error = check_arguments(bad.as_bytes()).expect_err(bad);
            assert!(error.contains(word), "{bad}: {error}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(check_arguments(deep.as_bytes()).is_ok());
    }
}
