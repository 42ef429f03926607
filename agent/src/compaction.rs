//! Room in a conversation: old results become one line each, and older turns become notes.
//!
//! Owns the decision when a conversation is compacted and how far. The first step loses nothing:
//! each result is kept as an asset, and a line with the asset's name replaces it. In the second
//! step the model writes notes on the messages that are left out (`summary`). The user's prompts
//! stay as they were typed, up to [`MOST_TYPED`], and so do the last turns.
//!
//! **Invariant:** a step that fails changes nothing, and the user is warned.

mod summary;

use std::fmt;
use std::str::FromStr;

use crate::conversation::Conversation;
use crate::counting::{Meter, Sizes, TokenCount, message_bytes, result_bytes};
use crate::environment::SessionEnvironment;
use crate::excerpt;
use crate::journal::JournalEvent;
use crate::model::Model;
use crate::recent;

pub(crate) use summary::NotesRefused;

/// The size in bytes from which a result becomes a line. The line has some 300 bytes, so replacing
/// a shorter result would hardly make room, and reading it again would cost a call.
const WORTH_IT: usize = 1000;

/// The most tokens of the user's prompts in turns that are left out.
const MOST_TYPED: u64 = 20_000;

/// The turns before the current one that stay as they are.
const LAST_TURNS: usize = 2;

/// The share of the limit that a conversation should have after a compaction. A compaction costs
/// the provider's cache of everything that follows, so it makes room for many requests.
const AFTERWARDS: f64 = 0.5;

/// The share of the limit above which older turns become notes. Below it, shortening the results
/// has made room for some requests.
const STILL_LONG: f64 = 0.75;

/// The size at which a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CompactAt {
    /// A share of the tokens that a request may have, which are the window's minus the answer's. If
    /// the window is not known, the conversation is compacted only after the provider refused a
    /// request.
    Share(f64),
    /// A number of tokens, which may be less than the window.
    Tokens(u64),
}

impl Default for CompactAt {
    fn default() -> Self {
        Self::Share(0.8)
    }
}

/// The fewest tokens at which a conversation may be compacted. Even the system prompt may have
/// more, and a smaller number is probably a share of the window in the wrong form.
const MIN_TOKENS: u64 = 1000;

/// The error for a text that does not say when a conversation is compacted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a share of the window, such as 0.8, nor a number of tokens from {MIN_TOKENS}"
)]
pub struct InvalidCompactAt(String);

impl fmt::Display for CompactAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Tokens(tokens) => tokens.fmt(f),
        }
    }
}

impl FromStr for CompactAt {
    type Err = InvalidCompactAt;

    fn from_str(text: &str) -> Result<Self, InvalidCompactAt> {
        let tokens = text.parse::<u64>().ok().filter(|tokens| *tokens >= MIN_TOKENS);
        let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        match (tokens, share) {
            (Some(tokens), _) => Ok(Self::Tokens(tokens)),
            (None, Some(share)) if text.contains(['.', 'e', 'E']) => Ok(Self::Share(share)),
            _ => Err(InvalidCompactAt(text.to_owned())),
        }
    }
}

/// A conversation that was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The results that became a line.
    pub results: usize,
    /// The messages that became notes.
    pub messages: usize,
    /// The tokens of a request before.
    pub before: TokenCount,
    /// The tokens of a request now.
    pub after: TokenCount,
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { results, messages, before, after } = self;
        let some = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        f.write_str("Made room in the conversation: ")?;
        match (results, messages) {
            (results, 0) => write!(f, "{} left out", some(*results, "result"))?,
            (0, messages) => write!(f, "{} became notes", some(*messages, "message"))?,
            (results, messages) => {
                let (results, messages) = (some(*results, "result"), some(*messages, "message"));
                write!(f, "{results} left out, {messages} became notes")?;
            }
        }
        write!(f, " ({before} → {after} tokens)")
    }
}

/// The cause of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactionCause {
    /// A request is about to be sent.
    Request,
    /// The provider refused the last request for its length.
    Refusal,
    /// The user asks for it.
    Command,
}

/// A compaction that was carried out, with its events for the log.
#[derive(Debug, Default)]
pub(super) struct CompactionOutcome {
    pub(super) events: Vec<JournalEvent>,
    pub(super) compacted: Option<Compacted>,
    pub(super) warnings: Vec<String>,
    /// The record of whole turns that became notes, for the summary that later conversations read.
    pub(super) left: Option<String>,
}

/// Everything that decides on a compaction.
pub(super) struct Compaction<'a> {
    pub(super) environment: &'a SessionEnvironment,
    pub(super) model: &'a Model,
    pub(super) meter: &'a Meter,
    pub(super) set: CompactAt,
    /// The size of a request without its messages.
    pub(super) fixed: Sizes,
}

impl Compaction<'_> {
    /// Compacts the conversation if `cause` calls for it. `is_current` is true while the model is
    /// to answer the last prompt.
    pub(super) async fn run(
        &self,
        conversation: &mut Conversation,
        cause: CompactionCause,
        is_current: bool,
    ) -> CompactionOutcome {
        let mut done = CompactionOutcome::default();
        let before = self.count(conversation);
        let Some(at) = self.at(cause, before.tokens) else { return done };
        let most = part(at, AFTERWARDS);
        let kept = conversation.of_last_turns(LAST_TURNS + usize::from(is_current));
        let is_asked = cause == CompactionCause::Command && kept < conversation.messages().len();

        // If this future is dropped while it waits, nothing has changed.
        let mut shorter = conversation.clone();
        let asked = if is_asked { conversation.messages().len() - kept } else { 0 };
        let lines = self.lines(conversation, asked, most, &mut done.warnings).await;
        for (id, line) in &lines {
            shorter.shorten(id, line);
        }
        let results = lines.len();
        done.events.extend((results > 0).then_some(JournalEvent::Shortened { results: lines }));

        let mut messages = 0;
        if is_asked || self.count(&shorter).tokens > part(at, STILL_LONG) {
            match self.summarize(&mut shorter, kept, most).await {
                Ok(Some((kept, event))) => {
                    let room = self.meter.room(self.model);
                    done.left = recent::record(&conversation.said(kept), room);
                    // One message contains the stand-in for all the others.
                    messages = conversation.messages().len() - kept - 1;
                    done.events.push(event);
                }
                Ok(None) => {}
                Err(refused) => {
                    let warning = format!("older turns stay in the conversation: {refused}");
                    done.warnings.push(warning);
                }
            }
        }
        if !done.events.is_empty() {
            *conversation = shorter;
            let after = self.count(conversation);
            done.compacted = Some(Compacted { results, messages, before, after });
        }
        done
    }

    fn count(&self, conversation: &Conversation) -> TokenCount {
        self.meter.count(self.fixed.with_messages(conversation.messages()).bytes())
    }

    /// Returns the tokens at which a request is too large, or nothing if the request is small
    /// enough.
    fn at(&self, cause: CompactionCause, now: u64) -> Option<u64> {
        let room = self.meter.room(self.model);
        let set = match self.set {
            CompactAt::Share(share) => room.map(|room| part(room, share)),
            CompactAt::Tokens(tokens) => Some(room.map_or(tokens, |room| tokens.min(room))),
        };
        match cause {
            CompactionCause::Request => set.filter(|set| now > *set),
            // The count may be an estimate that is too low.
            CompactionCause::Refusal => Some(set.unwrap_or(now).min(now)),
            CompactionCause::Command => Some(set.unwrap_or(u64::MAX)),
        }
    }

    /// Returns the lines for old results, by the ids of their calls. They replace the results of
    /// the first `asked` messages, and then the oldest others until a request has at most `most`
    /// tokens.
    async fn lines(
        &self,
        conversation: &Conversation,
        asked: usize,
        most: u64,
        warnings: &mut Vec<String>,
    ) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let Some(assets) = &self.environment.assets else { return lines };
        let mut bytes = self.fixed.with_messages(conversation.messages()).bytes();
        for (at, result) in conversation.older_results() {
            if at >= asked && self.meter.count(bytes).tokens <= most {
                break;
            }
            if result_bytes(result) < WORTH_IT {
                continue;
            }
            match excerpt::left_out(result, assets).await {
                Ok(line) => {
                    bytes = bytes.saturating_sub(result_bytes(result)) + line.len();
                    lines.push((result.id.clone(), line));
                }
                Err(error) => {
                    warnings.push(format!("old results stay in the conversation: {error}"));
                    break;
                }
            }
        }
        lines
    }

    /// Leaves out older turns. Returns the number of messages that stay, at most `kept`, with the
    /// event. Returns nothing if nothing can be left out.
    async fn summarize(
        &self,
        conversation: &mut Conversation,
        kept: usize,
        most: u64,
    ) -> Result<Option<(usize, JournalEvent)>, NotesRefused> {
        let most_typed = part(self.meter.room(self.model).unwrap_or(u64::MAX), 0.25);
        let most_typed = usize::try_from(most_typed.min(MOST_TYPED)).unwrap_or(usize::MAX) * 4;
        let Some(kept) = self.cut(conversation, kept, most) else { return Ok(None) };
        let leaving = conversation.leaving(kept);
        let notes =
            summary::notes(&self.environment.other_usage, self.model, leaving, most).await?;
        let mut shorter = conversation.clone();
        if shorter.summarize(kept, &notes, most_typed).is_err() {
            return Ok(None);
        }
        let bytes = |it: &Conversation| message_bytes(it.messages());
        if bytes(&shorter) >= bytes(conversation) {
            return Err(NotesRefused::NotShorter);
        }
        *conversation = shorter;
        Ok(Some((kept, JournalEvent::Summarized { kept, notes, most_typed })))
    }

    /// Returns how many messages stay: the last `kept`, or fewer if there is no room for them. If a
    /// single turn has more rounds than fit into the window, its old rounds are left out as well.
    fn cut(&self, conversation: &Conversation, kept: usize, most: u64) -> Option<usize> {
        let messages = conversation.messages();
        let mut cuts = conversation.cuts().filter(|cut| *cut <= kept);
        let all_but_the_last = conversation.cuts().last()?;
        cuts.find(|cut| {
            let staying = &messages[messages.len() - cut..];
            let bytes = self.fixed.with_messages(staying).bytes();
            self.meter.count(bytes).tokens <= most
        })
        .or(Some(all_but_the_last))
    }
}

/// Returns a share of a number, rounded down.
fn part(number: u64, share: f64) -> u64 {
    // Numbers of tokens are far below 2^53, and a share is between 0 and 1.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded number of tokens is as good, and casts of floats saturate"
    )]
    let part = (number as f64 * share) as u64;
    part
}
