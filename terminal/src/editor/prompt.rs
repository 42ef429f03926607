//! The prompt of a line.

use std::borrow::Cow;

use reedline::{Color, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus};

use crate::cells;
use crate::one_line;

/// A prompt without a right side; further lines are indented to the first.
#[derive(Debug)]
pub(super) struct LinePrompt {
    text: String,
    further: String,
}

impl LinePrompt {
    pub(super) fn new(text: &str) -> Self {
        let text = one_line(text);
        let width = cells::width(&text);
        Self { further: format!("{:>width$}", "… "), text }
    }

    /// Returns the lines of `line`, as they appear after this prompt.
    pub(super) fn before(&self, line: &str) -> String {
        format!("{}{}", self.text, line.replace('\n', &format!("\n{}", self.further)))
    }
}

impl reedline::Prompt for LinePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.further)
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing ",
        };
        Cow::Owned(format!("({found}earlier: {}) ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Cyan
    }
}
