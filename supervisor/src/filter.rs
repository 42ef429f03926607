//! The filter of system calls of a sandboxed tool.
//!
//! Owns the list of the calls that are refused, with the reasons. It is not a list of allowed
//! calls, since the needs of compilers, interpreters and builds are not known. It refuses calls
//! that open a way around another boundary, or a part of the kernel that no tool needs.
//! Calls that are newer than this list do not exist, as on an older kernel.
//!
//! The requests of `ioctl` are the exception: `filter/requests.rs` lists the allowed ones.
//!
//! A refusal is an error, never a signal, so that a tool can report what it could not do. Only a
//! call by the rules of another architecture kills the tool.

mod instruction;
mod requests;

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

pub(super) use self::instruction::{ARCHITECTURE, LOAD, NUMBER, RETURN, jump, line};
use self::instruction::{FIRST, FOURTH, HIGH, SECOND, THIRD};
use self::requests::{NETWORK_MODULES, SOCKET_REQUESTS, TERMINAL};

/// The newest call that was considered for the list: `removexattrat`, Linux 6.13. The numbers
/// of new calls are the same on every architecture, and grow.
const LAST_KNOWN: u32 = 466;

/// This program's architecture, as a filter sees it: the machine of its ELF files, with 64 bits
/// and little-endian.
pub(super) const OWN_ARCHITECTURE: u32 = {
    let machine = if cfg!(target_arch = "aarch64") {
        libc::EM_AARCH64
    } else if cfg!(target_arch = "riscv64") {
        libc::EM_RISCV
    } else {
        libc::EM_X86_64
    };
    machine as u32 | 0xc000_0000
};

/// The bit that marks a call by the rules of x32, on a kernel that has them. The list does not
/// contain their numbers.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Calls that a C library may not know yet, since Linux 5.17 and 6.6. Their numbers are the same
/// on every architecture.
const SET_MEMPOLICY_HOME_NODE: c_long = 450;
const FCHMODAT2: c_long = 452;

/// `kexec_file_load`, of asm/unistd_64.h and asm-generic/unistd.h.
const KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Calls that are refused with any arguments.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // Namespaces, and a right to everything inside of them.
    libc::SYS_unshare, libc::SYS_setns,
    // Mounts and roots.
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
    libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig,
    libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, libc::SYS_quotactl_fd,
    // Opens a file by its number, past every directory.
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
    // Memory that belongs to no process, so only a cgroup would count it, and records of the
    // kernel that no cgroup is charged for.
    libc::SYS_mbind, SET_MEMPOLICY_HOME_NODE, libc::SYS_io_setup,
    libc::SYS_shmget, libc::SYS_memfd_create, libc::SYS_memfd_secret,
    // The machine itself.
    libc::SYS_kexec_load, KEXEC_FILE_LOAD, libc::SYS_init_module,
    libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot, libc::SYS_acct,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_sethostname,
    libc::SYS_setdomainname, libc::SYS_vhangup, libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")] libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")] libc::SYS_uselib,
];

/// Calls on the process that is their first argument, or on the caller for 0. A process
/// that sets the limits or the processors of another one can end it, or keep it from running.
const ON_OTHERS: &[c_long] = &[
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// Calls on a process, a group or all processes of a user. Each with the value of its first
/// argument that means all processes of a user.
const ON_MANY: &[(c_long, u64)] = &[
    (libc::SYS_setpriority, libc::PRIO_USER as u64),
    // IOPRIO_WHO_USER of linux/ioprio.h.
    (libc::SYS_ioprio_set, 3),
];

/// Calls that make semaphores and message queues of System V, and calls that use them. If no
/// control group is charged for them, only the bounds of the IPC namespace apply: 32,000 sets of
/// 32,000 semaphores.
const SYSTEM_V: [c_long; 5] =
    [libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_msgget, libc::SYS_msgsnd];

/// Calls that move pages between files, pipes and sockets, for which no cgroup is charged. They
/// get EINVAL, the error for a file that does not support them. Programs then read and write
/// instead.
const SPLICES: [c_long; 4] =
    [libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice, libc::SYS_sendfile];

/// The command of `fcntl` that asks for notices about a directory. The kernel keeps the requests
/// for one directory in a list, and walks it for each descriptor that is closed. Processes with
/// many requests take longer to end than they ran, and cannot be killed until then. Programs use
/// inotify instead.
const NOTIFY: u64 = libc::F_NOTIFY as u64;

/// The command of `fcntl` that takes a lease on a file, for which reading is enough. A program
/// that then opens the file waits until the lease is given back, or gets an error that says to
/// try again. That applies to the host's own files as well.
const SET_LEASE: u64 = libc::F_SETLEASE as u64;

/// The command of `fcntl` that stores how long the data of a file will live, F_SET_RW_HINT of
/// linux/fcntl.h. The owner of the file needs only a descriptor for reading, even on a read-only
/// mount. A later call could read the value, and so get a message. This command and those after
/// `LAST_COMMAND` get EINVAL, the error of a kernel without them, which databases expect.
const SET_HINT: u32 = 1036;

/// The last `fcntl` command that is allowed, F_GET_FILE_RW_HINT of linux/fcntl.h. The next one is
/// F_SET_FILE_RW_HINT, which only older kernels have. Linux 6.19 takes leases on directories by
/// a later one.
const LAST_COMMAND: u32 = 1037;

/// The newest option of `prctl` that is allowed, PR_TIMER_CREATE_RESTORE_IDS of Linux 6.15. Later
/// ones get EINVAL, the error of an older kernel. The next one is PR_FUTEX_HASH, by which a process
/// takes a gibibyte of the kernel.
const LAST_OPTION: u32 = 77;

/// Options of `prctl` whose numbers are not in order: a name for memory, and the process that may
/// trace the caller.
const NAMED_OPTIONS: [i32; 2] = [libc::PR_SET_VMA, libc::PR_SET_PTRACER];

/// The number of the limit on core dumps, `RLIMIT_CORE` (asm-generic/resource.h).
const CORE_LIMIT: u32 = 4;

/// Calls that ask for the pages of a range, each with the argument that is the length, and the
/// largest length that is allowed. The kernel walks the whole range in one call, which no signal
/// ends. On a kernel without preemption, nothing interrupts it.
const PAGE_QUERIES: [(c_long, u8, u64); 2] =
    [(libc::SYS_mincore, 1, 1 << 30), (libc::SYS_move_pages, 1, 1 << 16)];

/// The flag of `close_range` that gives a thread its own descriptors, linux/close_range.h.
const CLOSE_RANGE_UNSHARE: u64 = 2;

/// Options of a socket that attach a program: SO_ATTACH_FILTER, SO_ATTACH_BPF,
/// SO_ATTACH_REUSEPORT_CBPF and _EBPF, asm-generic/socket.h. No cgroup is charged for the
/// program's code.
const PROGRAMS: [u64; 4] = [26, 50, 51, 52];

/// Options of a TCP socket that store keys, which no cgroup counts: TCP_MD5SIG, its extension
/// and TCP-AO, linux/tcp.h.
const TCP_KEYS: [u64; 7] = [14, 32, 38, 39, 40, 41, 42];

/// Calls that set an extended attribute, and the longest value that is allowed, in bytes: an access
/// control list with seven entries. No cgroup counts such lists. With this bound, two lists for each
/// file in memory take about 200 bytes, and about a tenth of the memory limit in all.
const SET_ATTRIBUTE: [c_long; 3] = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr];
const LONGEST_ATTRIBUTE: u64 = 64;

/// `setxattrat` of Linux 6.13. Its length is in memory, which a filter cannot read.
const SETXATTRAT: u32 = 463;

/// The options by which the last `close` of a socket waits for its peer, and by which a socket
/// reveals the network that it was made in. The supervisor and the host close sockets of a tool:
/// their own copies, and sockets in messages.
const OF_HOLDERS: [i32; 3] = [libc::SO_LINGER, libc::SO_BINDTODEVICE, SO_BINDTOIFINDEX];

/// asm-generic/socket.h.
const SO_BINDTOIFINDEX: i32 = 62;

/// Options of a socket that enlarge its buffers.
const BUFFERS: &[i32] =
    &[libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE];

/// Options of a TCP socket that only the host's network has: TCP_ULP of linux/tcp.h puts a
/// protocol of the kernel on top of TCP.
const TCP_LAYERS: [u64; 1] = [31];

/// The option of a socket that leases a flow label, IPV6_FLOWLABEL_MGR of linux/in6.h. All
/// network namespaces share 4,096 of them.
const FLOW_LABELS: [u64; 1] = [32];

/// The sockets that a tool may make, in addition to pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sockets {
    /// None.
    #[default]
    None,
    /// TCP sockets, in a network that leads only to the host's relay.
    Tcp,
    /// TCP and UDP sockets, questions about interfaces (netlink's routes), and local sockets
    /// except datagrams, in the tool's own network. The filter cannot see to whom a local socket
    /// is connected, so the supervisor has to make the [connections](super::connections) of this
    /// tool.
    Own,
    /// All of the internet's families, in the host's network.
    All,
}

/// The rights of a tool on which the filter depends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FilterRights {
    /// The sockets that it may make.
    pub(super) sockets: Sockets,
    /// The tool holds a socket of another network, so it may ask no socket about its network.
    pub(super) host_socket: bool,
    /// The tool sees only the processes of its PID namespace.
    pub(super) own_processes: bool,
    /// A control group is charged for what the tool's calls take of the kernel: semaphores and
    /// message queues of System V, rules of Landlock, and memory that grows like a stack.
    pub(super) counted_memory: bool,
}

/// The flags of `clone` that make namespaces. `clone` has no flag for a time namespace.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// `chmod` and similar calls, each with the argument for the mode.
const CHMOD: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    // A file may also be made with the bits.
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
    (libc::SYS_mq_open, 2),
];

/// Calls that open or make a file, each with the arguments for the flags and the mode. The mode
/// counts only if a file is made.
const OPEN: &[(c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// O_TMPFILE without the O_DIRECTORY that it contains.
const UNNAMED: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Checks that this kernel has seccomp filters.
pub(super) fn available() -> io::Result<()> {
    let action = u32::from(SeccompAction::Errno(0));
    // SAFETY: a system call that reads one number, which outlives it.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Compiles the filter of a tool.
pub(super) fn program(reach: FilterRights) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let rules = rules(reach).map_err(io::Error::other)?;
    let judged: Vec<u32> = rules.keys().filter_map(|call| u32::try_from(*call).ok()).collect();
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let rules = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)?;
    Ok([preamble(reach.counted_memory), requests::unknown(), dispatch(&judged), rules].concat())
}

fn rules(
    reach: FilterRights,
) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let FilterRights { sockets, host_socket, own_processes, counted_memory } = reach;
    let only = |argument: u8, op: Op, value: u64| {
        SeccompCondition::new(argument, Length::Dword, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !counted_memory {
        rules.extend(SYSTEM_V.map(|call| (call, Vec::new())));
    }
    let bit = |argument, bit: u64| only(argument, Op::MaskedEq(bit), bit);

    let makes_namespace = NAMESPACES.iter().map(|flag| bit(0, u64::from(flag.cast_unsigned())));
    let mut cloned: Vec<SeccompRule> = makes_namespace.collect::<Result<_, _>>()?;
    // A process that shares its descriptors with another one leaves locks behind that
    // `/proc/locks` does not show.
    let [files, thread] = [libc::CLONE_FILES, libc::CLONE_THREAD].map(i64::from);
    let [files, thread] = [files.cast_unsigned(), thread.cast_unsigned()];
    let is = |flag, value| SeccompCondition::new(0, Length::Dword, Op::MaskedEq(flag), value);
    cloned.push(SeccompRule::new(vec![is(files, files)?, is(thread, 0)?])?);
    // A thread with its own descriptors hides them from a count of its process's descriptors.
    cloned.push(SeccompRule::new(vec![is(files, 0)?, is(thread, thread)?])?);
    rules.insert(libc::SYS_clone, cloned);
    // No cgroup is charged for huge pages, and the machine has few of them.
    let huge = u64::from(libc::MAP_HUGETLB.cast_unsigned());
    rules.insert(libc::SYS_mmap, vec![bit(3, huge)?]);
    let types = TERMINAL.iter().map(|request| only(1, Op::Eq, *request));
    // The host's network would answer with its interfaces.
    let asks_of_network = SOCKET_REQUESTS.iter().filter(|_| host_socket);
    let asks_of_network = asks_of_network.map(|kind| only(1, Op::MaskedEq(!0xff), *kind));
    let of_modules = NETWORK_MODULES.iter().map(|request| only(1, Op::Eq, *request));
    let requests = types.chain(asks_of_network).chain(of_modules);
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    // A program with setuid would have its owner's rights when another user runs it, outside.
    for (call, mode) in CHMOD {
        let setid = [libc::S_ISUID, libc::S_ISGID].map(|it| bit(*mode, u64::from(it)));
        rules.insert(*call, setid.into_iter().collect::<Result<_, _>>()?);
    }
    let both = |first: (u8, u64), second: (u8, u64)| {
        let bit = |(argument, bit): (u8, u64)| {
            SeccompCondition::new(argument, Length::Dword, Op::MaskedEq(bit), bit)
        };
        SeccompRule::new(vec![bit(first)?, bit(second)?])
    };
    for (call, flags, mode) in OPEN {
        let made = [libc::O_CREAT, UNNAMED].map(|it| u64::from(it.cast_unsigned()));
        let setid = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
        let pairs = made.into_iter().flat_map(|made| setid.map(|setid| (made, setid)));
        let rule = |(made, setid)| both((*flags, made), (*mode, setid));
        rules.insert(*call, pairs.map(rule).collect::<Result<_, _>>()?);
    }

    // Reading the limits of others is harmless.
    let sets = [(0, Length::Dword), (2, Length::Qword)]
        .map(|(argument, length)| SeccompCondition::new(argument, length, Op::Ne, 0));
    let sets = SeccompRule::new(sets.into_iter().collect::<Result<_, _>>()?)?;
    rules.insert(libc::SYS_prlimit64, vec![sets]);
    for call in ON_OTHERS {
        // A C library passes the numbers of the caller's own threads. In a PID namespace all
        // processes but the init are the tool's.
        let other = if own_processes { only(0, Op::Eq, 1) } else { only(0, Op::Ne, 0) };
        rules.insert(*call, vec![other?]);
    }
    for (call, user) in ON_MANY {
        rules.insert(*call, vec![only(1, Op::Ne, 0)?, only(0, Op::Eq, *user)?]);
    }
    for call in [libc::SYS_migrate_pages, libc::SYS_move_pages] {
        rules.insert(call, vec![only(0, Op::Ne, 0)?]);
    }
    for (call, argument, most) in PAGE_QUERIES {
        let long = SeccompCondition::new(argument, Length::Qword, Op::Gt, most)?;
        rules.entry(call).or_default().push(SeccompRule::new(vec![long])?);
    }
    // The same as for a thread that is made with its own descriptors.
    rules.insert(libc::SYS_close_range, vec![bit(2, CLOSE_RANGE_UNSHARE)?]);
    // Without the host's network, sockets are pairs or belong to the call. Large buffers then
    // serve only to hold memory that belongs to no process.
    let buffers = BUFFERS.iter().filter(|_| sockets != Sockets::All);
    let buffers = buffers.map(|option| (libc::SOL_SOCKET, u64::from(option.cast_unsigned())));
    let layers = TCP_LAYERS.iter().filter(|_| sockets != Sockets::All);
    let holders = OF_HOLDERS.iter().filter(|_| sockets != Sockets::All || host_socket);
    let holders = holders.map(|option| (libc::SOL_SOCKET, u64::from(option.cast_unsigned())));
    let keys = TCP_KEYS.iter().chain(layers).map(|option| (libc::IPPROTO_TCP, *option));
    let labels = FLOW_LABELS.iter().filter(|_| sockets != Sockets::All);
    let labels = labels.map(|option| (libc::IPPROTO_IPV6, *option));
    let programs = PROGRAMS.map(|option| (libc::SOL_SOCKET, option));
    let options = buffers.chain(holders).chain(keys).chain(labels).chain(programs);
    let options = options.map(|(level, option)| {
        let is = |argument, value| SeccompCondition::new(argument, Length::Dword, Op::Eq, value);
        SeccompRule::new(vec![is(1, u64::from(level.cast_unsigned()))?, is(2, option)?])
    });
    rules.insert(libc::SYS_setsockopt, options.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_fcntl, vec![only(1, Op::Eq, NOTIFY)?, only(1, Op::Eq, SET_LEASE)?]);
    for call in SET_ATTRIBUTE {
        let long = SeccompCondition::new(3, Length::Qword, Op::Gt, LONGEST_ATTRIBUTE)?;
        rules.insert(call, vec![SeccompRule::new(vec![long])?]);
    }

    rules.insert(libc::SYS_socket, sockets_refused(sockets)?);
    // A local pair of streams reaches only its other end. A datagram socket of a pair can send
    // to any local address. The type shares its argument with flags above it. For a pair of
    // another family the kernel loads the family's module first.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|it| only(1, Op::MaskedEq(0xf), u64::from(it.cast_unsigned())));
    let other_family = only(0, Op::Ne, u64::from(libc::AF_UNIX.cast_unsigned()));
    let pairs = datagrams.into_iter().chain([other_family]).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_socketpair, pairs);
    // A socket from a pair can take a name. With the host's network that is a name of the host;
    // in the tool's own network it belongs to the tool.
    let others = LOCAL_ADDRESSES.iter().filter(|_| sockets != Sockets::Own);
    let others = others.map(|(least, most)| {
        let length = |op, value| SeccompCondition::new(2, Length::Dword, op, value);
        SeccompRule::new(vec![length(Op::Ge, *least)?, length(Op::Le, *most)?])
    });
    let others = others.collect::<Result<Vec<_>, _>>()?;
    if !others.is_empty() {
        rules.insert(libc::SYS_bind, others);
    }
    Ok(rules)
}

/// Returns the rules that refuse a socket.
fn sockets_refused(sockets: Sockets) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let is = |argument: u8, op: Op, value: i32| {
        SeccompCondition::new(argument, Length::Dword, op, u64::from(value.cast_unsigned()))
    };
    let none_of = |argument, values: &[i32]| {
        values.iter().map(|value| is(argument, Op::Ne, *value)).collect::<Result<Vec<_>, _>>()
    };
    // The numbers of types, of four bits: SOCK_STREAM 1, SOCK_DGRAM 2, SOCK_RAW 3,
    // SOCK_SEQPACKET 5.
    let kind = |mask: u64, value: i32| is(1, Op::MaskedEq(mask), value);
    let inet = [libc::AF_INET, libc::AF_INET6];
    let mut refused = Vec::new();
    match sockets {
        // Without a condition, the rule refuses any arguments.
        Sockets::None => {}
        Sockets::All => refused.push(none_of(0, &inet)?),
        Sockets::Tcp => {
            refused.push(none_of(0, &inet)?);
            // Only streams have the lowest bit set and no other.
            refused.push(vec![kind(0xf, 0)?]);
            for other in [2, 4, 8] {
                refused.push(vec![kind(other as u64, other)?]);
            }
            // SCTP, MPTCP and SMC have streams too.
            refused.push(none_of(2, &[0, libc::IPPROTO_TCP])?);
        }
        Sockets::Own => {
            let families = [&inet[..], &[libc::AF_UNIX, libc::AF_NETLINK]].concat();
            refused.push(none_of(0, &families)?);
            for family in inet {
                let family = || is(0, Op::Eq, family);
                // Streams and datagrams.
                for (mask, value) in [(3, 0), (3, 3), (4, 4), (8, 8)] {
                    refused.push(vec![family()?, kind(mask, value)?]);
                }
                let protocols = none_of(2, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP])?;
                refused.push([vec![family()?], protocols].concat());
            }
            // Streams and packets in order. A datagram goes to any address without a connection.
            for (mask, value) in [(1, 0), (2, 2), (8, 8)] {
                refused.push(vec![is(0, Op::Eq, libc::AF_UNIX)?, kind(mask, value)?]);
            }
            // Both types are the same there. The protocol 0 is NETLINK_ROUTE.
            let netlink = || is(0, Op::Eq, libc::AF_NETLINK);
            for (mask, value) in [(2, 0), (4, 4), (8, 8)] {
                refused.push(vec![netlink()?, kind(mask, value)?]);
            }
            refused.push(vec![netlink()?, is(2, Op::Ne, libc::NETLINK_ROUTE)?]);
        }
    }
    refused.into_iter().map(SeccompRule::new).collect()
}

/// The lengths of addresses, in bytes, that only a local socket can have: up to 110 bytes
/// (unix(7)), except the lengths for IPv4 and IPv6. An address with only the family asks the
/// kernel to pick a name. A longer address is a buffer for any family, which a local socket
/// refuses.
const LOCAL_ADDRESSES: [(u64, u64); 3] = [
    (size_of::<libc::sa_family_t>() as u64, size_of::<libc::sockaddr_in>() as u64 - 1),
    (size_of::<libc::sockaddr_in>() as u64 + 1, size_of::<libc::sockaddr_in6>() as u64 - 1),
    (size_of::<libc::sockaddr_in6>() as u64 + 1, size_of::<libc::sockaddr_un>() as u64),
];

/// Returns the part that the rules cannot express: decisions by the architecture and the number
/// of the call, and errors other than EPERM. `counted_memory` is set if a control group is charged
/// for rules of Landlock and for memory that grows like a stack.
fn preamble(counted_memory: bool) -> Vec<sock_filter> {
    let foreign = u32::from(SeccompAction::KillProcess);
    let missing = u32::from(SeccompAction::Errno(libc::ENOSYS.cast_unsigned()));
    let unsuitable = u32::from(SeccompAction::Errno(libc::EINVAL.cast_unsigned()));
    let splices = SPLICES
        .map(|call| [jump(libc::BPF_JEQ, 0, 1, call as u32), line(RETURN, 0, 0, unsuitable)]);
    // No cgroup is charged for filters that a tool adds to this one, and a filter with a
    // listener lives as long as a descriptor. The kernel gives the same answer if it has no
    // filters, or does not know the option of `prctl`.
    let [memory, tracer] = NAMED_OPTIONS.map(i32::cast_unsigned);
    let filters = [
        jump(libc::BPF_JEQ, 6, 0, libc::SYS_seccomp as u32),
        jump(libc::BPF_JEQ, 0, 7, libc::SYS_prctl as u32),
        line(LOAD, 0, 0, FIRST),
        jump(libc::BPF_JEQ, 3, 0, libc::PR_SET_SECCOMP.cast_unsigned()),
        jump(libc::BPF_JEQ, 3, 0, memory),
        jump(libc::BPF_JEQ, 2, 0, tracer),
        jump(libc::BPF_JGT, 0, 1, LAST_OPTION),
        line(RETURN, 0, 0, unsuitable),
        line(LOAD, 0, 0, NUMBER),
    ];
    // A few descriptors of rulesets can hold hundreds of mebibytes. Programs that confine
    // themselves do without Landlock on a kernel that has none.
    let ruleset = libc::SYS_landlock_create_ruleset as u32;
    let no_rulesets = [jump(libc::BPF_JEQ, 0, 1, ruleset), line(RETURN, 0, 0, missing)];
    // RLIMIT_DATA does not count such memory. C libraries and language runtimes give threads
    // stacks of a fixed size.
    let growing = libc::MAP_GROWSDOWN.cast_unsigned();
    let no_stacks = [
        jump(libc::BPF_JEQ, 0, 5, libc::SYS_mmap as u32),
        line(LOAD, 0, 0, FOURTH),
        line(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, growing),
        jump(libc::BPF_JEQ, 0, 1, growing),
        line(RETURN, 0, 0, unsuitable),
        line(LOAD, 0, 0, NUMBER),
    ];
    let uncounted =
        if counted_memory { Vec::new() } else { [&no_rulesets[..], &no_stacks].concat() };
    // The limit on core dumps stays 1: with 0, the kernel may pipe a dump to a program of root. A
    // script that sets 0 goes on, and one that also wants to know the old limit gets EPERM.
    let granted = u32::from(SeccompAction::Errno(0));
    let refused = u32::from(SeccompAction::Errno(libc::EPERM.cast_unsigned()));
    let core_dumps = [
        jump(libc::BPF_JEQ, 0, 2, libc::SYS_setrlimit as u32),
        line(LOAD, 0, 0, FIRST),
        jump(libc::BPF_JEQ, 11, 13, CORE_LIMIT),
        jump(libc::BPF_JEQ, 0, 13, libc::SYS_prlimit64 as u32),
        line(LOAD, 0, 0, SECOND),
        jump(libc::BPF_JEQ, 0, 10, CORE_LIMIT),
        // A pointer to the new limit, and one to the place for the old limit.
        line(LOAD, 0, 0, THIRD),
        jump(libc::BPF_JEQ, 0, 2, 0),
        line(LOAD, 0, 0, THIRD + HIGH),
        jump(libc::BPF_JEQ, 6, 0, 0),
        line(LOAD, 0, 0, FOURTH),
        jump(libc::BPF_JEQ, 0, 3, 0),
        line(LOAD, 0, 0, FOURTH + HIGH),
        jump(libc::BPF_JEQ, 0, 1, 0),
        line(RETURN, 0, 0, granted),
        line(RETURN, 0, 0, refused),
        line(LOAD, 0, 0, NUMBER),
    ];
    let commands = [
        jump(libc::BPF_JEQ, 0, 5, libc::SYS_fcntl as u32),
        line(LOAD, 0, 0, SECOND),
        jump(libc::BPF_JEQ, 1, 0, SET_HINT),
        jump(libc::BPF_JGT, 0, 1, LAST_COMMAND),
        line(RETURN, 0, 0, unsuitable),
        line(LOAD, 0, 0, NUMBER),
    ];
    let lines: &[sock_filter] = &[
        line(LOAD, 0, 0, ARCHITECTURE),
        jump(libc::BPF_JEQ, 1, 0, OWN_ARCHITECTURE),
        line(RETURN, 0, 0, foreign),
        line(LOAD, 0, 0, NUMBER),
        #[cfg(target_arch = "x86_64")]
        jump(libc::BPF_JGE, 0, 1, X32),
        #[cfg(target_arch = "x86_64")]
        line(RETURN, 0, 0, foreign),
        // Its flags are in memory, which a filter cannot read; C libraries fall back to `clone`.
        jump(libc::BPF_JEQ, 3, 0, libc::SYS_clone3 as u32),
        // So is its mode; programs fall back to `openat`.
        jump(libc::BPF_JEQ, 2, 0, libc::SYS_openat2 as u32),
        jump(libc::BPF_JEQ, 1, 0, SETXATTRAT),
        jump(libc::BPF_JGT, 0, 1, LAST_KNOWN),
        line(RETURN, 0, 0, missing),
    ];
    [lines, &uncounted, &filters, &core_dumps, &commands, splices.as_flattened()].concat()
}

/// Returns a binary search that allows calls without a rule at once, and jumps to the rules for
/// the others. The rules are one long chain. The kernel walks the chain for each call number
/// when it takes the filter. Without this search, that costs a quarter of a millisecond for
/// every call of a tool.
fn dispatch(judged: &[u32]) -> Vec<sock_filter> {
    fn tree(judged: &[u32]) -> Vec<sock_filter> {
        let allowed = line(RETURN, 0, 0, u32::from(SeccompAction::Allow));
        if judged.len() <= 4 {
            let found = judged.iter().map(|call| jump(libc::BPF_JEQ, 0, 0, *call));
            return found.chain([allowed]).collect();
        }
        let (low, high) = judged.split_at(judged.len() / 2);
        let low = tree(low);
        let split = jump(libc::BPF_JGE, low.len() as u8, 0, high[0]);
        [split].into_iter().chain(low).chain(tree(high)).collect()
    }
    let mut lines = tree(judged);
    let length = lines.len();
    let found = jump(libc::BPF_JEQ, 0, 0, 0).code;
    for (index, line) in lines.iter_mut().enumerate().filter(|(_, line)| line.code == found) {
        line.jt = (length - index - 1) as u8;
    }
    lines
}

#[cfg(test)]
mod tests;
