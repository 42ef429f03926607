//! The REPL as a person meets it: the real program in a pseudo-terminal, against a server
//! that speaks as a vendor does, with tools that really run.

#[path = "repl/alone.rs"]
mod alone;
#[path = "repl/commands.rs"]
mod commands;
#[path = "repl/consent.rs"]
mod consent;
#[path = "repl/ending.rs"]
mod ending;
#[path = "repl/looks.rs"]
mod looks;
#[path = "repl/recorded.rs"]
mod recorded;
#[path = "repl/rig.rs"]
mod rig;
#[path = "repl/sessions.rs"]
mod sessions;
#[path = "repl/summary.rs"]
mod summary;
#[path = "repl/tools.rs"]
mod tools;
#[path = "repl/turns.rs"]
mod turns;
