//! Results that are too long for a model's context: they are cut, and the whole is kept as an
//! asset.
//!
//! An envelope is one line of JSON, and an asset is read by lines. So the text inside is kept: if
//! the result has one long text, unchanged, and if it has several, each under a heading. A result
//! that is long because of its structure is kept as indented JSON. A line of more than
//! [`LONGEST_LINE`] characters is broken, since no range of lines could show a part of it.

use std::fmt::Write as _;

use ikigai_host::exec::envelope::{Aside, Envelope, JsonLayout};
use ikigai_protocol::AssetError;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::members::RawMembers;
use crate::session_assets::SessionAssets;

mod left_out;
mod passage;

pub(super) use left_out::left_out;
pub use passage::Extent;
use passage::{LONGEST_LINE, Passage, shares};

/// The most characters of a result that reach the model.
pub const SHOWN_CHARACTERS: usize = 30_000;

/// The most of a result that reaches the model of a conversation.
const SHOWN: Extent = Extent::of_characters(SHOWN_CHARACTERS);

/// The most characters of a text within a result that is never cut.
const LONG: usize = 1000;

/// The most characters of a result outside its long texts. A result with more is cut as a whole.
const FRAME: usize = 10_000;

/// At least the bytes of the envelope around an answer: `{"tool_success":true,"result":}`.
const AROUND: usize = 64;

/// A result as the model reads it.
pub(super) struct ResultText {
    /// An envelope in JSON.
    pub(super) text: String,
    /// Characters of the whole result.
    pub(super) characters: usize,
}

/// Returns the whole result.
pub(super) fn whole(envelope: &Envelope) -> ResultText {
    let text = json(envelope, JsonLayout::Compact);
    ResultText { characters: text.chars().count(), text }
}

/// Returns the result, shortened if it is long. Then the whole is kept among `assets`.
pub(super) async fn shown(
    envelope: &Envelope,
    id: &str,
    assets: Option<&SessionAssets>,
) -> ResultText {
    let whole = whole(envelope);
    let Some(long) = Long::new(envelope, &whole, SHOWN) else { return whole };
    let cut = long.keep_and_cut(id, assets).await;
    ResultText { text: cut.envelope(), characters: whole.characters }
}

/// The answer of a tool that was too long, with the whole kept as an asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The answer in JSON, with the head and the tail of each long text.
    pub result: String,
    /// True if `result` has the shape of the answer, and only its texts are shorter.
    pub keeps_shape: bool,
    /// Sentences for the model on the parts that are left out, and on where to find the whole.
    pub truncated: String,
    /// The URI of the whole, if it was kept.
    pub whole: Option<String>,
}

/// Returns an excerpt of a tool's answer, or nothing if the answer is within `limit`. The excerpt
/// leaves `spared` characters of the limit for text that the caller adds. The whole is kept among
/// `assets`, under a name that begins with `id`, which is called only then.
pub async fn excerpt(
    envelope: &Envelope,
    limit: Extent,
    spared: usize,
    id: impl FnOnce() -> String,
    assets: Option<&SessionAssets>,
) -> Option<Excerpt> {
    // Most answers are so short that they need not be written out to be counted.
    if let Envelope::Success(success) = envelope
        && success.result.get().len() + AROUND <= limit.characters.min(limit.lines)
    {
        return None;
    }
    let mut long = Long::new(envelope, &whole(envelope), limit)?;
    long.limit.characters = limit.characters.saturating_sub(spared);
    let cut = long.keep_and_cut(&id(), assets).await;
    Some(Excerpt {
        result: cut.result(),
        keeps_shape: cut.keeps_shape,
        whole: cut.location.ok(),
        truncated: cut.truncated,
    })
}

/// An envelope that is too long.
struct Long {
    limit: Extent,
    tool_success: bool,
    /// False if the structure was too long, so that the answer is cut as one text.
    keeps_shape: bool,
    /// True if `members` belong to a result that is an object. Otherwise they belong to the
    /// envelope.
    is_object: bool,
    members: Vec<(String, EnvelopeMember)>,
    /// The members of the envelope around the tool's answer.
    aside: Aside,
}

enum EnvelopeMember {
    Short(Box<RawValue>),
    Text(Passage),
}

/// An envelope that is cut.
struct CutEnvelope {
    tool_success: bool,
    keeps_shape: bool,
    is_object: bool,
    members: Vec<(String, Box<RawValue>)>,
    aside: Aside,
    truncated: String,
    location: Result<String, String>,
}

impl Long {
    /// Returns the envelope to cut, or nothing if it is short enough.
    fn new(envelope: &Envelope, whole: &ResultText, limit: Extent) -> Option<Self> {
        // A result that is long only because of JSON's escapes is not cut.
        (whole.characters > limit.characters.min(limit.lines))
            .then(|| Self::parse(envelope, whole, limit))
            .filter(|long| !long.fits())
    }

    fn parse(envelope: &Envelope, whole: &ResultText, limit: Extent) -> Self {
        let tool_success = envelope.is_success();
        let (is_object, mut members) = match envelope {
            Envelope::Success(success) => match RawMembers::from_value(&success.result) {
                Some(members) => (true, members.0),
                None => (false, vec![("result".to_owned(), success.result.clone())]),
            },
            Envelope::Failure(_) => {
                let members: RawMembers = serde_json::from_str(&whole.text).unwrap_or_default();
                (false, members.0)
            }
        };
        members.retain(|(name, _)| is_object || name != "tool_success");
        let members = members
            .into_iter()
            .map(|(name, value)| (name, EnvelopeMember::from_value(value)))
            .collect();
        // A failure already has these texts among its members.
        let aside = if tool_success { envelope.aside().clone() } else { Aside::default() };
        let long = Self { limit, tool_success, keeps_shape: true, is_object, members, aside };
        if long.texts().next().is_some() && long.frame() <= FRAME {
            return long;
        }
        let text = EnvelopeMember::Text(Passage::new(json(envelope, JsonLayout::Indented)));
        let members = vec![("result".to_owned(), text)];
        let aside = envelope.aside().clone();
        Self { limit, tool_success, keeps_shape: false, is_object: false, members, aside }
    }

    /// Keeps the whole among `assets`, and cuts the text that the model reads.
    async fn keep_and_cut(self, id: &str, assets: Option<&SessionAssets>) -> CutEnvelope {
        let (kept, is_broken) = self.kept();
        let location = match assets {
            None => Err("there is no asset store".to_owned()),
            Some(assets) => {
                let kept = assets.keep_output(id, &kept).await;
                kept.map(|path| path.to_uri()).map_err(|AssetError { message, .. }| message)
            }
        };
        self.cut(location, is_broken)
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &Passage)> {
        self.members.iter().filter_map(|(name, member)| match member {
            EnvelopeMember::Text(passage) => Some((name.as_str(), passage)),
            EnvelopeMember::Short(_) => None,
        })
    }

    /// Returns the number of characters outside the long texts.
    fn frame(&self) -> usize {
        let size = |(name, member): &(String, EnvelopeMember)| match member {
            EnvelopeMember::Short(value) => name.chars().count() + value.get().chars().count(),
            EnvelopeMember::Text(_) => name.chars().count(),
        };
        self.members.iter().map(size).sum()
    }

    fn fits(&self) -> bool {
        let texts: usize = self.texts().map(|(_, text)| text.weight).sum();
        texts + self.frame() <= self.limit.characters
            && self.texts().all(|(_, text)| text.lines <= self.limit.lines)
    }

    /// Returns the text to keep, and whether some of its lines were broken.
    fn kept(&self) -> (String, bool) {
        let texts: Vec<_> = self.texts().collect();
        let mut kept = String::new();
        if let [(_, only)] = texts[..] {
            kept.clone_from(&only.text);
        } else {
            for (name, passage) in texts {
                let end = if passage.text.ends_with('\n') { "" } else { "\n" };
                // Writing to a `String` cannot fail.
                let _ = write!(kept, "===== {name} =====\n{}{end}", passage.text);
            }
        }
        passage::broken(kept, LONGEST_LINE)
    }

    /// Returns the head and the tail of each long text. `location` is the URI of the whole, or the
    /// reason why it was not kept.
    fn cut(self, location: Result<String, String>, is_broken: bool) -> CutEnvelope {
        let lengths: Vec<usize> = self.texts().map(|(_, text)| text.weight).collect();
        // If there are several texts, each is kept under a heading.
        let heading = usize::from(lengths.len() > 1);
        let mut line = 1;
        let room = self.limit.characters.saturating_sub(self.frame());
        let mut shares = shares(&lengths, room).into_iter();
        let mut truncated = String::new();
        let mut shown = Vec::new();
        for (name, member) in self.members {
            let value = match member {
                EnvelopeMember::Short(value) => value,
                EnvelopeMember::Text(passage) => {
                    line += heading;
                    let characters = shares.next().unwrap_or_default();
                    let (text, count) = passage.cut(Extent { characters, ..self.limit }, line);
                    line += passage.kept_lines();
                    if let Some(count) = count {
                        // Writing to a `String` cannot fail.
                        let _ = write!(truncated, "`{name}` {count} ");
                    }
                    raw(&text)
                }
            };
            shown.push((name, value));
        }
        truncated.push_str(&where_kept(&location, is_broken));
        let Self { tool_success, keeps_shape, is_object, aside, .. } = self;
        CutEnvelope {
            tool_success,
            keeps_shape,
            is_object,
            members: shown,
            aside,
            truncated,
            location,
        }
    }
}

impl CutEnvelope {
    /// Returns the envelope in JSON.
    fn envelope(self) -> String {
        let mut envelope = vec![
            ("tool_success".to_owned(), raw(&self.tool_success)),
            ("truncated".to_owned(), raw(&self.truncated)),
        ];
        let Aside { allow_with, told, withheld, unnameable, loopback, unwatched, background } =
            &self.aside;
        let texts = [
            ("allow_with", allow_with),
            ("told", told),
            ("withheld", withheld),
            ("unnameable", unnameable),
            ("loopback", loopback),
            ("unwatched", unwatched),
            ("background", background),
        ];
        for (name, text) in texts {
            envelope.extend(text.as_ref().map(|text| (name.to_owned(), raw(text))));
        }
        if self.is_object {
            envelope.push(("result".to_owned(), raw(&RawMembers(self.members))));
        } else {
            envelope.extend(self.members);
        }
        raw(&RawMembers(envelope)).get().to_owned()
    }

    /// Returns the answer of the tool in JSON.
    fn result(&self) -> String {
        match &self.members[..] {
            [(_, result)] if !self.is_object => result.get().to_owned(),
            members => raw(&RawMembers(members.to_vec())).get().to_owned(),
        }
    }
}

impl EnvelopeMember {
    fn from_value(value: Box<RawValue>) -> Self {
        match serde_json::from_str::<String>(value.get()).map(Passage::new) {
            Ok(passage) if passage.characters > LONG => Self::Text(passage),
            _ => Self::Short(value),
        }
    }
}

/// Returns a sentence that tells the model where to find the whole.
fn where_kept(location: &Result<String, String>, is_broken: bool) -> String {
    match location {
        Ok(uri) => {
            let lines = if is_broken {
                format!(", its lines broken after {LONGEST_LINE} characters")
            } else {
                String::new()
            };
            format!(
                "The whole is kept as {uri}{lines}: read parts of it with file_read, `offset` \
                 (the first line, from 1) and `limit` (how many lines)."
            )
        }
        Err(reason) => format!("The whole could not be kept: {reason}."),
    }
}

/// Returns the value as JSON. This cannot fail for texts, booleans and JSON itself.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn json(envelope: &Envelope, layout: JsonLayout) -> String {
    envelope.to_json(layout).unwrap_or_else(|error| {
        format!(r#"{{"tool_success":false,"error":"{error}","error_code":"INVALID_OUTPUT"}}"#)
    })
}

#[cfg(test)]
mod tests {
    use ikigai_protocol::EnvelopeCode;
    use serde_json::{Value, json};

    use super::*;

    fn answered(result: &Value) -> Envelope {
        Envelope::answered(RawValue::from_string(result.to_string()).expect("JSON"))
    }

    fn long(envelope: &Envelope) -> Long {
        Long::parse(envelope, &whole(envelope), SHOWN)
    }

    fn shown(envelope: &Envelope) -> Value {
        let location = Ok("ikigai:///outputs/a.txt".to_owned());
        serde_json::from_str(&long(envelope).cut(location, false).envelope()).expect("an envelope")
    }

    #[test]
    fn the_one_long_text_of_a_result_is_cut_in_its_place() {
        let lines: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
        let envelope = answered(&json!({ "output": lines, "exit_code": 0 }));
        let value = shown(&envelope);
        assert_eq!(value["result"]["exit_code"], 0);
        let output = value["result"]["output"].as_str().expect("a text");
        assert!(output.starts_with("1\n2\n") && output.ends_with("19999\n20000\n"), "{output}");
        let truncated = value["truncated"].as_str().expect("a text");
        assert!(truncated.contains(&format!("{} characters", lines.len())), "{truncated}");
        assert!(truncated.contains("ikigai:///outputs/a.txt"), "{truncated}");
        assert_eq!(long(&envelope).kept(), (lines, false));
    }

    #[test]
    fn several_texts_share_the_room() {
        let failure = json!({
            "output": "o".repeat(100_000), "errors": "e".repeat(2_000), "exit_code": 1,
        });
        let value = shown(&answered(&failure));
        let output = value["result"]["output"].as_str().expect("a text");
        assert_eq!(value["result"]["errors"], "e".repeat(2_000), "it has room");
        let count = output.chars().filter(|c| *c == 'o').count();
        assert!((27_900..28_010).contains(&count), "{count}");
        let (kept, is_broken) = long(&answered(&failure)).kept();
        assert!(kept.starts_with("===== output =====\noooo"), "{}", &kept[..40]);
        assert!(kept.contains("\n===== errors =====\neeee") && is_broken);
    }

    #[test]
    fn lines_are_those_of_what_is_kept() {
        let lines = |letter: &str| (0..900).map(|_| format!("{}\n", letter.repeat(99))).collect();
        let [first, second]: [String; 2] = ["o", "e"].map(lines);
        let envelope = answered(&json!({ "output": first, "errors": second }));
        let (kept, _) = long(&envelope).kept();
        let value = shown(&envelope);
        for (name, letter) in [("output", 'o'), ("errors", 'e')] {
            let text = value["result"][name].as_str().expect("a text");
            let (_, mark) = text.split_once("from line ").expect("a mark");
            let first: usize = mark.split(' ').next().expect("a number").parse().expect("one");
            let line = kept.lines().nth(first - 1).expect("a line");
            assert!(line.starts_with(letter), "{name}: {first} is {line}");
            let shown = text.split("\n[... ").next().expect("a head").lines().count();
            let heading = kept.lines().position(|line| line == format!("===== {name} ====="));
            assert_eq!(first, heading.expect("a heading") + 1 + shown, "{name}");
        }
    }

    #[test]
    fn a_result_that_is_long_by_its_structure_is_kept_as_indented_json() {
        let result = json!({ "found": (0..5000).collect::<Vec<_>>(), "text": "t".repeat(1500) });
        let envelope = answered(&result);
        let (kept, _) = long(&envelope).kept();
        assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON")["result"], result);
        let value = shown(&envelope);
        assert_eq!(value["tool_success"], true);
        let text = value["result"].as_str().expect("a text");
        assert!(text.starts_with("{\n  \"tool_success\": true,\n"), "{text}");
        assert!(text.chars().count() < SHOWN_CHARACTERS + 200);
    }

    #[test]
    fn a_result_that_is_a_text_stays_one() {
        let value = shown(&answered(&json!("ä".repeat(50_000))));
        assert!(value["result"].as_str().expect("a text").starts_with("ääää"));
        let truncated = value["truncated"].as_str().expect("a text");
        assert!(truncated.contains("50000 characters"), "characters, not bytes: {truncated}");
    }

    #[test]
    fn what_only_its_escapes_make_long_is_not_cut() {
        assert!(long(&answered(&json!({ "output": "\n".repeat(29_000) }))).fits());
        assert!(!long(&answered(&json!({ "output": "\n".repeat(30_001) }))).fits());
        assert!(!long(&answered(&json!({ "output": "\0".repeat(29_000) }))).fits());
    }

    #[tokio::test]
    async fn an_answer_of_too_many_lines_is_cut_although_it_has_few_characters() {
        let limit = Extent { characters: SHOWN_CHARACTERS, lines: 1900 };
        let text = |lines: usize| (1..=lines).map(|n| format!("{n}\n")).collect::<String>();
        let id = || "a".to_owned();
        let short = answered(&json!(text(1900)));
        assert_eq!(excerpt(&short, limit, 600, id, None).await, None);
        let long = answered(&json!(text(1901)));
        let cut = excerpt(&long, limit, 600, id, None).await.expect("it is cut");
        let result: String = serde_json::from_str(&cut.result).expect("a text");
        assert!(result.starts_with("1\n2\n") && result.ends_with("\n1900\n1901\n"), "{result}");
        assert!(result.lines().count() < 1910, "{result}");
    }

    #[test]
    fn a_failure_says_so_in_its_place() {
        let envelope = Envelope::refused(EnvelopeCode::ToolCrashed, "e".repeat(40_000));
        let value = shown(&envelope);
        assert_eq!(
            (&value["tool_success"], &value["error_code"]),
            (&json!(false), &json!("TOOL_CRASHED"))
        );
        assert!(value["error"].as_str().expect("a text").starts_with("eee"));
    }

    #[test]
    fn numbers_and_depth_stay_as_the_tool_wrote_them() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text = format!(r#"{{"n":1.10e400,"deep":{deep},"output":"{}"}}"#, "o".repeat(40_000));
        let envelope = Envelope::answered(RawValue::from_string(text).expect("JSON"));
        let location = Err("no store".to_owned());
        let text = long(&envelope).cut(location, false).envelope();
        assert!(text.contains(r#""n":1.10e400,"deep":[[[["#), "{}", &text[..200]);
        assert!(text.contains("could not be kept: no store."));
    }
}
