//! The tokens of a conversation: those that the provider counted, and an estimate of the others.
//!
//! Owns the [`Meter`], which learns from each answer how large a request is, and the sizes of
//! windows. It never asks a provider for a count: that would take another request before each one.

use std::collections::HashMap;
use std::fmt;

use ikigai_assets::{thousands, tokens};
use ikigai_provider::{CallResult, Image, Message, Part, Provider, TokenUsage};

use crate::model::Model;
use crate::spend::Spend;
use crate::usage;

/// The tokens that are left for an answer of Anthropic, unless the user sets another limit.
/// Anthropic requires a limit in every request.
const ANTHROPIC_ANSWER: u64 = 32_000;

/// The tokens that are left for an answer if no limit is known.
const USUAL_ANSWER: u64 = 8_000;

/// The pixels for which one token is estimated, and the most tokens of an image: the provider makes
/// a larger image smaller. The numbers are Anthropic's,
/// <https://platform.claude.com/docs/en/build-with-claude/vision>. OpenAI and Google count tiles,
/// and come to between some hundred tokens and this maximum.
const PIXELS_OF_A_TOKEN: u64 = 750;
const MOST_IMAGE_TOKENS: u64 = 1_600;

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCount {
    /// The number.
    pub tokens: u64,
    /// True if at least a part of it is an estimate: a quarter of the bytes, and for images a
    /// number by their pixels. Everything that was added since the provider counted is estimated.
    /// Such a number is displayed with a `~`.
    pub is_estimate: bool,
}

impl TokenCount {
    /// Returns the estimate for this number of bytes.
    pub(super) fn estimated(bytes: usize) -> Self {
        Self { tokens: tokens(bytes), is_estimate: true }
    }
}

impl fmt::Display for TokenCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_estimate { "~" } else { "" };
        match self.tokens {
            0..1000 => write!(f, "{mark}{}", self.tokens),
            _ => write!(f, "{mark}{}", thousands(self.tokens)),
        }
    }
}

/// The size of the next request, and the cost of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextUsage {
    /// The tokens of the model's window, for a request and its answer, if that is known.
    pub window: Option<u64>,
    /// The request as a whole. The parts below are estimates, and need not add up to it.
    pub request: TokenCount,
    /// Prompts, answers and calls.
    pub messages: TokenCount,
    /// The results of calls.
    pub results: TokenCount,
    /// The pinned assets.
    pub pins: TokenCount,
    /// The rest of the system prompt.
    pub system: TokenCount,
    /// The descriptions of the tools.
    pub tools: TokenCount,
    /// The tokens of the last request that the provider read from its cache, if it says so.
    pub cached: Option<u64>,
    /// The tokens of all requests and answers, as far as providers count them.
    pub spent: u64,
    /// The tokens that may be spent.
    pub spend: Spend,
}

/// The size of a request, by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of the system prompt without the pinned assets.
    pub(super) system: usize,
    /// Bytes of the pinned assets.
    pub(super) pins: usize,
    /// Bytes of the tools.
    pub(super) tools: usize,
    /// Bytes of prompts, answers and calls.
    pub(super) messages: usize,
    /// Bytes of the results of calls.
    pub(super) results: usize,
}

impl Sizes {
    /// Counts the messages of a conversation.
    pub(super) fn with_messages(mut self, messages: &[Message]) -> Self {
        (self.messages, self.results) = (0, 0);
        for part in messages.iter().flat_map(|message| &message.parts) {
            match part {
                Part::Result(result) => self.results += result_bytes(result),
                other => self.messages += part_bytes(other),
            }
        }
        self
    }

    pub(super) fn bytes(&self) -> usize {
        self.system + self.pins + self.tools + self.messages + self.results
    }
}

pub(super) fn message_bytes(messages: &[Message]) -> usize {
    messages.iter().flat_map(|message| &message.parts).map(part_bytes).sum()
}

/// Returns the bytes of a part. Data that only its provider reads is not among them: most of it is
/// signatures, for which providers count nothing.
pub(super) fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.len(),
        Part::Result(result) => result_bytes(result),
        Part::Image(image) => image_bytes(image),
        Part::Blob(_) => 0,
    }
}

pub(super) fn result_bytes(result: &CallResult) -> usize {
    result.content.len() + result.images.iter().map(image_bytes).sum::<usize>()
}

/// Returns the bytes of a text that has as many tokens as an image.
fn image_bytes(image: &Image) -> usize {
    let (width, height) = image.size();
    let pixels = u64::from(width) * u64::from(height);
    let tokens = pixels.div_ceil(PIXELS_OF_A_TOKEN).min(MOST_IMAGE_TOKENS);
    // At most 6,400.
    usize::try_from(tokens * 4).unwrap_or(usize::MAX)
}

/// The last request that the provider counted.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Its tokens, as the provider says.
    tokens: u64,
    /// Its bytes.
    bytes: usize,
}

/// The size of requests to one model, and the windows of all of them.
#[derive(Debug, Default)]
pub(super) struct Meter {
    measured: Option<Measured>,
    /// The tokens of the last request that were read from a cache.
    cached: Option<u64>,
    /// The windows that refusals named, by provider and model.
    learned: HashMap<(Provider, String), u64>,
    /// The tokens of all requests and answers.
    spent: u64,
}

impl Meter {
    /// Records the cost of a request with this number of bytes.
    pub(super) fn answered(&mut self, bytes: usize, usage: TokenUsage) {
        self.measured = usage.input.map(|tokens| Measured { tokens, bytes }).or(self.measured);
        self.cached = usage.cached;
    }

    /// Adds to the tokens that the session spent.
    pub(super) fn spend(&mut self, usage: TokenUsage) {
        self.spent = self.spent.saturating_add(usage::tokens(usage));
    }

    /// Returns the tokens of all requests and answers, as far as providers count.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Returns the tokens of the last request that were read from a cache.
    pub(super) fn cached(&self) -> Option<u64> {
        self.cached
    }

    /// Begins with the cost of a session that is resumed.
    pub(super) fn resume(&mut self, usage: TokenUsage) {
        self.forget();
        self.spent = 0;
        self.spend(usage);
    }

    /// Forgets the counts of one model, since another model counts differently.
    pub(super) fn forget(&mut self) {
        (self.measured, self.cached) = (None, None);
    }

    /// Returns the tokens of a request with this number of bytes. If the request is larger than the
    /// last one that was counted, the additional bytes are estimated. A smaller request is
    /// estimated too.
    pub(super) fn count(&self, bytes: usize) -> TokenCount {
        let Some(Measured { tokens: counted, bytes: then }) = self.measured else {
            return TokenCount::estimated(bytes);
        };
        let count = if bytes >= then {
            counted.saturating_add(tokens(bytes - then))
        } else {
            // At most a request's tokens, and below 2^128 in between.
            let part = u128::from(counted) * (bytes as u128) / (then as u128);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        TokenCount { tokens: count, is_estimate: bytes != then }
    }

    /// Records the window that a refusal named.
    pub(super) fn learn(&mut self, model: &Model, window: u64) {
        self.learned.insert((model.client.provider(), model.name.clone()), window);
    }

    /// Records that a request and its answer filled the window.
    pub(super) fn filled(&mut self, model: &Model, usage: TokenUsage) {
        if let (Some(input), Some(output)) = (usage.input, usage.output) {
            self.learn(model, input.saturating_add(output));
        }
    }

    /// Returns the tokens that the model takes in together with its answer, if that number is
    /// known. It comes from the configuration or from a refusal, whichever is lower.
    pub(super) fn window(&self, model: &Model) -> Option<u64> {
        let learned = self.learned.get(&(model.client.provider(), model.name.clone())).copied();
        match (model.context, learned) {
            (Some(set), Some(learned)) => Some(set.min(learned)),
            (set, learned) => set.or(learned),
        }
    }

    /// Returns the tokens that a request may have, so that there is room for an answer.
    pub(super) fn room(&self, model: &Model) -> Option<u64> {
        let window = self.window(model)?;
        let usual = match model.client.provider() {
            Provider::Anthropic => ANTHROPIC_ANSWER,
            _ => USUAL_ANSWER,
        };
        let answer = model.max_tokens.map_or(usual, u64::from);
        // A limit for answers that left no room for requests would be a mistake.
        Some(window - answer.min(window / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64) -> TokenUsage {
        TokenUsage {
            input: Some(input),
            output: Some(10),
            cached: Some(5),
            ..TokenUsage::default()
        }
    }

    #[test]
    fn what_the_provider_counted_is_exact_and_what_was_added_is_estimated() {
        let mut meter = Meter::default();
        let counted = |tokens, is_estimate| TokenCount { tokens, is_estimate };
        assert_eq!(meter.count(4000), counted(1000, true));
        meter.answered(4000, usage(1600));
        assert_eq!(meter.count(4000), counted(1600, false));
        assert_eq!(meter.count(4400), counted(1700, true));
        assert_eq!(meter.count(2000), counted(800, true));
        meter.answered(4400, TokenUsage::default());
        assert_eq!(meter.count(4000), counted(1600, false), "what is not counted says nothing");
        meter.forget();
        assert_eq!(meter.count(4000), counted(1000, true));
        assert_eq!(meter.cached(), None);
    }

    #[test]
    fn an_image_counts_by_its_pixels_and_not_by_its_bytes() {
        let parts = |width: u16, height: u16| {
            let [w, h] = [width, height].map(u16::to_le_bytes);
            let gif = [b"GIF89a".as_slice(), &w, &h, &[0; 100]].concat();
            part_bytes(&Part::Image(Image::new("x", &gif).expect("an image")))
        };
        assert_eq!(parts(1, 1), 4);
        assert_eq!(parts(750, 1000), 4000);
        assert_eq!(parts(8000, 8000), 6400);
    }

    #[test]
    fn what_is_spent_is_what_was_sent_and_answered() {
        let mut meter = Meter::default();
        meter.spend(usage(100));
        meter.spend(TokenUsage::default());
        meter.spend(usage(50));
        assert_eq!(meter.spent(), 170);
    }

    #[test]
    fn estimates_are_marked() {
        let shown = |tokens, is_estimate| TokenCount { tokens, is_estimate }.to_string();
        assert_eq!(shown(62_400, true), "~62k");
        assert_eq!(shown(62_400, false), "62k");
        assert_eq!(shown(999, true), "~999");
    }
}
