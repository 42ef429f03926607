//! The Markdown of the reference pages.

use std::fmt::Write as _;

/// A table. Its empty columns are left out.
pub(super) struct MarkdownTable<const N: usize> {
    titles: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> MarkdownTable<N> {
    pub(super) fn new(titles: [&'static str; N]) -> Self {
        Self { titles, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Returns the table and an empty line. Returns an empty text for a table without rows.
    pub(super) fn render(&self) -> String {
        let is_used = |column: &usize| self.rows.iter().any(|row| !row[*column].is_empty());
        let columns: Vec<usize> = (0..N).filter(is_used).collect();
        if columns.is_empty() {
            return String::new();
        }
        let mut text = line(columns.iter().map(|column| self.titles[*column]));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "|{}", "---|".repeat(columns.len()));
        for row in &self.rows {
            text += &line(columns.iter().map(|column| row[*column].as_str()));
        }
        text.push('\n');
        text
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<&str> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the paragraphs of a text as the content of a cell.
pub(super) fn cell(paragraphs: &[String]) -> String {
    let paragraphs: Vec<String> = paragraphs.iter().map(|text| one_line(&escaped(text))).collect();
    paragraphs.join("<br>").replace('|', "\\|")
}

/// Returns a word of code as the content of a cell. Returns an empty text for an empty word.
pub(super) fn code_cell(word: &str) -> String {
    if word.is_empty() { String::new() } else { code(word).replace('|', "\\|") }
}

/// Returns a word as code.
pub(super) fn code(word: &str) -> String {
    format!("`{word}`")
}

/// Returns a text on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text in which the characters of HTML and of emphasis are escaped, except in code.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for c in text.chars() {
        match c {
            '`' => is_code = !is_code,
            '<' | '*' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_column_is_left_out() {
        let mut table = MarkdownTable::new(["a", "b", "c"]);
        assert_eq!(table.render(), "");
        table.add(["1".to_owned(), String::new(), "2".to_owned()]);
        table.add([cell(&["x | *".to_owned(), "`<\n*`".to_owned()]), String::new(), String::new()]);
        let expected = "| a | c |\n|---|---|\n| 1 | 2 |\n| x \\| \\*<br>`< *` |  |\n\n";
        assert_eq!(table.render(), expected);
    }
}
