//! One run of one program, on its own thread.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use wasmtime::component::{Linker, ResourceTableError};
use wasmtime::{Engine, Store, Trap};
use wasmtime_wasi::p2::bindings::LinkOptions;
use wasmtime_wasi::{I32Exit, WasiCtx, WasiCtxBuilder};

use super::engine::EngineKind;
use super::guard::Guard;
use super::hidden::{HiddenPaths, IsOver};
use super::instance_memory::InstanceMemory;
use super::net::{messages, sockets};
use super::path_widening::PathWidening;
use super::program::LinkedProgram;
use super::state::{
    GuestFiles, GuestOutputs, GuestState, MemoryBudget, MemoryLimit, table_entries,
};
use super::stdio::{GuestOutput, GuestStdin};
use super::threads::Until;
use super::{assets, bounds, listing, p3, paths, preopens, streams, workspace};
use crate::exec::assets::AssetGate;
use crate::exec::net::NetworkGate;
use crate::exec::output::Pipe;
use crate::exec::{Call, Exit, ResourceUsage, Stdin};
use crate::limits::{CallLimits, Limit};

/// The argument zero that a guest sees.
const PROGRAM_NAME: &str = "tool";

/// The largest number of random bytes in one call of WASI: wasmtime's own default.
const MAX_RANDOM: u64 = 64 << 20;

/// The bytes of a call's arguments that the host copies even for a guest with little memory: paths
/// and texts.
const LEAST_COPIED: usize = 1 << 20;

/// The end of a guest with too many objects. Their numbers are those of wasmtime's tables.
const TOO_MANY: &str = "too many handles, tasks, futures and streams at once";

/// The size of one guest's tables that the allocator may keep for the next guest, in bytes.
const TABLES_KEPT: u64 = 1 << 20;

/// Returns a linker with everything but `wasi:http`.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_with_options_async(&mut linker, &LinkOptions::default())?;
    workspace::add_to_linker(&mut linker)?;
    assets::add_to_linker(&mut linker)?;
    preopens::add_to_linker(&mut linker)?;
    paths::add_to_linker(&mut linker)?;
    listing::add_to_linker(&mut linker)?;
    sockets::add_to_linker(&mut linker)?;
    streams::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Returns the linker of this kind of engine extended by `wasi:http`, for guests that import it.
pub(super) fn with_http(
    linker: &Linker<GuestState>,
    kind: EngineKind,
) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = linker.clone();
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    messages::add_to_linker(&mut linker)?;
    if kind == EngineKind::Concurrent {
        p3::http::add_to_linker(&mut linker)?;
    }
    Ok(linker)
}

/// The result of one run, without its streams, which the caller has.
pub(super) struct GuestOutcome {
    pub(super) exit: Exit,
    pub(super) limit: Option<Limit>,
    pub(super) cancelled: bool,
    pub(super) usage: ResourceUsage,
}

/// A run that is ready to begin.
pub(super) struct Guest {
    pub(super) program: LinkedProgram,
    pub(super) instances: InstanceMemory,
    pub(super) call: Call,
    pub(super) stdout: Pipe,
    pub(super) stderr: Pipe,
    pub(super) budget: MemoryBudget,
    pub(super) reach: Arc<NetworkGate>,
    pub(super) gate: AssetGate,
    /// Cancelled when the outcome is not waited for any more.
    pub(super) cancel: CancellationToken,
}

impl Guest {
    /// Runs the guest to its end or to a limit. Resolves within an epoch tick of its deadline,
    /// unless the thread is blocked inside the kernel.
    pub(super) async fn run(self) -> GuestOutcome {
        let started = Instant::now();
        let limits = self.call.limits;
        let store = self.store(started);
        let mut store = match store {
            Ok(store) => store,
            Err(reason) => return GuestOutcome::not_started(reason),
        };
        let ended = tokio::select! {
            // The clocks come first: a guest that is always ready must not starve them.
            biased;
            () = self.cancel.cancelled() => GuestEnd::Cancelled,
            () = self.call.deadline.watch(&limits).over(started) => GuestEnd::Deadline,
            result = command(&self.program, self.instances, &mut store) => {
                GuestEnd::Result(result)
            }
        };
        let usage = usage(&mut store, started, limits);
        let memory_refused = store.data().memory.was_refused();
        let (exit, limit, cancelled) = match ended {
            GuestEnd::Cancelled => (ended_by_host(), None, true),
            GuestEnd::Deadline => (ended_by_host(), Some(Limit::WallClock), false),
            GuestEnd::Result(result) => {
                let (exit, limit) = self.judge(result, memory_refused);
                (exit, limit, false)
            }
        };
        let tables = store.data().memory.tables();
        drop(store);
        if tables > TABLES_KEPT {
            give_back();
        }
        GuestOutcome { exit, limit, cancelled, usage }
    }

    fn store(&self, started: Instant) -> Result<Store<GuestState>, String> {
        let limits = self.call.limits;
        let (wasi, files) = (self.wasi()?, self.files(started)?);
        let memory = MemoryLimit::new(limits.wasm_memory, self.budget.clone());
        let (reach, gate) = (Arc::clone(&self.reach), self.gate.clone());
        let outputs = GuestOutputs { stdout: self.stdout.clone(), stderr: self.stderr.clone() };
        let state = GuestState::new(wasi, files, reach, gate, outputs, memory, limits.handles);
        let mut store = Store::new(self.program.engine(), state);
        store.limiter(|state| &mut state.memory);
        // The copy of a call's arguments lies in the host, and the limit on the guest's memory does
        // not count it. `workspace.replace` has the largest.
        let copied = usize::try_from(limits.wasm_memory / bounds::COPIED).unwrap_or(usize::MAX);
        store.set_hostcall_fuel(copied.min(workspace::MAX_CONTENTS) + LEAST_COPIED);
        store.set_max_component_handles(table_entries(limits.handles).max(bounds::RESOURCES));
        if let Some(tasks) = store.concurrent_resource_table() {
            tasks.set_max_capacity(bounds::tasks(limits.wasm_memory));
        }
        store.epoch_deadline_async_yield_and_update(1);
        store.set_epoch_deadline(1);
        store.set_fuel(limits.fuel).map_err(|error| error.to_string())?;
        Ok(store)
    }

    fn wasi(&self) -> Result<WasiCtx, String> {
        let grant = &self.call.grant;
        let mut wasi = WasiCtxBuilder::new();
        // Random bytes lie in the host before they lie in the guest.
        wasi.max_random_size((self.call.limits.wasm_memory / bounds::COPIED).min(MAX_RANDOM));
        // File calls run on this thread, which is 6 to 10 times faster than on another thread.
        wasi.allow_blocking_current_thread(true);
        wasi.arg(PROGRAM_NAME);
        for arg in &self.call.args {
            let arg = arg.to_str().ok_or("a component takes arguments in UTF-8 only")?;
            wasi.arg(arg);
        }
        for (name, value) in &grant.env {
            let (name, value) = variable(name, value)?;
            wasi.env(name, value);
        }
        sockets::permit(&mut wasi, &self.reach);
        // Relative paths start from it: WASI has no current directory.
        if !grant.dirs.is_empty()
            && let Some(workspace) = self.call.workspace.to_str()
        {
            wasi.env("PWD", workspace);
        }
        match &self.call.stdin {
            Stdin::Bytes(bytes) => wasi.stdin(GuestStdin::new(bytes.clone())),
            Stdin::Inherit => wasi.inherit_stdin(),
        };
        wasi.stdout(GuestOutput(self.stdout.clone())).stderr(GuestOutput(self.stderr.clone()));
        Ok(wasi.build())
    }

    /// Opens the granted files.
    fn files(&self, started: Instant) -> Result<GuestFiles, String> {
        let Call { grant, workspace, widening, .. } = &self.call;
        // A guest sees directories that are not granted only if the user can be asked, or if
        // something is recorded.
        let witness = widening.as_ref().is_some_and(|widening| widening.watches());
        let (cancel, deadline) = (self.cancel.clone(), self.call.deadline.watch(&self.call.limits));
        let until = Until { cancel, deadline };
        let is_over: IsOver = Arc::new(move || until.is_over(started));
        let held = widening.as_ref().map(|widening| {
            let (widening, workspace) = (Arc::clone(widening), Arc::clone(workspace));
            PathWidening::new(widening, Arc::clone(grant), workspace, Arc::clone(&is_over))
        });
        Ok(GuestFiles {
            places: preopens::open_all(&grant.dirs, workspace, witness)?,
            hidden: HiddenPaths::for_grant(grant, is_over),
            guard: Guard::new(grant),
            held,
        })
    }

    fn judge(
        &self,
        result: wasmtime::Result<Result<(), ()>>,
        memory_refused: bool,
    ) -> (Exit, Option<Limit>) {
        let exit = match result {
            Ok(Ok(())) => Exit::Code(0),
            Ok(Err(())) => Exit::Code(1),
            Err(error) => match (error.downcast_ref::<I32Exit>(), error.downcast_ref::<Trap>()) {
                (Some(exit), _) => Exit::Code(exit.0),
                (None, Some(Trap::OutOfFuel)) => {
                    return (Exit::Trap(trap_text(Trap::OutOfFuel)), Some(Limit::Fuel));
                }
                (None, Some(trap)) => Exit::Trap(trap_text(*trap)),
                (None, None) if is_full(&error) => Exit::Trap(TOO_MANY.to_owned()),
                // An error text of the host, such as wasmtime-wasi's about a misused stream.
                (None, None) => Exit::Trap(format!("{:#}", error.root_cause())),
            },
        };
        if self.stdout.is_full() {
            return (ended_by_host(), Some(Limit::Output));
        }
        let is_of_memory = memory_refused || is_copy(&exit);
        let limit = (exit != Exit::Code(0) && is_of_memory).then_some(Limit::Memory);
        (exit, limit)
    }
}

/// Returns whether a guest was ended because a table was full. Other errors of tables are about a
/// misused handle.
fn is_full(error: &wasmtime::Error) -> bool {
    matches!(error.downcast_ref(), Some(ResourceTableError::Full))
}

/// Returns whether a guest was ended because the arguments of one call were too large for the host
/// to copy. wasmtime's error for that has no public type.
fn is_copy(exit: &Exit) -> bool {
    matches!(exit, Exit::Trap(text) if text.contains("fuel allocated for hostcalls"))
}

/// Returns a granted variable as text. A value that is not UTF-8 is an error: if it were left out,
/// the tool would believe that it was not granted. The error does not show the value, which may be
/// a secret.
fn variable<'a>(name: &'a OsStr, value: &'a OsStr) -> Result<(&'a str, &'a str), String> {
    name.to_str().zip(value.to_str()).ok_or_else(|| {
        format!(
            "the granted variable `{}` is not in UTF-8, and a component takes no other; set it \
             to text in UTF-8, or take it out of the grant",
            name.display()
        )
    })
}

/// Returns the exit of a component that the host stopped: it ends like one that trapped.
pub(super) fn ended_by_host() -> Exit {
    Exit::Trap("interrupted by the host".to_owned())
}

fn trap_text(trap: Trap) -> String {
    trap.to_string().trim_start_matches("wasm trap: ").to_owned()
}

/// Returns the allocator's free memory to the operating system. Without a pool, tables are
/// allocated like everything else. glibc on its own returns only the memory at the end of each
/// thread's arena.
fn give_back() {
    // SAFETY: malloc_trim has no preconditions, and may be called from any thread.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

enum GuestEnd {
    Cancelled,
    Deadline,
    Result(wasmtime::Result<Result<(), ()>>),
}

async fn command(
    program: &LinkedProgram,
    instances: InstanceMemory,
    store: &mut Store<GuestState>,
) -> wasmtime::Result<Result<(), ()>> {
    let is_async = store.concurrent_resource_table().is_some();
    let stacks = if is_async { instances.stacks() } else { 0 };
    let counted = instances.counted(store.max_component_handles()).saturating_add(stacks);
    if !store.data_mut().memory.take(counted) {
        return Err(wasmtime::Error::msg("there is no memory for its instances"));
    }
    program.run(store).await
}

fn usage(store: &mut Store<GuestState>, started: Instant, limits: CallLimits) -> ResourceUsage {
    ResourceUsage {
        duration: started.elapsed(),
        fuel: store.get_fuel().ok().map(|left| limits.fuel.saturating_sub(left)),
        peak_memory: Some(store.data().memory.used()),
        left_running: 0,
    }
}

impl GuestOutcome {
    fn not_started(reason: String) -> Self {
        let exit = Exit::NotStarted(reason);
        Self { exit, limit: None, cancelled: false, usage: ResourceUsage::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_variable_that_is_not_text_is_named_and_its_value_kept_to_itself() {
        let bad = OsStr::from_bytes(b"secret\xff");
        let good = OsStr::new("NAME");
        assert_eq!(variable(good, OsStr::new("v")), Ok(("NAME", "v")));
        let error = variable(good, bad).expect_err("no text");
        assert!(error.contains("`NAME`") && !error.contains("secret"), "{error}");
        assert!(variable(bad, good).is_err());
    }
}
