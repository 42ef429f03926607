//! The memory of a module, as the functions of the host read and write it.
//!
//! Every address and length comes from the module. Both are checked against the memory's present
//! size before anything is read, written or allocated.

use super::errno::{CallError, CallResult, Errno};

/// The longest text that is copied into the host, in bytes. Paths are shorter, and the targets of
/// links too.
const MAX_TEXT: u32 = 64 << 10;

/// The most buffers in one call, the same as Linux's.
const MAX_BUFFERS: u32 = 1_024;

/// The size of the address and length of a buffer, in bytes.
const BUFFER: u32 = 8;

/// A part of a module's memory that the module named as a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) at: u32,
    pub(super) length: u32,
}

impl Buffer {
    /// Returns the parts of the buffer of at most this size.
    pub(super) fn chunks(self, size: u32) -> impl Iterator<Item = Buffer> {
        let starts = (0..self.length).step_by(size as usize);
        starts.map(move |start| Buffer {
            // The whole buffer was found to lie in the memory, so its end is an address.
            at: self.at.saturating_add(start),
            length: size.min(self.length - start),
        })
    }
}

/// The memory of a module during one call.
pub(super) struct ModuleMemory<'a>(pub(super) &'a mut [u8]);

impl ModuleMemory<'_> {
    pub(super) fn bytes(&self, buffer: Buffer) -> CallResult<&[u8]> {
        let (start, end) = range(buffer);
        self.0.get(start..end).ok_or_else(outside)
    }

    pub(super) fn bytes_mut(&mut self, buffer: Buffer) -> CallResult<&mut [u8]> {
        let (start, end) = range(buffer);
        self.0.get_mut(start..end).ok_or_else(outside)
    }

    /// Writes bytes at an address.
    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> CallResult {
        let length = u32::try_from(bytes.len()).map_err(|_| Errno::Overflow)?;
        self.bytes_mut(Buffer { at, length })?.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn write_u32(&mut self, at: u32, value: u32) -> CallResult {
        self.write(at, &value.to_le_bytes())
    }

    pub(super) fn write_u64(&mut self, at: u32, value: u64) -> CallResult {
        self.write(at, &value.to_le_bytes())
    }

    /// Reads this number of bytes at an address.
    pub(super) fn read<const LENGTH: usize>(&self, at: u32) -> CallResult<[u8; LENGTH]> {
        let rest = self.0.get(at as usize..);
        rest.and_then(|rest| rest.first_chunk()).copied().ok_or_else(outside)
    }

    /// Reads a text: a path, or the target of a link.
    pub(super) fn text(&self, at: u32, length: u32) -> CallResult<String> {
        if length > MAX_TEXT {
            return Err(Errno::Nametoolong.into());
        }
        let bytes = self.bytes(Buffer { at, length })?.to_vec();
        String::from_utf8(bytes).map_err(|_| Errno::Ilseq.into())
    }

    /// Reads a list of buffers. All of them lie in the memory.
    pub(super) fn buffers(&self, at: u32, count: u32) -> CallResult<Vec<Buffer>> {
        if count > MAX_BUFFERS {
            return Err(Errno::Inval.into());
        }
        let list = self.bytes(Buffer { at, length: count * BUFFER })?;
        let (entries, _) = list.as_chunks::<{ BUFFER as usize }>();
        let mut buffers = Vec::with_capacity(entries.len());
        for [a, b, c, d, length @ ..] in entries {
            let at = u32::from_le_bytes([*a, *b, *c, *d]);
            let buffer = Buffer { at, length: u32::from_le_bytes(*length) };
            self.bytes(buffer)?;
            buffers.push(buffer);
        }
        Ok(buffers)
    }
}

fn range(Buffer { at, length }: Buffer) -> (usize, usize) {
    let start = at as usize;
    (start, start.saturating_add(length as usize))
}

fn outside() -> CallError {
    let text = "it passed an address outside of its memory to a function of WASI";
    CallError::Trap(wasmtime::Error::msg(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_trap<T>(result: CallResult<T>) -> bool {
        matches!(result, Err(CallError::Trap(_)))
    }

    #[test]
    fn nothing_outside_of_the_memory_is_read_or_written() {
        let mut bytes = [7; 16];
        let mut memory = ModuleMemory(&mut bytes);
        for (at, length) in [(0, 17), (16, 1), (17, 0), (15, 2), (u32::MAX, 1), (1, u32::MAX)] {
            assert!(is_trap(memory.bytes(Buffer { at, length })), "{at} {length}");
            assert!(is_trap(memory.bytes_mut(Buffer { at, length })), "{at} {length}");
        }
        assert!(memory.bytes(Buffer { at: 16, length: 0 }).is_ok());
        assert!(is_trap(memory.write_u64(9, 0)) && memory.write_u64(8, 0).is_ok());
        assert!(is_trap(memory.read::<8>(9)) && is_trap(memory.read::<1>(u32::MAX)));
        assert!(is_trap(memory.text(0, 17)));
        assert!(matches!(memory.text(0, MAX_TEXT + 1), Err(CallError::Errno(Errno::Nametoolong))));
    }

    #[test]
    fn every_buffer_of_a_list_lies_in_the_memory() {
        let mut bytes = [0; 32];
        bytes[4] = 32;
        bytes[8] = 31;
        bytes[12] = 1;
        let whole = Buffer { at: 0, length: 32 };
        let last = Buffer { at: 31, length: 1 };
        let list = ModuleMemory(&mut bytes).buffers(0, 2).expect("a list");
        assert_eq!(list, [whole, last]);
        bytes[12] = 2;
        let memory = ModuleMemory(&mut bytes);
        assert!(is_trap(memory.buffers(0, 2)) && memory.buffers(0, 1).is_ok());
        assert!(is_trap(memory.buffers(8, 4)) && is_trap(memory.buffers(u32::MAX, 1)));
        let many = memory.buffers(0, u32::MAX);
        assert!(matches!(many, Err(CallError::Errno(Errno::Inval))));
    }

    #[test]
    fn a_buffer_is_cut_into_parts() {
        let parts: Vec<_> = Buffer { at: 10, length: 5 }.chunks(2).collect();
        let part = |at, length| Buffer { at, length };
        assert_eq!(parts, [part(10, 2), part(12, 2), part(14, 1)]);
        assert_eq!(Buffer { at: 10, length: 0 }.chunks(2).count(), 0);
    }
}
