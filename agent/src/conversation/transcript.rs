//! A conversation as JSON for programs.

use ikigai_provider::{CallResult, Image, Message, Part, Role};
use serde_json::{Value, json};

/// Returns the messages as `Session::transcript` describes them.
pub(super) fn to_json(messages: &[Message]) -> Value {
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
        Part::Result(result) => json!({ "result": self::result(result) }),
        Part::Image(image) => json!({ "image": self::image(image) }),
        Part::Blob(_) => return None,
    })
}

fn result(result: &CallResult) -> Value {
    let CallResult { id, name, content, is_error, images } = result;
    let mut value = json!({ "id": id, "name": name, "content": content, "is_error": is_error });
    if !images.is_empty() {
        value["images"] = images.iter().map(image).collect();
    }
    value
}

fn image(image: &Image) -> Value {
    let ((width, height), media_type) = (image.size(), image.kind().media_type());
    json!({
        "name": image.name(),
        "media_type": media_type,
        "width": width,
        "height": height,
        "bytes": image.bytes(),
    })
}

#[cfg(test)]
mod tests {
    use ikigai_provider::{Blob, CallResult, ModelCall, Provider};

    use super::*;
    use crate::images::tests::image;

    #[test]
    fn what_only_a_provider_reads_is_left_out() {
        let (provider, model) = (Provider::Anthropic, "m".to_owned());
        let blob = Blob { provider, model, value: json!("signature") };
        let call = ModelCall {
            id: "1".into(),
            name: "t".into(),
            arguments: "{".into(),
            blob: Some(blob.clone()),
        };
        let images = vec![image("shot", 0)];
        let result = CallResult {
            id: "1".into(),
            name: "t".into(),
            content: "{}".into(),
            is_error: true,
            images,
        };
        let all = [
            Message { role: Role::Model, parts: vec![Part::Blob(blob), Part::Call(call)] },
            Message {
                role: Role::User,
                parts: vec![Part::Result(result), Part::text("go on"), Part::Image(image("a", 0))],
            },
        ];
        let described = |name: &str| {
            let media_type = "image/png";
            json!({ "name": name, "media_type": media_type, "width": 640, "height": 480, "bytes": 29 })
        };
        assert_eq!(
            to_json(&all),
            json!([
                { "role": "model", "parts": [{ "call": { "id": "1", "name": "t", "arguments": "{" } }] },
                { "role": "user", "parts": [
                    { "result": {
                        "id": "1", "name": "t", "content": "{}", "is_error": true,
                        "images": [described("shot")],
                    } },
                    { "text": "go on" },
                    { "image": described("a") },
                ] },
            ])
        );
    }
}
