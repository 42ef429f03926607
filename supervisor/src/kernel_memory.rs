//! The memory and the files of the kernel that a call takes, and that neither a control group
//! nor a limit of a process bounds. Where no control group counts it, this includes memory that
//! processes share.
//!
//! They are records of locks and mappings, page tables, and entries of a directory that is being
//! read. Each is small, or is behind a descriptor, and there can be many. Control groups are
//! charged for some of them, but not every machine has such groups. They cannot be counted all
//! the time: listing a hundred thousand locks takes the kernel seconds, in which no process on
//! the machine can lock a file. So the supervisor measures the kernel's own memory. Only if that
//! has grown too much, it counts the descriptors, mappings, page tables and locks of the call.
//! It checks the machine's open files and the user's epoll watches in the same way. Owns these
//! measurements; ends nothing.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek as _};

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

/// The part of the limit on memory that the uncharged memory of a call may take without mention:
/// one in this many.
const SHARE_OF_LIMIT: u64 = 10;

/// The memory of a thread that waits in `sendmsg`, in bytes: the usual `net.core.optmem_max`.
const WAITING_THREAD: u64 = 128 << 10;

/// The beginning of the line of proc_meminfo(5) with the machine's shared memory and files in
/// memory.
const SHARED: &str = "Shmem:";

/// The size of a read of a list of mappings, in bytes.
const CHUNK: usize = 64 << 10;

/// The measurements of the kernel during one call.
#[derive(Default)]
pub(super) struct KernelMemory {
    memory: Growth,
    shared: Growth,
    files: Growth,
    /// The list of locks, which was opened before it was covered. `None` if it is not covered.
    locks: Option<File>,
    /// Set once the call may have had more uncharged memory than [`SHARE_OF_LIMIT`].
    has_uncharged: bool,
}

/// The resources of the kernel that the processes of a call hold.
#[derive(Default)]
struct Holdings {
    /// Set if they are many descriptors, mappings or locks.
    many: bool,
    own_locks: usize,
    threads: u64,
    /// In bytes.
    page_tables: u64,
}

/// The locks at the beginning of the machine's list.
#[derive(Debug, PartialEq, Eq)]
struct ListedLocks {
    all: usize,
    /// Those that belong to processes of the call.
    own: usize,
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
    /// Begins to measure, before the tool starts.
    pub(super) fn new(locks: Option<File>) -> Self {
        let mut kernel = Self { locks, ..Self::default() };
        // If it fails, the first measurement during the call is the beginning.
        if let Ok(text) = meminfo() {
            kernel.memory.until(kernels_own(&text));
            kernel.shared.until(bytes_of(&text, SHARED));
        }
        kernel
    }

    /// Returns whether the call has taken too much. `counted` is set if a control group bounds the
    /// call's memory. `charged` returns what a group is charged for, without the cache of files and
    /// without what the growth of the kernel's memory includes. The call has taken too much in five
    /// cases:
    ///
    /// - Without such a group, the machine's shared memory has grown by more than `limit` bytes,
    ///   and `tree` maps half of the limit. If it has grown by more than twice the limit, one
    ///   mapping is enough, because `tree` may have unmapped the rest.
    /// - The kernel's own memory has grown by more than `limit` bytes, and `tree` holds many
    ///   descriptors, mappings or locks, or page tables of half the limit.
    /// - That growth and the charged memory together exceed `limit`, and `tree` itself holds many
    ///   locks. Other programs, which may have caused the growth, do not change that.
    /// - The kernel's memory has grown enough for it, and the user has no epoll watches left.
    /// - The machine's open files have grown by more than a call may have, and `tree` holds half
    ///   of that number.
    pub(super) fn is_taken(
        &mut self,
        limit: u64,
        counted: bool,
        charged: impl Fn() -> io::Result<u64>,
        tree: impl Fn() -> io::Result<Vec<Process>>,
    ) -> io::Result<bool> {
        let text = meminfo()?;
        let grown = self.memory.until(kernels_own(&text));
        let shared = self.shared.until(bytes_of(&text, SHARED));
        if !counted && shared > limit && is_shared_beyond(limit, shared, shared_memory(&tree()?)) {
            return Ok(true);
        }
        if grown > user_watches::EPOLL_SUSPICION && user_watches::is_epoll_used_up()? {
            return Ok(true);
        }
        if let Some((open, most)) = open_files() {
            let most = OPEN_FILES_OF_CALL.min(most / SHARE_OF_FILES);
            if self.files.until(open) > most && holds_files(&tree()?, most / 2) {
                return Ok(true);
            }
        }
        if grown <= limit / SHARE_OF_LIMIT {
            return Ok(false);
        }
        let is_beyond = grown.saturating_add(charged()?) > limit;
        if self.has_uncharged && !is_beyond {
            return Ok(false);
        }
        let held = Holdings::count(&tree()?, self.locks.as_ref())?;
        Ok(self.exceeds(grown, is_beyond, limit, &held))
    }

    /// Returns whether a call with these holdings has taken too much, after the kernel's memory has
    /// grown by `grown` bytes. `is_beyond` is set if that and the charged memory exceed `limit`.
    fn exceeds(&mut self, grown: u64, is_beyond: bool, limit: u64, held: &Holdings) -> bool {
        let waiting = held.threads.saturating_mul(WAITING_THREAD);
        self.has_uncharged |= held.many || waiting > limit / SHARE_OF_LIMIT;
        grown > limit && (held.many || held.page_tables > limit / 2)
            || is_beyond && held.own_locks >= MANY_LOCKS
    }

    /// Returns whether the call may have had more memory of the kernel that no group is charged
    /// for than a tenth of its limit.
    pub(super) fn has_uncharged(&self) -> bool {
        self.has_uncharged
    }
}

impl Holdings {
    /// Counts the holdings of these processes. `locks` is the list of locks, if it is open already.
    fn count(tree: &[Process], locks: Option<&File>) -> io::Result<Self> {
        let pids = tree.iter().map(|process| process.pid.as_raw_nonzero().get()).collect();
        let opened;
        let mut list = match locks {
            Some(list) => list,
            None => {
                opened = File::open(LOCKS)?;
                &opened
            }
        };
        // The list may have been read before.
        list.rewind()?;
        let locks = ListedLocks::count(BufReader::new(list), &pids)?;
        let many = locks.all >= MANY_LOCKS
            || descriptors(tree) >= MANY_DESCRIPTORS
            || mappings(tree, MANY_MAPPINGS) == MANY_MAPPINGS;
        let threads = tree.iter().map(|process| process.threads).sum();
        Ok(Self { many, own_locks: locks.own, threads, page_tables: page_tables(tree) })
    }
}

impl ListedLocks {
    /// Counts the locks in a list in the format of `/proc/locks`, up to twice [`MANY_LOCKS`].
    ///
    /// A namespace does not show the locks of others, except locks of open file descriptions,
    /// which belong to no process.
    fn count(list: impl BufRead, pids: &HashSet<i32>) -> io::Result<Self> {
        let mut locks = Self { all: 0, own: 0 };
        for line in list.split(b'\n').take(2 * MANY_LOCKS) {
            let line = line?;
            locks.all += 1;
            // `1: POSIX  ADVISORY  WRITE 4711 fe:00:42 0 EOF`, proc_locks(5). A lock that is
            // waited for has an arrow after the number.
            let text = String::from_utf8_lossy(&line);
            let pid = text.split_ascii_whitespace().filter(|word| *word != "->").nth(4);
            let pid = pid.and_then(|pid| pid.parse().ok());
            locks.own += usize::from(pid.is_some_and(|pid| pids.contains(&pid)));
        }
        Ok(locks)
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

/// Counts the mappings of the processes, up to `most`. A process that may not be read counts as one
/// with `most`.
fn mappings(tree: &[Process], most: usize) -> usize {
    let mut chunk = vec![0; CHUNK];
    let mut seen = 0;
    for process in tree {
        let mut list = match File::open(process.path("maps")) {
            Ok(list) => list,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return most,
            // It has ended since it was listed.
            Err(_) => continue,
        };
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

/// Returns whether a call that maps `mapped` bytes of shared memory has taken too much of it,
/// after the machine's has grown by `grown` bytes.
fn is_shared_beyond(limit: u64, grown: u64, mapped: u64) -> bool {
    grown > limit && mapped >= limit / 2 || grown > limit.saturating_mul(2) && mapped > 0
}

/// Returns the size of the shared memory without a file that the processes map, in bytes, even if
/// they have not touched it. A process that may not be read counts as one that maps everything.
fn shared_memory(tree: &[Process]) -> u64 {
    let mut areas: HashMap<u64, u64> = HashMap::new();
    for process in tree {
        let list = match File::open(process.path("maps")) {
            Ok(list) => BufReader::new(list),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return u64::MAX,
            // It has ended since it was listed.
            Err(_) => continue,
        };
        for line in list.split(b'\n').map_while(Result::ok) {
            if let Some((area, end)) = shared_area(&String::from_utf8_lossy(&line)) {
                let known = areas.entry(area).or_default();
                *known = end.max(*known);
            }
        }
    }
    areas.values().fold(0, |sum, end| end.saturating_add(sum))
}

/// Returns the number of an area of shared memory without a file, and the end of the part that a
/// line of proc_pid_maps(5) maps. `None` for another mapping. The filter refuses the calls that
/// make shared memory in other ways.
fn shared_area(mapping: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = mapping.split_ascii_whitespace().collect();
    let [range, access, offset, _, area, name @ ..] = words.as_slice() else { return None };
    // A process may name its memory.
    let is_area = name == ["/dev/zero", "(deleted)"] || name.first()?.starts_with("[anon_shmem:");
    if !is_area || !access.ends_with('s') {
        return None;
    }
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (from, to) = range.split_once('-')?;
    let length = number(to)?.saturating_sub(number(from)?);
    Some((area.parse().ok()?, number(offset)?.saturating_add(length)))
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
        for (count, expected) in [(MANY_LOCKS - 1, false), (MANY_LOCKS, true)] {
            let mut list = tempfile::tempfile().expect("made");
            list.write_all("1: OFDLCK\n".repeat(count).as_bytes()).expect("written");
            for _ in 0..2 {
                assert_eq!(Holdings::count(&[], Some(&list)).expect("read").many, expected);
            }
        }
    }

    #[test]
    fn little_growth_is_not_looked_into() {
        let tree = || Err(io::ErrorKind::Other.into());
        let charged = || Err(io::ErrorKind::Other.into());
        let mut kernel = KernelMemory::default();
        assert!(!kernel.is_taken(1 << 40, false, charged, tree).expect("told"));
        assert!(!kernel.has_uncharged());
    }

    #[test]
    fn shared_memory_is_known_by_its_mappings() {
        let area = |rest: &str| shared_area(&format!("7f0000000000-7f0000003000 {rest}"));
        for (rest, expected) in [
            ("rw-s 00000000 00:01 1234      /dev/zero (deleted)", Some((1234, 0x3000))),
            ("r--s 00001000 00:01 1234      /dev/zero (deleted)", Some((1234, 0x4000))),
            ("rw-s 00000000 00:01 1234      [anon_shmem:a name]", Some((1234, 0x3000))),
            ("rw-p 00000000 00:05 6         /dev/zero", None),
            ("rw-p 00000000 00:00 0 ", None),
            ("rw-s 00000000 fe:00 77        /w/a file", None),
            ("rw-s", None),
        ] {
            assert_eq!(area(rest), expected, "{rest}");
        }
    }

    #[test]
    fn growth_of_shared_memory_ends_a_call_that_maps_as_much() {
        let limit = 64 << 20;
        for (grown, mapped, expected) in [
            (limit, limit, false),
            (limit + 1, limit / 2, true),
            (limit + 1, limit / 2 - 1, false),
            (2 * limit + 1, 4096, true),
            (2 * limit + 1, 0, false),
        ] {
            assert_eq!(is_shared_beyond(limit, grown, mapped), expected, "{grown} {mapped}");
        }
    }

    #[test]
    fn only_locks_with_the_number_of_a_process_of_the_call_are_its_own() {
        let list = "1: POSIX  ADVISORY  WRITE 12 fe:00:4242 0 0\n\
                    2: -> POSIX  ADVISORY  WRITE 13 fe:00:4242 0 0\n\
                    3: OFDLCK ADVISORY  READ -1 fe:00:12 12 12\n\
                    4: FLOCK  ADVISORY  WRITE 14 fe:00:4243 0 EOF\n";
        let pids = HashSet::from([12, 13]);
        let counted = ListedLocks::count(list.as_bytes(), &pids).expect("read");
        assert_eq!(counted, ListedLocks { all: 4, own: 2 });
        let many = list.repeat(MANY_LOCKS);
        let counted = ListedLocks::count(many.as_bytes(), &pids).expect("read");
        assert_eq!(counted, ListedLocks { all: 2 * MANY_LOCKS, own: MANY_LOCKS });
    }

    #[test]
    fn the_growth_and_the_charged_memory_together_end_a_call_with_locks_of_its_own() {
        let limit = 256 << 20;
        let locks = Holdings { many: true, own_locks: MANY_LOCKS, ..Holdings::default() };
        // Locks of open file descriptions may belong to other programs.
        let others = Holdings { many: true, ..Holdings::default() };
        let exceeds = |grown, is_beyond, held: &Holdings| {
            let mut kernel = KernelMemory::default();
            let exceeds = kernel.exceeds(grown, is_beyond, limit, held);
            (exceeds, kernel.has_uncharged())
        };
        assert_eq!(exceeds(200 << 20, true, &locks), (true, true));
        assert_eq!(exceeds(200 << 20, false, &locks), (false, true));
        assert_eq!(exceeds(200 << 20, true, &others), (false, true));
        assert_eq!(exceeds(limit + 1, true, &others), (true, true));
        assert_eq!(exceeds(limit + 1, true, &Holdings::default()), (false, false));
    }

    #[test]
    fn threads_that_may_wait_with_much_data_are_uncharged_memory() {
        let threads = |threads| Holdings { threads, ..Holdings::default() };
        let mut kernel = KernelMemory::default();
        assert!(!kernel.exceeds(30 << 20, false, 256 << 20, &threads(200)));
        assert!(!kernel.has_uncharged());
        assert!(!kernel.exceeds(30 << 20, false, 256 << 20, &threads(240)));
        assert!(kernel.has_uncharged());
    }
}
