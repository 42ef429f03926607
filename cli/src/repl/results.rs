//! The results of the last calls, for a user who wants to see a whole result.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::out::Out;
use super::result::{ResultExcerpt, ResultView};

/// The number of results that are kept.
const KEPT: usize = 50;

/// The results of the last calls. Clones share them.
#[derive(Clone, Default)]
pub(super) struct RecentResults(Arc<Mutex<ResultQueue>>);

#[derive(Default)]
struct ResultQueue {
    /// The newest first.
    results: VecDeque<ResultView>,
    /// The number of results that the key has shown since the last call.
    seen: usize,
}

impl RecentResults {
    /// Keeps the result of the newest call.
    pub(super) fn push(&self, result: ResultView) {
        let mut state = self.0.lock();
        state.results.push_front(result);
        state.results.truncate(KEPT);
        state.seen = 0;
    }

    /// Shows the whole result of the `nth` last call, counted from 1.
    pub(super) fn show(&self, nth: usize, out: &Out) -> io::Result<()> {
        let state = self.0.lock();
        let count = state.results.len();
        let Some(result) = nth.checked_sub(1).and_then(|at| state.results.get(at)) else {
            return out.line(&match count {
                0 => "No call has a result yet.".to_owned(),
                1 => "There is one result: `/last`.".to_owned(),
                _ => {
                    format!("There are {count} results: `/last 1` to `/last {count}`.")
                }
            });
        };
        out.line(&result.title)?;
        let screen = out.screen();
        match &result.shown {
            ResultExcerpt::Text(text) => screen.print(text)?,
            ResultExcerpt::Diff(diff) => screen.change(diff, usize::MAX, "")?,
        }
        screen.end_text()?;
        if !result.rest.is_empty() {
            screen.print(&result.rest)?;
            screen.end_text()?;
        }
        Ok(())
    }

    /// Shows the whole result of the last call. Each further press shows the result of the call
    /// before.
    pub(super) fn show_next(&self, out: &Out) -> io::Result<()> {
        let nth = {
            let mut state = self.0.lock();
            state.seen = if state.seen < state.results.len() { state.seen + 1 } else { 1 };
            state.seen
        };
        self.show(nth, out)
    }
}
