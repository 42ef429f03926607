//! Assets from end to end: the tools and the commands of a host over a store of each
//! kind, as a model and a person use them.

#[path = "assets/commands.rs"]
mod commands;
#[path = "assets/dialogue.rs"]
mod dialogue;
#[path = "assets/editing.rs"]
mod editing;
#[path = "assets/refused.rs"]
mod refused;
#[path = "assets/rig.rs"]
mod rig;
