//! The commands that users and models share: they arrange assets in the context, and show tools.
//!
//! Owns the syntax of a line and the answer of each command. Commands that only a user may give
//! belong to the program that reads the user's input.

mod compact;
mod tools;
mod words;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ikigai_assets::{AssetMetadata, AssetPath, Store};
use ikigai_host::nearest::nearest;
use ikigai_host::policy::AssetAccess;
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_protocol::ToolCode;
use ikigai_provider::RequestFailure;
use tokio_util::sync::CancellationToken;

pub use compact::{RewriteProposal, RewriteRefusal};
pub use words::{Unclosed, words};

use crate::assets::{NotNamed, display, named};
use crate::environment::SessionEnvironment;
use crate::recent;
use crate::session_assets::SessionAssets;

/// A command that a line was parsed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCommand {
    /// `/pin [PATH]`; without a path, the pins are listed.
    Pin(Option<String>),
    /// `/unpin PATH`
    Unpin(String),
    /// `/pinned`
    Pinned,
    /// `/blocks`: lists every asset but long results of tools.
    Blocks,
    /// `/compact PATH [TOKENS]`
    Compact {
        /// The asset, by any name that it has.
        path: String,
        /// The most tokens that it should have.
        target: Option<u64>,
    },
    /// `/tool [NAME]`; without a name, all tools are listed.
    Tool(Option<String>),
}

/// The syntax of each command and its purpose, for help and for menus.
pub const COMMANDS: [(&str, &str); 6] = [
    ("/pin [PATH]", "keep an asset in the context, or show which ones are"),
    ("/unpin PATH", "take an asset out of the context"),
    ("/pinned", "show what is pinned"),
    ("/blocks", "list the assets"),
    ("/compact PATH [TOKENS]", "have an asset rewritten shorter"),
    ("/tool [NAME]", "list the tools, or show one"),
];

/// The author of a command.
pub enum By<'a> {
    /// The user, who is asked before an asset is replaced.
    Person(&'a mut dyn Confirm),
    /// A model, which is not asked. It has this access to assets.
    Model(AssetAccess),
}

/// Asks the user.
pub trait Confirm: Send {
    /// Returns true if the proposal should be written.
    fn confirm<'a>(
        &'a mut self,
        proposal: &'a RewriteProposal,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// The reason why a line is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No command has this name.
    #[error("unknown command `{name}`{}", DidYouMean(.nearest))]
    Unknown {
        /// The name as it was written.
        name: String,
        /// The command that was probably meant.
        nearest: Option<String>,
    },
    /// Arguments that the command does not take.
    #[error("usage: {0}")]
    Usage(&'static str),
    /// A quotation without an end.
    #[error(transparent)]
    Unclosed(#[from] Unclosed),
}

/// The reason why a command was not carried out. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The line is not a command.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Policy does not grant the model this access to assets.
    #[error("Permission denied: {}", not_granted(*.0))]
    NotGranted(AssetAccess),
    /// The session has no asset store.
    #[error("there is no asset store")]
    NoAssets,
    /// No asset has this name.
    #[error("{}{}", .0.error, DidYouMean(&.0.nearest))]
    NotNamed(NotNamed),
    /// The store refuses, or fails.
    #[error(transparent)]
    Store(#[from] ikigai_assets::Error),
    /// No tool has this name.
    #[error("tool `{name}` not found{}", DidYouMean(.nearest))]
    NoTool {
        /// The name as it was written.
        name: String,
        /// The tool that was probably meant.
        nearest: Option<String>,
    },
    /// The scan for tools has not ended yet.
    #[error("the tools are not known yet")]
    NoTools,
    /// The session has no model that could rewrite the asset.
    #[error("no model is set")]
    NoModel,
    /// The model that should rewrite the asset did not answer.
    #[error(transparent)]
    Provider(#[from] RequestFailure),
    /// The text that the model wrote does not replace the asset.
    #[error("`{path}` was not compacted: {refusal}")]
    Refused {
        /// The asset.
        path: AssetPath,
        /// The reason.
        refusal: RewriteRefusal,
    },
    /// The asset was written while the model rewrote it.
    #[error("`{path}` was not compacted: it changed in the meantime, and the change stays")]
    Changed {
        /// The asset.
        path: AssetPath,
    },
    /// The user interrupted the command.
    #[error("cancelled")]
    Cancelled,
}

fn not_granted(granted: AssetAccess) -> &'static str {
    match granted {
        AssetAccess::None => "no assets are granted to this tool",
        AssetAccess::Read | AssetAccess::Write => {
            "assets are granted to this tool for reading only"
        }
    }
}

struct DidYouMean<'a>(&'a Option<String>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

// `NotNamed` is not the error's source: the message of `CommandError` already contains it, with the
// name that was probably meant.
impl From<NotNamed> for CommandError {
    fn from(missing: NotNamed) -> Self {
        Self::NotNamed(missing)
    }
}

impl CommandError {
    /// Returns the code for a model.
    pub(super) fn code(&self) -> ToolCode {
        match self {
            Self::Malformed(_) | Self::Refused { .. } => ToolCode::InvalidArg,
            Self::NotGranted(_) => ToolCode::PermissionDenied,
            Self::NoTool { .. } => ToolCode::NotFound,
            Self::NotNamed(NotNamed { error, .. }) | Self::Store(error) => error.code(),
            Self::NoAssets | Self::NoTools | Self::NoModel => ToolCode::OpenFailed,
            Self::Provider(_) | Self::Cancelled => ToolCode::ReadFailed,
            Self::Changed { .. } => ToolCode::WriteFailed,
        }
    }
}

impl AgentCommand {
    /// Returns the access to assets that the command needs.
    fn needs(&self) -> AssetAccess {
        match self {
            Self::Tool(_) => AssetAccess::None,
            // Pinning shows the text to the model.
            Self::Pin(_) | Self::Pinned | Self::Blocks => AssetAccess::Read,
            Self::Unpin(_) | Self::Compact { .. } => AssetAccess::Write,
        }
    }

    /// Parses a line. Words are separated by white space; a word that contains white space needs
    /// quotation marks.
    ///
    /// # Errors
    ///
    /// Fails if the line is not one of [`COMMANDS`].
    pub fn parse(line: &str) -> Result<Self, Malformed> {
        let words = words(line)?;
        let (name, arguments) = words.split_first().map_or(("", &[][..]), |(n, a)| (n, a));
        let usage = |command: &str| {
            let found = COMMANDS.iter().find(|(usage, _)| word(usage) == command);
            Malformed::Usage(found.map_or("", |(usage, _)| usage))
        };
        match (name, arguments) {
            ("/pin", []) => Ok(Self::Pin(None)),
            ("/pin", [path]) => Ok(Self::Pin(Some(path.clone()))),
            ("/unpin", [path]) => Ok(Self::Unpin(path.clone())),
            ("/pinned", []) => Ok(Self::Pinned),
            ("/blocks", []) => Ok(Self::Blocks),
            ("/compact", [path]) => Ok(Self::Compact { path: path.clone(), target: None }),
            ("/compact", [path, target]) => {
                let target = tokens(target).ok_or_else(|| usage("/compact"))?;
                Ok(Self::Compact { path: path.clone(), target: Some(target) })
            }
            ("/tool", []) => Ok(Self::Tool(None)),
            ("/tool", [name]) => Ok(Self::Tool(Some(name.clone()))),
            ("/pin" | "/unpin" | "/pinned" | "/blocks" | "/compact" | "/tool", _) => {
                Err(usage(name))
            }
            _ => {
                let names = COMMANDS.iter().map(|(usage, _)| word(usage));
                let nearest = nearest(name, names).map(str::to_owned);
                Err(Malformed::Unknown { name: name.to_owned(), nearest })
            }
        }
    }
}

fn word(usage: &str) -> &str {
    usage.split(' ').next().unwrap_or(usage)
}

/// Parses a number of tokens: `4000` or `4k`; at least one.
fn tokens(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000),
        None => (text, 1),
    };
    let count: u64 = digits.parse().ok()?;
    count.checked_mul(unit).filter(|tokens| *tokens > 0)
}

/// Carries out a command, as [`Session::command`](crate::Session::command) describes it.
pub(super) async fn run(
    environment: &SessionEnvironment,
    command: &AgentCommand,
    by: By<'_>,
    snapshot: Option<&Arc<Snapshot>>,
    cancel: &CancellationToken,
) -> Result<String, CommandError> {
    if let By::Model(granted) = by
        && granted < command.needs()
    {
        return Err(CommandError::NotGranted(granted));
    }
    let work = async {
        match command {
            AgentCommand::Pin(Some(path)) => pin(environment, path).await,
            AgentCommand::Unpin(path) => unpin(environment, path).await,
            AgentCommand::Pin(None) | AgentCommand::Pinned => list_pinned(environment).await,
            AgentCommand::Blocks => list_blocks(environment).await,
            AgentCommand::Compact { path, target } => {
                compact::run(environment, path, *target, by).await
            }
            AgentCommand::Tool(name) => {
                describe_tools(environment, snapshot, name.as_deref()).await
            }
        }
    };
    // If its future is dropped anywhere, the store makes a change completely or not at all.
    cancel.run_until_cancelled(work).await.unwrap_or(Err(CommandError::Cancelled))
}

/// Returns the assets of the session and their store, opened.
async fn open_assets(
    environment: &SessionEnvironment,
) -> Result<(&SessionAssets, &Store), CommandError> {
    let assets = environment.assets.as_ref().ok_or(CommandError::NoAssets)?;
    Ok((assets, assets.store.open().await?))
}

async fn pin(environment: &SessionEnvironment, name: &str) -> Result<String, CommandError> {
    let (assets, store) = open_assets(environment).await?;
    let path = named(store, name).await?.path;
    Ok(display::pinned(&path, store.pin(&assets.agent, &path).await?))
}

async fn unpin(environment: &SessionEnvironment, name: &str) -> Result<String, CommandError> {
    let (assets, store) = open_assets(environment).await?;
    let path = named(store, name).await?.path;
    Ok(display::unpinned(&path, store.unpin(&assets.agent, &path).await?))
}

async fn list_pinned(environment: &SessionEnvironment) -> Result<String, CommandError> {
    let (assets, store) = open_assets(environment).await?;
    let pins = store.pins(&assets.agent).await?;
    let mut usage = store.usage(&assets.agent).await?;
    let summary = recent::metadata(environment).await?;
    let is_summary =
        |asset: &AssetMetadata| summary.as_ref().is_some_and(|it| it.path == asset.path);
    let pins: Vec<&AssetMetadata> = pins.iter().map(|pin| &pin.metadata).collect();
    let (own, pins): (Vec<_>, Vec<_>) = pins.into_iter().partition(|pin| is_summary(pin));
    let mut lines: Vec<String> = pins.into_iter().map(display::listed).collect();
    if let Some(summary) = &summary {
        // The summary counts once, with as much as is sent of it.
        let pinned = usage.pinned_tokens.saturating_sub(own.iter().map(|pin| pin.tokens).sum());
        let is_sent = recent::has_room(pinned, summary.tokens, assets.budget);
        usage.pinned_tokens = pinned + if is_sent { summary.tokens } else { 0 };
        usage.pinned_assets += u64::from(own.is_empty());
        let unsent = if is_sent { "" } else { ", not sent: the budget has no room for it" };
        let listed = display::listed(summary);
        lines.push(format!("{listed}, summary of earlier conversations{unsent}"));
    }
    lines.insert(0, display::pins_heading(&usage));
    Ok(lines.join("\n"))
}

async fn list_blocks(environment: &SessionEnvironment) -> Result<String, CommandError> {
    let (assets, store) = open_assets(environment).await?;
    let pins = store.pins(&assets.agent).await?;
    let usage = store.usage(&assets.agent).await?;
    let all = store.list("", None).await?;
    let shown = all.iter().filter(|asset| !asset.path.is_output());
    let line = |asset: &AssetMetadata| {
        let is_pinned = pins.iter().any(|pin| pin.metadata.path == asset.path);
        display::listed(asset) + if is_pinned { ", pinned" } else { "" }
    };
    let lines: Vec<String> = shown.map(line).collect();
    if lines.is_empty() {
        return Ok("No assets.".to_owned());
    }
    let budget = display::budget(&usage);
    Ok(format!("Assets (pinned: {budget} tokens):\n{}", lines.join("\n")))
}

async fn describe_tools(
    environment: &SessionEnvironment,
    snapshot: Option<&Arc<Snapshot>>,
    name: Option<&str>,
) -> Result<String, CommandError> {
    let snapshot = snapshot.ok_or(CommandError::NoTools)?;
    let Some(name) = name else { return Ok(tools::list(snapshot)) };
    let tool = snapshot.get(name).ok_or_else(|| CommandError::NoTool {
        name: name.to_owned(),
        nearest: nearest(name, snapshot.tools().map(Tool::name)).map(str::to_owned),
    })?;
    Ok(tools::show(&environment.host, tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> AgentCommand {
        AgentCommand::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn refused(line: &str) -> String {
        AgentCommand::parse(line).expect_err(line).to_string()
    }

    #[test]
    fn what_each_command_takes() {
        assert_eq!(read("/pin"), AgentCommand::Pin(None));
        assert_eq!(read("  /pin  \"a b\" "), AgentCommand::Pin(Some("a b".into())));
        assert_eq!(read("/unpin x"), AgentCommand::Unpin("x".into()));
        assert_eq!(read("/pinned"), AgentCommand::Pinned);
        assert_eq!(read("/blocks"), AgentCommand::Blocks);
        assert_eq!(read("/tool grep"), AgentCommand::Tool(Some("grep".into())));
        let compact = |target| AgentCommand::Compact { path: "x".into(), target };
        assert_eq!(read("/compact x"), compact(None));
        assert_eq!(read("/compact x 4000"), compact(Some(4000)));
        assert_eq!(read("/compact x 4k"), compact(Some(4000)));
    }

    #[test]
    fn what_is_not_taken() {
        assert_eq!(refused("/unpin"), "usage: /unpin PATH");
        assert_eq!(refused("/pinned now"), "usage: /pinned");
        assert_eq!(refused("/pin a b"), "usage: /pin [PATH]");
        for target in ["0", "-1", "many", "k", "99999999999999999999k"] {
            assert_eq!(refused(&format!("/compact x {target}")), "usage: /compact PATH [TOKENS]");
        }
        assert_eq!(refused("/pined"), "unknown command `/pined`; did you mean `/pinned`?");
        assert_eq!(refused("/xyz"), "unknown command `/xyz`");
        assert_eq!(refused(""), "unknown command ``");
        assert_eq!(refused("/pin \"a"), "a quotation has no end");
    }
}
