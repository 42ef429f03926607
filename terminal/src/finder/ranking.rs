//! Fuzzy ranking of names by a typed word.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32String};

/// A name that is prepared for matching.
#[derive(Clone, Debug)]
pub(super) struct MatchableName {
    text: String,
    chars: Utf32String,
}

impl MatchableName {
    /// Prepares `text`. Returns `None` if it cannot be written after `@`, or a terminal would obey
    /// it.
    pub(super) fn new(text: String) -> Option<Self> {
        if text.is_empty() || text.contains('"') || text.contains(char::is_control) {
            return None;
        }
        let chars = Utf32String::from(text.as_str());
        Some(Self { text, chars })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A name that matches.
#[derive(Debug)]
pub(super) struct NameMatch<'a> {
    pub(super) name: &'a MatchableName,
    /// The positions of the typed characters in the name.
    pub(super) indices: Vec<usize>,
}

/// A matcher that reuses its memory between two searches.
pub(super) struct Ranking {
    matcher: Matcher,
    indices: Vec<u32>,
}

impl Default for Ranking {
    fn default() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT.match_paths()), indices: Vec::new() }
    }
}

impl Ranking {
    /// Returns the `most` names that match `typed` best, best first. Among equal matches, shorter
    /// names come first, and then earlier ones. An empty `typed` matches the first names.
    pub(super) fn best<'a>(
        &mut self,
        names: impl Iterator<Item = &'a MatchableName>,
        typed: &str,
        most: usize,
    ) -> Vec<NameMatch<'a>> {
        if typed.is_empty() {
            return names.take(most).map(|name| NameMatch { name, indices: Vec::new() }).collect();
        }
        let pattern =
            Atom::new(typed, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy, false);
        let score = |name: &'a MatchableName| {
            let score = pattern.score(name.chars.slice(..), &mut self.matcher)?;
            Some((score, name))
        };
        let mut scored: Vec<_> = names.filter_map(score).collect();
        let key = |(score, name): &(u16, &MatchableName)| (u16::MAX - score, name.text.len());
        if scored.len() > most {
            // The order is stable, so that equal names do not change places while the user types.
            scored.select_nth_unstable_by(most, |a, b| {
                key(a).cmp(&key(b)).then_with(|| a.1.text.cmp(&b.1.text))
            });
            scored.truncate(most);
        }
        scored.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.1.text.cmp(&b.1.text)));
        let with_indices = |(_, name): (u16, &'a MatchableName)| {
            self.indices.clear();
            pattern.indices(name.chars.slice(..), &mut self.matcher, &mut self.indices);
            let indices = self.indices.iter().filter_map(|at| usize::try_from(*at).ok()).collect();
            NameMatch { name, indices }
        };
        scored.into_iter().map(with_indices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(names: &[&str], typed: &str, most: usize) -> Vec<String> {
        let names: Vec<MatchableName> =
            names.iter().filter_map(|n| MatchableName::new((*n).to_owned())).collect();
        let mut ranking = Ranking::default();
        let found = ranking.best(names.iter(), typed, most);
        found.into_iter().map(|found| found.name.text().to_owned()).collect()
    }

    #[test]
    fn the_beginnings_of_words_count_more() {
        let names = ["docs/xmxaxin.rs", "src/domain.rs", "src/main.rs", "README.md"];
        assert_eq!(best(&names, "main", 9), ["src/main.rs", "src/domain.rs", "docs/xmxaxin.rs"]);
        assert_eq!(best(&names, "sm", 1), ["src/main.rs"]);
        assert_eq!(best(&names, "", 2), ["docs/xmxaxin.rs", "src/domain.rs"]);
        assert_eq!(best(&names, "zzz", 9), [""; 0]);
    }

    #[test]
    fn case_counts_when_it_was_typed_and_accents_need_not_be() {
        assert_eq!(best(&["readme", "README"], "README", 9), ["README"]);
        assert_eq!(best(&["Grüße.txt"], "gru", 9), ["Grüße.txt"]);
    }

    #[test]
    fn names_that_cannot_be_written_are_not_offered() {
        assert_eq!(best(&["a\x1b[2J", "b\"c", "d\ne", "", "a b"], "", 9), ["a b"]);
    }
}
