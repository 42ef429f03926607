//! Places files: whole or not at all, and only if they differ. This module knows nothing about the
//! contents of the files.

use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process;

use anyhow::Context as _;

/// The mode of programs and directories.
pub(crate) const PROGRAM: u32 = 0o755;
/// The mode of all other files.
pub(crate) const DATA: u32 = 0o644;

/// The result of [`file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyResult {
    /// The file is new, or was replaced.
    Written,
    /// The same bytes were there already.
    Unchanged,
}

/// Makes `destination` a copy of `source` with `mode`.
///
/// It uses a temporary file and a rename: a running program cannot be written to (ETXTBSY), and a
/// reader of the name sees the old file or the new one.
pub(crate) fn file(source: &Path, destination: &Path, mode: u32) -> anyhow::Result<CopyResult> {
    if same(source, destination, mode)
        .with_context(|| format!("cannot compare `{}`", source.display()))?
    {
        return Ok(CopyResult::Unchanged);
    }
    replace(source, destination, mode)
        .with_context(|| format!("cannot write `{}`", destination.display()))?;
    Ok(CopyResult::Written)
}

/// Copies the files below `from` to `to`. Returns `true` if any of them changed; other files in
/// `to` stay.
pub(crate) fn tree(from: &Path, to: &Path) -> anyhow::Result<bool> {
    directory(to)?;
    let list = || format!("cannot list `{}`", from.display());
    let mut changed = false;
    for entry in fs::read_dir(from).with_context(list)? {
        let entry = entry.with_context(list)?;
        let target = to.join(entry.file_name());
        changed |= if entry.file_type().with_context(list)?.is_dir() {
            tree(&entry.path(), &target)?
        } else {
            file(&entry.path(), &target, DATA)? == CopyResult::Written
        };
    }
    Ok(changed)
}

/// Creates `path` and its parents, readable by every user under any umask. An administrator's
/// installation is for all users.
pub(crate) fn directory(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        directory(parent)?;
    }
    let create = || {
        fs::create_dir(path)?;
        fs::set_permissions(path, Permissions::from_mode(PROGRAM))
    };
    create().with_context(|| {
        format!("cannot create `{}`; for a directory of your own use `--prefix`", path.display())
    })
}

/// Creates an empty directory, and removes any earlier one at the path.
pub(crate) fn empty_directory(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    directory(path)
}

fn replace(source: &Path, destination: &Path, mode: u32) -> io::Result<()> {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    let temporary = destination.with_file_name(format!(".{name}.{}.tmp", process::id()));
    let write = || {
        fs::copy(source, &temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(mode))?;
        fs::rename(&temporary, destination)
    };
    write().inspect_err(|_| {
        // The first error is returned; a leftover file has a unique name.
        let _ = fs::remove_file(&temporary);
    })
}

fn same(source: &Path, destination: &Path, mode: u32) -> io::Result<bool> {
    // A link is replaced by a file, so that the link's target does not change.
    let Ok(there) = fs::symlink_metadata(destination) else {
        return Ok(false);
    };
    let here = fs::metadata(source)?;
    let alike =
        there.is_file() && there.len() == here.len() && there.permissions().mode() & 0o7777 == mode;
    Ok(alike && same_bytes(File::open(source)?, File::open(destination)?)?)
}

fn same_bytes(left: File, right: File) -> io::Result<bool> {
    const CHUNK: usize = 1 << 20;
    let mut left = BufReader::with_capacity(CHUNK, left);
    let mut right = BufReader::with_capacity(CHUNK, right);
    let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let (read, other) = (fill(&mut left, &mut a)?, fill(&mut right, &mut b)?);
        if a[..read] != b[..other] {
            return Ok(false);
        }
        if read < CHUNK {
            return Ok(true);
        }
    }
}

/// Reads until `buffer` is full or the file ends.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::PathBuf;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("xtask-place-{name}-{}", process::id()));
            fs::create_dir_all(&path).expect("a scratch directory");
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("the scratch directory");
            let name = |entry: io::Result<fs::DirEntry>| {
                entry.expect("an entry").file_name().into_string().expect("UTF-8")
            };
            let mut names: Vec<_> = entries.map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_what_differs_is_written() {
        let scratch = Scratch::new("differs");
        let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
        fs::write(&from, "one").expect("written");
        assert_eq!(file(&from, &to, PROGRAM).expect("placed"), CopyResult::Written);
        assert_eq!(file(&from, &to, PROGRAM).expect("placed"), CopyResult::Unchanged);
        fs::write(&from, "two").expect("written");
        assert_eq!(file(&from, &to, PROGRAM).expect("placed"), CopyResult::Written);
        fs::set_permissions(&to, Permissions::from_mode(0o600)).expect("a mode");
        assert_eq!(file(&from, &to, PROGRAM).expect("placed"), CopyResult::Written);
        assert_eq!(fs::read(&to).expect("read"), b"two");
        assert_eq!(scratch.names(), ["from", "to"], "no temporary file is left");
    }

    #[test]
    fn large_files_are_compared_to_their_end() {
        let scratch = Scratch::new("large");
        let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
        let mut bytes = vec![7_u8; (2 << 20) + 1];
        fs::write(&from, &bytes).expect("written");
        assert_eq!(file(&from, &to, DATA).expect("placed"), CopyResult::Written);
        assert_eq!(file(&from, &to, DATA).expect("placed"), CopyResult::Unchanged);
        *bytes.last_mut().expect("a byte") = 8;
        fs::write(&from, &bytes).expect("written");
        assert_eq!(file(&from, &to, DATA).expect("placed"), CopyResult::Written);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_left_alone() {
        let scratch = Scratch::new("link");
        let (from, to, other) =
            (scratch.0.join("from"), scratch.0.join("to"), scratch.0.join("other"));
        fs::write(&from, "new").expect("written");
        fs::write(&other, "old").expect("written");
        std::os::unix::fs::symlink(&other, &to).expect("a link");
        assert_eq!(file(&from, &to, DATA).expect("placed"), CopyResult::Written);
        assert_eq!(fs::read(&other).expect("read"), b"old");
        assert_eq!(fs::read(&to).expect("read"), b"new");
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing() {
        let scratch = Scratch::new("failure");
        let missing = scratch.0.join("missing");
        let error = file(&missing, &scratch.0.join("to"), DATA).expect_err("no source");
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
        assert!(scratch.names().is_empty());
    }
}
