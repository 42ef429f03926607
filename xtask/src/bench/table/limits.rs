//! The value that a row would have if ikigai took no time.

use super::lines::RowValue::{self, Alone, More, Ratio};
use super::values;
use crate::bench::samples::{Figures, Spread};

/// Returns the value that a row would have if ikigai took no time, measured in the same run. It is
/// the value of a process, an instance or a hand-over that does nothing, or the one that was
/// measured as `limit` with the figure itself. A ratio to the same work without ikigai is 1 at
/// best, a difference to it is 0, and a call wakes one thread.
pub(super) fn limit(figures: &Figures, figure: &str, from: &RowValue) -> Option<Spread> {
    let measured = |from| values(figures, "limits", &from);
    match (figure, from) {
        // A call that waits in a queue needs no wake-up, and SQLite answers on the thread that
        // asks.
        ("call_busy" | "throughput", Alone("host wake-ups"))
        | ("mcp_busy", Alone("ikigai wake-ups"))
        | ("assets_list", Alone("list wake-ups")) => Some(Spread::exactly(0.0)),
        (_, Alone(name)) if name.ends_with("wake-ups") => Some(Spread::exactly(1.0)),
        ("call_read" | "call_echo" | "throughput", Ratio("spawn", _)) => {
            measured(Ratio("spawn", "instance"))
        }
        ("call_read" | "mcp_one", More(..)) | ("mcp_server", _) => measured(Alone("pipe")),
        ("call_pinned", More(..)) => values(figures, "limits_pinned", &Alone("pipe")),
        // Another process does the compiling.
        ("call_read", Alone("spawn")) | ("compile" | "python" | "module" | "mcp_start", _) => {
            measured(Alone("spawn"))
        }
        ("mcp_one", Alone(_)) => measured(Alone("pipe")),
        ("call_read", Alone("limited" | "host"))
        | ("shell", Alone(_))
        | ("mcp_busy", Alone("ikigai"))
        | ("mcp_http", Alone("ikigai" | "session")) => measured(Alone("instance")),
        ("mcp_busy", Alone(_)) => measured(Alone("no wait")),
        // The memory must contain the sent bytes once.
        ("mcp_large", _) => Some(Spread::exactly(1.0)),
        ("large_bytes", Alone("streamed")) => Some(Spread::exactly(0.0)),
        ("fuel_per_second", Alone(name)) => {
            Spread::single(figures.get(figure)?, &format!("{name} limit"))
        }
        ("fetch", Ratio(_, other)) => values(figures, figure, &Ratio("limit", other)),
        // A process that does nothing, instead of the whole command.
        ("command" | "list" | "discovery" | "wasmtime", Ratio(_, other)) => {
            let spawn = measured(Alone("spawn"))?;
            let other = values(figures, figure, &Alone(other))?;
            Some(Spread::exactly(spawn.median / other.median))
        }
        // The other process, compared with an instance that does nothing.
        ("call_read", Ratio(process @ "musl", _)) | ("shell", Ratio(process, _)) => {
            let process = values(figures, figure, &Alone(process))?;
            Some(Spread::exactly(process.median / measured(Alone("instance"))?.median))
        }
        // The component without the host, so that two callers share nothing that they could contend
        // for.
        ("throughput", Ratio("one", _)) => {
            values(figures, figure, &Ratio("one limit", "host limit"))
        }
        (_, Ratio(..)) => Some(Spread::exactly(1.0)),
        (_, More(..)) => Some(Spread::exactly(0.0)),
        (_, Alone(_)) => values(figures, figure, &Alone("limit")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::super::{rows, without_limit};
    use super::*;
    use crate::bench::PATTERNS;
    use crate::bench::samples::Samples;

    #[test]
    fn a_command_is_one_process_at_best_and_a_comparison_with_the_same_is_one() {
        let of = |values: &[(&str, f64)]| -> Samples {
            values.iter().map(|(name, value)| ((*name).to_owned(), vec![*value])).collect()
        };
        let figures = Figures::from([
            ("limits".to_owned(), of(&[("spawn", 500.0), ("instance", 10.0), ("pipe", 5.0)])),
            ("command".to_owned(), of(&[("call", 4000.0), ("tool", 1000.0)])),
        ]);
        let median = |figure: &str, from| limit(&figures, figure, &from).map(|it| it.median);
        assert_eq!(median("command", Ratio("call", "tool")), Some(0.5));
        assert_eq!(median("call_read", Ratio("spawn", "limited")), Some(50.0));
        assert_eq!(median("call_read", Ratio("limited", "bare")), Some(1.0));
        assert_eq!(median("mcp_one", More("ikigai", "host")), Some(5.0));
        assert_eq!(median("native", More("sandbox", "spawn")), Some(0.0));
        assert_eq!(median("call_read", Alone("host wake-ups")), Some(1.0));
    }

    #[test]
    fn every_row_of_a_full_run_has_a_limit() {
        let measured = |names: &[&str]| -> Samples {
            names.iter().map(|name| ((*name).to_owned(), vec![1.0])).collect()
        };
        let mut figures = Figures::new();
        for (_, figure, from, ..) in lines() {
            let names = match from {
                Ratio(one, other) | More(one, other) => vec![one, other],
                Alone(name) => vec![name],
            };
            figures.entry(figure.to_owned()).or_default().extend(measured(&names));
        }
        for (figure, names) in [
            ("limits", &["spawn", "instance", "pipe", "no wait"][..]),
            ("limits_pinned", &["pipe"]),
            ("in_flight_bytes", &["limit"]),
            ("load", &["limit"]),
            ("throughput", &["one limit", "host limit"]),
            ("sigstore", &["limit"]),
            ("large", &["limit"]),
            ("large_bytes", &["limit"]),
            ("supervisor_bytes", &["limit"]),
            ("assets_list", &["limit"]),
            ("assets_write", &["limit"]),
            ("sessions_list", &["limit"]),
            ("idle_bytes", &["limit"]),
            ("fuel_per_second", &["loop limit", "ordinary limit", "search limit"]),
            ("fetch", &["limit"]),
        ] {
            figures.entry(figure.to_owned()).or_default().extend(measured(names));
        }
        for (name, _) in PATTERNS {
            figures.insert(format!("grep_rg {name}"), measured(&["grep", "rg", "limit"]));
            figures.insert(format!("grep_wasm {name}"), measured(&["wasm", "native"]));
        }
        let full = rows(&figures);
        for row in &full {
            assert!(row.today.is_some(), "not measured: {}", row.what);
        }
        assert_eq!(without_limit(&full).collect::<Vec<_>>(), [""; 0]);
        figures.remove("limits");
        assert!(without_limit(&rows(&figures)).count() > 0, "it is told where one is left out");
    }
}
