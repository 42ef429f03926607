//! Following a path name by name if something is hidden.
//!
//! Each name is checked before it is looked at, including the names in links. So a guest learns
//! nothing of a hidden name from a path that leads through it and out of it again.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, openat};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::{Looked, MAX_LINKS, PathEnd, Touches, look, open_itself, target};
use crate::exec::wasm::hidden::{PathSteps, real_path};
use crate::exec::wasm::ordinary::is_ordinary;

/// Follows a path beneath `start` to the parent directory of the file that it names. `steps` are at
/// the root.
///
/// If a directory is moved at the same time, `..` may lead out of `start`. So the caller checks the
/// place of the result.
pub(super) fn follow(
    start: &Dir,
    mut steps: PathSteps<'_>,
    path: &str,
    touches: Touches,
) -> FsResult<PathEnd> {
    if path.is_empty() || path.starts_with('/') {
        // wasmtime refuses it.
        return Ok(PathEnd { parent: None, name: path.to_owned(), seen: None });
    }
    steps.follow(&real_path(start.dir.as_fd()).map_err(|_| ErrorCode::Access)?);
    let (mut parent, mut depth, mut links) = (None, 0_usize, 0);
    let mut names = RemainingNames::new(path);
    while let Some(name) = names.next() {
        let directory = parent.as_ref().map_or_else(|| start.dir.as_fd(), OwnedFd::as_fd);
        if name == ".." {
            depth = depth.checked_sub(1).ok_or(ErrorCode::NotPermitted)?;
            steps.pop();
            parent = match depth {
                0 => None,
                _ => Some(
                    openat(directory, "..", DIRECTORY, Mode::empty()).map_err(io::Error::from)?,
                ),
            };
            continue;
        }
        steps.push(name.as_ref());
        if steps.is_hidden_or_outside() {
            return Err(ErrorCode::Access.into());
        }
        let end = names.end();
        let link = if let Some(slashes) = end {
            let name = format!("{name}{slashes}");
            match look(directory, &name, touches)? {
                Looked::End { name, seen } => {
                    return Ok(PathEnd { parent, name: name.to_owned(), seen });
                }
                Looked::Link { target, is_directory } => {
                    if is_directory {
                        target + "/"
                    } else {
                        target
                    }
                }
            }
        } else {
            let found = open_itself(directory, &name)?;
            match found.ok_or(ErrorCode::NoEntry)? {
                (open, FileType::Directory) => {
                    (parent, depth) = (Some(open), depth + 1);
                    continue;
                }
                (open, FileType::Symlink) => target(&open)?,
                _ => return Err(ErrorCode::NotDirectory.into()),
            }
        };
        steps.pop();
        links += 1;
        if links > MAX_LINKS {
            return Err(ErrorCode::Loop.into());
        }
        if link.starts_with('/') {
            return Err(ErrorCode::NotPermitted.into());
        }
        names.insert(&link, end.is_some());
    }
    // The path ends with a directory that it came to.
    match parent.as_ref().is_none_or(|parent| is_ordinary(parent.as_fd())) {
        true => Ok(PathEnd { parent, name: ".".to_owned(), seen: None }),
        false => Err(ErrorCode::Access.into()),
    }
}

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The names of a path that are still to be followed, without `.`.
struct RemainingNames {
    /// The last one comes first.
    rest: Vec<String>,
    /// The slashes after the last name; nothing if the path ends in `.` or `..`, which is a
    /// directory.
    slashes: Option<&'static str>,
}

impl RemainingNames {
    fn new(path: &str) -> Self {
        let mut names = Self { rest: Vec::new(), slashes: None };
        names.insert(path, true);
        names
    }

    /// Puts the names of a path before the remaining ones. If no names remain, `is_all` is true,
    /// and the end of the path becomes the end of all.
    fn insert(&mut self, path: &str, is_all: bool) {
        if is_all {
            let last = path.trim_end_matches('/').rsplit('/').next();
            let is_name = !matches!(last, Some("." | ".."));
            self.slashes = is_name.then_some(if path.ends_with('/') { "/" } else { "" });
        }
        let names = path.rsplit('/').filter(|name| !matches!(*name, "" | "."));
        self.rest.extend(names.map(str::to_owned));
    }

    fn next(&mut self) -> Option<String> {
        self.rest.pop()
    }

    /// Returns the slashes after the name that was last returned, if the path ends with it.
    fn end(&self) -> Option<&'static str> {
        self.slashes.filter(|_| self.rest.is_empty())
    }
}
