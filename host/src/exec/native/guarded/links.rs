//! The links in guarded places, and the targets to which they lead.

use std::path::{Path, PathBuf};

use ikigai_supervisor::plan::{HiddenPath, InodeId};
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;

use super::git::is_repository;
use super::search::{GuardSearch, c_path, failed};
use crate::exec::executed_links::links_in;
use crate::exec::native::open_grant::identity;
use crate::exec::native::set_aside::DanglingLink;
use crate::paths::{LinkEnd, Resolution, resolve_within};

impl GuardSearch<'_> {
    /// Guards the targets of the links in a place.
    pub(super) fn links_in(&mut self, place: &Path) -> Result<(), String> {
        let links = links_in(place, &mut |link: &Path| self.resolve(link));
        let links =
            links.map_err(|error| format!("`{}` cannot be searched: {error}", place.display()))?;
        for (link, way) in links {
            // All of the place is read-only. A link outside of it could be replaced.
            let mut passed = way.steps.iter().chain(&way.left);
            if way.end == LinkEnd::TooFar {
                self.exceeded(place);
            } else if !passed.all(|step| step.starts_with(place)) {
                self.guard_way(&link, &way, place)?;
                if let LinkEnd::At(real) = &way.end {
                    self.guard_end(real)?;
                }
            }
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

    /// Guards the target of a link in a place, and what leads to it: the links and directories on the
    /// way stay where they are. If the link leads into a directory that cannot be looked into, guards
    /// this directory: a tool of the same user could open it again. If the link leads nowhere, notes
    /// that.
    fn guard_way(&mut self, link: &Path, way: &Resolution, place: &Path) -> Result<(), String> {
        // The last step is the end of the way.
        let links = match (&way.end, way.steps.split_last()) {
            (LinkEnd::TooFar, _) | (_, None) => &way.steps[..],
            (_, Some((_, links))) => links,
        };
        for step in links.iter().chain(&way.left) {
            if self.guarded.pinned.len() >= self.bounds.places {
                self.exceeded(place);
                break;
            }
            if let Ok(stat) = statat(CWD, step, AtFlags::SYMLINK_NOFOLLOW) {
                self.pin(step, identity(&stat))?;
            }
        }
        let leads_nowhere = match &way.end {
            LinkEnd::At(_) | LinkEnd::TooFar => false,
            LinkEnd::Closed(dir) => {
                let is_guarded = self.guard_end(dir)?;
                self.closed(dir, is_guarded);
                false
            }
            LinkEnd::Nothing | LinkEnd::Failed => true,
        };
        if self.sets_aside && (leads_nowhere || self.overlapping.found_dangling(link)) {
            self.places_of_call.note_dangling(link);
            // Outside of the granted directory nothing is renamed.
            let root = self.root.clone().filter(|root| link.starts_with(&root.path));
            let dangling = root.map(|root| DanglingLink { root, path: link.to_owned() });
            self.guarded.dangling.extend(dangling);
        }
        Ok(())
    }

    /// Keeps a link or directory where it is if the tool could move it.
    pub(super) fn pin(&mut self, path: &Path, found: InodeId) -> Result<(), String> {
        let is_in = |dir: &PathBuf| path.starts_with(dir) && path != dir;
        if self.writable.iter().any(is_in) && !self.grant.reserved.names(path) {
            let pinned = HiddenPath { path: c_path(path)?, found };
            self.guarded.pinned.insert(path.to_owned(), pinned);
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
        let is_writable = self.writable.iter().any(|granted| dir.starts_with(granted));
        match is_writable && !is_guarded {
            false => {}
            // A tool may have made the link, and must not stop later calls.
            true if self.within.is_some() => self.is_exceeded = true,
            true => _ = self.refusal.get_or_insert_with(|| failed(dir, Errno::ACCESS)),
        }
    }

    /// Returns whether the tool may write to the target of a link. A link to a directory that the
    /// grant names does not count: guarding that directory would leave nothing to write to.
    fn is_writable(&self, real: &Path) -> bool {
        let mut writable = self.writable.iter();
        writable.any(|dir| real.starts_with(dir)) && !self.grant.reserved.names_writable_in(real)
    }

    /// Returns whether a link of a submodule or working tree leads to something that git must be
    /// able to change: a part of the repository that is no place, or a directory around it.
    fn is_needed_by_git(&self, real: &Path) -> bool {
        self.within.as_deref().is_some_and(|git| {
            git.starts_with(real) || real.starts_with(git) && !self.is_guarded(real)
        })
    }

    /// Guards a link, and its target in the granted directories.
    pub(super) fn link(&mut self, path: &Path) -> Result<(), String> {
        let way = self.resolve(path);
        if way.end == LinkEnd::TooFar {
            self.exceeded(path);
        }
        self.guard_way(path, &way, path)?;
        if let LinkEnd::At(real) = &way.end {
            self.guard_end(real)?;
            if real.is_dir() && !self.is_needed_by_git(real) {
                self.links_in(real)?;
            }
        }
        Ok(())
    }

    /// Guards a link among submodules or working trees. Its target is guarded only if that is a
    /// repository. Git has no use for other links and for files here.
    pub(super) fn inner_link(&mut self, path: &Path) -> Result<(), String> {
        if !path.is_symlink() {
            return Ok(());
        }
        let way = self.resolve(path);
        if way.end == LinkEnd::TooFar {
            self.exceeded(path);
            return Ok(());
        }
        self.guard_way(path, &way, path)?;
        if let LinkEnd::At(real) = &way.end
            && is_repository(real)
            && !self.is_needed_by_git(real)
        {
            self.guard_end(real)?;
            self.links_in(&real.join("hooks"))?;
        }
        Ok(())
    }
}
