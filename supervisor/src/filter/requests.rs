//! The requests of `ioctl`. Each file system and each driver adds its own, and each of them could be
//! a way around the mounts. So this module lists the allowed requests, and all others get the error
//! that says that the file does not know them.

use seccompiler::{SeccompAction, sock_filter};

use super::instruction::{LOAD, NUMBER, RETURN, SECOND, jump, line};

/// The requests that type into a terminal as if its user did, and paste into a console: TIOCSTI
/// and TIOCLINUX, asm-generic/ioctls.h. C libraries do not agree on their type.
pub(super) const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// The requests for which the kernel loads the module of bridges, of DLCI or of VLANs: SIOCGIFBR,
/// SIOCSIFBR, SIOCADDDLCI, SIOCDELDLCI, SIOCGIFVLAN, SIOCSIFVLAN, SIOCBRADDBR and SIOCBRDELBR,
/// linux/sockios.h.
pub(super) const NETWORK_MODULES: [u64; 8] =
    [0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1];

/// The types of requests that ask a socket of any family about its network and its interfaces,
/// including wireless ones. All numbers of these types, `linux/sockios.h` and
/// `linux/wireless.h`.
pub(super) const SOCKET_REQUESTS: [u64; 2] = [0x8900, 0x8b00];

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
pub(super) const REQUESTS: &[(u32, u32)] = &[
    // linux/fs.h: FIGETBSZ, the size of a block.
    (0x0002, 0x0002),
    // Terminals and other streams, asm-generic/ioctls.h: TCGETS to TCSBRK, TCFLSH; TIOCSCTTY to
    // TIOCSWINSZ; FIONREAD and TIOCLINUX; TIOCPKT, FIONBIO, TIOCNOTTY; TIOCGETD, TCSBRKP; TIOCSBRK, TIOCCBRK, TIOCGSID;
    // TIOCGPTPEER; FIONCLEX, FIOCLEX, FIOASYNC; FIOQSIZE. TIOCSETD is missing, which loads the
    // module of a line discipline. TIOCEXCL and TIOCNXCL are missing too: they lock a terminal for
    // the programs after the call. TCXONC can stop its output for them.
    (0x5401, 0x5409), (0x540b, 0x540b), (0x540e, 0x5414), (0x541b, 0x541c), (0x5420, 0x5422),
    (0x5424, 0x5425), (0x5427, 0x5429),
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

/// Returns the part that answers an unknown request of `ioctl`. Known requests and other calls
/// continue behind it, with the number of the call loaded.
pub(super) fn unknown() -> Vec<sock_filter> {
    // The kernel ignores the high half of the second argument.
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
