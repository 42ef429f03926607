//! `fd_readdir`, over the directory entry streams of components.
//!
//! A module reads a directory in pieces. Each entry has a cookie, from which the next call goes on.
//! Usually that is where the last call ended, and the stream is still there. Otherwise the
//! directory is read again from its beginning.

use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::filesystem::WasiFilesystemView as _;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DirectoryEntry, HostDescriptor as _, PathFlags,
};

use super::call::{ModuleCall, pause};
use super::descriptors::{Listing, borrowed};
use super::errno::{CallError, CallResult, Errno};
use super::memory::Buffer;
use super::status::{file_type, number};
use crate::exec::wasm::places::Handle;
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::{listing, paths};

/// The size of an entry before its name, in bytes.
const ENTRY: usize = 24;

/// The entries that every directory has, and that a stream leaves out: itself and its parent.
const DOTS: [&str; 2] = [".", ".."];

/// The number of entries between two checks of the deadline. With hidden names, 64 take about a
/// millisecond.
const ENTRIES_AT_ONCE: u64 = 64;

impl Listing {
    fn begin(state: &mut GuestState, directory: &Handle) -> CallResult<Self> {
        let stream = listing::read_directory(state, directory)?;
        Ok(Self { stream, cookie: DOTS.len() as u64, pending: None })
    }

    /// Returns the next entry and its cookie.
    fn next(&mut self, state: &mut GuestState) -> CallResult<Option<(u64, DirectoryEntry)>> {
        let cookie = self.cookie;
        let entry = match self.pending.take() {
            Some(entry) => Some(entry),
            None => listing::next(state, &self.stream)?,
        };
        self.cookie += 1;
        Ok(entry.map(|entry| (cookie, entry)))
    }

    /// Lets the call see its deadline now and then.
    async fn pause_at_times(&self) {
        if self.cookie.is_multiple_of(ENTRIES_AT_ONCE) {
            pause().await;
        }
    }

    /// Keeps an entry for the next call.
    fn keep(&mut self, cookie: u64, entry: DirectoryEntry) {
        (self.cookie, self.pending) = (cookie, Some(entry));
    }

    pub(super) fn close(self, state: &mut GuestState) -> CallResult {
        state.ctx().table.delete(self.stream)?;
        Ok(())
    }
}

/// The rest of a module's buffer for entries.
struct EntryBuffer {
    at: u32,
    room: u32,
}

impl EntryBuffer {
    /// Writes as many bytes as there is room for. Returns whether all were written.
    fn write(&mut self, call: &mut ModuleCall<'_>, bytes: &[u8]) -> CallResult<bool> {
        let cut = &bytes[..bytes.len().min(self.room as usize)];
        call.memory.write(self.at, cut)?;
        let written = u32::try_from(cut.len()).map_err(|_| Errno::Overflow)?;
        self.at = self.at.saturating_add(written);
        self.room -= written;
        Ok(cut.len() == bytes.len())
    }
}

impl ModuleCall<'_> {
    pub(super) async fn fd_readdir(
        &mut self,
        fd: u32,
        buffer: u32,
        length: u32,
        cookie: u64,
        used: u32,
    ) -> CallResult {
        self.memory.bytes(Buffer { at: buffer, length })?;
        let directory = self.module.descriptors.directory(fd)?;
        let (handle, listing) = (borrowed(&directory.handle), directory.listing.take());
        let mut listing = match listing {
            Some(listing) if cookie == listing.cookie => listing,
            other => {
                if let Some(other) = other {
                    other.close(self.state)?;
                }
                Listing::begin(self.state, &handle)?
            }
        };
        let mut rest = EntryBuffer { at: buffer, room: length };
        let listed = self.list(&handle, &mut listing, cookie, &mut rest).await;
        match listed {
            // It stays for the next call.
            Ok(false) => self.module.descriptors.directory(fd)?.listing = Some(listing),
            Ok(true) | Err(CallError::Errno(_)) => listing.close(self.state)?,
            Err(CallError::Trap(_)) => {}
        }
        listed?;
        self.memory.write_u32(used, length - rest.room)
    }

    /// Writes the entries from a cookie on. Returns whether the directory ended.
    async fn list(
        &mut self,
        handle: &Handle,
        listing: &mut Listing,
        cookie: u64,
        rest: &mut EntryBuffer,
    ) -> CallResult<bool> {
        let mut next = cookie;
        while let Some(name) = usize::try_from(next).ok().and_then(|index| DOTS.get(index)) {
            let own = self.state.filesystem().metadata_hash(borrowed(handle)).await?;
            next += 1;
            if !self.write_entry(rest, (next, own.lower), file_type::DIRECTORY, name)? {
                return Ok(false);
            }
        }
        while listing.cookie < next {
            listing.pause_at_times().await;
            if listing.next(self.state)?.is_none() {
                return Ok(true);
            }
        }
        while let Some((cookie, entry)) = listing.next(self.state)? {
            listing.pause_at_times().await;
            let (dir, name) = (borrowed(handle), entry.name.clone());
            let hash = paths::metadata_hash_at(self.state, dir, PathFlags::empty(), name).await;
            // Without an inode if it was removed in the meantime.
            let inode = hash.map_or(0, |hash| hash.lower);
            let kind = number(entry.type_);
            if !self.write_entry(rest, (cookie + 1, inode), kind, &entry.name)? {
                listing.keep(cookie, entry);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes an entry: the cookie of the one after it and its inode, its type and its name.
    /// Returns whether all of it was written.
    fn write_entry(
        &mut self,
        rest: &mut EntryBuffer,
        (next, inode): (u64, u64),
        kind: u8,
        name: &str,
    ) -> CallResult<bool> {
        let length = u32::try_from(name.len()).map_err(|_| Errno::Overflow)?;
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&next.to_le_bytes());
        entry[8..16].copy_from_slice(&inode.to_le_bytes());
        entry[16..20].copy_from_slice(&length.to_le_bytes());
        entry[20] = kind;
        Ok(rest.write(self, &entry)? && rest.write(self, name.as_bytes())?)
    }
}
