//! `/key`: a provider's key for this run, which is in no saved line.

use std::io;

use ikigai_provider::Provider;
use ikigai_terminal::EditorEvent;

use super::signals::SignalRequest;
use super::{ExitReason, Repl};

impl Repl {
    /// Warns at once if the model cannot be asked because there is no key.
    pub(super) fn warn_without_key(&self) -> io::Result<()> {
        let client = self.session.model().map(|model| &model.client);
        let Some(client) = client.filter(|client| client.lacks_key()) else { return Ok(()) };
        let (provider, variable) = (client.provider(), client.provider().key_variable());
        self.out.line(&format!(
            "warning: there is no key for {provider}\n\
             hint: `/key` sets one for this run, {variable} for every run"
        ))
    }

    /// Asks the user for a provider's key, and uses it for the model from then on.
    pub(super) async fn take_key(
        &mut self,
        provider: Option<Provider>,
    ) -> io::Result<Option<ExitReason>> {
        let current = self.session.model().map(|it| (it.client.provider(), it.name.clone()));
        let Some(provider) = provider.or(current.as_ref().map(|(provider, _)| *provider)) else {
            let names = Provider::ALL.map(Provider::as_str).join(", ");
            self.out.line(&format!("error: no provider is set\nhint: choose one of {names}"))?;
            return Ok(None);
        };
        let key = match self.ask_for_key(provider).await? {
            Ok(key) => key,
            Err(signal) => return Ok(Some(ExitReason::Signal(signal))),
        };
        if key.trim().is_empty() {
            self.out.line("No key was given.")?;
            return Ok(None);
        }
        self.models.give_key(provider, &key);
        let (provider, name) = match current {
            Some((current, _)) if current.key_variable() != provider.key_variable() => {
                let text = "The key is set for this run.";
                self.out.line(&format!("{text} `/model {provider}/NAME` uses it."))?;
                return Ok(None);
            }
            Some((current, name)) => (current, Some(name)),
            None => (provider, None),
        };
        match self.models.find(Some(provider), name.as_deref()) {
            Ok(model) => {
                self.session.set_model(Some(model));
                self.out.line(&format!("The key for {} is set for this run.", self.model()))?;
            }
            Err(error) => self.out.line(error.text().trim_end())?,
        }
        Ok(None)
    }

    /// Returns the typed text; empty after Ctrl-C or Ctrl-D. The error is the number of a signal
    /// that ends the program.
    async fn ask_for_key(&mut self, provider: Provider) -> io::Result<Result<String, i32>> {
        let question = format!("Key for {provider} (not shown): ");
        loop {
            tokio::select! {
                input = self.keyboard.ask_for_secret(&question) => {
                    return Ok(Ok(match input? {
                        EditorEvent::Line(key) => key,
                        EditorEvent::Interrupted | EditorEvent::End | EditorEvent::More | EditorEvent::Edit(_) => {
                            String::new()
                        }
                    }));
                }
                request = self.signals.next() => match request {
                    // The line is still being read. If it were taken for a prompt, a key would be
                    // sent.
                    SignalRequest::Interrupt => self.out.line("Press Enter to set no key.")?,
                    SignalRequest::End(signal) => return Ok(Err(signal)),
                },
            }
        }
    }
}
