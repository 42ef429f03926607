//! Line reading on a terminal that can move its cursor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event;
use reedline::{
    DefaultHinter, EditCommand, ExternalPrinter, Highlighter, HistoryItem, Reedline, ReedlineMenu,
    Signal, StyledText,
};

use super::ahead::{Pressed, TypeAhead};
use super::continued::LineContinuations;
use super::history::{FilteredHistory, History};
use super::keys::{self, KeyBindings};
use super::menu::Popup;
use super::modes::{HeldTerminal, Modes};
use super::prompt::LinePrompt;
use super::{EditorEvent, WorkKey};
use crate::finder::Finder;
use crate::question::{self, PendingQuestion, QuestionContext, QuestionSender};
use crate::screen::Screen;

/// The interval at which a watch checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The sequences that begin and end bracketed paste, in which a terminal marks pasted text.
pub(crate) const PASTE: (&str, &str) = ("\x1b[?2004h", "\x1b[?2004l");

/// Two reedline editors: one for lines, and one for answers to questions, which has no history and
/// no suggestions.
pub(super) struct LiveEditor {
    lines: Reedline,
    answers: Reedline,
    prompt: LinePrompt,
    ahead: TypeAhead,
    continued: LineContinuations,
    is_blank: Arc<AtomicBool>,
    has_history: bool,
    held: HeldTerminal,
    has_colours: bool,
    stop: Arc<AtomicBool>,
}

/// The parts that only the line editor has.
pub(super) struct LineOptions {
    pub(super) history: Option<History>,
    pub(super) unsaved: Vec<String>,
    pub(super) asks_for_secret: Vec<String>,
    pub(super) finder: Finder,
    pub(super) above: ExternalPrinter<String>,
}

impl LiveEditor {
    pub(super) fn new(
        prompt: &str,
        has_colours: bool,
        options: LineOptions,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let editor = |keys| editor(has_colours, stop, keys);
        let is_blank = Arc::new(AtomicBool::new(true));
        let continued = LineContinuations::default();
        let LineOptions { history, unsaved, asks_for_secret, finder, above } = options;
        let has_history = history.is_some();
        let mut lines = editor(KeyBindings::for_lines())
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(Popup::new(finder.unasked()))))
            .with_completer(Box::new(finder))
            .with_validator(Box::new(continued.clone()))
            .with_highlighter(Box::new(BlankWatch(Arc::clone(&is_blank))))
            .with_history_exclusion_prefix(unsaved.first().cloned())
            .with_external_printer(above);
        if has_colours {
            // Without colours a hint would look like typed text.
            let hint = nu_ansi_term::Style::new().dimmed();
            lines = lines.with_hinter(Box::new(DefaultHinter::default().with_style(hint)));
        }
        if let Some(history) = history {
            lines = lines.with_history(Box::new(FilteredHistory { lines: history.lines, unsaved }));
        }
        let (prompt, held) = (LinePrompt::new(prompt), HeldTerminal::begin()?);
        let (answers, ahead) =
            (editor(KeyBindings::for_answers()), TypeAhead::new(asks_for_secret));
        let stop = Arc::clone(stop);
        Ok(Self {
            lines,
            answers,
            prompt,
            ahead,
            continued,
            is_blank,
            has_history,
            held,
            has_colours,
            stop,
        })
    }

    pub(super) fn set_prompt(&mut self, prompt: &str) {
        self.prompt = LinePrompt::new(prompt);
    }

    pub(super) fn modes(&self) -> Modes {
        self.held.modes()
    }

    /// Replaces the text of the line that will be read.
    pub(super) fn set_text(&mut self, text: &str) {
        let text = keys::pasted(text);
        self.lines.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text)]);
    }

    /// Shows the keys that are typed, until `stop` is set, and asks the questions of `asker`. Calls
    /// `on_key` for each key that does not edit a line.
    pub(super) fn watch(
        &mut self,
        screen: &Screen,
        asker: &QuestionSender,
        stop: &AtomicBool,
        on_key: &dyn Fn(WorkKey),
    ) -> io::Result<()> {
        screen.control(PASTE.0)?;
        screen.show_typed(self.ahead.queued(), self.ahead.draft())?;
        while !stop.load(Ordering::Relaxed) {
            if let Some(pending) = asker.take() {
                self.ask(screen, pending, stop, on_key)?;
                continue;
            }
            if !event::poll(LOOK)? {
                continue;
            }
            match self.ahead.press(event::read()?) {
                Pressed::Typed => screen.show_typed(self.ahead.queued(), self.ahead.draft())?,
                Pressed::Key(key) => on_key(key),
            }
        }
        screen.show_typed(Vec::new(), "")?;
        screen.control(PASTE.1)
    }

    /// Asks a question. Keys that are not an answer go to the input line.
    fn ask(
        &mut self,
        screen: &Screen,
        pending: PendingQuestion,
        stop: &AtomicBool,
        on_key: &dyn Fn(WorkKey),
    ) -> io::Result<()> {
        let modes = self.held.modes();
        let is_over = || stop.load(Ordering::Relaxed) || pending.is_void();
        let ahead = Some(&mut self.ahead);
        let (is_over, on_stop) = (&is_over, None);
        let work = QuestionContext { screen, modes: &modes, ahead, is_over, on_key, on_stop };
        if let Some(given) = question::read(&pending.question, work)? {
            pending.answer(given);
        }
        Ok(())
    }

    /// Moves everything that was typed during a watch into the line that will be read, except the
    /// lines that ask for a secret.
    pub(super) fn take_back(&mut self) {
        self.ahead.take_back();
    }

    /// Returns the next line that was ended during a watch, shown as if it were typed now.
    fn queued(&mut self, screen: &Screen) -> io::Result<Option<EditorEvent>> {
        let Some(input) = self.ahead.next() else { return Ok(None) };
        let line = if let EditorEvent::Line(line) = &input { line } else { "" };
        screen.line(&self.prompt.before(line))?;
        if !line.is_empty() && self.has_history {
            let item = HistoryItem::from_command_line(line);
            let kept = self.lines.history_mut().save(item).map(drop);
            self.save(kept.map_err(io::Error::other), screen)?;
        }
        Ok(Some(input))
    }

    /// Reads the next line. Returns `None` if the user cleared a line.
    pub(super) fn read(&mut self, screen: &Screen) -> io::Result<Option<EditorEvent>> {
        screen.begin_prompt()?;
        if let Some(input) = self.queued(screen)? {
            return Ok(Some(input));
        }
        let draft = self.ahead.take_draft();
        if !draft.is_empty() {
            self.lines.run_edit_commands(&[EditCommand::InsertString(draft)]);
        }
        let signal = read(&mut self.lines, &self.prompt, &self.held, screen)?;
        let input = match signal {
            Signal::Success(line) => Some(EditorEvent::Line(self.continued.joined(line))),
            Signal::CtrlC if self.is_blank.load(Ordering::Relaxed) => {
                Some(EditorEvent::Interrupted)
            }
            Signal::CtrlD | Signal::ExternalBreak(_) => Some(EditorEvent::End),
            Signal::HostCommand(command) if command == keys::MORE => {
                screen.clear_below()?;
                Some(EditorEvent::More)
            }
            Signal::HostCommand(command) if command == keys::EDIT => {
                Some(EditorEvent::Edit(self.lines.current_buffer_contents().to_owned()))
            }
            _ => None,
        };
        self.is_blank.store(true, Ordering::Relaxed);
        if self.has_history && matches!(input, Some(EditorEvent::Line(_))) {
            self.save(Ok(()), screen)?;
        }
        Ok(input)
    }

    /// Reads an answer; keys that were typed before are discarded.
    pub(super) fn read_answer(
        &mut self,
        question: &str,
        screen: &Screen,
    ) -> io::Result<EditorEvent> {
        self.held.discard()?;
        answer(&mut self.answers, question, &self.held, screen)
    }

    /// Reads an answer that is not shown. The answer gets a new editor, so that no editor keeps it.
    pub(super) fn read_secret(
        &mut self,
        question: &str,
        screen: &Screen,
    ) -> io::Result<EditorEvent> {
        self.held.discard()?;
        let keys = KeyBindings::for_answers();
        let secrets = editor(self.has_colours, &self.stop, keys);
        let mut secrets = secrets.with_highlighter(Box::new(SecretMask));
        answer(&mut secrets, question, &self.held, screen)
    }

    /// Writes the history now if the line was `kept`, so that another program, or the next one,
    /// finds it.
    fn save(&mut self, kept: io::Result<()>, screen: &Screen) -> io::Result<()> {
        if let Err(error) = kept.and_then(|()| self.lines.sync_history()) {
            self.has_history = false;
            screen.line(&format!("warning: lines are no longer saved to the history: {error}"))?;
        }
        Ok(())
    }
}

/// Returns an editor without history and suggestions.
fn editor(has_colours: bool, stop: &Arc<AtomicBool>, keys: KeyBindings) -> Reedline {
    Reedline::create()
        .with_ansi_colors(has_colours)
        .use_bracketed_paste(true)
        .with_edit_mode(Box::new(keys))
        .with_break_signal(Arc::clone(stop))
}

/// Reads the answer to a question.
fn answer(
    reedline: &mut Reedline,
    question: &str,
    held: &HeldTerminal,
    screen: &Screen,
) -> io::Result<EditorEvent> {
    let signal = read(reedline, &LinePrompt::new(question), held, screen)?;
    Ok(match signal {
        Signal::Success(line) => EditorEvent::Line(line),
        Signal::CtrlD | Signal::ExternalBreak(_) => EditorEvent::End,
        _ => EditorEvent::Interrupted,
    })
}

/// Reads a line. In the meantime the program may be stopped and continued.
fn read(
    reedline: &mut Reedline,
    prompt: &LinePrompt,
    held: &HeldTerminal,
    screen: &Screen,
) -> io::Result<Signal> {
    loop {
        let signal = held.reading(|| reedline.read_line(prompt))?.map_err(io::Error::other)?;
        if !matches!(&signal, Signal::HostCommand(command) if command == keys::STOP) {
            return Ok(signal);
        }
        // reedline keeps the typed text. It stays on the screen above the shell's output.
        screen.clear_below()?;
        held.stop()?;
    }
}

/// An observer of the line. Ctrl-C itself does not tell whether it cleared anything.
struct BlankWatch(Arc<AtomicBool>);

impl Highlighter for BlankWatch {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.0.store(line.is_empty(), Ordering::Relaxed);
        let mut text = StyledText::new();
        text.push((nu_ansi_term::Style::new(), line.to_owned()));
        text
    }
}

/// Stars in place of a line, one for each byte: reedline splits the displayed text where it would
/// split the line.
struct SecretMask;

impl Highlighter for SecretMask {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((nu_ansi_term::Style::new(), "*".repeat(line.len())));
        text
    }
}
