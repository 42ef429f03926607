//! The watches that the kernel counts for each user: of files by inotify, and of descriptors by
//! epoll.
//!
//! A tool is the same user as its host, even outside of its sandbox, and the host cannot start
//! without watches. For inotify, a user namespace has its own bounds, which apply in addition to
//! the user's. For epoll, all of a user's programs share one bound, and the kernel does not
//! report how much of it is used. So this module finds out by adding watches. Owns the share of
//! a call and the trial; ends nothing.

use std::fs;
use std::io;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// The part of the user's inotify instances and watches that a call may have: one in this many.
const SHARE: u64 = 8;

/// The epoll watches that a call leaves to others: the square of this, more than a host needs to
/// start.
const SIDE: usize = 16;

/// The growth of the kernel's memory, in bytes, from which on a call may have used up the epoll
/// watches of its user: the size of 10,000 watches.
pub(super) const EPOLL_SUSPICION: u64 = 2 << 20;

/// Bounds the inotify instances and watches of this user namespace.
///
/// For the init, with all capabilities in a new user namespace and any `/proc`.
pub(super) fn bound_inotify() -> io::Result<()> {
    for what in ["instances", "watches"] {
        let most = number(&format!("/proc/sys/fs/inotify/max_user_{what}"))?;
        let own = format!("/proc/sys/user/max_inotify_{what}");
        fs::write(own, (most / SHARE).to_string())?;
    }
    Ok(())
}

/// Returns whether this user has fewer than 256 watches of epoll left.
pub(super) fn is_epoll_used_up() -> io::Result<bool> {
    let event = eventfd(0, EventfdFlags::CLOEXEC)?;
    // The kernel tells watches apart by the instance and by the number of the descriptor.
    let copies: Vec<_> =
        (0..SIDE).map(|_| fcntl_dupfd_cloexec(&event, 0)).collect::<Result<_, _>>()?;
    let instances: Vec<_> =
        (0..SIDE).map(|_| epoll::create(CreateFlags::CLOEXEC)).collect::<Result<_, _>>()?;
    for (instance, copy) in
        instances.iter().flat_map(|it| copies.iter().map(move |copy| (it, copy)))
    {
        match epoll::add(instance, copy, EventData::new_u64(0), EventFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOSPC) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn number(path: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("`{path}` holds no number: {text:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_of_epoll_are_left() {
        assert!(!is_epoll_used_up().expect("tried"));
    }
}
