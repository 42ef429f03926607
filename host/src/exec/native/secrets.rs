//! The places of secrets in the granted directories and in the base view, which a native tool does
//! not see.
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

use ikigai_supervisor::base_view::is_in_base_view;
use ikigai_supervisor::plan::HiddenPath;
use rustix::fs::{AtFlags, CWD, statat};

use crate::paths::{
    CALL_AGE, FoundPlace, InodeState, TICK, find_place, is_absence, resolution_steps,
};
use crate::policy::Grant;

/// Returns the places of secrets that the tool would see and the grant does not name. If the grant names
/// something in a place, returns the rest of the place. If a place cannot be looked at, returns the
/// last directory on the way to it that can.
///
/// # Errors
///
/// The reason, for a person, if a directory cannot be searched or hidden.
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
        let is_place = grant.reserved.secrets().contains(&place);
        let is_secret = grant.reserved.is_secret(&place);
        // Links in it are not those that the grant was decided by: what they lead to now is hidden.
        let real = match find_place(&place) {
            Some(FoundPlace::At(real)) => real,
            // Another program may give the rights to it back while the tool runs.
            Some(FoundPlace::Beyond(dir)) if is_place || is_secret => {
                found.push(hideable(dir, grant)?);
                continue;
            }
            // What a link in the home leads to is a place of its own, if there are secrets.
            Some(FoundPlace::Beyond(_)) | None => continue,
        };
        if is_secret || grant.reserved.is_secret(&real) {
            found.push(real);
        } else if is_place && is_dir(&place)? {
            found.extend(beside(&place, grant, &listed)?);
        }
    }
    found.retain(|place| is_shown(place, grant));
    Ok(found)
}

/// Returns whether a path lies in a granted directory or in the base view.
fn is_shown(path: &Path, grant: &Grant) -> bool {
    grant.dirs.iter().any(|dir| path.starts_with(&dir.path)) || is_in_base_view(path)
}

/// Returns the directory, which cannot be searched, if it can be hidden as a whole.
fn hideable(dir: PathBuf, grant: &Grant) -> Result<PathBuf, String> {
    match grant.dirs.iter().find(|granted| granted.path.starts_with(&dir)) {
        None => Ok(dir),
        Some(granted) => Err(format!(
            "`{}` cannot be searched for places of secrets, and the granted `{}` lies in it",
            dir.display(),
            granted.path.display()
        )),
    }
}

/// Returns whether a path leads to a directory.
fn is_dir(path: &Path) -> Result<bool, String> {
    match path.metadata() {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(format!("`{}` cannot be looked at: {error}", path.display())),
    }
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
        } else if !is_link && grant.reserved.leads_to_named(&path) && is_dir(&path)? {
            found.extend(beside(&path, grant, listed)?);
        }
    }
    Ok(found)
}

/// The directories in which a place of secrets can appear, each as it was before the search for the places.
#[derive(Default)]
pub(super) struct SecretDirs {
    states: BTreeMap<PathBuf, InodeState>,
    /// Set if a directory had changed so shortly before that a further change may have the same time.
    is_too_early: bool,
}

impl SecretDirs {
    /// Looks at the directories that the tool sees on the way to each place of secrets, and to the
    /// targets of links there. The places need not exist. In the home, names of secrets can appear
    /// too.
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
        let places = grant.reserved.secrets();
        // The tool sees a place that the grant names in part, with what it names.
        let opened = grant.dirs.iter().map(|dir| &dir.path);
        let opened = opened.filter(|path| places.iter().any(|place| path.starts_with(place)));
        let ends = places.iter().chain(opened);
        let steps = ends.flat_map(|path| [vec![path.clone()], resolution_steps(path)].concat());
        let ways: Vec<PathBuf> = steps.collect();
        let dirs = ways.iter().flat_map(|path| path.ancestors().skip(1));
        let dirs = dirs.chain(grant.reserved.home());
        let now = SystemTime::now();
        let mut looked = Self::default();
        for dir in dirs.filter(|dir| is_shown(dir, grant)) {
            if looked.states.contains_key(dir) {
                continue;
            }
            let Ok(stat) = statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let state = InodeState::from_stat(&stat);
            looked.is_too_early |= !state.has_settled(CALL_AGE, now);
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
        let is_same = |(dir, state): (&PathBuf, &InodeState)| {
            statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| InodeState::from_stat(&stat) == *state)
        };
        self.is_too_early || !self.states.iter().all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use ikigai_protocol::{Access, GrantedDir};

    use super::*;
    use crate::paths::{open_scratch, while_closed};
    use crate::policy::Reserved;

    #[test]
    fn a_place_that_cannot_be_looked_at_is_hidden_with_its_directory() {
        let (_scratch, root) = open_scratch();
        let home = root.join("home");
        for dir in ["home/.cargo/registry", "home/.ssh/keys", "vault"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        for file in ["home/.cargo/credentials.toml", "home/.ssh/keys/one", "vault/keys"] {
            fs::write(root.join(file), "x").expect("written");
        }
        symlink("../vault/keys", home.join(".aws")).expect("linked");
        let granted = |names: &[&str]| {
            let dir = |name: &&str| GrantedDir { access: Access::ReadOnly, path: root.join(name) };
            let dirs: Vec<GrantedDir> = names.iter().map(dir).collect();
            let reserved = Reserved::in_home(&home, &dirs, dirs.clone());
            Grant { dirs, reserved, ..Grant::default() }
        };
        let found = |grant: &Grant, closed: &str, mode| {
            while_closed(&root.join(closed), mode, || find(grant))
        };
        let whole = granted(&["home"]);
        let open = find(&whole).expect("found");
        assert!(open.contains(&home.join(".cargo/credentials.toml")), "{open:?}");
        let closed = found(&whole, "home/.cargo", 0).expect("found");
        assert!(closed.contains(&home.join(".cargo")), "{closed:?}");
        assert!(closed.contains(&home.join(".ssh")) && !closed.contains(&home), "{closed:?}");
        // A link that leads out of the grant into a closed directory hides nothing else.
        let closed = found(&whole, "vault", 0).expect("found");
        assert!(closed.iter().all(|path| path.starts_with(&home) && *path != home), "{closed:?}");
        // A granted directory that is closed itself, or lies in one, cannot be hidden.
        for (grant, dir, mode) in [
            (granted(&["home"]), "home", 0o444),
            (granted(&["home", "home/.cargo/registry"]), "home/.cargo", 0),
            (granted(&["home", "home/.ssh/keys/one"]), "home/.ssh", 0o444),
        ] {
            let reason = found(&grant, dir, mode).expect_err(dir);
            assert!(reason.contains(dir), "{reason}");
        }
    }

    #[test]
    fn a_place_can_appear_wherever_a_link_on_its_way_leads() {
        let (_scratch, root) = open_scratch();
        let home = root.join("home");
        for dir in ["dots", "links", "conf", "other"] {
            fs::create_dir_all(home.join(dir)).expect("made");
        }
        let dirs = vec![GrantedDir { access: Access::ReadOnly, path: home.clone() }];
        let reserved = Reserved::in_home(&home, &dirs, dirs.clone());
        let grant = Grant { dirs, reserved, ..Grant::default() };
        // The links appear after the decision. One leads to nothing yet, and one leads to another link.
        for (target, link) in
            [("dots/later/aws", ".aws"), ("links/conf", ".config"), ("../conf", "links/conf")]
        {
            symlink(target, home.join(link)).expect("linked");
        }
        let looked = SecretDirs::look_once(&grant);
        let mut dirs: Vec<&Path> = looked.states.keys().map(PathBuf::as_path).collect();
        dirs.retain(|dir| !dir.ends_with(".config"));
        assert_eq!(dirs, ["", "conf", "dots", "links"].map(|name| home.join(name)));
    }
}
