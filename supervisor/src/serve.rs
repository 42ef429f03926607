//! The service of one call, from the plan to the exit code.
//!
//! Owns the order in which the program prepares itself.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{getpid, set_child_subreaper, setsid};

use super::cgroup::Cgroups;
use super::identity::UserIdentity;
use super::launch::Restrictions;
use super::layers::{self, LimitMechanisms};
use super::namespace::{self, Init};
use super::plan::{Confinement, ToolNetwork};
use super::watch::{CallWatch, Delivery, PreparedSandbox};
use super::{core_dumps, reaper, request, sandbox, signals};

/// The exit code of a call whose report the host has.
const REPORTED: u8 = 0;

/// The exit code of a call whose report was lost.
const LOST: u8 = 1;

/// The exit code of a call that was not served. The host reads the reason from stderr.
const NOT_SERVED: u8 = 2;

/// Serves one call of the kind that the argument of the program names, and returns the exit
/// code.
///
/// Must be called before anything else in `main`: no thread may have been started.
#[must_use]
pub fn main(argument: Option<&CStr>) -> u8 {
    match serve(argument) {
        Ok(Delivery::Sent) => REPORTED,
        Ok(Delivery::Lost) => LOST,
        Err(error) => {
            // stderr is the tool's, so the message becomes part of the outcome. If stderr is
            // closed, or a supervisor in reserve has no call yet, the exit code has to do.
            let _ = writeln!(io::stderr(), "ikigai: supervisor: {error}");
            NOT_SERVED
        }
    }
}

fn serve(argument: Option<&CStr>) -> io::Result<Delivery> {
    fill_standard_descriptors()?;
    // The supervisor kills the tool's process groups as a whole, so this process must not share
    // one with the host. The call fails only for a group leader, and the host does not spawn
    // this process as one.
    setsid()?;
    let control = request::control()?;
    let confinement = argument.and_then(|it| it.to_str().ok()?.parse().ok()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the argument names no kind of call")
    })?;
    core_dumps::forbid()?;
    // Inherited by all processes of the call. Without `/proc` the preference cannot be set.
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_VICTIM);
    signals::reset();
    let mut cgroups = Cgroups::make();
    let begun = EarlyNamespaces::start(confinement, control.as_fd());
    // After the start of an init, which would inherit the blocked signals: the kernel would then
    // keep every such signal that is sent to it.
    let signals = signals::take_over()?;
    let delivery = serve_plan((control, signals), confinement, begun, &mut cgroups);
    // The report is sent, so that the host does not wait for this.
    if let Some(left) = cgroups.remove() {
        writeln!(io::stderr(), "ikigai: supervisor: {left}")?;
    }
    delivery
}

/// Waits for the plan and serves its call.
fn serve_plan(
    (control, signals): (OwnedFd, OwnedFd),
    confinement: Confinement,
    mut begun: EarlyNamespaces,
    cgroups: &mut Cgroups,
) -> io::Result<Delivery> {
    // A supervisor in reserve waits here.
    let received =
        begun.keep_until_input(control.as_fd(), &signals).and_then(|()| request::receive(control));
    let request = match received {
        Ok(request) => request,
        Err(error) => {
            // A process that inherits the processes of the namespaces might not reap them.
            drop(begun);
            reaper::wait_for_all();
            return Err(error);
        }
    };
    let plan = &request.plan;
    if Confinement::from(plan.kind.sandbox) != confinement {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the plan is not of the kind that this supervisor was started for",
        ));
    }
    let mut none = Cgroups::none("left out");
    let cgroups = if plan.kind.without.cgroups { &mut none } else { cgroups };
    if !cgroups.bind(plan.bounds) {
        // Another program may have removed them since they were made.
        let _ = cgroups.remove();
        *cgroups = Cgroups::make();
        cgroups.bind(plan.bounds);
    }
    if plan.kind.net != ToolNetwork::None || confinement == Confinement::Unconfined {
        cgroups.bound_network(plan.bounds);
    }
    let mut watch = CallWatch::new(request, signals, cgroups);
    match begun {
        EarlyNamespaces::Sandbox(begun) => sandbox::run(&mut watch, begun),
        EarlyNamespaces::Unconfined(begun) => unconfined(&mut watch, begun),
    }
}

/// The namespaces that a supervisor makes before it has its plan, as most calls of a kind ask
/// for them. `None` if that failed: the call then tries again, and reports the reason.
enum EarlyNamespaces {
    Sandbox(Option<sandbox::SandboxNamespaces>),
    Unconfined(Option<Unconfined>),
}

impl EarlyNamespaces {
    fn start(confinement: Confinement, control: BorrowedFd<'_>) -> Self {
        match confinement {
            Confinement::Sandboxed => Self::Sandbox(sandbox::begin(control)),
            Confinement::Unconfined => Self::Unconfined(Unconfined::begin(control).ok().flatten()),
        }
    }

    fn init(&self) -> Option<&Init> {
        match self {
            Self::Sandbox(begun) => begun.as_ref().map(sandbox::SandboxNamespaces::init),
            Self::Unconfined(begun) => begun.as_ref().map(|begun| &begun.init),
        }
    }

    fn give_up(&mut self) {
        match self {
            Self::Sandbox(begun) => *begun = None,
            Self::Unconfined(begun) => *begun = None,
        }
    }

    /// Waits for input from the host. Gives the namespaces up when the machine's mounts change
    /// in the meantime: they would keep an unmounted file system in use.
    ///
    /// A signal that asks for the end and comes before the input was not meant for the call. If
    /// the input is there, this drops the signal: this process may have been stopped when it
    /// came.
    ///
    /// # Errors
    ///
    /// Fails if a signal asks for the end before the input comes.
    fn keep_until_input(&mut self, control: BorrowedFd<'_>, signals: &OwnedFd) -> io::Result<()> {
        loop {
            let mounts = self.init().and_then(Init::mounts);
            let mounts = mounts.map(|it| PollFd::from_borrowed_fd(it, PollFlags::PRI));
            let input = PollFd::from_borrowed_fd(control, PollFlags::IN);
            let signal = PollFd::new(signals, PollFlags::IN);
            let mut waited: Vec<_> = [input, signal].into_iter().chain(mounts).collect();
            match poll(&mut waited, None) {
                Err(Errno::INTR) => continue,
                // The read that follows returns the error, or the input.
                Err(_) => return Ok(()),
                Ok(_) => {}
            }
            let is_ready = |at: usize| waited.get(at).is_some_and(|it| !it.revents().is_empty());
            let (has_input, have_mounts_changed) = (is_ready(0), is_ready(2));
            if have_mounts_changed {
                self.give_up();
            }
            let asked_to_end = signals::drain(signals)?;
            // If this process was stopped after the signal came, the input came after the poll
            // above.
            if has_input || asked_to_end && has_input_now(control) {
                return Ok(());
            }
            if asked_to_end {
                return Err(io::Error::other("a signal asked for the end before a call came"));
            }
        }
    }
}

fn has_input_now(control: BorrowedFd<'_>) -> bool {
    let mut waited = [PollFd::from_borrowed_fd(control, PollFlags::IN)];
    poll(&mut waited, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Opens `/dev/null` at each standard descriptor that is closed, as Rust's runtime does for
/// programs that have it. Otherwise the next file that is opened would be taken for a stream.
fn fill_standard_descriptors() -> io::Result<()> {
    for number in 0..STANDARD_DESCRIPTORS {
        // SAFETY: a system call on a number.
        let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } != -1;
        if !is_open {
            // It gets the lowest number that is free, which is this one, and keeps it.
            let null = open(c"/dev/null", OFlags::RDWR, Mode::empty())?;
            let _ = null.into_raw_fd();
        }
    }
    Ok(())
}

/// stdin, stdout and stderr.
const STANDARD_DESCRIPTORS: i32 = 3;

/// The `oom_score_adj` by which the kernel kills the tool and not its host when memory runs out,
/// on the machine or in a group around the host. The tool counts as if it used half of all
/// memory more than it does, proc_pid_oom_score_adj(5).
const FIRST_VICTIM: &str = "500";

/// The namespaces of a tool without a sandbox.
struct Unconfined {
    init: Init,
    /// A `/proc` of the PID namespace. Without it, the tree is read from the host's `/proc`.
    proc: Result<(), String>,
}

impl Unconfined {
    /// Makes the namespaces. Returns nothing if their init was killed.
    fn begin(control: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let mut proc = Ok(());
        let prepare = || {
            proc = namespace::mount_proc().map_err(|error| error.to_string());
            Ok(())
        };
        // SAFETY: this process has one thread, and nothing here holds a lock.
        let init = unsafe { Init::start(namespace::OF_ANY_TOOL, control, prepare) }?;
        Ok(init.map(|init| Self { init, proc }))
    }
}

/// Serves the call of a tool with all of its user's rights.
fn unconfined(watch: &mut CallWatch<'_>, begun: Option<Unconfined>) -> io::Result<Delivery> {
    let limits = |watch: &CallWatch<'_>, pid_namespace| LimitMechanisms {
        process_limit: false,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup: watch.cgroups.bounds_memory().map_err(str::to_owned),
        watched: Ok(()),
        network: false,
    };
    let prepared = |namespaced: Result<(), &str>, notes, limits: LimitMechanisms| PreparedSandbox {
        isolation: Some(layers::unconfined(namespaced, UserIdentity::own().is_root(), &limits)),
        layers: Vec::new(),
        notes,
        refusal: None,
        watched: true,
        locks: None,
        listener: None,
        restrictions: Restrictions::none(),
        scope: None,
    };
    let begun = begun.filter(|begun| begun.init.is_good());
    let begin = || Unconfined::begin(watch.request.control.as_fd());
    match begun.map_or_else(begin, |begun| Ok(Some(begun))) {
        Ok(None) => Ok(Delivery::Lost),
        Ok(Some(Unconfined { init, proc })) => {
            let work = || {
                let missing =
                    proc.err().map(|why| format!("no `/proc` of the PID namespace: {why}"));
                let bounded = sandbox::bound_numbers(watch, false);
                let limits = limits(watch, bounded);
                watch.run(true, prepared(Ok(()), missing.into_iter().collect(), limits))
            };
            // SAFETY: this process has one thread, and nothing here holds a lock.
            Ok(unsafe { init.run(work) }.unwrap_or(Delivery::Lost))
        }
        Err(reason) => {
            // Every process that the tool leaves behind becomes this process's child.
            set_child_subreaper(Some(getpid()))?;
            let reason = reason.to_string();
            let mut notes = vec![format!("no PID namespace: {reason}")];
            let limits = limits(watch, Err(reason.clone()));
            // The kernel does not count the processes of root.
            let most = (!UserIdentity::own().is_root())
                .then(|| sandbox::most_of_user(&watch.request.plan))
                .transpose();
            let processes = most.unwrap_or_else(|error| {
                notes.push(format!("the user's processes cannot be counted: {error}"));
                None
            });
            let mut prepared = prepared(Err(&reason), notes, limits);
            prepared.restrictions.processes = processes;
            Ok(watch.run(false, prepared))
        }
    }
}
