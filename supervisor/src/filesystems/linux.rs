//! Linux: the file systems by their magic numbers. If these do not suffice, by the kernel's list
//! of mounts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{fstat, fstatfs, major, minor};
use rustix::process::geteuid;

/// The magic numbers (`statfs(2)`, `f_type`) of the ordinary file systems. From
/// `linux/magic.h` unless the line names another header of Linux or another project.
const ORDINARY: [u32; 41] = [
    0xef53,      // EXT2_SUPER_MAGIC, of ext3 and ext4 as well
    0x5846_5342, // XFS_SUPER_MAGIC
    0x9123_683e, // BTRFS_SUPER_MAGIC
    0xf2f5_2010, // F2FS_SUPER_MAGIC
    0x2fc1_2fc1, // ZFS_SUPER_MAGIC, OpenZFS: sys/fs/zfs.h
    0xca45_1a4e, // BCACHEFS_STATFS_MAGIC, fs/bcachefs/bcachefs_format.h
    0x794c_7630, // OVERLAYFS_SUPER_MAGIC
    0x6175_6673, // AUFS_SUPER_MAGIC, aufs: linux/aufs_type.h
    0xf15f,      // ECRYPTFS_SUPER_MAGIC
    0x3153_464a, // JFS_SUPER_MAGIC, fs/jfs/jfs_superblock.h
    0x5265_4973, // REISERFS_SUPER_MAGIC
    0x3434,      // NILFS_SUPER_MAGIC
    0x72b6,      // JFFS2_SUPER_MAGIC
    0x2405_1905, // UBIFS_SUPER_MAGIC, fs/ubifs/ubifs.h
    0x5a4f_4653, // ZONEFS_MAGIC
    0x137f,      // MINIX_SUPER_MAGIC
    0x138f,      // MINIX_SUPER_MAGIC2
    0x2468,      // MINIX2_SUPER_MAGIC
    0x2478,      // MINIX2_SUPER_MAGIC2
    0x4d5a,      // MINIX3_SUPER_MAGIC
    0x4d44,      // MSDOS_SUPER_MAGIC, of vfat as well
    0x2011_bab0, // EXFAT_SUPER_MAGIC
    0x7366_746e, // ntfs3, fs/ntfs3/super.c
    0x5346_544e, // NTFS_SB_MAGIC, fs/ntfs/ntfs.h before Linux 6.9
    0x4244,      // HFS_SUPER_MAGIC, fs/hfs/hfs.h
    0x482b,      // HFSPLUS_SUPER_MAGIC, linux/hfs_common.h
    0x9660,      // ISOFS_SUPER_MAGIC
    0x1501_3346, // UDF_SUPER_MAGIC
    0x7371_7368, // SQUASHFS_MAGIC
    0xe0f5_e1e2, // EROFS_SUPER_MAGIC_V1
    0x28cd_3d45, // CRAMFS_MAGIC
    0x6969,      // NFS_SUPER_MAGIC
    0xff53_4d42, // CIFS_SUPER_MAGIC
    0xfe53_4d42, // SMB2_SUPER_MAGIC
    0x0102_1997, // V9FS_MAGIC
    0x00c3_6400, // CEPH_SUPER_MAGIC
    0x0116_1970, // GFS2_MAGIC, linux/gfs2_ondisk.h
    0x7461_636f, // OCFS2_SUPER_MAGIC
    0x0bd0_0bd0, // LUSTRE_SUPER_MAGIC, Lustre: lustre_user.h
    0x4750_4653, // GPFS_SUPER_MAGIC, IBM Storage Scale
    0x786f_4256, // VBOXSF_SUPER_MAGIC, fs/vboxsf/super.c
];

/// The magic numbers of memory. devtmpfs has one of them, by the configuration of the kernel
/// (drivers/base/devtmpfs.c).
const MEMORY: [u32; 2] = [
    0x0102_1994, // TMPFS_MAGIC
    0x8584_58f6, // RAMFS_MAGIC
];

/// `FUSE_SUPER_MAGIC`, of virtiofs as well.
const FUSE: u32 = 0x6573_5546;

/// The file that lists the mounts that this process can see, with their file systems.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Returns whether an open file belongs to an ordinary file system. A FUSE file system is
/// ordinary only if this user or root serves it: another user would decide what each read
/// returns, and when.
pub(super) fn is_ordinary(open: impl AsFd) -> io::Result<bool> {
    // The type of the field depends on the processor, the number has 32 bits.
    let magic = fstatfs(open.as_fd())?.f_type as u32;
    if ORDINARY.contains(&magic) {
        return Ok(true);
    }
    if !MEMORY.contains(&magic) && magic != FUSE {
        return Ok(false);
    }
    let device = fstat(open)?.st_dev;
    if magic == FUSE { is_served_by_us(device) } else { is_plain_memory(device) }
}

/// Returns whether an open file is on a file system in memory.
pub(super) fn is_memory(open: impl AsFd) -> io::Result<bool> {
    Ok(MEMORY.contains(&(fstatfs(open)?.f_type as u32)))
}

/// Returns whether a tmpfs or ramfs is not devtmpfs.
fn is_plain_memory(device: u64) -> io::Result<bool> {
    /// The device numbers that were found to be plain. The kernel mounts its one devtmpfs at
    /// boot and never gives that number away, so that none of these can become it.
    static PLAIN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

    let plain = || PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if plain().contains(&device) {
        return Ok(true);
    }
    let mounts = mounts()?;
    let is_plain = find(&mounts, device).is_some_and(|mount| mount.kind != "devtmpfs");
    if is_plain {
        plain().insert(device);
    }
    Ok(is_plain)
}

/// Returns whether this user, root or the hypervisor serves a FUSE file system. The answer is
/// not cached: the number of an unmounted file system is given to the next one.
fn is_served_by_us(device: u64) -> io::Result<bool> {
    let mounts = mounts()?;
    Ok(find(&mounts, device).is_some_and(|mount| mount.is_served_by(geteuid().as_raw())))
}

/// Reads the list of mounts. Directory names in it may contain any bytes, and are not used.
fn mounts() -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(MOUNTS)?).into_owned())
}

/// One line of `mountinfo`.
#[derive(Debug, PartialEq)]
struct MountLine<'a> {
    /// The file system's name, with a subtype behind a dot.
    kind: &'a str,
    /// The options of the file system, not of this mount of it.
    options: &'a str,
}

impl MountLine<'_> {
    fn is_served_by(&self, user: u32) -> bool {
        if self.kind == "virtiofs" {
            return true;
        }
        // The kernel writes it, from the options of the process that mounted.
        let owner = self.options.split(',').find_map(|option| option.strip_prefix("user_id="));
        owner
            .and_then(|owner| owner.parse().ok())
            .is_some_and(|owner: u32| owner == 0 || owner == user)
    }
}

/// Returns the first mount of a device, by proc_pid_mountinfo(5). Its fields are identifier,
/// parent, device, root, mount point, options, any number of tags, a hyphen, type, source,
/// options of the file system. Blanks inside fields are escaped.
fn find(mounts: &str, device: u64) -> Option<MountLine<'_>> {
    let wanted = format!("{}:{}", major(device), minor(device));
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
    let (_, file_system) = line.split_once(" - ")?;
    let mut fields = file_system.split(' ');
    Some(MountLine { kind: fields.next()?, options: fields.nth(1)? })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::makedev;

    use super::*;

    const SHOWN: &str = "\
22 27 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
25 27 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=1024k
26 27 0:24 / /tmp rw shared:3 master:1 - tmpfs tmpfs rw
40 27 0:50 / /home/a/x\\040-\\040y rw,nosuid - fuse.sshfs a@b:/ rw,user_id=1000,group_id=1000
41 27 0:51 / /mnt rw - fuseblk /dev/sdb1 rw,user_id=0,group_id=0,allow_other
42 27 0:52 / /shared rw - virtiofs share rw
43 27 0:53 / /odd rw - fuse odd rw
";

    #[test]
    fn a_mount_is_found_by_its_device_and_names_its_file_system() {
        let kind = |minor| find(SHOWN, makedev(0, minor)).map(|mount| mount.kind);
        assert_eq!(kind(5), Some("devtmpfs"));
        assert_eq!(kind(24), Some("tmpfs"));
        assert_eq!(kind(50), Some("fuse.sshfs"));
        assert_eq!(kind(2), None);
    }

    #[test]
    fn of_fuse_only_what_the_user_or_root_serves_is_ordinary() {
        let served =
            |minor, user| find(SHOWN, makedev(0, minor)).expect("a mount").is_served_by(user);
        assert!(served(50, 1000));
        assert!(!served(50, 1001) && !served(50, 0));
        assert!(served(51, 1001) && served(52, 1001));
        assert!(!served(53, 1000), "no owner is named");
    }

    #[test]
    fn what_the_kernel_makes_up_is_not_ordinary() {
        for path in ["/proc", "/proc/self/environ", "/sys", "/dev/pts", "/sys/kernel/mm"] {
            if let Ok(open) = File::open(path) {
                assert!(!is_ordinary(&open).expect("told"), "{path}");
            }
        }
        let (pipe, _other) = rustix::pipe::pipe().expect("a pipe");
        assert!(!is_ordinary(&pipe).expect("told"));
        let here = File::open(env!("CARGO_MANIFEST_DIR")).expect("the sources");
        assert!(is_ordinary(&here).expect("told"));
        let temporary = tempfile::tempdir().expect("a directory");
        let temporary = File::open(temporary.path()).expect("opened");
        assert!(is_ordinary(&temporary).expect("told"));
        if let Ok(memory) = File::open("/dev/shm") {
            assert!(is_ordinary(&memory).expect("told"));
            assert!(is_ordinary(&memory).expect("told"), "and again, from memory");
        }
    }
}
