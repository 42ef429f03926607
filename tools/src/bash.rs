//! `bash`: one shell command, its merged output and its exit code.
//!
//! Never an error of its own, as the specification has it: a shell that cannot
//! start is exit code 127 with the reason as output. How a command is run is the
//! port's.

use std::collections::VecDeque;

use ikigai_protocol::ToolCode;

use crate::answer::{Answer, Failure, OUTPUT_CAP, Outcome};
use crate::args::Args;
use crate::json;
use crate::ports::Shell;

/// "Command not found", and what the shell itself could not do.
const EXIT_NOT_FOUND: i32 = 127;

/// Kept from the end of an output that is too large, in bytes of the answer: the
/// end tells how a command came out.
const TAIL_BYTES: usize = 1 << 20;

/// Kept from the beginning, leaving room for the note on what was cut.
const HEAD_BYTES: usize = OUTPUT_CAP - TAIL_BYTES - 256;

/// Answers one call.
pub(crate) fn call<S: Shell>(shell: &S, args: &Args<'_>) -> Outcome {
    let command = args.string("command")?;
    if command.contains('\0') {
        let message = "`command` holds a NUL byte, which no shell command can";
        return Err(Failure::new(ToolCode::InvalidArg, message));
    }
    if command.is_empty() {
        return Ok(Answer::counted(b"", "exit_code", EXIT_NOT_FOUND as u64));
    }
    let mut output = Output::default();
    let exit_code = match shell.run(command, &mut |piece| output.push(piece)) {
        Ok(code) => code,
        Err(reason) => {
            output.push(format!("sh: {reason}\n").as_bytes());
            EXIT_NOT_FOUND
        }
    };
    let mut answer = Answer::begin();
    output.finish(answer.text());
    Ok(answer.end_with("exit_code", exit_code))
}

/// Collects an output of any size in bounded memory: its beginning and its end.
#[derive(Debug, Default)]
struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Output {
    fn push(&mut self, piece: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, tail) = piece.split_at(piece.len().min(room));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Appends what was kept, without the one newline at its end.
    fn finish(mut self, out: &mut Vec<u8>) {
        let last = if self.tail.is_empty() { self.head.last() } else { self.tail.back() };
        if last == Some(&b'\n') && self.tail.pop_back().is_none() {
            self.head.pop();
        }
        let begin = out.len();
        if self.dropped == 0 {
            self.head.extend(self.tail.drain(..));
            json::escape(&self.head, out);
            if out.len() - begin <= HEAD_BYTES + TAIL_BYTES {
                return;
            }
            // Escaped, it is too large after all: cut it as below.
            out.truncate(begin);
            let cut = self.head.len().saturating_sub(TAIL_BYTES);
            self.tail = self.head.split_off(cut).into();
        }
        let shown = escape_prefix(&self.head, HEAD_BYTES, out);
        self.dropped += (self.head.len() - shown) as u64;
        let mut end = Vec::new();
        let skipped = escape_suffix(self.tail.make_contiguous(), TAIL_BYTES, &mut end);
        self.dropped += skipped as u64;
        let note = format!("\n[... {} bytes of output were cut here ...]\n", self.dropped);
        json::escape(note.as_bytes(), out);
        out.extend_from_slice(&end);
    }
}

/// Escaped at once where the result must fit, in bytes.
const PIECE_BYTES: usize = 4096;

/// Appends as many pieces from the start as fit into `room`; returns their bytes.
fn escape_prefix(bytes: &[u8], room: usize, out: &mut Vec<u8>) -> usize {
    let limit = out.len() + room;
    let mut shown = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        let before = out.len();
        json::escape(piece, out);
        if out.len() > limit {
            out.truncate(before);
            break;
        }
        shown += piece.len();
    }
    shown
}

/// Appends as many pieces from the end as fit into `room`; returns the bytes left out.
fn escape_suffix(bytes: &[u8], room: usize, out: &mut Vec<u8>) -> usize {
    let mut from = bytes.len();
    let mut size = 0;
    let mut escaped = Vec::new();
    for piece in bytes.rchunks(PIECE_BYTES) {
        escaped.clear();
        json::escape(piece, &mut escaped);
        size += escaped.len();
        if size > room {
            break;
        }
        from -= piece.len();
    }
    json::escape(&bytes[from..], out);
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(pieces: &[&[u8]]) -> String {
        let mut output = Output::default();
        pieces.iter().for_each(|piece| output.push(piece));
        let mut out = Vec::new();
        output.finish(&mut out);
        assert!(out.len() <= OUTPUT_CAP, "{}", out.len());
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn one_newline_goes() {
        assert_eq!(collected(&[b"a\n", b"\n"]), "a\\n");
        assert_eq!(collected(&[b"\n"]), "");
        assert_eq!(collected(&[]), "");
    }

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end_and_says_so() {
        let chunk = vec![b'x'; 1 << 20];
        let mut pieces: Vec<&[u8]> = vec![b"first "];
        pieces.extend(std::iter::repeat_n(chunk.as_slice(), 20));
        pieces.push(b" last\n");
        let text = collected(&pieces);
        assert!(text.starts_with("first x") && text.ends_with("x last"));
        assert!(text.contains("bytes of output were cut here"));
    }

    #[test]
    fn control_bytes_that_swell_when_escaped_are_cut_too() {
        let chunk = vec![1; 1 << 20];
        let pieces: Vec<&[u8]> = std::iter::repeat_n(chunk.as_slice(), 4).collect();
        assert!(collected(&pieces).contains("bytes of output were cut here"));
        let few: Vec<&[u8]> = std::iter::repeat_n(chunk.as_slice(), 2).collect();
        assert!(!collected(&few).contains("cut here"));
    }
}
