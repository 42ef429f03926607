//! The part of `ikigai policy show` about signatures: whether the policy requires them, and which
//! signers count.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::with_tilde;
use crate::commands::tool::list::plain_table;
use crate::error::CliError;
use ikigai_host::host::Host;
use ikigai_host::policy::{SignerIdentity, SignerRule};

/// Returns the lines about signatures; empty if no policy file mentions signatures.
pub(super) fn as_text(host: &Host, home: Option<&PathBuf>) -> Result<String, CliError> {
    let in_force = host.authority().signers()?;
    let void = host.authority().void_signers()?;
    let mut text = String::new();
    if let Some(by) = &in_force.required {
        let by = with_tilde(&by.to_string(), home);
        text.push_str(&format!("Signed:    required of your own tools (by {by})\n"));
        if in_force.signers.is_empty() {
            text.push_str("           no signer is named, so none of them may be called\n");
        }
    }
    if !in_force.signers.is_empty() {
        let mut table = plain_table();
        for signer in &in_force.signers {
            let SignerRule { name, identity, tools, until, provenance } = signer;
            let tools = match tools {
                None => "all tools".to_owned(),
                Some(tools) if tools.is_empty() => "no tool".to_owned(),
                Some(tools) => tools.join(", "),
            };
            let until = until.as_ref().map(|day| format!("until {day}")).unwrap_or_default();
            let identity = format!("{}: {identity}", identity.kind());
            let by = with_tilde(&provenance.to_string(), home);
            table.add_row([name.clone(), identity, tools, until, by]);
        }
        text.push_str(&format!("\nSigners:\n{table}\n"));
    }
    for SignerRule { name, provenance, .. } in &void {
        let by = with_tilde(&provenance.to_string(), home);
        text.push_str(&format!(
            "\nthe signer `{name}` at {by} does not count, because a ceiling names its own\n"
        ));
    }
    Ok(text)
}

/// Returns the members of `policy show --json` about signatures.
pub(super) fn as_json(host: &Host) -> Result<Value, CliError> {
    let in_force = host.authority().signers()?;
    let signers = in_force.signers.iter().map(signer).collect::<Vec<_>>();
    let void = host.authority().void_signers()?;
    Ok(json!({
        "require_signed": in_force.required.is_some(),
        "require_signed_decided_by": in_force.required.as_ref().map(ToString::to_string),
        "signers": signers,
        "void_signers": void.iter().map(signer).collect::<Vec<_>>(),
    }))
}

fn signer(rule: &SignerRule) -> Value {
    let SignerRule { name, identity, tools, until, provenance } = rule;
    let known_by = match identity {
        SignerIdentity::Ssh(text) | SignerIdentity::Minisign(text) | SignerIdentity::Key(text) => {
            json!(text)
        }
        SignerIdentity::Sigstore { issuer, subject } => {
            json!({ "issuer": issuer, "subject": subject })
        }
    };
    json!({
        "name": name,
        identity.kind(): known_by,
        "tools": tools,
        "until": until,
        "decided_by": provenance.to_string(),
    })
}
