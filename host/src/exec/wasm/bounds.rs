//! The bounds on the parts of one component, in addition to the limit on its memory.
//!
//! They apply when a component is compiled, however its instances are allocated later. Every store
//! applies them again, because many small parts take memory of the host, too.

use std::ops::RangeInclusive;

use wasmtime::PoolingAllocationConfig;

/// The number of instances of core modules: interpreters come as a dozen linked modules.
pub(super) const CORE_INSTANCES: u32 = 64;

/// The number of linear memories of all its instances together.
pub(super) const MEMORIES: u32 = 8;

/// The number of tables of all its instances together.
pub(super) const TABLES: u32 = 64;

/// The number of elements of one table. Interpreters compiled to WebAssembly (CPython,
/// SpiderMonkey) bring function tables of 6,000 to 8,000.
pub(super) const TABLE_ELEMENTS: usize = 65_536;

/// The size of an element of a table in wasmtime, in bytes: a pointer to a function. Other
/// references take half of it.
pub(super) const TABLE_ELEMENT: usize = size_of::<usize>();

/// The size of the names and values of one list of fields of HTTP, in bytes. Servers take 8 KiB or
/// 16 KiB.
pub(super) const FIELDS: usize = 16 << 10;

/// The size, in bytes, of each of the two parts of an HTTP request's body that are kept until they
/// are sent. One waits, the other is being sent.
pub(super) const CHUNK: usize = 16 << 10;

/// The part of a guest's memory limit, as a divisor, that one call may copy into the host in
/// addition to that memory.
pub(super) const COPIED: u64 = 8;

/// The number of handles on resources that a guest may have at once. Each object of the host that
/// it uses is one; the others are resources that its own components define.
pub(super) const RESOURCES: usize = 16_384;

/// The size of a handle in wasmtime, in bytes.
pub(super) const HANDLE: u64 = 16;

/// The size of wasmtime's own data for a component instance, in bytes, rounded up.
pub(super) const COMPONENT_INSTANCE: u64 = 512;

/// The bytes of the instances of a component that do not count into its memory: more than an
/// interpreter takes, with a second component in it. So a guest with one page of linear memory runs
/// with a limit of one page.
pub(super) const UNCOUNTED: u64 = 2 << 20;

/// The size of the buffer of a stream of bytes, of datagrams or of directory entries, in bytes. It
/// has what was read ahead, or what is still to be written.
pub(super) const STREAM_BUFFER: u64 = 64 << 10;

/// The number of open streams whose buffers do not count into a guest's memory.
pub(super) const UNCOUNTED_STREAMS: usize = 16;

/// The part of a guest's memory limit, as a divisor, that its tasks, futures and streams may take in
/// the host in addition to that memory.
const TASKS_SHARE: u64 = 64;

/// The size of wasmtime's own data for a task, a thread of a task, a future or an end of a stream, in
/// bytes, rounded up. A stream has three: itself and its ends.
const TASK: u64 = 1 << 10;

/// The least and the largest number of these of one guest.
const TASKS: RangeInclusive<u64> = 512..=8_192;

/// Returns the number of tasks, futures and streams, with their parts, that a guest with this memory
/// limit may have at once.
pub(super) fn tasks(memory: u64) -> usize {
    let fitting = (memory / TASKS_SHARE / TASK).clamp(*TASKS.start(), *TASKS.end());
    usize::try_from(fitting).unwrap_or(usize::MAX)
}

/// The number of component instances of an async component whose stacks do not count into its
/// memory. Each instance may have a task that waits on a stack of its own.
pub(super) const UNCOUNTED_STACKS: u64 = 4;

/// The number of memories, and of tables, that one core module may define.
const PER_MODULE: u32 = 8;

/// The size of the globals, functions and imports of all instances of a component together, in
/// bytes. A module with a full table takes half of it. They count into the guest's memory as well,
/// with everything else that its instances take ([`super::instance_memory`]).
const INSTANCES: usize = 4 << 20;

/// The largest linear memory, in bytes: all that 32-bit addresses reach. The limit of a call is
/// lower.
const MEMORY: usize = 1 << 32;

/// Returns a pool with these bounds and without slots.
pub(super) fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memories_per_module(PER_MODULE)
        .max_tables_per_module(PER_MODULE)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(MEMORY)
        .max_core_instance_size(INSTANCES)
        .max_component_instance_size(INSTANCES)
        .total_component_instances(0)
        .total_core_instances(0)
        .total_stacks(0)
        .total_memories(0)
        // A module is measured against the tables of the whole pool as well.
        .total_tables(PER_MODULE)
        .total_gc_heaps(0);
    pool
}
