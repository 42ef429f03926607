//! `ikigai tool`: finding, inspecting and calling tools.

mod build;
pub(super) mod call;
mod check;
mod fetch;
mod install;
mod installation;
pub(super) mod list;
pub(super) mod named;
mod new;
mod outdated;
mod push;
mod remove;
mod run;
mod schema;
mod show;
mod sync;
mod target;
mod test;
mod update;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

use crate::approval::ApprovalOptions;
use crate::error::CliError;
use crate::options::SharedOptions;

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools that can be called
    List(list::Arguments),
    /// Show the details of a tool
    Show(show::Arguments),
    /// Call a tool with JSON or with flags, and print its result as JSON
    ///
    /// Prints the envelope, the JSON object with the result or the error of the call. If the tool
    /// ran and answered, exits 0, even if the answer reports an error. Otherwise, exits with another code.
    #[command(after_help = call::EXAMPLES)]
    Call(call::Arguments),
    /// Run a tool directly, with raw stdin, stdout and exit code
    ///
    /// The same limits and grants apply as in a call. Exits with the tool's code, with 124 if a limit ended it, 126
    /// if it could not be started or policy forbids it, and 2 if the tool does not exist.
    Run(run::Arguments),
    /// Print tool schemas as a model receives them
    Schema(schema::Arguments),
    /// Check whether a file is a valid tool
    ///
    /// Runs the file with --schema and with malformed arguments, under the host's limits. If a grant
    /// names the digest of a native file, that grant applies. Otherwise, a native file runs in the
    /// sandbox, with the workspace and without a network or your home.
    Check(check::Arguments),
    /// Create a tool: a script, a project in your language, or a wrapped program
    ///
    /// With --lang script, writes a working script for you to edit. With --wrap, writes a definition that runs
    /// PROGRAM, without code; edit the definition to give it parameters. You can call either tool right away.
    #[command(after_help = new::EXAMPLES)]
    New(new::Arguments),
    /// Build a project's tool, and check it
    ///
    /// Runs the command in `[build]` of tool.toml, outside of the sandbox. Turns the command's output into a component
    /// that carries the manifest, and checks the component as `tool check` does. Only a valid component replaces the
    /// earlier one.
    #[command(after_help = build::EXAMPLES)]
    Build(build::Arguments),
    /// Run a project's built tool on the cases in cases.jsonl
    ///
    /// Each call has its own workspace, and is granted only those directories of this workspace that tool.toml asks
    /// for. Your policy and your tools are ignored. Exits 1 if a case fails.
    #[command(after_help = test::NOTES)]
    Test(test::Arguments),
    /// Install tools from files, URLs, registries, OCI layouts or projects
    ///
    /// Shows who signed a tool, what it needs and what it would be granted, and asks before installing the tool.
    /// ~/.ikigai/tools.lock lists what is installed.
    #[command(after_help = install::EXAMPLES)]
    Install(install::Arguments),
    /// Install newer versions of installed tools
    ///
    /// Shows what changed. A grant is for one version of a file. ikigai renews the grant if the new
    /// version needs no more than before.
    #[command(after_help = update::EXAMPLES)]
    Update(update::Arguments),
    /// List installed tools that have a newer version
    ///
    /// Exits 1 if there is one, or if a source cannot be reached.
    Outdated(outdated::Arguments),
    /// Remove an installed tool and its grant
    Remove(remove::Arguments),
    /// Verify tools against locks and signatures
    ///
    /// Exits 1 if a check fails.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Arguments),
    /// Install and approve the tools in this workspace's lock file
    #[command(after_help = sync::EXAMPLES)]
    Sync(sync::Arguments),
    /// Publish a component with its signatures
    #[command(after_help = push::EXAMPLES)]
    Push(push::Arguments),
    /// Download tools with their signatures into an OCI layout
    #[command(after_help = fetch::EXAMPLES)]
    Fetch(fetch::Arguments),
}

pub(super) async fn run(
    options: &SharedOptions,
    command: ToolCommand,
    approval: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    match command {
        ToolCommand::List(arguments) => list::run(options, arguments).await,
        ToolCommand::Show(arguments) => show::run(options, arguments).await,
        ToolCommand::Call(arguments) => call::run(options, arguments, approval).await,
        ToolCommand::Run(arguments) => run::run(options, arguments, approval).await,
        ToolCommand::Schema(arguments) => schema::run(options, arguments).await,
        ToolCommand::Check(arguments) => check::run(options, arguments).await,
        ToolCommand::New(arguments) => new::run(options, arguments).await,
        ToolCommand::Build(arguments) => build::run(options, arguments).await,
        ToolCommand::Test(arguments) => test::run(options, arguments).await,
        ToolCommand::Install(arguments) => install::run(options, arguments).await,
        ToolCommand::Update(arguments) => update::run(options, arguments).await,
        ToolCommand::Outdated(arguments) => outdated::run(options, arguments).await,
        ToolCommand::Remove(arguments) => remove::run(options, arguments).await,
        ToolCommand::Verify(arguments) => verify::run(options, arguments).await,
        ToolCommand::Sync(arguments) => sync::run(options, arguments).await,
        ToolCommand::Push(arguments) => push::run(options, arguments).await,
        ToolCommand::Fetch(arguments) => fetch::run(options, arguments).await,
    }
}
