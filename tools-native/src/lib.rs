//! The ports of the tools for a native program: files over directory handles or
//! with the caller's rights, and `/bin/sh`.
//!
//! What a tool answers is `ikigai-tools`'s; which directories are granted is the
//! host's, which says so in `IKIGAI_DIRS`.

mod errno;
mod files;
mod grants;
mod replace;
mod shell;

pub use files::NativeFiles;
pub use shell::NativeShell;

use ikigai_protocol::DIRS_VARIABLE;

/// The files of this process: what `IKIGAI_DIRS` grants, or, where it is not set,
/// what the caller may reach.
///
/// # Errors
///
/// The variable does not parse.
pub fn files() -> Result<NativeFiles, String> {
    match std::env::var_os(DIRS_VARIABLE) {
        None => Ok(NativeFiles::caller()),
        Some(value) => NativeFiles::granted(&value).map_err(|error| error.to_string()),
    }
}

/// The shell of this machine.
///
/// # Errors
///
/// None; a shell that is missing shows when a command is run.
pub fn shell() -> Result<NativeShell, String> {
    Ok(NativeShell)
}
