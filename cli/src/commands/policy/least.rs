//! The least entry of a policy that covers what calls reached: what `policy suggest` and `policy
//! record` propose.
//!
//! [`look`] finds out what the paths are on this machine, [`fold`] makes a list of directories of
//! them, [`peers`] one of hosts, and [`proposal`] the keys of an entry and the command that writes
//! them. Nothing here writes a policy.

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

/// Returns whether every native tool sees a path in the sandbox, whatever it is granted: programs, libraries, some files
/// of `/etc`, and its own `/proc`.
pub(super) fn is_in_base_view(path: &Path) -> bool {
    let machine = places::Ground {
        workspace: Path::new("/"),
        home: None,
        protected: &[],
        secrets: &[],
        installation: &[],
        is_native: true,
    };
    machine.is_of_system(path) || path.starts_with("/proc")
}

/// A path that a call reached, with links in it resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) kind: Kind,
}

/// The kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A device, a socket or a FIFO, which no policy grants.
    Other,
    /// Nothing. The directory is the nearest one on the way that exists.
    Missing(PathBuf),
}

/// An entry that the policy has already, and that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) access: Access,
    /// The path as it is written in the file.
    pub(crate) written: String,
    /// The path that it leads to.
    pub(crate) path: PathBuf,
}

/// An entry of the list `fs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) access: Access,
    pub(crate) path: PathBuf,
    /// The path as a policy has it: relative to the workspace if it lies there.
    pub(crate) written: String,
}

impl Entry {
    /// Returns the entry as a policy has it: `ro:docs`.
    pub(crate) fn rule(&self) -> String {
        format!("{}:{}", self.access.as_str(), self.written)
    }
}

/// A path that was reached and is not proposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) why: Why,
}

impl Left {
    /// Returns the access in words, such as ``read `/etc/shadow` ``.
    pub(crate) fn what(&self) -> String {
        path_in_words(self.access, &self.path.to_string_lossy())
    }
}

/// The reason for which a path is not proposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// Secrets of this kind lie there.
    Secret(&'static str),
    /// It is ikigai's own.
    Own,
    /// It belongs to the programs of the system.
    System,
    /// The kernel makes it up.
    Kernel,
    /// It is no file and no directory.
    NoFile,
    /// No policy can name it.
    Unnameable,
    /// The directory that would have to be granted has the files of many.
    Broad,
    /// It lies in a directory that is granted for reading alone, or around one for writing.
    Contradicts(PathBuf),
    /// The list is long enough.
    TooMany,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(holds) => write!(f, "secrets lie there: {holds}"),
            Self::Own => f.write_str("it is ikigai's own"),
            Self::System => f.write_str("it belongs to the programs of the system"),
            Self::Kernel => f.write_str("the kernel makes it up, and no policy grants it"),
            Self::NoFile => f.write_str("it is no regular file and no directory"),
            Self::Unnameable => f.write_str(
                "no policy can name it: it has a newline, `..`, or bytes that are not UTF-8",
            ),
            Self::Broad => f.write_str("the directory has the files of many programs or users"),
            Self::Contradicts(other) => write!(
                f,
                "`{}` has the other access, and a directory has one, with all that is in it",
                written_out(&other.to_string_lossy())
            ),
            Self::TooMany => {
                write!(f, "more than {} entries are not proposed", fold::MOST_ENTRIES)
            }
        }
    }
}

/// Returns an access to a path in words. Characters that deceive are written out.
pub(crate) fn path_in_words(access: Access, path: &str) -> String {
    let verb = match access {
        Access::ReadOnly => "read",
        Access::ReadWrite => "write",
    };
    format!("{verb} `{}`", one_line(path))
}

/// Returns a text on one line, with characters that deceive written out.
pub(crate) fn one_line(text: &str) -> String {
    written_out(&text.replace('\n', "\\n"))
}

/// The list `fs` that covers what was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    /// The entries, those that are kept first.
    pub(crate) entries: Vec<Entry>,
    /// The paths that are not covered.
    pub(crate) left: Vec<Left>,
    /// The number of paths that were looked for and are not there.
    pub(crate) missing: usize,
}
