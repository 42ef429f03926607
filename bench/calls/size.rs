//! The memory of this process, and of a host that does nothing.

use std::process::Command;

use anyhow::Context as _;

use crate::rig::{self, Rig};

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> anyhow::Result<u64> {
    status("VmRSS:")
}

/// Returns the peak of resident memory since [`forget_peak`], in bytes.
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

/// Prints the peak of a process that found the six tools and made each of them ready to be called.
pub(crate) fn print_idle(rig: &Rig) -> anyhow::Result<()> {
    rig::runtime()?.block_on(async {
        let host = rig.host(&rig.small_tree()).build()?;
        let snapshot = host.refresh().await;
        for tool in snapshot.tools() {
            tool.build.program().await?;
        }
        println!("{} {} {}", peak()?, resident()?, snapshot.tools().len());
        // Dropping the host would take time and change nothing here.
        std::mem::forget(host);
        Ok(())
    })
}

/// Returns the peak of such a process, in bytes.
pub(crate) fn idle_peak() -> anyhow::Result<f64> {
    let output = Command::new(std::env::current_exe()?).arg("--idle").output()?;
    let text = String::from_utf8(output.stdout)?;
    let peak = text.split_whitespace().next().context("the idle host printed nothing")?;
    Ok(peak.parse()?)
}
