//! Files that others may have created, opened without blocking.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading. Other files are refused: a pipe would wait for a writer, and a
/// device may be endless.
///
/// # Errors
///
/// Fails if it cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_would_block_or_never_end_is_refused_at_once() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (fifo, file) = (scratch.path().join("fifo"), scratch.path().join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("made");
        std::fs::write(&file, "").expect("written");
        for refused in [&fifo, scratch.path(), Path::new("/dev/zero")] {
            let error = open_regular(refused).expect_err("refused");
            assert_eq!(error.to_string(), "it is not a file", "{refused:?}");
        }
        open_regular(&file).expect("opened");
    }
}
