//! The signers in force, and the requirement of a signature.
//!
//! Decides which tables `[signers.NAME]` are in force. Verifies nothing, and keeps no record of
//! signatures: the embedding program does both, behind [`Signatures`].

mod meet;

use std::sync::Arc;

use ikigai_protocol::Digest;
use parking_lot::Mutex;

use super::provenance::Provenance;
use super::rule::{PolicyLayers, provenance_of};
use super::signer_rule::SignerRule;

/// The signers in force, and the rule that requires a signature by one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignersInForce {
    /// The rule that requires a signature; `None` if no signature is required.
    pub required: Option<Provenance>,
    /// The signers: the ceilings' signers if a ceiling names any, otherwise the user's signers.
    pub signers: Vec<SignerRule>,
}

/// The check of signatures, which the embedding program provides:
/// [`HostBuilder::signatures`](crate::HostBuilder::signatures).
pub trait Signatures: Send + Sync {
    /// Checks the texts of a rule when its file is read.
    ///
    /// # Errors
    ///
    /// Fails if a text of the rule cannot be used. Then the file cannot be used either. The error
    /// follows "`[signers.NAME]` ".
    fn check(&self, rule: &SignerRule) -> Result<(), String>;

    /// Decides whether a tool with these contents may be called if a signature is required. All of
    /// the contents must be signed. ikigai calls this before every such call.
    ///
    /// # Errors
    ///
    /// Fails if the call is refused. The error is a sentence that says why, and what to do.
    fn admit(
        &self,
        tool: &str,
        contents: &[Digest],
        signers: &Arc<SignersInForce>,
    ) -> Result<(), String>;
}

/// The check of signatures, and the last returned signers in force.
pub(super) struct Signing {
    signatures: Option<Arc<dyn Signatures>>,
    last: Mutex<Option<(PolicyLayers, Arc<SignersInForce>)>>,
}

impl Signing {
    pub(super) fn new(signatures: Option<Arc<dyn Signatures>>) -> Self {
        Self { signatures, last: Mutex::default() }
    }

    /// Returns the same check for layers that are not in force, so that they don't replace the
    /// remembered layers.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.signatures.clone())
    }

    pub(super) fn signatures(&self) -> Option<&Arc<dyn Signatures>> {
        self.signatures.as_ref()
    }

    /// Returns the signers in force. The result stays the same while the layers do.
    pub(super) fn in_force(&self, layers: &PolicyLayers) -> Arc<SignersInForce> {
        let mut last = self.last.lock();
        if let Some((known, in_force)) = &*last
            && known.are_same(layers)
        {
            return Arc::clone(in_force);
        }
        let in_force = Arc::new(in_force(layers));
        *last = Some((layers.clone(), Arc::clone(&in_force)));
        in_force
    }
}

/// Returns whether a layer requires a signature. Most calls need no further check.
pub(super) fn is_required(layers: &PolicyLayers) -> bool {
    layers.all().any(|layer| layer.require_signed.as_ref().is_some_and(|at| at.value))
}

fn in_force(layers: &PolicyLayers) -> SignersInForce {
    let required = layers.all().find_map(|layer| {
        let at = layer.require_signed.as_ref().filter(|at| at.value)?;
        Some(provenance_of(layer, at))
    });
    SignersInForce { required, signers: of_ceilings(layers).unwrap_or(layers.user.signers.clone()) }
}

/// Returns the signers of the ceilings, or `None` if no ceiling names signers. Each ceiling bounds
/// the others, because every user may add a ceiling.
fn of_ceilings(layers: &PolicyLayers) -> Option<Vec<SignerRule>> {
    let mut naming = layers.ceilings.iter().map(|layer| &layer.signers).filter(|it| !it.is_empty());
    let first = naming.next()?.clone();
    Some(naming.fold(first, |met, next| meet::signers(&met, next)))
}

/// Returns the user's signers that do not count because a ceiling names its own.
pub(super) fn void(layers: &PolicyLayers) -> Vec<SignerRule> {
    let is_bounded = layers.ceilings.iter().any(|layer| !layer.signers.is_empty());
    if is_bounded { layers.user.signers.clone() } else { Vec::new() }
}
