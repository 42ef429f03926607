//! The notifications of a tool's system calls (seccomp_unotify(2)): the calls that the kernel
//! reports to the supervisor, the listener's way to the supervisor, and the operations on it.
//!
//! The tool's process installs a filter with a listener, sends the listener to the supervisor
//! and closes it. That is before the filter of [`super::filter`], which then refuses any other
//! listener. A call that the other filter refuses is not reported. For a watched tool the
//! kernel reports many calls. Each continues, and the other layers allow or refuse it. For a
//! tool with its own sockets the kernel reports `connect`, and the supervisor makes the
//! connection ([`super::connections`]). [`super::observer`] reads the names in a call.

use std::ffi::{c_char, c_int, c_ulong};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use seccompiler::{BpfProgram, sock_filter};

use super::filter::{ARCHITECTURE, LOAD, NUMBER, OWN_ARCHITECTURE, RETURN, jump, line};

/// The way in which a call uses the file that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileUse {
    /// Asks about it, or for the target of a link.
    Look,
    /// Reads, enters or executes it.
    Read,
    /// Changes or removes it.
    Change,
    /// Makes it.
    Make,
    /// Opens it, by the flags in this argument.
    Open(u8),
    /// Connects to the address in the argument.
    Connect,
}

/// A system call that the kernel reports to the supervisor.
pub(super) struct NotifyRule {
    pub(super) call: c_long,
    pub(super) uses: FileUse,
    /// The files that it names: the argument with the directory, if there is one, and the
    /// argument with the path.
    pub(super) names: &'static [(Option<u8>, u8)],
    /// The argument with the flags `AT_*`.
    pub(super) flags: Option<u8>,
    /// Set if a link at the end of the path is not followed.
    pub(super) on_link: bool,
}

const fn told(call: c_long, uses: FileUse, names: &'static [(Option<u8>, u8)]) -> NotifyRule {
    NotifyRule { call, uses, names, flags: None, on_link: false }
}

const fn with_flags(
    call: c_long,
    uses: FileUse,
    names: &'static [(Option<u8>, u8)],
    flags: u8,
) -> NotifyRule {
    NotifyRule { flags: Some(flags), ..told(call, uses, names) }
}

const fn on_link(call: c_long, uses: FileUse, names: &'static [(Option<u8>, u8)]) -> NotifyRule {
    NotifyRule { on_link: true, ..told(call, uses, names) }
}

const FIRST: &[(Option<u8>, u8)] = &[(None, 0)];
const AT: &[(Option<u8>, u8)] = &[(Some(0), 1)];

/// The calls that the kernel reports. Old architectures have older calls for some of these. On
/// other architectures the C library makes the newer calls instead.
#[rustfmt::skip]
pub(super) const TOLD: &[NotifyRule] = &[
    told(libc::SYS_openat, FileUse::Open(2), AT),
    with_flags(libc::SYS_newfstatat, FileUse::Look, AT, 3),
    with_flags(libc::SYS_statx, FileUse::Look, AT, 2),
    told(libc::SYS_faccessat, FileUse::Look, AT),
    with_flags(libc::SYS_faccessat2, FileUse::Look, AT, 3),
    on_link(libc::SYS_readlinkat, FileUse::Look, AT),
    told(libc::SYS_chdir, FileUse::Read, FIRST),
    told(libc::SYS_execve, FileUse::Read, FIRST),
    with_flags(libc::SYS_execveat, FileUse::Read, AT, 4),
    on_link(libc::SYS_unlinkat, FileUse::Change, AT),
    on_link(libc::SYS_renameat2, FileUse::Make, &[(Some(0), 1), (Some(2), 3)]),
    on_link(libc::SYS_mkdirat, FileUse::Make, AT),
    on_link(libc::SYS_mknodat, FileUse::Make, AT),
    on_link(libc::SYS_linkat, FileUse::Make, &[(Some(2), 3)]),
    on_link(libc::SYS_symlinkat, FileUse::Make, &[(Some(1), 2)]),
    told(libc::SYS_truncate, FileUse::Change, FIRST),
    told(libc::SYS_fchmodat, FileUse::Change, AT),
    with_flags(libc::SYS_fchownat, FileUse::Change, AT, 4),
    with_flags(libc::SYS_utimensat, FileUse::Change, AT, 3),
    told(libc::SYS_connect, FileUse::Connect, &[]),
    #[cfg(not(target_arch = "riscv64"))] on_link(libc::SYS_renameat, FileUse::Make, &[(Some(0), 1), (Some(2), 3)]),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_open, FileUse::Open(1), FIRST),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_creat, FileUse::Make, FIRST),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_stat, FileUse::Look, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_lstat, FileUse::Look, FIRST),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_access, FileUse::Look, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_readlink, FileUse::Look, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_unlink, FileUse::Change, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_rmdir, FileUse::Change, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_rename, FileUse::Make, &[(None, 0), (None, 1)]),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_mkdir, FileUse::Make, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_mknod, FileUse::Make, FIRST),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_link, FileUse::Make, &[(None, 1)]),
    #[cfg(target_arch = "x86_64")] on_link(libc::SYS_symlink, FileUse::Make, &[(None, 1)]),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_chmod, FileUse::Change, FIRST),
    #[cfg(target_arch = "x86_64")] told(libc::SYS_chown, FileUse::Change, FIRST),
];

/// The calls of a tool that the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotifySelection {
    /// All calls of the list.
    pub(super) all: bool,
    /// `connect` to an address that may be the address of a local socket, and `listen`.
    pub(super) sockets: bool,
}

/// The length of the longest address of a local socket, unix(7): the kernel refuses a longer one.
pub(super) const LONGEST_LOCAL_ADDRESS: usize = size_of::<libc::sockaddr_un>();

/// Returns the filter that has calls reported to the supervisor. `program` is the address of the
/// path that the tool's process executes first. Its parent waits for that call, and could not
/// answer.
fn filter(program: u64, telling: NotifySelection) -> BpfProgram {
    /// The offset of the arguments in `seccomp_data`, of 64 bits each, the low half first.
    const ARGUMENTS: u32 = 16;
    let tell = line(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    let allow = line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let is = |value: u32, then: u8, otherwise: u8| jump(libc::BPF_JEQ, then, otherwise, value);
    let mut lines: Vec<sock_filter> = vec![
        line(LOAD, 0, 0, ARCHITECTURE),
        // The other filter kills a call of another architecture.
        is(OWN_ARCHITECTURE, 1, 0),
        allow.clone(),
        line(LOAD, 0, 0, NUMBER),
    ];
    if telling.sockets {
        lines.extend([
            is(libc::SYS_listen as u32, 0, 1),
            tell.clone(),
            is(libc::SYS_connect as u32, 0, 4),
            line(LOAD, 0, 0, ARGUMENTS + 8 * 2),
            jump(libc::BPF_JGT, 1, 0, LONGEST_LOCAL_ADDRESS as u32),
            tell.clone(),
            line(LOAD, 0, 0, NUMBER),
        ]);
    }
    for NotifyRule { call, flags, .. } in TOLD.iter().filter(|_| telling.all) {
        let number = *call as u32;
        match flags {
            // It may name a file that is open already. C libraries do so for every such file.
            Some(flags) => {
                let empty = libc::AT_EMPTY_PATH.cast_unsigned();
                let argument = ARGUMENTS + 8 * u32::from(*flags);
                lines.extend([
                    is(number, 0, 4),
                    line(LOAD, 0, 0, argument),
                    jump(libc::BPF_JSET, 0, 1, empty),
                    allow.clone(),
                    tell.clone(),
                ]);
            }
            None if *call == libc::SYS_execve => lines.extend([
                is(number, 0, 6),
                line(LOAD, 0, 0, ARGUMENTS),
                is(program as u32, 0, 3),
                line(LOAD, 0, 0, ARGUMENTS + 4),
                is((program >> 32) as u32, 0, 1),
                allow.clone(),
                tell.clone(),
            ]),
            None => lines.extend([is(number, 0, 1), tell.clone()]),
        }
    }
    lines.push(allow);
    lines
}

/// A pair of sockets over which a tool's process hands its listener to the supervisor.
pub(super) struct ListenerChannel {
    receiver: OwnedFd,
    sender: OwnedFd,
}

/// The filter of a tool's process, made before the process starts.
pub(super) struct NotifyFilter {
    filter: BpfProgram,
    sender: c_int,
    /// Set if the tool must not run without a listener.
    required: bool,
}

impl ListenerChannel {
    pub(super) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (receiver, sender) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Self { receiver, sender })
    }

    /// Prepares the filter of a process that will execute the path at `program`. Installing it
    /// fails if the kernel gives no listener and calls on sockets are to be reported.
    pub(super) fn installation(
        &self,
        program: *const c_char,
        telling: NotifySelection,
    ) -> NotifyFilter {
        let filter = filter(program as u64, telling);
        NotifyFilter { filter, sender: self.sender.as_raw_fd(), required: telling.sockets }
    }

    /// Takes the listener of the process that has run. `None` if the kernel gave it none.
    pub(super) fn accept(self) -> io::Result<Option<Listener>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [io::IoSliceMut::new(&mut byte)];
        match recvmsg(&self.receiver, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::AGAIN) => return Ok(None),
            received => received?,
        };
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut received) => received.next(),
            _ => None,
        });
        Ok(descriptor.map(Listener::new))
    }
}

impl NotifyFilter {
    /// Installs the filter in this process, and sends its listener away. Returns a negative
    /// number after an error that leaves the process with a filter and without a listener. If
    /// the kernel gives no listener and none is required, that is not an error: the tool is not
    /// watched then.
    ///
    /// Makes system calls and nothing else, for the child of [`super::launch`].
    ///
    /// # Safety
    ///
    /// The socket of the [`ListenerChannel`] is open.
    pub(super) unsafe fn install(&self) -> c_int {
        let program = libc::sock_fprog {
            len: self.filter.len() as u16,
            filter: self.filter.as_ptr().cast_mut().cast(),
        };
        let install = |flags: c_ulong| {
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: a system call on numbers and on a filter that `self` owns.
            (unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) }) as c_int
        };
        // Since Linux 5.19, a signal then does not interrupt a call while the supervisor handles
        // it.
        let patient = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let mut listener = install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | patient);
        if listener < 0 {
            listener = install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        }
        if listener < 0 {
            return if self.required { listener } else { 0 };
        }
        // SAFETY: system calls on numbers, and on a message whose parts live in this frame.
        unsafe {
            let sent = send(self.sender, listener);
            libc::close(listener);
            sent
        }
    }
}

/// Sends a descriptor, with one byte.
///
/// # Safety
///
/// Both are open.
unsafe fn send(socket: c_int, descriptor: c_int) -> c_int {
    /// Room for the header and one descriptor, aligned as the header is.
    #[repr(C, align(8))]
    struct Space([u8; 64]);
    let mut space = Space([0; 64]);
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: plain numbers and pointers, for which zeroes are a value; the space is large enough
    // for one descriptor, so that there is a first header.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = space.0.as_mut_ptr().cast();
        let length = size_of::<c_int>() as libc::c_uint;
        message.msg_controllen = libc::CMSG_SPACE(length) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(length) as _;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(descriptor);
        libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) as c_int
    }
}

/// The listener of a tool's filter.
pub(super) struct Listener(OwnedFd);

/// A call that waits to continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    id: u64,
    /// The thread that makes it, in this process's PID namespace.
    pub(super) thread: u32,
    pub(super) call: c_long,
    pub(super) arguments: [u64; 6],
}

/// The result of polling a listener.
pub(super) enum NextNotice {
    Call(Notice),
    /// No call waits.
    Nothing,
    /// No process has the filter any more.
    Closed,
}

impl Listener {
    fn new(descriptor: OwnedFd) -> Self {
        /// Has the kernel wake the two sides on one processor, since Linux 6.6:
        /// linux/seccomp.h. An older kernel is slower.
        const SYNC_WAKE_UP: c_ulong = 1;
        // SAFETY: a request on a number.
        unsafe {
            let request = libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS;
            libc::ioctl(descriptor.as_raw_fd(), request, SYNC_WAKE_UP);
        }
        Self(descriptor)
    }

    /// Takes the next call that waits. Does not block.
    pub(super) fn next(&self) -> io::Result<NextNotice> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        // The request below would wait for a call.
        match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = polled[0].revents();
        if !events.contains(PollFlags::IN) {
            return Ok(if events.is_empty() { NextNotice::Nothing } else { NextNotice::Closed });
        }
        // SAFETY: plain numbers, which the kernel wants to be zeroes.
        let mut call: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: a request on a descriptor and a structure of the size that the request has.
        let received = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call)
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // The process ended before its call was taken.
                Some(libc::ENOENT | libc::EINTR | libc::ENOTCONN) => Ok(NextNotice::Nothing),
                _ => Err(error),
            };
        }
        let libc::seccomp_notif { id, pid, data, .. } = call;
        Ok(NextNotice::Call(Notice { id, thread: pid, call: data.nr.into(), arguments: data.args }))
    }

    /// Lets a call continue. Returns whether it was still waiting. If so, everything read from
    /// its thread since the call was taken belongs to that thread, and not to another with its
    /// number.
    pub(super) fn resume(&self, notice: &Notice) -> bool {
        self.send(notice, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
    }

    /// Ends a call in the kernel's stead, with or without an error. Returns the same as
    /// [`resume`](Self::resume).
    pub(super) fn answer(&self, notice: &Notice, result: Result<(), Errno>) -> bool {
        self.send(notice, result.map_or_else(|errno| -errno.raw_os_error(), |()| 0), 0)
    }

    /// Returns whether a call still waits. If so, everything read or opened belongs to its
    /// thread.
    pub(super) fn is_waiting(&self, notice: &Notice) -> bool {
        // SAFETY: a request on a descriptor and a number that lives.
        let valid = unsafe {
            let request = libc::SECCOMP_IOCTL_NOTIF_ID_VALID;
            libc::ioctl(self.0.as_raw_fd(), request, &raw const notice.id)
        };
        valid == 0
    }

    fn send(&self, notice: &Notice, error: i32, flags: u32) -> bool {
        let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags };
        // SAFETY: a request on a descriptor and a structure of the size that the request has.
        let sent = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer)
        };
        sent == 0
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
