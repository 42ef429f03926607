//! The memory and the files of the kernel that a call takes, and that neither a control group
//! nor a limit of a process bounds.
//!
//! They are records of locks and mappings, page tables, and entries of a directory that is being
//! read. Each is small, or is behind a descriptor, and there can be many. Control groups are
//! charged for some of them, but not every machine has such groups. They cannot be counted all
//! the time: listing a hundred thousand locks takes the kernel seconds, in which no process on
//! the machine can lock a file. So the supervisor measures the kernel's own memory. Only if that
//! has grown too much, it counts the descriptors, mappings, page tables and locks of the call.
//! It checks the machine's open files and the user's epoll watches in the same way. Owns these
//! measurements; ends nothing.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Seek as _};

use super::user_watches;
use crate::process_tree::Process;

/// The maximum number of open files of a sandboxed call, in all of its processes together, by
/// descriptors and by mappings.
pub(super) const OPEN_FILES_OF_CALL: u64 = 1 << 18;

/// The part of the open files of the machine that a call may have: one in this many.
const SHARE_OF_FILES: u64 = 16;

/// The number of descriptors at which a call is considered the cause while the kernel's memory
/// grows. The processes of an ordinary call hold fewer together.
const MANY_DESCRIPTORS: usize = 1000;

/// The number of locks at which a call is considered the cause. Databases hold a few for each
/// file.
const MANY_LOCKS: usize = 1000;

/// The number of mappings at which a call is considered the cause: about as many as one process
/// may have.
const MANY_MAPPINGS: usize = 1 << 16;

/// The list of the locks on files, proc_locks(5).
const LOCKS: &str = "/proc/locks";

/// The size of a read of a list of mappings, in bytes.
const CHUNK: usize = 64 << 10;

/// The measurements of the kernel during one call.
#[derive(Default)]
pub(super) struct KernelMemory {
    memory: Growth,
    files: Growth,
    /// The list of locks, which was opened before it was covered. `None` if it is not covered.
    locks: Option<File>,
}

/// The growth of a number that other programs change too.
#[derive(Default)]
struct Growth {
    /// The lowest value that was measured.
    least: Option<u64>,
}

impl Growth {
    /// Returns by how much `now` exceeds the lowest value.
    fn until(&mut self, now: u64) -> u64 {
        now - *self.least.insert(self.least.unwrap_or(now).min(now))
    }
}

impl KernelMemory {
    pub(super) fn new(locks: Option<File>) -> Self {
        Self { locks, ..Self::default() }
    }

    /// Returns whether the call has taken too much. That is so in three cases:
    ///
    /// - The kernel's own memory has grown by more than `limit` bytes, and `tree` holds many
    ///   descriptors, mappings or locks, or page tables of half the limit.
    /// - The kernel's memory has grown enough for it, and the user has no epoll watches left.
    /// - The machine's open files have grown by more than a call may have, and `tree` holds half
    ///   of that number.
    pub(super) fn is_taken(
        &mut self,
        limit: u64,
        tree: impl Fn() -> io::Result<Vec<Process>>,
    ) -> io::Result<bool> {
        let grown = self.memory.until(kernels_own(&meminfo()?));
        if grown > user_watches::EPOLL_SUSPICION && user_watches::is_epoll_used_up()? {
            return Ok(true);
        }
        if let Some((open, most)) = open_files() {
            let most = OPEN_FILES_OF_CALL.min(most / SHARE_OF_FILES);
            if self.files.until(open) > most && holds_files(&tree()?, most / 2) {
                return Ok(true);
            }
        }
        if grown <= limit {
            return Ok(false);
        }
        let tree = tree()?;
        if descriptors(&tree) >= MANY_DESCRIPTORS
            || page_tables(&tree) > limit / 2
            || mappings(&tree, MANY_MAPPINGS) == MANY_MAPPINGS
        {
            return Ok(true);
        }
        self.has_many_locks()
    }

    /// Returns whether the call has many locks. A namespace does not show the locks of others,
    /// except locks of open file descriptions, which belong to no process.
    fn has_many_locks(&self) -> io::Result<bool> {
        let opened;
        let mut list = match &self.locks {
            Some(list) => list,
            None => {
                opened = File::open(LOCKS)?;
                &opened
            }
        };
        // The list may have been read before.
        list.rewind()?;
        let lines = BufReader::new(list).split(b'\n');
        let mut seen = 0;
        for line in lines.take(MANY_LOCKS) {
            line?;
            seen += 1;
        }
        Ok(seen == MANY_LOCKS)
    }
}

/// Counts the descriptors of the processes. A process that may not be read counts as one with
/// many descriptors.
fn descriptors(tree: &[Process]) -> usize {
    let of = |process: &Process| match fs::read_dir(process.path("fd")) {
        Ok(open) => open.count(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => MANY_DESCRIPTORS,
        Err(_) => 0,
    };
    tree.iter().map(of).sum()
}

/// Returns the page tables of the processes, in bytes, proc_pid_status(5).
fn page_tables(tree: &[Process]) -> u64 {
    let of = |process: &Process| {
        let text = fs::read_to_string(process.path("status")).unwrap_or_default();
        bytes_of(&text, "VmPTE:")
    };
    tree.iter().map(of).sum()
}

/// Counts the mappings of the processes, up to `most`.
fn mappings(tree: &[Process], most: usize) -> usize {
    let mut chunk = vec![0; CHUNK];
    let mut seen = 0;
    for process in tree {
        // It may have ended since it was listed.
        let Ok(mut list) = File::open(process.path("maps")) else { continue };
        while let Ok(length @ 1..) = list.read(&mut chunk) {
            // One mapping is one line, proc_pid_maps(5).
            seen += chunk[..length].iter().filter(|byte| **byte == b'\n').count();
            if seen >= most {
                return most;
            }
        }
    }
    seen
}

/// Returns whether the processes may hold `count` open files, each by a descriptor or a mapping.
fn holds_files(tree: &[Process], count: u64) -> bool {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let rest = count.saturating_sub(descriptors(tree));
    mappings(tree, rest) == rest
}

/// Returns the number of open files of the machine and its maximum, proc_sys_fs(5). `None` if
/// `/proc` does not show them.
fn open_files() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/sys/fs/file-nr").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match [numbers.next(), numbers.next(), numbers.next()] {
        [Some(Ok(open)), _, Some(Ok(most))] => Some((open, most)),
        _ => None,
    }
}

/// Reads the whole file with one system call: the kernel counts anew for each.
fn meminfo() -> io::Result<String> {
    let mut text = Vec::with_capacity(8 << 10);
    File::open("/proc/meminfo")?.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the memory that the kernel keeps for itself and cannot reclaim, and the memory of
/// page tables, in bytes, proc_meminfo(5). Memory of `vmalloc` is left out. The filter refuses the
/// calls by which a tool takes much of it. What remains are the stacks of its threads, whose
/// number is bounded. Other programs take much more, such as modules and virtual machines.
fn kernels_own(text: &str) -> u64 {
    bytes_of(text, "SUnreclaim:") + bytes_of(text, "PageTables:")
}

/// Returns the value of the line that begins with `name` and counts kibibytes, in bytes.
fn bytes_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_kernels_own_memory_is_read_in_bytes() {
        let text =
            "MemTotal:       24669228 kB\nSUnreclaim:       622292 kB\nPageTables:      8 kB\n";
        assert_eq!(kernels_own(text), 622_300 * 1024);
        assert_eq!(kernels_own(""), 0);
    }

    #[test]
    fn the_open_files_of_the_machine_are_read() {
        let (open, most) = open_files().expect("told");
        assert!(open > 0 && most >= open, "{open} of {most}");
        let own = crate::process_tree::descendants(rustix::process::getppid().expect("a parent"));
        let tree = own.expect("readable");
        assert!(holds_files(&tree, 10) && !holds_files(&tree, u64::MAX));
    }

    #[test]
    fn growth_is_counted_from_the_lowest_value() {
        let mut growth = Growth::default();
        assert_eq!([7, 9, 3, 5].map(|now| growth.until(now)), [0, 2, 0, 2]);
    }

    #[test]
    fn the_locks_are_read_from_the_list_that_was_opened_each_time() {
        let list = |count: usize| {
            let mut list = tempfile::tempfile().expect("made");
            list.write_all("1: OFDLCK\n".repeat(count).as_bytes()).expect("written");
            KernelMemory::new(Some(list))
        };
        let (few, many) = (list(MANY_LOCKS - 1), list(MANY_LOCKS));
        for _ in 0..2 {
            let found = [&few, &many].map(|it| it.has_many_locks().expect("read"));
            assert_eq!(found, [false, true]);
        }
    }

    #[test]
    fn less_than_the_limit_is_not_looked_into() {
        let tree = || Err(io::ErrorKind::Other.into());
        assert!(!KernelMemory::default().is_taken(1 << 40, tree).expect("told"));
    }
}
