//! The control groups of one call, with which the kernel refuses a process or a page too many.
//!
//! Owns their place, their bounds, the tool's way into them, and their removal when the call is
//! over. Version 2 is used if a subtree is delegated to this user, version 1 if the host is root
//! and a hierarchy is mounted. Each controller is looked up separately, since a machine may have
//! some in one version and some in the other. Names and formats come from the kernel's
//! `admin-guide/cgroup-v1` and `admin-guide/cgroup-v2.rst`.
//!
//! A tool cannot leave its groups: it sees no cgroup file system, and does not own them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, access, flock, getxattr};
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};

use super::mounts::{self, Mount};
use crate::plan::CallBounds;

/// The beginning of the names of a call's groups: `ikigai-supervisor-PID-TURN`, each in decimal
/// digits. A group with another name belongs to another program.
const NAME: &str = "ikigai-supervisor-";

/// The file that lists this process's groups.
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// The number of names that are tried before a group cannot be made.
const NAMES: usize = 16;

/// The controllers of a call's groups. The processor keeps the kernel's default weight: a tool
/// has one share, however many sessions it opens.
const CONTROLLERS: [Controller; 3] = [Controller::Memory, Controller::Processes, Controller::Cpu];

/// A resource that a group bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Processes,
    Cpu,
}

impl Controller {
    /// Returns the controller's name, which is the same in both versions.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// The control groups of one call.
pub(super) struct Cgroups {
    groups: Vec<ControlGroup>,
    memory: Result<File, String>,
    /// The file with the parts of the memory.
    parts: Option<File>,
    /// The reason why the kernel does not count all of the call's memory.
    uncounted: Option<&'static str>,
    processes: Result<File, String>,
    /// The file of version 1 that bounds the memory of TCP.
    tcp: Option<PathBuf>,
    /// The directories whose bounds still have to be set.
    unbound: Vec<(Controller, CgroupVersion, PathBuf)>,
}

/// One directory of a cgroup file system.
struct ControlGroup {
    path: PathBuf,
    /// Locked for as long as the call lasts, so that no other supervisor removes the group.
    _lock: File,
    entrance: Entrance,
    /// Set if the tool must be in it.
    required: bool,
}

/// The way of a process into a group.
enum Entrance {
    /// Version 1: a process that writes `0` enters. The file moves one thread, without waiting
    /// for all other threads of the machine.
    Tasks(File),
    /// Version 2: a process is cloned into the directory. That fails if another user owns the
    /// group or the kernel does not support it. A process then enters as in version 1, through a
    /// file that the owner opened, which is slower.
    CloneInto { directory: OwnedFd, processes: File },
}

impl Cgroups {
    /// Makes the groups that this machine supports, without bounds. The caller must
    /// [remove](Self::remove) them.
    pub(super) fn make() -> Self {
        let mut cgroups = Self::none("");
        let machine = match CgroupHierarchies::read() {
            Ok(machine) => machine,
            Err(error) => return Self::none(&error.to_string()),
        };
        cgroups.uncounted = uncounted(&fs::read_to_string("/proc/cmdline").unwrap_or_default());
        for controller in CONTROLLERS {
            let made = cgroups.add(&machine, controller);
            match controller {
                Controller::Memory => cgroups.memory = made,
                Controller::Processes => cgroups.processes = made,
                // It bounds nothing, but shares the processor out.
                Controller::Cpu => {}
            }
        }
        cgroups.remove_leftovers();
        cgroups
    }

    /// Removes the groups of killed supervisors, including those in reserve, from the same
    /// directories.
    fn remove_leftovers(&self) {
        for ControlGroup { path, .. } in &self.groups {
            if let Some(parent) = path.parent() {
                remove_leftovers(parent, path.file_name());
            }
        }
    }

    /// Sets the bounds, and returns whether every bound is set that the groups are there for.
    pub(super) fn bind(&mut self, bounds: CallBounds) -> bool {
        let mut is_bound = true;
        for (controller, version, path) in std::mem::take(&mut self.unbound) {
            match (set_bounds(controller, version, &path, bounds), controller) {
                (Ok(()), _) => {
                    let mut groups = self.groups.iter_mut();
                    if let Some(group) = groups.find(|group| group.path == path) {
                        group.required = true;
                    }
                }
                (Err(reason), controller) => {
                    is_bound = false;
                    match controller {
                        Controller::Memory => self.memory = Err(reason),
                        Controller::Processes => self.processes = Err(reason),
                        Controller::Cpu => {}
                    }
                }
            }
        }
        is_bound
    }

    /// Returns an empty value, with the reason why groups are missing.
    pub(super) fn none(why: &str) -> Self {
        let (memory, processes) = (Err(why.to_owned()), Err(why.to_owned()));
        let (groups, unbound) = (Vec::new(), Vec::new());
        Self { groups, memory, parts: None, uncounted: None, processes, tcp: None, unbound }
    }

    /// Bounds the memory of TCP too, for a tool that may have connections. Version 1 counts that
    /// memory separately, and only if it has a bound. When the first bound is set and when the
    /// last one is removed, the kernel rewrites its own code, and stops every processor for it.
    pub(super) fn bound_network(&mut self, bounds: CallBounds) {
        if let Some(file) = self.tcp.take()
            && let Err(error) = fs::write(&file, bounds.memory.to_string())
        {
            self.memory = Err(format!("`{}`: {error}", file.display()));
        }
    }

    /// Makes the group of one controller, unless a group of another has it already, and returns
    /// the file that counts the events of its bound.
    fn add(&mut self, machine: &CgroupHierarchies, controller: Controller) -> Result<File, String> {
        let place = machine.place(controller)?;
        // The controllers of version 2 share one tree, and so one group.
        let shared = self.groups.iter().find(|group| group.path.parent() == Some(&place.parent));
        let path = match shared {
            Some(group) => group.path.clone(),
            None => {
                let group = ControlGroup::make(&place).map_err(at(&place.parent))?;
                let path = group.path.clone();
                self.groups.push(group);
                path
            }
        };
        let events = match (controller, place.version) {
            (Controller::Memory, CgroupVersion::One) => {
                self.tcp = Some(path.join("memory.kmem.tcp.limit_in_bytes"));
                "memory.oom_control"
            }
            (Controller::Memory, CgroupVersion::Two) => "memory.events",
            (Controller::Processes, _) => "pids.events",
            (Controller::Cpu, CgroupVersion::One) => "cpu.shares",
            (Controller::Cpu, CgroupVersion::Two) => "cpu.weight",
        };
        let file = path.join(events);
        let events = File::open(&file).map_err(at(&file))?;
        if controller == Controller::Memory {
            self.parts = File::open(path.join("memory.stat")).ok();
        }
        if controller != Controller::Cpu {
            self.unbound.push((controller, place.version, path));
        }
        Ok(events)
    }

    /// Fails with the reason if no group bounds all of the call's memory.
    pub(super) fn bounds_memory(&self) -> Result<(), &str> {
        self.memory.as_ref().map_err(String::as_str)?;
        self.uncounted.map_or(Ok(()), Err)
    }

    /// Fails with the reason if no group bounds the number of processes.
    pub(super) fn bounds_processes(&self) -> Result<(), &str> {
        self.processes.as_ref().map(drop).map_err(String::as_str)
    }

    /// Returns the files to which the tool writes `0` to enter its groups, each with a flag that
    /// the write must succeed. `cloned_into` is set if the tool is in the group of version 2
    /// already.
    pub(super) fn tasks(&self, cloned_into: bool) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.groups.iter().filter_map(move |group| match &group.entrance {
            Entrance::Tasks(tasks) => Some((tasks.as_fd(), group.required)),
            Entrance::CloneInto { processes, .. } => {
                (!cloned_into).then_some((processes.as_fd(), group.required))
            }
        })
    }

    /// Returns the group into which the tool is to be cloned.
    pub(super) fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        self.groups.iter().find_map(|group| match &group.entrance {
            Entrance::CloneInto { directory, .. } => Some(directory.as_fd()),
            Entrance::Tasks(_) => None,
        })
    }

    /// Returns whether the kernel has refused a process or a thread. `None` if no group bounds
    /// their number.
    pub(super) fn refused_a_process(&self) -> Option<io::Result<bool>> {
        Some(has_happened(self.processes.as_ref().ok()?, "max "))
    }

    /// Returns whether the kernel has killed a process that ran out of memory. `None` if no
    /// group bounds the memory.
    pub(super) fn ran_out_of_memory(&self) -> Option<io::Result<bool>> {
        // The same word in both versions; version 1 has it since Linux 4.13.
        Some(has_happened(self.memory.as_ref().ok()?, "oom_kill "))
    }

    /// Returns the memory of the call that its group is charged for, in bytes, without the cache of
    /// files and without the kernel's memory for objects and page tables; 0 if there is no such
    /// group. In version 1 all memory of the kernel is left out.
    pub(super) fn charged_memory(&self) -> io::Result<u64> {
        let Some(file) = &self.parts else { return Ok(0) };
        let mut text = [0; 4096];
        let length = file.read_at(&mut text, 0)?;
        Ok(own_pages(str::from_utf8(&text[..length]).map_err(io::Error::other)?))
    }

    /// Removes the groups, which must be empty. Returns an error if a group cannot be removed.
    pub(super) fn remove(&mut self) -> Option<String> {
        let mut left = None;
        for group in &self.groups {
            if let Err(error) = fs::remove_dir(&group.path) {
                left = Some(format!("`{}` cannot be removed: {error}", group.path.display()));
            }
        }
        self.remove_leftovers();
        self.groups.clear();
        left
    }
}

impl ControlGroup {
    fn make(place: &CgroupParent) -> io::Result<Self> {
        let pid = getpid().as_raw_nonzero();
        let mut refused = Errno::EXIST.into();
        for turn in 0..NAMES {
            // The numbers of processes repeat, above all in other namespaces.
            let path = place.parent.join(format!("{NAME}{pid}-{turn}"));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match Self::open(&path, place.version) {
                Ok(group) => return Ok(group),
                // Another supervisor removed it as a leftover before it was locked.
                Err(error) => refused = error,
            }
            // The group is empty. If it cannot be removed, the first error is still the one to
            // report.
            let _ = fs::remove_dir(&path);
        }
        Err(refused)
    }

    fn open(path: &Path, version: CgroupVersion) -> io::Result<Self> {
        let lock = open_directory(path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let open = |name| OpenOptions::new().write(true).open(path.join(name));
        let entrance = match version {
            CgroupVersion::One => Entrance::Tasks(open("tasks")?),
            CgroupVersion::Two => Entrance::CloneInto {
                directory: open_directory(path)?.into(),
                processes: open("cgroup.procs")?,
            },
        };
        Ok(Self { path: path.to_owned(), _lock: lock, entrance, required: false })
    }
}

/// Sets the bound of one controller in the group at `path`.
fn set_bounds(
    controller: Controller,
    version: CgroupVersion,
    path: &Path,
    bounds: CallBounds,
) -> Result<(), String> {
    let set = |file: &str, value: u64| {
        let file = path.join(file);
        fs::write(&file, value.to_string()).map_err(at(&file))
    };
    // The file of swap is missing where swap is not accounted for.
    let set_swap = |file: &str, value: u64| {
        if path.join(file).exists() { set(file, value) } else { no_swap() }
    };
    match (controller, version) {
        (Controller::Memory, CgroupVersion::One) => {
            set("memory.limit_in_bytes", bounds.memory)?;
            // Memory and swap together.
            set_swap("memory.memsw.limit_in_bytes", bounds.memory)
        }
        (Controller::Memory, CgroupVersion::Two) => {
            set("memory.max", bounds.memory)?;
            set_swap("memory.swap.max", 0)?;
            // A call that ran out of memory is over: the kernel kills all of it.
            set("memory.oom.group", 1)
        }
        (Controller::Processes, _) => set("pids.max", bounds.processes),
        (Controller::Cpu, _) => Ok(()),
    }
}

/// Adds the path to an error.
fn at(path: &Path) -> impl Fn(io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |error| format!("`{path}`: {error}")
}

/// Returns the reason why a kernel with these parameters does not charge all of its memory to a
/// group, if that is so. Page tables, pipes and the buffers of local sockets are kernel memory.
fn uncounted(parameters: &str) -> Option<&'static str> {
    // kernel-parameters.txt: a list of the memory that is not counted.
    let mut left_out = parameters
        .split_whitespace()
        .filter_map(|it| it.strip_prefix("cgroup.memory="))
        .flat_map(|list| list.split(','));
    left_out
        .any(|it| it == "nokmem")
        .then_some("the kernel's parameter `cgroup.memory=nokmem` leaves its own memory uncounted")
}

/// Fails if the machine has swap, which no group counts.
fn no_swap() -> Result<(), String> {
    // One line for each swap area, below a heading; proc_swaps(5).
    match fs::read_to_string("/proc/swaps") {
        Ok(text) if text.lines().count() > 1 => Err("swap is not accounted for".to_owned()),
        _ => Ok(()),
    }
}

/// Removes the groups of killed supervisors, which no process holds locked. Leaves out the group
/// with the name `own`.
fn remove_leftovers(parent: &Path, own: Option<&OsStr>) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if own != Some(name.as_os_str())
            && name.to_str().is_some_and(is_own)
            && let Ok(dir) = open_directory(&entry.path())
            && flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // A group that is not empty stays until its processes have ended.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns whether a group has a name that [`ControlGroup::make`] gives.
fn is_own(name: &str) -> bool {
    let numbers = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    numbers.is_some_and(|(pid, turn)| is_number(pid) && is_number(turn))
}

fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// A directory in which groups of a controller can be made.
#[derive(Debug, PartialEq, Eq)]
struct CgroupParent {
    parent: PathBuf,
    version: CgroupVersion,
}

/// The hierarchies of this machine, as this process sees them.
struct CgroupHierarchies {
    own: String,
    mounts: Vec<Mount>,
}

impl CgroupHierarchies {
    fn read() -> io::Result<Self> {
        Ok(Self { own: fs::read_to_string(OWN_GROUPS)?, mounts: mounts::mounts()? })
    }

    /// Returns the place for groups of `controller`, or the reason why groups cannot be made.
    fn place(&self, controller: Controller) -> Result<CgroupParent, String> {
        let name = controller.name();
        if let Some(own) = self.own_group(Some(name)) {
            writable(&own)?;
            return Ok(CgroupParent { parent: own, version: CgroupVersion::One });
        }
        let own = self.own_group(None).ok_or("no cgroup file system is mounted")?;
        let parent = self.divisible(&own, name)?;
        Ok(CgroupParent { parent, version: CgroupVersion::Two })
    }

    /// Returns the group of version 2 in which groups with `controller` can be made. If this
    /// process's own group is delegated, it is that one, and its processes are moved into a leaf
    /// first. Otherwise it is the group around it, if an earlier call or a service manager put
    /// this process into a leaf. Processes and controllers are never in one group (the rule of
    /// no internal processes). Slices of systemd are never divided.
    fn divisible(&self, own: &Path, controller: &str) -> Result<PathBuf, String> {
        // The group around a unit belongs to the service manager.
        let around = own.parent().filter(|_| !is_unit(own));
        let around = around.filter(|group| self.is_delegated(group) || is_divided_unit(group));
        let group = if self.is_delegated(own) { Some(own) } else { around };
        let group =
            group.ok_or_else(|| format!("`{}` is not delegated to this user", own.display()))?;
        writable(group)?;
        if !lists(group, "cgroup.controllers", controller) {
            return Err(format!(
                "`{}` was not given the controller `{controller}`",
                group.display()
            ));
        }
        if !lists(group, "cgroup.subtree_control", controller) {
            enable(group, controller)
                .map_err(|error| format!("`{}` cannot be divided: {error}", group.display()))?;
        }
        // Unless a controller forbids it, a group may contain both processes and groups. The
        // kernel then lets no process into those groups.
        if lists(group, "cgroup.type", "threaded") {
            return Err(format!(
                "`{}` has its own processes in addition to its groups",
                group.display()
            ));
        }
        Ok(group.to_owned())
    }

    /// Returns whether a group is delegated: systemd marks it by an attribute, and the root of a
    /// cgroup namespace belongs to the container.
    fn is_delegated(&self, group: &Path) -> bool {
        // The root of the machine has no type.
        is_marked(group) || self.begins_at(group) && group.join("cgroup.type").exists()
    }

    /// Returns whether this process's cgroup namespace begins at `group`, which need not be this
    /// process's own group.
    fn begins_at(&self, group: &Path) -> bool {
        let begins = |it: &&Mount| it.kind == "cgroup2" && it.root == Path::new("/");
        self.mounts.iter().filter(begins).any(|mount| mount.point == group)
    }

    /// Returns the directory of this process's own group: in the hierarchy of version 1 with
    /// `controller`, or without a `controller` in the hierarchy of version 2.
    fn own_group(&self, controller: Option<&str>) -> Option<PathBuf> {
        // HIERARCHY:CONTROLLERS:PATH; version 2 has no controllers; cgroups(7).
        let group = self.own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let is_it = match controller {
                Some(name) => controllers.split(',').any(|it| it == name),
                None => controllers.is_empty(),
            };
            is_it.then_some(path)
        })?;
        self.mounts.iter().find_map(|mount| {
            let is_it = match controller {
                Some(name) => {
                    mount.kind == "cgroup" && mount.options.split(',').any(|it| it == name)
                }
                None => mount.kind == "cgroup2",
            };
            // In a container the mount begins at the container's own group.
            let beneath = Path::new(group).strip_prefix(&mount.root).ok()?;
            is_it.then(|| mount.point.join(beneath))
        })
    }
}

fn writable(group: &Path) -> Result<(), String> {
    access(group, Access::WRITE_OK)
        .map_err(|errno| format!("`{}`: {}", group.display(), io::Error::from(errno)))
}

/// Returns whether `controller` is listed in a file of `group`.
fn lists(group: &Path, file: &str, controller: &str) -> bool {
    let listed = fs::read_to_string(group.join(file)).unwrap_or_default();
    listed.split_whitespace().any(|it| it == controller)
}

/// Returns whether a service manager marked the group as delegated.
fn is_marked(group: &Path) -> bool {
    let mut value = [0; 8];
    let marked = |name| getxattr(group, name, &mut value[..]).is_ok_and(|length| length > 0);
    ["user.delegate", "trusted.delegate"].into_iter().any(marked)
}

/// Returns whether the group is named like a systemd unit.
fn is_unit(group: &Path) -> bool {
    let suffixes = ["scope", "service", "slice"];
    group.extension().is_some_and(|it| suffixes.iter().any(|suffix| it == *suffix))
}

/// Returns whether a group is a unit of this user's service manager. Call it for the parent of a
/// group that is not a unit. The manager does not mark its units, and puts processes into a
/// group below a unit only if the unit is delegated (`DelegateSubgroup=`).
fn is_divided_unit(group: &Path) -> bool {
    let user = geteuid();
    let is_own = || fs::metadata(group).is_ok_and(|it| it.uid() == user.as_raw());
    let is_slice = group.extension().is_some_and(|it| it == "slice");
    is_unit(group) && !is_slice && !user.is_root() && is_own()
}

/// Moves the processes of `group` into a leaf of it, and enables `controller` for its groups.
fn enable(group: &Path, controller: &str) -> io::Result<()> {
    let leaf = group.join("host");
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // The next turn finds a process that was forked during this one.
    for _ in 0..NAMES {
        let inside = fs::read_to_string(group.join("cgroup.procs"))?;
        if inside.trim().is_empty() {
            break;
        }
        for pid in inside.split_whitespace() {
            match fs::write(leaf.join("cgroup.procs"), pid) {
                // The process has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                moved => moved?,
            }
        }
    }
    fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"))
}

/// Returns the memory of processes, of files in memory, and of data in pipes and pairs of sockets,
/// in bytes, from `memory.stat`. The first is `rss` in version 1 and `anon` in version 2.
///
/// The data is what version 2 counts as kernel memory in neither slabs nor page tables. Those are
/// a part of the growth of the machine's, to which this is added. Version 1 does not tell them
/// apart.
fn own_pages(text: &str) -> u64 {
    let sum = |names: &[&str]| {
        let counts = text.lines().filter_map(|line| line.split_once(' '));
        let of_names = counts.filter(|(name, _)| names.contains(name));
        of_names.filter_map(|(_, count)| count.parse::<u64>().ok()).sum::<u64>()
    };
    let measured = sum(&["slab", "pagetables", "sec_pagetables"]);
    sum(&["rss", "anon", "shmem"]) + sum(&["kernel"]).saturating_sub(measured)
}

/// Returns whether the line of an events file that begins with `event` has a count above 0. The
/// kernel writes the file anew each time that it is read from its beginning.
fn has_happened(file: &File, event: &str) -> io::Result<bool> {
    let mut text = [0; 1024];
    let length = file.read_at(&mut text, 0)?;
    let text = str::from_utf8(&text[..length]).map_err(io::Error::other)?;
    let count = text.lines().find_map(|line| line.strip_prefix(event));
    Ok(count.is_some_and(|count| count != "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(own: &str) -> CgroupHierarchies {
        let mounts = b"\
30 23 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
32 30 0:27 /docker/a /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
        CgroupHierarchies { own: own.to_owned(), mounts: mounts::parsed(mounts) }
    }

    #[test]
    fn groups_of_other_programs_are_left_alone() {
        let parent = tempfile::tempdir().expect("a directory");
        let others = [
            "ikigai-web",
            "ikigai-1-0",
            "ikigai-supervisor-",
            "ikigai-supervisor-web",
            "ikigai-supervisor-1-0.scope",
            "ikigai-supervisor-1-",
            "ikigai-supervisor--0",
            "ikigai-supervisor-1-1",
        ];
        let own = ["ikigai-supervisor-1-0", "ikigai-supervisor-4194304-15"];
        for name in others.iter().chain(&own) {
            fs::create_dir(parent.path().join(name)).expect("made");
        }
        remove_leftovers(parent.path(), Some(OsStr::new("ikigai-supervisor-1-1")));
        for name in others {
            assert!(parent.path().join(name).exists(), "{name}");
        }
        for name in own {
            assert!(!parent.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn an_own_group_is_found_in_each_hierarchy() {
        let machine = machine("4:memory:/a/b\n3:cpu,pids:/docker/a/c\n0::/user.slice/x\n");
        let own = |controller| machine.own_group(controller);
        assert_eq!(own(Some("memory")), Some("/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(own(Some("pids")), Some("/sys/fs/cgroup/pids/c".into()));
        assert_eq!(own(Some("cpu")), None, "it is mounted nowhere");
        assert_eq!(own(None), Some("/sys/fs/cgroup/unified/user.slice/x".into()));
    }

    #[test]
    fn the_memory_of_processes_is_read_in_either_version() {
        let one = "cache 8192\nrss 4096\nrss_huge 0\nshmem 1024\ninactive_anon 4096\ntotal_rss 1";
        let two = "anon 4096\nfile 8192\nkernel 512\npagetables 256\nsock 64\nshmem 1024\n\
                   anon_thp 0\nslab_reclaimable 64\nslab_unreclaimable 128\nslab 192\n";
        let old = "anon 4096\nfile 8192\npagetables 256\nshmem 1024\nslab 192\n";
        assert_eq!([one, two, old, ""].map(own_pages), [5120, 5184, 5120, 0]);
    }

    #[test]
    fn memory_that_the_kernel_was_told_to_leave_out_is_not_bounded() {
        assert!(uncounted("quiet cgroup.memory=nosocket,nokmem ro\n").is_some());
        assert_eq!(uncounted("quiet cgroup.memory=nosocket cgroup_disable=cpu\n"), None);
        let cgroups = Cgroups {
            memory: File::open("/dev/null").map_err(|error| error.to_string()),
            uncounted: uncounted("cgroup.memory=nokmem"),
            ..Cgroups::none("")
        };
        assert!(cgroups.bounds_memory().is_err_and(|why| why.contains("nokmem")));
        assert!(cgroups.ran_out_of_memory().is_some(), "the bound is there all the same");
    }

    #[test]
    fn units_are_known_by_their_names() {
        for name in ["/a/user@1000.service", "/a/run-p269-i569.scope", "/app.slice"] {
            assert!(is_unit(Path::new(name)), "{name}");
        }
        for name in ["/a/run.service/host", "/", "/a/service", "/a/.scope"] {
            assert!(!is_unit(Path::new(name)), "{name}");
        }
        assert!(!is_divided_unit(Path::new("/nowhere/a.slice")));
        assert!(!is_divided_unit(Path::new("/nowhere/a.service")));
    }

    #[test]
    fn a_namespace_begins_where_version_2_is_mounted_from_its_root() {
        let machine = machine("0::/host\n");
        assert!(machine.begins_at(Path::new("/sys/fs/cgroup/unified")));
        assert!(!machine.begins_at(Path::new("/sys/fs/cgroup/unified/host")));
        assert!(!machine.begins_at(Path::new("/sys/fs/cgroup/memory")), "of version 1");
    }

    #[test]
    fn a_group_outside_of_every_mount_is_not_found() {
        let machine = machine("3:pids:/elsewhere\n");
        assert_eq!(machine.own_group(Some("pids")), None);
        assert_eq!(machine.own_group(None), None);
    }
}
