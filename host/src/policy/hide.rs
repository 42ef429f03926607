//! The names that a tool does not see in the directories that it was granted: the key `hide` of a
//! policy file.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use regex::bytes::RegexSet;

/// Patterns of paths that are hidden. The default hides nothing.
///
/// Case makes no difference, since a file system may find `.ENV` by the name `.env`. A pattern without a
/// slash is one of a name at any depth; one with a slash begins at the granted directory, at any directory
/// above it, and where any layer of the policy names a directory: a grant of less shows no more. In a
/// workspace the names above that are beside the point. `*` and `?` stand for no slash, `**` for any
/// directories. All that lies in a hidden directory is hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hide {
    patterns: Patterns,
    workspace: Option<PathBuf>,
    /// The directories that layers name, whatever is granted of them.
    named: Vec<PathBuf>,
}

/// Patterns, compiled.
#[derive(Clone, Debug, Default)]
struct Patterns {
    texts: Vec<String>,
    /// The patterns over bytes: in them `?` is one byte, and case is that of ASCII.
    set: GlobSet,
    /// The same over the characters of UTF-8.
    characters: Option<RegexSet>,
}

impl Hide {
    /// Reads the patterns of a list, each once.
    ///
    /// # Errors
    ///
    /// A pattern is malformed. The text says which, and why.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut kept, mut set) = (Vec::new(), GlobSetBuilder::new());
        let mut characters = Vec::new();
        for pattern in patterns {
            if !kept.iter().any(|known| known == pattern) {
                let glob = glob(pattern)?;
                characters.push(over_characters(glob.regex()));
                set.add(glob);
                kept.push(pattern.to_owned());
            }
        }
        if kept.is_empty() {
            return Ok(Self::default());
        }
        let set = set.build().map_err(|error| format!("the patterns {error}"))?;
        let characters = RegexSet::new(&characters);
        let characters = characters.map_err(|error| format!("the patterns: {error}"))?;
        let patterns = Patterns { texts: kept, set, characters: Some(characters) };
        Ok(Self { patterns, ..Self::default() })
    }

    /// Returns these patterns for the grants of a workspace, which is absolute and has no links.
    #[must_use]
    pub(crate) fn in_workspace(self, workspace: &Path) -> Self {
        Self { workspace: Some(workspace.to_owned()), ..self }
    }

    /// Returns these patterns, which also begin at each of these directories.
    #[must_use]
    pub(crate) fn beginning_at(self, named: Vec<PathBuf>) -> Self {
        Self { named, ..self }
    }

    /// Returns these patterns and others.
    ///
    /// # Errors
    ///
    /// Together they are too many. The text says so.
    pub(crate) fn and<'a>(&self, others: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let others: Vec<&str> = others.collect();
        let own = self.patterns().iter().map(String::as_str);
        let Self { patterns, .. } = Self::parse(own.chain(others))?;
        Ok(Self { patterns, ..self.clone() })
    }

    /// Returns whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.texts.is_empty()
    }

    /// Returns the patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns.texts
    }

    /// Returns whether a path in a granted directory is hidden, or `granted` itself, so that a grant of it
    /// opens nothing. Both are absolute, with links resolved.
    #[must_use]
    pub fn hides(&self, granted: &Path, path: &Path) -> bool {
        if self.is_empty() {
            return false;
        }
        let workspace = self.workspace.as_deref();
        let highest = workspace.filter(|it| granted.starts_with(it)).unwrap_or(Path::new("/"));
        let above = granted.ancestors().take_while(|dir| dir.starts_with(highest));
        // A grant of what holds the workspace shows no more of it either.
        let anchors = above.chain(workspace).chain(self.named.iter().map(PathBuf::as_path));
        anchors.filter_map(|anchor| path.strip_prefix(anchor).ok()).any(|it| self.patterns.hide(it))
    }

    /// Returns whether a path would be hidden if it were granted by itself. It is absolute, with links
    /// resolved.
    #[must_use]
    pub(crate) fn hides_alone(&self, path: &Path) -> bool {
        self.hides(path, path)
    }
}

impl Patterns {
    /// Returns whether one of them matches a path, or a directory on the way to it.
    fn hide(&self, relative: &Path) -> bool {
        let mut paths = relative.ancestors().filter(|path| !path.as_os_str().is_empty());
        paths.any(|path| {
            let characters = || self.characters.as_ref();
            let bytes = path.as_os_str().as_encoded_bytes();
            self.set.is_match(path) || characters().is_some_and(|it| it.is_match(bytes))
        })
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Patterns {}

/// Compiles a pattern.
fn glob(pattern: &str) -> Result<Glob, String> {
    let wrong = |why: &str| Err(format!("`{}` {why}", pattern.escape_debug()));
    let bare = pattern.trim_end_matches('/');
    if bare.is_empty() {
        return wrong("names nothing");
    }
    if bare.contains(['\n', '\0']) {
        return wrong("is no pattern of a path");
    }
    if bare.split('/').any(|part| matches!(part, "." | "..")) {
        return wrong("has `.` or `..`, which no path has that is compared");
    }
    let anchored = match bare.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if bare.contains('/') => bare.to_owned(),
        None => format!("**/{bare}"),
    };
    let glob = GlobBuilder::new(&anchored).literal_separator(true).case_insensitive(true).build();
    glob.map_err(|error| format!("`{}`: {}", pattern.escape_debug(), error.kind()))
}

/// Returns an expression over bytes, as globset makes it of a pattern, as one over the characters of UTF-8: a
/// character that is not ASCII is written as its bytes there.
fn over_characters(expression: &str) -> String {
    let mut rest = expression.strip_prefix("(?-u)").unwrap_or(expression);
    let (mut text, mut bytes) = (String::new(), Vec::new());
    while let Some(next) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\x").and_then(|it| it.get(..2));
        if let Some(byte) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &rest[4..];
            continue;
        }
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut bytes)));
        // What follows a backslash is part of the escape.
        let length = match (next, rest[next.len_utf8()..].chars().next()) {
            ('\\', Some(second)) => 1 + second.len_utf8(),
            _ => next.len_utf8(),
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text + &String::from_utf8_lossy(&bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_name_is_hidden_at_any_depth_in_any_case_with_all_that_is_in_it() {
        let hide =
            Hide::parse([".env", "**/*.pem", "secrets/", "/top", "a/*/c"]).expect("patterns");
        let hides = |path: &str| hide.hides(Path::new("/"), &Path::new("/").join(path));
        for hidden in [
            ".env",
            "x/.env",
            "x/.ENV",
            "key.pem",
            "a/b/key.PEM",
            "secrets",
            "x/secrets/y/z",
            "top",
            "top/x",
            "a/b/c",
            "a/b/c/d",
            ".env/x",
        ] {
            assert!(hides(hidden), "{hidden}");
        }
        for seen in ["", ".env.example", "x/top", "a/c", "a/b/b/c", "pem", "x/a/b/c"] {
            assert!(!hides(seen), "{seen}");
        }
        assert!(!Hide::default().hides(Path::new("/"), Path::new("/.env")));
    }

    #[test]
    fn a_name_of_any_characters_is_hidden_in_any_case() {
        let hide = Hide::parse(["key?.txt", "[!a].pem", "SCHLÜSSEL", "größe/x", "[äö]1", "é{ä,ö}"])
            .expect("patterns");
        let hides =
            |path: &[u8]| hide.hides(Path::new("/"), &Path::new("/").join(OsStr::from_bytes(path)));
        for hidden in [
            "keyé.txt",
            "KEYÉ.TXT",
            "key1.txt",
            "é.pem",
            "b.PEM",
            "schlüssel",
            "d/Schlüssel/x",
            "GRÖßE/X",
            "Ä1",
            "ÉÖ",
        ] {
            assert!(hides(hidden.as_bytes()), "{hidden}");
        }
        assert!(hides(b"key\xff.txt"));
        for seen in ["keyéé.txt", "key.txt", "a.pem", "schluessel", "größe"] {
            assert!(!hides(seen.as_bytes()), "{seen}");
        }
    }

    #[test]
    fn a_pattern_begins_at_the_grant_at_what_is_above_and_at_the_workspace() {
        let hide = Hide::parse(["secrets", "/top", "conf/key", "w"]).expect("patterns");
        let hide = hide.in_workspace(Path::new("/h/w"));
        let hides = |granted: &str, path: &str| hide.hides(Path::new(granted), Path::new(path));
        for (granted, hidden) in [
            ("/h/w", "/h/w/top/x"),
            ("/h/w/a", "/h/w/a/top"),
            ("/h/w/a/conf", "/h/w/a/conf/key"),
            ("/h/w/a/conf/b", "/h/w/a/conf/b/secrets"),
            ("/d/conf", "/d/conf/key/x"),
            ("/d/conf/key", "/d/conf/key/x"),
            ("/", "/h/w/conf/key"),
            ("/h", "/h/w"),
        ] {
            assert!(hides(granted, hidden), "{granted} {hidden}");
        }
        for (granted, seen) in [
            ("/h/w", "/h/w/a/top"),
            ("/h/w", "/h/w/a/conf/key"),
            ("/h/w/a", "/h/w/a/b"),
            ("/d", "/d/e/top"),
        ] {
            assert!(!hides(granted, seen), "{granted} {seen}");
        }
        // The names above the workspace are beside the point in it.
        for (path, is) in [("/h/w", false), ("/h/w/a/top", true), ("/h/w/a", false), ("/d/w", true)]
        {
            assert_eq!(hide.hides_alone(Path::new(path)), is, "{path}");
        }
    }

    #[test]
    fn a_grant_of_less_shows_no_more() {
        let hide = Hide::parse(["a", "b/c", "/c/a", "a/**/b", "*/?/d"]).expect("patterns");
        let hide = hide.in_workspace(Path::new("/w"));
        // All paths of up to five of these names, in the workspace and elsewhere.
        let mut paths = vec![PathBuf::from("/w"), PathBuf::from("/x")];
        let mut from = 0;
        for _ in 0..5 {
            let to = paths.len();
            for index in from..to {
                let longer: Vec<_> = ["b", "c", "d"].map(|name| paths[index].join(name)).into();
                paths.extend(longer);
            }
            from = to;
        }
        let mut hidden = 0;
        for path in &paths {
            let grants: Vec<&Path> = path.ancestors().filter(|it| it.parent().is_some()).collect();
            for pair in grants.windows(2) {
                let (less, more) = (hide.hides(pair[0], path), hide.hides(pair[1], path));
                assert!(less || !more, "{} by {}", path.display(), pair[0].display());
                hidden += usize::from(less);
            }
        }
        assert!(hidden > 100, "{hidden}");
    }

    #[test]
    fn a_pattern_that_means_nothing_is_an_error() {
        for wrong in ["", "/", "[", "a/../b", "./a", "a\nb", "{a"] {
            assert!(Hide::parse([wrong]).is_err(), "{wrong:?}");
        }
        let twice = Hide::parse([".env", ".env"]).expect("patterns");
        assert_eq!(twice.patterns(), [".env"]);
    }
}
