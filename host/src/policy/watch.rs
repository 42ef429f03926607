//! A watch over the policy files, which costs less than a look at each of them.
//!
//! The kernel queues an event before the system call that makes a change returns, so whoever asks for
//! events after that is told of it, and nobody has to sleep until one comes. Watched are every name
//! that is looked up on the way to a file, the file itself, and the mounts of this process.
//!
//! Some changes are no events. What another machine does to a file server is none, and what happens to
//! the layers below an overlay: only file systems that this kernel alone changes are watched. Nor is
//! what bypasses the calls for files: a mapping of the file, Linux AIO, a loop device over it. So
//! the files are looked at now and then in any case.

#[cfg(target_os = "linux")]
pub(super) use linux::Watch;

/// Nothing: other kernels are asked for the metadata of each file.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) enum Watch {}

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub(super) fn over<'a>(_: impl Iterator<Item = &'a std::path::Path> + Clone) -> Option<Self> {
        None
    }

    pub(super) fn is_quiet(&mut self) -> bool {
        match *self {}
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::ffi::{CStr, OsString};
    use std::fs::File;
    use std::io::{self, Read as _};
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use rustix::event::{Timespec, epoll};
    use rustix::fs::{CWD, Mode, OFlags, fstatfs, inotify, openat};
    use rustix::io::Errno;

    use crate::paths::{self, Lookup};

    /// The file systems that only the kernel of this machine changes, and each file by its own inode:
    /// ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, by linux/magic.h. Of others a look is needed.
    const OF_THIS_MACHINE: [u32; 5] =
        [0x0000_ef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

    /// The room for events, in bytes: more than fit are not taken one by one, which would hold up
    /// other calls. The longest one takes 272.
    const EVENTS: usize = 4 << 10;

    /// The marks of the two sources of events.
    const FILES: u64 = 0;
    const MOUNTS: u64 = 1;

    /// The watch over some files from one moment on.
    #[derive(Debug)]
    pub(in super::super) struct Watch {
        /// Has something to read when one of the other two has.
        any: OwnedFd,
        files: OwnedFd,
        /// The mounts of this process. It reports that they changed as long as it is open.
        _mounts: File,
        /// The names of each watched directory that are looked up, by the number of the watch.
        names: HashMap<i32, Vec<OsString>>,
    }

    impl Watch {
        /// Begins a watch; returns nothing where not all of it can be watched. A look at the files
        /// has to follow, because they may have changed before.
        pub(in super::super) fn over<'a>(
            files: impl Iterator<Item = &'a Path> + Clone,
        ) -> Option<Self> {
            let ways = || files.clone().map(paths::lookups).collect::<Option<Vec<_>>>();
            let before = ways()?;
            let mut watch = Self::new().ok()?;
            for (lookups, file) in &before {
                watch.add(lookups, file).ok()?;
            }
            // Where a way changed meanwhile, its watch may be on another.
            (ways()? == before).then_some(watch)
        }

        fn new() -> io::Result<Self> {
            let files =
                inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
            let mut mounts = File::open("/proc/self/mountinfo")?;
            // It has no lines where the root of this process is in another namespace than its mounts.
            if mounts.read(&mut [0])? == 0 {
                return Err(Errno::OPNOTSUPP.into());
            }
            let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let (of_files, of_mounts) =
                (epoll::EventData::new_u64(FILES), epoll::EventData::new_u64(MOUNTS));
            epoll::add(&any, &files, of_files, epoll::EventFlags::IN)?;
            epoll::add(&any, &mounts, of_mounts, epoll::EventFlags::PRI)?;
            Ok(Self { any, files, _mounts: mounts, names: HashMap::new() })
        }

        /// Watches the way to a file, and the file. Each directory is watched before the next one is
        /// looked for, so that nothing can take its place unseen.
        fn add(&mut self, lookups: &[Lookup], file: &Path) -> io::Result<()> {
            use inotify::WatchFlags as Of;
            let names = Of::CREATE | Of::DELETE | Of::MOVED_FROM | Of::MOVED_TO;
            for lookup in lookups {
                let dir = self.add_one(&lookup.dir, names | Of::ATTRIB | Of::ONLYDIR)?;
                // Nothing can be below a directory that is not there.
                let Some(dir) = dir else { return Ok(()) };
                let names = self.names.entry(dir).or_default();
                if !names.contains(&lookup.name) {
                    names.push(lookup.name.clone());
                }
            }
            // By this name or another, which a hard link is.
            self.add_one(file, Of::MODIFY | Of::ATTRIB | Of::CLOSE_WRITE)?;
            Ok(())
        }

        /// Watches one file or directory, not what a link leads to. Returns nothing if there is none.
        fn add_one(&self, path: &Path, events: inotify::WatchFlags) -> io::Result<Option<i32>> {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = openat(CWD, path, flags, Mode::empty()).and_then(|open| {
                if !OF_THIS_MACHINE.contains(&(fstatfs(open)?.f_type as u32)) {
                    return Err(Errno::OPNOTSUPP);
                }
                inotify::add_watch(&self.files, path, events | inotify::WatchFlags::DONT_FOLLOW)
            });
            match found {
                Ok(number) => Ok(Some(number)),
                Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }

        /// Returns whether nothing changed that was watched. Once something did, the watch is of no
        /// more use: it may be on what is no longer on the way.
        pub(in super::super) fn is_quiet(&mut self) -> bool {
            let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; 2];
            match epoll::wait(&self.any, &mut ready, Some(&Timespec::default())) {
                Ok(([], _)) => true,
                Ok(([ready], _)) if ready.data.u64() == FILES => !self.has_changed(),
                Ok(_) | Err(_) => false,
            }
        }

        /// Takes the events, and returns whether one of them is of a name that is looked up, or they
        /// are too many.
        fn has_changed(&self) -> bool {
            let mut events = [const { MaybeUninit::uninit() }; EVENTS];
            let mut events = inotify::Reader::new(&self.files, &mut events);
            let mut reads = 0;
            loop {
                reads += u32::from(events.is_buffer_empty());
                match events.next() {
                    Err(Errno::AGAIN) => return false,
                    Ok(event) if reads == 1 && !self.concerns(event.wd(), event.file_name()) => {}
                    Ok(_) | Err(_) => return true,
                }
            }
        }

        /// Returns whether an event is of a name that is looked up. One without a name is of what is
        /// watched itself, or says that events were lost.
        fn concerns(&self, watch: i32, name: Option<&CStr>) -> bool {
            let (Some(name), Some(names)) = (name, self.names.get(&watch)) else { return true };
            let name = name.to_bytes();
            // In some directories letters of either case name the same file.
            let is_same = |looked_up: &OsString| looked_up.as_bytes().eq_ignore_ascii_case(name);
            !name.is_ascii() || names.iter().any(is_same)
        }
    }
}
