//! The value that a row would have if ikigai took no time.

use super::lines::From::{self, Alone, More, Ratio};
use super::values;
use crate::bench::samples::{Figures, Spread};

/// Returns the value of a row that nobody gets past: that of a process, an instance or a hand-over that does
/// nothing, measured in the same run. A ratio to the same without ikigai is 1 at best, a difference to it 0, and
/// a call wakes one thread. Nothing is returned for a size or a rate, and for work that ikigai leaves to others.
pub(super) fn limit(figures: &Figures, figure: &str, from: &From) -> Option<Spread> {
    let measured = |from| values(figures, "limits", &from);
    match (figure, from) {
        // One that waits in a queue is woken by nobody.
        ("call_busy", Alone("host wake-ups")) => Some(Spread::exactly(0.0)),
        (_, Alone(name)) if name.ends_with("wake-ups") => Some(Spread::exactly(1.0)),
        ("call_read" | "call_echo" | "throughput", Ratio("spawn", _)) => {
            measured(Ratio("spawn", "instance"))
        }
        ("call_read" | "call_pinned" | "mcp_one", More(..)) | ("mcp_server", _) => {
            measured(Alone("pipe"))
        }
        // Another process compiles.
        ("call_read", Alone("spawn")) | ("compile" | "python" | "module" | "mcp_start", _) => {
            measured(Alone("spawn"))
        }
        ("mcp_one", Alone(_)) => measured(Alone("pipe")),
        ("call_read", Alone("limited" | "host"))
        | ("shell" | "large", Alone(_))
        | ("mcp_busy" | "mcp_http", Alone("ikigai")) => measured(Alone("instance")),
        // One process that does nothing, in the place of the whole command.
        ("command" | "list" | "discovery" | "wasmtime" | "fetch", Ratio(_, other)) => {
            let spawn = measured(Alone("spawn"))?;
            let other = values(figures, figure, &Alone(other))?;
            Some(Spread::exactly(spawn.median / other.median))
        }
        // Another process against an instance that does nothing.
        ("call_read", Ratio(process @ "musl", _)) | ("shell", Ratio(process, _)) => {
            let process = values(figures, figure, &Alone(process))?;
            Some(Spread::exactly(process.median / measured(Alone("instance"))?.median))
        }
        ("throughput", Ratio("one", _)) => Some(Spread::exactly(2.0)),
        (_, Ratio(..)) => Some(Spread::exactly(1.0)),
        (_, More(..)) => Some(Spread::exactly(0.0)),
        (_, Alone(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(median("idle_bytes", Alone("host")), None);
    }
}
