//! The question to the user before an asset is replaced.

use std::future::Future;
use std::pin::Pin;

use ikigai_assets::thousands;
use ikigai_terminal::EditorEvent;

use super::keyboard::Keyboard;
use super::out::Out;
use super::show::Show;
use ikigai_agent::command::{Confirm, RewriteProposal};

const QUESTION: &str = "Replace it? [y/N] ";

/// Asks at the keyboard.
pub(super) struct KeyboardConfirm<'a> {
    keyboard: &'a mut Keyboard,
    out: &'a Out,
    show: &'a Show,
}

impl<'a> KeyboardConfirm<'a> {
    pub(super) fn new(keyboard: &'a mut Keyboard, out: &'a Out, show: &'a Show) -> Self {
        Self { keyboard, out, show }
    }

    async fn ask(&mut self, proposal: &RewriteProposal) -> std::io::Result<bool> {
        let RewriteProposal { path, before, after, diff } = proposal;
        self.show.stop_waiting();
        self.out.screen().diff(diff)?;
        let (before, after) = (thousands(*before), thousands(*after));
        self.out.line(&format!("{path}: {before} → {after} tokens"))?;
        let input = self.keyboard.ask(QUESTION).await?;
        Ok(matches!(input, EditorEvent::Line(line) if matches!(line.trim(), "y" | "Y" | "yes")))
    }
}

impl Confirm for KeyboardConfirm<'_> {
    fn confirm<'a>(
        &'a mut self,
        proposal: &'a RewriteProposal,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        // Without an answer, no asset is replaced. If the terminal is gone, the next prompt fails.
        Box::pin(async { self.ask(proposal).await.unwrap_or(false) })
    }
}
