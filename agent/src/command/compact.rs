//! `/compact`: an asset rewritten shorter by the model.
//!
//! The model proposes a text in a separate request, which has no tools and is not part of the
//! conversation. The proposal is accepted only if it is shorter and has all references of the old
//! text. The old text stays in the asset's history.

use std::collections::BTreeSet;
use std::fmt;

use ikigai_assets::{
    Asset, AssetPath, Author, ChangeCause, Error, Precondition, references, thousands, tokens,
};
use ikigai_provider::{Message, ModelAnswer, ModelRequest, Part, Role, StopReason};
use serde_json::json;
use similar::TextDiff;

use super::{By, CommandError, open_assets};
use crate::assets::{display, named};
use crate::environment::SessionEnvironment;
use crate::model::Model;

/// The system prompt of the request.
const TASK: &str = "You rewrite assets shorter. Keep every fact, decision, name, number and \
                    command that somebody could need later, and every reference to a file and to \
                    an ikigai:// asset exactly as it is written. Drop repetition, filler and \
                    what follows from the rest. Keep the language and the kind of markup. Answer \
                    with the new text of the asset alone: no introduction, no code fence \
                    around it.";

/// A shorter text of an asset, for the user to check.
#[derive(Clone, Debug)]
pub struct RewriteProposal {
    /// The asset.
    pub path: AssetPath,
    /// The tokens of the asset.
    pub before: u64,
    /// The tokens of the new text.
    pub after: u64,
    /// A unified diff: lines with `+` and `-`.
    pub diff: String,
}

/// The reason why an asset is not rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteRefusal {
    /// The asset is not text.
    #[error("it is not text")]
    Binary,
    /// The asset is empty.
    #[error("it is empty")]
    NothingThere,
    /// The asset already has as few tokens as it should have.
    #[error("it has {tokens} tokens, and should have at most {target}", tokens = thousands(*.tokens), target = thousands(*.target))]
    ShortEnough {
        /// The tokens of the asset.
        tokens: u64,
        /// The tokens that were asked for.
        target: u64,
    },
    /// The model wrote nothing.
    #[error("the model's proposal is empty")]
    Empty,
    /// The model's answer reached the limit on its length.
    #[error("the model's proposal was cut off")]
    CutOff,
    /// The model refused, for the reason that it gave, if any.
    #[error("the model refused{}", Colon(.0))]
    Declined(String),
    /// The new text has as many bytes as the old, or more.
    #[error("the model's proposal is not shorter ({after} instead of {before} tokens)", before = thousands(*.before), after = thousands(*.after))]
    NotShorter {
        /// The tokens of the asset.
        before: u64,
        /// The tokens of the proposal.
        after: u64,
    },
    /// References are missing in the new text.
    #[error("the model's proposal drops {}", .0.join(", "))]
    Dropped(Vec<String>),
}

struct Colon<'a>(&'a str);

impl fmt::Display for Colon<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// Has the model rewrite an asset, and writes the new text if it is accepted.
pub(super) async fn run(
    environment: &SessionEnvironment,
    name: &str,
    target: Option<u64>,
    by: By<'_>,
) -> Result<String, CommandError> {
    let (assets, store) = open_assets(environment).await?;
    let metadata = named(store, name).await?;
    if metadata.read_only {
        return Err(Error::ReadOnly(metadata.path).into());
    }
    let Asset { metadata, content } = store.read(&metadata.path).await?;
    let path = metadata.path;
    let refused = |refusal| CommandError::Refused { path: path.clone(), refusal };
    let old = str::from_utf8(&content).map_err(|_| refused(RewriteRefusal::Binary))?;
    if old.trim().is_empty() {
        return Err(refused(RewriteRefusal::NothingThere));
    }
    if let Some(target) = target.filter(|target| metadata.tokens <= *target) {
        return Err(refused(RewriteRefusal::ShortEnough { tokens: metadata.tokens, target }));
    }
    let answer = rewritten(environment, &path, old, target).await?;
    let new = accepted(old, answer).map_err(refused)?;
    let (before, after) = (metadata.tokens, tokens(new.len()));
    if let By::Person(person) = by {
        let diff = diff(old, &new);
        let proposal = RewriteProposal { path: path.clone(), before, after, diff };
        if !person.confirm(&proposal).await {
            return Ok(format!("Not compacted: {path}"));
        }
    }
    let author = Author { agent: assets.agent.clone(), cause: ChangeCause::Compact };
    let expected = Precondition::Version(metadata.version);
    match store.write(&path, new.as_bytes(), &author, expected).await {
        Ok(_) => {}
        Err(Error::Changed { path, .. }) => return Err(CommandError::Changed { path }),
        Err(error) => return Err(error.into()),
    }
    let usage = store.usage(&assets.agent).await?;
    Ok(format!(
        "Compacted {path}: {} → {} tokens. Block budget: {}.",
        display::tenths(before),
        display::tenths(after),
        display::budget(&usage),
    ))
}

/// Asks the model for a shorter text of the asset, in a separate request.
async fn rewritten(
    environment: &SessionEnvironment,
    path: &AssetPath,
    old: &str,
    target: Option<u64>,
) -> Result<ModelAnswer, CommandError> {
    let Model { client, name, max_tokens, settings, .. } =
        environment.model.as_ref().ok_or(CommandError::NoModel)?;
    let aim = match target {
        Some(target) => format!("at most about {} words", words(target)),
        None => "about half as long, or shorter where nothing is lost".to_owned(),
    };
    let text = format!("Rewrite the asset {} below, {aim}.\n\n{old}", path.to_uri());
    let request = ModelRequest {
        model: name,
        system: &[TASK.to_owned()],
        messages: &[Message { role: Role::User, parts: vec![Part::text(text)] }],
        tools: &json!([]),
        max_output: *max_tokens,
        settings: *settings,
        shape: None,
    };
    let answer = client.send(&request, &mut |_| {}).await?;
    environment.other_usage.add(answer.usage);
    Ok(answer)
}

/// Returns the number of English words that this many tokens have. Models are bad at counting
/// either, but better at counting words.
fn words(tokens: u64) -> u64 {
    (tokens.saturating_mul(3) / 4).max(1)
}

/// Returns the new text if it may replace the old one.
fn accepted(old: &str, answer: ModelAnswer) -> Result<String, RewriteRefusal> {
    match answer.stop {
        StopReason::Finished => {}
        StopReason::Length | StopReason::Window => return Err(RewriteRefusal::CutOff),
        StopReason::Refused(reason) => return Err(RewriteRefusal::Declined(reason)),
    }
    let texts = answer.parts.into_iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text),
        Part::Call(_) | Part::Result(_) | Part::Image(_) | Part::Blob(_) => None,
    });
    let text: String = texts.collect();
    // The indentation of the first line may mean something.
    let text = text.trim_start_matches(['\n', '\r']).trim_end();
    let mut new = unfenced(old, text).to_owned();
    if new.trim().is_empty() {
        return Err(RewriteRefusal::Empty);
    }
    if old.ends_with('\n') {
        new.push('\n');
    }
    if new.len() >= old.len() {
        return Err(RewriteRefusal::NotShorter {
            before: tokens(old.len()),
            after: tokens(new.len()),
        });
    }
    let kept: BTreeSet<String> = referred(&new).collect();
    let mut dropped: Vec<String> = referred(old).filter(|uri| !kept.contains(uri)).collect();
    dropped.sort_unstable();
    dropped.dedup();
    if dropped.is_empty() { Ok(new) } else { Err(RewriteRefusal::Dropped(dropped)) }
}

/// Returns the references in a text. Equal references are written in the same way.
fn referred(text: &str) -> impl Iterator<Item = String> {
    references(text).map(|found| match found.path {
        Ok(path) => path.to_uri(),
        Err(_) => found.uri.to_owned(),
    })
}

/// Removes a fence that the model put around the whole text, although its task forbids one.
fn unfenced<'a>(old: &str, text: &'a str) -> &'a str {
    if old.trim_start().starts_with("```") {
        return text;
    }
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|rest| rest.split_once('\n')).map(|(_, inner)| inner);
    // A fence within would show that these two are not a pair.
    inner.filter(|inner| !inner.contains("```")).map_or(text, str::trim_end)
}

/// Returns a unified diff of lines that end in a line feed. By default `similar` also ends lines at
/// carriage returns, which no terminal shows.
fn diff(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
    diff.unified_diff().context_radius(2).to_string()
}

#[cfg(test)]
mod tests {
    use ikigai_provider::TokenUsage;

    use super::*;

    const OLD: &str = "# Decisions\n\nWe have decided to use Postgres.\n\
                       See also: ikigai:///blocks/errors.md and ikigai://a.\n";

    fn answer(text: &str, stop: StopReason) -> ModelAnswer {
        ModelAnswer { parts: vec![Part::text(text)], stop, usage: TokenUsage::default() }
    }

    fn judged(text: &str) -> Result<String, RewriteRefusal> {
        accepted(OLD, answer(text, StopReason::Finished))
    }

    #[test]
    fn a_shorter_text_that_keeps_its_references_is_taken() {
        let new = "Postgres. See ikigai://blocks/errors.md, ikigai:///a";
        assert_eq!(judged(new), Ok(format!("{new}\n")), "another spelling is no other reference");
        assert_eq!(judged(&format!("```markdown\n{new}\n```")), Ok(format!("{new}\n")));
    }

    #[test]
    fn the_indentation_of_the_first_line_stays() {
        let new = "    Postgres. See ikigai://blocks/errors.md, ikigai:///a";
        assert_eq!(judged(&format!("\n\r\n{new}\n\n")), Ok(format!("{new}\n")));
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(judged(" \n"), Err(RewriteRefusal::Empty));
        assert_eq!(judged("```\n```"), Err(RewriteRefusal::Empty));
        let refused = judged("Postgres.").expect_err("nothing is referred to");
        assert_eq!(
            refused.to_string(),
            "the model's proposal drops ikigai:///a, ikigai:///blocks/errors.md"
        );
        let refused = judged(OLD).expect_err("as long as before");
        assert_eq!(
            refused.to_string(),
            "the model's proposal is not shorter (25 instead of 25 tokens)"
        );
        assert_eq!(accepted(OLD, answer("short", StopReason::Length)), Err(RewriteRefusal::CutOff));
        let refused = accepted(OLD, answer("", StopReason::Refused("safety".into())));
        assert_eq!(refused.expect_err("refused").to_string(), "the model refused: safety");
    }

    #[test]
    fn an_asset_that_begins_with_a_fence_keeps_it() {
        let old = "```\ncode that is long\n```\nand text, and text\n";
        let new = "```\ncode\n```";
        let taken = accepted(old, answer(new, StopReason::Finished));
        assert_eq!(taken, Ok(format!("{new}\n")));
    }

    #[test]
    fn what_changes_is_shown_by_lines() {
        let shown = diff("a\nb\nc\n", "a\nc\n");
        assert_eq!(shown, "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
        let shown = diff("keep\nnever run\rx\n", "keep\nrun\rx\n");
        assert!(shown.ends_with(" keep\n-never run\rx\n+run\rx\n"), "{shown:?}");
    }
}
