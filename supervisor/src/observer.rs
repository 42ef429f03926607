//! The accesses of a watched tool: which files and peers its calls name, and which of these are out
//! of its reach.
//!
//! Reads the paths from the memory of the tool's threads. They show what the tool wrote there,
//! and may have changed before the kernel reads them: this is a record for the user, not a
//! boundary. In namespaces this process sees the same files as the tool, and tries each. Without
//! namespaces the names decide. Owns the lists of the report, and their bounds.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access as Right, CWD, FileType, Mode, OFlags, ResolveFlags, access, fstat, openat2,
};
use rustix::io::Errno;
use rustix::param::page_size;

use super::listener::{FileUse, Notice, TOLD};
use super::lookup::open_path;
use super::overlay::{OverlayDir, take_nearest};
use super::view::View;
use crate::plan::{AccessKind, FileAccess, ObservedAccesses, Plan, WatchLevel, path_of};

/// The length of the longest path that the kernel takes, with its NUL.
const LONGEST_PATH: usize = 4096;

/// The length of all remembered paths, in bytes, at which they are forgotten.
const REMEMBERED: usize = 1 << 20;

/// The file systems whose files cannot be granted, and the places at which looking up a name
/// makes the host ask a server of that name.
const NEVER_GRANTED: [&str; 5] = ["/proc", "/sys", "/dev", "/net", "/misc"];

/// The part of the machine that a tool sees, as far as its accesses depend on it.
pub(super) struct ToolScope {
    places: Vec<(PathBuf, Visibility)>,
    hidden: HashSet<PathBuf>,
    /// The home that a recording shows. In other calls the tool makes its files in a separate
    /// home.
    home: Option<PathBuf>,
    /// The directories of the machine to which it may write in a recording, without effect.
    overlaid: Vec<PathBuf>,
    /// The overlay from `overlaid` that contains the home. Its descriptor shows what is kept
    /// from the tool, but the tool's processes cannot reach this process. No other overlay is
    /// kept open.
    over_home: Option<OverlayDir>,
    directory: PathBuf,
    /// The same directory if nothing of it is granted: it exists in every call.
    empty: Option<PathBuf>,
    /// Set if this process sees the files that the tool sees.
    same_root: bool,
    /// Set if each granted file that the tool uses is listed too.
    all: bool,
    /// The number of granted directories and files.
    granted: usize,
}

/// The reason why a tool sees a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// The plan grants it, to be written or not.
    Granted { writable: bool },
    /// Every tool sees it.
    System,
    /// It belongs to the tool's installation.
    Shown,
    /// It is only a part of the machine, which is shown to a recording.
    Machine,
    /// The tool sees something empty in its place, since recordings are shown no secrets.
    Kept,
    /// The tool does not see it.
    Elsewhere,
}

/// The classification of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessVerdict {
    Reached,
    Used,
    Ignored,
}

impl ToolScope {
    /// Returns the scope of a plan that has its tool watched, in a root of `view` or, without
    /// namespaces, in this process's root.
    pub(super) fn from_plan(
        plan: &Plan,
        view: &View,
        overlaid: Vec<OverlayDir>,
        same_root: bool,
    ) -> Option<Self> {
        let all = match plan.kind.watch {
            WatchLevel::Nothing => return None,
            WatchLevel::Reached => false,
            WatchLevel::All => true,
        };
        let granted: HashSet<PathBuf> = plan.dirs.iter().map(|dir| path_of(&dir.path)).collect();
        let place = |path: &PathBuf, system, writable| match () {
            () if granted.contains(path) => Visibility::Granted { writable },
            () if system => Visibility::System,
            () => Visibility::Shown,
        };
        let entries = view.entries.iter();
        let entries = entries.map(|it| (it.path.clone(), place(&it.path, it.system, it.writable)));
        let links = view.links.iter().map(|(link, _)| (link.clone(), Visibility::System));
        // A file that a granted link leads to is used as if it had been named itself.
        let place_of_target = |target: &Path| {
            let around = view.entries.iter().filter(|it| target.starts_with(&it.path));
            let nearest = around.max_by_key(|it| it.path.as_os_str().len());
            nearest.map_or(Visibility::System, |it| place(&it.path, it.system, it.writable))
        };
        let of_grant = view.granted_links.iter();
        let of_grant = of_grant.map(|(link, target)| (link.clone(), place_of_target(target)));
        let machine = view.machine.iter().map(|it| &it.path);
        let machine = machine.chain(view.machine_links.iter().map(|(link, _)| link));
        let machine = machine.map(|path| (path.clone(), Visibility::Machine));
        let kept = view.kept.iter().map(|it| (path_of(&it.path), Visibility::Kept));
        let paths = overlaid.iter().map(|over| over.path.clone()).collect();
        let over_home = view.shown_home.as_ref().and_then(|home| take_nearest(overlaid, home));
        Some(Self {
            places: machine.chain(kept).chain(entries).chain(links).chain(of_grant).collect(),
            hidden: view.hidden.iter().map(|it| path_of(&it.path)).collect(),
            home: view.shown_home.clone(),
            overlaid: paths,
            over_home,
            directory: path_of(&plan.directory),
            empty: view.empty.clone(),
            same_root,
            all,
            granted: granted.len(),
        })
    }

    /// Returns the number of entries that are kept in each list.
    fn kept(&self) -> usize {
        if self.all { ObservedAccesses::KEPT_OF_ALL } else { ObservedAccesses::KEPT }
    }

    fn place(&self, path: &Path) -> Visibility {
        self.nearest(path).map_or(Visibility::Elsewhere, |(_, place)| *place)
    }

    fn nearest(&self, path: &Path) -> Option<&(PathBuf, Visibility)> {
        let around = self.places.iter().filter(|(place, _)| path.starts_with(place));
        around.max_by_key(|(place, _)| place.as_os_str().len())
    }

    /// Returns, for a file in a granted place, an access to that place. A link may lead to the
    /// file.
    fn granted_around(&self, path: &Path) -> Option<FileAccess> {
        let real = |path: &Path| {
            let file = open_path(CWD, path, false).ok()?;
            fs::read_link(link_to(&file)).ok()
        };
        let real = real(path).or_else(|| real(path.parent()?)).unwrap_or_else(|| path.to_owned());
        match self.nearest(&real)? {
            (path, Visibility::Granted { .. }) => {
                Some(FileAccess { path: path.clone(), access: AccessKind::Read })
            }
            _ => None,
        }
    }

    fn judge(&self, touch: &FileAccess, look: bool, on_link: bool) -> AccessVerdict {
        let path = touch.path.as_path();
        let place = self.place(path);
        if place == Visibility::System || NEVER_GRANTED.iter().any(|dir| path.starts_with(dir)) {
            return AccessVerdict::Ignored;
        }
        if matches!(place, Visibility::Machine | Visibility::Kept)
            && self.needs_no_grant(touch, look)
        {
            return AccessVerdict::Ignored;
        }
        if !self.same_root {
            return self.judge_by_name(touch, place, look);
        }
        match touch.access {
            AccessKind::Read => judge_read(path, place, on_link),
            AccessKind::Change | AccessKind::Make => {
                let is_overlaid = self.overlaid.iter().any(|over| path.starts_with(over));
                judge_write(touch, place, is_overlaid, !self.all)
            }
        }
    }

    /// Returns whether a recorded tool has this access to the machine in other calls too, or the
    /// access reveals nothing.
    fn needs_no_grant(&self, touch: &FileAccess, look: bool) -> bool {
        let path = touch.path.as_path();
        let home = || self.home.as_ref().is_some_and(|home| path.starts_with(home));
        // Programs ask about each directory on the way to a file, but need only the file. An
        // empty working directory is there in every call.
        let is_passed = self.empty.as_deref() == Some(path) || look && is_directory(path);
        touch.access == AccessKind::Read && is_passed
            || home() && !path.starts_with(&self.directory) && self.is_new(path)
    }

    /// Returns whether the file does not exist on the machine: the tool made it, or is about to.
    fn is_new(&self, path: &Path) -> bool {
        match self.over_home.as_ref().map(|over| over.beneath(path)) {
            Some(Ok(_)) => false,
            Some(Err(Errno::NOENT | Errno::NOTDIR)) => true,
            // The file is behind a link, or no overlay contains it.
            Some(Err(_)) | None => open_path(CWD, path, true).is_err(),
        }
    }

    /// Classifies an access if only Landlock surrounds the tool, which then sees all names and
    /// modes.
    fn judge_by_name(&self, touch: &FileAccess, place: Visibility, look: bool) -> AccessVerdict {
        let above = || self.places.iter().any(|(place, _)| place.starts_with(&touch.path));
        match (place, touch.access) {
            (Visibility::Granted { .. }, AccessKind::Read)
            | (Visibility::Granted { writable: true }, _) => AccessVerdict::Used,
            (Visibility::Elsewhere | Visibility::Machine | Visibility::Kept, AccessKind::Read)
                if look || above() =>
            {
                AccessVerdict::Ignored
            }
            (Visibility::Shown | Visibility::System, AccessKind::Read) => AccessVerdict::Ignored,
            _ => AccessVerdict::Reached,
        }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        !self.hidden.is_empty() && path.ancestors().any(|path| self.hidden.contains(path))
    }
}

/// Returns the link in `/proc` to an open file.
fn link_to(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn is_directory(path: &Path) -> bool {
    let stat = open_path(CWD, path, false).and_then(fstat);
    stat.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Directory)
}

/// Fails unless the file exists and this process may write to it.
fn find_writable(path: &Path) -> Result<(), Errno> {
    let file = open_path(CWD, path, false)?;
    let (descriptor, here) = (file.as_raw_fd(), c"".as_ptr());
    // SAFETY: a system call on an open descriptor and an empty text that lives.
    let result = unsafe {
        let flags = libc::AT_EMPTY_PATH;
        libc::syscall(libc::SYS_faccessat2, descriptor, here, libc::W_OK, flags)
    };
    let error = io::Error::last_os_error();
    match Errno::from_io_error(&error) {
        _ if result == 0 => Ok(()),
        // Linux before 5.8 does not have the call. In some containers the tool has no `/proc`.
        Some(Errno::NOSYS) => access(link_to(&file), Right::WRITE_OK),
        errno => Err(errno.unwrap_or(Errno::IO)),
    }
}

/// Returns the verdict on a file that the tool can access.
fn had(place: Visibility) -> AccessVerdict {
    match place {
        Visibility::Granted { .. } => AccessVerdict::Used,
        // In this call the tool sees it anyway, but in others it would need a grant for it.
        Visibility::Machine | Visibility::Kept => AccessVerdict::Reached,
        Visibility::System | Visibility::Shown | Visibility::Elsewhere => AccessVerdict::Ignored,
    }
}

/// Returns the verdict on a file that cannot be found. A granted directory may lack the file, or
/// have a link to a place that is not granted.
fn missing(path: &Path, place: Visibility) -> AccessVerdict {
    if matches!(place, Visibility::Elsewhere | Visibility::Machine | Visibility::Kept) {
        return AccessVerdict::Reached;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let without_links = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    if without_links.err() == Some(Errno::LOOP) {
        AccessVerdict::Reached
    } else {
        AccessVerdict::Ignored
    }
}

fn judge_read(path: &Path, place: Visibility, on_link: bool) -> AccessVerdict {
    match open_path(CWD, path, on_link) {
        Ok(_) => had(place),
        Err(_) => missing(path, place),
    }
}

/// Returns the verdict on a change. `is_over` is set if the call may have continued in the
/// meantime, so a file that it removed is gone.
fn judge_write(
    touch: &FileAccess,
    place: Visibility,
    is_overlaid: bool,
    is_over: bool,
) -> AccessVerdict {
    let is_gone = is_over && matches!(place, Visibility::Granted { writable: true });
    let judged = |path: &Path, denied: Errno| match (denied, place) {
        (Errno::ROFS, _) => AccessVerdict::Reached,
        (Errno::ACCESS, Visibility::Granted { .. }) => AccessVerdict::Ignored,
        _ => missing(path, place),
    };
    let had = || match place {
        // A recording writes there, without effect.
        Visibility::Granted { writable: false } | Visibility::Shown if is_overlaid => {
            AccessVerdict::Reached
        }
        place => had(place),
    };
    match (find_writable(&touch.path), touch.path.parent()) {
        (Ok(()), _) => had(),
        (Err(Errno::NOENT), Some(parent)) if touch.access == AccessKind::Make || is_gone => {
            match find_writable(parent) {
                Ok(()) => had(),
                Err(denied) => judged(&touch.path, denied),
            }
        }
        (Err(denied), _) => judged(&touch.path, denied),
    }
}

/// The observer of one tool.
pub(super) struct Observer {
    scope: ToolScope,
    seen: ObservedAccesses,
    /// The length of the paths in the lists, reached and used.
    lengths: [usize; 2],
    /// The accesses that were classified already.
    judged: HashSet<(FileAccess, bool)>,
    remembered: usize,
}

impl Observer {
    pub(super) fn new(scope: ToolScope) -> Self {
        Self {
            scope,
            seen: ObservedAccesses { watched: true, ..ObservedAccesses::default() },
            lengths: [0; 2],
            judged: HashSet::new(),
            remembered: 0,
        }
    }

    /// Returns the accesses that were observed.
    pub(super) fn seen(self) -> ObservedAccesses {
        self.seen
    }

    /// Notes that the accesses are incomplete: the tool is no longer watched.
    pub(super) fn stop(&mut self) {
        self.seen.watched = false;
    }

    /// Notes a call, and has it continue by `resume`, which returns whether it was still waiting.
    pub(super) fn observe(&mut self, notice: &Notice, resume: impl FnOnce() -> bool) {
        let named = CallTargets::by(notice);
        // The tool continues while its access is classified. In a recording it waits, because
        // the call may make the file.
        let before = self.scope.all.then(|| self.judge(&named));
        if resume() {
            let touches = before.unwrap_or_else(|| self.judge(&named));
            self.note(named.peer, touches);
        }
    }

    /// Classifies the files that a call names, except files that were classified already.
    fn judge(&self, named: &CallTargets) -> Vec<((FileAccess, bool), AccessVerdict)> {
        let new = named.touches.iter().filter(|touch| !self.judged.contains(*touch));
        let judged = |key: &(FileAccess, bool)| {
            let (touch, look) = key;
            (key.clone(), self.scope.judge(touch, *look, named.on_link))
        };
        new.map(judged).collect()
    }

    fn note(
        &mut self,
        peer: Option<SocketAddr>,
        touches: Vec<((FileAccess, bool), AccessVerdict)>,
    ) {
        let kept = self.scope.kept();
        if let Some(peer) = peer
            && !self.seen.peers.contains(&peer)
        {
            match self.seen.peers.len() < kept {
                true => self.seen.peers.push(peer),
                false => self.seen.more += 1,
            }
        }
        for (key, verdict) in touches {
            self.keep(&key.0, verdict);
            let length = key.0.path.as_os_str().len();
            self.remembered += length;
            if self.remembered > REMEMBERED {
                self.judged.clear();
                self.remembered = length;
            }
            self.judged.insert(key);
        }
    }

    fn keep(&mut self, touch: &FileAccess, verdict: AccessVerdict) {
        let (list, length) = match verdict {
            AccessVerdict::Reached => (&mut self.seen.reached, &mut self.lengths[0]),
            AccessVerdict::Used => (&mut self.seen.used, &mut self.lengths[1]),
            AccessVerdict::Ignored => return,
        };
        let granted = match verdict {
            AccessVerdict::Used if self.scope.is_hidden(&touch.path) => return,
            AccessVerdict::Used if !self.scope.all => {
                // All granted places are listed already.
                if list.len() >= self.scope.granted {
                    return;
                }
                let Some(granted) = self.scope.granted_around(&touch.path) else { return };
                Some(granted)
            }
            _ => None,
        };
        let touch = granted.as_ref().unwrap_or(touch);
        if list.contains(touch) {
            return;
        }
        let after = *length + touch.path.as_os_str().len();
        let kept = self.scope.kept();
        if list.len() >= kept || after > kept * ObservedAccesses::PATH {
            self.seen.more += 1;
            return;
        }
        *length = after;
        list.push(touch.clone());
    }
}

/// The files and the peer that a call names.
#[derive(Default)]
struct CallTargets {
    /// Each file, and whether the call only asks about it.
    touches: Vec<(FileAccess, bool)>,
    peer: Option<SocketAddr>,
    on_link: bool,
}

impl CallTargets {
    fn by(notice: &Notice) -> Self {
        let Some(told) = TOLD.iter().find(|told| told.call == notice.call) else {
            return Self::default();
        };
        let argument = |index: u8| notice.arguments[usize::from(index)];
        // The kernel reads 32 bits of flags and descriptors.
        let number = |index: u8| argument(index) as i32;
        if told.uses == FileUse::Connect {
            return Self { peer: peer(notice), ..Self::default() };
        }
        let (access, nofollow) = match told.uses {
            FileUse::Open(flags) => opening(number(flags)),
            FileUse::Look | FileUse::Read | FileUse::Connect => (AccessKind::Read, false),
            FileUse::Change => (AccessKind::Change, false),
            FileUse::Make => (AccessKind::Make, false),
        };
        let at_flags = told.flags.map_or(0, number);
        let on_link = told.on_link || nofollow || at_flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let touches = told.names.iter().filter_map(|(directory, path)| {
            let path = text_at(notice.thread, argument(*path))?;
            let path = absolute(notice.thread, directory.map(number), path)?;
            Some((FileAccess { path, access }, told.uses == FileUse::Look))
        });
        Self { touches: touches.collect(), peer: None, on_link }
    }
}

/// Returns the access that the flags of an open ask for, and whether a link is not followed.
fn opening(flags: i32) -> (AccessKind, bool) {
    let access = match flags & libc::O_ACCMODE {
        // Without the right to read or write, it only names the file.
        _ if flags & libc::O_PATH != 0 => AccessKind::Read,
        _ if flags & libc::O_CREAT != 0 => AccessKind::Make,
        libc::O_RDONLY if flags & libc::O_TRUNC == 0 => AccessKind::Read,
        _ => AccessKind::Change,
    };
    (access, flags & libc::O_NOFOLLOW != 0)
}

/// Returns the path of a file that a thread names, without `.` and `..`. `..` is resolved by
/// name, which differs from the kernel's resolution behind a link.
fn absolute(thread: u32, directory: Option<i32>, path: Vec<u8>) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(path));
    let path = match path.is_absolute() {
        true => path,
        false => {
            let link = match directory {
                None | Some(libc::AT_FDCWD) => format!("/proc/{thread}/cwd"),
                Some(number) => format!("/proc/{thread}/fd/{number}"),
            };
            let directory = fs::read_link(link).ok().filter(|it| it.is_absolute())?;
            directory.join(path)
        }
    };
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    (plain.as_os_str().len() < LONGEST_PATH).then_some(plain)
}

/// Reads a path of a thread. `None` if it is missing or empty.
fn text_at(thread: u32, place: u64) -> Option<Vec<u8>> {
    let place = usize::try_from(place).ok().filter(|place| *place > 0)?;
    // Nearly all paths end on their first page, and the next page may be missing.
    let first = (page_size() - place % page_size()).min(LONGEST_PATH);
    let mut text = bytes_at(thread, place, first)?;
    let end = |text: &[u8]| text.iter().position(|byte| *byte == 0);
    if end(&text).is_none() && first < LONGEST_PATH {
        text.extend(bytes_at(thread, place.checked_add(first)?, LONGEST_PATH - first)?);
    }
    let end = end(&text).filter(|end| *end > 0)?;
    text.truncate(end);
    Some(text)
}

/// Reads `length` bytes of a thread's memory, or as many as are there.
pub(super) fn bytes_at(thread: u32, place: usize, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; length];
    let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(place), iov_len: length };
    let thread = libc::pid_t::try_from(thread).ok()?;
    // SAFETY: a system call that writes to `bytes`, with its length, and reads two structures.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const own, 1, &raw const theirs, 1, 0) };
    bytes.truncate(usize::try_from(read).ok().filter(|read| *read > 0)?);
    Some(bytes)
}

/// Returns the internet address that a call connects to. Addresses of this machine are left out:
/// sockets without a network reach only themselves.
fn peer(notice: &Notice) -> Option<SocketAddr> {
    let [_, place, length, ..] = notice.arguments;
    let length = usize::try_from(length).ok()?.min(size_of::<libc::sockaddr_in6>());
    let place = usize::try_from(place).ok().filter(|place| *place > 0)?;
    let bytes = bytes_at(notice.thread, place, length)?;
    parsed(&bytes).filter(|peer| !peer.ip().is_loopback() && peer.port() != 0)
}

/// Parses a `sockaddr_in` or `sockaddr_in6`.
fn parsed(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
        // After the port and the flow label.
        libc::AF_INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read_and_others_are_not() {
        let [low, high] = (libc::AF_INET as u16).to_ne_bytes();
        let four = [low, high, 0, 80, 192, 0, 2, 1, 0, 0];
        assert_eq!(parsed(&four), Some(SocketAddr::from(([192, 0, 2, 1], 80))));
        let [low, high] = (libc::AF_INET6 as u16).to_ne_bytes();
        let mut six = [0; 28];
        six[..4].copy_from_slice(&[low, high, 1, 187]);
        six[8..24].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets());
        assert_eq!(parsed(&six), Some(SocketAddr::from(([192, 0, 2, 1], 443))));
        for short in [&six[..23], &four[..7], &four[..1], &[1, 0, 0, 80, b'/', b'a']] {
            assert_eq!(parsed(short), None, "{short:?}");
        }
    }

    #[test]
    fn the_flags_of_an_open_say_what_it_is_for() {
        for (flags, expected) in [
            (libc::O_RDONLY | libc::O_CLOEXEC, AccessKind::Read),
            (libc::O_PATH | libc::O_RDWR, AccessKind::Read),
            (libc::O_WRONLY, AccessKind::Change),
            (libc::O_RDWR, AccessKind::Change),
            (libc::O_RDONLY | libc::O_TRUNC, AccessKind::Change),
            (libc::O_WRONLY | libc::O_CREAT, AccessKind::Make),
            (libc::O_RDONLY | libc::O_CREAT, AccessKind::Make),
        ] {
            assert_eq!(opening(flags), (expected, false), "{flags:o}");
        }
        assert!(opening(libc::O_NOFOLLOW).1);
    }

    #[test]
    fn a_text_of_this_process_is_read_up_to_its_end() {
        let own = std::process::id();
        let text = c"/some/where".as_ptr() as u64;
        assert_eq!(text_at(own, text).as_deref(), Some(&b"/some/where"[..]));
        assert_eq!(text_at(own, c"".as_ptr() as u64), None);
        assert_eq!(text_at(own, 0), None);
        assert_eq!(text_at(own, 1), None, "nothing is there");
        let endless = vec![b'a'; 3 * LONGEST_PATH];
        assert_eq!(text_at(own, endless.as_ptr() as u64), None);
    }

    #[test]
    fn a_file_is_judged_through_short_links_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "").expect("written");
        for (name, before) in [("near", ""), ("far", &*"./".repeat(1000))] {
            std::os::unix::fs::symlink(format!("{before}file"), path(name)).expect("linked");
        }
        let granted = Visibility::Granted { writable: true };
        for (name, found, read) in [
            ("file", Ok(()), AccessVerdict::Used),
            ("near", Ok(()), AccessVerdict::Used),
            ("far", Err(Errno::LOOP), AccessVerdict::Reached),
            ("none", Err(Errno::NOENT), AccessVerdict::Ignored),
        ] {
            assert_eq!(find_writable(&path(name)), found, "{name}");
            assert_eq!(judge_read(&path(name), granted, false), read, "{name}");
            assert!(!is_directory(&path(name)), "{name}");
        }
        assert_eq!(judge_read(&path("far"), granted, true), AccessVerdict::Used);
        assert!(is_directory(directory.path()));
    }

    #[test]
    fn a_path_is_made_absolute_and_plain() {
        let own = std::process::id();
        let plain = |path: &str| absolute(own, None, path.as_bytes().to_vec());
        assert_eq!(plain("/a/./b//../c/"), Some("/a/c".into()));
        assert_eq!(plain("/../.."), Some("/".into()));
        let here = std::env::current_dir().expect("a directory");
        assert_eq!(plain("x"), Some(here.join("x")));
        assert_eq!(plain(&"/a".repeat(3000)), None, "longer than the kernel takes");
        assert_eq!(absolute(own, Some(-5), b"x".to_vec()), None, "no such descriptor");
    }
}
