//! The fixtures of `asset_access`: a store in memory, one that never answers, and calls of tools by
//! both executors.

use std::collections::BTreeMap;
use std::fs;
use std::future::{pending, ready};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ikigai_host::exec::assets::{
    AssetCaller, AssetEntry, AssetFuture, AssetHandle, AssetListing, AssetStore, Window,
};
use ikigai_host::exec::native::{NativeProgram, Supervisor};
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::wasm::Runtime as Components;
use ikigai_host::exec::{Call, Executor, Outcome, Stdin};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::{AssetAccess, Grant, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use ikigai_tests::wait::TIMEOUT;
use ikigai_tools::fake::{MemoryAsset, MemoryAssets};
use ikigai_tools::ports::{Assets as _, LineWindow};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Returns the assets that a store has at the beginning of a case.
pub(crate) fn assets() -> MemoryAssets {
    let asset = |content: &[u8], read_only| MemoryAsset { content: content.to_vec(), read_only };
    let assets = [
        ("blocks/decisions.md", asset(b"one\ntwo\n\ntwo", false)),
        ("blocks/empty.md", asset(b"", false)),
        ("blocks/law.md", asset(b"fixed\n", true)),
        ("blocks/odd.md", asset(b"a\xff\xc3\xa9\"\\\x01\n", false)),
    ];
    let assets: BTreeMap<_, _> =
        assets.into_iter().map(|(path, it)| (path.to_owned(), it)).collect();
    MemoryAssets::new(assets, 1000)
}

/// A store in memory that records its callers.
pub(crate) struct Store {
    pub(crate) assets: MemoryAssets,
    pub(crate) callers: Mutex<Vec<AssetCaller>>,
}

impl Store {
    pub(crate) fn new() -> Arc<Self> {
        Self::holding(assets())
    }

    pub(crate) fn holding(assets: MemoryAssets) -> Arc<Self> {
        Arc::new(Self { assets, callers: Mutex::default() })
    }

    /// Returns the number of operations.
    pub(crate) fn asked(&self) -> usize {
        self.callers.lock().expect("no panic while held").len()
    }

    /// Returns the content of an asset.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        let found = self.assets.list(path);
        found.into_iter().find(|(name, _)| name == path).map(|(_, asset)| asset.content)
    }

    fn note(&self, caller: &AssetCaller) {
        self.callers.lock().expect("no panic while held").push(caller.clone());
    }
}

impl AssetStore for Store {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn read<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        window: Window,
    ) -> AssetFuture<'a, Bytes> {
        self.note(caller);
        let checked = self.assets.read(uri, LineWindow::ALL);
        let stored = uri.trim_start_matches("ikigai://").trim_start_matches('/');
        let content = self.content(stored).unwrap_or_default();
        Box::pin(ready(checked.map(|_| Bytes::copy_from_slice(window.cut(&content)))))
    }

    fn write<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        content: &'a str,
    ) -> AssetFuture<'a, ()> {
        self.note(caller);
        Box::pin(ready(self.assets.write(uri, content)))
    }

    fn edit<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> AssetFuture<'a, u64> {
        self.note(caller);
        Box::pin(ready(self.assets.edit(uri, old, new, all)))
    }

    fn list<'a>(
        &'a self,
        caller: &'a AssetCaller,
        prefix: &'a str,
    ) -> AssetFuture<'a, AssetListing> {
        self.note(caller);
        let entry = |(path, it): (String, MemoryAsset)| AssetEntry {
            path,
            tokens: it.content.len().div_ceil(4) as u64,
            read_only: it.read_only,
        };
        let entries = self.assets.list(prefix).into_iter().map(entry).collect();
        Box::pin(ready(Ok(AssetListing { entries, more: false })))
    }
}

/// A store that never answers.
pub(crate) struct Silent;

impl AssetStore for Silent {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn read<'a>(&'a self, _: &'a AssetCaller, _: &'a str, _: Window) -> AssetFuture<'a, Bytes> {
        Box::pin(pending())
    }

    fn write<'a>(&'a self, _: &'a AssetCaller, _: &'a str, _: &'a str) -> AssetFuture<'a, ()> {
        Box::pin(pending())
    }

    fn edit<'a>(
        &'a self,
        _: &'a AssetCaller,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: bool,
    ) -> AssetFuture<'a, u64> {
        Box::pin(pending())
    }

    fn list<'a>(&'a self, _: &'a AssetCaller, _: &'a str) -> AssetFuture<'a, AssetListing> {
        Box::pin(pending())
    }
}

/// The build of a tool that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Component,
    /// The native build, in the sandbox or without it.
    Native(Sandbox),
}

impl Build {
    pub(crate) const ALL: [Self; 3] =
        [Self::Component, Self::Native(Sandbox::Require), Self::Native(Sandbox::Off)];
}

/// Both executors over one store, in their own workspace.
pub(crate) struct Rig {
    scratch: TempDir,
    components: Arc<Components>,
    store: Option<Arc<dyn AssetStore>>,
    runtime: Option<Runtime>,
}

impl Rig {
    pub(crate) fn new(store: Option<Arc<dyn AssetStore>>) -> Self {
        let scratch = TempDir::new().expect("a directory");
        permit(scratch.path(), 0o777);
        let components = Components::new(8, u64::MAX).expect("a runtime for components");
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build();
        Self { scratch, components, store, runtime: Some(runtime.expect("a runtime")) }
    }

    /// Runs a future on the runtime of the calls.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("it is taken at the end").block_on(work)
    }

    /// Replaces the store, and keeps the executors.
    pub(crate) fn with_store(&mut self, store: Arc<dyn AssetStore>) {
        self.store = Some(store);
    }

    /// Calls a built-in tool, named with hyphens, with JSON.
    pub(crate) fn call(
        &self,
        build: Build,
        tool: &str,
        assets: AssetAccess,
        input: &str,
        adjust: impl FnOnce(&mut Call),
    ) -> Outcome {
        let program: Box<dyn Executor> = match build {
            Build::Component => {
                let path = paths::tools().join(format!("{tool}.wasm"));
                let bytes = fs::read(path).expect("a staged component");
                let program = self.components.compile_here(&bytes);
                Box::new(program.expect("compiled"))
            }
            Build::Native(_) => Box::new(native(&paths::tools().join(tool))),
        };
        let sandbox = match build {
            Build::Component => Sandbox::Require,
            Build::Native(sandbox) => sandbox,
        };
        let mut call = self.prepared(assets, sandbox);
        call.stdin = Stdin::Bytes(Bytes::copy_from_slice(input.as_bytes()));
        adjust(&mut call);
        self.finish(program.run(call))
    }

    /// Runs a native tool whose source is this Python.
    pub(crate) fn python(
        &self,
        assets: AssetAccess,
        sandbox: Sandbox,
        text: &str,
        adjust: impl FnOnce(&mut Call),
    ) -> Outcome {
        let path = self.workspace().join("tool");
        fs::write(&path, format!("#!/usr/bin/python3\n{text}")).expect("written");
        permit(&path, 0o755);
        let mut call = self.prepared(assets, sandbox);
        adjust(&mut call);
        self.finish(native(&path).run(call))
    }

    fn workspace(&self) -> PathBuf {
        fs::canonicalize(self.scratch.path()).expect("a path")
    }

    fn prepared(&self, assets: AssetAccess, sandbox: Sandbox) -> Call {
        let workspace = self.workspace();
        let dirs = vec![GrantedDir { access: Access::ReadWrite, path: workspace.clone() }];
        let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let caller = AssetCaller { agent: "agent".into(), is_principal: false, own_thread: false };
        let handle = self.store.clone().map(|assets| AssetHandle {
            assets,
            caller,
            most: AssetAccess::Write,
        });
        Call {
            stderr: Sink::Tail(64 << 10),
            grant: Arc::new(Grant { dirs, env, assets, sandbox, ..Grant::default() }),
            assets: handle,
            limits: CallLimits { wall_clock: TIMEOUT, ..CallLimits::default() },
            ..Call::new(workspace)
        }
    }

    fn finish(&self, running: impl Future<Output = Outcome>) -> Outcome {
        let runtime = self.runtime.as_ref().expect("until the rig ends");
        runtime
            .block_on(async { tokio::time::timeout(2 * TIMEOUT, running).await.expect("an end") })
    }
}

impl Drop for Rig {
    /// Does not wait for tasks that a failed case left behind.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn native(path: &Path) -> NativeProgram {
    NativeProgram::new(path, Supervisor::new(Some(paths::supervisor().to_owned()), 0))
}

/// Returns the stdout of a tool that succeeded.
#[track_caller]
pub(crate) fn printed(outcome: &Outcome) -> String {
    assert_eq!(outcome.exit, ikigai_host::exec::Exit::Code(0), "{outcome:?}");
    String::from_utf8(outcome.stdout.bytes.clone()).expect("UTF-8")
}
