use ikigai_host::policy::secret_place;

use super::*;

const WORKSPACE: &str = "/home/u/work";

/// The host's own paths in the tests.
fn protected() -> Vec<PathBuf> {
    ["/home/u/.ikigai/tools", "/home/u/.config/ikigai", "/srv/data/own"].map(PathBuf::from).into()
}

fn folded(seen: &[AccessedPath], kept: &[ExistingEntry], is_native: bool) -> Folded {
    let (protected, installation) = (protected(), [PathBuf::from("/home/u/.ikigai/tools")]);
    let ground = Ground {
        workspace: Path::new(WORKSPACE),
        home: Some(Path::new("/home/u")),
        protected: &protected,
        secrets: &[],
        installation: &installation,
        is_native,
    };
    fold(seen, kept, &ground)
}

/// Returns a path from the short form `r/etc/hosts` or `w/data/x`. A `/` at the end marks a
/// directory, a `?` a path that does not exist. Relative paths are in the workspace.
fn seen(short: &str) -> AccessedPath {
    let (access, path) = short.split_at(1);
    let access = if access == "w" { Access::ReadWrite } else { Access::ReadOnly };
    let whole = |path: &str| Path::new(WORKSPACE).join(path);
    if let Some(path) = path.strip_suffix('?') {
        let path = whole(path);
        let dir = path.parent().expect("a parent").to_owned();
        return AccessedPath { path, access, kind: PathKind::Missing(dir) };
    }
    match path.strip_suffix('/') {
        Some(path) if !path.is_empty() => {
            AccessedPath { path: whole(path), access, kind: PathKind::Dir }
        }
        Some(_) => AccessedPath { path: "/".into(), access, kind: PathKind::Dir },
        None => AccessedPath { path: whole(path), access, kind: PathKind::File },
    }
}

fn kept(rules: &[&str]) -> Vec<ExistingEntry> {
    let one = |rule: &&str| {
        let (access, written) = rule.split_once(':').expect("a rule");
        let access = if access == "rw" { Access::ReadWrite } else { Access::ReadOnly };
        let path = match written {
            "." => WORKSPACE.into(),
            written => Path::new(WORKSPACE).join(written),
        };
        ExistingEntry { access, written: written.to_owned(), path }
    };
    rules.iter().map(one).collect()
}

#[track_caller]
fn gives(short: &[&str], expected: &[&str]) {
    let all: Vec<AccessedPath> = short.iter().map(|it| seen(it)).collect();
    let rules: Vec<String> = folded(&all, &[], false).entries.iter().map(PathEntry::rule).collect();
    assert_eq!(rules, expected, "{short:?}");
}

#[test]
fn the_workspace_becomes_the_directory_in_which_all_lies() {
    gives(&["ra.txt"], &["ro:."]);
    gives(&["r./"], &["ro:."]);
    gives(&["rdocs/a.txt"], &["ro:docs"]);
    gives(&["rdocs/a/1", "rdocs/b/2"], &["ro:docs"]);
    gives(&["ra/1", "rb/2"], &["ro:."]);
    gives(&["rdocs/"], &["ro:docs"]);
    gives(&["wout/a.txt"], &["rw:out"]);
    gives(&["wnew/a.txt?", "rnew/b.txt?"], &["rw:new"]);
    gives(&["r~/a"], &["ro:./~"]);
    gives(&["r~x/a"], &["ro:./~x"]);
}

#[test]
fn what_is_written_and_what_is_read_never_contradict_each_other() {
    gives(&["rdocs/a", "wout/b"], &["rw:out", "ro:docs"]);
    gives(&["rout/a", "wout/b"], &["rw:out"]);
    gives(&["rout/deep/a", "wout/b"], &["rw:out"]);
    gives(&["wa/1", "wa/deep/2"], &["rw:a"]);
    // The directory around them is not written to, so the list names the other entries in it.
    gives(&["ra.txt", "wout/b"], &["rw:out", "ro:a.txt"]);
    gives(&["rsrc/a", "rsrc/b/c", "wsrc/out/d"], &["rw:src/out", "ro:src/a", "ro:src/b"]);
    gives(
        &["r/data/1", "r/data/2", "r/data/3", "w/data/out/4"],
        &["rw:/data/out", "ro:/data/1", "ro:/data/2", "ro:/data/3"],
    );
    let listed = folded(&[seen("r./"), seen("wout/x")], &[], false);
    let [left] = &listed.left[..] else { panic!("{listed:?}") };
    assert_eq!(left.why, Why::Contradicts(Path::new(WORKSPACE).join("out")));
}

#[test]
fn files_elsewhere_become_their_directory_once_there_are_three() {
    gives(&["r/data/1", "r/data/2"], &["ro:/data/1", "ro:/data/2"]);
    gives(&["r/data/1", "r/data/1", "r/data/2"], &["ro:/data/1", "ro:/data/2"]);
    gives(&["r/data/1", "r/data/2", "r/data/3"], &["ro:/data"]);
    gives(&["r/data/"], &["ro:/data"]);
    gives(&["r/data/", "r/data/deep/", "r/data/other/x"], &["ro:/data"]);
    gives(&["r/data/1", "r/data/2", "r/other/3"], &["ro:/data/1", "ro:/data/2", "ro:/other/3"]);
    gives(&["w/data/1"], &["rw:/data"]);
    gives(&["r/etc/ssl/certs/1", "r/etc/ssl/certs/2", "r/etc/ssl/certs/3"], &["ro:/etc/ssl/certs"]);
}

#[test]
fn broad_directories_are_never_proposed() {
    gives(
        &["r/etc/hosts", "r/etc/fstab", "r/etc/issue"],
        &["ro:/etc/fstab", "ro:/etc/hosts", "ro:/etc/issue"],
    );
    gives(&["w/etc/hosts"], &["rw:/etc/hosts"]);
    gives(
        &["r/home/u/a", "r/home/u/b", "r/home/u/c", "r/home/u/d"],
        &["ro:/home/u/a", "ro:/home/u/b", "ro:/home/u/c", "ro:/home/u/d"],
    );
    for broad in ["/", "/etc/", "/home/u/", "/home/", "/usr/", "/var/", "/tmp/", "/srv/data/"] {
        let one = folded(&[seen(&format!("r{broad}"))], &[], false);
        assert!(one.entries.is_empty(), "{broad} {one:?}");
        assert_eq!(one.left.iter().map(|left| &left.why).collect::<Vec<_>>(), [&Why::Broad]);
    }
    for kernel in ["r/proc/self/maps", "r/sys/kernel/x", "r/dev/null", "w/proc/self/mem"] {
        let one = folded(&[seen(kernel)], &[], false);
        assert_eq!(one.left.iter().map(|left| &left.why).collect::<Vec<_>>(), [&Why::Kernel]);
    }
    // A file that does not exist yet needs its directory.
    let new = folded(&[seen("w/etc/new?")], &[], false);
    assert!(new.entries.is_empty() && new.left[0].why == Why::Broad, "{new:?}");
}

#[test]
fn a_sandbox_has_its_own_and_shows_the_system() {
    let paths = [
        "r/usr/lib/python3/os.py",
        "r/lib64/ld.so",
        "r/etc/passwd",
        "r/proc/self/maps",
        "w/dev/null",
        "w/tmp/x",
        "w/tmp/new?",
        "r/tmp/gone?",
        "r/home/u/.ikigai/tools/other.py",
    ];
    let all: Vec<AccessedPath> = paths.iter().map(|it| seen(it)).collect();
    assert_eq!(folded(&all, &[], true), Folded::default());
    let component = folded(&[seen("w/tmp/x"), seen("r/usr/share/zoneinfo/UTC")], &[], false);
    let rules: Vec<String> = component.entries.iter().map(PathEntry::rule).collect();
    assert_eq!(rules, ["rw:/tmp/x", "ro:/usr/share/zoneinfo/UTC"]);
    // An argument can name a file of the machine.
    let file = folded(&[seen("r/tmp/input.csv")], &[], true);
    assert_eq!(file.entries[0].rule(), "ro:/tmp/input.csv");
    let code = folded(&[seen("w/usr/lib/python3/x.pyc?")], &[], true);
    assert_eq!(code.left[0].why, Why::System);
}

#[test]
fn secrets_and_what_is_ikigais_own_are_left_out_with_the_reason() {
    for secret in ["r/home/u/.ssh/id_rsa", "w/home/u/.aws/credentials", "r.env", "r/etc/shadow"] {
        let one = folded(&[seen(secret), seen("ra")], &[], true);
        assert_eq!(one.entries.iter().map(PathEntry::rule).collect::<Vec<_>>(), ["ro:."]);
        assert!(matches!(one.left[..], [OmittedPath { why: Why::Secret(_), .. }]), "{one:?}");
    }
    let own = folded(&[seen("w/home/u/.ikigai/tools/x"), seen("r/srv/data/own/y")], &[], true);
    assert!(own.entries.is_empty() && own.left.iter().all(|it| it.why == Why::Own), "{own:?}");
    // A write next to them needs a grant of the directory that they are in.
    let beside = folded(&[seen("w/srv/data/z")], &[], false);
    assert_eq!(beside.entries[0].rule(), "rw:/srv/data/z");
}

#[test]
fn names_that_no_policy_can_have_are_left_out() {
    let strange = |path: &std::ffi::OsStr| AccessedPath {
        path: path.into(),
        access: Access::ReadOnly,
        kind: PathKind::File,
    };
    use std::os::unix::ffi::OsStrExt as _;
    let long = [b"/data/".as_slice(), &[b'a'; LONGEST]].concat();
    for name in
        [&long, &b"/data/a\nrw:b"[..], b"/data/\xff", b"relative", b"/data/../etc/hosts", b""]
    {
        let one = folded(&[strange(std::ffi::OsStr::from_bytes(name))], &[], false);
        assert!(one.entries.is_empty() && one.left[0].why == Why::Unnameable, "{one:?}");
    }
}

#[test]
fn what_the_policy_has_stays() {
    let with = |rules: &[&str], short: &[&str]| {
        let all: Vec<AccessedPath> = short.iter().map(|it| seen(it)).collect();
        let folded = folded(&all, &kept(rules), false);
        (folded.entries.iter().map(PathEntry::rule).collect::<Vec<_>>(), folded.left)
    };
    assert_eq!(with(&["ro:docs"], &["r/etc/hosts"]).0, ["ro:docs", "ro:/etc/hosts"]);
    assert_eq!(with(&["ro:docs"], &["rdocs/a"]).0, ["ro:docs"]);
    assert_eq!(with(&["ro:docs"], &["ra"]).0, ["ro:."]);
    assert_eq!(with(&["rw:docs"], &["ra"]).0, ["rw:docs", "ro:a"]);
    assert_eq!(with(&["ro:docs"], &["wdocs/a"]).0, ["rw:docs"]);
    assert_eq!(with(&["ro:docs/in"], &["wdocs/a"]).0, ["rw:docs"]);
    assert_eq!(with(&["rw:/etc", "ro:/"], &[]).0, ["rw:/etc", "ro:/"]);
    let (entries, left) = with(&["ro:."], &["wout/a"]);
    assert_eq!(entries, ["ro:."]);
    assert_eq!(left[0].why, Why::Contradicts(WORKSPACE.into()));
}

#[test]
fn a_place_that_other_programs_execute_is_proposed_by_its_name() {
    let with = |rules: &[&str], short: &str| {
        let folded = folded(&[seen(short)], &kept(rules), true);
        let left: Vec<Why> = folded.left.into_iter().map(|left| left.why).collect();
        (folded.entries.iter().map(PathEntry::rule).collect::<Vec<_>>(), left)
    };
    let named = vec!["rw:.".to_owned(), "rw:.vscode".to_owned()];
    for path in ["w.vscode?", "w.vscode/", "w.vscode/tasks.json", "w.vscode/deep/x?"] {
        assert_eq!(with(&["rw:."], path), (named.clone(), vec![]), "{path}");
    }
    assert_eq!(with(&["rw:.", "rw:.vscode"], "w.vscode/a"), (named, vec![]));
    let elsewhere = "/home/u/other/.vscode";
    let (rules, left) = with(&["rw:."], &format!("w{elsewhere}/tasks.json"));
    assert_eq!((rules, left), (vec!["rw:.".to_owned(), format!("rw:{elsewhere}")], vec![]));
    // It was renamed after the call, and the directory around it is not meant.
    let (rules, left) = with(&["rw:."], &format!("w{elsewhere}?"));
    assert_eq!((rules, left), (vec!["rw:.".to_owned()], vec![Why::Executed]));
    let (_, left) = with(&["ro:."], "w.vscode/tasks.json");
    assert_eq!(left, [Why::Contradicts(WORKSPACE.into())]);
    let both = folded(&[seen("wout/.envrc"), seen("wout/a")], &[], true);
    let rules: Vec<String> = both.entries.iter().map(PathEntry::rule).collect();
    assert_eq!(rules, ["rw:out", "rw:out/.envrc"]);
}

#[test]
fn the_list_has_an_end() {
    let many: Vec<AccessedPath> = (0..10_000).map(|n| seen(&format!("r/data/{n}/file"))).collect();
    let folded = folded(&many, &[], false);
    assert_eq!(folded.entries.len(), MOST_ENTRIES);
    assert_eq!(folded.left.len(), 10_000 - MOST_ENTRIES);
    assert!(folded.left.iter().all(|left| left.why == Why::TooMany));
}

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("small")
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn seen(&mut self) -> AccessedPath {
        let roots =
            ["", "/etc/", "/data/", "/home/u/", "/home/u/.config/", "/srv/data/", "/tmp/", "/"];
        let mut path = self.one(&roots).to_owned();
        for _ in 0..self.below(3) {
            path += self.one(&["a/", "b/", "own/", ".ssh/", "~/"]);
        }
        let access = self.one(&["r", "r", "w"]);
        // Distinct endings, so that no path is both a file and a directory.
        let end = match self.below(4) {
            0 => self.one(&["a/", "b/", "d/"]),
            1 => self.one(&["missing?", ".env?"]),
            _ => self.one(&["f", "g", "h", "i", ".env"]),
        };
        seen(&format!("{access}{path}{end}"))
    }

    fn shuffle(&mut self, list: &mut [AccessedPath]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Returns the access that the entries give at a path.
fn access_at(entries: &[PathEntry], path: &Path) -> Option<Access> {
    entries.iter().filter(|it| path.starts_with(&it.path)).map(|it| it.access).max()
}

#[test]
fn whatever_was_reached_the_list_covers_it_or_says_why_not_and_never_contradicts_itself() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let keeps: [&[&str]; 6] =
        [&[], &["ro:a"], &["rw:a/b"], &["ro:/data"], &["rw:/data/a", "ro:b"], &["ro:."]];
    for round in 0..4_000 {
        let mut all: Vec<AccessedPath> = (0..numbers.below(12)).map(|_| numbers.seen()).collect();
        let is_native = round % 2 == 0;
        let kept = kept(keeps[numbers.below(keeps.len())]);
        let folded_once = folded(&all, &kept, is_native);
        let Folded { entries, left, .. } = &folded_once;
        let context = || format!("round {round}: {all:#?} {kept:?} give {folded_once:#?}");

        for (at, one) in entries.iter().enumerate() {
            for other in &entries[at + 1..] {
                let nested = one.path.starts_with(&other.path) || other.path.starts_with(&one.path);
                assert!(!nested, "{one:?} {other:?} {}", context());
            }
            let is_kept = kept.iter().any(|it| it.path == one.path);
            let is_dir = all.iter().all(|it| it.path != one.path || it.kind != PathKind::File);
            if !is_kept {
                let path = &one.path;
                assert!(secret_place(path, Some(Path::new("/home/u"))).is_none(), "{}", context());
                for never in ["/", "/etc", "/home/u", "/tmp", "/srv/data", "/home/u/.config"] {
                    assert!(path != Path::new(never) || !is_dir, "{}", context());
                }
                let opens_own = protected().iter().any(|own| own.starts_with(path));
                assert!(!opens_own, "{}", context());
            }
        }
        for it in &all {
            let is_given = access_at(entries, &it.path) >= Some(it.access);
            let is_told = left.iter().any(|left| left.path == it.path);
            let is_gone = matches!(it.kind, PathKind::Missing(_)) && it.access == Access::ReadOnly;
            let is_the_sandboxes = is_native && it.path.starts_with("/tmp");
            let is_known = is_given || is_told || is_gone || is_the_sandboxes;
            assert!(is_known, "{it:?} {}", context());
        }
        // Every proposed grant was granted before, or was used by a call.
        for entry in entries {
            let is_reached = all.iter().any(|it| {
                it.path.starts_with(&entry.path) || {
                    matches!(&it.kind, PathKind::Missing(dir) if dir.starts_with(&entry.path))
                }
            });
            let is_kept = kept.iter().any(|it| it.path == entry.path);
            assert!(is_reached || is_kept, "{entry:?} {}", context());
        }
        for it in &kept {
            assert!(access_at(entries, &it.path) >= Some(it.access), "{it:?} {}", context());
        }
        numbers.shuffle(&mut all);
        assert_eq!(folded(&all, &kept, is_native), folded_once, "the order does not matter");
    }
}
