//! `ikigai session`: conversations that are kept, over a store of each kind.

#[path = "sessions/commands.rs"]
mod commands;
#[path = "sessions/importing.rs"]
mod importing;
#[path = "sessions/rig.rs"]
mod rig;
#[path = "sessions/showing.rs"]
mod showing;
