//! The granted directories and files of a guest, as handles.
//!
//! A grant names them by paths that were resolved when it was read. Links are not followed here. A
//! tool that may write next to a granted directory could have replaced it by a link, and so could
//! redirect the grant.
//!
//! WASI has handles on directories only. A granted file is preopened as its directory, in which
//! [`places`](super::places) knows the names that may be used.

use std::fs::{File, canonicalize};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ikigai_protocol::{Access, GrantedDir};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, OpenMode, WasiFilesystemView as _};

use super::ordinary::is_ordinary;
use super::places::{GuestPlace, GuestPlaces};
use super::state::GuestState;
use crate::paths::open_without_links;

/// Links the preopens of this module instead of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    add_version_to_linker(linker, "wasi:filesystem/preopens@0.2.12")?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the preopens as this version of their interface. The linker allows shadowing.
pub(super) fn add_version_to_linker(
    linker: &mut Linker<GuestState>,
    interface: &str,
) -> wasmtime::Result<()> {
    linker
        .instance(interface)?
        .func_wrap("get-directories", |mut store, (): ()| Ok((get_directories(store.data_mut())?,)))
}

pub(super) fn get_directories(
    state: &mut GuestState,
) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
    let preopens =
        state.places.preopens().map(|(name, dir, origin)| (name.to_owned(), dir.clone(), origin));
    let preopens: Vec<_> = preopens.collect();
    let mut handles = Vec::with_capacity(preopens.len());
    for (name, dir, origin) in preopens {
        let handle = state.filesystem().table.push(Descriptor::Dir(dir))?;
        state.places.note(handle.rep(), origin);
        handles.push((handle, name));
    }
    Ok(handles)
}

/// A directory that is to be preopened.
struct PlannedPreopen {
    path: PathBuf,
    /// The directory, if it was opened to see that it is one.
    open: Option<OwnedFd>,
    /// The granted directory that it is or lies in.
    root: PathBuf,
    /// The access to everything in it; nothing if only files are granted.
    base: Option<Access>,
    files: Vec<(String, Access)>,
}

/// Opens the granted directories and files, and the workspace if it lies in a granted directory: a
/// component then finds it under its own name, and relative paths mean it. With `witness` it also
/// gets an empty directory as `/`.
///
/// # Errors
///
/// Fails if one of them cannot or must not be opened. The text says what to do.
pub(super) fn open_all(
    granted: &[GrantedDir],
    workspace: &Path,
    witness: bool,
) -> Result<GuestPlaces, String> {
    let mut places = GuestPlaces::default();
    for wanted in wanted(granted, workspace)? {
        preopen(&mut places, wanted, workspace)?;
    }
    if witness
        && !places.has_preopen("/")
        && let Some(empty) = empty()
    {
        places.add_witness(Dir::new(empty, FsPerms::ReadOnly, OpenMode::empty(), true));
    }
    Ok(places)
}

fn wanted(granted: &[GrantedDir], workspace: &Path) -> Result<Vec<PlannedPreopen>, String> {
    let (mut dirs, mut opened, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for one in granted {
        let name = name(&one.path)?;
        let open = open_following_nothing(&one.path).map_err(|error| explain(name, &error))?;
        match open {
            (open, FileType::Directory) => {
                dirs.push(one);
                opened.push(open);
            }
            (_, FileType::RegularFile) => files.push(one),
            _ => return Err(explain(name, &Errno::NOTDIR.into())),
        }
    }
    let holder = |path: &Path| {
        let holding = dirs.iter().filter(|dir| path.starts_with(&dir.path));
        holding.max_by_key(|dir| dir.path.as_os_str().len()).copied()
    };
    let whole = |dir: &GrantedDir, path: &Path, open| PlannedPreopen {
        path: path.to_owned(),
        open,
        root: dir.path.clone(),
        base: Some(dir.access),
        files: Vec::new(),
    };
    let granted = dirs.iter().zip(opened);
    let mut all: Vec<PlannedPreopen> =
        granted.map(|(dir, open)| whole(dir, &dir.path, Some(open))).collect();
    if let Some(around) = holder(workspace).filter(|around| *around.path != *workspace) {
        all.push(whole(around, workspace, None));
    }
    for file in files {
        let holder = holder(&file.path);
        if holder.is_some_and(|dir| dir.access >= file.access) {
            continue;
        }
        let (Some(parent), name) = (file.path.parent(), name(&file.path)?) else { continue };
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        let index = all.iter().position(|it| it.path == parent).unwrap_or_else(|| {
            let root = holder.map_or(parent, |dir| &dir.path).to_owned();
            let base = holder.map(|dir| dir.access);
            let path = parent.to_owned();
            all.push(PlannedPreopen { path, open: None, root, base, files: Vec::new() });
            all.len() - 1
        });
        all[index].files.push((name, file.access));
    }
    Ok(all)
}

/// Preopens a directory under its own path and, if it lies in the workspace, under its path from
/// there.
fn preopen(
    places: &mut GuestPlaces,
    wanted: PlannedPreopen,
    workspace: &Path,
) -> Result<(), String> {
    let name = name(&wanted.path)?;
    let open = match wanted.open {
        Some(open) => open,
        None => match open_following_nothing(&wanted.path) {
            Ok((open, FileType::Directory)) => open,
            Ok(_) => return Err(explain(name, &Errno::NOTDIR.into())),
            Err(error) => return Err(explain(name, &error)),
        },
    };
    if !is_ordinary(open.as_fd()) {
        return Err(format!(
            "the granted directory `{name}` lies in a file system of the kernel's own, in which \
             files are orders to it, or in one that another user serves; take it out of the grant"
        ));
    }
    let perms = match wanted.base {
        Some(Access::ReadWrite) => FsPerms::ReadWrite,
        Some(Access::ReadOnly) | None => FsPerms::ReadOnly,
    };
    // A guest asks a directory whether it may write there before it tries to write a file.
    let writes = wanted.base == Some(Access::ReadWrite)
        || wanted.files.iter().any(|(_, access)| *access == Access::ReadWrite);
    let mode = if writes { OpenMode::READ | OpenMode::WRITE } else { OpenMode::READ };
    let dir = Dir::new(File::from(open), perms, mode, true);
    let mut place = GuestPlace::new(wanted.root, wanted.base);
    for (name, access) in wanted.files {
        place.add_file(name, access);
    }
    let place = places.add(place);
    // The C library of components looks a relative path up among relative names only.
    let relative = wanted.path.strip_prefix(workspace).ok();
    let relative = relative.map(|path| path.to_str().filter(|it| !it.is_empty()).unwrap_or("."));
    places.preopen(name, dir.clone(), place);
    if let Some(relative) = relative {
        places.preopen(relative, dir, place);
    }
    Ok(())
}

fn name(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("the directory `{}` has no name in UTF-8", path.display()))
}

/// Returns an empty directory in which nothing can be made, because it was removed. Returns nothing
/// if the system gives none.
fn empty() -> Option<File> {
    static EMPTY: OnceLock<Option<File>> = OnceLock::new();
    let make = || {
        let made = tempfile::tempdir().ok()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = openat(CWD, made.path(), flags, Mode::empty()).ok()?;
        made.close().ok()?;
        Some(File::from(open))
    };
    EMPTY.get_or_init(make).as_ref()?.try_clone().ok()
}

/// Opens a file or a directory without following links, and without a right to its contents.
/// Returns its type as well.
fn open_following_nothing(path: &Path) -> io::Result<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = match open_without_links(path, flags)? {
        Some(open) => open,
        // A link can still be put there between this check and the opening.
        None if canonicalize(path)? != path => return Err(Errno::LOOP.into()),
        None => openat(CWD, path, flags, Mode::empty())?,
    };
    match FileType::from_raw_mode(fstat(&open)?.st_mode) {
        // A link at the end is not followed, but opened itself.
        FileType::Symlink => Err(Errno::LOOP.into()),
        kind => Ok((open, kind)),
    }
}

fn explain(name: &str, error: &io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "does not exist; create it, or take it out of the grant".to_owned(),
        Some(Errno::NOTDIR) => {
            "is neither a directory nor a regular file; grant one of these".to_owned()
        }
        Some(Errno::LOOP) => {
            "is or lies behind a symbolic link, which is not followed; grant what it \
             leads to"
                .to_owned()
        }
        _ => format!("cannot be opened: {error}"),
    };
    format!("the granted path `{name}` {why}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Preopens `path`.
    fn preopen(path: &Path) -> Result<(), String> {
        let dir = GrantedDir { access: Access::ReadOnly, path: path.to_owned() };
        open_all(&[dir], Path::new("/nowhere"), false).map(drop)
    }

    #[test]
    fn a_granted_directory_that_cannot_be_opened_is_an_error_with_the_reason() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = canonicalize(scratch.path()).expect("a path");
        let inner = root.join("granted/inner");
        fs::create_dir_all(&inner).expect("made");
        fs::write(root.join("file"), "").expect("written");
        assert_eq!(preopen(&inner), Ok(()));

        // The granted directory is moved away, and replaced by a link out.
        fs::rename(root.join("granted"), root.join("moved")).expect("moved");
        let missing = preopen(&inner).expect_err("not there");
        assert!(missing.contains(&format!("`{}` does not exist", inner.display())), "{missing}");
        symlink("/etc", root.join("granted")).expect("linked");
        fs::create_dir(root.join("inner")).expect("made");
        symlink("/etc", root.join("inner/link")).expect("linked");
        for path in ["granted", "granted/apt", "inner/link", "inner/../granted"] {
            let link = preopen(&root.join(path)).expect_err("a link");
            assert!(link.contains("behind a symbolic link"), "{path}: {link}");
        }
        symlink("file", root.join("named")).expect("linked");
        assert!(preopen(&root.join("named")).is_err_and(|it| it.contains("symbolic link")));
        let socket = std::os::unix::net::UnixListener::bind(root.join("socket")).expect("bound");
        let refused = preopen(&root.join("socket")).expect_err("a socket");
        assert!(refused.contains("neither a directory nor a regular file"), "{refused}");
        drop(socket);
        // The system's own links are links as well.
        assert!(preopen(Path::new("/proc/self/root")).is_err());
        assert!(preopen(Path::new("/proc/self/cwd")).is_err());
    }

    /// Returns the names under which these are preopened, with the flags that a guest sees.
    fn preopened(granted: &[(Access, &Path)], workspace: &Path) -> Vec<(String, bool)> {
        let granted: Vec<_> = granted
            .iter()
            .map(|(access, path)| GrantedDir { access: *access, path: path.to_path_buf() })
            .collect();
        let places = open_all(&granted, workspace, false).expect("opened");
        let names = places
            .preopens()
            .map(|(name, dir, _)| (name.to_owned(), dir.open_mode.contains(OpenMode::WRITE)));
        names.collect()
    }

    #[test]
    fn a_granted_file_is_preopened_as_its_directory() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = canonicalize(scratch.path()).expect("a path");
        fs::create_dir_all(root.join("work/sub")).expect("made");
        fs::write(root.join("work/sub/file"), "").expect("written");
        fs::write(root.join("work/other"), "").expect("written");
        let (work, file) = (root.join("work"), root.join("work/sub/file"));
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
        let sub = text(&work.join("sub"));
        assert_eq!(preopened(&[(ro, &file)], &work), [(sub.clone(), false), ("sub".into(), false)]);
        // With more access than the directory around it, and with as much.
        let widened = preopened(&[(ro, &work), (rw, &file)], &work);
        let whole = [(text(&work), false), (".".into(), false)];
        assert_eq!(widened[..2], whole);
        assert_eq!(widened[2..], [(sub, true), ("sub".into(), true)]);
        assert_eq!(preopened(&[(ro, &work), (ro, &file)], &work), whole);
        // Two files of one directory are one preopen.
        let both = [(ro, &*work.join("other")), (rw, &*work.join("sub/file"))];
        assert_eq!(preopened(&both, Path::new("/nowhere")).len(), 2);
    }

    #[test]
    fn the_witness_is_empty_and_stays_so() {
        let places = open_all(&[], Path::new("/nowhere"), true).expect("opened");
        let [("/", dir, _)] = places.preopens().collect::<Vec<_>>()[..] else {
            panic!("no witness")
        };
        let made = openat(&dir.dir, "new", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
        assert_eq!(made.err(), Some(Errno::NOENT));
        let up = openat(&dir.dir, "etc", OFlags::PATH, Mode::empty());
        assert_eq!(up.err(), Some(Errno::NOENT));
    }
}
