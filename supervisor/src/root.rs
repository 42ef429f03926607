//! The root of a sandboxed tool: a separate tree with the entries of its view and a few
//! directories that every tool has.
//!
//! Built from descriptors: a mount shows the file that was opened, even if its name has changed
//! since. The new tree is mounted over `/`. This process does not see it there until it pivots;
//! then the host's tree is unmounted.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, UnmountFlags,
    fsconfig_create, fsconfig_reconfigure, fsconfig_set_string, fsmount, fsopen, fspick,
    mount_change, unmount,
};
use rustix::process::{fchdir, pivot_root, umask};

use super::hidden;
use super::mounts::{
    NOSUID_NODEV, attach, beneath_of, copy_of, cover_special, deepest, identity, restrict,
};
use super::overlay::{OverlayDir, nearest};
use super::view::{DEVICES, OWN, OWN_HOSTS, View, ViewEntry};
use crate::plan::{HiddenPath, InodeId, path_of};

/// The fewest and the most files and directories that a file system in memory may hold.
const INODES: (u64, u64) = (1 << 10, 1 << 17);

/// The other name of a tool's `/tmp`.
const VAR_TMP: &str = "/var/tmp";

/// The names of a tool's own loopback, hosts(5).
const LOCALHOST: &str = "127.0.0.1 localhost\n::1 localhost\n";

/// The links that programs expect in `/dev`.
const DEV_LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// The list of the machine's locks on files. Its lines contain numbers that the holder of a lock
/// chooses, so two calls could pass any text by it.
const LOCKS: &str = "/proc/locks";

/// The files of `/proc` with secrets that every user may read, and the list of locks. The keys of
/// users belong to no namespace. The kernel's boot parameters may contain a password from an
/// installation.
const OPEN_FILES: [&str; 4] = ["/proc/cmdline", "/proc/key-users", "/proc/keys", LOCKS];

/// The files of `/proc` that show root the kernel's memory, keys, addresses and timers, and the
/// list of locks. No tool has a use for them.
const KERNEL_FILES: [&str; 17] = [
    "/proc/cmdline",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    LOCKS,
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

/// A root that was entered.
pub(super) struct EnteredRoot {
    /// The reason why `/proc` is missing: a container that masks parts of `/proc` forbids a new
    /// one.
    pub(super) proc: Result<(), io::Error>,
    /// The list of locks, as its `/proc` had it before it was covered. `None` if the root has no
    /// `/proc`, or the kernel has no locks.
    pub(super) locks: Option<File>,
    /// The device of the file system in memory, which no other program sees.
    pub(super) memory: u64,
    /// The directories of the machine that a recording may write to, without effect.
    pub(super) overlaid: Vec<OverlayDir>,
    /// The directories of the machine to which it cannot write, and why.
    pub(super) notes: Vec<String>,
}

/// A tree that is being built, over the host's.
pub(super) struct ToolRoot {
    tree: OwnedFd,
    /// The file system in memory: the tree itself, unless `/` is granted.
    memory: OwnedFd,
    /// The reason why the tree has no `/proc`.
    proc: Result<(), io::Error>,
    locks: Option<File>,
    /// The mounts that need no check: the ones that were attached, and the ones that were
    /// checked.
    settled: RefCell<HashSet<u64>>,
    overlaid: Vec<OverlayDir>,
    notes: Vec<String>,
}

impl ToolRoot {
    /// Begins a tree with what every tool has. It starts from `granted` if that is the host's
    /// whole tree.
    ///
    /// For the init of new mount and PID namespaces.
    pub(super) fn begin(granted: Option<&ViewEntry>) -> io::Result<Self> {
        // Mounts made here do not appear in another namespace, and mounts made there do not
        // appear here.
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let memory = in_memory(UNBOUND)?;
        // Copied before anything is mounted over it, or the copy would contain that mount too.
        let granted = granted.map(ViewEntry::tree).transpose()?;
        attach(&memory, CWD, c"/")?;
        let is_own = granted.is_none();
        let tree = match granted {
            Some(tree) => {
                attach(&tree, CWD, c"/")?;
                tree
            }
            None => rustix::io::fcntl_dupfd_cloexec(&memory, 3)?,
        };
        let (settled, overlaid, notes) = (RefCell::default(), Vec::new(), Vec::new());
        let (proc, locks) = (Ok(()), None);
        let mut root = Self { tree, memory, proc, locks, settled, overlaid, notes };
        if !is_own {
            root.cover_special()?;
        }
        let inherited = umask(Mode::empty());
        root.show_devices(is_own)?;
        for path in OWN {
            root.show_own(path, Mode::from_raw_mode(0o1777))?;
        }
        match root.show_proc() {
            Ok(locks) => root.locks = locks,
            Err(error) => root.proc = Err(error),
        }
        umask(inherited);
        Ok(root)
    }

    /// Adds what `view` describes, and makes the tree this process's root. The file system in
    /// memory takes at most `memory` bytes, and so do the changes of a recording.
    pub(super) fn enter(mut self, view: &View, memory: u64) -> io::Result<EnteredRoot> {
        resize(&self.memory, memory)?;
        let inherited = umask(Mode::empty());
        self.fill(view, memory)?;
        umask(inherited);
        fchdir(&self.tree)?;
        pivot_root(".", ".")?;
        // The host's tree lies over the new one after this pivot.
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")?;
        let memory = fstat(&self.memory)?.st_dev;
        let Self { proc, locks, overlaid, notes, .. } = self;
        Ok(EnteredRoot { proc, locks, memory, overlaid, notes })
    }

    fn is_own(&self, view: &View) -> bool {
        !view.has(Path::new("/"))
    }

    fn fill(&mut self, view: &View, memory: u64) -> io::Result<()> {
        let has_link = view.machine_links.iter().any(|(link, _)| link == Path::new("/var"));
        if self.is_own(view) && !has_link {
            self.show_var_tmp(view)?;
        }
        let mut home_over_system = None;
        if let Some(home) = &view.home
            && !OWN.iter().any(|own| home.starts_with(own))
        {
            // Made before the system's directories lie over the file system in memory.
            match view.covered.contains(home) {
                true => home_over_system = Some(self.own_directory(home, Mode::RWXU)?),
                false => self.show_own(home, Mode::RWXU)?,
            }
        }
        if let Some(home) =
            view.home.as_ref().filter(|home| OWN.iter().any(|own| home.starts_with(own)))
        {
            self.directory(home)?;
        }
        let links = view.links.iter().chain(&view.machine_links).chain(&view.granted_links);
        for (link, target) in links {
            self.link(link, target)?;
        }
        if view.own_hosts {
            self.write(Path::new(OWN_HOSTS), LOCALHOST)?;
        }
        let mut covers = self.show_machine(view, memory)?;
        let is_recorded = !view.machine.is_empty();
        let mut around: Option<&ViewEntry> = None;
        for entry in view.entries.iter().filter(|entry| entry.path != Path::new("/")) {
            // They are sorted, so the entries in an entry come right after it.
            match around {
                Some(outer) if entry.path.starts_with(&outer.path) => self.cover_special()?,
                _ => around = Some(entry),
            }
            match is_recorded {
                true => self.show_in_machine(entry, view)?,
                false => self.show(entry)?,
            }
            if !entry.system {
                continue;
            }
            for path in view.covered.iter().filter(|path| path.starts_with(&entry.path)) {
                self.cover_special()?;
                match home_over_system.take_if(|_| view.home.as_ref() == Some(path)) {
                    Some(home) => self.cover(path, &home)?,
                    None => {
                        let empty = in_memory(0)?;
                        self.cover(path, &empty)?;
                        covers.push(empty);
                    }
                }
            }
        }
        if let Some(empty) = &view.empty
            && !(is_recorded && self.followed(empty).is_ok())
        {
            self.directory(empty)?;
        }
        for cover in covers {
            restrict(&cover, NOSUID_NODEV | libc::MOUNT_ATTR_RDONLY, false)?;
        }
        self.cover_special()?;
        let granted = view.entries.iter().map(|entry| entry.path.as_path()).collect();
        let find = |path: &Path, found| self.found_at(path, found);
        let inner = view.read_only.iter().chain(&view.hidden);
        hidden::pin(&self.tree, &view.pinned, inner, &granted, find)?;
        hidden::make_read_only(&view.read_only, find)?;
        hidden::cover(&self.memory, &view.hidden, find)?;
        if self.is_own(view) {
            restrict(&self.tree, NOSUID_NODEV | libc::MOUNT_ATTR_RDONLY, false)?;
        }
        Ok(())
    }

    /// Puts a directory over another one of the tree.
    fn cover(&self, path: &Path, directory: &OwnedFd) -> io::Result<()> {
        let place = self.existing(path).map_err(|errno| at(path)(errno.into()))?;
        attach(directory, &place, c"").map_err(at(path))?;
        self.settled.borrow_mut().insert(identity(directory)?);
        Ok(())
    }

    /// Makes `/var/tmp` lead to `/tmp`. It is a link, or a mount if an entry of the view lies in
    /// it: the entry can be shown beneath the mount.
    fn show_var_tmp(&self, view: &View) -> io::Result<()> {
        let (link, target) = (Path::new(VAR_TMP), Path::new("/tmp"));
        let entries = view.entries.iter().map(|entry| &entry.path);
        let links = view.granted_links.iter().map(|(link, _)| link);
        let mut places = entries.chain(links).chain(&view.home).chain(&view.empty);
        if places.any(|path| path.starts_with(link)) {
            return self.mount(&copy_of(self.existing(target)?)?, link, true);
        }
        self.link(link, target)
    }

    fn show(&self, entry: &ViewEntry) -> io::Result<()> {
        match entry.copied_tree() {
            Some(tree) => self.mount(tree, &entry.path, entry.directory),
            None => self.mount(&entry.tree()?, &entry.path, entry.directory),
        }
    }

    /// Shows an entry over the machine, unless the tool sees it there already.
    fn show_in_machine(&self, entry: &ViewEntry, view: &View) -> io::Result<()> {
        if entry.writable {
            return self.show(entry);
        }
        // In another entry it could be shown with more rights than its own grant gives.
        let around =
            |other: &ViewEntry| other.path != entry.path && entry.path.starts_with(&other.path);
        if !view.entries.iter().any(around) && self.has(entry) {
            return Ok(());
        }
        match self.existing(&entry.path) {
            // A link of the machine leads there. Nothing is mounted over a link, and nothing
            // that was granted lies behind one.
            Err(Errno::LOOP) => {
                let real =
                    std::fs::read_link(format!("/proc/self/fd/{}", entry.source.as_raw_fd()))?;
                self.mount(&entry.tree()?, &real, entry.directory)
            }
            _ => self.show(entry),
        }
    }

    /// Shows the machine. Each directory is under an overlay if the kernel makes one. Empty
    /// files and directories cover what is kept from the tool, and are returned. They can be
    /// made read-only only after the view's entries in them have been made.
    fn show_machine(&mut self, view: &View, memory: u64) -> io::Result<Vec<OwnedFd>> {
        let changes = self.changes(view, memory)?;
        for directory in &view.machine {
            let lower = directory.tree()?;
            self.mount(&lower, &directory.path, true)?;
            self.overlay(&directory.path, lower, changes.as_ref());
        }
        for path in &view.own_of_machine {
            let beneath = self.beneath(path).map_or_else(|| self.existing(path), |(_, it)| it);
            // Another program has renamed it, or it is behind a link.
            let Ok(beneath) = beneath else { continue };
            let lower = copy_of(beneath)?;
            self.mount(&lower, path, true)?;
            self.overlay(path, lower, changes.as_ref());
        }
        let temporary = Path::new(VAR_TMP);
        if view.machine.iter().any(|it| temporary.starts_with(&it.path))
            && self.existing(temporary).is_ok()
        {
            self.mount(&copy_of(self.existing(Path::new("/tmp"))?)?, temporary, true)?;
        }
        let mut covers = Vec::new();
        for HiddenPath { path, found } in &view.kept {
            let path = path_of(path);
            // The tool cannot enter the closed directory. It is covered in case another process
            // opens it.
            let (closed, place) = match (self.beneath(&path), self.existing(&path)) {
                (Some((over, Err(Errno::ACCESS))), _) => {
                    let closed = over.closed_on(&path)?;
                    let place = self.existing(&closed)?;
                    (closed, place)
                }
                (None, Err(Errno::ACCESS)) => deepest(&self.tree, &path)?,
                _ => (path.clone(), self.found_at(&path, *found)?),
            };
            let nothing = nothing(&place)?;
            attach(&nothing, &place, c"").map_err(at(&closed))?;
            self.settled.borrow_mut().insert(identity(&nothing)?);
            covers.push(nothing);
        }
        Ok(covers)
    }

    /// Puts an overlay over a mount, if the kernel makes one.
    fn overlay(&mut self, path: &Path, lower: OwnedFd, changes: Option<&OwnedFd>) {
        let Some(changes) = changes else { return };
        let name = (self.overlaid.len() + self.notes.len()).to_string();
        let overlaid = make_directory(changes.as_fd(), Path::new(&name));
        match overlaid.and_then(|changes| OverlayDir::over(path, lower, &changes)) {
            Ok(overlaid) => {
                self.settled.borrow_mut().insert(overlaid.mount());
                self.overlaid.push(overlaid);
            }
            Err(error) => {
                self.notes.push(format!("`{}` cannot be written to: {error}", path.display()));
            }
        }
    }

    /// Makes the file system in memory for a recording's changes to the machine. It lies hidden
    /// beneath the first directory of the machine.
    fn changes(&self, view: &View, memory: u64) -> io::Result<Option<OwnedFd>> {
        let Some(first) = view.machine.first() else { return Ok(None) };
        let changes = in_memory(memory)?;
        self.mount(&changes, &first.path, true)?;
        Ok(Some(changes))
    }

    /// Returns whether the file of an entry is at its path already, maybe by links.
    fn has(&self, entry: &ViewEntry) -> bool {
        let of = |place: &OwnedFd| fstat(place).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let Ok(seen) = self.followed(&entry.path) else { return false };
        let source = of(&entry.source);
        if source.is_some() && of(&seen) == source {
            return true;
        }
        let real = std::fs::read_link(format!("/proc/self/fd/{}", entry.source.as_raw_fd()));
        let beneath = real.ok().and_then(|real| self.beneath(&real));
        // A file must be the very file that was opened, above all a program.
        entry.directory
            && beneath.is_some_and(|(over, beneath)| {
                let is_over = identity(&seen).is_ok_and(|mount| mount == over.mount());
                is_over && beneath.is_ok_and(|beneath| of(&beneath) == source)
            })
    }

    /// Opens a path of the machine beneath the overlay that covers it, if there is one.
    fn beneath(&self, path: &Path) -> Option<(&OverlayDir, Result<OwnedFd, Errno>)> {
        let over = nearest(&self.overlaid, path)?;
        Some((over, over.beneath(path)))
    }

    /// Opens a hidden file.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::ResourceBusy`] if another file is at the path now.
    fn found_at(&self, path: &Path, found: InodeId) -> io::Result<OwnedFd> {
        match self.beneath(path) {
            None => hidden::as_found(self.existing(path), path, found),
            Some((_, beneath)) => {
                hidden::as_found(beneath, path, found)?;
                Ok(self.existing(path)?)
            }
        }
    }

    /// Opens a path of the tree as the tool would, through links.
    fn followed(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.tree, path, flags, Mode::empty(), resolve)
    }

    /// Hides the mounts in the entries that hold no files: a procfs or sysfs there is the
    /// host's, and a write to it is an order to the host's kernel.
    ///
    /// Must be called before anything is mounted over a directory that may contain such mounts.
    /// Beneath the new mount this process cannot reach them by a path, but a process outside
    /// could later move them out from under it.
    fn cover_special(&self) -> io::Result<()> {
        cover_special(&self.tree, &mut self.settled.borrow_mut(), |path, place| {
            let nothing = nothing(place)?;
            restrict(&nothing, NOSUID_NODEV | libc::MOUNT_ATTR_RDONLY, false)?;
            attach(&nothing, place, c"").map_err(at(path))
        })
    }

    /// Shows a writable directory of the file system in memory.
    fn show_own(&self, path: impl AsRef<Path>, mode: Mode) -> io::Result<()> {
        let path = path.as_ref();
        self.mount(&self.own_directory(path, mode)?, path, true)
    }

    /// Makes a writable directory of the file system in memory, to be mounted.
    fn own_directory(&self, path: &Path, mode: Mode) -> io::Result<OwnedFd> {
        // The path is free in the file system in memory, even if that is not the tree itself.
        let own = make_directory(self.memory.as_fd(), path)?;
        rustix::fs::fchmod(open_again(&own)?, mode)?;
        let tree = copy_of(&own)?;
        restrict(&tree, NOSUID_NODEV, false)?;
        Ok(tree)
    }

    fn show_devices(&self, is_own: bool) -> io::Result<()> {
        if !is_own {
            let dev = make_directory(self.memory.as_fd(), Path::new("/dev"))?;
            self.mount(&copy_of(&dev)?, Path::new("/dev"), true)?;
        }
        for path in DEVICES {
            let device = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let tree = copy_of(&device)?;
            // The node is read-only, not the device.
            let attributes =
                libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
            restrict(&tree, attributes, false)?;
            self.mount(&tree, Path::new(path), false)?;
        }
        for (link, target) in DEV_LINKS {
            self.link(Path::new(link), Path::new(target))?;
        }
        Ok(())
    }

    /// Shows the processes of this namespace, and the kernel's settings for reading only. Returns
    /// the list of locks, which the tool does not see.
    fn show_proc(&self) -> io::Result<Option<File>> {
        let target = self.directory(Path::new("/proc"))?;
        let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        attach(&tree, &target, c"")?;
        self.settled.borrow_mut().insert(identity(&tree)?);
        let locks = match openat(&tree, c"locks", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => None,
            list => Some(File::from(list?)),
        };
        self.hide_kernel()?;
        Ok(locks)
    }

    /// Covers the files of `/proc` that expose the kernel with empty ones. Root may read those
    /// files even in a user namespace, and every user may read the names of its keys.
    fn hide_kernel(&self) -> io::Result<()> {
        let nothing = self.existing(Path::new("/dev/null"))?;
        let root = rustix::process::geteuid().is_root();
        let files = if root { &KERNEL_FILES[..] } else { &OPEN_FILES[..] };
        for path in files {
            match self.existing(Path::new(path)) {
                Err(Errno::NOENT) => {}
                file => {
                    let tree = copy_of(&nothing)?;
                    attach(&tree, &file?, c"").map_err(at(Path::new(path)))?;
                    self.settled.borrow_mut().insert(identity(&tree)?);
                }
            }
        }
        Ok(())
    }

    fn mount(&self, tree: &OwnedFd, path: &Path, directory: bool) -> io::Result<()> {
        let target =
            if directory { self.directory(path) } else { self.file(path) }.map_err(at(path))?;
        attach(tree, &target, c"").map_err(at(path))?;
        self.settled.borrow_mut().insert(identity(tree)?);
        Ok(())
    }

    /// Opens the directory at `path` of the tree, and makes it if it does not exist.
    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.existing(path) {
            Err(Errno::NOENT) => {}
            place => return Ok(place?),
        }
        // Most often only the last directory is missing.
        if let (Some(above), Some(name)) = (path.parent(), path.file_name())
            && let Ok(above) = self.existing(above)
        {
            return make_directory_in(&above, name);
        }
        make_directory(self.tree.as_fd(), path)
    }

    /// Opens the file at `path` of the tree, and makes it if it does not exist.
    fn file(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.existing(path) {
            Err(Errno::NOENT) => self.new_file(path),
            place => Ok(place?),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let file = self.new_file(path).map_err(at(path))?;
        File::from(file).write_all(text.as_bytes())
    }

    /// Makes a file at `path` of the tree, where nothing may be yet.
    fn new_file(&self, path: &Path) -> io::Result<OwnedFd> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(openat(&parent, name, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?)
    }

    fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path).map_err(at(path))?;
        match symlinkat(target, &parent, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(at(path)(error.into())),
        }
    }

    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok((self.directory(parent)?, name))
    }

    fn existing(&self, path: &Path) -> Result<OwnedFd, Errno> {
        beneath_of(&self.tree, path)
    }
}

/// The flags with which a directory of the tree is opened.
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The size of a file system in memory before it is bounded, in bytes. Until then it gets only
/// directories and links.
const UNBOUND: u64 = 1 << 20;

/// Returns how many files and directories a file system in memory of `size` bytes may hold: one
/// for each kibibyte. Each takes about that much of the kernel, which `size` does not bound.
fn inodes(size: u64) -> String {
    let (fewest, most) = INODES;
    (size >> 10).clamp(fewest, most).to_string()
}

/// Bounds a file system in memory to `size` bytes.
fn resize(memory: &OwnedFd, size: u64) -> io::Result<()> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(memory, c"", flags)?;
    fsconfig_set_string(&context, "size", size.max(1).to_string())?;
    fsconfig_set_string(&context, "nr_inodes", inodes(size))?;
    Ok(fsconfig_reconfigure(&context)?)
}

/// Makes a file system in memory of at most `size` bytes; it is not attached yet.
fn in_memory(size: u64) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // The kernel takes 0 for no bound, and rounds up to a page.
    fsconfig_set_string(&context, "size", size.max(1).to_string())?;
    fsconfig_set_string(&context, "nr_inodes", inodes(size))?;
    fsconfig_set_string(&context, "mode", "0755")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Makes an empty directory or an empty file in a new file system, to be attached over `place`.
fn nothing(place: &OwnedFd) -> io::Result<OwnedFd> {
    let memory = in_memory(0)?;
    if FileType::from_raw_mode(fstat(place)?.st_mode) == FileType::Directory {
        return Ok(memory);
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(&memory, c"nothing", flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    copy_of(beneath_of(&memory, Path::new("nothing"))?)
}

/// Opens `path` beneath `root`, and makes each directory on the way that does not exist.
fn make_directory(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let mut directory = openat(root, c".", DIRECTORY, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        directory = make_directory_in(&directory, name)?;
    }
    Ok(directory)
}

/// Opens the directory `name` in `above`, and makes it if it does not exist.
fn make_directory_in(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        // A read-only file system may have the directory already.
        Err(Errno::ROFS | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    Ok(openat2(above, name, DIRECTORY, Mode::empty(), resolve)?)
}

/// Opens a directory again for reading, from a descriptor of `O_PATH`.
fn open_again(place: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(openat(place, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Adds the path to an error.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
