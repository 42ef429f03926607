//! The system prompt: how to use the tools of this host, the notes in files, the user's own text,
//! the pinned assets, and the summary of earlier conversations.
//!
//! Most blocks do not change from one request to the next. The pinned assets and the summary change
//! only when an asset is written, pinned or unpinned. So a provider finds most of a request in its
//! cache. For the same reason the base has no time and no date; a model that needs one asks a tool.

use std::fmt::Write as _;
use std::path::Path;

use ikigai_assets::{Asset, thousands};
use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, Decision, Grant, Net, Remedy, Sandbox, ToolOrigin};
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_protocol::GrantedDir;
use ikigai_protocol::shell::SHELLS;

use crate::confined::SHELL;
use crate::environment::SessionEnvironment;
use crate::own_tool::SLASH_COMMAND;
use crate::recent;
use crate::session_assets::SessionAssets;

/// A text that is sent before the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemBlock {
    /// The author or the source, as the user is shown it.
    pub source: String,
    /// The text, which is not empty.
    pub text: String,
}

/// The system prompt of a request.
pub(super) struct SystemPrompt {
    /// The blocks.
    pub(super) blocks: Vec<SystemBlock>,
    /// Bytes of the last blocks, which are the pinned assets and the summary.
    pub(super) pinned_bytes: usize,
    /// The warning, if the pinned assets are left out.
    pub(super) warning: Option<String>,
}

/// Returns the system prompt of the next request.
pub(super) async fn blocks(
    environment: &SessionEnvironment,
    snapshot: Option<&Snapshot>,
) -> SystemPrompt {
    let SessionEnvironment { host, workspace, guidance, assets, system, .. } = environment;
    let block = |source: &str, text| SystemBlock { source: source.to_owned(), text };
    let mut blocks = vec![block("ikigai", base(environment, snapshot))];
    let places = host.registry().paths();
    let notes = guidance.notes(places, workspace, || host.kept_from_models()).await;
    blocks.extend(notes.iter().map(|note| block(&note.path, note.block.clone())));
    // After the notes: the later text takes precedence.
    blocks.extend(system.clone().map(|text| block("you", text)));
    let (pinned, warning): (Vec<SystemBlock>, _) = match pinned(assets.as_ref()).await {
        Ok(mut pinned) => {
            let summary = recent::beside(environment, &mut pinned).await;
            (pinned.iter().chain(&summary).map(of_asset).collect(), None)
        }
        Err(error) => (Vec::new(), Some(format!("pinned assets are not in the context: {error}"))),
    };
    let pinned_bytes = pinned.iter().map(|block| block.text.len()).sum();
    blocks.extend(pinned);
    SystemPrompt { blocks, pinned_bytes, warning }
}

/// Returns the pinned assets as they are now, in the order of pinning.
async fn pinned(assets: Option<&SessionAssets>) -> Result<Vec<Asset>, ikigai_assets::Error> {
    let Some(assets) = assets.filter(|it| it.store.may_hold_assets()) else {
        return Ok(Vec::new());
    };
    assets.store.open().await?.pinned(&assets.agent).await
}

fn base(environment: &SessionEnvironment, snapshot: Option<&Snapshot>) -> String {
    let SessionEnvironment { host, workspace, assets, .. } = environment;
    let workspace = workspace.display();
    let mut text = format!(
        "You are the assistant of ikigai, in a terminal. The workspace is `{workspace}`: \
         relative paths start there. Answer in Markdown, briefly."
    );
    let Some(snapshot) = snapshot else { return text };
    text.push_str(
        "\n\nTools answer in JSON. `tool_success: false` means that the call itself failed; \
         read `error` and do something else. Where a tool says that something must be set up \
         first, pass its steps on to the user. Calls that do not depend on each other may be \
         made at once.",
    );
    let front_end = environment.front_end.as_ref();
    let asks = front_end.is_some_and(|front_end| front_end.can_widen());
    if let Some(about) = snapshot.get(SHELL).and_then(|tool| about_bash(host, tool, asks)) {
        text.push_str("\n\n");
        text.push_str(&about);
    }
    let transient = with_own_temporary_files(host, snapshot);
    if !transient.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n\nThese run in a sandbox with a `/tmp` of their own, and what they write there is \
             gone after the call: {}.",
            transient.join(", ")
        );
    }
    if let Some(assets) = assets.as_ref().filter(|_| environment.has_own_tool()) {
        text.push_str(&about_assets(assets.budget));
    }
    text
}

/// Returns the names of the user's tools that have a private `/tmp` for each call. The built-in
/// tools for files write only to granted directories, and the shell has a separate paragraph.
fn with_own_temporary_files<'s>(host: &Host, snapshot: &'s Snapshot) -> Vec<&'s str> {
    let has_own = |tool: &&Tool| {
        tool.origin == ToolOrigin::User
            && tool.build.backend() == Backend::Native
            && host.decide((*tool).into()).is_ok_and(|decision| {
                let is_granted = |dir: &GrantedDir| dir.path == Path::new("/tmp");
                decision.grant.sandbox != Sandbox::Off
                    && !decision.grant.dirs.iter().any(is_granted)
            })
    };
    snapshot.tools().filter(has_own).map(Tool::name).collect()
}

/// Returns a paragraph for a model about the shell of the built-in `bash`, its time limit, and the
/// things that it does not see. Returns nothing for another tool, or if policy denies `bash`. With
/// `asks`, the user is asked if a command needs more than was granted.
#[must_use]
pub fn about_bash(host: &Host, tool: &Tool, asks: bool) -> Option<String> {
    if tool.name() != SHELL || tool.origin != ToolOrigin::System {
        return None;
    }
    let decision = host.decide(tool.into()).ok()?;
    let hint = host.authority().hint(&Remedy::GrantMore { tool: tool.name().to_owned() });
    Some(about_shell(tool.build.backend(), &decision, hint, asks && decision.ask))
}

/// Returns a paragraph about the shell that `bash` is, and about the parts of the machine that it
/// does not see. `hint` tells how the user can grant it more. With `asks`, the user is asked if a
/// command needs more.
fn about_shell(backend: Backend, decision: &Decision, hint: Option<String>, asks: bool) -> String {
    let time = humantime::format_duration(decision.limits.wall_clock);
    let ended = format!("A command is ended after {time}; what it printed until then is kept.");
    if backend == Backend::Wasm {
        return format!(
            "bash is a shell inside WebAssembly: the syntax of GNU bash, with the usual \
             commands for files and text built in. It runs no program of this machine, and has no \
             network; `/tmp` is empty and ends with the call. {ended}"
        );
    }
    let is_there = |path: &&&str| Path::new(path).exists();
    let shell = match SHELLS.iter().find(is_there) {
        Some(path) if path.ends_with("/bash") => "GNU bash",
        _ => "the `sh` of this machine, which may lack arrays, `[[` and process substitution",
    };
    if decision.is_unconfined(backend) {
        return format!("bash runs commands in {shell}. {ended}");
    }
    let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
    let network = about_network(&decision.grant.net, asks);
    let loopback = about_loopback(&decision.grant);
    format!(
        "bash runs commands in {shell}, in a sandbox. It sees the programs of the system and \
         the directories that it was granted; `/tmp` and the home directory are empty and end with \
         the call, so that programs, keys and settings of the user's home are not there. {network}\
         {loopback}`cargo: command not found` does not mean that the machine lacks it: do not install \
         it anew. Files that other programs execute without being told, such as `.git/hooks`, \
         `.git/config` and `.vscode`, are read-only unless they are granted by name. Where a command \
         needs more, tell the user{hint}. {ended}"
    )
}

/// Returns sentences about the hosts that the shell reaches, with a space at the end.
fn about_network(net: &Net, asks: bool) -> String {
    let hosts = if net.is_none() { "no host by itself".to_owned() } else { net.to_string() };
    match (net.any, net.is_none(), asks) {
        (true, ..) => String::new(),
        (_, true, false) => {
            "There is no network, so that `Could not resolve host` says nothing about \
                             the host. "
                .to_owned()
        }
        (_, false, false) => format!(
            "It reaches these hosts alone: {hosts}, through the proxy that HTTPS_PROXY and the like \
             name; `403` of the proxy says nothing about the host. "
        ),
        (_, _, true) => format!(
            "It reaches {hosts}. Where a command asks the proxy that HTTPS_PROXY and the like name for \
             another host, the user is asked while the command waits: `403` of the proxy is a no, and \
             says nothing about the host. What does not use the proxy reaches nothing. "
        ),
    }
}

/// Returns a sentence about the servers that a command may start, with a space at the end.
fn about_loopback(grant: &Grant) -> &'static str {
    // With the whole network, the loopback interface is the machine's.
    if !grant.own_sockets || grant.net.any {
        return "";
    }
    "A program may listen on the loopback (`127.0.0.1` or `localhost`). Only the programs of the same call reach it, \
     and it ends with the call. "
}

/// Returns a paragraph about the use of assets.
fn about_assets(budget: u64) -> String {
    format!(
        "\n\nfile_read, file_write and file_edit take paths of files (`src/main.c`) and URIs of \
         stored assets (`ikigai:///blocks/decisions.md`) alike. Use assets for what \
         outlives a project or is to stay in your context: patterns, preferences, decisions. Use \
         files for code and documentation of the project, and for what other programs read. When \
         in doubt, ask the user where to save.\n\
         Pinned assets are in your context, below. Together they may have {} tokens; a write \
         beyond that fails. Then free space with {SLASH_COMMAND}: `/compact PATH [TOKENS]` \
         rewrites an asset shorter, `/unpin PATH` takes it out of your context and keeps it. A \
         new asset is not pinned: suggest it, or use `/pin PATH`. `/pinned` lists what is.",
        thousands(budget)
    )
}

/// Returns the block of an asset, under the name with which the model reads and changes it.
fn of_asset(asset: &Asset) -> SystemBlock {
    let uri = asset.metadata.path.to_uri();
    // Summaries are always notes, even the summaries of other workspaces if they are pinned.
    let text = if recent::is_summary(&asset.metadata.path) {
        recent::labelled(asset)
    } else {
        format!("Pinned asset {uri}:\n\n{}", String::from_utf8_lossy(&asset.content))
    };
    SystemBlock { source: uri, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_of_the_shell_is_what_the_user_may_be_asked_for() {
        let about = |net: &[&str], asks| {
            about_network(&Net::parse(net.iter().copied()).expect("a list"), asks)
        };
        assert_eq!(about(&["*"], true), "");
        assert!(about(&[], false).starts_with("There is no network"));
        let asked = about(&[], true);
        assert!(asked.contains("no host by itself") && asked.contains("the user is asked"));
        let some = |asks| about(&["a.example:443"], asks);
        assert!(some(false).contains("alone: a.example:443, ") && !some(false).contains("asked"));
        assert!(some(true).contains("a.example:443. ") && some(true).contains("the user is asked"));
    }

    #[test]
    fn a_command_is_told_of_a_loopback_of_its_own_and_of_no_other() {
        let about = |own_sockets, net: &[&str]| {
            let net = Net::parse(net.iter().copied()).expect("a list");
            about_loopback(&Grant { own_sockets, net, ..Grant::default() })
        };
        for net in [&["a.example:443"][..], &[]] {
            assert!(about(true, net).contains("may listen on the loopback"), "{net:?}");
        }
        assert_eq!((about(false, &[]), about(true, &["*"])), ("", ""));
    }
}
