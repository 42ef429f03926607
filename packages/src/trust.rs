//! The trusted signers, and the decision whether a tool's file is admitted.
//!
//! The decision depends on the signer, which [`crate::signature`] found out. This module reads no
//! policy file and grants nothing. An admitted tool may be installed, but still has no permissions.

mod pattern;
mod pin;

use std::fmt;

use jiff::civil::Date;

pub use pattern::{NamePattern, PatternError};
pub use pin::{PinStatus, SignerChanged, check_pin};

use crate::signature::SignerKey;
use crate::signer::Signer;

/// A trusted signer: a table `[signers.NAME]` in a policy.
#[derive(Clone, Debug)]
pub struct TrustedSigner {
    /// The name of the table.
    pub name: String,
    /// The key or the identity that proves who the signer is.
    pub identity: TrustedIdentity,
    /// The names of the tools that the signer may sign. `None` means all tools.
    pub tools: Option<Vec<NamePattern>>,
    /// The last day on which the signer's files may be installed, in UTC. Tools that are already
    /// installed continue to work.
    pub until: Option<Date>,
}

/// The proof of a trusted signer's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedIdentity {
    /// A public key.
    Key(SignerKey),
    /// An identity in a Sigstore certificate.
    Sigstore {
        /// The exact URL of the OpenID Connect issuer.
        issuer: String,
        /// The subject. A pattern should end in a separator, because `https://github.com/acme*`
        /// also matches `https://github.com/acme-evil/`.
        subject: NamePattern,
    },
}

impl TrustedSigner {
    fn is(&self, signer: &Signer) -> bool {
        match (&self.identity, signer) {
            (TrustedIdentity::Key(key), signer) => key.signer() == *signer,
            (TrustedIdentity::Sigstore { issuer, subject }, Signer::Sigstore(identity)) => {
                identity.issuer() == issuer && subject.matches(identity.subject())
            }
            (TrustedIdentity::Sigstore { .. }, _) => false,
        }
    }

    fn may_sign(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|pattern| pattern.matches(tool)))
    }

    /// Returns whether the signer reserves tools of this name for itself.
    fn claims(&self, tool: &str) -> bool {
        self.tools.is_some() && self.may_sign(tool)
    }

    /// Returns the reason why the signer does not admit a tool. `day` is the day of the
    /// installation, or `None` for a call.
    fn objection(&self, tool: &str, day: Option<Date>) -> Option<Objection> {
        let name = self.name.clone();
        if !self.may_sign(tool) {
            let tools = self.tools.iter().flatten().map(ToString::to_string).collect();
            return Some(Objection::Tools { name, tools });
        }
        let until = self.until.filter(|until| day.is_some_and(|day| day > *until))?;
        Some(Objection::Until { name, until })
    }
}

/// The signers in force, and whether a tool must have a signature by one of them.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    signers: Vec<TrustedSigner>,
    require_signed: bool,
}

impl Trust {
    /// Returns the trust in these signers.
    #[must_use]
    pub fn new(signers: Vec<TrustedSigner>, require_signed: bool) -> Self {
        Self { signers, require_signed }
    }

    /// Returns the keys of the signers, for [`crate::signature::Signature::verify`].
    #[must_use]
    pub fn keys(&self) -> Vec<&SignerKey> {
        let identities = self.signers.iter().map(|signer| &signer.identity);
        identities
            .filter_map(|identity| match identity {
                TrustedIdentity::Key(key) => Some(key),
                TrustedIdentity::Sigstore { .. } => None,
            })
            .collect()
    }

    /// Decides whether a file may be installed as this tool today.
    ///
    /// If signatures are not required, unsigned files and files by unknown signers are admitted.
    /// The caller reports the signer and pins it. But if a signer claims a name by its `tools`,
    /// only that signer's files are admitted under this name. Otherwise stripping a signature would
    /// be easier than forging one.
    ///
    /// # Errors
    ///
    /// Fails if the file is refused.
    pub fn admit(
        &self,
        tool: &str,
        signer: &Signer,
        today: Date,
    ) -> Result<TrustAdmission<'_>, TrustRefusal> {
        let claimant = self.signers.iter().find(|signer| signer.claims(tool));
        if signer.is_none() {
            let tool = tool.to_owned();
            return match (self.require_signed, claimant) {
                (true, _) => Err(TrustRefusal::Unsigned { tool }),
                (false, Some(claimant)) => {
                    Err(TrustRefusal::Claimed { tool, name: claimant.name.clone() })
                }
                (false, None) => Ok(TrustAdmission::Unsigned),
            };
        }
        let is_open = !self.require_signed && claimant.is_none();
        match self.named(tool, signer, Some(today)) {
            Ok(name) => Ok(TrustAdmission::By(name)),
            Err(TrustRefusal::Unknown { .. }) if is_open => Ok(TrustAdmission::Stranger),
            Err(refusal) => Err(refusal),
        }
    }

    /// Decides whether an installed tool may be called. `signer` is its signer according to the
    /// lock. If signatures are required, that signer must still be in force, but its last day is
    /// ignored.
    ///
    /// # Errors
    ///
    /// Fails if the call is refused.
    pub fn admit_call(&self, tool: &str, signer: &Signer) -> Result<(), TrustRefusal> {
        if !self.require_signed {
            return Ok(());
        }
        if signer.is_none() {
            return Err(TrustRefusal::Unsigned { tool: tool.to_owned() });
        }
        self.named(tool, signer, None).map(drop)
    }

    /// Returns the name of the first signer that admits a signed tool.
    fn named(&self, tool: &str, signer: &Signer, day: Option<Date>) -> Result<&str, TrustRefusal> {
        let mut objections = Vec::new();
        for trusted in self.signers.iter().filter(|trusted| trusted.is(signer)) {
            match trusted.objection(tool, day) {
                None => return Ok(&trusted.name),
                Some(objection) => objections.push(objection),
            }
        }
        let (tool, signer) = (tool.to_owned(), signer.clone());
        Err(match objections.is_empty() {
            true => TrustRefusal::Unknown { tool, signer },
            false => TrustRefusal::NotAdmitted { tool, signer, objections: Objections(objections) },
        })
    }
}

/// The reason why a file is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustAdmission<'a> {
    /// The trusted signer with this name signed it.
    By(&'a str),
    /// An unknown signer signed it, and no rule forbids that.
    Stranger,
    /// The file is unsigned, and signatures are not required.
    Unsigned,
}

/// The reason why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustRefusal {
    /// A signature is required, but missing.
    #[error(
        "`{tool}` is not signed, and `require_signed` asks for a signature by a signer in the \
         policy; ask its author for one"
    )]
    Unsigned {
        /// The name of the tool.
        tool: String,
    },
    /// The file is unsigned, and a signer claims its name.
    #[error(
        "`{tool}` is not signed, and only the signer `{name}` signs tools of this name, by its \
         `tools` in the policy; ask its author for a signature"
    )]
    Claimed {
        /// The name of the tool.
        tool: String,
        /// The name of the signer.
        name: String,
    },
    /// The signer is not in the policy.
    #[error(
        "`{tool}` is signed by `{signer}`, which is not a signer in the policy; if you trust it, \
         add it as `[signers.NAME]`"
    )]
    Unknown {
        /// The name of the tool.
        tool: String,
        /// The signer.
        signer: Signer,
    },
    /// The signer is in the policy, but not for this tool or this day.
    #[error("`{tool}` is signed by `{signer}`, but {objections}; change `[signers]` to allow it")]
    NotAdmitted {
        /// The name of the tool.
        tool: String,
        /// The signer.
        signer: Signer,
        /// The objection of each policy entry of this signer.
        objections: Objections,
    },
}

/// The objections of all policy entries of one signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objections(Vec<Objection>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Objection {
    Tools { name: String, tools: Vec<String> },
    Until { name: String, until: Date },
}

impl fmt::Display for Objections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, objection) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", and ")?;
            }
            match objection {
                Objection::Tools { name, tools } if tools.is_empty() => {
                    write!(f, "`{name}` may sign no tool")?;
                }
                Objection::Tools { name, tools } => {
                    write!(f, "`{name}` may sign only `{}`", tools.join("`, `"))?;
                }
                Objection::Until { name, until } => {
                    write!(f, "files of `{name}` are installed until {until} only")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
