//! The path that names an asset in the store, and the URI made of it.
//!
//! Syntax only: a path may name an asset that does not exist.

use std::fmt;
use std::str::FromStr;

use ikigai_protocol::is_deceptive;

/// The scheme of the URIs of assets. A third slash, which ends an empty authority, may follow
/// and has no meaning.
pub const SCHEME: &str = "ikigai://";

/// The longest path, in bytes of UTF-8 and without the scheme: far below what an index
/// entry of PostgreSQL can hold (2,704 bytes), and no less than a file system allows.
pub const MAX_PATH_BYTES: usize = 1024;

/// The folder and the ending that [`resolution`] adds to a name.
const BLOCKS: &str = "blocks/";
const ENDING: &str = ".md";

/// The folder of long results of tools: outside the budget, never pinned, removed by age.
pub(crate) const OUTPUTS: &str = "outputs/";

/// The path of an asset, such as `blocks/decisions.md`: segments between slashes, none
/// of them empty, `.` or `..`, without control characters, at most [`MAX_PATH_BYTES`].
///
/// Case counts, and so does every other character: `?`, `#` and `%` stand for themselves,
/// because a path has no query, no fragment and no escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssetPath(Box<str>);

/// The rule that a text breaks as the path of an asset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is empty, or only the scheme.
    #[error("an asset's path cannot be empty")]
    Empty,
    /// The path is longer than [`MAX_PATH_BYTES`].
    #[error("an asset's path has at most {MAX_PATH_BYTES} bytes, and this one has {bytes}")]
    TooLong {
        /// The bytes of the path, without the scheme.
        bytes: usize,
    },
    /// The path has two slashes in a row, or one at its start or end.
    #[error(
        "an asset's path has no empty segment: no slash at its start or end, and no double slash"
    )]
    EmptySegment,
    /// A segment would refer to another directory in a file system.
    #[error("`{segment}` cannot be a segment of an asset's path")]
    DotSegment {
        /// `.` or `..`.
        segment: &'static str,
    },
    /// The path contains NUL, which PostgreSQL does not store in text, a character that moves
    /// a terminal's cursor, or one that changes the direction of text.
    #[error("an asset's path cannot contain the control character {}", .character.escape_unicode())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
    /// The text is a URI with another scheme.
    #[error("`{scheme}` is not the scheme of assets, which is `{SCHEME}`")]
    OtherScheme {
        /// The scheme with its `://`.
        scheme: Box<str>,
    },
}

impl AssetPath {
    /// Parses `ikigai:///blocks/x.md`, `ikigai://blocks/x.md` or `blocks/x.md`.
    ///
    /// # Errors
    ///
    /// Returns the first rule of [`AssetPath`] that the text breaks.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let path = match text.strip_prefix(SCHEME) {
            Some(rest) => rest.strip_prefix('/').unwrap_or(rest),
            None => text,
        };
        if let Some(scheme) = foreign_scheme(path) {
            return Err(PathError::OtherScheme { scheme: scheme.into() });
        }
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { bytes: path.len() });
        }
        if let Some(character) = path.chars().find(|c| is_deceptive(*c)) {
            return Err(PathError::ControlCharacter { character });
        }
        for segment in path.split('/') {
            match segment {
                "" => return Err(PathError::EmptySegment),
                "." => return Err(PathError::DotSegment { segment: "." }),
                ".." => return Err(PathError::DotSegment { segment: ".." }),
                _ => {}
            }
        }
        Ok(Self(path.into()))
    }

    /// Returns the path without the scheme, as the store keeps it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the URI of the asset: `ikigai:///blocks/x.md`. The empty authority makes it
    /// valid for other programs.
    #[must_use]
    pub fn to_uri(&self) -> String {
        format!("{SCHEME}/{}", self.0)
    }

    /// Returns every name by which [`resolution`] finds this asset, the whole path first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let whole = self.as_str();
        let short = whole.strip_prefix(BLOCKS);
        [Some(whole), whole.strip_suffix(ENDING), short]
            .into_iter()
            .chain([short.and_then(|short| short.strip_suffix(ENDING))])
            .flatten()
            .filter(|name| !name.is_empty())
    }

    /// Returns whether this is a long result of a tool: below `outputs/`.
    #[must_use]
    pub fn is_output(&self) -> bool {
        self.0.starts_with(OUTPUTS)
    }
}

/// Returns the paths that the user or a model may mean by `text`, the likeliest first: as given,
/// with `.md`, below `blocks/`, both. Leaves out paths that break a rule.
///
/// # Errors
///
/// Fails with the rule that `text` breaks as given.
pub fn resolution(text: &str) -> Result<Vec<AssetPath>, PathError> {
    let given = AssetPath::parse(text)?;
    let name = given.as_str();
    let further =
        [format!("{name}{ENDING}"), format!("{BLOCKS}{name}"), format!("{BLOCKS}{name}{ENDING}")];
    let further: Vec<_> = further.iter().filter_map(|path| AssetPath::parse(path).ok()).collect();
    Ok(std::iter::once(given).chain(further).collect())
}

/// Returns the scheme, with its `://`, if the text is a URI with one. `://` may also be part of
/// a path: a scheme consists of letters, digits, `+`, `-` and `.` only.
fn foreign_scheme(path: &str) -> Option<&str> {
    let end = path.find("://")?;
    let is_scheme = path.starts_with(|c: char| c.is_ascii_alphabetic())
        && path[..end].chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then(|| &path[..end + "://".len()])
}

/// Returns the upper bound of the texts that start with `prefix`: the first text that is greater
/// than all of them in the order of bytes. `None` if such a text does not exist.
pub(crate) fn successor(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // The range of `char` skips the surrogates, as UTF-8 does.
        if let Some(next) = (last..=char::MAX).nth(1) {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

impl FromStr for AssetPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl fmt::Display for AssetPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for AssetPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

impl AsRef<str> for AssetPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{AssetPath, MAX_PATH_BYTES, PathError, resolution, successor};

    fn refused(text: &str) -> PathError {
        AssetPath::parse(text).expect_err(text)
    }

    #[test]
    fn an_asset_has_three_names() {
        for text in ["ikigai:///blocks/x.md", "ikigai://blocks/x.md", "blocks/x.md"] {
            let path = AssetPath::parse(text).expect(text);
            assert_eq!((path.as_str(), &*path.to_uri()), ("blocks/x.md", "ikigai:///blocks/x.md"));
        }
    }

    #[test]
    fn invalid_paths() {
        for text in ["", "ikigai://", "ikigai:///"] {
            assert_eq!(refused(text), PathError::Empty, "{text}");
        }
        for text in ["/x", "x/", "a//b", "ikigai:////x", "/"] {
            assert_eq!(refused(text), PathError::EmptySegment, "{text}");
        }
        assert_eq!(refused("a/./b"), PathError::DotSegment { segment: "." });
        assert_eq!(refused("ikigai:///../b"), PathError::DotSegment { segment: ".." });
        for character in ['\0', '\n', '\u{1b}', '\u{7f}', '\u{9b}'] {
            let text = format!("a{character}b");
            assert_eq!(refused(&text), PathError::ControlCharacter { character });
        }
        for text in ["https://example.org/x", "IKIGAI://x", "ikigai://ikigai://x"] {
            assert!(matches!(refused(text), PathError::OtherScheme { .. }), "{text}");
        }
        let longest = "é".repeat(MAX_PATH_BYTES / 2);
        AssetPath::parse(&longest).expect("as long as may be");
        assert_eq!(refused(&format!("{longest}x")), PathError::TooLong { bytes: 1025 });
    }

    #[test]
    fn ordinary_characters() {
        for text in ["a?b#c%2F", "...", "a b/ü.md", "日本/語", "x:y", "x:/y", "Blocks/X.MD"] {
            assert_eq!(AssetPath::parse(text).expect(text).as_str(), text);
        }
    }

    #[test]
    fn candidates_in_order() {
        let names: Vec<String> =
            resolution("ikigai:///x").expect("valid").iter().map(ToString::to_string).collect();
        assert_eq!(names, ["x", "x.md", "blocks/x", "blocks/x.md"]);
        let longest = "a".repeat(MAX_PATH_BYTES - 3);
        let kept = resolution(&longest).expect("valid");
        assert_eq!(kept.len(), 2, "those with `blocks/` are too long");
        assert_eq!(resolution("../x"), Err(PathError::DotSegment { segment: ".." }));
    }

    #[test]
    fn outputs_are_below_their_directory() {
        let is_output = |text| AssetPath::parse(text).expect("valid").is_output();
        assert!(is_output("ikigai:///outputs/a/b"));
        assert!(!is_output("outputs") && !is_output("outputs.md") && !is_output("x/outputs/y"));
    }

    #[test]
    fn the_last_prefix_has_no_successor() {
        assert_eq!(successor(""), None);
        assert_eq!(successor("\u{10ffff}"), None);
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(successor("outputs/").as_deref(), Some("outputs0"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_a_uri_leads_back(text in any::<String>()) {
            if let Ok(path) = AssetPath::parse(&text) {
                prop_assert_eq!(AssetPath::parse(&path.to_uri()), Ok(path.clone()));
                prop_assert_eq!(AssetPath::parse(path.as_str()), Ok(path));
            }
        }

        #[test]
        fn a_text_that_follows_the_rules_is_a_path(text in "[a-zA-Z0-9_?#% é-]{1,8}(/[a-z.]{3,6}){0,4}") {
            prop_assume!(!text.split('/').any(|s| s == "..." ));
            let path = AssetPath::parse(&text);
            prop_assert_eq!(path.as_ref().map(AssetPath::as_str), Ok(text.as_str()));
        }

        #[test]
        fn a_successor_bounds_the_texts_with_the_prefix(
            prefix in any::<String>(), rest in any::<String>(), other in any::<String>(),
        ) {
            let Some(successor) = successor(&prefix) else { return Ok(()) };
            let with = format!("{prefix}{rest}");
            prop_assert!(with >= prefix && with < successor);
            let inside = other >= prefix && other < successor;
            prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
