//! The places that other programs execute, to which a guest may not write unless its grant names
//! them.
//!
//! A place is known by the path that the kernel has for its directory, however the guest got there.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::hidden::path_of;
use crate::exec::executed_links::{self, LinkTarget};
use crate::paths::resolution_steps;
use crate::policy::{GIT, Grant};

/// The directories of a repository that have the commands of a rebase that is continued later. A
/// component does not run git, so it has no use for them.
const OF_A_REBASE: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// The guarded places of one call.
pub(super) struct Guard {
    pub(super) grant: Arc<Grant>,
    /// The places that the user allowed.
    pub(super) allowed: Vec<PathBuf>,
    /// The targets of links in places, found when the guest first writes.
    linked: OnceLock<Vec<LinkTarget>>,
}

impl Guard {
    pub(super) fn new(grant: &Arc<Grant>) -> Self {
        Self { grant: Arc::clone(grant), allowed: Vec::new(), linked: OnceLock::new() }
    }

    /// Guards the places of this grant from now on.
    pub(super) fn renew(&mut self, grant: &Arc<Grant>) {
        (self.grant, self.linked) = (Arc::clone(grant), OnceLock::new());
    }

    /// Returns the guarded place that a name in an open directory is, or lies in.
    pub(super) fn place(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<PathBuf>> {
        if !self.grant.reserved.guards() {
            return Ok(None);
        }
        self.place_at(&path_of(dir, name)?)
    }

    /// Returns the guarded place that a path without links is, or lies in.
    ///
    /// # Errors
    ///
    /// Fails if the links in places cannot be followed now: any path may be a target.
    pub(super) fn place_at(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !self.grant.reserved.guards() {
            return Ok(None);
        }
        let place = match self.grant.reserved.executed_place(path) {
            Some(place) => Some(place),
            None => {
                let target = self.linked()?.iter().find(|target| target.is_changed_by(path));
                // Names in it that the grant lists are open.
                let target = target.filter(|it| !self.grant.reserved.opens(&it.path, path));
                target.map(|target| target.place.clone())
            }
        };
        Ok(place.filter(|place| !self.allowed.contains(place)))
    }

    /// Returns the guarded place in which a path has a link. Fails as [`Self::place_at`] does.
    pub(super) fn place_with_link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let steps = resolution_steps(path);
        let links = steps.split_last().map_or(&[][..], |(_, links)| links);
        let places = links.iter().map(|link| self.place_at(link).transpose());
        places.flatten().next().transpose()
    }

    /// Returns whether a path is, or lies in, the directory of a rebase, in a repository that the
    /// grant does not name.
    pub(super) fn is_of_a_rebase(&self, path: &Path) -> bool {
        let reserved = &self.grant.reserved;
        let place = of_a_rebase(path).filter(|_| reserved.guards());
        place.is_some_and(|place| !place.ancestors().any(|dir| reserved.names(dir) && is_git(dir)))
    }

    /// Returns the targets of links. Fails if a place or a target cannot be looked at now.
    fn linked(&self) -> io::Result<&[LinkTarget]> {
        if let Some(known) = self.linked.get() {
            return Ok(known);
        }
        let found = executed_links::targets(&self.grant)?;
        Ok(self.linked.get_or_init(|| found))
    }

    /// Returns whether a link in a place leads to something in this directory, which need not
    /// exist.
    fn holds_target(&self, dir: &Path) -> bool {
        match self.linked() {
            Ok(linked) => linked.iter().any(|target| target.path.starts_with(dir)),
            Err(_) => true,
        }
    }

    /// Returns whether a link with this text may be made. A link into a repository would give its
    /// contents other names, which no rule protects. A link that replaces a directory would change
    /// the target of another link.
    pub(super) fn may_link(&self, path: &Path, text: &Path) -> bool {
        let leads_in = text.iter().any(|name| name.eq_ignore_ascii_case(GIT));
        !self.grant.reserved.guards() || !leads_in && !self.holds_target(path)
    }

    /// Returns whether a file or directory may be renamed. A directory may not if the grant names
    /// something in it, or if a link in a place leads into it or into its new name. It may not
    /// leave a repository, either, because outside of one its names are free.
    pub(super) fn may_move(&self, old: &Path, new: &Path) -> bool {
        if !self.grant.reserved.guards() {
            return true;
        }
        let is_in_git = |path: &Path| path.ancestors().any(is_git);
        let is_closed = |git: &Path| is_git(git) && !self.grant.reserved.opens(git, old);
        let leaves_git = !is_in_git(new) && old.ancestors().any(is_closed);
        let leads_to_named = |path: &Path| self.grant.reserved.leads_to_named(path);
        let changes_place = leads_to_named(old)
            || leads_to_named(new)
            || leaves_git
            || self.holds_target(old)
            || self.holds_target(new);
        !changes_place
    }
}

fn is_git(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT))
}

/// Returns the directory of a rebase that a path is, or lies in.
fn of_a_rebase(path: &Path) -> Option<PathBuf> {
    let is_named = |dir: &Path, known: &str| {
        dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(known))
    };
    let is_it = |dir: &&Path| {
        OF_A_REBASE.iter().any(|known| is_named(dir, known)) && dir.parent().is_some_and(is_git)
    };
    path.ancestors().find(is_it).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_rebase_is_known_in_a_repository_alone() {
        let place = |path: &str| of_a_rebase(Path::new(path)).map(|it| it.display().to_string());
        for (path, expected) in [
            ("/w/.git/rebase-merge", Some("/w/.git/rebase-merge")),
            ("/w/.GIT/Sequencer/todo", Some("/w/.GIT/Sequencer")),
            ("/w/rebase-merge/a", None),
        ] {
            assert_eq!(place(path).as_deref(), expected, "{path}");
        }
    }
}
