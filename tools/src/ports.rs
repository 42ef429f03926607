//! What a tool may ask of the world: files, documents of the host, and a shell.
//!
//! Paths are bytes, as the operating system takes them; the tools never hand
//! over an empty path or one that holds a NUL. A relative path is relative to
//! the workspace. How a port holds its rights (the caller's, directory handles,
//! preopens) is its own affair; that a path leads outside of them is an answer
//! of its own, [`FsError::Outside`], never a missing file.

use std::io::{Read, Seek};

pub use ikigai_protocol::AssetError;

/// Why a file operation failed. Closed: a tool maps each to one error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsError {
    /// There is no such file, or a link leads nowhere.
    NotFound,
    /// The operating system refuses, or the file system is mounted read-only.
    Denied,
    /// The path leads outside the granted directories.
    Outside,
    /// The directory was granted for reading only.
    ReadOnlyGrant,
    /// The target is a directory, a pipe or a device where a regular file is needed.
    NotRegular,
    /// The device or the quota is full.
    NoSpace,
    /// Memory could not be had.
    NoMemory,
    /// Anything else: a loop of links, a name too long, a failing disk.
    Other,
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link, where links are not followed.
    Symlink,
    /// A character device.
    Device,
    /// A pipe or a socket.
    Pipe,
    /// A block device, or a kind that the port cannot name.
    Other,
}

/// A file that was opened for reading.
#[derive(Debug)]
pub struct Opened<F> {
    /// The stream, at the start of the file.
    pub file: F,
    /// What was opened; never [`Kind::Symlink`].
    pub kind: Kind,
    /// Bytes, as the file system tells it: 0 for files of `/proc`.
    pub size: u64,
}

/// At which step writing a whole file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The file was neither created nor truncated.
    Open(FsError),
    /// The file may hold a part of the contents.
    Write(FsError),
}

/// The files that a tool was granted.
pub trait Files: Sync {
    /// An open file.
    type File: Read + Seek;
    /// An open directory.
    type Dir: Directory;

    /// Opens for reading, following links. Never blocks: a pipe without a writer
    /// is opened all the same.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn open(&self, path: &[u8]) -> Result<Opened<Self::File>, FsError>;

    /// Creates or truncates, and writes all of `contents`, following links. The
    /// inode, the mode and other names of an existing file stay.
    ///
    /// # Errors
    ///
    /// [`FsError::NotRegular`] for a directory or a pipe; devices are written.
    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure>;

    /// Replaces an existing regular file atomically, keeping mode and owner; a
    /// link stays and its target is replaced.
    ///
    /// # Errors
    ///
    /// [`FsError::NotRegular`] for anything but a regular file,
    /// [`FsError::Denied`] where the caller may not write the file itself.
    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError>;

    /// What is at `path`; the last component is followed if `follow` says so.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn kind(&self, path: &[u8], follow: bool) -> Result<Kind, FsError>;

    /// Opens a directory, following links.
    ///
    /// # Errors
    ///
    /// [`FsError::Other`] where `path` is no directory.
    fn open_dir(&self, path: &[u8]) -> Result<Self::Dir, FsError>;
}

/// A directory handle: names beneath it are reached without walking its path again.
pub trait Directory {
    /// An open file.
    type File: Read;

    /// Calls `visit` with each name and kind, without `.` and `..`, in no order.
    /// Links are not followed.
    ///
    /// # Errors
    ///
    /// See [`FsError`]; names visited before the failure stay visited.
    fn entries(&self, visit: &mut dyn FnMut(&[u8], Kind)) -> Result<(), FsError>;

    /// Opens a file of this directory for reading, if it is no link. Never blocks.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn open_file(&self, name: &[u8]) -> Result<Self::File, FsError>;
}

/// Which lines of a text are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Lines left out at the start.
    pub skip: u64,
    /// Lines from there; all, if there is no limit.
    pub limit: Option<u64>,
}

impl Lines {
    /// The whole text.
    pub const ALL: Self = Self { skip: 0, limit: None };
}

/// The documents that the host keeps, which a tool names by their `ikigai://` URIs.
///
/// A URI is handed over as it was given: what is a good one is the host's to say, as
/// code and message of every failure are.
pub trait Documents {
    /// The lines of a document that were asked for. What is stored and is not UTF-8 has
    /// become U+FFFD.
    ///
    /// # Errors
    ///
    /// The host's; [`AssetError::not_granted`] where there is no way to it.
    fn read(&self, uri: &str, lines: Lines) -> Result<String, AssetError>;

    /// Makes `content` the whole of a document, which need not be there before.
    ///
    /// # Errors
    ///
    /// As for [`Documents::read`].
    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError>;

    /// Replaces `old` by `new`, everywhere if `all` says so, else where it stands once;
    /// returns how often. `old` is not empty and not `new`.
    ///
    /// # Errors
    ///
    /// As for [`Documents::read`]; `NOT_FOUND` and `NOT_UNIQUE` unless `all` is set.
    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError>;
}

/// The documents of a tool that is granted none.
#[derive(Clone, Copy, Debug)]
pub struct NoDocuments;

impl Documents for NoDocuments {
    fn read(&self, uri: &str, _: Lines) -> Result<String, AssetError> {
        Err(AssetError::not_granted(uri))
    }

    fn write(&self, uri: &str, _: &str) -> Result<(), AssetError> {
        Err(AssetError::not_granted(uri))
    }

    fn edit(&self, uri: &str, _: &str, _: &str, _: bool) -> Result<u64, AssetError> {
        Err(AssetError::not_granted(uri))
    }
}

/// What the tools of files work on: the two kinds of things that a `file_path` names.
#[derive(Debug)]
pub struct Storage<F, D> {
    /// What is named by a path.
    pub files: F,
    /// What is named by a URI of the host.
    pub documents: D,
}

/// Runs shell commands.
pub trait Shell {
    /// Runs `command` with standard output and standard error merged in order
    /// and standard input empty. `output` is called with each piece. Returns the
    /// exit code, 128 + N for signal N.
    ///
    /// # Errors
    ///
    /// The shell cannot be started; the text says why.
    fn run(&self, command: &str, output: &mut dyn FnMut(&[u8])) -> Result<i32, String>;
}

/// The shell of a tool that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoShell;

impl Shell for NoShell {
    fn run(&self, _: &str, _: &mut dyn FnMut(&[u8])) -> Result<i32, String> {
        Err("no shell".to_owned())
    }
}
