//! Progress of compilations on stderr: a spinner on a terminal, a line elsewhere.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar};
use parking_lot::Mutex;

use ikigai_host::registry::{CompileEvent, ProgressFn};

/// Returns a function that shows the progress of compilations on stderr.
pub(crate) fn reporter() -> ProgressFn {
    if std::io::stderr().is_terminal() { spinners() } else { Arc::new(print_line) }
}

fn print_line(progress: CompileEvent) {
    if let CompileEvent::Compiling(name) = progress {
        // This fails if stderr has no reader, and then nothing is lost.
        let _ = writeln!(std::io::stderr(), "compiling {name} (only the first time)");
    }
}

fn spinners() -> ProgressFn {
    let bars = MultiProgress::new();
    let running: Mutex<HashMap<String, ProgressBar>> = Mutex::default();
    Arc::new(move |progress| {
        let mut running = running.lock();
        match progress {
            CompileEvent::Compiling(name) => {
                let bar = bars.add(ProgressBar::new_spinner());
                bar.set_message(format!("compiling {name} (only the first time)"));
                bar.enable_steady_tick(Duration::from_millis(100));
                running.insert(name, bar);
            }
            CompileEvent::Compiled(name) => {
                if let Some(bar) = running.remove(&name) {
                    bar.finish_and_clear();
                }
            }
        }
    })
}
