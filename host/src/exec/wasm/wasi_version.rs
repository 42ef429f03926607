//! The version of WASI that a component was built for, and the errors about it.

/// The beginning of the names of interfaces that every host of components may have.
pub(super) const WASI: &str = "wasi:";

/// The error that a component was built for WASI 0.3.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "is a component of WASI 0.3, and this host runs those of WASI 0.2; build it against \
     `wasi:cli/command@0.2` (in Rust, for the target `wasm32-wasip2`)"
)]
pub(super) struct OfWasi03;

/// The error that a component uses the async feature of the component model, which came with WASI
/// 0.3. It names the built-in.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "uses `{0}` of the component model's async feature, which this host does not support; build it without \
     async (with jco, without `--backend qjs`)"
)]
pub(super) struct UsesAsync(pub(super) String);

/// Returns whether an interface, named with its version, is one of WASI 0.3.
pub(super) fn is_version_0_3(interface: &str) -> bool {
    interface.starts_with(WASI)
        && interface.split_once('@').is_some_and(|(_, version)| version.starts_with("0.3."))
}
