//! The filter of system calls of a sandboxed tool.
//!
//! Owns which calls are refused, and why. It is a list of what is refused, not of
//! what is allowed: what a compiler, an interpreter or a build needs is not known
//! here. What is refused is what opens a way around another boundary, or a part of
//! the kernel that no tool needs. Calls that this version has never heard of do
//! not exist, as on an older kernel.
//!
//! Refusals are errors, never signals, so that a tool can say what it could not do;
//! only a call by the rules of another architecture kills.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// The last call that was considered for the list: `removexattrat`, Linux 6.13. The
/// numbers of new calls are the same on every architecture, and grow.
const LAST_KNOWN: u32 = 466;

/// The bit that marks a call by the rules of x32, whose numbers the list does not
/// know, on a kernel that has them.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Calls that are refused whatever their arguments.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // Namespaces, and a right to everything inside of them.
    libc::SYS_unshare, libc::SYS_setns,
    // Mounts and roots.
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
    libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig,
    libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, libc::SYS_quotactl_fd,
    // A file by its number, past every directory.
    libc::SYS_open_by_handle_at,
    // The memory and the descriptors of other processes.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_process_madvise, libc::SYS_kcmp, libc::SYS_pidfd_getfd,
    // Calls that are made past this filter.
    libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
    // Keyrings, which belong to no namespace.
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key,
    // Programs in the kernel, and looks into it.
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie, libc::SYS_syslog,
    // The machine itself.
    libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_init_module,
    libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot, libc::SYS_acct,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_sethostname,
    libc::SYS_setdomainname, libc::SYS_vhangup, libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")] libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")] libc::SYS_uselib,
];

/// The flags of `clone` that make namespaces. That of a time namespace is none of
/// `clone`'s.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Typing into a terminal as if its user did, and pasting into a console.
const TERMINAL: &[u64] = &[libc::TIOCSTI as u64, libc::TIOCLINUX as u64];

/// `chmod` and its kin, with the argument that is the mode.
const CHMOD: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
];

/// Whether this kernel has filters.
pub(super) fn available() -> io::Result<()> {
    let action = u32::from(SeccompAction::Errno(0));
    // SAFETY: a system call that reads one number, which outlives it.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The filter. With `internet`, sockets of the internet's families can be made; those
/// of no other can.
pub(super) fn program(internet: bool) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(
        rules(internet).map_err(io::Error::other)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        arch,
    );
    let rules = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    Ok(preamble().into_iter().chain(rules).collect())
}

fn rules(internet: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let only = |argument: u8, op: Op, value: u64| {
        SeccompCondition::new(argument, Length::Dword, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let bit = |argument, bit: u64| only(argument, Op::MaskedEq(bit), bit);

    let makes_namespace = NAMESPACES.iter().map(|flag| bit(0, u64::from(flag.cast_unsigned())));
    rules.insert(libc::SYS_clone, makes_namespace.collect::<Result<_, _>>()?);
    let types = TERMINAL.iter().map(|request| only(1, Op::Eq, *request));
    rules.insert(libc::SYS_ioctl, types.collect::<Result<_, _>>()?);
    // A program that gains its owner's rights when another user runs it, outside.
    for (call, mode) in CHMOD {
        let setid = [libc::S_ISUID, libc::S_ISGID].map(|it| bit(*mode, u64::from(it)));
        rules.insert(*call, setid.into_iter().collect::<Result<_, _>>()?);
    }

    // Every family that is none of these, local sockets above all.
    let families: &[i32] = if internet { &[libc::AF_INET, libc::AF_INET6] } else { &[] };
    let others = families.iter().map(|family| {
        SeccompCondition::new(0, Length::Dword, Op::Ne, u64::from(family.cast_unsigned()))
    });
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let socket = if others.is_empty() { Vec::new() } else { vec![SeccompRule::new(others)?] };
    rules.insert(libc::SYS_socket, socket);
    // A pair of streams reaches its other end only. Of datagrams, any of the two could
    // be sent to any local address. The type shares its number with flags above it.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|it| only(1, Op::MaskedEq(0xf), u64::from(it.cast_unsigned())));
    rules.insert(libc::SYS_socketpair, datagrams.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// What the rules cannot say: judges by the call's number alone. The
/// architecture, which the numbers depend on, is judged by the rules that follow.
fn preamble() -> Vec<sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let line = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    let jump = |condition: u32, jt, jf, k| line(libc::BPF_JMP | condition | libc::BPF_K, jt, jf, k);
    let missing = u32::from(SeccompAction::Errno(libc::ENOSYS.cast_unsigned()));
    let lines: &[sock_filter] = &[
        // The number is the first field of `seccomp_data`.
        line(LOAD, 0, 0, 0),
        #[cfg(target_arch = "x86_64")]
        jump(libc::BPF_JGE, 0, 1, X32),
        #[cfg(target_arch = "x86_64")]
        line(RETURN, 0, 0, u32::from(SeccompAction::KillProcess)),
        // Its flags are in memory, where a filter cannot look; C libraries know `clone`.
        jump(libc::BPF_JEQ, 1, 0, libc::SYS_clone3 as u32),
        jump(libc::BPF_JGT, 0, 1, LAST_KNOWN),
        line(RETURN, 0, 0, missing),
    ];
    lines.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_filters_compile_and_fit() {
        for internet in [true, false] {
            let length = program(internet).expect("compiles").len();
            assert!(length < 1000, "{length}");
        }
    }

    #[test]
    fn no_refused_call_is_beyond_the_last_known() {
        assert!(REFUSED.iter().all(|call| u32::try_from(*call).expect("a number") <= LAST_KNOWN));
    }
}
