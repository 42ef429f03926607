//! The program that every native call has: it starts the tool, confines it, watches it, and
//! leaves nothing of it.
//!
//! ```text
//! host ── control socket ── supervisor ── [init of a PID namespace] ── tool ── …
//! ```
//!
//! As a library: the messages of the control socket ([`plan`]), and what both sides need to
//! know. As a program: the only place with namespaces, mounts, Landlock, seccomp and
//! capabilities. Decides nothing of what a tool may touch.
//!
//! Owns the order in which the program prepares itself. The order matters: what
//! the tool inherits (session, signals, limits, namespaces) is set up before it
//! is started, and what only the tool may have is set in the tool's own process,
//! between its clone and its exec ([`launch`]).
//!
//! Invariant: the program has one thread. Forking, and PDEATHSIG (which follows
//! the *thread* that forked, not the process), are sound only because of that.
//! The host is multi-threaded and spawns from pools, so its own end is seen as the
//! end of the control socket, never by PDEATHSIG.

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod domain;
pub mod filesystems;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod installation;
pub mod isolation;
#[cfg(target_os = "linux")]
mod kernel_memory;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod layers;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
pub mod plan;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
pub mod process_tree;
#[cfg(target_os = "linux")]
mod reaper;
#[cfg(target_os = "linux")]
mod request;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
pub use serve::main;
