//! A conversation as Markdown: all texts and calls in order, with a mark at the place from which
//! the model sees it.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use ikigai_agent::journal::{JournalEvent, Replayed};
use ikigai_assets::SessionSummary;
use ikigai_provider::{CallResult, Image, ModelCall, Part};

use super::model;

/// The most characters of a result that is not shown as a whole.
const SHOWN: usize = 1000;

/// The length of the results of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultLength {
    /// Only their beginnings are shown.
    Beginnings,
    /// They are shown as a whole.
    Whole,
}

/// A conversation.
pub(super) struct Transcript<'a> {
    pub(super) session: &'a SessionSummary,
    /// All events, with their numbers.
    pub(super) events: Vec<(u64, JournalEvent)>,
    /// The conversation that they make up.
    pub(super) replayed: Replayed,
    pub(super) results: ResultLength,
}

/// The side that spoke last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Nobody,
    User,
    Model,
}

/// The text so far.
struct TranscriptWriter {
    text: String,
    speaker: Speaker,
    results: ResultLength,
}

impl Transcript<'_> {
    /// Returns the text.
    pub(super) fn render(&self) -> String {
        let mut page = TranscriptWriter {
            text: String::new(),
            speaker: Speaker::Nobody,
            results: self.results,
        };
        page.description(self.session);
        let shortened = self.shortened();
        let taken_back = self.taken_back();
        let mut is_unseen = self.replayed.notes().is_some();
        let seen_from = self.replayed.seen_from();
        for (seq, event) in &self.events {
            if is_unseen && seen_from.is_some_and(|from| *seq >= from) {
                is_unseen = false;
                page.remark(
                    "The model no longer sees what is above. It has notes on it, and your own \
                     messages as far as there is room.",
                );
            }
            page.event(*seq, event, &shortened);
            if taken_back.contains(seq) {
                page.remark("There was no answer. The model does not see this message.");
            }
        }
        if let Some(notes) = self.replayed.notes() {
            page.paragraph("## The notes of the model");
            page.fence(notes);
        }
        page.text
    }

    /// Returns the results that the model sees as one line, by the numbers of their events and the
    /// ids of their calls.
    fn shortened(&self) -> HashMap<(u64, &str), &str> {
        let mut latest: HashMap<&str, u64> = HashMap::new();
        let mut shortened = HashMap::new();
        for (seq, event) in &self.events {
            match event {
                JournalEvent::Results { results } => {
                    latest.extend(results.iter().map(|result| (result.id.as_str(), *seq)));
                }
                JournalEvent::Shortened { results } => {
                    for (id, line) in results {
                        if let Some(of) = latest.get(id.as_str()) {
                            shortened.insert((*of, id.as_str()), line.as_str());
                        }
                    }
                }
                _ => {}
            }
        }
        shortened
    }

    /// Returns the numbers of the events that took back a prompt, since the model had said and
    /// called nothing.
    fn taken_back(&self) -> HashSet<u64> {
        let pairs = self.events.windows(2);
        let silent = pairs.filter_map(|pair| match pair {
            [(_, prompt @ JournalEvent::Prompt { .. }), (seq, JournalEvent::End { parts, .. })]
                if prompt.begins_turn() && said(parts).is_empty() =>
            {
                Some(*seq)
            }
            _ => None,
        });
        silent.collect()
    }
}

impl TranscriptWriter {
    fn description(&mut self, session: &SessionSummary) {
        let title = session.title.as_deref().unwrap_or("A conversation without a title");
        self.paragraph(&format!("# {title}"));
        let mut lines = vec![
            format!("- session: {}", session.id),
            format!("- workspace: {}", session.workspace),
            format!("- model: {}", model(session)),
            format!("- begun: {}", super::local(session.created_at)),
            format!("- last used: {}", super::local(session.updated_at)),
        ];
        if let Some(original) = session.forked_from {
            lines.push(format!("- forked from: {original}"));
        }
        self.paragraph(&lines.join("\n"));
    }

    fn event(&mut self, seq: u64, event: &JournalEvent, shortened: &HashMap<(u64, &str), &str>) {
        match event {
            JournalEvent::Prompt { typed, texts, images } => self.prompt(typed, texts, images),
            JournalEvent::Calls { parts, .. } => self.answer(parts),
            JournalEvent::Results { results } => {
                for result in results {
                    self.result(result, shortened.get(&(seq, result.id.as_str())).copied());
                }
            }
            JournalEvent::Dropped => {
                self.remark("The calls were given up. The model does not see them.");
            }
            JournalEvent::End { reason, parts, .. } => {
                self.answer(parts);
                if reason != "answered" {
                    self.remark(&format!("The turn ended: {reason}."));
                }
            }
            JournalEvent::Spent { .. } => {}
            JournalEvent::Cleared => {
                self.remark("The conversation was cleared. The model sees nothing of the above.");
                self.speaker = Speaker::Nobody;
            }
            JournalEvent::Model { provider, name } => {
                self.remark(&format!("The model from here on: {provider}/{name}."));
            }
            JournalEvent::Surroundings(_) => {}
            JournalEvent::Shortened { results } => {
                self.remark(&format!("To make room, {} became a line each.", count(results.len())));
            }
            JournalEvent::Summarized { .. } => {
                self.remark("To make room, a model wrote notes on the oldest messages.");
            }
        }
    }

    fn prompt(&mut self, typed: &str, texts: &[String], images: &[Image]) {
        self.begin(Speaker::User);
        let sent = texts.concat();
        if typed.trim().is_empty() && sent.trim().is_empty() && images.is_empty() {
            self.remark("Go on.");
            return;
        }
        self.images(images);
        let shown = if typed.trim().is_empty() { &sent } else { typed };
        if shown.trim().is_empty() {
            return;
        }
        let quoted: Vec<String> = shown.lines().map(|line| format!("> {line}")).collect();
        self.paragraph(&quoted.join("\n"));
        let further = sent.chars().count().saturating_sub(shown.chars().count());
        if further > 0 {
            self.remark(&format!(
                "ikigai also sent the model {further} characters of what this mentions."
            ));
        }
    }

    fn answer(&mut self, parts: &[Part]) {
        let text = said(parts);
        let calls = parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        });
        let calls: Vec<&ModelCall> = calls.collect();
        if text.is_empty() && calls.is_empty() {
            return;
        }
        self.begin(Speaker::Model);
        if !text.is_empty() {
            self.paragraph(&text);
        }
        for call in calls {
            self.paragraph(&format!("Call of `{}`:", call.name));
            self.fence(&call.arguments);
        }
    }

    fn result(&mut self, result: &CallResult, line: Option<&str>) {
        let how = if result.is_error { "failed" } else { "answered" };
        self.paragraph(&format!("`{}` {how}:", result.name));
        match self.results {
            ResultLength::Whole => self.fence(&result.content),
            ResultLength::Beginnings => {
                let shown: String = result.content.chars().take(SHOWN).collect();
                let rest = result.content.chars().count() - shown.chars().count();
                self.fence(&shown);
                if rest > 0 {
                    self.remark(&format!("{rest} more characters; `export` writes them."));
                }
            }
        }
        self.images(&result.images);
        if let Some(line) = line {
            self.remark("The model no longer sees this result, but only:");
            self.fence(line);
        }
    }

    /// Writes a line for each image.
    fn images(&mut self, images: &[Image]) {
        for image in images {
            self.paragraph(&image.to_string());
        }
    }

    /// Writes a heading when the speaker changes.
    fn begin(&mut self, speaker: Speaker) {
        if self.speaker != speaker {
            self.speaker = speaker;
            let heading = if speaker == Speaker::User { "## You" } else { "## Model" };
            self.paragraph(heading);
        }
    }

    /// Writes a remark that neither side said.
    fn remark(&mut self, text: &str) {
        self.paragraph(&format!("*{text}*"));
    }

    /// Writes a text in a fence that is longer than any fence in the text.
    fn fence(&mut self, text: &str) {
        let runs = text.split(|c| c != '`').map(str::len);
        let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.paragraph(&format!("{fence}\n{text}{end}{fence}"));
    }

    fn paragraph(&mut self, text: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{gap}{}", text.trim_end());
    }
}

/// Returns the text of an answer.
fn said(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<String>().trim().to_owned()
}

fn count(results: usize) -> String {
    if results == 1 { "one result".to_owned() } else { format!("{results} results") }
}
