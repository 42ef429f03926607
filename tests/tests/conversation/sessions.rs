//! `ikigai session`: conversations that are kept, over a store of each kind.

mod commands;
mod importing;
mod rig;
mod showing;
