//! The signers that somebody trusts, and the decision whether the file of a tool is admitted.
//!
//! Decides by who signed, which [`crate::signature`] found out. Reads no policy file, and grants
//! nothing: an admitted tool may be installed, and may still do nothing.

mod pattern;
mod pin;

use std::fmt;

use jiff::civil::Date;

pub use pattern::{Pattern, PatternError};
pub use pin::{Pin, SignerChanged, check_pin};

use crate::signature::Key;
use crate::signer::Signer;

/// A signer that somebody trusts: a table `[signers.NAME]`.
#[derive(Clone, Debug)]
pub struct TrustedSigner {
    /// The name of the table.
    pub name: String,
    /// The proof by which the signer is known.
    pub identity: TrustedIdentity,
    /// The names of the tools that the signer may sign, where they are limited.
    pub tools: Option<Vec<Pattern>>,
    /// The last day on which files of the signer are installed, by the calendar of UTC. Installed
    /// tools go on.
    pub until: Option<Date>,
}

/// The proof by which a trusted signer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedIdentity {
    /// A public key.
    Key(Key),
    /// An identity in a certificate of Sigstore.
    Sigstore {
        /// The URL of the issuer of OpenID Connect, exactly.
        issuer: String,
        /// The subject. A pattern ends best in a separator: `https://github.com/acme*` matches
        /// `https://github.com/acme-evil/` as well.
        subject: Pattern,
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

    /// Returns whether the signer claims tools of this name for itself.
    fn claims(&self, tool: &str) -> bool {
        self.tools.is_some() && self.may_sign(tool)
    }

    /// Returns the reason for which the signer does not admit a tool that is installed on a day, or
    /// is called where there is none.
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

/// The signers in force, and whether a signature by one of them is required.
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
    pub fn keys(&self) -> Vec<&Key> {
        let identities = self.signers.iter().map(|signer| &signer.identity);
        identities
            .filter_map(|identity| match identity {
                TrustedIdentity::Key(key) => Some(key),
                TrustedIdentity::Sigstore { .. } => None,
            })
            .collect()
    }

    /// Decides whether a file is installed as this tool, today.
    ///
    /// Where no signature is required, a file is admitted that nobody signed, or somebody whom nobody
    /// named: the caller tells who signed and pins it. But a name that a signer claims by its
    /// `tools` is that signer's: else to take a signature away would help whoever made a false one.
    ///
    /// # Errors
    ///
    /// The file is refused.
    pub fn admit(
        &self,
        tool: &str,
        signer: &Signer,
        today: Date,
    ) -> Result<Admission<'_>, Refusal> {
        let claimant = self.signers.iter().find(|signer| signer.claims(tool));
        if signer.is_none() {
            let tool = tool.to_owned();
            return match (self.require_signed, claimant) {
                (true, _) => Err(Refusal::Unsigned { tool }),
                (false, Some(claimant)) => {
                    Err(Refusal::Claimed { tool, name: claimant.name.clone() })
                }
                (false, None) => Ok(Admission::Unsigned),
            };
        }
        let is_open = !self.require_signed && claimant.is_none();
        match self.named(tool, signer, Some(today)) {
            Ok(name) => Ok(Admission::By(name)),
            Err(Refusal::Unknown { .. }) if is_open => Ok(Admission::Stranger),
            Err(refusal) => Err(refusal),
        }
    }

    /// Decides whether an installed tool, of which the lock keeps who signed it, is called. Its
    /// signer must still be in force where a signature is required, and no date is asked.
    ///
    /// # Errors
    ///
    /// The call is refused.
    pub fn admit_call(&self, tool: &str, signer: &Signer) -> Result<(), Refusal> {
        if !self.require_signed {
            return Ok(());
        }
        if signer.is_none() {
            return Err(Refusal::Unsigned { tool: tool.to_owned() });
        }
        self.named(tool, signer, None).map(drop)
    }

    /// Returns the name of the first signer that admits a signed tool.
    fn named(&self, tool: &str, signer: &Signer, day: Option<Date>) -> Result<&str, Refusal> {
        let mut objections = Vec::new();
        for trusted in self.signers.iter().filter(|trusted| trusted.is(signer)) {
            match trusted.objection(tool, day) {
                None => return Ok(&trusted.name),
                Some(objection) => objections.push(objection),
            }
        }
        let (tool, signer) = (tool.to_owned(), signer.clone());
        Err(match objections.is_empty() {
            true => Refusal::Unknown { tool, signer },
            false => Refusal::NotAdmitted { tool, signer, objections: Objections(objections) },
        })
    }
}

/// The reason for which a file is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<'a> {
    /// A trusted signer of this name signed it.
    By(&'a str),
    /// Somebody signed it whom nobody named, and nothing speaks against it.
    Stranger,
    /// Nobody signed it, and no signature is required.
    Unsigned,
}

/// The reason for which a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A signature is required, and there is none.
    #[error(
        "`{tool}` is not signed, and `require_signed` asks for a signature by a signer in the \
         policy; ask its author for one"
    )]
    Unsigned {
        /// The name of the tool.
        tool: String,
    },
    /// Nobody signed the tool, and its name is a signer's.
    #[error(
        "`{tool}` is not signed, and tools of this name are those of the signer `{name}`, by its \
         `tools` in the policy; ask its author for a signature"
    )]
    Claimed {
        /// The name of the tool.
        tool: String,
        /// The name of the signer.
        name: String,
    },
    /// Nobody named the signer.
    #[error(
        "`{tool}` is signed by `{signer}`, which is no signer in the policy; if you trust it, add \
         it as `[signers.NAME]`"
    )]
    Unknown {
        /// The name of the tool.
        tool: String,
        /// The signer.
        signer: Signer,
    },
    /// The signer is named, and not for this.
    #[error("`{tool}` is signed by `{signer}`, but {objections}; change `[signers]` to allow it")]
    NotAdmitted {
        /// The name of the tool.
        tool: String,
        /// The signer.
        signer: Signer,
        /// The reason of each entry of the signer.
        objections: Objections,
    },
}

/// The reasons of all entries of one signer.
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
