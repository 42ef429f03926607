//! Watched tools. The accesses that they attempt and use are reported, and nothing else about them
//! changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::exec::Exit;
use ikigai_host::exec::native::{ObservedAccesses, OmittedLayers, SeenAccess};
use ikigai_host::limits::Limit;
use ikigai_host::policy::{Grant, Net, Sandbox};

use super::rig::{each_user, text};

use SeenAccess::{Change, Make, Read};
use ikigai_tests::mode::permit;

/// Creates a directory outside of the workspace with two files.
fn outside() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = fs::canonicalize(scratch.path()).expect("a path");
    permit(&path, 0o777);
    for name in ["secret", "program"] {
        fs::write(path.join(name), "#!/bin/sh\n").expect("written");
        permit(path.join(name), 0o777);
    }
    (scratch, path)
}

/// Returns the accesses to files below `dir`.
fn below(dir: &Path, seen: &ObservedAccesses) -> Vec<(String, SeenAccess)> {
    assert!(seen.watched, "{seen:?}");
    let below = seen.reached.iter().filter_map(|it| {
        let name = it.path.strip_prefix(dir).ok()?;
        Some((name.to_string_lossy().into_owned(), it.access))
    });
    let mut below: Vec<_> = below.collect();
    below.sort_by_key(|(name, access)| (name.clone(), format!("{access:?}")));
    below
}

#[test]
fn what_a_tool_reaches_for_is_seen_whatever_names_it_uses() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, out) = outside();
        let (dir, relative) = (out.display(), out.strip_prefix("/").expect("absolute").display());
        let up = "../".repeat(rig.workspace().components().count() - 1);
        symlink(out.join("secret"), rig.path("link")).expect("linked");
        symlink(&out, rig.path("dirlink")).expect("linked");
        for (script, expected) in [
            (format!("cat {dir}/secret"), ("secret", Read)),
            (format!("cat {up}{relative}/secret"), ("secret", Read)),
            (format!("cd /; cat {relative}/./secret"), ("secret", Read)),
            (format!("[ -e {dir}/secret ]"), ("secret", Read)),
            (format!("ls {dir}"), ("", Read)),
            (format!("{dir}/program"), ("program", Read)),
            (format!("env {dir}/program"), ("program", Read)),
            (format!("echo x >{dir}/new"), ("new", Make)),
            (format!("echo x >>{dir}/secret"), ("secret", Make)),
            (format!("mkdir {dir}/new"), ("new", Make)),
            (format!("rm {dir}/secret"), ("secret", Change)),
            (format!("mv tool {dir}/new"), ("new", Make)),
            (format!("truncate -c -s 0 {dir}/secret"), ("secret", Change)),
            (format!("(sh -c 'sh -c \"cat {dir}/secret\" & wait')"), ("secret", Read)),
        ] {
            let (outcome, seen) = rig.watch(&rig.script(&format!("{script}; exit 3")), |_| {});
            assert_eq!(outcome.exit, Exit::Code(3), "{script}: {outcome:?}");
            let seen = below(&out, &seen);
            let expected = (expected.0.to_owned(), expected.1);
            assert!(seen.contains(&expected), "`{script}`, root {}: {seen:?}", rig.is_root());
            assert!(out.join("secret").exists() && !out.join("new").exists(), "{script}");
        }
        // The script uses links in the workspace, by their names.
        let script = "cat link; cat dirlink/secret; ls -l link; readlink link";
        let (_, seen) = rig.watch(&rig.script(script), |_| {});
        let expected = [("dirlink/secret".to_owned(), Read), ("link".to_owned(), Read)];
        assert_eq!(below(rig.workspace(), &seen), expected);
    });
}

#[test]
fn what_a_tool_has_is_not_reached_for_and_what_it_uses_is_seen() {
    each_user(Sandbox::Require, |rig| {
        fs::write(rig.path("notes"), "notes").expect("written");
        let script = "cat notes; cat missing; echo x >made; rm made; ls -l / /usr /etc >/dev/null; \
                      echo x >/tmp/own; cat /tmp/own; head -c 1 /dev/zero; cat /proc/self/status; \
                      ls /proc/1/fd; [ -e sub/../notes ]; mkdir sub; : >sub/file; true 2>/dev/null";
        let (outcome, seen) = rig.watch(&rig.script(script), |_| {});
        assert!(matches!(outcome.exit, Exit::Code(0)), "{outcome:?}");
        let own = |path: &Path| path.starts_with(rig.workspace());
        let reached: Vec<_> =
            seen.reached.iter().filter(|it| own(&it.path) || it.path.starts_with("/usr")).collect();
        assert!(reached.is_empty() && seen.more == 0, "{seen:?}");
        assert!(seen.used.iter().all(|it| own(&it.path)), "{seen:?}");
        let used = |name: &str, access| {
            let path = rig.path(name);
            seen.used.iter().any(|it| it.path == path && it.access == access)
        };
        assert!(used("notes", Read) && used("made", Make) && used("sub/file", Make), "{seen:?}");
        assert!(!seen.used.iter().any(|it| it.path.ends_with("missing")), "{seen:?}");
    });
}

#[test]
fn a_write_to_what_may_be_read_alone_is_seen() {
    each_user(Sandbox::Require, |rig| {
        fs::write(rig.path("notes"), "notes").expect("written");
        permit(rig.path("notes"), 0o666);
        let tool = rig.script("cat notes; echo x >notes; touch new; rm -f gone");
        let (_, seen) = rig.watch(&tool, |call| {
            let mut grant = (*call.grant).clone();
            grant.dirs[0].access = ikigai_protocol::Access::ReadOnly;
            call.grant = Arc::new(grant);
        });
        let reached = below(rig.workspace(), &seen);
        let expected = [("new".to_owned(), Make), ("notes".to_owned(), Make)];
        assert_eq!(reached, expected, "{seen:?}");
    });
}

#[test]
fn names_that_are_no_text_arrive_and_many_names_are_counted() {
    each_user(Sandbox::Require, |rig| {
        let tool = rig.script(
            "cat \"/nowhere/$(printf 'a\\377\\nb')\"; i=0; while [ $i -lt 10000 ]; do \
             [ -e /nowhere/$i ]; i=$((i+1)); done; echo done",
        );
        let (outcome, seen) = rig.watch(&tool, |_| {});
        assert_eq!(text(&outcome.stdout), "done\n", "{outcome:?}");
        let odd = Path::new(OsStr::from_bytes(b"/nowhere/a\xff\nb"));
        assert!(seen.reached.iter().any(|it| it.path == odd), "{seen:?}");
        let kept = u64::try_from(seen.reached.len()).expect("few");
        let most = ObservedAccesses::KEPT_OF_ALL as u64;
        assert!(kept <= most && kept + seen.more > 10_000, "{} {}", kept, seen.more);
    });
}

#[test]
fn a_watched_tool_ends_as_any_other() {
    each_user(Sandbox::Require, |rig| {
        let alive = rig.fifo();
        // The processes die in the middle of a call that is being examined.
        let tool = rig.script(
            "exec 9>alive; i=0; while [ $i -lt 200 ]; do \
             (while :; do [ -e /nowhere ]; done) & kill -9 $!; i=$((i+1)); done; wait; echo done",
        );
        let (outcome, seen) = rig.watch(&tool, |_| {});
        assert_eq!(text(&outcome.stdout), "done\n", "{outcome:?}");
        assert!(seen.more == 0, "{seen:?}");
        alive.assert_nobody();
        // Eight processes make such calls endlessly.
        let tool = rig.script(
            "exec 9>alive; for i in 1 2 3 4 5 6 7 8; do (while :; do [ -e /nowhere ]; done) & done; wait",
        );
        let limit = Duration::from_millis(700);
        let (outcome, _) = rig.watch(&tool, |call| call.limits.wall_clock = limit);
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::WallClock)));
        assert!(outcome.usage.duration < limit * 4, "{outcome:?}");
        alive.assert_nobody();
    });
}

#[test]
fn a_watched_tool_has_no_listener_and_adds_no_filter() {
    each_user(Sandbox::Require, |rig| {
        let (outcome, _) = rig.watch(&rig.script("ls -l /proc/$$/fd /proc/self/fd"), |_| {});
        let output = text(&outcome.stdout);
        assert!(output.contains("pipe") && !output.contains("seccomp"), "{output}");
        let (outcome, _) =
            rig.watch(&rig.intruder(), |call| call.args = vec!["listen-to-filter".into()]);
        assert!(text(&outcome.stdout).contains("os error 22"), "{outcome:?}");
    });
}

#[test]
fn what_is_watched_is_refused_all_the_same() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, out) = outside();
        let secret = out.join("secret").display().to_string();
        for attempt in
            ["read", "open", "unlink", "chmod", "truncate"].map(|verb| format!("{verb} {secret}"))
        {
            let (outcome, seen) =
                rig.watch(&rig.intruder(), |call| call.args = vec![attempt.clone().into()]);
            assert!(text(&outcome.stdout).contains("os error"), "{attempt}: {outcome:?}");
            assert!(!below(&out, &seen).is_empty(), "{attempt}: {seen:?}");
        }
        let without = rig.lacking(OmittedLayers { namespaces: true, ..OmittedLayers::default() });
        let tool = without.script(&format!("cat {secret}; cat tool >/dev/null"));
        let (outcome, seen) = without.watch(&tool, |call| {
            let grant = Grant { sandbox: Sandbox::Prefer, ..(*call.grant).clone() };
            call.grant = Arc::new(grant);
        });
        assert_eq!(text(&outcome.stdout), "", "{outcome:?}");
        assert_eq!(below(&out, &seen), [("secret".to_owned(), Read)], "{seen:?}");
    });
}

#[test]
fn the_peers_of_a_tool_with_the_network_are_seen() {
    each_user(Sandbox::Require, |rig| {
        let attempts = ["tcp 192.0.2.1:9", "udp 192.0.2.2:53", "tcp 127.0.0.1:9"];
        let (_, seen) = rig.watch(&rig.intruder(), |call| {
            // Without a listener at the address, an attempt may last until the call ends.
            call.args = attempts[1..].iter().map(Into::into).collect();
            let net = Net { any: true, ..Net::default() };
            call.grant = Arc::new(Grant { net, ..(*call.grant).clone() });
        });
        // A datagram has its address without a connection, and this machine does not count as a
        // peer.
        assert!(seen.peers.is_empty(), "{seen:?}");
        let (_, seen) = rig.watch(&rig.intruder(), |call| {
            call.args = vec![attempts[0].into()];
            call.limits.wall_clock = Duration::from_millis(700);
            let net = Net { any: true, ..Net::default() };
            call.grant = Arc::new(Grant { net, ..(*call.grant).clone() });
        });
        assert_eq!(seen.peers, ["192.0.2.1:9".parse().expect("an address")], "{seen:?}");
    });
}
