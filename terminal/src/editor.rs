//! Reading what a person types: history, several lines, menus, printing above the
//! prompt meanwhile.
//!
//! Editing is reedline's; where a terminal cannot move its cursor, lines are read as
//! they come. Blocks the thread that reads: an editor belongs on a thread of its own.

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

pub use self::history::{History, HistoryError};
use self::live::{Help, Live};
pub use self::modes::Modes;
use self::plain::{Asked, Plain};
use crate::finder::Finder;
use crate::fold::folded;
use crate::harmless;
use crate::look::{Look, Size};
use crate::screen::Screen;

/// What was typed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input {
    /// A line, or several; blank only where it answers a question.
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

/// Prints lines above the prompt of an editor, from any thread.
#[derive(Clone, Debug)]
pub struct Printer {
    to: To,
    screen: Screen,
}

/// Where a printer prints.
#[derive(Clone, Debug)]
enum To {
    /// Above the prompt, by whoever draws it.
    Above(SyncSender<String>),
    /// Below the prompt, which is written once more.
    Around(Asked),
}

/// Ends the reading of an editor, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    is_live: bool,
}

impl Editor {
    /// An editor on the terminal of this process.
    ///
    /// # Errors
    ///
    /// If the terminal refuses to be set.
    pub fn new(setup: Setup) -> io::Result<Self> {
        let Setup { prompt, look, screen, history, unsaved, finder } = setup;
        let stopper = Stopper { stop: Arc::new(AtomicBool::new(false)), is_live: look.live };
        if !look.live {
            let plain = Plain::new(&prompt);
            let printer = Printer { to: To::Around(plain.asked()), screen: screen.clone() };
            return Ok(Self { how: How::Plain(plain), screen, printer, stopper });
        }
        let above = ExternalPrinter::new(WAITING);
        let printer = Printer { to: To::Above(above.sender()), screen: screen.clone() };
        let help = Help { history, unsaved, finder, above };
        let live = Live::new(&prompt, look.coloured, help, &stopper.stop)?;
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

    /// Asks `question`, which stands before the answer, and blocks until there is one.
    ///
    /// What was typed before is no answer: whoever typed it had not seen what is asked. It is
    /// forgotten. The answer may be blank, is not kept in the history, and nothing is offered
    /// for it; what is [printed](Self::printer) meanwhile waits for the next line.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read from or written to.
    pub fn read_answer(&mut self, question: &str) -> io::Result<Input> {
        match &mut self.how {
            How::Live(live) => live.read_answer(question, &self.screen),
            How::Plain(plain) => plain.read_answer(question, &self.screen),
        }
    }

    /// Changes what stands before the lines to come.
    pub fn set_prompt(&mut self, prompt: &str) {
        match &mut self.how {
            How::Live(live) => live.set_prompt(prompt),
            How::Plain(plain) => plain.set_prompt(prompt),
        }
    }

    /// The modes of the terminal, for who hears that the program continues after it was
    /// stopped. Ctrl-Z while the editor reads is taken care of here.
    #[must_use]
    pub fn modes(&self) -> Modes {
        match &self.how {
            How::Live(live) => live.modes(),
            How::Plain(_) => Modes::default(),
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
        let above = match &self.to {
            To::Above(above) => above,
            To::Around(asked) => return asked.print(text, &self.screen),
        };
        above.try_send(folded(&harmless(text), Size::now().columns)).map_err(|error| match error {
            TrySendError::Full(_) => io::Error::other("too many messages wait for the prompt"),
            TrySendError::Disconnected(_) => io::Error::from(io::ErrorKind::BrokenPipe),
        })
    }
}

impl Stopper {
    /// Makes [`Editor::read`] answer [`Input::End`], within a tenth of a second on a
    /// terminal that can move its cursor and answers. Elsewhere only the next line ends it,
    /// and this returns false.
    pub fn stop(&self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        self.is_live
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_live = matches!(self.how, How::Live(_));
        f.debug_struct("Editor").field("is_live", &is_live).finish_non_exhaustive()
    }
}
