//! The places of secrets in the granted directories, which a native tool does not see.
//!
//! The supervisor hides the places that exist when a call begins. Another program can make one later, or move one
//! there, and the tool sees it. [`SecretDirs`] notices that after the call, so that the record does not claim more.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use ikigai_supervisor::plan::HiddenPath;
use rustix::fs::{AtFlags, CWD, statat};

use super::dir_state::{DirState, TICK};
use crate::policy::Grant;

/// Returns the places of secrets in the granted directories that the grant does not name. If the grant names
/// something in a place, returns the rest of the place.
pub(super) fn find(grant: &Grant) -> Result<Vec<PathBuf>, String> {
    let listed = |dir: &Path| -> Result<Vec<PathBuf>, String> {
        let failed = |error: io::Error| format!("`{}` cannot be listed: {error}", dir.display());
        let entries = std::fs::read_dir(dir).map_err(failed)?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
    };
    let mut places = grant.reserved.secrets().to_vec();
    if let Some(home) = grant.reserved.home() {
        places.extend(listed(home)?);
    }
    let mut found = Vec::new();
    while let Some(place) = places.pop() {
        // Links in it are not those that the grant was decided by: what they lead to now is hidden.
        let Ok(real) = place.canonicalize() else { continue };
        let is_place = grant.reserved.secrets().contains(&place);
        if grant.reserved.is_secret(&place) || grant.reserved.is_secret(&real) {
            found.push(real);
        } else if is_place && place.is_dir() {
            found.extend(beside(&place, grant, &listed)?);
        }
    }
    found.retain(|place| grant.dirs.iter().any(|dir| place.starts_with(&dir.path)));
    Ok(found)
}

/// Returns the contents of a place of secrets, except what the grant names.
fn beside(
    place: &Path,
    grant: &Grant,
    listed: &dyn Fn(&Path) -> Result<Vec<PathBuf>, String>,
) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in listed(place)? {
        let is_link = path.is_symlink();
        if grant.reserved.is_secret(&path) {
            found.push(path);
        } else if path.is_dir() && !is_link && grant.reserved.leads_to_named(&path) {
            found.extend(beside(&path, grant, listed)?);
        }
    }
    Ok(found)
}

/// The directories in which a place of secrets can appear, each as it was before the search for the places.
#[derive(Default)]
pub(super) struct SecretDirs {
    states: BTreeMap<PathBuf, DirState>,
    /// Set if a directory had changed so shortly before that a further change may have the same time.
    is_too_early: bool,
}

impl SecretDirs {
    /// Looks at the directories on the way to each place of secrets, from the granted directory that holds it. In the
    /// home, names of secrets can appear too.
    pub(super) fn look(grant: &Grant) -> Self {
        /// The number of looks after which a directory may still be changing.
        const LOOKS: u32 = 3;
        let mut looked = Self::look_once(grant);
        for _ in 1..LOOKS {
            if !looked.is_too_early {
                break;
            }
            // A change right after one more look has another time then.
            thread::sleep(TICK);
            looked = Self::look_once(grant);
        }
        looked
    }

    fn look_once(grant: &Grant) -> Self {
        let is_granted = |path: &Path| grant.dirs.iter().any(|dir| path.starts_with(&dir.path));
        let places = grant.reserved.secrets();
        // The tool sees a place that the grant names in part, with what it names.
        let opened = grant.dirs.iter().map(|dir| &dir.path);
        let opened = opened.filter(|path| places.iter().any(|place| path.starts_with(place)));
        let ends = places.iter().chain(opened);
        let dirs = ends.flat_map(|path| path.ancestors().skip(1)).chain(grant.reserved.home());
        let now = SystemTime::now();
        let mut looked = Self::default();
        for dir in dirs.filter(|dir| is_granted(dir)) {
            if looked.states.contains_key(dir) {
                continue;
            }
            let Ok(stat) = statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let state = DirState::from_stat(&stat);
            looked.is_too_early |= state.is_too_young(now);
            looked.states.insert(dir.to_owned(), state);
        }
        looked
    }

    /// Forgets the directories that the tool does not see.
    pub(super) fn forget_hidden(&mut self, hidden: &[HiddenPath]) {
        let hidden: Vec<&Path> =
            hidden.iter().map(|it| Path::new(OsStr::from_bytes(it.path.to_bytes()))).collect();
        self.states.retain(|dir, _| !hidden.iter().any(|hidden| dir.starts_with(hidden)));
    }

    /// Returns whether names in one of the directories may have changed since. The tool itself may have changed them.
    pub(super) fn may_have_changed(&self) -> bool {
        let is_same = |(dir, state): (&PathBuf, &DirState)| {
            statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| DirState::from_stat(&stat) == *state)
        };
        self.is_too_early || !self.states.iter().all(is_same)
    }
}
