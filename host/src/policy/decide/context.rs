//! The inputs of a decision.

use std::path::{Path, PathBuf};

use crate::policy::reached::RequestedAccess;
use crate::policy::remedy::RemedyHints;
use crate::policy::reserved::DecisionSecrets;
use crate::policy::rule::{PolicyEntry, PolicyLayer};
use crate::policy::signers::Signing;
use crate::policy::variables::Variables;
use crate::policy::writable_record::WritableRecord;

/// The inputs of a decision, in addition to the layers.
pub(in crate::policy) struct PolicyContext<'a> {
    pub(in crate::policy) workspace: &'a Path,
    pub(in crate::policy) protected: &'a [PathBuf],
    pub(in crate::policy) secrets: DecisionSecrets<'a>,
    pub(in crate::policy) variables: &'a Variables,
    pub(in crate::policy) writable_record: &'a WritableRecord,
    pub(in crate::policy) hints: &'a RemedyHints,
    pub(in crate::policy) signing: &'a Signing,
    /// The accesses beyond the files that the user allowed the tool, for this session or this call.
    pub(in crate::policy) allowed: &'a [RequestedAccess],
}

/// An entry, with its layer.
pub(super) type Rule<'a> = (&'a PolicyLayer, &'a PolicyEntry);
