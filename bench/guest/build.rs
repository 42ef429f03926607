//! The amount of memory that the guest starts with: enough for a small call, as for the tools. The
//! guest is also built as a native program, whose linker has no such option.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-bins=--initial-memory=2097152");
    }
}
