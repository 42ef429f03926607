//! Markdown that arrives in arbitrary pieces, rendered for a terminal as it arrives.
//!
//! Output is only ever appended, so that scrollback stays whole and a resize cannot disturb it.
//! Each character is read once, in order, so that the same text gives the same bytes no matter how
//! it was cut. Undecided text is held back: a word until it ends, emphasis until it is closed or
//! cannot be closed, a line of a table until the table ends. The length of an undecided line and
//! the depth of nested blocks are bounded, since both cost time with every character.
//!
//! A line break of the source is a line break on the screen. This module recognises blocks line by
//! line; `pulldown-cmark` parses the inlines of complete text.

mod block;
mod code;
mod inline;
mod table;
mod wrap;

use anstyle::{AnsiColor, Style};

use self::block::{Fence, LineKind};
use self::code::CodeBlock;
use self::wrap::{Wrap, WrapToken};
use crate::sanitize::sanitize;

const HEADING: Style = Style::new().bold();
const TITLE: Style = HEADING.underline();
const CODE: Style = AnsiColor::Cyan.on_default();
const FAINT: Style = Style::new().dimmed();

/// The deepest nesting of lists. Deeper lists are shown at this depth. They would be unreadable,
/// and each level costs cells of every line.
const DEEPEST: usize = 16;

/// A renderer for one text after another.
#[derive(Debug)]
pub struct Markdown {
    wrap: Wrap,
    has_colours: bool,
    at: LinePosition,
    /// The beginning of a line whose kind is not decided yet.
    head: String,
    /// Inline text that is not written yet.
    segment: String,
    style: Style,
    /// `true` in a paragraph or a heading that further lines may belong to.
    is_open: bool,
    blank_before: bool,
    wrote_any: bool,
    quotes: usize,
    lists: Vec<ListLevel>,
    /// `true` if the current line has its list marker already.
    has_marker: bool,
    fence: Option<Fence>,
    /// The block of code, if it is coloured.
    code: Option<CodeBlock>,
    table: Vec<String>,
}

/// The position of the next character within a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LinePosition {
    Start,
    Inline,
    Heading,
    /// In a row of a possible table.
    Row,
    /// In a line that is written as it comes.
    Verbatim,
    /// In a line of code that is coloured as a whole.
    Code,
}

/// A list that contains the current line.
#[derive(Clone, Copy, Debug)]
struct ListLevel {
    /// The column of its markers in the source.
    indent: usize,
    /// The cells that its markers take on the screen.
    width: usize,
}

impl Markdown {
    /// Creates a renderer for lines of `width` cells. Without colours, code keeps the marks of its
    /// source.
    #[must_use]
    pub fn new(width: usize, has_colours: bool) -> Self {
        Self {
            wrap: Wrap::new(width),
            has_colours,
            at: LinePosition::Start,
            head: String::new(),
            segment: String::new(),
            style: Style::new(),
            is_open: false,
            blank_before: false,
            wrote_any: false,
            quotes: 0,
            lists: Vec::new(),
            has_marker: false,
            fence: None,
            code: None,
            table: Vec::new(),
        }
    }

    /// Changes the width for further lines.
    pub fn set_width(&mut self, width: usize) {
        self.wrap.set_width(width);
    }

    /// Takes the next piece and returns the output that is ready.
    pub fn push(&mut self, piece: &str) -> String {
        for c in sanitize(piece).chars() {
            self.take(c);
        }
        self.wrap.take()
    }

    /// Ends the text: writes the text that was held back, and moves the cursor to the start of a
    /// line. The next piece begins a new text.
    pub fn finish(&mut self) -> String {
        match self.at {
            LinePosition::Start if !self.head.is_empty() => self.begin(true),
            LinePosition::Row => self.end_row(),
            _ => {}
        }
        if self.at == LinePosition::Code {
            self.end_code_line();
        }
        self.end_paragraph();
        self.end_table();
        self.wrap.end_line();
        let written = self.wrap.take();
        *self = Self::new(self.wrap.width(), self.has_colours);
        written
    }

    /// Returns `true` if the output so far ends in the middle of a line.
    #[must_use]
    pub fn is_mid_line(&self) -> bool {
        self.wrap.is_mid_line()
    }

    fn take(&mut self, c: char) {
        match self.at {
            LinePosition::Start if c == '\n' => {
                self.begin(true);
                match self.at {
                    LinePosition::Start => {}
                    LinePosition::Row => self.end_row(),
                    LinePosition::Verbatim => self.end_verbatim(),
                    LinePosition::Code => self.end_code_line(),
                    LinePosition::Inline | LinePosition::Heading => self.end_inline_line(),
                }
            }
            LinePosition::Start => {
                self.head.push(c);
                self.begin(false);
            }
            LinePosition::Row if c == '\n' => self.end_row(),
            LinePosition::Row => self.head.push(c),
            LinePosition::Verbatim if c == '\n' => self.end_verbatim(),
            LinePosition::Verbatim => self.wrap.verbatim(c),
            LinePosition::Code if c == '\n' => self.end_code_line(),
            LinePosition::Code => self.code(c),
            LinePosition::Inline | LinePosition::Heading if c == '\n' => self.end_inline_line(),
            LinePosition::Inline | LinePosition::Heading => self.inline(c),
        }
    }

    /// Decides the kind of the line from its head, if it can. The head of a `complete` line is
    /// always enough. Afterwards the state is ready for the line's next character, or for the next
    /// line if this line was written completely.
    fn begin(&mut self, complete: bool) {
        if let Some(fence) = self.fence {
            return self.begin_in_fence(fence, complete);
        }
        let head = std::mem::take(&mut self.head);
        let Some((line, start)) = block::start(&head, complete, self.is_open, self.has_marker)
        else {
            self.head = head;
            return;
        };
        if !matches!(start, LineKind::Row) {
            self.end_table();
        }
        if line.quotes != self.quotes && !self.has_marker {
            self.end_paragraph();
            self.lists.clear();
            if !matches!(start, LineKind::Blank) || line.quotes > 0 {
                self.quotes = line.quotes;
            }
        }
        let rest = &head[line.rest..];
        match start {
            LineKind::Blank => self.blank(),
            LineKind::Text => self.text(line.indent, rest),
            LineKind::Heading { level, text } => self.heading(level, &rest[text..]),
            // At this depth a marker is text.
            LineKind::Item { .. } if self.has_marker && self.lists.len() >= DEEPEST => {
                self.text(line.indent, rest);
            }
            LineKind::Item { marker, text } => {
                self.item(line.indent, &rest[..marker], &rest[text..])
            }
            LineKind::Rule => {
                self.new_block();
                self.wrap.rule(FAINT);
            }
            LineKind::Row => {
                self.interrupt();
                // Models write tables right behind a list, with no blank line between them.
                if self.table.is_empty() && !self.has_marker {
                    self.leave_lists(line.indent);
                }
                self.head.push_str(rest);
                self.at = LinePosition::Row;
            }
            LineKind::Fence(fence) => {
                self.new_block();
                self.fence = Some(fence);
                let info = rest.trim_start_matches(['`', '~']);
                self.code = self.has_colours.then(|| CodeBlock::from_info(info)).flatten();
                self.wrap.line(&" ".repeat(line.indent), rest.trim_end(), FAINT);
            }
            LineKind::Verbatim => {
                self.new_block();
                self.at = LinePosition::Verbatim;
                self.wrap.begin_verbatim(&" ".repeat(line.indent));
                self.all_verbatim(rest);
            }
        }
    }

    fn begin_in_fence(&mut self, fence: Fence, complete: bool) {
        let head = std::mem::take(&mut self.head);
        match fence.closes(&head, self.quotes, complete) {
            None => self.head = head,
            Some(true) => {
                (self.fence, self.code) = (None, None);
                let line = block::without_quotes(&head, self.quotes);
                self.wrap.line("", line.trim_end(), FAINT);
            }
            Some(false) => {
                let line = block::without_quotes(&head, self.quotes);
                self.at =
                    if self.code.is_some() { LinePosition::Code } else { LinePosition::Verbatim };
                if self.at == LinePosition::Verbatim {
                    self.wrap.begin_verbatim("");
                }
                for c in line.chars() {
                    self.code(c);
                }
            }
        }
    }

    fn blank(&mut self) {
        self.end_paragraph();
        self.blank_before = true;
        self.has_marker = false;
    }

    fn text(&mut self, indent: usize, rest: &str) {
        if !self.is_open {
            if self.blank_before && !self.has_marker {
                self.leave_lists(indent);
            }
            self.new_block();
            self.is_open = true;
        }
        self.at = LinePosition::Inline;
        self.all_inline(rest);
    }

    /// Ends the lists that do not contain a line of this indentation.
    fn leave_lists(&mut self, indent: usize) {
        while self.lists.last().is_some_and(|level| indent <= level.indent) {
            self.lists.pop();
        }
    }

    fn heading(&mut self, level: usize, rest: &str) {
        if !self.has_marker {
            self.interrupt();
            self.lists.clear();
        }
        self.new_block();
        self.style = if level == 1 { TITLE } else { HEADING };
        self.at = LinePosition::Heading;
        self.all_inline(rest);
    }

    /// Begins a list item; the text after its marker is parsed as if it began a line.
    fn item(&mut self, indent: usize, marker: &str, rest: &str) {
        self.interrupt();
        // Texts indent one level of a list by 2, 3 or 4 columns, regardless of the marker's width.
        // A single column counts as a mistake.
        let indent = indent
            + if self.has_marker { self.lists.last().map_or(0, |l| l.indent + 2) } else { 0 };
        while self.lists.last().is_some_and(|level| indent <= level.indent + 1) {
            self.lists.pop();
        }
        self.lists.truncate(DEEPEST - 1);
        let shown = match marker {
            "-" | "*" | "+" => ["• ", "◦ ", "▪ "][self.lists.len().min(2)].to_owned(),
            number => format!("{number} "),
        };
        self.lists.push(ListLevel { indent, width: shown.chars().count() });
        self.new_block();
        self.wrap.set_marker(shown);
        self.has_marker = true;
        self.head.push_str(rest);
        if !self.head.is_empty() {
            self.begin(false);
        }
    }

    /// Begins a block that does not continue a paragraph: separates it and sets its margin.
    fn new_block(&mut self) {
        self.interrupt();
        if self.blank_before && self.wrote_any {
            self.wrap.blank_line();
        }
        self.blank_before = false;
        self.wrote_any = true;
        self.has_marker = false;
        let outer = self.lists.iter().map(|level| level.width).sum();
        self.wrap.set_margin(self.quotes, outer);
    }

    /// Ends the paragraph before this line. A line that has only its marker so far continues.
    fn interrupt(&mut self) {
        if !self.has_marker {
            self.end_paragraph();
        }
    }

    fn end_paragraph(&mut self) {
        while self.segment.ends_with(char::is_whitespace) {
            self.segment.pop();
        }
        self.flush();
        self.wrap.end_line();
        self.is_open = false;
        self.style = Style::new();
    }

    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        if rows.is_empty() {
            return;
        }
        self.new_block();
        match table::render(&rows, self.wrap.room()) {
            Some(lines) => {
                for line in lines {
                    self.wrap.raw_line(&line);
                }
            }
            None => {
                for row in rows {
                    self.segment = row;
                    self.flush();
                    self.wrap.end_line();
                }
            }
        }
    }

    fn all_inline(&mut self, text: &str) {
        for c in text.chars() {
            self.inline(c);
        }
    }

    fn all_verbatim(&mut self, text: &str) {
        for c in text.chars() {
            self.wrap.verbatim(c);
        }
    }

    /// Takes a character of a line of code.
    fn code(&mut self, c: char) {
        match self.code.as_mut().map(|code| code.push(c)) {
            None => self.wrap.verbatim(c),
            Some(true) => {}
            Some(false) => self.write_code_plainly(),
        }
    }

    /// Stops colouring a block of code: the rest of it is written unchanged.
    fn write_code_plainly(&mut self) {
        let Some(code) = self.code.take() else { return };
        self.at = LinePosition::Verbatim;
        self.wrap.begin_verbatim("");
        self.all_verbatim(&code.into_line());
    }

    fn end_code_line(&mut self) {
        match self.code.as_mut().and_then(CodeBlock::end_line) {
            Some(spans) => {
                self.wrap.begin_verbatim("");
                self.wrap.spans(&spans);
            }
            None => self.write_code_plainly(),
        }
        self.end_verbatim();
    }

    fn inline(&mut self, c: char) {
        let may_break = c.is_whitespace()
            || self.segment.ends_with(wrap::is_ideograph) && wrap::is_ideograph(c);
        if may_break && inline::is_settled(&self.segment) {
            self.flush();
        }
        self.segment.push(c);
    }

    fn end_inline_line(&mut self) {
        // A backslash at the end of a line is a hard break. Here every break is one.
        if self.segment.ends_with('\\') && !self.segment.ends_with("\\\\") {
            self.segment.pop();
        }
        if self.at == LinePosition::Heading {
            self.end_paragraph();
        } else if inline::is_settled(&self.segment) {
            self.flush();
            self.wrap.end_line();
        } else {
            self.segment.push('\n');
        }
        self.at = LinePosition::Start;
    }

    fn end_row(&mut self) {
        self.table.push(std::mem::take(&mut self.head));
        self.has_marker = false;
        self.at = LinePosition::Start;
    }

    fn end_verbatim(&mut self) {
        self.wrap.end_verbatim();
        self.at = LinePosition::Start;
    }

    /// Writes the inline text that was held.
    fn flush(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        for token in inline::tokens(&segment, self.style, self.has_colours) {
            match token {
                WrapToken::Space => self.wrap.space(),
                WrapToken::Break => self.wrap.end_line(),
                WrapToken::Word(spans) => self.wrap.word(&spans),
            }
        }
    }
}

#[cfg(test)]
#[path = "markdown/tests.rs"]
mod tests;
