//! The file port: with the caller's rights, or with the granted directories only.
//!
//! No operation blocks: files are opened in non-blocking mode and checked by their kind afterwards.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cap_std::fs::{FileTypeExt as _, OpenOptions, OpenOptionsExt as _};
use ikigai_protocol::{Access, DirsError};
use ikigai_tools::ports::{Directory, FileKind, Files, FsError, OpenedFile, WriteFailure};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};

use crate::errno::{meaning, meaning_of};
use crate::grants::Grants;
use crate::replace::{self, ReplaceTarget};

/// The file systems that report a failed write only when they are flushed: NFS, CIFS, SMB2, Ceph,
/// 9P and FUSE, by their magic numbers in `linux/magic.h` and similar headers.
const FLUSHED_LATE: [u32; 6] =
    [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x00C3_6400, 0x0102_1997, 0x6573_5546];

/// The files that a native tool can reach.
#[derive(Debug)]
pub struct NativeFiles {
    grants: Option<Grants>,
}

impl NativeFiles {
    /// Returns the files that the caller may reach.
    #[must_use]
    pub fn caller() -> Self {
        Self { grants: None }
    }

    /// Returns the files in the directories listed in `value`, which has the form of `IKIGAI_DIRS`.
    ///
    /// # Errors
    ///
    /// Returns an error if the list does not parse.
    pub fn granted(value: &OsStr) -> Result<Self, DirsError> {
        Ok(Self { grants: Some(Grants::open(value)?) })
    }

    fn open_for_reading(&self, path: &[u8]) -> Result<OwnedFd, FsError> {
        match &self.grants {
            None => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                fs::open(OsStr::from_bytes(path), flags, Mode::empty()).map_err(meaning)
            }
            Some(grants) => {
                let place = grants.place(path)?;
                let mut options = OpenOptions::new();
                options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
                let file = place.dir.open_with(&place.path, &options);
                Ok(file.map_err(|error| meaning_of(&error))?.into_std().into())
            }
        }
    }

    fn open_for_writing(&self, path: &[u8]) -> Result<OwnedFd, FsError> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        match &self.grants {
            None => {
                let flags =
                    flags | OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
                fs::open(OsStr::from_bytes(path), flags, Mode::from_raw_mode(0o666))
                    .map_err(meaning)
            }
            Some(grants) => {
                let place = grants.place(path)?;
                if place.access == Access::ReadOnly {
                    return Err(FsError::ReadOnlyGrant);
                }
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).custom_flags(flags.bits() as i32);
                let file = place.dir.open_with(&place.path, &options);
                Ok(file.map_err(|error| meaning_of(&error))?.into_std().into())
            }
        }
    }
}

impl Files for NativeFiles {
    type File = File;
    type Dir = NativeDir;

    fn open(&self, path: &[u8]) -> Result<OpenedFile<File>, FsError> {
        let fd = self.open_for_reading(path)?;
        let stat = fs::fstat(&fd).map_err(meaning)?;
        Ok(OpenedFile {
            kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            file: File::from(fd),
        })
    }

    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure> {
        let fd = self.open_for_writing(path).map_err(WriteFailure::Open)?;
        let stat = fs::fstat(&fd).map_err(|errno| WriteFailure::Open(meaning(errno)))?;
        if kind_of(FileType::from_raw_mode(stat.st_mode)) == FileKind::Pipe {
            return Err(WriteFailure::Open(FsError::NotRegular));
        }
        replace::lose_set_id(&fd).map_err(WriteFailure::Open)?;
        let mut file = File::from(fd);
        let written = file.write_all(contents).and_then(|()| flush(&file));
        written.map_err(|error| WriteFailure::Write(meaning_of(&error)))
    }

    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError> {
        let target = match &self.grants {
            None => ReplaceTarget::of_caller(Path::new(OsStr::from_bytes(path)))?,
            Some(grants) => ReplaceTarget::granted(&grants.place(path)?)?,
        };
        replace::replace(&target, contents)
    }

    fn kind(&self, path: &[u8], follow: bool) -> Result<FileKind, FsError> {
        let Some(grants) = &self.grants else {
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            let stat = fs::statat(CWD, OsStr::from_bytes(path), flags).map_err(meaning)?;
            return Ok(kind_of(FileType::from_raw_mode(stat.st_mode)));
        };
        let place = match grants.place(path) {
            Err(FsError::Outside) if grants.names_above(path).is_some() => {
                return Ok(FileKind::Directory);
            }
            place => place?,
        };
        let metadata = match follow {
            true => place.dir.metadata(&place.path),
            false => place.dir.symlink_metadata(&place.path),
        };
        let found = metadata.map_err(|error| meaning_of(&error))?.file_type();
        Ok(match () {
            () if found.is_file() => FileKind::Regular,
            () if found.is_dir() => FileKind::Directory,
            () if found.is_symlink() => FileKind::Symlink,
            () if found.is_char_device() => FileKind::Device,
            () if found.is_fifo() || found.is_socket() => FileKind::Pipe,
            () => FileKind::Other,
        })
    }

    fn open_dir(&self, path: &[u8]) -> Result<NativeDir, FsError> {
        match &self.grants {
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let fd = fs::open(OsStr::from_bytes(path), flags, Mode::empty());
                fd.map(NativeDir::Open).map_err(meaning)
            }
            Some(grants) => {
                let place = match grants.place(path) {
                    Err(FsError::Outside) => {
                        let names = grants.names_above(path).ok_or(FsError::Outside)?;
                        return Ok(NativeDir::Above(names));
                    }
                    place => place?,
                };
                // `open_dir` returns a handle that cannot be listed. In the sandbox, where the
                // kernel does not resolve the path as a whole, a slash at the end has the same
                // effect.
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(OFlags::DIRECTORY.bits() as i32);
                let path: PathBuf = place.path.components().collect();
                let dir = place.dir.open_with(&path, &options);
                Ok(NativeDir::Open(dir.map_err(|error| meaning_of(&error))?.into_std().into()))
            }
        }
    }
}

/// Asks those file systems for the result of a write, which they would otherwise report only on
/// closing, where `std` drops it.
fn flush(file: &File) -> io::Result<()> {
    let magic = fs::fstatfs(file)?.f_type as u32;
    if FLUSHED_LATE.contains(&magic) { file.sync_data() } else { Ok(()) }
}

fn kind_of(found: FileType) -> FileKind {
    match found {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharacterDevice => FileKind::Device,
        FileType::Fifo | FileType::Socket => FileKind::Pipe,
        FileType::BlockDevice | FileType::Unknown => FileKind::Other,
    }
}

/// A directory.
#[derive(Debug)]
pub enum NativeDir {
    /// An open directory.
    Open(OwnedFd),
    /// A directory that is not granted, with the names in it that lead to granted ones, each with
    /// whether it is a file.
    Above(Vec<(OsString, bool)>),
}

impl Directory for NativeDir {
    type File = File;

    fn entries(&self, visit: &mut dyn FnMut(&[u8], FileKind)) -> Result<u64, FsError> {
        let open = match self {
            Self::Open(open) => open,
            Self::Above(names) => {
                for (name, file) in names {
                    visit(
                        name.as_bytes(),
                        if *file { FileKind::Regular } else { FileKind::Directory },
                    );
                }
                return Ok(0);
            }
        };
        for entry in fs::Dir::read_from(open).map_err(meaning)? {
            let entry = entry.map_err(meaning)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let found = match entry.file_type() {
                // Some file systems do not report the kind in the listing.
                FileType::Unknown => match fs::statat(open, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            visit(name.to_bytes(), kind_of(found));
        }
        Ok(0)
    }

    /// Opens a single name, which cannot lead out of the handle if links are not followed.
    fn open_file(&self, name: &[u8]) -> Result<File, FsError> {
        let Self::Open(open) = self else { return Err(FsError::Outside) };
        if name.contains(&b'/') || name == b".." {
            return Err(FsError::Outside);
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(open, OsStr::from_bytes(name), flags, Mode::empty())
            .map(File::from)
            .map_err(meaning)
    }
}
