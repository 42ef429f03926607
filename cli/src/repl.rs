//! The REPL: a conversation with the user at a terminal.
//!
//! It reads lines, passes them to a [`Session`] and shows the events of the session. The crate
//! `ikigai-agent` owns prompts and commands; `ikigai-terminal` owns the screen and the editor.
//!
//! The first prompt appears at once. Discovery runs in the background, and an early prompt waits
//! for it.

mod allowed;
mod changes;
mod command;
mod confirm;
mod export;
mod hint;
mod key;
mod keyboard;
mod out;
mod result;
mod results;
mod sessions;
mod shell;
mod show;
mod signals;
mod status;
mod summary;
mod tools;
mod usage;

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use ikigai_provider::Provider;
use ikigai_terminal::EditorEvent;
use ikigai_terminal::editor::History;
use ikigai_terminal::finder::Finder;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) use out::Out;

use crate::error::CliError;
use crate::kept::SessionChoice;
use crate::model::Models;
use crate::person::Person;
use crate::user_command::{self, CommandGate};
use crate::{own_editor, remedy};
use command::SlashCommand;
use confirm::KeyboardConfirm;
use ikigai_agent::command::{By, CommandError, Malformed};
use ikigai_agent::{ConversationEnding, Prompt, Session, SessionRetention, SystemBlock, TurnEnd};
use ikigai_assets::{SessionId, SessionSummary, Store};
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::Host;
use ikigai_host::paths;
use keyboard::Keyboard;
use results::RecentResults;
use show::Show;
use signals::{ReplSignals, SignalRequest};
use tools::ReplTools;

/// The answer to Ctrl-C when nothing runs.
const HOW_TO_LEAVE: &str = "Ctrl-D or /exit leaves.";

/// The number of lines in the history.
const HISTORY: usize = 10_000;

/// The parts of a REPL.
pub(crate) struct ReplSetup {
    /// The host of the tools.
    pub host: Arc<Host>,
    /// The conversation. Without a model, everything but prompts works.
    pub session: Session,
    /// The models that `/model` names, and the keys that `/key` gives.
    pub models: Models,
    /// The reasons why no model is configured, to show at the start.
    pub notices: Vec<String>,
    /// The conversation to resume, or a new one.
    pub kept: SessionChoice,
    /// The retention time of conversations.
    pub retention: SessionRetention,
    /// True if ikigai asks the user about calls.
    pub asks: bool,
    /// The work of commands that the REPL shares.
    pub shared: SharedCommands,
}

/// The work of commands that the REPL shares. The commands pass it in, because they use the REPL.
#[derive(Clone, Copy)]
pub(crate) struct SharedCommands {
    /// Lists the servers, with their tools.
    pub servers: fn(&Host) -> String,
    /// Writes a conversation to a file, as JSON lines or as Markdown.
    pub export: for<'a> fn(&'a Store, &'a SessionSummary, &'a Path, bool) -> Exporting<'a>,
}

type Exporting<'a> = Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>>;

/// The reason why the REPL ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The user left.
    Left,
    /// A signal with this number arrived.
    Signal(i32),
}

/// Runs the REPL on `out` until the user leaves or a signal ends it.
///
/// # Errors
///
/// Fails if the terminal cannot be read from or written to.
pub(crate) async fn run(out: Out, setup: ReplSetup) -> io::Result<ExitReason> {
    let ReplSetup { host, mut session, models, notices, kept, retention, asks, shared } = setup;
    let signals = ReplSignals::new()?;
    let tools = ReplTools::new(Arc::clone(&host), out.clone());
    let names = AssetNames::default();
    let assets = names.clone();
    let finder = Finder::new(
        session.workspace(),
        command::for_menus(Arc::clone(&host), &names),
        Arc::new(move || assets.all()),
    );
    let history = out.warn_of(history(&host))?;
    let keyboard = Keyboard::start(&out, history, finder)?;
    let person = Arc::new(Person::beside(keyboard.asker(), out.screen().clone()));
    if asks {
        session.set_front_end(Some(Arc::clone(&person) as Arc<dyn FrontEnd>));
    }
    let mut repl = Repl {
        host,
        session,
        models,
        out,
        signals,
        keyboard,
        person,
        tools,
        names,
        retention,
        shared,
        held: None,
        results: RecentResults::default(),
        status: String::new(),
        ran: Vec::new(),
    };
    let mut ended = repl.run(&notices, &kept).await;
    if let Ok(ExitReason::Left) = ended {
        ended = repl.end().await;
    }
    repl.keyboard.stop().await;
    if let Some(warning) = repl.session.release().await {
        // If the terminal is gone, the warning has no reader.
        let _ = repl.out.line(&format!("warning: {warning}"));
    }
    ended
}

/// Returns the hint for a malformed command, if its message does not imply it.
fn malformed_hint(malformed: &Malformed) -> Option<String> {
    let is_unlike_any = matches!(malformed, Malformed::Unknown { nearest: None, .. });
    is_unlike_any.then(|| "/help lists the commands".to_owned())
}

/// Opens the file of earlier lines, if there is a directory for it.
fn history(host: &Host) -> Option<Result<History, String>> {
    let state = host.registry().paths().state.as_ref()?;
    let opened = paths::make_private(state)
        .map_err(|error| format!("`{}` cannot be used: {error}", state.display()))
        .and_then(|()| {
            History::open(&state.join("history"), HISTORY).map_err(|error| out::chain(&error))
        });
    Some(opened)
}

/// The names of assets from the last read. Menus do not wait for the store.
#[derive(Clone, Default)]
struct AssetNames(Arc<Mutex<Vec<String>>>);

impl AssetNames {
    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Reads the names again, in the background. Does not create a store.
    fn refresh(&self, session: &Session) {
        let assets = session.assets().filter(|it| it.store.may_hold_assets());
        let Some(store) = assets.map(|assets| Arc::clone(&assets.store)) else { return };
        let names = self.clone();
        tokio::spawn(async move {
            // If the store fails, the menu is empty; commands that use the store report it.
            let Ok(store) = store.open().await else { return };
            let Ok(all) = store.list("", None).await else { return };
            let shown = all.into_iter().filter(|asset| !asset.path.is_output());
            let shown = shown.map(|asset| asset.path.to_string()).collect();
            *names.0.lock() = shown;
        });
    }
}

struct Repl {
    host: Arc<Host>,
    session: Session,
    models: Models,
    out: Out,
    signals: ReplSignals,
    keyboard: Keyboard,
    person: Arc<Person>,
    tools: ReplTools,
    names: AssetNames,
    retention: SessionRetention,
    shared: SharedCommands,
    /// The conversation that should have been resumed but is in use elsewhere.
    held: Option<SessionId>,
    results: RecentResults,
    /// The status that was shown last.
    status: String,
    /// The outputs of the user's own commands that were not sent with a prompt yet.
    ran: Vec<String>,
}

impl Repl {
    async fn run(&mut self, notices: &[String], kept: &SessionChoice) -> io::Result<ExitReason> {
        self.out.line(&self.greeting(kept))?;
        self.tools.discover();
        self.begin(kept).await?;
        // A resumed conversation may have a model even if none is configured.
        if self.session.model().is_none() {
            for notice in notices {
                self.out.line(notice)?;
            }
        }
        self.warn_without_key()?;
        self.prune();
        loop {
            self.names.refresh(&self.session);
            self.show_status().await?;
            let input = tokio::select! {
                // Check signals first: a signal that came before the line must not stop what the
                // line starts.
                biased;
                request = self.signals.next() => match request {
                    SignalRequest::Interrupt => EditorEvent::Interrupted,
                    SignalRequest::End(signal) => return Ok(ExitReason::Signal(signal)),
                },
                input = self.keyboard.read(keyboard::PROMPT) => input?,
            };
            let ended = match input {
                EditorEvent::End => Some(ExitReason::Left),
                EditorEvent::Interrupted => {
                    self.out.line(HOW_TO_LEAVE)?;
                    None
                }
                EditorEvent::Line(line) => self.submit(&line).await?,
                EditorEvent::More => {
                    self.results.show_next(&self.out)?;
                    None
                }
                EditorEvent::Edit(text) => self.edit(text).await?,
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    fn greeting(&self, kept: &SessionChoice) -> String {
        let version = env!("CARGO_PKG_VERSION");
        // A resumed conversation has its own model.
        let model = match self.session.model().filter(|_| *kept == SessionChoice::New) {
            Some(model) => format!(" with {} of {}", model.name, model.client.provider()),
            None => String::new(),
        };
        format!("ikigai {version}{model}. /help lists the commands.")
    }

    async fn submit(&mut self, line: &str) -> io::Result<Option<ExitReason>> {
        if let Some(command) = shell::command(line) {
            return self.run_own(command).await;
        }
        if !command::is_command(line) {
            return self.turn(line).await;
        }
        match SlashCommand::parse(line) {
            Ok(SlashCommand::Exit) => Ok(Some(ExitReason::Left)),
            Ok(command) => self.run_command(command).await,
            Err(malformed) => {
                let hint = malformed_hint(&malformed);
                self.out.error(&malformed, hint)?;
                Ok(None)
            }
        }
    }

    async fn run_command(&mut self, command: SlashCommand) -> io::Result<Option<ExitReason>> {
        match command {
            SlashCommand::Exit => return Ok(Some(ExitReason::Left)),
            SlashCommand::Help => self.out.line(&command::help())?,
            SlashCommand::Refresh => return self.refresh().await,
            SlashCommand::Model(None) => self.out.line(&self.model())?,
            SlashCommand::Model(Some(name)) => self.switch(&name)?,
            SlashCommand::Key(provider) => return self.take_key(provider).await,
            SlashCommand::System(None) => self.show_system().await?,
            SlashCommand::System(Some(text)) => {
                self.session.set_system(Some(text));
                let text = match self.session.system() {
                    Some(_) => "From now on, your text is sent to the model.",
                    None => "From now on, none of your text is sent to the model.",
                };
                self.out.line(text)?;
            }
            SlashCommand::Env { name, value } => {
                match self.host.authority().set_variable(&name, &value) {
                    Ok(()) => {
                        let text = "is set in this run, for the tools that policy grants it to.";
                        self.out.line(&format!("{name} {text}"))?;
                    }
                    Err(error) => self.out.line(&format!("error: {error}"))?,
                }
            }
            SlashCommand::Undo => {
                let undone = self.session.undo();
                self.out.line(&show::undone(&undone))?;
            }
            SlashCommand::Diff => self.show_changes()?,
            SlashCommand::Policy(None) => self.show_answers()?,
            SlashCommand::Policy(Some(forget)) => self.forget_answers(forget)?,
            SlashCommand::Mcp => self.out.line(&(self.shared.servers)(&self.host))?,
            SlashCommand::Export(file) => self.export(file.as_deref()).await?,
            SlashCommand::Clear => {
                let ending = self.session.ending().map(ConversationEnding::cleared);
                self.session.clear();
                self.ran.clear();
                self.out.line("The conversation is cleared. Pinned assets stay.")?;
                return self.summarize(ending).await;
            }
            SlashCommand::Compact => return self.compact().await,
            SlashCommand::Sessions | SlashCommand::Resume(None) => self.sessions().await?,
            SlashCommand::Resume(Some(name)) => return self.resume(&name).await,
            SlashCommand::Fork(turns) => self.fork(turns).await?,
            SlashCommand::Rename(title) => self.rename(&title).await?,
            SlashCommand::Usage => self.usage().await?,
            SlashCommand::Last(nth) => self.results.show(nth, &self.out)?,
            SlashCommand::Shared(command) => return self.shared(&command).await,
        }
        Ok(None)
    }

    /// Describes the model in use.
    fn model(&self) -> String {
        match self.session.model() {
            Some(model) => format!("{} of {}", model.name, model.client.provider()),
            None => "No model is set. `/model NAME` sets one.".to_owned(),
        }
    }

    /// Shows everything that is sent before the conversation.
    async fn show_system(&self) -> io::Result<()> {
        let snapshot = self.host.registry().snapshot();
        let (blocks, warnings) = self.session.system_blocks(&snapshot).await;
        for warning in warnings {
            self.out.line(&format!("warning: {warning}"))?;
        }
        for SystemBlock { source, text } in blocks {
            self.out.line(&format!("── {source} ──\n{text}\n"))?;
        }
        Ok(())
    }

    /// Continues with another model: `NAME` of the same provider, or `PROVIDER/NAME`.
    fn switch(&mut self, name: &str) -> io::Result<()> {
        let of_provider = name.split_once('/').and_then(|(provider, name)| {
            Some((provider.parse::<Provider>().ok()?, name)).filter(|(_, name)| !name.is_empty())
        });
        let current = self.session.model().map(|model| model.client.provider());
        let (provider, name) = match of_provider {
            Some((provider, name)) => (Some(provider), name),
            None => (current, name),
        };
        match self.models.find(provider, Some(name)) {
            Ok(model) => {
                self.session.set_model(Some(model));
                self.out.line(&self.model())?;
                self.warn_without_key()
            }
            Err(error) => self.out.line(error.text().trim_end()),
        }
    }

    /// Sends a prompt to the model, and shows the turn.
    async fn turn(&mut self, typed: &str) -> io::Result<Option<ExitReason>> {
        if self.session.model().is_none() {
            self.out.line(
                "error: no model is set\nhint: `/model NAME` sets one, `/model PROVIDER/NAME` also \
                 sets the provider",
            )?;
            return Ok(None);
        }
        let cancel = CancellationToken::new();
        let show = Show::new(&self.out, &self.results, &cancel);
        let mut on_event = show.on_event();
        let (ready, shown) = (self.tools.ready(&show), show.clone());
        let tools = async move {
            let snapshot = ready.await;
            shown.wait_for("waiting for the model");
            snapshot
        };
        let attached = Some(self.ran.join("\n")).filter(|_| !self.ran.is_empty());
        let prompt = Prompt { typed, attached: attached.as_deref() };
        self.keyboard.watch(show.on_key());
        self.person.begin_turn();
        let turn = self.session.turn(tools, prompt, &cancel, &mut on_event);
        let (turn, ended) = self.signals.during(turn, &cancel, &self.out).await;
        drop(on_event);
        let failed = show.finish();
        if ended.is_some() {
            return Ok(ended);
        }
        self.keyboard.end_watch().await?;
        failed?;
        // The status line above the next prompt belongs to this turn.
        self.status.clear();
        match turn {
            Ok(turn) => {
                // A prompt that was taken back was not sent.
                let has_text = turn.answer.as_deref().is_some_and(|text| !text.trim().is_empty());
                if has_text || !turn.calls.is_empty() {
                    self.ran.clear();
                }
                // Lines that were typed for an answer are not sent if the answer failed.
                if matches!(
                    turn.end,
                    TurnEnd::Interrupted | TurnEnd::Spent { .. } | TurnEnd::Failed(_)
                ) {
                    self.keyboard.take_back();
                }
                self.print_end(&turn.end)?;
            }
            Err(error) => self.out.error(&error, None)?,
        }
        Ok(None)
    }

    fn print_end(&self, end: &TurnEnd) -> io::Result<()> {
        let text = match end {
            TurnEnd::Answered => return Ok(()),
            TurnEnd::Silent => "The model's answer is empty.".to_owned(),
            TurnEnd::Interrupted => "Interrupted.".to_owned(),
            TurnEnd::Cut => "warning: the answer reached the limit on its length".to_owned(),
            TurnEnd::Refused(reason) if reason.is_empty() => "The model refused.".to_owned(),
            TurnEnd::Refused(reason) => format!("The model refused: {reason}"),
            TurnEnd::Exhausted { rounds } => {
                format!("warning: after {rounds} requests the model still wanted to call tools")
            }
            TurnEnd::Spent { per, spent, limit } => {
                format!("warning: {}", remedy::spend::reason(*per, *spent, *limit))
            }
            TurnEnd::Unkept(reason) => format!("warning: {reason}"),
            TurnEnd::Failed(failure) => {
                return self.out.error(failure, remedy::provider::hint(failure));
            }
        };
        self.out.line(&text)
    }

    async fn shared(
        &mut self,
        command: &ikigai_agent::command::AgentCommand,
    ) -> io::Result<Option<ExitReason>> {
        let cancel = CancellationToken::new();
        let show = Show::new(&self.out, &self.results, &cancel);
        self.keyboard.watch(show.on_key());
        let snapshot = match command {
            ikigai_agent::command::AgentCommand::Tool(_) => {
                let ready = self.tools.ready(&show);
                let (snapshot, ended) = self
                    .signals
                    .during(cancel.run_until_cancelled(ready), &cancel, &self.out)
                    .await;
                if ended.is_some() {
                    return Ok(ended);
                }
                snapshot.flatten()
            }
            _ => None,
        };
        show.wait_for("working");
        let mut confirm = KeyboardConfirm::new(&mut self.keyboard, &self.out, &show);
        let work =
            self.session.command(command, By::Person(&mut confirm), snapshot.as_ref(), &cancel);
        let (answer, ended) = self.signals.during(work, &cancel, &self.out).await;
        let failed = show.finish();
        if ended.is_some() {
            return Ok(ended);
        }
        self.keyboard.end_watch().await?;
        failed?;
        if cancel.is_cancelled() {
            self.keyboard.take_back();
        }
        match answer {
            Ok(text) => self.out.line(&text)?,
            Err(CommandError::Cancelled) => self.out.line("Interrupted.")?,
            Err(error) => {
                let hint = hint::of_command(&error);
                self.out.error(&error, hint)?;
            }
        }
        Ok(None)
    }

    /// Opens the line in the user's editor.
    async fn edit(&mut self, text: String) -> io::Result<Option<ExitReason>> {
        let lent = self.keyboard.lend()?;
        let host = Arc::clone(&self.host);
        let gate =
            CommandGate::new(move |words| user_command::check_editor(host.authority(), words));
        let work = tokio::task::spawn_blocking(move || own_editor::edited(&text, &gate));
        let (edited, ended) = self.signals.beside(work, &CancellationToken::new()).await;
        drop(lent);
        match edited.map_err(io::Error::other)? {
            Ok(Some(text)) => self.keyboard.set_text(text),
            Ok(None) => {}
            Err(error) => {
                self.out.screen().clear_below()?;
                self.out.line(&format!("error: {error:#}\nhint: the line is unchanged"))?;
            }
        }
        Ok(ended)
    }

    /// Runs the user's own command.
    async fn run_own(&mut self, command: &str) -> io::Result<Option<ExitReason>> {
        if command.is_empty() {
            self.out.line("usage: !COMMAND")?;
            return Ok(None);
        }
        let lent = self.keyboard.lend()?;
        let end = CancellationToken::new();
        let work = shell::run(command, self.session.workspace(), self.out.screen(), &end);
        let (ran, ended) = self.signals.beside(work, &end).await;
        drop(lent);
        match ran {
            Ok(ran) => {
                let what = "The output goes to the model with your next prompt; /clear drops it.";
                self.out.line(&format!("{}. {what}", ran.end()))?;
                self.ran.push(ran.text());
            }
            Err(error) => self.out.line(&format!("error: `{command}` was not run: {error}"))?,
        }
        Ok(ended)
    }

    async fn refresh(&mut self) -> io::Result<Option<ExitReason>> {
        self.session.forget_notes();
        let cancel = CancellationToken::new();
        let work = cancel.run_until_cancelled(self.tools.refresh());
        let (refreshed, ended) = self.signals.during(work, &cancel, &self.out).await;
        match refreshed {
            Some(printed) => printed?,
            None if ended.is_none() => self.out.line("Interrupted.")?,
            None => {}
        }
        Ok(ended)
    }
}
