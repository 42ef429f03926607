//! `bash`: one shell command, its merged output and its exit code.
//!
//! The tool itself never fails, as the specification requires: a shell that cannot start is exit
//! code 127 with the reason as output. The port runs the command.

use std::collections::VecDeque;
use std::io::Write;

use ikigai_protocol::ToolCode;

use crate::answer::{CallOutcome, JsonAnswer, OUTPUT_CAP, ToolFailure};
use crate::args::Args;
use crate::json::{self, Escaper};
use crate::ports::Shell;

/// The exit code for a command that is not found, and for a shell that cannot start.
const EXIT_NOT_FOUND: i32 = 127;

/// The size of the end that is kept of an output that is too large, in bytes of the answer: the end
/// shows the result of a command.
const TAIL_BYTES: usize = 1 << 20;

/// The size of the beginning that is kept, with room left for the note about the cut.
const HEAD_BYTES: usize = OUTPUT_CAP - TAIL_BYTES - 256;

/// The most bytes that one byte becomes when it is escaped: `\u0001`.
const MOST_ESCAPED: usize = 6;

/// Answers one call. The beginning of the answer is written to `stdout` while the command runs, so
/// that it is there if the call is ended; the returned answer is the rest.
pub(crate) fn call<S: Shell>(shell: &S, args: &Args<'_>, stdout: &mut dyn Write) -> CallOutcome {
    let command = args.string("command")?;
    if command.contains('\0') {
        let message = "`command` holds a NUL byte, which no shell command can";
        return Err(ToolFailure::new(ToolCode::InvalidArg, message));
    }
    if command.is_empty() {
        return Ok(JsonAnswer::counted(b"", "exit_code", EXIT_NOT_FOUND as u64));
    }
    let mut output = TruncatingWriter::new(stdout);
    let exit_code = match shell.run(command, &mut |piece| output.push(piece)) {
        Ok(code) => code,
        Err(reason) => {
            output.push(format!("sh: {reason}\n").as_bytes());
            EXIT_NOT_FOUND
        }
    };
    Ok(output.finish().end_with("exit_code", exit_code))
}

/// A writer for an output of any size: it writes the beginning at once and keeps the end.
struct TruncatingWriter<'a> {
    stdout: &'a mut dyn Write,
    /// The part of the answer that is not written yet.
    answer: JsonAnswer,
    escaper: Escaper,
    /// `true` if the output so far ends in a newline, which belongs to the answer only if more
    /// follows.
    newline: bool,
    /// The number of escaped bytes of the beginning.
    head: usize,
    /// The end of the output, once the beginning is complete.
    end: Option<OutputTail>,
}

/// The end of an output that is too large.
#[derive(Debug, Default)]
struct OutputTail {
    kept: VecDeque<u8>,
    dropped: u64,
}

impl<'a> TruncatingWriter<'a> {
    fn new(stdout: &'a mut dyn Write) -> Self {
        let (answer, escaper) = (JsonAnswer::begin(), Escaper::default());
        Self { stdout, answer, escaper, newline: false, head: 0, end: None }
    }

    fn push(&mut self, piece: &[u8]) {
        for piece in piece.chunks(PIECE_BYTES) {
            match &mut self.end {
                Some(end) => end.push(piece),
                None => self.push_to_head(piece),
            }
        }
        // An error here occurs again when the whole answer is written, and is reported then.
        let text = self.answer.text();
        if self.stdout.write_all(text).and_then(|()| self.stdout.flush()).is_ok() {
            text.clear();
        }
    }

    fn push_to_head(&mut self, piece: &[u8]) {
        // A character that was cut in two waits in the escaper.
        if self.head + (piece.len() + 4) * MOST_ESCAPED > HEAD_BYTES {
            let mut end = OutputTail::default();
            end.push(&self.escaper.take());
            end.push(if self.newline { b"\n" } else { b"" });
            end.push(piece);
            self.end = Some(end);
            return;
        }
        let text = self.answer.text();
        let before = text.len();
        if self.newline {
            self.escaper.push(b"\n", text);
        }
        let shown = piece.strip_suffix(b"\n");
        self.newline = shown.is_some();
        self.escaper.push(shown.unwrap_or(piece), text);
        self.head += text.len() - before;
    }

    /// Returns the rest of the answer, without the one newline at the end of the output.
    fn finish(self) -> JsonAnswer {
        let Self { mut answer, mut escaper, end, .. } = self;
        escaper.finish(answer.text());
        if let Some(end) = end {
            end.finish(answer.text());
        }
        answer
    }
}

impl OutputTail {
    fn push(&mut self, piece: &[u8]) {
        self.kept.extend(piece);
        let excess = self.kept.len().saturating_sub(TAIL_BYTES);
        self.kept.drain(..excess);
        self.dropped += excess as u64;
    }

    fn finish(mut self, out: &mut Vec<u8>) {
        if self.kept.back() == Some(&b'\n') {
            self.kept.pop_back();
        }
        let mut end = Vec::new();
        let skipped = escape_suffix(self.kept.make_contiguous(), TAIL_BYTES, &mut end);
        let dropped = self.dropped + skipped as u64;
        if dropped > 0 {
            let note = format!("\n[... {dropped} bytes of output were cut here ...]\n");
            json::escape(note.as_bytes(), out);
        }
        out.extend_from_slice(&end);
    }
}

/// The number of bytes that are escaped at once.
const PIECE_BYTES: usize = 4096;

/// Appends as many pieces from the end as fit into `room`; returns the number of bytes left out.
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
        let mut out = Vec::new();
        let mut output = TruncatingWriter::new(&mut out);
        pieces.iter().for_each(|piece| output.push(piece));
        let rest = output.finish().end();
        out.extend_from_slice(rest.as_bytes());
        assert!(out.len() <= OUTPUT_CAP + 64, "{}", out.len());
        let text = String::from_utf8(out).expect("UTF-8");
        let inside = text.strip_prefix(r#"{"output":""#).expect("the beginning");
        inside.strip_suffix(r#""}"#).expect("the end").to_owned()
    }

    #[test]
    fn what_came_is_written_before_the_command_has_ended() {
        let mut out = Vec::new();
        let mut output = TruncatingWriter::new(&mut out);
        output.push("one\ntw\u{f6}\n".as_bytes());
        drop(output);
        assert_eq!(String::from_utf8_lossy(&out), "{\"output\":\"one\\ntw\u{f6}");
    }

    #[test]
    fn characters_and_newlines_that_are_cut_in_two_are_put_together() {
        let text = "\u{20ac}\n\n\u{f6}\n".as_bytes();
        for at in 0..=text.len() {
            let (a, b) = text.split_at(at);
            assert_eq!(collected(&[a, b]), "\u{20ac}\\n\\n\u{f6}", "cut at {at}");
        }
        assert_eq!(collected(&[b"a\xff", b"\xe2\x82"]), "a\u{fffd}\u{fffd}");
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
