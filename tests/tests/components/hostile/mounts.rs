//! File systems that are mounted below a workspace. A root file system under construction contains
//! the machine's procfs and sysfs, and a write there is a command to the kernel.

use std::fs;

use ikigai_tests::host::{Host, Ran};
use rustix::process::geteuid;
use serde_json::Value;

/// A script that mounts one file system of each kind below `rootfs` and runs the host. The mounts
/// end with the script's namespace. The control group hierarchy in it is separate and controls
/// nothing.
const MOUNT: &str = "\
set -e
mount --make-rprivate /
cd \"$WORKSPACE/rootfs\"
mount -t proc none proc
mount -t sysfs none sys
mount -t devtmpfs none dev || mount --bind /dev dev
mount -t cgroup -o none,name=ikigai-test none cg || mount -t cgroup2 none cg
mount -t devpts none pts || true
mount -t tmpfs none tmp
mkdir -p tmp/sub
echo ordinary > tmp/file
mknod tmp/null c 1 3
mount --bind /proc/sys/kernel/hostname bound
ln -s ../sys tmp/to-sys
cd \"$WORKSPACE\"
exec \"$@\"";

/// Runs the host inside such a namespace. Returns `None` if this user may not create one.
fn call(host: &Host, arguments: &str) -> Option<Ran> {
    if !geteuid().is_root() {
        return None;
    }
    let mut inside = host.command_of("unshare");
    inside
        .args(["--mount", "--uts", "sh", "-c", MOUNT, "sh"])
        .arg(host.command().get_program())
        .args(["tool", "call", "file_edit", arguments])
        .env("WORKSPACE", host.workspace());
    Some(Ran::from_command(&mut inside, b""))
}

fn host(guest: &str, own_name: &str) -> Host {
    let host = Host::without_system_tools();
    host.guest_as(guest, own_name, "file_edit");
    for name in ["proc", "sys", "dev", "cg", "pts", "tmp"] {
        fs::create_dir_all(host.workspace().join("rootfs").join(name)).expect("made");
    }
    host.write("workspace/rootfs/bound", "", 0o644);
    host.write("workspace/kept", "kept", 0o644);
    host
}

#[track_caller]
fn attempts(ran: &Ran) -> Vec<(String, String)> {
    let answer = ran.json();
    let Value::Object(seen) = &answer["result"] else { panic!("no attempts\n{ran}") };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    seen.iter().map(|(what, value)| (what.clone(), text(value))).collect()
}

const KERNELS: [&str; 16] = [
    "rootfs/proc",
    "rootfs/proc/self/environ",
    "rootfs/proc/sys/kernel/printk_ratelimit",
    "rootfs/sys",
    "rootfs/sys/kernel",
    "rootfs/sys/kernel/uevent_seqnum",
    "rootfs/dev",
    "rootfs/dev/null",
    "rootfs/cg",
    "rootfs/cg/cgroup.procs",
    "rootfs/pts",
    "rootfs/tmp/null",
    "rootfs/tmp/to-sys",
    "rootfs/tmp/to-sys/kernel",
    "rootfs/tmp/sub/../../sys/kernel",
    "rootfs/bound",
];

#[test]
fn a_component_reaches_nothing_of_the_kernel_below_its_workspace() {
    for mode in ["paths", "raw"] {
        let host = host("trespass", "_trespass");
        let order = format!("{{\"mode\":\"{mode}\",\"path\":\"{}\"}}", KERNELS.join(":"));
        let Some(ran) = call(&host, &order) else { return };
        let seen = attempts(&ran.expect_code(0));
        let reached: Vec<_> = seen
            .iter()
            .filter(|(what, came)| came == "REACHED" && !is_a_look_at_an_entry(what))
            .collect();
        assert!(reached.is_empty(), "{mode}: {reached:#?}");
        assert!(seen.len() >= 4 * KERNELS.len(), "{seen:?}");
        host.assert_nothing_left();
    }
}

/// Returns whether an attempt only inspects a link or a device. The guest may do that with entries
/// of an ordinary file system.
fn is_a_look_at_an_entry(what: &str) -> bool {
    let looks = ["stat ", "hash ", "touch "].iter().any(|look| what.starts_with(look));
    let entry = what.ends_with("rootfs/tmp/to-sys 0") || what.contains("rootfs/tmp/null");
    looks && entry
}

#[test]
fn what_is_ordinary_below_a_workspace_is_reached_as_ever() {
    let host = host("trespass", "_trespass");
    let order = r#"{"mode":"paths","path":"rootfs/tmp/file:kept"}"#;
    let Some(ran) = call(&host, order) else { return };
    let seen = attempts(&ran.expect_code(0));
    for what in ["read", "append", "stat"] {
        for path in ["rootfs/tmp/file", "kept"] {
            let found = seen.iter().find(|(it, _)| *it == format!("{what} {path}"));
            assert_eq!(found.map(|(_, came)| came.as_str()), Some("REACHED"), "{seen:?}");
        }
    }
}

#[test]
fn a_replacement_changes_nothing_of_the_kernel_either() {
    let host = host("replacer", "_replacer");
    let before = fs::read("/proc/sys/kernel/printk_ratelimit").expect("read");
    let order = format!("{{\"mode\":\"replace\",\"path\":\"{}\"}}", KERNELS.join(":"));
    let Some(ran) = call(&host, &order) else { return };
    let seen = attempts(&ran.expect_code(0));
    let reached: Vec<_> = seen.iter().filter(|(_, came)| came == "REACHED").collect();
    assert!(reached.is_empty(), "{reached:#?}");
    assert_eq!(fs::read("/proc/sys/kernel/printk_ratelimit").expect("read"), before);
    host.assert_nothing_left();
}
