//! Assets from end to end: the tools and the commands of a host over a store of each kind, as
//! models and people use them.

mod commands;
mod dialogue;
mod editing;
mod refused;
mod rig;
