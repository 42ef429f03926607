//! The places in writable directories that other programs execute. A native tool may not write to
//! them.
//!
//! The search covers the places directly in a directory that the grant names, the places of its
//! repository, and the targets of links in places. A place that exists when a call begins becomes a
//! read-only mount. A mount needs something to lie on, so a tool can make a new place:
//! [`set_aside`](super::set_aside) renames it. Owns the search.

mod bounds;
mod git;
mod links;
mod repositories;
mod running_calls;
mod search;

use std::ffi::{CStr, CString, OsStr};
use std::fs::symlink_metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_supervisor::plan::HiddenPath;
use rustix::fs::{AtFlags, CWD, StatxFlags, statat, statx};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use self::bounds::GuardBounds;
use self::running_calls::forget_ended;
use self::search::{GuardSearch, failed};
use super::open_grant::identity;
use super::set_aside::{
    ExpectedPlace, GrantedRoot, InitialState, PartialPlace, PlaceState, SetAside,
};
use crate::policy::{EXECUTED_PLACES, Grant};

/// The guarded places of one call.
#[derive(Default)]
pub(super) struct Guarded {
    /// The places that exist.
    pub(super) read_only: Vec<HiddenPath>,
    expected: Vec<ExpectedPlace>,
    listed: Vec<PartialPlace>,
    /// The directories that exceed a bound, or that cannot be looked at.
    pub(super) too_large: Vec<PathBuf>,
    /// The directories that the tool may write to.
    writable: Vec<PathBuf>,
    /// The places that exist, to be compared after the call.
    existing: Vec<(HiddenPath, Option<BirthTime>)>,
}

/// The time when a file was made, in seconds and nanoseconds. A new file can have the inode of a
/// removed one.
type BirthTime = (i64, u32);

/// Returns the time when the file at this path was made, if the file system knows it.
fn birth_time(path: &CStr) -> Option<BirthTime> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME).ok()?;
    let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

impl Guarded {
    /// Finds the guarded places in the directories that a grant lets a tool write to. If the call
    /// `sets_aside` what is new after it, also notes the places that do not exist. Once the search
    /// is `ended`, its caller does not need the result, and it stops soon.
    ///
    /// # Errors
    ///
    /// Fails if a place cannot be examined. The text says which, and why.
    pub(super) fn find(
        grant: &Grant,
        sets_aside: bool,
        ended: &CancellationToken,
    ) -> Result<Self, String> {
        Self::find_within(grant, GuardBounds::default(), sets_aside, ended)
    }

    fn find_within(
        grant: &Grant,
        bounds: GuardBounds,
        sets_aside: bool,
        ended: &CancellationToken,
    ) -> Result<Self, String> {
        forget_ended();
        let writable: Vec<PathBuf> = grant.writable_dirs().map(Path::to_owned).collect();
        let guarded = Self { writable: writable.clone(), ..Self::default() };
        let mut search = GuardSearch {
            grant,
            bounds,
            sets_aside,
            ended,
            guarded,
            root: None,
            within: None,
            ways_left: bounds.ways,
            is_exceeded: false,
            refusal: None,
        };
        for dir in &writable {
            search.ways_left = bounds.ways;
            let Some(open) = search.open(CWD, dir.as_os_str(), dir)? else {
                // Another program may have moved it for a moment. The supervisor would then find it
                // again.
                let is_file =
                    symlink_metadata(dir).is_ok_and(|it| !it.is_dir() && !it.is_symlink());
                if grant.dirs.iter().any(|it| it.path == *dir) && !is_file {
                    return Err(failed(dir, Errno::NOENT));
                }
                continue;
            };
            let around = search.root.as_ref().filter(|root| dir.starts_with(&root.path));
            if around.is_none() {
                search.root = Some(GrantedRoot { dir: Arc::clone(&open), path: dir.clone() });
            }
            for place in EXECUTED_PLACES {
                search.look(&open, dir, OsStr::new(place.name))?;
            }
            search.repository(&open, dir)?;
        }
        if let Some(refusal) = search.refusal {
            return Err(refusal);
        }
        let mut guarded = search.guarded;
        let mounted = guarded.read_only.iter().map(|it| (it.clone(), birth_time(&it.path)));
        guarded.existing.extend(mounted);
        Ok(guarded)
    }

    /// Notes a link that exists, to compare it after the call.
    fn note_existing(&mut self, link: &Path) {
        let Ok(path) = CString::new(link.as_os_str().as_bytes()) else { return };
        let Ok(found) = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let born = birth_time(&path);
        self.existing.push((HiddenPath { path, found: identity(&found) }, born));
    }

    /// Returns whether a path stays as it is: a read-only mount is on it or around it, or, if the
    /// call `sets_aside` what is new, the tool's change would be renamed.
    pub(super) fn keeps(&self, path: &Path, sets_aside: bool) -> bool {
        let is_mounted = |it: &HiddenPath| path.starts_with(OsStr::from_bytes(it.path.as_bytes()));
        let is_renamed = |it: &ExpectedPlace| {
            let place = it.around.join(&it.name);
            match it.before {
                // The directory must stay, but the tool may write in it.
                InitialState::Directory { .. } => path == place,
                InitialState::Nothing | InitialState::Link { .. } => path.starts_with(place),
                // Only a link would be renamed.
                InitialState::NoLink => false,
            }
        };
        let is_new = |it: &PartialPlace| {
            path.starts_with(&it.path) && it.reserved.executed_place(path).is_some()
        };
        self.read_only.iter().any(is_mounted)
            || sets_aside
                && (self.expected.iter().any(is_renamed) || self.listed.iter().any(is_new))
    }

    /// Renames the files that were made at guarded places during the call.
    pub(super) fn set_aside(self) -> Vec<SetAside> {
        let mut done = Vec::new();
        for places in self.expected.chunk_by(|one, next| Arc::ptr_eq(&one.dir, &next.dir)) {
            let other = places[0].other_dir();
            for place in places {
                let dirs = std::iter::once(&*place.dir).chain(&other);
                done.extend(dirs.flat_map(|dir| place.set_aside_in(dir, &self.writable)));
            }
        }
        done.extend(self.listed.iter().flat_map(PartialPlace::set_aside));
        // A mount is gone if another call removes the place, and then the tool can make another one.
        let is_replaced = |(place, born): &&(HiddenPath, Option<BirthTime>)| {
            let now = statat(CWD, &place.path, AtFlags::SYMLINK_NOFOLLOW);
            let is_same = now.is_ok_and(|now| identity(&now) == place.found);
            !is_same || birth_time(&place.path) != *born
        };
        for (place, _) in self.existing.iter().filter(is_replaced) {
            let path = PathBuf::from(OsStr::from_bytes(place.path.as_bytes()));
            // A link that is gone is reported already.
            if done.iter().all(|known| known.path != path) {
                done.push(SetAside { place: path.clone(), path, now: PlaceState::Replaced });
            }
        }
        done
    }
}

#[cfg(test)]
mod tests;
