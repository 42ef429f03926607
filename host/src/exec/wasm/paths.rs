//! The calls of `wasi:filesystem/types` that take a path, in place of wasmtime's own.
//!
//! A path beneath a granted directory may lead into another file system: a root that is
//! being built has the host's own `/proc` and `/sys`, where a directory that is made or
//! removed is an order to the kernel, and to open a device is one already. So a path is
//! followed here, to the directory that holds what it names; that handle and what it holds
//! are judged ([`filesystems`]), and wasmtime does the work from there, with a single name
//! and without following a link. Nothing that happens to the path meanwhile leads elsewhere.

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

/// How many symbolic links are followed before the path counts as a loop: what
/// Linux itself follows.
const MAX_LINKS: u32 = 40;

type Handle = Resource<Descriptor>;

/// Puts the calls of this module in the place of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    // Each is a function of its own arguments and of the state of the guest.
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

/// What a guest gets of a result: its error, unless that is the host's own.
pub(super) fn answer<T>(result: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Puts a count before wasmtime's own: it would let a guest open files until the host has
/// no descriptors left, or trap it at the table's capacity.
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
    // To open an existing file to be read changes nothing: it is enough to judge what was
    // opened, which searches of many thousand files are spared a second look for.
    let reads_only = open & !OpenFlags::DIRECTORY == OpenFlags::empty()
        && flags & !DescriptorFlags::READ == DescriptorFlags::empty();
    let opened = if reads_only {
        state.filesystem().open_at(dir, follow, path, open, flags).await?
    } else {
        let opened = Touches::Opened { follows: follow.contains(PathFlags::SYMLINK_FOLLOW) };
        let place = Place::of(state, &dir, &path, opened)?;
        let opened = state
            .filesystem()
            .open_at(place.dir(), PathFlags::empty(), place.name(), open, flags)
            .await;
        place.leave(state)?;
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
    let place = Place::of(state, &dir, &path, Touches::object(follow))?;
    let found = state.filesystem().stat_at(place.dir(), PathFlags::empty(), place.name()).await;
    place.leave(state)?;
    found
}

async fn metadata_hash_at(
    state: &mut State,
    dir: Handle,
    follow: PathFlags,
    path: String,
) -> FsResult<MetadataHashValue> {
    let place = Place::of(state, &dir, &path, Touches::object(follow))?;
    let found =
        state.filesystem().metadata_hash_at(place.dir(), PathFlags::empty(), place.name()).await;
    place.leave(state)?;
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
    let place = Place::of(state, &dir, &path, Touches::object(follow))?;
    let done = state
        .filesystem()
        .set_times_at(place.dir(), PathFlags::empty(), place.name(), accessed, modified)
        .await;
    place.leave(state)?;
    done
}

async fn readlink_at(state: &mut State, dir: Handle, path: String) -> FsResult<String> {
    let place = Place::of(state, &dir, &path, Touches::ITSELF)?;
    let target = state.filesystem().readlink_at(place.dir(), place.name()).await;
    place.leave(state)?;
    target
}

async fn create_directory_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let place = Place::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().create_directory_at(place.dir(), place.name()).await;
    place.leave(state)?;
    done
}

async fn remove_directory_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let place = Place::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().remove_directory_at(place.dir(), place.name()).await;
    place.leave(state)?;
    done
}

async fn unlink_file_at(state: &mut State, dir: Handle, path: String) -> FsResult<()> {
    let place = Place::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().unlink_file_at(place.dir(), place.name()).await;
    place.leave(state)?;
    done
}

async fn symlink_at(state: &mut State, dir: Handle, target: String, path: String) -> FsResult<()> {
    let place = Place::of(state, &dir, &path, Touches::Entry)?;
    let done = state.filesystem().symlink_at(place.dir(), target, place.name()).await;
    place.leave(state)?;
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
    let old = Place::of(state, &dir, &path, Touches::ITSELF)?;
    let done = match Place::of(state, &new_dir, &new_path, Touches::Entry) {
        Ok(new) => {
            let mut files = state.filesystem();
            let done = files.link_at(old.dir(), follow, old.name(), new.dir(), new.name()).await;
            new.leave(state)?;
            done
        }
        Err(error) => Err(error),
    };
    old.leave(state)?;
    done
}

async fn rename_at(
    state: &mut State,
    dir: Handle,
    path: String,
    new_dir: Handle,
    new_path: String,
) -> FsResult<()> {
    let old = Place::of(state, &dir, &path, Touches::Entry)?;
    let done = match Place::of(state, &new_dir, &new_path, Touches::Entry) {
        Ok(new) => {
            let mut files = state.filesystem();
            let done = files.rename_at(old.dir(), old.name(), new.dir(), new.name()).await;
            new.leave(state)?;
            done
        }
        Err(error) => Err(error),
    };
    old.leave(state)?;
    done
}

/// What a call does something to, of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touches {
    /// The entry of the directory alone. The kernel refuses to remove or to rename over
    /// what another file system is mounted at.
    Entry,
    /// What the name stands for, or leads to if it is to be followed.
    Object { follows: bool },
    /// The same, to be opened.
    Opened { follows: bool },
}

impl Touches {
    /// What the name itself stands for, be it a link.
    const ITSELF: Self = Self::Object { follows: false };

    fn object(flags: PathFlags) -> Self {
        Self::Object { follows: flags.contains(PathFlags::SYMLINK_FOLLOW) }
    }
}

/// A directory that is held, and a name in it, for one call.
struct Place {
    /// The number of the handle in the guest's table.
    dir: u32,
    /// Whether that is the guest's own handle, or one that this place has made.
    is_guests: bool,
    name: String,
}

impl Place {
    /// Follows `path` beneath `dir`.
    fn of(state: &mut State, dir: &Handle, path: &str, touches: Touches) -> FsResult<Self> {
        let files = state.filesystem();
        let start = match files.table.get(dir)? {
            Descriptor::Dir(start) => start.clone(),
            // wasmtime has the right error for it.
            Descriptor::File(_) => return Ok(Self::at(dir, path)),
        };
        match follow(&start, path, touches)? {
            Found::Here(name) => Ok(Self::at(dir, &name)),
            Found::Beneath(parent, name) => {
                let parent = Dir::new(parent.into(), start.perms, OpenMode::READ, true);
                // The room that a guest's own handles have is not for this one, but the
                // table has an end.
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

    /// Lets go of the directory, if it was opened for this place.
    fn leave(self, state: &mut State) -> FsResult<()> {
        if !self.is_guests {
            state.filesystem().table.delete(Resource::<Descriptor>::new_own(self.dir))?;
        }
        Ok(())
    }
}

/// Where a path led.
enum Found {
    /// To a name in the directory that it began in.
    Here(String),
    /// To a name in a directory further down.
    Beneath(OwnedFd, String),
}

/// Follows a path to the directory that holds what it names, and fails where that or, as
/// far as the call reaches it, what it holds is none of a guest's business.
fn follow(start: &Dir, path: &str, touches: Touches) -> FsResult<Found> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some((parent, name)) = split(&path) else {
            // Nothing, or from the root: wasmtime refuses it.
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
                // A slash behind a name asks for the directory that it leads to.
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

/// The directory of a path, if it names one, and the last name with what slashes follow
/// it. A path that ends in `.` or `..` is all directory. None where there is no name.
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

/// The path that a link stands for, which lies in `parent`.
fn redirected(parent: Option<&str>, target: &str, is_directory: bool) -> String {
    let slash = if is_directory { "/" } else { "" };
    match parent {
        Some(parent) if !target.starts_with('/') => format!("{parent}/{target}{slash}"),
        _ => format!("{target}{slash}"),
    }
}

/// What a name in a directory stands for.
enum Seen {
    Nothing,
    Directory,
    /// A link that is to be followed, and where it leads.
    Link(String),
    Device,
    Other,
}

/// Looks at what a name stands for, without opening it, and fails where that is none of a
/// guest's business.
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
            // Of the link that is held, whatever has its name by now.
            let target = readlinkat(&found, "", Vec::new()).map_err(io::Error::from)?;
            let target = target.into_string().map_err(|_| ErrorCode::IllegalByteSequence)?;
            Ok(Seen::Link(target))
        }
        FileType::BlockDevice | FileType::CharacterDevice => Ok(Seen::Device),
        _ => Ok(Seen::Other),
    }
}

/// Returns whether a guest may hold what was opened.
fn may_be_held(opened: &Descriptor) -> bool {
    is_allowed(match opened {
        Descriptor::File(file) => file.file.as_fd(),
        Descriptor::Dir(dir) => dir.dir.as_fd(),
    })
}

/// Returns whether what is open belongs to a file system of files, and is no device. Not
/// where that cannot be told.
pub(super) fn is_allowed(open: BorrowedFd<'_>) -> bool {
    filesystems::is_device(open).is_ok_and(|device| !device) && is_ordinary(open)
}

/// Returns whether what is open belongs to a file system of files. Not where that cannot
/// be told.
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
