//! A full disk, simulated by a small file system in the command's own mount namespace.

use std::fs;
use std::path::Path;

use ikigai_tests::host::{Host, Ran};

use crate::shipping::scene::*;

/// Runs a command with this directory on a file system that is almost full and contains the
/// directory's previous contents. Prints the contents afterwards. Returns `None` if this machine
/// allows no mount.
fn with_little_room(host: &Host, directory: &Path, args: &[&str]) -> Option<Ran> {
    const SCRIPT: &str = r#"
        place=$1; shift
        cp -a "$place" "$place.copy" && mount -t tmpfs -o size=64k,mode=700 none "$place" || exit 99
        cp -a "$place.copy/." "$place" || exit 99
        "$@" >&2
        echo "code $?"
        cd "$place" && find . -type f | sort | xargs -r sha256sum
    "#;
    let mut command = host.command_of("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(directory);
    command.arg(host.command().get_program()).args(args);
    let ran = Ran::from_command(&mut command, b"");
    fs::remove_dir_all(directory.with_extension("copy")).ok();
    let is_possible = ran.code() == Some(0) && ran.stdout().contains("code ");
    if !is_possible {
        ikigai_tests::impossible_here("a full disk needs a mount namespace");
    }
    is_possible.then_some(ran)
}

/// Returns a version that is too large for that file system.
fn large(version: &str) -> Vec<u8> {
    let mut file = weather(version);
    // A custom section of 128 KiB.
    file.extend([0, 0x80, 0x80, 0x08, 1, b'x']);
    file.resize(file.len() + (128 << 10) - 2, 7);
    file
}

#[test]
fn a_full_disk_leaves_the_directory_of_tools_as_it_was() {
    let (host, path) = installed();
    let before = state(&host);
    fs::write(&path, large("2.0.0")).expect("written");
    let args = ["tool", "update", "--yes"];
    let Some(ran) = with_little_room(&host, &host.user_tools(), &args) else { return };
    assert!(ran.stdout().starts_with("code 1\n"), "{ran}");
    for text in ["cannot write", "the previous file is unchanged", "No space left"] {
        assert!(error(&ran).contains(text), "{text}\n{ran}");
    }
    let listed: Vec<_> = ran.stdout().lines().skip(1).map(str::to_owned).collect();
    let expected = format!("{}  ./weather.wasm", sha256(&weather("1.0.0")));
    assert_eq!(listed, [expected], "nothing else is left\n{ran}");
    assert_eq!(state(&host), before, "{ran}");
    let record = records(&host).pop().expect("a record");
    let reason = record["error"].as_str().unwrap_or_default();
    assert!(reason.starts_with("cannot write `") && !reason.contains('\n'), "{record:#}");
    answers(&host, "1.0.0");
    host.run(args).expect_code(0);
    answers(&host, "2.0.0");
}

#[test]
fn a_full_cache_leaves_nothing_half() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    publish(&fake, "2.0.0", &large("2.0.0"));
    let before = state(&host);
    let blobs = host.cache().join("blobs");
    let args = ["tool", "update", "--yes"];
    let Some(ran) = with_little_room(&host, &blobs, &args) else { return };
    assert!(ran.stdout().starts_with("code 1\n"), "{ran}");
    for text in ["no space is left for", "free space, and run it again"] {
        assert!(error(&ran).contains(text), "{text}\n{ran}");
    }
    assert!(!ran.stdout().contains(".part"), "a part would keep the disk full\n{ran}");
    assert_eq!(state(&host), before, "{ran}");
    answers(&host, "1.0.0");
}
