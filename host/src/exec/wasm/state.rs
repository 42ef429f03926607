//! The host's state for one guest: its WASI context, its handles, and the count of its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::sockets::tcp::TcpSocket;
use wasmtime_wasi::p2::bindings::sockets::udp::{
    IncomingDatagramStream, OutgoingDatagramStream, UdpSocket,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};
use wasmtime_wasi::sockets::{TcpSocket as AsyncTcpSocket, UdpSocket as AsyncUdpSocket};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::bounds;
use super::guard::Guard;
use super::guest_listing::GuestListing;
use super::hidden::HiddenPaths;
use super::net::http::Hooks;
use super::path_widening::PathWidening;
use super::places::{GuestPlaces, HandleOrigin};
use super::preview1::descriptors::ModuleState;
use super::stream_count::StreamCount;
use crate::exec::assets::AssetGate;
use crate::exec::net::NetworkGate;
use crate::exec::output::Pipe;
use crate::policy::{RequestedAccess, UsedAccess};

/// The number of table entries for each handle. A connection of `std::net` has a socket, two
/// streams and up to three pollables.
const TABLE_ENTRIES_PER_HANDLE: usize = 8;

/// The number of HTTP requests of one guest at once. Each has a socket and a read buffer.
const MAX_CONNECTIONS: usize = 32;

/// Returns the number of objects of the host that a guest with this number of handles may have at
/// once.
pub(super) fn table_entries(handles: usize) -> usize {
    handles.saturating_mul(TABLE_ENTRIES_PER_HANDLE).max(64)
}

/// The files of a guest.
pub(super) struct GuestFiles {
    pub(super) places: GuestPlaces,
    pub(super) hidden: Option<Arc<HiddenPaths>>,
    pub(super) guard: Guard,
    pub(super) held: Option<PathWidening>,
}

/// The output streams of a guest.
pub(super) struct GuestOutputs {
    pub(super) stdout: Pipe,
    pub(super) stderr: Pipe,
}

/// The data of a guest's wasmtime store.
pub(super) struct GuestState {
    wasi: WasiCtx,
    table: ResourceTable,
    http: WasiHttpCtx,
    hooks: Hooks,
    pub(super) reach: Arc<NetworkGate>,
    pub(super) gate: AssetGate,
    pub(super) memory: MemoryLimit,
    /// The places that its paths lead to.
    pub(super) places: GuestPlaces,
    pub(super) hidden: Option<Arc<HiddenPaths>>,
    pub(super) guard: Guard,
    /// The calls whose paths lead out of the places, if the user is asked about them or they are
    /// noted.
    pub(super) held: Option<PathWidening>,
    pub(super) outputs: GuestOutputs,
    /// The streams of WASI 0.3 that are open. They are in no table.
    pub(super) streams: StreamCount,
    handles: usize,
    /// The memory and descriptors of a core module; nothing for a component.
    pub(super) module: Option<Box<ModuleState>>,
}

impl GuestState {
    pub(super) fn new(
        wasi: WasiCtx,
        files: GuestFiles,
        reach: Arc<NetworkGate>,
        gate: AssetGate,
        outputs: GuestOutputs,
        memory: MemoryLimit,
        handles: usize,
    ) -> Self {
        let mut table = ResourceTable::new();
        // Opening a file fails with an error at `handles`. This larger limit is for streams and
        // pollables, and exceeding it traps.
        table.set_max_capacity(table_entries(handles));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(bounds::FIELDS);
        let hooks = Hooks::new(Arc::clone(&reach), handles.min(MAX_CONNECTIONS));
        let GuestFiles { places, hidden, guard, held } = files;
        let streams = StreamCount::default();
        Self {
            wasi,
            table,
            http,
            hooks,
            reach,
            gate,
            memory,
            places,
            hidden,
            guard,
            held,
            outputs,
            streams,
            handles,
            module: None,
        }
    }

    /// Notes that a path call through a place succeeded.
    pub(super) fn note_use(&mut self, origin: HandleOrigin, file: Option<usize>) {
        if let Some(held) = &self.held
            && let Some(path) = self.places.first_use(origin, file)
        {
            held.widening.used(UsedAccess::Dir { path });
        }
    }

    /// Asks whether the guest may have an access. A directory that the user allows has the same
    /// rules as a granted one: its places of secrets stay hidden, and the places that other
    /// programs execute stay closed. If the call cannot wait, returns false until the user has
    /// answered.
    pub(super) async fn may_access(&mut self, reached: RequestedAccess) -> bool {
        let Some(held) = &mut self.held else { return false };
        if let Some(answers) = &mut held.answers {
            return answers.find(reached);
        }
        let widening = Arc::clone(&held.widening);
        let may = widening.may(reached).await;
        self.renew_grant();
        may
    }

    /// Takes over what the user allowed.
    pub(super) fn renew_grant(&mut self) {
        if let Some(held) = &mut self.held
            && let Some(hidden) = held.renew()
        {
            self.hidden = hidden;
            self.guard.renew(&held.widened);
        }
    }

    /// Returns whether the guest may open one more file, directory or socket.
    pub(super) fn may_open(&mut self) -> bool {
        let descriptors = self.table.iter_mut().filter(|entry| {
            entry.is::<Descriptor>()
                || entry.is::<GuestListing>()
                || entry.is::<TcpSocket>()
                || entry.is::<UdpSocket>()
                || entry.is::<AsyncTcpSocket>()
                || entry.is::<AsyncUdpSocket>()
        });
        descriptors.count() + self.streams.get() < self.handles
    }

    /// Reserves memory for the buffers of `more` streams. Returns whether enough is left.
    pub(super) fn may_stream(&mut self, more: usize) -> bool {
        let streams = self.table.iter_mut().filter(|entry| {
            entry.is::<DynInputStream>()
                || entry.is::<DynOutputStream>()
                || entry.is::<IncomingDatagramStream>()
                || entry.is::<OutgoingDatagramStream>()
                || entry.is::<GuestListing>()
        });
        let all = streams.count() + self.streams.get() + more;
        self.memory.set_aside_for_streams(all)
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

/// The memory that all guests of a host share, in bytes.
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
            // Before the check, so that memory freed between the two is not missed.
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

/// The count of one guest's memory, against its own limit and the host's budget.
pub(super) struct MemoryLimit {
    limit: u64,
    used: u64,
    /// The part of `used` for tables.
    tables: u64,
    /// The part of `used` for messages of HTTP, which lie in the host.
    messages: u64,
    /// The part of `used` for the buffers of streams, which lie in the host.
    streams: u64,
    refused: bool,
    budget: MemoryBudget,
}

impl MemoryLimit {
    pub(super) fn new(limit: u64, budget: MemoryBudget) -> Self {
        Self { limit, used: 0, tables: 0, messages: 0, streams: 0, refused: false, budget }
    }

    /// Returns whether growth was refused: a trap or a failed allocation of the guest was then
    /// caused by this limit.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Returns the size of the guest's linear memories, tables, messages, instances and streams, in
    /// bytes. They only ever grow.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the size of the guest's tables, in bytes.
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
    /// Reserves memory for messages of HTTP, once for all of them. Returns whether enough is left.
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

    /// Reserves memory for the buffers of this number of streams at once. What is reserved stays
    /// for others. Returns whether enough is left.
    fn set_aside_for_streams(&mut self, streams: usize) -> bool {
        let counted = streams.saturating_sub(bounds::UNCOUNTED_STREAMS) as u64;
        let buffers = counted.saturating_mul(bounds::STREAM_BUFFER);
        let fits = self.take(buffers.saturating_sub(self.streams));
        if fits {
            self.streams = self.streams.max(buffers);
        }
        fits
    }

    /// Takes `more` bytes. Returns whether enough is left.
    pub(super) fn take(&mut self, more: u64) -> bool {
        let fits = self.used.saturating_add(more) <= self.limit && self.budget.take(more);
        if fits {
            self.used += more;
        } else {
            self.refused = true;
        }
        fits
    }
}

/// wasmtime asks before a memory or a table is made, with 0 as its current size, and before it
/// grows. It does not ask for instances: their memory is taken before they are made.
impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Growth past the memory's own declared maximum fails in any case, and not because of
        // this limit.
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
