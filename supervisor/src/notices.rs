//! The calls of a tool that wait for the supervisor. Two modules handle them: the
//! [observer](super::observer) for a watched tool, and the [connections](super::connections) for
//! a tool with its own sockets.
//!
//! Owns the listener. Each call that is taken continues, or is answered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::connections::{PAUSE, ToolConnections};
use super::listener::{Listener, NextNotice};
use super::observer::Observer;
use crate::plan::ObservedAccesses;

/// The number of calls that are answered before the supervisor checks the time and its host
/// again.
const AT_ONCE: usize = 64;

/// The calls of one tool that wait.
pub(super) struct PendingNotices {
    listener: Option<Listener>,
    observer: Option<Observer>,
    connections: Option<ToolConnections>,
}

impl PendingNotices {
    pub(super) fn new(
        listener: Listener,
        observer: Option<Observer>,
        connections: Option<ToolConnections>,
    ) -> Self {
        Self { listener: Some(listener), observer, connections }
    }

    /// Returns the listener, which is ready when a call waits. `None` once no call can come any
    /// more.
    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Returns the time after which [`take`](Self::take) is due without a new call, if it is.
    pub(super) fn due_after(&self) -> Option<Duration> {
        let waits = self.connections.as_ref().is_some_and(ToolConnections::has_waiting);
        waits.then_some(PAUSE)
    }

    /// Returns the accesses of a watched tool.
    pub(super) fn seen(self) -> ObservedAccesses {
        self.observer.map(Observer::seen).unwrap_or_default()
    }

    /// Handles the calls that wait. Does not wait for more.
    ///
    /// # Errors
    ///
    /// Fails if the listener can no longer be used. The calls that wait fail from then on.
    pub(super) fn take(&mut self) -> io::Result<()> {
        let Self { listener, observer, connections } = self;
        for _ in 0..AT_ONCE {
            let Some(from) = listener else { return Ok(()) };
            let notice = match from.next() {
                Ok(NextNotice::Call(notice)) => notice,
                Ok(NextNotice::Nothing) => break,
                Ok(NextNotice::Closed) => {
                    *listener = None;
                    return Ok(());
                }
                Err(error) => {
                    *listener = None;
                    observer.iter_mut().for_each(Observer::stop);
                    return Err(error);
                }
            };
            let mut attend = || match connections {
                Some(connections) if notice.call == libc::SYS_connect => {
                    connections.make(&notice, from)
                }
                Some(connections) if notice.call == libc::SYS_listen => {
                    connections.keep(&notice, from)
                }
                _ => from.resume(&notice),
            };
            match observer {
                Some(observer) => observer.observe(&notice, attend),
                None => drop(attend()),
            }
        }
        if let (Some(listener), Some(connections)) = (listener, connections) {
            connections.retry(listener);
        }
        Ok(())
    }
}
