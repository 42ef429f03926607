//! The contents of a case's directory before the run, and the expected contents after it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{decode, matcher, set_mode};

const NOBODY: u32 = 65_534;

fn path_of(entry: &Value, dir: &Path) -> PathBuf {
    match entry["path_b64"].as_str() {
        Some(text) => dir.join(OsStr::from_bytes(&decode(text))),
        None => dir.join(entry["path"].as_str().expect("`path` is a string")),
    }
}

fn content(entry: &Value) -> Option<Vec<u8>> {
    if let Some(text) = entry["content_b64"].as_str() {
        return Some(decode(text));
    }
    if let Some(repeat) = entry.get("repeat") {
        return Some(matcher::repeated(repeat).into_bytes());
    }
    entry["text"].as_str().map(|text| text.as_bytes().to_vec())
}

fn mode(entry: &Value) -> Option<u32> {
    entry["mode"]
        .as_str()
        .map(|mode| u32::from_str_radix(mode, 8).expect("an octal mode in a case"))
}

/// Creates every entry, and then sets modes, so that children can be created first.
pub(super) fn lay_out(entries: &[Value], dir: &Path) -> io::Result<()> {
    for entry in entries {
        let path = path_of(entry, dir);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if entry["mkdir"] == true {
            fs::create_dir_all(&path)?;
        } else if let Some(target) = entry["symlink"].as_str() {
            symlink(target, &path)?;
        } else if let Some(other) = entry["hardlink"].as_str() {
            fs::hard_link(dir.join(other), &path)?;
        } else if entry["fifo"] == true {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                0o644.into(),
                0,
            )?;
        } else {
            fs::write(&path, content(entry).unwrap_or_default())?;
        }
        if entry.get("chown_nobody").is_some() && rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY))?;
        }
    }
    let with_mode = entries.iter().filter_map(|entry| Some((path_of(entry, dir), mode(entry)?)));
    with_mode.into_iter().try_for_each(|(path, mode)| set_mode(&path, mode))
}

/// Returns the inodes of the files that are checked later.
pub(super) fn inodes(expected: &[Value], dir: &Path) -> HashMap<PathBuf, u64> {
    let paths = expected.iter().map(|entry| path_of(entry, dir));
    paths
        .filter_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata.ino())))
        .collect()
}

/// Checks files after the run.
pub(super) fn check(
    expected: &[Value],
    inodes: &HashMap<PathBuf, u64>,
    dir: &Path,
) -> Result<(), String> {
    for entry in expected {
        let path = path_of(entry, dir);
        let shown = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
        let found = fs::symlink_metadata(&path);
        if entry["absent"] == true {
            if found.is_ok() {
                return Err(format!("`{shown}` should not exist"));
            }
            continue;
        }
        let link = found.map_err(|_| format!("`{shown}` is missing"))?;
        if entry["is_symlink"] == true && !link.is_symlink() {
            return Err(format!("`{shown}` is no longer a link"));
        }
        let metadata = fs::metadata(&path).map_err(|error| format!("`{shown}`: {error}"))?;
        if mode(entry).is_some_and(|mode| mode != metadata.mode() & 0o7777) {
            return Err(format!(
                "`{shown}` has mode {:o}, wanted {}",
                metadata.mode() & 0o7777,
                entry["mode"]
            ));
        }
        if entry["inode_changed"] == true && inodes.get(&path) == Some(&metadata.ino()) {
            return Err(format!("`{shown}` was rewritten in place"));
        }
        if entry["size"].as_u64().is_some_and(|size| size != metadata.len()) {
            return Err(format!(
                "`{shown}` has {} bytes, wanted {}",
                metadata.len(),
                entry["size"]
            ));
        }
        if let Some(wanted) = content(entry) {
            let found = fs::read(&path).map_err(|error| format!("`{shown}`: {error}"))?;
            if found != wanted {
                let text = |bytes: &[u8]| matcher::short(&String::from_utf8_lossy(bytes));
                return Err(format!(
                    "`{shown}` holds {:?}, wanted {:?}",
                    text(&found),
                    text(&wanted)
                ));
            }
        }
    }
    Ok(())
}

/// Checks that directories contain exactly the names listed.
pub(super) fn check_listings(expected: Option<&Value>, dir: &Path) -> Result<(), String> {
    for (name, wanted) in expected.and_then(Value::as_object).into_iter().flatten() {
        let entries = fs::read_dir(dir.join(name)).map_err(|error| format!("`{name}`: {error}"))?;
        let mut found: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let mut wanted: Vec<&str> =
            wanted.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        if found != wanted {
            return Err(format!("`{name}` holds {found:?}, wanted {wanted:?}"));
        }
    }
    Ok(())
}

/// Restores the modes that are needed to remove the directory.
pub(super) fn make_removable(dir: &Path) {
    // A directory that was removed in the meantime needs no mode.
    let _ = set_mode(dir, 0o755);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}
