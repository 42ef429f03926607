//! How much memory this process takes, and how much a host that does nothing.

use std::process::Command;

use anyhow::Context as _;

use crate::rig::{self, Rig};

/// Bytes of memory of this process now.
pub(crate) fn resident() -> anyhow::Result<u64> {
    status("VmRSS:")
}

/// The most bytes that were ever resident, since [`forget_peak`].
pub(crate) fn peak() -> anyhow::Result<u64> {
    status("VmHWM:")
}

/// Makes the present size the peak (proc(5), `clear_refs`).
pub(crate) fn forget_peak() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak of memory cannot be reset")
}

fn status(field: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).context("no such field")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Prints the peak of a process that found the six tools and made each of them
/// ready to be called.
pub(crate) fn print_idle(rig: &Rig) -> anyhow::Result<()> {
    rig::runtime()?.block_on(async {
        let host = rig.host(&rig.small_tree()).build()?;
        let snapshot = host.refresh().await;
        for tool in snapshot.tools() {
            tool.build.program().await?;
        }
        println!("{} {} {}", peak()?, resident()?, snapshot.tools().len());
        // What is given back at the end is not of interest.
        std::mem::forget(host);
        Ok(())
    })
}

/// The peak of such a process, in bytes.
pub(crate) fn idle_peak() -> anyhow::Result<f64> {
    let output = Command::new(std::env::current_exe()?).arg("--idle").output()?;
    let text = String::from_utf8(output.stdout)?;
    let peak = text.split_whitespace().next().context("the idle host printed nothing")?;
    Ok(peak.parse()?)
}
