//! One granted directory: a preopen, and the file operations of a shell inside it.
//!
//! No operation here follows a link in the last component of a path: the interpreter follows links
//! itself, so that one place decides the meaning of a link. The host's resolution of the other
//! components never leaves the preopen.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bashkit::{DirEntry, FileType, Metadata};
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, NewTimestamp,
    OpenFlags, PathFlags,
};

use super::errno::{self, strerror};

/// The most bytes that cross to the host or back in one call.
const TRANSFER_BYTES: usize = 256 << 10;

/// The mode that is shown for a regular file, since WASI reports no modes. A file that begins with
/// `#!` is a script and has another mode.
const FILE_MODE: u32 = 0o644;
const SCRIPT_MODE: u32 = 0o755;
const DIRECTORY_MODE: u32 = 0o755;
const SYMLINK_MODE: u32 = 0o777;

/// The bits that a mode loses in a directory that was granted for reading.
const WRITE_BITS: u32 = 0o222;

/// A preopened directory and the absolute name under which the shell sees it.
#[derive(Debug)]
pub(super) struct PreopenedDir {
    pub(super) name: String,
    dir: Descriptor,
    writable: bool,
}

impl PreopenedDir {
    pub(super) fn new(name: String, dir: Descriptor) -> Self {
        let flags = dir.get_flags().unwrap_or(DescriptorFlags::empty());
        // If the host reports no flags at all, the attempt will show it.
        let writable = flags.contains(DescriptorFlags::MUTATE_DIRECTORY) || flags.is_empty();
        Self { name, dir, writable }
    }

    /// Returns the directory that the host provides for paths that no grant covers. The host asks
    /// the user about each such path before the shell may write there.
    pub(super) fn beyond(name: String, dir: Descriptor) -> Self {
        Self { name, dir, writable: true }
    }

    /// Returns whether a preopened directory can be listed.
    pub(super) fn is_readable(dir: &Descriptor) -> bool {
        let flags = dir.get_flags().unwrap_or(DescriptorFlags::empty());
        // A host that reports no flags at all lets it be listed.
        flags.contains(DescriptorFlags::READ) || dir.read_directory().is_ok()
    }

    fn for_writing(&self) -> io::Result<&Descriptor> {
        if self.writable { Ok(&self.dir) } else { Err(strerror(ErrorCode::ReadOnly)) }
    }

    pub(super) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let stat = self.dir.stat_at(PathFlags::empty(), path).map_err(errno::of_path)?;
        self.refuse_special(&stat)?;
        let file = self
            .dir
            .open_at(PathFlags::empty(), path, OpenFlags::empty(), DescriptorFlags::READ)
            .map_err(errno::of_path)?;
        let mut contents = Vec::new();
        // One byte more, so that the end is found without growing the vector.
        let expected = usize::try_from(stat.size).unwrap_or(0).saturating_add(1);
        contents.try_reserve(expected).map_err(|_| strerror(ErrorCode::InsufficientMemory))?;
        loop {
            let length =
                (stat.size.saturating_sub(contents.len() as u64) + 1).min(TRANSFER_BYTES as u64);
            let (bytes, _) =
                file.read(length, contents.len() as u64).map_err(errno::of_open_file)?;
            if bytes.is_empty() {
                return Ok(contents);
            }
            contents.extend_from_slice(&bytes);
        }
    }

    /// Creates or truncates a file, and writes everything; inode and mode of an existing file stay.
    pub(super) fn write(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        let file = self.open_for_writing(path, OpenFlags::CREATE | OpenFlags::TRUNCATE)?;
        write_at(&file, contents, 0)
    }

    pub(super) fn append(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        let file = self.open_for_writing(path, OpenFlags::CREATE)?;
        let end = file.stat().map_err(errno::of_open_file)?.size;
        write_at(&file, contents, end)
    }

    fn open_for_writing(&self, path: &str, flags: OpenFlags) -> io::Result<Descriptor> {
        let dir = self.for_writing()?;
        if let Ok(stat) = dir.stat_at(PathFlags::empty(), path) {
            self.refuse_special(&stat)?;
        }
        dir.open_at(PathFlags::empty(), path, flags, DescriptorFlags::WRITE).map_err(errno::of_path)
    }

    /// Refuses a pipe, whose opening would block the host, and a directory, which has no contents.
    fn refuse_special(&self, stat: &DescriptorStat) -> io::Result<()> {
        match stat.type_ {
            DescriptorType::Directory => Err(strerror(ErrorCode::IsDirectory)),
            DescriptorType::SymbolicLink => Err(strerror(ErrorCode::Loop)),
            DescriptorType::RegularFile => Ok(()),
            _ => Err(strerror(ErrorCode::Unsupported)),
        }
    }

    pub(super) fn make_dir(&self, path: &str) -> io::Result<()> {
        self.for_writing()?.create_directory_at(path).map_err(errno::of_path)
    }

    pub(super) fn remove(&self, path: &str, recursive: bool) -> io::Result<()> {
        let dir = self.for_writing()?;
        let stat = dir.stat_at(PathFlags::empty(), path).map_err(errno::of_path)?;
        if stat.type_ != DescriptorType::Directory {
            return dir.unlink_file_at(path).map_err(errno::of_path);
        }
        if recursive {
            for (name, _) in self.names(path)? {
                self.remove(&child(path, &name), true)?;
            }
        }
        if path == "." {
            return Err(strerror(ErrorCode::Busy));
        }
        dir.remove_directory_at(path).map_err(errno::of_path)
    }

    pub(super) fn stat(&self, path: &str) -> io::Result<Metadata> {
        let stat = self.dir.stat_at(PathFlags::empty(), path).map_err(errno::of_path)?;
        let script = stat.type_ == DescriptorType::RegularFile && self.is_script(path);
        Ok(self.metadata(&stat, script))
    }

    fn is_script(&self, path: &str) -> bool {
        let opened =
            self.dir.open_at(PathFlags::empty(), path, OpenFlags::empty(), DescriptorFlags::READ);
        // A file that cannot be read cannot be run either.
        opened.is_ok_and(|file| file.read(2, 0).is_ok_and(|(bytes, _)| bytes == b"#!"))
    }

    pub(super) fn entries(&self, path: &str) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for (name, _) in self.names(path)? {
            // If a file was removed since its name was listed, it is left out.
            if let Ok(stat) = self.dir.stat_at(PathFlags::empty(), &child(path, &name)) {
                entries.push(DirEntry { metadata: self.metadata(&stat, false), name });
            }
        }
        Ok(entries)
    }

    fn names(&self, path: &str) -> io::Result<Vec<(String, DescriptorType)>> {
        let flags = DescriptorFlags::READ;
        let dir = self.dir.open_at(PathFlags::empty(), path, OpenFlags::DIRECTORY, flags);
        let stream = dir.map_err(errno::of_path)?.read_directory().map_err(errno::of_path)?;
        let mut names = Vec::new();
        loop {
            match stream.read_directory_entry() {
                Ok(Some(entry)) => names.push((entry.name, entry.type_)),
                Ok(None) => return Ok(names),
                // A name that is not UTF-8: WASI cannot reach it.
                Err(ErrorCode::IllegalByteSequence) => {}
                Err(code) => return Err(errno::of_path(code)),
            }
        }
    }

    pub(super) fn rename(&self, from: &str, other: &Self, to: &str) -> io::Result<()> {
        let dir = self.for_writing()?;
        dir.rename_at(from, other.for_writing()?, to).map_err(errno::of_path)
    }

    pub(super) fn link(&self, from: &str, other: &Self, to: &str) -> io::Result<()> {
        let dir = self.for_writing()?;
        dir.link_at(PathFlags::empty(), from, other.for_writing()?, to).map_err(errno::of_path)
    }

    pub(super) fn symlink(&self, target: &str, path: &str) -> io::Result<()> {
        self.for_writing()?.symlink_at(target, path).map_err(|code| match code {
            // The host refuses links that would lead out of the directory.
            ErrorCode::NotPermitted => {
                io::Error::new(io::ErrorKind::PermissionDenied, "Operation not permitted")
            }
            other => errno::of_path(other),
        })
    }

    pub(super) fn read_link(&self, path: &str) -> io::Result<PathBuf> {
        self.dir.readlink_at(path).map(PathBuf::from).map_err(errno::of_path)
    }

    pub(super) fn set_modified(&self, path: &str, time: SystemTime) -> io::Result<()> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = wasip2::clocks::wall_clock::Datetime {
            seconds: since.as_secs(),
            nanoseconds: since.subsec_nanos(),
        };
        self.for_writing()?
            .set_times_at(
                PathFlags::empty(),
                path,
                NewTimestamp::NoChange,
                NewTimestamp::Timestamp(time),
            )
            .map_err(errno::of_path)
    }

    fn metadata(&self, stat: &DescriptorStat, script: bool) -> Metadata {
        let (file_type, mode) = match stat.type_ {
            DescriptorType::Directory => (FileType::Directory, DIRECTORY_MODE),
            DescriptorType::SymbolicLink => (FileType::Symlink, SYMLINK_MODE),
            DescriptorType::RegularFile if script => (FileType::File, SCRIPT_MODE),
            DescriptorType::RegularFile => (FileType::File, FILE_MODE),
            // WASI has no other name for pipes and sockets.
            _ => (FileType::Fifo, FILE_MODE),
        };
        let mode = if self.writable || file_type.is_symlink() { mode } else { mode & !WRITE_BITS };
        let modified = stat
            .data_modification_timestamp
            .as_ref()
            .map_or(UNIX_EPOCH, |time| UNIX_EPOCH + Duration::new(time.seconds, time.nanoseconds));
        Metadata { file_type, size: stat.size, mode, modified, created: modified }
    }
}

fn child(path: &str, name: &str) -> String {
    if path == "." { name.to_owned() } else { format!("{path}/{name}") }
}

fn write_at(file: &Descriptor, contents: &[u8], start: u64) -> io::Result<()> {
    let mut written = 0;
    while written < contents.len() {
        let end = contents.len().min(written + TRANSFER_BYTES);
        match file.write(&contents[written..end], start + written as u64) {
            Ok(0) => return Err(strerror(ErrorCode::Io)),
            Ok(count) => written += usize::try_from(count).unwrap_or(0),
            Err(ErrorCode::Interrupted) => {}
            Err(code) => return Err(errno::of_open_file(code)),
        }
    }
    Ok(())
}
