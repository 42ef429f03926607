//! The file port over preopened directories, by `wasi:filesystem@0.3.0`.
//!
//! The functions of the port wait, so each blocks the task of the tool until its result is there.
//! Contents go through streams. Opening a pipe would block the host, so the kind is checked before a
//! file is opened.

use std::io::{self, Read, Seek, SeekFrom};

use ikigai_tools::ports::{self, FileKind, Files, FsError, OpenedFile, WriteFailure};
use ikigai_tools_wasm::Preopens;
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};
use wasip3::wit_bindgen::{FutureReader, StreamReader, block_on};
use wasip3::wit_stream;

const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;

/// The most bytes that a stream carries in one turn.
const TRANSFER_BYTES: usize = 256 << 10;

/// The most entries of a directory that a stream carries in one turn.
const ENTRIES: usize = 64;

/// The result of a stream, which is there when the stream has ended.
type StreamEnd = FutureReader<Result<(), ErrorCode>>;

/// The files in the directories that the host preopened.
pub(crate) struct AsyncFiles {
    preopens: Preopens<Descriptor>,
}

impl AsyncFiles {
    /// Takes the preopened directories.
    pub(crate) fn preopened() -> Self {
        let is_witness = |dir: &Descriptor| block_on(is_witness(dir));
        Self { preopens: Preopens::new(get_directories(), is_witness) }
    }

    /// Returns the place for a change, which a directory granted for reading refuses.
    async fn writable_place(&self, path: &[u8]) -> Result<(&Descriptor, String), FsError> {
        let (dir, rest) = self.preopens.place(path)?;
        let flags = dir.get_flags().await.map_err(meaning)?;
        // If the host reports no flags at all, the attempt will show it.
        let writes = DescriptorFlags::MUTATE_DIRECTORY;
        if flags & writes == writes || flags == DescriptorFlags::empty() {
            return Ok((dir, rest));
        }
        match dir.stat_at(FOLLOW, rest).await {
            Err(ErrorCode::NotPermitted) => Err(FsError::Outside),
            _ => Err(FsError::ReadOnlyGrant),
        }
    }

    async fn open(&self, path: &[u8]) -> Result<OpenedFile<AsyncFile>, FsError> {
        let (dir, path) = self.preopens.place(path)?;
        let stat = dir.stat_at(FOLLOW, path.clone()).await.map_err(meaning)?;
        let kind = kind(&stat.type_);
        if matches!(kind, FileKind::Pipe | FileKind::Directory) {
            // The kind is enough for the tool to refuse it.
            return Ok(OpenedFile { file: AsyncFile::new(None), kind, size: 0 });
        }
        let opened = dir.open_at(FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ).await;
        let file = AsyncFile::new(Some(opened.map_err(meaning)?));
        Ok(OpenedFile { file, kind, size: stat.size })
    }

    async fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure> {
        let (dir, path) = self.writable_place(path).await.map_err(WriteFailure::Open)?;
        let existing = dir.stat_at(FOLLOW, path.clone()).await;
        if existing.is_ok_and(|stat| kind(&stat.type_) == FileKind::Pipe) {
            return Err(WriteFailure::Open(FsError::NotRegular));
        }
        let creating = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let opened = dir.open_at(FOLLOW, path, creating, DescriptorFlags::WRITE).await;
        let file = opened.map_err(|code| WriteFailure::Open(meaning(code)))?;
        write_all(&file, contents).await.map_err(WriteFailure::Write)
    }

    /// Replaces the contents in place: a new file could not get the mode and the owner of the old
    /// one, which WASI does not have.
    async fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError> {
        let (dir, path) = self.writable_place(path).await?;
        let stat = dir.stat_at(FOLLOW, path.clone()).await.map_err(meaning)?;
        if kind(&stat.type_) != FileKind::Regular {
            return Err(FsError::NotRegular);
        }
        let opened = dir.open_at(FOLLOW, path, OpenFlags::empty(), DescriptorFlags::WRITE).await;
        let file = opened.map_err(meaning)?;
        // The new length is set last: if the disk is full, the rest of the old contents stays.
        write_all(&file, contents).await?;
        file.set_size(contents.len() as u64).await.map_err(meaning)?;
        file.sync().await.map_err(meaning)
    }
}

impl Files for AsyncFiles {
    type File = AsyncFile;
    type Dir = AsyncDir;

    fn open(&self, path: &[u8]) -> Result<OpenedFile<AsyncFile>, FsError> {
        block_on(self.open(path))
    }

    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure> {
        block_on(self.write(path, contents))
    }

    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError> {
        block_on(self.replace(path, contents))
    }

    fn kind(&self, path: &[u8], follow: bool) -> Result<FileKind, FsError> {
        if self.preopens.above(path).is_some() {
            return Ok(FileKind::Directory);
        }
        let (dir, path) = self.preopens.place(path)?;
        let flags = if follow { FOLLOW } else { PathFlags::empty() };
        let stat = block_on(dir.stat_at(flags, path)).map_err(meaning)?;
        Ok(kind(&stat.type_))
    }

    fn open_dir(&self, path: &[u8]) -> Result<AsyncDir, FsError> {
        if let Some(names) = self.preopens.above(path) {
            return Ok(AsyncDir::Above(names));
        }
        let (dir, path) = self.preopens.place(path)?;
        let opened = dir.open_at(FOLLOW, path, OpenFlags::DIRECTORY, DescriptorFlags::READ);
        block_on(opened).map(AsyncDir::Open).map_err(meaning)
    }
}

/// Returns whether a preopened directory stands for paths that no grant covers: it can neither be
/// changed nor listed.
async fn is_witness(dir: &Descriptor) -> bool {
    let rights = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    if !dir.get_flags().await.is_ok_and(|flags| flags & rights == DescriptorFlags::empty()) {
        return false;
    }
    let (entries, end) = dir.read_directory();
    entries.collect().await;
    matches!(end.await, Err(ErrorCode::NotPermitted))
}

/// Writes the whole of a file that was opened for it.
async fn write_all(file: &Descriptor, contents: &[u8]) -> Result<(), FsError> {
    let (mut writer, reader) = wit_stream::new();
    let end: StreamEnd = file.write_via_stream(reader, 0);
    let mut is_whole = true;
    for piece in contents.chunks(TRANSFER_BYTES) {
        is_whole = writer.write_all(piece.to_vec()).await.is_empty();
        if !is_whole {
            break;
        }
    }
    drop(writer);
    match end.await {
        Ok(()) if is_whole => Ok(()),
        Ok(()) => Err(FsError::Other),
        // The file is open, so the error cannot mean that a path leads out.
        Err(ErrorCode::NotPermitted) => Err(FsError::Denied),
        Err(code) => Err(meaning(code)),
    }
}

/// Returns the port's error for an error while a path is resolved. WASI reports `not-permitted` for
/// a `..` or a link that leads out of the directory.
fn meaning(code: ErrorCode) -> FsError {
    match code {
        ErrorCode::NoEntry => FsError::NotFound,
        ErrorCode::Access | ErrorCode::ReadOnly => FsError::Denied,
        ErrorCode::NotPermitted => FsError::Outside,
        ErrorCode::IsDirectory | ErrorCode::NoSuchDevice => FsError::NotRegular,
        ErrorCode::InsufficientSpace | ErrorCode::Quota => FsError::NoSpace,
        ErrorCode::InsufficientMemory => FsError::NoMemory,
        _ => FsError::Other,
    }
}

/// Returns the port's error for an operation on an open file.
fn io_error(code: &ErrorCode) -> io::Error {
    match code {
        ErrorCode::InsufficientMemory => io::ErrorKind::OutOfMemory.into(),
        ErrorCode::IsDirectory => io::ErrorKind::IsADirectory.into(),
        other => io::Error::other(format!("{other:?}")),
    }
}

fn kind(found: &DescriptorType) -> FileKind {
    match found {
        DescriptorType::RegularFile => FileKind::Regular,
        DescriptorType::Directory => FileKind::Directory,
        DescriptorType::SymbolicLink => FileKind::Symlink,
        DescriptorType::CharacterDevice => FileKind::Device,
        DescriptorType::BlockDevice => FileKind::Other,
        // wasmtime has no other name for pipes and sockets.
        DescriptorType::Fifo | DescriptorType::Socket | DescriptorType::Other(_) => FileKind::Pipe,
    }
}

/// An open file and a position in it.
pub(crate) struct AsyncFile {
    descriptor: Option<Descriptor>,
    offset: u64,
    /// The contents from the position on.
    contents: Option<(StreamReader<u8>, StreamEnd)>,
}

impl AsyncFile {
    /// Returns the file of a descriptor, or the file for a path that must not be opened.
    fn new(descriptor: Option<Descriptor>) -> Self {
        Self { descriptor, offset: 0, contents: None }
    }

    fn descriptor(&self) -> io::Result<&Descriptor> {
        self.descriptor.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl Read for AsyncFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let (mut stream, end) = match self.contents.take() {
            Some(contents) => contents,
            None => self.descriptor()?.read_via_stream(self.offset),
        };
        let most = buffer.len().min(TRANSFER_BYTES);
        let (_, bytes) = block_on(stream.read(Vec::with_capacity(most)));
        if bytes.is_empty() {
            return block_on(end.into_future()).map(|()| 0).map_err(|code| io_error(&code));
        }
        self.contents = Some((stream, end));
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Seek for AsyncFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(distance) => self.offset.checked_add_signed(distance),
            SeekFrom::End(distance) => {
                let stat = block_on(self.descriptor()?.stat()).map_err(|code| io_error(&code))?;
                stat.size.checked_add_signed(distance)
            }
        };
        let offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        if offset != self.offset {
            self.contents = None;
            self.offset = offset;
        }
        Ok(offset)
    }
}

/// A directory.
pub(crate) enum AsyncDir {
    /// An open directory.
    Open(Descriptor),
    /// A directory that is not granted, with the names in it that lead to granted ones.
    Above(Vec<Vec<u8>>),
}

impl ports::Directory for AsyncDir {
    type File = AsyncFile;

    fn entries(&self, visit: &mut dyn FnMut(&[u8], FileKind)) -> Result<u64, FsError> {
        let open = match self {
            Self::Open(open) => open,
            Self::Above(names) => {
                names.iter().for_each(|name| visit(name, FileKind::Directory));
                return Ok(0);
            }
        };
        let (mut stream, end) = open.read_directory();
        loop {
            let (_, entries) = block_on(stream.read(Vec::with_capacity(ENTRIES)));
            if entries.is_empty() {
                break;
            }
            entries.iter().for_each(|entry| visit(entry.name.as_bytes(), kind(&entry.type_)));
        }
        match block_on(end.into_future()) {
            Ok(()) => Ok(0),
            // Names that are not UTF-8: WASI cannot reach them, and does not say how many.
            Err(ErrorCode::IllegalByteSequence) => Ok(1),
            Err(code) => Err(meaning(code)),
        }
    }

    fn open_file(&self, name: &[u8]) -> Result<AsyncFile, FsError> {
        let Self::Open(open) = self else { return Err(FsError::Outside) };
        let name = std::str::from_utf8(name).map_err(|_| FsError::NotFound)?;
        let flags = DescriptorFlags::READ;
        let opened = open.open_at(PathFlags::empty(), name.to_owned(), OpenFlags::empty(), flags);
        block_on(opened).map(|file| AsyncFile::new(Some(file))).map_err(meaning)
    }
}
