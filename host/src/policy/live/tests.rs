//! Edits while a watch spares the looks. Each must hold for the next look, whatever way it is made.

#![allow(clippy::disallowed_methods, reason = "no tools: the commands that mount for the tests")]
#![allow(clippy::print_stderr, reason = "a test that could not run says so")]

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::fs::{CWD, RenameFlags};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use tokio_util::sync::CancellationToken;

use super::super::watch::is_granted;
use super::*;

/// The text of the user's file at the beginning.
const FIRST: &str = "profile = \"strict\"\n";

/// Another text, which is as long.
const SECOND: &str = "profile = \"strict\"#";

/// A host's view of a user's file, to which a link leads: `home/.config` is `dots/config`.
struct Rig {
    root: PathBuf,
    live: Live,
    _scratch: tempfile::TempDir,
}

impl Rig {
    /// Returns nothing where no watch can be had, such as in a container whose root is an overlay.
    fn new() -> Option<Self> {
        let scratch = tempfile::tempdir().expect("a directory");
        if !Watch::default().begin(std::iter::once(scratch.path())) {
            eprintln!("nothing is tested: `{}` cannot be watched", scratch.path().display());
            return None;
        }
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
        let live = Live::open(&files, None).expect("valid");
        let rig = Self { root, live, _scratch: scratch };
        rig.wait_for_watch();
        // Another one on the same descriptors.
        rig.live.watching().watch.end();
        rig.wait_for_watch();
        Some(rig)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn is_watched(&self) -> bool {
        self.live.watching().watch.is_on()
    }

    /// Looks until no more looks are needed: the times of the files have to be some time ago.
    fn wait_for_watch(&self) {
        eventually("it is watched", || {
            self.live.refresh();
            self.is_watched()
        });
    }

    /// Returns the text in force of the user's file.
    fn user(&self) -> Option<Digest> {
        let digests = self.live.digests();
        digests.into_iter().find(|(kind, _)| *kind == LayerKind::User).and_then(|(_, text)| text)
    }

    /// Fails unless the next look sees this text, and not because it was time to look in any case.
    fn assert_sees(&self, text: Option<&str>, how: &str) {
        self.live.watching().looked = Instant::now();
        let expected = text.map(|text| Digest::of(text.as_bytes()));
        assert_eq!(self.user(), expected, "{how}");
        assert!(!self.is_watched(), "{how}: the watch is over what was there before");
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

/// Waits until something is so, which may take long on a loaded machine.
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
        let Some(rig) = Rig::new() else { return };
        edit(&rig);
        rig.assert_sees(text, how);
    }
}

#[test]
fn an_edit_after_more_events_than_the_kernel_keeps_is_seen() {
    let Some(rig) = Rig::new() else { return };
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
    let most: usize = most.expect("a limit").trim().parse().expect("a number");
    for _ in 0..=most / 2 {
        fs::write(rig.path("beside"), "").expect("made");
        fs::remove_file(rig.path("beside")).expect("removed");
    }
    fs::rename(rig.path("new"), rig.path("dots/config/ikigai/policy.toml")).expect("renamed");
    rig.assert_sees(Some(SECOND), "too many events");
}

#[test]
fn who_may_write_to_a_file_or_a_directory_on_the_way_is_looked_at_again() {
    for name in ["alias", "dots/config/ikigai", "dots"] {
        let Some(rig) = Rig::new() else { return };
        let permit = |mode| fs::set_permissions(rig.path(name), fs::Permissions::from_mode(mode));
        permit(0o777).expect("permitted");
        rig.live.refresh();
        let problems = rig.live.problems();
        assert!(matches!(&problems[..], [(LayerKind::User, _)]), "{name}: {problems:?}");
        permit(0o755).expect("permitted");
        rig.live.refresh();
        assert!(rig.live.problems().is_empty(), "{name}");
    }
}

#[test]
fn a_link_of_the_workspace_to_the_directory_of_another_file_hides_nothing() {
    let Some(rig) = Rig::new() else { return };
    for name in ["etc/ikigai", "w/.ikigai"] {
        fs::create_dir_all(rig.path(name)).expect("made");
    }
    symlink(rig.path("etc/ikigai"), rig.path("w/.ikigai/policy.toml")).expect("linked");
    rig.live.refresh();
    rig.wait_for_watch();
    rig.live.watching().looked = Instant::now();
    fs::rename(rig.path("new"), rig.path("etc/ikigai/policy.toml")).expect("renamed");
    let ceiling = rig.live.digests().into_iter().find(|(kind, _)| *kind == LayerKind::Ceiling);
    assert_eq!(ceiling, Some((LayerKind::Ceiling, Some(Digest::of(SECOND.as_bytes())))));
}

#[test]
fn files_that_appear_are_seen() {
    for name in ["etc/ikigai", "w/.ikigai"] {
        let Some(rig) = Rig::new() else { return };
        fs::create_dir_all(rig.path(name)).expect("made");
        rig.wait_for_watch();
        fs::write(rig.path(name).join("policy.toml"), "no policy").expect("written");
        rig.live.refresh();
        assert_eq!(rig.live.problems().len(), 1, "{name}");
    }
    let Some(rig) = Rig::new() else { return };
    fs::create_dir_all(rig.path("etc/ikigai")).expect("made");
    fs::write(rig.path("etc/ikigai/policy.toml"), "no policy").expect("written");
    assert!(rig.live.current().is_err(), "a ceiling that cannot be used");
}

/// An administrator's directory may be closed to users, for whom its policy is in force nevertheless.
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
    let runs = |files: &PolicyFiles| Live::open(files, None).is_ok_and(|it| it.current().is_ok());
    // Changes the user of this thread and of no other.
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
fn what_happens_beside_the_files_ends_no_watch() {
    let Some(rig) = Rig::new() else { return };
    for dir in ["", "w", "home", "dots/config/ikigai"] {
        // Something else may mount or unmount meanwhile.
        eventually("what happens beside the files is not taken for an edit", || {
            rig.wait_for_watch();
            let beside = rig.path(dir).join("beside");
            fs::write(&beside, "").expect("written");
            fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).expect("permitted");
            fs::remove_file(&beside).expect("removed");
            fs::read(rig.path("alias")).expect("read");
            rig.live.refresh();
            rig.is_watched()
        });
    }
}

/// The kernel tells no event of it.
#[test]
#[cfg(target_env = "gnu")]
fn a_write_by_linux_aio_is_seen() {
    let Some(rig) = Rig::new() else { return };
    let file = fs::File::options().write(true).open(rig.path("alias")).expect("opened");
    let mut context = 0_usize;
    // SAFETY: the kernel writes the number of the context to where this one has its place.
    if unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) } < 0 {
        let error = io::Error::last_os_error();
        let is_withheld =
            matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EAGAIN));
        assert!(is_withheld, "{error}");
        eprintln!("nothing is tested: no AIO: {error}");
        return;
    }
    // SAFETY: a structure of numbers, of which all may be zero.
    let mut write: libc::iocb = unsafe { std::mem::zeroed() };
    write.aio_lio_opcode = IOCB_CMD_PWRITE;
    write.aio_fildes = u32::try_from(file.as_raw_fd()).expect("opened");
    write.aio_buf = SECOND.as_ptr() as u64;
    write.aio_nbytes = SECOND.len() as u64;
    let mut writes = [&raw mut write];
    let mut done = [0_u64; 4];
    // SAFETY: the context is that of above. The request, its text and the place for its result, which
    // has four numbers of 64 bits, stay until it is done, which the second call waits for.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_io_submit, context, 1, writes.as_mut_ptr()), 1);
        let none = std::ptr::null::<libc::timespec>();
        let taken = libc::syscall(libc::SYS_io_getevents, context, 1, 1, done.as_mut_ptr(), none);
        assert_eq!(taken, 1);
        assert_eq!(libc::syscall(libc::SYS_io_destroy, context), 0);
    }
    assert_eq!(done[2], SECOND.len() as u64, "the bytes that were written");
    rig.assert_sees(Some(SECOND), "by AIO");
}

/// By linux/aio_abi.h.
#[cfg(target_env = "gnu")]
const IOCB_CMD_PWRITE: u16 = 1;

/// The second store to a page is no event, and changes no time.
#[test]
fn a_store_into_a_mapping_of_the_file_is_seen_soon() {
    let Some(rig) = Rig::new() else { return };
    let file = fs::File::options().read(true).write(true).open(rig.path("alias")).expect("opened");
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, of a file that stays as long as the mapping is used.
    let start = unsafe {
        let fd = file.as_raw_fd();
        libc::mmap(std::ptr::null_mut(), FIRST.len(), access, libc::MAP_SHARED, fd, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let store = |byte: u8| {
        // SAFETY: the last byte of the mapping, to which nothing else refers.
        unsafe { start.cast::<u8>().add(FIRST.len() - 1).write_volatile(byte) }
    };
    store(b'\n');
    rig.live.watching().watch.end();
    rig.wait_for_watch();
    assert_eq!(rig.user(), Some(Digest::of(FIRST.as_bytes())));
    store(b'#');
    let second = Some(Digest::of(SECOND.as_bytes()));
    eventually("it is seen", || rig.user() == second);
    // SAFETY: nothing uses the mapping any more.
    assert_eq!(unsafe { libc::munmap(start, FIRST.len()) }, 0);
}

#[test]
fn no_file_is_asked_for_its_times_that_nobody_may_be_writing_to() {
    let Some(rig) = Rig::new() else { return };
    let path = rig.path("alias");
    if !is_granted(&fs::File::open(&path).expect("opened")) {
        eprintln!("nothing is tested: no lease on `{}`", path.display());
        return;
    }
    let asks = |number: usize| {
        rig.live.refresh();
        let mut watching = rig.live.watching();
        watching.watch.is_quiet() && watching.watch.asks() == number
    };
    eventually("nobody has opened it", || asks(0));
    eventually("somebody opened it, and may write", || {
        drop(fs::File::open(&path).expect("opened"));
        let mut watching = rig.live.watching();
        watching.watch.is_quiet() && watching.watch.asks() == 1
    });
    eventually("it was read since", || asks(0));
    let writer = fs::File::options().write(true).open(&path).expect("opened");
    for _ in 0..3 {
        rig.live.watching().looked = Instant::now().checked_sub(LONGEST_UNREAD).expect("earlier");
        eventually("somebody may write", || asks(1));
    }
    drop(writer);
    eventually("nobody may write any more", || asks(0));
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: a text that ends with zero.
    assert_eq!(unsafe { libc::truncate(name.as_ptr(), 0) }, 0);
    rig.assert_sees(Some(""), "emptied without being opened");
}

/// The kernel's signal to whoever holds the lease ends a process, unless it is another one.
#[test]
fn files_may_be_written_while_they_are_read_all_the_time() {
    let Some(rig) = Rig::new() else { return };
    let path = rig.path("alias");
    let done = CancellationToken::new();
    thread::scope(|scope| {
        let _done = done.clone().drop_guard();
        scope.spawn(|| {
            let file = fs::File::open(&path).expect("opened");
            while !done.is_cancelled() {
                is_granted(&file);
            }
        });
        for number in 0..2000 {
            fs::write(&path, format!("# {number}\n")).expect("written");
        }
        assert_eq!(rig.user(), Some(Digest::of(b"# 1999\n")));
    });
}

#[test]
fn an_edit_holds_while_others_look() {
    let Some(rig) = Rig::new() else { return };
    let done = CancellationToken::new();
    thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for the others.
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
            assert_eq!(rig.user(), Some(Digest::of(text.as_bytes())));
            rig.wait_for_watch();
            assert_eq!(rig.user(), Some(Digest::of(text.as_bytes())));
        }
    });
}

#[test]
fn a_file_system_that_others_may_change_is_looked_at() {
    // Attempts become rarer.
    let mut watching = Watching::begin();
    for attempt in 0..20 {
        while !watching.is_due() {}
        watching.begin_watch(std::iter::once(Path::new("/proc/self/status")));
        assert!(!watching.watch.is_on());
        assert_eq!(watching.looks_left, (LOOKS_BEFORE_WATCH << (attempt + 1)).min(1 << 16));
    }
}

/// A mount changes what a path leads to, and no file.
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

/// Not a test: the host of another test, in a mount namespace of its own.
#[test]
#[ignore = "runs inside another test"]
fn a_host_that_mounts_for_another_test() {
    let Some(rig) = Rig::new() else { return };
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(&rig.root).status();
        assert!(status.expect("starts").success(), "{program} {args:?}");
    };
    let mount = |args: &[&str]| run("mount", args);
    let unmount = |place: &str| run("umount", &[place]);
    mount(&["--bind", "other", "dots/config"]);
    rig.assert_sees(Some(SECOND), "another directory over one above it");
    rig.wait_for_watch();
    unmount("dots/config");
    rig.assert_sees(Some(FIRST), "and away again");
    rig.wait_for_watch();
    mount(&["--bind", "new", "dots/config/ikigai/policy.toml"]);
    rig.assert_sees(Some(SECOND), "another file over it");
    rig.wait_for_watch();
    unmount("dots/config/ikigai/policy.toml");
    rig.assert_sees(Some(FIRST), "and away again");
}
