//! The executor for tools of servers that speak the Model Context Protocol (MCP).
//!
//! Owns the servers that are in use (`ServerPool`): their start, their end, and how many calls each has
//! at once. Owns the check that a tool is still the approved one. The embedding program brings the
//! protocol, by implementing [`Connect`]. Does not decide what a server may touch.

mod attended;
mod connect;
mod description;
#[cfg(test)]
mod fake;
mod pool;
mod running;
mod server;
mod stderr;
#[cfg(target_os = "linux")]
mod unresolved;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub use attended::Attended;
pub use connect::{
    AddressGate, Auth, Connect, McpConnection, Remote, ServerAnswer, ServerCallError, ServerFuture,
    ServerStreams, ServerTools,
};
pub use description::ToolDescription;
pub(crate) use pool::ServerPool;
pub use server::{DefinedServer, ServerTarget};

use self::attended::Clock;
use self::running::RunningServer;
use crate::exec::output::Captured;
use crate::exec::{Call, Executor, Exit, Outcome, ResourceUsage};
use crate::limits::Limit;
use crate::policy::Remedy;

/// The time that the connection has to tell its server of the end of a call.
const FAREWELL: Duration = Duration::from_secs(1);

/// The number of calls in a row without an answer after which a server is restarted.
const TIMEOUTS_IN_A_ROW: u32 = 3;

/// A tool of a server.
#[derive(Clone)]
pub(crate) struct ServerProgram {
    pub(crate) server: Arc<DefinedServer>,
    /// The server's own name for the tool.
    pub(crate) tool: Arc<str>,
    /// The digest of the tool's description when it was found.
    pub(crate) digest: Digest,
    pub(crate) pool: Arc<ServerPool>,
}

impl Executor for ServerProgram {
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let program = self.clone();
        Box::pin(async move { program.answer(call).await })
    }
}

impl ServerProgram {
    async fn answer(&self, call: Call) -> Outcome {
        let begun = Instant::now();
        let deadline = tokio::time::Instant::from_std(begun)
            .checked_add(call.limits.wall_clock)
            .unwrap_or_else(far_away);
        let clock = Clock::new(deadline, call.deadline.watch(&call.limits));
        let work = async {
            let _permit = self.pool.permit(&self.server, &call).await?;
            let running = self.pool.running(&self.server, &call).await?;
            self.check(&running).map_err(Outcome::denied)?;
            let outcome = self.ask(&running, &call, &clock).await;
            // If several calls run at once, the first that ends gets all refusals: the server does
            // not say for which call it tried an access.
            let denied = running.take_refusals();
            let with_refusals = |outcome| Outcome { denied, ..outcome };
            match outcome {
                Ok(outcome) => Ok(with_refusals(outcome)),
                Err(outcome) => Err(with_refusals(outcome)),
            }
        };
        let outcome = tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(Outcome::cancelled()),
            outcome = work => outcome,
            () = clock.over() => {
                Err(Outcome::late(format!("the server `{}` was still busy", self.server.name)))
            }
        };
        let mut outcome = outcome.unwrap_or_else(|outcome| outcome);
        #[cfg(target_os = "linux")]
        if matches!(self.server.target, ServerTarget::Process { .. }) {
            unresolved::note(&mut outcome, &call);
        }
        outcome.usage = ResourceUsage { duration: begun.elapsed(), ..outcome.usage };
        outcome
    }

    /// Refuses a tool that differs from the approved one.
    fn check(&self, running: &RunningServer) -> Result<(), String> {
        let (server, tool) = (self.server.name.clone(), self.tool.to_string());
        let shown = tool.escape_debug();
        let reason = match running.digest(&self.tool) {
            Some(digest) if digest == self.digest => return Ok(()),
            Some(_) => {
                format!("the server `{server}` changed its tool `{shown}` since it was approved")
            }
            None => format!("the server `{server}` has no tool `{shown}` any more"),
        };
        let remedy = Remedy::ApproveTool { server, tool };
        Err(self.pool.hints().append(reason, &remedy))
    }

    /// Asks the server, until it answers, ends, or the time is over.
    async fn ask(
        &self,
        running: &Arc<RunningServer>,
        call: &Call,
        clock: &Clock,
    ) -> Result<Outcome, Outcome> {
        let arguments = match &call.stdin {
            crate::exec::Stdin::Bytes(bytes) => bytes.clone(),
            crate::exec::Stdin::Inherit => {
                let reason = "a tool of a server has no stdin of its own; call it by its name";
                return Err(Outcome::not_started(reason));
            }
        };
        let _use = running.begin_call();
        // Cancelled in any case when the wait for the answer ends, even if this future is dropped.
        let cancel = CancellationToken::new();
        let _cancel_if_dropped = cancel.clone().drop_guard();
        let attended = Attended::new(&self.server.name, call.front_end.as_deref(), clock);
        let connection = running.connection();
        let mut answer = connection.call(&self.tool, arguments, cancel.clone(), &attended);
        let answered = tokio::select! {
            biased;
            answer = &mut answer => Some(answer),
            () = call.cancel.cancelled() => None,
            () = clock.over() => None,
        };
        let Some(answered) = answered else {
            cancel.cancel();
            // The server only has to learn of the end. Its answer is not used.
            let _ = tokio::time::timeout(FAREWELL, answer).await;
            if call.cancel.is_cancelled() {
                return Err(Outcome { stderr: running.stderr(), ..Outcome::cancelled() });
            }
            if running.note_timeout() >= TIMEOUTS_IN_A_ROW {
                tracing::warn!("the server `{}` does not answer, and is ended", self.server.name);
                running.end();
            }
            let exit = Exit::Ended;
            return Err(Outcome { exit, stderr: running.stderr(), ..Outcome::late("") });
        };
        match answered {
            Ok(answer) => {
                running.note_answer();
                Ok(answered_with(answer.0, call))
            }
            Err(ServerCallError::Refused { code, message }) => {
                running.note_answer();
                let text = format!("the server refused the call: {message} (error {code})");
                Ok(answered_with(refusal(&text), call))
            }
            Err(ServerCallError::Malformed(reason)) => {
                running.note_answer();
                let text = format!("the answer of the server is malformed: {reason}");
                Ok(answered_with(refusal(&text), call))
            }
            Err(ServerCallError::Lost(reason)) => {
                Err(running.lost(&self.server.name, &reason).await)
            }
            Err(ServerCallError::Unauthorized(reason)) => Err(Outcome::denied(reason)),
        }
    }
}

/// Returns the outcome of a call with this answer.
fn answered_with(answer: Bytes, call: &Call) -> Outcome {
    let total = answer.len() as u64;
    let exit = Exit::Code(0);
    let nothing = Outcome { exit, ..Outcome::not_started("") };
    if total > call.limits.output {
        return Outcome { exit: Exit::Ended, limit: Some(Limit::Output), ..nothing };
    }
    Outcome { stdout: Captured { bytes: answer.into(), total }, ..nothing }
}

/// Returns the answer for an error of the protocol, which the model should see.
fn refusal(text: &str) -> Bytes {
    let answer = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    answer.to_string().into()
}

/// Returns a time later than the end of any call.
fn far_away() -> tokio::time::Instant {
    // As tokio itself does if a time cannot be represented.
    tokio::time::Instant::now() + Duration::from_secs(86_400 * 365 * 30)
}
