//! Events as JSON: one object each, with the version of its form as the member `v`.
//!
//! A reader ignores a member that a later version adds. If an older program must not ignore
//! something, that gets a new version or a new kind, which the program refuses.

use ikigai_host::exec::scrub::SecretValues;
use ikigai_provider::{Blob, CallResult, Image, ImageError, ModelCall, Part, TokenUsage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::JournalEvent;

/// The version of the form in which events are written, and the newest that is read.
pub const VERSION: u64 = 1;

/// The reason why the JSON of an event cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventFormatError {
    #[error("it has version {0}, and this program reads versions up to {VERSION}")]
    Newer(u64),
    #[error("this program knows no events of this kind")]
    Kind,
    #[error("it has no version")]
    NoVersion,
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("`{name}` is not used as an image: {error}")]
    Image { name: String, error: ImageError },
}

#[derive(Deserialize, Serialize)]
struct PromptForm {
    typed: String,
    texts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageForm>,
}

#[derive(Deserialize, Serialize)]
struct CallsForm {
    parts: Vec<PartForm>,
    usage: UsageForm,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    audit: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct ResultsForm {
    results: Vec<ResultForm>,
}

#[derive(Deserialize, Serialize)]
struct EndForm {
    reason: String,
    parts: Vec<PartForm>,
    usage: UsageForm,
}

#[derive(Deserialize, Serialize)]
struct Spent {
    usage: UsageForm,
}

#[derive(Deserialize, Serialize)]
struct ModelForm {
    provider: String,
    name: String,
}

#[derive(Deserialize, Serialize)]
struct Shortened {
    results: Vec<ResultLineForm>,
}

#[derive(Deserialize, Serialize)]
struct ResultLineForm {
    id: String,
    line: String,
}

#[derive(Deserialize, Serialize)]
struct Summarized {
    kept: usize,
    notes: String,
    most_typed: usize,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct UsageForm {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
    reasoning: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum PartForm {
    Text {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<BlobForm>,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<BlobForm>,
    },
    Result(ResultForm),
    Blob(BlobForm),
}

#[derive(Deserialize, Serialize)]
struct ResultForm {
    id: String,
    name: String,
    content: String,
    is_error: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageForm>,
}

/// An image. Its type and its size are read from its data again.
#[derive(Deserialize, Serialize)]
struct ImageForm {
    name: String,
    base64: String,
}

#[derive(Deserialize, Serialize)]
struct BlobForm {
    provider: String,
    model: String,
    value: Value,
}

/// Returns the JSON of an event, without the values of granted variables.
pub(super) fn write(
    event: &JournalEvent,
    secrets: &SecretValues,
) -> Result<String, serde_json::Error> {
    let parts = |parts: &[Part]| {
        let forms: Vec<PartForm> = parts.iter().filter_map(PartForm::from_part).collect();
        without_values(forms, secrets)
    };
    let mut value = match event {
        JournalEvent::Prompt { typed, texts, .. } => {
            let (typed, texts) = (typed.clone(), texts.clone());
            serde_json::to_value(PromptForm { typed, texts, images: Vec::new() })
        }
        JournalEvent::Calls { parts: all, usage, audit } => {
            let (usage, audit) = (usage.into(), audit.clone());
            serde_json::to_value(CallsForm { parts: parts(all), usage, audit })
        }
        JournalEvent::Results { results } => serde_json::to_value(ResultsForm {
            results: results.iter().map(ResultForm::from_result).collect(),
        }),
        JournalEvent::Dropped | JournalEvent::Cleared => Ok(json!({})),
        JournalEvent::End { reason, parts: all, usage } => {
            let (reason, usage) = (reason.clone(), usage.into());
            serde_json::to_value(EndForm { reason, parts: parts(all), usage })
        }
        JournalEvent::Spent { usage } => serde_json::to_value(Spent { usage: usage.into() }),
        JournalEvent::Model { provider, name } => {
            serde_json::to_value(ModelForm { provider: provider.clone(), name: name.clone() })
        }
        JournalEvent::Surroundings(surroundings) => serde_json::to_value(surroundings),
        JournalEvent::Shortened { results } => {
            let line = |(id, line): &(String, String)| ResultLineForm {
                id: id.clone(),
                line: line.clone(),
            };
            serde_json::to_value(Shortened { results: results.iter().map(line).collect() })
        }
        JournalEvent::Summarized { kept, notes, most_typed } => {
            let (kept, most_typed) = (*kept, *most_typed);
            serde_json::to_value(Summarized { kept, notes: notes.clone(), most_typed })
        }
    }?;
    scrub(&mut value, secrets);
    add_images(&mut value, event, secrets)?;
    let mut object = Map::from_iter([("v".to_owned(), VERSION.into())]);
    if let Value::Object(members) = value {
        object.extend(members);
    }
    serde_json::to_string(&object)
}

/// Adds the images of an event. Their data is not searched for values of variables. A value could
/// occur in base64 only by chance, and removing it would destroy the image.
fn add_images(
    value: &mut Value,
    event: &JournalEvent,
    secrets: &SecretValues,
) -> Result<(), serde_json::Error> {
    let forms = |images: &[Image]| {
        let forms = images.iter().map(|image| ImageForm::from_image(image, secrets));
        serde_json::to_value(forms.collect::<Vec<_>>())
    };
    match event {
        JournalEvent::Prompt { images, .. } if !images.is_empty() => {
            value["images"] = forms(images)?
        }
        JournalEvent::Results { results } => {
            for (at, result) in results.iter().enumerate().filter(|(_, it)| !it.images.is_empty()) {
                value["results"][at]["images"] = forms(&result.images)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Reads an event of this kind.
pub(super) fn read(kind: &str, json: &str) -> Result<JournalEvent, EventFormatError> {
    let value: Value = serde_json::from_str(json)?;
    // Check the version first: this program may not be able to read a newer form.
    let version = value.get("v").and_then(Value::as_u64).ok_or(EventFormatError::NoVersion)?;
    if version > VERSION {
        return Err(EventFormatError::Newer(version));
    }
    fn form<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
        serde_json::from_value(value)
    }
    let parts = |forms: Vec<PartForm>| {
        let parts = forms.into_iter().filter_map(|form| form.part().transpose());
        parts.collect::<Result<Vec<Part>, EventFormatError>>()
    };
    Ok(match kind {
        "prompt" => {
            let PromptForm { typed, texts, images } = form(value)?;
            JournalEvent::Prompt { typed, texts, images: ImageForm::images(images)? }
        }
        "calls" => {
            let CallsForm { parts: forms, usage, audit } = form(value)?;
            JournalEvent::Calls { parts: parts(forms)?, usage: usage.into(), audit }
        }
        "results" => {
            let ResultsForm { results } = form(value)?;
            let results = results.into_iter().map(ResultForm::result);
            JournalEvent::Results { results: results.collect::<Result<_, _>>()? }
        }
        "dropped" => JournalEvent::Dropped,
        "end" => {
            let EndForm { reason, parts: forms, usage } = form(value)?;
            JournalEvent::End { reason, parts: parts(forms)?, usage: usage.into() }
        }
        "spent" => {
            let Spent { usage } = form(value)?;
            JournalEvent::Spent { usage: usage.into() }
        }
        "cleared" => JournalEvent::Cleared,
        "model" => {
            let ModelForm { provider, name } = form(value)?;
            JournalEvent::Model { provider, name }
        }
        "surroundings" => JournalEvent::Surroundings(form(value)?),
        "shortened" => {
            let Shortened { results } = form(value)?;
            let line = |ResultLineForm { id, line }| (id, line);
            JournalEvent::Shortened { results: results.into_iter().map(line).collect() }
        }
        "summarized" => {
            let Summarized { kept, notes, most_typed } = form(value)?;
            JournalEvent::Summarized { kept, notes, most_typed }
        }
        _ => return Err(EventFormatError::Kind),
    })
}

/// Replaces the values of granted variables in each text.
fn scrub(value: &mut Value, secrets: &SecretValues) {
    match value {
        Value::String(text) => {
            let scrubbed = secrets.scrub_text(text);
            if scrubbed != *text {
                *text = scrubbed.into_owned();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| scrub(value, secrets)),
        Value::Object(members) => members.values_mut().for_each(|value| scrub(value, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the parts of an answer. If data that only the provider reads contains a value of a
/// granted variable, all of that data is left out. A provider refuses data that was changed or has
/// a missing part.
fn without_values(mut forms: Vec<PartForm>, secrets: &SecretValues) -> Vec<PartForm> {
    let has_value = |blob: &BlobForm| {
        let mut scrubbed = blob.value.clone();
        scrub(&mut scrubbed, secrets);
        scrubbed != blob.value
    };
    if !forms.iter().filter_map(PartForm::blob).any(has_value) {
        return forms;
    }
    forms.retain(|form| !matches!(form, PartForm::Blob(_)));
    for form in &mut forms {
        if let PartForm::Text { blob, .. } | PartForm::Call { blob, .. } = form {
            *blob = None;
        }
    }
    forms
}

impl PartForm {
    /// Returns the form of a part of the model's answer, which has no images.
    fn from_part(part: &Part) -> Option<Self> {
        Some(match part {
            Part::Text { text, blob } => {
                Self::Text { text: text.clone(), blob: blob.as_ref().map(BlobForm::from_blob) }
            }
            Part::Call(ModelCall { id, name, arguments, blob }) => Self::Call {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
                blob: blob.as_ref().map(BlobForm::from_blob),
            },
            Part::Result(result) => Self::Result(ResultForm::from_result(result)),
            Part::Blob(blob) => Self::Blob(BlobForm::from_blob(blob)),
            Part::Image(_) => return None,
        })
    }

    /// Returns the part. Returns nothing for data of a provider that this program does not know,
    /// since the data will never be sent to it.
    fn part(self) -> Result<Option<Part>, EventFormatError> {
        Ok(Some(match self {
            Self::Text { text, blob } => {
                Part::Text { text, blob: blob.and_then(BlobForm::into_blob) }
            }
            Self::Call { id, name, arguments, blob } => {
                let blob = blob.and_then(BlobForm::into_blob);
                Part::Call(ModelCall { id, name, arguments, blob })
            }
            Self::Result(result) => Part::Result(result.result()?),
            Self::Blob(blob) => return Ok(blob.into_blob().map(Part::Blob)),
        }))
    }

    fn blob(&self) -> Option<&BlobForm> {
        match self {
            Self::Text { blob, .. } | Self::Call { blob, .. } => blob.as_ref(),
            Self::Blob(blob) => Some(blob),
            Self::Result(_) => None,
        }
    }
}

impl ResultForm {
    /// Returns the form of a result without its images, which [`add_images`] adds.
    fn from_result(result: &CallResult) -> Self {
        let CallResult { id, name, content, is_error, images: _ } = result.clone();
        Self { id, name, content, is_error, images: Vec::new() }
    }

    fn result(self) -> Result<CallResult, EventFormatError> {
        let Self { id, name, content, is_error, images } = self;
        Ok(CallResult { id, name, content, is_error, images: ImageForm::images(images)? })
    }
}

impl ImageForm {
    fn from_image(image: &Image, secrets: &SecretValues) -> Self {
        let name = secrets.scrub_text(image.name()).into_owned();
        Self { name, base64: image.base64().to_owned() }
    }

    fn images(forms: Vec<Self>) -> Result<Vec<Image>, EventFormatError> {
        let image = |Self { name, base64 }: Self| {
            let image = Image::from_base64(name.clone(), &base64);
            image.map_err(|error| EventFormatError::Image { name, error })
        };
        forms.into_iter().map(image).collect()
    }
}

impl BlobForm {
    fn from_blob(blob: &Blob) -> Self {
        let Blob { provider, model, value } = blob.clone();
        Self { provider: provider.as_str().to_owned(), model, value }
    }

    fn into_blob(self) -> Option<Blob> {
        let Self { provider, model, value } = self;
        Some(Blob { provider: provider.parse().ok()?, model, value })
    }
}

impl From<&TokenUsage> for UsageForm {
    fn from(usage: &TokenUsage) -> Self {
        let TokenUsage { input, output, cached, cache_written, reasoning } = *usage;
        Self { input, output, cached, cache_written, reasoning }
    }
}

impl From<UsageForm> for TokenUsage {
    fn from(form: UsageForm) -> Self {
        let UsageForm { input, output, cached, cache_written, reasoning } = form;
        Self { input, output, cached, cache_written, reasoning }
    }
}

#[cfg(test)]
mod tests {
    use ikigai_provider::Provider;

    use super::*;
    use crate::images::tests::image;
    use crate::surroundings::TurnSurroundings;

    fn blob(value: &str) -> Blob {
        Blob { provider: Provider::Google, model: "m".to_owned(), value: json!([value]) }
    }

    fn call(arguments: &str) -> Part {
        let (id, name) = ("1".to_owned(), "t".to_owned());
        Part::Call(ModelCall { id, name, arguments: arguments.to_owned(), blob: Some(blob("c")) })
    }

    fn events() -> Vec<JournalEvent> {
        let usage = TokenUsage {
            input: Some(1),
            cached: Some(0),
            reasoning: Some(2),
            ..TokenUsage::default()
        };
        let text = Part::Text { text: "é\n".to_owned(), blob: Some(blob("t")) };
        let result = CallResult {
            id: "1".to_owned(),
            name: "t".to_owned(),
            content: "{}".to_owned(),
            is_error: true,
            images: vec![image("shot", 0)],
        };
        let plain = CallResult { id: "2".to_owned(), images: Vec::new(), ..result.clone() };
        vec![
            JournalEvent::Prompt {
                typed: "a".to_owned(),
                texts: vec!["a".to_owned(), "b".to_owned()],
                images: vec![image("a.png", 0), image("b.png", 1 << 10)],
            },
            JournalEvent::Calls {
                parts: vec![Part::Blob(blob("b")), text.clone(), call("{")],
                usage,
                audit: vec!["of the call".to_owned()],
            },
            JournalEvent::Results { results: vec![plain, result] },
            JournalEvent::Dropped,
            JournalEvent::End { reason: "answered".to_owned(), parts: vec![text], usage },
            JournalEvent::Spent { usage },
            JournalEvent::Cleared,
            JournalEvent::Model { provider: "google".to_owned(), name: "m".to_owned() },
            JournalEvent::Surroundings(TurnSurroundings::default()),
            JournalEvent::Shortened { results: vec![("1".to_owned(), "line".to_owned())] },
            JournalEvent::Summarized { kept: 3, notes: "notes".to_owned(), most_typed: 80_000 },
        ]
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        for event in events() {
            let json = write(&event, &SecretValues::default()).expect("JSON");
            assert!(json.starts_with(r#"{"v":1"#), "{json}");
            assert_eq!(read(event.kind(), &json).expect(&json), event, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_reason() {
        let refused = |kind: &str, json: &str| read(kind, json).expect_err("refused").to_string();
        assert_eq!(
            refused("prompt", r#"{"v":2}"#),
            "it has version 2, and this program reads versions up to 1"
        );
        assert_eq!(refused("prompt", r#"{"typed":""}"#), "it has no version");
        assert_eq!(refused("song", r#"{"v":1}"#), "this program knows no events of this kind");
        assert_eq!(refused("prompt", r#"{"v":1}"#), "missing field `typed`");
        assert!(refused("prompt", "{").starts_with("EOF while parsing"));
        let image = |base64: &str| {
            let images = json!([{ "name": "a.png", "base64": base64 }]);
            json!({ "v": 1, "typed": "", "texts": [], "images": images }).to_string()
        };
        assert_eq!(
            refused("prompt", &image("AAEC")),
            "`a.png` is not used as an image: it is not a PNG, JPEG, GIF or WebP image"
        );
        assert_eq!(
            refused("prompt", &image("?")),
            "`a.png` is not used as an image: the data of the image is not in base64"
        );
    }

    #[test]
    fn data_of_an_unknown_provider_is_left_out() {
        let json = r#"{"v":1,"usage":{},"parts":[
            {"blob":{"provider":"new","model":"m","value":1}},
            {"text":{"text":"a","blob":{"provider":"new","model":"m","value":1}}}]}"#;
        let (usage, audit) = (TokenUsage::default(), Vec::new());
        let expected = JournalEvent::Calls { parts: vec![Part::text("a")], usage, audit };
        assert_eq!(read("calls", json).expect("an event"), expected);
    }

    #[test]
    fn values_of_granted_variables_are_not_written() {
        let secrets = SecretValues::from_variables(vec![("KEY".into(), "se\"cret-value".into())]);
        let arguments = json!({ "a": "se\"cret-value" }).to_string();
        let calls =
            |parts| JournalEvent::Calls { parts, usage: TokenUsage::default(), audit: Vec::new() };
        let events = [
            JournalEvent::Prompt {
                typed: "se\"cret-value".to_owned(),
                texts: Vec::new(),
                images: Vec::new(),
            },
            calls(vec![call(&arguments)]),
        ];
        for event in events {
            let json = write(&event, &secrets).expect("JSON");
            assert!(!json.contains("cret-value") && json.contains("[redacted: KEY]"), "{json}");
            read(event.kind(), &json).expect("still an event");
        }
        // The image contains the value by chance, and must stay an image.
        let images = vec![image("se\"cret-value.png", 0)];
        let value = images[0].base64()[4..12].to_owned();
        let secrets = SecretValues::from_variables(vec![
            ("KEY".into(), "se\"cret-value".into()),
            ("PART".into(), value.into()),
        ]);
        let event = JournalEvent::Prompt { typed: "a".to_owned(), texts: Vec::new(), images };
        let json = write(&event, &secrets).expect("JSON");
        assert!(!json.contains("cret-value"), "{json}");
        read(event.kind(), &json).expect("still an image");
        // The provider would refuse signed data that was changed.
        let parts = vec![Part::Blob(blob("se\"cret-value")), call("{}")];
        let json = write(&calls(parts), &secrets).expect("JSON");
        assert!(!json.contains("cret-value") && !json.contains("blob"), "{json}");
    }
}
