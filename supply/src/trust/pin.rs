//! The signer that a user approved for a tool, and with which every later file of it is compared.

use crate::lock::LockedTool;
use crate::signer::Signer;

/// The relation of a file's signer to the approved one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The user has approved no file of this tool yet.
    First,
    /// The file has the approved signer, or is unsigned as the approved file was.
    Same,
    /// The approved file was unsigned, and this one is signed.
    Gained,
    /// The signer is another one, which a person accepted.
    Accepted,
}

/// A file whose signer is not the approved one.
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

/// Compares the signer `found` of a file from a source with that of the approved tool.
///
/// # Errors
///
/// Fails if the approved file was signed, this one is signed by somebody else or by nobody, and no
/// person accepted that.
pub fn check_pin(
    approved: Option<(&str, &LockedTool)>,
    from: &str,
    found: &Signer,
    is_accepted: bool,
) -> Result<Pin, Box<SignerChanged>> {
    let Some((tool, approved)) = approved else { return Ok(Pin::First) };
    if approved.signer == *found {
        return Ok(Pin::Same);
    }
    if approved.signer.is_none() {
        return Ok(Pin::Gained);
    }
    if is_accepted {
        return Ok(Pin::Accepted);
    }
    Err(Box::new(SignerChanged {
        tool: tool.to_owned(),
        approved_from: approved.from.clone(),
        approved: approved.signer.clone(),
        from: from.to_owned(),
        found: found.clone(),
    }))
}
