//! The signals of a program at a terminal.

use std::future::Future;
use std::io;
use std::pin::pin;

use ikigai_terminal::editor::Modes;
use rustix::process::Signal as Signo;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::out::Out;
use super::{Ended, HOW_TO_LEAVE};

/// Sets the modes of the editor again whenever the program continues after it was stopped. The
/// shell has set its own modes meanwhile.
pub(super) fn reapply_on_continue(modes: Modes) -> io::Result<()> {
    let mut continued = signal(SignalKind::from_raw(Signo::CONT.as_raw()))?;
    tokio::spawn(async move {
        while continued.recv().await.is_some() {
            // If the terminal is gone, the next read fails.
            let _ = modes.reapply();
        }
    });
    Ok(())
}

/// The request of a signal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// End what is running, and not the REPL.
    Interrupt,
    /// End the REPL. The number is the signal's.
    End(i32),
}

/// The signals that the REPL handles.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Handles the signals from now on.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. If the future is dropped, no signal is lost.
    pub(super) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.interrupt.recv() => Request::Interrupt,
            _ = self.terminate.recv() => Request::End(SignalKind::terminate().as_raw_value()),
            // The terminal is gone.
            _ = self.hangup.recv() => Request::End(SignalKind::hangup().as_raw_value()),
        }
    }

    /// Runs `work`, to which the terminal is lent, so that Ctrl-C is for its process. Cancels `end`
    /// when a signal arrives that ends the REPL, and waits for the end of `work` in any case.
    pub(super) async fn beside<T>(
        &mut self,
        work: impl Future<Output = T>,
        end: &CancellationToken,
    ) -> (T, Option<Ended>) {
        let mut work = pin!(work);
        let mut ended = None;
        loop {
            let request = tokio::select! {
                biased;
                request = self.next() => request,
                output = &mut work => return (output, ended),
            };
            if let Request::End(signal) = request {
                ended = Some(Ended::Signal(signal));
                end.cancel();
            }
        }
    }

    /// Runs `work`, and cancels `cancel` when a signal arrives. Waits for the end of `work` in any
    /// case, so that nothing of it is left.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &CancellationToken,
        out: &Out,
    ) -> (T, Option<Ended>) {
        let mut work = pin!(work);
        let mut ended = None;
        loop {
            let request = tokio::select! {
                output = &mut work => return (output, ended),
                request = self.next() => request,
            };
            match request {
                Request::Interrupt if cancel.is_cancelled() => {
                    // If the terminal is gone, a hangup arrives too.
                    let _ = out.line(HOW_TO_LEAVE);
                }
                Request::Interrupt => {}
                Request::End(signal) => ended = Some(Ended::Signal(signal)),
            }
            cancel.cancel();
        }
    }
}
