//! `timeout`. The command runs in its own shell, like a child process, because only a whole shell
//! can be stopped in the middle of a busy loop.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bashkit::{
    Command, CommandContext, CommandStatus, Error, ExecOptions, Result, StreamData, async_trait,
};

use super::endless::interval;
use super::inner;
use super::options::OptionSpec;
use crate::shell::locked;
use crate::shell::world::World;

const OPTIONS: OptionSpec = OptionSpec {
    words: "+ k,kill-after= s,signal= v,verbose ,foreground ,preserve-status",
    refusal: 125,
};

const TIMED_OUT: i32 = 124;

/// 128 and the number of SIGKILL or SIGTERM.
const KILLED: i32 = 137;
const TERMINATED: i32 = 143;

/// `timeout [-v] [-s SIGNAL] [-k DURATION] DURATION COMMAND [ARGUMENT…]`
pub(super) struct Timeout(pub(super) Arc<World>);

/// The outputs in the order in which they came; `true` is standard error.
type OutputChunks = Arc<Mutex<Vec<(bool, Vec<u8>)>>>;

#[async_trait]
impl Command for Timeout {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let [duration, command @ ..] = parsed.operands.as_slice() else {
            return OPTIONS.misused(&context, "missing operand").await;
        };
        let kill_after = parsed.value("kill-after").map(|text| (text, interval(text)));
        let invalid = [(duration.as_str(), interval(duration))].into_iter().chain(kill_after);
        if let Some((text, _)) = { invalid }.find(|(_, interval)| interval.is_none()) {
            return OPTIONS.misused(&context, &format!("invalid time interval '{text}'")).await;
        }
        let Some(name) = command.first() else {
            return OPTIONS.misused(&context, "missing operand").await;
        };
        let limit = interval(duration).filter(|limit| !limit.is_zero());
        let signal = parsed.value("signal").unwrap_or("TERM");
        let ended = self.run(&context, command, limit).await?;
        if let Some(code) = ended {
            return Ok(CommandStatus::with_code(code));
        }
        if parsed.has("verbose") {
            let text = format!("timeout: sending signal {signal} to command '{name}'\n");
            context.stderr.write_all(text.as_bytes()).await?;
        }
        Ok(CommandStatus::with_code(match signal.trim_start_matches("SIG") {
            "KILL" | "9" => KILLED,
            _ if parsed.has("preserve-status") => TERMINATED,
            _ => TIMED_OUT,
        }))
    }
}

impl Timeout {
    /// Returns the exit code of the command, or `None` if it timed out.
    async fn run(
        &self,
        context: &CommandContext<'_>,
        command: &[String],
        limit: Option<Duration>,
    ) -> Result<Option<i32>> {
        let mut shell = crate::shell::child(&self.0, context, limit);
        let written = OutputChunks::default();
        let sink = Arc::clone(&written);
        let emit = move |stdout: &StreamData, stderr: &StreamData| {
            let mut written = locked(&sink);
            let parts = [(true, stderr), (false, stdout)];
            let parts = parts.into_iter().filter(|(_, bytes)| !bytes.is_empty());
            written.extend(parts.map(|(error, bytes)| (error, bytes.as_bytes().to_vec())));
        };
        let options = ExecOptions::new()
            .positional(command.to_vec())
            .stdin(StreamData::from(inner::input(context).await?))
            .streaming(Box::new(emit));
        let start = Instant::now();
        let result = shell.exec_with_options("\"$@\"", options).await;
        let written = std::mem::take(&mut *locked(&written));
        for (error, bytes) in written {
            let stream = if error { &context.stderr } else { &context.stdout };
            stream.write_all(&bytes).await?;
        }
        match result {
            Ok(ended) => Ok(Some(ended.exit_code)),
            Err(Error::ResourceLimit(_)) if limit.is_some_and(|limit| start.elapsed() >= limit) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
