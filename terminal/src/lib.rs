//! The terminal of a program that talks with a person: streamed Markdown, lines for running calls,
//! and a line editor with fuzzy finders.
//!
//! A program needs the parts in this order:
//!
//! 1. [`Look`] and [`Size`]: the capabilities of the output, and its size.
//! 2. [`Screen`]: the one owner of the output. It renders streamed text with [`Markdown`] and shows
//!    a line for each call.
//! 3. [`Editor`]: reads lines below the output, with a [history](editor::History) and the
//!    suggestions of a [finder](finder::Finder).
//! 4. [`question`]: questions that one key answers, beside an editor or without one.
//! 5. [`sanitize`] and [`one_line`]: for text that is written past a screen.
//!
//! This crate knows no tool, model or store: text, names, sizes and durations are handed in. It
//! writes only to the output that a [`Screen`] was given.
//!
//! Foreign text (of a model, a tool) is [sanitized](sanitize) on its way to the screen: no answer
//! can move the cursor, set the window's title or write the clipboard.
//!
//! ```
//! use ikigai_terminal::{Look, Screen};
//!
//! let screen = Screen::new(std::io::stdout(), Look::for_stream(&std::io::stdout()));
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

pub use editor::{Editor, Input};
pub use look::{Look, Size};
pub use markdown::Markdown;
pub use sanitize::{one_line, sanitize};
pub use screen::{Busy, Ended, Screen, TimeLimit, in_words};
