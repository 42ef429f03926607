//! A parser of server-sent events, as far as the providers use them: names and data, from bytes in
//! pieces of any size.
//!
//! The format is
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>. Ids
//! and reconnection times are ignored, because answers are never resumed. Every byte is read once,
//! so that one line of many megabytes costs no more than many lines. The crate `eventsource-stream`
//! scans such a line again with every piece of it. It also holds back everything after a byte that
//! is not UTF-8 until the stream ends.

use thiserror::Error;

/// The error for text that is not UTF-8. Replacing the bytes would change the arguments of a call.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the stream is not UTF-8")]
pub(crate) struct NotText;

/// A server-sent event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The name; empty if the event has no name.
    pub(crate) name: String,
    /// The lines of data, joined by line feeds.
    pub(crate) data: String,
}

/// The state of a stream at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEnd {
    /// True if it ended within a line or an event, before the blank line that ends an event.
    pub(crate) is_cut: bool,
    /// The lines that have no field of the format, joined by line feeds. Servers send them when
    /// they abandon a stream, or never begin one. At most [`MAX_STRAYS`] bytes.
    pub(crate) strays: String,
}

/// The maximum size of the lines that are kept in order to report what was sent instead of a
/// stream.
const MAX_STRAYS: usize = 64 << 10;

/// A parser of server-sent events. Bytes after the last blank line are not an event.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The beginning of a line that has not ended.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// True if the last byte was a carriage return. A line feed right after it belongs to it.
    after_return: bool,
    /// True after the first line, which may begin with a byte order mark.
    is_begun: bool,
    strays: String,
}

impl SseParser {
    /// Takes bytes up to the end of the next event and returns the event. If there is no complete
    /// event, takes all bytes and returns nothing. An event is returned before the bytes after it
    /// are parsed, so that it makes no difference where a network cuts the stream.
    ///
    /// # Errors
    ///
    /// Fails if a line is not UTF-8.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<SseEvent>, NotText> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.line.extend_from_slice(&bytes[..end]);
            let is_return = bytes[end] == b'\r';
            *bytes = &bytes[end + 1..];
            if is_return {
                self.after_return = bytes.is_empty();
                *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            if let Some(event) = self.end_line()? {
                return Ok(Some(event));
            }
        }
        self.line.extend_from_slice(bytes);
        *bytes = &[];
        Ok(None)
    }

    /// Ends the stream and returns the rest of it.
    pub(crate) fn finish(mut self) -> StreamEnd {
        let is_within_line = !self.line.is_empty();
        if is_within_line {
            // A line that ends within a character is not text, and is dropped.
            self.end_line().unwrap_or_default();
        }
        let is_within_event = self.has_data || !self.name.is_empty();
        StreamEnd { is_cut: is_within_line || is_within_event, strays: self.strays }
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, NotText> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| NotText)?;
        if !std::mem::replace(&mut self.is_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            // A line with an empty field name is a comment.
            "id" | "retry" | "" => {}
            _ => self.stray(line),
        }
        Ok(None)
    }

    fn stray(&mut self, line: &str) {
        if !self.strays.is_empty() && self.strays.len() < MAX_STRAYS {
            self.strays.push('\n');
        }
        let room = MAX_STRAYS - self.strays.len();
        self.strays.push_str(&line[..line.floor_char_boundary(room)]);
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let event =
            SseEvent { name: std::mem::take(&mut self.name), data: std::mem::take(&mut self.data) };
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, NotText> {
        let mut parser = SseParser::default();
        let mut all = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(event) = parser.next(&mut piece)? {
                all.push((event.name, event.data));
            }
        }
        Ok(all)
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn fields_comments_and_endings() {
        let stream = "\u{feff}: hello\r\nevent: a\r\ndata: one\r\ndata:two\r\nid: 7\r\n\r\n\
                      data\n\nevent: lost\n\rdata:  kept space\r\rdata: x: y\nretry: 5\n\n\
                      data: never ended\n";
        let expected =
            [pair("a", "one\ntwo"), pair("", ""), pair("", " kept space"), pair("", "x: y")];
        assert_eq!(events(&[stream.as_bytes()]).expect("text"), expected);
        for size in 1..stream.len() {
            let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            assert_eq!(events(&pieces).expect("text"), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_character_may_arrive_in_two_pieces() {
        let stream = "data: 👍é\n\n".as_bytes();
        for cut in 0..stream.len() {
            let found = events(&[&stream[..cut], &[], &stream[cut..]]).expect("text");
            assert_eq!(found, [pair("", "👍é")], "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        for bytes in [&b"data: \xff\n\n"[..], b"data: \xf0\x9f\n\n", b"\xc3\ndata: a\n\n"] {
            assert_eq!(events(&[bytes]), Err(NotText), "{bytes:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(events(&single), Err(NotText), "{bytes:?}");
        }
    }

    fn rest(stream: &[u8]) -> StreamEnd {
        let mut parser = SseParser::default();
        for byte in stream {
            parser.next(&mut &[*byte][..]).expect("text");
        }
        parser.finish()
    }

    #[test]
    fn what_a_stream_leaves_when_it_ends() {
        for whole in ["", "data: a\n\n", "data: a\r\n\r", ": c\nid: 7\nretry: 1\n", "\n\n"] {
            assert_eq!(rest(whole.as_bytes()), StreamEnd::default(), "{whole:?}");
        }
        for cut in ["d", "data: a", "data: a\n", "data: a\n\nevent: b\n", ": c", "data: é"] {
            let found = rest(&cut.as_bytes()[..cut.len() - usize::from(cut.ends_with('é'))]);
            assert!(found.is_cut, "{cut:?}");
            assert_eq!(found.strays, if cut == "d" { "d" } else { "" }, "{cut:?}");
        }
        let bare = rest(b"data: a\n\n{\r\n  \"error\": {}\r\n}\n: c\n\nx");
        assert_eq!(bare, StreamEnd { is_cut: true, strays: "{\n  \"error\": {}\n}\nx".to_owned() });
        let page = format!("<p>{}\n", "é".repeat(10));
        let found = rest(page.repeat(MAX_STRAYS / 20).as_bytes());
        assert!(found.strays.starts_with(&page.repeat(2)), "{}", &found.strays[..50]);
        assert!((MAX_STRAYS - 1..=MAX_STRAYS).contains(&found.strays.len()));
    }

    #[test]
    fn a_blank_line_without_data_is_no_event() {
        assert_eq!(events(&[b"event: ping\n\n\n\n: c\n\n"]).expect("text"), []);
    }
}
