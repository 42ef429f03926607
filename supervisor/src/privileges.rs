//! The privileges that this process gives up, for itself and for all that it starts.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getegid, geteuid, getgroups, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Returns whether this process may make namespaces without a user namespace.
pub(super) fn may_make_namespaces() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Leaves root's supplementary groups: they cannot be left inside a user namespace, and would
/// keep their access to files. Other users may not leave their groups.
pub(super) fn leave_groups() -> io::Result<()> {
    let own = getegid();
    if !geteuid().is_root() || getgroups()?.iter().all(|group| *group == own) {
        return Ok(());
    }
    // SAFETY: a system call on numbers; this process has one thread.
    match unsafe { libc::setgroups(0, std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Drops every capability except those to `keep`, and refuses capabilities that a program with
/// setuid or with file capabilities would bring. A program that this process executes keeps none
/// of them.
pub(super) fn drop_all_but(keep: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    match clear_ambient_capability_set() {
        // A kernel before 4.3 does not have ambient capabilities.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no further capability.
            Err(Errno::INVAL) => break,
            // Without the right to drop it, it stays, but `no_new_privs` prevents its use.
            Err(Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: keep, permitted: keep, inheritable })?;
    Ok(())
}

/// Returns the right to ask a local socket for its file, in a network namespace that belongs to
/// this process's user namespace. It gives no right outside of that.
pub(super) fn over_own_network() -> CapabilitySet {
    CapabilitySet::NET_ADMIN
}

/// Drops the capabilities that this process kept. Makes one system call, for the child of
/// [`super::launch`].
pub(super) fn drop_rest() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Closes this process to other processes of its user: they can neither trace it nor see its
/// memory, its descriptors, its root or its environment in `/proc`.
pub(super) fn close_to_others() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
