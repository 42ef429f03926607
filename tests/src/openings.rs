//! A record of the opened files of a directory. It shows a test that a program ran, even if that
//! program may not write anywhere.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// The names of the files of one directory that were opened, in order.
pub struct Openings {
    events: OwnedFd,
    names: Vec<String>,
}

impl Openings {
    /// Begins to watch `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let events = inotify::init(flags).expect("events of files");
        // Without a close in between, two consecutive openings would be one event.
        let watched = WatchFlags::OPEN | WatchFlags::CLOSE;
        inotify::add_watch(&events, dir, watched).expect("a directory");
        Self { events, names: Vec::new() }
    }

    /// Returns the names so far.
    pub fn names(&mut self) -> &[String] {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    if let Some(name) = event.file_name()
                        && event.events().contains(ReadFlags::OPEN)
                    {
                        self.names.push(name.to_string_lossy().into_owned());
                    }
                }
                Err(Errno::AGAIN) => return &self.names,
                Err(Errno::INTR) => {}
                Err(error) => panic!("events of files broke: {error}"),
            }
        }
    }

    /// Forgets the names so far.
    pub fn forget(&mut self) {
        self.names();
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opening_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, "").expect("written");
        let mut openings = Openings::new(dir.path());
        for _ in 0..3 {
            std::fs::read(&path).expect("read");
        }
        assert_eq!(openings.names(), ["file"; 3]);
        openings.forget();
        assert!(openings.names().is_empty());
    }
}
