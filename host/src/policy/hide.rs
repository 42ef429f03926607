//! The names that a tool does not see in the directories that it was granted: the key `hide` of a
//! policy file.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of paths that are hidden. The default hides nothing.
///
/// A path is compared from a granted directory on, without regard to case, since a file system may
/// find `.ENV` by the name `.env`. A pattern without a slash is one of a name at any depth; one with
/// a slash begins at the granted directory. `*` and `?` stand for no slash, `**` for any directories.
/// All that lies in a hidden directory is hidden.
#[derive(Clone, Debug, Default)]
pub struct Hide {
    patterns: Vec<String>,
    set: GlobSet,
}

impl Hide {
    /// Reads the patterns of a list, each once.
    ///
    /// # Errors
    ///
    /// A pattern is malformed. The text says which, and why.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut kept, mut set) = (Vec::new(), GlobSetBuilder::new());
        for pattern in patterns {
            if !kept.iter().any(|known| known == pattern) {
                set.add(glob(pattern)?);
                kept.push(pattern.to_owned());
            }
        }
        if kept.is_empty() {
            return Ok(Self::default());
        }
        let set = set.build().map_err(|error| format!("the patterns {error}"))?;
        Ok(Self { patterns: kept, set })
    }

    /// Returns these patterns and others.
    ///
    /// # Errors
    ///
    /// Together they are too many. The text says so.
    pub(crate) fn and<'a>(&self, others: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let others: Vec<&str> = others.collect();
        Self::parse(self.patterns.iter().map(String::as_str).chain(others))
    }

    /// Returns whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns whether a path is hidden, relative to the granted directory and without `.` or `..`.
    #[must_use]
    pub fn hides(&self, relative: &Path) -> bool {
        !self.is_empty()
            && relative
                .ancestors()
                .any(|path| !path.as_os_str().is_empty() && self.set.is_match(path))
    }
}

impl Hide {
    /// Returns whether a directory or a file of a grant is hidden itself, so that a grant of it opens
    /// nothing. It is absolute, with links resolved.
    ///
    /// In the workspace it is judged by its path there, and elsewhere as if any of the directories above
    /// it had been granted. A file is also judged by its name alone.
    pub(crate) fn hides_granted(&self, path: &Path, workspace: &Path) -> bool {
        if self.is_empty() {
            return false;
        }
        let name = path.file_name().filter(|_| path.is_file());
        if name.is_some_and(|name| self.hides(Path::new(name))) {
            return true;
        }
        match path.strip_prefix(workspace) {
            Ok(relative) => self.hides(relative),
            Err(_) => {
                let mut above = path.ancestors().skip(1);
                above.any(|dir| path.strip_prefix(dir).is_ok_and(|path| self.hides(path)))
            }
        }
    }
}

impl PartialEq for Hide {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for Hide {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_hidden_at_any_depth_in_any_case_with_all_that_is_in_it() {
        let hide =
            Hide::parse([".env", "**/*.pem", "secrets/", "/top", "a/*/c"]).expect("patterns");
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
            assert!(hide.hides(Path::new(hidden)), "{hidden}");
        }
        for seen in ["", ".env.example", "x/top", "a/c", "a/b/b/c", "pem", "x/a/b/c"] {
            assert!(!hide.hides(Path::new(seen)), "{seen}");
        }
        assert!(!Hide::default().hides(Path::new(".env")));
    }

    #[test]
    fn what_a_grant_names_is_hidden_by_its_place_in_the_workspace_or_below_any_directory() {
        let hide = Hide::parse(["secrets", "/top", "conf/key", "w"]).expect("patterns");
        let hides = |path: &str| hide.hides_granted(Path::new(path), Path::new("/h/w"));
        for hidden in [
            "/h/w/secrets",
            "/h/w/a/Secrets/b",
            "/h/w/top",
            "/h/w/conf/key/x",
            "/d/conf/key",
            "/d/top",
        ] {
            assert!(hides(hidden), "{hidden}");
        }
        // The names above the workspace are beside the point in it.
        for seen in ["/h/w", "/h/w/a", "/h/w/a/top", "/h/w/conf", "/h", "/", "/d/conf"] {
            assert!(!hides(seen), "{seen}");
        }
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("a/key");
        std::fs::create_dir(scratch.path().join("a")).expect("made");
        std::fs::write(&file, "").expect("written");
        let hide = Hide::parse(["/key"]).expect("a pattern");
        assert!(hide.hides_granted(&file, scratch.path()), "by its name alone");
        assert!(!Hide::default().hides_granted(&file, scratch.path()));
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
