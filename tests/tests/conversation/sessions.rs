//! `ikigai session`: stored conversations, over a store of each kind.

mod commands;
mod importing;
mod rig;
mod showing;
