//! What a sandboxed tool gets to see of the machine's files.
//!
//! Owns the list, each place opened once, by a descriptor that stays with it
//! whatever becomes of its name. The list is shown by mounts where the right to make
//! them is there ([`super::root`]), and always by a Landlock domain
//! ([`super::domain`]).

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use super::installation;
use super::mounts::{self, HARMLESS};
use super::root::OWN;
use crate::filesystems::is_ordinary;
use crate::plan::{Plan, Step};

/// Where programs and their libraries are; and whatever in `/` begins with `lib`.
const SYSTEM: [&str; 3] = ["usr", "bin", "sbin"];

/// What of `/etc` programs need to find users, libraries and certificates.
const ETC: [&str; 12] = [
    "alternatives",
    "ca-certificates",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    // Not all of `ssl`: beside the certificates lie private keys.
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
];

/// What of `/etc` belongs to the network.
const ETC_OF_NETWORK: [&str; 2] = ["hosts", "resolv.conf"];

/// A place that the tool sees.
pub(super) struct Shown {
    /// Where, in the host's tree and in the tool's.
    pub(super) path: PathBuf,
    pub(super) source: OwnedFd,
    pub(super) directory: bool,
    pub(super) writable: bool,
    /// Whether it is the system's own, which is everybody's to read.
    system: bool,
    /// A copy of the mounts there, where one was made before the tool's namespaces.
    tree: Option<OwnedFd>,
}

impl Shown {
    fn new(path: PathBuf, source: OwnedFd, writable: bool) -> Self {
        let directory = is_directory(&source);
        Self { path, source, directory, writable, system: false, tree: None }
    }

    /// A copy of the mounts at the place, with no more rights than it is shown with.
    pub(super) fn tree(&self) -> io::Result<OwnedFd> {
        match &self.tree {
            Some(tree) => Ok(rustix::io::fcntl_dupfd_cloexec(tree, 3)?),
            None => self.copy(),
        }
    }

    fn copy(&self) -> io::Result<OwnedFd> {
        let tree = mounts::copy_of(&self.source)?;
        mounts::restrict(&tree, HARMLESS | mounts::read_only(!self.writable), true)?;
        Ok(tree)
    }
}

/// All that the tool sees.
pub(super) struct View {
    shown: Vec<Shown>,
    /// Symbolic links of the system's own, and where they lead.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// The working directory, where nothing of it is granted.
    pub(super) empty: Option<PathBuf>,
    /// Where the tool's user is at home, for a home of the tool's own.
    pub(super) home: Option<PathBuf>,
    /// The file to execute, by its own name and by the one without links.
    program: (PathBuf, PathBuf),
}

/// Why there is no view.
pub(super) enum Fault {
    /// The grant, or the call, cannot be kept.
    Refused(String),
    /// This step of the tool's start would fail.
    Step(Step, i32),
}

impl View {
    /// What the plan's tool gets to see.
    pub(super) fn of(plan: &Plan) -> Result<Self, Fault> {
        let directory = path_of(&plan.directory);
        open_place(&directory, OFlags::DIRECTORY)
            .map_err(|errno| Fault::Step(Step::Directory, errno.raw_os_error()))?;
        let mut view = Self {
            shown: Vec::new(),
            links: Vec::new(),
            empty: None,
            home: home_of(plan),
            program: Default::default(),
        };
        for dir in &plan.dirs {
            view.grant(path_of(&dir.path), dir.writable)?;
        }
        if !view.has(Path::new("/")) {
            view.show_system(plan.kind.net);
        }
        view.program = installation::show(&mut view, plan);
        if !view.has(&directory) {
            view.show_again(directory)?;
        }
        view.home = view.home.take().filter(|home| !view.has(home));
        // Whoever holds a place comes before what is in it.
        view.shown.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(view)
    }

    /// Copies the mounts of each place, and shows the files of those that are not the
    /// system's through the map of `owners`. For a root that goes into namespaces where
    /// it is none; each place can be opened by it alone.
    pub(super) fn hand_over(&mut self, owners: &OwnedFd) -> io::Result<()> {
        let mounts = mounts::mounts()?;
        for place in &mut self.shown {
            let tree = place.copy()?;
            if !place.system {
                let points = mounts::points_beneath(&place.source, &mounts)?;
                mounts::hand_over(&tree, &points, owners).map_err(|error| {
                    let path = place.path.display();
                    io::Error::new(
                        error.kind(),
                        format!("`{path}` is on a file system without id-mapped mounts: {error}"),
                    )
                })?;
            }
            place.tree = Some(tree);
        }
        Ok(())
    }

    /// Every place, those that hold others first.
    pub(super) fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The file to execute, as the process sees it that asks.
    pub(super) fn program(&self) -> &Path {
        let (named, real) = &self.program;
        if named.exists() { named } else { real }
    }

    /// Whether `path` is a shown place, or in one.
    pub(super) fn has(&self, path: &Path) -> bool {
        // A place of the tool's own hides what a grant of the directory around it would show.
        let hidden =
            |place: &Path| OWN.iter().any(|own| path.starts_with(own) && !place.starts_with(own));
        let has = |place: &Path| path.starts_with(place) && !hidden(place);
        self.shown.iter().any(|place| has(&place.path))
            || self.links.iter().any(|(link, _)| has(link))
    }

    /// Shows `path` for reading, unless it can be seen already or is not there.
    pub(super) fn show(&mut self, path: &Path) {
        let open = || open_place(path, OFlags::empty()).and_then(ordinary);
        self.show_opened(path, open);
    }

    /// Shows at `path` what is at `real`, which is canonical, for reading, unless it can be
    /// seen already. Through a link that has appeared meanwhile nothing is shown.
    pub(super) fn show_real(&mut self, path: &Path, real: &Path) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || openat2(CWD, real, flags, Mode::empty(), resolve).and_then(ordinary);
        self.show_opened(path, open);
    }

    fn show_opened(&mut self, path: &Path, open: impl FnOnce() -> Result<OwnedFd, Errno>) {
        if !self.has(path)
            && let Ok(source) = open()
        {
            self.shown.push(Shown::new(path.to_owned(), source, false));
        }
    }

    /// Shows the working directory where a grant of a directory around it is hidden;
    /// an empty one where nothing of it is granted.
    fn show_again(&mut self, directory: PathBuf) -> Result<(), Fault> {
        let around = self.shown.iter().find(|place| directory.starts_with(&place.path));
        match around.map(|place| place.writable) {
            Some(writable) => self.grant(directory, writable),
            None => {
                self.empty = Some(directory);
                Ok(())
            }
        }
    }

    fn grant(&mut self, path: PathBuf, writable: bool) -> Result<(), Fault> {
        if let Some(same) = self.shown.iter_mut().find(|place| place.path == path) {
            same.writable |= writable;
            return Ok(());
        }
        let source = open_granted(&path).map_err(|errno| {
            let name = path.display();
            Fault::Refused(match errno {
                Errno::NOENT => format!(
                    "the granted directory `{name}` does not exist; make it, or take it out of the grant"
                ),
                Errno::LOOP => format!(
                    "the granted directory `{name}` is, or lies behind, a symbolic link; grant the \
                     directory that it leads to"
                ),
                Errno::NOTDIR => format!("the granted `{name}` is no directory"),
                errno => format!(
                    "the granted directory `{name}` cannot be opened: {}",
                    io::Error::from(errno)
                ),
            })
        })?;
        if !is_ordinary(&source).unwrap_or(false) {
            return Err(Fault::Refused(format!(
                "`{}` cannot be granted to a sandboxed tool: its file system is not one of files, \
                 and would show it the processes or the devices of the host",
                path.display()
            )));
        }
        self.shown.push(Shown::new(path, source, writable));
        Ok(())
    }

    fn show_system(&mut self, net: bool) {
        let root = fs::read_dir("/").into_iter().flatten().flatten();
        let libraries = root.map(|entry| entry.file_name());
        let libraries = libraries.filter(|name| name.as_bytes().starts_with(b"lib"));
        let places: Vec<PathBuf> = SYSTEM
            .iter()
            .map(|name| Path::new("/").join(name))
            .chain(libraries.map(|name| Path::new("/").join(name)))
            .collect();
        for path in places {
            match fs::read_link(&path) {
                Ok(target) if !self.has(&path) => self.links.push((path, target)),
                _ => self.show_of_system(&path),
            }
        }
        let network = if net { &ETC_OF_NETWORK[..] } else { &[] };
        for name in ETC.iter().chain(network) {
            let path = Path::new("/etc").join(name);
            // A link stays one where it leads to what can be seen: the name of a time zone
            // is that of the file which `localtime` leads to.
            let link = fs::read_link(&path).and_then(|to| Ok((to, fs::canonicalize(&path)?)));
            match link {
                Ok((target, real)) if !self.has(&path) && self.has(&real) => {
                    self.links.push((path, target));
                }
                _ => self.show_of_system(&path),
            }
        }
    }

    fn show_of_system(&mut self, path: &Path) {
        let before = self.shown.len();
        self.show(path);
        for place in &mut self.shown[before..] {
            place.system = true;
        }
    }
}

/// A place of a tool's installation, unless it is none of files.
fn ordinary(place: OwnedFd) -> Result<OwnedFd, Errno> {
    if is_ordinary(&place).unwrap_or(false) { Ok(place) } else { Err(Errno::NOENT) }
}

/// Opens a granted directory by the very name that was granted: through a
/// symbolic link, which another may have put there since, it would be another one.
fn open_granted(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve)
}

fn open_place(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(CWD, path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn is_directory(place: &OwnedFd) -> bool {
    fstat(place).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// The home in the tool's environment, if one can be made there.
fn home_of(plan: &Plan) -> Option<PathBuf> {
    let home = PathBuf::from(variable(plan, "HOME")?);
    let reserved = ["/proc", "/sys", "/dev", "/etc"].iter().any(|dir| home.starts_with(dir));
    (home.is_absolute() && home != Path::new("/") && !reserved).then_some(home)
}

/// A variable of the tool's environment.
pub(super) fn variable<'a>(plan: &'a Plan, name: &str) -> Option<&'a OsStr> {
    plan.env.iter().find_map(|pair| {
        let value = pair.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value))
    })
}

pub(super) fn path_of(path: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}
