//! The status line above the prompt: the model, the size of the conversation, and the profile.

use std::io;

use ikigai_assets::thousands;

use super::Repl;
use ikigai_agent::ContextUsage;

impl Repl {
    /// Shows the status if it has changed since it was last shown. Shows nothing before the first
    /// prompt.
    pub(super) async fn show_status(&mut self) -> io::Result<()> {
        if self.session.messages().is_empty() {
            return Ok(());
        }
        let Some(model) = self.session.model() else { return Ok(()) };
        let model = model.name.clone();
        let snapshot = self.host.registry().snapshot();
        let usage = self.session.usage(Some(&snapshot)).await;
        // Each call reports a ceiling that cannot be used.
        let profile = self.host.authority().profile().map(|(profile, _)| profile.as_str());
        let status = text(&model, &usage, profile.ok());
        if status == self.status {
            return Ok(());
        }
        self.out.screen().status(&status)?;
        self.status = status;
        Ok(())
    }
}

fn text(model: &str, usage: &ContextUsage, profile: Option<&str>) -> String {
    let window = usage.window.map(|window| format!("/{}", thousands(window)));
    let context = format!("{}{} tokens", usage.request, window.unwrap_or_default());
    let parts = [Some(model), Some(context.as_str()), profile];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use ikigai_agent::{Spend, TokenCount};

    use super::*;

    #[test]
    fn the_status_has_what_is_known() {
        let counted = TokenCount { tokens: 62_000, is_estimate: false };
        let usage = ContextUsage {
            window: Some(200_000),
            request: counted,
            messages: counted,
            results: counted,
            pins: counted,
            system: counted,
            tools: counted,
            cached: None,
            spent: 0,
            spend: Spend::default(),
        };
        assert_eq!(text("m", &usage, Some("standard")), "m · 62k/200k tokens · standard");
        let usage = ContextUsage { window: None, ..usage };
        assert_eq!(text("m", &usage, None), "m · 62k tokens");
    }
}
