//! The functions that read, write and move in an open file or stream.

use bytes::Bytes;
use rustix::io::{Errno as SystemErrno, pread};
use wasmtime::component::Resource;
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::filesystem::{Descriptor as HostDescriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{Advice, HostDescriptor as _};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, StreamError};

use super::call::{CHUNK, ModuleCall, pause};
use super::descriptors::{Descriptor, OpenFile, borrowed};
use super::errno::{CallResult, Errno};
use super::memory::Buffer;
use crate::exec::wasm::places::Handle;
use crate::exec::wasm::streams;

/// The place in a file that a write goes to.
#[derive(Clone, Copy)]
enum WritePlace {
    Offset(u64),
    End,
}

impl ModuleCall<'_> {
    pub(super) async fn fd_read(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        read: u32,
    ) -> CallResult {
        let buffers = self.memory.buffers(buffers, count)?;
        let length = match self.module.descriptors.get(fd)? {
            Descriptor::Input(input) => {
                let stream = borrowed(&input.stream);
                self.read_stream(stream, &buffers).await?
            }
            Descriptor::File(OpenFile { handle, position, .. }) => {
                let (handle, start) = (borrowed(handle), *position);
                let length = self.read_file(&handle, start, &buffers).await?;
                let end = start.checked_add(length.into()).ok_or(Errno::Overflow)?;
                self.module.descriptors.file(fd)?.position = end;
                length
            }
            Descriptor::Directory(_) => return Err(Errno::Isdir.into()),
            Descriptor::Output(_) => return Err(Errno::Badf.into()),
        };
        self.memory.write_u32(read, length)
    }

    pub(super) async fn fd_pread(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        read: u32,
    ) -> CallResult {
        let buffers = self.memory.buffers(buffers, count)?;
        let handle = match self.module.descriptors.get(fd)? {
            Descriptor::File(file) => borrowed(&file.handle),
            Descriptor::Directory(_) => return Err(Errno::Isdir.into()),
            Descriptor::Input(_) => return Err(Errno::Spipe.into()),
            Descriptor::Output(_) => return Err(Errno::Badf.into()),
        };
        let length = self.read_file(&handle, offset, &buffers).await?;
        self.memory.write_u32(read, length)
    }

    pub(super) async fn fd_write(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        written: u32,
    ) -> CallResult {
        let buffers = self.memory.buffers(buffers, count)?;
        let length = match self.module.descriptors.get(fd)? {
            Descriptor::Output(output) => {
                let stream = borrowed(&output.stream);
                self.write_stream(stream, &buffers).await?
            }
            Descriptor::File(file) => {
                let (handle, start, appends) =
                    (borrowed(&file.handle), file.position, file.appends);
                let place = if appends { WritePlace::End } else { WritePlace::Offset(start) };
                let length = self.write_file(&handle, place, &buffers).await?;
                let end = match place {
                    WritePlace::Offset(start) => {
                        start.checked_add(length.into()).ok_or(Errno::Overflow)?
                    }
                    WritePlace::End => self.state.filesystem().stat(handle).await?.size,
                };
                self.module.descriptors.file(fd)?.position = end;
                length
            }
            Descriptor::Directory(_) | Descriptor::Input(_) => return Err(Errno::Badf.into()),
        };
        self.memory.write_u32(written, length)
    }

    pub(super) async fn fd_pwrite(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        written: u32,
    ) -> CallResult {
        let buffers = self.memory.buffers(buffers, count)?;
        let (handle, appends) = match self.module.descriptors.get(fd)? {
            Descriptor::File(file) => (borrowed(&file.handle), file.appends),
            Descriptor::Output(_) => return Err(Errno::Spipe.into()),
            Descriptor::Directory(_) | Descriptor::Input(_) => return Err(Errno::Badf.into()),
        };
        // Linux, too, ignores the offset for a file that is appended to.
        let place = if appends { WritePlace::End } else { WritePlace::Offset(offset) };
        let length = self.write_file(&handle, place, &buffers).await?;
        self.memory.write_u32(written, length)
    }

    /// Reads what is there of a stream, into the first buffer that has room. Waits until something
    /// is there.
    async fn read_stream(
        &mut self,
        stream: Resource<DynInputStream>,
        buffers: &[Buffer],
    ) -> CallResult<u32> {
        let Some(buffer) = buffers.iter().find(|buffer| buffer.length > 0) else { return Ok(0) };
        let room = buffer.length.min(CHUNK) as usize;
        let bytes = match self.state.ctx().table.get_mut(&stream)?.blocking_read(room).await {
            Ok(bytes) if bytes.is_empty() => return Err(Errno::Intr.into()),
            Ok(bytes) => bytes,
            Err(StreamError::Closed) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        self.memory.write(buffer.at, bytes.get(..room).unwrap_or(&bytes))?;
        Ok(u32::try_from(bytes.len().min(room)).map_err(|_| Errno::Overflow)?)
    }

    /// Reads from a file until the buffers are full or the file ends.
    async fn read_file(
        &mut self,
        handle: &Handle,
        mut offset: u64,
        buffers: &[Buffer],
    ) -> CallResult<u32> {
        let mut all: u32 = 0;
        for part in parts(buffers) {
            if all > 0 {
                pause().await;
            }
            let HostDescriptor::File(file) = self.state.ctx().table.get(handle)? else {
                return Err(Errno::Badf.into());
            };
            // The kernel refuses to read a file that was opened for writing only.
            let read = match pread(&file.file, self.memory.bytes_mut(part)?, offset) {
                Ok(read) => read,
                Err(_) if all > 0 => break,
                Err(SystemErrno::INTR) => return Err(Errno::Intr.into()),
                Err(errno) => return Err(std::io::Error::from(errno).into()),
            };
            offset = offset.saturating_add(read as u64);
            let read = u32::try_from(read).map_err(|_| Errno::Overflow)?;
            all = all.checked_add(read).ok_or(Errno::Overflow)?;
            if read < part.length {
                break;
            }
        }
        Ok(all)
    }

    /// Writes all buffers to a stream.
    async fn write_stream(
        &mut self,
        stream: Resource<DynOutputStream>,
        buffers: &[Buffer],
    ) -> CallResult<u32> {
        let mut all: u32 = 0;
        for part in parts(buffers) {
            if all > 0 {
                pause().await;
            }
            let bytes = Bytes::copy_from_slice(self.memory.bytes(part)?);
            let stream = self.state.ctx().table.get_mut(&stream)?;
            stream.blocking_write_and_flush(bytes).await?;
            all = all.checked_add(part.length).ok_or(Errno::Overflow)?;
        }
        Ok(all)
    }

    /// Writes buffers to a file, until all are written or one is written in part.
    async fn write_file(
        &mut self,
        handle: &Handle,
        mut place: WritePlace,
        buffers: &[Buffer],
    ) -> CallResult<u32> {
        let mut all: u32 = 0;
        for part in parts(buffers) {
            if all > 0 {
                pause().await;
            }
            let written = match self.write_part(handle, place, part).await {
                Ok(written) => written,
                Err(error) if all == 0 => return Err(error),
                // What was written counts; the next write has the error.
                Err(_) => break,
            };
            if let WritePlace::Offset(offset) = &mut place {
                *offset = offset.saturating_add(written.into());
            }
            all = all.checked_add(written).ok_or(Errno::Overflow)?;
            if written < part.length {
                break;
            }
        }
        Ok(all)
    }

    async fn write_part(
        &mut self,
        handle: &Handle,
        place: WritePlace,
        part: Buffer,
    ) -> CallResult<u32> {
        let bytes = self.memory.bytes(part)?;
        match place {
            WritePlace::Offset(offset) => {
                let bytes = bytes.to_vec();
                let mut files = self.state.filesystem();
                let written = files.write(borrowed(handle), bytes, offset).await?;
                Ok(u32::try_from(written).map_err(|_| Errno::Overflow)?)
            }
            WritePlace::End => {
                let bytes = Bytes::copy_from_slice(bytes);
                let handle = borrowed(handle);
                let stream = streams::open(self.state, |files| files.append_via_stream(handle))?;
                let table = self.state.ctx().table;
                let written = table.get_mut(&stream)?.blocking_write_and_flush(bytes).await;
                table.delete(stream)?;
                written?;
                Ok(part.length)
            }
        }
    }

    pub(super) async fn fd_seek(
        &mut self,
        fd: u32,
        offset: i64,
        whence: u32,
        position: u32,
    ) -> CallResult {
        const SET: u32 = 0;
        const CURRENT: u32 = 1;
        const END: u32 = 2;

        let file = self.module.descriptors.seekable(fd)?;
        let start = match whence {
            SET => 0,
            CURRENT => file.position,
            END => {
                let handle = borrowed(&file.handle);
                self.state.filesystem().stat(handle).await?.size
            }
            _ => return Err(Errno::Inval.into()),
        };
        let end = start.checked_add_signed(offset).ok_or(Errno::Inval)?;
        self.module.descriptors.seekable(fd)?.position = end;
        self.memory.write_u64(position, end)
    }

    pub(super) fn fd_tell(&mut self, fd: u32, position: u32) -> CallResult {
        let now = self.module.descriptors.seekable(fd)?.position;
        self.memory.write_u64(position, now)
    }

    pub(super) async fn fd_sync(&mut self, fd: u32) -> CallResult {
        let handle = self.module.descriptors.handle(fd)?;
        Ok(self.state.filesystem().sync(handle).await?)
    }

    pub(super) async fn fd_datasync(&mut self, fd: u32) -> CallResult {
        let handle = self.module.descriptors.handle(fd)?;
        Ok(self.state.filesystem().sync_data(handle).await?)
    }

    pub(super) async fn fd_advise(
        &mut self,
        fd: u32,
        offset: u64,
        length: u64,
        advice: u32,
    ) -> CallResult {
        let handle = borrowed(&self.module.descriptors.file(fd)?.handle);
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::Inval.into()),
        };
        Ok(self.state.filesystem().advise(handle, offset, length, advice).await?)
    }

    /// Reserves no space, as wasmtime's own preview 1.
    pub(super) fn fd_allocate(&mut self, fd: u32, _offset: u64, _length: u64) -> CallResult {
        self.module.descriptors.file(fd)?;
        Err(Errno::Notsup.into())
    }

    pub(super) async fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> CallResult {
        let handle = borrowed(&self.module.descriptors.file(fd)?.handle);
        Ok(self.state.filesystem().set_size(handle, size).await?)
    }

    pub(super) fn fd_close(&mut self, fd: u32) -> CallResult {
        self.module.descriptors.remove(fd)?.close(self.state)
    }

    /// Gives a descriptor the number of another, which is closed.
    pub(super) fn fd_renumber(&mut self, from: u32, to: u32) -> CallResult {
        let descriptors = &mut self.module.descriptors;
        descriptors.get(from)?;
        descriptors.get(to)?;
        if from == to {
            return Ok(());
        }
        descriptors.remove(to)?.close(self.state)?;
        let moved = descriptors.remove(from)?;
        descriptors.put(to, moved);
        Ok(())
    }
}

/// Returns the parts of buffers that are read or written at once.
fn parts(buffers: &[Buffer]) -> impl Iterator<Item = Buffer> {
    buffers.iter().flat_map(|buffer| buffer.chunks(CHUNK))
}
