//! The table of figures and targets, with the result of each comparison.
//!
//! The targets are those that docs/performance.md explains, each written here once. This module
//! measures nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::samples::{Figures, Spread};

/// One line of the table.
pub(crate) struct Row {
    what: String,
    target: Option<Target>,
    unit: Unit,
    today: Option<Spread>,
    /// The value at the physical limit.
    limit: Option<Spread>,
}

#[derive(Clone, Copy)]
enum Target {
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

use Target::{AtLeast, AtMost};
use Unit::{Count, KiB, MB, MiB, Micros, Millis, PerSecond, Times};

/// The values of a comparison.
enum From {
    /// One over the other.
    Ratio(&'static str, &'static str),
    /// One less the other.
    More(&'static str, &'static str),
    /// One by itself.
    Alone(&'static str),
}

use From::{Alone, More, Ratio};

/// `(text, figure, values, unit, target)` of a row.
type Line = (&'static str, &'static str, From, Unit, Option<Target>);

fn lines() -> Vec<Line> {
    vec![
        (
            "a spawn of the native `file_read`, in warm calls of the component (fresh instance, all limits)",
            "call_read",
            Ratio("spawn", "limited"),
            Times,
            Some(AtLeast(25.0)),
        ),
        (
            "the same for a tool that only echoes",
            "call_echo",
            Ratio("spawn", "limited"),
            Times,
            Some(AtLeast(25.0)),
        ),
        (
            "a spawn of a static musl build, in warm calls",
            "call_read",
            Ratio("musl", "limited"),
            Times,
            Some(AtLeast(7.0)),
        ),
        ("one warm call of `file_read`, all limits", "call_read", Alone("limited"), Micros, None),
        ("one spawn of the native `file_read`", "call_read", Alone("spawn"), Micros, None),
        (
            "all limits on, against none: a short call",
            "call_read",
            Ratio("limited", "bare"),
            Times,
            Some(AtMost(1.05)),
        ),
        (
            "all limits on, against none: a search",
            "limits_search",
            Ratio("limited", "bare"),
            Times,
            Some(AtMost(1.05)),
        ),
        (
            "throughput of 2 callers, against spawns",
            "throughput",
            Ratio("spawn", "host"),
            Times,
            Some(AtLeast(25.0)),
        ),
        (
            "1,000 calls in flight: memory of each",
            "in_flight_bytes",
            Alone("each"),
            KiB,
            Some(AtMost(100.0)),
        ),
        ("two callers, against one", "throughput", Ratio("one", "host"), Times, Some(AtLeast(1.8))),
        (
            "`Host::call` of `file_read` by one caller, all limits",
            "call_read",
            Alone("host"),
            Micros,
            Some(AtMost(45.0)),
        ),
        (
            "lookup, policy, thread, envelope, audit: above the call itself",
            "call_read",
            More("host", "limited"),
            Micros,
            Some(AtMost(25.0)),
        ),
        ("… on one processor", "call_pinned", More("host", "limited"), Micros, Some(AtMost(15.0))),
        (
            "wake-ups of a call of `file_read` by one caller",
            "call_read",
            Alone("host wake-ups"),
            Count,
            Some(AtMost(1.0)),
        ),
        (
            "… of each of 16 in flight",
            "call_busy",
            Alone("host wake-ups"),
            Count,
            // None: what is left over 16 × 40 calls is the beginning and the end.
            Some(AtMost(0.1)),
        ),
        (
            "`ikigai tool call`, warm cache, against the native tool by itself",
            "command",
            Ratio("call", "tool"),
            Times,
            Some(AtMost(3.0)),
        ),
        (
            "`ikigai tool call --backend native`, against the tool by itself",
            "command",
            Ratio("native call", "tool"),
            Times,
            Some(AtMost(4.0)),
        ),
        (
            "`ikigai tool run` of a component, all limits, against `wasmtime run` of compiled code",
            "wasmtime",
            Ratio("ikigai", "wasmtime"),
            Times,
            None,
        ),
        (
            "`ikigai tool list`, nothing changed, against `ikigai --version`",
            "list",
            Ratio("list", "version"),
            Times,
            Some(AtMost(2.0)),
        ),
        (
            "listing 100 unchanged components, against 100 native spawns",
            "discovery",
            Ratio("list", "spawns"),
            Times,
            Some(AtMost(0.2)),
        ),
        (
            "first compilation of a small tool",
            "compile",
            Alone("small"),
            Millis,
            Some(AtMost(200.0)),
        ),
        ("loading a compiled component", "load", Alone("load"), Micros, None),
        ("… of which checking that it is what was written", "load", Alone("check"), Micros, None),
        (
            "first answer of a new Python component",
            "python",
            Alone("first"),
            Millis,
            Some(AtMost(3000.0)),
        ),
        ("… its optimised code, after that", "python", Alone("optimised"), Millis, None),
        (
            "first use of a core module of 50 KB, in `tool run`",
            "module",
            Alone("first"),
            Millis,
            Some(AtMost(200.0)),
        ),
        ("… of the same once more", "module", Alone("second"), Millis, None),
        (
            "`tool fetch` of 20 MB from this machine, against `curl` and `sha256sum`",
            "fetch",
            Ratio("ikigai", "curl"),
            Times,
            Some(AtMost(1.3)),
        ),
        (
            "… memory, above that of a fetch of 1 KB",
            "fetch_bytes",
            More("large", "small"),
            MiB,
            Some(AtMost(16.0)),
        ),
        ("verifying a bundle of Sigstore", "sigstore", Alone("verify"), Millis, Some(AtMost(5.0))),
        (
            "… with reading the trusted root, as a command does",
            "sigstore",
            Alone("with root"),
            Millis,
            Some(AtMost(5.0)),
        ),
        (
            "the check of `require_signed`, in a call that is denied after it",
            "signed_check",
            More("required", "free"),
            Micros,
            Some(AtMost(1.0)),
        ),
        (
            "… processor time that it adds to a call through `mcp serve`",
            "signed",
            More("required", "free"),
            Micros,
            None,
        ),
        (
            "50 MB of JSON in and out, collected and checked",
            "large",
            Alone("host"),
            Millis,
            Some(AtMost(150.0)),
        ),
        (
            "50 MB in and out, from stream to stream",
            "large",
            Alone("streamed"),
            Millis,
            Some(AtMost(200.0)),
        ),
        ("… growth of the host, collected", "large_bytes", Alone("host"), MB, Some(AtMost(64.0))),
        (
            "… growth of the host, streamed",
            "large_bytes",
            Alone("streamed"),
            MB,
            Some(AtMost(20.0)),
        ),
        (
            "native call under its supervisor, above a plain spawn",
            "native",
            More("host", "spawn"),
            Millis,
            Some(AtMost(0.8)),
        ),
        (
            "native call in the full sandbox, above a plain spawn",
            "native",
            More("sandbox", "spawn"),
            Millis,
            Some(AtMost(2.0)),
        ),
        (
            "the same in a host that keeps two supervisors in reserve",
            "native",
            More("ready", "spawn"),
            Millis,
            Some(AtMost(1.0)),
        ),
        ("… without a sandbox", "native", More("ready, free", "spawn"), Millis, Some(AtMost(0.3))),
        (
            "wake-ups of a native call in the full sandbox, of threads of the host",
            "native",
            Alone("ready wake-ups"),
            Count,
            None,
        ),
        (
            "a native call without a sandbox, in a host of 512 MiB",
            "native_large_host",
            More("host", "spawn"),
            Millis,
            Some(AtMost(0.8)),
        ),
        (
            "the native `grep` over small files that is watched, against one that is not",
            "watched",
            Ratio("watched", "unwatched"),
            Times,
            None,
        ),
        (
            "the start of the supervisor, against `/bin/true`",
            "supervisor_start",
            Ratio("supervisor", "true"),
            Times,
            None,
        ),
        ("… its program", "supervisor_bytes", Alone("program"), MB, Some(AtMost(1.0))),
        (
            "`echo hi` in the shell that is a component, warm",
            "shell",
            Alone("component"),
            Millis,
            Some(AtMost(1.0)),
        ),
        (
            "a spawn of the native `bash` that does the same, in such calls",
            "shell",
            Ratio("spawn", "component"),
            Times,
            None,
        ),
        (
            "`file_read` of an asset of 10 KiB, against a file of the same text",
            "asset",
            Ratio("asset", "file"),
            Times,
            Some(AtMost(1.5)),
        ),
        ("… wake-ups of it", "asset", Alone("asset wake-ups"), Count, Some(AtMost(1.0))),
        (
            "listing 10,000 assets by prefix, SQLite",
            "assets_list",
            Alone("list"),
            Millis,
            Some(AtMost(10.0)),
        ),
        ("… wake-ups of it", "assets_list", Alone("list wake-ups"), Count, Some(AtMost(1.0))),
        (
            "listing 10,000 sessions, SQLite",
            "sessions_list",
            Alone("list"),
            Millis,
            Some(AtMost(50.0)),
        ),
        (
            "writing an asset of 10 KiB under a budget, SQLite, without syncing",
            "assets_write",
            Alone("write"),
            Millis,
            Some(AtMost(0.5)),
        ),
        // The task that waits has its commit made aside, where a thread may wait for the disk.
        ("… wake-ups of it", "assets_write", Alone("write wake-ups"), Count, None),
        (
            "wake-ups of `file_write` of an asset of 10 KiB",
            "asset",
            Alone("written wake-ups"),
            Count,
            Some(AtMost(1.0)),
        ),
        (
            "walking a tree from wasm, against native",
            "walk",
            Ratio("wasm", "native"),
            Times,
            Some(AtMost(4.5)),
        ),
        (
            "opening and reading small files from wasm, against native",
            "read",
            Ratio("wasm", "native"),
            Times,
            Some(AtMost(4.5)),
        ),
        (
            "peak memory of an idle host with six tools ready",
            "idle_bytes",
            Alone("host"),
            MB,
            Some(AtMost(30.0)),
        ),
        (
            "`file_read` through `mcp serve`, 16 in flight: each",
            "mcp_busy",
            Alone("ikigai"),
            Micros,
            Some(AtMost(50.0)),
        ),
        ("… an echo by the protocol's library alone", "mcp_busy", Alone("rmcp"), Micros, None),
        ("… an echo by a plain server in Python", "mcp_busy", Alone("python"), Micros, None),
        ("… an echo by a plain server for Node.js", "mcp_busy", Alone("node"), Micros, None),
        (
            "`file_read` through `mcp serve`, one at a time: above `Host::call`",
            "mcp_one",
            More("ikigai", "host"),
            Micros,
            Some(AtMost(40.0)),
        ),
        ("… an echo by the protocol's library alone", "mcp_one", Alone("rmcp"), Micros, None),
        ("… an echo by a plain server in Python", "mcp_one", Alone("python"), Micros, None),
        ("… an echo by a plain server for Node.js", "mcp_one", Alone("node"), Micros, None),
        (
            "`file_read` through `mcp serve --http`, one connection: each",
            "mcp_http",
            Alone("ikigai"),
            Micros,
            Some(AtMost(250.0)),
        ),
        (
            "an echo of a server through `mcp serve`: above the server's own answer",
            "mcp_server",
            More("ikigai", "server"),
            Micros,
            Some(AtMost(150.0)),
        ),
        ("… the server's own answer", "mcp_server", Alone("server"), Micros, None),
        (
            "start of `mcp serve` to its first list of tools",
            "mcp_start",
            Alone("ikigai"),
            Millis,
            Some(AtMost(60.0)),
        ),
        ("… with 20 servers defined", "mcp_start", Alone("servers"), Millis, Some(AtMost(60.0))),
        (
            "memory of a call through `mcp serve` with 16 MiB of small values, for each byte",
            "mcp_large",
            Alone("ikigai"),
            Times,
            Some(AtMost(3.0)),
        ),
        ("… of 4 MiB in the library alone", "mcp_large", Alone("rmcp values"), Times, None),
        (
            "… of one text of 4 MiB in the library alone",
            "mcp_large",
            Alone("rmcp text"),
            Times,
            None,
        ),
        (
            "fuel in a second: a loop of arithmetic",
            "fuel_per_second",
            Alone("loop"),
            PerSecond,
            None,
        ),
        ("fuel in a second: ordinary code", "fuel_per_second", Alone("ordinary"), PerSecond, None),
        ("fuel in a second: a search", "fuel_per_second", Alone("search"), PerSecond, None),
    ]
}

/// The patterns for which the packed searchers of the native build have no equivalent in wasm.
const NO_WASM_FORM: [&str; 2] = ["alternation", "case-insensitive"];

/// Returns the whole table.
pub(crate) fn rows(figures: &Figures) -> Vec<Row> {
    let mut rows: Vec<Row> = lines().into_iter().map(|line| row(figures, line)).collect();
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

/// Returns the values of the figure `limits` that nobody gets past in a row: a process, an instance or a
/// hand-over that does nothing. A ratio to the same without ikigai has none: it is 1 at best, and a
/// difference to it 0.
fn limit(figure: &str, from: &From) -> Option<From> {
    match (figure, from) {
        ("call_read" | "call_echo" | "throughput", Ratio("spawn", _)) => {
            Some(Ratio("spawn", "instance"))
        }
        ("call_read" | "call_pinned" | "mcp_one", More(..)) | ("mcp_server", _) => {
            Some(Alone("pipe"))
        }
        ("call_read", Alone("spawn"))
        | ("python", Alone("first"))
        | ("module" | "mcp_start", _) => Some(Alone("spawn")),
        ("call_read", Alone("limited" | "host"))
        | ("shell", Alone(_))
        | ("mcp_busy" | "mcp_http", Alone("ikigai")) => Some(Alone("instance")),
        _ => None,
    }
}

fn values(figures: &Figures, figure: &str, from: &From, unit: Unit) -> Option<Spread> {
    let samples = figures.get(figure)?;
    let spread = match *from {
        Ratio(one, other) => Spread::pairs(samples, (one, other), |one, other| one / other),
        More(one, other) => Spread::pairs(samples, (one, other), |one, other| one - other),
        Alone(name) => Spread::single(samples, name),
    };
    spread.map(|spread| spread.in_unit(unit))
}

fn row(figures: &Figures, (what, figure, from, unit, target): Line) -> Row {
    let today = values(figures, figure, &from, unit);
    let is_count = matches!(from, Alone(name) if name.ends_with("wake-ups"));
    let limit = limit(figure, &from).filter(|_| !is_count);
    let limit = limit.and_then(|limit| values(figures, "limits", &limit, unit));
    Row { what: what.to_owned(), target, unit, today, limit }
}

fn search(
    figures: &Figures,
    figure: &str,
    name: &str,
    pair: (&str, &str),
    against: &str,
    most: f64,
) -> Row {
    let samples = figures.get(&format!("{figure} {name}"));
    let build = if figure == "grep_wasm" { "component" } else { "native" };
    Row {
        what: format!("`grep`, {build}, {name}: against {against}"),
        target: Some(AtMost(most)),
        unit: Times,
        today: samples.and_then(|it| Spread::pairs(it, pair, |one, other| one / other)),
        limit: None,
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

impl Target {
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

impl Row {
    fn verdict(&self) -> &'static str {
        match (self.target, self.today) {
            (_, None) => "not measured",
            (None, _) => "",
            (Some(target), Some(today)) if target.is_met(today.median) => "met",
            _ => "missed",
        }
    }
}

/// Formats the table as Markdown, with a list of the missed targets.
pub(crate) fn text(rows: &[Row]) -> String {
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
    let missed: Vec<&Row> = rows.iter().filter(|row| row.verdict() == "missed").collect();
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
pub(crate) fn json(machine: &str, rows: &[Row], figures: &Figures) -> Value {
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
