//! Reading what a person types: history, several lines, menus, printing above the
//! prompt meanwhile.
//!
//! Editing is reedline's; where a terminal cannot move its cursor, lines are read as
//! they come. Blocks the thread that reads: an editor belongs on a thread of its own.

mod continued;
mod history;
mod keys;
mod menu;
mod plain;
mod prompt;
mod quiet;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use reedline::{
    DefaultHinter, ExternalPrinter, Highlighter, Reedline, ReedlineMenu, Signal, StyledText,
};

use self::continued::Continued;
use self::history::Discreet;
pub use self::history::{History, HistoryError};
use self::keys::Keys;
use self::menu::Popup;
use self::plain::Plain;
use self::prompt::Prompt;
use self::quiet::Quiet;
use crate::finder::Finder;
use crate::harmless;
use crate::look::Look;
use crate::screen::Screen;

/// What was typed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input {
    /// A line, or several; never blank.
    Line(String),
    /// Ctrl-C, where there was nothing to clear.
    Interrupted,
    /// Ctrl-D on an empty line, the end of the input, or [`Stopper::stop`].
    End,
}

/// What an editor is made of.
pub struct Setup {
    /// Stands before what is typed; may contain wide characters, but no line break.
    pub prompt: String,
    /// What the terminal can do.
    pub look: Look,
    /// Where the program writes otherwise.
    pub screen: Screen,
    /// Earlier lines, and where further ones are kept.
    pub history: Option<History>,
    /// Lines that begin so are not kept in the history, because of what they may contain.
    pub unsaved: Option<String>,
    /// What the menus offer.
    pub finder: Finder,
}

/// An editor of lines. As long as it lives, what is typed while it does not read is neither
/// shown nor lost.
pub struct Editor {
    how: How,
    screen: Screen,
    printer: Printer,
    stopper: Stopper,
}

enum How {
    Live(Box<Live>),
    Plain(Plain),
}

/// An editor on a terminal that can move its cursor.
struct Live {
    reedline: Reedline,
    prompt: Prompt,
    continued: Continued,
    is_blank: Arc<AtomicBool>,
    has_history: bool,
    _quiet: Quiet,
}

/// Prints lines above the prompt of an editor, from any thread.
#[derive(Clone, Debug)]
pub struct Printer {
    lines: Option<SyncSender<String>>,
    screen: Screen,
}

/// Ends the reading of an editor, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
}

impl Editor {
    /// An editor on the terminal of this process.
    ///
    /// # Errors
    ///
    /// If the terminal refuses to be set.
    pub fn new(setup: Setup) -> io::Result<Self> {
        let Setup { prompt, look, screen, history, unsaved, finder } = setup;
        let stopper = Stopper { stop: Arc::new(AtomicBool::new(false)) };
        if !look.live {
            let printer = Printer { lines: None, screen: screen.clone() };
            let how = How::Plain(Plain::new(prompt));
            return Ok(Self { how, screen, printer, stopper });
        }
        let above = ExternalPrinter::new(WAITING);
        let printer = Printer { lines: Some(above.sender()), screen: screen.clone() };
        let is_blank = Arc::new(AtomicBool::new(true));
        let continued = Continued::default();
        let has_history = history.is_some();
        let mut reedline = Reedline::create()
            .with_ansi_colors(look.rendered)
            .use_bracketed_paste(true)
            .with_edit_mode(Box::new(Keys::new()))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(Popup::new())))
            .with_completer(Box::new(finder))
            .with_validator(Box::new(continued.clone()))
            .with_highlighter(Box::new(Watch(Arc::clone(&is_blank))))
            .with_history_exclusion_prefix(unsaved.clone())
            .with_break_signal(Arc::clone(&stopper.stop))
            .with_external_printer(above);
        if look.rendered {
            // Without colours a hint could not be told from what was typed.
            let hint = nu_ansi_term::Style::new().dimmed();
            reedline = reedline.with_hinter(Box::new(DefaultHinter::default().with_style(hint)));
        }
        if let Some(history) = history {
            reedline = reedline.with_history(Box::new(Discreet { lines: history.lines, unsaved }));
        }
        let prompt = Prompt::new(prompt);
        let live =
            Live { reedline, prompt, continued, is_blank, has_history, _quiet: Quiet::begin()? };
        Ok(Self { how: How::Live(Box::new(live)), screen, printer, stopper })
    }

    /// Reads the next line, and blocks until there is one. A blank line is asked for again.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read from or written to.
    pub fn read(&mut self) -> io::Result<Input> {
        loop {
            let input = match &mut self.how {
                How::Live(live) => live.read(&self.screen)?,
                How::Plain(plain) => Some(plain.read(&self.screen)?),
            };
            match input {
                Some(Input::Line(line)) if line.trim().is_empty() => {}
                Some(input) => return Ok(input),
                None => {}
            }
        }
    }

    /// Changes what stands before the lines to come.
    pub fn set_prompt(&mut self, prompt: &str) {
        match &mut self.how {
            How::Live(live) => live.prompt = Prompt::new(prompt.to_owned()),
            How::Plain(plain) => plain.set_prompt(prompt.to_owned()),
        }
    }

    /// What prints above the prompt.
    #[must_use]
    pub fn printer(&self) -> Printer {
        self.printer.clone()
    }

    /// What ends the reading.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

/// How many messages may wait for the prompt that they stand above.
const WAITING: usize = 1024;

impl Printer {
    /// Prints `text`, of one line or more, above the prompt: while somebody types at
    /// once, otherwise before the next prompt.
    ///
    /// # Errors
    ///
    /// If 1,024 messages wait already, or the terminal is gone.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let Some(lines) = &self.lines else { return self.screen.line(text) };
        lines.try_send(harmless(text).into_owned()).map_err(|error| match error {
            TrySendError::Full(_) => io::Error::other("too many messages wait for the prompt"),
            TrySendError::Disconnected(_) => io::Error::from(io::ErrorKind::BrokenPipe),
        })
    }
}

impl Stopper {
    /// Makes [`Editor::read`] answer [`Input::End`], within a tenth of a second on a
    /// terminal that can move its cursor. Elsewhere only the next line ends it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Live {
    /// The next line, or nothing if one was cleared.
    fn read(&mut self, screen: &Screen) -> io::Result<Option<Input>> {
        let signal = self.reedline.read_line(&self.prompt).map_err(io::Error::other)?;
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

    /// Writes the history now, so that another program, or the next, finds the line.
    fn save(&mut self, screen: &Screen) -> io::Result<()> {
        if let Err(error) = self.reedline.sync_history() {
            self.has_history = false;
            screen.line(&format!("warning: lines are no longer kept: {error}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_live = matches!(self.how, How::Live(_));
        f.debug_struct("Editor").field("is_live", &is_live).finish_non_exhaustive()
    }
}

/// Sees each state of the line, because Ctrl-C does not say what it cleared.
struct Watch(Arc<AtomicBool>);

impl Highlighter for Watch {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.0.store(line.is_empty(), Ordering::Relaxed);
        let mut text = StyledText::new();
        text.push((nu_ansi_term::Style::new(), line.to_owned()));
        text
    }
}
