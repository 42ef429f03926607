//! The place for a script in the component of the shell. With a script in it, the component is
//! that script as a tool.

/// A place of a fixed size for a script, among the data of a program. The program reads it. To
/// ship a script, it is written into the program's file at [`MAGIC`](Self::MAGIC).
///
/// All of it is bytes, so that it lies in the file as it is declared here. Numbers are
/// little-endian.
#[derive(Debug)]
#[repr(C)]
pub struct ScriptSlot {
    magic: [u8; 32],
    capacity: [u8; 4],
    length: [u8; 4],
    text: [u8; Self::CAPACITY],
}

impl ScriptSlot {
    /// The bytes with which a slot begins.
    pub const MAGIC: [u8; 32] = *b"ikigai:script-slot:1:7c3e9a05d1f";

    /// The number of bytes before the text: the magic, the capacity and the length of the text.
    pub const HEADER: usize = 40;

    /// The largest script, in bytes. A file that was built earlier may have another capacity,
    /// which its slot states.
    pub const CAPACITY: usize = (64 << 10) - Self::HEADER;

    /// The byte that fills the room after the text. It is not zero, because a linker may leave out
    /// data that are zero.
    pub const FILL: u8 = b'\n';

    /// Creates a slot without a script.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            magic: Self::MAGIC,
            capacity: (Self::CAPACITY as u32).to_le_bytes(),
            length: [0; 4],
            text: [Self::FILL; Self::CAPACITY],
        }
    }

    /// Returns the script, if there is one.
    #[must_use]
    pub fn script(&self) -> Option<&[u8]> {
        let length = usize::try_from(u32::from_le_bytes(self.length)).unwrap_or(usize::MAX);
        // An impossible length was not written by these rules. The whole text then shows the
        // problem best.
        (length > 0).then(|| self.text.get(..length).unwrap_or(&self.text))
    }
}

const _: () = assert!(size_of::<ScriptSlot>() == ScriptSlot::HEADER + ScriptSlot::CAPACITY);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_as_long_as_the_slot_says() {
        let mut slot = ScriptSlot::empty();
        assert_eq!(slot.script(), None);
        slot.text[..4].copy_from_slice(b"#!sh");
        slot.length = 4_u32.to_le_bytes();
        assert_eq!(slot.script(), Some(&b"#!sh"[..]));
        slot.length = [0xff; 4];
        assert_eq!(slot.script().map(<[u8]>::len), Some(ScriptSlot::CAPACITY));
    }
}
