//! How much memory each component starts with.
//!
//! Memory that a small call does not outgrow: growing it is a system call, and giving
//! it back before the next call another, each of which stops the host's other threads.
//! What is not touched takes no memory.

const MIB: u32 = 1 << 20;

/// The tools of files: the stack of 1 MiB that is the linker's default, and the heap.
const OF_FILES: u32 = 2 * MIB;

/// The shell's stack: its interpreter calls itself for each level of a script.
const SHELL_STACK: u32 = 8 * MIB;

/// The shell: its stack, 2 MiB of tables, and the heap of a short script.
const OF_SHELL: u32 = SHELL_STACK + 4 * MIB;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for tool in ["file-edit", "file-read", "file-write", "glob", "grep"] {
        println!("cargo::rustc-link-arg-bin={tool}=--initial-memory={OF_FILES}");
    }
    println!("cargo::rustc-link-arg-bin=bash=--initial-memory={OF_SHELL}");
    println!("cargo::rustc-link-arg-bin=bash=-zstack-size={SHELL_STACK}");
}
