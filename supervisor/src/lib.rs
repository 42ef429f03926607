//! The supervisor of native calls: a program that confines one tool, watches it, and leaves
//! nothing of it behind.
//!
//! ```text
//!  host ──── control socket ──── supervisor ──── init of a PID namespace ──── tool ──── …
//!   plan, descriptors, time →      control         root, /proc, no capability    Landlock,
//!   ← listener, report            groups                                       seccomp
//! ```
//!
//! The host starts one supervisor for each call, and sends it a [`Plan`](plan::Plan): the
//! program, its grant and its limits. When nothing of the tool is left, the supervisor answers
//! with a [`SupervisorReport`](plan::SupervisorReport). It does not decide what a tool may touch, and does not know
//! why it may. The init is a child that shares the supervisor's memory and descriptors and runs
//! the same code. If no namespace can be made, the supervisor does the init's work itself.
//!
//! A supervisor in reserve makes in advance what most plans ask for: control groups without
//! bounds, and an init in namespaces, including a network namespace. In a sandbox the init has
//! also begun the root, with `/dev`, `/proc` and the tool's own directories. The program's
//! argument says whether the call is [in a sandbox](plan::Confinement). The supervisor makes the
//! namespaces anew if the plan asks for others, the init has ended, or the machine's mounts have
//! changed since.
//!
//! As a program, this crate is the only place of the project with namespaces, mounts, Landlock,
//! seccomp, capabilities and control groups. As a library, it has what both sides need:
//!
//! - the messages ([`plan`]);
//! - the terms for what was enforced ([`isolation`]);
//! - the processes below a process ([`process_tree`]);
//! - the classification of file systems ([`filesystems`]);
//! - the reading of `#!` lines ([`shebang`]);
//! - the limit on core dumps ([`core_dumps`]).
//!
//! # Layers
//!
//! The layers of a sandboxed call, from the outside to the inside. A layer that this machine
//! lacks weakens the [`Isolation`](isolation::Isolation) that is reported (`layers.rs`). If the
//! policy requires the sandbox, the tool is not started then.
//!
//! | layer | in | set by |
//! |---|---|---|
//! | new session, default signals, no core dump | supervisor | `serve.rs`, `signals.rs`, `core_dumps.rs` |
//! | first victim of the OOM killer | supervisor | `serve.rs` |
//! | control groups with bounds on memory and processes | supervisor | `cgroup.rs` |
//! | host of root: no other groups | supervisor | `privileges.rs` |
//! | host of root: granted directories opened | supervisor | `selection.rs`, `view.rs` |
//! | host of root: their files mapped to a user without rights | supervisor | `identity.rs` |
//! | user, mount, PID, IPC namespaces | clone of the init | `sandbox.rs`, `namespace.rs` |
//! | UTS and network namespaces | clone of the init | `sandbox.rs`, `namespace.rs` |
//! | the map of users; `pid_max` | init | `identity.rs`, `namespace.rs` |
//! | own sockets: a loopback; named peers: the host's listener on it | init | `loopback.rs` |
//! | a root with only what the tool may see, and a new `/proc` | init | `root.rs`, `mounts.rs` |
//! | recording: overlays | init | `overlay.rs` |
//! | closed to other processes of the user; `no_new_privs` | init | `privileges.rs` |
//! | no capabilities; own sockets: one, over its network namespace | init | `privileges.rs` |
//! | the Landlock domain and the filter are prepared | init | `domain.rs`, `filter.rs` |
//! | the control groups are entered | tool's process | `launch.rs` |
//! | a session, death with the init, resource limits | tool's process | `launch.rs` |
//! | three descriptors, the working directory | tool's process | `launch.rs` |
//! | no capabilities, Landlock, then seccomp, then the exec | tool's process | `launch.rs` |
//!
//! A tool without a sandbox has a mount and a PID namespace if the host may make them, the
//! control groups or RLIMIT_DATA, and the watching.
//!
//! # Invariants
//!
//! - The program has one thread. Forking, PDEATHSIG (which follows the *thread* that forked, not
//!   the process) and children on shared memory are sound only because of that.
//! - Supervisor and init use their memory in turns. The supervisor sleeps while the init
//!   prepares the namespaces. The init sleeps until it has its work, and the supervisor sleeps
//!   from then on.
//! - The end of the host is the end of the control socket, never PDEATHSIG: the host has many
//!   threads, and spawns from pools.
//! - The child makes system calls and nothing else between its clone and its exec. It does not
//!   allocate.
//! - Mounts and Landlock rules use descriptors that were opened once before, and no name is
//!   resolved again. The exception is a hidden file in a recording: the overlay has its files by
//!   their names.
//! - Every descriptor is close-on-exec. The tool gets three, and the host socket if it has one.
//! - The report is sent when no process of the tool is left. Processes that could not be killed
//!   are counted in it.
//! - A plan that is malformed in any way is refused, and so is a grant that cannot be enforced.
//!
//! # Order of the modules
//!
//! A module uses modules of lower rows only. From low to high:
//!
//! 1. [`base_view`], `clone`, [`core_dumps`], [`filesystems`], `filter`, [`isolation`], `lookup`,
//!    `privileges`, [`process_tree`], [`shebang`], `signals`, `user_watches`
//! 2. `kernel_memory`, `listener`, `mounts`, [`plan`]
//! 3. `cgroup`, `hidden`, `identity`, `loopback`, `overlay`, `reaper`, `request`, `view`
//! 4. `domain`, `installation`, `launch`, `namespace`, `observer`, `root`
//! 5. `connections`, `layers`, `selection`
//! 6. `notices`
//! 7. `watch`
//! 8. `sandbox`
//! 9. `serve`

#![deny(missing_docs)]

pub mod base_view;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod clone;
#[cfg(target_os = "linux")]
mod connections;
pub mod core_dumps;
#[cfg(target_os = "linux")]
mod domain;
pub mod filesystems;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod hidden;
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
mod listener;
#[cfg(target_os = "linux")]
mod lookup;
#[cfg(target_os = "linux")]
mod loopback;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod notices;
#[cfg(target_os = "linux")]
mod observer;
#[cfg(target_os = "linux")]
mod overlay;
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
mod selection;
#[cfg(target_os = "linux")]
mod serve;
pub mod shebang;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod user_watches;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
pub use serve::main;
