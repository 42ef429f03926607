//! Finds the URIs of assets in a text.
//!
//! The caller has to find paths of files in a text, since it knows their base directory.

use crate::path::{AssetPath, MAX_PATH_BYTES, PathError, SCHEME};

/// The longest text, in bytes, that is taken for one URI: the longest URI, and room for the
/// punctuation of a sentence after it.
const LONGEST: usize = SCHEME.len() + "/".len() + MAX_PATH_BYTES + 64;

/// A URI in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetReference<'a> {
    /// The offset in bytes at which it starts.
    pub at: usize,
    /// The URI as written, without the punctuation that ends a sentence. A URI that is too
    /// long for any asset is cut off after 1,098 bytes at most.
    pub uri: &'a str,
    /// The path of the asset, or the rule that the URI breaks.
    pub path: Result<AssetPath, PathError>,
}

/// Returns every `ikigai://…` in `text`, in order, including repeated and nested ones.
///
/// A URI ends before whitespace, a control character or one of `<>"` and the backtick, which
/// Markdown and HTML put around links. `.,;:!?'*_` at its end, and brackets that it did not
/// open, belong to the sentence. A scheme without a path is not a reference, since a text about
/// the scheme contains it.
///
/// Time and memory are linear in the length of any text.
pub fn references(text: &str) -> impl Iterator<Item = AssetReference<'_>> {
    // All URIs before a delimiter share it as their end.
    let mut end = 0;
    text.match_indices(SCHEME).filter_map(move |(at, _)| {
        if end <= at {
            end = at + upto_delimiter(&text[at..]).len();
        }
        // `x-ikigai://` is a different scheme.
        let inside_word = text[..at].ends_with(|c: char| c.is_alphanumeric() || "+-".contains(c));
        (!inside_word).then(|| reference(at, &text[at..end])).flatten()
    })
}

/// Returns the reference at `at`. `whole` is its text up to a delimiter.
fn reference(at: usize, whole: &str) -> Option<AssetReference<'_>> {
    if whole.len() > LONGEST {
        let rest = &whole[SCHEME.len()..];
        let bytes = rest.strip_prefix('/').unwrap_or(rest).len();
        let uri = &whole[..whole.floor_char_boundary(LONGEST)];
        return Some(AssetReference { at, uri, path: Err(PathError::TooLong { bytes }) });
    }
    let uri = without_punctuation(whole);
    let names_something = uri.len() > SCHEME.len() && uri.trim_end_matches('/').len() > 7;
    names_something.then(|| AssetReference { at, uri, path: AssetPath::parse(uri) })
}

fn upto_delimiter(text: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "<>\"`".contains(c);
    &text[..text.find(ends).unwrap_or(text.len())]
}

fn without_punctuation(uri: &str) -> &str {
    // The closing brackets of each kind that belong to the sentence, if they are at the end.
    let mut unopened = [('(', ')'), ('[', ']'), ('{', '}')].map(|(open, close)| {
        let opened = uri.matches(open).count();
        (close, uri.matches(close).count().saturating_sub(opened))
    });
    uri.trim_end_matches(|last: char| match unopened.iter_mut().find(|(close, _)| *close == last) {
        Some((_, 0)) => false,
        Some((_, left)) => {
            *left -= 1;
            true
        }
        None => ".,;:!?'*_".contains(last),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LONGEST, references};
    use crate::path::{AssetPath, MAX_PATH_BYTES, PathError};

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
    fn texts_without_a_reference() {
        for text in ["", "ikigai://", "`ikigai://` is the scheme", "ikigai:///", "x-ikigai://a"] {
            assert_eq!(uris(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_invalid_uri_is_found() {
        let found: Vec<_> = references("at ikigai:///a/../b").collect();
        assert_eq!((found.len(), found[0].at), (1, 3));
        assert!(found[0].path.is_err());
    }

    #[test]
    fn a_uri_that_is_too_long_is_cut_off() {
        let longest = format!("ikigai:///{}", "é".repeat(MAX_PATH_BYTES / 2));
        let text = format!("({longest}).");
        let found: Vec<_> = references(&text).collect();
        assert_eq!((found.len(), found[0].uri), (1, &*longest));
        assert_eq!(found[0].path, AssetPath::parse(&longest));
        let text = format!("{longest}{}", "é".repeat(1000));
        let found: Vec<_> = references(&text).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, Err(PathError::TooLong { bytes: MAX_PATH_BYTES + 2000 }));
        assert!(
            text.starts_with(found[0].uri) && (LONGEST - 1..=LONGEST).contains(&found[0].uri.len())
        );
        assert_eq!(LONGEST, 1098, "as the documentation says");
    }

    /// Quadratic work would take minutes for these.
    #[test]
    fn megabytes_of_schemes_and_brackets_take_linear_time() {
        const MANY: usize = 4 << 20;
        let nested = "ikigai://".repeat(MANY / 9);
        assert_eq!(references(&nested).count(), MANY / 9 - 1, "the last is the scheme alone");
        let spaced = format!("{nested}/a {nested}");
        assert!(references(&spaced).all(|found| found.uri.len() <= LONGEST));

        let text = format!("ikigai:///a{}", ")".repeat(MANY));
        let found: Vec<_> = references(&text).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, Err(PathError::TooLong { bytes: 1 + MANY }));
        let many = format!("ikigai:///a{} ", ")".repeat(1000)).repeat(MANY / 1000);
        assert!(references(&many).all(|found| found.uri == "ikigai:///a"));
        assert_eq!(references(&many).count(), MANY / 1000);
        let slashes = format!("{nested}{}", "/".repeat(MANY));
        assert!(references(&slashes).all(|found| found.path.is_err()));
    }

    proptest! {
        #[test]
        fn a_reference_starts_at_its_offset(text in "(ikigai://|[a-z/.) \u{e9}\n]){0,30}") {
            for found in references(&text) {
                prop_assert!(text[found.at..].starts_with(found.uri));
            }
        }
    }
}
