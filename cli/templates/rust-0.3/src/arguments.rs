//! The arguments of a call, which arrive in pieces. The text is counted and dropped; the rest is JSON
//! that is small enough to keep.

use std::mem;

use serde_json::{Map, Value};

use crate::count::{Counter, Decoder};

/// The input is not one JSON object.
pub struct Malformed;

/// The length of the longest escape in a string of JSON, as in `"\ud83d\ude00"`.
const LONGEST_ESCAPE: usize = 12;

#[derive(Default)]
pub struct ArgumentsReader {
    decoder: Decoder,
    /// The beginning of an escape.
    held: String,
    /// The arguments, with an empty string in place of the text.
    kept: String,
    place: Place,
    /// The number of objects and lists around the place.
    depth: usize,
    text: Counter,
}

/// The place in the JSON up to which it was read.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    BetweenStrings,
    String,
    Text,
}

/// The arguments of a call: what was counted, and the path.
pub struct Arguments {
    pub text: Option<Counter>,
    pub path: Option<String>,
}

impl ArgumentsReader {
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let piece = self.decoder.decode(bytes).map_err(|_| Malformed)?;
        let piece = mem::take(&mut self.held) + &piece;
        let mut left = piece.as_str();
        while !left.is_empty() {
            let after = match self.place {
                Place::BetweenStrings => self.go_to_string(left),
                Place::String | Place::Text => self.go_through_string(left)?,
            };
            if after.len() == left.len() {
                break;
            }
            left = after;
        }
        if left.len() > LONGEST_ESCAPE {
            return Err(Malformed);
        }
        self.held = left.to_owned();
        Ok(())
    }

    /// Keeps everything before the next string, and returns what comes after its first quote.
    fn go_to_string<'a>(&mut self, left: &'a str) -> &'a str {
        let (before, after) = left.split_at(left.find('"').unwrap_or(left.len()));
        let opened = before.matches(['{', '[']).count();
        let closed = before.matches(['}', ']']).count();
        self.depth = (self.depth + opened).saturating_sub(closed);
        self.kept.push_str(before);
        let Some(after) = after.strip_prefix('"') else { return after };
        self.place = if self.is_before_text() {
            self.text = Counter::default();
            Place::Text
        } else {
            Place::String
        };
        self.kept.push('"');
        after
    }

    /// Returns whether the next value belongs to the key `text` of the outermost object.
    fn is_before_text(&self) -> bool {
        let key = self.kept.trim_end().strip_suffix(':').map(str::trim_end);
        let before = key.and_then(|key| key.strip_suffix("\"text\"")).map(str::trim_end);
        self.depth == 1 && before.is_some_and(|before| before.ends_with(['{', ',']))
    }

    /// Counts or keeps as much of a string as is complete, and returns what comes after it.
    fn go_through_string<'a>(&mut self, left: &'a str) -> Result<&'a str, Malformed> {
        let (contents, after) = left.split_at(complete_length(left));
        match self.place {
            Place::Text => {
                let json = format!("\"{contents}\"");
                self.text.add(&serde_json::from_str::<String>(&json).map_err(|_| Malformed)?);
            }
            _ => self.kept.push_str(contents),
        }
        let Some(after) = after.strip_prefix('"') else { return Ok(after) };
        self.place = Place::BetweenStrings;
        self.kept.push('"');
        Ok(after)
    }

    /// Reads the arguments without the text.
    pub fn finish(mut self) -> Result<Arguments, Malformed> {
        self.decoder.finish().map_err(|_| Malformed)?;
        let kept: Map<String, Value> = serde_json::from_str(&self.kept).map_err(|_| Malformed)?;
        let string = |name: &str| kept.get(name).and_then(Value::as_str);
        // It is not empty if its key was written with an escape.
        let text = string("text").map(|text| {
            self.text.add(text);
            self.text
        });
        Ok(Arguments { text, path: string("path").map(str::to_owned) })
    }
}

/// Returns the length of the contents of a string, up to its last quote or to an escape that is not
/// complete.
fn complete_length(contents: &str) -> usize {
    let mut length = 0;
    loop {
        let left = &contents[length..];
        let plain = left.find(['"', '\\']).unwrap_or(left.len());
        length += plain;
        let left = &left[plain..];
        match left.get(..escape_length(left)) {
            Some(escape) if escape.starts_with('\\') => length += escape.len(),
            _ => return length,
        }
    }
}

/// Returns the length of the escape at the beginning of a text.
fn escape_length(text: &str) -> usize {
    match text.as_bytes() {
        [_, b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => LONGEST_ESCAPE,
        [_, b'u', ..] => 6,
        _ => 2,
    }
}
