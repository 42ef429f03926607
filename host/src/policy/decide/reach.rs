//! Where a sandboxed tool may write, or once could: what lies there is part of no tool that
//! runs unconfined, and none of a native tool's `PATH`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Access;

use super::{Ground, source};
use crate::policy::decision::Source;
use crate::policy::handed_out::Dirs;
use crate::policy::rule::Layer;
use crate::policy::standard;

/// Directories that tools may write in, or once could.
pub(super) struct Reach<'a> {
    /// The workspace, unless it can only be read.
    workspace: Option<&'a Path>,
    granted: Vec<(PathBuf, Source)>,
    handed_out: Result<Arc<Dirs>, String>,
}

/// Why a place is in reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Within {
    Workspace,
    /// A standing grant lets some tool write there.
    Granted(Source),
    /// Tools could write in this directory, in this run or another.
    HandedOut(PathBuf),
}

impl<'a> Reach<'a> {
    pub(super) fn new(user: &Layer, ground: &Ground<'a>) -> Self {
        let rules = user.tools.values().filter_map(|entry| entry.fs.as_ref());
        let granted = rules.flat_map(|at| {
            let written = at.value.iter().filter(|rule| rule.access == Access::ReadWrite);
            // One that cannot be found is none that a tool has now.
            written.filter_map(|rule| Some((rule.path.canonicalize().ok()?, source(user, at))))
        });
        Self {
            workspace: Some(ground.workspace)
                .filter(|dir| standard::own_place_in(dir, ground.own).is_none()),
            granted: granted.collect(),
            handed_out: ground.handed_out.dirs(),
        }
    }

    /// Why a tool could change what is at `place`, whose directories are not links.
    pub(super) fn holds(&self, place: &Path) -> Option<Within> {
        if self.workspace.is_some_and(|dir| place.starts_with(dir)) {
            return Some(Within::Workspace);
        }
        if let Some((_, source)) = self.granted.iter().find(|(dir, _)| place.starts_with(dir)) {
            return Some(Within::Granted(source.clone()));
        }
        let dirs = self.handed_out.as_ref().ok()?;
        let dir = place.ancestors().find(|dir| dirs.contains(*dir))?;
        Some(Within::HandedOut(dir.to_owned()))
    }

    /// Why it is not known where tools could write in other runs.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.handed_out.as_ref().err().map(String::as_str)
    }
}

/// Behind a place, in a sentence.
impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace => f.write_str(" of the workspace, where other tools may write"),
            Self::Granted(source) => write!(f, ", where {source} lets a tool write"),
            Self::HandedOut(dir) => {
                write!(f, ", and tools could write in `{}` in another run", dir.display())
            }
        }
    }
}
