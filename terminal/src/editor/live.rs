//! Line reading on a terminal that can move its cursor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reedline::{
    DefaultHinter, ExternalPrinter, Highlighter, Reedline, ReedlineMenu, Signal, StyledText,
};

use super::Input;
use super::continued::Continued;
use super::history::{FilteredHistory, History};
use super::keys::{self, Keys};
use super::menu::Popup;
use super::modes::{Held, Modes};
use super::prompt::Prompt;
use crate::finder::Finder;
use crate::screen::Screen;

/// Two editors of reedline: one for lines, and one for answers to questions, which has no history
/// and no suggestions.
pub(super) struct Live {
    lines: Reedline,
    answers: Reedline,
    prompt: Prompt,
    continued: Continued,
    is_blank: Arc<AtomicBool>,
    has_history: bool,
    held: Held,
}

/// The parts that only the editor of lines has.
pub(super) struct LineOptions {
    pub(super) history: Option<History>,
    pub(super) unsaved: Option<String>,
    pub(super) finder: Finder,
    pub(super) above: ExternalPrinter<String>,
}

impl Live {
    pub(super) fn new(
        prompt: &str,
        has_colours: bool,
        options: LineOptions,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let editor = || {
            Reedline::create()
                .with_ansi_colors(has_colours)
                .use_bracketed_paste(true)
                .with_edit_mode(Box::new(Keys::new()))
                .with_break_signal(Arc::clone(stop))
        };
        let is_blank = Arc::new(AtomicBool::new(true));
        let continued = Continued::default();
        let LineOptions { history, unsaved, finder, above } = options;
        let has_history = history.is_some();
        let mut lines = editor()
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(Popup::new(finder.unasked()))))
            .with_completer(Box::new(finder))
            .with_validator(Box::new(continued.clone()))
            .with_highlighter(Box::new(BlankWatch(Arc::clone(&is_blank))))
            .with_history_exclusion_prefix(unsaved.clone())
            .with_external_printer(above);
        if has_colours {
            // Without colours a hint would look like typed text.
            let hint = nu_ansi_term::Style::new().dimmed();
            lines = lines.with_hinter(Box::new(DefaultHinter::default().with_style(hint)));
        }
        if let Some(history) = history {
            lines = lines.with_history(Box::new(FilteredHistory { lines: history.lines, unsaved }));
        }
        let (prompt, held) = (Prompt::new(prompt), Held::begin()?);
        Ok(Self { lines, answers: editor(), prompt, continued, is_blank, has_history, held })
    }

    pub(super) fn set_prompt(&mut self, prompt: &str) {
        self.prompt = Prompt::new(prompt);
    }

    pub(super) fn modes(&self) -> Modes {
        self.held.modes()
    }

    /// Reads the next line; `None` if one was cleared.
    pub(super) fn read(&mut self, screen: &Screen) -> io::Result<Option<Input>> {
        screen.begin_prompt()?;
        let signal = read(&mut self.lines, &self.prompt, &self.held, screen)?;
        let input = match signal {
            Signal::Success(line) => Some(Input::Line(self.continued.joined(line))),
            Signal::CtrlC if self.is_blank.load(Ordering::Relaxed) => Some(Input::Interrupted),
            Signal::CtrlD | Signal::ExternalBreak(_) => Some(Input::End),
            _ => None,
        };
        self.is_blank.store(true, Ordering::Relaxed);
        if self.has_history && matches!(input, Some(Input::Line(_))) {
            self.save(screen)?;
        }
        Ok(input)
    }

    /// Reads an answer; keys that were typed before are discarded.
    pub(super) fn read_answer(&mut self, question: &str, screen: &Screen) -> io::Result<Input> {
        self.held.discard()?;
        let signal = read(&mut self.answers, &Prompt::new(question), &self.held, screen)?;
        Ok(match signal {
            Signal::Success(line) => Input::Line(line),
            Signal::CtrlD | Signal::ExternalBreak(_) => Input::End,
            _ => Input::Interrupted,
        })
    }

    /// Writes the history now, so that another program, or the next one, finds the line.
    fn save(&mut self, screen: &Screen) -> io::Result<()> {
        if let Err(error) = self.lines.sync_history() {
            self.has_history = false;
            screen.line(&format!("warning: lines are no longer saved to the history: {error}"))?;
        }
        Ok(())
    }
}

/// Reads a line; the program may be stopped and continued meanwhile.
fn read(
    reedline: &mut Reedline,
    prompt: &Prompt,
    held: &Held,
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

/// An observer of the line, because Ctrl-C does not say whether it cleared anything.
struct BlankWatch(Arc<AtomicBool>);

impl Highlighter for BlankWatch {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.0.store(line.is_empty(), Ordering::Relaxed);
        let mut text = StyledText::new();
        text.push((nu_ansi_term::Style::new(), line.to_owned()));
        text
    }
}
