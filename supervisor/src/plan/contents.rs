//! The contents of a plan: a program, what it is granted, and what it does not see.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::run_mode::{CallBounds, RunMode};

/// A program to run, and the bounds of the call.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The executable; absolute.
    pub program: CString,
    /// The working directory; absolute.
    pub directory: CString,
    /// `argv`, with the program's name at its head.
    pub args: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The directories and files that are granted to a sandboxed tool; absolute.
    pub dirs: Vec<PathGrant>,
    /// The files and directories in them that it does not see.
    pub hidden: Vec<HiddenPath>,
    /// The files and directories in them that it may only read, and may not move.
    pub read_only: Vec<HiddenPath>,
    /// The links and directories in them that it may not remove, move or replace.
    pub pinned: Vec<HiddenPath>,
    /// Set if a sandboxed tool may also read the rest of the machine, beyond its grant. Lists
    /// the files and directories there that it does not see unless they are granted.
    pub machine: Option<Vec<HiddenPath>>,
    /// The symbolic links that it sees beside what was granted.
    pub links: Vec<Link>,
    /// The places of the machine in which other tools may write, or once could, and those of
    /// secrets; absolute. Unless they are granted, the tool sees no directory of an installation
    /// there.
    pub closed: Vec<CString>,
    /// The places in them in which no tool may write; absolute.
    pub closed_except: Vec<CString>,
    /// The way in which it is run.
    pub kind: RunMode,
    /// The limits at which the supervisor ends the call.
    pub bounds: CallBounds,
}

/// A granted directory, or a single granted file.
#[derive(Debug, PartialEq, Eq)]
pub struct PathGrant {
    /// Its path; absolute.
    pub path: CString,
    /// Set if the tool may write to it.
    pub writable: bool,
    /// The identity that it had when it was searched for files that are kept from the tool.
    pub searched: Option<InodeId>,
}

/// A symbolic link. It grants nothing: the tool sees it if it sees its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its path; absolute.
    pub path: CString,
    /// The file or directory at the end of all links; absolute.
    pub target: CString,
}

/// A file, directory or link that is hidden from a sandboxed tool, or that it may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenPath {
    /// Its path; absolute, and without links on the way.
    pub path: CString,
    /// The kind and the identity that it had when it was found.
    pub found: InodeId,
}

/// The kind and the identity of a file, directory or link when the host found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InodeId {
    /// Set for a directory.
    pub directory: bool,
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl Plan {
    /// Returns the value of a variable in the tool's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find_map(|pair| {
            let value = pair.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        })
    }
}

/// Converts a path of a plan.
pub(crate) fn path_of(path: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}
