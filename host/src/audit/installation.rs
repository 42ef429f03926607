//! The record of an installation, which is not a call: a tool was installed, replaced or removed.

use jiff::Timestamp;

use super::record::{
    CallId, FAILED, GrantSummary, InstallationRecord, OK, ProgramRecord, Record, Via,
};
use super::{Audit, ERROR_KEPT, NAME_KEPT, beginning};

/// The longest text about the source of a tool that is recorded, in bytes.
const SOURCE_KEPT: usize = 1024;

impl Audit {
    /// Appends the record of an installation. If it failed, `outcome` has the reason.
    pub(crate) fn record_installation(
        &self,
        tool: &str,
        program: Option<ProgramRecord>,
        grant: Option<GrantSummary>,
        installation: InstallationRecord,
        outcome: Result<(), String>,
    ) {
        let kept = |text: String| beginning(&text, SOURCE_KEPT).to_owned();
        let InstallationRecord { action, source, version, signer, replaced } = installation;
        let installed = InstallationRecord {
            action: kept(action),
            source: kept(source),
            version: version.map(kept),
            signer: kept(signer),
            replaced,
        };
        self.write(&Record {
            time: Timestamp::now(),
            id: CallId::choose().to_string(),
            via: Via::Install,
            tool: beginning(tool, NAME_KEPT).to_owned(),
            program,
            grant,
            installed: Some(installed),
            workspace: self.workspace.clone(),
            outcome: if outcome.is_ok() { OK } else { FAILED }.to_owned(),
            error: outcome.err().map(|error| beginning(&error, ERROR_KEPT).to_owned()),
            ..Record::default()
        });
    }
}
