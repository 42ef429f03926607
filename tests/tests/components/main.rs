//! Components: what they may do, what they cost and what they are made of.

mod builds;
mod caches;
mod call;
mod cancel;
mod conformance;
mod core_modules;
mod embedding;
mod fidelity;
mod hostile;
mod imports;
mod network;
mod other_hosts;
mod parity;
mod trespass;
