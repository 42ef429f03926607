//! The white space of an envelope's JSON, for people and for programs.

/// The depth to which values are indented. Without a bound, a few kilobytes of brackets would
/// become hundreds of megabytes of spaces.
const DEEPEST: usize = 24;

/// A layout of JSON, for [`Envelope::to_json`](crate::Envelope::to_json).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// On one line, without white space.
    Compact,
    /// Indented by two spaces, to a depth of 24; a deeper object or array is on one line.
    Indented,
}

/// Returns valid JSON on one line.
pub(crate) fn compact(json: &str) -> String {
    lay_out(json, JsonLayout::Compact)
}

/// Rewrites the white space between the tokens of valid JSON.
pub(super) fn lay_out(json: &str, layout: JsonLayout) -> String {
    let mut text = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut rest = json;
    let mut opened = false;
    while let Some(first) = rest.chars().next() {
        let token = &rest[..token_length(rest, first)];
        rest = &rest[token.len()..];
        if first.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(first, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        // The depth of the values next to this token.
        let within = depth + usize::from(closes);
        // An empty object or array stays on its line.
        if layout == JsonLayout::Indented && opened != closes && within <= DEEPEST {
            new_line(&mut text, depth);
        }
        text.push_str(token);
        opened = matches!(first, '{' | '[');
        match (first, layout) {
            ('{' | '[', _) => depth += 1,
            (',', JsonLayout::Indented) if depth <= DEEPEST => new_line(&mut text, depth),
            (',' | ':', JsonLayout::Indented) => text.push(' '),
            _ => {}
        }
    }
    text
}

/// Returns the length in bytes of the token at the start of `json`: a string, or everything before
/// the next character with a special meaning.
fn token_length(json: &str, first: char) -> usize {
    let is_mark = |byte: u8| b"{}[],:\" \t\r\n".contains(&byte);
    if first != '"' {
        let plain = json.bytes().take_while(|byte| !is_mark(*byte)).count();
        return plain.max(first.len_utf8());
    }
    let mut bytes = json.bytes().enumerate().skip(1);
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return index + 1,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    json.len()
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_get_lines() {
        let json = r#"{"a":[],"b":{},"c":[1,{"d":"x, y"}]}"#;
        let indented = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x, y\"\n    }\n  ]\n}";
        assert_eq!(lay_out(json, JsonLayout::Indented), indented);
        assert_eq!(lay_out(indented, JsonLayout::Compact), json);
    }

    #[test]
    fn lines_do_not_grow_with_the_depth_for_ever() {
        for (open, close) in [("[", "]"), ("[1,", "]"), ("{\"a\":", "}")] {
            let json = format!("{}0{}", open.repeat(10_000), close.repeat(10_000));
            let indented = lay_out(&json, JsonLayout::Indented);
            assert!(indented.len() < 2 * json.len(), "{} of {}", indented.len(), json.len());
            assert_eq!(lay_out(&indented, JsonLayout::Compact), json);
        }
        // A broad value is indented all the same.
        let broad = format!("{}1{}{}", "[".repeat(DEEPEST), ",[2]".repeat(9), "]".repeat(DEEPEST));
        let indented = lay_out(&broad, JsonLayout::Indented);
        assert_eq!(indented.lines().count(), 2 * DEEPEST + 10, "{indented}");
        assert!(indented.contains("[2],\n"), "{indented}");
        assert_eq!(lay_out(&indented, JsonLayout::Compact), broad);
    }
}
