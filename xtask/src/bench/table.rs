//! The table: the rows with their targets, limits and peers, and the results of a run.
//!
//! Each row answers the question of a user above it. docs/reference/performance.md has the same
//! rows. This module measures nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::ShownValue::{Absolute, Added, Ratio};
use self::Unit::{MB, Micros, Millis, Times};
use super::samples::{Figures, Spread};

/// A row of the table.
struct BenchRow {
    what: &'static str,
    /// The figure, and in it the names of the samples of ikigai and of the peer.
    samples: (&'static str, &'static str, &'static str),
    shown: ShownValue,
    /// The target for the median: at most this.
    target: f64,
    limit: RowLimit,
    /// The description of the peer.
    peer: &'static str,
}

/// The value of a row.
#[derive(Clone, Copy)]
enum ShownValue {
    /// ikigai divided by the peer.
    Ratio,
    /// ikigai less the peer.
    Added(Unit),
    /// ikigai without the peer.
    Absolute(Unit),
}

/// The format of a value.
#[derive(Clone, Copy)]
enum Unit {
    Times,
    Micros,
    Millis,
    MB,
}

/// The value that a row would have if ikigai took no time.
#[derive(Clone, Copy)]
enum RowLimit {
    /// That of the peer.
    Peer,
    /// That of a sample, by its figure and its name.
    Sample(&'static str, &'static str),
}

/// A process that does nothing.
const PROCESS: RowLimit = RowLimit::Sample("limits", "spawn");
/// A component that does nothing.
const INSTANCE: RowLimit = RowLimit::Sample("limits", "instance");
/// A byte that goes to a thread and comes back.
const PIPE: RowLimit = RowLimit::Sample("limits", "pipe");

const ROWS: &[BenchRow] = &[
    // How long does a call of a component take?
    BenchRow {
        what: "`file_read`, one caller, all limits",
        samples: ("call_read", "host", "spawn"),
        shown: Absolute(Micros),
        target: 45.0,
        limit: INSTANCE,
        peer: "a process for the native `file_read`",
    },
    // What does the sandbox add to a native tool?
    BenchRow {
        what: "native `file_read` in the full sandbox: added to a process",
        samples: ("native", "sandbox", "spawn"),
        shown: Added(Millis),
        target: 2.0,
        limit: RowLimit::Peer,
        peer: "a process for the same tool",
    },
    // And in a program that lives on?
    BenchRow {
        what: "native `file_read` in a conversation or `mcp serve`: added to a process",
        samples: ("native", "ready", "spawn"),
        shown: Added(Millis),
        target: 1.0,
        limit: RowLimit::Peer,
        peer: "a process for the same tool",
    },
    // What does a call cost in a script?
    BenchRow {
        what: "`ikigai tool call`, everything cached",
        samples: ("command", "call", "tool"),
        shown: Ratio,
        target: 3.0,
        limit: PROCESS,
        peer: "the native tool as a process",
    },
    // And if the tool is native?
    BenchRow {
        what: "`ikigai tool call --backend native`",
        samples: ("command", "native call", "tool"),
        shown: Ratio,
        target: 4.0,
        limit: PROCESS,
        peer: "the native tool as a process",
    },
    // How long does it take to start, and to find the tools?
    BenchRow {
        what: "`ikigai tool list` if nothing changed",
        samples: ("list", "list", "version"),
        shown: Ratio,
        target: 2.0,
        limit: PROCESS,
        peer: "`ikigai --version`",
    },
    // How long is the first call of a large component?
    BenchRow {
        what: "first answer of a new component that contains Python",
        samples: ("python", "first", "optimised"),
        shown: Absolute(Millis),
        target: 3000.0,
        limit: PROCESS,
        peer: "the optimised code, after the first answer",
    },
    // What does MCP add to a call?
    BenchRow {
        what: "`file_read` through `mcp serve`, one at a time: added to the call",
        samples: ("mcp_one", "ikigai", "host"),
        shown: Added(Micros),
        target: 40.0,
        limit: PIPE,
        peer: "`file_read`, one caller",
    },
    // How many calls per second does a server answer?
    BenchRow {
        what: "`file_read` through `mcp serve`, 16 at once: each",
        samples: ("mcp_busy", "ikigai", "node"),
        shown: Absolute(Micros),
        target: 50.0,
        limit: INSTANCE,
        peer: "an echo of a plain Node.js server",
    },
    // And over HTTP?
    BenchRow {
        what: "`file_read` over HTTP, one connection: each",
        samples: ("mcp_http", "ikigai", "stdio"),
        shown: Absolute(Micros),
        target: 250.0,
        limit: INSTANCE,
        peer: "over stdin and stdout",
    },
    // Is a search as fast as with the tool that I know?
    BenchRow {
        what: "native `grep` for a literal",
        samples: ("grep_rg literal", "grep", "rg"),
        shown: Ratio,
        target: 1.1,
        limit: RowLimit::Sample("grep_rg literal", "limit"),
        peer: "ripgrep with the same number of threads",
    },
    BenchRow {
        what: "native `grep` for alternatives",
        samples: ("grep_rg alternation", "grep", "rg"),
        shown: Ratio,
        target: 1.1,
        limit: RowLimit::Sample("grep_rg alternation", "limit"),
        peer: "ripgrep with the same number of threads",
    },
    // How much memory does a host take that does nothing?
    BenchRow {
        what: "memory of an idle host with six tools ready",
        samples: ("idle_bytes", "host", "nothing"),
        shown: Absolute(MB),
        target: 30.0,
        limit: RowLimit::Peer,
        peer: "a process that does nothing",
    },
];

/// A row with the values of a run, in its unit.
pub(crate) struct Measured {
    row: &'static BenchRow,
    today: Option<Spread>,
    /// The median at the limit.
    limit: Option<f64>,
    /// The median of the peer.
    peer: Option<f64>,
}

/// Returns the whole table.
pub(crate) fn rows(figures: &Figures) -> Vec<Measured> {
    ROWS.iter().map(|row| row.measured(figures)).collect()
}

impl BenchRow {
    fn measured(&'static self, figures: &Figures) -> Measured {
        let (figure, ours, peer) = self.samples;
        let median =
            |figure: &str, name: &str| Some(Spread::single(figures.get(figure)?, name)?.median);
        let today = figures.get(figure).and_then(|samples| match self.shown {
            Ratio => Spread::pairs(samples, (ours, peer), |ours, peer| ours / peer),
            Added(_) => Spread::pairs(samples, (ours, peer), |ours, peer| ours - peer),
            Absolute(_) => Spread::single(samples, ours),
        });
        let peer = median(figure, peer);
        let limit = match (self.limit, self.shown) {
            (RowLimit::Peer, Ratio) => Some(1.0),
            (RowLimit::Peer, Added(_)) => Some(0.0),
            (RowLimit::Peer, Absolute(_)) => peer,
            (RowLimit::Sample(figure, name), Ratio) => {
                median(figure, name).zip(peer).map(|(limit, peer)| limit / peer)
            }
            (RowLimit::Sample(figure, name), _) => median(figure, name),
        };
        let scale = self.unit().scale();
        Measured {
            row: self,
            today: today.map(|today| today.times(scale)),
            limit: limit.map(|limit| limit * scale),
            peer: peer.map(|peer| peer * scale),
        }
    }

    fn unit(&self) -> Unit {
        match self.shown {
            Ratio => Times,
            Added(unit) | Absolute(unit) => unit,
        }
    }

    fn target(&self) -> String {
        format!("≤ {} {}", self.target, self.unit().symbol())
    }
}

impl Unit {
    /// Returns the factor from microseconds, bytes or ratios.
    fn scale(self) -> f64 {
        match self {
            Times | Micros => 1.0,
            Millis => 1e-3,
            MB => 1e-6,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Times => "×",
            Micros => "µs",
            Millis => "ms",
            MB => "MB",
        }
    }

    fn write(self, value: f64) -> String {
        let digits = match value.abs() {
            10.0.. => 0,
            3.0.. => 1,
            _ => 2,
        };
        format!("{value:.digits$} {}", self.symbol())
    }
}

impl Measured {
    fn verdict(&self) -> &'static str {
        match self.today {
            None => "not measured",
            Some(today) if today.median <= self.row.target => "met",
            Some(_) => "missed",
        }
    }

    /// Returns the peer with its value, which a ratio has in it already.
    fn peer(&self) -> String {
        let name = self.row.peer;
        match (self.row.shown, self.peer) {
            (Ratio, _) | (_, None) => name.to_owned(),
            (_, Some(peer)) => format!("{name}: {}", self.row.unit().write(peer)),
        }
    }

    fn cells(&self) -> [String; 7] {
        let write = |value: f64| self.row.unit().write(value);
        [
            self.row.what.to_owned(),
            self.today.map_or_else(|| "–".to_owned(), |today| write(today.median)),
            self.today
                .map_or_else(String::new, |it| format!("{} – {}", write(it.low), write(it.high))),
            self.row.target(),
            self.limit.map_or_else(String::new, write),
            self.peer(),
            self.verdict().to_owned(),
        ]
    }
}

/// Formats the table as Markdown.
pub(crate) fn text(rows: &[Measured]) -> String {
    let header = ["what", "today", "middle half", "target", "limit", "peer", ""];
    let mut cells = vec![header.map(str::to_owned)];
    cells.extend(rows.iter().map(Measured::cells));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 7] = std::array::from_fn(|column| width(column).unwrap_or(0));
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
    text
}

/// Formats everything as JSON for a program.
pub(crate) fn json(machine: &str, rows: &[Measured], figures: &Figures) -> Value {
    let rows = rows.iter().map(|it| {
        json!({
            "what": it.row.what,
            "target": it.row.target(),
            "median": it.today.map(|today| today.median),
            "quartiles": it.today.map(|today| [today.low, today.high]),
            "today": it.today.map(|today| it.row.unit().write(today.median)),
            "limit": it.limit.map(|limit| it.row.unit().write(limit)),
            "peer": it.peer(),
            "verdict": it.verdict(),
        })
    });
    json!({ "machine": machine, "rows": rows.collect::<Vec<_>>(), "samples": figures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sampling::Samples;

    fn figures(of: &[(&str, &[(&str, f64)])]) -> Figures {
        let samples = |values: &[(&str, f64)]| -> Samples {
            values.iter().map(|(name, value)| ((*name).to_owned(), vec![*value])).collect()
        };
        of.iter().map(|(figure, values)| ((*figure).to_owned(), samples(values))).collect()
    }

    #[test]
    fn a_row_has_its_value_its_limit_and_its_peer() {
        let measured = rows(&figures(&[
            ("limits", &[("spawn", 500.0), ("instance", 10.0), ("pipe", 5.0)]),
            ("call_read", &[("host", 60.0), ("spawn", 600.0)]),
            ("native", &[("sandbox", 3000.0), ("ready", 1500.0), ("spawn", 1000.0)]),
            ("command", &[("call", 2000.0), ("native call", 5000.0), ("tool", 1000.0)]),
        ]));
        let of = |what: &str| {
            let row = measured.iter().find(|it| it.row.what.starts_with(what)).expect("a row");
            let [_, today, _, target, limit, peer, verdict] = row.cells();
            [today, target, limit, peer, verdict]
        };
        let peer = "a process for the native `file_read`: 600 µs";
        assert_eq!(of("`file_read`, one caller"), ["60 µs", "≤ 45 µs", "10 µs", peer, "missed"]);
        let peer = "a process for the same tool: 1.00 ms";
        assert_eq!(of("native `file_read`"), ["2.00 ms", "≤ 2 ms", "0.00 ms", peer, "met"]);
        let peer = "the native tool as a process";
        assert_eq!(of("`ikigai tool call`"), ["2.00 ×", "≤ 3 ×", "0.50 ×", peer, "met"]);
        let peer = "a process that does nothing";
        assert_eq!(of("memory of an idle"), ["–", "≤ 30 MB", "", peer, "not measured"]);
    }

    #[test]
    fn the_page_has_the_same_rows() {
        let page = include_str!("../../../docs/reference/performance.md");
        let cells = page.lines().filter_map(|line| {
            let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
            Some(line.split(" | ").collect::<Vec<_>>())
        });
        let shown: Vec<Vec<&str>> = cells.skip_while(|cells| cells[0] == "what").collect();
        let names: Vec<&str> = shown.iter().map(|cells| cells[0]).collect();
        assert_eq!(names, ROWS.iter().map(|row| row.what).collect::<Vec<_>>());
        for (cells, row) in shown.iter().zip(ROWS) {
            let [_, _, target, _, peer] = cells[..] else { panic!("five columns: {cells:?}") };
            assert!(target.starts_with(&row.target()), "{}: {target}", row.what);
            assert!(peer.starts_with(row.peer), "{}: {peer}", row.what);
        }
    }
}
