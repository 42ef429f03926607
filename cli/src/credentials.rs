//! The errors by which tools say that they miss a credential, and the hint for whoever can grant it.

use ikigai_host::exec::envelope::Envelope;
use ikigai_host::policy::Decision;
use serde_json::Value;

/// The code by which tools say that a credential is missing, as docs/writing-tools.md has it.
pub(crate) const MISSING_CREDENTIALS: &str = "MISSING_CREDENTIALS";

/// Returns the code of the error that a tool answered with, and its text.
pub(crate) fn tool_error(envelope: &Envelope) -> Option<(String, String)> {
    let Envelope::Success(success) = envelope else { return None };
    let answer: Value = serde_json::from_str(success.result.get()).ok()?;
    let code = answer.get("error_code")?.as_str()?.to_owned();
    let error = answer.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((code, error))
}

/// Returns what to do where a tool answered that a credential is missing, and does not see the
/// environment of its user. Nobody sees which variable it looked for.
pub(crate) fn hint(name: &str, envelope: &Envelope, decision: &Decision) -> Option<String> {
    let (code, _) = tool_error(envelope)?;
    if code != MISSING_CREDENTIALS || decision.grant.inherits_env {
        return None;
    }
    let unset = decision.variables.iter().filter(|variable| !variable.is_set);
    let unset: Vec<String> = unset.map(|variable| format!("`{}`", variable.name)).collect();
    Some(match unset.is_empty() {
        true => format!("`ikigai policy grant {name} --env VAR` lets it see the variable VAR"),
        false => format!("it may see {}, not set here", unset.join(", ")),
    })
}
