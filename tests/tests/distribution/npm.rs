//! The npm packages, installed without a registry and without scripts.

use std::fs;

use ikigai_tests::host::Ran;

use crate::artifacts::{Machine, file, has};

/// Installs the packages into the workspace, and returns the path of the launcher.
fn installed(machine: &Machine) -> Option<std::path::PathBuf> {
    let [main, platform] = [file("ikigai-0", ".tgz")?, file("ikigai-linux-", ".tgz")?];
    if !has("npm") {
        return None;
    }
    let project = machine.path("project");
    fs::create_dir(&project).expect("a directory");
    fs::write(project.join("package.json"), "{}").expect("written");
    let mut npm = machine.command("npm");
    npm.current_dir(&project).args(["install", "--ignore-scripts", "--offline", "--no-audit"]);
    npm.args(["--no-fund", "--no-update-notifier"]).arg(platform).arg(main);
    Ran::from_command(&mut npm, b"").expect_code(0);
    Some(project.join("node_modules/.bin/ikigai"))
}

#[test]
fn the_launcher_is_the_program() {
    let machine = Machine::new();
    let Some(launcher) = installed(&machine) else { return };
    machine.assert_works(&launcher);
    let unknown = machine.command(&launcher).args(["tool", "call", "nope", "{}"]).status();
    assert_eq!(unknown.expect("a status").code(), Some(1), "the exit code is passed on");
}

#[test]
fn a_missing_platform_is_named() {
    let machine = Machine::new();
    let Some(launcher) = installed(&machine) else { return };
    let modules = machine.path("project/node_modules");
    let entries = fs::read_dir(&modules).expect("listed").flatten();
    let platform = entries.map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ikigai-linux"))
    });
    fs::remove_dir_all(platform.expect("the package of the platform")).expect("removed");
    let ran = Ran::from_command(machine.command(&launcher).arg("--version"), b"").expect_code(1);
    assert!(ran.stderr().contains("the package ikigai-linux-"), "{ran}");
    assert!(ran.stderr().contains("--omit=optional"), "{ran}");
}
