//! Copies of mounts that are not attached yet: their attributes, the owners of their files,
//! and the mounts in them that are not ordinary file systems.
//!
//! Owns the system calls on mounts that both a host of root and the init of a sandbox make.
//! Does not choose what is shown.

use std::collections::HashSet;
use std::ffi::{CStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::filesystems::is_ordinary;

/// The attributes of every mount that a tool sees: setuid and device files have no effect.
pub(super) const NOSUID_NODEV: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Copies the mounts at a place; the copy is not attached yet.
///
/// The copy has all mounts below the place. A copy of only one mount would show the files under
/// the other mounts, which may be there to hide them.
pub(super) fn copy_of(place: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(place, c"", flags)?)
}

/// Attaches a copy at `path` of `place`, or at `place` itself if `path` is empty.
pub(super) fn attach(tree: &OwnedFd, place: impl AsFd, path: &CStr) -> io::Result<()> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    Ok(move_mount(tree, c"", place, path, flags)?)
}

/// Returns the attribute of a mount that is read-only, or none.
pub(super) fn read_only(so: bool) -> u64 {
    if so { libc::MOUNT_ATTR_RDONLY } else { 0 }
}

/// Adds `attributes` to the mount `tree` and, if `recursive`, to all mounts in it. Makes them
/// private: a copy of a shared mount is its peer, so a mount in one of them would appear in the
/// other.
pub(super) fn restrict(tree: &OwnedFd, attributes: u64, recursive: bool) -> io::Result<()> {
    change(tree.as_fd(), attributes, libc::MS_PRIVATE, 0, recursive)
}

/// Shows the files of a copy through the map of the user namespace `owners`. Does the same for
/// every ordinary file system that is mounted at one of `points` in it.
///
/// Mounts in it whose file system has no such maps stay unchanged, which grants nothing.
///
/// # Errors
///
/// Fails if the file system of the copy itself has no such maps, or this process is not root.
pub(super) fn hand_over(tree: &OwnedFd, points: &[PathBuf], owners: &OwnedFd) -> io::Result<()> {
    let owners = u64::try_from(owners.as_raw_fd()).map_err(io::Error::other)?;
    let map = |mount: BorrowedFd<'_>| change(mount, libc::MOUNT_ATTR_IDMAP, 0, owners, false);
    map(tree.as_fd())?;
    for point in points {
        if let Ok(mount) = beneath_of(tree, point)
            && is_ordinary(&mount).unwrap_or(false)
        {
            match map(mount.as_fd()) {
                // The file system has no maps, the mount has one already, or it is gone.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {}
                mapped => mapped?,
            }
        }
    }
    Ok(())
}

/// The number of times that the mounts of a tree are listed. Another tool may rename a directory
/// between the listing of a mount and the walk to it. Each turn finds the mounts that the
/// previous turn missed.
const TURNS: usize = 200;

/// Calls `cover` to hide every mount of `tree` that is not an ordinary file system, outer mounts
/// first. Skips mounts with an identity in `settled`. Adds the mounts that it has checked, so
/// that other mounts may cover them afterwards.
///
/// # Errors
///
/// Fails with [`io::ErrorKind::ResourceBusy`] if a mount was listed and could never be reached,
/// since it may show anything.
pub(super) fn cover_special(
    tree: &OwnedFd,
    settled: &mut HashSet<u64>,
    cover: impl Fn(&Path, &OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let root = identity(tree)?;
    // By identity, not by path.
    settled.insert(root);
    let mut missed = None;
    for _ in 0..TURNS {
        let mut mounts = mounts()?;
        missed = mounts.iter().find(|it| is_open(it, &mounts, root, settled)).cloned();
        if missed.is_none() {
            return Ok(());
        }
        mounts.sort_by(|a, b| a.point.cmp(&b.point));
        for mount in &mounts {
            if settled.contains(&mount.id) {
                continue;
            }
            let place = match beneath_of(tree, &mount.point) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                // The tool cannot reach it either, unless another process changes the
                // permissions.
                Err(Errno::ACCESS) if PLAIN.contains(&mount.kind.as_str()) => {
                    settled.insert(mount.id);
                    continue;
                }
                // The directory that cannot be entered is covered, with all that is mounted in it.
                Err(Errno::ACCESS) => {
                    let (closed, place) = deepest(tree, &mount.point)?;
                    cover(&closed, &place)?;
                    let inside = mounts.iter().filter(|it| it.point.starts_with(&closed));
                    settled.extend(inside.map(|it| it.id));
                    continue;
                }
                place => place?,
            };
            let reached = identity(&place)?;
            // A server that does not answer is covered too.
            if !settled.contains(&reached) && !is_ordinary(&place).unwrap_or(false) {
                cover(&mount.point, &place)?;
            }
            settled.insert(reached);
        }
    }
    let point = missed.map(|mount| mount.point.display().to_string()).unwrap_or_default();
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!(
            "the file system at `{point}`, below a granted directory, could not be reached: is a \
             directory being renamed, or is another file system mounted over one around it?"
        ),
    ))
}

/// The types of file systems, as mountinfo names them, that hold files. For mounts that
/// cannot be reached.
const PLAIN: [&str; 12] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay", "nfs", "nfs4",
    "squashfs",
];

/// A mount, as a line of mountinfo describes it.
#[derive(Clone)]
pub(super) struct Mount {
    id: u64,
    parent: u64,
    /// The directory of the file system that the mount shows.
    pub(super) root: PathBuf,
    /// The path at which it is mounted.
    pub(super) point: PathBuf,
    /// The type of the file system.
    pub(super) kind: String,
    /// The options of the file system, not of the mount.
    pub(super) options: String,
}

/// Returns whether `mount` is not settled and can be seen: it is in the tree of `root`, and
/// neither it nor a mount around it lies wholly under another mount.
///
/// A mount in a directory under another mount cannot be reached either, but a process that may
/// rename directories can move it out. So it counts as hidden only if it holds files.
fn is_open(mount: &Mount, all: &[Mount], root: u64, settled: &HashSet<u64>) -> bool {
    let holds_files = PLAIN.contains(&mount.kind.as_str());
    let mut below = None;
    let mut at = mount;
    while at.id != root {
        let hides = |it: &Mount| {
            let is_over = it.parent == at.id && it.point == at.point && Some(it.id) != below;
            let is_around = holds_files
                && it.parent == at.parent
                && it.point != at.point
                && at.point.starts_with(&it.point);
            it.id != at.id && (is_over || is_around)
        };
        if all.iter().any(hides) {
            return false;
        }
        below = Some(at.id);
        match all.iter().find(|it| it.id == at.parent && it.id != at.id) {
            Some(parent) => at = parent,
            // The mount is in another tree.
            None => return false,
        }
    }
    !settled.contains(&mount.id)
}

/// Returns the number of the mount that contains an open file, as in mountinfo.
pub(super) fn identity(place: &OwnedFd) -> io::Result<u64> {
    let status = statx(place, c"", AtFlags::EMPTY_PATH, StatxFlags::from_bits_retain(MNT_ID))?;
    Ok(status.stx_mnt_id)
}

/// `STATX_MNT_ID` of linux/stat.h, since Linux 5.8.
const MNT_ID: u32 = 0x1000;

/// Returns whether anything is mounted in an attached mount.
pub(super) fn has_mounts(mount: &OwnedFd) -> io::Result<bool> {
    let own = identity(mount)?;
    Ok(mounts()?.iter().any(|it| it.parent == own && it.id != own))
}

/// Opens `path` of the tree, and follows no link: any user who may write to a granted directory
/// can make one.
pub(super) fn beneath_of(tree: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    openat2(tree, path, flags, Mode::empty(), resolve)
}

/// Opens the deepest directory on the way to `path`, which this process may not enter.
pub(super) fn deepest(tree: &OwnedFd, path: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for above in path.ancestors().skip(1) {
        match beneath_of(tree, above) {
            Err(Errno::ACCESS) => {}
            place => return Ok((above.to_owned(), place?)),
        }
    }
    Err(Errno::ACCESS.into())
}

/// Returns the mount points beneath `place`, relative to it.
pub(super) fn points_beneath(place: impl AsFd, mounts: &[Mount]) -> io::Result<Vec<PathBuf>> {
    let link = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    let path = fs::read_link(link)?;
    let beneath = mounts.iter().filter_map(|mount| mount.point.strip_prefix(&path).ok());
    Ok(beneath.filter(|point| *point != Path::new("")).map(Path::to_owned).collect())
}

/// Reads the mounts of this process's namespace, proc_pid_mountinfo(5).
pub(super) fn mounts() -> io::Result<Vec<Mount>> {
    // The file has no size. Few are longer than this.
    let mut text = Vec::with_capacity(16 << 10);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut text)?;
    Ok(parsed(&text))
}

/// Parses a text in the form of mountinfo.
pub(super) fn parsed(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let number = |field: &[u8]| str::from_utf8(field).ok()?.parse().ok();
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescaped(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let end = fields.iter().position(|field| *field == b"-")?;
    Some(Mount {
        id: number(fields.first()?)?,
        parent: number(fields.get(1)?)?,
        root: path(fields.get(3)?),
        point: path(fields.get(4)?),
        kind: text(fields.get(end + 1)?),
        options: text(fields.get(end + 3)?),
    })
}

/// Decodes blanks, line ends and backslashes, which are written as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let number = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *byte == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        text.push(number.unwrap_or(*byte));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    text
}

fn change(
    mount: BorrowedFd<'_>,
    set: u64,
    propagation: u64,
    owners: u64,
    recursive: bool,
) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: set, attr_clr: 0, propagation, userns_fd: owners };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: a system call on a descriptor, an empty C string and a structure that is read,
    // with its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount_at(id: u64, parent: u64, point: &str) -> Mount {
        Mount {
            id,
            parent,
            root: "/".into(),
            point: point.into(),
            kind: "proc".to_owned(),
            options: String::new(),
        }
    }

    #[test]
    fn a_mount_is_open_until_it_is_settled_or_lies_under_another() {
        let odd = mount_at(3, 2, "/w/p");
        let tree = [mount_at(1, 0, "/"), mount_at(2, 1, "/w"), odd.clone(), mount_at(9, 8, "/w/p")];
        let is_open = |settled: &[u64], more: &[Mount]| {
            let all = [&tree[..], more].concat();
            super::is_open(&odd, &all, 1, &settled.iter().copied().collect())
        };
        assert!(is_open(&[1, 2], &[]));
        assert!(!is_open(&[1, 2, 3], &[]));
        assert!(!is_open(&[1, 2], &[mount_at(4, 3, "/w/p")]), "it is covered");
        assert!(!is_open(&[1, 2], &[mount_at(4, 2, "/w")]), "what holds it is");
        assert!(is_open(&[1, 2], &[mount_at(4, 3, "/w/p/sub")]));
        let around = [
            mount_at(1, 0, "/"),
            mount_at(2, 1, "/w"),
            mount_at(3, 2, "/w/d/p"),
            mount_at(4, 2, "/w/d"),
        ];
        assert!(
            super::is_open(&around[2], &around, 1, &HashSet::from([1, 2])),
            "it may be moved out"
        );
        let files = Mount { kind: "ext4".to_owned(), ..around[2].clone() };
        assert!(!super::is_open(&files, &around, 1, &HashSet::from([1, 2])), "it holds files");
        assert!(!super::is_open(&tree[3], &tree, 1, &HashSet::new()), "of another tree");
    }

    #[test]
    fn a_line_of_mountinfo_is_read_whatever_names_are_in_it() {
        let line = b"36 35 98:0 / /a\\040\xff rw,noatime master:1 - ext4 /dev/root rw";
        let mount = mount(line).expect("a line");
        assert_eq!((mount.id, mount.parent, mount.kind.as_str()), (36, 35, "ext4"));
        assert_eq!(mount.point, PathBuf::from(OsString::from_vec(b"/a \xff".to_vec())));
        assert_eq!((mount.root.as_path(), mount.options.as_str()), (Path::new("/"), "rw"));
    }

    #[test]
    fn escapes_of_mountinfo_are_read() {
        assert_eq!(unescaped(br"/a\040b\134c\012\011"), b"/a b\\c\n\t");
        assert_eq!(unescaped(br"/a\04"), br"/a\04");
        assert_eq!(unescaped(br"\400\"), br"\400\");
    }
}
