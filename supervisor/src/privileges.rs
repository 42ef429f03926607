//! Giving up every privilege, for this process and all that it starts.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getegid, geteuid, getgroups, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Whether this process may make namespaces without a user namespace.
pub(super) fn may_make_namespaces() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Leaves the groups that root may have beside its own: they cannot be left inside
/// of a user namespace, and would open what they may open. Nobody else may leave them.
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

/// Drops every capability for good, and refuses those that a program with setuid
/// or of its own capabilities would bring.
pub(super) fn drop_all() -> io::Result<()> {
    set_no_new_privs(true)?;
    match clear_ambient_capability_set() {
        // A kernel before 4.3 has no such set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no more.
            Err(Errno::INVAL) => break,
            // Without the right to, it stays, and `no_new_privs` keeps it from being used.
            Err(Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Closes this process to others of its user: they can neither trace it nor see its
/// memory, its descriptors, its root or its environment in `/proc`.
pub(super) fn close_to_others() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
