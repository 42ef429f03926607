//! The plan and the descriptors that arrive on the control socket, which is stdin.
//!
//! Refuses everything that is not exactly what the host sends.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketType,
    recvmsg, sockopt,
};

use crate::plan::{DESCRIPTORS, PREFIX, Plan};

/// The request of the host.
pub(super) struct CallRequest {
    /// The socket for the report, which also shows the end of the host.
    pub(super) control: OwnedFd,
    pub(super) plan: Plan,
    /// The tool's stdin, stdout, stderr.
    pub(super) streams: [OwnedFd; DESCRIPTORS],
    /// The tool's end of the host socket. `None` if the tool has no host socket, or has its end
    /// already.
    pub(super) host_socket: Option<OwnedFd>,
}

/// Returns the control socket. From now on, the kernel continues this process at its input.
pub(super) fn control() -> io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let is_socket = sockopt::socket_domain(&control).is_ok_and(|it| it == AddressFamily::UNIX)
        && sockopt::socket_type(&control).is_ok_and(|it| it == SocketType::STREAM);
    if !is_socket {
        return Err(refused("stdin is not a socket; only ikigai starts this program"));
    }
    continue_at_input(control.as_fd())?;
    Ok(control)
}

/// Receives the request. Waits for it until the host has ended. Once the streams have arrived,
/// the errors of this process go to the tool's stderr.
pub(super) fn receive(control: OwnedFd) -> io::Result<CallRequest> {
    let mut prefix = [0; PREFIX];
    let (length, descriptors) = receive_first(control.as_fd(), &mut prefix)?;
    if let Some(stderr) = descriptors.get(DESCRIPTORS - 1) {
        rustix::stdio::dup2_stderr(stderr)?;
    }
    fill(control.as_fd(), &mut prefix[length..])?;
    let (header, strings) = Plan::lengths(prefix).map_err(refused)?;
    let mut header = vec![0; header];
    let mut strings = vec![0; strings];
    fill(control.as_fd(), &mut header)?;
    fill(control.as_fd(), &mut strings)?;
    let plan = Plan::decode(&header, &strings).map_err(refused)?;
    let (streams, host_socket) = sorted(descriptors, plan.kind.host_socket)?;
    Ok(CallRequest { control, plan, streams, host_socket })
}

/// Has the kernel continue this process, and the init that it may start, when the host ends or
/// asks for the end. The kernel does the same at other input that no process waits for in a
/// read. Otherwise any process that may stop these two could make the call last forever.
fn continue_at_input(control: BorrowedFd<'_>) -> io::Result<()> {
    let control = control.as_raw_fd();
    // SAFETY: system calls on numbers, of which the first is an open descriptor. The negative
    // number of this process, which leads a group, stands for the group.
    let set = unsafe {
        libc::fcntl(control, libc::F_SETOWN, -libc::getpid()) == 0
            && libc::fcntl(control, F_SETSIG, libc::SIGCONT) == 0
            && libc::fcntl(control, libc::F_SETFL, libc::O_ASYNC) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The command of fcntl(2) that sets the signal for input, asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;

/// Receives the first bytes, and the descriptors that come with them.
fn receive_first(control: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    // Room for one descriptor more, so that a surplus one is noticed.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS + 2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut parts = [IoSliceMut::new(bytes)];
        match recvmsg(control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(received) => descriptors.extend(received),
            _ => return Err(refused("an unexpected control message arrived")),
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(refused("too many descriptors arrived"));
    }
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((message.bytes, descriptors))
}

/// Sorts the descriptors into the streams and, if the plan has one, the host socket.
fn sorted(
    mut descriptors: Vec<OwnedFd>,
    with_socket: bool,
) -> io::Result<([OwnedFd; DESCRIPTORS], Option<OwnedFd>)> {
    let count = descriptors.len();
    let expected = DESCRIPTORS + usize::from(with_socket);
    let wrong = || refused(format!("{count} descriptors arrived, not {expected}"));
    if count != expected {
        return Err(wrong());
    }
    let host_socket = if with_socket { descriptors.pop() } else { None };
    Ok((descriptors.try_into().map_err(|_| wrong())?, host_socket))
}

fn fill(control: BorrowedFd<'_>, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::read(control, &mut *bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => bytes = &mut bytes[length..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn refused(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
