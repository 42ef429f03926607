//! Documents of the host, as tools reach them: over the import of components and over
//! the host socket of native tools, with a store in memory behind both.

#![cfg(target_os = "linux")]

#[path = "documents/bounds.rs"]
mod bounds;
#[path = "documents/hostile.rs"]
mod hostile;
#[path = "documents/parity.rs"]
mod parity;
#[path = "documents/rig.rs"]
mod rig;
