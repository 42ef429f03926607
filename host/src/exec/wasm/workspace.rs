//! `ikigai:tool/workspace`: replaces a file on behalf of a guest, inside a directory that the
//! guest has open.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{
    Dir, File, MetadataExt as _, OpenOptions, OpenOptionsExt as _, Permissions, PermissionsExt as _,
};
use ikigai_protocol::Access;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, linkat, openat};
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::filesystem::{Descriptor, Dir as GuestDir};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, PathFlags};

use super::guarded_writes::{self, has_left};
use super::held::{self, RefusedCall};
use super::hidden::path_of;
use super::ordinary::is_ordinary;
use super::paths::location::{Location, Touches};
use super::places::{self, Handle, HandleOrigin};
use super::state::GuestState;

mod bindings {
    wasmtime::component::bindgen!({
        path: "wit",
        inline: "
            package ikigai:host;
            world imports {
                import ikigai:tool/workspace@0.1.0;
            }
        ",
        world: "ikigai:host/imports",
        with: { "wasi": wasmtime_wasi::p2::bindings },
        imports: { default: async | trappable },
        require_store_data_send: true,
    });
}

/// The largest replacement, in bytes. The documentation in `wit/tool.wit` states it.
pub(super) const MAX_CONTENTS: usize = 256 << 20;

/// The number of temporary names that are tried: some may be left from a host that died.
const NAME_ATTEMPTS: u32 = 64;

/// The bits of a file's mode that its replacement gets. Setuid and setgid are not among them:
/// they were meant for the old contents.
const KEPT_MODE: u32 = 0o1777;

/// The number of the next temporary name of this process.
static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    bindings::ikigai::tool::workspace::add_to_linker::<GuestState, HasSelf<GuestState>>(
        linker,
        |state| state,
    )
}

impl bindings::ikigai::tool::workspace::Host for GuestState {
    async fn replace(
        &mut self,
        dir: Resource<Descriptor>,
        path: String,
        contents: Vec<u8>,
    ) -> wasmtime::Result<Result<(), ErrorCode>> {
        let Descriptor::Dir(start) = self.ctx().table.get(&dir)? else {
            return Ok(Err(ErrorCode::NotDirectory));
        };
        let start = start.clone();
        let Some(origin) = self.places.origin(&dir) else {
            return Ok(Err(ErrorCode::NotPermitted));
        };
        let done = match places::single(self.places.files(origin), &path) {
            Some(file) => replace_single(self, &start, origin, file, &contents),
            None => match replace_granted(self, &dir, origin, &path, &contents) {
                Ok(()) => Ok(()),
                Err(error) => Err(error.downcast()?),
            },
        };
        match done {
            Err(code @ (ErrorCode::NotPermitted | ErrorCode::Access)) if self.held.is_some() => {
                let error = ErrorCode::NotPermitted.into();
                let refused = RefusedCall {
                    dir: &dir,
                    path: &path,
                    follow: PathFlags::SYMLINK_FOLLOW,
                    error,
                };
                Ok(match held::writable(self, refused).await {
                    Ok(file) => rewrite(file, &contents).map_err(|error| error_code(&error)),
                    Err(error) => match error.downcast()? {
                        ErrorCode::NotPermitted => Err(code),
                        other => Err(other),
                    },
                })
            }
            done => Ok(done),
        }
    }
}

/// Rewrites a granted file in place: a new file in its directory is not granted.
fn replace_single(
    state: &mut GuestState,
    start: &GuestDir,
    origin: HandleOrigin,
    file: usize,
    contents: &[u8],
) -> Result<(), ErrorCode> {
    let granted = state.places.files(origin).get(file).ok_or(ErrorCode::NotPermitted)?;
    if granted.access != Access::ReadWrite {
        return Err(ErrorCode::Access);
    }
    let write = || -> io::Result<()> {
        let dir = Dir::from_std_file(start.dir.try_clone()?);
        let file = open_writable(&dir, granted.name.as_ref())?;
        check_hidden(state, origin, &file)?;
        rewrite(file.into_std(), contents)
    };
    let done = write().map_err(|error| error_code(&error));
    if done.is_ok() {
        state.note_use(origin, Some(file));
    }
    done
}

fn replace_granted(
    state: &mut GuestState,
    dir: &Handle,
    origin: HandleOrigin,
    path: &str,
    contents: &[u8],
) -> FsResult<()> {
    // The witness, and a directory in which only files are granted, contain nothing else for the
    // guest.
    if state.places.place(origin).is_none_or(|place| place.base.is_none()) {
        return Err(ErrorCode::NotPermitted.into());
    }
    if let Descriptor::Dir(start) = state.ctx().table.get(dir)?
        && start.perms.write_not_permitted()
    {
        return Err(ErrorCode::Access.into());
    }
    if guarded_writes::place_on_the_way(state, dir, path)?.is_some() {
        return Err(ErrorCode::Access.into());
    }
    let location = Location::resolve(state, dir, path, Touches::Object { follows: true })?;
    let done = replace_at(state, origin, &location, contents);
    location.finish(state, done)
}

/// Replaces the contents of the file at the end of a path.
fn replace_at(
    state: &mut GuestState,
    origin: HandleOrigin,
    location: &Location,
    contents: &[u8],
) -> FsResult<()> {
    let name = location.name();
    // Empty, or absolute.
    if name.is_empty() || name.contains('/') {
        return Err(ErrorCode::NotPermitted.into());
    }
    let parent = match state.ctx().table.get(&location.dir())? {
        Descriptor::Dir(parent) => Dir::from_std_file(parent.dir.try_clone()?),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    check_guarded(state, origin, &parent, name.as_ref()).map_err(|error| error_code(&error))?;
    let replaced =
        replace(&parent, name.as_ref(), contents, &|old| check_hidden(state, origin, old));
    Ok(replaced.map_err(|error| error_code(&error))?)
}

/// Fails if a name in a directory belongs to a place that other programs execute, or lies in one.
fn check_guarded(
    state: &GuestState,
    origin: HandleOrigin,
    dir: &Dir,
    name: &OsStr,
) -> io::Result<()> {
    // A name that is not text never belongs to such a place.
    let Some(name) = name.to_str() else { return Ok(()) };
    let path = path_of(dir.as_fd(), name)?;
    let is_closed = has_left(state, Some(origin), &path) || state.guard.is_of_a_rebase(&path);
    match state.guard.place(dir.as_fd(), name)? {
        None if !is_closed => Ok(()),
        _ => Err(rustix::io::Errno::ACCESS.into()),
    }
}

/// Fails if a file is hidden from the guest.
fn check_hidden(state: &GuestState, origin: HandleOrigin, file: &File) -> io::Result<()> {
    let place = state.places.place(origin);
    match (&state.hidden, place) {
        (Some(hidden), Some(place)) if hidden.check_open(&place.root, file.as_fd()).is_err() => {
            Err(rustix::io::Errno::ACCESS.into())
        }
        _ => Ok(()),
    }
}

/// A check of an open file.
type CheckFile<'a> = &'a dyn Fn(&File) -> io::Result<()>;

/// Replaces the contents of a file in a directory, if the check allows it.
fn replace(parent: &Dir, name: &Path, contents: &[u8], check: CheckFile<'_>) -> io::Result<()> {
    let old = open_writable(parent, name)?;
    check(&old)?;
    let metadata = old.metadata()?;
    let mut temporary = Temporary::beside(parent)?;
    temporary.file.write_all(contents)?;
    if !temporary.take_owner(&metadata)? {
        drop(temporary);
        return rewrite(old.into_std(), contents);
    }
    temporary.file.set_permissions(Permissions::from_mode(metadata.mode() & KEPT_MODE))?;
    temporary.file.sync_all()?;
    temporary.rename_to(name)?;
    // The name is durable once its directory is. fsync may refuse a handle that was opened for
    // listing, so the directory is opened anew.
    parent.open(".")?.sync_all()
}

/// Opens the file to be replaced, which checks that it may be written: a writable directory must
/// not be enough. Never waits, as opening a FIFO would, and opens regular files only: opening a
/// device is an order to it.
fn open_writable(parent: &Dir, name: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(parent, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = OpenOptions::new();
    options.write(true).follow(FollowSymlinks::No);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = parent.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if !is_ordinary(file.as_fd()) {
        return Err(rustix::io::Errno::ACCESS.into());
    }
    Ok(file)
}

/// Rewrites a file in place, for the case that a new file cannot have its owner, or is not granted.
fn rewrite(mut file: std::fs::File, contents: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// A temporary file, which is removed unless it is renamed.
struct Temporary<'a> {
    parent: &'a Dir,
    name: Option<PathBuf>,
    file: File,
}

impl<'a> Temporary<'a> {
    /// Makes an empty file: without a name, if the file system can do that.
    fn beside(parent: &'a Dir) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = openat(
            parent,
            ".",
            OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        ) {
            return Ok(Self { parent, name: None, file: File::from_std(fd.into()) });
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let (name, file) = named(|name| parent.open_with(name, &options))?;
        Ok(Self { parent, name: Some(name), file })
    }

    /// Gives the file the owner of the old one. Returns whether that was possible.
    fn take_owner(&self, old: &cap_std::fs::Metadata) -> io::Result<bool> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) == (old.uid(), old.gid()) {
            return Ok(true);
        }
        let owner = rustix::fs::Uid::from_raw(old.uid());
        let group = rustix::fs::Gid::from_raw(old.gid());
        Ok(rustix::fs::fchown(&self.file, Some(owner), Some(group)).is_ok())
    }

    fn rename_to(mut self, name: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.name.is_none() {
            // A file without a name cannot replace another.
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link =
                |name: &Path| Ok(linkat(CWD, &own, self.parent, name, AtFlags::SYMLINK_FOLLOW)?);
            self.name = Some(named(link)?.0);
        }
        if let Some(own) = &self.name {
            self.parent.rename(own, self.parent, name)?;
            self.name = None;
        }
        Ok(())
    }
}

/// Tries to make something with a free name, and returns the name.
fn named<T>(mut make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    for _ in 0..NAME_ATTEMPTS {
        // Several guests may replace files of one directory at the same time.
        let number = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
        let name = PathBuf::from(format!(".ikigai-{}-{number}", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name
            && let Err(error) = self.parent.remove_file(name)
        {
            tracing::warn!("cannot remove the temporary file `{}`: {error}", name.display());
        }
    }
}

fn error_code(error: &io::Error) -> ErrorCode {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => ErrorCode::NoEntry,
        Some(Errno::ACCESS) => ErrorCode::Access,
        // cap-std reports a path that leads outside as EPERM or EXDEV.
        Some(Errno::PERM | Errno::XDEV) => ErrorCode::NotPermitted,
        Some(Errno::ROFS) => ErrorCode::ReadOnly,
        Some(Errno::NOSPC) => ErrorCode::InsufficientSpace,
        Some(Errno::DQUOT) => ErrorCode::Quota,
        Some(Errno::LOOP) => ErrorCode::Loop,
        Some(Errno::NOTDIR) => ErrorCode::NotDirectory,
        Some(Errno::NAMETOOLONG) => ErrorCode::NameTooLong,
        // The file is a directory, a FIFO without a reader or a device.
        Some(Errno::ISDIR | Errno::NXIO | Errno::INVAL) => ErrorCode::Invalid,
        Some(_) => ErrorCode::Io,
        None => match error.kind() {
            io::ErrorKind::PermissionDenied => ErrorCode::NotPermitted,
            io::ErrorKind::InvalidInput => ErrorCode::Invalid,
            _ => ErrorCode::Io,
        },
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn new_contents_have_no_name_before_they_are_whole() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path();
        let names = || {
            let entries = std::fs::read_dir(dir).expect("listed").flatten();
            entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
        };
        std::fs::write(dir.join("file"), "old").expect("written");
        let parent = Dir::from_std_file(std::fs::File::open(dir).expect("opened"));
        let mut temporary = Temporary::beside(&parent).expect("made");
        temporary.file.write_all(b"new").expect("written");
        assert_eq!(names(), ["file"]);
        temporary.rename_to(Path::new("file")).expect("renamed");
        assert_eq!(names(), ["file"]);
        assert_eq!(std::fs::read(dir.join("file")).expect("read"), b"new");
    }
}
