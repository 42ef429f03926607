//! Limits of four times the recorded costs of a tool, as round values.

use std::time::Duration;

use ikigai_host::front_end::Costs;
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::{Backend, NewKey, NewValue};

/// The factor between the peak and the limit.
const ROOM: u64 = 4;

/// The shortest time limit, since a loaded machine is slower.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// The smallest memory limit in bytes, since an allocator takes more than it needs.
const LEAST_MEMORY: u64 = 16 << 20;

/// The smallest fuel limit.
const LEAST_FUEL: u64 = 1_000_000;

/// The round numbers of seconds for time limits.
const SECONDS: &[u64] = &[1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600];

/// Returns the keys for limits of four times the peaks. Leaves out a limit that would not be below
/// the default.
pub(super) fn from_costs(costs: Costs, backend: Backend) -> Vec<NewKey> {
    let defaults = CallLimits::default();
    let mut keys = Vec::new();
    let time = (costs.duration * 4).max(LEAST_TIME);
    let seconds = SECONDS.iter().find(|seconds| Duration::from_secs(**seconds) >= time);
    if let Some(seconds) = seconds.filter(|it| Duration::from_secs(**it) < defaults.wall_clock) {
        keys.push(("limits.wall_clock".to_owned(), NewValue::Word(format!("{seconds}s"))));
    }
    if let Some(fuel) = costs.fuel.filter(|_| backend == Backend::Wasm) {
        let fuel = rounded_up(fuel.saturating_mul(ROOM).max(LEAST_FUEL));
        if fuel < defaults.fuel {
            keys.push(("limits.fuel".to_owned(), NewValue::Number(fuel)));
        }
    }
    if let Some(memory) = costs.peak_memory {
        let memory = memory.saturating_mul(ROOM).max(LEAST_MEMORY);
        let memory = memory.checked_next_power_of_two().unwrap_or(u64::MAX);
        let default = match backend {
            Backend::Wasm => defaults.wasm_memory,
            Backend::Native | Backend::Mcp => defaults.native_memory,
        };
        if memory < default {
            let mebibytes = memory >> 20;
            keys.push(("limits.memory".to_owned(), NewValue::Word(format!("{mebibytes}MiB"))));
        }
    }
    keys
}

/// Rounds up to the next of 1, 2, 5, 10, 20, 50 and so on.
fn rounded_up(number: u64) -> u64 {
    let mut unit: u64 = 1;
    loop {
        for step in [1, 2, 5] {
            match unit.checked_mul(step) {
                Some(round) if round >= number => return round,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        unit = match unit.checked_mul(10) {
            Some(unit) => unit,
            None => return u64::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use ikigai_host::policy::{LimitKey, parse_limit};

    use super::*;

    fn texts(costs: Costs, backend: Backend) -> Vec<String> {
        let text = |(key, value): &NewKey| match value {
            NewValue::Word(word) => format!("{key}={word}"),
            NewValue::Number(number) => format!("{key}={number}"),
            other => panic!("{other:?}"),
        };
        from_costs(costs, backend).iter().map(text).collect()
    }

    fn costs(milliseconds: u64, fuel: Option<u64>, peak_memory: Option<u64>) -> Costs {
        let duration = Duration::from_millis(milliseconds);
        Costs { duration, fuel, peak_memory, ..Costs::default() }
    }

    #[test]
    fn limits_leave_four_times_the_peak_and_are_readable() {
        assert_eq!(
            texts(costs(600, Some(30_000_000), Some(9 << 20)), Backend::Wasm),
            ["limits.wall_clock=5s", "limits.fuel=200000000", "limits.memory=64MiB"]
        );
        assert_eq!(
            texts(costs(1, Some(5), Some(1)), Backend::Wasm),
            ["limits.wall_clock=1s", "limits.fuel=1000000", "limits.memory=16MiB"]
        );
        assert_eq!(
            texts(costs(2_000, None, Some(600 << 20)), Backend::Native),
            ["limits.wall_clock=10s"]
        );
    }

    #[test]
    fn no_limit_is_above_the_default() {
        assert!(texts(costs(9_000, Some(u64::MAX), Some(u64::MAX)), Backend::Wasm).is_empty());
        let defaults = CallLimits::default();
        for exponent in 0..63 {
            let one = costs(1 << (exponent % 40), Some(1 << exponent), Some(1 << exponent));
            for (key, value) in from_costs(one, Backend::Wasm) {
                let name: LimitKey = key["limits.".len()..].parse().expect("a limit");
                let value = match value {
                    NewValue::Word(word) => parse_limit(name, &word).expect("a value"),
                    NewValue::Number(number) => number,
                    other => panic!("{other:?}"),
                };
                let most = match name {
                    LimitKey::WallClock => 30_000_000_000,
                    LimitKey::Fuel => defaults.fuel,
                    _ => defaults.wasm_memory,
                };
                assert!(value < most, "{key} {value}");
            }
        }
    }
}
