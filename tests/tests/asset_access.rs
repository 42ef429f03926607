//! Assets of the host, as tools reach them: over the import of components and over
//! the host socket of native tools, with a store in memory behind both.

#![cfg(target_os = "linux")]

#[path = "asset_access/bounds.rs"]
mod bounds;
#[path = "asset_access/hostile.rs"]
mod hostile;
#[path = "asset_access/parity.rs"]
mod parity;
#[path = "asset_access/rig.rs"]
mod rig;
#[path = "asset_access/threads.rs"]
mod threads;
