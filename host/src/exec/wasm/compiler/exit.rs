//! The exit codes of a process that compiles.

/// The code is written, for the sequential engine.
pub(super) const DONE: i32 = 0;

/// The code is written, for the concurrent engine. Another program that fails exits with 1.
pub(super) const DONE_CONCURRENT: i32 = 18;

/// The component does not compile.
pub(super) const INVALID: i32 = 10;

/// The component could not be read, or the code not be written.
pub(super) const FAILED: i32 = 11;

/// An allocation failed at the limit.
pub(super) const NO_MEMORY: i32 = 12;

/// The code is larger than it may be.
pub(super) const TOO_MUCH_CODE: i32 = 13;

/// It is a core module that cannot be a program.
pub(super) const NO_PROGRAM: i32 = 15;

/// The component uses a part of the async feature of the component model that this host does not
/// have; the reason is the built-in.
pub(super) const USES_ASYNC: i32 = 16;

/// The process did nothing, since another one is at work for the same cache.
pub(in crate::exec::wasm) const BUSY: i32 = 17;
