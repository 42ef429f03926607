//! The filter of system calls of a sandboxed tool.
//!
//! Owns the list of the calls that are refused, with the reasons. It is not a list of allowed
//! calls, since the needs of compilers, interpreters and builds are not known. It refuses calls
//! that open a way around another boundary, or a part of the kernel that no tool needs.
//! Calls that are newer than this list do not exist, as on an older kernel.
//!
//! The requests of `ioctl` are the exception. Each file system and each driver adds its own, and
//! each of them could be a way around the mounts. So the module lists the allowed requests, and
//! all others get the error that says that the file does not know them.
//!
//! A refusal is an error, never a signal, so that a tool can report what it could not do. Only a
//! call by the rules of another architecture kills the tool.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

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

/// The last `fcntl` command that is known here, F_SET_FILE_RW_HINT of linux/fcntl.h. Linux 6.19
/// has one more, which takes a lease on a directory.
const LAST_COMMAND: u64 = 1038;

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

/// Calls that set an extended attribute, and the longest value that is allowed. No cgroup counts
/// access control lists in memory, and lists that people write are shorter.
const SET_ATTRIBUTE: [c_long; 3] = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr];
const LONGEST_ATTRIBUTE: u64 = 256;

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
    /// A control group is charged for the tool's semaphores and message queues of System V.
    pub(super) counted_ipc: bool,
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

/// The requests that type into a terminal as if its user did, and paste into a console: TIOCSTI
/// and TIOCLINUX, asm-generic/ioctls.h. C libraries do not agree on their type.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// The requests for which the kernel loads the module of bridges, of DLCI or of VLANs: SIOCGIFBR,
/// SIOCSIFBR, SIOCADDDLCI, SIOCDELDLCI, SIOCGIFVLAN, SIOCSIFVLAN, SIOCBRADDBR and SIOCBRDELBR,
/// linux/sockios.h.
const NETWORK_MODULES: [u64; 8] = [0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1];

/// The types of requests that ask a socket of any family about its network and its interfaces,
/// including wireless ones. All numbers of these types, `linux/sockios.h` and
/// `linux/wireless.h`.
const SOCKET_REQUESTS: [u64; 2] = [0x8900, 0x8b00];

/// The known requests of `ioctl`, as ranges from the first to the last one, in ascending order.
/// The rules refuse a few of them. All others get ENOTTY, the error for a file without this
/// request. A filter sees the request, and not the kind of the file.
///
/// Requests that set something on a file or a file system are missing on purpose. They need only a
/// descriptor, or the rights of the file's owner, and they still apply when the call has ended.
/// btrfs and bcachefs make snapshots, which show the files beneath the mounts that hide them.
/// btrfs makes a subvolume read-only. fscrypt locks encrypted directories for all programs, and
/// takes keys that stay in the kernel. The flags of a file (`chattr`) include names that ignore
/// case.
///
/// Requests that are new in a kernel, such as those for pidfds, are missing as well. Programs do
/// without them on an older kernel.
#[rustfmt::skip]
const REQUESTS: &[(u32, u32)] = &[
    // linux/fs.h: FIGETBSZ, the size of a block.
    (0x0002, 0x0002),
    // Terminals and other streams, asm-generic/ioctls.h: TCGETS to TIOCSWINSZ; FIONREAD and
    // TIOCLINUX; TIOCPKT, FIONBIO, TIOCNOTTY; TIOCGETD, TCSBRKP; TIOCSBRK, TIOCCBRK, TIOCGSID;
    // TIOCGPTPEER; FIONCLEX, FIOCLEX, FIOASYNC; FIOQSIZE. TIOCSETD is missing, which loads the
    // module of a line discipline.
    (0x5401, 0x5414), (0x541b, 0x541c), (0x5420, 0x5422), (0x5424, 0x5425), (0x5427, 0x5429),
    (0x5441, 0x5441), (0x5450, 0x5452), (0x5460, 0x5460),
    // Sockets: both types of `SOCKET_REQUESTS`.
    (0x8900, 0x89ff), (0x8b00, 0x8bff),
    // linux/nsfs.h: NS_GET_USERNS to NS_GET_OWNER_UID.
    (0xb701, 0xb704),
    // Terminals: TIOCSPTLCK, TIOCSIG.
    (0x4004_5431, 0x4004_5431), (0x4004_5436, 0x4004_5436),
    // linux/fs.h: FICLONE, FICLONERANGE. Copies share the storage of files that are open.
    (0x4004_9409, 0x4004_9409), (0x4020_940d, 0x4020_940d),
    // Terminals: TCSETS2, TCSETSW2, TCSETSF2.
    (0x402c_542b, 0x402c_542d),
    // linux/random.h: RNDGETENTCNT.
    (0x8004_5200, 0x8004_5200),
    // Terminals: TIOCGPTN.
    (0x8004_5430, 0x8004_5430),
    // linux/fs.h: FS_IOC_GETFLAGS, FS_IOC_GETVERSION.
    (0x8008_6601, 0x8008_6601), (0x8008_7601, 0x8008_7601),
    // linux/sockios.h: SIOCGSTAMP_NEW, SIOCGSTAMPNS_NEW.
    (0x8010_8906, 0x8010_8907),
    // linux/fs.h: FS_IOC_FSGETXATTR.
    (0x801c_581f, 0x801c_581f),
    // Terminals: TCGETS2.
    (0x802c_542a, 0x802c_542a),
    // linux/fs.h: FS_IOC_GETFSLABEL, FIDEDUPERANGE, FS_IOC_FIEMAP.
    (0x8100_9431, 0x8100_9431), (0xc018_9436, 0xc018_9436), (0xc020_660b, 0xc020_660b),
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
    Ok([preamble(), requests(), dispatch(&judged), rules].concat())
}

fn rules(
    reach: FilterRights,
) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let FilterRights { sockets, host_socket, own_processes, counted_ipc } = reach;
    let only = |argument: u8, op: Op, value: u64| {
        SeccompCondition::new(argument, Length::Dword, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !counted_ipc {
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
    rules.insert(
        libc::SYS_fcntl,
        vec![only(1, Op::Eq, NOTIFY)?, only(1, Op::Eq, SET_LEASE)?, only(1, Op::Gt, LAST_COMMAND)?],
    );
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
/// of the call.
fn preamble() -> Vec<sock_filter> {
    // The low half of the first argument.
    const FIRST: u32 = 16;
    let foreign = u32::from(SeccompAction::KillProcess);
    let missing = u32::from(SeccompAction::Errno(libc::ENOSYS.cast_unsigned()));
    let unsuitable = u32::from(SeccompAction::Errno(libc::EINVAL.cast_unsigned()));
    let splices = SPLICES
        .map(|call| [jump(libc::BPF_JEQ, 0, 1, call as u32), line(RETURN, 0, 0, unsuitable)]);
    // No cgroup is charged for filters that a tool adds to this one, and a filter with a
    // listener lives as long as a descriptor. The kernel gives the same answer if it has no
    // filters.
    let filters = [
        jump(libc::BPF_JEQ, 3, 0, libc::SYS_seccomp as u32),
        jump(libc::BPF_JEQ, 0, 4, libc::SYS_prctl as u32),
        line(LOAD, 0, 0, FIRST),
        jump(libc::BPF_JEQ, 0, 1, libc::PR_SET_SECCOMP.cast_unsigned()),
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
    [lines, &filters, splices.as_flattened()].concat()
}

/// Returns the part that answers an unknown request of `ioctl`. Known requests and other calls
/// continue behind it, with the number of the call loaded.
fn requests() -> Vec<sock_filter> {
    // The low half of the second argument. The kernel ignores the high half.
    const SECOND: u32 = 24;
    let unknown = u32::from(SeccompAction::Errno(libc::ENOTTY.cast_unsigned()));
    let tests = REQUESTS.iter().enumerate().flat_map(|(index, (first, last))| {
        // A request below the range skips the other tests, up to the error. A request in the range
        // skips the error too.
        let others = (2 * (REQUESTS.len() - index) - 1) as u8;
        [jump(libc::BPF_JGE, 0, others, *first), jump(libc::BPF_JGT, 0, others, *last)]
    });
    let found: Vec<_> = [line(LOAD, 0, 0, SECOND)]
        .into_iter()
        .chain(tests)
        .chain([line(RETURN, 0, 0, unknown), line(LOAD, 0, 0, NUMBER)])
        .collect();
    [vec![jump(libc::BPF_JEQ, 0, found.len() as u8, libc::SYS_ioctl as u32)], found].concat()
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

/// The offsets in `seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;

pub(super) const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub(super) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

pub(super) fn line(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

pub(super) fn jump(condition: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    line(libc::BPF_JMP | condition | libc::BPF_K, jt, jf, k)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter on a call, as the kernel would.
    fn judge(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let words: Vec<u32> = [number, architecture, 0, 0]
            .into_iter()
            .chain(arguments.into_iter().flat_map(|it| [it as u32, (it >> 32) as u32]))
            .collect();
        let (mut at, mut value) = (0, 0_u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let code = u32::from(code);
            let holds = match code & 0xf0 {
                _ if code == LOAD => {
                    value = words[k as usize / 4];
                    continue;
                }
                _ if code == RETURN => return k,
                _ if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                    value &= k;
                    continue;
                }
                libc::BPF_JA => {
                    at += k as usize;
                    continue;
                }
                libc::BPF_JEQ => value == k,
                libc::BPF_JGT => value > k,
                libc::BPF_JGE => value >= k,
                _ => panic!("unexpected {code:#x}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    fn own(net: bool, number: c_long, arguments: [u64; 6]) -> u32 {
        let sockets = if net { Sockets::All } else { Sockets::None };
        own_with(FilterRights { sockets, ..FilterRights::default() }, number, arguments)
    }

    fn own_with(reach: FilterRights, number: c_long, arguments: [u64; 6]) -> u32 {
        let program = program(reach).expect("compiles");
        judge(&program, OWN_ARCHITECTURE, number as u32, arguments)
    }

    const ONLINE: FilterRights = FilterRights {
        sockets: Sockets::All,
        host_socket: false,
        own_processes: true,
        counted_ipc: true,
    };

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    const MISSING: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    const UNSUITABLE: u32 = libc::SECCOMP_RET_ERRNO | libc::EINVAL.cast_unsigned();
    const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOTTY.cast_unsigned();

    #[test]
    fn what_is_listed_is_refused_and_nothing_else() {
        let program = program(ONLINE).expect("compiles");
        for number in 0..=LAST_KNOWN {
            let call = c_long::from(number);
            let judgement = judge(&program, OWN_ARCHITECTURE, number, [0; 6]);
            let expected = match call {
                libc::SYS_clone3 | libc::SYS_openat2 => MISSING,
                call if call == c_long::from(SETXATTRAT) => MISSING,
                // Of family 0.
                libc::SYS_socket | libc::SYS_socketpair => REFUSAL,
                // Request 0.
                libc::SYS_ioctl => UNKNOWN,
                call if REFUSED.contains(&call) => REFUSAL,
                call if SPLICES.contains(&call) || call == libc::SYS_seccomp => UNSUITABLE,
                _ => ALLOWED,
            };
            assert_eq!(judgement, expected, "{number}");
        }
        assert!(program.len() < 1280 && REFUSED.iter().all(|it| *it <= c_long::from(LAST_KNOWN)));
    }

    #[test]
    fn arguments_decide_where_they_must() {
        let first = |value: i32| [u64::from(value.cast_unsigned()), 0, 0, 0, 0, 0];
        let second = |value: u64| [0, value, 0, 0, 0, 0];
        for flag in NAMESPACES {
            let flags = first(flag | libc::CLONE_VM | libc::SIGCHLD);
            assert_eq!(own(true, libc::SYS_clone, flags), REFUSAL, "{flag:#x}");
        }
        let thread = libc::CLONE_THREAD | libc::CLONE_FILES;
        assert_eq!(own(true, libc::SYS_clone, first(thread)), ALLOWED);
        for (flags, mode, judgement) in [
            (libc::O_CREAT, 0o4755, REFUSAL),
            (libc::O_TMPFILE | libc::O_RDWR, 0o2755, REFUSAL),
            (libc::O_CREAT, 0o1755, ALLOWED),
            // If no file is made, the mode's register may contain anything.
            (libc::O_RDWR | libc::O_DIRECTORY, 0o7777, ALLOWED),
        ] {
            let opened = [0, 0, u64::from(flags.cast_unsigned()), mode, 0, 0];
            assert_eq!(own(true, libc::SYS_openat, opened), judgement, "{flags:o} {mode:o}");
        }
        for (family, online) in [
            (libc::AF_INET, true),
            (libc::AF_INET6, true),
            (libc::AF_UNIX, false),
            (libc::AF_NETLINK, false),
        ] {
            // The kernel reads 32 bits; higher bits change nothing.
            let [family, ..] = first(family);
            let high = [family | 1 << 40, 0, 0, 0, 0, 0];
            assert_eq!(own(true, libc::SYS_socket, high) == ALLOWED, online, "{family}");
            assert_eq!(own(false, libc::SYS_socket, high), REFUSAL, "{family}");
        }
        for (kind, judgement) in [
            (libc::SOCK_STREAM | libc::SOCK_CLOEXEC, ALLOWED),
            (libc::SOCK_SEQPACKET, ALLOWED),
            (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, REFUSAL),
        ] {
            let pair = [libc::AF_UNIX, kind, 0, 0, 0, 0].map(|it| u64::from(it.cast_unsigned()));
            assert_eq!(own(true, libc::SYS_socketpair, pair), judgement, "{pair:?}");
        }
        assert_eq!(own(true, libc::SYS_ioctl, second(TERMINAL[0] | 1 << 32)), REFUSAL);
        assert_eq!(own(true, libc::SYS_ioctl, second(libc::TCGETS)), ALLOWED);
        for request in [libc::SIOCGIFCONF, 0x8900, 0x89ff, 0x8b01] {
            let holding = |host_socket| {
                own_with(FilterRights { host_socket, ..ONLINE }, libc::SYS_ioctl, second(request))
            };
            assert_eq!((holding(true), holding(false)), (REFUSAL, ALLOWED), "{request:#x}");
        }
        let holding = FilterRights { host_socket: true, ..ONLINE };
        assert_eq!(own_with(holding, libc::SYS_ioctl, second(libc::FIONREAD)), ALLOWED);
        assert_eq!(own(true, libc::SYS_fchmod, second(0o755)), ALLOWED);
        assert_eq!(own(true, libc::SYS_fchmod, second(0o4755)), REFUSAL);
    }

    /// Requests about files that change nothing but the files that are open: FICLONE,
    /// FICLONERANGE, FIDEDUPERANGE, FS_IOC_FIEMAP, and the getters of flags, of the version, of
    /// extended flags and of the label.
    const ABOUT_FILES: [u32; 8] = [
        0x4004_9409,
        0x4020_940d,
        0xc018_9436,
        0xc020_660b,
        0x8008_6601,
        0x8008_7601,
        0x801c_581f,
        0x8100_9431,
    ];

    #[test]
    fn a_request_that_is_not_listed_is_unknown_to_every_file() {
        let ascending = REQUESTS.is_sorted_by(|low, high| low.1 < high.0);
        assert!(ascending && REQUESTS.iter().all(|(first, last)| first <= last));
        let none = FilterRights::default();
        let rights = [
            none,
            ONLINE,
            FilterRights { host_socket: true, ..ONLINE },
            FilterRights { sockets: Sockets::Tcp, ..none },
            FilterRights { sockets: Sockets::Own, ..none },
        ];
        for reach in rights {
            let program = program(reach).expect("compiles");
            let judged = |request: u64| {
                let arguments = [3, request, 0x7000_0000_0000, 0, 0, 0];
                judge(&program, OWN_ARCHITECTURE, libc::SYS_ioctl as u32, arguments)
            };
            for (request, judgement) in [
                // BTRFS_IOC_SNAP_CREATE, _V2, SUBVOL_CREATE, SNAP_DESTROY, SUBVOL_SETFLAGS,
                // INO_LOOKUP_USER.
                (0x5000_9401, UNKNOWN),
                (0x5000_9417, UNKNOWN),
                (0x5000_940e, UNKNOWN),
                (0x5000_940f, UNKNOWN),
                (0x4008_941a, UNKNOWN),
                (0xd000_943e, UNKNOWN),
                // FS_IOC_SET_ENCRYPTION_POLICY, ADD_ENCRYPTION_KEY, REMOVE_ENCRYPTION_KEY,
                // ENABLE_VERITY.
                (0x800c_6613, UNKNOWN),
                (0xc050_6617, UNKNOWN),
                (0xc040_6618, UNKNOWN),
                (0x4080_6685, UNKNOWN),
                // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FIBMAP, FIFREEZE, TIOCCONS, TIOCSETD.
                (0x4008_6602, UNKNOWN),
                (0x401c_5820, UNKNOWN),
                (0x0001, UNKNOWN),
                (0xc004_5877, UNKNOWN),
                (0x541d, UNKNOWN),
                (0x5423, UNKNOWN),
                // The kernel looks at 32 bits.
                (0x5000_9417 | 1 << 32, UNKNOWN),
                (0x5401 | 1 << 32, ALLOWED),
                (0x5000_9417 | u64::MAX << 32, UNKNOWN),
                (0xc020_660b | u64::MAX << 32, ALLOWED),
                (u64::MAX, UNKNOWN),
                (0, UNKNOWN),
                // TCGETS, TIOCSCTTY, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIOASYNC,
                // TCGETS2, TCSETS2, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER.
                (0x5401, ALLOWED),
                (0x540e, ALLOWED),
                (0x540f, ALLOWED),
                (0x5413, ALLOWED),
                (0x541b, ALLOWED),
                (0x5421, ALLOWED),
                (0x5451, ALLOWED),
                (0x5452, ALLOWED),
                (0x802c_542a, ALLOWED),
                (0x402c_542b, ALLOWED),
                (0x8004_5430, ALLOWED),
                (0x4004_5431, ALLOWED),
                (0x5441, ALLOWED),
                // TIOCSTI, TIOCLINUX.
                (TERMINAL[0], REFUSAL),
                (TERMINAL[1], REFUSAL),
            ] {
                assert_eq!(judged(request), judgement, "{reach:?} {request:#x}");
            }
            let ends = REQUESTS.iter().flat_map(|(first, last)| [*first, *last]);
            for request in ends {
                assert_ne!(judged(request.into()), UNKNOWN, "{reach:?} {request:#x}");
            }
            for request in ABOUT_FILES {
                assert_eq!(judged(request.into()), ALLOWED, "{reach:?} {request:#x}");
            }
        }
    }

    #[test]
    fn of_the_requests_of_file_systems_only_those_about_open_files_are_known() {
        let program = program(ONLINE).expect("compiles");
        let mut known = Vec::new();
        // ext4 and fscrypt, versions, XFS, btrfs, f2fs, bcachefs, ceph, ocfs2, cifs.
        for kind in [b'f', b'v', b'X', 0x94, 0xf5, 0xbc, 0x97, b'o', 0xcf].map(u32::from) {
            for rest in 0..4_u32 * 256 {
                let (direction, number) = (rest >> 8, rest & 0xff);
                for size in
                    [0_u32, 1, 4, 8, 9, 12, 16, 24, 28, 32, 40, 64, 80, 128, 256, 1024, 4096]
                {
                    let request = direction << 30 | size << 16 | kind << 8 | number;
                    let arguments = [3, u64::from(request), 0, 0, 0, 0];
                    let ioctl = libc::SYS_ioctl as u32;
                    match judge(&program, OWN_ARCHITECTURE, ioctl, arguments) {
                        ALLOWED => known.push(request),
                        judgement => assert_eq!(judgement, UNKNOWN, "{request:#x}"),
                    }
                }
            }
        }
        let mut expected = ABOUT_FILES;
        known.sort_unstable();
        expected.sort_unstable();
        assert_eq!(known, expected);
    }

    #[test]
    fn a_socket_of_a_pair_takes_no_name() {
        for (length, judgement) in [
            // Addresses of IPv4 and IPv6, and a buffer for any address.
            (16, ALLOWED),
            (28, ALLOWED),
            (128, ALLOWED),
            // A name that the kernel picks, `\0name`, the longest one.
            (2, REFUSAL),
            (7, REFUSAL),
            (15, REFUSAL),
            (17, REFUSAL),
            (27, REFUSAL),
            (29, REFUSAL),
            (110, REFUSAL),
        ] {
            for online in [true, false] {
                let judged = own(online, libc::SYS_bind, [4, 0x7000_0000, length, 0, 0, 0]);
                assert_eq!(judged, judgement, "{length}");
            }
        }
    }

    #[test]
    fn semaphores_and_queues_are_refused_where_nobody_counts_them() {
        for call in SYSTEM_V {
            let judged = [true, false].map(|counted_ipc| {
                own_with(FilterRights { counted_ipc, ..FilterRights::default() }, call, [0; 6])
            });
            assert_eq!(judged, [ALLOWED, REFUSAL], "{call}");
        }
    }

    #[test]
    fn no_other_process_is_set_limits_or_made_to_wait() {
        let apart = FilterRights { own_processes: true, ..FilterRights::default() };
        let beside = FilterRights::default();
        for (call, arguments, judgements) in [
            // In a PID namespace, and without one.
            (libc::SYS_prlimit64, [0, 7, 0x7000_0000_0000, 0, 0, 0], [ALLOWED, ALLOWED]),
            (libc::SYS_prlimit64, [9, 7, 0, 1 << 40, 0, 0], [ALLOWED, ALLOWED]),
            (libc::SYS_prlimit64, [1, 7, 1 << 40, 0, 0, 0], [REFUSAL, REFUSAL]),
            (libc::SYS_prlimit64, [9, 7, 1 << 40, 0, 0, 0], [REFUSAL, REFUSAL]),
            (libc::SYS_sched_setaffinity, [0; 6], [ALLOWED, ALLOWED]),
            (libc::SYS_sched_setaffinity, [9, 0, 0, 0, 0, 0], [ALLOWED, REFUSAL]),
            (libc::SYS_sched_setattr, [1, 0, 0, 0, 0, 0], [REFUSAL, REFUSAL]),
            // The process itself, another one, all processes of the user.
            (libc::SYS_setpriority, [0, 0, 9, 0, 0, 0], [ALLOWED, ALLOWED]),
            (libc::SYS_setpriority, [0, 1, 9, 0, 0, 0], [REFUSAL, REFUSAL]),
            (libc::SYS_setpriority, [2, 0, 9, 0, 0, 0], [REFUSAL, REFUSAL]),
            (libc::SYS_ioprio_set, [1, 0, 9, 0, 0, 0], [ALLOWED, ALLOWED]),
            (libc::SYS_ioprio_set, [3, 0, 9, 0, 0, 0], [REFUSAL, REFUSAL]),
            (libc::SYS_move_pages, [1, 0, 0, 0, 0, 0], [REFUSAL, REFUSAL]),
        ] {
            let judged = [apart, beside].map(|reach| own_with(reach, call, arguments));
            assert_eq!(judged, judgements, "{call} {arguments:?}");
        }
    }

    #[test]
    fn sockets_without_a_network_hold_no_more_than_they_are_given() {
        let level = u64::from(libc::SOL_SOCKET.cast_unsigned());
        let option = |option: i32| [4, level, u64::from(option.cast_unsigned()), 0, 0, 0];
        let with = |sockets| FilterRights { sockets, ..ONLINE };
        for (reach, judgement) in [
            (with(Sockets::None), REFUSAL),
            (with(Sockets::Tcp), REFUSAL),
            (with(Sockets::Own), REFUSAL),
            (with(Sockets::All), ALLOWED),
        ] {
            let larger = own_with(reach, libc::SYS_setsockopt, option(libc::SO_SNDBUF));
            assert_eq!(larger, judgement, "{reach:?}");
            let other = own_with(reach, libc::SYS_setsockopt, option(libc::SO_REUSEADDR));
            assert_eq!(other, ALLOWED, "{reach:?}");
            for held in OF_HOLDERS {
                let alone = FilterRights { host_socket: false, ..reach };
                assert_eq!(own_with(alone, libc::SYS_setsockopt, option(held)), judgement);
                let beside = FilterRights { host_socket: true, ..reach };
                assert_eq!(own_with(beside, libc::SYS_setsockopt, option(held)), REFUSAL);
            }
            // Keys are memory as well, and no delay of small packets.
            let tcp = |option| [4, 6, option, 0, 0, 0];
            assert_eq!(own_with(reach, libc::SYS_setsockopt, tcp(14)), REFUSAL, "{reach:?}");
            assert_eq!(own_with(reach, libc::SYS_setsockopt, tcp(1)), ALLOWED, "{reach:?}");
            let layered = own_with(reach, libc::SYS_setsockopt, tcp(TCP_LAYERS[0]));
            assert_eq!(layered, judgement, "{reach:?}");
        }
    }

    #[test]
    fn a_network_of_its_own_has_streams_and_datagrams_and_local_streams() {
        let number = |it: i32| u64::from(it.cast_unsigned());
        let own = FilterRights { sockets: Sockets::Own, ..ONLINE };
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let judged = |family, kind, protocol: i32| {
            let arguments = [number(family), number(kind | flags), number(protocol), 0, 0, 0];
            own_with(own, libc::SYS_socket, arguments)
        };
        let tcp_and_udp = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
        for (families, kinds, protocols) in [
            (
                [libc::AF_INET, libc::AF_INET6],
                [libc::SOCK_STREAM, libc::SOCK_DGRAM],
                &tcp_and_udp[..],
            ),
            ([libc::AF_UNIX; 2], [libc::SOCK_STREAM, libc::SOCK_SEQPACKET], &[0, 1]),
            ([libc::AF_NETLINK; 2], [libc::SOCK_DGRAM, libc::SOCK_RAW], &[libc::NETLINK_ROUTE]),
        ] {
            for family in families {
                for kind in 0..16 {
                    let expected = if kinds.contains(&kind) { ALLOWED } else { REFUSAL };
                    assert_eq!(judged(family, kind, protocols[0]), expected, "{family} {kind}");
                }
                let kind = kinds[1];
                for protocol in 0..300 {
                    // The kernel knows two numbers for the only protocol of local sockets.
                    let expected = match protocols.contains(&protocol) || family == libc::AF_UNIX {
                        true => ALLOWED,
                        false => REFUSAL,
                    };
                    assert_eq!(judged(family, kind, protocol), expected, "{family} {protocol}");
                }
            }
        }
        let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        for family in (0..64).filter(|family| !known.contains(family)) {
            for kind in 0..16 {
                assert_eq!(judged(family, kind, 0), REFUSAL, "{family} {kind}");
            }
        }
        // In its own network the names are the tool's.
        for length in [2, 16, 110] {
            let judged = own_with(own, libc::SYS_bind, [4, 0x7000_0000, length, 0, 0, 0]);
            assert_eq!(judged, ALLOWED, "{length}");
        }
        let datagrams = [number(libc::AF_UNIX), number(libc::SOCK_DGRAM), 0, 0, 0, 0];
        assert_eq!(own_with(own, libc::SYS_socketpair, datagrams), REFUSAL);
        assert_eq!(own_with(own, libc::SYS_io_uring_setup, [0; 6]), REFUSAL);
    }

    #[test]
    fn flow_labels_are_leased_with_the_network_of_the_machine_alone() {
        let lease = [3, libc::IPPROTO_IPV6 as u64, FLOW_LABELS[0], 0, 0, 0];
        for (sockets, expected) in
            [(Sockets::Tcp, REFUSAL), (Sockets::Own, REFUSAL), (Sockets::All, ALLOWED)]
        {
            let reach = FilterRights { sockets, ..ONLINE };
            assert_eq!(own_with(reach, libc::SYS_setsockopt, lease), expected, "{sockets:?}");
        }
    }

    #[test]
    fn no_socket_has_the_kernel_load_the_module_of_a_family() {
        let number = |it: i32| u64::from(it.cast_unsigned());
        for sockets in [Sockets::None, Sockets::Tcp, Sockets::Own, Sockets::All] {
            let reach = FilterRights { sockets, ..ONLINE };
            for family in 0..64 {
                let arguments = [family, number(libc::SOCK_STREAM), 0, 0, 0, 0];
                let expected = if family == number(libc::AF_UNIX) { ALLOWED } else { REFUSAL };
                let judged = own_with(reach, libc::SYS_socketpair, arguments);
                assert_eq!(judged, expected, "{sockets:?} {family}");
            }
            for request in NETWORK_MODULES {
                let judged = own_with(reach, libc::SYS_ioctl, [3, request, 0, 0, 0, 0]);
                assert_eq!(judged, REFUSAL, "{sockets:?} {request:#x}");
            }
        }
    }

    #[test]
    fn a_network_of_named_peers_has_tcp_alone() {
        let number = |it: i32| u64::from(it.cast_unsigned());
        let tcp = FilterRights { sockets: Sockets::Tcp, ..ONLINE };
        let judged = |reach, family, kind, protocol: i32| {
            let arguments = [number(family), number(kind), number(protocol), 0, 0, 0];
            own_with(reach, libc::SYS_socket, arguments)
        };
        let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in [0, libc::IPPROTO_TCP] {
                assert_eq!(judged(tcp, family, stream, protocol), ALLOWED, "{family} {protocol}");
            }
            for protocol in [libc::IPPROTO_SCTP, libc::IPPROTO_MPTCP, libc::IPPROTO_UDP] {
                assert_eq!(judged(tcp, family, stream, protocol), REFUSAL, "{protocol}");
                assert_eq!(judged(ONLINE, family, stream, protocol), ALLOWED, "{protocol}");
            }
            for kind in (0..16).filter(|kind| *kind != libc::SOCK_STREAM) {
                assert_eq!(judged(tcp, family, kind | libc::SOCK_CLOEXEC, 0), REFUSAL, "{kind}");
                assert_eq!(judged(ONLINE, family, kind, 0), ALLOWED, "{kind}");
            }
        }
        for family in [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK] {
            assert_eq!(judged(tcp, family, stream, 0), REFUSAL, "{family}");
        }
    }

    #[test]
    fn memory_that_no_cgroup_is_charged_for_is_refused() {
        let flags = |flags: i32| [0, 4096, 3, u64::from(flags.cast_unsigned()), 0, 0];
        let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        assert_eq!(own(true, libc::SYS_mmap, flags(plain)), ALLOWED);
        assert_eq!(own(true, libc::SYS_mmap, flags(plain | libc::MAP_HUGETLB)), REFUSAL);
        for call in [libc::SYS_mbind, SET_MEMPOLICY_HOME_NODE, libc::SYS_io_setup] {
            assert_eq!(own(true, call, [0; 6]), REFUSAL, "{call}");
        }
        for call in SPLICES {
            assert_eq!(own(true, call, [0; 6]), UNSUITABLE, "{call}");
        }
        let filtering = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        assert_eq!(own(true, libc::SYS_seccomp, [filtering, 0, 0, 0, 0, 0]), UNSUITABLE);
        for (option, judgement) in [
            (libc::PR_SET_SECCOMP, UNSUITABLE),
            (libc::PR_GET_SECCOMP, ALLOWED),
            (libc::PR_SET_NAME, ALLOWED),
        ] {
            let option = [u64::from(option.cast_unsigned()), 2, 0, 0, 0, 0];
            assert_eq!(own(true, libc::SYS_prctl, option), judgement, "{option:?}");
        }
        let level = u64::from(libc::SOL_SOCKET.cast_unsigned());
        for option in PROGRAMS {
            let attached = own(true, libc::SYS_setsockopt, [4, level, option, 0, 0, 0]);
            assert_eq!(attached, REFUSAL, "{option}");
        }
        // Threads share their descriptors, processes do not.
        let first = |flags: i32| [u64::from(flags.cast_unsigned()), 0, 0, 0, 0, 0];
        let thread = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_THREAD;
        assert_eq!(own(true, libc::SYS_clone, first(thread)), ALLOWED);
        assert_eq!(own(true, libc::SYS_clone, first(libc::CLONE_VM | libc::SIGCHLD)), ALLOWED);
        assert_eq!(own(true, libc::SYS_clone, first(libc::CLONE_FILES)), REFUSAL);
        let apart = libc::CLONE_VM | libc::CLONE_THREAD;
        assert_eq!(own(true, libc::SYS_clone, first(apart)), REFUSAL);
        for (flags, judgement) in [(0, ALLOWED), (CLOSE_RANGE_UNSHARE, REFUSAL)] {
            let closed = [3, u64::from(u32::MAX), flags, 0, 0, 0];
            assert_eq!(own(true, libc::SYS_close_range, closed), judgement, "{flags}");
        }
    }

    #[test]
    fn a_long_attribute_is_refused() {
        for (length, judgement) in
            [(0, ALLOWED), (256, ALLOWED), (257, REFUSAL), (1 << 32, REFUSAL)]
        {
            for call in SET_ATTRIBUTE {
                assert_eq!(own(true, call, [0, 0, 0, length, 0, 0]), judgement, "{length}");
            }
        }
    }

    #[test]
    fn a_survey_of_more_memory_than_anybody_has_is_refused() {
        for (call, argument, most) in PAGE_QUERIES {
            for (length, judgement) in [(most, ALLOWED), (most + 1, REFUSAL), (1 << 43, REFUSAL)] {
                let mut arguments = [0; 6];
                arguments[usize::from(argument)] = length;
                assert_eq!(own(true, call, arguments), judgement, "{call} {length}");
            }
        }
    }

    #[test]
    fn notices_and_leases_are_refused_and_other_commands_are_not() {
        for (command, judgement) in [
            (NOTIFY, REFUSAL),
            (SET_LEASE, REFUSAL),
            // The kernel looks at 32 bits.
            (SET_LEASE | 1 << 32, REFUSAL),
            (LAST_COMMAND, ALLOWED),
            (LAST_COMMAND + 2, REFUSAL),
            (libc::F_GETLEASE as u64, ALLOWED),
            (libc::F_SETFD as u64, ALLOWED),
            (libc::F_OFD_SETLK as u64, ALLOWED),
        ] {
            assert_eq!(own(true, libc::SYS_fcntl, [3, command, 0, 0, 0, 0]), judgement);
        }
    }

    #[test]
    fn another_architecture_kills_and_a_newer_call_is_missing() {
        let program = program(ONLINE).expect("compiles");
        let i386 = 0x4000_0003;
        for number in [0, 20, 1000] {
            let judgement = judge(&program, i386, number, [0; 6]);
            assert_eq!(judgement, libc::SECCOMP_RET_KILL_PROCESS);
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(own(true, c_long::from(X32), [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
        assert_eq!(own(true, c_long::from(LAST_KNOWN) + 1, [0; 6]), MISSING);
    }
}
