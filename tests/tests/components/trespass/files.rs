//! Grants of single files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::trespass::rig::{RO, RW, Tree};

const REFUSED: &str = "not-permitted";

#[test]
fn a_granted_file_is_read_and_nothing_beside_it() {
    let tree = Tree::from_files(&["etc/hosts", "etc/shadow", "etc/sub/x", "other"]);
    symlink("hosts", tree.path("etc/link")).expect("linked");
    let (etc, hosts) = (tree.name("etc"), tree.name("etc/hosts"));
    let steps = [
        format!("std read {hosts}"),
        format!("open {etc} hosts"),
        format!("open {etc} ./hosts"),
        format!("stat {etc} hosts"),
        format!("hash {etc} hosts"),
        format!("list {etc} ."),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let grant = tree.grant(&[(RO, "etc/hosts")], &[]);
    let expected = ["etc/hosts", "etc/hosts", "etc/hosts", "done", "done", "hosts"];
    assert_eq!(tree.walk(&grant, &steps), expected);
    let ways = [
        "open E shadow",
        "open E link",
        "open E hosts/",
        "open E sub/../hosts",
        "open E sub/x",
        "open E ../other",
        "open E ../etc/hosts",
        "open E HOSTS",
        "stat E shadow",
        "stat E sub",
        "hash E shadow",
        "readlink E link",
        "list E sub",
        "open-in E sub x",
        "open-in E . shadow",
        "write E hosts x",
        "touch E hosts",
        "create E hosts",
        "create E new",
        "replace E shadow x",
        "unlink E hosts",
        "unlink E link",
        "rename E hosts new",
        "rename E shadow hosts",
        "link E hosts new",
        "link E shadow new",
        "symlink E shadow new",
        "mkdir E new",
        "rmdir E sub",
    ];
    let ways: Vec<String> =
        ways.iter().map(|way| way.replace(" E ", &format!(" {etc} "))).collect();
    let ways: Vec<&str> = ways.iter().map(String::as_str).collect();
    for access in [RO, RW] {
        let grant = tree.grant(&[(access, "etc/hosts")], &[]);
        let seen = tree.walk(&grant, &ways);
        for (way, seen) in ways.iter().zip(&seen) {
            let may = access == RW
                && way.ends_with(" hosts")
                && ["touch", "create"].iter().any(|it| way.starts_with(it))
                || access == RW && way.starts_with("write ");
            assert_eq!(seen == "done", may, "{access:?} {way}: {seen}");
            assert!(may || seen == REFUSED, "{access:?} {way}: {seen}");
        }
    }
    // With a grant of the directory most attempts succeed, so they are meaningful.
    let seen = tree.walk(&tree.grant(&[(RW, "etc")], &[]), &ways);
    let refused = seen.iter().filter(|it| *it == REFUSED).count();
    assert!(refused <= 2, "{seen:?}");
}

#[test]
fn a_granted_file_is_written_in_place() {
    let tree = Tree::from_files(&["etc/hosts", "etc/shadow"]);
    let (etc, hosts) = (tree.name("etc"), tree.path("etc/hosts"));
    let inode = fs::metadata(&hosts).expect("there").ino();
    let steps = [format!("replace {etc} hosts short"), format!("std append {} !", hosts.display())];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let grant = tree.grant(&[(RW, "etc/hosts")], &[]);
    assert_eq!(tree.walk(&grant, &steps), ["done", "done"]);
    assert_eq!(tree.read("etc/hosts"), "short!");
    assert_eq!(fs::metadata(&hosts).expect("there").ino(), inode);
    assert_eq!(fs::read_dir(tree.path("etc")).expect("there").count(), 2, "something was left");
}

#[test]
fn what_replaced_a_granted_file_is_not_reached() {
    for (access, step) in [(RO, "open E hosts"), (RW, "write E hosts x"), (RW, "replace E hosts x")]
    {
        let tree = Tree::from_files(&["etc/hosts", "etc/shadow"]);
        let grant = tree.grant(&[(access, "etc/hosts")], &[]);
        let step = step.replace(" E ", &format!(" {} ", tree.name("etc")));
        assert_ne!(tree.walk(&grant, &[&step]), ["access"], "{step}");
        // Between the decision and the call the file becomes a link. The grant contains no link.
        fs::remove_file(tree.path("etc/hosts")).expect("removed");
        symlink("shadow", tree.path("etc/hosts")).expect("linked");
        let refused =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tree.walk(&grant, &[&step])));
        assert!(refused.is_err(), "the call began with {refused:?}");
        assert_eq!(tree.read("etc/shadow"), "etc/shadow");
    }
}

#[test]
fn a_file_may_have_more_access_than_its_directory() {
    let tree = Tree::from_files(&["work/a", "work/sub/b", "work/sub/c"]);
    let grant = tree.grant(&[(RO, "work"), (RW, "work/a"), (RW, "work/sub/b")], &[]);
    let steps = [
        "write . a A",
        "write sub b B",
        "write sub c C",
        "std read sub/c",
        "std append sub/b +",
        "std append sub/c +",
        "create . new",
        "unlink . a",
        "rename sub b c",
        "open sub c",
    ];
    let expected = [
        "done",
        "done",
        REFUSED,
        "work/sub/c",
        "done",
        "PermissionDenied",
        REFUSED,
        REFUSED,
        REFUSED,
        "work/sub/c",
    ];
    assert_eq!(tree.walk(&grant, &steps), expected);
}

#[test]
fn a_granted_file_is_hidden_if_its_name_is() {
    let tree = Tree::from_files(&["etc/.env"]);
    let step = format!("open {} .env", tree.name("etc"));
    assert_eq!(tree.walk(&tree.grant(&[(RO, "etc/.env")], &[".env"]), &[&step]), ["access"]);
    assert_eq!(tree.walk(&tree.grant(&[(RO, "etc/.env")], &[]), &[&step]), ["etc/.env"]);
}

#[test]
fn the_tools_work_on_a_granted_file() {
    let tree = Tree::from_files(&["etc/hosts", "etc/shadow"]);
    let (hosts, shadow) = (tree.name("etc/hosts"), tree.name("etc/shadow"));
    let grant = tree.grant(&[(RW, "work"), (RW, "etc/hosts")], &[]);
    let read = |path: &str| tree.tool(&grant, "file-read", &format!(r#"{{"file_path":"{path}"}}"#));
    assert!(read(&hosts).to_string().contains("etc/hosts"));
    assert_eq!(read(&shadow)["error_code"], "PERMISSION_DENIED");
    let edited = tree.tool(
        &grant,
        "file-edit",
        &format!(r#"{{"file_path":"{hosts}","old_string":"etc","new_string":"ETC"}}"#),
    );
    assert_eq!(
        (edited["error_code"].is_null(), tree.read("etc/hosts")),
        (true, "ETC/hosts".into())
    );
    let written =
        tree.tool(&grant, "file-write", &format!(r#"{{"file_path":"{hosts}","content":"new"}}"#));
    assert_eq!((written["error_code"].is_null(), tree.read("etc/hosts")), (true, "new".into()));
    let refused =
        tree.tool(&grant, "file-write", &format!(r#"{{"file_path":"{shadow}","content":"new"}}"#));
    assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{refused}");
    let found =
        tree.tool(&grant, "glob", &format!(r#"{{"pattern":"*","path":"{}"}}"#, tree.name("etc")));
    assert!(
        found.to_string().contains("hosts") && !found.to_string().contains("shadow"),
        "{found}"
    );
}

/// The kernel has no driver for the device 0:0, and every user may create a node for it. Opening
/// the node fails with a distinct error, which a guest would see.
#[test]
fn a_device_is_refused_before_it_is_opened() {
    let tree = Tree::from_files(&["work/kept"]);
    let (character, mode) = (FileType::CharacterDevice, Mode::from(0o666));
    mknodat(CWD, tree.path("work/device"), character, mode, makedev(0, 0)).expect("made");
    symlink("device", tree.path("work/link")).expect("linked");
    let steps = [
        "open . device",
        "open . link",
        "open-in . . device",
        "write . device x",
        "create . link",
        "std read device",
        "open . kept",
    ];
    for hide in [&[][..], &["hidden"]] {
        let seen = tree.walk(&tree.grant(&[(RW, "work")], hide), &steps);
        let denied = "PermissionDenied";
        let expected = ["access", "access", "access", "access", "access", denied, "work/kept"];
        assert_eq!(seen, expected);
    }
}

#[test]
fn the_tools_count_the_names_that_they_leave_out() {
    let tree = Tree::from_files(&["work/kept", "work/sub/kept"]);
    for name in [&b"x\xff"[..], b"sub/y\xfe"] {
        fs::write(tree.path("work").join(OsStr::from_bytes(name)), "work/").expect("written");
    }
    let grant = tree.grant(&[(RO, "work")], &[]);
    let one = "[1 name that is not UTF-8 is left out: a component cannot reach such names]";
    let two = "[2 names that are not UTF-8 are left out: a component cannot reach such names]";
    for (tool, input, count, note) in [
        ("glob", r#"{"pattern":"k*"}"#, 1, one),
        ("glob", r#"{"pattern":"**/k*"}"#, 2, two),
        ("glob", r#"{"pattern":"none*"}"#, 0, one),
        ("grep", r#"{"pattern":"work/","path":".","glob":"**/*"}"#, 2, two),
        ("grep", r#"{"pattern":"none","path":"."}"#, 0, one),
    ] {
        let found = tree.tool(&grant, tool, input);
        let output = found["output"].as_str().expect("a text");
        assert_eq!(
            (&found["count"], output.lines().last()),
            (&count.into(), Some(note)),
            "{found}"
        );
    }
}

/// A stream of a file has a buffer of 64 KiB in the host.
#[test]
fn the_buffers_of_open_streams_count_into_the_memory_of_a_call() {
    let tree = Tree::from_files(&["work/file"]);
    let grant = tree.grant(&[(RO, "work")], &[]);
    let step = format!("streams {} file 400", tree.name("work"));
    let opened = |memory| tree.walk_within(memory, &grant, &[&step]).remove(0);
    assert_eq!(opened(64 << 20), "400");
    let seen = opened(8 << 20);
    let (open, refused) = seen.split_once(", ").expect("a refusal");
    let open: usize = open.parse().expect("a number");
    assert!((16..=144).contains(&open) && refused == "insufficient-memory", "{seen}");
}
