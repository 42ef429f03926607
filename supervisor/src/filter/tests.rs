//! The answers of the filter, by running its program as the kernel does.

use super::requests::REQUESTS;
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
    counted_memory: true,
};

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const PRETENDED: u32 = libc::SECCOMP_RET_ERRNO;
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
            // TIOCEXCL, TIOCNXCL, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FIBMAP, FIFREEZE, TIOCCONS,
            // TIOCSETD.
            (0x540c, UNKNOWN),
            (0x540d, UNKNOWN),
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
            for size in [0_u32, 1, 4, 8, 9, 12, 16, 24, 28, 32, 40, 64, 80, 128, 256, 1024, 4096] {
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
        let judged = [true, false].map(|counted_memory| {
            own_with(FilterRights { counted_memory, ..FilterRights::default() }, call, [0; 6])
        });
        assert_eq!(judged, [ALLOWED, REFUSAL], "{call}");
    }
}

#[test]
fn rulesets_of_landlock_are_missing_where_nobody_counts_them() {
    let ask_for_version = [0, 0, 1, 0, 0, 0];
    for arguments in [[0x7000_0000, 8, 0, 0, 0, 0], ask_for_version] {
        let judged = [true, false].map(|counted_memory| {
            let reach = FilterRights { counted_memory, ..FilterRights::default() };
            own_with(reach, libc::SYS_landlock_create_ruleset, arguments)
        });
        assert_eq!(judged, [ALLOWED, MISSING], "{arguments:?}");
    }
}

#[test]
fn memory_that_grows_like_a_stack_is_refused_where_nobody_counts_it() {
    let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    for (flags, judgements) in [
        (plain, [ALLOWED, ALLOWED]),
        (plain | libc::MAP_STACK | libc::MAP_NORESERVE, [ALLOWED, ALLOWED]),
        (plain | libc::MAP_GROWSDOWN, [ALLOWED, UNSUITABLE]),
        (plain | libc::MAP_GROWSDOWN | libc::MAP_NORESERVE, [ALLOWED, UNSUITABLE]),
        (plain | libc::MAP_HUGETLB, [REFUSAL, REFUSAL]),
    ] {
        let judged = [true, false].map(|counted_memory| {
            let reach = FilterRights { counted_memory, ..FilterRights::default() };
            let flags = u64::from(flags.cast_unsigned());
            own_with(reach, libc::SYS_mmap, [0, 4096, 3, flags, u64::MAX, 0])
        });
        assert_eq!(judged, judgements, "{flags:#x}");
    }
}

#[test]
fn the_output_of_a_terminal_is_not_stopped() {
    for (request, judgement) in [(0x5409, ALLOWED), (0x540a, UNKNOWN), (0x540b, ALLOWED)] {
        assert_eq!(own(true, libc::SYS_ioctl, [0, request, 0, 0, 0, 0]), judgement, "{request:#x}");
    }
}

#[test]
fn the_limit_on_core_dumps_stays() {
    let core = u64::from(CORE_LIMIT);
    let (pointer, high_pointer) = (0x7000_0000_1000, 1 << 40);
    for (call, arguments, judgement) in [
        (libc::SYS_setrlimit, [core, pointer, 0, 0, 0, 0], PRETENDED),
        (libc::SYS_setrlimit, [7, pointer, 0, 0, 0, 0], ALLOWED),
        (libc::SYS_prlimit64, [0, core, pointer, 0, 0, 0], PRETENDED),
        (libc::SYS_prlimit64, [0, core, high_pointer, 0, 0, 0], PRETENDED),
        (libc::SYS_prlimit64, [0, core, pointer, pointer, 0, 0], REFUSAL),
        (libc::SYS_prlimit64, [0, core, pointer, high_pointer, 0, 0], REFUSAL),
        (libc::SYS_prlimit64, [0, core, 0, pointer, 0, 0], ALLOWED),
        (libc::SYS_prlimit64, [0, 7, pointer, pointer, 0, 0], ALLOWED),
    ] {
        assert_eq!(own(true, call, arguments), judgement, "{call} {arguments:?}");
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
        ([libc::AF_INET, libc::AF_INET6], [libc::SOCK_STREAM, libc::SOCK_DGRAM], &tcp_and_udp[..]),
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
        (libc::PR_SET_VMA, ALLOWED),
        (libc::PR_SET_PTRACER, ALLOWED),
        // PR_TIMER_CREATE_RESTORE_IDS, PR_FUTEX_HASH, and what no kernel has.
        (77, ALLOWED),
        (78, UNSUITABLE),
        (79, UNSUITABLE),
        (libc::PR_SET_VMA + 1, UNSUITABLE),
        (-1, UNSUITABLE),
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
    for (length, judgement) in [(0, ALLOWED), (64, ALLOWED), (65, REFUSAL), (1 << 32, REFUSAL)] {
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
fn notices_leases_and_hints_are_refused_and_other_commands_are_not() {
    for (command, judgement) in [
        (NOTIFY, REFUSAL),
        (SET_LEASE, REFUSAL),
        // The kernel looks at 32 bits.
        (SET_LEASE | 1 << 32, REFUSAL),
        // F_SET_RW_HINT, F_SET_FILE_RW_HINT, and the commands after them.
        (1036, UNSUITABLE),
        (1036 | 1 << 32, UNSUITABLE),
        (1038, UNSUITABLE),
        (1039, UNSUITABLE),
        (1040, UNSUITABLE),
        (u64::from(u32::MAX), UNSUITABLE),
        // F_GET_RW_HINT, F_GET_FILE_RW_HINT, F_DUPFD_QUERY.
        (1035, ALLOWED),
        (1037, ALLOWED),
        (1027, ALLOWED),
        (libc::F_DUPFD_CLOEXEC as u64, ALLOWED),
        (libc::F_SETPIPE_SZ as u64, ALLOWED),
        (libc::F_GETLEASE as u64, ALLOWED),
        (libc::F_GETLK as u64, ALLOWED),
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
