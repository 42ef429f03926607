//! `ikigai tool`: tools are found, inspected and called.

pub(super) mod call;
mod check;
pub(super) mod list;
mod run;
mod schema;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::CliError;
use crate::options::Options;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the tools that can be called
    List(list::Arguments),
    /// Show everything known of one tool
    Show(show::Arguments),
    /// Call a tool with JSON and print the envelope
    ///
    /// Exits 0 only if the tool ran and answered, even if the answer reports an error.
    Call(call::Arguments),
    /// Run a tool by the bare protocol: stdin, stdout and exit code as they are
    ///
    /// The same limits and grants hold as in a call. Exits with the tool's code; 124 if a
    /// limit ended it, 126 if it could not be started or policy forbids it, 2 if there is no
    /// such tool.
    Run(run::Arguments),
    /// Print the schemas of tools as a model receives them
    Schema(schema::Arguments),
    /// Check whether a file is a good tool
    ///
    /// Runs it with --schema and with malformed arguments, under the host's limits. A native
    /// file runs with your rights, unconfined, unless a grant has its digest; only --schema
    /// always runs in the sandbox.
    Check(check::Arguments),
}

pub(super) async fn run(options: &Options, command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::List(arguments) => list::run(options, arguments).await,
        Command::Show(arguments) => show::run(options, arguments).await,
        Command::Call(arguments) => call::run(options, arguments).await,
        Command::Run(arguments) => run::run(options, arguments).await,
        Command::Schema(arguments) => schema::run(options, arguments).await,
        Command::Check(arguments) => check::run(options, arguments).await,
    }
}
