//! The log of this process: lines on stderr, filtered by `IKIGAI_LOG`.

use std::io::IsTerminal as _;

use ikigai_terminal::sanitize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::output::eprint;

/// Sends the log of this process to stderr.
pub(crate) fn log_to_stderr(verbose: bool) {
    let default = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let asked = std::env::var("IKIGAI_LOG").ok().map(|text| (text.parse::<Targets>(), text));
    let filter = match &asked {
        Some((Ok(targets), _)) => targets.clone(),
        Some((Err(_), _)) | None => {
            Targets::new().with_default(LevelFilter::WARN).with_target("ikigai", default)
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
        eprint("warning: the log was set up before, so IKIGAI_LOG has no effect\n");
    }
    if let Some((Err(error), text)) = asked {
        tracing::warn!("IKIGAI_LOG=`{text}` is ignored, it is not a filter: {error}");
    }
}

/// A writer of lines of the log to stderr, without control characters. On a terminal the lines
/// have colours, and the subscriber escapes other control characters.
struct LogWriter {
    has_colours: bool,
}

impl std::io::Write for LogWriter {
    /// Writes a whole line, as the subscriber hands it over.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let mut stderr = std::io::stderr().lock();
        if self.has_colours {
            stderr.write_all(line)?;
        } else {
            stderr.write_all(sanitize(&String::from_utf8_lossy(line)).as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
