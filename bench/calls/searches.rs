//! Walking and searching files: components against the native builds on one processor.

use std::path::Path;

use anyhow::ensure;
use bytes::Bytes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::rig::{self, Rig};
use crate::sampling::{Samples, in_turn, micros};

/// Measures walking a tree of small files.
pub(crate) fn walk(rig: &Rig) -> anyhow::Result<Samples> {
    compare(rig, "glob", &rig.small_tree(), r#"{"pattern":"**"}"#)
}

/// Measures searching the corpus for each pattern.
pub(crate) fn patterns(rig: &Rig) -> anyhow::Result<Vec<(String, Samples)>> {
    let corpus = rig.corpus();
    let measured = |(name, pattern): (String, String)| {
        let arguments = format!(r#"{{"pattern":"{pattern}","path":".","glob":"**/*"}}"#);
        Ok((name, compare(rig, "grep", &corpus, &arguments)?))
    };
    rig.patterns()?.into_iter().map(measured).collect()
}

/// Measures one call by the component and by the native build, which must answer the same.
fn compare(rig: &Rig, tool: &str, tree: &Path, arguments: &str) -> anyhow::Result<Samples> {
    let runtime = rig::runtime()?;
    let component = rig.compile(&rig.tool(&format!("{tool}.wasm")), 4)?;
    let native = rig.tool(tool);
    let input = Bytes::from(arguments.to_owned());
    let _one_processor = Pinned::new()?;
    let wasm = || runtime.block_on(rig::run(&component, rig::call(tree, &input)));
    let spawn = || rig::spawn(&native, tree, &input);
    // The native build is first: it also brings the files into memory, however long that takes.
    let (theirs, ours) = (spawn()?, wasm()?.stdout.bytes);
    ensure!(ours == theirs, "`{tool}` {arguments} answers otherwise as a component");
    in_turn(
        rig.rounds(200),
        &mut [
            ("wasm", &mut || micros(1, || wasm().map(drop))),
            ("native", &mut || micros(1, || spawn().map(drop))),
        ],
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
