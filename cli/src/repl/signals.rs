//! The signals of a program at a terminal.

use std::future::Future;
use std::io;
use std::pin::pin;

use ikigai_terminal::editor::Modes;
use rustix::process::Signal as Signo;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::out::Out;
use super::{ExitReason, HOW_TO_LEAVE};
use crate::end_signals::EndSignals;

/// Sets the modes of the editor again whenever the program continues after a stop. The shell has
/// set its own modes in the meantime.
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
pub(super) enum SignalRequest {
    /// End what is running, and not the REPL.
    Interrupt,
    /// End the REPL. The number is the signal's.
    End(i32),
}

impl SignalRequest {
    /// Returns whether a key of the terminal sends the signal. While the terminal is lent, the key
    /// is for the process that has it.
    fn is_of_a_key(self) -> bool {
        match self {
            Self::Interrupt => true,
            Self::End(signal) => signal == Signo::QUIT.as_raw(),
        }
    }
}

/// The signals that the REPL handles.
pub(super) struct ReplSignals {
    interrupt: Signal,
    ends: EndSignals,
    /// True after the terminal was lent, until an interrupt arrives during or after the loan.
    may_be_late: bool,
}

impl ReplSignals {
    /// Starts to handle the signals.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            ends: EndSignals::at_terminal()?,
            may_be_late: false,
        })
    }

    /// Waits for the next signal. If the future is dropped, no signal is lost.
    ///
    /// After the terminal was lent, ignores the first interrupt or SIGQUIT if none arrived during
    /// the loan. The kernel sends Ctrl-C and Ctrl-\ to every process in the foreground. The process
    /// that such a key ends may be reaped before this process has handled its own signal.
    pub(super) async fn next(&mut self) -> SignalRequest {
        loop {
            let request = self.arrived().await;
            if !request.is_of_a_key() || !std::mem::take(&mut self.may_be_late) {
                return request;
            }
        }
    }

    async fn arrived(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.interrupt.recv() => SignalRequest::Interrupt,
            kind = self.ends.next() => SignalRequest::End(kind.as_raw_value()),
        }
    }

    /// Runs `work` while its process has the terminal and receives Ctrl-C and Ctrl-\. Cancels `end`
    /// when another signal arrives that ends the REPL. Waits for the end of `work` in any case.
    pub(super) async fn beside<T>(
        &mut self,
        work: impl Future<Output = T>,
        end: &CancellationToken,
    ) -> (T, Option<ExitReason>) {
        let mut work = pin!(work);
        let mut ended = None;
        self.may_be_late = true;
        loop {
            let request = tokio::select! {
                biased;
                request = self.arrived() => request,
                output = &mut work => return (output, ended),
            };
            match request {
                SignalRequest::End(signal) if !request.is_of_a_key() => {
                    ended = Some(ExitReason::Signal(signal));
                    end.cancel();
                }
                SignalRequest::Interrupt | SignalRequest::End(_) => self.may_be_late = false,
            }
        }
    }

    /// Runs `work`, and cancels `cancel` when a signal arrives. Waits for the end of `work` in any
    /// case, so that no part of it keeps running.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &CancellationToken,
        out: &Out,
    ) -> (T, Option<ExitReason>) {
        let mut work = pin!(work);
        let mut ended = None;
        // Otherwise the first Ctrl-C would be ignored, and this work would need a second one.
        self.may_be_late = false;
        loop {
            let request = tokio::select! {
                output = &mut work => return (output, ended),
                request = self.next() => request,
            };
            match request {
                SignalRequest::Interrupt if cancel.is_cancelled() => {
                    // If the terminal is gone, a hangup arrives too.
                    let _ = out.line(HOW_TO_LEAVE);
                }
                SignalRequest::Interrupt => {}
                SignalRequest::End(signal) => ended = Some(ExitReason::Signal(signal)),
            }
            cancel.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;

    /// Sends the signal of Ctrl-C to this process, and returns when it has arrived.
    async fn interrupt(witness: &mut Signal) {
        kill_process(getpid(), Signo::INT).expect("a signal");
        witness.recv().await.expect("the signal");
    }

    async fn is_interrupted(signals: &mut ReplSignals) -> bool {
        tokio::select! {
            biased;
            request = signals.next() => matches!(request, SignalRequest::Interrupt),
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn an_interrupt_of_the_borrower_may_come_after_its_end() {
        let end = CancellationToken::new();
        let mut witness = signal(SignalKind::interrupt()).expect("a handler");
        let mut signals = ReplSignals::new().expect("handlers");
        interrupt(&mut witness).await;
        assert!(is_interrupted(&mut signals).await);

        signals.beside(async {}, &end).await;
        interrupt(&mut witness).await;
        assert!(!is_interrupted(&mut signals).await);
        interrupt(&mut witness).await;
        assert!(is_interrupted(&mut signals).await);

        // The interrupt during the loan was for the borrower, and the next one is for the REPL.
        signals.beside(interrupt(&mut witness), &end).await;
        interrupt(&mut witness).await;
        assert!(is_interrupted(&mut signals).await);
    }

    #[tokio::test]
    async fn a_sigquit_of_the_borrower_does_not_end_the_repl() {
        let end = CancellationToken::new();
        let mut witness = signal(SignalKind::quit()).expect("a handler");
        let mut signals = ReplSignals::new().expect("handlers");
        let mut quit = async || {
            kill_process(getpid(), Signo::QUIT).expect("a signal");
            witness.recv().await.expect("the signal");
        };
        let ((), ended) = signals.beside(quit(), &end).await;
        assert!(ended.is_none() && !end.is_cancelled());
        signals.may_be_late = false;
        quit().await;
        let request = signals.next().await;
        assert!(matches!(request, SignalRequest::End(signal) if signal == Signo::QUIT.as_raw()));
    }
}
