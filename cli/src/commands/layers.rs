//! The command line over the environment over the configuration files.
//!
//! What a file says of a flag becomes the flag's default, so that a value is read in one
//! way wherever it stands.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command, CommandFactory as _, FromArgMatches as _};

use ikigai_provider::Provider;

use super::error::{self, CliError};
use super::options::{Options, Origin};
use super::{Cli, help, say};
use crate::config::{Config, Setting};
use ikigai_host::paths::Paths;

/// Reads the command line of this process. What is asked for in it alone, such as help, is
/// answered here; the error is the exit code then.
pub(super) fn read() -> Result<Cli, u8> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let told = |error: clap::Error| {
        // A failure to print help leaves nothing to tell it to.
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(error::USAGE)
    };
    // By itself first: help and mistakes of the line do not depend on files.
    let matches = Cli::command().try_get_matches_from(&line);
    let matches = matches.or_else(|error| {
        if is_help(&error) { help::command().try_get_matches_from(&line) } else { Err(error) }
    });
    let matches = matches.map_err(told)?;
    only_with_models(&matches).map_err(told)?;
    let config = if matches.subcommand_name() == Some("completions") {
        // A shell that starts with them must not fail for a file.
        Config::default()
    } else {
        load().map_err(|error| {
            say(&error.text());
            error.exit
        })?
    };
    let matches = match config.settings().next() {
        None => matches,
        Some(_) => with_defaults(&config).try_get_matches_from(&line).map_err(told)?,
    };
    let mut cli = Cli::from_arg_matches(&matches).map_err(told)?;
    cli.options.origins = origins(&matches, &config);
    cli.options.config = config;
    Ok(cli)
}

fn is_help(error: &clap::Error) -> bool {
    let kind = error.kind();
    kind == ErrorKind::DisplayHelp || kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Refuses the flags of a model before a command that asks none, where they would be ignored.
fn only_with_models(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(command) = matches.subcommand_name() else { return Ok(()) };
    if matches!(command, "ask" | "config") {
        return Ok(());
    }
    let is_given = |key: &&str| matches.value_source(key) == Some(ValueSource::CommandLine);
    match ["provider", "model", "system"].into_iter().find(is_given) {
        None => Ok(()),
        Some(key) => Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            format!("`--{key}` before `{command}` has no meaning: no model is asked there"),
        )),
    }
}

pub(super) fn load() -> Result<Config, CliError> {
    let config = Config::load(&Paths::of_user())?;
    for (key, setting) in config.settings() {
        check(key, setting)?;
    }
    Ok(config)
}

/// The flags that every command shares, by themselves.
fn shared() -> Command {
    Options::augment_args(Command::new("ikigai").no_binary_name(true))
}

/// The flag of a key of the files.
fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// Reads a value as its flag would.
fn check(key: &str, setting: &Setting) -> Result<(), CliError> {
    let Setting { path, position, .. } = setting;
    let place = format!("{}:{}:{}", path.display(), position.line, position.column);
    if key == "provider"
        && let Err(error) = setting.value.parse::<Provider>()
    {
        return Err(CliError::usage(anyhow::Error::new(error).context(place)));
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

/// The commands, with what the files say as the defaults of the shared flags.
pub(super) fn with_defaults(config: &Config) -> Command {
    let shared = shared();
    let is_shared = |key: &str| shared.get_arguments().any(|arg| arg.get_id() == key);
    config.settings().filter(|(key, _)| is_shared(key)).fold(Cli::command(), |command, it| {
        let (key, setting) = it;
        // Once in the life of the process, whose commands are made of static words.
        let value: &'static str = Box::leak(setting.value.clone().into_boxed_str());
        command.mut_arg(key, |arg| arg.default_value(value).hide_default_value(true))
    })
}

fn origins(matches: &ArgMatches, config: &Config) -> BTreeMap<&'static str, Origin> {
    let shared = shared();
    let mut origins = BTreeMap::new();
    for key in Config::keys() {
        let Some(arg) = shared.get_arguments().find(|arg| arg.get_id() == key) else { continue };
        let from = match (matches.value_source(key), config.setting(key)) {
            (Some(ValueSource::CommandLine), _) => flag(key),
            (Some(ValueSource::EnvVariable), _) => {
                arg.get_env().unwrap_or_default().to_string_lossy().into_owned()
            }
            (Some(_), Some(setting)) => setting.place(),
            _ => continue,
        };
        let raw = matches.get_raw(key).into_iter().flatten().next();
        // A switch on the command line has no text.
        let value = raw.map_or("true".into(), |raw| raw.to_string_lossy());
        origins.insert(key, Origin { from, value: value.into_owned() });
    }
    origins
}
