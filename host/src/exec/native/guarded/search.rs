//! The search itself: what lies at the places of one directory, and what is expected there.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_supervisor::plan::HiddenPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::Guarded;
use super::bounds::GuardBounds;
use super::git::holds_repositories;
use super::running_calls::{CallPlaces, OverlappingCalls};
use crate::exec::native::open_grant::identity;
use crate::exec::native::set_aside::{
    ExpectedPlace, GrantedRoot, InitialState, PartialPlace, first_names_in,
};
use crate::policy::Grant;

/// The search for the guarded places of one call.
pub(super) struct GuardSearch<'a> {
    pub(super) grant: &'a Grant,
    /// The directories that the tool may write to.
    pub(super) writable: &'a [PathBuf],
    pub(super) bounds: GuardBounds,
    /// False for a server: it lives on while its user works, and the user may make such places.
    pub(super) sets_aside: bool,
    pub(super) ended: &'a CancellationToken,
    pub(super) overlapping: OverlappingCalls<'a>,
    pub(super) guarded: Guarded,
    /// The places that later calls must know.
    pub(super) places_of_call: CallPlaces,
    /// The outermost writable directory that is searched.
    pub(super) root: Option<GrantedRoot>,
    /// The repository whose submodules and working trees are searched. A tool may have made them,
    /// and the links in them.
    pub(super) within: Option<PathBuf>,
    /// The number of components that are still looked at on the ways of links.
    pub(super) ways_left: usize,
    /// Set if a link among those submodules and working trees leads too far.
    pub(super) is_exceeded: bool,
    /// The reason why the call must not start. Unlike an error, it counts in a repository, too.
    pub(super) refusal: Option<String>,
}

impl GuardSearch<'_> {
    /// Opens a directory, if there is one.
    pub(super) fn open(
        &self,
        parent: impl AsFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<Arc<OwnedFd>>, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(parent, name, flags, Mode::empty()) {
            Ok(open) => Ok(Some(Arc::new(open))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(failed(path, errno)),
        }
    }

    pub(super) fn is_guarded(&self, path: &Path) -> bool {
        self.grant.reserved.executed_place(path).is_some()
    }

    /// Looks at the place with a name in a directory.
    pub(super) fn look(
        &mut self,
        dir: &Arc<OwnedFd>,
        around: &Path,
        name: &OsStr,
    ) -> Result<(), String> {
        let path = around.join(name);
        if self.ended.is_cancelled() || !self.is_guarded(&path) {
            return Ok(());
        }
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return self.absent(dir, path, name),
            Err(errno) => return Err(failed(&path, errno)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.is_new(dir, &path, name)? && kind == FileType::Symlink && self.sets_aside {
            return Ok(());
        }
        match kind {
            FileType::Symlink if holds_repositories(around) => self.inner_link(&path),
            FileType::Symlink => self.link(&path),
            FileType::Directory if self.grant.reserved.leads_to_named(&path) => {
                self.beside_named(dir, &path, name)
            }
            kind => {
                self.read_only(&path, identity(&stat))?;
                // Links among submodules are not followed: a tool may have made them.
                if kind == FileType::Directory && !holds_repositories(&path) {
                    self.links_in(&path)?;
                }
                Ok(())
            }
        }
    }

    fn absent(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        if !self.sets_aside {
            return Ok(());
        }
        self.places_of_call.note_absent(dir, name).map_err(|errno| failed(&path, errno))?;
        self.expect(dir, &path, name, InitialState::Nothing);
        Ok(())
    }

    /// Returns whether a running call made what is at a place. Then it is new for this call as well.
    pub(super) fn is_new(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
    ) -> Result<bool, String> {
        let is_new = self.overlapping.found_absent(dir, name);
        let is_new = is_new.map_err(|errno| failed(path, errno))?;
        if is_new {
            self.absent(dir, path.to_owned(), name)?;
        }
        Ok(is_new)
    }

    pub(super) fn expect(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
        before: InitialState,
    ) {
        let Some(root) = self.root.clone() else { return };
        let around = path.parent().unwrap_or(path).to_owned();
        let (dir, name) = (Arc::clone(dir), name.to_owned());
        self.guarded.expected.push(ExpectedPlace { root, dir, around, name, before });
    }

    /// Guards the contents of a place, except what the grant names.
    pub(super) fn beside_named(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
    ) -> Result<(), String> {
        let Some(place) = self.open(dir, name, path)? else { return Ok(()) };
        let most = self.bounds.names;
        let found = first_names_in(&place, most.saturating_add(1));
        let found = found.map_err(|errno| failed(path, errno))?;
        if found.len() > most {
            return self.close(&place, path);
        }
        let found = self.overlapping.found_listed(&place, found.into_iter().collect());
        let names = Arc::new(found.map_err(|errno| failed(path, errno))?);
        if self.sets_aside {
            let noted = self.places_of_call.note_listed(&place, &names);
            noted.map_err(|errno| failed(path, errno))?;
        }
        let (mounts, places) = (self.guarded.read_only.len(), self.places());
        for entry in &*names {
            self.look(&place, path, entry)?;
            if self.places() - places > self.bounds.places {
                self.keep_outside(mounts, path);
                return self.close(&place, path);
            }
        }
        let stat = fstat(&place).map_err(|errno| failed(path, errno))?;
        self.pin(path, identity(&stat))?;
        self.guarded.listed.push(PartialPlace {
            dir: place,
            path: path.to_owned(),
            names,
            reserved: self.grant.reserved.clone(),
        });
        Ok(())
    }

    /// Makes a directory that exceeds a bound read-only as a whole.
    pub(super) fn close(&mut self, dir: &OwnedFd, path: &Path) -> Result<(), String> {
        let stat = fstat(dir).map_err(|errno| failed(path, errno))?;
        self.read_only(path, identity(&stat))?;
        self.guarded.too_large.push(path.to_owned());
        Ok(())
    }

    /// Returns the number of places that were found so far.
    pub(super) fn places(&self) -> usize {
        let Guarded { read_only, pinned, expected, dangling, .. } = &self.guarded;
        read_only.len() + pinned.len() + expected.len() + dangling.len()
    }

    /// Forgets the mounts in a directory, except for the first `before` mounts. The targets of
    /// links that lie outside of the directory stay.
    pub(super) fn keep_outside(&mut self, before: usize, dir: &Path) {
        let found = self.guarded.read_only.split_off(before);
        let is_outside =
            |it: &HiddenPath| !Path::new(OsStr::from_bytes(it.path.to_bytes())).starts_with(dir);
        self.guarded.read_only.extend(found.into_iter().filter(is_outside));
    }

    pub(super) fn read_only(
        &mut self,
        path: &Path,
        found: ikigai_supervisor::plan::InodeId,
    ) -> Result<(), String> {
        self.guarded.read_only.push(HiddenPath { path: c_path(path)?, found });
        Ok(())
    }
}

pub(super) fn c_path(path: &Path) -> Result<CString, String> {
    let text = CString::new(path.as_os_str().as_bytes());
    text.map_err(|_| format!("`{}` contains a NUL", path.display()))
}

pub(super) fn failed(path: &Path, errno: Errno) -> String {
    format!("`{}` cannot be looked at: {errno}", path.display())
}
