//! Signals, as they reach a program at a terminal.

use std::future::Future;
use std::io;
use std::pin::pin;

use ikigai_terminal::editor::Modes;
use rustix::process::Signal as Signo;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::out::Out;
use super::{Ended, HOW_TO_LEAVE};

/// Gives the terminal the modes of the editor again whenever the program continues after it
/// was stopped: the shell has set its own meanwhile.
pub(super) fn set_again(modes: Modes) -> io::Result<()> {
    let mut continued = signal(SignalKind::from_raw(Signo::CONT.as_raw()))?;
    tokio::spawn(async move {
        while continued.recv().await.is_some() {
            // A terminal that is gone is found out where something is read from it.
            let _ = modes.reapply();
        }
    });
    Ok(())
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happened {
    /// What goes on is to end, the REPL is not.
    Interrupt,
    /// Everything is to end.
    End(i32),
}

/// Listens from now on.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal. Where this is dropped, none is lost.
    pub(super) async fn next(&mut self) -> Happened {
        tokio::select! {
            _ = self.interrupt.recv() => Happened::Interrupt,
            _ = self.terminate.recv() => Happened::End(SignalKind::terminate().as_raw_value()),
            // The terminal is gone.
            _ = self.hangup.recv() => Happened::End(SignalKind::hangup().as_raw_value()),
        }
    }

    /// Does `work`, which `cancel` ends, and cancels it when a signal asks for that. `work`
    /// is always waited for, so that nothing of it is left.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &CancellationToken,
        out: &Out,
    ) -> (T, Option<Ended>) {
        let mut work = pin!(work);
        let mut ended = None;
        loop {
            let happened = tokio::select! {
                output = &mut work => return (output, ended),
                happened = self.next() => happened,
            };
            match happened {
                Happened::Interrupt if cancel.is_cancelled() => {
                    // A terminal that is gone has told of it, or will.
                    let _ = out.line(HOW_TO_LEAVE);
                }
                Happened::Interrupt => {}
                Happened::End(signal) => ended = Some(Ended::Signal(signal)),
            }
            cancel.cancel();
        }
    }
}
