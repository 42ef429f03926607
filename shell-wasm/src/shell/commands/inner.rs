//! Calls of the interpreter's own commands from within ours, for everything that ours do not add or
//! change.

use std::sync::Arc;

use bashkit::{Bash, CommandContext, CommandStatus, ExecOptions, ExecResult, Result, StreamData};

use super::is_kept;
use crate::shell::limits;

/// Runs the interpreter's command `name`, past ours of that name.
pub(super) async fn run(
    context: &CommandContext<'_>,
    name: &str,
    arguments: &[String],
    input: Vec<u8>,
) -> Result<ExecResult> {
    let mut builder = Bash::builder()
        .fs(Arc::clone(&context.fs))
        .rootfs(false)
        .cwd(context.cwd)
        .limits(limits::execution())
        .memory_limits(limits::memory())
        .session_limits(bashkit::SessionLimits::unlimited())
        .builtin_filter(is_kept);
    for (variable, value) in context.env {
        builder = builder.env(variable, value);
    }
    let options = ExecOptions::new().positional(arguments.to_vec()).stdin(StreamData::from(input));
    builder.build().exec_with_options(&format!("command {name} \"$@\""), options).await
}

/// Runs the command with the whole standard input of the call, and passes on its output.
pub(super) async fn pass_on(
    context: &CommandContext<'_>,
    name: &str,
    arguments: &[String],
) -> Result<CommandStatus> {
    let input = input(context).await?;
    emit(context, &run(context, name, arguments, input).await?).await
}

/// Writes the outputs of a command, and takes over its status.
pub(super) async fn emit(
    context: &CommandContext<'_>,
    ended: &ExecResult,
) -> Result<CommandStatus> {
    context.stderr.write_all(ended.stderr.as_bytes()).await?;
    context.stdout.write_all(ended.stdout.as_bytes()).await?;
    Ok(CommandStatus::with_code(ended.exit_code))
}

/// Returns the whole standard input of a call.
pub(super) async fn input(context: &CommandContext<'_>) -> Result<Vec<u8>> {
    let mut input = Vec::new();
    while let Some(chunk) = context.stdin.read_chunk().await? {
        input.extend_from_slice(&chunk);
    }
    Ok(input)
}
