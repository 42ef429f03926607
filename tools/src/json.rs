//! Writes JSON strings from bytes: escapes them, and replaces invalid UTF-8 by U+FFFD.
//!
//! Text is escaped once, from the file's buffer into the answer, so a large answer is held only
//! once. [`crate::args`] reads JSON.

use std::io::Write as _;

const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// The longest piece of an incomplete UTF-8 sequence, in bytes.
const MAX_PENDING: usize = 3;

/// Appends `bytes` to `out` as the inside of a JSON string.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        escape_valid(chunk.valid().as_bytes(), out);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

fn escape_valid(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = text.iter().position(|byte| needs_escape(*byte)) {
        out.extend_from_slice(&text[..at]);
        let byte = text[at];
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                // Writing to a Vec does not fail.
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// An escaper for a stream that arrives in pieces, so that a character cut in two by a buffer's
/// end is not replaced.
#[derive(Debug, Default)]
pub(crate) struct Escaper {
    pending: Vec<u8>,
}

impl Escaper {
    /// Appends the next piece.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut piece = piece;
        while !self.pending.is_empty() && !piece.is_empty() {
            self.pending.push(piece[0]);
            piece = &piece[1..];
            if incomplete_tail(&self.pending) == 0 {
                escape(&self.pending, out);
                self.pending.clear();
            } else if self.pending.len() > MAX_PENDING {
                break;
            }
        }
        let tail = incomplete_tail(piece);
        escape(&piece[..piece.len() - tail], out);
        self.pending.extend_from_slice(&piece[piece.len() - tail..]);
    }

    /// Returns the bytes that were held back, unescaped.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Appends the bytes that were held back.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        escape(&self.pending, out);
        self.pending.clear();
    }
}

/// Returns the number of bytes at the end that begin an unfinished character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(MAX_PENDING);
    for at in (from..bytes.len()).rev() {
        let width = match bytes[at] {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return 0,
        };
        let tail = &bytes[at..];
        // An error without a length means: valid so far, and cut off.
        let cut_off = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
        return if tail.len() < width && cut_off { tail.len() } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape(bytes, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn every_byte_comes_out_as_json() {
        let all: Vec<u8> = (0..=255).collect();
        let text: String = serde_json::from_str(&format!("\"{}\"", escaped(&all))).expect("JSON");
        assert_eq!(text, String::from_utf8_lossy(&all));
        assert_eq!(escaped(b"\"\\\n\x01\x7f"), "\\\"\\\\\\n\\u0001\u{7f}");
    }

    #[test]
    fn pieces_come_out_as_the_whole_would() {
        let samples: [&[u8]; 6] = [
            "aé日😀z".as_bytes(),
            b"\xf0\x9f\x98",
            b"x\xff\xe6\x97y\xc3",
            b"\xed\xa0\x80",
            b"\xf0\x90a\xc3\xc3\xa9",
            b"",
        ];
        for sample in samples {
            for step in 1..5 {
                let mut out = Vec::new();
                let mut escaper = Escaper::default();
                for piece in sample.chunks(step) {
                    escaper.push(piece, &mut out);
                }
                escaper.finish(&mut out);
                assert_eq!(
                    String::from_utf8(out).expect("UTF-8"),
                    escaped(sample),
                    "{sample:x?} by {step}"
                );
            }
        }
    }
}
