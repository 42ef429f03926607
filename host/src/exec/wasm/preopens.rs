//! The granted directories of a guest, as handles.
//!
//! A grant names directories by paths that were resolved when it was read. Links are not
//! followed here: a tool that may write beside a granted directory could have replaced it by
//! one, and the grant would lead wherever that tool likes.

use std::fs::{File, canonicalize};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, GrantedDir};
use rustix::io::Errno;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::paths;

/// Preopens the granted directories, and the workspace if it lies in one of them: a component
/// then finds it under its own name, and relative paths mean it.
///
/// # Errors
///
/// A directory cannot be opened, or must not be; the text says what to do.
pub(super) fn add_all(
    wasi: &mut WasiCtxBuilder,
    dirs: &[GrantedDir],
    workspace: &Path,
) -> Result<(), String> {
    for dir in dirs {
        add(wasi, dir, workspace)?;
    }
    let around = dirs.iter().filter(|dir| workspace.starts_with(&dir.path));
    match around.max_by_key(|dir| dir.path.as_os_str().len()) {
        Some(dir) if *dir.path != *workspace => {
            let dir = GrantedDir { access: dir.access, path: workspace.to_owned() };
            add(wasi, &dir, workspace)
        }
        _ => Ok(()),
    }
}

/// Preopens a directory under its own path and, if it lies in the workspace, under its path from
/// there.
fn add(wasi: &mut WasiCtxBuilder, dir: &GrantedDir, workspace: &Path) -> Result<(), String> {
    let perms = match dir.access {
        Access::ReadOnly => FsPerms::ReadOnly,
        Access::ReadWrite => FsPerms::ReadWrite,
    };
    let name = dir
        .path
        .to_str()
        .ok_or_else(|| format!("the directory `{}` has no name in UTF-8", dir.path.display()))?;
    let handle = Handle::open(&dir.path).map_err(|error| explain(name, &error))?;
    if !paths::is_ordinary(handle.open.as_fd()) {
        return Err(format!(
            "the granted directory `{name}` lies in a file system of the kernel's own, in which \
             files are orders to it, or in one that another user serves; take it out of the grant"
        ));
    }
    let failed =
        |error: wasmtime::Error| format!("cannot open the granted directory `{name}`: {error:#}");
    wasi.preopened_dir(handle.path(), name, perms).map_err(failed)?;
    // The C library of components looks a relative path up among relative names only.
    if let Ok(beneath) = dir.path.strip_prefix(workspace) {
        let relative = beneath.to_str().filter(|path| !path.is_empty()).unwrap_or(".");
        wasi.preopened_dir(handle.path(), relative, perms).map_err(failed)?;
    }
    Ok(())
}

/// A directory that was opened without following a link.
struct Handle {
    /// The directory, which `path` may lead to by its number.
    open: OwnedFd,
    /// A path to it for wasmtime, which takes paths only.
    path: PathBuf,
}

impl Handle {
    fn open(path: &Path) -> io::Result<Self> {
        if let Some(open) = open_following_nothing(path)? {
            let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
            return Ok(Self { open, path });
        }
        // Between this check and the opening a link can still be put there.
        if canonicalize(path)? != path {
            return Err(Errno::LOOP.into());
        }
        Ok(Self { open: File::open(path)?.into(), path: path.to_owned() })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a directory without following links. Returns nothing where the kernel cannot: before
/// Linux 5.6, or in a container that refuses the call.
#[cfg(target_os = "linux")]
fn open_following_nothing(path: &Path) -> io::Result<Option<OwnedFd>> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(open) => Ok(Some(open)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_following_nothing(_: &Path) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

fn explain(name: &str, error: &io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "does not exist; create it, or take it out of the grant".to_owned(),
        Some(Errno::NOTDIR) => "is no directory; grant the directory that it lies in".to_owned(),
        Some(Errno::LOOP) => {
            "is or lies behind a symbolic link, which is not followed; grant the directory that \
             it leads to"
                .to_owned()
        }
        _ => format!("cannot be opened: {error}"),
    };
    format!("the granted directory `{name}` {why}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Preopens `path`.
    fn preopen(path: &Path) -> Result<(), String> {
        let dir = GrantedDir { access: Access::ReadOnly, path: path.to_owned() };
        add_all(&mut WasiCtxBuilder::new(), &[dir], Path::new("/nowhere"))
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
        let file = preopen(&root.join("file")).expect_err("a file");
        assert!(file.contains("is no directory"), "{file}");
        // The system's own links are links as well.
        assert!(preopen(Path::new("/proc/self/root")).is_err());
        assert!(preopen(Path::new("/proc/self/cwd")).is_err());
    }
}
