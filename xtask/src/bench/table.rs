//! The table of figures and targets, with the result of each comparison.
//!
//! Each target is written here once; docs/performance.md shows the rows that matter most to a user.
//! This module measures nothing.

mod limits;
mod lines;

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::samples::{Figures, Spread};

/// One line of the table.
pub(crate) struct ReportRow {
    what: String,
    target: Option<TargetValue>,
    unit: Unit,
    today: Option<Spread>,
    /// The value at the physical limit.
    limit: Option<Spread>,
}

#[derive(Clone, Copy)]
enum TargetValue {
    AtMost(f64),
    AtLeast(f64),
}

/// The format of a value.
#[derive(Clone, Copy)]
enum Unit {
    Times,
    Micros,
    Millis,
    KiB,
    MiB,
    MB,
    PerSecond,
    Count,
}

use TargetValue::{AtLeast, AtMost};
use Unit::{Count, KiB, MB, MiB, Micros, Millis, PerSecond, Times};
use limits::limit;
use lines::{
    RowDefinition,
    RowValue::{self, Alone, More, Ratio},
    lines,
};

/// The patterns for which the packed searchers of the native build have no equivalent in wasm.
const NO_WASM_FORM: [&str; 2] = ["alternation", "case-insensitive"];

/// Returns the whole table.
pub(crate) fn rows(figures: &Figures) -> Vec<ReportRow> {
    let mut rows: Vec<ReportRow> = lines().into_iter().map(|line| row(figures, line)).collect();
    for (name, _) in super::PATTERNS {
        rows.push(search(figures, "grep_rg", name, ("grep", "rg"), "ripgrep, equal threads", 1.1));
    }
    for (name, _) in super::PATTERNS {
        let most = if NO_WASM_FORM.contains(&name) { 3.0 } else { 1.8 };
        let against = "the native build on one thread";
        rows.push(search(figures, "grep_wasm", name, ("wasm", "native"), against, most));
    }
    rows
}

fn values(figures: &Figures, figure: &str, from: &RowValue) -> Option<Spread> {
    let samples = figures.get(figure)?;
    match *from {
        Ratio(one, other) => Spread::pairs(samples, (one, other), |one, other| one / other),
        More(one, other) => Spread::pairs(samples, (one, other), |one, other| one - other),
        Alone(name) => Spread::single(samples, name),
    }
}

fn row(figures: &Figures, (what, figure, from, unit, target): RowDefinition) -> ReportRow {
    let today = values(figures, figure, &from).map(|today| today.in_unit(unit));
    let limit = limit(figures, figure, &from).map(|limit| limit.in_unit(unit));
    ReportRow { what: what.to_owned(), target, unit, today, limit }
}

fn search(
    figures: &Figures,
    figure: &str,
    name: &str,
    pair: (&str, &str),
    against: &str,
    most: f64,
) -> ReportRow {
    let samples = figures.get(&format!("{figure} {name}"));
    let is_wasm = figure == "grep_wasm";
    let build = if is_wasm { "component" } else { "native" };
    ReportRow {
        what: format!("`grep`, {build}, {name}: against {against}"),
        target: Some(AtMost(most)),
        unit: Times,
        today: samples.and_then(|it| Spread::pairs(it, pair, |one, other| one / other)),
        limit: match is_wasm {
            true => Some(Spread::exactly(1.0)),
            // ripgrep is not a limit, because `grep` can be faster.
            false => samples
                .and_then(|it| Spread::pairs(it, ("limit", pair.1), |one, other| one / other)),
        },
    }
}

impl Spread {
    /// Converts microseconds, bytes or another measured unit.
    fn in_unit(self, unit: Unit) -> Self {
        let scale = match unit {
            Times | Micros | Count => 1.0,
            Millis => 1e-3,
            KiB => 1.0 / 1024.0,
            MiB => 1.0 / 1024.0 / 1024.0,
            MB => 1e-6,
            PerSecond => 1e-9,
        };
        Self { low: self.low * scale, median: self.median * scale, high: self.high * scale }
    }
}

impl Unit {
    fn write(self, value: f64) -> String {
        let digits = match value.abs() {
            10.0.. => 0,
            3.0.. => 1,
            _ => 2,
        };
        let number = format!("{value:.digits$}");
        match self {
            Times => format!("{number} ×"),
            Micros => format!("{number} µs"),
            Millis => format!("{number} ms"),
            KiB => format!("{number} KiB"),
            MiB => format!("{number} MiB"),
            MB => format!("{number} MB"),
            PerSecond => format!("{number} · 10⁹"),
            Count => number,
        }
    }
}

impl TargetValue {
    fn is_met(self, value: f64) -> bool {
        match self {
            AtMost(most) => value <= most,
            AtLeast(least) => value >= least,
        }
    }

    fn write(self, unit: Unit) -> String {
        let written = |value: f64| {
            // 1.05 is a target; 1.80 is written as 1.8, and 1.00 as 1.
            let text = unit.write(value);
            let Some((whole, rest)) = text.split_once('.') else { return text };
            let (digits, unit) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            match digits.trim_end_matches('0') {
                "" => format!("{whole}{unit}"),
                digits => format!("{whole}.{digits}{unit}"),
            }
        };
        match self {
            AtMost(most) => format!("≤ {}", written(most)),
            AtLeast(least) => format!("≥ {}", written(least)),
        }
    }
}

impl ReportRow {
    fn verdict(&self) -> &'static str {
        match (self.target, self.today) {
            (_, None) => "not measured",
            (None, _) => "",
            (Some(target), Some(today)) if target.is_met(today.median) => "met",
            _ => "missed",
        }
    }
}

/// Returns the measured rows whose limit was not measured.
pub(crate) fn without_limit(rows: &[ReportRow]) -> impl Iterator<Item = &str> {
    rows.iter()
        .filter(|row| row.today.is_some() && row.limit.is_none())
        .map(|row| row.what.as_str())
}

/// Formats the table as Markdown, with a list of the missed targets.
pub(crate) fn text(rows: &[ReportRow]) -> String {
    let header = ["what", "target", "today", "middle half", "limit", ""].map(str::to_owned);
    let mut cells = vec![header];
    for row in rows {
        let write = |value: f64| row.unit.write(value);
        cells.push([
            row.what.clone(),
            row.target.map_or_else(String::new, |target| target.write(row.unit)),
            row.today.map_or_else(|| "–".to_owned(), |today| write(today.median)),
            row.today
                .map_or_else(String::new, |it| format!("{} – {}", write(it.low), write(it.high))),
            row.limit.map_or_else(String::new, |limit| write(limit.median)),
            row.verdict().to_owned(),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 6] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for (index, row) in cells.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    let missed: Vec<&ReportRow> = rows.iter().filter(|row| row.verdict() == "missed").collect();
    if missed.is_empty() {
        text.push_str("\nEvery target that was measured is met.\n");
        return text;
    }
    text.push_str("\nMissed:\n");
    for row in missed {
        let (Some(target), Some(today)) = (row.target, row.today) else { continue };
        let (today, target) = (row.unit.write(today.median), target.write(row.unit));
        let _ = writeln!(text, "- {}: {today}, not {target}", row.what);
    }
    text
}

/// Formats everything as JSON for a program.
pub(crate) fn json(machine: &str, rows: &[ReportRow], figures: &Figures) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "what": row.what,
            "target": row.target.map(|target| target.write(row.unit)),
            "median": row.today.map(|today| today.median),
            "quartiles": row.today.map(|today| [today.low, today.high]),
            "today": row.today.map(|today| row.unit.write(today.median)),
            "limit": row.limit.map(|limit| row.unit.write(limit.median)),
            "verdict": row.verdict(),
        })
    });
    json!({ "machine": machine, "rows": rows.collect::<Vec<_>>(), "samples": figures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples::Samples;

    #[test]
    fn what_is_missed_is_said_and_what_is_not_measured_is_no_miss() {
        let samples = |limited: f64| {
            Samples::from([
                ("spawn".to_owned(), vec![600.0]),
                ("limited".to_owned(), vec![limited]),
                ("bare".to_owned(), vec![limited]),
                ("host".to_owned(), vec![limited + 5.0]),
            ])
        };
        let slow = text(&rows(&Figures::from([("call_read".to_owned(), samples(60.0))])));
        assert!(slow.contains("Missed:\n- a spawn of the native `file_read`"), "{slow}");
        assert!(slow.contains("10 ×, not ≥ 25 ×"), "{slow}");
        let fast = text(&rows(&Figures::from([("call_read".to_owned(), samples(20.0))])));
        assert!(fast.contains("Every target that was measured is met."), "{fast}");
        assert!(fast.contains("not measured"), "{fast}");
    }
}
