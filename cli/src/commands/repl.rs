//! `ikigai` without a command: the REPL if there is a terminal, and `ikigai ask` otherwise.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use super::session::export;
use super::{ask, mcp};
use crate::approval::ApprovalOptions;
use crate::error::{self, CliError};
use crate::kept::ResumeOptions;
use crate::model::{ENVIRONMENT, ModelOptions, Models};
use crate::options::SharedOptions;
use crate::repl::{self, ExitReason, Out, ReplSetup, SharedCommands};

pub(super) async fn run(
    options: &SharedOptions,
    model: ModelOptions,
    resume: ResumeOptions,
    approval: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        let arguments = ask::Arguments::of_stdin(model, resume.for_ask()?, approval);
        let asked = ask::run(options, arguments).await;
        // A user who typed no command may not know that this asks a model.
        return asked.map_err(|error| match error.exit {
            error::USAGE => error.hint("`ikigai --help` lists the other commands"),
            _ => error,
        });
    }
    let choice = model.resolve(&options.config, ENVIRONMENT)?;
    let approval = approval.resolve(&options.config, ENVIRONMENT)?;
    let models = Models::new(options.config.clone(), model, options.command_gate()?);
    let (model, notices) = match models.find(None, None) {
        Ok(model) => (Some(model), Vec::new()),
        Err(error) => (None, vec![error.text()]),
    };
    let out = Out::stdout();
    let (host, mut session) = options.session_with_progress(model, out.progress(), &approval)?;
    session.set_system(choice.system());
    session.set_notes(choice.has_notes());
    session.set_auto_summary(choice.has_auto_summary());
    let (retention, _) = options.config.sessions();
    let (kept, asks) = (resume.kept(), approval.asks());
    let shared = SharedCommands {
        servers: mcp::list::in_conversation,
        export: |store, session, path, as_lines| {
            Box::pin(export::write_file(store, session, path, as_lines))
        },
    };
    let setup = ReplSetup { host, session, models, notices, kept, retention, asks, shared };
    Ok(match repl::run(out, setup).await? {
        ExitReason::Left => ExitCode::SUCCESS,
        // Shells use this exit code for a program that a signal ended.
        ExitReason::Signal(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
    })
}
