//! What the host keeps for one guest: its WASI context, its handles, and the
//! memory it was allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::sockets::tcp::TcpSocket;
use wasmtime_wasi::p2::bindings::sockets::udp::UdpSocket;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::bounds;
use super::listing::Listing;
use super::net::{Reach, http::Hooks, messages};
use crate::exec::assets::AssetGate;

/// Streams and pollables that come with a file, beside its own handle.
const TABLE_ENTRIES_PER_HANDLE: usize = 4;

/// Requests of one guest that are under way at once. Each has a socket, and what is read
/// ahead of the guest.
const MAX_CONNECTIONS: usize = 32;

/// The data of a store.
pub(super) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    http: WasiHttpCtx,
    hooks: Hooks,
    pub(super) reach: Arc<Reach>,
    pub(super) gate: AssetGate,
    pub(super) memory: MemoryLimit,
    handles: usize,
}

impl State {
    pub(super) fn new(
        wasi: WasiCtx,
        reach: Arc<Reach>,
        gate: AssetGate,
        memory: MemoryLimit,
        handles: usize,
    ) -> Self {
        let mut table = ResourceTable::new();
        // Opening files is refused with an error at `handles`; this is the wall
        // behind it, for streams and pollables, and passing it traps.
        table.set_max_capacity(handles.saturating_mul(TABLE_ENTRIES_PER_HANDLE).max(64));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(messages::FIELDS);
        let hooks = Hooks::new(Arc::clone(&reach), handles.min(MAX_CONNECTIONS));
        Self { wasi, table, http, hooks, reach, gate, memory, handles }
    }

    /// Whether the guest may open one file, directory or socket more.
    pub(super) fn may_open(&mut self) -> bool {
        let descriptors = self.table.iter_mut().filter(|entry| {
            entry.is::<Descriptor>()
                || entry.is::<Listing>()
                || entry.is::<TcpSocket>()
                || entry.is::<UdpSocket>()
        });
        descriptors.count() < self.handles
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

/// Memory that all guests of a host share, in bytes.
#[derive(Clone)]
pub(super) struct MemoryBudget {
    used: Arc<AtomicU64>,
    total: u64,
    freed: Arc<Notify>,
}

impl MemoryBudget {
    pub(super) fn new(total: u64) -> Self {
        Self { used: Arc::default(), total, freed: Arc::default() }
    }

    /// Waits until another guest may start.
    pub(super) async fn room(&self) {
        loop {
            // Before the look, so that memory freed between the two is not missed.
            let freed = self.freed.notified();
            if self.used.load(Ordering::Relaxed) < self.total {
                return;
            }
            freed.await;
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.total);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Counts the memory of one guest against its own limit and the host's budget.
pub(super) struct MemoryLimit {
    limit: u64,
    used: u64,
    /// What of it is tables.
    tables: u64,
    /// What of it is for messages of HTTP, which lie in the host.
    messages: u64,
    refused: bool,
    budget: MemoryBudget,
}

impl MemoryLimit {
    pub(super) fn new(limit: u64, budget: MemoryBudget) -> Self {
        Self { limit, used: 0, tables: 0, messages: 0, refused: false, budget }
    }

    /// Whether growth was refused: what then looks like an `unreachable` or a
    /// failed allocation was in truth this limit.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Linear memories, tables and messages of the guest, in bytes. They only ever grow.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The tables among them, in bytes.
    pub(super) fn tables(&self) -> u64 {
        self.tables
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.used, Ordering::Relaxed);
        self.budget.freed.notify_waiters();
    }
}

impl MemoryLimit {
    /// Takes room for messages of HTTP, if there is so much; once for all of them.
    pub(super) fn set_aside(&mut self, messages: u64) -> bool {
        if self.messages >= messages {
            return true;
        }
        let fits = self.take(messages - self.messages);
        if fits {
            self.messages = messages;
        }
        fits
    }

    /// Takes room for `more` bytes, if there is so much.
    fn take(&mut self, more: u64) -> bool {
        let fits = self.used.saturating_add(more) <= self.limit && self.budget.take(more);
        if fits {
            self.used += more;
        } else {
            self.refused = true;
        }
        fits
    }
}

/// wasmtime asks before a memory or a table is made, with nothing as its current size, and
/// before it grows. It does not ask for instances: what those take is bounded when the
/// component is compiled.
impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Past its own declared maximum the guest is told so by wasmtime; that is
        // not this limit.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.take(desired.saturating_sub(current) as u64))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        if desired > bounds::TABLE_ELEMENTS {
            self.refused = true;
            return Ok(false);
        }
        let more = desired.saturating_sub(current).saturating_mul(bounds::TABLE_ELEMENT) as u64;
        let fits = self.take(more);
        if fits {
            self.tables += more;
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        bounds::CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        bounds::TABLES as usize
    }

    fn memories(&self) -> usize {
        bounds::MEMORIES as usize
    }
}
