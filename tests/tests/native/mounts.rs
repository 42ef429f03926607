//! File systems that are mounted in a granted directory. File systems that contain files are shown.
//! Kernel interfaces such as procfs are hidden, wherever they are moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ikigai_host::exec::Exit;
use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::policy::{Grant, Sandbox};
use ikigai_protocol::{Access, GrantedDir};

use super::limits::{Guard, fallbacks};
use super::rig::{self, each_user, text};

/// A file system mounted below the workspace, as in a root that is being built.
struct Mounted(PathBuf);

impl Mounted {
    fn new(kind: &str, at: &Path) -> Self {
        fs::create_dir_all(at).expect("made");
        let done = Command::new("mount").args(["-t", kind, kind]).arg(at).status();
        assert!(done.expect("mount is there").success(), "{kind} at {}", at.display());
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.expect("umount is there").success());
    }
}

/// Makes a directory a shared mount, as service managers make every mount. Its copies get the
/// mounts inside it.
fn shared(at: &Path) -> Mounted {
    let bound = Command::new("mount").arg("--bind").arg(at).arg(at).status();
    assert!(bound.expect("mount is there").success(), "{}", at.display());
    let mounted = Mounted(at.to_owned());
    let made = Command::new("mount").arg("--make-rshared").arg(at).status();
    assert!(made.expect("mount is there").success(), "{}", at.display());
    mounted
}

/// Returns the limits of a test that mounts, or `None` if this user cannot mount.
fn guard() -> Option<Guard> {
    if rig::started_as_root() {
        return Some(Guard::new());
    }
    ikigai_tests::impossible_here("only root can mount");
    None
}

#[test]
fn nothing_that_is_mounted_outside_arrives_and_nothing_inside_gets_out() {
    if !rig::started_as_root() {
        ikigai_tests::impossible_here("only root can mount");
        return;
    }
    for (name, layers) in fallbacks().into_iter().filter(|(_, layers)| !layers.namespaces) {
        each_user(Sandbox::Prefer, |rig| {
            if layers.user_namespace && !rig.is_root() {
                return;
            }
            let rig = rig.lacking(layers);
            let _shared = shared(rig.workspace());
            let before = Mounted::new("proc", &rig.path("before"));
            let later = rig.path("later");
            fs::create_dir(&later).expect("made");
            let fifo = rig.fifo();
            let tool = rig.script(
                "exec 9>alive; echo >&9; until [ -e go ]; do sleep 0.01; done; ls later before",
            );
            let mut mounted = None;
            let outcome = rig.run_until(&tool, fifo.first_byte(), |_| {
                mounted = Some(Mounted::new("proc", &later));
                fs::write(rig.path("go"), "").expect("written");
            });
            let output = text(&outcome.stdout);
            assert_eq!(output, "before:\n\nlater:\n", "{name}, root: {}", rig.is_root());
            for path in ["before/self", "later/self"] {
                assert!(rig.path(path).exists(), "{name}, root: {}: {path}", rig.is_root());
            }
            drop((mounted, before));
        });
    }
}

#[test]
fn what_the_kernel_made_up_below_the_workspace_is_not_the_hosts_to_a_tool() {
    let Some(_guard) = guard() else { return };
    for (_, layers) in fallbacks().into_iter().filter(|(_, layers)| !layers.namespaces) {
        each_user(Sandbox::Prefer, |rig| {
            if layers.user_namespace && !rig.is_root() {
                return;
            }
            let rig = rig.lacking(layers);
            let odd = rig.path("with a blank");
            let _proc = Mounted::new("proc", &odd.join("proc"));
            let _sys = Mounted::new("sysfs", &odd.join("sys"));
            let _plain = Mounted::new("tmpfs", &odd.join("plain"));
            fs::write(odd.join("plain/file"), "of mine\n").expect("written");
            // The attempt writes the value that the file already contains, so it changes nothing if
            // it succeeds.
            let before = fs::read_to_string("/proc/sys/kernel/printk_ratelimit").expect("read");
            let attempt = "cd 'with a blank'; cat plain/file; ls -A proc sys; \
                           echo 5 > proc/sys/kernel/printk_ratelimit && echo written";
            let unconfined = rig.run(&rig.script(attempt), |call| {
                let mut grant = (*call.grant).clone();
                grant.sandbox = Sandbox::Off;
                call.grant = grant.into();
            });
            if rig.is_root() {
                assert!(text(&unconfined.stdout).ends_with("written\n"), "{unconfined:?}");
            }
            let outcome = rig.run(&rig.script(attempt), |_| {});
            assert_eq!(text(&outcome.stdout), "of mine\nproc:\n\nsys:\n", "{outcome:?}");
            let after = fs::read_to_string("/proc/sys/kernel/printk_ratelimit").expect("read");
            assert_eq!(before, after, "{layers:?}");
            // A grant of such a mount under another name does not show it either.
            let outcome =
                rig.run(&rig.script("exit 0"), |call| call.workspace = odd.join("proc").into());
            assert!(matches!(outcome.exit, Exit::Code(0)), "an empty directory: {outcome:?}");
        });
    }
}

#[test]
fn what_is_mounted_where_a_tool_has_a_directory_of_its_own_keeps_it_from_nothing() {
    let Some(_guard) = guard() else { return };
    each_user(Sandbox::Require, |rig| {
        // A tool that sees the whole machine has its own `/tmp` over the machine's.
        let place = tempfile::tempdir_in("/tmp").expect("a directory");
        let _proc = Mounted::new("proc", &place.path().join("proc"));
        let _plain = Mounted::new("tmpfs", &place.path().join("plain"));
        let tool = rig.script("ls -A /tmp");
        let outcome = rig.run(&tool, |call| {
            let all = GrantedDir { access: Access::ReadOnly, path: "/".into() };
            Arc::make_mut(&mut call.grant).dirs = vec![all];
        });
        assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
        let name = place.path().file_name().and_then(|name| name.to_str()).expect("UTF-8");
        assert!(!text(&outcome.stdout).contains(name), "{outcome:?}");
    });
}

/// Checks that mounts beneath a grant inside another grant are covered as well. Otherwise a process
/// that may rename directories there could move a mount to where a running tool sees it.
#[test]
fn what_is_mounted_beneath_another_grant_is_covered_before_it_is_moved_out() {
    let Some(_guard) = guard() else { return };
    each_user(Sandbox::Require, |rig| {
        let rig = rig.lacking(OmittedLayers::default());
        let (outer, inner) = (rig.path("outer"), rig.path("outer/inner"));
        let mounted = [
            Mounted::new("proc", &inner.join("sub/proc")),
            Mounted::new("tmpfs", &inner.join("sub/plain")),
        ];
        fs::write(inner.join("sub/plain/file"), "of mine").expect("written");
        let fifo = rig.fifo();
        let tool = rig.script(
            "exec 9>alive; echo >&9; until [ -e outer/go ]; do sleep 0.01; done; \
             ls -A outer/sub/proc; cat outer/sub/plain/file",
        );
        let grants = |grant: &mut Grant| {
            let dir = |access, path: &Path| GrantedDir { access, path: path.to_owned() };
            grant.dirs.push(dir(Access::ReadOnly, &outer));
            grant.dirs.push(dir(Access::ReadWrite, &inner));
        };
        let outcome = rig.run_granted_until(&tool, grants, fifo.first_byte(), |_| {
            fs::rename(inner.join("sub"), outer.join("sub")).expect("renamed");
            fs::write(outer.join("go"), "").expect("written");
        });
        assert_eq!(text(&outcome.stdout), "of mine", "{outcome:?}");
        fs::rename(outer.join("sub"), inner.join("sub")).expect("renamed back");
        drop(mounted);
    });
}

#[test]
fn files_that_lie_under_a_mount_around_them_keep_nothing_from_running() {
    let Some(_guard) = guard() else { return };
    each_user(Sandbox::Require, |rig| {
        let around = rig.path("around");
        let beneath = Mounted::new("tmpfs", &around.join("beneath"));
        let over = Mounted::new("tmpfs", &around);
        fs::write(around.join("seen"), "").expect("written");
        let outcome = rig.run(&rig.script("ls around"), |_| {});
        assert_eq!(text(&outcome.stdout), "seen\n", "{outcome:?}");
        drop(over);
        drop(beneath);
        // A kernel interface could be moved to where the tool sees it.
        let beneath = Mounted::new("proc", &around.join("beneath"));
        let over = Mounted::new("tmpfs", &around);
        let outcome = rig.run(&rig.script("ls around"), |_| {});
        let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
        assert!(reason.contains("mounted over one around it"), "{reason}");
        drop(over);
        drop(beneath);
    });
}

/// Checks that a mount is covered by its identity, not by its name. When mounts were covered by
/// name, one in five calls missed a mount in a directory that was constantly renamed.
#[test]
fn what_is_mounted_in_a_directory_that_is_being_renamed_is_covered_or_nothing_runs() {
    let Some(_guard) = guard() else { return };
    each_user(Sandbox::Require, |rig| {
        let rig = rig.lacking(OmittedLayers::default());
        let (here, there) = (rig.path("here"), rig.path("there"));
        let mounted = Mounted::new("proc", &here.join("p"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::rename(&here, &there).expect("renamed");
                    fs::rename(&there, &here).expect("renamed back");
                }
            });
            let tool = rig.script("ls here/p there/p 2>/dev/null | grep -c '^[0-9]'; exit 0");
            let shown = (0..40).map(|_| rig.run(&tool, |_| {})).find(|outcome| {
                !matches!(&outcome.exit, Exit::NotStarted(_)) && text(&outcome.stdout) != "0\n"
            });
            over.store(true, Ordering::Relaxed);
            assert!(shown.is_none(), "root: {}, {shown:?}", rig.is_root());
        });
        drop(mounted);
        // Directory names that are not UTF-8 do not keep other calls from running.
        let odd = rig
            .workspace()
            .join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff"));
        let _plain = Mounted::new("tmpfs", &odd);
        let outcome = rig.run(&rig.script("exit 7"), |_| {});
        assert_eq!(outcome.exit, Exit::Code(7), "{outcome:?}");
    });
}
