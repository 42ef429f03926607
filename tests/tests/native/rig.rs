//! The fixtures of `native_executor`: a workspace with tools, calls of them, and a FIFO whose end
//! shows that no process of a tool is left.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use ikigai_host::exec::native::{
    MachineSandbox, NativeProgram, ObservedAccesses, OmittedLayers, Supervisor,
};
use ikigai_host::exec::output::{Captured, Sink};
use ikigai_host::exec::wasm::SharedNetwork;
use ikigai_host::exec::{Call, Executor, Outcome};
use ikigai_host::limits::STDERR_KEPT;
use ikigai_host::policy::{Grant, Net, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use ikigai_tests::wait::{TIMEOUT, eventually};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, getpid, kill_process};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// The user `nobody`, who has no rights.
pub(crate) const NOBODY: u32 = 65534;

/// Runs the case as this user and, if that is root, also as a user without privileges, each without
/// a sandbox and in one.
pub(crate) fn each_mode(case: impl Fn(&Rig)) {
    for sandbox in [Sandbox::Off, Sandbox::Require] {
        each_user(sandbox, &case);
    }
}

/// Runs the case as this user and, if that is root, also as a user without privileges.
pub(crate) fn each_user(sandbox: Sandbox, case: impl Fn(&Rig)) {
    let supervisor = paths::supervisor();
    case(&Rig::new(supervisor_at(&supervisor), sandbox));
    if geteuid().is_root() {
        let mut rig = Rig::new(supervisor_at(&supervisor), sandbox);
        rig.root = false;
        let drop_privilege = format!(
            "exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all '{}' \"$@\"",
            supervisor.display()
        );
        rig.supervisor = rig.file("unprivileged", &format!("#!/bin/sh\n{drop_privilege}\n"), 0o755);
        case(&rig);
    }
}

pub(crate) fn supervisor_at(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_owned()
}

/// Returns captured output as text.
pub(crate) fn text(captured: &Captured) -> &str {
    std::str::from_utf8(&captured.bytes).expect("UTF-8")
}

/// A workspace and a supervisor.
pub(crate) struct Rig {
    /// Removed with the rig.
    _dir: TempDir,
    workspace: PathBuf,
    supervisor: PathBuf,
    pub(crate) sandbox: Sandbox,
    /// The layers that the sandbox lacks.
    without: OmittedLayers,
    /// `true` if its tools run as root.
    root: bool,
}

impl Rig {
    pub(crate) fn new(supervisor: PathBuf, sandbox: Sandbox) -> Self {
        let dir = TempDir::new().expect("a directory");
        let workspace = fs::canonicalize(dir.path()).expect("a path");
        // A tool without privileges must be able to write there as well.
        permit(&workspace, 0o777);
        let without = OmittedLayers::default();
        let root = started_as_root();
        Self { _dir: dir, workspace, supervisor, sandbox, without, root }
    }

    /// Returns a rig with its own workspace, and a sandbox that lacks these layers.
    pub(crate) fn lacking(&self, layers: OmittedLayers) -> Self {
        let new = Self::new(self.supervisor.clone(), self.sandbox);
        Self { without: layers, root: self.root, ..new }
    }

    /// Returns a rig with its own workspace, under a filter that makes the kernel refuse new
    /// namespaces.
    pub(crate) fn under_a_filter(&self) -> Self {
        let mut rig = self.lacking(OmittedLayers::default());
        let (intruder, supervisor) = (rig.intruder(), self.supervisor.display());
        let text = format!(
            "#!/bin/sh\nexec '{}' without-namespaces '{supervisor}' \"$@\"\n",
            intruder.display()
        );
        rig.supervisor = rig.file("filtered", &text, 0o755);
        rig
    }

    /// Returns a rig with its own workspace, under a filter with a listener, so that the kernel
    /// allows no second listener.
    pub(crate) fn under_a_listener(&self) -> Self {
        let mut rig = self.lacking(OmittedLayers::default());
        let (intruder, supervisor) = (rig.intruder(), self.supervisor.display());
        let intruder = intruder.display();
        let text = format!("#!/bin/sh\nexec '{intruder}' under-a-listener '{supervisor}' \"$@\"\n");
        rig.supervisor = rig.file("listened", &text, 0o755);
        rig
    }

    /// Removes cgroups from the sandbox.
    pub(crate) fn lacking_cgroups(mut self) -> Self {
        self.without.cgroups = true;
        self
    }

    pub(crate) fn is_root(&self) -> bool {
        self.root
    }

    /// Puts the intruder, which makes the attempts, into the workspace.
    pub(crate) fn intruder(&self) -> PathBuf {
        let path = self.path("intruder");
        if !path.exists() {
            fs::copy(env!("CARGO_BIN_EXE_intruder"), &path).expect("copied");
        }
        path
    }

    /// Returns the supervisor's report of this machine's layers.
    pub(crate) fn machine(&self) -> MachineSandbox {
        let supervisor = Supervisor::by_name(self.supervisor.clone()).without(self.without);
        one_thread().block_on(supervisor.machine())
    }

    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(crate) fn supervisor_path(&self) -> &Path {
        &self.supervisor
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        permit(&path, mode);
        path
    }

    pub(crate) fn script(&self, body: &str) -> PathBuf {
        self.file("tool", &format!("#!/bin/sh\n{body}\n"), 0o755)
    }

    /// Creates the FIFO `alive` in the workspace.
    pub(crate) fn fifo(&self) -> Fifo {
        let path = self.path("alive");
        mknodat(CWD, &path, FileType::Fifo, Mode::from(0o666), 0).expect("a FIFO");
        permit(&path, 0o666);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Fifo(Arc::new(open(&path, flags, Mode::empty()).expect("open")))
    }

    pub(crate) fn call(&self) -> Call {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")];
        call(&self.workspace, &env, self.sandbox)
    }

    /// Runs `tool` watched, and returns the accesses that its supervisor saw.
    pub(crate) fn watch(
        &self,
        tool: &Path,
        change: impl FnOnce(&mut Call),
    ) -> (Outcome, ObservedAccesses) {
        let seen = Arc::new(Mutex::new(ObservedAccesses::default()));
        let supervisor = Supervisor::by_name(self.supervisor.clone()).without(self.without);
        let program = NativeProgram::new(tool, supervisor.showing(seen.clone()));
        let mut call = self.call();
        change(&mut call);
        let outcome = finish(one_thread(), program.run(call));
        let seen = seen.lock().expect("no panic").clone();
        (outcome, seen)
    }

    /// Runs the shell script `text` before the supervisor, which starts after the call's files were
    /// checked.
    pub(crate) fn preceded_by(mut self, text: &str) -> Self {
        let text = format!("#!/bin/sh\n{text}\nexec '{}' \"$@\"\n", self.supervisor.display());
        self.supervisor = self.file("preceded", &text, 0o755);
        self
    }

    fn program(&self, tool: &Path) -> NativeProgram {
        let supervisor = Supervisor::by_name(self.supervisor.clone()).without(self.without);
        NativeProgram::new(tool, supervisor)
    }

    pub(crate) fn run(&self, tool: &Path, adjust: impl FnOnce(&mut Call)) -> Outcome {
        let mut call = self.call();
        adjust(&mut call);
        finish(one_thread(), self.program(tool).run(call))
    }

    /// Runs the tool with these granted peers. `network` resolves their names.
    pub(crate) fn run_within(
        &self,
        network: SharedNetwork,
        net: &[&str],
        tool: &Path,
        adjust: impl FnOnce(&mut Call),
    ) -> Outcome {
        let mut call = self.call();
        let net = Net::parse(net.iter().copied()).expect("a list");
        call.grant = Arc::new(Grant { net, ..(*call.grant).clone() });
        adjust(&mut call);
        let supervisor = Supervisor::by_name(self.supervisor.clone()).without(self.without);
        let program = NativeProgram::new(tool, supervisor.with_network(network));
        finish(one_thread(), program.run(call))
    }

    pub(crate) fn run_with_env(&self, tool: &str, env: &[(&str, &str)]) -> Outcome {
        let call = call(&self.workspace, env, self.sandbox);
        finish(one_thread(), self.program(Path::new(tool)).run(call))
    }

    /// Runs `tool`, and calls `react` after `event`.
    pub(crate) fn run_until(
        &self,
        tool: &Path,
        event: Event,
        react: impl FnOnce(&Call),
    ) -> Outcome {
        self.run_granted_until(tool, |_| {}, event, react)
    }

    /// Does the same with a changed grant.
    pub(crate) fn run_granted_until(
        &self,
        tool: &Path,
        grant: impl FnOnce(&mut Grant),
        event: Event,
        react: impl FnOnce(&Call),
    ) -> Outcome {
        let mut call = self.call();
        grant(Arc::make_mut(&mut call.grant));
        let running = self.program(tool).run(call.clone());
        finish(one_thread(), async move {
            let reaction = async {
                event.wait_aside().await;
                react(&call);
            };
            tokio::join!(running, reaction).0
        })
    }

    /// Drops the call of `tool` after `event`, and returns its cancellation token.
    pub(crate) fn drop_after(&self, tool: &Path, event: Event) -> CancellationToken {
        let call = self.call();
        let cancel = call.cancel.clone();
        let running = self.program(tool).run(call);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                outcome = running => panic!("it ended: {outcome:?}"),
                () = event.wait_aside() => {}
            }
        });
        // The end of the runtime waits for the work that the dropped call left.
        cancel
    }

    /// Shuts the runtime down in the middle of the call.
    pub(crate) fn shut_down_after(&self, tool: &Path, event: Event) {
        let runtime = one_thread();
        let running = self.program(tool).run(self.call());
        runtime.spawn(running);
        runtime.block_on(event.wait_aside());
        drop(runtime);
    }

    pub(crate) fn run_many(&self, tool: &Path, count: usize, check: impl Fn(Outcome)) {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let calls: Vec<_> =
                (0..count).map(|_| tokio::spawn(self.program(tool).run(self.call()))).collect();
            for call in calls {
                check(call.await.expect("no panic"));
            }
        });
    }

    /// Stops the supervisor, with SIGSTOP to each process between this one and the tool.
    pub(crate) fn stop_supervisor(&self) {
        for pid in self.supervisors() {
            kill_process(pid, Signal::STOP).expect("stopped");
        }
    }

    /// Stops the parent of the tool that has the FIFO open. Only the end of the parent can change
    /// that.
    pub(crate) fn hold_init(&self) -> HeldInit {
        let pid = self.supervisors()[0];
        let number = pid.as_raw_nonzero().get();
        // SAFETY: system calls on numbers.
        let (seized, stopped) = unsafe {
            (
                libc::ptrace(libc::PTRACE_SEIZE, number, 0, 0),
                libc::ptrace(libc::PTRACE_INTERRUPT, number, 0, 0),
            )
        };
        assert_eq!((seized, stopped), (0, 0), "{}", std::io::Error::last_os_error());
        let held = HeldInit(number);
        held.wait();
        held
    }

    /// Kills the supervisor of the tool that has the FIFO open, a child of this process.
    pub(crate) fn kill_supervisor(&self) {
        let child = self.supervisors().pop().expect("a supervisor");
        kill_process(child, Signal::KILL).expect("killed");
    }

    /// Returns the processes between this one and the tool that has the FIFO open, the tool's
    /// parent first.
    fn supervisors(&self) -> Vec<Pid> {
        let fifo = self.path("alive");
        let holds = |pid: &i32| {
            let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
            fds.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|link| link == fifo))
        };
        let own = getpid().as_raw_nonzero().get();
        let tool =
            numbers("/proc").into_iter().find(|pid| *pid != own && holds(pid)).expect("a tool");
        let mut ancestors = Vec::new();
        let mut ancestor = parent(tool).expect("a parent");
        while ancestor != own {
            ancestors.push(Pid::from_raw(ancestor).expect("a number"));
            ancestor = parent(ancestor).expect("a parent");
        }
        ancestors
    }
}

fn call(workspace: &Path, env: &[(&str, &str)], sandbox: Sandbox) -> Call {
    let dirs = vec![GrantedDir { access: Access::ReadWrite, path: workspace.to_owned() }];
    let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Call {
        stderr: Sink::Tail(STDERR_KEPT),
        grant: Arc::new(Grant { dirs, env: env.collect(), sandbox, ..Grant::default() }),
        ..Call::new(workspace)
    }
}

pub(crate) fn started_as_root() -> bool {
    geteuid().is_root()
}

pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn finish(runtime: Runtime, running: impl Future<Output = Outcome>) -> Outcome {
    let outcome =
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, running).await.expect("an end") });
    // This does not wait for threads that are blocked in a sink.
    runtime.shutdown_background();
    outcome
}

/// Runs `tool` until this process is killed.
pub(crate) fn run_forever(tool: &Path, supervisor: &Path, sandbox: Sandbox) {
    let workspace = tool.parent().expect("a directory");
    let program = NativeProgram::new(tool, Supervisor::by_name(supervisor.into()));
    let outcome =
        one_thread().block_on(program.run(call(workspace, &[("PATH", "/usr/bin:/bin")], sandbox)));
    panic!("the tool ended: {outcome:?}");
}

/// The reading end of a FIFO that a tool, and everything that it starts, keep open.
pub(crate) struct Fifo(Arc<OwnedFd>);

/// The first byte in a FIFO.
pub(crate) struct Event(Arc<OwnedFd>);

impl Fifo {
    pub(crate) fn first_byte(&self) -> Event {
        Event(self.0.clone())
    }

    /// Returns whether no process has the FIFO open.
    fn is_at_end(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match rustix::io::read(&self.0, &mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(Errno::AGAIN) => return false,
                Err(error) => panic!("the FIFO broke: {error}"),
            }
        }
    }

    pub(crate) fn assert_nobody(&self) {
        assert!(self.is_at_end(), "a process of the tool is left");
    }

    #[track_caller]
    pub(crate) fn wait_for_nobody(&self) {
        eventually("every process of the tool has ended", || self.is_at_end(), |ended| *ended);
    }
}

impl Event {
    pub(crate) fn wait(&self) {
        let timeout = Timespec::try_from(TIMEOUT).expect("in range");
        let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout));
        assert!(ready.is_ok_and(|ready| ready == 1), "the tool did not get that far");
    }

    pub(crate) async fn wait_aside(self) {
        tokio::task::spawn_blocking(move || self.wait()).await.expect("no panic");
    }
}

pub(crate) fn open_descriptors() -> usize {
    numbers("/proc/self/fd").len()
}

/// Returns the number of children of this process, zombies included.
pub(crate) fn children() -> usize {
    child_processes().len()
}

/// Returns the children of this process, zombies included.
pub(crate) fn child_processes() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let children = numbers("/proc").into_iter().filter(|pid| parent(*pid) == Some(own));
    children.filter_map(Pid::from_raw).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn numbers(dir: &str) -> Vec<i32> {
    let entries = fs::read_dir(dir).expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns a sink that forwards output, and the output that arrived.
pub(crate) fn forward() -> (Sink, Arc<Mutex<Vec<u8>>>) {
    let passed = Arc::new(Mutex::new(Vec::new()));
    (Sink::Forward(passed.clone()), passed)
}

/// Returns a sink that blocks until the sender is dropped.
pub(crate) fn blocked() -> (Sink, Sender<()>) {
    let (release, held) = channel();
    (Sink::Forward(Arc::new(Mutex::new(Blocked(held)))), release)
}

struct Blocked(Receiver<()>);

impl Write for Blocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The sender sends nothing, so this returns when it is dropped.
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The init of a call, which this process traces.
pub(crate) struct HeldInit(i32);

impl HeldInit {
    /// Waits until the init has ended.
    pub(crate) fn wait_for_its_end(&self) {
        while !libc::WIFSIGNALED(self.wait()) {}
    }

    /// Waits until the init's state changes, and returns the status of waitpid(2).
    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: a system call on a number and a place that lives.
        let pid = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
        assert_eq!(pid, self.0, "{}", std::io::Error::last_os_error());
        status
    }
}
