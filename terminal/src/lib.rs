//! The terminal of an interactive program: streamed Markdown, lines for running calls, and a line
//! editor with fuzzy finders.
//!
//! A program needs the parts in this order:
//!
//! 1. [`OutputFeatures`] and [`TerminalSize`]: the capabilities and the size of the output.
//! 2. [`Screen`]: the only writer of the output. It renders streamed text with [`Markdown`] and
//!    shows a line for each call.
//! 3. [`Editor`]: reads lines below the output, with a [history](editor::History) and the
//!    suggestions of a [finder](finder::Finder).
//! 4. [`question`]: questions that one key answers, with or without an editor.
//! 5. [`sanitize`] and [`one_line`]: for text that does not go through a screen.
//!
//! This crate knows nothing about tools, models and stores: the caller passes text, names, sizes
//! and durations. It writes only to the output that a [`Screen`] was given.
//!
//! Foreign text, from a model or a tool, is [sanitized](sanitize) on its way to the screen. So no
//! answer can move the cursor, set the window's title or write to the clipboard.
//!
//! ```
//! use ikigai_terminal::{OutputFeatures, Screen};
//!
//! let screen = Screen::new(std::io::stdout(), OutputFeatures::for_stream(&std::io::stdout()));
//! screen.text("Some **bold** text")?;
//! screen.end_text()?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![deny(missing_docs)]

mod cells;
pub mod editor;
pub mod finder;
mod fold;
mod look;
mod markdown;
pub mod question;
mod sanitize;
mod screen;

pub use editor::{Editor, EditorEvent};
pub use look::{OutputFeatures, TerminalSize};
pub use markdown::Markdown;
pub use sanitize::{one_line, sanitize};
pub use screen::{Busy, CallSummary, Screen, TimeLimit, in_words};
