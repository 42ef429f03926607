//! The calls of `wasi:filesystem/types` that take a path, instead of wasmtime's own.
//!
//! A path beneath a granted directory may lead into another file system: a root that is being
//! built has the host's own `/proc` and `/sys`, where a directory that is made or removed is an
//! order to the kernel, and opening a device is one already. So a path is followed here, to the
//! parent directory of the file that it names; that directory and the file are checked
//! ([`filesystems`]), and wasmtime does the work from there, with a single name and without
//! following a link. A change of the path meanwhile leads nowhere else.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use cap_std::fs::Dir as Beneath;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, OpenMode, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, ErrorCode, HostDescriptor as _, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::state::State;
use ikigai_supervisor::filesystems;

/// The number of symbolic links that are followed before the path counts as a loop, the same as
/// Linux's.
const MAX_LINKS: u32 = 40;

type Handle = Resource<Descriptor>;

/// Links the calls of this module instead of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    // Each call is a function of its own arguments and of the state of the guest.
    macro_rules! serve {
        ($name:literal, $call:ident($($argument:ident: $kind:ty),*)) => {
            types.func_wrap_async(
                concat!("[method]descriptor.", $name),
                |mut store, ($($argument,)*): ($($kind,)*)| {
                    Box::new(async move {
                        answer($call(store.data_mut(), $($argument),*).await)
                    })
                },
            )?;
        };
    }
    serve!("open-at", open_at(dir: Handle, follow: PathFlags, path: String,
        open: OpenFlags, flags: DescriptorFlags));
    serve!("stat-at", stat_at(dir: Handle, follow: PathFlags, path: String));
    serve!("metadata-hash-at", metadata_hash_at(dir: Handle, follow: PathFlags, path: String));
    serve!("set-times-at", set_times_at(dir: Handle, follow: PathFlags, path: String,
        accessed: NewTimestamp, modified: NewTimestamp));
    serve!("readlink-at", readlink_at(dir: Handle, path: String));
    serve!("create-directory-at", create_directory_at(dir: Handle, path: String));
    serve!("remove-directory-at", remove_directory_at(dir: Handle, path: String));
    serve!("unlink-file-at", unlink_file_at(dir: Handle, path: String));
    serve!("symlink-at", symlink_at(dir: Handle, target: String, path: String));
    serve!("link-at", link_at(dir: Handle, follow: PathFlags, path: String,
        new_dir: Handle, new_path: String));
    serve!("rename-at", rename_at(dir: Handle, path: String, new_dir: Handle, new_path: String));
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns a result as a guest gets it; an error of the host itself is a trap.
pub(super) fn answer<T>(result: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Opens a file or a directory, if the guest may open one more: wasmtime's own call would let it
/// open files until the host has no descriptors left, or trap at the table's capacity.
async fn open_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Handle> {
    if !state.may_open() {
        // WASI has no "too many open files"; this is the nearest.
        return Err(ErrorCode::InsufficientMemory.into());
    }
    // Opening an existing file for reading changes nothing: it is enough to check the opened
    // file, which saves searches of many thousand files a second system call for each.
    let reads_only = open & !OpenFlags::DIRECTORY == OpenFlags::empty()
        && flags & !DescriptorFlags::READ == DescriptorFlags::empty();
    let opened = if reads_only {
        state.filesystem().open_at(dir, follow, path, open, flags).await?
    } else {
        let opened = Touches::Opened { follows: follow.contains(PathFlags::SYMLINK_FOLLOW) };
        let location = Location::of(state, &dir, &path, opened)?;
        let opened = state
            .filesystem()
            .open_at(location.dir(), PathFlags::empty(), location.name(), open, flags)
            .await;
        location.close(state)?;
        opened?
    };
    let files = state.filesystem();
    if may_be_held(files.table.get(&opened)?) {
        return Ok(opened);
    }
    files.table.delete(opened)?;
    Err(ErrorCode::Access.into())
}

async fn stat_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
) -> FsResult<DescriptorStat> {
    let location = Location::of(state, &dir, &path, Touches::object(follow))?;
    let found =
        state.filesystem().stat_at(location.dir(), PathFlags::empty(), location.name()).await;
    location.close(state)?;
    found
}

async fn metadata_hash_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
) -> FsResult<MetadataHashValue> {
    let location = Location::of(state, &dir, &path, Touches::object(follow))?;
    let found = state
        .filesystem()
        .metadata_hash_at(location.dir(), PathFlags::empty(), location.name())
        .await;
    location.close(state)?;
    found
}

async fn set_times_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> FsResult<()> {
    let location = Location::of(state, &dir, &path, Touches::object(follow))?;
    let done = state
        .filesystem()
        .set_times_at(location.dir(), PathFlags::empty(), location.name(), accessed, modified)
        .await;
    location.close(state)?;
    done
}

async fn readlink_at(state: &mut State, dir: Handle, path: String) -> FsResult<String> {
    let location = Location::of(state, &dir, &path, Touches::ITSELF)?;
    let target = state.filesystem().readlink_at(location.dir(), location.name()).await;
    location.close(state)?;
    target
}

async fn create_directory_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let location = Location::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().create_directory_at(location.dir(), location.name()).await;
    location.close(state)?;
    done
}

async fn remove_directory_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let location = Location::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().remove_directory_at(location.dir(), location.name()).await;
    location.close(state)?;
    done
}

async fn unlink_file_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let location = Location::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().unlink_file_at(location.dir(), location.name()).await;
    location.close(state)?;
    done
}

async fn symlink_at(state: &mut State, dir: Handle, target: String, path: String) -> FsResult<()> {
    let location = Location::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().symlink_at(location.dir(), target, location.name()).await;
    location.close(state)?;
    done
}

async fn link_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
    new_dir: Handle,
    new_path: String,
) -> FsResult<()> {
    let old = Location::of(state, &dir, &path, Touches::ITSELF)?;
    let done = match Location::of(state, &new_dir, &new_path, Touches::Entry) {
        Ok(new) => {
            let mut files = state.filesystem();
            let done = files.link_at(old.dir(), follow, old.name(), new.dir(), new.name()).await;
            new.close(state)?;
            done
        }
        Err(error) => Err(error),
    };
    old.close(state)?;
    done
}

async fn rename_at(
    state: &mut State,
    dir: Handle,
    path: String,
    new_dir: Handle,
    new_path: String,
) -> FsResult<()> {
    let old = Location::of(state, &dir, &path, Touches::Entry)?;
    let done = match Location::of(state, &new_dir, &new_path, Touches::Entry) {
        Ok(new) => {
            let mut files = state.filesystem();
            let done = files.rename_at(old.dir(), old.name(), new.dir(), new.name()).await;
            new.close(state)?;
            done
        }
        Err(error) => Err(error),
    };
    old.close(state)?;
    done
}

/// The target of a call, at a location.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touches {
    /// The entry of the directory alone. The kernel refuses to remove or to replace a mount
    /// point.
    Entry,
    /// The file with the name, or the one that it leads to if links are followed.
    Object { follows: bool },
    /// Like `Object`, but the file is to be opened.
    Opened { follows: bool },
}

impl Touches {
    /// The file with the name itself, which may be a link.
    const ITSELF: Self = Self::Object { follows: false };

    fn object(flags: PathFlags) -> Self {
        Self::Object { follows: flags.contains(PathFlags::SYMLINK_FOLLOW) }
    }
}

/// An open directory and a name in it, for one call.
struct Location {
    /// The number of the handle in the guest's table.
    dir: u32,
    /// True if it is the guest's own handle, false if it was opened for this location.
    is_guests: bool,
    name: String,
}

impl Location {
    /// Follows `path` beneath `dir`.
    fn of(state: &mut State, dir: &Handle, path: &str, touches: Touches) -> FsResult<Self> {
        let files = state.filesystem();
        let start = match files.table.get(dir)? {
            Descriptor::Dir(start) => start.clone(),
            // wasmtime returns the right error.
            Descriptor::File(_) => return Ok(Self::at(dir, path)),
        };
        match follow(&start, path, touches)? {
            Found::Here(name) => Ok(Self::at(dir, &name)),
            Found::Beneath(parent, name) => {
                let parent = Dir::new(parent.into(), start.perms, OpenMode::READ, true);
                // This handle does not count as one of the guest's own, but the table has a
                // capacity.
                let made = files.table.push(Descriptor::Dir(parent));
                let made = made.map_err(|_| FsError::from(ErrorCode::InsufficientMemory))?;
                Ok(Self { dir: made.rep(), is_guests: false, name })
            }
        }
    }

    fn at(dir: &Handle, name: &str) -> Self {
        Self { dir: dir.rep(), is_guests: true, name: name.to_owned() }
    }

    fn dir(&self) -> Handle {
        Resource::new_borrow(self.dir)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Closes the directory, if it was opened for this location.
    fn close(self, state: &mut State) -> FsResult<()> {
        if !self.is_guests {
            state.filesystem().table.delete(Resource::<Descriptor>::new_own(self.dir))?;
        }
        Ok(())
    }
}

/// The end of a path.
enum Found {
    /// A name in the directory that it began in.
    Here(String),
    /// A name in another directory beneath it.
    Beneath(OwnedFd, String),
}

/// Follows a path to the parent directory of the file that it names. Fails if a guest may not
/// use that directory or, as far as the call touches it, that file.
fn follow(start: &Dir, path: &str, touches: Touches) -> FsResult<Found> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some((parent, name)) = split(&path) else {
            // Empty or absolute: wasmtime refuses it.
            return Ok(Found::Here(path));
        };
        let opened = match parent {
            None => None,
            Some(parent) => Some(open_beneath(start, parent)?),
        };
        let directory = opened.as_ref().map_or_else(|| start.dir.as_fd(), |own| own.as_fd());
        let name = match touches {
            Touches::Entry => name,
            Touches::Object { follows } | Touches::Opened { follows } => {
                let bare = name.trim_end_matches('/');
                // A slash after a name asks for the directory that it leads to.
                let is_directory = bare != name;
                match look(directory, bare, follows || is_directory)? {
                    Seen::Link(target) => {
                        path = redirected(parent, &target, is_directory);
                        continue;
                    }
                    Seen::Nothing if is_directory => return Err(ErrorCode::NoEntry.into()),
                    Seen::Other | Seen::Device if is_directory => {
                        return Err(ErrorCode::NotDirectory.into());
                    }
                    Seen::Device if matches!(touches, Touches::Opened { .. }) => {
                        return Err(ErrorCode::Access.into());
                    }
                    _ => bare,
                }
            }
        };
        let name = name.to_owned();
        return Ok(match opened {
            None => Found::Here(name),
            Some(own) => Found::Beneath(own, name),
        });
    }
    Err(ErrorCode::Loop.into())
}

/// Splits a path into its directory, if it has one, and its last name with the slashes after it.
/// A path that ends in `.` or `..` is all directory. Returns nothing if there is no name.
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

/// The kind of file with a name in a directory.
enum Seen {
    Nothing,
    Directory,
    /// A link that is to be followed, with its target.
    Link(String),
    Device,
    Other,
}

/// Finds out the kind of the file with a name, without opening it. Fails if a guest may not use
/// it.
fn look(dir: BorrowedFd<'_>, name: &str, follows: bool) -> FsResult<Seen> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(dir, name, flags, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(Seen::Nothing),
        Err(errno) => return Err(io::Error::from(errno).into()),
    };
    if !is_ordinary(found.as_fd()) {
        return Err(ErrorCode::Access.into());
    }
    match FileType::from_raw_mode(fstat(&found).map_err(io::Error::from)?.st_mode) {
        FileType::Directory => Ok(Seen::Directory),
        FileType::Symlink if follows => {
            // Of the link that is open, even if its name has been given to another file.
            let target = readlinkat(&found, "", Vec::new()).map_err(io::Error::from)?;
            let target = target.into_string().map_err(|_| ErrorCode::IllegalByteSequence)?;
            Ok(Seen::Link(target))
        }
        FileType::BlockDevice | FileType::CharacterDevice => Ok(Seen::Device),
        _ => Ok(Seen::Other),
    }
}

/// Returns whether a guest may keep a file or directory that was opened.
fn may_be_held(opened: &Descriptor) -> bool {
    is_allowed(match opened {
        Descriptor::File(file) => file.file.as_fd(),
        Descriptor::Dir(dir) => dir.dir.as_fd(),
    })
}

/// Returns whether an open file belongs to a file system of files and is no device; false if
/// that cannot be found out.
pub(super) fn is_allowed(open: BorrowedFd<'_>) -> bool {
    filesystems::is_device(open).is_ok_and(|device| !device) && is_ordinary(open)
}

/// Returns whether an open file belongs to a file system of files; false if that cannot be found
/// out.
pub(super) fn is_ordinary(open: BorrowedFd<'_>) -> bool {
    filesystems::is_ordinary(open).is_ok_and(|ordinary| ordinary)
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
