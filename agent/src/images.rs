//! The images of a conversation: those of prompts and of tools' answers, and the room that a
//! request has for them.
//!
//! `ikigai-provider` sets the limits. Nothing here inspects the content of an image.

use ikigai_host::exec::content::BlockKind;
use ikigai_host::exec::envelope::Envelope;
use ikigai_provider::{CallResult, Image, Message, Part};
use serde::Deserialize;
use serde_json::value::to_raw_value;

use crate::members::RawMembers;

/// The member of an envelope that tells the model which images are not sent.
const LEFT_OUT: &str = "images_left_out";

/// The room that a request has for further images.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    images: usize,
    bytes: u64,
    /// False if the model takes no images.
    is_open: bool,
}

/// The reason why an image is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error(
        "the conversation has {} images, the most that a request may have",
        Image::MAX_IN_REQUEST
    )]
    Count,
    #[error(
        "with it the images of the conversation would have more than {} bytes, the limit of a \
         request",
        Image::MAX_BYTES_IN_REQUEST
    )]
    Bytes,
    #[error("the model takes no images")]
    Model,
}

impl Room {
    /// Returns the room that these messages leave.
    pub(super) fn beside(messages: &[Message]) -> Self {
        let (mut images, mut bytes) = (Image::MAX_IN_REQUEST, Image::MAX_BYTES_IN_REQUEST);
        for image in of_messages(messages) {
            images = images.saturating_sub(1);
            bytes = bytes.saturating_sub(image.bytes() as u64);
        }
        Self { images, bytes, is_open: true }
    }

    /// Returns the room for a model that takes no images.
    pub(super) fn none() -> Self {
        Self { images: 0, bytes: 0, is_open: false }
    }

    /// Takes the room that an image needs.
    pub(super) fn take(&mut self, image: &Image) -> Result<(), NoRoom> {
        if !self.is_open {
            return Err(NoRoom::Model);
        }
        let images = self.images.checked_sub(1).ok_or(NoRoom::Count)?;
        let bytes = self.bytes.checked_sub(image.bytes() as u64).ok_or(NoRoom::Bytes)?;
        (self.images, self.bytes) = (images, bytes);
        Ok(())
    }
}

/// Returns the parts of a prompt: each image under its name, and the texts after them.
pub(super) fn prompt(images: Vec<Image>, texts: Vec<String>) -> Vec<Part> {
    let named = |image: Image| {
        let label = format!("Image {}:", image.name());
        [Part::text(label), Part::Image(image)]
    };
    images.into_iter().flat_map(named).chain(texts.into_iter().map(Part::from)).collect()
}

/// Returns the images of a message part, oldest first.
pub(super) fn of_part(part: &Part) -> &[Image] {
    match part {
        Part::Image(image) => std::slice::from_ref(image),
        Part::Result(result) => &result.images,
        Part::Text { .. } | Part::Call(_) | Part::Blob(_) => &[],
    }
}

fn of_messages(messages: &[Message]) -> impl Iterator<Item = &Image> {
    messages.iter().flat_map(|message| &message.parts).flat_map(of_part)
}

/// An image block of a tool's content.
#[derive(Deserialize)]
struct ImageBlock {
    data: String,
}

/// Returns the images in a tool's answer, and a line for each that is not sent.
pub(super) fn of_answer(envelope: &Envelope, tool: &str) -> (Vec<Image>, Vec<String>) {
    let (mut images, mut refused) = (Vec::new(), Vec::new());
    let Envelope::Success(success) = envelope else { return (images, refused) };
    let content = success.content();
    let blocks = content.iter().flat_map(|content| &content.blocks);
    let blocks = blocks.filter(|block| matches!(block.kind, BlockKind::Image(..)));
    for (at, block) in blocks.enumerate() {
        let number = at + 1;
        let image =
            serde_json::from_str::<ImageBlock>(block.json.get()).map_err(|it| it.to_string());
        let image = image.and_then(|ImageBlock { data }| {
            let name = format!("{number} of {tool}");
            Image::from_base64(name, &data).map_err(|error| error.to_string())
        });
        match image {
            Ok(image) => images.push(image),
            Err(reason) => refused.push(format!("image {number}: {reason}")),
        }
    }
    (images, refused)
}

/// Returns the content of a result with lines about the images that are not sent, after the lines
/// that it already has.
pub(super) fn noted(content: String, left_out: &[String]) -> String {
    if left_out.is_empty() {
        return content;
    }
    let noted = || {
        let mut members: RawMembers = serde_json::from_str(&content)?;
        let before = members.get(LEFT_OUT).map(|lines| serde_json::from_str(lines.get()));
        let mut lines: Vec<String> = before.transpose()?.unwrap_or_default();
        lines.extend_from_slice(left_out);
        members.0.retain(|(name, _)| name != LEFT_OUT);
        members.0.push((LEFT_OUT.to_owned(), to_raw_value(&lines)?));
        serde_json::to_string(&members)
    };
    // Only an imported log has content that is not an object.
    noted().unwrap_or_else(|_: serde_json::Error| format!("{content}\n{}", left_out.join("\n")))
}

/// Returns the content of each result without its images, by the id of its call, after the model
/// refused images. Returns nothing if a prompt's images are the likelier reason: the conversation
/// has some, and its last message has no images of results.
pub(super) fn without_those_of_results(messages: &[Message]) -> Vec<(String, String)> {
    let has = |message: &Message, is: fn(&Part) -> bool| message.parts.iter().any(is);
    let of_result = |part: &Part| matches!(part, Part::Result(it) if !it.images.is_empty());
    let came_last = messages.last().is_some_and(|last| has(last, of_result));
    if !came_last && messages.iter().any(|it| has(it, |part| matches!(part, Part::Image(_)))) {
        return Vec::new();
    }
    let results =
        messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
            Part::Result(result) if !result.images.is_empty() => Some(result),
            _ => None,
        });
    let without = |CallResult { id, content, images, .. }: &CallResult| {
        let line = |image: &Image| format!("{image}: {}", NoRoom::Model);
        let lines: Vec<String> = images.iter().map(line).collect();
        (id.clone(), noted(content.clone(), &lines))
    };
    results.map(without).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use ikigai_provider::Role;
    use serde_json::{Value, json};

    use super::*;

    /// Returns an image with this name and at least `bytes` bytes.
    pub(crate) fn image(name: &str, bytes: usize) -> Image {
        let mut png =
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0".to_vec();
        png.resize(bytes.max(png.len()), 0);
        Image::new(name, &png).expect("an image")
    }

    fn user(parts: Vec<Part>) -> Message {
        Message { role: Role::User, parts }
    }

    fn result(id: &str, images: Vec<Image>) -> CallResult {
        let content = json!({ "tool_success": true, "result": "a" }).to_string();
        CallResult { id: id.to_owned(), name: "shot".to_owned(), content, is_error: false, images }
    }

    #[test]
    fn a_request_has_room_for_so_many_images_and_bytes() {
        let small = image("a", 0);
        let many = || std::iter::repeat_n(Part::Image(small.clone()), Image::MAX_IN_REQUEST - 1);
        let mut room = Room::beside(&[user(many().collect())]);
        assert_eq!(room.take(&small), Ok(()));
        assert_eq!(room.take(&small), Err(NoRoom::Count));

        let large = image("b", 3 << 20);
        let results = vec![large.clone(), large.clone(), large.clone()];
        let mut room = Room::beside(&[user(vec![Part::Result(result("1", results))])]);
        assert_eq!(room.take(&small), Ok(()));
        assert_eq!(room.take(&large), Err(NoRoom::Bytes));
        assert_eq!(room.take(&small), Ok(()), "what did not fit takes no room");
        assert_eq!(Room::none().take(&small), Err(NoRoom::Model));
    }

    #[test]
    fn what_is_left_out_is_told_in_the_envelope() {
        let content = r#"{"tool_success":true,"result":1.50}"#.to_owned();
        assert_eq!(noted(content.clone(), &[]), content);
        let once = noted(content, &["one".to_owned()]);
        let expected = r#"{"tool_success":true,"result":1.50,"images_left_out":["one"]}"#;
        assert_eq!(once, expected);
        let twice = expected.replace(r#""one""#, r#""one","two""#);
        assert_eq!(noted(once, &["two".to_owned()]), twice);
        assert_eq!(noted("text".to_owned(), &["one".to_owned()]), "text\none");
    }

    #[test]
    fn images_of_results_go_first_where_a_model_refuses_images() {
        let of_result = || user(vec![Part::Result(result("1", vec![image("a", 0)]))]);
        let prompt = || user(vec![Part::Image(image("b", 0)), Part::text("b")]);
        let ids = |messages: &[Message]| {
            let left_out = without_those_of_results(messages);
            left_out.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[of_result()]), ["1"]);
        assert_eq!(ids(&[prompt(), of_result()]), ["1"]);
        assert_eq!(ids(&[of_result(), user(vec![Part::text("b")])]), ["1"]);
        assert!(ids(&[of_result(), prompt()]).is_empty(), "the prompt's may be the reason");
        assert!(ids(&[prompt()]).is_empty());
        let (_, content) = without_those_of_results(&[of_result()]).remove(0);
        let content: Value = serde_json::from_str(&content).expect("JSON");
        let line = "[image a, 640 × 480, 1 kB]: the model takes no images";
        assert_eq!(content[LEFT_OUT], json!([line]));
    }
}
