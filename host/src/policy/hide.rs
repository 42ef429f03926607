//! The names that a tool does not see in the directories that it was granted: the key `hide` of a
//! policy file.

mod patterns;
mod walk;

use std::path::{Path, PathBuf};

use self::patterns::Patterns;
pub(crate) use self::walk::HideWalk;

/// Patterns of hidden paths. The default hides nothing.
///
/// Case does not matter, because a file system may find `.ENV` by the name `.env`. Neither does the
/// form of a name, composed or decomposed in Unicode. A pattern without a slash applies to a name
/// at any depth. A pattern with a slash begins at the granted directory, at every directory above
/// it, and at each directory that a layer of the policy names. So a smaller grant does not show
/// more. In a workspace, the names above the workspace don't count. `*` and `?` do not match a
/// slash. `**` matches any number of directories. Everything inside a hidden directory is hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hide {
    patterns: Patterns,
    workspace: Option<PathBuf>,
    /// The directories that layers name, even if they are not granted.
    named: Vec<PathBuf>,
}

impl Hide {
    /// Reads the patterns of a list, each once.
    ///
    /// # Errors
    ///
    /// Fails if a pattern is malformed. The text says which pattern, and why.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        Ok(Self { patterns: Patterns::compile(patterns)?, ..Self::default() })
    }

    /// Returns these patterns for the grants of a workspace, given as an absolute path without
    /// links. A pattern that begins with the path of the workspace begins at the workspace.
    ///
    /// # Errors
    ///
    /// Fails if together they are too many. The text says so.
    pub(crate) fn in_workspace(self, workspace: &Path) -> Result<Self, String> {
        let root = workspace.to_str().unwrap_or_default();
        let texts = self.patterns().iter().filter_map(|text| text.strip_prefix(root));
        let below: Vec<&str> = texts.filter(|below| below.starts_with('/')).collect();
        let hide = if below.is_empty() { self } else { self.and(below.into_iter())? };
        Ok(Self { workspace: Some(workspace.to_owned()), ..hide })
    }

    /// Returns these patterns, and lets them also begin at each of these directories.
    #[must_use]
    pub(crate) fn beginning_at(self, named: Vec<PathBuf>) -> Self {
        Self { named, ..self }
    }

    /// Returns these patterns and others.
    ///
    /// # Errors
    ///
    /// Fails if together they are too many. The text says so.
    pub(crate) fn and<'a>(&self, others: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let others: Vec<&str> = others.collect();
        let own = self.patterns().iter().map(String::as_str);
        Ok(Self { patterns: Patterns::compile(own.chain(others))?, ..self.clone() })
    }

    /// Returns whether these patterns hide nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.texts.is_empty()
    }

    /// Returns the patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns.texts
    }

    /// Returns whether a path in a granted directory is hidden, or `granted` itself, so that
    /// granting it opens nothing. Both are absolute, with links resolved.
    #[must_use]
    pub fn hides(&self, granted: &Path, path: &Path) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut walk = self.walk(std::iter::once(granted));
        walk.follow(path);
        walk.is_hidden_anywhere()
    }

    /// Returns whether a path would be hidden if only it were granted. The path is absolute, with
    /// links resolved.
    #[must_use]
    pub(crate) fn hides_alone(&self, path: &Path) -> bool {
        self.hides(path, path)
    }

    /// Begins a walk along a path through these granted directories.
    pub(crate) fn walk<'a>(&'a self, granted: impl Iterator<Item = &'a Path>) -> HideWalk<'a> {
        HideWalk::new(self, granted)
    }

    /// Returns whether everything that is hidden below the path `old` would be hidden below `new`,
    /// for any files. Each path comes with the granted directories of its side.
    pub(crate) fn keeps_hidden<'a>(
        &'a self,
        (old_granted, old): (impl Iterator<Item = &'a Path>, &Path),
        (new_granted, new): (impl Iterator<Item = &'a Path>, &Path),
    ) -> bool {
        let concerns = |granted: &&Path| old.starts_with(granted) || granted.starts_with(old);
        let mut before = self.walk(old_granted.filter(concerns));
        let mut after = self.walk(new_granted.filter(|granted| new.starts_with(granted)));
        before.follow(old);
        after.follow(new);
        before.hides_no_more_than(&after)
    }
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
        let hide = Hide::parse(["secrets", "/top", "conf/key", "w", "/h/w/own/f", "/h/wide"]);
        let hide = hide.expect("patterns");
        let hide = hide.in_workspace(Path::new("/h/w")).expect("patterns");
        let hides = |granted: &str, path: &str| hide.hides(Path::new(granted), Path::new(path));
        for (granted, hidden) in [
            ("/h/w", "/h/w/top/x"),
            ("/h/w", "/h/w/own/f"),
            ("/h/w/own", "/h/w/own/f"),
            ("/h", "/h/w/own/f"),
            ("/h", "/h/wide"),
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
        // Inside the workspace, the names above it don't matter.
        for (path, is) in [("/h/w", false), ("/h/w/a/top", true), ("/h/w/a", false), ("/d/w", true)]
        {
            assert_eq!(hide.hides_alone(Path::new(path)), is, "{path}");
        }
    }

    #[test]
    fn a_grant_of_less_shows_no_more() {
        let hide = Hide::parse(["a", "b/c", "/c/a", "a/**/b", "*/?/d"]).expect("patterns");
        let hide = hide.in_workspace(Path::new("/w")).expect("patterns");
        // All paths with up to five of these names, in the workspace and elsewhere.
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
        for wrong in ["", "/", "[", "a/../b", "./a", "a\nb", "{a", "~/a"] {
            assert!(Hide::parse([wrong]).is_err(), "{wrong:?}");
        }
        let twice = Hide::parse([".env", ".env"]).expect("patterns");
        assert_eq!(twice.patterns(), [".env"]);
    }

    std::thread_local! {
        /// The number of names looked up on this thread.
        pub(super) static LOOK_UPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[test]
    fn each_name_of_a_path_is_looked_up_once() {
        let hide = Hide::parse([".env", "**/a/*.pem", "x/**/secrets"]).expect("patterns");
        let hide = hide
            .in_workspace(Path::new("/w"))
            .expect("patterns")
            .beginning_at(vec!["/w/a/a".into()]);
        let look_ups = |work: &dyn Fn()| {
            LOOK_UPS.set(0);
            work();
            LOOK_UPS.get()
        };
        for names in [100, 1_900] {
            let path = Path::new("/w").join("a/".repeat(names));
            let work: [&dyn Fn(); 3] = [
                &|| assert!(!hide.hides(Path::new("/w"), &path)),
                &|| assert!(!hide.hides_alone(&path)),
                &|| {
                    let dirs = ["/w", "/w/a", "/w/a/a"];
                    let mut walk = hide.walk(dirs.iter().map(Path::new));
                    walk.follow(&path);
                    assert!(!walk.is_hidden_or_outside());
                },
            ];
            for work in work {
                let look_ups = look_ups(work);
                assert!((names..=names + 1).contains(&look_ups), "{look_ups} of {names}");
            }
            // Going up in a path does not look up a name again either.
            let climbing = || {
                let mut walk = hide.walk(std::iter::once(Path::new("/w")));
                walk.follow(&path);
                for _ in 0..names {
                    walk.pop();
                    assert!(!walk.is_hidden_or_outside());
                }
                walk.push(".ENV".as_ref());
                assert!(walk.is_hidden());
            };
            assert!(look_ups(&climbing) <= names + 2);
        }
    }

    #[test]
    fn a_decomposed_name_is_hidden_by_a_composed_pattern_and_the_other_way_round() {
        let (composed, decomposed) = ("schl\u{fc}ssel", "schlu\u{308}ssel");
        for (pattern, name) in [
            (composed, decomposed),
            (decomposed, composed),
            ("*/\u{fc}?", "d/U\u{308}e\u{301}"),
            ("[\u{e4}\u{f6}]x", "o\u{308}x"),
        ] {
            let hide = Hide::parse([pattern]).expect("a pattern");
            assert!(hide.hides(Path::new("/"), &Path::new("/").join(name)), "{pattern} {name}");
        }
        // A name that is not UTF-8 is compared part by part.
        let hide = Hide::parse([format!("{composed}*").as_str()]).expect("a pattern");
        let name = [decomposed.as_bytes(), b"\xff"].concat();
        assert!(hide.hides(Path::new("/"), &Path::new("/").join(OsStr::from_bytes(&name))));
    }

    #[test]
    fn braces_may_stand_around_slashes() {
        let hide =
            Hide::parse(["{a/b,c}/d", "{x,{y/z,e}}/f/**", "g\\/h", "n//o", "[!/]/q", "/{r,}"])
                .expect("patterns");
        let hides = |path: &str| hide.hides(Path::new("/"), &Path::new("/").join(path));
        for hidden in ["a/b/d", "c/d/x", "x/f/1", "y/z/f/1/2", "e/f/1", "g/h", "n/o", "p/q", "r"] {
            assert!(hides(hidden), "{hidden}");
        }
        for seen in ["a/d", "b/d", "a/b/c", "x/f", "y/f/1", "z/f/1", "h", "o"] {
            assert!(!hides(seen), "{seen}");
        }
        let many = format!("{}x", "{a/b,c/d}/".repeat(10));
        assert!(Hide::parse([many.as_str()]).is_err_and(|why| why.contains("more than 1000")));
    }

    #[test]
    fn what_a_directory_hides_is_compared_by_the_patterns_alone() {
        let hide =
            Hide::parse(["services/*/credentials", "*.pem", "**/a/key", "/top"]).expect("them");
        let hide = hide.in_workspace(Path::new("/w")).expect("patterns");
        let root = || [Path::new("/w")].into_iter();
        let keeps = |old: &str, new: &str| {
            let path = |name: &str| Path::new("/w").join(name);
            hide.keeps_hidden((root(), &path(old)), (root(), &path(new)))
        };
        for (old, new) in [
            ("src", "lib"),
            ("src", "services/one"),
            ("services/one", "services/two"),
            ("services/one/deep", "elsewhere"),
            ("b/a", "a"),
            ("x.txt", "y.txt"),
        ] {
            assert!(keeps(old, new), "{old} {new}");
        }
        for (old, new) in [
            ("services", "moved"),
            ("services/one", "one"),
            ("services/one", "services/one/two"),
            ("b/a", "b/c"),
            ("top", "top2"),
        ] {
            assert!(!keeps(old, new), "{old} {new}");
        }
        // A directory at which patterns begin has its own hidden names.
        let named = hide.clone().beginning_at(vec!["/w/x/conf".into()]);
        for (old, is) in [("/w/x/conf", false), ("/w/x", false), ("/w/x/conf/y", true)] {
            let kept = named.keeps_hidden((root(), Path::new(old)), (root(), Path::new("/w/new")));
            assert_eq!(kept, is, "{old}");
        }
        let inner = || [Path::new("/w"), Path::new("/w/x/conf")].into_iter();
        let (old, new) = (Path::new("/w/x"), Path::new("/w/y"));
        assert!(!hide.keeps_hidden((inner(), old), (inner(), new)));
        let names_alone = Hide::parse([".env", "*.pem"]).expect("patterns");
        assert!(names_alone.keeps_hidden((inner(), old), (inner(), new)));
    }
}
