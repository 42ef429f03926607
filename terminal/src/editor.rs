//! A line editor: history, lines that continue, menus, and printing above the prompt while the user
//! types.
//!
//! reedline does the editing. On a terminal that cannot move its cursor, the editor reads lines as
//! they come. [`Editor::read`] blocks its thread, so give the editor a separate thread.

mod ahead;
mod continued;
mod history;
mod keys;
mod live;
mod menu;
mod modes;
mod plain;
mod prompt;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use reedline::ExternalPrinter;

pub(crate) use self::ahead::{Pressed, TypeAhead};
pub use self::history::{History, HistoryError};
pub(crate) use self::live::PASTE;
use self::live::{LineOptions, LiveEditor};
pub(crate) use self::modes::HeldTerminal;
pub use self::modes::{LentTerminal, Modes, RestoredModes};
use self::plain::{Plain, VisiblePrompt};
use crate::finder::Finder;
use crate::fold::folded;
use crate::look::{OutputFeatures, TerminalSize};
use crate::question::QuestionSender;
use crate::sanitize;
use crate::screen::Screen;

/// An event of the editor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EditorEvent {
    /// A line, or several. It is blank only as the answer to a question.
    Line(String),
    /// Ctrl-C with nothing to clear.
    Interrupted,
    /// Ctrl-D on an empty line, the end of the input, or [`Stopper::stop`].
    End,
    /// Ctrl-O: the user wants to see the whole of a text that is shown in part. The next read
    /// continues with the line.
    More,
    /// Ctrl-X Ctrl-E: the user wants to edit the line in another program. The text is the line so
    /// far. The next read continues with it, or with [another text](Editor::set_text).
    Edit(String),
}

/// A key with a special meaning while the program works.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkKey {
    /// Esc: the user wants to interrupt.
    Interrupt,
    /// Ctrl-T: the user gives the work more time.
    MoreTime,
}

/// The settings of an [`Editor`].
pub struct EditorSettings {
    /// The prompt, which may contain wide characters, but no line break.
    pub prompt: String,
    /// The capabilities of the terminal.
    pub look: OutputFeatures,
    /// The screen that the program writes to between lines.
    pub screen: Screen,
    /// The earlier lines, and the file for further ones.
    pub history: Option<History>,
    /// The prefixes of lines that are not kept in the history, because they may contain secrets.
    pub unsaved: Vec<String>,
    /// The first words of lines after which the program asks for a [secret](Editor::read_secret).
    /// While such a line waits, keys are discarded: they would be shown, and read as the line after
    /// it.
    pub asks_for_secret: Vec<String>,
    /// The source of the menus' suggestions.
    pub finder: Finder,
}

/// A line editor on the terminal of this process. While it lives, keys that are typed between two
/// reads are not lost. They are shown only while it [watches](Self::watch).
pub struct Editor {
    backend: EditorBackend,
    screen: Screen,
    printer: LinePrinter,
    stopper: Stopper,
    asker: QuestionSender,
}

enum EditorBackend {
    Live(Box<LiveEditor>),
    Plain(Plain),
}

/// A handle that prints lines above the prompt of an editor, from any thread.
#[derive(Clone, Debug)]
pub struct LinePrinter {
    to: Destination,
    screen: Screen,
}

/// The place where a printer prints.
#[derive(Clone, Debug)]
enum Destination {
    /// Above the prompt, by the thread that draws it.
    Above(SyncSender<String>),
    /// Below the prompt, which is then written again.
    Around(VisiblePrompt),
}

/// A handle that ends an editor's reading, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    is_live: bool,
}

impl Editor {
    /// Creates an editor on the terminal of this process.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses its new modes.
    pub fn new(setup: EditorSettings) -> io::Result<Self> {
        let EditorSettings { prompt, look, screen, history, unsaved, asks_for_secret, finder } =
            setup;
        let stopper = Stopper { stop: Arc::new(AtomicBool::new(false)), is_live: look.live };
        if !look.live {
            let plain = Plain::new(&prompt);
            let printer =
                LinePrinter { to: Destination::Around(plain.asked()), screen: screen.clone() };
            let (backend, asker) = (EditorBackend::Plain(plain), QuestionSender::default());
            return Ok(Self { backend, screen, printer, stopper, asker });
        }
        let above = ExternalPrinter::new(WAITING);
        let printer =
            LinePrinter { to: Destination::Above(above.sender()), screen: screen.clone() };
        let options = LineOptions { history, unsaved, asks_for_secret, finder, above };
        let live = LiveEditor::new(&prompt, look.coloured, options, &stopper.stop)?;
        let (backend, asker) = (EditorBackend::Live(Box::new(live)), QuestionSender::default());
        Ok(Self { backend, screen, printer, stopper, asker })
    }

    /// Reads the next line, and blocks until it is complete. If it is blank, reads another one.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be read from or written to.
    pub fn read(&mut self) -> io::Result<EditorEvent> {
        loop {
            let input = match &mut self.backend {
                EditorBackend::Live(live) => live.read(&self.screen)?,
                EditorBackend::Plain(plain) => Some(plain.read(&self.screen)?),
            };
            match input {
                Some(EditorEvent::Line(line)) if line.trim().is_empty() => {}
                Some(input) => return Ok(input),
                None => {}
            }
        }
    }

    /// Asks `question` as the prompt of one answer, and blocks until the user answers.
    ///
    /// Keys that were typed before the question was shown are discarded. The answer may be blank,
    /// is not kept in the history, and has no suggestions. Lines that are [printed](Self::printer)
    /// in the meantime wait for the next prompt.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be read from or written to.
    pub fn read_answer(&mut self, question: &str) -> io::Result<EditorEvent> {
        match &mut self.backend {
            EditorBackend::Live(live) => live.read_answer(question, &self.screen),
            EditorBackend::Plain(plain) => plain.read_answer(question, &self.screen),
        }
    }

    /// Shows the keys that the user types while the program works, below the output of the screen,
    /// until `stop` is set. Calls `on_key` for each [`WorkKey`].
    ///
    /// A line that was ended waits, and the next [`read`](Self::read) returns it at once. Text
    /// without an end is in the line that is read then. A terminal that cannot move its cursor
    /// echoes the keys itself.
    ///
    /// At the same time, this asks the questions of the [asker](Self::asker).
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be read from or written to.
    pub fn watch(&mut self, stop: &AtomicBool, on_key: &dyn Fn(WorkKey)) -> io::Result<()> {
        match &mut self.backend {
            EditorBackend::Live(live) => live.watch(&self.screen, &self.asker, stop, on_key),
            EditorBackend::Plain(plain) => plain.watch(&self.screen, &self.asker, stop, on_key),
        }
    }

    /// Moves the waiting lines into the line that is read next, so that the user can decide again.
    /// A line that [asks for a secret](EditorSettings::asks_for_secret) still waits: the secret may be on
    /// its way.
    pub fn take_back(&mut self) {
        match &mut self.backend {
            EditorBackend::Live(live) => live.take_back(),
            EditorBackend::Plain(plain) => plain.take_back(),
        }
    }

    /// Replaces the text of the line that is read next, after [`EditorEvent::Edit`].
    pub fn set_text(&mut self, text: &str) {
        if let EditorBackend::Live(live) = &mut self.backend {
            live.set_text(text);
        }
    }

    /// Asks `question` as [`read_answer`](Self::read_answer) does, and does not show what is typed.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal cannot be read from or written to, or does not hide what is
    /// typed.
    pub fn read_secret(&mut self, question: &str) -> io::Result<EditorEvent> {
        match &mut self.backend {
            EditorBackend::Live(live) => live.read_secret(question, &self.screen),
            EditorBackend::Plain(plain) => plain.read_secret(question, &self.screen),
        }
    }

    /// Changes the prompt of the lines to come.
    pub fn set_prompt(&mut self, prompt: &str) {
        match &mut self.backend {
            EditorBackend::Live(live) => live.set_prompt(prompt),
            EditorBackend::Plain(plain) => plain.set_prompt(prompt),
        }
    }

    /// Returns a handle to the modes of the terminal, for the program's handler of `SIGCONT`. The
    /// editor itself handles Ctrl-Z while it reads.
    #[must_use]
    pub fn modes(&self) -> Modes {
        match &self.backend {
            EditorBackend::Live(live) => live.modes(),
            EditorBackend::Plain(_) => Modes::default(),
        }
    }

    /// Returns a handle that prints above the prompt.
    #[must_use]
    pub fn printer(&self) -> LinePrinter {
        self.printer.clone()
    }

    /// Returns a handle that puts [questions](crate::question::KeyQuestion).
    #[must_use]
    pub fn asker(&self) -> QuestionSender {
        self.asker.clone()
    }

    /// Returns a handle that ends the reading.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

/// The number of messages that may wait for the next prompt.
const WAITING: usize = 1024;

impl LinePrinter {
    /// Prints `text`, of one line or more, above the prompt: at once while the editor reads,
    /// otherwise before the next prompt.
    ///
    /// # Errors
    ///
    /// Returns an error if 1,024 messages wait already, or the terminal is closed.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let above = match &self.to {
            Destination::Above(above) => above,
            Destination::Around(asked) => return asked.print(text, &self.screen),
        };
        above.try_send(folded(&sanitize(text), TerminalSize::now().columns)).map_err(|error| {
            match error {
                TrySendError::Full(_) => io::Error::other("too many messages wait for the prompt"),
                TrySendError::Disconnected(_) => io::Error::from(io::ErrorKind::BrokenPipe),
            }
        })
    }
}

impl Stopper {
    /// Makes [`Editor::read`] return [`EditorEvent::End`], within a tenth of a second on a terminal that
    /// can move its cursor and answers. Elsewhere only the next line ends it, and this returns
    /// `false`.
    pub fn stop(&self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        self.is_live
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.asker.close();
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_live = matches!(self.backend, EditorBackend::Live(_));
        f.debug_struct("Editor").field("is_live", &is_live).finish_non_exhaustive()
    }
}
