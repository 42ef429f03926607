//! Edits of policy files. Each edit must apply at the next look, in whichever way it was made.

#![allow(clippy::disallowed_methods, reason = "no tools: the commands that mount for the tests")]
#![allow(clippy::print_stderr, reason = "a test that could not run says so")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use tokio_util::sync::CancellationToken;

use super::*;

/// The text of the user's file at the beginning.
const FIRST: &str = "profile = \"strict\"\n";

/// Another text of the same length.
const SECOND: &str = "profile = \"strict\"#";

/// A host's view of a user's file behind a link: `home/.config` is `dots/config`.
struct Rig {
    root: PathBuf,
    live: LivePolicy,
    _scratch: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |name: &str| scratch.path().join(name);
        for name in ["w", "home", "dots/config/ikigai", "other/ikigai"] {
            fs::create_dir_all(path(name)).expect("made");
        }
        symlink("../dots/config", path("home/.config")).expect("linked");
        fs::write(path("dots/config/ikigai/policy.toml"), FIRST).expect("written");
        fs::hard_link(path("dots/config/ikigai/policy.toml"), path("alias")).expect("linked");
        fs::write(path("other/ikigai/policy.toml"), SECOND).expect("written");
        fs::write(path("new"), SECOND).expect("written");
        let root = scratch.path().to_owned();
        let files = PolicyFiles {
            ceiling: Some(root.join("etc/ikigai/policy.toml")),
            further_ceilings: Vec::new(),
            user: Some(root.join("home/.config/ikigai/policy.toml")),
            user_is_named: false,
            workspace: root.join("w"),
            home: Some(root.join("home")),
            state: None,
        };
        let live = LivePolicy::open(&files, None).expect("valid");
        let rig = Self { root, live, _scratch: scratch };
        rig.settle();
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Looks until no file must be read again. For that, the times of each file must be old enough.
    fn settle(&self) {
        eventually("the metadata tell of every change", || {
            self.live.refresh();
            self.live.files().all(|file| file.seen.lock().identity.is_some())
        });
    }

    /// Returns the digest of the user file's text in force.
    fn user(&self) -> Option<Digest> {
        let digests = self.live.digests();
        digests.into_iter().find(|(kind, _)| *kind == LayerKind::User).and_then(|(_, text)| text)
    }

    /// Fails unless the next look sees this text.
    fn assert_sees(&self, text: Option<&str>, how: &str) {
        let expected = text.map(|text| Digest::from_bytes(text.as_bytes()));
        assert_eq!(self.user(), expected, "{how}");
    }
}

/// A way to edit the user's file, and its text afterwards.
type Edit = (&'static str, fn(&Rig), Option<&'static str>);

const EDITS: [Edit; 11] = [
    ("written in place", |it| put(it, "dots/config/ikigai/policy.toml"), Some(SECOND)),
    (
        "emptied",
        |it| drop(fs::File::create(it.path("home/.config/ikigai/policy.toml")).expect("emptied")),
        Some(""),
    ),
    (
        "replaced by renaming",
        |it| {
            fs::rename(it.path("new"), it.path("home/.config/ikigai/policy.toml"))
                .expect("renamed");
        },
        Some(SECOND),
    ),
    (
        "removed",
        |it| fs::remove_file(it.path("home/.config/ikigai/policy.toml")).expect("removed"),
        None,
    ),
    (
        "the link on the way replaced",
        |it| {
            symlink("../other", it.path("home/next")).expect("linked");
            fs::rename(it.path("home/next"), it.path("home/.config")).expect("renamed");
        },
        Some(SECOND),
    ),
    (
        "its directory removed and made again, while somebody is in it",
        |it| {
            let dir = it.path("dots/config/ikigai");
            let inside = fs::File::open(&dir).expect("opened");
            fs::remove_dir_all(&dir).expect("removed");
            fs::create_dir(&dir).expect("made");
            put(it, "dots/config/ikigai/policy.toml");
            drop(inside);
        },
        Some(SECOND),
    ),
    ("written by another name of the file", |it| put(it, "alias"), Some(SECOND)),
    (
        "its directory renamed",
        |it| fs::rename(it.path("dots/config/ikigai"), it.path("gone")).expect("renamed"),
        None,
    ),
    (
        "a directory above renamed",
        |it| fs::rename(it.path("dots"), it.path("gone")).expect("renamed"),
        None,
    ),
    (
        "its directory exchanged for another",
        |it| {
            let (one, other) = (it.path("dots/config/ikigai"), it.path("other/ikigai"));
            rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
                .expect("exchanged");
        },
        Some(SECOND),
    ),
    (
        "moved away, changed and moved back",
        |it| {
            fs::rename(it.path("dots"), it.path("gone")).expect("renamed");
            put(it, "gone/config/ikigai/policy.toml");
            fs::rename(it.path("gone"), it.path("dots")).expect("renamed");
        },
        Some(SECOND),
    ),
];

fn put(rig: &Rig, name: &str) {
    fs::write(rig.path(name), SECOND).expect("written");
}

/// Waits until a condition is true, which may take long on a loaded machine.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::yield_now();
    }
}

#[test]
fn an_edit_of_any_kind_holds_for_the_next_look() {
    for (how, edit, text) in EDITS {
        let rig = Rig::new();
        edit(&rig);
        rig.assert_sees(text, how);
    }
}

#[test]
fn who_may_write_to_a_file_is_looked_at_again() {
    let rig = Rig::new();
    let permit = |mode| fs::set_permissions(rig.path("alias"), fs::Permissions::from_mode(mode));
    permit(0o777).expect("permitted");
    rig.live.refresh();
    let problems = rig.live.problems();
    assert!(matches!(&problems[..], [(LayerKind::User, _)]), "{problems:?}");
    permit(0o755).expect("permitted");
    rig.live.refresh();
    assert!(rig.live.problems().is_empty());
}

#[test]
fn a_file_that_took_the_place_where_others_may_write_is_refused() {
    for name in ["dots/config/ikigai", "dots"] {
        let rig = Rig::new();
        let permit = |mode| fs::set_permissions(rig.path(name), fs::Permissions::from_mode(mode));
        permit(0o777).expect("permitted");
        fs::rename(rig.path("new"), rig.path("dots/config/ikigai/policy.toml")).expect("renamed");
        rig.assert_sees(Some(FIRST), name);
        let problems = rig.live.problems();
        assert!(matches!(&problems[..], [(LayerKind::User, _)]), "{name}: {problems:?}");
        permit(0o755).expect("permitted");
        rig.assert_sees(Some(SECOND), name);
    }
}

#[test]
fn a_link_of_the_workspace_to_the_directory_of_another_file_hides_nothing() {
    let rig = Rig::new();
    for name in ["etc/ikigai", "w/.ikigai"] {
        fs::create_dir_all(rig.path(name)).expect("made");
    }
    symlink(rig.path("etc/ikigai"), rig.path("w/.ikigai/policy.toml")).expect("linked");
    rig.settle();
    fs::rename(rig.path("new"), rig.path("etc/ikigai/policy.toml")).expect("renamed");
    let ceiling = rig.live.digests().into_iter().find(|(kind, _)| *kind == LayerKind::Ceiling);
    assert_eq!(ceiling, Some((LayerKind::Ceiling, Some(Digest::from_bytes(SECOND.as_bytes())))));
}

#[test]
fn files_that_appear_are_seen() {
    for name in ["etc/ikigai", "w/.ikigai"] {
        let rig = Rig::new();
        fs::create_dir_all(rig.path(name)).expect("made");
        rig.settle();
        fs::write(rig.path(name).join("policy.toml"), "no policy").expect("written");
        rig.live.refresh();
        assert_eq!(rig.live.problems().len(), 1, "{name}");
    }
    let rig = Rig::new();
    fs::create_dir_all(rig.path("etc/ikigai")).expect("made");
    fs::write(rig.path("etc/ikigai/policy.toml"), "no policy").expect("written");
    assert!(rig.live.current().is_err(), "a ceiling that cannot be used");
}

/// An administrator's directory may be closed to users, but its policy still applies to them.
#[test]
fn a_ceiling_in_a_closed_directory_lets_nothing_run_and_a_foreign_home_is_passed_over() {
    let nobody = Uid::from_raw(65_534);
    if !geteuid().is_root() {
        eprintln!("nothing is tested: only root can become another user");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    for (dir, mode) in [("", 0o755), ("w", 0o755), ("closed", 0o700)] {
        fs::create_dir_all(path(dir)).expect("made");
        fs::set_permissions(path(dir), fs::Permissions::from_mode(mode)).expect("permitted");
    }
    let files = |ceiling, user| PolicyFiles {
        ceiling,
        further_ceilings: Vec::new(),
        user,
        user_is_named: false,
        workspace: path("w"),
        home: None,
        state: None,
    };
    let closed = || Some(path("closed/policy.toml"));
    let (ceiling, home) = (files(closed(), None), files(None, closed()));
    let runs =
        |files: &PolicyFiles| LivePolicy::open(files, None).is_ok_and(|it| it.current().is_ok());
    // This changes the user of this thread only.
    let [by_ceiling, by_home] = thread::scope(|scope| {
        let other = scope.spawn(|| {
            set_thread_res_uid(nobody, nobody, nobody).expect("another user");
            [runs(&ceiling), runs(&home)]
        });
        other.join().expect("no panic")
    });
    assert!(!by_ceiling && by_home);
}

#[test]
fn an_edit_holds_while_others_look() {
    let rig = Rig::new();
    let done = CancellationToken::new();
    thread::scope(|scope| {
        // Needed even if an assertion fails, because the scope waits for the other threads.
        let _done = done.clone().drop_guard();
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.is_cancelled() {
                    rig.live.refresh();
                }
            });
        }
        for number in 0..10 {
            let text = format!("# {number}\n");
            fs::write(rig.path("alias"), &text).expect("written");
            assert_eq!(rig.user(), Some(Digest::from_bytes(text.as_bytes())));
            rig.settle();
            assert_eq!(rig.user(), Some(Digest::from_bytes(text.as_bytes())));
        }
    });
}

/// A mount changes the target of a path without changing a file.
#[test]
fn a_file_under_a_new_mount_is_seen() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let output = unshare
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "policy::live::tests::a_host_that_mounts_for_another_test"])
        .args(["--ignored", "--nocapture"])
        .output()
        .expect("starts");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

/// Not a test, but the host for another test, in its own mount namespace.
#[test]
#[ignore = "runs inside another test"]
fn a_host_that_mounts_for_another_test() {
    let rig = Rig::new();
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(&rig.root).status();
        assert!(status.expect("starts").success(), "{program} {args:?}");
    };
    let mount = |args: &[&str]| run("mount", args);
    let unmount = |place: &str| run("umount", &[place]);
    mount(&["--bind", "other", "dots/config"]);
    rig.assert_sees(Some(SECOND), "another directory over one above it");
    rig.settle();
    unmount("dots/config");
    rig.assert_sees(Some(FIRST), "and away again");
    rig.settle();
    mount(&["--bind", "new", "dots/config/ikigai/policy.toml"]);
    rig.assert_sees(Some(SECOND), "another file over it");
    rig.settle();
    unmount("dots/config/ikigai/policy.toml");
    rig.assert_sees(Some(FIRST), "and away again");
}
