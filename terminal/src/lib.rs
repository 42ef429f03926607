//! What a person sees and types in a terminal: Markdown that is rendered as it
//! streams, lines for running calls, an editor with fuzzy finders.
//!
//! Knows no tool, model or store: text, names, sizes and durations are handed in.
//! Nothing here prints by itself; a [`Screen`] writes to what it was given.
//!
//! Text from elsewhere (a model, a tool) passes [`harmless`] on its way to the
//! screen: no answer can move the cursor, set the window's title or write the
//! clipboard.

mod cells;
pub mod editor;
pub mod finder;
mod fold;
mod look;
mod markdown;
mod sanitize;
mod screen;

pub use editor::{Editor, Input};
pub use look::{Look, Size};
pub use markdown::Markdown;
pub use sanitize::{harmless, one_line};
pub use screen::{Busy, Ended, Screen};
