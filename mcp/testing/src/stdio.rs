//! A peer on stdin and stdout, with one message per line.

use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::definition::Definition;
use crate::floods;
use crate::peer::{Out, Outlet, Peer};

/// The time between two checks of the definition.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

struct Stdout;

impl Outlet for Stdout {
    fn send(&self, line: &str) {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.write_all(b"\n"))
            .and_then(|()| stdout.flush());
        if written.is_err() {
            // The client has gone.
            std::process::exit(1);
        }
    }
}

/// Serves until stdin ends.
pub(crate) fn serve(definition: Definition, file: PathBuf) -> Result<(), String> {
    if let Some(banner) = &definition.banner {
        Stdout.send(banner);
    }
    let (flood, hang) = (definition.flood, definition.hang);
    let peer = Peer::new(definition, file);
    if let Some(stream) = flood {
        floods::start(stream);
    }
    if hang {
        floods::rest();
    }
    watch(&peer);
    let out: Out = Arc::new(Stdout);
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("cannot read stdin: {error}"))?;
        peer.handle(&line, &out);
    }
    peer.journal.note("end");
    Ok(())
}

/// Watches the definition for changes.
pub(crate) fn watch(peer: &Arc<Peer>) {
    let peer = peer.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(BETWEEN_LOOKS);
            peer.look();
        }
    });
}
