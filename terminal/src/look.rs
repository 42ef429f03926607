//! The capabilities and the size of this process's terminal.
//!
//! The capabilities are read only once, at the start. The size is read again.

use std::io::IsTerminal;

use anstyle::Style;

/// The capabilities of an output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutputFeatures {
    /// `true` if lines can be replaced and text has styles: Markdown is rendered, spinners turn,
    /// menus open. Otherwise text is written as it comes.
    pub live: bool,
    /// `true` if styles have colours.
    pub coloured: bool,
}

impl OutputFeatures {
    /// The capabilities of a file, a pipe or a terminal that cannot move its cursor.
    pub const PLAIN: Self = Self { live: false, coloured: false };
    /// The capabilities of a terminal that can do everything.
    pub const FULL: Self = Self { live: true, coloured: true };

    /// Returns the capabilities of `stream`, according to `TERM` and `NO_COLOR` of this process.
    /// `NO_COLOR` removes only colours, if it is set and not empty (<https://no-color.org>).
    #[must_use]
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let term = set("TERM");
        Self::from(
            stream.is_terminal(),
            term.is_none_or(|t| t == "dumb"),
            set("NO_COLOR").is_some(),
        )
    }

    fn from(is_terminal: bool, is_dumb: bool, is_colourless: bool) -> Self {
        let live = is_terminal && !is_dumb;
        Self { live, coloured: live && !is_colourless }
    }

    /// Returns `style`, as far as it can be shown.
    pub(crate) fn style(self, style: Style) -> Style {
        match self {
            Self { live: false, .. } => Style::new(),
            Self { coloured: false, .. } => {
                style.fg_color(None).bg_color(None).underline_color(None)
            }
            _ => style,
        }
    }
}

/// The columns and rows of a terminal, both at least 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TerminalSize {
    /// The number of cells in a row.
    pub columns: usize,
    /// The number of rows on the screen.
    pub rows: usize,
}

impl TerminalSize {
    /// The size that is assumed if a terminal reports none.
    pub const USUAL: Self = Self { columns: 80, rows: 24 };

    /// Returns the current size of this process's terminal. A serial line reports zero columns; it
    /// gets the usual size.
    #[must_use]
    pub fn now() -> Self {
        match crossterm::terminal::size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => {
                Self { columns: columns.into(), rows: rows.into() }
            }
            _ => Self::USUAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_that_has_them_and_a_person_who_wants_them() {
        assert_eq!(OutputFeatures::from(true, false, false), OutputFeatures::FULL);
        assert_eq!(
            OutputFeatures::from(true, false, true),
            OutputFeatures { live: true, coloured: false }
        );
        assert_eq!(OutputFeatures::from(true, true, false), OutputFeatures::PLAIN);
        assert_eq!(OutputFeatures::from(false, false, false), OutputFeatures::PLAIN);
    }
}
