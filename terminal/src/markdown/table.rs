//! Tables: cells of Markdown, laid out for a width.

use anstyle::Style;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::inline;
use super::wrap::WrapToken;

/// The most columns of a table. More columns would be unreadable, and laying them out takes long.
const MOST: usize = 100;

/// Returns the lines of the table in `rows`, or `None` if they are not a table. The second row of a
/// table gives the alignment of its columns.
pub(super) fn render(rows: &[String], width: usize) -> Option<Vec<String>> {
    let (header, rest) = rows.split_first()?;
    let (alignments, body) = rest.split_first()?;
    let alignments: Vec<_> =
        cells(alignments).iter().map(|cell| alignment(cell)).collect::<Option<_>>()?;
    if alignments.len() > MOST {
        return None;
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let shown = |row: &String| {
        let cells = cells(row).into_iter().map(|cell| text(&cell));
        cells.take(alignments.len()).collect::<Vec<_>>()
    };
    table.set_header(shown(header));
    for row in body {
        table.add_row(shown(row));
    }
    for (column, alignment) in table.column_iter_mut().zip(&alignments) {
        column.set_cell_alignment(*alignment);
    }
    Some(table.lines().map(|line| line.trim_end().to_owned()).collect())
}

/// Returns the cells of a row, which pipes separate; an escaped pipe is text.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in row.chars() {
        let is_end = c == '|' && !escaped;
        escaped = c == '\\' && !escaped;
        match cells.last_mut() {
            Some(cell) if !is_end => {
                if c == '|' {
                    cell.pop();
                }
                cell.push(c);
            }
            _ => cells.push(String::new()),
        }
    }
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells
}

fn alignment(cell: &str) -> Option<CellAlignment> {
    let cell = cell.trim();
    let dashes = cell.trim_start_matches(':').trim_end_matches(':');
    if dashes.is_empty() || !dashes.chars().all(|c| c == '-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => CellAlignment::Center,
        (false, true) => CellAlignment::Right,
        _ => CellAlignment::Left,
    })
}

/// Returns a cell's text, without styles, which would count as width.
fn text(cell: &str) -> String {
    let tokens = inline::tokens(cell.trim(), Style::new(), true).into_iter();
    let text: String = tokens
        .map(|token| match token {
            WrapToken::Word(spans) => spans.into_iter().map(|span| span.text).collect(),
            WrapToken::Space | WrapToken::Break => " ".to_owned(),
        })
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("<br>", "\n")
}
