//! The ports of the tools for a native program: files over directory handles or
//! with the caller's rights, documents over the host socket, and `/bin/sh`.
//!
//! What a tool answers is `ikigai-tools`'s; which directories and documents are granted
//! is the host's, which says so in `IKIGAI_DIRS` and by handing over a socket.

mod assets;
mod errno;
mod files;
mod grants;
mod replace;
mod shell;

pub use assets::HostDocuments;
pub use files::NativeFiles;
pub use shell::NativeShell;

use ikigai_protocol::DIRS_VARIABLE;
use ikigai_protocol::host_socket::HOST_FD_VARIABLE;
use ikigai_tools::ports::Storage;

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

/// The same, and the documents that the host serves over the socket in
/// `IKIGAI_HOST_FD`; where that is not set, there are none.
///
/// # Errors
///
/// One of the two variables does not parse, or the second does not name a socket.
pub fn storage() -> Result<Storage<NativeFiles, HostDocuments>, String> {
    let number = match std::env::var(HOST_FD_VARIABLE) {
        Ok(number) => Some(number),
        Err(std::env::VarError::NotPresent) => None,
        Err(error) => return Err(format!("{HOST_FD_VARIABLE}: {error}")),
    };
    let documents = HostDocuments::inherited(number.as_deref())?;
    Ok(Storage { files: files()?, documents })
}

/// The shell of this machine.
///
/// # Errors
///
/// None; a shell that is missing shows when a command is run.
pub fn shell() -> Result<NativeShell, String> {
    Ok(NativeShell)
}
