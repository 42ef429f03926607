//! The display of the lines that the user types while the program works.

use anstyle::{AnsiColor, Style};

use super::line::FAINT;
use crate::cells;
use crate::look::OutputFeatures;
use crate::one_line;

const PROMPT: &str = "> ";
const PROMPT_STYLE: Style = AnsiColor::Cyan.on_default();
const QUEUED: &str = "queued: ";

/// The lines that wait, and the line that is being typed. All of it is sanitized.
#[derive(Debug, Default)]
pub(super) struct TypedLines {
    queued: Vec<String>,
    draft: String,
}

impl TypedLines {
    pub(super) fn new(queued: Vec<String>, draft: &str) -> Self {
        let queued = queued.iter().map(|line| one_line(line)).collect();
        Self { queued, draft: one_line(draft) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.draft.is_empty()
    }

    /// Returns a row for each line. The terminal's cursor is at another place, so the row of the
    /// draft ends with a cell in reverse video.
    pub(super) fn rows(&self, columns: usize, look: OutputFeatures) -> Vec<String> {
        let room = columns.saturating_sub(1);
        let faint = look.style(FAINT);
        let queued = self.queued.iter().map(|line| {
            let line = cells::truncated(&format!("{QUEUED}{line}"), room);
            format!("{faint}{line}{faint:#}")
        });
        let mut rows: Vec<String> = queued.collect();
        if !self.draft.is_empty() {
            let draft = cells::truncated_before(&self.draft, room.saturating_sub(PROMPT.len() + 1));
            let (prompt, cursor) = (look.style(PROMPT_STYLE), look.style(Style::new().invert()));
            rows.push(match columns > PROMPT.len() + 1 {
                true => format!("{prompt}{PROMPT}{prompt:#}{draft}{cursor} {cursor:#}"),
                false => String::new(),
            });
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_of_a_draft_is_seen() {
        let typed = TypedLines::new(vec!["one\ntwo".to_owned()], "three\nfour five");
        let rows = typed.rows(14, OutputFeatures::PLAIN);
        assert_eq!(rows, ["queued: one …", "> …four five "]);
    }

    proptest! {
        #[test]
        fn a_row_is_narrower_than_the_screen(line in "\\PC*", draft in "\\PC*", columns in 1_usize..80) {
            for row in TypedLines::new(vec![line], &draft).rows(columns, OutputFeatures::FULL) {
                prop_assert!(cells::styled_width(&row) < columns, "{row:?}");
            }
        }
    }
}
