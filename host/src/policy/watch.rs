//! A watch over the policy files, which costs less than to look up each of them.
//!
//! The kernel queues an event before the system call that makes a change returns, so whoever asks for
//! events after that is told of it, and nobody has to sleep until one comes. Watched are every name
//! that is looked up on the way to a file, the directories on the way, and the mounts of this process.
//! So an event tells that a file appeared, is gone or is another one, and who may write on the way.
//!
//! Some changes are no events. What another machine does to a file server is none, and what happens to
//! the layers below an overlay: only file systems that this kernel alone changes are watched. Nor is
//! a write by Linux AIO or by a loop device over the file, nor a store into a mapping of it. But whoever
//! writes like that has opened the file, and that is an event. So whenever the files have been read, the kernel is
//! asked for a lease (fcntl(2)) on each, which it does not grant while somebody has the file open for writing.
//! After that a file is not asked for anything until it is opened.
//!
//! A file that was opened since, or on which there is no lease, such as another user's, is asked for the time
//! of its last change. By its path, because a descriptor would keep its file system from being unmounted, or
//! from being mounted read-only once the file was removed. A store into a mapping need not set that time,
//! and a write sets it before and not after. Few programs open a file without an event: by fanotify, and before
//! Linux 6.5 through an overlay whose upper layer has it. So the files are read now and then in any case.

#[cfg(target_os = "linux")]
mod lease;

#[cfg(all(test, target_os = "linux"))]
pub(super) use lease::is_granted;
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

    pub(super) fn note_read(&mut self) {}

    pub(super) fn end(&mut self) {}
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
    use std::path::{Path, PathBuf};

    use rustix::event::{Timespec, epoll};
    use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstatfs, inotify, lstat, openat};
    use rustix::io::Errno;

    use super::lease::is_granted;
    use crate::paths::{self, Lookup};

    /// The file systems that only the kernel of this machine changes: ext2 to ext4, XFS, Btrfs, F2FS and
    /// tmpfs, by linux/magic.h. Of others a look is needed.
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
        /// The names that are looked up in each watched directory, by the number of the watch.
        watched: HashMap<i32, Vec<OsString>>,
        present: Vec<Present>,
        is_on: bool,
    }

    /// A file that exists, and its metadata when the watch began.
    #[derive(Debug)]
    struct Present {
        path: PathBuf,
        before: Stat,
        /// The number of the watch over the file itself; nothing if it may not be read.
        watch: Option<i32>,
        /// True if nobody had it open for writing after it was read, and it was not opened since.
        is_closed: bool,
    }

    /// The meaning of the events that were taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Seen {
        /// At most that files were opened, which is noted.
        Openings,
        /// Something changed.
        Change,
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
                && self.add_files(&before).is_ok()
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
            let is_quiet = self.is_on
                && self.take_events() == Seen::Openings
                && !self.present.iter().any(|file| !file.is_closed && file.has_changed());
            if !is_quiet {
                self.end();
            }
            is_quiet
        }

        /// Notes that all files have been read since the watch began or was quiet.
        pub(in super::super) fn note_read(&mut self) {
            // Before the events are taken: to open a file is one.
            let open = |file: &Present| paths::open_regular(&file.path).map(|(file, _)| file);
            let opened: Vec<io::Result<File>> = self.present.iter().map(open).collect();
            if self.take_events() == Seen::Change {
                return self.end();
            }
            for (file, opened) in self.present.iter_mut().zip(opened) {
                // In this order: who opened the file before the events were taken, wrote to it, and closed it before
                // the lease, has changed its time by now.
                let is_closed = opened.is_ok_and(|it| is_granted(&it)) && !file.has_changed();
                file.is_closed = is_closed && file.watch.is_some();
            }
        }

        /// Returns the number of files that are asked for their times.
        #[cfg(test)]
        pub(in super::super) fn asks(&self) -> usize {
            self.present.iter().filter(|file| !file.is_closed).count()
        }

        /// Ends the watch.
        pub(in super::super) fn end(&mut self) {
            self.is_on = false;
            let files = self.present.drain(..).filter_map(|file| file.watch);
            let numbers = self.watched.drain().map(|(number, _)| number).chain(files);
            let Some(events) = &self.events else { return };
            for number in numbers {
                // It is gone already where its file is.
                let _ = inotify::remove_watch(&events.files, number);
            }
        }

        /// Watches the way to each file. Each directory is watched before the next one is looked for, so
        /// that nothing can take its place unseen.
        fn add(&mut self, ways: &Ways) -> io::Result<()> {
            use inotify::WatchFlags as Of;
            let names = Of::CREATE | Of::DELETE | Of::MOVED_FROM | Of::MOVED_TO;
            let of = names | Of::ATTRIB | Of::ONLYDIR | Of::DONT_FOLLOW;
            let events = match &mut self.events {
                Some(events) => events,
                none => none.insert(Events::new()?),
            };
            events.forget()?;
            events.add_mounts()?;
            for (lookups, _) in ways {
                for Lookup { dir, name, .. } in lookups {
                    let number = match inotify::add_watch(&events.files, dir, of) {
                        Ok(number) => number,
                        // Nothing can be below a directory that is not there.
                        Err(Errno::NOENT | Errno::NOTDIR) => break,
                        Err(error) => return Err(error.into()),
                    };
                    let known = self.watched.entry(number).or_default();
                    if !known.contains(name) {
                        known.push(name.clone());
                    }
                }
            }
            Ok(())
        }

        /// Watches the files that exist, and notes their times. Their names are watched already, so that none
        /// takes the place of another unseen.
        fn add_files(&mut self, ways: &Ways) -> io::Result<()> {
            use inotify::WatchFlags as Of;
            let of = Of::OPEN | Of::MODIFY | Of::ATTRIB | Of::DONT_FOLLOW;
            let Some(events) = &self.events else { return Ok(()) };
            for (_, path) in ways {
                let before = match lstat(path) {
                    // A directory is no policy, and changes with every name in it.
                    Ok(before) if !FileType::from_raw_mode(before.st_mode).is_file() => continue,
                    Ok(before) => before,
                    Err(Errno::NOENT | Errno::NOTDIR) => continue,
                    Err(error) => return Err(error.into()),
                };
                let watch = match inotify::add_watch(&events.files, path, of) {
                    Ok(number) => Some(number),
                    Err(Errno::ACCESS) => None,
                    Err(error) => return Err(error.into()),
                };
                let path = path.clone();
                self.present.push(Present { path, before, watch, is_closed: false });
            }
            Ok(())
        }

        /// Takes the events. Too many are a change.
        fn take_events(&mut self) -> Seen {
            let Some(events) = &self.events else { return Seen::Change };
            match events.ready() {
                Ok([false, false]) => return Seen::Openings,
                Ok([true, false]) => {}
                Ok([_, true]) | Err(_) => return Seen::Change,
            }
            let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
            let mut reader = inotify::Reader::new(&events.files, &mut buffer);
            let mut reads = 0;
            loop {
                reads += u32::from(reader.is_buffer_empty());
                let event = match reader.next() {
                    Err(Errno::AGAIN) => return Seen::Openings,
                    Ok(event) if reads == 1 => event,
                    Ok(_) | Err(_) => return Seen::Change,
                };
                if event.events() == inotify::ReadFlags::OPEN {
                    let opened = Some(event.wd());
                    let files = self.present.iter_mut().filter(|file| file.watch == opened);
                    files.for_each(|file| file.is_closed = false);
                } else if concerns(&self.watched, event.wd(), event.file_name()) {
                    return Seen::Change;
                }
            }
        }
    }

    /// Returns whether an event is of a name that is looked up in a watched directory. One without a name is of
    /// what is watched itself, or says that events were lost.
    fn concerns(watched: &HashMap<i32, Vec<OsString>>, watch: i32, name: Option<&CStr>) -> bool {
        let (Some(name), Some(names)) = (name, watched.get(&watch)) else { return true };
        let name = name.to_bytes();
        // In some directories letters of either case name the same file.
        names.iter().map(|looked_up| looked_up.as_bytes()).any(|looked_up| {
            let is_ascii = looked_up.is_ascii() && name.is_ascii();
            !is_ascii || looked_up.eq_ignore_ascii_case(name)
        })
    }

    impl Present {
        /// Returns whether something was written to the file, or changed in its metadata.
        fn has_changed(&self) -> bool {
            let time = |it: &Stat| (it.st_ctime, it.st_ctime_nsec);
            !lstat(&self.path).is_ok_and(|now| time(&now) == time(&self.before))
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

    /// Returns whether all directories on the ways are on file systems that can be watched. One that does
    /// not exist is where its own directory is.
    fn are_of_this_machine(ways: &Ways) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_of_this_machine =
            |path: &PathBuf| match openat(CWD, path, flags, Mode::empty()).and_then(fstatfs) {
                Ok(found) => OF_THIS_MACHINE.contains(&(found.f_type as u32)),
                Err(error) => matches!(error, Errno::NOENT | Errno::NOTDIR),
            };
        let lookups = ways.iter().flat_map(|(lookups, _)| lookups);
        lookups.map(|lookup| &lookup.dir).all(is_of_this_machine)
    }
}
