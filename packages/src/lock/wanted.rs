//! The version or the tag that the user requested.

use std::fmt;
use std::str::FromStr;

use semver::VersionReq;

/// The requested versions, of which the newest is used, or the requested tag.
///
/// A text can only mean one of them: a version requirement has an operator or a star (`^1.2`,
/// `1.*`), and a tag cannot contain these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedVersion {
    /// A version requirement, as in `--version`.
    Versions(VersionReq),
    /// A tag of a registry.
    Tag(Tag),
}

/// A tag of a registry: at most 128 letters, digits, `_`, `.` and `-`. It does not begin with `.`
/// or `-`. See
/// <https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests>.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

/// The error for a text that is neither a requirement with an operator nor a tag. The error's text
/// completes a sentence that begins with that text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is neither a requirement of versions such as `^1.2` nor a tag")]
pub struct WantedError;

impl Tag {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let is_known =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let is_tag = (1..=128).contains(&text.len())
            && text.bytes().all(is_known)
            && !text.starts_with(['.', '-']);
        if is_tag { Ok(Self(text.to_owned())) } else { Err(WantedError) }
    }
}

impl FromStr for WantedVersion {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let versions = || text.parse().map(Self::Versions).map_err(|_| WantedError);
        text.parse().map(Self::Tag).or_else(|WantedError| versions())
    }
}

impl fmt::Display for WantedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Versions(versions) => versions.fmt(f),
            Self::Tag(Tag(text)) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_requirement_and_a_tag_are_told_by_their_texts() {
        let of_versions: VersionReq = "1.2".parse().expect("a requirement");
        assert_eq!(WantedVersion::Versions(of_versions).to_string(), "^1.2");
        for text in ["^1.2", "*", "1.*", "=1.2.3", ">=1, <3", "~0.4"] {
            assert!(matches!(text.parse(), Ok(WantedVersion::Versions(_))), "{text}");
        }
        for text in ["1.2", "latest", "v1", "_", "1.2.0-rc.1"] {
            assert!(matches!(text.parse(), Ok(WantedVersion::Tag(_))), "{text}");
        }
        for text in ["", "-a", ".a", "a b", "a/b", "^", "a\n", &"a".repeat(129)] {
            assert_eq!(text.parse::<WantedVersion>(), Err(WantedError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_wanted_comes_back(text in "[<>=~^]{0,2}[0-9x*]{0,3}(\\.[0-9*x]{1,2}){0,2}(, ?<[0-9])?") {
            if let Ok(versions) = text.parse::<VersionReq>() {
                let wanted = WantedVersion::Versions(versions);
                prop_assert_eq!(wanted.to_string().parse(), Ok(wanted));
            }
        }
    }
}
