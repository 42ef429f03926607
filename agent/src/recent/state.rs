//! The settings and the warnings of the summary in one conversation.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The summary, as far as a conversation uses it.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    is_on: bool,
    /// The warning that the summary is not sent, if it is not.
    pub(super) unsent: OnceLock<String>,
    /// True if that warning was taken.
    is_told: AtomicBool,
    /// True if a warning said that an entry has no room.
    pub(super) is_full: AtomicBool,
}

impl Recent {
    /// Returns the summary, which is neither sent nor written unless `is_on`.
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Returns whether the summary is sent and written.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns the warning that the summary is not sent, once.
    pub(crate) fn take_warning(&self) -> Option<String> {
        let warning = self.unsent.get()?;
        (!self.is_told.swap(true, Ordering::Relaxed)).then(|| warning.clone())
    }
}
