//! Lines and words of a text that arrives in pieces.

use std::io::{Error, ErrorKind};
use std::mem;

/// Counts the pieces of a text.
#[derive(Default)]
pub struct Counter {
    line_ends: usize,
    words: usize,
    is_in_line: bool,
    is_in_word: bool,
}

impl Counter {
    pub fn add(&mut self, piece: &str) {
        for character in piece.chars() {
            self.is_in_line = character != '\n';
            self.line_ends += usize::from(!self.is_in_line);
            let is_in_word = !character.is_whitespace();
            self.words += usize::from(is_in_word && !self.is_in_word);
            self.is_in_word = is_in_word;
        }
    }

    pub fn lines(&self) -> usize {
        self.line_ends + usize::from(self.is_in_line)
    }

    pub fn words(&self) -> usize {
        self.words
    }
}

/// Makes text of bytes. A character may begin in one piece and end in the next.
#[derive(Default)]
pub struct Decoder {
    /// The beginning of a character.
    held: Vec<u8>,
}

impl Decoder {
    pub fn decode(&mut self, bytes: &[u8]) -> Result<String, Error> {
        self.held.extend_from_slice(bytes);
        let complete = match str::from_utf8(&self.held) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(not_utf8()),
        };
        let rest = self.held.split_off(complete);
        String::from_utf8(mem::replace(&mut self.held, rest)).map_err(|_| not_utf8())
    }

    /// Fails if the text ends within a character.
    pub fn finish(self) -> Result<(), Error> {
        if self.held.is_empty() { Ok(()) } else { Err(not_utf8()) }
    }
}

fn not_utf8() -> Error {
    Error::new(ErrorKind::InvalidData, "it is not UTF-8")
}
