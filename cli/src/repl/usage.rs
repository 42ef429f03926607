//! The user's commands for the size of the conversation: `/usage` and `/compact`.

use std::io;

use ikigai_assets::thousands;
use tokio_util::sync::CancellationToken;

use super::show::Show;
use super::{ExitReason, Repl, hint};
use ikigai_agent::ContextUsage;
use ikigai_agent::command::CommandError;

impl Repl {
    /// Shows the size of the next request, and the cost of the conversation.
    pub(super) async fn usage(&self) -> io::Result<()> {
        let snapshot = self.host.registry().snapshot();
        let usage = self.session.usage(Some(&snapshot)).await;
        self.out.line(&text(&usage))
    }

    /// Makes room in the conversation.
    pub(super) async fn compact(&mut self) -> io::Result<Option<ExitReason>> {
        let cancel = CancellationToken::new();
        let show = Show::new(&self.out, &self.results, &cancel);
        self.keyboard.watch(show.on_key());
        show.wait_for("working");
        let mut on_event = show.on_event();
        let snapshot = self.host.registry().snapshot();
        let work = self.session.compact(Some(&snapshot), &cancel, &mut on_event);
        let (compacted, ended) = self.signals.during(work, &cancel, &self.out).await;
        drop(on_event);
        let failed = show.finish();
        if ended.is_some() {
            return Ok(ended);
        }
        self.keyboard.end_watch().await?;
        failed?;
        if cancel.is_cancelled() {
            self.keyboard.take_back();
        }
        match compacted {
            Ok(Some(compacted)) => self.out.line(&compacted.to_string())?,
            Ok(None) => self.out.line("Nothing is older than the last two turns.")?,
            Err(CommandError::Cancelled) => self.out.line("Interrupted.")?,
            Err(error) => self.out.error(&error, hint::of_command(&error))?,
        }
        Ok(None)
    }
}

/// Returns the lines of `/usage`.
fn text(usage: &ContextUsage) -> String {
    let window = match usage.window {
        Some(window) => format!("/{}", thousands(window)),
        None => String::new(),
    };
    let parts = [
        ("prompts and answers", usage.messages),
        ("results of tools", usage.results),
        ("pinned assets", usage.pins),
        ("system prompt", usage.system),
        ("tools", usage.tools),
    ];
    let mut lines = vec![format!("The next request has {}{window} tokens:", usage.request)];
    lines.extend(parts.map(|(name, counted)| format!("  {name:20} {counted}")));
    if let Some(cached) = usage.cached {
        lines.push(format!("{} of the last request came from the cache.", thousands(cached)));
    }
    let spent = thousands(usage.spent);
    lines.push(match usage.spend.session {
        Some(limit) => format!("This session spent {spent} of {} tokens.", thousands(limit)),
        None => format!("This session spent {spent} tokens."),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use ikigai_agent::{Spend, TokenCount};

    use super::*;

    #[test]
    fn every_part_has_a_line() {
        let counted = |tokens, is_estimate| TokenCount { tokens, is_estimate };
        let usage = ContextUsage {
            window: Some(200_000),
            request: counted(62_000, false),
            messages: counted(30_000, true),
            results: counted(20_000, true),
            pins: counted(0, true),
            system: counted(800, true),
            tools: counted(5000, true),
            cached: Some(40_000),
            spent: 1_200_000,
            spend: Spend { session: Some(2_000_000), day: None },
        };
        assert_eq!(
            text(&usage),
            "The next request has 62k/200k tokens:\n  \
             prompts and answers  ~30k\n  \
             results of tools     ~20k\n  \
             pinned assets        ~0\n  \
             system prompt        ~800\n  \
             tools                ~5k\n\
             40k of the last request came from the cache.\n\
             This session spent 1200k of 2000k tokens."
        );
        let unknown = ContextUsage { window: None, cached: None, spend: Spend::default(), ..usage };
        let text = text(&unknown);
        assert!(text.starts_with("The next request has 62k tokens:\n"), "{text}");
        assert!(text.ends_with("~5k\nThis session spent 1200k tokens."), "{text}");
    }
}
