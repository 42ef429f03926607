//! The processes that descend from one process, as `/proc` shows them: listed, measured and
//! killed.
//!
//! The supervisor uses this for the tool's tree, and the host for a supervisor that does not
//! answer. Decides nothing; reaps nothing.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Dir, Mode, OFlags, Uid, fstat, open, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group, pidfd_send_signal};

/// A process of a tree, without the tree's root.
///
/// A process whose first thread has ended is a zombie by its state, although others of its
/// threads may run. A process that has ended altogether counts as one thread until it is
/// reaped, as it does for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number in the namespace of `/proc`.
    pub pid: Pid,
    parent: i32,
    group: i32,
    state: u8,
    /// The number of its threads.
    pub threads: u64,
    /// The time of its start, in clock ticks: together with the number, its identity.
    started: u64,
    /// Its resident set, in pages, shared pages included. Not known if the first thread has
    /// ended.
    resident: u64,
}

/// The states of a thread that has ended, proc_pid_stat(5).
const ENDED: [u8; 2] = [b'Z', b'X'];

/// Returns the number of the calling process in the namespace of `/proc`.
///
/// # Errors
///
/// Fails if `/proc` is not mounted, or shows another namespace.
pub fn own_pid() -> io::Result<Pid> {
    let link = rustix::fs::readlink("/proc/self", Vec::new())?;
    parse(link.as_bytes()).and_then(Pid::from_raw).ok_or_else(|| malformed("/proc/self"))
}

/// Returns every process that descends from `root`, by way of parents that live.
///
/// # Errors
///
/// Fails if `/proc` cannot be read.
pub fn descendants(root: Pid) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    each(|_, process| children.entry(process.parent).or_default().push(process))?;
    let mut found = Vec::new();
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            parents.push(process.pid.as_raw_nonzero().get());
            found.push(process);
        }
    }
    Ok(found)
}

/// Returns the number of threads and zombies of a user, as RLIMIT_NPROC counts them. Leaves out
/// threads that the calling user may not see.
///
/// # Errors
///
/// Fails if `/proc` cannot be read.
pub fn tasks_of(user: Uid) -> io::Result<u64> {
    let mut tasks = 0;
    each(|dir, process| {
        if fstat(dir).is_ok_and(|stat| stat.st_uid == user.as_raw()) {
            tasks += process.threads;
        }
    })?;
    Ok(tasks)
}

/// Calls `visit` with every process that `/proc` shows, and its directory there.
fn each(mut visit: impl FnMut(&OwnedFd, Process)) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = open("/proc", flags, Mode::empty())?;
    for entry in Dir::read_from(&proc)? {
        let entry = entry?;
        if !entry.file_name().to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        // It may have ended since the directory was read.
        if let Ok(dir) = openat(&proc, entry.file_name(), flags, Mode::empty())
            && let Ok(process) = Process::read(&dir)
        {
            visit(&dir, process);
        }
    }
    Ok(())
}

/// Returns the memory that `processes` take, in bytes, if it is more than `limit`.
///
/// The sum of resident sets counts shared pages once for each process, which is enough to see
/// that the limit is not exceeded. The proportional shares are read only if the sum is beyond
/// `limit`: that costs a walk through the page tables.
pub fn memory_beyond(processes: &[Process], limit: u64) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let resident: u64 = processes.iter().map(|process| process.shown_pages() * page).sum();
    if resident <= limit {
        return None;
    }
    let share = |process: &Process| {
        let thread = process.living_thread();
        process.proportional_set(thread).unwrap_or_else(|| process.unshared_pages(thread) * page)
    };
    let memory = processes.iter().map(share).sum();
    (memory > limit).then_some(memory)
}

/// Kills everything that descends from `root`, repeatedly until the given time. Returns the
/// number of processes that were left at the end. Spares the group of `root`.
///
/// # Errors
///
/// Fails if `/proc` cannot be read.
pub fn kill_descendants(root: Pid, until: Instant) -> io::Result<usize> {
    loop {
        // Zombies are reaped by the process that inherits them.
        let mut descendants = descendants(root)?;
        descendants.retain(|it| !it.has_ended());
        // A process that cannot be killed is counted.
        let _ = kill(&descendants, root);
        if descendants.is_empty() || Instant::now() > until {
            return Ok(descendants.len());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Kills all of `processes`, and the process group of each, and returns the last error of a
/// kill.
///
/// One signal kills a group, which ends most fork bombs: no member can fork once the signal is
/// on its way. Each group is killed once. The cost of the signal grows with the members of the
/// group, including zombies, and a fork bomb leaves thousands of them.
pub fn kill(processes: &[Process], spared_group: Pid) -> Option<io::Error> {
    let mut groups = HashSet::new();
    let mut refused = None;
    for process in processes.iter().filter(|process| !process.has_ended()) {
        if let Err(error) = process.kill(spared_group, &mut groups) {
            refused = Some(error);
        }
    }
    refused
}

impl Process {
    /// Returns whether all of its threads have ended, and it waits to be reaped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        ENDED.contains(&self.state) && self.threads < 2
    }

    /// Reads `/proc/PID/stat`, proc_pid_stat(5).
    fn read(dir: &OwnedFd) -> io::Result<Self> {
        let mut text = [0; 1024];
        let stat = openat(dir, c"stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let length = rustix::io::read(&stat, &mut text)?;
        Self::parse(&text[..length]).ok_or_else(|| malformed("/proc/PID/stat"))
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let pid = parse(stat.split(|byte| *byte == b' ').next()?)?;
        // The name is in parentheses, and may contain any character.
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&[u8]> = stat.get(name_end + 2..)?.split(|byte| *byte == b' ').collect();
        // The manual counts from 1, and the state is the third field.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            pid: Pid::from_raw(pid)?,
            state: *field(3)?.first()?,
            parent: parse(field(4)?)?,
            group: parse(field(5)?)?,
            threads: parse::<u64>(field(20)?)?.max(1),
            started: parse(field(22)?)?,
            resident: parse(field(24)?)?,
        })
    }

    /// Kills the process, and all of its process group unless the group is in `groups`, to which
    /// it is added.
    ///
    /// All members of the group are the tool's, because the tool leads a session and groups
    /// never reach beyond their session. The caller's own group and `spared_group` are spared
    /// all the same.
    fn kill(&self, spared_group: Pid, groups: &mut HashSet<i32>) -> io::Result<()> {
        let pid = self.pid.as_raw_nonzero().get();
        let path = format!("/proc/{pid}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The directory stays with this one process even if the number is given to another
        // process, and a signal can be sent through it.
        let Ok(dir) = open(path.as_str(), flags, Mode::empty()) else { return Ok(()) };
        let Ok(now) = Self::read(&dir) else { return Ok(()) };
        if now.started != self.started {
            return Ok(());
        }
        if let Some(group) = Pid::from_raw(now.group)
            && group != spared_group
            && group != getpgrp()
            && !group.is_init()
            && groups.insert(now.group)
        {
            // Only the signal to the process itself, below, must succeed.
            let _ = kill_process_group(group, Signal::KILL);
        }
        match pidfd_send_signal(&dir, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            // A kernel before 5.1, or a container that refuses the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::BADF) => {
                match kill_process(self.pid, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of a file about the process. Those of a first thread that has ended show
    /// no descriptors and no mappings, so another thread is chosen then.
    pub(crate) fn path(&self, name: &str) -> String {
        let own = self.pid.as_raw_nonzero().get();
        let thread = self.living_thread().unwrap_or(own);
        if thread == own {
            format!("/proc/{own}/{name}")
        } else {
            format!("/proc/{own}/task/{thread}/{name}")
        }
    }

    /// Returns a thread that runs: the first, unless it ended before others.
    fn living_thread(&self) -> Option<i32> {
        let own = self.pid.as_raw_nonzero().get();
        if !ENDED.contains(&self.state) {
            return Some(own);
        }
        if self.threads < 2 {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = open(format!("/proc/{own}/task").as_str(), flags, Mode::empty()).ok()?;
        let mut threads = Dir::read_from(&tasks).ok()?;
        threads.find_map(|entry| {
            let thread = parse(entry.ok()?.file_name().to_bytes())?;
            (thread != own).then_some(thread)
        })
    }

    /// Returns its resident set, in pages, even if its first thread has ended.
    fn shown_pages(&self) -> u64 {
        if !ENDED.contains(&self.state) {
            return self.resident;
        }
        self.living_thread()
            .and_then(|thread| self.pages(thread))
            .map_or(0, |(resident, _)| resident)
    }

    /// Returns its share of memory, in bytes: pages shared by N processes count 1/N. `None` if
    /// the kernel refuses access, for example to a program with setuid.
    fn proportional_set(&self, thread: Option<i32>) -> Option<u64> {
        let text = self.file(thread?, "smaps_rollup")?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// Returns the number of pages that belong to no file.
    fn unshared_pages(&self, thread: Option<i32>) -> u64 {
        let pages = thread.and_then(|thread| self.pages(thread));
        pages.map_or(self.resident, |(resident, shared)| resident.saturating_sub(shared))
    }

    /// Reads the number of its resident pages and of the shared pages among them,
    /// proc_pid_statm(5).
    fn pages(&self, thread: i32) -> Option<(u64, u64)> {
        let text = self.file(thread, "statm")?;
        let mut fields = text.split(' ').skip(1).map(str::parse::<u64>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    }

    fn file(&self, thread: i32, name: &str) -> Option<String> {
        let path = format!("/proc/{}/task/{thread}/{name}", self.pid.as_raw_nonzero());
        let file =
            openat(CWD, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

fn parse<T: FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{what}` does not have the expected form"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_no_trap() {
        let stat = b"4242 (a) S 1 (b) R 17 4242 4000 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 \
            98765 1000 250 18446744073709551615 1 1 0\n";
        let process = Process::parse(stat).expect("parses");
        assert_eq!((process.pid.as_raw_nonzero().get(), process.state), (4242, b'R'));
        assert_eq!((process.parent, process.group, process.threads), (17, 4242, 3));
        assert_eq!((process.started, process.resident), (98765, 250));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for stat in [&b""[..], b"1", b"1 (a", b"1 (a)", b"1 (a) S 1 1", b"x (a) S 1 1 1"] {
            assert_eq!(Process::parse(stat), None, "{}", String::from_utf8_lossy(stat));
        }
    }

    #[test]
    fn the_own_process_is_found_under_its_parent() {
        let own = own_pid().expect("/proc is mounted");
        let parent = rustix::process::getppid().expect("a parent");
        let found = descendants(parent).expect("readable");
        let own = found.iter().find(|process| process.pid == own).expect("listed");
        assert!(own.resident > 0 && own.threads > 0);
        assert_eq!(memory_beyond(&[*own], u64::MAX), None);
        assert!(memory_beyond(&[*own], 1).is_some());
    }
}
