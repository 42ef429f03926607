//! The verdict on a file by its signatures: who signed it, and whether the policy and the earlier
//! installation allow that signer.

use std::fs;

use anyhow::Context as _;
use ikigai_host::policy::{SignerIdentity, SignerRule, SignersInForce};
use ikigai_packages::signature::{
    MinisignKey, Payload, PemKey, Signature, SignatureError, SignatureKind, SignerKey,
    SigstoreRoot, SshKey,
};
use ikigai_packages::trust::{
    PinStatus, Trust, TrustAdmission, TrustedIdentity, TrustedSigner, check_pin,
};
use ikigai_packages::{LockedTool, Signer};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::examined::ExaminedTool;
use crate::error::CliError;

/// The verdict on a file that may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignatureVerdict {
    /// The signer.
    pub(crate) signer: Signer,
    /// The policy's name for the signer.
    pub(crate) named: Option<String>,
    /// The relation of the signer to the approved one.
    pub(crate) pin: PinStatus,
    /// The source of the approved tool, if the user has approved one.
    pub(crate) approved_from: Option<String>,
    /// The time of signing, if it is attested.
    pub(crate) at: Option<Timestamp>,
}

/// Returns the trust in signers under the policy in force.
pub(crate) fn trust(signers: &SignersInForce) -> Result<Trust, CliError> {
    let trusted = signers.signers.iter().map(|rule| {
        trusted(rule).map_err(|reason| {
            let what = format!("{}: `[signers.{}]` {reason}", rule.provenance, rule.name);
            CliError::usage(anyhow::Error::msg(what))
        })
    });
    let trusted = trusted.collect::<Result<Vec<_>, _>>()?;
    Ok(Trust::new(trusted, signers.required.is_some()))
}

/// Parses the texts of a policy rule.
///
/// # Errors
///
/// Fails if one of them cannot be used. The text completes a sentence that begins with the name of
/// the rule.
pub(super) fn trusted(rule: &SignerRule) -> Result<TrustedSigner, String> {
    let of = |what: &str, error: &dyn std::fmt::Display| {
        format!("has a `{what}` that cannot be used: {error}")
    };
    let identity = match &rule.identity {
        SignerIdentity::Ssh(text) => {
            TrustedIdentity::Key(SignerKey::Ssh(SshKey::parse(text).map_err(|it| of("ssh", &it))?))
        }
        SignerIdentity::Minisign(text) => {
            let key = MinisignKey::parse(text).map_err(|it| of("minisign", &it))?;
            TrustedIdentity::Key(SignerKey::Minisign(key))
        }
        SignerIdentity::Key(text) => {
            TrustedIdentity::Key(SignerKey::Pem(PemKey::parse(text).map_err(|it| of("key", &it))?))
        }
        SignerIdentity::Sigstore { issuer, subject } => TrustedIdentity::Sigstore {
            issuer: issuer.clone(),
            subject: subject.parse().map_err(|it| of("subject", &it))?,
        },
    };
    let pattern = |text: &String| text.parse().map_err(|it| of("tools", &it));
    let tools = rule.tools.as_ref().map(|tools| tools.iter().map(pattern).collect());
    let until = rule.until.as_ref().map(|text| text.parse::<Date>().map_err(|it| of("until", &it)));
    Ok(TrustedSigner {
        name: rule.name.clone(),
        identity,
        tools: tools.transpose()?,
        until: until.transpose()?,
    })
}

impl SignatureVerdict {
    /// Decides whether a file with these signatures may be installed. `approved` is the tool that
    /// the user approved before.
    ///
    /// # Errors
    ///
    /// Fails if the file has signatures but no good one, or if the policy or `approved` does not
    /// allow the signer.
    pub(crate) fn reach(
        examined: &ExaminedTool,
        trust: &Trust,
        root: &SigstoreRoot,
        approved: Option<(&str, &LockedTool)>,
        accept_signer: bool,
    ) -> Result<Self, CliError> {
        let source = &examined.fetched.source;
        let good = signers(examined, trust, root)?;
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let name = examined.name();
        let pinned = approved.map(|(_, tool)| &tool.signer);
        // If there are several signatures, prefer a signer that the policy names, then the approved
        // signer.
        let rank = |(signer, _): &&(Signer, Option<Timestamp>)| {
            let admission = trust.admit(name, signer, today);
            let is_named = matches!(admission, Ok(TrustAdmission::By(_)));
            (admission.is_ok(), is_named, Some(signer) == pinned)
        };
        let unsigned = (Signer::None, None);
        let (signer, at) = good.iter().max_by_key(rank).unwrap_or(&unsigned).clone();
        let admission = trust.admit(name, &signer, today).map_err(|refusal| {
            CliError::failed(refusal).hint("`ikigai policy show` lists the signers in force")
        })?;
        let named = match admission {
            TrustAdmission::By(name) => Some(name.to_owned()),
            TrustAdmission::Stranger | TrustAdmission::Unsigned => None,
        };
        let pin =
            check_pin(approved, &source.from, &signer, accept_signer).map_err(CliError::failed)?;
        let approved_from = approved.map(|(_, tool)| tool.from.clone());
        Ok(Self { signer, named, pin, approved_from, at })
    }

    /// Returns the signer in words.
    pub(crate) fn text(&self) -> String {
        let pin = match self.pin {
            PinStatus::First => "first approval of this tool; this signer is expected from now on",
            PinStatus::Same => "the same as before",
            PinStatus::Gained => "unsigned before; this signer is expected from now on",
            PinStatus::Accepted => "changed, and accepted",
        };
        match (&self.named, self.pin) {
            _ if !self.signer.is_none() => {
                let named = self.named.as_ref().map(|name| format!("`{name}` of the policy; "));
                format!("{} ({}{pin})", self.signer, named.unwrap_or_default())
            }
            (_, PinStatus::First) => {
                "none: the file is not signed (first approval of this tool)".to_owned()
            }
            (_, PinStatus::Accepted) => {
                "none: the file is not signed (it was before; accepted)".to_owned()
            }
            _ => "none: the file is not signed".to_owned(),
        }
    }
}

/// Verifies the signatures of a file, and returns the signers of the good ones.
fn signers(
    examined: &ExaminedTool,
    trust: &Trust,
    root: &SigstoreRoot,
) -> Result<Vec<(Signer, Option<Timestamp>)>, CliError> {
    let source = &examined.fetched.source;
    if source.signatures.is_empty() {
        return Ok(Vec::new());
    }
    let path = &examined.fetched.path;
    let file = fs::read(path)
        .with_context(|| format!("cannot read `{}`", path.display()))
        .map_err(CliError::failed)?;
    let manifest =
        source.manifest.as_ref().map(|(_, bytes)| &bytes[..]).filter(|it| !it.is_empty());
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    let keys = trust.keys();
    for (place, bytes) in &source.signatures {
        let verified = Signature::parse(bytes)
            .and_then(|signature| signature.verify(Payload::of_tool(&file, manifest), &keys, root));
        match verified {
            Ok(signed) => good.push((signed.signer, signed.at)),
            Err(error) => refused.push((place.as_str(), error)),
        }
    }
    if good.is_empty() {
        return Err(refusal(&source.from, &refused));
    }
    Ok(good)
}

/// Returns the error for a file whose signatures do not count, with the place of each and the
/// reason. A signature with an unknown key is not a bad signature, and the hint explains how to
/// make the key known.
fn refusal(from: &str, refused: &[(&str, SignatureError)]) -> CliError {
    let reasons: Vec<String> =
        refused.iter().map(|(place, error)| format!("`{place}`: {error}")).collect();
    let reasons = reasons.join("; ");
    let unknown: Option<Vec<SignatureKind>> =
        refused.iter().map(|(_, error)| of_unknown_key(error)).collect();
    if let Some([kind, ..]) = unknown.as_deref() {
        let what = format!("no signature of `{from}` can be verified: {reasons}");
        let line = match kind {
            SignatureKind::Minisign => "minisign = \"RW…\"",
            SignatureKind::Ssh | SignatureKind::Sigstore => {
                "key = \"\"\"-----BEGIN PUBLIC KEY-----…\"\"\""
            }
        };
        return CliError::failed(anyhow::Error::msg(what)).hint(format!(
            "nothing was installed; if you trust its author, ask for the public key, add it to your \
             policy with a name of your own, and run this again:\n\n  [signers.NAME]\n  {line}\n"
        ));
    }
    let what = format!("no signature of `{from}` is good: {reasons}");
    CliError::failed(anyhow::Error::msg(what))
        .hint("nothing was installed; ikigai does not treat a file with a bad signature as an unsigned one")
}

/// Returns the kind of a signature that was refused because its key is unknown; `None` for other
/// reasons.
fn of_unknown_key(error: &SignatureError) -> Option<SignatureKind> {
    match error {
        SignatureError::UnknownKey { kind, .. } => Some(*kind),
        _ => None,
    }
}
