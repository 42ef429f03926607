//! The REPL as a person meets it: the real program in a pseudo-terminal, against a server
//! that speaks as a vendor does, with tools that really run.

mod alone;
mod commands;
mod consent;
mod ending;
mod looks;
mod recorded;
mod rig;
mod sessions;
mod summary;
mod tools;
mod turns;
