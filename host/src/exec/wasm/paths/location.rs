//! Following a path to an open directory and one name in it.
//!
//! Decides where a path may lead. It may not lead to another file system or to a hidden name. In a
//! directory in which only files are granted, it may lead only to those files.

mod seen;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use cap_std::fs::Dir as Beneath;
use ikigai_protocol::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, OpenMode, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, PathFlags};
use wasmtime_wasi::p2::{FsError, FsResult};

use crate::exec::wasm::hidden::path_of;
use crate::exec::wasm::ordinary::is_ordinary;
use crate::exec::wasm::places::{self, Handle, HandleOrigin};
use crate::exec::wasm::state::GuestState;

/// The most bytes of a path, the same as Linux's without the zero at its end.
pub(in crate::exec::wasm) const MAX_PATH: usize = 4_095;

/// The number of symbolic links that are followed before the path counts as a loop, the same as
/// Linux's.
const MAX_LINKS: u32 = 40;

/// The target of a call, at a location.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::exec::wasm) enum Touches {
    /// Only the entry of the directory. The kernel refuses to remove or to replace a mount point.
    Entry,
    /// The file with the name, or the file that it leads to if links are followed.
    Object { follows: bool },
    /// Like `Object`, but the file is to be opened.
    Opened { follows: bool },
}

impl Touches {
    /// The file with the name itself, which may be a link.
    pub(super) const ITSELF: Self = Self::Object { follows: false };

    pub(super) fn object(flags: PathFlags) -> Self {
        Self::Object { follows: flags.contains(PathFlags::SYMLINK_FOLLOW) }
    }
}

/// An open directory and a name in it, for one call.
pub(in crate::exec::wasm) struct Location {
    /// The number of the handle in the guest's table.
    dir: u32,
    /// True if it is the guest's own handle, false if it was opened for this location.
    is_guests: bool,
    name: String,
    /// The origin of the handle that the path began at.
    origin: Option<HandleOrigin>,
    /// The number of the granted file in its place, if it is a granted file.
    file: Option<usize>,
    /// The file that is to be opened, if it is there, without a right to its contents.
    seen: Option<OwnedFd>,
}

impl Location {
    /// Follows `path` beneath `dir`.
    pub(in crate::exec::wasm) fn resolve(
        state: &mut GuestState,
        dir: &Handle,
        path: &str,
        touches: Touches,
    ) -> FsResult<Self> {
        let start = match state.filesystem().table.get(dir)? {
            Descriptor::Dir(start) => start.clone(),
            // wasmtime returns the right error.
            Descriptor::File(_) => return Ok(Self::at(dir, path, None)),
        };
        // Before a question, which keeps the path until it is answered.
        if path.len() > MAX_PATH {
            return Err(ErrorCode::NameTooLong.into());
        }
        // Every directory that a guest holds was noted when it was opened.
        let origin = state.places.origin(dir).ok_or(ErrorCode::NotPermitted)?;
        if !state.places.is_plain(origin) {
            let file = places::single(state.places.files(origin), path);
            if let Some(file) = file.filter(|_| touches != Touches::Entry) {
                return Self::of_file(state, dir, &start, origin, file);
            }
            let is_limited = state.places.place(origin).is_none_or(|place| place.base.is_none());
            if is_limited && !may_see_itself(state, origin, path, touches) {
                return Err(ErrorCode::NotPermitted.into());
            }
        }
        let hidden = state.hidden.clone().zip(state.places.place(origin));
        let found = match &hidden {
            Some((hidden, place)) => {
                seen::follow(&start, hidden.steps(&place.root), path, touches)?
            }
            None => follow(&start, path, touches)?,
        };
        let PathEnd { parent, name, seen } = found;
        // wasmtime would refuse it. But the checks before that look at the path, and their answers
        // would tell the guest whether it exists on this machine.
        if name.starts_with('/') {
            return Err(ErrorCode::NotPermitted.into());
        }
        if let Some((hidden, place)) = hidden {
            let parent = parent.as_ref().map_or_else(|| start.dir.as_fd(), |own| own.as_fd());
            match touches {
                Touches::Entry => hidden.check(&place.root, parent, &name)?,
                _ => hidden.check_file(&place.root, parent, &name)?,
            }
        }
        let Some(parent) = parent else {
            return Ok(Self { seen, ..Self::at(dir, &name, Some(origin)) });
        };
        let parent = Dir::new(parent.into(), start.perms, OpenMode::READ, true);
        let dir = opened_for_location(state, parent)?;
        Ok(Self { dir, is_guests: false, name, origin: Some(origin), file: None, seen })
    }

    /// Returns the location of a granted file, which may be writable although its directory is not.
    /// Fails if the name now belongs to a link or a device.
    fn of_file(
        state: &mut GuestState,
        dir: &Handle,
        start: &Dir,
        origin: HandleOrigin,
        file: usize,
    ) -> FsResult<Self> {
        let granted = state.places.files(origin).get(file).ok_or(ErrorCode::NotPermitted)?;
        let (name, access) = (granted.name.clone(), granted.access);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&start.dir, &name, flags, Mode::empty()).map_err(io::Error::from)?;
        let stat = fstat(&found).map_err(io::Error::from)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || !is_ordinary(found.as_fd()) {
            return Err(ErrorCode::Access.into());
        }
        if let Some(hidden) = state.hidden.clone()
            && let Some(place) = state.places.place(origin)
        {
            hidden.check_open(&place.root, found.as_fd())?;
        }
        let mut location = Self::at(dir, &name, Some(origin));
        (location.file, location.seen) = (Some(file), Some(found));
        if access == Access::ReadWrite && start.perms.write_not_permitted() {
            let mut writable = start.clone();
            writable.perms = FsPerms::ReadWrite;
            location.dir = opened_for_location(state, writable)?;
            location.is_guests = false;
        }
        Ok(location)
    }

    fn at(dir: &Handle, name: &str, origin: Option<HandleOrigin>) -> Self {
        let name = name.to_owned();
        Self { dir: dir.rep(), is_guests: true, name, origin, file: None, seen: None }
    }

    /// Fails if something hidden would be seen after a directory was renamed.
    pub(super) fn check_move(state: &mut GuestState, old: &Self, new: &Self) -> FsResult<()> {
        let Some(hidden) = state.hidden.clone() else { return Ok(()) };
        let mut end = |location: &Self| -> FsResult<_> {
            let origin = location.origin.ok_or(ErrorCode::NotDirectory)?;
            let place = state.places.place(origin).ok_or(ErrorCode::NotPermitted)?;
            let root = place.root.clone();
            let files = state.filesystem();
            let Descriptor::Dir(dir) = files.table.get(&location.dir())? else {
                return Err(ErrorCode::NotDirectory.into());
            };
            Ok((root, path_of(dir.dir.as_fd(), &location.name)?))
        };
        let (old_root, old) = end(old)?;
        let (new_root, new) = end(new)?;
        Ok(hidden.check_move((&old_root, &old), (&new_root, &new))?)
    }

    pub(in crate::exec::wasm) fn dir(&self) -> Handle {
        Resource::new_borrow(self.dir)
    }

    pub(in crate::exec::wasm) fn name(&self) -> String {
        self.name.clone()
    }

    pub(in crate::exec::wasm) fn origin(&self) -> Option<HandleOrigin> {
        self.origin
    }

    /// Returns whether something has the name.
    pub(super) fn exists(&self, state: &mut GuestState) -> FsResult<bool> {
        let name = self.name.trim_end_matches('/');
        match state.filesystem().table.get(&self.dir())? {
            Descriptor::Dir(dir) => Ok(statat(&dir.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()),
            Descriptor::File(_) => Ok(false),
        }
    }

    /// Returns the permissions of its directory.
    pub(super) fn perms(&self, state: &mut GuestState) -> FsResult<FsPerms> {
        match state.filesystem().table.get(&self.dir())? {
            Descriptor::Dir(dir) => Ok(dir.perms),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Takes the file that is to be opened, if it is there.
    pub(super) fn take_seen(&mut self) -> Option<OwnedFd> {
        self.seen.take()
    }

    /// Returns whether it is a granted file, without its directory.
    pub(super) fn is_single(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the directory, if it was opened for this location.
    pub(in crate::exec::wasm) fn close(self, state: &mut GuestState) -> FsResult<()> {
        if !self.is_guests {
            state.filesystem().table.delete(Resource::<Descriptor>::new_own(self.dir))?;
        }
        Ok(())
    }

    /// Closes the directory, if it was opened for this location, and notes that the place was used
    /// if the call succeeded.
    pub(in crate::exec::wasm) fn finish<T>(
        self,
        state: &mut GuestState,
        result: FsResult<T>,
    ) -> FsResult<T> {
        let (origin, file) = (self.origin, self.file);
        self.close(state)?;
        if result.is_ok()
            && let Some(origin) = origin
        {
            state.note_use(origin, file);
        }
        result
    }
}

/// Returns whether a path is the directory itself and a guest may know of it. A guest may list the
/// granted files, and may never list what is above all places.
fn may_see_itself(state: &GuestState, origin: HandleOrigin, path: &str, touches: Touches) -> bool {
    let is_itself = !path.starts_with('/')
        && !path.is_empty()
        && path.split('/').all(|part| matches!(part, "" | "."));
    let is_seen = match touches {
        Touches::Entry => false,
        Touches::Object { .. } => true,
        Touches::Opened { .. } => !state.places.is_witness(origin),
    };
    is_itself && is_seen
}

/// Adds a directory to the table. It does not count as a directory of the guest, but the table has
/// a capacity.
fn opened_for_location(state: &mut GuestState, dir: Dir) -> FsResult<u32> {
    let made = state.filesystem().table.push(Descriptor::Dir(dir));
    let made = made.map_err(|_| FsError::from(ErrorCode::InsufficientMemory))?;
    Ok(made.rep())
}

/// The end of a path.
struct PathEnd {
    /// The directory of the name, if it is not the one that the path began in.
    parent: Option<OwnedFd>,
    name: String,
    /// The file with the name, if it is there and is to be opened.
    seen: Option<OwnedFd>,
}

/// Follows a path to the parent directory of the file that it names. Fails if a guest may not
/// use that directory or, as far as the call touches it, that file.
fn follow(start: &Dir, path: &str, touches: Touches) -> FsResult<PathEnd> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some((parent, name)) = split(&path) else {
            // Empty, which wasmtime refuses, or absolute, which `resolve` refuses.
            return Ok(PathEnd { parent: None, name: path, seen: None });
        };
        let opened = match parent {
            None => None,
            Some(parent) => Some(open_beneath(start, parent)?),
        };
        let directory = opened.as_ref().map_or_else(|| start.dir.as_fd(), |own| own.as_fd());
        let (name, seen) = match look(directory, name, touches)? {
            Looked::Link { target, is_directory } => {
                path = redirected(parent, &target, is_directory);
                continue;
            }
            Looked::End { name, seen } => (name.to_owned(), seen),
        };
        return Ok(PathEnd { parent: opened, name, seen });
    }
    Err(ErrorCode::Loop.into())
}

/// Splits a path into its directory, if it has one, and its last name with the slashes after it. A
/// path that ends in `.` or `..` is all directory. Returns nothing for a path without a name.
fn split(path: &str) -> Option<(Option<&str>, &str)> {
    let trimmed = path.trim_end_matches('/');
    if path.starts_with('/') || trimmed.is_empty() {
        return None;
    }
    let (parent, last) =
        trimmed.rsplit_once('/').map_or((None, trimmed), |(parent, last)| (Some(parent), last));
    match (parent, last) {
        (None, "." | "..") => None,
        (Some(_), "." | "..") => Some((Some(trimmed), ".")),
        (parent, _) => Some((parent, &path[parent.map_or(0, |parent| parent.len() + 1)..])),
    }
}

fn open_beneath(start: &Dir, path: &str) -> FsResult<OwnedFd> {
    let open = || -> io::Result<OwnedFd> {
        let start = Beneath::from_std_file(start.dir.try_clone()?);
        Ok(start.open_dir(path)?.into_std_file().into())
    };
    let opened = open()?;
    if is_ordinary(opened.as_fd()) { Ok(opened) } else { Err(ErrorCode::Access.into()) }
}

/// Returns the path that a link in `parent` stands for.
fn redirected(parent: Option<&str>, target: &str, is_directory: bool) -> String {
    let slash = if is_directory { "/" } else { "" };
    match parent {
        Some(parent) if !target.starts_with('/') => format!("{parent}/{target}{slash}"),
        _ => format!("{target}{slash}"),
    }
}

/// The last name of a path, as far as the call touches it.
enum Looked<'a> {
    /// A link that is to be followed, with its target, and whether that has to be a directory.
    Link { target: String, is_directory: bool },
    /// The end, and the file with the name, if it is there and is to be opened.
    End { name: &'a str, seen: Option<OwnedFd> },
}

/// Looks at the last name of a path, with the slashes after it. Fails if a guest may not use the
/// file.
fn look<'a>(dir: BorrowedFd<'_>, name: &'a str, touches: Touches) -> FsResult<Looked<'a>> {
    let (follows, is_opened) = match touches {
        Touches::Entry => return Ok(Looked::End { name, seen: None }),
        Touches::Object { follows } => (follows, false),
        Touches::Opened { follows } => (follows, true),
    };
    let bare = name.trim_end_matches('/');
    // A slash after a name asks for the directory that it leads to.
    let is_directory = bare != name;
    let Some((open, kind)) = open_itself(dir, bare)? else {
        return match is_directory {
            true => Err(ErrorCode::NoEntry.into()),
            false => Ok(Looked::End { name: bare, seen: None }),
        };
    };
    match kind {
        FileType::Directory => {}
        FileType::Symlink if follows || is_directory => {
            return Ok(Looked::Link { target: target(&open)?, is_directory });
        }
        _ if is_directory => return Err(ErrorCode::NotDirectory.into()),
        FileType::BlockDevice | FileType::CharacterDevice if is_opened => {
            return Err(ErrorCode::Access.into());
        }
        _ => {}
    }
    Ok(Looked::End { name: bare, seen: is_opened.then_some(open) })
}

/// Opens the file with a name itself, without a right to its contents. Returns it with its type, or
/// nothing if no such file exists. Fails if a guest may not use it.
fn open_itself(dir: BorrowedFd<'_>, name: &str) -> FsResult<Option<(OwnedFd, FileType)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(dir, name, flags, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(io::Error::from(errno).into()),
    };
    if !is_ordinary(found.as_fd()) {
        return Err(ErrorCode::Access.into());
    }
    let kind = FileType::from_raw_mode(fstat(&found).map_err(io::Error::from)?.st_mode);
    Ok(Some((found, kind)))
}

/// Returns the target of a link that is open, even if its name has been given to another file.
fn target(link: &OwnedFd) -> FsResult<String> {
    let target = readlinkat(link, "", Vec::new()).map_err(io::Error::from)?;
    Ok(target.into_string().map_err(|_| ErrorCode::IllegalByteSequence)?)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_path_is_a_directory_and_one_name() {
        let cases = [
            ("a", Some((None, "a"))),
            ("a/", Some((None, "a/"))),
            ("a/b", Some((Some("a"), "b"))),
            ("a//b", Some((Some("a/"), "b"))),
            ("a/b//", Some((Some("a"), "b//"))),
            ("../a", Some((Some(".."), "a"))),
            ("a/..", Some((Some("a/.."), "."))),
            ("a/./", Some((Some("a/."), "."))),
            (".", None),
            ("..", None),
            ("", None),
            ("/", None),
            ("/a", None),
        ];
        for (path, expected) in cases {
            assert_eq!(split(path), expected, "{path:?}");
        }
    }
}
