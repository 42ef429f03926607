//! The files of the machine that a sandboxed tool sees.
//!
//! Owns the list. Each entry is opened once, by a descriptor that stays with it even if its name
//! changes. If this process may make mounts, they show the list ([`super::root`]). A Landlock
//! domain is made from it in every case ([`super::domain`]). Does not choose the entries
//! ([`super::selection`]).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use super::mounts::{self, NOSUID_NODEV};
use crate::filesystems::is_ordinary;
use crate::plan::HiddenPath;

/// The writable directories that each tool has for itself, in a file system in memory that
/// ends with the call.
pub(super) const OWN: [&str; 2] = ["/tmp", "/dev/shm"];

/// The file with the names of the tool's own loopback, for a tool that has sockets there.
pub(super) const OWN_HOSTS: &str = "/etc/hosts";

/// The devices that every tool has.
pub(super) const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// A file or directory that the tool sees.
pub(super) struct ViewEntry {
    /// The path, which is the same in the host's tree and in the tool's.
    pub(super) path: PathBuf,
    pub(super) source: OwnedFd,
    pub(super) directory: bool,
    pub(super) writable: bool,
    /// Set for a file of the system, which every user may read.
    pub(super) system: bool,
    /// A copy of the mounts there, if one was made before the tool's namespaces.
    tree: Option<OwnedFd>,
}

impl ViewEntry {
    pub(super) fn new(path: PathBuf, source: OwnedFd, writable: bool) -> Self {
        let directory = is_directory(&source);
        Self { path, source, directory, writable, system: false, tree: None }
    }

    /// Copies the mounts at the entry, with no more rights than the tool gets.
    pub(super) fn tree(&self) -> io::Result<OwnedFd> {
        match &self.tree {
            Some(tree) => Ok(rustix::io::fcntl_dupfd_cloexec(tree, 3)?),
            None => self.copy(),
        }
    }

    /// Returns the copy that was made before the tool's namespaces, if one was.
    pub(super) fn copied_tree(&self) -> Option<&OwnedFd> {
        self.tree.as_ref()
    }

    fn copy(&self) -> io::Result<OwnedFd> {
        let tree = mounts::copy_of(&self.source)?;
        mounts::restrict(&tree, NOSUID_NODEV | mounts::read_only(!self.writable), true)?;
        Ok(tree)
    }
}

/// The entries that the tool sees, and the directories and links that are made for it.
#[derive(Default)]
pub(super) struct View {
    pub(super) entries: Vec<ViewEntry>,
    /// The files and directories in them that are hidden.
    pub(super) hidden: Vec<HiddenPath>,
    /// The files and directories in them that are read-only.
    pub(super) read_only: Vec<HiddenPath>,
    /// The links and directories in them that stay where they are.
    pub(super) pinned: Vec<HiddenPath>,
    /// The directories of the machine that are shown to a recording beneath the entries.
    pub(super) machine: Vec<ViewEntry>,
    /// The directories in them that belong to this user while the directories around them do
    /// not. In a user namespace a file can be changed only if the owners of all directories
    /// above it are known, up to a directory that is mounted separately.
    pub(super) own_of_machine: Vec<PathBuf>,
    /// Symbolic links of the machine in `/`, each with its target.
    pub(super) machine_links: Vec<(PathBuf, PathBuf)>,
    /// The files and directories hidden in `machine`, except for entries that lie in hidden
    /// ones.
    pub(super) kept: Vec<HiddenPath>,
    /// The user's home in `machine`, which the tool sees in a recording. In other calls it has
    /// its own home there.
    pub(super) shown_home: Option<PathBuf>,
    /// Symbolic links of the system, each with its target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Symbolic links to entries that the plan names, each with its target.
    pub(super) granted_links: Vec<(PathBuf, PathBuf)>,
    /// The directories in entries of the system that the tool does not see: the home of the user,
    /// and the workspace. A grant shows them, or what it names in them.
    pub(super) covered: Vec<PathBuf>,
    /// Set where the tool sees a [file](OWN_HOSTS) of its own with the names of its loopback.
    pub(super) own_hosts: bool,
    /// The working directory, if nothing of it is granted.
    pub(super) empty: Option<PathBuf>,
    /// The path of the user's home, if the tool gets its own home there.
    pub(super) home: Option<PathBuf>,
    /// The file to execute: the path by which it was named, and the path without links.
    pub(super) program: (PathBuf, PathBuf),
}

impl View {
    /// Copies the mounts of each entry. Maps the owners of their files by `owners`, except for
    /// files of the system.
    ///
    /// For a process of root that is about to enter namespaces in which it is not root: only
    /// root may open every entry.
    pub(super) fn hand_over(&mut self, owners: &OwnedFd) -> io::Result<()> {
        let mounts = mounts::mounts()?;
        let hand_over = |entry: &ViewEntry, tree: &OwnedFd| {
            let points = mounts::points_beneath(&entry.source, &mounts)?;
            mounts::hand_over(tree, &points, owners)
        };
        for entry in &mut self.entries {
            let tree = entry.copy()?;
            if !entry.system {
                hand_over(entry, &tree).map_err(|error| {
                    let path = entry.path.display();
                    io::Error::new(
                        error.kind(),
                        format!("`{path}` is on a file system without id-mapped mounts: {error}"),
                    )
                })?;
            }
            entry.tree = Some(tree);
        }
        for entry in &mut self.machine {
            let tree = entry.copy()?;
            // If its files cannot be mapped, a recording can read only what every user may read
            // there.
            drop(hand_over(entry, &tree));
            entry.tree = Some(tree);
        }
        Ok(())
    }

    /// Returns the path of the file to execute, as the calling process sees it.
    pub(super) fn program(&self) -> &Path {
        let (named, real) = &self.program;
        if named.exists() { named } else { real }
    }

    /// Returns whether `path` is an entry, or lies in one.
    pub(super) fn has(&self, path: &Path) -> bool {
        // The tool's own directory hides what a grant of a directory around it would show.
        let hidden =
            |place: &Path| OWN.iter().any(|own| path.starts_with(own) && !place.starts_with(own));
        let has =
            |place: &Path| path.starts_with(place) && !hidden(place) && !self.covers(place, path);
        self.entries.iter().any(|entry| has(&entry.path))
            || self.links.iter().chain(&self.granted_links).any(|(link, _)| has(link))
    }

    /// Returns whether a path lies in a covered directory in the directory `around`.
    pub(super) fn covers(&self, around: &Path, path: &Path) -> bool {
        let covers = |it: &PathBuf| path.starts_with(it) && !around.starts_with(it);
        self.covered.iter().any(covers)
    }

    /// Adds an open file of the system for reading.
    pub(super) fn show_of_system(&mut self, path: &Path, opened: OwnedFd) {
        self.push_ordinary(path, opened, true);
    }

    /// Adds at `path` the file at `real`, which is canonical, for reading, unless the tool sees
    /// it already. Adds nothing if a link has appeared in `real` in the meantime.
    pub(super) fn show_real(&mut self, path: &Path, real: &Path) {
        if let Ok(opened) = open_real(real) {
            self.show_opened(path, real, opened);
        }
    }

    /// Adds at `path` a file that was opened at `real`, for reading, unless the tool sees the path
    /// already.
    pub(super) fn show_opened(&mut self, path: &Path, real: &Path, opened: OwnedFd) {
        if self.has(path) {
            return;
        }
        // The file system of the system's programs may be unable to map owners.
        let system = self.entries.iter().any(|it| it.system && real.starts_with(&it.path));
        self.push_ordinary(path, opened, system);
    }

    /// Adds an open file, unless it lies on a file system that holds no files.
    fn push_ordinary(&mut self, path: &Path, opened: OwnedFd, system: bool) {
        if is_ordinary(&opened).unwrap_or(false) {
            let entry = ViewEntry::new(path.to_owned(), opened, false);
            self.entries.push(ViewEntry { system, ..entry });
        }
    }
}

/// Opens a path without the right to read or write it. Fails if a link lies on the path: another
/// user may have put one there since the path was named.
pub(super) fn open_real(path: &Path) -> Result<OwnedFd, Errno> {
    open_without_links(path, OFlags::PATH)
}

/// Opens a path. Fails if a link lies on it.
pub(super) fn open_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Returns the path without links. Every link is to be resolved here, not later by the kernel. A
/// sandbox whose root was begun has a new root over `/`, and the kernel would enter it if a `..`
/// in a link climbs to `/`.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    // Almost always the path has no links, which takes one system call to find out.
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(is_plain) && open_real(path).is_ok() {
        return Ok(path.components().collect());
    }
    std::fs::canonicalize(path)
}

/// Opens `path` without the right to read or write it (`O_PATH`).
pub(super) fn open_path(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(CWD, path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn is_directory(place: &OwnedFd) -> bool {
    fstat(place).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}
