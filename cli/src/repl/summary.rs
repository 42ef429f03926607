//! The summary of a conversation that ends.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::show::Show;
use super::{ExitReason, Out, Repl};
use ikigai_agent::ConversationEnding;

/// The time after which the user sees what ikigai is waiting for.
const UNTOLD: Duration = Duration::from_secs(1);

/// The description of this work while the user waits.
const WORK: &str = "summarizing the conversation for later ones; Ctrl-C skips this";

impl Repl {
    /// Ends the conversation when the user leaves.
    pub(super) async fn end(&mut self) -> io::Result<ExitReason> {
        let ending = self.session.ending();
        Ok(self.summarize(ending).await?.unwrap_or(ExitReason::Left))
    }

    /// Has the model summarise a conversation that ended, if it should be remembered. The user may
    /// interrupt that.
    pub(super) async fn summarize(
        &mut self,
        ending: Option<ConversationEnding>,
    ) -> io::Result<Option<ExitReason>> {
        let Some(ending) = ending else { return Ok(None) };
        let cancel = CancellationToken::new();
        let show = Show::new(&self.out, &self.results, &cancel);
        self.keyboard.watch(show.on_key());
        let mut on_event = show.on_event();
        let work = self.session.summarize(&ending, &cancel, &mut on_event);
        let work = said_when_slow(&self.out, &show, work);
        let ((), ended) = self.signals.during(work, &cancel, &self.out).await;
        drop(on_event);
        let failed = show.finish();
        if ended.is_some() {
            return Ok(ended);
        }
        self.keyboard.end_watch().await?;
        failed?;
        if cancel.is_cancelled() {
            self.out.line("Interrupted: the conversation is not summarized.")?;
        }
        Ok(None)
    }
}

/// Does the work, and prints its description if it takes long.
async fn said_when_slow(out: &Out, show: &Show, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    if tokio::time::timeout(UNTOLD, &mut work).await.is_ok() {
        return;
    }
    if out.look().live {
        show.wait_for(WORK);
    } else {
        // If the terminal is gone, the next line fails as well.
        let _ = out.line(WORK);
    }
    work.await;
}
