//! The checks of the user's lock and of the workspace's lock, if it has one.

use ikigai_host::host::Host;
use ikigai_host::paths::Paths;
use ikigai_host::registry::Snapshot;
use ikigai_packages::ToolsLock;

use super::DoctorCheck;
use crate::error::CliError;
use crate::shipping::{WorkspaceToolPaths, read_lock};

const SECTION: &str = "installed tools";

pub(super) fn checks(host: &Host, snapshot: &Snapshot) -> Vec<DoctorCheck> {
    let paths = host.registry().paths();
    let mut checks = Vec::new();
    if let Some(path) = paths.lock() {
        let shown = path.display().to_string();
        checks.push(match read_lock(&path) {
            Ok(lock) if lock.is_empty() => DoctorCheck::new(SECTION, "your lock", "no tools"),
            Ok(lock) => of_user(&shown, &lock, snapshot),
            Err(error) => unreadable("your lock", &error),
        });
    }
    checks.extend(of_workspace(host, paths));
    checks
}

/// Compares the user's lock with the files that discovery found.
fn of_user(path: &str, lock: &ToolsLock, snapshot: &Snapshot) -> DoctorCheck {
    let mut faults = Vec::new();
    for (name, locked) in lock.iter() {
        match snapshot.get(name) {
            // The workspace tool of this name takes precedence.
            Some(tool) if tool.source() == "workspace" => {}
            Some(tool) if tool.build.digest == locked.sha256 => {}
            Some(tool) => faults.push(format!(
                "`{name}`: `{}` is not what was installed",
                tool.build.path.display()
            )),
            None => faults.push(format!("`{name}` is missing, or no longer a tool")),
        }
    }
    let check =
        DoctorCheck::new(SECTION, "your lock", format!("{} in `{path}`", lock.iter().count()));
    if faults.is_empty() {
        return check;
    }
    check.warn(format!("{}; `ikigai tool verify` shows more", faults.join("; ")))
}

/// Returns the check of the workspace's lock, if there is one.
fn of_workspace(host: &Host, paths: &Paths) -> Option<DoctorCheck> {
    let workspace = WorkspaceToolPaths::find(paths, host.authority().workspace())?;
    let path = workspace.lock();
    if !path.exists() {
        return None;
    }
    let what = "this workspace's lock";
    let lock = match read_lock(&path) {
        Ok(lock) => lock,
        Err(error) => return Some(unreadable(what, &error)),
    };
    let approved = match read_lock(workspace.approved()) {
        Ok(approved) => approved,
        Err(error) => return Some(unreadable("what you approved", &error)),
    };
    let waiting: Vec<&str> = lock
        .iter()
        .filter(|(name, tool)| approved.get(name) != Some(tool))
        .map(|(name, _)| name)
        .collect();
    let gone = lock.iter().filter(|(_, tool)| !workspace.file(tool.sha256).is_file()).count();
    let check =
        DoctorCheck::new(SECTION, what, format!("{} in `{}`", lock.iter().count(), path.display()));
    Some(match (waiting.as_slice(), gone) {
        ([], 0) => check,
        ([], _) => check.warn("`ikigai tool sync` downloads what is missing"),
        (waiting, _) => check
            .warn(format!("not approved: {}; `ikigai tool sync` shows them", waiting.join(", "))),
    })
}

fn unreadable(what: &str, error: &CliError) -> DoctorCheck {
    DoctorCheck::new(SECTION, what, error.reason())
        .warn("fix it by hand, or restore an earlier version")
}
