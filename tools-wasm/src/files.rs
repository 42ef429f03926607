//! The file port over preopened directories.
//!
//! Opening a pipe would block the host, so the kind is checked before a file is opened.

use std::io::{self, Read, Seek, SeekFrom};

use ikigai_tools::ports::{self, FileKind, Files, FsError, OpenedFile, WriteFailure};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

#[cfg(feature = "host-imports")]
use crate::bindings::ikigai::tool::workspace;
use crate::error_code::{io_error, meaning};
use crate::preopens::Preopens;

/// The most bytes that cross to the host or back in one call.
const TRANSFER_BYTES: usize = 256 << 10;

/// The size of the first read of a file, in bytes. The host clears as much memory as it is asked to
/// fill, and clearing must not cost more than reading a small file.
const FIRST_BYTES: usize = 16 << 10;

/// The size of the read after a short one, in bytes: the file is most often at its end.
const PROBE_BYTES: usize = 4 << 10;

/// The files in the directories that the host preopened.
#[derive(Debug)]
pub struct WasiFiles {
    preopens: Preopens<Descriptor>,
}

impl WasiFiles {
    /// Takes the preopened directories.
    #[must_use]
    pub fn preopened() -> Self {
        Self { preopens: Preopens::new(get_directories(), is_witness) }
    }

    /// Returns the place for a change, which a directory granted for reading refuses.
    fn writable_place(&self, path: &[u8]) -> Result<(&Descriptor, String), FsError> {
        let (dir, rest) = self.preopens.place(path)?;
        let flags = dir.get_flags().map_err(meaning)?;
        // If the host reports no flags at all, the attempt will show it.
        if flags.contains(DescriptorFlags::MUTATE_DIRECTORY) || flags.is_empty() {
            return Ok((dir, rest));
        }
        match dir.stat_at(PathFlags::SYMLINK_FOLLOW, &rest) {
            Err(ErrorCode::NotPermitted) => Err(FsError::Outside),
            _ => Err(FsError::ReadOnlyGrant),
        }
    }
}

impl Files for WasiFiles {
    type File = WasiFile;
    type Dir = WasiDir;

    fn open(&self, path: &[u8]) -> Result<OpenedFile<WasiFile>, FsError> {
        let (dir, path) = self.preopens.place(path)?;
        let stat = dir.stat_at(PathFlags::SYMLINK_FOLLOW, &path).map_err(meaning)?;
        let kind = kind_of(&stat);
        if matches!(kind, FileKind::Pipe | FileKind::Directory) {
            // The kind is enough for the tool to refuse it.
            return Ok(OpenedFile { file: WasiFile::closed(), kind, size: 0 });
        }
        let opened = dir.open_at(
            PathFlags::SYMLINK_FOLLOW,
            &path,
            OpenFlags::empty(),
            DescriptorFlags::READ,
        );
        Ok(OpenedFile { file: WasiFile::new(opened.map_err(meaning)?), kind, size: stat.size })
    }

    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure> {
        let (dir, path) = self.writable_place(path).map_err(WriteFailure::Open)?;
        let existing = dir.stat_at(PathFlags::SYMLINK_FOLLOW, &path);
        if existing.is_ok_and(|stat| kind_of(&stat) == FileKind::Pipe) {
            return Err(WriteFailure::Open(FsError::NotRegular));
        }
        let creating = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let opened =
            dir.open_at(PathFlags::SYMLINK_FOLLOW, &path, creating, DescriptorFlags::WRITE);
        let file = opened.map_err(|code| WriteFailure::Open(meaning(code)))?;
        write_all(&file, contents).map_err(WriteFailure::Write)
    }

    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError> {
        let (dir, path) = self.writable_place(path)?;
        replace(dir, &path, contents)
    }

    fn kind(&self, path: &[u8], follow: bool) -> Result<FileKind, FsError> {
        if self.preopens.above(path).is_some() {
            return Ok(FileKind::Directory);
        }
        let (dir, path) = self.preopens.place(path)?;
        let flags = if follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() };
        dir.stat_at(flags, &path).map(|stat| kind_of(&stat)).map_err(meaning)
    }

    fn open_dir(&self, path: &[u8]) -> Result<WasiDir, FsError> {
        if let Some(names) = self.preopens.above(path) {
            return Ok(WasiDir::Above(names));
        }
        let (dir, path) = self.preopens.place(path)?;
        let opened = dir.open_at(
            PathFlags::SYMLINK_FOLLOW,
            &path,
            OpenFlags::DIRECTORY,
            DescriptorFlags::READ,
        );
        opened.map(WasiDir::Open).map_err(meaning)
    }
}

/// Returns whether a preopened directory stands for paths that no grant covers: it can neither be
/// changed nor listed. A host that reports no flags at all allows listing.
fn is_witness(dir: &Descriptor) -> bool {
    let rights = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    dir.get_flags().is_ok_and(|flags| !flags.intersects(rights)) && dir.read_directory().is_err()
}

/// Writes the whole of a file that was opened for it.
fn write_all(file: &Descriptor, contents: &[u8]) -> Result<(), FsError> {
    let mut offset = 0;
    while offset < contents.len() {
        let end = contents.len().min(offset + TRANSFER_BYTES);
        match file.write(&contents[offset..end], offset as u64) {
            Ok(0) => return Err(FsError::Other),
            Ok(count) => offset += usize::try_from(count).unwrap_or(0),
            Err(ErrorCode::Interrupted) => {}
            // The file is open, so the error cannot mean that a path leads out.
            Err(ErrorCode::NotPermitted) => return Err(FsError::Denied),
            Err(code) => return Err(meaning(code)),
        }
    }
    Ok(())
}

#[cfg(feature = "host-imports")]
fn replace(dir: &Descriptor, path: &str, contents: &[u8]) -> Result<(), FsError> {
    workspace::replace(dir, path, contents).map_err(|code| match code {
        ErrorCode::Invalid => FsError::NotRegular,
        other => meaning(other),
    })
}

/// Replaces the contents in place: a new file could not get the mode and the owner of the old one,
/// which WASI does not have.
#[cfg(not(feature = "host-imports"))]
fn replace(dir: &Descriptor, path: &str, contents: &[u8]) -> Result<(), FsError> {
    let stat = dir.stat_at(PathFlags::SYMLINK_FOLLOW, path).map_err(meaning)?;
    if kind_of(&stat) != FileKind::Regular {
        return Err(FsError::NotRegular);
    }
    let flags = DescriptorFlags::WRITE;
    let opened = dir.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), flags);
    let file = opened.map_err(meaning)?;
    // The new length is set last: if the disk is full, the rest of the old contents stays.
    write_all(&file, contents)?;
    file.set_size(contents.len() as u64).map_err(meaning)?;
    file.sync().map_err(meaning)
}

fn kind_of(stat: &DescriptorStat) -> FileKind {
    named_kind(stat.type_)
}

fn named_kind(found: DescriptorType) -> FileKind {
    match found {
        DescriptorType::RegularFile => FileKind::Regular,
        DescriptorType::Directory => FileKind::Directory,
        DescriptorType::SymbolicLink => FileKind::Symlink,
        DescriptorType::CharacterDevice => FileKind::Device,
        DescriptorType::BlockDevice => FileKind::Other,
        // wasmtime has no other name for pipes and sockets.
        DescriptorType::Fifo | DescriptorType::Socket | DescriptorType::Unknown => FileKind::Pipe,
    }
}

/// An open file and a position in it.
#[derive(Debug)]
pub struct WasiFile {
    descriptor: Option<Descriptor>,
    offset: u64,
    /// The size of the next read, in bytes.
    ask: usize,
}

impl WasiFile {
    fn new(descriptor: Descriptor) -> Self {
        Self { descriptor: Some(descriptor), offset: 0, ask: FIRST_BYTES }
    }

    /// Returns the file for a path that must not be opened.
    fn closed() -> Self {
        Self { descriptor: None, offset: 0, ask: FIRST_BYTES }
    }

    fn descriptor(&self) -> io::Result<&Descriptor> {
        self.descriptor.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl Read for WasiFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.ask);
        let read = self.descriptor()?.read(length as u64, self.offset);
        let (bytes, _) = read.map_err(io_error)?;
        self.ask = if bytes.len() < length { PROBE_BYTES } else { TRANSFER_BYTES };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Seek for WasiFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(distance) => self.offset.checked_add_signed(distance),
            SeekFrom::End(distance) => {
                let stat = self.descriptor()?.stat().map_err(io_error)?;
                stat.size.checked_add_signed(distance)
            }
        };
        self.offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}

/// A directory.
#[derive(Debug)]
pub enum WasiDir {
    /// An open directory.
    Open(Descriptor),
    /// A directory that is not granted, with the names in it that lead to granted ones.
    Above(Vec<Vec<u8>>),
}

impl ports::Directory for WasiDir {
    type File = WasiFile;

    fn entries(&self, visit: &mut dyn FnMut(&[u8], FileKind)) -> Result<u64, FsError> {
        let open = match self {
            Self::Open(open) => open,
            Self::Above(names) => {
                names.iter().for_each(|name| visit(name, FileKind::Directory));
                return Ok(0);
            }
        };
        let entries = open.read_directory().map_err(meaning)?;
        let mut left_out = 0;
        loop {
            match entries.read_directory_entry() {
                Ok(Some(entry)) => visit(entry.name.as_bytes(), named_kind(entry.type_)),
                Ok(None) => return Ok(left_out),
                // A name that is not UTF-8: WASI cannot reach it.
                Err(ErrorCode::IllegalByteSequence) => left_out += 1,
                Err(code) => return Err(meaning(code)),
            }
        }
    }

    fn open_file(&self, name: &[u8]) -> Result<WasiFile, FsError> {
        let Self::Open(open) = self else { return Err(FsError::Outside) };
        let name = std::str::from_utf8(name).map_err(|_| FsError::NotFound)?;
        let opened =
            open.open_at(PathFlags::empty(), name, OpenFlags::empty(), DescriptorFlags::READ);
        opened.map(WasiFile::new).map_err(meaning)
    }
}
