//! The links in guarded places, and the targets to which they lead.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, readlinkat, statat};
use rustix::io::Errno;

use super::git::{holds_repositories, is_repository};
use super::search::{GuardSearch, failed};
use crate::exec::executed_links::links_in;
use crate::exec::native::open_grant::identity;
use crate::exec::native::set_aside::InitialState;
use crate::paths::{LinkEnd, Resolution, resolve_within};

impl GuardSearch<'_> {
    /// Guards the targets of the links in a place.
    pub(super) fn links_in(&mut self, place: &Path) -> Result<(), String> {
        let links = links_in(place, &mut |link: &Path| self.resolve(link));
        let links =
            links.map_err(|error| format!("`{}` cannot be searched: {error}", place.display()))?;
        for (link, way) in links {
            if way.end == LinkEnd::TooFar {
                self.exceeded(place);
                continue;
            }
            // All of the place is read-only. A link outside of it can be replaced.
            if way.steps.iter().all(|step| step.starts_with(place)) {
                continue;
            }
            self.guard_target(&way.end)?;
            let (Some(around), Some(name)) = (link.parent(), link.file_name()) else { continue };
            // Outside of the granted directory nothing is renamed.
            let dir = self.root.as_ref().and_then(|root| root.open(around));
            let Some(dir) = dir.map(Arc::new) else { continue };
            let Ok(text) = readlinkat(&dir, name, Vec::new()) else { continue };
            // The end of the link has a mount. A link on the way to it cannot.
            self.expect_link(&dir, &link, name, text, way.end);
        }
        Ok(())
    }

    /// Resolves a link within the bounds.
    fn resolve(&mut self, link: &Path) -> Resolution {
        let most = match self.ended.is_cancelled() {
            true => 0,
            false => self.bounds.way,
        };
        resolve_within(link, most, &mut self.ways_left)
    }

    /// Notes that a link in a place leads too far. The place is read-only, and the end of the link
    /// is unknown. If a tool may have made the link, all of the repository becomes read-only.
    fn exceeded(&mut self, place: &Path) {
        if self.within.is_some() {
            self.is_exceeded = true;
        } else if !self.guarded.too_large.iter().any(|known| known == place) {
            self.guarded.too_large.push(place.to_owned());
        }
    }

    /// Guards the target of a link if it lies in the directories that the tool may write to. If
    /// the link leads into a directory that cannot be looked into, guards this directory: a tool
    /// of the same user could open it again.
    fn guard_target(&mut self, target: &LinkEnd) -> Result<(), String> {
        match target {
            LinkEnd::At(real) => _ = self.guard_end(real)?,
            LinkEnd::Closed(dir) => {
                let is_guarded = self.guard_end(dir)?;
                self.closed(dir, is_guarded);
            }
            _ => {}
        }
        Ok(())
    }

    /// Guards the end of a link if the tool may write to it. Returns whether it is guarded.
    fn guard_end(&mut self, real: &Path) -> Result<bool, String> {
        if !self.is_writable(real) || self.is_needed_by_git(real) {
            return Ok(false);
        }
        let Ok(stat) = statat(CWD, real, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
        self.read_only(real, identity(&stat))?;
        Ok(true)
    }

    /// Treats a link that leads into a directory that cannot be looked into.
    fn closed(&mut self, dir: &Path, is_guarded: bool) {
        if !self.guarded.writable.iter().any(|granted| dir.starts_with(granted)) {
            return;
        }
        // After a server, no link is compared.
        let is_compared = self.sets_aside || !self.is_writable(dir);
        match is_compared {
            true if is_guarded => {}
            // A tool may have made the link, and must not stop later calls.
            true if self.within.is_some() => self.is_exceeded = true,
            _ => _ = self.refusal.get_or_insert_with(|| failed(dir, Errno::ACCESS)),
        }
    }

    /// Returns whether the tool may write to the target of a link. A link to a directory that the
    /// grant names does not count: guarding that directory would leave nothing to write to.
    pub(super) fn is_writable(&self, real: &Path) -> bool {
        let mut writable = self.guarded.writable.iter();
        writable.any(|dir| real.starts_with(dir)) && !self.grant.reserved.names_writable_in(real)
    }

    /// Returns whether a link of a submodule or working tree leads to something that git must be
    /// able to change: a part of the repository that is no place, or a directory around it.
    fn is_needed_by_git(&self, real: &Path) -> bool {
        self.within.as_deref().is_some_and(|git| {
            git.starts_with(real) || real.starts_with(git) && !self.is_guarded(real)
        })
    }

    /// Expects a link. If it is gone after the call, that is reported, unless a tool may have made
    /// the link.
    fn expect_link(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
        text: CString,
        target: LinkEnd,
    ) {
        let is_inner = path.ancestors().skip(1).any(holds_repositories);
        let is_reported = self.within.is_none() && !is_inner;
        if is_reported {
            self.guarded.note_existing(path);
        }
        self.expect(dir, path, name, InitialState::Link { text, target, is_reported });
    }

    /// Guards a link, and its target in the granted directories.
    pub(super) fn link(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: PathBuf,
        name: &OsStr,
    ) -> Result<(), String> {
        let text = readlinkat(dir, name, Vec::new()).map_err(|errno| failed(&path, errno))?;
        let target = self.resolve(&path).end;
        if target == LinkEnd::TooFar {
            self.exceeded(&path);
        }
        self.guard_target(&target)?;
        if let LinkEnd::At(real) = &target
            && real.is_dir()
            && !self.is_needed_by_git(real)
        {
            self.links_in(real)?;
        }
        self.expect_link(dir, &path, name, text, target);
        Ok(())
    }

    /// Guards a link among submodules or working trees. Its target is guarded only if that is a
    /// repository. Git has no use for other links and for files here.
    pub(super) fn inner_link(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
    ) -> Result<(), String> {
        let text = match readlinkat(dir, name, Vec::new()) {
            Ok(text) => text,
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(path, errno)),
        };
        let target = self.resolve(path).end;
        if target == LinkEnd::TooFar {
            self.exceeded(path);
            return Ok(());
        }
        match &target {
            LinkEnd::At(real) if is_repository(real) && !self.is_needed_by_git(real) => {
                self.guard_target(&target)?;
                self.links_in(&real.join("hooks"))?;
            }
            LinkEnd::Closed(_) => self.guard_target(&target)?,
            _ => {}
        }
        self.expect_link(dir, path, name, text, target);
        Ok(())
    }
}
