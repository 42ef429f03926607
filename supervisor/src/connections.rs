//! The connections of a tool that has its own sockets.
//!
//! A program reaches a local socket by the path of its file. A granted directory may contain the
//! socket of another program, such as a container engine or an agent with keys. Neither a
//! read-only mount nor Landlock keeps a tool from that socket. So the tool's `connect` never
//! runs. The supervisor connects a copy of the tool's descriptor, to an address that it read
//! once, and to a file that it opened and checked. The tool may change its memory, its
//! descriptors and its directories in the meantime: nothing is looked up again.
//!
//! The file must lie in the tool's file system in memory, which no other program sees, or belong
//! to one of the tool's own servers. So the kernel also reports `listen` to the supervisor,
//! which keeps the file of each server that lies elsewhere. It does not keep the name, which may
//! be given to another file. Other addresses need no check: abstract names, TCP and UDP belong
//! to the network namespace.
//!
//! Owns the check, the files, and the connections that cannot be made at once. Gets the calls
//! from [`super::notices`].

use std::collections::VecDeque;
use std::ffi::{OsStr, c_int};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, getpeername, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::listener::{LONGEST_LOCAL_ADDRESS, Listener, Notice};
use super::lookup::open_path;
use super::observer::bytes_at;

/// The time between two attempts to make a connection that has to wait.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// The longest time of an attempt. An attempt takes long only if another thread of the tool
/// makes the socket block again after the supervisor made it non-blocking.
const LONGEST_ATTEMPT: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 2_000 };

/// The families whose addresses lead only into the tool's own network. Netlink is left out: the
/// kernel would check for a right of this process that the tool does not have.
const OF_NETWORK: [AddressFamily; 2] = [AddressFamily::INET, AddressFamily::INET6];

/// The number of the tool's servers in granted directories to which it can connect. It may have
/// more.
const MOST_KEPT: usize = 256;

/// The beginning of the address of a local socket.
const LOCAL: [u8; 2] = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();

/// The connections of one tool.
pub(super) struct ToolConnections {
    own: OwnFiles,
    /// The first one is the next to be tried.
    waiting: VecDeque<(Notice, PendingConnection)>,
}

/// The files of the tool's own local sockets.
struct OwnFiles {
    /// The device of the file system in memory.
    device: u64,
    /// The files on other file systems. While a file is open, its number is not given to
    /// another.
    others: Vec<OwnedFd>,
}

impl ToolConnections {
    /// Begins without connections. `device` is the tool's file system in memory.
    pub(super) fn new(device: u64) -> Self {
        handle_alarms();
        Self { own: OwnFiles { device, others: Vec::new() }, waiting: VecDeque::new() }
    }

    /// Keeps the file of a socket that the tool is about to listen at. Lets the call continue,
    /// and returns whether it was still waiting.
    pub(super) fn keep(&mut self, notice: &Notice, listener: &Listener) -> bool {
        let [descriptor, ..] = notice.arguments;
        let socket = copy_of(notice.thread, descriptor as c_int);
        if listener.is_waiting(notice)
            && let Ok(socket) = socket
        {
            self.own.keep(&socket);
        }
        listener.resume(notice)
    }

    /// Makes the connection that a call asks for, and answers the call, immediately or later.
    /// Returns whether the call was still waiting.
    pub(super) fn make(&mut self, notice: &Notice, listener: &Listener) -> bool {
        // The kernel does not accept a longer address as a local one.
        if length_of(notice) > LONGEST_LOCAL_ADDRESS {
            return listener.resume(notice);
        }
        let connection = PendingConnection::from_notice(notice, &self.own);
        if !listener.is_waiting(notice) {
            return false;
        }
        match connection.and_then(|it| Ok((it.attempt()?, it))) {
            Ok((ConnectOutcome::Made, _)) => listener.answer(notice, Ok(())),
            Ok((ConnectOutcome::Waits, connection)) => {
                self.waiting.push_back((*notice, connection));
                true
            }
            Err(errno) => listener.answer(notice, Err(errno)),
        }
    }

    /// Tries the next of the waiting connections again.
    pub(super) fn retry_next(&mut self, listener: &Listener) {
        let Some((notice, connection)) = self.waiting.pop_front() else { return };
        if !listener.is_waiting(&notice) {
            return;
        }
        let result = match connection.attempt() {
            Ok(ConnectOutcome::Waits) => {
                self.waiting.push_back((notice, connection));
                return;
            }
            Ok(ConnectOutcome::Made) => Ok(()),
            Err(errno) => Err(errno),
        };
        listener.answer(&notice, result);
    }

    /// Returns the number of connections that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl OwnFiles {
    /// Keeps the file of a local socket to which the tool gave a path. Skips a connected socket:
    /// it may have the path of another program's server.
    fn keep(&mut self, socket: &OwnedFd) {
        // A file without a name cannot be connected to any more.
        self.others.retain(|file| fstat(file).is_ok_and(|stat| stat.st_nlink > 0));
        if self.others.len() < MOST_KEPT
            && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
            && getpeername(socket).err() == Some(Errno::NOTCONN)
            && let Ok(file) = file_of(socket)
            && fstat(&file).is_ok_and(|stat| stat.st_dev != self.device)
        {
            self.others.push(file);
        }
    }

    /// Returns whether a file belongs to the tool's own sockets.
    fn have(&self, stat: &Stat) -> bool {
        let is_it = |file: &OwnedFd| {
            fstat(file).is_ok_and(|own| (own.st_dev, own.st_ino) == (stat.st_dev, stat.st_ino))
        };
        stat.st_dev == self.device || self.others.iter().any(is_it)
    }
}

/// A socket of the tool that is to be connected.
struct PendingConnection {
    socket: OwnedFd,
    address: Vec<u8>,
    /// Keeps the file open. The address names the file by the number of this descriptor.
    _file: Option<OwnedFd>,
}

/// The result of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectOutcome {
    Made,
    /// The other side has no room, or has not answered.
    Waits,
}

impl PendingConnection {
    /// Prepares the connection that a call asks for.
    fn from_notice(notice: &Notice, own: &OwnFiles) -> Result<Self, Errno> {
        let [descriptor, place, ..] = notice.arguments;
        let socket = copy_of(notice.thread, descriptor as c_int)?;
        let address = match length_of(notice) {
            0 => Vec::new(),
            length => bytes_at(notice.thread, place as usize, length)
                .filter(|bytes| bytes.len() == length)
                .ok_or(Errno::FAULT)?,
        };
        match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => {}
            family if OF_NETWORK.contains(&family) => {
                return Ok(Self { socket, address, _file: None });
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        match address.strip_prefix(&LOCAL) {
            None | Some([]) => Err(Errno::INVAL),
            // An abstract name, which includes all of the bytes.
            Some([0, ..]) => Ok(Self { socket, address, _file: None }),
            Some(path) => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                let path = Path::new(OsStr::from_bytes(&path[..end]));
                let file = own_socket(notice.thread, path, own)?;
                let name = format!("/proc/self/fd/{}\0", file.as_raw_fd());
                let address = [&LOCAL[..], name.as_bytes()].concat();
                Ok(Self { socket, address, _file: Some(file) })
            }
        }
    }

    /// Tries to connect without waiting. The non-blocking flag belongs to the tool's socket too,
    /// so this restores it.
    fn attempt(&self) -> Result<ConnectOutcome, Errno> {
        let flags = fcntl_getfl(&self.socket)?;
        if flags.contains(OFlags::NONBLOCK) {
            return match self.connect() {
                // The tool has cleared the flag in the meantime.
                Err(Errno::INTR) => Ok(ConnectOutcome::Waits),
                made => made.map(|()| ConnectOutcome::Made),
            };
        }
        fcntl_setfl(&self.socket, flags | OFlags::NONBLOCK)?;
        let mut made = self.connect();
        // On a loopback the answer is there when the first call ends.
        if made == Err(Errno::INPROGRESS) {
            made = self.connect();
        }
        fcntl_setfl(&self.socket, flags)?;
        match made {
            Ok(()) => Ok(ConnectOutcome::Made),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {
                Ok(ConnectOutcome::Waits)
            }
            Err(errno) => Err(errno),
        }
    }

    fn connect(&self) -> Result<(), Errno> {
        set_alarm(LONGEST_ATTEMPT);
        let length = self.address.len() as libc::socklen_t;
        // SAFETY: a system call on an open descriptor and on bytes of this length.
        let result =
            unsafe { libc::connect(self.socket.as_raw_fd(), self.address.as_ptr().cast(), length) };
        let made = result_of(result);
        set_alarm(libc::timeval { tv_sec: 0, tv_usec: 0 });
        made
    }
}

/// Returns the length of the address that a call names. The kernel reads 32 bits.
fn length_of(notice: &Notice) -> usize {
    let [_, _, length, ..] = notice.arguments;
    length as u32 as usize
}

/// Returns the result of a system call that was just made.
fn result_of(result: c_int) -> Result<(), Errno> {
    let error = io::Error::last_os_error();
    if result == 0 { Ok(()) } else { Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)) }
}

/// Copies a descriptor of a thread. All threads of a process share their descriptors, since the
/// filter refuses threads that do not.
fn copy_of(thread: u32, descriptor: c_int) -> Result<OwnedFd, Errno> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let process = process.and_then(|number| Pid::from_raw(number.trim().parse().ok()?));
    let process = pidfd_open(process.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())
}

/// Opens the socket file that a thread names, if it belongs to the tool itself.
fn own_socket(thread: u32, path: &Path, own: &OwnFiles) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = open(format!("/proc/{thread}/cwd"), flags, Mode::empty())?;
    let file = open_path(from, path, false)?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket if own.have(&stat) => Ok(file),
        FileType::Socket => Err(Errno::ACCESS),
        _ => Err(Errno::CONNREFUSED),
    }
}

/// Opens the file of a local socket that has one. The kernel knows the file even if its name has
/// changed.
fn file_of(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    /// linux/un.h.
    const SIOCUNIXFILE: libc::c_ulong = 0x89e0;
    // SAFETY: a request on an open descriptor, without an argument; a new descriptor has no
    // other owner.
    unsafe {
        match libc::ioctl(socket.as_raw_fd(), SIOCUNIXFILE as _, 0) {
            file @ 0.. => Ok(OwnedFd::from_raw_fd(file)),
            failed => Err(result_of(failed).err().unwrap_or(Errno::IO)),
        }
    }
}

/// Has SIGALRM interrupt a system call, and do nothing else.
fn handle_alarms() {
    extern "C" fn interrupt(_: c_int) {}
    // SAFETY: a system call on a structure that lives, with a handler that does nothing. Zeroes
    // are an empty mask and no flag: with SA_RESTART the kernel would begin the interrupted call
    // again.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = interrupt as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut());
    }
}

/// Sends this process SIGALRM once per `time`, or never again if it is zero.
fn set_alarm(time: libc::timeval) {
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: a system call on a structure that lives; the old one is not asked for. It fails
    // only for a wrong argument.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const timer, 0) };
}
