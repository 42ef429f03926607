//! Finds the documents that a text names by URI.
//!
//! Files that a text names are the caller's to find: only it knows what they are relative to.

use crate::path::{AssetPath, PathError, SCHEME};

/// A URI in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The byte of the text at which it starts.
    pub at: usize,
    /// The URI as written, without the punctuation that ends a sentence.
    pub uri: &'a str,
    /// The document that it names, or why it can name none.
    pub path: Result<AssetPath, PathError>,
}

/// Every `ikigai://…` in `text`, in order, repeated ones too.
///
/// A URI ends before whitespace, a control character or one of `<>"` and the backtick,
/// which Markdown and HTML put around links; then `.,;:!?'*_` at its end, and brackets that
/// it did not open, are the sentence's. The scheme alone is no reference: that is how one
/// speaks of it.
pub fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    text.match_indices(SCHEME).filter_map(|(at, _)| {
        // `x-ikigai://` is a scheme of its own.
        let inside_word = text[..at].ends_with(|c: char| c.is_alphanumeric() || "+-".contains(c));
        let uri = without_punctuation(upto_delimiter(&text[at..]));
        let names_something = uri.len() > SCHEME.len() && uri.trim_end_matches('/').len() > 7;
        (!inside_word && names_something).then(|| Reference {
            at,
            uri,
            path: AssetPath::parse(uri),
        })
    })
}

fn upto_delimiter(text: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "<>\"`".contains(c);
    &text[..text.find(ends).unwrap_or(text.len())]
}

fn without_punctuation(uri: &str) -> &str {
    let mut rest = uri;
    loop {
        let shorter = rest.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '*', '_']);
        let shorter = match shorter.chars().next_back() {
            Some(')') if unopened(shorter, '(', ')') => &shorter[..shorter.len() - 1],
            Some(']') if unopened(shorter, '[', ']') => &shorter[..shorter.len() - 1],
            Some('}') if unopened(shorter, '{', '}') => &shorter[..shorter.len() - 1],
            _ => shorter,
        };
        if shorter.len() == rest.len() {
            return rest;
        }
        rest = shorter;
    }
}

fn unopened(text: &str, open: char, close: char) -> bool {
    text.matches(close).count() > text.matches(open).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::references;

    fn uris(text: &str) -> Vec<&str> {
        references(text).map(|found| found.uri).collect()
    }

    #[test]
    fn in_prose_and_in_markup() {
        let text = "See also: ikigai:///blocks/a.md, ikigai://b (and ikigai:///c.md).\n\
                    [d](ikigai:///d(1).md) <ikigai:///e> `ikigai:///f` **ikigai:///g**\n\
                    <!-- ikigai:///h.md -->\"ikigai:///i\": Is it ikigai:///j?!";
        let expected = [
            "ikigai:///blocks/a.md",
            "ikigai://b",
            "ikigai:///c.md",
            "ikigai:///d(1).md",
            "ikigai:///e",
            "ikigai:///f",
            "ikigai:///g",
            "ikigai:///h.md",
            "ikigai:///i",
            "ikigai:///j",
        ];
        assert_eq!(uris(text), expected);
    }

    #[test]
    fn what_is_no_reference() {
        for text in ["", "ikigai://", "`ikigai://` is the scheme", "ikigai:///", "x-ikigai://a"] {
            assert_eq!(uris(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn one_that_can_name_nothing_is_told() {
        let found: Vec<_> = references("at ikigai:///a/../b").collect();
        assert_eq!((found.len(), found[0].at), (1, 3));
        assert!(found[0].path.is_err());
    }

    proptest! {
        #[test]
        fn places_are_true(text in "(ikigai://|[a-z/.) \u{e9}\n]){0,30}") {
            for found in references(&text) {
                prop_assert!(text[found.at..].starts_with(found.uri));
            }
        }
    }
}
