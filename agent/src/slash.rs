//! The calls of `slash_command`, the one tool that is the host's own.
//!
//! It runs the commands that free and arrange a model's context, and shows a tool. Its list has no
//! command that loads code, gives a grant or changes the conversation. A command that is not in the
//! list is refused, even if users may give it.

use std::sync::Arc;

use bytes::Bytes;
use ikigai_host::exec::envelope::Envelope;
use ikigai_host::policy::AssetAccess;
use ikigai_host::registry::Snapshot;
use ikigai_protocol::EnvelopeCode;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::assets::for_model;
use crate::command::{self, AgentCommand, By, CommandError};
use crate::environment::SessionEnvironment;
use crate::own_tool::SLASH_COMMAND;

/// The commands that a model may use.
const FOR_MODELS: [&str; 5] = ["/compact", "/pin", "/unpin", "/pinned", "/tool"];

/// Carries out a model's call. `granted` is the access to assets that policy gave it. The user is
/// not asked.
pub(super) async fn answer(
    environment: &SessionEnvironment,
    arguments: &Bytes,
    granted: AssetAccess,
    snapshot: &Arc<Snapshot>,
    cancel: &CancellationToken,
) -> Envelope {
    let line = match line(arguments) {
        Ok(line) => line,
        Err(reason) => return Envelope::refused(EnvelopeCode::InvalidParams, reason),
    };
    let name = line.split_whitespace().next().unwrap_or_default();
    if !FOR_MODELS.contains(&name) {
        let reason = format!(
            "`{}` is not for models; {SLASH_COMMAND} takes {}",
            name.chars().take(40).collect::<String>().escape_debug(),
            FOR_MODELS.join(", "),
        );
        return Envelope::refused(EnvelopeCode::PermissionDenied, reason);
    }
    let command = match AgentCommand::parse(&line) {
        Ok(command) => command,
        Err(error) => return failed(&error.into()),
    };
    let by = By::Model(granted);
    match command::run(environment, &command, by, Some(snapshot), cancel).await {
        Ok(text) => Envelope::answered(raw(&json!({ "output": text }))),
        Err(CommandError::Cancelled) => {
            let text = format!("Tool '{SLASH_COMMAND}' was cancelled");
            Envelope::refused(EnvelopeCode::ToolCrashed, text)
        }
        Err(error) => failed(&error),
    }
}

/// Returns the answer of a command that failed. As for other tools, the call succeeds, and its
/// answer has the error.
fn failed(error: &CommandError) -> Envelope {
    let message = match error {
        CommandError::Store(error) => for_model(error),
        _ => error.to_string(),
    };
    Envelope::answered(raw(&json!({ "error": message, "error_code": error.code() })))
}

fn line(arguments: &Bytes) -> Result<String, String> {
    let arguments: Value = serde_json::from_slice(arguments)
        .map_err(|error| format!("arguments are not valid JSON: {error}"))?;
    match arguments.get("command") {
        Some(Value::String(line)) => Ok(line.trim().to_owned()),
        Some(_) => Err("`command` must be a string".to_owned()),
        None => Err("`command` is missing".to_owned()),
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
