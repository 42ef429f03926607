//! The signer that the user approved for a tool. The signer of each later file is compared with it.

use crate::lock::LockedTool;
use crate::signer::Signer;

/// The relation between a file's signer and the approved one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinStatus {
    /// The user has approved no file of this tool yet.
    First,
    /// The file has the approved signer, or both files are unsigned.
    Same,
    /// The approved file was unsigned, but this one is signed.
    Gained,
    /// The signer has changed, and the user accepted that.
    Accepted,
}

/// The error for a file whose signer is not the approved one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "you approved `{tool}` from `{approved_from}`, signed by `{approved}`, and the file from `{from}` \
     is signed by `{found}`; if its author confirms that, run again with `--accept-signer`"
)]
pub struct SignerChanged {
    /// The name of the approved tool.
    pub tool: String,
    /// The source of the approved file.
    pub approved_from: String,
    /// The signer of the approved file.
    pub approved: Signer,
    /// The source of this file.
    pub from: String,
    /// The signer of this file.
    pub found: Signer,
}

/// Compares `found`, the signer of a file from the source `from`, with the signer of the approved
/// tool.
///
/// # Errors
///
/// Fails if the approved file was signed, this one is unsigned or has another signer, and the user
/// did not accept that.
pub fn check_pin(
    approved: Option<(&str, &LockedTool)>,
    from: &str,
    found: &Signer,
    is_accepted: bool,
) -> Result<PinStatus, Box<SignerChanged>> {
    let Some((tool, approved)) = approved else { return Ok(PinStatus::First) };
    if approved.signer == *found {
        return Ok(PinStatus::Same);
    }
    if approved.signer.is_none() {
        return Ok(PinStatus::Gained);
    }
    if is_accepted {
        return Ok(PinStatus::Accepted);
    }
    Err(Box::new(SignerChanged {
        tool: tool.to_owned(),
        approved_from: approved.from.clone(),
        approved: approved.signer.clone(),
        from: from.to_owned(),
        found: found.clone(),
    }))
}
