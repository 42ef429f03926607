//! The memory of a host that does nothing.

use std::process::Command;

use anyhow::Context as _;

use crate::rig::{self, Rig};
use crate::sampling::Samples;

/// Returns the peak of resident memory of this process, in bytes.
fn peak() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
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
        println!("{}", peak()?);
        // Dropping the host would take time and change nothing here.
        std::mem::forget(host);
        Ok(())
    })
}

/// Prints the peak of a process that does nothing.
pub(crate) fn print_nothing() -> anyhow::Result<()> {
    println!("{}", peak()?);
    Ok(())
}

/// Returns the peak memory of a process [with a host](print_idle) and of a process
/// [without a host](print_nothing), in bytes.
pub(crate) fn idle_peak() -> anyhow::Result<Samples> {
    let peak = |mode: &str| {
        let output = Command::new(std::env::current_exe()?).arg(mode).output()?;
        let text = String::from_utf8(output.stdout)?;
        anyhow::Ok(vec![text.trim().parse()?])
    };
    Ok([("host".to_owned(), peak("--idle")?), ("nothing".to_owned(), peak("--nothing")?)].into())
}
