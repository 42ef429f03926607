//! Attempts with sockets: at this tool's own servers, at other programs' local sockets by every way
//! to their files, and at both at once.

use std::fs;
use std::io::{self, Read, Write};
use std::mem;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The number of attempts in a race, of which one success is enough, and the number of attempts
/// that followed a change. On a loaded machine many changes can happen between two attempts.
const ROUNDS: usize = 3000;
const ROUNDS_AFTER_CHANGES: usize = 300;

pub(crate) fn attack(words: &[&str]) -> Option<io::Result<()>> {
    Some(match *words {
        ["own-udp"] => reach_own_datagrams(),
        ["own-unix", path] => UnixListener::bind(path).and_then(|it| reach_own(&it)),
        ["own-unix-by-link", path, link, target] => UnixListener::bind(path).and_then(|it| {
            std::os::unix::fs::symlink(target, link)?;
            reach_over(UnixStream::connect(link)?, &it)
        }),
        ["own-abstract", name] => SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixListener::bind_addr(&address))
            .and_then(|it| reach_own(&it)),
        ["own-queue", path] => wait_for_own(path),
        ["own-packets", path] => reach_own_packets(path),
        ["bind", path] => UnixListener::bind(path).map(drop),
        ["unix-from", directory, name] => {
            std::env::set_current_dir(directory).and_then(|()| UnixStream::connect(name)).map(drop)
        }
        ["unix-exactly", path, length] => connect_exactly(path, length),
        ["unix-packets", path] => {
            socket(libc::AF_UNIX, libc::SOCK_SEQPACKET).and_then(|it| connect(&it, &named(path)))
        }
        ["unix-by-link", path, link] => std::os::unix::fs::symlink(path, link)
            .and_then(|()| UnixStream::connect(link))
            .map(drop),
        ["unix-by-hard-link", path, link] => {
            fs::hard_link(path, link).and_then(|()| UnixStream::connect(link)).map(drop)
        }
        ["unix-by-rename", from, to] => {
            fs::rename(from, to).and_then(|()| UnixStream::connect(to)).map(drop)
        }
        ["unix-replaced", own, path] => UnixListener::bind(own)
            .and_then(|_own| fs::rename(path, own).and_then(|()| UnixStream::connect(own)))
            .map(drop),
        ["race-address", own, path] => race_address(own, path),
        ["race-descriptor", path] => race_descriptor(path),
        ["race-link", own, path] => race_link(own, path),
        ["race-flag", own] => race_flag(own),
        _ => return None,
    })
}

fn reach_own(listener: &UnixListener) -> io::Result<()> {
    reach_over(UnixStream::connect_addr(&listener.local_addr()?)?, listener)
}

fn reach_over(mut own: UnixStream, listener: &UnixListener) -> io::Result<()> {
    own.write_all(b"x")?;
    listener.accept()?.0.read_exact(&mut [0])
}

fn reach_own_datagrams() -> io::Result<()> {
    let (own, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    other.connect(own.local_addr()?)?;
    other.send(b"x")?;
    own.recv(&mut [0; 2]).map(drop)
}

fn reach_own_packets(path: &str) -> io::Result<()> {
    let listener = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let address = named(path);
    // SAFETY: system calls on an open descriptor and on bytes of this length.
    let listens = unsafe {
        libc::bind(listener.as_raw_fd(), address.as_ptr().cast(), address.len() as u32) == 0
            && libc::listen(listener.as_raw_fd(), 1) == 0
    };
    if !listens {
        return Err(io::Error::last_os_error());
    }
    connect(&socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?, &address)
}

/// Connects more often than the queue has room for, so that the last connection has to wait for the
/// other side.
fn wait_for_own(path: &str) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    // SAFETY: a system call on numbers, the first of an open descriptor.
    unsafe { libc::listen(listener.as_raw_fd(), 0) };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| UnixStream::connect(path))).collect();
        for _ in 0..4 {
            listener.accept()?;
        }
        for client in clients {
            client.join().map_err(|_| io::Error::other("a panic"))??;
        }
        Ok(())
    })
}

/// Connects to a path whose address has exactly `length` bytes, as many as an internet address.
fn connect_exactly(path: &str, length: &str) -> io::Result<()> {
    let mut address = named(path);
    let length = length.parse().map_err(io::Error::other)?;
    if address.len() > length {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.resize(length, 0);
    connect(&socket(libc::AF_UNIX, libc::SOCK_STREAM)?, &address)
}

fn socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: a system call on numbers; a new descriptor has no other owner.
    unsafe {
        match libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) {
            new if new < 0 => Err(io::Error::last_os_error()),
            new => Ok(OwnedFd::from_raw_fd(new)),
        }
    }
}

/// Returns the address of a path, unix(7).
fn named(path: &str) -> Vec<u8> {
    let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
    [&family[..], path.as_bytes(), b"\0"].concat()
}

fn connect(socket: &OwnedFd, address: &[u8]) -> io::Result<()> {
    connect_at(socket.as_raw_fd(), address.as_ptr(), address.len())
}

fn connect_at(socket: RawFd, address: *const u8, length: usize) -> io::Result<()> {
    // SAFETY: a system call on a number and on bytes of this length, which another thread may
    // change.
    match unsafe { libc::connect(socket, address.cast(), length as u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether a socket is connected to a server whose path ends with `path`. Any thread may
/// have connected it.
fn is_connected_to(socket: RawFd, path: &str) -> bool {
    // SAFETY: plain numbers, for which zeroes are valid, and a system call on places that live.
    let address = unsafe {
        let mut address: libc::sockaddr_un = mem::zeroed();
        let mut length = size_of_val(&address) as libc::socklen_t;
        let is_connected =
            libc::getpeername(socket, (&raw mut address).cast(), &raw mut length) == 0;
        is_connected.then_some(address)
    };
    let Some(address) = address else { return false };
    let name: Vec<u8> =
        address.sun_path.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    name.ends_with(path.as_bytes())
}

/// Connects to its own server, while another thread writes the path of another server into the
/// address.
fn race_address(own: &str, path: &str) -> io::Result<()> {
    let listener = UnixListener::bind(own)?;
    listener.set_nonblocking(true)?;
    let length = own.len().max(path.len()) + 3;
    let padded = |path: &str| {
        let mut address = named(path);
        address.resize(length, 0);
        address
    };
    let mut shared = padded(own);
    let place = shared.as_mut_ptr() as usize;
    raced(
        &|turn| {
            let address = padded(if turn { path } else { own });
            // SAFETY: the bytes live as long as this thread, and only the kernel reads them in the
            // meantime.
            unsafe { (place as *mut u8).copy_from(address.as_ptr(), length) };
        },
        || {
            let stream = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
            // The result does not say which server it is connected to.
            let _ = connect_at(stream.as_raw_fd(), place as *const u8, length);
            while listener.accept().is_ok() {}
            Ok(is_connected_to(stream.as_raw_fd(), path))
        },
    )
}

/// Connects an internet socket, while another thread puts a local socket at its descriptor. The
/// address is the other server's, padded to the length of an internet address.
fn race_descriptor(path: &str) -> io::Result<()> {
    let inet = socket(libc::AF_INET, libc::SOCK_STREAM)?;
    // The local socket stays open and connected, even after its copy at the descriptor is replaced.
    let local = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
    let mut address = named(path);
    address.resize(address.len().max(28), 0);
    let number = socket(libc::AF_INET, libc::SOCK_STREAM)?;
    let number = number.as_raw_fd();
    raced(
        &|turn| {
            let socket = if turn { &local } else { &inet };
            // SAFETY: a system call on numbers.
            unsafe { libc::dup2(socket.as_raw_fd(), number) };
        },
        || {
            let _ = connect_at(number, address.as_ptr(), address.len());
            Ok(is_connected_to(local.as_raw_fd(), path))
        },
    )
}

/// Connects through a link that another thread points alternately to its own server and to another
/// server.
fn race_link(own: &str, path: &str) -> io::Result<()> {
    let listener = UnixListener::bind(own)?;
    listener.set_nonblocking(true)?;
    let (link, new) = (format!("{own}-link"), format!("{own}-new"));
    std::os::unix::fs::symlink(own, &link)?;
    raced(
        &|turn| {
            let target = if turn { path } else { own };
            let _ = std::os::unix::fs::symlink(target, &new).and_then(|()| fs::rename(&new, &link));
        },
        || {
            let stream = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
            let _ = connect(&stream, &named(&link));
            while listener.accept().is_ok() {}
            Ok(is_connected_to(stream.as_raw_fd(), path))
        },
    )
}

/// Connects to a server whose queue is full. Other threads constantly clear the socket's
/// non-blocking flag, without which a connecting process waits forever.
fn race_flag(own: &str) -> io::Result<()> {
    let listener = UnixListener::bind(own)?;
    // SAFETY: a system call on numbers, the first of an open descriptor.
    unsafe { libc::listen(listener.as_raw_fd(), 0) };
    let _first = UnixStream::connect(own)?;
    let stream = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
    let number = stream.as_raw_fd();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                loop {
                    // SAFETY: a system call on numbers.
                    unsafe { libc::fcntl(number, libc::F_SETFL, libc::O_RDWR) };
                }
            });
        }
        connect(&stream, &named(own))
    })
}

/// Attempts one thing while another thread keeps changing something back and forth.
fn raced(change: &(dyn Fn(bool) + Sync), attempt: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let (over, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                change(changes.fetch_add(1, Ordering::Relaxed) % 2 == 0);
                thread::yield_now();
            }
        });
        let (mut last, mut after_changes) = (0, 0);
        let mut goes_on = |round| {
            let now = changes.load(Ordering::Relaxed);
            after_changes += usize::from(now != last);
            last = now;
            round < ROUNDS || after_changes < ROUNDS_AFTER_CHANGES
        };
        let rounds = (0..).take_while(|round| goes_on(*round));
        let reached = rounds.map(|_| attempt()).find(|it| !matches!(it, Ok(false)));
        over.store(true, Ordering::Relaxed);
        match reached {
            Some(reached) => reached.map(drop),
            None => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    })
}
