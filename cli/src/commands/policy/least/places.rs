//! Classifies the places around a tool by what a grant would mean: some are too broad to propose,
//! and the tool sees some without a grant. The host has the list of places that are broad on every
//! machine.
//!
//! Compares names, and asks for the owner of the home and the workspace only if they lie in the base
//! view. Links are resolved before.

use std::path::{Path, PathBuf};

use ikigai_host::policy::{executed_place, is_broad_place, secret_place};
use ikigai_supervisor::base_view::{BASE_VIEW, is_users_own};

/// Shared directories for temporary files. A sandbox has its own.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// The surroundings of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    /// The directory that the tool works in, canonical.
    pub(crate) workspace: &'a Path,
    /// The home of its user, canonical.
    pub(crate) home: Option<&'a Path>,
    /// The host's own places.
    pub(crate) protected: &'a [PathBuf],
    /// The secret places that exist on this machine, canonical, since links can lead to them.
    pub(crate) secrets: &'a [PathBuf],
    /// The directories of its program, which a sandbox shows it.
    pub(crate) installation: &'a [PathBuf],
    /// True for a native tool, which sees the system's programs and a private `/tmp` in the
    /// sandbox; false for a component, which sees nothing.
    pub(crate) is_native: bool,
}

impl Ground<'_> {
    /// Returns whether a grant of the directory would open more than the tool can have meant.
    pub(super) fn is_broad(&self, dir: &Path) -> bool {
        is_broad_place(dir, self.home)
            || self.workspace != dir && self.workspace.starts_with(dir)
            // A name such as `.env` can be in any directory, so it does not matter here.
            || dir != self.workspace && self.secrets.iter().any(|it| it.starts_with(dir))
            // A tool may read its workspace even if ikigai's own files lie in it, as in the policy.
            || dir != self.workspace && self.holds_protected(dir)
    }

    /// Returns the description of the secrets at the path, if it is a secret place.
    pub(super) fn secrets_at(&self, path: &Path) -> Option<&'static str> {
        if let Some(place) = secret_place(path, self.home) {
            return Some(place.holds);
        }
        let is_there = self.secrets.iter().any(|it| path.starts_with(it));
        is_there.then_some("a link leads here from a place of secrets")
    }

    /// Returns the place that other programs execute and that the path equals or lies in. Only a
    /// grant of the place by its name opens it.
    pub(super) fn executed_place(&self, path: &Path) -> Option<PathBuf> {
        let is_inside = path.starts_with(self.workspace);
        let from = if is_inside { self.workspace } else { Path::new("/") };
        Some(from.join(executed_place(path.strip_prefix(from).ok()?)?))
    }

    /// Returns whether the directory contains paths of the host's own, so that it cannot be granted
    /// for writing.
    pub(super) fn holds_protected(&self, dir: &Path) -> bool {
        self.protected.iter().any(|own| own.starts_with(dir))
    }

    /// Returns whether the path is the host's own.
    pub(super) fn is_protected(&self, path: &Path) -> bool {
        self.protected.iter().any(|own| path.starts_with(own))
    }

    /// Returns whether the tool can read this without a grant.
    pub(super) fn is_shown(&self, path: &Path) -> bool {
        self.is_of_system(path)
            || self.is_native && self.installation.iter().any(|dir| path.starts_with(dir))
    }

    /// Returns whether the path belongs to the part of the machine that every sandbox shows.
    pub(super) fn is_of_system(&self, path: &Path) -> bool {
        let mut places = BASE_VIEW.iter().filter(|place| !place.of_network);
        let mut own = [Some(self.workspace), self.home].into_iter().flatten();
        self.is_native
            && places.any(|place| place.has(path))
            && !own.any(|own| path.starts_with(own) && is_users_own(own))
    }

    /// Returns whether the kernel generates the path, and the sandbox has its own version of it.
    pub(super) fn has_kernel(&self, path: &Path) -> bool {
        self.is_native && ["/proc", "/dev"].iter().any(|place| path.starts_with(place))
    }

    /// Returns whether the path is in a temporary directory that a sandbox replaces with its own.
    /// The workspace and the home may lie there too, and do not count.
    pub(super) fn is_temporary(&self, path: &Path) -> bool {
        let is_in = |dir: &Path| path.starts_with(dir);
        self.is_native
            && TEMPORARY.iter().any(|place| path.starts_with(place))
            && !is_in(self.workspace)
            && !self.home.is_some_and(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broad_directories_are_known_and_those_in_them_are_not_broad() {
        let protected = [PathBuf::from("/home/u/.ikigai/tools"), "/home/u/keep/own".into()];
        let ground = Ground {
            workspace: Path::new("/home/u/work/project"),
            home: Some(Path::new("/home/u")),
            protected: &protected,
            secrets: &[],
            installation: &[],
            is_native: true,
        };
        for dir in [
            "/",
            "/etc",
            "/proc",
            "/proc/self",
            "/sys/fs",
            "/dev/shm",
            "/tmp",
            "/home",
            "/home/u",
            "/home/other",
            "/home/u/work",
            "/home/u/.config",
            "/home/u/.ikigai",
            "/home/u/keep",
            "/usr/share",
            "/run/user/1000",
        ] {
            assert!(ground.is_broad(Path::new(dir)), "{dir}");
        }
        for dir in [
            "/etc/ssl/certs",
            "/home/u/work/project",
            "/home/u/work/other",
            "/home/u/.config/tool",
            "/home/other/shared",
            "/usr/share/zoneinfo",
            "/tmp/x",
            "/data",
        ] {
            assert!(!ground.is_broad(Path::new(dir)), "{dir}");
        }
    }

    #[test]
    fn a_component_is_shown_nothing() {
        let installation = [PathBuf::from("/opt/tool")];
        let ground = |is_native| Ground {
            workspace: Path::new("/tmp/w"),
            home: None,
            protected: &[],
            secrets: &[],
            installation: &installation,
            is_native,
        };
        let paths = ["/usr/lib/x", "/lib64/x", "/etc/passwd", "/opt/tool/data"];
        for path in paths.map(Path::new) {
            assert!(ground(true).is_shown(path) && !ground(false).is_shown(path), "{path:?}");
        }
        for path in ["/etc/hosts", "/opt/other", "/data", "/", "/dev/null"].map(Path::new) {
            assert!(!ground(true).is_shown(path), "{path:?}");
        }
        assert!(ground(true).has_kernel(Path::new("/dev/null")));
        assert!(!ground(false).has_kernel(Path::new("/dev/null")));
        assert!(ground(true).is_temporary(Path::new("/tmp/x")));
        assert!(!ground(true).is_temporary(Path::new("/tmp/w/x")));
        assert!(!ground(false).is_temporary(Path::new("/tmp/x")));
    }
}
