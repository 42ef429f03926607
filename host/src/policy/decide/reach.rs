//! The directories in which sandboxed tools may write, or once could. A file in them cannot be part
//! of an unconfined tool, and they are removed from the `PATH` of a native tool.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Access;

use super::context::PolicyContext;
use crate::policy::provenance::Provenance;
use crate::policy::rule::{PolicyLayer, provenance_of};
use crate::policy::writable_record::Dirs;
use crate::policy::{ClosedPlaces, standard};

/// The directories in which tools may write, or once could.
pub(super) struct WritablePlaces<'a> {
    /// The workspace, unless it is read-only.
    workspace: Option<&'a Path>,
    granted: Vec<(PathBuf, Provenance)>,
    recorded: Result<Arc<Dirs>, String>,
}

/// The reason why tools can write at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WritableReason {
    /// It lies in the workspace.
    Workspace,
    /// An entry of the user's file lets a tool write there.
    Granted(Provenance),
    /// Tools could write in this directory, in this run or in another.
    Recorded(PathBuf),
}

impl<'a> WritablePlaces<'a> {
    pub(super) fn new(user: &PolicyLayer, context: &PolicyContext<'a>) -> Self {
        let entries = user.tools.values().chain(user.servers.values());
        let rules = entries.filter_map(|entry| entry.fs.as_ref());
        let granted = rules.flat_map(|at| {
            let written = at.value.iter().filter(|rule| rule.access == Access::ReadWrite);
            // A missing directory cannot be granted to a tool.
            written
                .filter_map(|rule| Some((rule.path.canonicalize().ok()?, provenance_of(user, at))))
        });
        Self {
            workspace: Some(context.workspace)
                .filter(|dir| standard::protected_path_in(dir, context.protected).is_none()),
            granted: granted.collect(),
            recorded: context.writable_record.dirs(),
        }
    }

    /// Returns the reason why a tool could change the file at `place`, whose directories are not
    /// links, or `None` if tools cannot change it.
    pub(super) fn holds(&self, place: &Path) -> Option<WritableReason> {
        if self.workspace.is_some_and(|dir| place.starts_with(dir)) {
            return Some(WritableReason::Workspace);
        }
        if let Some((_, provenance)) = self.granted.iter().find(|(dir, _)| place.starts_with(dir)) {
            return Some(WritableReason::Granted(provenance.clone()));
        }
        let dirs = self.recorded.as_ref().ok()?;
        let dir = place.ancestors().find(|dir| dirs.contains(*dir))?;
        Some(WritableReason::Recorded(dir.to_owned()))
    }

    /// Returns the places that show no directory as part of a tool's installation.
    pub(super) fn closed(&self, context: &PolicyContext<'_>) -> ClosedPlaces {
        let granted = self.granted.iter().map(|(dir, _)| dir.as_path());
        let mut places: Vec<PathBuf> =
            self.workspace.into_iter().chain(granted).map(Path::to_path_buf).collect();
        match &self.recorded {
            Ok(dirs) => places.extend(dirs.iter().cloned()),
            // Any directory may be one of them.
            Err(_) => places.push(PathBuf::from("/")),
        }
        places.extend_from_slice(context.secrets.places());
        ClosedPlaces { places, except: context.protected.to_vec() }
    }

    /// Returns the reason why the directories of other runs are unknown.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.recorded.as_ref().err().map(String::as_str)
    }
}

/// Writes the reason as the end of a sentence about a path.
impl fmt::Display for WritableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace => f.write_str(" of the workspace, where other tools may write"),
            Self::Granted(provenance) => write!(f, ", where {provenance} lets a tool write"),
            Self::Recorded(dir) => {
                write!(f, ", and tools could write in `{}` in another run", dir.display())
            }
        }
    }
}
