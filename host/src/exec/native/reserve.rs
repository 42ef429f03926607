//! Supervisors that were started before they are needed.
//!
//! Owns the number of supervisors that a host keeps, and the rule by which a supervisor is still
//! good for a call. Taking one saves a call the start of a process, and the work that the
//! supervisor does before it has a plan.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Gid, Uid, getegid, geteuid};

use ikigai_supervisor::plan::Confinement;

use super::supervisor_process::WaitingSupervisor;

/// The age at which a supervisor stops serving calls. It has the control group, the limits and the
/// priority that its host had at its start, and the host may have changed them since.
const TOO_OLD: Duration = Duration::from_mins(10);

/// Supervisors that wait for a plan of one kind. Each ends when its host ends or closes its socket.
#[derive(Debug)]
pub(super) struct Reserve {
    confinement: Confinement,
    size: usize,
    /// The oldest is first.
    waiting: Mutex<VecDeque<ReservedSupervisor>>,
    /// The supervisors that no call can use any more. They take some milliseconds to end, and no
    /// call waits for that.
    spent: Mutex<Vec<ReservedSupervisor>>,
}

/// A supervisor, and the surroundings of its start.
#[derive(Debug)]
struct ReservedSupervisor {
    supervisor: WaitingSupervisor,
    since: Instant,
    user: Uid,
    group: Gid,
}

impl Reserve {
    /// Returns an empty reserve of at most `size` supervisors for calls of this kind.
    pub(super) fn new(confinement: Confinement, size: usize) -> Self {
        Self { confinement, size, waiting: Mutex::default(), spent: Mutex::default() }
    }

    /// Takes a supervisor that is good for a call, or starts the one at `executable`, whose errors
    /// go to `stderr`.
    pub(super) fn take_or_start(
        &self,
        executable: impl FnOnce() -> io::Result<PathBuf>,
        stderr: BorrowedFd<'_>,
    ) -> io::Result<WaitingSupervisor> {
        loop {
            // Not in the condition of a loop: the lock would be held through the loop's body.
            let Some(mut waiting) = self.waiting.lock().pop_front() else {
                let executable = executable()?;
                return WaitingSupervisor::start(&executable, self.confinement, Some(stderr));
            };
            if waiting.is_good() {
                return Ok(waiting.supervisor);
            }
            self.spent.lock().push(waiting);
        }
    }

    /// Returns whether the reserve has fewer good supervisors than its size.
    pub(super) fn is_short(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let good = waiting.iter_mut().map(ReservedSupervisor::is_good).filter(|is_good| *is_good);
        good.count() < self.size
    }

    /// Starts the supervisors that are missing, and ends those that no call can use. Blocks for the
    /// time that processes take to start.
    pub(super) fn fill(&self, executable: &Path) -> io::Result<()> {
        let spent = std::mem::take(&mut *self.spent.lock());
        end(spent);
        // At most this many attempts, because a supervisor that cannot run is never good.
        for _ in 0..self.size {
            if !self.is_short() {
                break;
            }
            let started = ReservedSupervisor::start(executable, self.confinement)?;
            let mut waiting = self.waiting.lock();
            let (mut good, mut others) = (VecDeque::new(), Vec::new());
            for mut one in waiting.drain(..).chain([started]) {
                // Another call may have filled the reserve in the meantime.
                let has_room = good.len() < self.size;
                if has_room && one.is_good() { good.push_back(one) } else { others.push(one) }
            }
            *waiting = good;
            // These are ended without the lock.
            drop(waiting);
            end(others);
        }
        Ok(())
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let spent = std::mem::take(&mut *self.spent.lock());
        end(waiting.into_iter().chain(spent).collect());
    }
}

/// Ends supervisors, all at once. Blocks until the last has ended.
fn end(mut supervisors: Vec<ReservedSupervisor>) {
    supervisors.iter_mut().for_each(|it| it.supervisor.ask_to_end());
    drop(supervisors);
}

impl ReservedSupervisor {
    fn start(executable: &Path, confinement: Confinement) -> io::Result<Self> {
        let (user, group) = (geteuid(), getegid());
        let supervisor = WaitingSupervisor::start(executable, confinement, None)?;
        Ok(Self { supervisor, since: Instant::now(), user, group })
    }

    /// Returns whether it would serve a call like a supervisor that is started now.
    fn is_good(&mut self) -> bool {
        let is_of_this_user = (self.user, self.group) == (geteuid(), getegid());
        is_of_this_user && self.since.elapsed() < TOO_OLD && !self.supervisor.has_ended()
    }
}
