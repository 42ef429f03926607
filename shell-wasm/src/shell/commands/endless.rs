//! Commands of any length. The interpreter's versions stop early.

use std::time::Duration;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::fail;
use super::options::OptionSpec;

/// The number of bytes that are written at once: the capacity of a pipe.
const CHUNK_BYTES: usize = 4096;

/// `yes`: ends when its output is closed, or by the host's limits.
pub(super) struct Yes;

const NONE: OptionSpec = OptionSpec { words: "", refusal: 1 };

#[async_trait]
impl Command for Yes {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let words = match NONE.read(&context).await? {
            Ok(parsed) if parsed.operands.is_empty() => "y".to_owned(),
            Ok(parsed) => parsed.operands.join(" "),
            Err(status) => return Ok(status),
        };
        let line = format!("{words}\n").into_bytes();
        let chunk = line.repeat((CHUNK_BYTES / line.len()).max(1));
        loop {
            context.stdout.write_all(&chunk).await?;
        }
    }
}

/// `sleep`
pub(super) struct Sleep;

#[async_trait]
impl Command for Sleep {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        if context.args.is_empty() {
            return fail(&context, "missing operand").await;
        }
        let mut total = Duration::ZERO;
        for argument in context.args {
            let Some(interval) = interval(argument) else {
                return fail(&context, &format!("invalid time interval '{argument}'")).await;
            };
            total = total.saturating_add(interval);
        }
        tokio::time::sleep(total).await;
        Ok(CommandStatus::success())
    }
}

pub(super) fn interval(text: &str) -> Option<Duration> {
    let (number, unit) = match text.char_indices().last()? {
        (end, 's') => (&text[..end], 1.0),
        (end, 'm') => (&text[..end], 60.0),
        (end, 'h') => (&text[..end], 3600.0),
        (end, 'd') => (&text[..end], 86400.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0)? * unit;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
