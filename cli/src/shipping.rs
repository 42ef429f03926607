//! Tools that come from elsewhere: fetched, examined, verified, shown, placed and granted.
//!
//! ```text
//! a reference ──► source ──► examined ──► verdict ──► report ──► placement ──► lock, grant
//!                 a copy,    name and     who signed  what a     the file      what was
//!                 hashed     schema       it, policy  person     under its     installed
//!                                                     reads      name
//! ```
//!
//! ikigai trusts nothing in a file before it is copied to a directory of the user's own. It
//! examines, verifies and places that copy. Needs grant nothing here: they become lines of the
//! policy only if the user agrees to them.

mod approvals;
mod artifact;
mod client;
mod examined;
mod interfaces;
mod known;
mod lock_file;
mod needs;
mod placement;
mod project;
mod release;
mod report;
mod signatures;
mod source;
mod staging;
mod verdict;
mod workspace;

pub(crate) use approvals::Approvals;
pub(crate) use artifact::{resolve, version_of};
pub(crate) use client::{RegistryClient, root};
pub(crate) use examined::ExaminedTool;
pub(crate) use interfaces::Interfaces;
pub(crate) use known::{ToolFacts, manifest_at};
pub(crate) use lock_file::{LockFile, read_lock};
pub(crate) use needs::Requested;
pub(crate) use placement::{Placement, remove_file};
pub(crate) use project::ProjectDirectory;
pub(crate) use release::{ReleaseList, ReleaseSigners, SUMS};
pub(crate) use report::{InstallReport, ReplacedTool, short};
pub(crate) use signatures::LockedSignatures;
pub(crate) use source::{ToolRequest, typed};
pub(crate) use staging::Fetched;
pub(crate) use verdict::{SignatureVerdict, trust};
pub(crate) use workspace::{NotOffered, WorkspaceToolPaths};
