//! The error of a tool without a credential, and the hint on how to grant it.

use ikigai_host::exec::envelope::Envelope;
use ikigai_host::policy::Decision;
use serde_json::Value;

/// The code with which tools report a missing credential, as in docs/guides/write-a-tool.md.
pub(crate) const MISSING_CREDENTIALS: &str = "MISSING_CREDENTIALS";

/// Returns the code and the text of the error that a tool answered with.
pub(crate) fn tool_error(envelope: &Envelope) -> Option<(String, String)> {
    let Envelope::Success(success) = envelope else { return None };
    let answer: Value = serde_json::from_str(success.result.get()).ok()?;
    let code = answer.get("error_code")?.as_str()?.to_owned();
    let error = answer.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((code, error))
}

/// Returns a hint if a tool reports a missing credential and does not see the user's environment.
/// ikigai cannot see which variable the tool looked for.
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
