//! The search in a repository, and among its submodules and working trees.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, fstat, statat};
use rustix::io::Errno;

use super::git::OF_REPOSITORIES;
use super::search::{GuardSearch, failed};
use crate::exec::native::hidden_search::LONGEST_PATH;
use crate::exec::native::open_grant::identity;
use crate::exec::native::set_aside::{InitialState, first_names_in};
use crate::policy::{GIT, IN_GIT, MODULES, WORKTREES};

impl GuardSearch<'_> {
    /// Guards the places in the repository of a directory.
    pub(super) fn repository(&mut self, dir: &Arc<OwnedFd>, around: &Path) -> Result<(), String> {
        let (name, path) = (OsStr::new(GIT), around.join(GIT));
        let Some(git) = self.open(dir, name, &path)? else {
            // There is no repository, or a file or a link names another directory.
            return self.look(dir, around, name);
        };
        if !self.grant.reserved.names(&path) {
            let stat = fstat(&git).map_err(|errno| failed(&path, errno))?;
            self.pin(&path, identity(&stat))?;
            self.is_new(dir, &path, name)?;
        }
        // Another call may have closed it, and the links in it lead to unknown files of the directory.
        if matches!(statat(&git, "HEAD", AtFlags::SYMLINK_NOFOLLOW), Err(Errno::ACCESS)) {
            self.guarded.too_large.push(path);
            let stat = fstat(dir).map_err(|errno| failed(around, errno))?;
            return self.read_only(around, identity(&stat));
        }
        let before = self.guarded.read_only.len();
        let is_whole = self.inner(&git, &path).is_ok_and(|is_whole| is_whole);
        self.within = None;
        if is_whole {
            return Ok(());
        }
        // A tool may have made the repository too large, or taken rights away. Later calls must not
        // fail because of that.
        self.keep_outside(before, &path);
        if !self.is_guarded(&path) {
            return Ok(());
        }
        if self.grant.reserved.leads_to_named(&path) {
            self.guarded.too_large.push(path.clone());
            return self.beside_named(dir, &path, name);
        }
        self.close(&git, &path)
    }

    /// Guards the places in a repository. Returns false if there are too many.
    fn inner(&mut self, git: &Arc<OwnedFd>, path: &Path) -> Result<bool, String> {
        for place in IN_GIT.iter().filter(|place| ![MODULES, WORKTREES].contains(place)) {
            self.look(git, path, OsStr::new(place))?;
        }
        (self.ways_left, self.is_exceeded) = (self.bounds.ways, false);
        let mut left = self.bounds.inner;
        let most = self.places() + self.bounds.places;
        for inner in [MODULES, WORKTREES] {
            let (name, place) = (OsStr::new(inner), path.join(inner));
            let open = self.open(git, name, &place)?;
            // A link, or something that git does not use.
            if open.is_none() && statat(git, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.look(git, path, name)?;
                continue;
            }
            if !self.is_guarded(&place) {
                continue;
            }
            // Later calls would take a link for the user's, and guard what it leads to.
            self.expect(git, &place, name, InitialState::NoLink);
            let Some(open) = open else { continue };
            self.within = Some(path.to_owned());
            if !self.repositories(&open, &place, &mut left, most)? {
                return Ok(false);
            }
            self.within = None;
        }
        Ok(true)
    }

    /// Guards the places in the repositories of a directory. Returns false if there are more names
    /// than are `left`, if the search has then found more than `most` places, or if a link leads
    /// too far.
    fn repositories(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        left: &mut usize,
        most: usize,
    ) -> Result<bool, String> {
        let names = first_names_in(dir, left.saturating_add(1));
        for name in names.map_err(|errno| failed(path, errno))? {
            let inner = path.join(&name);
            if self.ended.is_cancelled() {
                return Ok(false);
            }
            // Every name counts, since a tool can make files and links here as well.
            *left = match left.checked_sub(1) {
                Some(left) if inner.as_os_str().len() <= LONGEST_PATH => left,
                _ => return Ok(false),
            };
            let Some(open) = self.open(dir, &name, &inner)? else {
                self.inner_link(&inner)?;
                if self.is_exceeded {
                    return Ok(false);
                }
                continue;
            };
            // A tool may remove some of them between two calls.
            let is_there = |name: &str| statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let is_repository = OF_REPOSITORIES.iter().any(|name| is_there(name));
            if is_repository {
                for place in IN_GIT.iter().filter(|place| **place != MODULES) {
                    self.look(&open, &inner, OsStr::new(place))?;
                    if self.is_exceeded || self.places() > most {
                        return Ok(false);
                    }
                }
            }
            let below = match is_repository {
                true => self.open(&open, OsStr::new(MODULES), &inner)?,
                false => Some(open),
            };
            let below_path = if is_repository { inner.join(MODULES) } else { inner };
            if let Some(below) = below
                && !self.repositories(&below, &below_path, left, most)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
