//! What the terminal of this process can show, and how large it is.
//!
//! Read once, at the start; only the size is asked again.

use std::io::IsTerminal;

use anstyle::Style;

/// What can be shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Look {
    /// Lines can be replaced and text has styles: Markdown is rendered, spinners turn, menus
    /// open. Otherwise text comes as it came.
    pub live: bool,
    /// Styles have colours.
    pub coloured: bool,
}

impl Look {
    /// For a file, a pipe or a terminal that cannot move its cursor.
    pub const PLAIN: Self = Self { live: false, coloured: false };
    /// For a terminal that can do everything.
    pub const FULL: Self = Self { live: true, coloured: true };

    /// What `stream` can show, with regard to `TERM` and `NO_COLOR` of this process
    /// (<https://no-color.org>: set, and not empty; it takes colours away and nothing else).
    #[must_use]
    pub fn of(stream: &impl IsTerminal) -> Self {
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

    /// `style`, as far as it can be shown.
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

/// Columns and rows of a terminal, both at least 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Cells in a row.
    pub columns: usize,
    /// Rows on the screen.
    pub rows: usize,
}

impl Size {
    /// What is assumed of a terminal that does not say.
    pub const USUAL: Self = Self { columns: 80, rows: 24 };

    /// The size of this process's terminal now. A serial line says that it has no
    /// columns; it gets the usual ones.
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
        assert_eq!(Look::from(true, false, false), Look::FULL);
        assert_eq!(Look::from(true, false, true), Look { live: true, coloured: false });
        assert_eq!(Look::from(true, true, false), Look::PLAIN);
        assert_eq!(Look::from(false, false, false), Look::PLAIN);
    }
}
