//! The host's assets, as tools use them: over the import of components and over the host socket of
//! native tools, with a store in memory behind both.

#![cfg(target_os = "linux")]

mod bounds;
mod hostile;
mod parity;
mod rig;
mod threads;
