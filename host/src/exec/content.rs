//! The answer of a tool whose schema says `"result": "content"`: a list of content blocks, in the
//! form of a Model Context Protocol result.
//!
//! Owns the check of its shape, and its text for models that read only text. The blocks themselves
//! stay as the tool wrote them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// An answer in content blocks.
#[derive(Debug)]
pub struct ContentAnswer<'a> {
    /// The blocks, in their order.
    pub blocks: Vec<AnswerBlock<'a>>,
    /// The same answer as data, if the tool gave any.
    pub structured: Option<&'a RawValue>,
    /// True if the tool calls its answer a failure.
    pub is_error: bool,
}

/// A content block.
#[derive(Debug)]
pub struct AnswerBlock<'a> {
    /// The JSON object, as the tool wrote it.
    pub json: &'a RawValue,
    /// The meaning.
    pub kind: BlockKind<'a>,
}

/// The meaning of a content block. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind<'a> {
    /// A text for the model.
    Text(Cow<'a, str>),
    /// An image, of this type and size.
    Image(Cow<'a, str>, u64),
    /// A sound, of this type and size.
    Audio(Cow<'a, str>, u64),
    /// A resource with its text.
    TextResource(Cow<'a, str>, Cow<'a, str>),
    /// A resource with its bytes, of this URI and size.
    BinaryResource(Cow<'a, str>, u64),
    /// The URI of a resource that the block does not contain.
    Link(Cow<'a, str>),
}

/// The reason that an answer is not a valid list of content blocks.
#[derive(Debug, Error)]
pub enum ContentError {
    /// The answer as a whole has another form.
    #[error("it is not `{{\"content\": [...]}}`")]
    Answer(#[source] serde_json::Error),
    /// A block has another form.
    #[error("`content[{index}]` is not a content block: {reason}")]
    Block {
        /// The place in the list, from 0.
        index: usize,
        /// The rule that the block breaks.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContent<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WrittenBlock<'a> {
    Text {
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        #[serde(borrow)]
        data: Cow<'a, str>,
        #[serde(borrow)]
        mime_type: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        #[serde(borrow)]
        data: Cow<'a, str>,
        #[serde(borrow)]
        mime_type: Cow<'a, str>,
    },
    Resource {
        #[serde(borrow)]
        resource: WrittenResource<'a>,
    },
    ResourceLink {
        #[serde(borrow)]
        uri: Cow<'a, str>,
        #[serde(rename = "name")]
        _name: Cow<'a, str>,
    },
}

#[derive(Deserialize)]
struct WrittenResource<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    blob: Option<Cow<'a, str>>,
}

impl<'a> ContentAnswer<'a> {
    /// Reads the answer of a tool.
    ///
    /// # Errors
    ///
    /// Fails if the answer has no list of content blocks, or if a block does not have the form that
    /// the protocol requires.
    pub fn parse(answer: &'a RawValue) -> Result<Self, ContentError> {
        let RawContent { content, structured_content, is_error } =
            serde_json::from_str(answer.get()).map_err(ContentError::Answer)?;
        let blocks = content.into_iter().enumerate().map(|(index, json)| {
            let kind = BlockKind::parse(json);
            kind.map(|kind| AnswerBlock { json, kind })
                .map_err(|reason| ContentError::Block { index, reason })
        });
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            structured: structured_content,
            is_error: is_error.unwrap_or_default(),
        })
    }

    /// Returns the texts of all blocks, each on its own line. A block that is not text is described
    /// by its type and its size.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let between = if index > 0 { "\n" } else { "" };
            // Writing to a string cannot fail.
            let _ = match &block.kind {
                BlockKind::Text(own) => write!(text, "{between}{own}"),
                BlockKind::Image(mime, size) => {
                    write!(text, "{between}[image of type {mime}, {size} bytes]")
                }
                BlockKind::Audio(mime, size) => {
                    write!(text, "{between}[audio of type {mime}, {size} bytes]")
                }
                BlockKind::TextResource(uri, own) => {
                    write!(text, "{between}[resource {uri}]\n{own}")
                }
                BlockKind::BinaryResource(uri, size) => {
                    write!(text, "{between}[resource {uri}, {size} bytes]")
                }
                BlockKind::Link(uri) => write!(text, "{between}[link to the resource {uri}]"),
            };
        }
        text
    }
}

impl<'a> BlockKind<'a> {
    fn parse(json: &'a RawValue) -> Result<Self, String> {
        let written = serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
        Ok(match written {
            WrittenBlock::Text { text } => Self::Text(text),
            WrittenBlock::Image { data, mime_type } => Self::Image(mime_type, size(&data)?),
            WrittenBlock::Audio { data, mime_type } => Self::Audio(mime_type, size(&data)?),
            WrittenBlock::ResourceLink { uri, .. } => Self::Link(uri),
            WrittenBlock::Resource { resource } => match resource {
                WrittenResource { uri, text: Some(text), blob: None } => {
                    Self::TextResource(uri, text)
                }
                WrittenResource { uri, text: None, blob: Some(blob) } => {
                    Self::BinaryResource(uri, size(&blob)?)
                }
                _ => return Err("`resource` must have either `text` or `blob`".to_owned()),
            },
        })
    }
}

/// Returns the number of bytes that a base64 text encodes. Fails if it is not base64: clients pass
/// images on to model providers, which refuse the whole conversation if one image is invalid.
fn size(base64: &str) -> Result<u64, String> {
    let mut bytes = DecoderReader::new(base64.as_bytes(), &STANDARD);
    io::copy(&mut bytes, &mut io::sink()).map_err(|error| format!("no base64: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).expect("JSON")
    }

    fn refused(value: &Value) -> String {
        use std::error::Error as _;
        let error = ContentAnswer::parse(&raw(value)).expect_err(&value.to_string());
        error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    }

    #[test]
    fn blocks_of_every_kind_are_read_and_named() {
        let answer = raw(&json!({ "content": [
            { "type": "text", "text": "a \"line\"", "annotations": { "priority": 1 } },
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "audio", "data": "AAE=", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "x:a", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "x:b", "blob": "" } },
            { "type": "resource_link", "uri": "x:c", "name": "c" },
        ], "structuredContent": { "a": 1.50 }, "other": 1 }));
        let content = ContentAnswer::parse(&answer).expect("content");
        assert_eq!(
            content.text(),
            "a \"line\"\n[image of type image/png, 3 bytes]\n[audio of type audio/wav, 2 bytes]\n\
             [resource x:a]\ninside\n[resource x:b, 0 bytes]\n[link to the resource x:c]"
        );
        assert!(content.blocks[0].json.get().contains("annotations"));
        assert_eq!(content.structured.map(RawValue::get), Some(r#"{"a":1.5}"#));
        assert!(!content.is_error);
        let answer = raw(&json!({ "content": [], "isError": true }));
        let content = ContentAnswer::parse(&answer).expect("content");
        assert_eq!((content.text().as_str(), content.is_error), ("", true));
    }

    #[test]
    fn what_is_no_list_of_blocks_is_refused_with_its_place() {
        let of = |block: Value| json!({ "content": [{ "type": "text", "text": "" }, block] });
        let image =
            |data: &str| of(json!({ "type": "image", "data": data, "mimeType": "image/png" }));
        for (answer, reason) in [
            (json!([]), "it is not"),
            (json!("text"), "it is not"),
            (json!({ "output": 1 }), "missing field `content`"),
            (json!({ "content": "text" }), "it is not"),
            (json!({ "content": [], "isError": "no" }), "it is not"),
            (of(json!("text")), "`content[1]`"),
            (of(json!({ "text": "a" })), "missing field `type`"),
            (of(json!({ "type": "text" })), "missing field `text`"),
            (of(json!({ "type": "video", "data": "" })), "unknown variant `video`"),
            (of(json!({ "type": "image", "data": "" })), "missing field `mimeType`"),
            (image("not base64"), "no base64"),
            (image("AAE"), "no base64"),
            (of(json!({ "type": "resource", "resource": { "uri": "x:" } })), "either"),
            (
                of(
                    json!({ "type": "resource", "resource": { "uri": "", "text": "", "blob": "" } }),
                ),
                "either",
            ),
            (of(json!({ "type": "resource_link", "uri": "x:" })), "missing field `name`"),
        ] {
            let text = refused(&answer);
            assert!(text.contains(reason), "{answer}: {text}");
        }
    }
}
