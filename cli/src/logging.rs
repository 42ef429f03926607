//! The log of this process: lines on stderr, filtered by `IKIGAI_LOG`.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use ikigai_terminal::sanitize;
use parking_lot::Mutex;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::output::eprint;
use crate::variables::ProgramVariable;

/// The variable with the filter.
const VARIABLE: ProgramVariable = ProgramVariable::IkigaiLog;

/// Sends the log of this process to stderr.
pub(crate) fn log_to_stderr(verbose: bool) {
    let default = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let asked = VARIABLE.text().map(|text| (text.parse::<Targets>(), text));
    let filter = match &asked {
        Some((Ok(targets), _)) => targets.clone(),
        Some((Err(_), _)) | None => {
            Targets::new()
                .with_default(LevelFilter::WARN)
                .with_target("ikigai", default)
                // It warns about each error that a client gets as an answer.
                .with_target("rmcp", LevelFilter::OFF)
                // It warns about each bad request of a component, which can make thousands per
                // second.
                .with_target("wasmtime_wasi_http", LevelFilter::OFF)
        }
    };
    let has_colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter { has_colours })
        .with_ansi(has_colours)
        .without_time()
        .with_target(false);
    let subscriber = tracing_subscriber::registry().with(lines).with(filter);
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        eprint(&format!("warning: the log was set up before, so {VARIABLE} has no effect\n"));
    }
    if let Some((Err(error), text)) = asked {
        tracing::warn!("{VARIABLE}=`{text}` is ignored, because it is not a filter: {error}");
    }
}

/// The most lines that wait until stderr can be written. Further lines are dropped.
const WAITING: usize = 1024;

/// The time limit for writing the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The thread that writes the log, if there is one.
static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

struct Background {
    lines: SyncSender<Vec<u8>>,
    ended: Receiver<()>,
}

/// Starts a thread that writes the log from now on. A server must not wait for a reader of its
/// stderr.
pub(crate) fn log_in_background() {
    let (lines, waiting) = sync_channel::<Vec<u8>>(WAITING);
    let (end, ended) = channel();
    thread::spawn(move || {
        for line in waiting {
            // If stderr has no reader, the failure cannot be reported.
            let _ = std::io::stderr().lock().write_all(&line);
        }
        drop(end);
    });
    *BACKGROUND.lock() = Some(Background { lines, ended });
}

/// Waits until the lines so far are written, but at most [`LAST_LINES`] for a reader that does not
/// read.
pub(crate) fn finish_log() {
    let background = BACKGROUND.lock().take();
    let Some(Background { lines, ended }) = background else { return };
    drop(lines);
    let _ = ended.recv_timeout(LAST_LINES);
}

/// Writes log lines to stderr without control characters. On a terminal the lines have colours, and
/// the subscriber escapes other control characters.
struct LogWriter {
    has_colours: bool,
}

impl std::io::Write for LogWriter {
    /// Writes a whole line, as the subscriber passes it.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let shown = if self.has_colours { text } else { sanitize(&text).into_owned().into() };
        let background = BACKGROUND.lock();
        if let Some(Background { lines, .. }) = &*background {
            let _ = lines.try_send(shown.into_owned().into_bytes());
        } else {
            std::io::stderr().lock().write_all(shown.as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
