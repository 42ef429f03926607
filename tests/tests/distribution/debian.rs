//! The package for Debian: lintian's findings, and its installation in an empty root.

use std::fs;
use std::path::Path;

use ikigai_tests::host::Ran;
use ikigai_tests::impossible_here;

use crate::artifacts::{Machine, file, has};

/// Runs dpkg on a root without programs. The scripts run outside, and `DPKG_ROOT` has its path.
fn dpkg(machine: &Machine, root: &Path, args: &[&str]) {
    let mut dpkg = machine.command("dpkg");
    dpkg.arg(format!("--root={}", root.display()));
    dpkg.args(["--force-script-chrootless", "--force-depends", "--log=/dev/null"]).args(args);
    Ran::from_command(&mut dpkg, b"").expect_code(0);
}

#[test]
fn lintian_has_nothing_to_say() {
    let Some(package) = file("ikigai_", ".deb") else { return };
    if !has("lintian") {
        return;
    }
    let machine = Machine::new();
    let mut lintian = machine.command("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root"]).arg(package);
    let ran = Ran::from_command(&mut lintian, b"").expect_code(0);
    assert_eq!(ran.stdout(), "", "{ran}");
}

#[test]
fn a_purged_package_leaves_nothing() {
    let Some(package) = file("ikigai_", ".deb") else { return };
    if !has("dpkg") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return impossible_here("the installation of a Debian package needs an administrator");
    }
    let machine = Machine::new();
    let package = package.to_str().expect("UTF-8");
    let root = machine.path("root");
    let database = root.join("var/lib/dpkg");
    for name in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(name)).expect("a directory");
    }
    fs::write(database.join("status"), "").expect("written");

    dpkg(&machine, &root, &["--install", package]);
    machine.assert_works(&root.join("usr/bin/ikigai"));
    let profile = root.join("etc/apparmor.d/ikigai");
    assert!(profile.is_file());
    // The same version again is an upgrade to dpkg.
    fs::write(&profile, "# changed\n").expect("written");
    dpkg(&machine, &root, &["--force-confold", "--install", package]);
    assert_eq!(fs::read_to_string(&profile).expect("read"), "# changed\n");
    dpkg(&machine, &root, &["--remove", "ikigai"]);
    assert!(profile.is_file(), "a configuration file stays until the package is purged");
    dpkg(&machine, &root, &["--purge", "ikigai"]);
    let names: Vec<_> =
        fs::read_dir(&root).expect("listed").flatten().map(|it| it.file_name()).collect();
    assert_eq!(names, ["var"], "nothing is left");
}
