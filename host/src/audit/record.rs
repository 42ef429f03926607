//! The record of one call, or of one installation. docs/reference/audit.md describes every field.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use ikigai_protocol::{Digest, EnvelopeCode};
use ikigai_supervisor::isolation::Isolation;

use super::AnswerError;
use crate::policy::{AssetAccess, Backend, Grant, RequestedAccess, UsedAccess};

/// One call, or one installation of a tool, as one line of the log in JSON. Fields that do not
/// apply are absent; unknown fields are ignored when a line is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The time of the request, to the millisecond.
    #[serde(with = "milliseconds")]
    pub time: Timestamp,
    /// A unique identifier that sorts by time (UUID version 7).
    pub id: String,
    /// The command that asked.
    pub via: Via,
    /// The name and version that an MCP client claims. Nothing verifies them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The principal of a client that connected over a network, verified by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The name that the caller used for the tool.
    pub tool: String,
    /// The program that ran or would have run; absent if the tool does not exist.
    #[serde(flatten)]
    pub program: Option<ProgramRecord>,
    /// The files, peers and variables that it was allowed to use; absent if the policy was never
    /// asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantSummary>,
    /// The guarantees that were in force while it ran; absent if it did not run, or if they are
    /// unknown.
    #[serde(rename = "level", default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The directory that it worked in.
    pub workspace: String,
    /// The question whether it may run; absent if it needed no approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<QuestionRecord>,
    /// The questions whether its tool may get accesses beyond its grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedFor>,
    /// The accesses beyond its grant that it tried and was refused: the first distinct ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<RequestedAccess>,
    /// The number of those refusals, with repetitions, if it is larger than that list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_count: Option<u64>,
    /// The parts of its grant that it used, as far as the host sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedAccess>,
    /// Its arguments; absent if the host did not see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
    /// The installation; absent for a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<InstallationRecord>,
    /// `ok`, `cancelled`, or the error code of the envelope; `failed` for an installation.
    pub outcome: String,
    /// The error of the envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error that the tool's own answer reports; absent if it reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerError>,
    /// The exit code of the envelope; absent if nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The limit that ended the call, in the words of [`Limit::as_str`](crate::Limit::as_str).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The wall clock limit at its end, in milliseconds, if its caller had extended the time that
    /// the policy decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_to_ms: Option<u64>,
    /// True if the caller did not wait for the end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
    /// Accesses that it tried and was refused, as far as the host sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// The time from the start of the program to its end, in microseconds; absent if nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The time from the request to the answer, in microseconds. It includes the wait for a permit
    /// and compilation.
    pub total_us: u64,
    /// The fuel burnt; components only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The peak of its memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// The length of its whole output to stdout, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// The length of its whole output to stderr, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_bytes: Option<u64>,
}

/// The command that a call comes from. The calls of an embedding program are [`Via::Call`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Via {
    /// `tool call`, and every other caller that asks for an envelope.
    #[default]
    Call,
    /// `tool run`.
    Run,
    /// `tool check`, which calls a tool with malformed arguments.
    Check,
    /// `mcp serve`.
    Mcp,
    /// A command that installs, replaces or removes tools, without calling them.
    Install,
}

impl Via {
    /// Returns `call`, `run`, `check`, `mcp` or `install`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The id of a call in the log: a UUID of version 7, so that ids sort by the time at which they
/// were chosen. A front end may choose it, to know it before the call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(Uuid);

impl CallId {
    /// Chooses an id that no other call has.
    #[must_use]
    pub fn choose() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), out)
    }
}

/// The front end that asks for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The command.
    pub via: Via,
    /// The name and version that its client claims, if it has a client.
    pub client: Option<String>,
    /// The principal that the front end has verified, if the client connected over a network. Its
    /// calls may use assets only as far as the policy grants them to clients. By default it grants
    /// none.
    pub principal: Option<String>,
    /// True if the principal must not use assets, even if the policy grants them, because its
    /// access token does not cover them.
    pub without_assets: bool,
    /// The id of the call, if the front end has chosen it. It must then be used for only this call.
    pub id: Option<CallId>,
}

impl From<Via> for Requester {
    fn from(via: Via) -> Self {
        Self { via, ..Self::default() }
    }
}

/// The program behind a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// `system` or `user`.
    pub origin: String,
    /// Its file.
    pub path: String,
    /// The SHA-256 digest of its file at the time of discovery.
    pub digest: Digest,
    /// `wasm`, `native` or `mcp`.
    pub backend: String,
    /// The versions of WASI that a component or core module uses, such as `0.2`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wasi: Vec<String>,
    /// The server that has the tool, for `mcp`. `path` and `digest` then refer to the server's
    /// definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The reason why this build was chosen.
    pub backend_reason: String,
}

/// A grant without its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSummary {
    /// `ro:DIR` and `rw:DIR`.
    pub dirs: Vec<String>,
    /// Peers, in the form of a policy; `*` means all peers.
    pub net: Vec<String>,
    /// Names of variables; `*` means the user's whole environment.
    pub env: Vec<String>,
    /// Access to the host's assets: `read` or `write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<String>,
    /// `off`, `prefer` or `require`; a component can never exceed its grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The places in the policy that grant it, such as `FILE:LINE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// A change of the tools that are installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallationRecord {
    /// `install`, `update`, `remove` or `sync`.
    pub action: String,
    /// The reference that the tool comes from.
    pub source: String,
    /// Its version, if it states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The signer of its file, as in the lock, or `none`.
    pub signer: String,
    /// The digest of the file that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Digest>,
}

impl GrantSummary {
    /// Summarizes a grant for a build, without values. `sources` are the rules that grant it.
    #[must_use]
    pub fn from_grant(grant: &Grant, backend: Backend, sources: Vec<String>) -> Self {
        let dirs = grant.dirs.iter();
        let dirs = dirs.map(|dir| format!("{}:{}", dir.access.as_str(), dir.path.display()));
        let peers = grant.net.peers.iter().map(ToString::to_string);
        let names = grant.env.iter().map(|(name, _)| name.to_string_lossy().into_owned());
        Self {
            dirs: dirs.collect(),
            net: grant.net.any.then(|| "*".to_owned()).into_iter().chain(peers).collect(),
            env: if grant.inherits_env { vec!["*".to_owned()] } else { names.collect() },
            assets: (grant.assets != AssetAccess::None).then(|| grant.assets.as_str().to_owned()),
            sandbox: (backend != Backend::Wasm).then(|| grant.sandbox.as_str().to_owned()),
            sources,
        }
    }
}

/// A question that was asked before a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRecord {
    /// `yes`, `no`, `timeout`, `unavailable`, `pending`; or `cancelled`, if the call was cancelled
    /// before the answer.
    pub answer: String,
    /// The respondent: `person` or `client`; absent if the host cannot ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time that the answer took, in milliseconds.
    pub waited_ms: u64,
}

/// A question whether a tool may get an access beyond its grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFor {
    /// The access in words, such as `read /etc/hosts`.
    pub what: String,
    /// `once`, `session`, `always`, `no`, `timeout` or `unavailable`.
    pub answer: String,
    /// The respondent: `person`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time that the answer took, in milliseconds.
    pub waited_ms: u64,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arguments {
    /// Their length, in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the received bytes.
    pub sha256: Digest,
    /// Their text, or its beginning; only if the text of arguments is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Record {
    /// Returns whether the tool ran and answered.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.outcome == OK
    }

    /// Returns whether the call itself, or an access by its tool, was refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let is_denied = self.outcome == EnvelopeCode::PermissionDenied.as_str();
        is_denied || !self.reached.is_empty() || !self.denied.is_empty()
    }

    /// Returns whether the call failed, was refused something, or was answered with an error.
    #[must_use]
    pub fn has_failure(&self) -> bool {
        !self.is_ok() || self.is_refused() || self.answer.is_some()
    }

    /// Returns the time that the user took to answer questions, which `total_us` includes, in
    /// microseconds.
    #[must_use]
    pub fn waited_us(&self) -> u64 {
        let asked = self.asked.iter().map(|asked| asked.waited_ms);
        let waits = self.consent.iter().map(|asked| asked.waited_ms).chain(asked);
        let waited = waits.fold(0, u64::saturating_add).saturating_mul(1000);
        // An MCP client may repeat the call with the answer. Then the wait was before this call.
        if waited <= self.total_us { waited } else { 0 }
    }

    /// Returns the distinct refused accesses in words: first accesses beyond the grant, such as
    /// `read /etc/hosts`, and then the others, such as `net bind 0.0.0.0:80`.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let mut refusals: Vec<String> =
            self.reached.iter().map(RequestedAccess::to_string).collect();
        let as_denied = |reached: &RequestedAccess| match reached {
            RequestedAccess::Peer { host, port } if host.contains(':') => {
                format!("net [{host}]:{port}")
            }
            RequestedAccess::Peer { host, port } => format!("net {host}:{port}"),
            RequestedAccess::Host { host } => format!("net {host}"),
            RequestedAccess::Path { .. } | RequestedAccess::Run => String::new(),
        };
        let is_listed = |what: &&String| self.reached.iter().any(|it| as_denied(it) == **what);
        refusals.extend(self.denied.iter().filter(|what| !is_listed(what)).cloned());
        refusals
    }
}

/// The outcome of an installation that failed.
pub(super) const FAILED: &str = "failed";

/// The outcome of a call whose caller did not wait for its end.
pub(super) const CANCELLED: &str = "cancelled";

/// The outcome of a call that succeeded.
#[doc(hidden)]
pub const OK: &str = "ok";

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Writes times as RFC 3339 with exactly three decimals, so that they line up.
mod milliseconds {
    use std::borrow::Cow;

    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{time:.3}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_questions_is_known_unless_they_were_asked_before_the_call() {
        let consent = |waited_ms| QuestionRecord { answer: "yes".to_owned(), by: None, waited_ms };
        let asked = AskedFor {
            what: "run".to_owned(),
            answer: "no".to_owned(),
            by: None,
            waited_ms: 300_000,
        };
        let call = Record { total_us: 302_000_000, asked: vec![asked], ..Record::default() };
        assert_eq!(call.waited_us(), 300_000_000);
        let call = Record { consent: Some(consent(1_000)), ..call };
        assert_eq!(call.waited_us(), 301_000_000);
        let repeated =
            Record { total_us: 5_000, consent: Some(consent(1_000)), ..Record::default() };
        assert_eq!((repeated.waited_us(), Record::default().waited_us()), (0, 0));
    }
}
