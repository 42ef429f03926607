//! The user that a sandboxed tool is for the kernel.
//!
//! If the host is root, the tool is not. Its user namespace maps the root that it sees to a user
//! without rights and without a name, who owns no file of the host. The tool sees granted
//! directories through an id-mapped mount, which maps files of root to that user and back.
//!
//! Owns the choice of that user, the change to it, and the maps. Mounts nothing.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr;

use libc::{c_int, c_long, c_void};
use rustix::fs::{Gid, Uid, fchown, fstatfs};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getegid, geteuid, getpid, kill_process, set_dumpable_behavior,
};

use super::clone::{Stack, clone};

/// The numbers of users and groups that no system assigns: the range marked as unused in "Users,
/// Groups, UIDs and GIDs on systemd systems" (systemd.io/UIDS-GIDS).
const UNUSED: Range<u32> = 1_879_048_192..2_147_483_648;

/// The file system of anonymous pipes, linux/magic.h.
const PIPEFS_MAGIC: u32 = 0x5049_5045;

/// A user and its group, inside and outside of a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserIdentity {
    inside: UserAndGroup,
    outside: UserAndGroup,
    /// Set for the machine's root, to whom the kernel refuses nothing.
    root: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserAndGroup {
    user: u32,
    group: u32,
}

impl UserIdentity {
    /// Returns the identity of the calling process, the same on both sides.
    pub(super) fn own() -> Self {
        let own = UserAndGroup { user: geteuid().as_raw(), group: getegid().as_raw() };
        Self { inside: own, outside: own, root: own.user == 0 && root_is_root() }
    }

    /// Returns an identity that is root inside, and outside a user and a group for this call
    /// only. Another process with the same number outside would have power over the call: it
    /// would own the user namespace, and could read the memory of the call's processes.
    pub(super) fn mapped_root() -> io::Result<Self> {
        let mut bytes = [0; 4];
        // SAFETY: a system call on a place that lives, with its size.
        let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(filled).ok() != Some(bytes.len()) {
            return Err(io::Error::last_os_error());
        }
        let own = UNUSED.start + u32::from_ne_bytes(bytes) % (UNUSED.end - UNUSED.start);
        let (inside, outside) =
            (UserAndGroup { user: 0, group: 0 }, UserAndGroup { user: own, group: own });
        Ok(Self { inside, outside, root: false })
    }

    /// Returns whether it differs from the identity of the calling process.
    pub(super) fn is_assumed(self) -> bool {
        self.inside != self.outside
    }

    /// Returns whether the tool is root for the kernel too.
    pub(super) fn is_root(self) -> bool {
        self.root
    }

    /// Makes the outer user and group the effective ones of this process, which is root's, until
    /// [`resume`](Self::resume). New namespaces belong to them until then.
    pub(super) fn assume(self) -> io::Result<()> {
        effective(libc::SYS_setresgid, self.outside.group)?;
        effective(libc::SYS_setresuid, self.outside.user)?;
        // The change of user clears the flag, and without it only root may write the maps.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        Ok(())
    }

    /// Makes root the effective user of this process again.
    pub(super) fn resume() -> io::Result<()> {
        effective(libc::SYS_setresuid, 0)?;
        effective(libc::SYS_setresgid, 0)
    }

    /// Maps only this user and group into this process's new user namespace, and makes them the
    /// real, effective and saved ones.
    pub(super) fn map(self) -> io::Result<()> {
        let Self { inside, outside, root: _ } = self;
        // Otherwise a process could leave a group to which a file denies access.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{} {} 1", inside.user, outside.user))?;
        fs::write("/proc/self/gid_map", format!("{} {} 1", inside.group, outside.group))?;
        real_and_effective(libc::SYS_setresgid, inside.group)?;
        real_and_effective(libc::SYS_setresuid, inside.user)
    }

    /// Gives the pipes among the tool's streams to the outer user. Otherwise that user could not
    /// open them again by `/dev/stdout` and similar names. Other streams keep their owner.
    pub(super) fn own_pipes(self, streams: &[OwnedFd]) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.outside.user), Gid::from_raw(self.outside.group));
        for stream in streams {
            if fstatfs(stream)?.f_type as u32 == PIPEFS_MAGIC {
                fchown(stream, Some(user), Some(group))?;
            }
        }
        Ok(())
    }

    /// Makes a user namespace for [id-mapped mounts](super::mounts::hand_over), by which root's
    /// files on a disk belong to the tool. Files of other users keep their owner.
    ///
    /// For a process with root's rights and one thread.
    pub(super) fn map_for_mounts(self) -> io::Result<OwnedFd> {
        let member = NamespaceHolder::new()?;
        let pid = member.0.as_raw_nonzero();
        fs::write(format!("/proc/{pid}/uid_map"), swapped(self.outside.user))?;
        fs::write(format!("/proc/{pid}/gid_map"), swapped(self.outside.group))?;
        Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
    }
}

/// Returns whether the root of this process's user namespace is the root of the namespace around
/// it. In a container of a user without rights it is not, and has only a user's rights.
fn root_is_root() -> bool {
    // INSIDE OUTSIDE COUNT, user_namespaces(7). If the file cannot be read, the worse is
    // assumed.
    let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let root = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next()? == "0").then(|| fields.next().map(str::to_owned))?
    });
    root.is_none_or(|outside| outside == "0")
}

/// Returns a map of 0 to `number` and of every other number to itself. `number` itself is mapped
/// to no number: a file that it owns on a disk does not belong to the tool.
fn swapped(number: u32) -> String {
    let above = number + 1;
    // The highest number means no user.
    format!("0 {number} 1\n1 1 {}\n{above} {above} {}\n", number - 1, u32::MAX - above)
}

/// A process that keeps a new user namespace alive, and is killed when this value is dropped.
struct NamespaceHolder(Pid);

impl NamespaceHolder {
    fn new() -> io::Result<Self> {
        let stack = Stack::new(16 << 10)?;
        let parent = usize::try_from(getpid().as_raw_nonzero().get()).map_err(io::Error::other)?;
        // SAFETY: the child shares this process's memory, so no page table is copied. It writes
        // only to its stack, which stays mapped, and makes system calls on numbers. None of
        // these fails, so none sets the `errno` that both share.
        let member = unsafe {
            let flags = libc::CLONE_NEWUSER | libc::CLONE_VM;
            clone(flags, &stack, stay, ptr::without_provenance_mut(parent))
        };
        member.map(Self)
    }
}

/// Waits until the process of this number ends.
extern "C" fn stay(parent: *mut c_void) -> c_int {
    // SAFETY: system calls on numbers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before that was set.
        while usize::try_from(libc::getppid()).is_ok_and(|it| it == parent.addr()) {
            libc::pause();
        }
    }
    0
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        // The process cannot have ended on its own. It is reaped with every other child at the
        // end of the call: waiting for it now would take a tenth of the time of a call.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Sets only the effective number.
fn effective(call: c_long, number: u32) -> io::Result<()> {
    set(call, u32::MAX, number, u32::MAX)
}

/// Sets the real, the effective and the saved number.
fn real_and_effective(call: c_long, number: u32) -> io::Result<()> {
    set(call, number, number, number)
}

fn set(call: c_long, real: u32, effective: u32, saved: u32) -> io::Result<()> {
    // SAFETY: a system call on numbers. The C library is bypassed, since it would signal other
    // threads, and this process has only one.
    match unsafe { libc::syscall(call, real, effective, saved) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_user_without_rights_change_places_and_nobody_else_moves() {
        assert_eq!(swapped(65534), "0 65534 1\n1 1 65533\n65535 65535 4294901760\n");
    }
}
