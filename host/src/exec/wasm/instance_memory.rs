//! The memory that the instances of a component take in the host, besides linear memories and
//! tables.
//!
//! wasmtime asks no limiter for it. Only the compiler knows the instances, so it writes their
//! memory after the code ([`InstanceMemory::append_to`]). Each call takes it from its own limit
//! before the instances are made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::bounds;
use super::engine::STACK;

/// The memory of all instances of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstanceMemory {
    /// The memory that wasmtime allocates when it makes the instances, in bytes.
    pub(super) allocated: u64,
    /// The number of component instances, nested ones too. Each has a table of handles, which
    /// grows during the call and never shrinks. A core module has none.
    pub(super) components: u64,
}

impl InstanceMemory {
    /// The mark before the two numbers. Code without it comes from another compiler.
    const MARK: [u8; 8] = *b"instance";

    /// The size of the mark and the two numbers after the code, in bytes.
    const SIZE: usize = Self::MARK.len() + 2 * size_of::<u64>();

    /// Appends the two numbers to compiled code. wasmtime reads the code by its headers, and
    /// nothing behind the last part that they name.
    #[cfg(feature = "compiler")]
    pub(super) fn append_to(self, code: &mut Vec<u8>) {
        code.reserve_exact(Self::SIZE);
        code.extend(Self::MARK);
        code.extend(self.allocated.to_le_bytes());
        code.extend(self.components.to_le_bytes());
    }

    /// Reads the two numbers after compiled code. Returns nothing if they are missing.
    #[cfg(feature = "compiler")]
    pub(super) fn after_code(code: &[u8]) -> Option<Self> {
        Self::from_bytes(code.last_chunk()?)
    }

    /// Reads the two numbers after the compiled code in a file.
    pub(super) fn after_code_in(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let at = length.checked_sub(Self::SIZE as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut bytes = [0; Self::SIZE];
        file.read_exact_at(&mut bytes, at)?;
        Self::from_bytes(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns whether the code is that of a core module. The outermost component is an instance.
    pub(super) fn are_of_a_module(self) -> bool {
        self.components == 0
    }

    fn from_bytes(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let numbers = bytes.strip_prefix(&Self::MARK)?;
        let (allocated, components) = numbers.split_first_chunk()?;
        Some(Self {
            allocated: u64::from_le_bytes(*allocated),
            components: u64::from_le_bytes(components.try_into().ok()?),
        })
    }

    /// Returns the bytes that count into the memory of a call which may have this number of
    /// handles at once.
    pub(super) fn counted(self, handles: usize) -> u64 {
        let slots = handles.checked_next_power_of_two().unwrap_or(usize::MAX) as u64;
        let each = slots.saturating_mul(bounds::HANDLE).saturating_add(bounds::COMPONENT_INSTANCE);
        let all = self.allocated.saturating_add(self.components.saturating_mul(each));
        all.saturating_sub(bounds::UNCOUNTED)
    }

    /// Returns the bytes of the stacks on which the tasks of an async component may wait.
    pub(super) fn stacks(self) -> u64 {
        self.components.saturating_sub(bounds::UNCOUNTED_STACKS).saturating_mul(STACK as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_INTERPRETER: InstanceMemory = InstanceMemory { allocated: 600 << 10, components: 2 };

    #[test]
    fn an_ordinary_component_takes_nothing_of_its_memory() {
        assert_eq!(OF_INTERPRETER.counted(bounds::RESOURCES), 0);
    }

    #[test]
    fn whatever_is_beyond_that_counts() {
        let large = InstanceMemory { allocated: 100 << 20, ..OF_INTERPRETER };
        assert!(large.counted(bounds::RESOURCES) > 98 << 20);
        let nested = InstanceMemory { components: 150_000, ..OF_INTERPRETER };
        assert!(nested.counted(bounds::RESOURCES) > 32 << 30);
        let most = InstanceMemory { allocated: u64::MAX, components: u64::MAX };
        assert_eq!(most.counted(usize::MAX), u64::MAX - bounds::UNCOUNTED);
    }

    #[cfg(feature = "compiler")]
    #[test]
    fn the_numbers_after_code_are_read_as_they_were_written() {
        use std::io::Write as _;

        let mut code = vec![7; 100];
        OF_INTERPRETER.append_to(&mut code);
        assert_eq!(InstanceMemory::after_code(&code), Some(OF_INTERPRETER));
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&code).expect("written");
        assert_eq!(InstanceMemory::after_code_in(&file).expect("read"), OF_INTERPRETER);
        file.set_len(10).expect("cut");
        assert!(InstanceMemory::after_code_in(&file).is_err());
        for other in [&code[..10], &[0; 100]] {
            assert_eq!(InstanceMemory::after_code(other), None);
        }
    }
}
