//! Supervisors that were started before they are needed.
//!
//! Owns the number that a host keeps, and the rule by which one is too old. A call that takes one
//! saves the start of a process.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::supervisor_process::WaitingSupervisor;

/// The longest time that a supervisor waits. It has the control group, the limits and the user that
/// its host had at its start; an old one may differ from the host of now.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Supervisors that wait for a plan. They end with their host, which holds the only other end of
/// their sockets.
#[derive(Debug)]
pub(super) struct Reserve {
    size: usize,
    /// The oldest is first.
    waiting: Mutex<VecDeque<(Instant, WaitingSupervisor)>>,
}

impl Reserve {
    /// Returns an empty reserve of at most `size` supervisors.
    pub(super) fn new(size: usize) -> Self {
        Self { size, waiting: Mutex::default() }
    }

    /// Takes a supervisor that still waits, or starts the one at `executable`.
    pub(super) fn take_or_start(
        &self,
        executable: impl FnOnce() -> io::Result<PathBuf>,
    ) -> io::Result<WaitingSupervisor> {
        loop {
            let Some((since, supervisor)) = self.lock().pop_front() else {
                return WaitingSupervisor::start(&executable()?);
            };
            if since.elapsed() < LONGEST_WAIT && !supervisor.has_ended() {
                return Ok(supervisor);
            }
        }
    }

    /// Returns whether a supervisor is missing.
    pub(super) fn is_short(&self) -> bool {
        self.lock().len() < self.size
    }

    /// Starts the supervisors that are missing. Blocks for the time that a process takes to start.
    pub(super) fn fill(&self, executable: &Path) -> io::Result<()> {
        while self.is_short() {
            let supervisor = WaitingSupervisor::start(executable)?;
            let mut waiting = self.lock();
            // Another call may have filled it meanwhile.
            if waiting.len() < self.size {
                waiting.push_back((Instant::now(), supervisor));
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, WaitingSupervisor)>> {
        // A list of processes is whole between any two of its methods.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
