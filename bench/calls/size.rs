//! The memory of this process, and of a host that does nothing.

use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread;

use anyhow::Context as _;

use crate::rig::{self, Rig};
use crate::samples::Samples;

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

/// Prints the peak of a process that does nothing.
pub(crate) fn print_nothing() -> anyhow::Result<()> {
    println!("{}", peak()?);
    Ok(())
}

/// Returns the peaks of a process [with a host](print_idle) and of a process [without
/// one](print_nothing), in bytes.
pub(crate) fn idle_peak() -> anyhow::Result<Samples> {
    let peak = |mode: &str| {
        let output = Command::new(std::env::current_exe()?).arg(mode).output()?;
        let text = String::from_utf8(output.stdout)?;
        let peak = text.split_whitespace().next().context("the process printed nothing")?;
        anyhow::Ok(vec![peak.parse()?])
    };
    Ok([("host".to_owned(), peak("--idle")?), ("limit".to_owned(), peak("--nothing")?)].into())
}

/// Returns the resident memory of each of many threads that wait, in bytes.
pub(crate) fn of_threads(count: u32) -> anyhow::Result<f64> {
    let gate = Mutex::new(());
    let (begin, begun) = mpsc::channel();
    thread::scope(|scope| {
        // If anything below fails, the gate opens, and the threads end.
        let closed = gate.lock();
        let before = resident()?;
        for _ in 0..count {
            let (begin, gate) = (begin.clone(), &gate);
            thread::Builder::new().spawn_scoped(scope, move || {
                // The receiver lives in this function until all threads have ended.
                let _ = begin.send(());
                drop(gate.lock());
            })?;
        }
        for _ in 0..count {
            begun.recv()?;
        }
        let more = resident()?.saturating_sub(before);
        drop(closed);
        Ok(more as f64 / f64::from(count))
    })
}
