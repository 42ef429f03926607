//! The capabilities of a tool: files, assets of the host, and a shell.
//!
//! Paths are bytes, as the operating system takes them. The tools never pass an empty path or one
//! that contains a NUL. A relative path is relative to the workspace. A port may use the caller's
//! rights, directory handles or preopens. A path that leads outside of them is the error
//! [`FsError::Outside`], never a missing file.

use std::io::{Read, Seek};

pub use ikigai_protocol::AssetError;

/// The reason why a file operation failed. Closed: a tool maps each to one error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsError {
    /// The file does not exist, or a link leads nowhere.
    NotFound,
    /// The operating system refuses, or the file system is mounted read-only.
    Denied,
    /// The path leads outside the granted directories.
    Outside,
    /// The directory was granted for reading only.
    ReadOnlyGrant,
    /// The target is a directory, a pipe or a device, but a regular file is needed.
    NotRegular,
    /// The device or the quota is full.
    NoSpace,
    /// There was not enough memory.
    NoMemory,
    /// Anything else: a loop of links, a name too long, a failing disk.
    Other,
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
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
pub struct OpenedFile<F> {
    /// The stream, at the start of the file.
    pub file: F,
    /// The kind of the file; never [`FileKind::Symlink`].
    pub kind: FileKind,
    /// The size that the file system reports, in bytes: 0 for files of `/proc`.
    pub size: u64,
}

/// The step at which writing a whole file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The file was neither created nor truncated.
    Open(FsError),
    /// The file may contain a part of the contents.
    Write(FsError),
}

/// The files that a tool was granted.
pub trait Files: Sync {
    /// An open file.
    type File: Read + Seek;
    /// An open directory.
    type Dir: Directory;

    /// Opens a file for reading, following links. Never blocks: a pipe without a writer is opened
    /// as well.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn open(&self, path: &[u8]) -> Result<OpenedFile<Self::File>, FsError>;

    /// Creates or truncates a file, and writes all of `contents`, following links. The inode, the
    /// mode and other names of an existing file stay.
    ///
    /// # Errors
    ///
    /// Fails with [`FsError::NotRegular`] for a directory or a pipe. Devices are written.
    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure>;

    /// Replaces an existing regular file atomically, keeping mode and owner; a
    /// link stays and its target is replaced.
    ///
    /// # Errors
    ///
    /// Fails with [`FsError::NotRegular`] for anything but a regular file, and with
    /// [`FsError::Denied`] if the caller may not write the file itself.
    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError>;

    /// Returns the kind of the file at `path`, of a link's target if `follow` is set.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn kind(&self, path: &[u8], follow: bool) -> Result<FileKind, FsError>;

    /// Opens a directory, following links.
    ///
    /// # Errors
    ///
    /// Returns [`FsError::Other`] if `path` is not a directory.
    fn open_dir(&self, path: &[u8]) -> Result<Self::Dir, FsError>;
}

/// A directory handle: names beneath it are reached without walking its path again.
pub trait Directory {
    /// An open file.
    type File: Read;

    /// Calls `visit` with each name and kind, without `.` and `..`, in no order. Links are not
    /// followed. Returns the number of names that were left out, because the port cannot express
    /// them.
    ///
    /// # Errors
    ///
    /// See [`FsError`]; names visited before the failure stay visited.
    fn entries(&self, visit: &mut dyn FnMut(&[u8], FileKind)) -> Result<u64, FsError>;

    /// Opens a file of this directory for reading, if it is not a link. Never blocks.
    ///
    /// # Errors
    ///
    /// See [`FsError`].
    fn open_file(&self, name: &[u8]) -> Result<Self::File, FsError>;
}

/// A window of the lines of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineWindow {
    /// The number of lines left out at the start.
    pub skip: u64,
    /// The number of lines from there; `None` for all.
    pub limit: Option<u64>,
}

impl LineWindow {
    /// The whole text.
    pub const ALL: Self = Self { skip: 0, limit: None };
}

/// The host's assets, which a tool names by their `ikigai://` URIs.
///
/// A URI is passed on as it was given: the host checks it, and chooses code and message of every
/// failure.
pub trait Assets {
    /// Returns the requested lines of an asset. Stored bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// Returns the host's error, or [`AssetError::not_granted`] if the tool has no connection to
    /// the host.
    fn read(&self, uri: &str, lines: LineWindow) -> Result<String, AssetError>;

    /// Replaces the whole text of an asset, which need not exist before.
    ///
    /// # Errors
    ///
    /// Fails as [`Assets::read`] does.
    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError>;

    /// Replaces `old` by `new`: every occurrence if `all` is set, otherwise the only one. Returns
    /// the number of replacements. `old` is neither empty nor equal to `new`.
    ///
    /// # Errors
    ///
    /// Fails as [`Assets::read`] does, and with `NOT_FOUND` or `NOT_UNIQUE` unless `all` is set.
    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError>;
}

/// The port of a tool without a grant of assets.
#[derive(Clone, Copy, Debug)]
pub struct NoAssets;

impl Assets for NoAssets {
    fn read(&self, uri: &str, _: LineWindow) -> Result<String, AssetError> {
        Err(AssetError::not_granted(uri))
    }

    fn write(&self, uri: &str, _: &str) -> Result<(), AssetError> {
        Err(AssetError::not_granted(uri))
    }

    fn edit(&self, uri: &str, _: &str, _: &str, _: bool) -> Result<u64, AssetError> {
        Err(AssetError::not_granted(uri))
    }
}

/// The storage of the file tools: both kinds of things that a `file_path` can name.
#[derive(Debug)]
pub struct Storage<F, A> {
    /// The files, named by paths.
    pub files: F,
    /// The assets, named by URIs of the host.
    pub assets: A,
}

/// Runs shell commands.
pub trait Shell {
    /// Runs `command` with standard output and standard error merged in order and standard input
    /// empty. `output` is called with each piece. Returns the exit code, 128 + N for signal N.
    ///
    /// # Errors
    ///
    /// Returns the reason if the shell cannot be started.
    fn run(&self, command: &str, output: &mut dyn FnMut(&[u8])) -> Result<i32, String>;
}

/// The port of a tool that has no shell.
#[derive(Clone, Copy, Debug)]
pub struct NoShell;

impl Shell for NoShell {
    fn run(&self, _: &str, _: &mut dyn FnMut(&[u8])) -> Result<i32, String> {
        Err("no shell".to_owned())
    }
}
