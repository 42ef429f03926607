//! The inlines of a piece of a paragraph: emphasis, code, links.
//!
//! `pulldown-cmark` does the parsing. This module decides when a piece can be parsed without the
//! text after it, and the look of its parts.

use anstyle::Style;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::wrap::{Span, WrapToken};
use super::{CODE, FAINT};
use crate::sanitize::sanitize;

/// The mark at both ends of parsed text. Sanitized text contains neither this nor [`BREAK`].
const END: char = '\x1f';

/// The mark of a line break inside parsed text.
const BREAK: char = '\x1e';

/// The number of bytes that an opening mark may hold back before it counts as an ordinary
/// character.
const MAX_UNSETTLED: usize = 600;

/// Returns `true` if further text cannot change the look of `segment`.
///
/// It may be wrong if marks are used in an unusual way; those marks then remain visible.
pub(super) fn is_settled(segment: &str) -> bool {
    if segment.len() > MAX_UNSETTLED || !segment.contains(['*', '_', '~', '`', '[']) {
        return true;
    }
    let text = framed(segment);
    let mut events = parse(&text).into_offset_iter();
    !events.any(|(event, range)| {
        let is_text = matches!(event, Event::Text(_));
        is_text
            && text[range.clone()]
                .char_indices()
                .any(|(at, c)| is_opening(&text, range.start + at, c))
    })
}

/// Returns `true` if the character at `at`, which the parser took for text, may begin an inline.
fn is_opening(text: &str, at: usize, c: char) -> bool {
    let before = text[..at].chars().next_back();
    let after = &text[at + c.len_utf8()..];
    let touches = !after.starts_with([' ', BREAK, END]);
    if before == Some('\\') {
        return false;
    }
    match c {
        '`' => true,
        '*' | '_' => touches && before.is_none_or(|c| c == '*' || c == '_' || !c.is_alphanumeric()),
        '~' => touches && after.starts_with('~'),
        '[' => match after.split_once(']') {
            None => true,
            Some((_, after)) => after.starts_with('(') && !after.contains(')'),
        },
        _ => false,
    }
}

/// Splits `segment` into words, spaces and line breaks.
pub(super) fn tokens(segment: &str, style: Style, has_colours: bool) -> Vec<WrapToken> {
    let mut tokens = InlineTokens::default();
    let text = framed(segment);
    let mut styles = vec![style];
    let mut links = Vec::new();
    let mut shown = String::new();
    for event in parse(&text) {
        let style = styles.last().copied().unwrap_or(style);
        match event {
            Event::Start(Tag::Emphasis) => styles.push(style.italic()),
            Event::Start(Tag::Strong) => styles.push(style.bold()),
            Event::Start(Tag::Strikethrough) => styles.push(style.strikethrough()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                styles.push(style.underline());
                links.push(dest_url);
                shown.clear();
            }
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {
                styles.pop();
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                styles.pop();
                // The address is shown, because a link's text may name another address.
                if let Some(to) = links.pop().filter(|to| to.trim_start_matches("mailto:") != shown)
                {
                    tokens.push(WrapToken::Space);
                    tokens.text(&format!("({to})"), FAINT);
                }
            }
            Event::Code(code) if !has_colours => tokens.text(&format!("`{code}`"), style),
            Event::Code(code) => tokens.text(&code, CODE.effects(style.get_effects())),
            Event::Text(text) | Event::InlineHtml(text) => {
                shown.push_str(&text);
                tokens.text(&text, style);
            }
            _ => {}
        }
    }
    tokens.without_frame(segment.starts_with(char::is_whitespace))
}

/// Frames `segment` as a heading, in which only inlines are parsed, but no lists, tables and
/// definitions. The frame protects a closing `#` from being removed.
fn framed(segment: &str) -> String {
    let lines = segment.replace('\n', &format!(" {BREAK} "));
    format!("# {END} {} {END}", lines.trim())
}

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH)
}

#[derive(Default)]
struct InlineTokens {
    all: Vec<WrapToken>,
    /// `true` if the next span belongs to the word before it.
    in_word: bool,
}

impl InlineTokens {
    /// Returns the tokens without the spaces of the frame; `has_space` is `true` if the text itself
    /// began with one.
    fn without_frame(self, has_space: bool) -> Vec<WrapToken> {
        let is_space = |token: &WrapToken| *token == WrapToken::Space;
        let end = self.all.iter().rposition(|token| !is_space(token)).map_or(0, |last| last + 1);
        let inner = self.all.into_iter().take(end).skip_while(is_space);
        has_space.then_some(WrapToken::Space).into_iter().chain(inner).collect()
    }

    fn push(&mut self, token: WrapToken) {
        self.all.push(token);
        self.in_word = false;
    }

    /// Adds text with its spaces and line breaks. Its entities are decoded already, so it may
    /// contain control characters again.
    fn text(&mut self, text: &str, style: Style) {
        let mut word = String::new();
        for c in text.chars() {
            match c {
                END => {}
                BREAK => {
                    self.word(&mut word, style);
                    self.push(WrapToken::Break);
                }
                c if c.is_whitespace() && c != '\u{a0}' => {
                    self.word(&mut word, style);
                    self.push(WrapToken::Space);
                }
                c => word.push(c),
            }
        }
        self.word(&mut word, style);
    }

    fn word(&mut self, word: &mut String, style: Style) {
        if word.is_empty() {
            return;
        }
        let span = Span { text: sanitize(word).into_owned(), style };
        word.clear();
        match self.all.last_mut() {
            Some(WrapToken::Word(spans)) if self.in_word => spans.push(span),
            _ => self.all.push(WrapToken::Word(vec![span])),
        }
        self.in_word = true;
    }
}
