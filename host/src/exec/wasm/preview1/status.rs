//! The functions that tell and change the attributes of a descriptor or a file.

use wasmtime_wasi::filesystem::WasiFilesystemView as _;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, DescriptorType, HostDescriptor as _, MetadataHashValue,
    NewTimestamp,
};

use super::call::ModuleCall;
use super::descriptors::{Descriptor, OpenDirectory, OpenFile, borrowed};
use super::errno::{CallResult, Errno};

/// The number of nanoseconds in a second.
pub(super) const NANOSECONDS: u64 = 1_000_000_000;

/// The types of files.
pub(super) mod file_type {
    pub(in super::super) const UNKNOWN: u8 = 0;
    pub(in super::super) const BLOCK_DEVICE: u8 = 1;
    pub(in super::super) const CHARACTER_DEVICE: u8 = 2;
    pub(in super::super) const DIRECTORY: u8 = 3;
    pub(in super::super) const REGULAR_FILE: u8 = 4;
    pub(in super::super) const SOCKET_STREAM: u8 = 6;
    pub(in super::super) const SYMBOLIC_LINK: u8 = 7;
}

/// The flags of a descriptor.
pub(super) mod descriptor_flags {
    pub(in super::super) const APPEND: u32 = 1;
    pub(in super::super) const DSYNC: u32 = 1 << 1;
    pub(in super::super) const NONBLOCK: u32 = 1 << 2;
    pub(in super::super) const RSYNC: u32 = 1 << 3;
    pub(in super::super) const SYNC: u32 = 1 << 4;
    pub(in super::super) const ALL: u32 = (1 << 5) - 1;
}

/// The rights of a descriptor. Programs look at them; the host enforces the grant.
pub(super) mod rights {
    pub(in super::super) const FD_READ: u64 = 1 << 1;
    pub(super) const FD_SEEK: u64 = 1 << 2;
    pub(in super::super) const FD_WRITE: u64 = 1 << 6;
    pub(super) const FD_READDIR: u64 = 1 << 14;
    pub(super) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    pub(super) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    pub(super) const ALL: u64 = (1 << 30) - 1;

    /// `fd_filestat_*` except for the size, `fd_readdir`, and `path_*` except for the size: the
    /// rights of a granted directory.
    pub(super) const OF_DIRECTORIES: u64 = FD_READDIR
        | (1 << 9)
        | (1 << 10)
        | (1 << 11)
        | (1 << 12)
        | (1 << 13)
        | (1 << 15)
        | (1 << 16)
        | (1 << 17)
        | (1 << 18)
        | (1 << 20)
        | (1 << 21)
        | (1 << 23)
        | (1 << 24)
        | (1 << 25)
        | (1 << 26);

    /// `fd_*` of files, and `poll_fd_readwrite`: what is opened in it may have these as well.
    pub(super) const OF_FILES: u64 = ((1 << 9) - 1) | (1 << 21) | (1 << 22) | (1 << 23) | (1 << 27);
}

/// The attributes of a descriptor, as `fdstat`.
struct DescriptorStatus {
    file_type: u8,
    flags: u32,
    rights: u64,
    inherited: u64,
}

impl DescriptorStatus {
    fn of_stream(is_terminal: bool, rights: u64) -> Self {
        Self { file_type: type_of_stream(is_terminal), flags: 0, rights, inherited: rights }
    }

    fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[0] = self.file_type;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes()[..2]);
        bytes[8..16].copy_from_slice(&self.rights.to_le_bytes());
        bytes[16..].copy_from_slice(&self.inherited.to_le_bytes());
        bytes
    }
}

impl ModuleCall<'_> {
    pub(super) async fn fd_fdstat_get(&mut self, fd: u32, at: u32) -> CallResult {
        let status = match self.module.descriptors.get(fd)? {
            Descriptor::Input(input) => {
                DescriptorStatus::of_stream(input.is_terminal, rights::FD_READ)
            }
            Descriptor::Output(output) => {
                DescriptorStatus::of_stream(output.is_terminal, rights::FD_WRITE)
            }
            Descriptor::Directory(OpenDirectory { preopen: Some(_), .. }) => DescriptorStatus {
                file_type: file_type::DIRECTORY,
                flags: 0,
                rights: rights::OF_DIRECTORIES,
                inherited: rights::OF_DIRECTORIES | rights::OF_FILES,
            },
            Descriptor::Directory(directory) => {
                let handle = borrowed(&directory.handle);
                let own = self.state.filesystem().get_flags(handle).await?;
                let lost =
                    rights::FD_SEEK | rights::FD_FILESTAT_SET_SIZE | rights::PATH_FILESTAT_SET_SIZE;
                let rights = rights_of(own) & !lost;
                let file_type = file_type::DIRECTORY;
                DescriptorStatus { file_type, flags: 0, rights, inherited: rights }
            }
            Descriptor::File(OpenFile { handle, appends, is_nonblocking, .. }) => {
                let (handle, again) = (borrowed(handle), borrowed(handle));
                let mut flags = 0;
                if *appends {
                    flags |= descriptor_flags::APPEND;
                }
                if *is_nonblocking {
                    flags |= descriptor_flags::NONBLOCK;
                }
                let own = self.state.filesystem().get_flags(handle).await?;
                let kind = self.state.filesystem().get_type(again).await?;
                let rights = rights_of(own);
                let flags = flags | sync_flags(own);
                DescriptorStatus { file_type: number(kind), flags, rights, inherited: rights }
            }
        };
        self.memory.write(at, &status.to_bytes())
    }

    /// Changes whether writes append, and whether calls wait, which the host only remembers.
    pub(super) fn fd_fdstat_set_flags(&mut self, fd: u32, flags: u32) -> CallResult {
        const CHANGES: u32 = descriptor_flags::APPEND | descriptor_flags::NONBLOCK;

        let file = self.module.descriptors.file(fd)?;
        if flags & !CHANGES != 0 {
            return Err(Errno::Inval.into());
        }
        file.appends = flags & descriptor_flags::APPEND != 0;
        file.is_nonblocking = flags & descriptor_flags::NONBLOCK != 0;
        Ok(())
    }

    pub(super) fn fd_fdstat_set_rights(
        &mut self,
        fd: u32,
        _base: u64,
        _inherited: u64,
    ) -> CallResult {
        self.module.descriptors.handle(fd)?;
        Err(Errno::Notsup.into())
    }

    pub(super) async fn fd_filestat_get(&mut self, fd: u32, at: u32) -> CallResult {
        let status = match self.module.descriptors.get(fd)? {
            Descriptor::Input(input) => stream_status(input.is_terminal),
            Descriptor::Output(output) => stream_status(output.is_terminal),
            Descriptor::File(OpenFile { handle, .. })
            | Descriptor::Directory(OpenDirectory { handle, .. }) => {
                let (handle, again) = (borrowed(handle), borrowed(handle));
                let stat = self.state.filesystem().stat(handle).await?;
                let hash = self.state.filesystem().metadata_hash(again).await?;
                file_status(&stat, hash)?
            }
        };
        self.memory.write(at, &status)
    }

    pub(super) async fn fd_filestat_set_times(
        &mut self,
        fd: u32,
        accessed: u64,
        modified: u64,
        flags: u32,
    ) -> CallResult {
        let (accessed, modified) = new_times(accessed, modified, flags)?;
        let handle = self.module.descriptors.handle(fd)?;
        Ok(self.state.filesystem().set_times(handle, accessed, modified).await?)
    }

    pub(super) fn fd_prestat_get(&mut self, fd: u32, at: u32) -> CallResult {
        let name = self.preopen(fd)?;
        let length = u32::try_from(name.len()).map_err(|_| Errno::Overflow)?;
        // The kind of a directory, the only one.
        self.memory.write_u32(at, 0)?;
        self.memory.write_u32(at.saturating_add(4), length)
    }

    pub(super) fn fd_prestat_dir_name(&mut self, fd: u32, name: u32, length: u32) -> CallResult {
        let text = self.preopen(fd)?;
        if text.len() > length as usize {
            return Err(Errno::Nametoolong.into());
        }
        self.memory.write(name, text.as_bytes())
    }

    /// Returns the name of a granted directory.
    fn preopen(&mut self, fd: u32) -> CallResult<String> {
        match self.module.descriptors.get(fd)? {
            Descriptor::Directory(OpenDirectory { preopen: Some(name), .. }) => Ok(name.clone()),
            _ => Err(Errno::Badf.into()),
        }
    }
}

/// Returns the attributes of a file, as `filestat`.
pub(super) fn file_status(stat: &DescriptorStat, hash: MetadataHashValue) -> CallResult<[u8; 64]> {
    let mut bytes = [0; 64];
    // One device: WASI 0.2 tells none.
    bytes[0] = 1;
    bytes[8..16].copy_from_slice(&hash.lower.to_le_bytes());
    bytes[16] = number(stat.type_);
    bytes[24..32].copy_from_slice(&stat.link_count.to_le_bytes());
    bytes[32..40].copy_from_slice(&stat.size.to_le_bytes());
    let times = [
        stat.data_access_timestamp,
        stat.data_modification_timestamp,
        stat.status_change_timestamp,
    ];
    for (time, place) in times.into_iter().zip(bytes[40..].chunks_exact_mut(8)) {
        let time = time.map_or(Ok(0), nanoseconds)?;
        place.copy_from_slice(&time.to_le_bytes());
    }
    Ok(bytes)
}

fn stream_status(is_terminal: bool) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[16] = type_of_stream(is_terminal);
    bytes
}

fn type_of_stream(is_terminal: bool) -> u8 {
    if is_terminal { file_type::CHARACTER_DEVICE } else { file_type::UNKNOWN }
}

/// Returns the number of a type of file.
pub(super) fn number(kind: DescriptorType) -> u8 {
    match kind {
        DescriptorType::BlockDevice => file_type::BLOCK_DEVICE,
        DescriptorType::CharacterDevice => file_type::CHARACTER_DEVICE,
        DescriptorType::Directory => file_type::DIRECTORY,
        DescriptorType::RegularFile => file_type::REGULAR_FILE,
        DescriptorType::Socket => file_type::SOCKET_STREAM,
        DescriptorType::SymbolicLink => file_type::SYMBOLIC_LINK,
        // Preview 1 has no number for a FIFO.
        DescriptorType::Fifo | DescriptorType::Unknown => file_type::UNKNOWN,
    }
}

/// Returns a time in nanoseconds since 1970.
pub(super) fn nanoseconds(time: Datetime) -> Result<u64, Errno> {
    let seconds = time.seconds.checked_mul(NANOSECONDS);
    seconds.and_then(|all| all.checked_add(time.nanoseconds.into())).ok_or(Errno::Overflow)
}

/// Returns the times that a file is to get, by the flags of `fstflags`.
pub(super) fn new_times(
    accessed: u64,
    modified: u64,
    flags: u32,
) -> Result<(NewTimestamp, NewTimestamp), Errno> {
    let time = |time: u64, flags: u32| match flags & 0b11 {
        0b00 => Ok(NewTimestamp::NoChange),
        0b01 => Ok(NewTimestamp::Timestamp(Datetime {
            seconds: time / NANOSECONDS,
            nanoseconds: u32::try_from(time % NANOSECONDS).map_err(|_| Errno::Inval)?,
        })),
        0b10 => Ok(NewTimestamp::Now),
        _ => Err(Errno::Inval),
    };
    if flags & !0b1111 != 0 {
        return Err(Errno::Inval);
    }
    Ok((time(accessed, flags)?, time(modified, flags >> 2)?))
}

fn rights_of(flags: DescriptorFlags) -> u64 {
    let mut own = rights::ALL;
    if !flags.contains(DescriptorFlags::READ) {
        own &= !(rights::FD_READ | rights::FD_READDIR);
    }
    if !flags.contains(DescriptorFlags::WRITE) {
        own &= !rights::FD_WRITE;
    }
    own
}

fn sync_flags(flags: DescriptorFlags) -> u32 {
    let known = [
        (DescriptorFlags::DATA_INTEGRITY_SYNC, descriptor_flags::DSYNC),
        (DescriptorFlags::REQUESTED_WRITE_SYNC, descriptor_flags::RSYNC),
        (DescriptorFlags::FILE_INTEGRITY_SYNC, descriptor_flags::SYNC),
    ];
    known.iter().filter(|(own, _)| flags.contains(*own)).fold(0, |all, (_, flag)| all | flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_set_by_their_flags() {
        let time = Datetime { seconds: 2, nanoseconds: 5 };
        let set = new_times(2 * NANOSECONDS + 5, 7, 0b1001).expect("times");
        assert!(matches!(set.0, NewTimestamp::Timestamp(it) if it.seconds == time.seconds
            && it.nanoseconds == time.nanoseconds));
        assert!(matches!(set.1, NewTimestamp::Now));
        let unchanged = new_times(1, 1, 0).expect("times");
        assert!(matches!(unchanged, (NewTimestamp::NoChange, NewTimestamp::NoChange)));
        for flags in [0b11, 0b1100, 0b1_0000] {
            assert!(matches!(new_times(0, 0, flags), Err(Errno::Inval)), "{flags}");
        }
        assert_eq!(nanoseconds(time), Ok(2_000_000_005));
        let late = Datetime { seconds: u64::MAX, nanoseconds: 0 };
        assert_eq!(nanoseconds(late), Err(Errno::Overflow));
    }
}
