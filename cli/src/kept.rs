//! Saved conversations: the flags that resume one, and the texts about a resumed one.

use anyhow::anyhow;
use clap::Args;
use ikigai_assets::{Agent, SessionFilter, SessionId, SessionSummary, Store};
use ikigai_terminal::one_line;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::CliError;
use ikigai_agent::journal::LostCall;
use ikigai_agent::{Model, ResumeError, Resumed, Session, SessionAssets};

/// The most characters of a prompt or of the arguments of a call on a line.
const LINE: usize = 120;

/// The number of sessions that are listed if a name matches several.
const SHOWN: usize = 5;

/// The most characters of an answer that are shown again.
const ANSWER: usize = 1000;

/// The flags that go on with a conversation, for `ikigai ask`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeptOptions {
    /// Save the conversation so that you can continue it [default: if stdout and stderr are a terminal]
    #[arg(long)]
    keep: bool,
    /// Do not save the conversation
    #[arg(long, conflicts_with_all = ["keep", "continue", "resume"])]
    no_keep: bool,
    /// Continue the newest conversation of this workspace
    #[arg(id = "continue", long = "continue", conflicts_with = "resume")]
    newest: bool,
    /// Resume a conversation by its id, the beginning of its id, or its title
    #[arg(long, value_name = "ID|TITLE")]
    resume: Option<String>,
}

/// The flags that go on with a conversation, for the REPL, which keeps every one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ResumeOptions {
    /// Continue the newest conversation of this workspace
    #[arg(id = "continue", long = "continue", conflicts_with = "resume")]
    newest: bool,
    /// Resume a conversation by its id, the beginning of its id, or its title; without a value, list this workspace's
    /// conversations
    #[arg(long, value_name = "ID|TITLE", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
}

/// The conversation that the flags choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    /// A new conversation.
    #[default]
    New,
    /// The newest conversation of the workspace.
    Newest,
    /// The conversation with this id or title.
    Named(String),
    /// The conversation that the user will choose from the list.
    Chosen,
}

impl SessionChoice {
    fn new(newest: bool, name: Option<String>) -> Self {
        match name {
            _ if newest => Self::Newest,
            None => Self::New,
            Some(name) if name.is_empty() => Self::Chosen,
            Some(name) => Self::Named(name),
        }
    }

    /// Returns the session to resume, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if no session or several sessions match the name, or if the store fails.
    pub(crate) async fn session(
        &self,
        assets: &SessionAssets,
        workspace: &str,
    ) -> Result<Option<SessionId>, CliError> {
        match self {
            Self::New | Self::Chosen => Ok(None),
            Self::Newest => {
                let store = assets.store.open().await?;
                let filter = SessionFilter { agent: &assets.agent, workspace: Some(workspace) };
                let newest = store.sessions(&filter, Some(1)).await?.pop();
                let newest = newest.ok_or_else(|| {
                    CliError::failed(anyhow!("this workspace has no saved conversation"))
                        .hint("`ikigai session list --all` shows those of other workspaces")
                        .hint("in a script, `ikigai ask` saves a conversation only with --keep")
                })?;
                Ok(Some(newest.id))
            }
            Self::Named(name) => {
                let store = assets.store.open().await?;
                Ok(Some(named(store, &assets.agent, name).await?.id))
            }
        }
    }
}

impl KeptOptions {
    /// Returns the conversation that the flags choose.
    pub(crate) fn kept(&self) -> SessionChoice {
        SessionChoice::new(self.newest, self.resume.clone())
    }

    /// Returns whether a failure to save the conversation is an error, because a flag asked for it.
    pub(crate) fn is_required(&self) -> bool {
        self.keep || self.kept() != SessionChoice::New
    }

    /// Prepares the session: it resumes a saved conversation, or begins to save its own, as the
    /// flags specify. Without a flag, a conversation that a human reads is saved. Returns the
    /// resumed conversation.
    pub(crate) async fn apply(
        &self,
        session: &mut Session,
        is_read_by_person: bool,
    ) -> Result<Option<Resumed>, CliError> {
        let kept = self.kept();
        if kept == SessionChoice::New {
            if self.keep && session.assets().is_none() {
                return Err(ResumeError::NoAssets.into());
            }
            if self.keep || (is_read_by_person && !self.no_keep) {
                session.keep();
            }
            if self.keep {
                session.require_kept();
            }
            return Ok(None);
        }
        let assets = session.assets().cloned().ok_or(ResumeError::NoAssets)?;
        let workspace = session.workspace().to_string_lossy().into_owned();
        let resumed = match kept.session(&assets, &workspace).await? {
            Some(id) => Some(session.resume(&id).await?),
            None => None,
        };
        session.require_kept();
        Ok(resumed)
    }
}

impl ResumeOptions {
    /// Returns the conversation that the flags choose.
    pub(crate) fn kept(&self) -> SessionChoice {
        SessionChoice::new(self.newest, self.resume.clone())
    }

    /// Returns the same flags for `ikigai ask`, which has no list to choose from.
    ///
    /// # Errors
    ///
    /// Fails if `--resume` names no conversation.
    pub(crate) fn for_ask(self) -> Result<KeptOptions, CliError> {
        if self.kept() == SessionChoice::Chosen {
            let error = anyhow!("`--resume` needs a conversation: its id or its title");
            return Err(
                CliError::usage(error).hint("`ikigai session list` shows the conversations")
            );
        }
        let Self { newest, resume } = self;
        Ok(KeptOptions { keep: false, no_keep: false, newest, resume })
    }
}

impl From<ResumeError> for CliError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Store(error) => error.into(),
            ResumeError::NoAssets => Self::usage(error)
                .hint("set HOME or XDG_DATA_HOME, or specify a store with --store"),
            ResumeError::NoTurn { .. } => Self::usage(error),
            ResumeError::Log { .. } => Self::failed(error),
        }
    }
}

/// Returns the session that a user means by an id, the beginning of an id, a title, or a part of a
/// title.
pub(crate) async fn named(
    store: &Store,
    agent: &Agent,
    name: &str,
) -> Result<SessionSummary, CliError> {
    let mut found = store.find_sessions(agent, name).await?;
    if found.len() > 1 {
        let what = anyhow!("`{name}` matches {} sessions; use an id", found.len());
        return Err(CliError::failed(what).hints(found.iter().take(SHOWN).map(line)));
    }
    found.pop().ok_or_else(|| {
        CliError::failed(anyhow!("no session has the id or title `{name}`"))
            .hint("`ikigai session list --all` shows the sessions")
    })
}

/// Returns a session in one line: its id, the time of its last event, and its title.
pub(crate) fn line(session: &SessionSummary) -> String {
    let last = Timestamp::try_from(session.updated_at).unwrap_or_default();
    let last = last.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    format!("{} {last} {}", session.id, session.title.as_deref().unwrap_or("-"))
}

/// Returns a warning about what a crashed process left behind, if anything.
pub(crate) fn warning(resumed: &Resumed) -> Option<String> {
    let Resumed { unanswered, lost, .. } = resumed;
    let calls: Vec<String> = lost.iter().map(call).collect();
    let calls = (!calls.is_empty()).then(|| {
        format!(
            "these calls may have run before ikigai ended, and `ikigai audit --id ID` shows one that \
             came to its end: {}",
            calls.join(", ")
        )
    });
    let prompt = unanswered.as_ref().map(|prompt| {
        format!("`{}` was not answered; your next prompt is added to it", shortened(prompt))
    });
    let warnings: Vec<String> = prompt.into_iter().chain(calls).collect();
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

/// Returns the warning that a resumed conversation uses another model than its own.
pub(crate) fn other_model(error: &CliError, model: &Model) -> String {
    let Model { name, client, .. } = model;
    format!(
        "the model of the conversation cannot be asked: {}; asking {name} of {}",
        error.reason(),
        client.provider()
    )
}

/// Returns a resumed conversation as lines: its title, and the last prompt and answer.
pub(crate) fn summary(resumed: &Resumed) -> String {
    let Resumed { session, last, has_notes, .. } = resumed;
    let title = session.title.as_deref().unwrap_or("the conversation");
    let turns = if session.turns == 1 { "turn" } else { "turns" };
    let mut lines = vec![format!("Continuing `{title}` ({} {turns}).", session.turns)];
    if *has_notes {
        lines.push("The model gets notes instead of the oldest turns.".to_owned());
    }
    lines.extend(last.prompt.as_ref().map(|prompt| format!("> {}", shortened(prompt))));
    lines.extend(last.answer.as_ref().map(|answer| {
        let shown: String = answer.trim().chars().take(ANSWER).collect();
        let rest = if answer.trim().chars().nth(ANSWER).is_some() { "…" } else { "" };
        format!("{shown}{rest}")
    }));
    lines.join("\n")
}

fn call(LostCall { call, audit }: &LostCall) -> String {
    let id = audit.as_ref().map(|id| format!(" ({})", shortened(id)));
    let (name, arguments) = (shortened(&call.name), shortened(&call.arguments));
    format!("`{name} {arguments}`{}", id.unwrap_or_default())
}

/// Returns the beginning of a text, on one line.
fn shortened(text: &str) -> String {
    let line = one_line(&text.chars().take(LINE).collect::<String>());
    if text.chars().nth(LINE).is_some() { line + "…" } else { line }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ikigai_agent::Exchanged;
    use ikigai_assets::{Agent, SessionSummary};

    use super::*;

    fn resumed() -> Resumed {
        let session = SessionSummary {
            id: "0199b6f2-7c5a-7000-8000-000000000000".parse().expect("an id"),
            agent: Agent::new("tester@here").expect("a name"),
            workspace: "/w".to_owned(),
            title: Some("fix the build".to_owned()),
            provider: None,
            model: None,
            forked_from: None,
            created_at: SystemTime::UNIX_EPOCH,
            updated_at: SystemTime::UNIX_EPOCH,
            events: 9,
            turns: 2,
            bytes: 100,
            holder: None,
        };
        let last = Exchanged {
            prompt: Some("and\nnow?".to_owned()),
            answer: Some("\nIt builds.\n".to_owned()),
        };
        let (unanswered, lost) = (None, Vec::new());
        Resumed { session, last, unanswered, lost, before: None, has_notes: false }
    }

    #[test]
    fn the_last_exchange_is_shown_in_short() {
        let mut resumed = resumed();
        assert_eq!(
            summary(&resumed),
            format!(
                "Continuing `fix the build` (2 turns).\n> {}\nIt builds.",
                one_line("and\nnow?")
            )
        );
        assert_eq!(warning(&resumed), None);
        resumed.has_notes = true;
        resumed.last.answer = Some("ä".repeat(1001));
        let text = summary(&resumed);
        assert!(text.contains("\nThe model gets notes"), "{text}");
        assert!(text.ends_with(&format!("\n{}…", "ä".repeat(1000))), "{text}");
    }

    #[test]
    fn what_was_open_is_a_warning() {
        let call = ikigai_provider::ModelCall {
            id: "1".to_owned(),
            name: "bash".to_owned(),
            arguments: r#"{"command":"make"}"#.to_owned(),
            blob: None,
        };
        let unknown = LostCall { call: call.clone(), audit: None };
        let lost = vec![LostCall { call, audit: Some("0199b6f2".to_owned()) }, unknown];
        let resumed = Resumed { unanswered: Some("build it".to_owned()), lost, ..resumed() };
        let text = warning(&resumed).expect("a warning");
        assert!(text.starts_with("`build it` was not answered; "), "{text}");
        let expected = r#"`bash {"command":"make"}` (0199b6f2), `bash {"command":"make"}`"#;
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn flags_name_one_conversation() {
        assert_eq!(SessionChoice::new(false, None), SessionChoice::New);
        assert_eq!(SessionChoice::new(true, None), SessionChoice::Newest);
        assert_eq!(
            SessionChoice::new(false, Some("x".to_owned())),
            SessionChoice::Named("x".to_owned())
        );
        assert_eq!(SessionChoice::new(false, Some(String::new())), SessionChoice::Chosen);
        let chosen = ResumeOptions { newest: false, resume: Some(String::new()) };
        chosen.for_ask().expect_err("a script chooses from no list");
    }
}
