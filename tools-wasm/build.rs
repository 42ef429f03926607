//! How much memory each component starts with.
//!
//! Memory that a small call does not outgrow: growing it is a system call, and giving
//! it back before the next call another, each of which stops the host's other threads.
//! What is not touched takes no memory.

const MIB: u32 = 1 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The stack of 1 MiB that is the linker's default, and the heap.
    println!("cargo::rustc-link-arg-bins=--initial-memory={}", 2 * MIB);
}
