//! Assets of the host, as tools reach them: over the import of components and over
//! the host socket of native tools, with a store in memory behind both.

#![cfg(target_os = "linux")]

mod bounds;
mod hostile;
mod parity;
mod rig;
mod threads;
