//! `IKIGAI_DIRS`: the variable that lists the directories granted to a native tool.
//!
//! One directory per line: `ro:` or `rw:` and an absolute path, without a newline after the
//! last. A path that contains a newline or a NUL cannot be written this way, so it cannot be
//! granted.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The name of the variable.
pub const DIRS_VARIABLE: &str = "IKIGAI_DIRS";

/// The kind of access to a granted directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Listing and reading.
    ReadOnly,
    /// Also creating, changing and removing.
    ReadWrite,
}

impl Access {
    /// Returns `ro` or `rw`, as policy files and `IKIGAI_DIRS` write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

/// A granted directory and the access to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedDir {
    /// The access, read-only or read-write.
    pub access: Access,
    /// The absolute path, as the tool sees it.
    pub path: PathBuf,
}

/// The reason why a list of directories cannot be encoded or decoded.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DirsError {
    /// A line begins with neither `ro:` nor `rw:`.
    #[error("line {line} of {DIRS_VARIABLE} begins with neither `ro:` nor `rw:`")]
    Access {
        /// The number of the line, counted from 1.
        line: usize,
    },
    /// The path is relative or empty.
    #[error("`{}` is not an absolute path", path.display())]
    Relative {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The path contains a newline or a NUL.
    #[error("`{}` holds a newline or a NUL and cannot be granted", path.display())]
    Unrepresentable {
        /// The path as it was given.
        path: PathBuf,
    },
}

/// Encodes the value of `IKIGAI_DIRS`.
///
/// # Errors
///
/// Returns an error if a path is relative, or contains a newline or a NUL.
pub fn encode_dirs(dirs: &[GrantedDir]) -> Result<OsString, DirsError> {
    let mut value = OsString::new();
    for dir in dirs {
        check(&dir.path)?;
        if !value.is_empty() {
            value.push("\n");
        }
        value.push(dir.access.as_str());
        value.push(":");
        value.push(&dir.path);
    }
    Ok(value)
}

/// Decodes the value of `IKIGAI_DIRS`; an empty value is an empty list.
///
/// # Errors
///
/// Returns an error if a line has no access mode, or its path is not absolute.
pub fn decode_dirs(value: &OsStr) -> Result<Vec<GrantedDir>, DirsError> {
    if value.is_empty() {
        return Ok(Vec::new());
    }
    let lines = value.as_encoded_bytes().split(|byte| *byte == b'\n');
    lines.enumerate().map(|(index, line)| decode_line(index + 1, line)).collect()
}

fn decode_line(line: usize, bytes: &[u8]) -> Result<GrantedDir, DirsError> {
    let (access, path) = match bytes {
        [b'r', b'o', b':', path @ ..] => (Access::ReadOnly, path),
        [b'r', b'w', b':', path @ ..] => (Access::ReadWrite, path),
        _ => return Err(DirsError::Access { line }),
    };
    let path = path_from_bytes(path);
    check(&path)?;
    Ok(GrantedDir { access, path })
}

#[cfg(unix)]
fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

fn check(path: &Path) -> Result<(), DirsError> {
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'\n' | 0)) {
        return Err(DirsError::Unrepresentable { path: path.to_owned() });
    }
    if !path.has_root() {
        return Err(DirsError::Relative { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(access: Access, path: &str) -> GrantedDir {
        GrantedDir { access, path: PathBuf::from(path) }
    }

    #[test]
    fn a_list_comes_back_as_it_was_written() {
        let dirs = [dir(Access::ReadWrite, "/work space/é"), dir(Access::ReadOnly, "/usr/ro:x")];
        let value = encode_dirs(&dirs).expect("encodes");
        assert_eq!(value, OsString::from("rw:/work space/é\nro:/usr/ro:x"));
        assert_eq!(decode_dirs(&value).expect("decodes"), dirs);
        assert_eq!(decode_dirs(OsStr::new("")).expect("decodes"), []);
    }

    #[test]
    fn a_path_that_could_forge_a_line_is_refused() {
        let forged = [dir(Access::ReadOnly, "/a\nrw:/")];
        assert!(matches!(encode_dirs(&forged), Err(DirsError::Unrepresentable { .. })));
        assert!(matches!(
            encode_dirs(&[dir(Access::ReadOnly, "a")]),
            Err(DirsError::Relative { .. })
        ));
    }

    #[test]
    fn a_line_without_an_access_mode_is_refused() {
        assert_eq!(decode_dirs(OsStr::new("ro:/a\n/b")), Err(DirsError::Access { line: 2 }));
        assert!(matches!(decode_dirs(OsStr::new("ro:")), Err(DirsError::Relative { .. })));
    }
}
