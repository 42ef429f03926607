//! The state of a guest's path calls that lead out of the grant: what the user allowed and refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Access;
use tokio::sync::Mutex;

use super::hidden::{HiddenPaths, IsOver};
use super::path_target::PathTarget;
use crate::exec::widening::Widening;
use crate::policy::{Grant, RequestedAccess};

/// The state of a guest's path calls that lead out of the grant.
pub(super) struct PathWidening {
    pub(super) widening: Arc<Widening>,
    pub(super) can_ask: bool,
    /// The grant at the start, whose directories the guest has.
    pub(super) grant: Arc<Grant>,
    /// The grant with what the user allowed since then.
    pub(super) widened: Arc<Grant>,
    pub(super) workspace: Arc<Path>,
    pub(super) allowed: Vec<AllowedPath>,
    pub(super) refused: Vec<(Access, PathBuf)>,
    /// The answers that the present call has got, if it cannot wait for another: a call of WASI 0.3.
    pub(super) answers: Option<CallAnswers>,
    /// The turn to ask, for calls that are made at the same time.
    pub(super) turn: Arc<Mutex<()>>,
    is_over: IsOver,
}

/// The answers of a call that cannot wait for one.
pub(super) struct CallAnswers {
    pub(super) given: Vec<(RequestedAccess, bool)>,
    /// The question that the call needs answered next.
    pub(super) open: Option<RequestedAccess>,
}

impl CallAnswers {
    /// Returns whether an access is allowed. If that is not known, notes the question.
    pub(super) fn find(&mut self, reached: RequestedAccess) -> bool {
        match self.given.iter().find(|(known, _)| *known == reached) {
            Some((_, may)) => *may,
            None => {
                self.open.get_or_insert(reached);
                false
            }
        }
    }
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
    pub(super) fn new(
        widening: Arc<Widening>,
        grant: Arc<Grant>,
        workspace: Arc<Path>,
        is_over: IsOver,
    ) -> Self {
        let can_ask = widening.can_ask();
        let (widened, allowed, refused) = (Arc::clone(&grant), Vec::new(), Vec::new());
        Self {
            widening,
            can_ask,
            grant,
            widened,
            workspace,
            allowed,
            refused,
            answers: None,
            turn: Arc::default(),
            is_over,
        }
    }

    pub(super) fn allowed(&self, access: Access, target: &PathTarget) -> Option<&AllowedPath> {
        self.allowed.iter().find(|it| it.covers(access, target))
    }

    /// Returns whether the present call has left a question behind.
    pub(super) fn has_question(&self) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.open.is_some())
    }

    /// Takes over the present grant. Returns the names that it hides, or `None` if it is the same
    /// grant as before.
    pub(super) fn renew(&mut self) -> Option<Option<Arc<HiddenPaths>>> {
        let mut grant = self.widening.grant()?;
        if self.widening.is_permissive() {
            // The recording hides more than the policy.
            grant.hide = self.grant.hide.clone();
        }
        if grant == *self.widened {
            return None;
        }
        self.widened = Arc::new(grant);
        Some(HiddenPaths::for_grant(&self.widened, Arc::clone(&self.is_over)))
    }
}
