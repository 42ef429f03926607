//! The output of the REPL: above the prompt while the user types, and at the end otherwise. No
//! other part of the REPL writes to the terminal.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};

use ikigai_terminal::editor::LinePrinter;
use ikigai_terminal::{OutputFeatures, Screen};
use parking_lot::Mutex;

use ikigai_host::registry::{CompileEvent, ProgressFn};

/// The terminal that the REPL writes to. Clones write to the same terminal.
#[derive(Clone)]
pub(crate) struct Out {
    look: OutputFeatures,
    screen: Screen,
    printer: Arc<OnceLock<LinePrinter>>,
    /// True while a line is read. Locked while text is written, so that no prompt is drawn into
    /// the text.
    is_reading: Arc<Mutex<bool>>,
}

impl Out {
    /// Returns the terminal of this process.
    #[must_use]
    pub(crate) fn stdout() -> Self {
        let look = OutputFeatures::for_stream(&io::stdout());
        Self {
            look,
            screen: Screen::new(io::stdout(), look),
            printer: Arc::default(),
            is_reading: Arc::default(),
        }
    }

    /// Returns a function that prints compilations. They happen during discovery, while the user
    /// may be typing.
    #[must_use]
    pub(crate) fn progress(&self) -> ProgressFn {
        let out = self.clone();
        Arc::new(move |progress| {
            if let CompileEvent::Compiling(name) = progress {
                // If the terminal is gone, the next read fails.
                let _ = out.line(&format!("compiling {name} (only the first time)"));
            }
        })
    }

    pub(super) fn look(&self) -> OutputFeatures {
        self.look
    }

    pub(super) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Sets the printer that writes above the prompt.
    pub(super) fn set_printer(&self, printer: LinePrinter) {
        // There is only one editor, and it is set up once.
        let _ = self.printer.set(printer);
    }

    /// Sets whether a line is being read.
    pub(super) fn set_reading(&self, is_reading: bool) {
        *self.is_reading.lock() = is_reading;
    }

    /// Writes lines.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        let is_reading = self.is_reading.lock();
        match self.printer.get() {
            Some(printer) if *is_reading => printer.print(text),
            _ => self.screen.line(text),
        }
    }

    /// Writes an error, with a hint.
    pub(super) fn error(&self, error: &dyn Error, hint: Option<String>) -> io::Result<()> {
        let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.line(&format!("error: {}{hint}", chain(error)))
    }

    /// Returns the value, or writes its error as a warning.
    pub(super) fn warn_of<T>(&self, found: Option<Result<T, String>>) -> io::Result<Option<T>> {
        match found.transpose() {
            Ok(found) => Ok(found),
            Err(text) => self.line(&format!("warning: {text}")).map(|()| None),
        }
    }
}

/// Returns the text of an error and its causes, on one line.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
