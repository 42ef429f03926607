//! One call, from the start of the tool to the report that nothing of it is left.
//!
//! Owns the supervisor's only loop: it waits for the tool to end, for the host to
//! ask for the end or to disappear, and for a bound to be passed. The same code
//! runs as the init of a PID namespace and as a plain subreaper; only how
//! everything is killed differs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Resource, Rlimit, getpid, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::cgroup::Cgroups;
use super::kernel_memory::KernelMemory;
use super::launch::{self, Restrictions};
use super::reaper::{self, Children};
use super::request::Request;
use super::signals;
use crate::isolation::{Layer, Level};
use crate::plan::{Bounds, Cause, End, Report};
use crate::process_tree;

/// When memory and processes are first looked at: most calls have ended by then,
/// and pay nothing.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// The longest time between two looks: what a tool can grow by unseen.
const LONGEST_INTERVAL: Duration = Duration::from_millis(160);

/// A look may take one part in this many of the time. On a machine with thousands
/// of processes, reading `/proc` is not free.
const SHARE_OF_TIME: u32 = 20;

/// How long processes that cannot be killed are tried, without a namespace:
/// those of another user, which a program with setuid may have started.
const STUBBORN: Duration = Duration::from_millis(800);

/// How long processes are hunted that can be killed and become more meanwhile.
const HUNT: Duration = Duration::from_secs(10);

/// What one call needs while it lasts.
pub(super) struct Watch {
    pub(super) request: Request,
    pub(super) cgroups: Cgroups,
    signals: OwnedFd,
    notes: Vec<String>,
    peak_memory: u64,
}

/// What was made ready for the tool.
pub(super) struct Prepared {
    /// What holds for it.
    pub(super) level: Level,
    /// What that is made of.
    pub(super) layers: Vec<Layer>,
    /// What did not succeed.
    pub(super) notes: Vec<String>,
    /// Why it is not to be started.
    pub(super) refusal: Option<End>,
    /// Whether its processes can be looked at.
    pub(super) watched: bool,
    /// What its own process is bound by, beside what it inherits.
    pub(super) restrictions: Restrictions,
}

impl Watch {
    pub(super) fn new(request: Request, signals: OwnedFd, cgroups: Cgroups) -> Self {
        Self { request, cgroups, signals, notes: Vec::new(), peak_memory: 0 }
    }

    /// Serves the call. `namespaced`: this process is the init of a PID namespace.
    pub(super) fn run(&mut self, namespaced: bool, prepared: Prepared) -> ExitCode {
        let Prepared { level, layers, notes, refusal, watched, restrictions } = prepared;
        self.notes = notes;
        let memory_floor = reaper::own_peak();
        let started = Instant::now();
        let end = refusal.unwrap_or_else(|| self.serve(started, watched, &restrictions));
        let duration = started.elapsed();
        let survivors = match if namespaced { self.end_namespace() } else { self.end_descent() } {
            Ok(survivors) => survivors,
            Err(error) => {
                self.notes.push(format!("what the tool left could not be ended: {error}"));
                1
            }
        };
        let peak_memory = self.peak_memory;
        let notes = std::mem::take(&mut self.notes);
        let report =
            Report { end, duration, peak_memory, memory_floor, survivors, notes, level, layers };
        match answer(self.request.control.as_fd(), &report) {
            Ok(()) => ExitCode::SUCCESS,
            // The host is gone, and with it whoever would want to know.
            Err(_) => ExitCode::FAILURE,
        }
    }

    fn serve(&mut self, started: Instant, watched: bool, restrictions: &Restrictions) -> End {
        // Cancelled while this process was starting.
        if host_has_ended(self.request.control.as_fd()) {
            return End::Killed(Cause::Host);
        }
        let tool = match launch::start(&self.request, &self.cgroups, restrictions) {
            Ok(tool) => tool,
            Err((step, errno)) => return End::NotStarted(step, errno),
        };
        if let Some(most) = restrictions.processes {
            // This process starts nothing from here on, but for asking whether it could.
            let most = Rlimit { current: Some(most), maximum: Some(most) };
            if let Err(error) = setrlimit(Resource::Nproc, most) {
                self.notes.push(format!("a limit that is reached may not be seen: {error}"));
            }
        }
        // Open in the tool alone, so that the host sees when the tool lets go of it.
        self.request.host_socket = None;
        let end = self.wait_for(tool, started, watched, restrictions).unwrap_or_else(|error| {
            self.notes.push(format!("the call could not be watched, and was ended: {error}"));
            End::Killed(Cause::Host)
        });
        // Whatever the tool made of it.
        match (&end, refused(&self.cgroups)) {
            (End::Code(_) | End::Signal(_), Ok(Some(cause))) => End::Killed(cause),
            _ => end,
        }
    }

    fn wait_for(
        &mut self,
        tool: Pid,
        started: Instant,
        watched: bool,
        restrictions: &Restrictions,
    ) -> io::Result<End> {
        let bounds = self.request.plan.bounds;
        let deadline = started.checked_add(bounds.wall_clock);
        let mut looks = Looks::new(started, watched, restrictions.sandboxed);
        loop {
            if let Some(end) = self.reap(tool)? {
                return Ok(end);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(End::Killed(Cause::WallClock));
            }
            if now >= looks.next
                && let Some(cause) = looks.look(bounds, &self.cgroups, &mut self.notes)
            {
                return Ok(End::Killed(cause));
            }
            let until = deadline.map_or(looks.next, |deadline| deadline.min(looks.next));
            let [signal, host] = wait(
                [self.signals.as_fd(), self.request.control.as_fd()],
                until.saturating_duration_since(Instant::now()),
            )?;
            // The host says nothing after the plan: whatever comes means the end. Where
            // the tool has ended too, it is the tool's own end that is told.
            let asked = signal && signals::drain(&self.signals)?;
            if asked || host {
                return Ok(self.reap(tool)?.unwrap_or(End::Killed(Cause::Host)));
            }
        }
    }

    /// Reaps whoever has ended; how the tool did, if it is among them.
    fn reap(&mut self, tool: Pid) -> io::Result<Option<End>> {
        let mut found = None;
        while let Children::Ended(ended) = reaper::look()? {
            self.peak_memory = self.peak_memory.max(ended.peak_memory);
            if ended.pid == tool {
                found = Some(ended.end);
            }
        }
        Ok(found)
    }

    /// Reaps whoever has ended; whether children are left.
    fn reap_all(&mut self) -> io::Result<bool> {
        loop {
            match reaper::look()? {
                Children::Ended(ended) => {
                    self.peak_memory = self.peak_memory.max(ended.peak_memory)
                }
                Children::Running => return Ok(true),
                Children::None => return Ok(false),
            }
        }
    }

    /// Kills all of the namespace at one stroke, and waits until it is empty.
    fn end_namespace(&mut self) -> io::Result<usize> {
        while self.reap_all()? {
            // SAFETY: a system call on numbers. In the init of a PID namespace -1 is
            // everything in it but the init, and `namespaced` is true there only. No
            // process can fork itself out of it: the signal is sent under the lock
            // that a fork needs.
            if unsafe { libc::kill(-1, libc::SIGKILL) } != 0 {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ESRCH) {
                    return Err(error);
                }
            }
            if let Children::Ended(ended) = reaper::wait_for_one()? {
                self.peak_memory = self.peak_memory.max(ended.peak_memory);
            }
        }
        Ok(0)
    }

    /// Kills every descendant until there is no child left: as a subreaper, this
    /// process inherits every orphan, so that without a child there is no
    /// descendant either. Returns how many could not be killed.
    fn end_descent(&mut self) -> io::Result<usize> {
        let own = process_tree::own_pid()?;
        let began = Instant::now();
        let mut refused = None;
        while self.reap_all()? {
            let mut descendants = process_tree::of(own)?;
            descendants.retain(|process| !process.has_ended());
            let patience = if refused.is_some() { STUBBORN } else { HUNT };
            if began.elapsed() > patience {
                if let Some(error) = refused {
                    self.notes
                        .push(format!("a process that the tool left cannot be killed: {error}"));
                }
                return Ok(descendants.len());
            }
            refused = process_tree::kill(&descendants, getpid()).or(refused);
            // The next corpse is an event. The bound is for a process that was forked
            // behind the look's back, whose parent's end this process is not told of.
            let [signal] = wait([self.signals.as_fd()], Duration::from_millis(5))?;
            if signal {
                signals::drain(&self.signals)?;
            }
        }
        Ok(0)
    }
}

/// When the tool's memory and processes are looked at.
struct Looks {
    next: Instant,
    interval: Duration,
    /// Whether `/proc` shows the processes.
    tree: bool,
    /// Whether the kernel may count this process among the tool's.
    counted: bool,
    /// Processes and threads at the last look.
    tasks: u64,
    kernel: KernelMemory,
}

impl Looks {
    fn new(started: Instant, tree: bool, counted: bool) -> Self {
        let (next, kernel) = (started + FIRST_LOOK, KernelMemory::default());
        Self { next, interval: FIRST_LOOK, tree, counted, tasks: 0, kernel }
    }

    /// The bound that is passed, if one is. A bound that can suddenly not be looked after
    /// is taken for one that is passed: a tool may have brought that about.
    fn look(
        &mut self,
        bounds: Bounds,
        cgroups: &Cgroups,
        notes: &mut Vec<String>,
    ) -> Option<Cause> {
        let began = own_time();
        let cause = self.passed(bounds, cgroups).unwrap_or_else(|(cause, error)| {
            notes.push(format!("memory and processes cannot be watched any more: {error}"));
            Some(cause)
        });
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
        let took = own_time().saturating_sub(began);
        self.next = Instant::now() + self.interval.max(took * SHARE_OF_TIME);
        cause
    }

    fn passed(
        &mut self,
        bounds: Bounds,
        cgroups: &Cgroups,
    ) -> Result<Option<Cause>, (Cause, io::Error)> {
        if let Some(cause) = refused(cgroups)? {
            return Ok(Some(cause));
        }
        let tree = || process_tree::own_pid().and_then(process_tree::of);
        if self.tree {
            let taken = self.kernel.is_taken(bounds.memory, tree);
            if taken.map_err(|error| (Cause::Memory, error))? {
                return Ok(Some(Cause::Memory));
            }
        }
        let (processes, memory) =
            (cgroups.bounds_processes().is_err(), cgroups.bounds_memory().is_err());
        if !(processes || memory) || !self.tree {
            return Ok(None);
        }
        let cause = if processes { Cause::Processes } else { Cause::Memory };
        let tree = tree().map_err(|error| (cause, error))?;
        let tasks: u64 = tree.iter().map(|process| process.threads).sum();
        let near = tasks > bounds.processes - bounds.processes / 4;
        // The trial takes the place of one process for a moment. A tool that is still growing
        // could be refused for that alone, give up, and never be seen beyond the limit.
        let grows = tasks > std::mem::replace(&mut self.tasks, tasks);
        let is_refused = || self.counted && near && !grows && launch::is_refused();
        if processes && (tasks > bounds.processes || is_refused()) {
            return Ok(Some(Cause::Processes));
        }
        let memory = memory.then(|| process_tree::memory_beyond(&tree, bounds.memory)).flatten();
        Ok(memory.map(|_| Cause::Memory))
    }
}

/// The processor time of this process. A look that waits for the processor among a tool's
/// hundreds of processes takes long, and must not come the more seldom for it.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The bound by which the kernel has refused something, if a cgroup tells of one.
fn refused(cgroups: &Cgroups) -> Result<Option<Cause>, (Cause, io::Error)> {
    let told = [
        (Cause::Memory, cgroups.ran_out_of_memory()),
        (Cause::Processes, cgroups.refused_a_process()),
    ];
    for (cause, happened) in told {
        if happened.transpose().map_err(|error| (cause, error))?.unwrap_or(false) {
            return Ok(Some(cause));
        }
    }
    Ok(None)
}

/// Waits for any of the descriptors, and says which are ready.
fn wait<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) => Ok(polled.each_ref().map(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

fn host_has_ended(control: BorrowedFd<'_>) -> bool {
    wait([control], Duration::ZERO).is_ok_and(|[ready]| ready)
}

fn answer(control: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    let line = report.encode()?;
    let mut rest = &line[..];
    while !rest.is_empty() {
        match send(control, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
