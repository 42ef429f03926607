//! The template of a program's arguments.
//!
//! Owns how the values of a call become words. No shell reads a word, no value is split, and no
//! value becomes an option unless the definition allows it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use bytes::Bytes;
use serde_json::value::RawValue;

/// The largest size of all words of one call in bytes, with [`FOR_EACH`] more for each word. Linux
/// allows 2 MiB together with the environment.
const MOST: usize = 1 << 20;

/// The bytes that a word costs in addition to its text: its end, and its place in the list.
const FOR_EACH: usize = 9;

/// The word after which most programs read no options.
const END_OF_OPTIONS: &str = "--";

/// The members of a call's arguments, by their names.
pub(super) type Values<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The template of a program's arguments.
#[derive(Debug, Default)]
pub(crate) struct ArgumentTemplate {
    /// The words, in their order.
    pub(crate) groups: Vec<WordGroup>,
    /// The parameter that goes to stdin.
    pub(crate) stdin: Option<String>,
    /// The parameters whose values may begin with `-`.
    pub(crate) leading_dash: BTreeSet<String>,
}

/// Words that are written or left out together.
#[derive(Debug, Default)]
pub(crate) struct WordGroup {
    /// The words.
    pub(crate) words: Vec<TemplateWord>,
    /// The parameter that must be true.
    pub(crate) condition: Option<String>,
    /// True if the words are left out when one of their parameters is absent, and repeated for each
    /// item if one is a list.
    pub(crate) is_optional: bool,
}

/// A word: texts, and the parameters whose values stand between them.
#[derive(Debug)]
pub(crate) struct TemplateWord(Vec<WordPiece>);

#[derive(Debug)]
enum WordPiece {
    Text(String),
    Parameter(String),
}

impl WordPiece {
    fn parameter(&self) -> Option<&str> {
        match self {
            Self::Parameter(name) => Some(name),
            Self::Text(_) => None,
        }
    }
}

/// The words and the stdin of one run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramInput {
    pub(crate) words: Vec<OsString>,
    pub(crate) stdin: Bytes,
}

impl TemplateWord {
    /// Reads a word of a definition. `{name}` stands for a parameter, `{{` and `}}` for a brace.
    ///
    /// # Errors
    ///
    /// Fails if a brace has no partner, or if the text contains a NUL.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('\0') {
            return Err("has a NUL character, which no argument can have");
        }
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let name = after.split_once('}').filter(|(name, _)| brace == "{" && !name.is_empty());
            let Some((name, after)) = name else {
                return Err("has a brace that encloses no parameter; write `{{` and `}}` for the \
                            characters");
            };
            if !literal.is_empty() {
                pieces.push(WordPiece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(WordPiece::Parameter(name.to_owned()));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() || pieces.is_empty() {
            pieces.push(WordPiece::Text(literal));
        }
        Ok(Self(pieces))
    }

    /// Returns the names of its parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            WordPiece::Text(_) => None,
            WordPiece::Parameter(name) => Some(name.as_str()),
        })
    }

    fn is_end_of_options(&self) -> bool {
        matches!(&self.0[..], [WordPiece::Text(text)] if text == END_OF_OPTIONS)
    }
}

impl WordGroup {
    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.words.iter().flat_map(TemplateWord::parameters)
    }
}

impl ArgumentTemplate {
    /// Returns the words and the stdin for these values.
    ///
    /// # Errors
    ///
    /// Fails if a value cannot be a word. The text is for the model.
    pub(super) fn expand(&self, values: &Values<'_>) -> Result<ProgramInput, String> {
        let mut writer = WordWriter {
            leading_dash: &self.leading_dash,
            values,
            words: Vec::new(),
            bytes: 0,
            options_ended: false,
        };
        for group in &self.groups {
            writer.add(group)?;
        }
        let words = writer.words;
        let given = self.stdin.as_ref().and_then(|name| Some((name, value(values, name)?)));
        let stdin = match given {
            None => Bytes::new(),
            Some((name, raw)) => serde_json::from_str::<String>(raw)
                .map_err(|_| format!("`{name}` must be a string"))?
                .into(),
        };
        Ok(ProgramInput { words, stdin })
    }
}

/// The words of a call, as they are written.
struct WordWriter<'a> {
    leading_dash: &'a BTreeSet<String>,
    values: &'a Values<'a>,
    words: Vec<OsString>,
    bytes: usize,
    options_ended: bool,
}

impl WordWriter<'_> {
    fn add(&mut self, group: &WordGroup) -> Result<(), String> {
        let is_true = |name: &String| value(self.values, name) == Some("true");
        if !group.condition.as_ref().is_none_or(is_true) {
            return Ok(());
        }
        let mut list: Option<(&str, &str)> = None;
        for name in group.parameters() {
            let Some(raw) = value(self.values, name) else {
                return if group.is_optional {
                    Ok(())
                } else {
                    Err(format!("`{name}` is missing"))
                };
            };
            let is_known = list.is_some_and(|(known, _)| known == name);
            if raw.starts_with('[') && !is_known {
                if !group.is_optional || list.is_some() {
                    return Err(format!("`{name}` must not be a list"));
                }
                list = Some((name, raw));
            }
        }
        let Some((name, raw)) = list else { return self.add_words(group, None) };
        let items: Vec<&RawValue> =
            serde_json::from_str(raw).map_err(|error| format!("`{name}`: {error}"))?;
        items.iter().try_for_each(|item| self.add_words(group, Some((name, item.get()))))
    }

    /// Adds the words of a group, with this item for the parameter that is a list.
    fn add_words(&mut self, group: &WordGroup, item: Option<(&str, &str)>) -> Result<(), String> {
        for word in &group.words {
            let mut text = String::new();
            // Those with an empty value let the next one begin the word.
            let mut leading = Vec::new();
            for piece in &word.0 {
                if text.is_empty() {
                    leading.extend(piece.parameter());
                }
                match piece {
                    WordPiece::Text(literal) => text.push_str(literal),
                    WordPiece::Parameter(name) => {
                        let item = item.filter(|(list, _)| list == name).map(|(_, item)| item);
                        let raw = item.or_else(|| value(self.values, name)).unwrap_or("null");
                        text.push_str(&scalar(name, raw)?);
                    }
                }
            }
            self.check_dash(&leading, &text)?;
            self.options_ended |= word.is_end_of_options();
            self.bytes = self.bytes.saturating_add(text.len() + FOR_EACH);
            if self.bytes > MOST {
                return Err(format!("the program's arguments would have more than {MOST} bytes"));
            }
            self.words.push(text.into());
        }
        Ok(())
    }

    /// Refuses a value that the program would take for an option.
    fn check_dash(&self, leading: &[&str], text: &str) -> Result<(), String> {
        let is_refused = |name: &&str| !self.options_ended && !self.leading_dash.contains(*name);
        match leading.iter().copied().find(is_refused) {
            Some(name) if text.starts_with('-') => Err(format!(
                "`{name}` must not begin with `-`, because the program would read an option"
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the JSON of a parameter; nothing if it is absent, or null as some models write it.
fn value<'a>(values: &Values<'a>, name: &str) -> Option<&'a str> {
    values.get(name).map(|raw| raw.get()).filter(|raw| *raw != "null")
}

/// Returns the text of a string, a number or a boolean.
fn scalar<'a>(name: &str, raw: &'a str) -> Result<Cow<'a, str>, String> {
    let found = match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(raw).map_err(|error| format!("`{name}`: {error}"))?;
            if text.contains('\0') {
                return Err(format!("`{name}` has a NUL character, which no argument can have"));
            }
            return Ok(text.into());
        }
        // A number keeps the digits that it was written with.
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => return Ok(raw.into()),
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        _ => "null",
    };
    Err(format!("`{name}` has {found}; expected a string, a number or a boolean"))
}
