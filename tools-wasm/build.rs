//! The amount of memory that each component starts with.
//!
//! It is enough for a small call. Growing memory is a system call, and returning it before the next
//! call is another. Each of them stops the host's other threads. Untouched memory costs nothing.

const MIB: u32 = 1 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The stack of 1 MiB that is the linker's default, and the heap.
    println!("cargo::rustc-link-arg-bins=--initial-memory={}", 2 * MIB);
}
