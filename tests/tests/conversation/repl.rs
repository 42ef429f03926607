//! The REPL as a user sees it: the real program in a pseudo-terminal, against a server that
//! responds as a vendor's does, with tools that really run.

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
