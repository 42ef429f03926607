//! The smallest policy entry that covers the accesses of calls, including refused ones: the
//! proposal of `policy suggest` and `policy record`.
//!
//! [`look`] finds out what the paths are on this machine. [`fold`] makes a list of directories from
//! them, [`peers`] a list of hosts, and [`proposal`] the keys of an entry and the command that
//! writes them. Nothing here writes a policy.

pub(super) mod fold;
pub(super) mod look;
pub(super) mod peers;
pub(super) mod places;
pub(super) mod proposal;
pub(super) mod recorded;
pub(super) mod touch;

use std::fmt;
use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, written_out};

/// Returns whether every native tool sees a path in the sandbox, whatever its grant: programs,
/// libraries, some files of `/etc`, and its own `/proc`. The `workspace` and the `home` have no
/// links.
pub(in crate::commands) fn is_seen_without_grant(
    path: &Path,
    workspace: &Path,
    home: Option<&Path>,
) -> bool {
    let machine = places::Ground {
        workspace,
        home,
        protected: &[],
        secrets: &[],
        installation: &[],
        is_native: true,
    };
    machine.is_of_system(path) || path.starts_with("/proc")
}

/// A path that a call accessed or tried to access, with links in it resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessedPath {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) kind: PathKind,
}

/// The kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A device, a socket or a FIFO, which no policy grants.
    Other,
    /// No file. The directory is the nearest existing ancestor.
    Missing(PathBuf),
}

/// An entry of the present policy, which stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExistingEntry {
    pub(crate) access: Access,
    /// The path as the file has it.
    pub(crate) written: String,
    /// The path that it leads to.
    pub(crate) path: PathBuf,
}

/// An entry of the list `fs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathEntry {
    pub(crate) access: Access,
    pub(crate) path: PathBuf,
    /// The path as a policy has it: relative if it is in the workspace.
    pub(crate) written: String,
}

impl PathEntry {
    /// Returns the entry as a policy has it: `ro:docs`.
    pub(crate) fn rule(&self) -> String {
        format!("{}:{}", self.access.as_str(), self.written)
    }
}

/// A path that a call accessed or tried to access, and that is not proposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OmittedPath {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) why: Why,
}

impl OmittedPath {
    /// Returns the access in words, such as ``read `/etc/shadow` ``.
    pub(crate) fn what(&self) -> String {
        path_in_words(self.access, &self.path.to_string_lossy())
    }
}

/// The reason why a path is not proposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// Secrets of this kind lie there.
    Secret(&'static str),
    /// It belongs to ikigai.
    Own,
    /// It belongs to the system's programs.
    System,
    /// The kernel generates it.
    Kernel,
    /// It is neither a file nor a directory.
    NoFile,
    /// No policy can name it.
    Unnameable,
    /// Other programs execute it, and it does not exist.
    Executed,
    /// The directory that would have to be granted is shared by many programs.
    Broad,
    /// It lies in a directory that is granted only for reading, or around one that is granted for
    /// writing.
    Contradicts(PathBuf),
    /// The list is long enough.
    TooMany,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(holds) => write!(f, "it may contain secrets: {holds}"),
            Self::Own => f.write_str("it is ikigai's own"),
            Self::System => f.write_str("it belongs to the programs of the system"),
            Self::Kernel => f.write_str("the kernel generates it, and no policy can grant it"),
            Self::NoFile => f.write_str("it is neither a regular file nor a directory"),
            Self::Unnameable => f.write_str(
                "no policy can name it: it has a newline, `..`, or bytes that are not UTF-8",
            ),
            Self::Executed => {
                f.write_str("other programs execute what is there, and it does not exist")
            }
            Self::Broad => f.write_str("the directory has the files of many programs or users"),
            Self::Contradicts(other) => write!(
                f,
                "`{}` has the other access, and a directory has one access for everything in it",
                written_out(&other.to_string_lossy())
            ),
            Self::TooMany => {
                write!(f, "more than {} entries are not proposed", fold::MOST_ENTRIES)
            }
        }
    }
}

/// Returns an access to a path in words. Escapes deceptive characters.
pub(crate) fn path_in_words(access: Access, path: &str) -> String {
    let verb = match access {
        Access::ReadOnly => "read",
        Access::ReadWrite => "write",
    };
    format!("{verb} `{}`", one_line(path))
}

/// Returns a text on one line, with deceptive characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    written_out(&text.replace('\n', "\\n"))
}

/// The list `fs` that covers the accessed paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    /// The entries; the present ones that stay come first.
    pub(crate) entries: Vec<PathEntry>,
    /// The paths that are not covered.
    pub(crate) left: Vec<OmittedPath>,
    /// The number of paths that calls looked for and that do not exist.
    pub(crate) missing: usize,
}
