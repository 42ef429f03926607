//! The network namespace of a tool whose peers are named: a loopback, and the listener of the host
//! on it.
//!
//! A socket stays in the namespace where it was made. So the host accepts what the tool connects
//! to on a listener that was made here, judges it and connects by itself, and no process of the
//! sandbox has a part in that. Owns the loopback and the listener; hands the listener over.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    bind, listen, sendmsg, socket_with,
};

use crate::plan::{LISTENER, RELAY};

/// The number of connections that wait until the host accepts them.
const BACKLOG: i32 = 128;

/// Brings the loopback of this network namespace up, and listens at [`RELAY`].
///
/// For the init, with all capabilities in a new network namespace, in which every port is free.
pub(super) fn listener() -> io::Result<OwnedFd> {
    let stream = |kind| socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None);
    raise(stream(SocketType::DGRAM)?.as_fd())?;
    let listener = stream(SocketType::STREAM)?;
    bind(&listener, &RELAY)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Hands the listener to the host, ahead of the report.
pub(super) fn hand_over(control: BorrowedFd<'_>, listener: OwnedFd) -> io::Result<()> {
    let descriptors = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    loop {
        match sendmsg(control, &[IoSlice::new(&[LISTENER])], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Brings the interface `lo` up.
fn raise(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the type is numbers, and a union of them, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: a system call on an open descriptor, which reads `request`.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
