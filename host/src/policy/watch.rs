//! A watch over the policy files, which costs less than a look at each of them.
//!
//! The kernel queues an event before the system call that makes a change returns, so whoever asks for
//! events after that is told of it, and nobody has to sleep until one comes. Watched are every name
//! that is looked up on the way to a file, the file itself, and the mounts of this process.
//!
//! Some changes are no events. What another machine does to a file server is none, and what happens to
//! the layers below an overlay: only file systems that this kernel alone changes are watched. Nor is
//! a write by Linux AIO, by a loop device over the file, or by a descriptor of fanotify. So each file is
//! asked for the time of its last change, by a descriptor of its directory, which costs less than a look at
//! its path. A store into a mapping of the file need not set that time, and a write sets it before and not
//! after: so the files are read now and then in any case.
//!
//! A directory that is held keeps its file system from being unmounted. So a file is watched only where
//! this process is on that file system anyway. The file itself is not held: one that was removed would
//! keep the file system from being mounted read-only.

#[cfg(target_os = "linux")]
pub(super) use linux::Watch;

/// Nothing: other kernels are asked for the metadata of each file.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Default)]
pub(super) struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub(super) fn begin<'a>(
        &mut self,
        _: impl Iterator<Item = &'a std::path::Path> + Clone,
    ) -> bool {
        false
    }

    pub(super) fn is_on(&self) -> bool {
        false
    }

    pub(super) fn is_quiet(&mut self) -> bool {
        false
    }

    pub(super) fn end(&mut self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::ffi::{CStr, OsStr, OsString};
    use std::fs::File;
    use std::io::{self, Read as _};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use rustix::event::{Timespec, epoll};
    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Stat, StatxFlags, fstatfs, inotify, openat, statat,
        statx,
    };
    use rustix::io::Errno;

    use crate::paths::{self, Lookup};

    /// The file systems that only the kernel of this machine changes, and each file by its own inode:
    /// ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, by linux/magic.h. Of others a look is needed.
    const OF_THIS_MACHINE: [u32; 5] =
        [0x0000_ef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

    /// The room for events, in bytes: more than fit are not looked through, which would hold up other
    /// calls. The longest one takes 272.
    const EVENTS: usize = 4 << 10;

    /// The marks of the two sources of events.
    const FILES: u64 = 0;
    const MOUNTS: u64 = 1;

    /// The watch over some files, which may be on or off.
    #[derive(Debug, Default)]
    pub(in super::super) struct Watch {
        /// Kept when the watch ends, because the kernel takes milliseconds to close what has watched.
        events: Option<Events>,
        /// The names that are looked up in each watched directory, by the number of the watch; none
        /// for a file.
        watched: HashMap<i32, Vec<OsString>>,
        held: Vec<Held>,
        is_on: bool,
    }

    /// A file that exists, by its directory and its name in it, and its metadata when the watch began.
    #[derive(Debug)]
    struct Held {
        dir: OwnedFd,
        name: OsString,
        before: Stat,
    }

    /// The descriptors by which the kernel reports events.
    #[derive(Debug)]
    struct Events {
        /// Has something to read when one of the other two has.
        any: OwnedFd,
        files: OwnedFd,
        /// The mounts of this process, which are watched as long as it is open.
        mounts: Option<File>,
    }

    /// The way to each file: what is looked up, and the file.
    type Ways = Vec<(Vec<Lookup>, PathBuf)>;

    impl Watch {
        /// Begins to watch. Returns false where not all of it can be watched. A look at the files has
        /// to follow, because they may have changed before.
        pub(in super::super) fn begin<'a>(
            &mut self,
            files: impl Iterator<Item = &'a Path> + Clone,
        ) -> bool {
            self.end();
            let ways = || files.clone().map(paths::lookups).collect::<Option<Ways>>();
            let Some(before) = ways().filter(are_of_this_machine) else { return false };
            // Where a way or a mount changed before it was watched, the watch may be on another.
            self.is_on = self.add(&before).is_ok()
                && self.hold(&before).is_ok()
                && are_of_this_machine(&before)
                && ways().as_ref() == Some(&before);
            if !self.is_on {
                self.end();
            }
            self.is_on
        }

        /// Returns whether changes are noticed.
        pub(in super::super) fn is_on(&self) -> bool {
            self.is_on
        }

        /// Returns whether the watch is on, and nothing changed that is watched. Else it ends: it may
        /// be on what is no longer on the way.
        pub(in super::super) fn is_quiet(&mut self) -> bool {
            if self.is_on && (self.has_events() || self.held.iter().any(Held::has_changed)) {
                self.end();
            }
            self.is_on
        }

        /// Ends the watch.
        pub(in super::super) fn end(&mut self) {
            self.is_on = false;
            self.held.clear();
            let Some(events) = &self.events else { return };
            for (number, _) in self.watched.drain() {
                // It is gone already where its file is.
                let _ = inotify::remove_watch(&events.files, number);
            }
        }

        /// Watches the way to each file, and the file. Each directory is watched before the next one is
        /// looked for, so that nothing can take its place unseen.
        fn add(&mut self, ways: &Ways) -> io::Result<()> {
            use inotify::WatchFlags as Of;
            let names = Of::CREATE | Of::DELETE | Of::MOVED_FROM | Of::MOVED_TO;
            // By this name or another, which a hard link is.
            let contents = Of::MODIFY | Of::CLOSE_WRITE;
            let events = match &mut self.events {
                Some(events) => events,
                none => none.insert(Events::new()?),
            };
            events.forget()?;
            events.add_mounts()?;
            for (lookups, file) in ways {
                let dirs = lookups.iter().map(|it| (&it.dir, names | Of::ONLYDIR, Some(&it.name)));
                for (path, of, name) in dirs.chain([(file, contents, None)]) {
                    // A link can make a directory on one way the file of another: it is watched as both.
                    let of = of | Of::ATTRIB | Of::DONT_FOLLOW | Of::MASK_ADD;
                    let number = match inotify::add_watch(&events.files, path, of) {
                        Ok(number) => number,
                        // Nothing can be below a directory that is not there.
                        Err(Errno::NOENT | Errno::NOTDIR) => break,
                        Err(error) => return Err(error.into()),
                    };
                    let known = self.watched.entry(number).or_default();
                    known.extend(name.filter(|name| !known.contains(name)).cloned());
                }
            }
            Ok(())
        }

        /// Opens the directories of the files that exist. They are watched already, so that none takes the
        /// place of another unseen.
        fn hold(&mut self, ways: &Ways) -> io::Result<()> {
            for (_, path) in ways {
                let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
                match Held::open(dir, name) {
                    // A directory is no policy, and changes with every name in it.
                    Ok(held) if !FileType::from_raw_mode(held.before.st_mode).is_file() => {}
                    Ok(held) if is_pinned(&held.dir)? => self.held.push(held),
                    Ok(_) => return Err(Errno::OPNOTSUPP.into()),
                    Err(Errno::NOENT | Errno::NOTDIR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }

        /// Takes the events, and returns whether one of them is of what is watched, or they are too many.
        fn has_events(&self) -> bool {
            let Some(events) = &self.events else { return true };
            match events.ready() {
                Ok([false, false]) => return false,
                Ok([true, false]) => {}
                Ok([_, true]) | Err(_) => return true,
            }
            let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
            let mut reader = inotify::Reader::new(&events.files, &mut buffer);
            let mut reads = 0;
            loop {
                reads += u32::from(reader.is_buffer_empty());
                match reader.next() {
                    Err(Errno::AGAIN) => return false,
                    Ok(event) if reads == 1 && !self.concerns(event.wd(), event.file_name()) => {}
                    Ok(_) | Err(_) => return true,
                }
            }
        }

        /// Returns whether an event is of a name that is looked up. One without a name is of what is
        /// watched itself, or says that events were lost.
        fn concerns(&self, watch: i32, name: Option<&CStr>) -> bool {
            let (Some(name), Some(names)) = (name, self.watched.get(&watch)) else { return true };
            let name = name.to_bytes();
            // In some directories letters of either case name the same file.
            names.iter().map(|looked_up| looked_up.as_bytes()).any(|looked_up| {
                let is_ascii = looked_up.is_ascii() && name.is_ascii();
                !is_ascii || looked_up.eq_ignore_ascii_case(name)
            })
        }
    }

    impl Held {
        fn open(dir: &Path, name: &OsStr) -> rustix::io::Result<Self> {
            let dir = opened(dir)?;
            let before = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(Self { dir, name: name.to_owned(), before })
        }

        /// Returns whether something was written to the file, or changed in its metadata.
        fn has_changed(&self) -> bool {
            let now = statat(&self.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
            let time = |it: &Stat| (it.st_ctime, it.st_ctime_nsec);
            !now.is_ok_and(|now| time(&now) == time(&self.before))
        }
    }

    impl Events {
        fn new() -> io::Result<Self> {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            let files = inotify::init(flags)?;
            let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let mark = epoll::EventData::new_u64(FILES);
            epoll::add(&any, &files, mark, epoll::EventFlags::IN)?;
            Ok(Self { any, files, mounts: None })
        }

        /// Watches the mounts of the namespace in which this process is now.
        fn add_mounts(&mut self) -> io::Result<()> {
            let mut mounts = File::open("/proc/self/mountinfo")?;
            // It has no lines where the root of this process is in another namespace than its mounts.
            if mounts.read(&mut [0])? == 0 {
                return Err(Errno::OPNOTSUPP.into());
            }
            let mark = epoll::EventData::new_u64(MOUNTS);
            epoll::add(&self.any, &mounts, mark, epoll::EventFlags::PRI)?;
            self.mounts = Some(mounts);
            Ok(())
        }

        /// Returns whether there are events of files, and of mounts. Those of mounts are taken by this.
        fn ready(&self) -> io::Result<[bool; 2]> {
            let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; 2];
            let (ready, _) = epoll::wait(&self.any, &mut ready, Some(&Timespec::default()))?;
            Ok([FILES, MOUNTS].map(|mark| ready.iter().any(|event| event.data.u64() == mark)))
        }

        /// Takes what was reported of a watch that has ended, before another begins: it would end that
        /// one at once. What it told of is seen by the look that follows.
        fn forget(&mut self) -> io::Result<()> {
            self.mounts = None;
            let mut buffer = [const { MaybeUninit::<u8>::uninit() }; EVENTS];
            loop {
                match rustix::io::read(&self.files, &mut buffer) {
                    Ok(_) => {}
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Returns whether everything on the ways is on file systems that can be watched. What does not
    /// exist is where its directory is.
    fn are_of_this_machine(ways: &Ways) -> bool {
        let is_of_this_machine = |path: &PathBuf| match opened(path).and_then(fstatfs) {
            Ok(found) => OF_THIS_MACHINE.contains(&(found.f_type as u32)),
            Err(error) => matches!(error, Errno::NOENT | Errno::NOTDIR),
        };
        let dirs = ways.iter().flat_map(|(lookups, _)| lookups).map(|lookup| &lookup.dir);
        dirs.chain(ways.iter().map(|(_, file)| file)).all(is_of_this_machine)
    }

    /// Returns whether a directory is on the mount of the root of this process, or of its current directory,
    /// which cannot be unmounted in any case.
    pub(super) fn is_pinned(dir: &OwnedFd) -> rustix::io::Result<bool> {
        let of_dir = mount(dir, "", AtFlags::EMPTY_PATH)?;
        let is_same = |path| Ok(mount(CWD, path, AtFlags::empty())? == of_dir);
        Ok(is_same("/")? || is_same(".")?)
    }

    /// Returns the number of the mount that a path is on, which Linux tells since 5.8.
    fn mount(dir: impl AsFd, path: &str, flags: AtFlags) -> rustix::io::Result<u64> {
        let found = statx(dir, path, flags, StatxFlags::MNT_ID)?;
        let is_told = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        is_told.then_some(found.stx_mnt_id).ok_or(Errno::OPNOTSUPP)
    }

    /// Opens a file or a directory, for questions about it alone.
    pub(super) fn opened(path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    use super::linux::{is_pinned, opened};

    #[test]
    fn a_mount_that_could_be_unmounted_is_not_held() {
        let is_pinned = |path: &str| is_pinned(&opened(Path::new(path)).expect("opened"));
        assert_eq!(is_pinned("/"), Ok(true));
        assert_eq!(is_pinned("."), Ok(true));
        assert_eq!(is_pinned("/proc"), Ok(false));
    }
}
