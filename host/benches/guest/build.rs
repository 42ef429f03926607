//! Memory that a small call does not outgrow, as the tools have it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=--initial-memory=2097152");
}
