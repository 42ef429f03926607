//! Lines that a backslash at their end continues.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{ValidationResult, Validator};

/// The texts after which Enter began another line. They are remembered so that only the backslashes
/// that continue a line are removed, and a backslash in a pasted text stays.
#[derive(Clone, Default)]
pub(super) struct LineContinuations(Arc<Mutex<Vec<String>>>);

impl Validator for LineContinuations {
    fn validate(&self, line: &str) -> ValidationResult {
        if !is_continued(line) {
            return ValidationResult::Complete;
        }
        self.0.lock().push(line.to_owned());
        ValidationResult::Incomplete
    }
}

impl LineContinuations {
    /// Returns `text` without the backslashes that continued its lines.
    pub(super) fn joined(&self, mut text: String) -> String {
        let mut before = std::mem::take(&mut *self.0.lock());
        // From the back, so that the text before each backslash has not changed yet.
        before.sort_unstable_by_key(|line| std::cmp::Reverse(line.len()));
        before.dedup();
        for line in before {
            if text.strip_prefix(&line).is_some_and(|rest| rest.starts_with('\n')) {
                text.remove(line.len() - 1);
            }
        }
        text
    }
}

/// Returns `true` if `line` ends in a backslash that is not itself escaped.
pub(super) fn is_continued(line: &str) -> bool {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_backslash_that_was_typed_for_it_is_taken_out() {
        let continued = LineContinuations::default();
        let enter = |line| matches!(continued.validate(line), ValidationResult::Incomplete);
        assert!(enter("run \\\nmake\\"), "a pasted text, and a backslash behind it");
        assert!(enter("run \\\nmake\\\nnow\\"));
        assert!(!enter("run \\\nmake\\\nnow\\\n!"));
        assert_eq!(continued.joined("run \\\nmake\\\nnow\\\n!".to_owned()), "run \\\nmake\nnow\n!");
        assert_eq!(continued.joined("a\\\nb".to_owned()), "a\\\nb", "that was another line");
    }

    #[test]
    fn an_escaped_backslash_continues_nothing() {
        assert_eq!(
            ["", "a", "a\\", "a\\\\", "\\\\\\"].map(is_continued),
            [false, false, true, false, true]
        );
    }
}
