//! The state of a guest's path calls that lead out of the grant: what the user allowed and refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Access;

use super::path_target::PathTarget;
use crate::exec::widening::Widening;
use crate::policy::Grant;

/// The state of a guest's path calls that lead out of the grant.
pub(super) struct PathWidening {
    pub(super) widening: Arc<Widening>,
    pub(super) can_ask: bool,
    pub(super) grant: Arc<Grant>,
    pub(super) workspace: Arc<Path>,
    pub(super) allowed: Vec<AllowedPath>,
    pub(super) refused: Vec<(Access, PathBuf)>,
}

/// A path that the user allowed.
#[derive(Clone)]
pub(super) struct AllowedPath {
    pub(super) access: Access,
    pub(super) path: PathBuf,
    pub(super) is_dir: bool,
}

impl AllowedPath {
    fn covers(&self, access: Access, target: &PathTarget) -> bool {
        let path = target.path();
        let is_in = match target {
            _ if self.is_dir => path.starts_with(&self.path),
            PathTarget::File { .. } => path == self.path,
            // A directory that replaced a file.
            PathTarget::Directory { .. } | PathTarget::Entry { .. } => false,
        };
        is_in && self.access >= access
    }
}

impl PathWidening {
    pub(super) fn new(widening: Arc<Widening>, grant: Arc<Grant>, workspace: Arc<Path>) -> Self {
        let can_ask = widening.can_ask();
        let (allowed, refused) = (Vec::new(), Vec::new());
        Self { widening, can_ask, grant, workspace, allowed, refused }
    }

    pub(super) fn allowed(&self, access: Access, target: &PathTarget) -> Option<&AllowedPath> {
        self.allowed.iter().find(|it| it.covers(access, target))
    }
}
