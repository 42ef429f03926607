//! The functions that take a path.

use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::filesystem::Descriptor as HostDescriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use super::call::ModuleCall;
use super::descriptors::{Descriptor, OpenDirectory, OpenFile, borrowed};
use super::errno::{CallResult, Errno};
use super::status::{descriptor_flags, file_status, new_times, rights};
use crate::exec::wasm::paths;
use crate::exec::wasm::places::Handle;

/// The flag of a path whose last name is followed if it is a link.
const SYMLINK_FOLLOW: u32 = 1;

/// The flags of `path_open`.
mod open_flag {
    pub(super) const CREAT: u32 = 1;
    pub(super) const DIRECTORY: u32 = 1 << 1;
    pub(super) const EXCL: u32 = 1 << 2;
    pub(super) const TRUNC: u32 = 1 << 3;
    pub(super) const ALL: u32 = (1 << 4) - 1;
}

impl ModuleCall<'_> {
    /// Returns the handle of a directory, and a path beneath it.
    fn path(&mut self, fd: u32, path: u32, length: u32) -> CallResult<(Handle, String)> {
        let dir = borrowed(&self.module.descriptors.directory(fd)?.handle);
        Ok((dir, self.memory.text(path, length)?))
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has as many")]
    pub(super) async fn path_open(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        open: u32,
        rights: u64,
        _inherited: u64,
        flags: u32,
        opened: u32,
    ) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        let (lookup, open) = (path_flags(lookup)?, open_flags(open)?);
        let access = access(rights, flags)?;
        let handle = match paths::open_at(self.state, dir, lookup, path, open, access).await {
            // WASI 0.2 has no "too many open files".
            Err(_) if !self.state.may_open() => return Err(Errno::Mfile.into()),
            result => result?,
        };
        let entry = match self.state.ctx().table.get(&handle)? {
            HostDescriptor::Dir(_) => {
                Descriptor::Directory(OpenDirectory { handle, preopen: None, listing: None })
            }
            HostDescriptor::File(_) => Descriptor::File(OpenFile {
                handle,
                position: 0,
                appends: flags & descriptor_flags::APPEND != 0,
                is_nonblocking: flags & descriptor_flags::NONBLOCK != 0,
            }),
        };
        let number = self.module.descriptors.add(entry)?;
        self.memory.write_u32(opened, number)
    }

    pub(super) async fn path_filestat_get(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        at: u32,
    ) -> CallResult {
        let ((dir, path), lookup) = (self.path(fd, path, length)?, path_flags(lookup)?);
        let stat = paths::stat_at(self.state, borrowed(&dir), lookup, path.clone()).await?;
        let hash = paths::metadata_hash_at(self.state, dir, lookup, path).await?;
        self.memory.write(at, &file_status(&stat, hash)?)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has as many")]
    pub(super) async fn path_filestat_set_times(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        accessed: u64,
        modified: u64,
        flags: u32,
    ) -> CallResult {
        let (accessed, modified) = new_times(accessed, modified, flags)?;
        let ((dir, path), lookup) = (self.path(fd, path, length)?, path_flags(lookup)?);
        Ok(paths::set_times_at(self.state, dir, lookup, path, accessed, modified).await?)
    }

    pub(super) async fn path_readlink(
        &mut self,
        fd: u32,
        path: u32,
        length: u32,
        buffer: u32,
        room: u32,
        used: u32,
    ) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        let target = paths::readlink_at(self.state, dir, path).await?;
        let cut = &target.as_bytes()[..target.len().min(room as usize)];
        self.memory.write(buffer, cut)?;
        self.memory.write_u32(used, u32::try_from(cut.len()).map_err(|_| Errno::Overflow)?)
    }

    pub(super) async fn path_create_directory(
        &mut self,
        fd: u32,
        path: u32,
        length: u32,
    ) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        Ok(paths::create_directory_at(self.state, dir, path).await?)
    }

    pub(super) async fn path_remove_directory(
        &mut self,
        fd: u32,
        path: u32,
        length: u32,
    ) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        Ok(paths::remove_directory_at(self.state, dir, path).await?)
    }

    pub(super) async fn path_unlink_file(&mut self, fd: u32, path: u32, length: u32) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        Ok(paths::unlink_file_at(self.state, dir, path).await?)
    }

    pub(super) async fn path_symlink(
        &mut self,
        target: u32,
        target_length: u32,
        fd: u32,
        path: u32,
        length: u32,
    ) -> CallResult {
        let target = self.memory.text(target, target_length)?;
        let (dir, path) = self.path(fd, path, length)?;
        Ok(paths::symlink_at(self.state, dir, target, path).await?)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has as many")]
    pub(super) async fn path_link(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        new_fd: u32,
        new_path: u32,
        new_length: u32,
    ) -> CallResult {
        let ((dir, path), lookup) = (self.path(fd, path, length)?, path_flags(lookup)?);
        let (new_dir, new_path) = self.path(new_fd, new_path, new_length)?;
        Ok(paths::link_at(self.state, dir, lookup, path, new_dir, new_path).await?)
    }

    pub(super) async fn path_rename(
        &mut self,
        fd: u32,
        path: u32,
        length: u32,
        new_fd: u32,
        new_path: u32,
        new_length: u32,
    ) -> CallResult {
        let (dir, path) = self.path(fd, path, length)?;
        let (new_dir, new_path) = self.path(new_fd, new_path, new_length)?;
        Ok(paths::rename_at(self.state, dir, path, new_dir, new_path).await?)
    }
}

fn path_flags(flags: u32) -> Result<PathFlags, Errno> {
    match flags {
        0 => Ok(PathFlags::empty()),
        SYMLINK_FOLLOW => Ok(PathFlags::SYMLINK_FOLLOW),
        _ => Err(Errno::Inval),
    }
}

fn open_flags(flags: u32) -> Result<OpenFlags, Errno> {
    let known = [
        (open_flag::CREAT, OpenFlags::CREATE),
        (open_flag::DIRECTORY, OpenFlags::DIRECTORY),
        (open_flag::EXCL, OpenFlags::EXCLUSIVE),
        (open_flag::TRUNC, OpenFlags::TRUNCATE),
    ];
    if flags & !open_flag::ALL != 0 {
        return Err(Errno::Inval);
    }
    let set = known.into_iter().filter(|(flag, _)| flags & flag != 0);
    Ok(set.fold(OpenFlags::empty(), |all, (_, flag)| all | flag))
}

/// Returns the access that a program opens a file with, by the rights that it wants to have and
/// its flags.
fn access(wanted: u64, flags: u32) -> Result<DescriptorFlags, Errno> {
    if flags & !descriptor_flags::ALL != 0 {
        return Err(Errno::Inval);
    }
    let known = [
        (wanted & rights::FD_READ != 0, DescriptorFlags::READ),
        (wanted & rights::FD_WRITE != 0, DescriptorFlags::WRITE),
        (flags & descriptor_flags::DSYNC != 0, DescriptorFlags::DATA_INTEGRITY_SYNC),
        (flags & descriptor_flags::RSYNC != 0, DescriptorFlags::REQUESTED_WRITE_SYNC),
        (flags & descriptor_flags::SYNC != 0, DescriptorFlags::FILE_INTEGRITY_SYNC),
    ];
    let set = known.into_iter().filter(|(is_set, _)| *is_set);
    Ok(set.fold(DescriptorFlags::empty(), |all, (_, flag)| all | flag))
}
