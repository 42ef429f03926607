//! The network namespace of a tool. A tool with its own sockets gets a loopback, and bounds on
//! the sockets. A tool whose peers are named gets a loopback on which the host listens.
//!
//! A socket stays in the namespace that it was made in. So the listener is made here, and the
//! host accepts the tool's connections on it, checks each and makes the outer connection. No
//! process of the sandbox takes part in that. Owns the loopback, the bounds and the listener;
//! hands the listener over.

use std::fs;
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

/// The bounds of the network namespace. For each of the two buffers of a TCP socket: the
/// smallest, the first and the largest size, in bytes. The largest is the default size of other
/// sockets, because a socket that no process has accepted is charged to no cgroup. Sockets of
/// ended connections, which wait for stray packets, are not charged either. The kernel forgets
/// such sockets beyond their number.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 262144"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144"),
    ("/proc/sys/net/ipv4/tcp_max_tw_buckets", "4096"),
];

/// The memory that a socket may take with both buffers, in bytes.
const MOST_OF_SOCKET: u64 = 512 << 10;

/// The number of sockets that a call may have even if its memory is very small.
const FEWEST_SOCKETS: u64 = 64;

/// Brings the loopback of this network namespace up, and bounds the buffers of the sockets in it.
///
/// For the init, with all capabilities in a new network namespace and any `/proc`.
pub(super) fn begin() -> io::Result<()> {
    for (setting, value) in SETTINGS {
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("`{setting}`: {error}"));
        fs::write(setting, value).map_err(failed)?;
    }
    let kind = SocketType::DGRAM;
    raise(socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?.as_fd())
}

/// Returns whether this network namespace has more sockets than fit into `memory` bytes next to
/// everything else. Sockets that no process holds any more, or holds yet, count too.
pub(super) fn are_too_many(memory: u64) -> io::Result<bool> {
    let sockets = sockets(&fs::read_to_string("/proc/net/sockstat")?);
    let sockets = sockets.ok_or_else(|| io::Error::other("`/proc/net/sockstat` is malformed"))?;
    Ok(sockets > (memory / MOST_OF_SOCKET).max(FEWEST_SOCKETS))
}

/// Reads the number of sockets, proc_pid_net(5).
fn sockets(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("sockets: used "))?;
    line.trim().parse().ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_a_namespace_are_counted() {
        let text =
            "sockets: used 181\nTCP: inuse 4 orphan 0 tw 320 alloc 6 mem 1\nUDP: inuse 1 mem 0\n";
        assert_eq!(sockets(text), Some(181));
        assert_eq!(sockets("TCP: inuse 4\n"), None);
        assert!(sockets(&fs::read_to_string("/proc/net/sockstat").expect("told")).is_some());
    }
}
