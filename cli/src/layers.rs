//! The layers of settings: the command line overrides the environment, which overrides the
//! configuration files.
//!
//! A file's value for a flag becomes the default of the flag, so that the values of all layers are
//! parsed in the same way.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};

use ikigai_provider::Provider;

use crate::approval;
use crate::config::{Config, Setting, SettingSource};
use crate::error::{self, CliError};
use crate::help;
use crate::model;
use crate::options::{SetFlag, SharedOptions};
use crate::output::{self, report};
use crate::tool_flags;
use ikigai_host::paths::Paths;
use ikigai_host::registry;

/// A function that makes the definition of the program's commands.
pub(crate) type CommandDefinition = fn() -> Command;

/// The answer to `ikigai --version`, as clap has it.
pub(crate) const VERSION: &str = concat!("ikigai ", env!("CARGO_PKG_VERSION"), "\n");

/// The command line of this process, with the values from the environment and the files.
pub(crate) struct ParsedCommandLine {
    /// The values of flags and arguments.
    pub(crate) matches: ArgMatches,
    /// The configuration files.
    pub(crate) config: Config,
    /// The shared flags that were set.
    pub(crate) set: BTreeMap<&'static str, SetFlag>,
}

/// Reads the command line of this process. Prints help and usage errors itself, and then returns
/// the exit code as the error. `quick` defines the same commands as `commands`, or fewer; `commands`
/// is used if that is not enough, and for all messages.
pub(crate) fn read(
    commands: CommandDefinition,
    quick: CommandDefinition,
) -> Result<ParsedCommandLine, ExitCode> {
    let mut line: Vec<OsString> = std::env::args_os().collect();
    if is_only(&line, ["--version", "-V"]) {
        return Err(output::print(VERSION).map_or_else(report, |()| ExitCode::SUCCESS));
    }
    if let Some(topic) = help::asked_topic(&line) {
        return Err(
            output::print(&topic.text(commands())).map_or_else(report, |()| ExitCode::SUCCESS)
        );
    }
    let with_all_flags = || help::with_shared_flags(commands());
    // First parse without the files, since help and usage errors do not depend on them.
    let quickly_read = quick().try_get_matches_from(&line);
    let definition = if quickly_read.is_ok() { quick } else { commands };
    let read = if let Ok(matches) = quickly_read {
        Ok((matches, Vec::new()))
    } else if is_only(&line, ["--help", "-h"]) {
        tool_flags::read(with_all_flags, &line)
    } else {
        tool_flags::read(commands, &line).or_else(|error| {
            if !is_help(&error) {
                return Err(error);
            }
            if let Some(asking) = tool_flags::asking_about_tool(commands, &line) {
                line = asking;
                return tool_flags::read(commands, &line);
            }
            tool_flags::read(with_all_flags, &line)
        })
    };
    let better = |error: &clap::Error| {
        let is_unknown = error.kind() == ErrorKind::InvalidSubcommand;
        is_unknown.then(|| help::unknown_command(error, &commands(), &line, is_tool)).flatten()
    };
    let (matches, of_tool) = read.map_err(|error| match better(&error) {
        Some(better) => report(better),
        None => print(tool_flags::advise(error, &line)),
    })?;
    only_with_models(&matches, commands).map_err(print)?;
    let config = if matches.subcommand_name() == Some("completions") {
        // A shell that loads completions when it starts must not fail because of a file.
        Config::default()
    } else {
        load().map_err(report)?
    };
    let matches = match config.settings().next() {
        None => matches,
        Some(_) => {
            let program = tool_flags::with_flags(definition(), &of_tool);
            with_defaults(program, &config).try_get_matches_from(&line).map_err(print)?
        }
    };
    let set = set_flags(&matches, &config);
    Ok(ParsedCommandLine { matches, config, set })
}

/// Returns whether a line has only one word after the program, and it is one of these flags. Such a
/// line is answered without the definition of all commands.
fn is_only(line: &[OsString], flags: [&str; 2]) -> bool {
    matches!(line, [_, word] if flags.iter().any(|flag| word == flag))
}

/// Prints help or a usage error, and returns the exit code.
pub(crate) fn print(error: clap::Error) -> ExitCode {
    let printed = error.print();
    match (u8::try_from(error.exit_code()), printed) {
        (Ok(0), Err(error)) => report(error.into()),
        // A usage error goes to stderr. If stderr is gone, the failure cannot be reported.
        (code, _) => ExitCode::from(code.unwrap_or(error::USAGE)),
    }
}

/// Returns whether a tool probably has this name. Does not run any tool to find out.
fn is_tool(name: &str) -> bool {
    let matches = shared().try_get_matches_from(std::iter::empty::<OsString>());
    let options = matches.and_then(|matches| SharedOptions::from_arg_matches(&matches));
    let Ok(paths) = options.map(|options| options.paths()) else { return false };
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let mut dirs = [&paths.system_tools, &paths.user_tools].into_iter().flatten();
    let has_file =
        |dir: &PathBuf| dir.join(name).is_file() || dir.join(format!("{name}.wasm")).is_file();
    is_word && (dirs.any(has_file) || registry::remembered(&paths).contains_key(name))
}

fn is_help(error: &clap::Error) -> bool {
    let kind = error.kind();
    kind == ErrorKind::DisplayHelp || kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Refuses conversation flags before a command, and model flags before a command that asks no
/// model, since they would be ignored.
fn only_with_models(matches: &ArgMatches, commands: CommandDefinition) -> Result<(), clap::Error> {
    let Some(command) = matches.subcommand_name() else { return Ok(()) };
    let is_given = |key: &&str| matches.value_source(key) == Some(ValueSource::CommandLine);
    if let Some(key) = ["continue", "resume"].into_iter().find(is_given) {
        let what = format!("`--{key}` has no effect before `{command}`");
        return Err(commands().error(ErrorKind::ArgumentConflict, what));
    }
    if matches!(command, "ask" | "config") {
        return Ok(());
    }
    let below = matches.subcommand().and_then(|(_, below)| below.subcommand_name());
    if is_given(&approval::KEY) && !(command == "tool" && matches!(below, Some("call" | "run"))) {
        let what = format!("`--approve` has no effect before `{command}`, which never asks you");
        return Err(commands().error(ErrorKind::ArgumentConflict, what));
    }
    let of_model = ["provider", "model", "system", "effort", "agents_md", "auto_summary"];
    match of_model.into_iter().find(is_given) {
        None => Ok(()),
        Some(key) => Err(commands().error(
            ErrorKind::ArgumentConflict,
            format!("`{}` has no effect on `{command}`, which does not ask a model", flag(key)),
        )),
    }
}

/// Reads the configuration files and checks the flag values in them.
pub(crate) fn load() -> Result<Config, CliError> {
    let config = Config::load(&Paths::of_user())?;
    for (key, setting) in config.settings() {
        check(key, setting)?;
    }
    Ok(config)
}

/// Returns a command with the shared flags only.
fn shared() -> Command {
    SharedOptions::augment_args(Command::new("ikigai").no_binary_name(true))
}

/// Returns the flag for a key of the configuration files.
fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// Checks a value in a file as if it had been given with its flag.
fn check(key: &str, setting: &Setting) -> Result<(), CliError> {
    let Setting { path, position, .. } = setting;
    let place = format!("{}:{}:{}", path.display(), position.line, position.column);
    if key == "provider"
        && let Err(error) = setting.value.parse::<Provider>()
    {
        return Err(CliError::usage(anyhow::Error::new(error).context(place)));
    }
    if matches!(key, "agents_md" | "auto_summary")
        && let Err(error) = model::check_on_off(key, &setting.value)
    {
        return Err(CliError::usage(error.context(place)));
    }
    if key == approval::KEY
        && let Err(error) = approval::check(&setting.value)
    {
        return Err(CliError::usage(error.context(place)));
    }
    let shared = shared();
    let takes_value = |arg: &clap::Arg| arg.get_id() == key && arg.get_action().takes_values();
    if !shared.get_arguments().any(takes_value) {
        return Ok(());
    }
    let Err(error) = shared.try_get_matches_from([format!("{}={}", flag(key), setting.value)])
    else {
        return Ok(());
    };
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    Err(CliError::usage(anyhow::Error::msg(format!("{place}: {what}"))))
}

/// Returns the commands, with the values in the files as defaults of the shared flags.
pub(crate) fn with_defaults(program: Command, config: &Config) -> Command {
    let shared = shared();
    let is_shared = |key: &str| shared.get_arguments().any(|arg| arg.get_id() == key);
    config.settings().filter(|(key, _)| is_shared(key)).fold(program, |command, it| {
        let (key, setting) = it;
        // This happens once per process: clap's definitions need static strings.
        let value: &'static str = Box::leak(setting.value.clone().into_boxed_str());
        command.mut_arg(key, |arg| arg.default_value(value).hide_default_value(true))
    })
}

/// Returns the shared flags that were set, by the keys of the configuration.
fn set_flags(matches: &ArgMatches, config: &Config) -> BTreeMap<&'static str, SetFlag> {
    let shared = LazyCell::new(shared);
    let mut set = BTreeMap::new();
    for key in Config::keys() {
        let is_known = matches.try_contains_id(key).unwrap_or(false);
        let source = is_known.then(|| matches.value_source(key)).flatten();
        let is_given = matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable));
        // Most often no flag is given, and the definitions of the flags are not needed.
        if !is_given && config.setting(key).is_none() {
            continue;
        }
        let Some(arg) = shared.get_arguments().find(|arg| arg.get_id() == key) else { continue };
        let provenance = match (source, config.setting(key)) {
            (Some(ValueSource::CommandLine), _) => SettingSource::Flag(flag(key)),
            (Some(ValueSource::EnvVariable), _) => {
                let variable = arg.get_env().unwrap_or_default();
                SettingSource::Variable(variable.to_string_lossy().into_owned())
            }
            (Some(_), Some(setting)) => setting.provenance(),
            _ => continue,
        };
        let raw = matches.get_raw(key).into_iter().flatten().next();
        // A switch on the command line has no value.
        let value = raw.map_or("true".into(), |raw| raw.to_string_lossy());
        set.insert(key, SetFlag { provenance, value: value.into_owned() });
    }
    set
}
