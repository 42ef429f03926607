//! The most that one component may consist of, beside the bytes that a call may use.
//!
//! Checked when it is compiled, whichever way its instances are allocated later, and kept
//! again by every store: many small things are memory of the host as well.

use wasmtime::PoolingAllocationConfig;

/// Instances of core modules: interpreters come as a dozen linked modules.
pub(super) const CORE_INSTANCES: u32 = 64;

/// Linear memories of all its instances together.
pub(super) const MEMORIES: u32 = 8;

/// Tables of all its instances together.
pub(super) const TABLES: u32 = 64;

/// Elements of one table. Interpreters compiled to WebAssembly (CPython,
/// SpiderMonkey) bring function tables of 6,000 to 8,000.
pub(super) const TABLE_ELEMENTS: usize = 65_536;

/// An element of a table as wasmtime stores it, in bytes: a pointer to a function. References
/// to what the host or the guest's collector holds take half of it.
pub(super) const TABLE_ELEMENT: usize = size_of::<usize>();

/// Memories, and tables, that one core module may define.
const PER_MODULE: u32 = 8;

/// All instances of a component together, in bytes: what wasmtime keeps for their globals,
/// functions and imports. The one part of a guest that does not count into its memory. A
/// module takes half of it whose table is full.
const INSTANCES: usize = 4 << 20;

/// The largest linear memory, in bytes: all that 32-bit addresses reach. What a
/// call may really use is in its limits.
const MEMORY: usize = 1 << 32;

/// A pool with these bounds and with no places.
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
