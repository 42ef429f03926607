//! Lines of words that fit a width, with a margin.
//!
//! Widths are counted in cells of a screen: an ideograph has two, a combining mark none. This
//! module knows no Markdown.

use anstyle::Style;
use unicode_segmentation::UnicodeSegmentation as _;

use super::FAINT;
use crate::cells;

/// A part of a paragraph.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum WrapToken {
    Word(Vec<Span>),
    Space,
    Break,
}

/// Text of one style; in a word without white space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
}

/// The mark before a quoted line.
const QUOTE: &str = "│ ";

/// The fewest cells of a line that are for words, however deep a list is.
const LEAST: usize = 8;

/// Returns `true` if lines may be broken between two characters like `c`.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// A writer of lines.
#[derive(Debug)]
pub(super) struct Wrap {
    out: String,
    width: usize,
    /// The number of cells that the current line takes so far.
    column: usize,
    has_space: bool,
    quotes: usize,
    indent: usize,
    /// The text for the margin of the next line.
    marker: Option<String>,
}

impl Wrap {
    pub(super) fn new(width: usize) -> Self {
        let out = String::new();
        Self { out, width, column: 0, has_space: false, quotes: 0, indent: 0, marker: None }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    pub(super) fn set_margin(&mut self, quotes: usize, indent: usize) {
        self.quotes = quotes;
        self.indent = indent;
    }

    pub(super) fn set_marker(&mut self, marker: String) {
        // A nested list item on the same line has both markers before it.
        let outer = self.marker.take().unwrap_or_default();
        self.marker = Some(outer + &marker);
    }

    /// Returns the output that is ready.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    pub(super) fn is_mid_line(&self) -> bool {
        self.column > 0
    }

    /// Returns the number of cells of a line that are not margin.
    pub(super) fn room(&self) -> usize {
        self.width.saturating_sub(self.margin()).max(LEAST)
    }

    fn margin(&self) -> usize {
        self.quotes * cells::width(QUOTE) + self.indent
    }

    pub(super) fn space(&mut self) {
        self.has_space = self.column > self.margin();
    }

    pub(super) fn word(&mut self, spans: &[Span]) {
        let width: usize = spans.iter().map(|span| cells::width(&span.text)).sum();
        let end = self.margin() + self.room();
        let space = usize::from(self.has_space);
        if self.column > self.margin() && self.column + space + width > end {
            self.end_line();
        }
        self.begin_line();
        if std::mem::take(&mut self.has_space) {
            self.out.push(' ');
            self.column += 1;
        }
        // The terminal wraps an address, so that it can be followed.
        let is_whole = self.column + width <= end || spans.iter().any(|s| s.text.contains("://"));
        for Span { text, style } in spans {
            self.out.push_str(&style.render().to_string());
            if is_whole {
                self.out.push_str(text);
                self.column += cells::width(text);
            } else {
                self.graphemes(text, *style, end);
            }
            self.out.push_str(&style.render_reset().to_string());
        }
    }

    /// Breaks a word that is wider than a line.
    fn graphemes(&mut self, text: &str, style: Style, end: usize) {
        for grapheme in text.graphemes(true) {
            let width = cells::width(grapheme);
            if self.column + width > end && self.column > self.margin() {
                self.out.push_str(&style.render_reset().to_string());
                self.end_line();
                self.begin_line();
                self.out.push_str(&style.render().to_string());
            }
            self.out.push_str(grapheme);
            self.column += width;
        }
    }

    fn begin_line(&mut self) {
        if self.column > 0 {
            return;
        }
        self.has_space = false;
        self.quote_marks();
        let marker = self.marker.take().unwrap_or_default();
        let indent = self.indent.saturating_sub(cells::width(&marker));
        self.out.push_str(&" ".repeat(indent));
        self.out.push_str(&marker);
        self.column = self.margin();
    }

    fn quote_marks(&mut self) {
        if self.quotes > 0 {
            let marks = QUOTE.repeat(self.quotes);
            self.out.push_str(&format!("{FAINT}{marks}{FAINT:#}"));
        }
    }

    /// Ends the current line, if one was begun.
    pub(super) fn end_line(&mut self) {
        if self.marker.is_some() {
            self.begin_line();
        }
        if self.column > 0 {
            self.out.push('\n');
        }
        self.column = 0;
        self.has_space = false;
    }

    pub(super) fn blank_line(&mut self) {
        self.end_line();
        self.out.push('\n');
    }

    /// Writes a whole line of one style, never broken.
    pub(super) fn line(&mut self, indent: &str, text: &str, style: Style) {
        self.begin_verbatim(indent);
        self.out.push_str(&format!("{style}{text}{style:#}"));
        self.end_verbatim();
    }

    /// Writes a line that fits and carries its own styles.
    pub(super) fn raw_line(&mut self, line: &str) {
        self.begin_line();
        self.out.push_str(line);
        self.out.push('\n');
        self.column = 0;
    }

    pub(super) fn rule(&mut self, style: Style) {
        let rule = "─".repeat(self.room());
        self.raw_line(&format!("{style}{rule}{style:#}"));
    }

    /// Begins a line that is written unchanged, however long it is, so that it can be copied from
    /// the screen.
    pub(super) fn begin_verbatim(&mut self, indent: &str) {
        if self.marker.is_some() {
            self.end_line();
        }
        self.quote_marks();
        self.out.push_str(indent);
        self.column = 1;
    }

    pub(super) fn verbatim(&mut self, c: char) {
        self.out.push(c);
    }

    /// Writes parts of a line with their own styles, however long it is.
    pub(super) fn spans(&mut self, spans: &[Span]) {
        for Span { text, style } in spans {
            self.out.push_str(&format!("{style}{text}{style:#}"));
        }
    }

    pub(super) fn end_verbatim(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }
}
