//! The directories that a host preopened, and the one that contains a path.
//!
//! Paths are matched against the preopens' names here, since WASI knows relative paths only. This
//! module opens nothing: a descriptor can be of any version of WASI.

use std::borrow::Cow;

use ikigai_tools::ports::FsError;
use ikigai_tools::{beneath, join, names_above};

/// The variable with the name of the workspace, to which relative paths are relative.
const WORKSPACE: &str = "PWD";

/// The name under which a host that does not set the variable preopens the workspace.
const NAMELESS_WORKSPACE: &str = ".";

/// The name of the preopen for paths that no grant covers.
const ROOT: &str = "/";

/// The directories that the host preopened.
#[derive(Debug)]
pub struct Preopens<D> {
    directories: Vec<(D, String)>,
    /// The directory for paths that no grant covers, if the host has one. It contains nothing. The
    /// host asks the user, who may allow access to such paths.
    witness: Option<D>,
    /// The absolute name of the workspace, if the host sets it.
    workspace: Option<String>,
}

impl<D> Preopens<D> {
    /// Sorts the directories that the host preopened. `is_witness` says whether a directory can
    /// neither be changed nor listed, so that it stands for paths that no grant covers.
    #[must_use]
    pub fn new(preopened: Vec<(D, String)>, is_witness: impl Fn(&D) -> bool) -> Self {
        let given = std::env::var(WORKSPACE).ok().filter(|path| path.starts_with('/'));
        let (mut witnesses, directories): (Vec<_>, Vec<_>) =
            preopened.into_iter().partition(|(dir, name)| name == ROOT && is_witness(dir));
        let witness = witnesses.pop().map(|(dir, _)| dir);
        let mut preopens = Self { directories, witness, workspace: None };
        // A host that gives the tool its own environment has not set the variable for these
        // directories.
        let has_nameless = preopens.nameless_workspace().is_some();
        preopens.workspace = given.filter(|path| {
            let holds = |(_, name): &(_, String)| beneath(name.as_bytes(), path.as_bytes());
            !has_nameless || preopens.absolute().any(|dir| holds(dir).is_some())
        });
        preopens
    }

    fn nameless_workspace(&self) -> Option<&D> {
        let found = self.directories.iter().find(|(_, name)| name == NAMELESS_WORKSPACE);
        found.map(|(dir, _)| dir)
    }

    fn absolute(&self) -> impl Iterator<Item = &(D, String)> {
        self.directories.iter().filter(|(_, name)| name.starts_with('/'))
    }

    /// Returns the names by which a directory that no grant covers leads to granted ones, or `None`
    /// if no name does.
    fn names_above(&self, path: &[u8]) -> Option<Vec<Vec<u8>>> {
        let path = self.joined(path)?;
        let above = names_above(&path, self.absolute().map(|(_, name)| name.as_bytes()));
        (!above.is_empty()).then(|| above.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Makes a path absolute, if the workspace's name is known.
    fn joined<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        if path.first() == Some(&b'/') {
            return Some(Cow::Borrowed(path));
        }
        let workspace = self.workspace.as_ref()?;
        Some(Cow::Owned(join(workspace.as_bytes(), path)))
    }

    /// Returns the directory that `path` is beneath, and the path from there.
    ///
    /// # Errors
    ///
    /// Fails with [`FsError::Outside`] if no preopened directory contains the path, and with
    /// [`FsError::NotFound`] if the path is not UTF-8.
    pub fn place(&self, path: &[u8]) -> Result<(&D, String), FsError> {
        // WASI has no name for a path that is not UTF-8.
        let text = |path: &[u8]| match std::str::from_utf8(path) {
            Ok("") => Ok(".".to_owned()),
            Ok(path) => Ok(path.to_owned()),
            Err(_) => Err(FsError::NotFound),
        };
        let Some(path) = self.joined(path) else {
            let dir = self.nameless_workspace().ok_or(FsError::Outside)?;
            return Ok((dir, text(path)?));
        };
        let within = self
            .absolute()
            .filter_map(|(dir, name)| Some((dir, name.len(), beneath(name.as_bytes(), &path)?)));
        if let Some((dir, _, rest)) = within.max_by_key(|(_, length, _)| *length) {
            return Ok((dir, text(rest)?));
        }
        let rest = beneath(ROOT.as_bytes(), &path).ok_or(FsError::Outside)?;
        let witness = self.witness.as_ref().filter(|_| !rest.is_empty()).ok_or(FsError::Outside)?;
        Ok((witness, text(rest)?))
    }

    /// Returns the names in the directory at `path` that lead to granted directories, if no grant
    /// covers it.
    #[must_use]
    pub fn above(&self, path: &[u8]) -> Option<Vec<Vec<u8>>> {
        let is_outside = match self.place(path) {
            Err(error) => error == FsError::Outside,
            Ok((dir, _)) => self.witness.as_ref().is_some_and(|it| std::ptr::eq(it, dir)),
        };
        if is_outside { self.names_above(path) } else { None }
    }
}
