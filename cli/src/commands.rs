//! The commands of the program: their definitions for clap, and the function that runs each.

mod ask;
mod asset;
mod audit;
mod config;
mod doctor;
mod manual;
pub(crate) mod mcp;
mod policy;
mod precompile;
mod program;
mod reference;
mod repl;
pub(crate) mod session;
mod tool;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use rustix::process::{Resource, getrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::approval::ApprovalOptions;
use crate::complete;
use crate::end_signals::EndSignals;
use crate::error::CliError;
use crate::kept::ResumeOptions;
use crate::layers::{self, ParsedCommandLine};
use crate::logging::log_to_stderr;
use crate::model::ModelOptions;
use crate::options::SharedOptions;
use crate::output::{print_raw, report};
use crate::servers::logins::finish_renewals;
use ikigai_host::Reactor;
use ikigai_host::exec::native;

/// Runs the tools that a language model calls, and lets each touch only what you allow
#[derive(Debug, Parser)]
#[command(name = "ikigai", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: SharedOptions,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    resume: ResumeOptions,
    #[command(flatten)]
    approval: ApprovalOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask a model, which can call the tools
    ///
    /// The answer goes to stdout: streamed at a terminal, otherwise all at once. Calls and warnings go to stderr.
    #[command(after_help = ask::NOTES)]
    Ask(ask::Arguments),
    /// Find, inspect and call tools
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    /// Show and change what tools may access
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show and change the assets under ikigai://
    #[command(subcommand)]
    Asset(asset::AssetCommand),
    /// Show and change saved conversations
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Show the calls in the audit log, with their outcome
    ///
    /// Every call is recorded in $XDG_STATE_HOME/ikigai/audit.jsonl. Prints a table of all
    /// calls, the oldest first; flags select some of them. Times are in this machine's time zone.
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::Arguments),
    /// Offer ikigai's tools to MCP clients, and add tools from MCP servers
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Check this machine and report what is missing
    ///
    /// Exits 1 if policy requires something that the machine does not support. With --verify,
    /// checks a downloaded file of a release instead: its digest, and the signature of the list of
    /// digests. Then exits 1 if a check fails, or if the list has no signature by --key or by a
    /// signer in the policy.
    Doctor(doctor::Arguments),
    /// Show the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completion script for a shell
    ///
    /// The installer puts the scripts for bash, zsh and fish where these shells find them.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
    /// Compile the components of a directory into its own cache; for installers
    #[command(name = "__precompile", hide = true)]
    Precompile {
        /// The directory
        dir: PathBuf,
    },
    /// Write the manual pages into a directory; for installers
    #[command(name = "__manual", hide = true)]
    Manual {
        /// The directory
        dir: PathBuf,
    },
    /// Write the reference pages of the documentation into a directory
    #[command(name = "__reference", hide = true)]
    Reference {
        /// The directory
        dir: PathBuf,
    },
}

/// The open files that a command needs at once. A sandboxed call holds one for each path that its
/// tool sees.
const OPEN_FILES: u64 = 256;

/// The ways to load completions if ikigai is not installed.
const COMPLETIONS: &str = "Examples:\n  \
    source <(ikigai completions bash)     in ~/.bashrc\n  \
    source <(ikigai completions zsh)      in ~/.zshrc, after compinit\n  \
    ikigai completions fish | source      in ~/.config/fish/config.fish";

/// A command of the program, and the function that adds its arguments or its subcommands.
type CommandPart = (&'static str, fn(clap::Command) -> clap::Command);

/// The commands that do something.
const ACTIONS: [CommandPart; 3] = [
    ("ask", ask::Arguments::augment_args),
    ("audit", audit::Arguments::augment_args),
    ("doctor", doctor::Arguments::augment_args),
];

/// The commands that only group others.
const GROUPS: [CommandPart; 6] = [
    ("tool", tool::ToolCommand::augment_subcommands),
    ("policy", policy::PolicyCommand::augment_subcommands),
    ("asset", asset::AssetCommand::augment_subcommands),
    ("session", session::SessionCommand::augment_subcommands),
    ("mcp", mcp::McpCommand::augment_subcommands),
    ("config", config::ConfigCommand::augment_subcommands),
];

impl Cli {
    /// Returns the definition of the most common commands, without texts. clap makes the parts of
    /// a command only if the line names it. In a trace of `tool call`, making all of them took 2.4
    /// of 7 ms.
    fn quick_definition() -> clap::Command {
        let program = SharedOptions::augment_args(clap::Command::new("ikigai"));
        let program = ResumeOptions::augment_args(ModelOptions::augment_args(program));
        let program = ApprovalOptions::augment_args(program);
        let actions = ACTIONS.map(|(name, parts)| clap::Command::new(name).defer(parts));
        let groups = GROUPS.map(|(name, parts)| {
            let group = clap::Command::new(name).defer(parts);
            group.subcommand_required(true).arg_required_else_help(true)
        });
        program.subcommands(actions).subcommands(groups)
    }

    /// Reads the command line of this process. Prints help and usage errors itself, and then
    /// returns the exit code as the error.
    fn read() -> Result<Self, ExitCode> {
        let ParsedCommandLine { matches, config, set } =
            layers::read(Self::command, Self::quick_definition)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(layers::print)?;
        cli.options.set = set;
        cli.options.config = config;
        Ok(cli)
    }
}

/// Returns the definition of the commands.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub(crate) fn main() -> ExitCode {
    if let Some(result) = complete::answer(Cli::command) {
        return result.unwrap_or_else(report);
    }
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    log_to_stderr(cli.options.verbose);
    native::settle_signals();
    dispatch(cli).unwrap_or_else(report)
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let options = &cli.options;
    let Some(command) = cli.command else {
        return block_on(repl::run(options, cli.model, cli.resume, cli.approval));
    };
    match command {
        Command::Tool(command) => block_on(tool::run(options, command, cli.approval)),
        Command::Ask(arguments) => {
            block_on(ask::run(options, arguments.or(cli.model, cli.approval)))
        }
        Command::Asset(command) => block_on(asset::run(options, command)),
        Command::Session(command) => block_on(session::run(options, command)),
        Command::Audit(arguments) => block_on(audit::run(options, arguments)),
        Command::Doctor(arguments) => block_on(doctor::run(options, arguments)),
        Command::Mcp(command) => block_on(mcp::run(options, command, Cli::command)),
        Command::Policy(command) => block_on(policy::run(options, command)),
        Command::Config(command) => {
            block_on(config::run(options, command, cli.model, cli.approval))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            complete::write_script(shell, &mut script)?;
            print_raw(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Manual { dir } => manual::write(&dir),
        Command::Reference { dir } => reference::write(&dir),
        Command::Precompile { dir } => block_on(precompile::run(dir, cli.options.paths().compiler)),
    }
}

/// Runs a command on a runtime of one thread. Components have their own threads and native tools
/// are processes. More threads would cost more to start than a call.
fn block_on(
    command: impl Future<Output = Result<ExitCode, CliError>>,
) -> Result<ExitCode, CliError> {
    check_open_files()?;
    let mut reactor = Reactor::new()?;
    let code = reactor.block_on(async {
        let code = command.await;
        finish_renewals().await;
        code
    });
    // Dropping the reactor would wait for threads that are stuck in the kernel, and for the kernel
    // to dismantle a supervisor's namespace (2 ms for each native call). The threads end with this
    // process.
    reactor.forget();
    code
}

/// Refuses to start with so few open files that parts of a command would fail, each in its own way.
fn check_open_files() -> Result<(), CliError> {
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < OPEN_FILES => {
            let what = format!("ikigai may open only {most} files, and needs {OPEN_FILES}");
            let error = CliError::failed(anyhow::Error::msg(what));
            Err(error.hint(format!("raise the limit: `ulimit -n {OPEN_FILES}`")))
        }
        _ => Ok(()),
    }
}

/// Returns a token that Ctrl-C, SIGTERM, the end of the terminal and the other signals cancel that
/// would end this process. A call and all that it started then end with the host, and what a tool
/// may not leave behind is set aside.
fn cancelled_by_signals() -> Result<CancellationToken, CliError> {
    let cancel = CancellationToken::new();
    let mut ends = EndSignals::new()?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = cancel.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = ends.next() => {}
        }
        token.cancel();
    });
    Ok(cancel)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    use clap::Arg;
    use clap::error::ErrorKind;
    use strum::VariantArray as _;

    use super::*;
    use crate::help::{self, Topic, front_page};

    /// Calls `look` with each command that does something, and its path.
    fn each(
        command: &clap::Command,
        path: &[&str],
        look: &mut impl FnMut(&clap::Command, &[&str]),
    ) {
        if !command.has_subcommands() || path.is_empty() {
            look(command, path);
        }
        for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
            let path = [path, &[below.get_name()]].concat();
            each(below, &path, look);
        }
    }

    /// Returns the names in a command and below it: of its flags and arguments, and of its
    /// subcommands with theirs. Manual pages and help are made of the whole definition only.
    fn names_below(command: &clap::Command) -> BTreeSet<String> {
        let own = command.get_arguments().map(|arg| {
            let required = if arg.is_required_set() { "!" } else { "" };
            format!("{} {:?}{required}", arg.get_id(), arg.get_num_args())
        });
        let below = command.get_subcommands().filter(|it| it.get_name() != "help").flat_map(|it| {
            let name = it.get_name();
            names_below(it).into_iter().map(move |below| format!("{name} {below}"))
        });
        own.chain(below).filter(|name| !name.contains("version ")).collect()
    }

    #[test]
    fn the_quick_definition_has_the_same_commands() {
        let built = |mut program: clap::Command| {
            program.build();
            program
        };
        let (whole, quick) = (built(definition()), built(Cli::quick_definition()));
        for (name, _) in ACTIONS.iter().chain(&GROUPS) {
            let of =
                |program: &clap::Command| names_below(program.find_subcommand(name).expect("one"));
            assert_eq!(of(&quick), of(&whole), "{name}");
        }
        let visible = whole.get_subcommands().filter(|it| !it.is_hide_set());
        let others = visible.filter(|it| quick.find_subcommand(it.get_name()).is_none());
        assert_eq!(others.map(clap::Command::get_name).collect::<Vec<_>>(), ["completions"]);
        Cli::quick_definition().debug_assert();
    }

    #[test]
    fn the_version_is_the_one_of_the_definition() {
        assert_eq!(layers::VERSION, definition().render_version());
    }

    #[test]
    fn a_command_takes_every_shared_flag_and_shows_some() {
        let mut command = help::with_shared_flags(Cli::command());
        command.build();
        let shared = SharedOptions::augment_args(clap::Command::new("ikigai"));
        each(&command, &[], &mut |command, path| {
            // The front page chooses the flags that it shows separately.
            if path.is_empty() {
                return;
            }
            let found = |arg: &Arg| {
                let found = command.get_arguments().find(|it| it.get_id() == arg.get_id());
                found.unwrap_or_else(|| panic!("{path:?} has no {arg}")).clone()
            };
            for arg in shared.get_arguments() {
                let found = found(arg);
                let shown = !found.is_hide_set();
                let heading = arg.get_help_heading();
                let belongs = heading.is_none_or(|heading| help::headings(path).contains(&heading));
                assert_eq!(shown, belongs && !arg.is_hide_set(), "{path:?} {arg}");
                let short = shown && !found.is_hide_short_help_set();
                assert_eq!(short, heading.is_none(), "{path:?} {arg}");
            }
        });
    }

    /// Returns the texts in backquotes between two texts of a page.
    fn spans(page: &str, from: &str, to: &str) -> Vec<String> {
        let (_, part) = page.split_once(from).expect("the part begins");
        let (part, _) = part.split_once(to).expect("the part ends");
        let cells = part.lines().filter_map(|line| line.strip_prefix("| "));
        let cells = cells.filter_map(|line| line.split(" | ").next());
        let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        spans.map(|span| span.replace("\\|", "|")).collect()
    }

    /// Returns whether a text names a command; `session list|show` names two.
    fn names(span: &str, path: &[&str]) -> bool {
        let mut words = span.split_whitespace();
        path.iter()
            .all(|name| words.next().is_some_and(|word| word.split('|').any(|it| it == *name)))
    }

    #[test]
    fn the_json_that_a_command_prints_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/json-output.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let printing = spans(&page, "| command | prints |", "If the policy forbids");
        let mut command = Cli::command();
        command.build();
        let mut missing = Vec::new();
        each(&command, &[], &mut |command, path| {
            if path.is_empty() || command.is_hide_set() {
                return;
            }
            let prints_json = command.get_arguments().any(|it| it.get_id() == "json");
            if prints_json && !printing.iter().any(|span| names(span, path)) {
                missing.push(format!("the JSON of `{}`", path.join(" ")));
            }
        });
        assert!(missing.is_empty(), "docs/reference does not have {}", missing.join(", "));
        assert!(names("a|b c|d [JSON|@FILE]", &["b", "d"]) && !names("a b", &["a", "c"]));
    }

    #[test]
    fn every_command_is_in_a_group_of_the_front_page() {
        let program = definition();
        let listed: Vec<&str> =
            front_page::GROUPS.iter().flat_map(|(_, commands)| *commands).copied().collect();
        for path in &listed {
            let found = front_page::command(&program, path);
            let found = found.unwrap_or_else(|| panic!("there is no `{path}`"));
            assert!(found.get_about().is_some() && !found.is_hide_set(), "{path}");
        }
        for command in program.get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = command.get_name();
            let is_listed = listed.iter().any(|path| path.split(' ').next() == Some(name));
            assert!(is_listed, "no group has `{name}`");
        }
    }

    #[test]
    fn the_front_page_is_short_and_the_same_in_both_forms() {
        let page = |flag| {
            let program = help::with_shared_flags(definition());
            program.try_get_matches_from(["ikigai", flag]).expect_err("help").to_string()
        };
        let short = page("-h");
        assert_eq!(short, page("--help"));
        assert!(short.lines().count() < 70, "{short}");
        for flag in front_page::FLAGS {
            assert!(short.contains(&format!("--{flag}")), "{flag}: {short}");
        }
        assert!(!short.contains("--provider") && !short.contains("--store"), "{short}");
    }

    /// Returns the commands in the indented lines of a page: the text before two spaces.
    fn shown_commands(page: &str) -> impl Iterator<Item = &str> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("  "));
        let lines = lines.filter(|line| line.starts_with("ikigai "));
        lines.map(|line| line.split_once("  ").map_or(line, |(command, _)| command))
    }

    #[test]
    fn every_command_on_a_page_of_help_is_one() {
        let front = help::with_shared_flags(definition()).render_help().to_string();
        // These two lines are placeholders for many commands.
        let front = front.replace("help COMMAND", "help tool call").replace("help TOPIC", "help");
        let pages = Topic::VARIANTS.iter().map(|topic| topic.text(definition())).chain([front]);
        let mut seen = 0;
        for page in pages {
            for command in shown_commands(&page) {
                let line = shlex::split(command).expect("words").into_iter().map(OsString::from);
                let mistake = crate::tool_flags::read(definition, &line.collect::<Vec<_>>()).err();
                let kind = mistake.as_ref().map(clap::Error::kind);
                let is_read = kind.is_none_or(|kind| kind == ErrorKind::DisplayHelp);
                assert!(is_read, "{command}: {mistake:?}");
                seen += 1;
            }
            let widest = page.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(102), "a line of {widest:?} characters: {page}");
        }
        assert!(seen > 20, "{seen}");
    }
}
