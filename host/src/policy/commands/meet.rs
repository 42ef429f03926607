//! The rules for commands that apply to one call, from all layers, and the order of the values of
//! `approve`.
//!
//! `ask` and `deny` of every layer apply. `allow` counts from the user's file and from ceilings. If
//! several have such a list, a command must be in each. A workspace's file cannot have this list.

use std::ffi::{OsStr, OsString};

use super::super::decision::{Effects, PolicyRequest};
use super::super::provenance::LayerKind;
use super::super::rule::{Located, PolicyLayer, PolicyLayers, provenance_of};
use super::super::standard::SHELL;
use super::super::{Approve, Backend, Grant, ToolOrigin};
use super::{CommandPrefix, CommandRule, Commands};

/// The variables that make bash read a file before the script, or read the script differently.
/// `SSH_CLIENT` and `SSH2_CLIENT` make many builds of bash read `~/.bashrc`.
const CHANGES_READING: &[&str] = &[
    "BASH_COMPAT",
    "BASH_ENV",
    "BASHOPTS",
    "ENV",
    "LOCPATH",
    "POSIXLY_CORRECT",
    "SHELLOPTS",
    "SSH2_CLIENT",
    "SSH_CLIENT",
];

/// The name prefix of variables that contain functions.
const FUNCTION: &str = "BASH_FUNC_";

/// The variables that name the encoding of text. The first one that is set counts.
const ENCODING: &[&str] = &["LC_ALL", "LC_CTYPE", "LANG"];

/// Returns whether a call to this tool runs a shell.
fn is_shell(request: &PolicyRequest<'_>) -> bool {
    let is_named = |name: &String| name == SHELL;
    request.backend != Backend::Mcp
        && (request.name == Some(SHELL) || request.names.iter().any(is_named))
}

/// Returns the rules for the commands of one tool with this grant.
pub(in crate::policy) fn meet(
    layers: &PolicyLayers,
    request: &PolicyRequest<'_>,
    grant: &Grant,
) -> Commands {
    if !is_shell(request) {
        return Commands::default();
    }
    let mut commands = Commands { is_shell: true, ..Commands::default() };
    for layer in layers.all() {
        let entry = layer.entry(request.backend, SHELL);
        let Some(rules) = entry.and_then(|entry| entry.commands.as_ref()) else { continue };
        let placed = |patterns: &[Located<CommandPrefix>]| placed(layer, patterns);
        commands.ask.extend(placed(&rules.value.ask));
        commands.deny.extend(placed(&rules.value.deny));
        if layer.kind != LayerKind::Workspace
            && let Some(allow) = &rules.value.allow
        {
            commands.allow.push(placed(allow));
        }
    }
    commands.obstacle = match request.origin {
        ToolOrigin::System => obstacle(&grant.env, request.backend),
        // ikigai does not know how a user's tool reads its arguments.
        ToolOrigin::User => Some("it is not the built-in `bash`".to_owned()),
    };
    commands.ascii_only = other_encoding(&grant.env);
    commands
}

fn placed(layer: &PolicyLayer, patterns: &[Located<CommandPrefix>]) -> Vec<CommandRule> {
    let rule = |at: &Located<CommandPrefix>| CommandRule {
        pattern: at.value.clone(),
        provenance: provenance_of(layer, at),
    };
    patterns.iter().map(rule).collect()
}

/// Returns the reason why a shell with this environment may read words differently.
fn obstacle(env: &[(OsString, OsString)], backend: Backend) -> Option<String> {
    let reads_otherwise = |(name, value): &&(OsString, OsString)| {
        let is_function = name.as_encoded_bytes().starts_with(FUNCTION.as_bytes())
            || value.as_encoded_bytes().starts_with(b"() {");
        is_function || CHANGES_READING.iter().any(|known| name == known)
    };
    if let Some((name, _)) = env.iter().find(reads_otherwise) {
        let name = ikigai_protocol::written_out(&name.to_string_lossy());
        return Some(format!("the tool has the variable `{name}`, which changes what bash reads"));
    }
    // The default `PATH` of bash may end with the working directory.
    let has_path = env.iter().any(|(name, _)| name == "PATH");
    let needs_path = backend == Backend::Native && !has_path;
    needs_path.then(|| "the tool has no `PATH`".to_owned())
}

/// Returns the reason why a shell with this environment may read characters beyond ASCII
/// differently. In some encodings, a byte of a UTF-8 character and the byte after it, such as `|`,
/// form one character.
fn other_encoding(env: &[(OsString, OsString)]) -> Option<String> {
    let value = |wanted: &&str| {
        let found = env.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    };
    let set = ENCODING.iter().find_map(value)?;
    (!is_known(set)).then(|| {
        let set = ikigai_protocol::written_out(&set.to_string_lossy());
        format!(
            "the script has characters beyond ASCII, and the tool's locale `{set}` is not UTF-8"
        )
    })
}

fn is_known(locale: &OsStr) -> bool {
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    let encoding = locale.split('@').next().unwrap_or_default();
    matches!(encoding, "c" | "posix")
        || [".utf-8", ".utf8"].iter().any(|known| encoding.ends_with(known))
}

/// The order of the values of `approve` for one tool with its grant, by the calls that each value
/// asks about. Depending on the grant, `changes` asks about all calls or none. `unlisted` does the
/// same for every tool except the shell. For the shell it asks about some calls. So for a shell
/// that may change something, `changes` asks about more calls than `unlisted`. For any other shell,
/// it asks about fewer.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Strictness {
    changes_is_more: bool,
}

impl Strictness {
    /// Returns the order for a tool with this grant.
    pub(in crate::policy) fn for_request(request: &PolicyRequest<'_>, grant: &Grant) -> Self {
        let Effects { writes, connects } = grant.effects(request.backend);
        Self { changes_is_more: is_shell(request) && (writes || connects) }
    }

    /// Returns whether one value asks about more calls than the other.
    pub(in crate::policy) fn is_more(self, one: Approve, other: Approve) -> bool {
        let rank = |approve: Approve| match approve {
            Approve::None => 0,
            Approve::Changes if self.changes_is_more => 3,
            Approve::Changes => 1,
            Approve::Unlisted => 2,
            Approve::Always => 4,
        };
        rank(one) > rank(other)
    }
}
