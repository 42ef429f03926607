//! The user's commands for saved conversations: `/sessions`, `/resume`, `/fork`, `/rename`.

use std::io;
use std::sync::Arc;

use ikigai_assets::{Error, SessionFilter, SessionId, SessionSummary};

use super::{ExitReason, Repl};
use crate::error::CliError;
use crate::kept::{self, SessionChoice, line, named};
use ikigai_agent::{
    Pruned, ResumeError, Resumed, SessionAssets, SessionRetention, TurnSurroundings, prune_sessions,
};

/// The most sessions that `/sessions` lists.
const LISTED: u32 = 20;

impl Repl {
    /// Resumes the conversation that the flags name, or begins to save a new one.
    pub(super) async fn begin(&mut self, kept: &SessionChoice) -> io::Result<()> {
        self.session.keep();
        let Some(assets) = self.session.assets().cloned() else { return Ok(()) };
        if *kept == SessionChoice::Chosen {
            return self.sessions().await;
        }
        let workspace = self.session.workspace().to_string_lossy().into_owned();
        match kept.session(&assets, &workspace).await {
            Ok(Some(session)) => self.take_up(&session).await,
            Ok(None) => Ok(()),
            Err(error) => self.out.line(error.text().trim_end()),
        }
    }

    /// Lists the conversations of this workspace.
    pub(super) async fn sessions(&self) -> io::Result<()> {
        let listed = async {
            let assets = self.session.assets().ok_or(ResumeError::NoAssets)?;
            if !assets.store.may_hold_assets() {
                return Ok(Vec::new());
            }
            let workspace = self.session.workspace().to_string_lossy();
            let filter = SessionFilter { agent: &assets.agent, workspace: Some(&workspace) };
            Ok::<_, CliError>(assets.store.open().await?.sessions(&filter, Some(LISTED)).await?)
        };
        match listed.await {
            Ok(sessions) if sessions.is_empty() => {
                self.out.line("This workspace has no saved conversations.")
            }
            Ok(sessions) => {
                let lines: Vec<String> = sessions.iter().map(line).collect();
                self.out.line(&format!("{}\n`/resume ID` resumes one.", lines.join("\n")))
            }
            Err(error) => self.out.line(error.text().trim_end()),
        }
    }

    /// Resumes the conversation that has this name.
    pub(super) async fn resume(&mut self, name: &str) -> io::Result<Option<ExitReason>> {
        let session = match self.find(name).await {
            Ok(session) => session.id,
            Err(error) => {
                self.out.line(error.text().trim_end())?;
                return Ok(None);
            }
        };
        let ending = self.session.ending().filter(|ending| ending.session() != session);
        self.take_up(&session).await?;
        let has_ended = self.session.kept() == Some(session);
        self.summarize(ending.filter(|_| has_ended)).await
    }

    async fn find(&self, name: &str) -> Result<SessionSummary, CliError> {
        let assets = self.session.assets().ok_or(ResumeError::NoAssets)?;
        named(assets.store.open().await?, &assets.agent, name).await
    }

    async fn take_up(&mut self, session: &SessionId) -> io::Result<()> {
        let resumed = self.session.resume(session).await;
        self.held = matches!(&resumed, Err(ResumeError::Store(Error::SessionHeld { .. })))
            .then_some(*session);
        let taken_up = resumed.as_ref().ok().map(|resumed| resumed.session.clone());
        self.print_resumed(resumed)?;
        taken_up.map_or(Ok(()), |session| self.take_up_model(&session))
    }

    /// Continues with the model of a resumed conversation, unless a flag names another. Prints the
    /// model.
    fn take_up_model(&mut self, session: &SessionSummary) -> io::Result<()> {
        match (self.models.of_session(session), self.session.model()) {
            (Ok(Some(model)), _) => self.session.set_model(Some(model)),
            (Ok(None), Some(_)) => {}
            (Ok(None), None) => return Ok(()),
            (Err(error), Some(model)) => {
                return self.out.line(&format!("warning: {}", kept::other_model(&error, model)));
            }
            (Err(error), None) => return self.out.line(error.text().trim_end()),
        }
        self.out.line(&format!("The model is {}.", self.model()))
    }

    /// Continues with a copy of this conversation, or of the one that was in use elsewhere. The
    /// copy has the first `turns` turns, or all of them.
    pub(super) async fn fork(&mut self, turns: Option<u64>) -> io::Result<()> {
        let Some(original) = self.held.or_else(|| self.session.kept()) else {
            return self.out.line("error: nothing of this conversation is saved yet");
        };
        let forked = self.session.fork(&original, turns).await;
        // A copy of this conversation keeps the present model.
        let of_other = forked.as_ref().ok().filter(|_| self.held.is_some());
        let of_other = of_other.map(|forked| forked.session.clone());
        if forked.is_ok() {
            self.held = None;
        }
        self.print_resumed(forked)?;
        of_other.map_or(Ok(()), |session| self.take_up_model(&session))
    }

    fn print_resumed(&self, resumed: Result<Resumed, ResumeError>) -> io::Result<()> {
        match resumed {
            Ok(resumed) => {
                self.out.line(&kept::summary(&resumed))?;
                self.tell_changes(resumed.before.clone());
                match kept::warning(&resumed) {
                    Some(warning) => self.out.line(&format!("warning: {warning}")),
                    None => Ok(()),
                }
            }
            Err(error @ ResumeError::Store(Error::SessionHeld { .. })) => {
                let hint = "`/fork` continues in a copy of it";
                self.out.error(&error, Some(hint.to_owned()))
            }
            Err(error) => self.out.line(CliError::from(error).text().trim_end()),
        }
    }

    /// Reports in the background what has changed since `before`, the surroundings in the last turn
    /// of a conversation. Waits until the tools are known.
    fn tell_changes(&self, before: Option<TurnSurroundings>) {
        let Some(before) = before else { return };
        let (found, out) = (self.tools.found(), self.out.clone());
        let (host, assets) = (Arc::clone(&self.host), self.session.assets().cloned());
        tokio::spawn(async move {
            let snapshot = found.await;
            let now = TurnSurroundings::now(&host, assets.as_ref(), Some(&snapshot)).await;
            for line in before.changes(&now) {
                // If the terminal is gone, the next read fails.
                let _ = out.line(&line);
            }
        });
    }

    /// Gives this conversation a title.
    pub(super) async fn rename(&self, title: &str) -> io::Result<()> {
        let (Some(session), Some(assets)) = (self.session.kept(), self.session.assets()) else {
            return self.out.line("error: nothing of this conversation is saved yet");
        };
        let renamed = async {
            let store = assets.store.open().await?;
            store.rename_session(&session, title).await
        };
        match renamed.await {
            Ok(()) => self.out.line(&format!("This conversation is now called `{title}`.")),
            Err(error) => self.out.line(CliError::from(error).text().trim_end()),
        }
    }

    /// Removes old conversations in the background, and reports which are next. At the first start,
    /// also tells the user that conversations are kept.
    pub(super) fn prune(&self) {
        let Some(assets) = self.session.assets().cloned() else { return };
        let (retention, out) = (self.retention, self.out.clone());
        tokio::spawn(async move {
            let pruned = async {
                let pruned = prune_sessions(&assets, retention).await?;
                Ok(match soon_removed(&pruned) {
                    Some(text) => Some(text),
                    None => first_start(&assets, retention).await?,
                })
            };
            let text = pruned.await.unwrap_or_else(|error: Error| {
                Some(format!("warning: old conversations were not removed: {error}"))
            });
            if let Some(text) = text {
                // If the terminal is gone, the next read fails.
                let _ = out.line(&text);
            }
        });
    }
}

/// Returns a warning about conversations that will be removed within a week.
fn soon_removed(pruned: &Pruned) -> Option<String> {
    let oldest = pruned.soon.first()?;
    let count = match pruned.soon.len() {
        1 => "1 conversation is".to_owned(),
        count => format!("{count} conversations are"),
    };
    Some(format!(
        "warning: {count} removed within a week, the first of them {}; `ikigai session export` \
         writes one to a file, and `sessions` in config.toml sets how long ikigai keeps them",
        line(oldest)
    ))
}

/// Returns a line about saving conversations, if none has been saved yet.
async fn first_start(
    assets: &SessionAssets,
    retention: SessionRetention,
) -> Result<Option<String>, Error> {
    if assets.store.may_hold_assets() {
        let filter = SessionFilter { agent: &assets.agent, workspace: None };
        let store = assets.store.open().await?;
        if !store.sessions(&filter, Some(1)).await?.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(match retention {
        SessionRetention::For(_) => format!(
            "Conversations are kept for {retention} after their last turn; `sessions` in \
             config.toml changes that."
        ),
        SessionRetention::Forever => {
            "Conversations are kept until `ikigai session rm` removes them.".to_owned()
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_where_nothing_is_removed_soon() {
        assert_eq!(soon_removed(&Pruned::default()), None);
    }
}
