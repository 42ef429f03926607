//! The files that a host does not send to a model for the user, because a link or another name of
//! the file may come from a tool.
//!
//! Owns the check of an open file. The policy decides what is hidden.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use super::wasm::HiddenPaths;
use crate::policy::Grant;

/// The files that are kept from models: those that are hidden from `file_read`, and those in places
/// of secrets. [`Host::kept_from_models`](crate::Host::kept_from_models) returns them.
#[derive(Clone)]
pub struct KeptFromModels {
    /// Nothing, if nothing is hidden.
    hidden: Result<Option<Arc<HiddenPaths>>, Arc<str>>,
}

impl KeptFromModels {
    /// Returns the files that a grant hides. If the grant is not known, keeps every file.
    #[doc(hidden)]
    #[must_use]
    pub fn new(grant: Result<Grant, String>) -> Self {
        let hidden =
            grant.map(|grant| HiddenPaths::for_grant(&Arc::new(grant), Arc::new(|| false)));
        Self { hidden: hidden.map_err(Arc::from) }
    }

    /// Checks an open file. If the user `named` it by the path that it has, without links, the file
    /// may be sent.
    ///
    /// # Errors
    ///
    /// Fails if the file is kept from models. The text is the reason, for the user.
    pub fn check(&self, file: impl AsFd, named: Option<&Path>) -> Result<(), String> {
        let hidden = match &self.hidden {
            Ok(Some(hidden)) => hidden,
            Ok(None) => return Ok(()),
            Err(reason) => return Err(format!("what is hidden is not known: {reason}")),
        };
        match hidden.hides_open(file.as_fd(), named) {
            Ok(false) => Ok(()),
            Ok(true) => {
                Err("it leads to a file that `hide` names, or to a place of secrets".into())
            }
            Err(error) => Err(format!("its path cannot be found out: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, hard_link};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use ikigai_protocol::{Access, GrantedDir};

    use super::*;
    use crate::policy::Hide;

    #[test]
    fn a_file_is_kept_whatever_name_leads_to_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let workspace = root.join("work");
        fs::create_dir(&workspace).expect("made");
        for file in ["work/.env", "work/notes", "outside.pem", "outside"] {
            fs::write(root.join(file), "x").expect("written");
        }
        hard_link(workspace.join(".env"), workspace.join("hard")).expect("linked");
        hard_link(workspace.join("notes"), workspace.join("same")).expect("linked");
        symlink(".env", workspace.join("soft")).expect("linked");
        symlink("../outside.pem", workspace.join("key")).expect("linked");
        let grant = Grant {
            dirs: vec![GrantedDir { access: Access::ReadOnly, path: workspace.clone() }],
            hide: Hide::parse([".env", "*.pem"]).expect("patterns"),
            ..Grant::default()
        };
        let kept = KeptFromModels::new(Ok(grant));
        let is_kept = |path: &Path, named: Option<&Path>| {
            kept.check(File::open(path).expect("opened"), named).is_err()
        };
        for name in [".env", "soft", "hard", "key"] {
            let path = workspace.join(name);
            assert!(is_kept(&path, None), "{name}");
            assert_eq!(is_kept(&path, Some(&path)), name != ".env", "{name}");
        }
        let seen: [PathBuf; 3] =
            [workspace.join("notes"), workspace.join("same"), root.join("outside")];
        assert!(seen.iter().all(|path| !is_kept(path, None)));
        let unknown = KeptFromModels::new(Err("no ceiling".to_owned()));
        assert!(unknown.check(File::open(&seen[0]).expect("opened"), Some(&seen[0])).is_err());
        let open = KeptFromModels::new(Ok(Grant::default()));
        assert!(open.check(File::open(workspace.join(".env")).expect("opened"), None).is_ok());
    }
}
