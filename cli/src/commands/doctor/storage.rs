//! The checks of the host's own directories: whether it can store its caches and its log there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use rustix::fs::{Access, access, statvfs};

use super::DoctorCheck;
use crate::remedy::REINSTALL;
use ikigai_host::audit::{self, LogReader};
use ikigai_host::paths::{self, Paths};
use ikigai_host::policy::{EarlierReach, InEarlierReach};

const SECTION: &str = "caches and audit log";

/// The free space in bytes below which records and compiled code may soon not fit.
const LITTLE: u64 = 64 << 20;

pub(super) fn checks(paths: &Paths) -> Vec<DoctorCheck> {
    vec![
        system_cache(paths.system_cache.as_deref()),
        cache(paths),
        audit_log(paths.state.as_deref()),
    ]
}

fn system_cache(dir: Option<&Path>) -> DoctorCheck {
    let what = "cache of the installation";
    match dir.map(|dir| (dir, size(dir))) {
        Some((dir, Ok((files, bytes)))) => DoctorCheck::new(
            SECTION,
            what,
            format!("`{}`, {}", dir.display(), counted(files, bytes)),
        ),
        Some((dir, Err(error))) => {
            DoctorCheck::new(SECTION, what, format!("`{}`: {error}", dir.display()))
                .warn(format!("{REINSTALL}; until then, first calls compile"))
        }
        None => DoctorCheck::new(SECTION, what, "none: the path of the program is unknown"),
    }
}

fn cache(paths: &Paths) -> DoctorCheck {
    let what = "cache";
    let Some(dir) = paths.cache.as_deref() else {
        return DoctorCheck::new(SECTION, what, "none").warn("set HOME or XDG_CACHE_HOME");
    };
    let shown = dir.display();
    let effect = "every run recompiles components and asks tools again";
    if let Err(found) = EarlierReach::from_paths(paths).check(dir) {
        let text = format!("not used, so {effect}: {found}");
        return DoctorCheck::new(SECTION, what, text).warn(InEarlierReach::HINT);
    }
    if let Some(check) = unusable(what, dir, effect) {
        return check;
    }
    let text = match size(dir) {
        Ok((files, bytes)) => format!("`{shown}`, {}", counted(files, bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("`{shown}`, not created yet")
        }
        Err(error) => {
            return DoctorCheck::new(SECTION, what, format!("`{shown}`: {error}")).warn(
                "make it readable to yourself; until then every run recompiles components and asks tools again",
            );
        }
    };
    with_room(DoctorCheck::new(SECTION, what, text), dir)
}

fn audit_log(dir: Option<&Path>) -> DoctorCheck {
    let what = "audit log";
    let Some(dir) = dir else {
        return DoctorCheck::new(SECTION, what, "none").warn("set HOME or XDG_STATE_HOME");
    };
    let path = dir.join(audit::NAME);
    let shown = path.display();
    if let Some(check) = unusable(what, dir, "calls are not recorded") {
        return check;
    }
    if let Err(error) = LogReader::open(dir) {
        return DoctorCheck::new(SECTION, what, format!("calls are not recorded: {error}")).warn(
            "move it away: it must be a regular file that you own and that other users cannot \
             write to",
        );
    }
    let text = match size(dir) {
        Ok((_, bytes)) if path.exists() => {
            if access(&path, Access::WRITE_OK).is_err() {
                return DoctorCheck::new(SECTION, what, format!("`{shown}` cannot be written"))
                    .warn(format!("chmod u+rw '{shown}'; until then calls are not recorded"));
            }
            format!("`{shown}`, {} with the older ones", ByteSize(bytes))
        }
        _ => format!("`{shown}`, nothing recorded yet"),
    };
    with_room(DoctorCheck::new(SECTION, what, text), dir)
}

/// Returns a check with the reason, if nothing can be stored in a directory, and with the effect.
fn unusable(what: &str, dir: &Path, effect: &str) -> Option<DoctorCheck> {
    let shown = dir.display();
    match fs::symlink_metadata(dir) {
        Ok(_) if !paths::is_trusted(dir, paths::is_own) => {
            let text = format!("`{shown}` is not used, so {effect}");
            Some(DoctorCheck::new(SECTION, what, text).warn(
                "it must be a directory that you own and that other users cannot write to, not a \
                 link",
            ))
        }
        Ok(_) if access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err() => {
            let text = format!("`{shown}` cannot be written, so {effect}");
            Some(DoctorCheck::new(SECTION, what, text).warn(format!("chmod u+rwx '{shown}'")))
        }
        Ok(_) => None,
        Err(_) => {
            let above = existing(dir);
            access(&above, Access::WRITE_OK | Access::EXEC_OK).is_err().then(|| {
                let text = format!("`{shown}` cannot be created, so {effect}");
                DoctorCheck::new(SECTION, what, text)
                    .warn(format!("make `{}` a directory that you can write to", above.display()))
            })
        }
    }
}

/// Returns the nearest ancestor that exists. It may not be a directory.
fn existing(dir: &Path) -> PathBuf {
    let found = dir.ancestors().find(|above| above.symlink_metadata().is_ok());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn with_room(check: DoctorCheck, dir: &Path) -> DoctorCheck {
    match statvfs(existing(dir)) {
        Ok(room) if room.f_bavail.saturating_mul(room.f_frsize) < LITTLE => {
            let left = ByteSize(room.f_bavail.saturating_mul(room.f_frsize));
            check.warn(format!("only {left} are left on its disk; free some space"))
        }
        _ => check,
    }
}

fn counted(files: u64, bytes: u64) -> String {
    let s = if files == 1 { "" } else { "s" };
    format!("{files} file{s}, {}", ByteSize(bytes))
}

/// Returns the number of files below a directory, and their bytes.
fn size(dir: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Ignore a file that disappears in the meantime.
        let Ok(metadata) = entry.metadata() else { continue };
        let (more_files, more_bytes) = match metadata.is_dir() {
            true => size(&entry.path()).unwrap_or_default(),
            false => (1, metadata.len()),
        };
        files += more_files;
        bytes += more_bytes;
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_not_plural() {
        assert_eq!(counted(1, 7), "1 file, 7 B");
        assert_eq!(counted(0, 0), "0 files, 0 B");
    }
}
