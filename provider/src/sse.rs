//! Server-sent events, as far as the providers use them: names and data, out of bytes that
//! arrive in pieces of any size.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>.
//! Ids and times to reconnect are ignored: no answer is taken up again half-way. Every byte is
//! looked at once, so that one line of many megabytes costs no more than many lines; the crate
//! `eventsource-stream` scans such a line anew with every piece of it, and keeps everything
//! after a byte that is not UTF-8 to itself until the stream ends.

use thiserror::Error;

/// Text that is not UTF-8. Replacing it would change the arguments of a call.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the stream is not UTF-8")]
pub(crate) struct NotText;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its name; empty where none was given.
    pub(crate) name: String,
    /// Its data, the lines of it joined by line feeds.
    pub(crate) data: String,
}

/// Takes bytes and gives events. What stands after the last blank line is no event.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The line that has not ended.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// A line ended with a carriage return; a line feed right after it belongs to it.
    after_return: bool,
    /// The first line, which may begin with a byte order mark, is over.
    is_begun: bool,
}

impl SseParser {
    /// The events that end within these bytes.
    ///
    /// # Errors
    ///
    /// A line is not UTF-8.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, NotText> {
        let mut events = Vec::new();
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.line.extend_from_slice(&bytes[..end]);
            events.extend(self.end_line()?);
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                self.after_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.line.extend_from_slice(bytes);
        Ok(events)
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
            // `id`, `retry`, comments (an empty field) and what nobody knows.
            _ => {}
        }
        Ok(None)
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
        for piece in pieces {
            all.extend(parser.feed(piece)?.into_iter().map(|event| (event.name, event.data)));
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

    #[test]
    fn a_blank_line_without_data_is_no_event() {
        assert_eq!(events(&[b"event: ping\n\n\n\n: c\n\n"]).expect("text"), []);
    }
}
