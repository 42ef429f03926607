//! One call, from the start of the tool to the report that nothing of it is left.
//!
//! Owns the supervisor's only loop. It waits until the tool ends, the host asks for the end or
//! dies, or a bound is exceeded. The same code runs as the init of a PID namespace and as a
//! plain subreaper; only the way to kill everything differs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Resource, Rlimit, getpid, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::cgroup::Cgroups;
use super::clone;
use super::connections::ToolConnections;
use super::filter;
use super::kernel_memory::KernelMemory;
use super::launch::{self, Restrictions};
use super::listener::ListenerChannel;
use super::loopback;
use super::notices::PendingNotices;
use super::observer::{Observer, ToolScope};
use super::reaper::{self, ChildExit, Children};
use super::request::CallRequest;
use super::signals;
use crate::isolation::{Guarantee, Isolation, SandboxLayer};
use crate::plan::{
    self, CallBounds, KillCause, StartStep, SupervisorReport, TIME_MESSAGE, ToolEnd,
};
use crate::process_tree;

/// The time until memory and processes are first measured. Most calls have ended by then, and
/// pay nothing.
const FIRST_MEASUREMENT: Duration = Duration::from_millis(20);

/// The longest time between two measurements. A tool can grow unseen in it.
const LONGEST_INTERVAL: Duration = Duration::from_millis(160);

/// The measurements take at most one part in this many of the time. On a machine with
/// thousands of processes, reading `/proc` is not free.
const SHARE_OF_TIME: u32 = 20;

/// The longest time between two measurements if one takes long: a tool can make it take long.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The time for which the supervisor signals processes that it cannot kill, without a namespace.
/// They belong to another user, and a program with setuid may have started them.
const REFUSED_TIMEOUT: Duration = Duration::from_millis(800);

/// The guarantee of the memory after a call that may have had much uncharged memory of the kernel.
const UNCHARGED: &str = "the kernel's own memory grew by more than a tenth of the limit while the \
                         call had many descriptors, locks, mappings or threads, whose memory is \
                         charged to no cgroup";

/// The time for which the supervisor kills processes that keep multiplying.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of one call.
pub(super) struct CallWatch<'a> {
    pub(super) request: CallRequest,
    pub(super) cgroups: &'a Cgroups,
    signals: OwnedFd,
    notes: Vec<String>,
    peak_memory: u64,
    /// Set if the tool may have had much memory of the kernel that no cgroup is charged for.
    has_uncharged: bool,
    /// The processes that were killed because they still ran when the tool had ended; `None`
    /// before that.
    left_running: Option<usize>,
    orders: Orders,
    /// The calls of the tool that wait for this process.
    notices: Option<PendingNotices>,
}

/// The sandbox that was prepared for the tool, or the refusal to start it.
pub(super) struct PreparedSandbox {
    /// The isolation of the tool. `None` if the call is refused before the layers are made.
    pub(super) isolation: Option<Isolation>,
    /// The state of each layer, for a probe.
    pub(super) layers: Vec<SandboxLayer>,
    /// Failures that do not stop the call.
    pub(super) notes: Vec<String>,
    /// Set if the tool is not to be started.
    pub(super) refusal: Option<ToolEnd>,
    /// Set if `/proc` shows the tool's processes.
    pub(super) watched: bool,
    /// The list of locks, if the `/proc` of the tool does not show it.
    pub(super) locks: Option<File>,
    /// The listener of the tool's network. Only the process that made it has it open.
    pub(super) listener: Option<OwnedFd>,
    /// The restrictions of the tool's own process, in addition to the inherited ones.
    pub(super) restrictions: Restrictions,
    /// The scope by which accesses are classified, for a watched tool.
    pub(super) scope: Option<ToolScope>,
}

/// The fate of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The host has it.
    Sent,
    /// The host is gone, or the process that would have sent it was killed.
    Lost,
}

impl<'a> CallWatch<'a> {
    pub(super) fn new(request: CallRequest, signals: OwnedFd, cgroups: &'a Cgroups) -> Self {
        let orders = Orders::new(request.plan.bounds.wall_clock);
        let (notes, notices) = (Vec::new(), None);
        Self {
            request,
            cgroups,
            signals,
            notes,
            peak_memory: 0,
            has_uncharged: false,
            left_running: None,
            orders,
            notices,
        }
    }

    /// Serves the call. `namespaced` is set if this process is the init of a PID namespace.
    pub(super) fn run(&mut self, namespaced: bool, prepared: PreparedSandbox) -> Delivery {
        let PreparedSandbox {
            mut isolation,
            layers,
            notes,
            refusal,
            watched,
            locks,
            listener,
            mut restrictions,
            scope,
        } = prepared;
        self.notes = notes;
        let memory_floor = reaper::own_peak();
        let started = Instant::now();
        let kernel = KernelMemory::new(locks);
        let serve = || self.serve(started, (watched, scope), kernel, listener, &mut restrictions);
        let end = refusal.unwrap_or_else(serve);
        let duration = started.elapsed();
        let survivors = match if namespaced { self.end_namespace() } else { self.end_tree() } {
            Ok(survivors) => survivors,
            Err(error) => {
                self.notes
                    .push(format!("the processes that the tool left could not be killed: {error}"));
                1
            }
        };
        if self.has_uncharged
            && let Some(isolation) = isolation.as_mut()
            && isolation.memory.is_enforced()
        {
            isolation.memory = Guarantee::Partial(UNCHARGED.into());
        }
        let peak_memory = self.peak_memory;
        let notes = std::mem::take(&mut self.notes);
        let report = SupervisorReport {
            end,
            duration,
            peak_memory,
            memory_floor,
            left_running: self.left_running.unwrap_or_default(),
            survivors,
            notes,
            isolation,
            layers,
            seen: self.notices.take().map(PendingNotices::seen).unwrap_or_default(),
        };
        match answer(self.request.control.as_fd(), &report) {
            Ok(()) => Delivery::Sent,
            // The host is gone, and the report has no other reader.
            Err(_) => Delivery::Lost,
        }
    }

    fn serve(
        &mut self,
        started: Instant,
        (watched, scope): (bool, Option<ToolScope>),
        kernel: KernelMemory,
        listener: Option<OwnedFd>,
        restrictions: &mut Restrictions,
    ) -> ToolEnd {
        // Cancelled while this process was starting.
        if self.orders.take(self.request.control.as_fd()) == HostState::Ended {
            return ToolEnd::Killed(KillCause::Host);
        }
        // Before the tool starts: the tool finds the host listening.
        if let Some(listener) = listener
            && let Err(error) = loopback::hand_over(self.request.control.as_fd(), listener)
        {
            let why = format!("the listener of the tool's network did not reach the host: {error}");
            return ToolEnd::Refused(why);
        }
        let tool = match self.start(restrictions, scope) {
            Ok(tool) => tool,
            Err(end) => return end,
        };
        if let Some(most) = restrictions.processes {
            // From here on this process starts only a child that tests whether it could.
            let most = Rlimit { current: Some(most), maximum: Some(most) };
            if let Err(error) = setrlimit(Resource::Nproc, most) {
                self.notes
                    .push(format!("a process limit that is reached may stay unseen: {error}"));
            }
        }
        // Only the tool keeps it open, so the host sees when the tool closes it.
        self.request.host_socket = None;
        let measurements = Measurements::new(started, watched, kernel, restrictions);
        let end = self.wait_for(tool, started, measurements).unwrap_or_else(|error| {
            self.notes.push(format!("the call was ended because it could not be watched: {error}"));
            ToolEnd::Killed(KillCause::Host)
        });
        // A refusal by the kernel counts, no matter how the tool reacted to it.
        match (&end, refused(self.cgroups)) {
            (ToolEnd::Code(_) | ToolEnd::Signal(_), Ok(Some(cause))) => ToolEnd::Killed(cause),
            _ => end,
        }
    }

    /// Starts the tool, and takes the listener of its calls. Own sockets need a listener: if the
    /// kernel gives none, the tool is started again without own sockets.
    fn start(
        &mut self,
        restrictions: &mut Restrictions,
        scope: Option<ToolScope>,
    ) -> Result<Pid, ToolEnd> {
        let unwatched = |error| ToolEnd::Refused(format!("the tool cannot be watched: {error}"));
        let is_watched = scope.is_some();
        let (offer, tool) = loop {
            let is_told = is_watched || restrictions.own_sockets.is_some();
            let offer = is_told.then(ListenerChannel::new).transpose().map_err(unwatched)?;
            let told = offer.as_ref().map(|offer| (offer, is_watched));
            let started = launch::start(&self.request, self.cgroups, restrictions, told);
            let (step, errno) = match started {
                Ok(tool) => break (offer, tool),
                Err(failure) => failure,
            };
            let own_sockets = restrictions.own_sockets.take().filter(|_| step == StartStep::Filter);
            let Some(own_sockets) = own_sockets else {
                return Err(ToolEnd::NotStarted(step, errno));
            };
            let why = io::Error::from_raw_os_error(errno);
            self.notes.push(format!("the tool has no sockets of its own: no listener: {why}"));
            restrictions.filter = filter::program(own_sockets.otherwise).map_err(unwatched)?;
        };
        let connections =
            restrictions.own_sockets.as_ref().map(|it| ToolConnections::new(it.files));
        match offer.map(ListenerChannel::accept) {
            None => {}
            Some(Ok(Some(listener))) => {
                let observer = scope.map(Observer::new);
                self.notices = Some(PendingNotices::new(listener, observer, connections));
            }
            Some(Ok(None)) => {
                self.notes.push("the kernel gave no listener: not watched".to_owned())
            }
            Some(Err(error)) => self.notes.push(format!("the tool is not watched: {error}")),
        }
        Ok(tool)
    }

    fn wait_for(
        &mut self,
        tool: Pid,
        started: Instant,
        mut measurements: Measurements,
    ) -> io::Result<ToolEnd> {
        let bounds = self.request.plan.bounds;
        loop {
            if let Some(end) = self.reap(tool)? {
                return Ok(end);
            }
            let now = Instant::now();
            let deadline = started.checked_add(self.orders.wall_clock);
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(ToolEnd::Killed(KillCause::WallClock));
            }
            if now >= measurements.next {
                let cause = measurements.take(bounds, self.cgroups, &mut self.notes);
                self.has_uncharged |= measurements.kernel.has_uncharged();
                if let Some(cause) = cause {
                    return Ok(ToolEnd::Killed(cause));
                }
            }
            let until =
                deadline.map_or(measurements.next, |deadline| deadline.min(measurements.next));
            let due = self.notices.as_ref().and_then(PendingNotices::due_after);
            let until = due.map_or(until, |due| until.min(now + due));
            let [signal, host] = self.wait(until)?;
            if let Some(Err(error)) = self.notices.as_mut().map(PendingNotices::take) {
                self.notes.push(format!("the tool's system calls are no longer reported: {error}"));
            }
            let asked = signal && signals::drain(&self.signals)?;
            // If the tool has ended too, its own end is reported.
            if asked || host && self.orders.take(self.request.control.as_fd()) == HostState::Ended {
                return Ok(self.reap(tool)?.unwrap_or(ToolEnd::Killed(KillCause::Host)));
            }
        }
    }

    /// Waits for a signal, the host or a reported call of the tool. Returns which of the first
    /// two came.
    fn wait(&self, until: Instant) -> io::Result<[bool; 2]> {
        let timeout = until.saturating_duration_since(Instant::now());
        let (signals, host) = (self.signals.as_fd(), self.request.control.as_fd());
        match self.notices.as_ref().and_then(PendingNotices::listener) {
            None => wait([signals, host], timeout),
            Some(listener) => {
                wait([signals, host, listener], timeout).map(|[signal, host, _]| [signal, host])
            }
        }
    }

    /// Reaps the children that have ended, and returns the end of the tool if it is among them.
    fn reap(&mut self, tool: Pid) -> io::Result<Option<ToolEnd>> {
        let mut found = None;
        while let Children::Ended(ended) = reaper::poll()? {
            self.note(&ended);
            if ended.pid == tool {
                found = Some(ended.end);
            }
        }
        Ok(found)
    }

    /// Reaps the children that have ended, and returns whether others are left.
    fn reap_all(&mut self) -> io::Result<bool> {
        loop {
            match reaper::poll()? {
                Children::Ended(ended) => self.note(&ended),
                Children::Running => return Ok(true),
                Children::None => return Ok(false),
            }
        }
    }

    /// Kills all of the namespace with one system call, and waits until it is empty.
    fn end_namespace(&mut self) -> io::Result<usize> {
        while self.reap_all()? {
            // SAFETY: a system call on numbers. In the init of a PID namespace -1 means
            // every process in it but the init, and `namespaced` is true there only. No
            // process can escape by a fork: the signal is sent under the lock that a fork
            // needs.
            if unsafe { libc::kill(-1, libc::SIGKILL) } != 0 {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ESRCH) {
                    return Err(error);
                }
            }
            self.left_running.get_or_insert_default();
            if let Children::Ended(ended) = reaper::wait_for_one()? {
                self.note(&ended);
            }
        }
        Ok(0)
    }

    /// Notes a child that has ended.
    fn note(&mut self, ended: &ChildExit) {
        self.peak_memory = self.peak_memory.max(ended.peak_memory);
        if let Some(killed) = &mut self.left_running
            && ended.end == ToolEnd::Signal(libc::SIGKILL)
        {
            *killed += 1;
        }
    }

    /// Kills every descendant until no child is left. As a subreaper, this process inherits
    /// every orphan, so if it has no child, it has no descendant either. Returns the number of
    /// processes that could not be killed.
    fn end_tree(&mut self) -> io::Result<usize> {
        let own = process_tree::own_pid()?;
        let began = Instant::now();
        let mut refused = None;
        while self.reap_all()? {
            let mut descendants = process_tree::descendants(own)?;
            descendants.retain(|process| !process.has_ended());
            let timeout = if refused.is_some() { REFUSED_TIMEOUT } else { KILL_TIMEOUT };
            if began.elapsed() > timeout {
                if let Some(error) = refused {
                    self.notes
                        .push(format!("a process that the tool left cannot be killed: {error}"));
                }
                return Ok(descendants.len());
            }
            refused = process_tree::kill(&descendants, getpid()).or(refused);
            self.left_running.get_or_insert_default();
            // The next zombie is an event. The timeout is for a process that was forked during
            // the measurement, and whose parent's end is not signalled to this process.
            let [signal] = wait([self.signals.as_fd()], Duration::from_millis(5))?;
            if signal {
                signals::drain(&self.signals)?;
            }
        }
        Ok(0)
    }
}

/// The measurements of the tool's memory and processes.
struct Measurements {
    next: Instant,
    interval: Duration,
    /// Set if `/proc` shows the processes.
    tree: bool,
    /// Set if the kernel may count this process among the tool's.
    counted: bool,
    /// The processes and threads at the last measurement.
    tasks: u64,
    /// Set for a tool with its own sockets, whose number is bounded.
    sockets: bool,
    kernel: KernelMemory,
}

impl Measurements {
    fn new(
        started: Instant,
        tree: bool,
        kernel: KernelMemory,
        restrictions: &Restrictions,
    ) -> Self {
        Self {
            next: started + FIRST_MEASUREMENT,
            interval: FIRST_MEASUREMENT,
            tree,
            counted: restrictions.sandboxed,
            tasks: 0,
            sockets: restrictions.own_sockets.is_some(),
            kernel,
        }
    }

    /// Returns the bound that is exceeded, if any. A bound that can no longer be measured counts
    /// as exceeded: the tool may have caused that.
    fn take(
        &mut self,
        bounds: CallBounds,
        cgroups: &Cgroups,
        notes: &mut Vec<String>,
    ) -> Option<KillCause> {
        let began = own_time();
        let cause = self.passed(bounds, cgroups).unwrap_or_else(|(cause, error)| {
            notes.push(format!("memory and processes can no longer be measured: {error}"));
            Some(cause)
        });
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
        let took = own_time().saturating_sub(began);
        let pause = took.saturating_mul(SHARE_OF_TIME).min(LONGEST_PAUSE);
        self.next = Instant::now() + self.interval.max(pause);
        cause
    }

    fn passed(
        &mut self,
        bounds: CallBounds,
        cgroups: &Cgroups,
    ) -> Result<Option<KillCause>, (KillCause, io::Error)> {
        if let Some(cause) = refused(cgroups)? {
            return Ok(Some(cause));
        }
        if self.sockets
            && loopback::are_too_many(bounds.memory).map_err(|error| (KillCause::Memory, error))?
        {
            return Ok(Some(KillCause::Memory));
        }
        let tree = || process_tree::own_pid().and_then(process_tree::descendants);
        let (processes, memory) =
            (cgroups.bounds_processes().is_err(), cgroups.bounds_memory().is_err());
        if self.tree {
            let charged = || cgroups.charged_memory();
            let taken = self.kernel.is_taken(bounds.memory, !memory, charged, tree);
            if taken.map_err(|error| (KillCause::Memory, error))? {
                return Ok(Some(KillCause::Memory));
            }
        }
        if !(processes || memory) || !self.tree {
            return Ok(None);
        }
        let cause = if processes { KillCause::Processes } else { KillCause::Memory };
        let tree = tree().map_err(|error| (cause, error))?;
        let tasks: u64 = tree.iter().map(|process| process.threads).sum();
        let near = tasks > bounds.processes - bounds.processes / 4;
        // The trial uses up one process of the limit for a moment. Because of it, the kernel
        // could refuse a process to a tool that is still growing, and the tool could give up
        // without ever exceeding the limit.
        let grows = tasks > std::mem::replace(&mut self.tasks, tasks);
        let is_refused = || self.counted && near && !grows && clone::is_refused();
        if processes && (tasks > bounds.processes || is_refused()) {
            return Ok(Some(KillCause::Processes));
        }
        let memory = memory.then(|| process_tree::memory_beyond(&tree, bounds.memory)).flatten();
        Ok(memory.map(|_| KillCause::Memory))
    }
}

/// Returns the processor time of this process. A measurement takes long if it waits for the
/// processor among hundreds of the tool's processes, and that must not delay the next one.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the bound at which the kernel has refused something, if a control group reports one.
fn refused(cgroups: &Cgroups) -> Result<Option<KillCause>, (KillCause, io::Error)> {
    let events = [
        (KillCause::Memory, cgroups.ran_out_of_memory()),
        (KillCause::Processes, cgroups.refused_a_process()),
    ];
    for (cause, happened) in events {
        if happened.transpose().map_err(|error| (cause, error))?.unwrap_or(false) {
            return Ok(Some(cause));
        }
    }
    Ok(None)
}

/// Waits for any of the descriptors, and returns which are ready.
fn wait<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) => Ok(polled.each_ref().map(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

/// The messages of the host after the plan.
struct Orders {
    /// The time of the tool, from its start.
    wall_clock: Duration,
    /// The beginning of an incomplete message, and its length.
    begun: ([u8; TIME_MESSAGE], usize),
}

/// The state of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostState {
    /// It waits for the report.
    Waits,
    /// It asks for the end, or is gone.
    Ended,
}

impl Orders {
    fn new(wall_clock: Duration) -> Self {
        Self { wall_clock, begun: ([0; TIME_MESSAGE], 0) }
    }

    /// Takes the messages that have arrived, without waiting for more.
    fn take(&mut self, control: BorrowedFd<'_>) -> HostState {
        let (message, length) = &mut self.begun;
        loop {
            match recv(control, &mut message[*length..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return HostState::Ended,
                Ok((_, received)) => *length += received,
                Err(Errno::AGAIN) => return HostState::Waits,
                Err(Errno::INTR) => {}
                Err(_) => return HostState::Ended,
            }
            if *length == TIME_MESSAGE {
                self.wall_clock = plan::time_of(*message);
                *length = 0;
            }
        }
    }
}

fn answer(control: BorrowedFd<'_>, report: &SupervisorReport) -> io::Result<()> {
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
