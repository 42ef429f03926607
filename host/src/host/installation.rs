//! The record of tools that the embedding program installs, replaces and removes.

use super::Host;
use crate::audit::{GrantSummary, InstallationRecord, ProgramRecord};

impl Host {
    /// Records that a tool was installed, replaced or removed, or that this failed for the reason
    /// in `outcome`. `program` describes its file afterwards, and `grant` is the grant that came
    /// with it.
    pub fn record_installation(
        &self,
        tool: &str,
        program: Option<ProgramRecord>,
        grant: Option<GrantSummary>,
        installation: InstallationRecord,
        outcome: Result<(), String>,
    ) {
        self.audit.record_installation(tool, program, grant, installation, outcome);
    }
}
