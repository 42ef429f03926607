//! A question on the screen: its rows stay, and the last of them change until it is answered.

use std::io;

use super::{Screen, ScreenState};
use crate::look::OutputFeatures;
use crate::question::{KeyQuestion, KeyReply, QuestionLine, rows};

/// A question that is being asked.
#[derive(Debug)]
pub(super) struct DisplayedQuestion {
    question: KeyQuestion,
    shown: QuestionLine,
    /// The part of it that was written, if rows cannot be replaced.
    written: LastRow,
}

/// The last row of a question, if rows cannot be replaced.
#[derive(Debug, Default)]
struct LastRow {
    has_keys: bool,
    /// The part of the user's text that was written, once there is one.
    told: Option<String>,
}

impl DisplayedQuestion {
    pub(super) fn rows(&self, columns: usize, look: OutputFeatures) -> Vec<String> {
        rows::last(&self.question, &self.shown, columns, look)
    }

    /// Returns the rows to write, since rows cannot be replaced.
    fn further(&mut self, columns: usize) -> String {
        match &self.shown {
            QuestionLine::Waiting => String::new(),
            QuestionLine::Keys if std::mem::replace(&mut self.written.has_keys, true) => {
                String::new()
            }
            QuestionLine::Keys => {
                let rows =
                    rows::last(&self.question, &QuestionLine::Keys, columns, OutputFeatures::PLAIN);
                rows.iter().map(|row| format!("{row}\n")).collect()
            }
            QuestionLine::Telling(text) => {
                let text = crate::one_line(text);
                let written = self.written.told.replace(text.clone());
                match written.as_deref().map(|written| text.strip_prefix(written)) {
                    Some(Some(further)) => further.to_owned(),
                    // A part of it was deleted.
                    Some(None) => format!("\n{}{text}", rows::telling()),
                    None => format!("{}{text}", rows::telling()),
                }
            }
        }
    }
}

impl Screen {
    pub(crate) fn look(&self) -> OutputFeatures {
        self.state().look
    }

    /// Shows a question, and lets all other output wait.
    pub(crate) fn begin_question(&self, question: &KeyQuestion) -> io::Result<()> {
        let mut state = self.state();
        state.end_text()?;
        let columns = (state.size)().columns;
        let block = rows::block(question, columns, state.look);
        state.write(&block)?;
        let (question, shown) = (question.clone(), QuestionLine::Waiting);
        state.asked = Some(DisplayedQuestion { question, shown, written: LastRow::default() });
        state.write("")
    }

    /// Shows which keys answer a question at present.
    pub(crate) fn show_answer(&self, shown: &QuestionLine) -> io::Result<()> {
        let mut state = self.state();
        let ScreenState { asked: Some(open), look, size, .. } = &mut *state else { return Ok(()) };
        if open.shown == *shown {
            return Ok(());
        }
        open.shown = shown.clone();
        let further = if look.live { String::new() } else { open.further(size().columns) };
        state.write_now(String::new(), &further)
    }

    /// Shows the details of the question below its other rows. After that, they count as its rows.
    pub(crate) fn show_details(&self) -> io::Result<()> {
        let mut state = self.state();
        let ScreenState { asked: Some(open), look, size, .. } = &mut *state else { return Ok(()) };
        let (look, columns) = (*look, size().columns);
        let details = std::mem::take(&mut open.question.details);
        let mut rows = rows::facts(&details, columns, look);
        open.question.facts.extend(details);
        if !look.live && !rows.is_empty() {
            // The keys are written again below the details.
            open.written.has_keys = false;
            rows.push_str(&open.further(columns));
        }
        state.write_now(String::new(), &rows)
    }

    /// Shows the question again, for example after another program used the terminal. No key is an
    /// answer until [`show_answer`](Self::show_answer) is called with the keys again.
    pub(crate) fn repeat_question(&self) -> io::Result<()> {
        let mut state = self.state();
        let columns = (state.size)().columns;
        let look = state.look;
        let Some(open) = &mut state.asked else { return Ok(()) };
        (open.shown, open.written) = (QuestionLine::Waiting, LastRow::default());
        let block = rows::block(&open.question, columns, look);
        state.write_now(String::new(), &format!("\n{block}"))
    }

    /// Shows how a question was answered, or nothing if it was withdrawn. Then writes the output
    /// that waited.
    pub(crate) fn end_question(&self, given: Option<&KeyReply>) -> io::Result<()> {
        let mut state = self.state();
        let Some(open) = state.asked.take() else { return Ok(()) };
        let end = rows::end(&open.question, given, state.look);
        let before = if open.written.told.is_some() { "\n" } else { "" };
        let deferred = std::mem::take(&mut state.deferred);
        state.write(&format!("{before}{end}{deferred}"))
    }
}
