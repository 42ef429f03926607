//! The version of compiled code: everything that it depends on, except for the component.
//!
//! The program that runs the code has no compiler, so wasmtime's own hash of the settings of a
//! compiler is not there. This module names what decides in its place. wasmtime checks the settings
//! once more when it loads the code.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::engine::{EngineKind, Tier};

/// The version of wasmtime, which has no constant for it; a test compares them.
const WASMTIME: &str = "48.0.8";

/// A number that changes when components must be compiled again for a reason that no version shows.
/// Generation 1 brought the bounds of [`super::bounds`], 2 code that every processor of its kind
/// runs, 3 the memory of the instances ([`super::instance_memory`]), 4 code without the
/// addresses of instructions, 5 a bound for descriptions, 6 the functions of wasmtime that the code
/// of an async component calls (each function has a number, and they moved the others), and 7 core
/// modules without an adapter.
const GENERATION: u32 = 7;

/// The C library of this program, as target triples name it. wasmtime refuses code for another
/// triple, although the code itself calls no C library.
pub(super) const C_LIBRARY: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

/// Returns a hash of everything that code of this tier, for this engine, depends on, except for the
/// component. It is the same on every machine with the same kind of processor.
pub(super) fn fingerprint(tier: Tier, engine: EngineKind) -> u64 {
    let mut hasher = DefaultHasher::new();
    (WASMTIME, GENERATION).hash(&mut hasher);
    (std::env::consts::ARCH, std::env::consts::OS, C_LIBRARY).hash(&mut hasher);
    <&str>::from(tier).hash(&mut hasher);
    if tier == Tier::Baseline {
        has_avx().hash(&mut hasher);
    }
    if engine == EngineKind::Concurrent {
        "concurrent".hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns whether this machine has the vector instructions without which Winch compiles no vectors.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx") && std::is_x86_feature_detected!("avx2")
}

/// Returns false: Winch is used on x86-64 alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_avx() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
        let lock = std::fs::read_to_string(lock).expect("the lock file");
        let built = format!("name = \"wasmtime\"\nversion = \"{WASMTIME}\"\n");
        assert!(lock.contains(&built), "wasmtime is not of version {WASMTIME}");
    }

    #[test]
    fn each_tier_has_different_code_for_each_engine() {
        let kinds = [EngineKind::Sequential, EngineKind::Concurrent];
        let of_tier = |tier| kinds.map(|kind| fingerprint(tier, kind));
        let all = [of_tier(Tier::Baseline), of_tier(Tier::Optimised)].concat();
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
