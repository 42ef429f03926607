//! The front end for WASI 0.3, beside that for 0.2.
//!
//! Both have the same handles in the same table, and the same functions decide over paths, peers and
//! numbers. This module links the functions of WASI 0.3 to them, and translates types and errors.
//! wasmtime's own functions are used as they are where a guest reaches nothing by them: clocks,
//! random numbers, stdin, and what is asked of an open file.
//!
//! An `async` function of WASI 0.3 has the state of its guest only while it is polled, so it cannot
//! wait in the middle of a call about files; [`attempts`] says how it asks the user.

mod attempts;
pub(super) mod command;
mod counted;
mod files;
pub(super) mod http;
mod listing;
mod sockets;
mod stdio;
mod streams;
mod translation;

use std::task::{Context, Poll, ready};

use tokio::task::coop;
use wasmtime::component::Linker;

use super::preopens;
use super::state::GuestState;

/// The interface of files and directories.
const FILES: &str = "wasi:filesystem/types@0.3.0";

/// Links the interfaces of WASI 0.3, without `wasi:http`.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p3::add_to_linker(linker)?;
    linker.allow_shadowing(true);
    preopens::add_version_to_linker(linker, "wasi:filesystem/preopens@0.3.0")?;
    files::add_to_linker(linker)?;
    listing::add_to_linker(linker)?;
    streams::add_to_linker(linker)?;
    stdio::add_to_linker(linker)?;
    sockets::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Gives the runtime a turn now and then, and is pending until then. A stream from one file to
/// another has no guest in it, so nothing else would let the call see its deadline.
fn poll_turn(context: &mut Context<'_>) -> Poll<()> {
    ready!(coop::poll_proceed(context)).made_progress();
    Poll::Ready(())
}

#[cfg(all(test, feature = "compiler"))]
mod tests;
