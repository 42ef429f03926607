//! The signals, other than the interrupt, whose default is to end this process.
//!
//! A tool can choose the moment of some: it can make any key of its terminal send SIGQUIT. A
//! process that one of them ended would set nothing aside, and record nothing.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal as Signo;
use tokio::signal::unix::{Signal, SignalKind, signal};

use ikigai_host::exec::native;

/// The signals.
const ENDING: [Signo; 9] = [
    Signo::TERM,
    Signo::HUP,
    Signo::QUIT,
    Signo::USR1,
    Signo::USR2,
    Signo::ALARM,
    Signo::VTALARM,
    Signo::PROF,
    Signo::XCPU,
];

/// The handlers of the signals.
pub(crate) struct EndSignals(Vec<(SignalKind, Signal)>);

impl EndSignals {
    /// Starts to handle the signals. SIGTERM and SIGQUIT are handled even if the parent let this
    /// process ignore them, as a shell does with SIGQUIT in the background. Another signal that this
    /// process ignores has no effect, such as SIGHUP after `nohup`.
    pub(crate) fn new() -> io::Result<Self> {
        Self::handling(&[Signo::TERM, Signo::QUIT])
    }

    /// The same for a program that needs its terminal, and so always ends with it.
    pub(crate) fn at_terminal() -> io::Result<Self> {
        Self::handling(&[Signo::TERM, Signo::QUIT, Signo::HUP])
    }

    fn handling(always: &[Signo]) -> io::Result<Self> {
        let is_handled = |it: &Signo| always.contains(it) || !native::ignores(it.as_raw());
        let handled = ENDING.into_iter().filter(is_handled).map(|it| {
            let kind = SignalKind::from_raw(it.as_raw());
            signal(kind).map(|handler| (kind, handler))
        });
        handled.collect::<io::Result<Vec<_>>>().map(Self)
    }

    /// Waits for the next of the signals. If the future is dropped, no signal is lost.
    pub(crate) async fn next(&mut self) -> SignalKind {
        poll_fn(|context| {
            let arrived = |it: &mut (SignalKind, Signal)| it.1.poll_recv(context).is_ready();
            let found = self.0.iter_mut().position(arrived);
            match found {
                Some(found) => Poll::Ready(self.0[found].0),
                None => Poll::Pending,
            }
        })
        .await
    }
}
