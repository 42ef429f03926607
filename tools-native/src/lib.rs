//! The ports of the built-in tools for a native program: files over directory handles or with the
//! caller's rights, assets over the host socket, and the machine's shell.
//!
//! Each program in `src/bin` calls one tool of `ikigai-tools` with the port that it needs:
//! [`files`], [`storage`] or [`shell`].
//!
//! `ikigai-tools` decides the answers of the tools. The host decides which directories and assets
//! are granted, and passes them in `IKIGAI_DIRS` and over a socket.

mod assets;
mod errno;
mod files;
mod grants;
mod replace;
mod shell;

pub use assets::HostAssets;
pub use files::NativeFiles;
pub use shell::NativeShell;

use ikigai_protocol::DIRS_VARIABLE;
use ikigai_protocol::host_socket::HOST_FD_VARIABLE;
use ikigai_tools::ports::Storage;

/// Returns the files of this process: the files that `IKIGAI_DIRS` grants or, if it is not set, all
/// files that the caller may reach.
///
/// # Errors
///
/// Returns an error if the variable does not parse.
pub fn files() -> Result<NativeFiles, String> {
    match std::env::var_os(DIRS_VARIABLE) {
        None => Ok(NativeFiles::caller()),
        Some(value) => NativeFiles::granted(&value).map_err(|error| error.to_string()),
    }
}

/// Returns the files of this process together with the assets that the host serves over the socket
/// in `IKIGAI_HOST_FD`; if that is not set, no asset is granted.
///
/// # Errors
///
/// Returns an error if either variable does not parse, or if the second does not name a socket.
pub fn storage() -> Result<Storage<NativeFiles, HostAssets>, String> {
    let number = match std::env::var(HOST_FD_VARIABLE) {
        Ok(number) => Some(number),
        Err(std::env::VarError::NotPresent) => None,
        Err(error) => return Err(format!("{HOST_FD_VARIABLE}: {error}")),
    };
    let assets = HostAssets::inherited(number.as_deref())?;
    Ok(Storage { files: files()?, assets })
}

/// Returns the shell of this machine.
///
/// # Errors
///
/// Returns no error; a missing shell shows when a command is run.
pub fn shell() -> Result<NativeShell, String> {
    Ok(NativeShell)
}
