//! The description of this machine and of its other load.

use std::fs;
use std::thread;

use crate::run::{self, note};

/// Returns one line for the table.
pub(crate) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim())
        .to_owned();
    let kernel = read("/proc/sys/kernel/osrelease");
    let date = run::output(std::process::Command::new("date").args(["-u", "+%F"]));
    format!(
        "{model}, {} cores, Linux {}, {}",
        cores(),
        kernel.trim(),
        date.unwrap_or_default().trim()
    )
}

/// Prints a warning if other programs use the processors so much that the figures would show it.
pub(crate) fn warn_if_busy() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok());
    if let Some(load) = load.filter(|load| *load > cores() as f64 / 2.0) {
        note(&format!("the load of this machine is {load}: ratios suffer least, times do"));
    }
}

/// Returns the number of processors that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
