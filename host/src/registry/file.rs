//! Opens files that may be tools, without blocking, and names them in messages.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// The suffix of the file name of a wrapped program's definition.
pub(super) const WRAPPED: &str = ".wrap.toml";

/// The largest component that is read, in bytes: ten times the size of an interpreter.
pub(super) const MAX_COMPONENT: u64 = 256 << 20;

/// Opens a regular file. Does not block, even if it has become a FIFO.
pub(super) fn open(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no longer a regular file"));
    }
    Ok(file)
}

/// Opens a component, unless it is too large.
pub(super) fn open_component(path: &Path) -> io::Result<fs::File> {
    let file = open(path)?;
    check_size(file.metadata()?.len())?;
    Ok(file)
}

/// Refuses a component that is larger than [`MAX_COMPONENT`], because it would use up the host's
/// memory.
pub(super) fn check_size(bytes: u64) -> io::Result<()> {
    if bytes > MAX_COMPONENT {
        let most = MAX_COMPONENT >> 20;
        return Err(io::Error::other(format!("it is larger than a component may be, {most} MiB")));
    }
    Ok(())
}

/// Returns the name of a file without its directory, for messages.
pub(super) fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns whether a file has the name of the tool `tool`.
pub(super) fn is_called(path: &Path, tool: &str) -> bool {
    tool_name(path) == tool
}

/// Returns the name of the tool that a file should be, by the name of the file.
pub(super) fn tool_name(path: &Path) -> String {
    let name = name(path);
    let stem = match name.strip_suffix(WRAPPED) {
        Some(stem) => stem,
        None => name.rsplit_once('.').map_or(&*name, |(stem, _)| stem),
    };
    stem.replace('-', "_")
}
