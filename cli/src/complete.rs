//! Completion in shells: the candidates for the word that the user is typing.
//!
//! A shell's script calls this program at each Tab, with [`VARIABLE`] set and the words of the line
//! after `--`. Completion runs and compiles nothing: it offers the tools that discovery remembers.
//! If the asset store does not answer at once, it offers no assets.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use clap::FromArgMatches as _;
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{EnvCompleter, Shells};
use ikigai_assets::{Agent, AssetPath, Error, SessionFilter, SessionSummary, Store};
use ikigai_terminal::sanitize;

use crate::error::CliError;
use crate::help;
use crate::layers::{self, CommandDefinition};
use crate::options::SharedOptions;
use crate::output::print_raw;
use crate::variables::ProgramVariable;
use ikigai_host::registry;

/// The variable with the name of the shell that asks. Only the scripts set it.
const VARIABLE: ProgramVariable = ProgramVariable::IkigaiComplete;

/// The name of this program in the scripts.
const NAME: &str = "ikigai";

/// The longest time that a completion waits for the asset store.
const STORE_TIMEOUT: Duration = Duration::from_millis(300);

/// The end of the zsh script. At the first Tab, zsh loads the script from a directory of functions.
/// The script by `clap_complete` then only registers the completer; this line runs it.
const ZSH_AUTOLOADED: &str =
    "\nif [[ $funcstack[1] = _ikigai ]]; then _clap_dynamic_completer_ikigai \"$@\"; fi\n";

/// The commands of the program. Completers parse the line with them. [`answer`] sets them, because
/// clap passes only the word to a completer.
static COMMANDS: OnceLock<CommandDefinition> = OnceLock::new();

/// Answers a shell that asks for candidates; `None` if no shell asks.
pub(crate) fn answer(commands: CommandDefinition) -> Option<Result<ExitCode, CliError>> {
    let shell = VARIABLE.value().filter(|shell| !shell.is_empty())?;
    Some(complete(&shell, *COMMANDS.get_or_init(|| commands)))
}

fn complete(shell: &OsStr, commands: CommandDefinition) -> Result<ExitCode, CliError> {
    let Some(completer) = shell.to_str().and_then(completer) else {
        let text = format!("{VARIABLE}: `{}` is not a shell with completions", shell.display());
        return Err(CliError::usage(anyhow::Error::msg(text)));
    };
    let mut offered = Vec::new();
    let here = env::current_dir().ok();
    let mut program = help::with_shared_flags(commands());
    completer.write_complete(&mut program, words(), here.as_deref(), &mut offered)?;
    print_raw(&offered)?;
    Ok(ExitCode::SUCCESS)
}

fn completer(shell: &str) -> Option<&'static dyn EnvCompleter> {
    Shells::builtins().0.iter().copied().find(|it| it.is(shell))
}

/// Writes the script that makes a shell ask this program.
pub(crate) fn write_script(shell: Shell, script: &mut Vec<u8>) -> std::io::Result<()> {
    let name = shell.to_string();
    let unknown = || std::io::Error::other(format!("there are no completions for `{name}`"));
    let completer = completer(&name).ok_or_else(unknown)?;
    completer.write_registration(VARIABLE.name(), NAME, NAME, NAME, script)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(ZSH_AUTOLOADED.as_bytes());
    }
    Ok(())
}

/// Returns the words of the line, this program first.
fn words() -> Vec<OsString> {
    env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

/// Returns the shared flags of the line so far, which override the environment and the files.
/// Ignores mistakes, since the command reports them when it runs.
fn options() -> Option<SharedOptions> {
    let config = layers::load().unwrap_or_default();
    let commands = COMMANDS.get()?;
    let command = layers::with_defaults(commands(), &config).ignore_errors(true);
    let read = |line: Vec<OsString>| {
        let matches = command.clone().try_get_matches_from(line).ok()?;
        SharedOptions::from_arg_matches(&matches).ok()
    };
    read(words()).or_else(|| read(vec![NAME.into()]))
}

/// Returns a completer that offers the names of tools.
pub(crate) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(remembered)
}

fn remembered() -> Vec<CompletionCandidate> {
    let Some(options) = options() else { return Vec::new() };
    let tools = registry::remembered(&options.paths()).into_iter();
    let candidate = |(name, description): (String, String)| {
        let first_line = sanitize(description.lines().next().unwrap_or_default()).into_owned();
        CompletionCandidate::new(name).help(Some(first_line.into()))
    };
    tools.map(candidate).collect()
}

/// Returns a completer that offers the names of MCP servers.
pub(crate) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let dir = options().and_then(|options| options.paths().user_tools);
        let names = dir.map(|dir| registry::defined_servers(&dir)).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Returns a completer that offers the names of tools and paths of files for the first word, and
/// paths for the following ones.
pub(crate) fn tools_and_files() -> ArgValueCompleter {
    ArgValueCompleter::new(ToolsAndFiles)
}

struct ToolsAndFiles;

impl ValueCompleter for ToolsAndFiles {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        self.complete_at(0, current)
    }

    fn complete_at(&self, index: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        let paths = PathCompleter::file().complete(current);
        let tools = if index == 0 { remembered() } else { Vec::new() };
        let begins = |it: &CompletionCandidate| begins_with(it.get_value(), current);
        tools.into_iter().filter(begins).chain(paths).collect()
    }
}

fn begins_with(text: &OsStr, beginning: &OsStr) -> bool {
    text.as_encoded_bytes().starts_with(beginning.as_encoded_bytes())
}

/// Returns a completer that offers the paths of assets, or short names if no path begins with
/// the word.
pub(crate) fn assets() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let all = paths_of_assets(current).unwrap_or_default();
        let offered = |name: &&str| name.starts_with(current);
        let mut found: BTreeSet<&str> =
            all.iter().map(|path| path.as_str()).filter(offered).collect();
        if found.is_empty() {
            found = all.iter().flat_map(|path| path.names()).filter(offered).collect();
        }
        found.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Returns the paths of all assets. Includes outputs of tools only if the word begins like the path
/// of an output.
fn paths_of_assets(typed: &str) -> Option<Vec<AssetPath>> {
    let listed = from_store(async |store, _| store.list("", None).await)?;
    let is_asked = |path: &AssetPath| !path.is_output() || typed.starts_with("outputs");
    Some(listed.into_iter().map(|asset| asset.path).filter(is_asked).collect())
}

/// Returns a completer that offers the ids of sessions with their titles, the newest first. If no
/// id begins with the word, it offers the sessions whose title does.
pub(crate) fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let all = newest_sessions().unwrap_or_default();
        let with_id = |session: &SessionSummary, offered: String| {
            let title = session.title.as_deref().map(|title| sanitize(title).into_owned().into());
            CompletionCandidate::new(offered).help(title)
        };
        let ids = all.iter().map(|session| (session, session.id.to_string()));
        let found: Vec<_> = ids.filter(|(_, id)| id.starts_with(current)).collect();
        if !found.is_empty() {
            return found.into_iter().map(|(session, id)| with_id(session, id)).collect();
        }
        let lower = current.to_lowercase();
        let begins = |session: &&SessionSummary| {
            session.title.as_ref().is_some_and(|title| title.to_lowercase().starts_with(&lower))
        };
        all.iter().filter(begins).map(|session| with_id(session, word_for(session))).collect()
    })
}

/// Returns the title of a session if every shell reads it as one word, and the id otherwise. A
/// shell inserts the offered text unchanged.
fn word_for(session: &SessionSummary) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let title = session.title.as_ref();
    let plain = title.filter(|title| title.chars().all(is_plain) && !title.starts_with('-'));
    plain.cloned().unwrap_or_else(|| session.id.to_string())
}

/// Returns the newest sessions of all workspaces.
fn newest_sessions() -> Option<Vec<SessionSummary>> {
    /// More sessions than a user reads through.
    const OFFERED: u32 = 200;
    from_store(async |store, agent| {
        let filter = SessionFilter { agent, workspace: None };
        store.sessions(&filter, Some(OFFERED)).await
    })
}

/// Returns the store's answer, if the store exists and answers in time.
fn from_store<T>(ask: impl AsyncFnOnce(&Store, &Agent) -> Result<T, Error>) -> Option<T> {
    let options = options()?;
    let (assets, agent) = (options.assets().ok()?, options.agent().ok()?);
    if !assets.may_hold_assets() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answered = runtime.block_on(async {
        let ask = async { ask(assets.open().await?, &agent).await };
        tokio::time::timeout(STORE_TIMEOUT, ask).await
    });
    // If a task still waits for the store, it ends with this process.
    runtime.shutdown_background();
    answered.ok()?.ok()
}
