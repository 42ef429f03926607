//! A tool that takes more processes and memory than it was granted. It uses each of the ways that
//! once exceeded a limit that was only polled.
//!
//! The first argument is the way, and the second is the wanted amount. For each process or mebibyte
//! that the tool gets, one byte goes to stdout at once, so that the count is known even if the tool
//! is killed. The error of the next one goes to stderr.

#![cfg(target_os = "linux")]

use std::env;
use std::ffi::CString;
use std::io::{self, Write};
use std::mem;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::ptr;

const MIB: usize = 1 << 20;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
    // The tool keeps everything that it took until the end of the call. With the order `leave` it
    // exits and leaves the processes behind.
    let leaves = words.pop_if(|word| *word == "leave").is_some();
    let refused = match words[..] {
        ["fork-forever"] => fork_forever(),
        ["fork", wanted] => take(wanted, || fork(pause).map(drop)),
        ["corpses", wanted] => take(wanted, || fork(|| {}).map(drop)),
        ["headless", wanted] => take(wanted, headless),
        ["threads", wanted] => take(wanted, || thread(idle)),
        ["heap", wanted] => take(wanted, heap),
        ["heaps-of-the-headless", wanted] => take(wanted, headless_heap),
        ["shared", wanted] => shared(wanted),
        ["shared-by-the-headless"] => fork(|| behead(spread)).map(drop),
        ["sockets", wanted] => take(wanted, sockets),
        ["connections", wanted] => connections(wanted),
        ["queues", wanted] => take(wanted, queue),
        ["inotify", wanted] => take(wanted, inotify),
        ["mapped-files", wanted] => take(wanted, || mapped_files(Readable::ByOthers)),
        ["mapped-files-of-the-hidden", wanted] => {
            take(wanted, || mapped_files(Readable::ByRootAlone))
        }
        ["semaphores", wanted] => take(wanted, semaphores),
        ["rulesets", wanted] => take(wanted, ruleset),
        ["mappings", wanted] => take(wanted, mappings),
        ["page-tables", wanted] => take(wanted, page_tables),
        ["files", wanted] => take(wanted, file),
        ["locks", wanted] => take(wanted, locks),
        ["locks-and-heap", count, wanted] => take(count, locks).and_then(|()| take(wanted, heap)),
        ["directories", wanted] => directories(wanted),
        ["blind", pid, wanted] => blind(pid).and_then(|()| take(wanted, headless_heap)),
        _ => Err(io::Error::other(format!("no way is called {words:?}"))),
    };
    if let Err(error) = refused {
        let _ = writeln!(io::stderr(), "{error}");
    }
    if !leaves {
        pause();
    }
    ExitCode::SUCCESS
}

/// Takes the wanted number, one after the other, and reports each.
fn take(wanted: &str, mut one: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let wanted: usize = wanted.parse().map_err(io::Error::other)?;
    for _ in 0..wanted {
        one()?;
        report(1);
    }
    Ok(())
}

fn report(times: usize) {
    // The output is not buffered, because each child would write the buffer's content again.
    let bytes = [b'.'; 64];
    // SAFETY: a system call on bytes that live. If stdout is closed, that does not matter.
    unsafe { libc::write(1, bytes.as_ptr().cast(), times.min(bytes.len())) };
}

fn fork_forever() -> io::Result<()> {
    loop {
        // SAFETY: this process has one thread, and the child only makes system calls.
        match unsafe { libc::fork() } {
            0 => report(1),
            child if child < 0 => {}
            _ => {}
        }
    }
}

fn pause() {
    loop {
        // SAFETY: a system call without arguments.
        unsafe { libc::pause() };
    }
}

fn fork(child: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: this process has one thread when this is called.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: a system call on a number.
            unsafe { libc::_exit(0) }
        }
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

extern "C" fn idle(_: *mut libc::c_void) -> *mut libc::c_void {
    pause();
    ptr::null_mut()
}

extern "C" fn fat(_: *mut libc::c_void) -> *mut libc::c_void {
    let _ = heap();
    pause();
    ptr::null_mut()
}

fn thread(entry: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) -> io::Result<()> {
    let mut id = 0;
    // SAFETY: the entry takes no argument and does not return; attributes are the default.
    match unsafe { libc::pthread_create(&raw mut id, ptr::null(), entry, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Starts a process whose first thread has ended while another one continues.
fn headless() -> io::Result<()> {
    fork(|| behead(idle)).map(drop)
}

/// Starts a process whose first thread has ended, and whose other thread takes memory.
fn headless_heap() -> io::Result<()> {
    fork(|| behead(fat)).map(drop)
}

fn behead(entry: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) {
    // SAFETY: system calls on numbers; `exit` ends only this thread.
    unsafe {
        libc::setsid();
        if thread(entry).is_ok() {
            libc::syscall(libc::SYS_exit, 0);
        }
    }
}

/// Takes a mebibyte of the process's own memory and writes to it.
fn heap() -> io::Result<()> {
    let place = map(MIB, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)?;
    // SAFETY: the mapping is new and has this length.
    unsafe { place.write_bytes(1, MIB) };
    Ok(())
}

fn map(length: usize, flags: libc::c_int) -> io::Result<*mut u8> {
    map_with(length, libc::PROT_READ | libc::PROT_WRITE, flags)
}

fn map_with(length: usize, access: libc::c_int, flags: libc::c_int) -> io::Result<*mut u8> {
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let place = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(place.cast()) }
}

/// Takes shared memory that no other process uses, and releases each page as soon as it is written.
/// The memory stays, but belongs to no process.
fn shared(wanted: &str) -> io::Result<()> {
    let count: usize = wanted.parse().map_err(io::Error::other)?;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = map(count * MIB, flags)?;
    let mut next = 0;
    take(wanted, || {
        // SAFETY: one of `count` mebibytes of the mapping.
        unsafe {
            let one = place.add(next * MIB);
            one.write_bytes(1, MIB);
            next += 1;
            libc::madvise(one.cast(), MIB, libc::MADV_DONTNEED);
        }
        Ok(())
    })
}

extern "C" fn spread(_: *mut libc::c_void) -> *mut libc::c_void {
    let _ = shared("400");
    pause();
    ptr::null_mut()
}

/// Takes as many lock records as the host counts for a MiB. They are in four files, because for
/// each new record the kernel searches all records of its file.
fn locks() -> io::Result<()> {
    for _ in 0..4 {
        let file = std::mem::ManuallyDrop::new(tempfile::tempfile_in(".")?);
        for record in 0..1024 {
            // Only every other byte is locked, because neighbouring locks would become one.
            let lock = libc::flock {
                l_type: libc::F_WRLCK as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: record * 2,
                l_len: 1,
                l_pid: 0,
            };
            // SAFETY: a system call on a descriptor that is open, and on a place that lives.
            if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Opens many descriptors of one large directory, and reads a little from each. The file system
/// caches the next entries for each descriptor.
fn directories(wanted: &str) -> io::Result<()> {
    let wanted: usize = wanted.parse().map_err(io::Error::other)?;
    std::fs::create_dir_all("large")?;
    for name in 0..300 {
        std::fs::write(format!("large/{name:050}"), "")?;
    }
    for _ in 0..wanted {
        fork(|| {
            let mut most = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: system calls on a structure of the right size, on a string that ends, and on
            // a place that is large enough.
            unsafe {
                libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut most);
                most.rlim_cur = most.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most);
                let mut entries = [0_u8; 512];
                loop {
                    let open = libc::open(c"large".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
                    if open < 0 {
                        break;
                    }
                    let (place, length) = (entries.as_mut_ptr(), entries.len());
                    libc::syscall(libc::SYS_getdents64, open, place, length);
                }
            }
            report(1);
            pause();
        })?;
    }
    Ok(())
}

/// Fills a pair of sockets, which has no reader, with a mebibyte.
fn sockets() -> io::Result<()> {
    let mut held = 0;
    while held < MIB {
        let mut pair = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        // SAFETY: system calls on numbers, and on places that live.
        unsafe {
            if libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let large = 64 * MIB as libc::c_int;
            let length = size_of_val(&large) as libc::socklen_t;
            libc::setsockopt(
                pair[0],
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const large).cast(),
                length,
            );
            let bytes = [1_u8; 32 << 10];
            loop {
                match libc::write(pair[0], bytes.as_ptr().cast(), bytes.len()) {
                    sent if sent > 0 => held += sent as usize,
                    _ => break,
                }
                if held >= MIB {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Fills connections that are never accepted, a mebibyte at a time. No control group is charged for
/// their memory.
fn connections(wanted: &str) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    take(wanted, || {
        let mut held = 0;
        while held < MIB {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            while let Ok(sent @ 1..) = stream.write(&[1; 32 << 10]) {
                held += sent;
            }
            mem::forget(stream);
        }
        Ok(())
    })
}

/// Fills System V queues with a mebibyte.
fn queue() -> io::Result<()> {
    let message = [1_u8; 8 + 4096];
    let mut held = 0;
    while held < MIB {
        // SAFETY: system calls on numbers, and on bytes that live and begin with the type
        // of the message, which is not 0.
        unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            if queue < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut sent = 0;
            while libc::msgsnd(queue, message.as_ptr().cast(), 4096, libc::IPC_NOWAIT) == 0 {
                sent += 4096;
            }
            if sent == 0 {
                return Err(io::Error::last_os_error());
            }
            held += sent;
        }
    }
    Ok(())
}

/// Makes an instance of inotify.
fn inotify() -> io::Result<()> {
    // SAFETY: a system call on a number.
    if unsafe { libc::inotify_init1(0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The users who may read the mappings of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readable {
    ByOthers,
    ByRootAlone,
}

/// Starts a process that maps a file again and again, opened anew each time, and closes every
/// descriptor.
fn mapped_files(readable: Readable) -> io::Result<()> {
    const FILES: usize = 60_000;
    let own = CString::new("/proc/self/exe").map_err(io::Error::other)?;
    fork(move || {
        if readable == Readable::ByRootAlone {
            // SAFETY: a system call on numbers.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
        }
        for _ in 0..FILES {
            // SAFETY: system calls on numbers and on a string that ends; nothing of the mapping is
            // read.
            unsafe {
                let file = libc::open(own.as_ptr(), libc::O_RDONLY);
                let place = ptr::null_mut();
                libc::mmap(place, 4096, libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
                libc::close(file);
            }
        }
        report(1);
        pause();
    })
    .map(drop)
}

/// Takes a set of System V semaphores of 64 bytes each, a mebibyte in total.
fn semaphores() -> io::Result<()> {
    // SAFETY: a system call on numbers.
    match unsafe { libc::semget(libc::IPC_PRIVATE, (MIB / 64) as libc::c_int, 0o600) } {
        set if set < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes a ruleset of Landlock, which stays open.
fn ruleset() -> io::Result<()> {
    // LANDLOCK_ACCESS_FS_EXECUTE, linux/landlock.h.
    let rights = 1_u64;
    // SAFETY: a system call that reads a number, which outlives it.
    let ruleset = unsafe {
        let (size, flags) = (size_of_val(&rights), 0_u32);
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rights, size, flags)
    };
    if ruleset < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a process with as many mappings as it may have. The kernel keeps a record for each.
fn mappings() -> io::Result<()> {
    const PAIRS: usize = 32_000;
    const PAGE: usize = 4096;
    fork(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let Ok(place) = map_with(2 * PAIRS * PAGE, libc::PROT_NONE, flags) else { return };
        for pair in 0..PAIRS {
            // SAFETY: one page of the mapping, which the process does not use.
            unsafe { libc::mprotect(place.add(2 * pair * PAGE).cast(), PAGE, libc::PROT_READ) };
        }
        report(1);
        pause();
    })
    .map(drop)
}

/// Makes the kernel allocate a mebibyte of page tables, one page for each 2 MiB of addresses.
/// Memory that is only read is one page of zeroes, wherever it lies.
fn page_tables() -> io::Result<()> {
    const REACH: usize = 2 * MIB;
    const TABLES: usize = 256;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = TABLES * REACH;
    let place = map_with(length, libc::PROT_READ, flags)?;
    // SAFETY: places in the mapping, to which nothing is written.
    unsafe {
        libc::madvise(place.cast(), length, libc::MADV_NOHUGEPAGE);
        for table in 0..TABLES {
            place.add(table * REACH).read_volatile();
        }
    }
    Ok(())
}

/// Writes a mebibyte to the directory for temporary files.
fn file() -> io::Result<()> {
    let mut file = std::fs::File::options().append(true).create(true).open("/tmp/f")?;
    file.write_all(&[1; MIB])
}

/// Lowers another process's limit on descriptors, so that it cannot observe this one.
fn blind(pid: &str) -> io::Result<()> {
    let pid: libc::pid_t = pid.parse().map_err(io::Error::other)?;
    let none = libc::rlimit { rlim_cur: 2, rlim_max: 2 };
    // SAFETY: a system call on a number and a structure that is read.
    let result =
        unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const none, ptr::null_mut()) };
    let failed = CString::new("prlimit: refused\n").map_err(io::Error::other)?;
    if result != 0 {
        // SAFETY: a system call on bytes that live.
        unsafe { libc::write(2, failed.as_ptr().cast(), failed.as_bytes().len()) };
    }
    Ok(())
}
