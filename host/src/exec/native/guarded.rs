//! The places in writable directories that other programs execute. A native tool may not write to
//! them.
//!
//! The search covers the places directly in a directory that the grant names, the places of its
//! repository, and the targets of links in places. A place that exists when a call begins becomes a
//! read-only mount. A link, and a directory on its way, becomes a mount too, so that the link keeps
//! its target. A mount needs something to lie on, so a tool can make a new place:
//! [`set_aside`](super::set_aside) renames it. Owns the search.

mod bounds;
mod call_files;
mod git;
mod links;
mod repositories;
mod running_calls;
mod search;

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::symlink_metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_supervisor::plan::{HiddenPath, InodeId};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, makedev, statx};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use self::bounds::GuardBounds;
use self::running_calls::{CallPlaces, OverlappingCalls, RunningCall};
use self::search::{GuardSearch, failed};
use super::set_aside::{
    DanglingLink, ExpectedPlace, GrantedRoot, InitialState, PartialPlace, PlaceState, SetAside,
};
use crate::policy::{EXECUTED_PLACES, Grant};

/// The guarded places of one call.
#[derive(Default)]
pub(super) struct Guarded {
    /// The places that exist.
    pub(super) read_only: Vec<HiddenPath>,
    /// The links in places, and what lies on their ways, which stay where they are.
    pub(super) pinned: BTreeMap<PathBuf, HiddenPath>,
    dangling: Vec<DanglingLink>,
    expected: Vec<ExpectedPlace>,
    listed: Vec<PartialPlace>,
    /// The directories that exceed a bound, or that cannot be looked at.
    pub(super) too_large: Vec<PathBuf>,
    /// The places that exist, to be compared after the call.
    existing: Vec<ExistingPlace>,
    /// Set if calls of other processes do not know this call, or this call does not know them: the
    /// reason.
    pub(super) unknown_to_others: Option<String>,
    /// Shows the places to other calls until they are set aside.
    _running: Option<RunningCall>,
}

/// A file, a directory or a link at a place.
struct ExistingPlace {
    path: CString,
    found: InodeId,
    /// A new file can have the inode of a removed one.
    born: Option<BirthTime>,
}

/// The time when a file was made, in seconds and nanoseconds.
type BirthTime = (i64, u32);

impl ExistingPlace {
    /// Looks at a path. Returns nothing if nothing is there, or if it cannot be looked at.
    fn at(path: CString) -> Option<Self> {
        let asked = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(CWD, &path, AtFlags::SYMLINK_NOFOLLOW, asked).ok()?;
        let mode = u32::from(found.stx_mode);
        let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = is_known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        let found = InodeId {
            directory: FileType::from_raw_mode(mode) == FileType::Directory,
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
        };
        Some(Self { path, found, born })
    }

    /// Returns whether something else is there now, or nothing.
    fn is_replaced(&self) -> bool {
        let now = Self::at(self.path.clone());
        now.is_none_or(|now| now.found != self.found || now.born != self.born)
    }
}

impl Guarded {
    /// Finds the guarded places in the directories that a grant lets a tool write to. If the call
    /// `sets_aside` what is new after it, also notes the places that do not exist. Once the search
    /// is `ended`, its caller does not need the result, and it stops soon. The user's other processes
    /// show their running calls in the directory `calls`, and see this one there.
    ///
    /// # Errors
    ///
    /// Fails if a place cannot be examined. The text says which, and why.
    pub(super) fn find(
        grant: &Grant,
        sets_aside: bool,
        ended: &CancellationToken,
        calls: Option<&Path>,
    ) -> Result<Self, String> {
        Self::find_within(grant, GuardBounds::default(), sets_aside, ended, calls)
    }

    fn find_within(
        grant: &Grant,
        bounds: GuardBounds,
        sets_aside: bool,
        ended: &CancellationToken,
        calls: Option<&Path>,
    ) -> Result<Self, String> {
        let writable: Vec<PathBuf> = grant.writable_dirs().map(Path::to_owned).collect();
        let mut search = GuardSearch {
            grant,
            writable: &writable,
            bounds,
            sets_aside,
            ended,
            overlapping: OverlappingCalls::new(calls),
            guarded: Self::default(),
            places_of_call: CallPlaces::default(),
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
        let GuardSearch { mut guarded, overlapping, places_of_call, .. } = search;
        let mounted = guarded.read_only.iter().chain(guarded.pinned.values());
        let existing = mounted.map(|it| {
            let born = ExistingPlace::at(it.path.clone()).and_then(|it| it.born);
            ExistingPlace { path: it.path.clone(), found: it.found, born }
        });
        guarded.existing = existing.collect();
        let (running, failed) = overlapping.begin(places_of_call);
        (guarded._running, guarded.unknown_to_others) = (Some(running), failed);
        Ok(guarded)
    }

    /// Returns whether a path stays as it is: a read-only mount is on it or around it, the tool cannot
    /// move it, or, if the call `sets_aside` what is new, the tool's change would be renamed.
    pub(super) fn keeps(&self, path: &Path, sets_aside: bool) -> bool {
        let is_mounted = |it: &HiddenPath| path.starts_with(OsStr::from_bytes(it.path.as_bytes()));
        let is_renamed = |it: &ExpectedPlace| {
            let place = it.around.join(&it.name);
            match it.before {
                InitialState::Nothing => path.starts_with(place),
                // Only a link would be renamed.
                InitialState::NoLink => false,
            }
        };
        let is_new = |it: &PartialPlace| {
            path.starts_with(&it.path) && it.reserved.executed_place(path).is_some()
        };
        self.read_only.iter().any(is_mounted)
            || self.pinned.contains_key(path)
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
                done.extend(dirs.filter_map(|dir| place.set_aside_in(dir)));
            }
        }
        done.extend(self.dangling.iter().filter_map(DanglingLink::set_aside));
        done.extend(self.listed.iter().flat_map(PartialPlace::set_aside));
        // A mount is gone if another program removes the place, and then the tool can make another one.
        for place in self.existing.iter().filter(|place| place.is_replaced()) {
            let path = PathBuf::from(OsStr::from_bytes(place.path.as_bytes()));
            // A link that was set aside is reported already.
            if done.iter().all(|known| known.path != path) {
                done.push(SetAside { place: path.clone(), path, now: PlaceState::Replaced });
            }
        }
        done
    }
}

#[cfg(test)]
mod tests;
