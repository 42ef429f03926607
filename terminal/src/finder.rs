//! Completion at the cursor: commands, files of the workspace, assets.
//!
//! `/` at the start of the input begins a command; `@` at the start of a word begins a file, `@@`
//! an asset. The finder completes names and does not open the files.

mod files;
mod ranking;
mod rules;
mod word;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reedline::{Completer, CompletionResult, CompletionStatus, Span, Suggestion};

use self::files::FileIndex;
use self::ranking::{MatchableName, Ranking};
use self::word::{TypedWord, WordKind};

/// A source of names, called each time a finder opens.
pub type NameSource = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A command that is typed after `/`.
#[derive(Clone)]
pub struct FinderCommand {
    /// The name, without `/`.
    pub name: String,
    /// The effect, in a few words.
    pub help: String,
    /// The possible arguments, if they can be listed.
    pub arguments: Option<NameSource>,
}

/// The most suggestions at a time.
const OFFERED: usize = 50;

/// The completer of an editor.
pub struct Finder {
    commands: Vec<FinderCommand>,
    assets: NameSource,
    files: FileIndex,
    ranking: Ranking,
    /// The generation of the file list when it was last used, while a file is completed.
    seen: Option<u64>,
    /// The byte at which the current mention begins.
    mention: Option<usize>,
    unasked: EmptyWordFlag,
}

/// A flag that is set while the suggestions are for a command's name or argument of which nothing
/// is typed yet. Then Enter ends the line, unless the user selected a suggestion.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmptyWordFlag(Arc<AtomicBool>);

impl EmptyWordFlag {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, is_unasked: bool) {
        self.0.store(is_unasked, Ordering::Relaxed);
    }
}

impl Finder {
    /// Creates a finder of files below `workspace`, of `commands`, and of the names that `assets`
    /// returns. The first `@` begins a walk of the workspace.
    #[must_use]
    pub fn new(
        workspace: impl Into<PathBuf>,
        commands: Vec<FinderCommand>,
        assets: NameSource,
    ) -> Self {
        let files = FileIndex::new(workspace.into(), files::MOST);
        let ranking = Ranking::default();
        let unasked = EmptyWordFlag::default();
        Self { commands, assets, files, ranking, seen: None, mention: None, unasked }
    }

    pub(crate) fn unasked(&self) -> EmptyWordFlag {
        self.unasked.clone()
    }

    fn files(&mut self, word: &TypedWord<'_>) -> CompletionResult {
        // Keys come in bursts, so the first completion of a mention may already see more than its
        // `@`.
        if word.text.is_empty() || self.mention.replace(word.start) != Some(word.start) {
            self.files.refresh();
        }
        let (generation, chunks) = self.files.found();
        self.seen = Some(generation);
        let names = chunks.iter().flat_map(|chunk| chunk.iter());
        let suggestions = self.suggestions(names, word, "@");
        if suggestions.is_empty() && self.files.is_walking() {
            return CompletionResult::Pending;
        }
        CompletionResult::fresh(suggestions)
    }

    fn commands(&mut self, word: &TypedWord<'_>) -> CompletionResult {
        let names: Vec<MatchableName> = self
            .commands
            .iter()
            .filter_map(|command| MatchableName::new(command.name.clone()))
            .collect();
        let mut suggestions = self.suggestions(names.iter(), word, "/");
        for suggestion in &mut suggestions {
            let name = suggestion.value.trim_start_matches('/');
            let command = self.commands.iter().find(|command| command.name == name);
            suggestion.description = command.map(|command| command.help.clone());
        }
        CompletionResult::fresh(suggestions)
    }

    fn arguments(&mut self, command: &str, word: &TypedWord<'_>) -> CompletionResult {
        let command = self.commands.iter().find(|known| known.name == command);
        let Some(arguments) = command.and_then(|command| command.arguments.clone()) else {
            return none();
        };
        let names: Vec<MatchableName> =
            arguments().into_iter().filter_map(MatchableName::new).collect();
        CompletionResult::fresh(self.suggestions(names.iter(), word, ""))
    }

    fn assets(&mut self, word: &TypedWord<'_>) -> CompletionResult {
        let names: Vec<MatchableName> =
            (self.assets)().into_iter().filter_map(MatchableName::new).collect();
        CompletionResult::fresh(self.suggestions(names.iter(), word, "@@"))
    }

    /// Returns the best of `names`. Returns nothing if the word equals one of them: then the next
    /// Enter ends the line.
    fn suggestions<'a>(
        &mut self,
        names: impl Iterator<Item = &'a MatchableName>,
        word: &TypedWord<'_>,
        mark: &str,
    ) -> Vec<Suggestion> {
        let best = self.ranking.best(names, word.text, OFFERED);
        if best.iter().any(|found| word.is_exactly(found.name.text())) {
            return Vec::new();
        }
        let span = Span { start: word.start, end: word.end };
        let suggestion = |found: ranking::NameMatch<'_>| Suggestion {
            value: format!("{mark}{}", word::quoted(found.name.text())),
            display_override: Some(found.name.text().to_owned()),
            match_indices: Some(found.indices),
            span,
            append_whitespace: true,
            ..Suggestion::default()
        };
        best.into_iter().map(suggestion).collect()
    }
}

impl Completer for Finder {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        self.seen = None;
        let word = word::at(line, position);
        if !matches!(word, Some(TypedWord { wanted: WordKind::File, .. })) {
            self.mention = None;
        }
        self.unasked.set(word.is_some_and(|word| word.is_unasked()));
        let Some(word) = word else { return none() };
        match word.wanted {
            WordKind::Command => self.commands(&word),
            WordKind::Argument(command) => self.arguments(command, &word),
            WordKind::File => self.files(&word),
            WordKind::Asset => self.assets(&word),
        }
    }

    fn poll_completion(&mut self) -> CompletionStatus {
        // Read this first: the end of the walk changes the list, and the check below notices that.
        let is_walking = self.files.is_walking();
        match self.seen {
            None => CompletionStatus::Idle,
            Some(seen) if self.files.found().0 != seen => CompletionStatus::Ready,
            Some(_) if is_walking => CompletionStatus::Pending,
            Some(_) => CompletionStatus::Idle,
        }
    }
}

fn none() -> CompletionResult {
    CompletionResult::fresh(Vec::new())
}

#[cfg(test)]
#[path = "finder/tests.rs"]
mod tests;
