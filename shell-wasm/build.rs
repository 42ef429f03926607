//! The amount of memory that the shell starts with: enough for a short script, for the reason that
//! `tools-wasm/build.rs` gives.

const MIB: u32 = 1 << 20;

/// The size of the stack. The interpreter calls itself for each level of a script.
const STACK: u32 = 8 * MIB;

/// The memory at the start: the stack, 2 MiB of tables, and the heap of a short script.
const MEMORY: u32 = STACK + 4 * MIB;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=--initial-memory={MEMORY}");
    println!("cargo::rustc-link-arg-bins=-zstack-size={STACK}");
}
