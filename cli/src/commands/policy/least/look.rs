//! Finds out what the accessed paths are on this machine, before they are folded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, present_secrets, secret_place};
use ikigai_host::registry::Build;
use ikigai_protocol::Access;

use super::fold::LONGEST;
use super::places::Ground;
use super::{AccessedPath, PathKind};

/// The most paths that are examined. A tool that accesses more of them cannot be folded into a
/// readable list.
const MOST_LOOKED_AT: usize = 20_000;

/// The surroundings of a tool, as this machine has them.
pub(crate) struct ToolSurroundings {
    workspace: PathBuf,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
    secrets: Vec<PathBuf>,
    installation: Vec<PathBuf>,
    is_native: bool,
}

impl ToolSurroundings {
    /// Looks at the surroundings of a tool.
    pub(crate) fn for_build(host: &Host, build: &Build) -> Self {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let home = host.registry().paths().home.as_deref().map(resolved);
        let workspace = host.authority().workspace().to_owned();
        let installation = [Some(build.path.clone()), build.path.canonicalize().ok()];
        let installation =
            installation.into_iter().flatten().filter_map(|file| Some(file.parent()?.to_owned()));
        Self {
            secrets: present_secrets(home.as_deref(), &workspace),
            protected: host.authority().protected().to_vec(),
            installation: installation.collect(),
            is_native: build.backend() == Backend::Native,
            workspace,
            home,
        }
    }

    /// Returns the surroundings in the form that [`super::fold`] needs.
    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground {
            workspace: &self.workspace,
            home: self.home.as_deref(),
            protected: &self.protected,
            secrets: &self.secrets,
            installation: &self.installation,
            is_native: self.is_native,
        }
    }

    /// Examines the paths that calls accessed. Returns them, and the number of paths beyond the
    /// limit, which were not examined.
    pub(crate) fn look_at<'a>(
        &self,
        reached: impl IntoIterator<Item = (Access, &'a Path)>,
    ) -> (Vec<AccessedPath>, usize) {
        let mut reached = reached.into_iter();
        let seen = reached.by_ref().take(MOST_LOOKED_AT);
        let seen = seen.map(|(access, path)| self.look(access, path)).collect();
        (seen, reached.count())
    }

    fn look(&self, access: Access, path: &Path) -> AccessedPath {
        let as_it_is = |kind| AccessedPath { path: path.to_owned(), access, kind };
        // A link to secrets keeps its own name. A path that policies cannot name is not looked up.
        let is_path = path.is_absolute() && path.as_os_str().len() <= LONGEST;
        if !is_path || secret_place(path, self.home.as_deref()).is_some() {
            return as_it_is(PathKind::File);
        }
        match path.canonicalize() {
            Ok(path) => {
                let kind = match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => PathKind::Dir,
                    Ok(metadata) if metadata.is_file() => PathKind::File,
                    _ => PathKind::Other,
                };
                AccessedPath { path, access, kind }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.missing(access, path),
            // ikigai's user cannot look there either.
            Err(_) => as_it_is(PathKind::Missing(nearest_dir(path))),
        }
    }

    /// Returns a path that does not exist, with the links on the way resolved.
    fn missing(&self, access: Access, path: &Path) -> AccessedPath {
        let dir = nearest_dir(path);
        // The directory exists by its own name or by another.
        let named = path.ancestors().find(|it| it.canonicalize().is_ok_and(|real| real == dir));
        let rest = named.and_then(|named| path.strip_prefix(named).ok());
        let path = rest.map_or_else(|| path.to_owned(), |rest| dir.join(rest));
        AccessedPath { path, access, kind: PathKind::Missing(dir) }
    }
}

/// Returns the nearest existing directory above a path, with links resolved.
fn nearest_dir(path: &Path) -> PathBuf {
    let on_the_way = path.ancestors().skip(1);
    let mut dirs = on_the_way.filter_map(|dir| dir.canonicalize().ok()).filter(|dir| dir.is_dir());
    dirs.next().unwrap_or_else(|| PathBuf::from("/"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_lies_at_a_path_is_found_through_links() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("resolved");
        for dir in ["data/deep", "home/.ssh"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        fs::write(root.join("data/file"), "").expect("written");
        symlink(root.join("data"), root.join("link")).expect("linked");
        symlink(root.join("home/.ssh"), root.join("keys")).expect("linked");
        let around = ToolSurroundings {
            workspace: root.join("work"),
            home: Some(root.join("home")),
            protected: Vec::new(),
            secrets: Vec::new(),
            installation: Vec::new(),
            is_native: false,
        };
        let look = |path: &str| {
            let AccessedPath { path, kind, .. } = around.look(Access::ReadOnly, &root.join(path));
            (path.strip_prefix(&root).expect("in it").to_owned(), kind)
        };
        assert_eq!(look("link/file"), ("data/file".into(), PathKind::File));
        assert_eq!(look("link/deep"), ("data/deep".into(), PathKind::Dir));
        let missing = PathKind::Missing(root.join("data/deep"));
        assert_eq!(look("link/deep/a/b"), ("data/deep/a/b".into(), missing));
        assert_eq!(look("home/.ssh/gone").0, Path::new("home/.ssh/gone"));
        assert_eq!(look("keys").0, Path::new("home/.ssh"));
        let relative = around.look(Access::ReadOnly, Path::new("etc/passwd"));
        assert_eq!(relative.path, Path::new("etc/passwd"));
        let many: Vec<PathBuf> =
            (0..MOST_LOOKED_AT + 5).map(|n| PathBuf::from(format!("{n}"))).collect();
        let (seen, beyond) =
            around.look_at(many.iter().map(|path| (Access::ReadOnly, path.as_path())));
        assert_eq!((seen.len(), beyond), (MOST_LOOKED_AT, 5));
    }
}
