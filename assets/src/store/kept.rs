//! A row of the table of sessions, and the time of the lease in it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::session::{Holder, SessionSummary};

/// A row of the table of sessions.
pub(super) struct SessionRow {
    /// The session, without the holder of its lease, which depends on the time.
    pub(super) summary: SessionSummary,
    /// The number of its last lease.
    pub(super) fence: u64,
    /// The time of that lease; `None` if it was released.
    pub(super) term: Option<LeaseTerm>,
}

/// The time of a lease, in microseconds since 1970.
pub(super) struct LeaseTerm {
    pub(super) owner: String,
    /// The time at which it was last renewed.
    pub(super) from: i64,
    /// Its end.
    pub(super) until: i64,
}

impl SessionRow {
    /// Returns the holder of the lease at this time.
    pub(super) fn holder(&self, now: i64) -> Option<Holder> {
        let term = self.term.as_ref().filter(|term| term.holds(now))?;
        let until = Duration::from_micros(u64::try_from(term.until).unwrap_or(0));
        let until = UNIX_EPOCH.checked_add(until).unwrap_or_else(SystemTime::now);
        Some(Holder { owner: term.owner.clone(), until })
    }

    /// Returns the session as it is at this time.
    pub(super) fn summary(mut self, now: i64) -> SessionSummary {
        self.summary.holder = self.holder(now);
        self.summary
    }

    /// Refuses a session if another owner holds it.
    pub(super) fn check_free(&self, owner: &str, now: i64) -> Result<()> {
        match self.holder(now) {
            Some(Holder { owner: other, until }) if other != owner => {
                Err(Error::SessionHeld { session: self.summary.id, owner: other, until })
            }
            _ => Ok(()),
        }
    }
}

impl LeaseTerm {
    /// Returns whether the lease has not ended at this time.
    ///
    /// A lease whose renewal is in the future has ended too, if the renewal is further away than
    /// the lease is long. So after a clock was set back, the session of a dead process does not
    /// stay locked. A live process notices at its next write if its lease was taken.
    pub(super) fn holds(&self, now: i64) -> bool {
        let length = self.until.abs_diff(self.from);
        now.abs_diff(self.from) < length
    }
}
