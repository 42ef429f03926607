//! Criterion's groups: the same calls as in the table, one by one, with history.

use std::hint::black_box;

use bytes::Bytes;
use criterion::Criterion;
use tokio_util::sync::CancellationToken;

use crate::bare::{Bare, With};
use crate::rig::{self, Rig, SMALL_FILE};

#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark without its inputs ends")]
pub(crate) fn run(rig: &Rig) {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = rig::runtime().expect("a runtime");
    let tree = rig.small_tree();
    let input = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let bytes = rig::read(&rig.tool("file-read.wasm")).expect("`cargo xtask bench` lays it out");

    let mut group = criterion.benchmark_group("file_read");
    for (name, with) in [("bare", With::NoLimits), ("bare, limited", With::Limits)] {
        let bare = Bare::new(&bytes, with).expect("compiles");
        group.bench_function(name, |bencher| {
            bencher.iter(|| runtime.block_on(bare.call(&tree, &input)).unwrap());
        });
    }
    let component = rig.compile(&rig.tool("file-read.wasm"), rig::GUESTS).expect("compiles");
    group.bench_function("executor", |bencher| {
        bencher.iter(|| {
            runtime.block_on(rig::run(&component, rig::call(&tree, &[], &input))).unwrap()
        });
    });
    let host = rig.host(&tree).build().expect("no policy file is read");
    let snapshot = runtime.block_on(host.refresh());
    group.bench_function("host", |bencher| {
        bencher.iter(|| {
            let call = host.call(&snapshot, "file_read", input.clone(), CancellationToken::new());
            black_box(runtime.block_on(call))
        });
    });
    group.bench_function("spawn", |bencher| {
        bencher.iter(|| rig::spawn(&rig.tool("file-read"), &tree, &input).unwrap());
    });
    group.finish();

    criterion.bench_function("scan, nothing changed", |bencher| {
        bencher.iter(|| {
            let host = rig.host(&tree).build().expect("no policy file is read");
            black_box(runtime.block_on(host.refresh()))
        });
    });
    criterion.final_summary();
}
