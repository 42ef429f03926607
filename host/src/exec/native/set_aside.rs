//! Renames the files that a native tool made at places that other programs execute, so that those
//! programs do not execute them.
//!
//! The host looks at each expected place after the call, by the directory that it opened before the
//! call, and by the path. Follows no link out of a granted directory, since the tool chose
//! everything on the way.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, chmodat, fstat,
    openat, openat2, renameat_with, statat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::exec::executed_links::LONGEST_WAY;
use crate::paths::{LinkEnd, resolve_within};
use crate::policy::Reserved;

/// The number of numbered names that are tried for something that is set aside, before unguessable
/// names.
const NUMBERED_NAMES: u32 = 3;

/// The number of unguessable names that are tried.
const RANDOM_NAMES: u32 = 16;

/// The largest number of bytes that are kept of a name that is set aside. The rest of 255
/// (NAME_MAX) is for the added end.
const LONGEST_KEPT: usize = 220;

/// The end of the name of something that was set aside.
const ASIDE: &str = ".withheld";

/// A place that is set aside after the call if it is not as before.
pub(super) struct ExpectedPlace {
    pub(super) root: GrantedRoot,
    pub(super) dir: Arc<OwnedFd>,
    /// The path of the directory when the call began.
    pub(super) around: PathBuf,
    pub(super) name: OsString,
    pub(super) before: InitialState,
}

/// A granted directory, open since the call began.
#[derive(Clone)]
pub(super) struct GrantedRoot {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) path: PathBuf,
}

impl GrantedRoot {
    /// Opens a directory beneath it by its path, even if the tool has taken rights to it away. Follows
    /// no link, since a tool could make one lead out of the directory.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let relative = path.strip_prefix(&self.path).map_err(|_| Errno::NOENT)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let mut dir = fcntl_dupfd_cloexec(&self.dir, 0)?;
        for name in relative {
            dir = with_rights(&dir, || openat2(&dir, name, flags, Mode::empty(), within))?;
        }
        Ok(dir)
    }
}

/// The state of a place when a call begins.
pub(super) enum InitialState {
    Nothing,
    /// Anything but a link. It may be made, changed and removed, but no link may take its place.
    NoLink,
}

/// A link that leads nowhere when a call begins. It stays where it is during the call, and is set
/// aside after it if it leads to something then.
pub(super) struct DanglingLink {
    pub(super) root: GrantedRoot,
    pub(super) path: PathBuf,
}

impl DanglingLink {
    /// Renames the link, unless it is as before.
    pub(super) fn set_aside(&self) -> Option<SetAside> {
        let mut left = LONGEST_WAY;
        let end = resolve_within(&self.path, LONGEST_WAY, &mut left).end;
        // Another program may find the target although this one does not.
        if matches!(end, LinkEnd::Nothing | LinkEnd::Failed) {
            return None;
        }
        let (around, name) = (self.path.parent()?, self.path.file_name()?);
        let renamed = self.root.open(around);
        let renamed = renamed.and_then(|dir| with_rights(&dir, || rename_aside(&dir, name)));
        let (path, now) = (self.path.clone(), PlaceState::from_renaming(renamed));
        Some(SetAside { place: path.clone(), path, now })
    }
}

/// A place that the grant opens in part. New files in it are set aside after the call.
pub(super) struct PartialPlace {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) path: PathBuf,
    pub(super) names: Arc<HashSet<OsString>>,
    pub(super) reserved: Reserved,
}

/// A change that a tool made at a guarded place.
pub(super) struct SetAside {
    /// Its path during the call.
    pub(super) path: PathBuf,
    /// The place, which a grant would open: the path itself, or a directory around it.
    pub(super) place: PathBuf,
    pub(super) now: PlaceState,
}

/// The state of a guarded place after the call.
pub(super) enum PlaceState {
    /// The new name of a file or directory that the tool made.
    Renamed(OsString),
    /// The reason why a file or directory that the tool made is still there.
    Left(String),
    /// A different file, directory or link, although the tool could not replace the place: another
    /// program did.
    Replaced,
}

impl PlaceState {
    fn from_renaming(renamed: Result<OsString, Errno>) -> Self {
        match renamed {
            Ok(new) => Self::Renamed(new),
            Err(errno) => Self::Left(errno.to_string()),
        }
    }
}

impl ExpectedPlace {
    /// Returns the directory that has the path of the place's directory now, if it is another one.
    pub(super) fn other_dir(&self) -> Option<OwnedFd> {
        let is_other = |now: &OwnedFd| match (fstat(now), fstat(&self.dir)) {
            (Ok(now), Ok(before)) => (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino),
            _ => true,
        };
        self.root.open(&self.around).ok().filter(is_other)
    }

    /// Renames what is at the place, unless it is as before.
    pub(super) fn set_aside_in(&self, dir: &OwnedFd) -> Option<SetAside> {
        let name = &self.name;
        let is_as_before = |stat: &Stat| match self.before {
            InitialState::Nothing => false,
            InitialState::NoLink => FileType::from_raw_mode(stat.st_mode) != FileType::Symlink,
        };
        let renamed = match with_rights(dir, || statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Err(Errno::NOENT) => return None,
            Ok(stat) if is_as_before(&stat) => return None,
            found => found.and_then(|_| with_rights(dir, || rename_aside(dir, name))),
        };
        let (path, now) = (self.around.join(name), PlaceState::from_renaming(renamed));
        Some(SetAside { place: path.clone(), path, now })
    }
}

impl PartialPlace {
    pub(super) fn set_aside(&self) -> Vec<SetAside> {
        let names = with_rights(&self.dir, || names_in(&self.dir));
        let names = match names {
            Ok(names) => names,
            Err(errno) => {
                return vec![self.done(self.path.clone(), Err(errno))];
            }
        };
        let new = names.into_iter().filter(|name| {
            !self.names.contains(name)
                && self.reserved.executed_place(&self.path.join(name)).is_some()
        });
        let set_aside = |name: OsString| {
            let now = with_rights(&self.dir, || rename_aside(&self.dir, &name));
            self.done(self.path.join(&name), now)
        };
        new.map(set_aside).collect()
    }

    fn done(&self, path: PathBuf, renamed: Result<OsString, Errno>) -> SetAside {
        SetAside { path, place: self.path.clone(), now: PlaceState::from_renaming(renamed) }
    }
}

/// Renames an entry of a directory to a free name, and returns that name.
fn rename_aside(dir: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    for number in 1..=NUMBERED_NAMES + RANDOM_NAMES {
        // A longer name has no room for the added end.
        let kept = name.as_bytes().len().min(LONGEST_KEPT);
        let mut new = OsStr::from_bytes(&name.as_bytes()[..kept]).to_owned();
        new.push(ASIDE);
        match number {
            1 => {}
            2..=NUMBERED_NAMES => new.push(format!("-{number}")),
            _ => new.push(format!("-{:016x}", RandomState::new().build_hasher().finish())),
        }
        match renameat_with(dir, name, dir, &new, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            renamed => return renamed.map(|()| new),
        }
    }
    Err(Errno::EXIST)
}

/// Acts in a directory. If the tool has taken rights to the directory away, gives them back for
/// that time.
fn with_rights<T>(dir: &OwnedFd, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(fstat(dir)?.st_mode);
            let itself = format!("/proc/self/fd/{}", dir.as_raw_fd());
            chmodat(CWD, &itself, mode | Mode::RWXU, AtFlags::empty())?;
            let done = act();
            chmodat(CWD, &itself, mode, AtFlags::empty())?;
            done
        }
        done => done,
    }
}

fn names_in(dir: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    first_names_in(dir, usize::MAX)
}

/// Returns the names in a directory, at most as many as given.
pub(super) fn first_names_in(dir: &OwnedFd, most: usize) -> Result<Vec<OsString>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut names = Vec::new();
    for entry in Dir::new(openat(dir, ".", flags, Mode::empty())?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            if names.len() == most {
                break;
            }
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
