//! Components that try to get beyond their grant. They must not read, write, list or detect
//! anything outside the granted directory, change anything in a read-only one, or use the network.

mod files;
mod held;
mod hidden;
mod rig;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::Value;

/// Returns a host that has this guest instead of the built-in tool `tool`, with that tool's grant.
/// Its workspace contains a file `kept`, a directory `sub`, and links that lead out.
fn trespasser(guest: &str, tool: &str) -> Host {
    let host = Host::without_system_tools();
    host.guest_as(guest, if guest == "replacer" { "_replacer" } else { "_trespass" }, tool);
    host.write("workspace/kept", "kept", 0o644);
    host.write("workspace/sub/inner", "inner", 0o644);
    host.write("outside/secret", "secret", 0o666);
    let workspace = host.workspace();
    let outside = host.scratch().join("outside");
    symlink(outside.join("secret"), workspace.join("absolute")).expect("linked");
    symlink("../outside/secret", workspace.join("relative")).expect("linked");
    symlink(&outside, workspace.join("directory")).expect("linked");
    symlink("sub/../../outside", workspace.join("winding")).expect("linked");
    symlink("directory/secret", workspace.join("twofold")).expect("linked");
    symlink("/proc/self/root", workspace.join("root")).expect("linked");
    symlink("/dev/fd", workspace.join("fds")).expect("linked");
    host
}

/// Returns the paths by which the guests try to leave the workspace, separated by colons.
fn ways_out(host: &Host) -> String {
    let secret = host.scratch().join("outside/secret");
    let secret = secret.to_str().expect("UTF-8");
    let through = format!("{}/../outside/secret", host.workspace().display());
    let rooted = format!("root{secret}");
    [
        "..",
        "../outside",
        "../outside/secret",
        "sub/../../outside/secret",
        "./../outside/secret",
        "sub/../../../../../../../../etc/passwd",
        "/",
        "/etc",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/proc/1/environ",
        "/dev/fd/0",
        "/dev/stdin",
        "absolute",
        "relative",
        "directory",
        "directory/secret",
        "winding/secret",
        "twofold",
        "root/etc/passwd",
        "fds/0",
        "fds/3",
        &rooted,
        &through,
        secret,
    ]
    .join(":")
}

/// Calls the guest and returns the results of its attempts.
#[track_caller]
fn attempts(host: &Host, tool: &str, mode: &str, path: &str) -> Vec<(String, String)> {
    let arguments = format!("{{\"mode\":\"{mode}\",\"path\":\"{path}\"}}");
    // The arguments may be too long for a command line.
    let ran = host.run_with(["tool", "call", tool, "-"], arguments.as_bytes()).expect_code(0);
    let seen = results(&ran);
    assert!(!seen.is_empty() && seen.iter().all(|(what, _)| what != "error"), "{ran}");
    seen
}

fn results(ran: &Ran) -> Vec<(String, String)> {
    let answer = ran.json();
    let Value::Object(seen) = &answer["result"] else { panic!("no attempts\n{ran}") };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    seen.iter().map(|(what, value)| (what.clone(), text(value))).collect()
}

#[track_caller]
fn assert_none_reached(seen: &[(String, String)], except: &[&str]) {
    let reached: Vec<_> = seen
        .iter()
        .filter(|(what, came)| came == "REACHED" && !except.contains(&what.as_str()))
        .collect();
    assert!(reached.is_empty(), "reached: {reached:#?}");
}

#[track_caller]
fn assert_outside_is_untouched(host: &Host) {
    let outside = host.scratch().join("outside");
    let names: Vec<_> =
        fs::read_dir(&outside).expect("there").flatten().map(|it| it.file_name()).collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read_to_string(outside.join("secret")).expect("read"), "secret");
    host.assert_nothing_left();
}

#[test]
fn nothing_leads_out_of_the_workspace_by_name() {
    for tool in ["file_read", "file_edit"] {
        let host = trespasser("trespass", tool);
        let ways = ways_out(&host);
        // For a guest with `.` preopened, `/` is the workspace as well.
        assert_none_reached(&attempts(&host, tool, "paths", &ways), &["list /", "stat /"]);
        assert_outside_is_untouched(&host);
        // The guest can read files inside, so its other attempts are meaningful.
        let seen = attempts(&host, tool, "paths", "kept:sub/inner");
        let read =
            seen.iter().filter(|(what, came)| what.starts_with("read ") && came == "REACHED");
        assert_eq!(read.count(), 2, "{seen:?}");
    }
}

#[test]
fn nothing_leads_out_by_descriptors_either() {
    for tool in ["file_read", "file_edit"] {
        let host = trespasser("trespass", tool);
        let ways = ways_out(&host);
        let seen = attempts(&host, tool, "raw", &ways);
        // A link itself is inside the workspace. It may be inspected, and with write access be
        // touched, moved and linked, but not followed.
        let own = |what: &str| {
            let name = what.split(' ').nth(2).unwrap_or_default();
            let is_link =
                ["absolute", "relative", "directory", "twofold", "root", "fds"].contains(&name);
            let verb = what.split(' ').next().unwrap_or_default();
            let unfollowed = what.ends_with(" 0");
            is_link
                && (verb == "move"
                    || unfollowed && ["stat", "hash", "touch", "link"].contains(&verb))
        };
        let reached: Vec<_> =
            seen.iter().filter(|(what, came)| came == "REACHED" && !own(what)).collect();
        assert!(reached.is_empty(), "reached: {reached:#?}");
        assert_outside_is_untouched(&host);
    }
}

#[test]
fn nothing_in_a_read_only_directory_changes() {
    let host = trespasser("trespass", "file_read");
    let before = host.files();
    let time =
        |host: &Host| fs::metadata(host.workspace().join("kept")).expect("there").mtime_nsec();
    let touched = time(&host);
    let seen = attempts(&host, "file_read", "writes", "");
    assert_none_reached(&seen, &[]);
    assert_eq!((host.files(), time(&host)), (before, touched));
    // With write access every attempt succeeds, which proves that the test can fail.
    let host = trespasser("trespass", "file_edit");
    let seen = attempts(&host, "file_edit", "writes", "");
    let symlinked = format!("{}: symlink", host.workspace().display());
    for what in
        ["truncate", "write", "create", "hard link", "rename", "make a directory", &symlinked]
    {
        assert!(seen.contains(&(what.into(), "REACHED".into())), "{what}: {seen:#?}");
    }
    assert_outside_is_untouched(&host);
}

#[test]
fn a_user_component_has_no_surroundings() {
    let host = Host::without_system_tools().env("SECRET_OF_THE_USER", "s");
    host.write("workspace/kept", "kept", 0o644);
    host.guest("trespass");
    let seen = attempts(&host, "_trespass", "surroundings", "");
    let told = |what: &str| seen.iter().find(|(it, _)| it == what).map(|(_, came)| came.as_str());
    assert_eq!((told("preopens"), told("env")), (Some(""), Some("")), "{seen:?}");
    assert_none_reached(&seen, &[]);
    assert_none_reached(&attempts(&host, "_trespass", "paths", &ways_out(&host)), &[]);
    assert_none_reached(&attempts(&host, "_trespass", "paths", "kept:."), &[]);
    // A built-in tool has only its workspace.
    let host = trespasser("trespass", "file_read").env("SECRET_OF_THE_USER", "s");
    let seen = attempts(&host, "file_read", "surroundings", "");
    let preopens = format!("{} .", host.workspace().display());
    assert!(seen.contains(&("preopens".into(), preopens)), "{seen:?}");
    assert!(seen.contains(&("env".into(), "PWD".into())), "{seen:?}");
}

#[test]
fn a_workspace_that_holds_proc_shows_nothing_of_the_host() {
    let host = Host::new().env("A_KEY", "secret");
    for (tool, arguments) in [
        ("file_read", r#"{"file_path":"/proc/self/environ"}"#),
        ("file_read", r#"{"file_path":"proc/thread-self/environ"}"#),
        ("file_read", r#"{"file_path":"/proc/self/status"}"#),
        ("file_edit", r#"{"file_path":"/proc/self/comm","old_string":"i","new_string":"x"}"#),
        ("grep", r#"{"pattern":"secret","path":"/proc/self","glob":"environ"}"#),
        ("glob", r#"{"pattern":"/proc/self/env*"}"#),
    ] {
        let flags = ["--workspace", "/", "--backend", "wasm", "tool", "call", tool, arguments];
        let ran = host.run(flags).expect_code(0);
        assert!(!ran.stdout().contains("secret") && !ran.stdout().contains("ikigai"), "{ran}");
        let result = &ran.json()["result"];
        let is_empty = result["count"] == 0;
        assert!(is_empty || result["error_code"] == "PERMISSION_DENIED", "{ran}");
    }
    // Ordinary files next to `/proc` can be read.
    let arguments = r#"{"file_path":"/etc/hostname"}"#;
    let ran = host.run(["--workspace", "/", "tool", "call", "file_read", arguments]);
    assert!(ran.json()["result"]["output"].is_string(), "{ran}");
}

#[test]
fn there_is_no_network() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    tcp.set_nonblocking(true).expect("set");
    let address = tcp.local_addr().expect("an address");
    let udp = UdpSocket::bind(address).expect("bound");
    udp.set_nonblocking(true).expect("set");
    for (host, tool) in
        [(trespasser("trespass", "file_edit"), "file_edit"), (user_trespasser(), "_trespass")]
    {
        let seen = attempts(&host, tool, "network", &address.to_string());
        assert_none_reached(&seen, &[]);
        let nobody = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(tcp.accept().is_err_and(nobody), "{seen:?}");
        assert!(udp.recv(&mut [0; 8]).is_err_and(nobody), "{seen:?}");
    }
}

fn user_trespasser() -> Host {
    let host = Host::without_system_tools();
    host.guest("trespass");
    host
}

#[test]
fn a_replacement_stays_inside_and_changes_regular_files_alone() {
    let host = trespasser("replacer", "file_edit");
    mknodat(CWD, host.workspace().join("fifo"), FileType::Fifo, Mode::from(0o666), 0)
        .expect("made");
    symlink("kept", host.workspace().join("link")).expect("linked");
    let names = format!(
        ":.:..:/:sub:sub/:sub/..:fifo:missing:kept/:kept/x:{}:{}",
        "x".repeat(5000),
        ways_out(&host)
    );
    let before = host.files();
    let seen = attempts(&host, "file_edit", "replace", &names);
    assert_none_reached(&seen, &[]);
    assert_eq!(host.files(), before, "a temporary file was left, or another changed");
    assert_outside_is_untouched(&host);
    assert_none_reached(&attempts(&host, "file_edit", "replace_in_file", ""), &[]);
    // Contents above the documented maximum are never copied out of the guest.
    let ran = host.run(["tool", "call", "file_edit", r#"{"mode":"replace_huge","path":"kept"}"#]);
    assert_eq!((ran.code(), &ran.json()["exit_code"]), (Some(1), &Value::from(134)), "{ran}");
    assert_eq!(fs::read(host.workspace().join("kept")).expect("read"), b"kept");

    // A permitted replacement follows a link, which stays a link.
    let seen = attempts(&host, "file_edit", "replace", "link:sub/inner");
    assert!(seen.iter().all(|(_, came)| came == "REACHED"), "{seen:?}");
    for name in ["kept", "sub/inner"] {
        assert_eq!(fs::read(host.workspace().join(name)).expect("read"), b"replaced");
    }
    assert!(host.workspace().join("link").is_symlink());
    let seen = attempts(&host, "file_edit", "replace_many", "kept");
    assert_eq!(seen, [("many".to_owned(), "REACHED".to_owned())]);
    let names = |dir: &Path| fs::read_dir(dir).expect("there").count();
    assert_eq!(names(&host.workspace()), 11, "{:?}", host.files());
}

#[test]
fn a_replacement_needs_the_right_to_write() {
    let host = trespasser("replacer", "file_read");
    assert_none_reached(&attempts(&host, "file_read", "replace", "kept:sub/inner"), &[]);
    assert_eq!(fs::read(host.workspace().join("kept")).expect("read"), b"kept");

    // The user may write to the directory, but not to the file.
    let host = trespasser("replacer", "file_edit").as_nobody();
    let kept = host.workspace().join("kept");
    permit(&kept, 0o444);
    assert_none_reached(&attempts(&host, "file_edit", "replace", "kept"), &[]);
    assert_eq!(fs::read(&kept).expect("read"), b"kept");
    // A replacement keeps the exact mode.
    permit(&kept, 0o751);
    let seen = attempts(&host, "file_edit", "replace", "kept");
    assert_eq!(seen, [("<kept>".to_owned(), "REACHED".to_owned())]);
    assert_eq!(fs::metadata(&kept).expect("there").permissions().mode() & 0o7777, 0o751);
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere() {
    for (guest, mode) in [("trespass", "race"), ("replacer", "replace_race")] {
        let host = trespasser(guest, "file_edit");
        host.write("workspace/turning/secret", "inside", 0o644);
        host.write("workspace/turning/.keep", "", 0o644);
        let (real, link) = (host.workspace().join("turning"), host.workspace().join("directory"));
        let (mut inside, mut refused) = (0, 0);
        // The race must have both outcomes, which takes a while on a busy machine.
        for _ in 0..50 {
            let seen = while_exchanged(&real, &link, || {
                attempts(&host, "file_edit", mode, "turning/secret")
            });
            assert_none_reached(&seen, &[]);
            assert_outside_is_untouched(&host);
            let count = |what: &str| {
                let found = seen.iter().find(|(it, _)| it == what).expect("a count");
                found.1.parse::<u32>().expect("a number")
            };
            inside += count("inside");
            refused += count("refused");
            if inside > 0 && refused > 0 {
                break;
            }
        }
        assert!(inside > 0 && refused > 0, "inside {inside}, refused {refused}");
        // No temporary file is left on either side.
        let files =
            fs::read_dir(&real).or_else(|_| fs::read_dir(&link)).expect("one is real").count();
        assert!(files <= 2, "{:?}", host.files());
    }
}

/// Runs `work` while two names are exchanged again and again.
fn while_exchanged<T>(one: &Path, other: &Path, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
            }
        });
        // The exchange must stop even after a panic, because the scope waits for the thread.
        let done = catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    })
}
