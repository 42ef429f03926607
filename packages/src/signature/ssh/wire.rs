//! The primitives of SSH messages (RFC 4251, section 5).

/// Bytes that are read from the front.
pub(super) struct SshReader<'a>(&'a [u8]);

impl<'a> SshReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Takes a positive integer in its shortest form, without the zero before a high bit.
    pub(super) fn positive(&mut self) -> Option<&'a [u8]> {
        match *self.string()? {
            [] => None,
            [0, ref rest @ ..] => rest.first().is_some_and(|byte| *byte >= 0x80).then_some(rest),
            [first, ..] if first >= 0x80 => None,
            ref bytes => Some(bytes),
        }
    }
}

/// Appends bytes after their length.
pub(super) fn put_string(message: &mut Vec<u8>, bytes: &[u8]) {
    // All such byte strings are shorter: names, digests, and parts of a signature of limited
    // length.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    message.extend(length.to_be_bytes());
    message.extend(bytes);
}
