//! The calls of a tool that wait for the supervisor. Two modules handle them: the
//! [observer](super::observer) for a watched tool, and the [connections](super::connections) for
//! a tool with its own sockets.
//!
//! Owns the listener. Each call that is taken continues, or is answered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::connections::{PAUSE, ToolConnections};
use super::listener::{Listener, NextNotice};
use super::observer::Observer;
use crate::plan::ObservedAccesses;

/// The number of calls that are answered in one turn. The supervisor checks the time, its host
/// and the bounds between two turns.
const AT_ONCE: usize = 64;

/// The time after which a turn ends. The tool chooses how long the supervisor needs for a call,
/// within bounds, so one call is answered even if it takes longer.
const LONGEST_TURN: Duration = Duration::from_millis(5);

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
        let waits = self.connections.as_ref().is_some_and(|it| it.waiting() > 0);
        waits.then_some(PAUSE)
    }

    /// Returns the accesses of a watched tool.
    pub(super) fn seen(self) -> ObservedAccesses {
        self.observer.map(Observer::seen).unwrap_or_default()
    }

    /// Handles the calls that wait, until a turn is over. Does not wait for more.
    ///
    /// # Errors
    ///
    /// Fails if the listener can no longer be used. The calls that wait fail from then on.
    pub(super) fn take(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let is_over = || began.elapsed() >= LONGEST_TURN;
        take_turn(AT_ONCE, is_over, || self.take_next())?;
        if let (Some(listener), Some(connections)) = (&self.listener, &mut self.connections) {
            // At least one is tried in each turn, and the next one in the next turn.
            take_turn(connections.waiting(), is_over, || {
                connections.retry_next(listener);
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// Handles the next call. Returns whether one was waiting.
    fn take_next(&mut self) -> io::Result<bool> {
        let Self { listener, observer, connections } = self;
        let Some(from) = listener else { return Ok(false) };
        let notice = match from.next() {
            Ok(NextNotice::Call(notice)) => notice,
            Ok(NextNotice::Nothing) => return Ok(false),
            Ok(NextNotice::Closed) => {
                *listener = None;
                return Ok(false);
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
            Some(connections) if notice.call == libc::SYS_listen => connections.keep(&notice, from),
            _ => from.resume(&notice),
        };
        match observer {
            Some(observer) => observer.observe(&notice, attend),
            None => drop(attend()),
        }
        Ok(true)
    }
}

/// Calls `next` at most `most` times, until it returns `false`, fails, or the time is over. Looks
/// at the time after each call, so the first one is always made.
fn take_turn(
    most: usize,
    mut is_over: impl FnMut() -> bool,
    mut next: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    for _ in 0..most {
        if !next()? || is_over() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_turn_ends_after_the_call_that_used_up_its_time() {
        let served = |most, each: Duration, calls: usize| {
            let (time, count) = (Cell::new(Duration::ZERO), Cell::new(0));
            let is_over = || time.get() >= LONGEST_TURN;
            let next = || {
                if count.get() == calls {
                    return Ok(false);
                }
                time.set(time.get() + each);
                count.set(count.get() + 1);
                Ok(true)
            };
            take_turn(most, is_over, next).expect("served");
            count.get()
        };
        assert_eq!(served(AT_ONCE, Duration::ZERO, 3), 3);
        assert_eq!(served(AT_ONCE, Duration::ZERO, 1000), AT_ONCE);
        assert_eq!(served(AT_ONCE, LONGEST_TURN / 4, 1000), 4);
        assert_eq!(served(AT_ONCE, LONGEST_TURN * 20, 1000), 1, "a slow call is the last one");
        assert_eq!(served(0, Duration::ZERO, 1000), 0);
    }

    #[test]
    fn a_turn_ends_with_an_error() {
        let mut calls = 0;
        let next = || {
            calls += 1;
            if calls == 2 { Err(io::Error::other("closed")) } else { Ok(true) }
        };
        let failed = take_turn(AT_ONCE, || false, next);
        assert_eq!((failed.is_err(), calls), (true, 2));
    }
}
