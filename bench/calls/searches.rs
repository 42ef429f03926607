//! Walking, opening and searching files: components against the native builds on one processor.

use std::path::Path;

use anyhow::ensure;
use bytes::Bytes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::rig::{self, Rig};
use crate::samples::{Samples, in_turn};

/// Measures walking a tree of small files, and reading all of them.
pub(crate) fn small_files(rig: &Rig) -> anyhow::Result<[Samples; 2]> {
    let tree = rig.small_tree();
    let walk = compare(rig, "glob", &tree, r#"{"pattern":"**"}"#)?;
    let read = compare(rig, "grep", &tree, &grep("this_is_nowhere_in_it"))?;
    Ok([walk, read])
}

/// Measures searching the corpus for each pattern.
pub(crate) fn patterns(rig: &Rig) -> anyhow::Result<Vec<(String, Samples)>> {
    let corpus = rig.corpus();
    let measured = |(name, pattern): (String, String)| {
        Ok((name, compare(rig, "grep", &corpus, &grep(&pattern))?))
    };
    rig.patterns()?.into_iter().map(measured).collect()
}

pub(crate) fn grep(pattern: &str) -> String {
    format!(r#"{{"pattern":"{pattern}","path":".","glob":"**/*"}}"#)
}

/// Measures one call by the component and by the native build, which must answer the same.
fn compare(rig: &Rig, tool: &str, tree: &Path, arguments: &str) -> anyhow::Result<Samples> {
    let runtime = rig::runtime()?;
    let component = rig.compile(&rig.tool(&format!("{tool}.wasm")), 4)?;
    let native = rig.tool(tool);
    let input = Bytes::from(arguments.to_owned());
    let _one_processor = Pinned::new()?;
    let wasm = || runtime.block_on(rig::run(&component, rig::call(tree, &[], &input)));
    let spawn = || rig::spawn(&native, tree, &input);
    // The native build goes first, because it also brings the files into memory, however long that
    // takes.
    let (theirs, ours) = (spawn()?, wasm()?.stdout.bytes);
    ensure!(ours == theirs, "`{tool}` {arguments} answers otherwise as a component");
    in_turn(
        rig.rounds(200),
        &mut [("wasm", 1, &mut || wasm().map(drop)), ("native", 1, &mut || spawn().map(drop))],
    )
}

/// A binding of this thread, and the processes that it starts, to one processor: a native build
/// uses as many threads as there are processors for it.
struct Pinned(CpuSet);

impl Pinned {
    fn new() -> anyhow::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap_or(0);
        one.set(first);
        sched_setaffinity(None, &one)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A failure leaves later figures on one processor, which shows in them.
        let _ = sched_setaffinity(None, &self.0);
    }
}
