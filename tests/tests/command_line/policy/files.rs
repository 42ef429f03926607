//! The files that are read as a policy, and the files that are refused because other users could
//! write them.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::PathBuf;

use ikigai_tests::host::NOBODY;
use ikigai_tests::mode::permit;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{CEILING, USER, WORKSPACE, host};

#[test]
fn what_is_no_file_or_anybodys_is_refused() {
    let host = host();
    let text = "[tools.grep]\nfs = []\n";
    for (file, flags) in [(USER, &[][..]), (WORKSPACE, &[]), (CEILING, &["--ceiling"])] {
        let path = host.write(file, text, 0o600);
        let args = |path: &PathBuf| {
            let path = path.to_str().expect("UTF-8").to_owned();
            let flags = flags.iter().flat_map(move |flag| [(*flag).to_owned(), path.clone()]);
            flags.chain(["tool".to_owned(), "list".to_owned()]).collect::<Vec<_>>()
        };
        let refused = |said: &str| {
            let ran = host.run(args(&path)).expect_code(2);
            assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{said}\n{ran}");
        };
        host.run(args(&path)).expect_code(0);
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        refused("it is not a regular file");
        fs::remove_dir(&path).expect("removed");
        // Opening a FIFO without a writer would block.
        mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0).expect("made");
        refused("it is not a regular file");
        fs::remove_file(&path).expect("removed");
        symlink(host.write("elsewhere.toml", text, 0o600), &path).expect("linked");
        refused("is a symbolic link");
        fs::remove_file(&path).expect("removed");
        host.write(file, text, 0o600);
        if file == WORKSPACE {
            // A workspace's file may be writable by every user, because it can only narrow grants.
            permit(&path, 0o666);
            host.run(args(&path)).expect_code(0);
            fs::remove_file(&path).expect("removed");
            continue;
        }
        for mode in [0o666, 0o620, 0o602] {
            permit(&path, mode);
            refused(&format!("others may write to it (mode {mode:04o})"));
        }
        permit(&path, 0o600);
        let dir = path.parent().expect("a parent").to_owned();
        let mode = fs::metadata(&dir).expect("there").permissions();
        permit(&dir, 0o777);
        refused("others may write to its directory (mode 0777)");
        fs::set_permissions(&dir, mode).expect("permitted");
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), None).expect("given away");
            refused("it belongs to another user");
        }
        fs::remove_file(&path).expect("removed");
    }
    // A file that a flag names must exist.
    for flag in ["--policy", "--ceiling"] {
        let ran = host.run([flag, "/nowhere/policy.toml", "tool", "list"]).expect_code(2);
        assert!(ran.stderr().contains("/nowhere/policy.toml: cannot be read"), "{ran}");
    }
}

#[test]
fn a_policy_in_a_closed_directory_is_refused_like_a_closed_file() {
    let host = host();
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    let host = host.as_nobody();
    host.run(["tool", "list"]).expect_code(0);
    let permit = |name: &str, mode| permit(host.scratch().join(name), mode);
    for (closed, mode) in [("home/.config/ikigai", 0o700), ("home/.config", 0o755), (USER, 0o600)] {
        permit(closed, 0o000);
        for args in [
            &["tool", "call", "tool"][..],
            &["policy", "grant", "tool", "--write", ".", "--yes"],
            &["tool", "remove", "tool", "--yes"],
            &["config", "show"],
        ] {
            if closed == USER && args[0] == "config" {
                continue;
            }
            let ran = host.run(args).expect_code(2);
            assert!(ran.stdout().is_empty(), "{ran}");
            assert!(ran.stderr().contains("cannot be read: "), "{ran}");
            let opens = format!("chmod u+rwx {}", host.scratch().join(closed).display());
            assert_eq!(ran.stderr().contains(&opens), closed != USER, "{ran}");
        }
        permit(closed, mode);
    }
    host.run(["tool", "call", "tool"]).expect_code(0);
    if !host.runs_as_nobody() {
        return;
    }
    // The home directory belongs to another user, as with `sudo -u`. Its policy is not this user's
    // policy.
    let home = host.home();
    chown(&home, Some(0), None).expect("given away");
    permit("home", 0o700);
    let ran = host.run(["tool", "list"]).expect_code(0);
    let said =
        format!("may not enter the directory `{}`, which belongs to another", home.display());
    assert_eq!(ran.stderr().matches(&said).count(), 1, "{ran}");
}

#[test]
fn whoever_could_swap_a_directory_on_the_way_is_told() {
    let host = host();
    host.write(USER, "[tools.tool]\n", 0o600);
    host.write("home/.config/ikigai/config.toml", "fuel = 9\n", 0o600);
    let ceiling = host.write("deep/down/ceiling.toml", "", 0o600);
    let list = || host.run(["--ceiling", ceiling.to_str().expect("UTF-8"), "tool", "list"]);
    list().expect_code(0);
    for dir in ["home", "home/.config", "deep"] {
        let path = host.scratch().join(dir);
        let permit = |mode| permit(&path, mode);
        for mode in [0o777, 0o770] {
            permit(mode);
            let ran = list().expect_code(2);
            let said = format!("{}` on the way to it (mode {mode:04o})", path.display());
            assert!(ran.stderr().contains(&said), "{said}\n{ran}");
            assert!(ran.stderr().contains(&format!("chmod go-w {}", path.display())), "{ran}");
        }
        permit(0o1777);
        list().expect_code(0);
        permit(0o755);
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), None).expect("given away");
            let ran = list().expect_code(2);
            let said = format!("{}` on the way to it belongs to another user", path.display());
            assert!(ran.stderr().contains(&said), "{said}\n{ran}");
            chown(&path, Some(0), None).expect("taken back");
        }
        list().expect_code(0);
    }
}
