//! A conversation as JSON for programs.

use ikigai_provider::{Message, Part, Role};
use serde_json::{Value, json};

/// Returns the messages as `Session::transcript` describes them.
pub(super) fn of(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Model => "model",
    };
    let parts: Vec<Value> = message.parts.iter().filter_map(part).collect();
    json!({ "role": role, "parts": parts })
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, .. } => json!({ "text": text }),
        Part::Call(call) => json!({
            "call": { "id": call.id, "name": call.name, "arguments": call.arguments },
        }),
        Part::Result(result) => json!({
            "result": {
                "id": result.id,
                "name": result.name,
                "content": result.content,
                "is_error": result.is_error,
            },
        }),
        Part::Blob(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use ikigai_provider::{Blob, Call, CallResult, Provider};

    use super::*;

    #[test]
    fn what_only_a_provider_reads_is_left_out() {
        let (provider, model) = (Provider::Anthropic, "m".to_owned());
        let blob = Blob { provider, model, value: json!("signature") };
        let call = Call {
            id: "1".into(),
            name: "t".into(),
            arguments: "{".into(),
            blob: Some(blob.clone()),
        };
        let result =
            CallResult { id: "1".into(), name: "t".into(), content: "{}".into(), is_error: true };
        let all = [
            Message { role: Role::Model, parts: vec![Part::Blob(blob), Part::Call(call)] },
            Message { role: Role::User, parts: vec![Part::Result(result), Part::text("go on")] },
        ];
        assert_eq!(
            of(&all),
            json!([
                { "role": "model", "parts": [{ "call": { "id": "1", "name": "t", "arguments": "{" } }] },
                { "role": "user", "parts": [
                    { "result": { "id": "1", "name": "t", "content": "{}", "is_error": true } },
                    { "text": "go on" },
                ] },
            ])
        );
    }
}
