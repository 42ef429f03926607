//! The host's own stdin, as a native tool gets it.
//!
//! A descriptor can do more than read. A socket of the host belongs to the host's network: a
//! program that has it can connect it again, send from it, or bind a name. By a descriptor of a
//! file, the file's owner can change its mode, its times and its attributes. A pipe can be opened
//! again for writing by `/proc/self/fd/0`, and its next reader would take the tool's text for the
//! user's. The mode and the times of `/dev/null` are the machine's. A program that writes to the
//! master of a pseudo-terminal types into the program on the other side. So a sandboxed tool gets
//! the descriptor itself only if it is a terminal and not a master. For anything else it gets a
//! pipe, into which a thread copies.
//!
//! What the tool leaves in a copied pipe belongs to the pipe's next reader. So the thread takes out
//! only what the tool has read.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, tee};
use rustix::pty::ptsname;
use tokio::sync::oneshot;

use crate::policy::Sandbox;

/// The size of a read: the capacity of a pipe, in bytes.
const CHUNK: usize = 64 << 10;

/// The tool's end of a stdin.
pub(super) struct InheritedStdin {
    pub(super) its: OwnedFd,
    /// Ends when nothing is copied any more; `None` if nothing is copied.
    pub(super) copied: Option<oneshot::Receiver<()>>,
}

/// Returns the descriptor that a tool gets for the host's own stdin.
pub(super) fn open(sandbox: Sandbox) -> io::Result<InheritedStdin> {
    for_tool(io::stdin().as_fd(), sandbox)
}

fn for_tool(stdin: BorrowedFd<'_>, sandbox: Sandbox) -> io::Result<InheritedStdin> {
    let own = stdin.try_clone_to_owned()?;
    let kind = FileType::from_raw_mode(fstat(&own)?.st_mode);
    if sandbox == Sandbox::Off || may_be_given(&own, kind) {
        return Ok(InheritedStdin { its: own, copied: None });
    }
    let (its, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let is_pipe = kind == FileType::Fifo;
    if is_pipe {
        // The kernel makes it one page, so that it can be written to only when it is empty.
        fcntl_setpipe_size(&write, 1)?;
    }
    let (from, to) = (File::from(own), File::from(write));
    let (ended, copied) = oneshot::channel();
    thread::Builder::new().name("ikigai-stdin".to_owned()).spawn(move || {
        let done = if is_pipe { copy_pipe(&from, &to) } else { copy(from, to) };
        if let Err(error) = done {
            tracing::warn!(%error, "a tool's stdin broke");
        }
        drop(ended);
    })?;
    Ok(InheritedStdin { its, copied: Some(copied) })
}

/// Returns whether a sandboxed tool may have the descriptor.
fn may_be_given(stdin: &OwnedFd, kind: FileType) -> bool {
    match kind {
        // The supervisor refuses the call because of a directory.
        FileType::Directory => true,
        FileType::CharacterDevice => stdin.is_terminal() && !may_be_master(stdin),
        _ => false,
    }
}

/// Returns whether a terminal may be the master of a pseudo-terminal, which is one too for `isatty`.
fn may_be_master(terminal: &OwnedFd) -> bool {
    // Of all terminals, only the masters know the request (`TIOCGPTN`): it fails with EINVAL for
    // one of BSD's masters.
    ptsname(terminal, Vec::new()) != Err(Errno::NOTTY)
}

/// Copies up to the end of the pipe `from`, or until no process can read the pipe `to`. Shows the
/// tool the first bytes of `from` and leaves them there. Takes out what the tool has read.
fn copy_pipe(mut from: &File, to: &File) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let shown = match tee(from, to, CHUNK, SpliceFlags::NONBLOCK) {
            Ok(0) | Err(Errno::PIPE) => return Ok(()),
            Ok(shown) => shown,
            Err(Errno::INTR) => continue,
            // Nothing is there yet, or the tool has written into its own pipe.
            Err(Errno::AGAIN) => {
                if can_be_read(from, to)? && is_read_up(to)? {
                    continue;
                }
                return Ok(());
            }
            Err(errno) => return Err(errno.into()),
        };
        let goes_on = is_read_up(to)?;
        let left = if goes_on { 0 } else { ioctl_fionread(to)? };
        let mut taken = shown.saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        // Another program that reads the pipe at the same time may have taken the bytes.
        while taken > 0 && has_input(from)? {
            match from.read(&mut chunk[..taken.min(CHUNK)]) {
                Ok(0) => return Ok(()),
                Ok(length) => taken -= length,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
                    _ => return Err(error),
                },
            }
        }
        if !goes_on {
            return Ok(());
        }
    }
}

/// Waits until the tool has read everything in its pipe. Returns false if no process can read it
/// any more.
fn is_read_up(to: &File) -> io::Result<bool> {
    loop {
        let mut ends = [PollFd::new(to, PollFlags::OUT)];
        match poll(&mut ends, None) {
            Ok(_) => return Ok(!ends[0].revents().contains(PollFlags::ERR)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns whether a pipe has something to read now.
fn has_input(from: &File) -> io::Result<bool> {
    let mut ends = [PollFd::new(from, PollFlags::IN)];
    match poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) => Ok(ends[0].revents().contains(PollFlags::IN)),
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Copies up to the end of `from`, or until no process can read the pipe `to`. A regular file keeps
/// its own position, which the host shares with other programs: a shell that reads the lines of the
/// file in a loop reads on where it was.
fn copy(mut from: File, mut to: File) -> io::Result<()> {
    let is_regular = from.metadata()?.is_file();
    let mut offset = if is_regular { from.stream_position()? } else { 0 };
    let mut chunk = vec![0; CHUNK];
    loop {
        if !can_be_read(&from, &to)? {
            return Ok(());
        }
        let read =
            if is_regular { from.read_at(&mut chunk, offset) } else { from.read(&mut chunk) };
        let length = match read {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock => continue,
                _ => return Err(error),
            },
        };
        offset += length as u64;
        match to.write_all(&chunk[..length]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Waits until `from` can be read. Returns false if no process can read the pipe `to` any more. The
/// rest of the input then belongs to the next program.
fn can_be_read(from: &File, to: &File) -> io::Result<bool> {
    loop {
        let mut ends = [PollFd::new(from, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
        match poll(&mut ends, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [from, to] = ends.map(|end| end.revents());
        if to.contains(PollFlags::ERR) {
            return Ok(false);
        }
        if !from.is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, UdpSocket};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};

    use super::*;

    fn kind(descriptor: &OwnedFd) -> FileType {
        FileType::from_raw_mode(fstat(descriptor).expect("its metadata").st_mode)
    }

    fn sandboxed(stdin: &impl std::os::fd::AsFd) -> OwnedFd {
        for_tool(stdin.as_fd(), Sandbox::Require).expect("a stdin").its
    }

    /// Returns a pipe with a text in it, and the stdin of a sandboxed tool that inherits the pipe.
    fn piped(text: &[u8]) -> (File, File, InheritedStdin) {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let mut write = File::from(write);
        write.write_all(text).expect("written");
        let stdin = for_tool(read.as_fd(), Sandbox::Require).expect("a stdin");
        (File::from(read), write, stdin)
    }

    /// Closes a tool's stdin, and waits until nothing is copied any more.
    fn close(its: File, copied: Option<oneshot::Receiver<()>>) {
        drop(its);
        let ended = copied.expect("a copy").blocking_recv();
        assert!(ended.is_err(), "the sender is only dropped");
    }

    #[test]
    fn what_a_tool_did_not_read_stays_in_the_pipe() {
        let text = [b"one\ntwo\n".as_slice(), &[b'x'; 9_000]].concat();
        for most in [0, 4, 4_096, 5_000, text.len()] {
            let (mut rest, write, InheritedStdin { its, copied }) = piped(&text);
            let (mut its, mut read) = (File::from(its), vec![0; most]);
            its.read_exact(&mut read).expect("read");
            assert!(read == text[..most], "{most}");
            close(its, copied);
            drop(write);
            let mut left = Vec::new();
            rest.read_to_end(&mut left).expect("read");
            assert!(left == text[most..], "{most}: {} bytes are left", left.len());
        }
    }

    #[test]
    fn a_tool_cannot_write_into_the_pipe_that_it_inherits() {
        let (mut rest, write, InheritedStdin { its, copied }) = piped(b"");
        let again = format!("/proc/self/fd/{}", its.as_raw_fd());
        let mut again = File::options().write(true).open(again).expect("its own pipe");
        again.write_all(b"evil\n").expect("written");
        drop(again);
        close(File::from(its), copied);
        drop(write);
        let mut left = String::new();
        rest.read_to_string(&mut left).expect("read");
        assert_eq!(left, "");
    }

    #[test]
    fn a_sandboxed_tool_gets_all_of_a_pipe_and_its_end() {
        let (_rest, mut write, InheritedStdin { its, .. }) = piped(b"");
        let text: Vec<u8> = (0..300_000_u32).map(|it| it as u8).collect();
        let mut read = Vec::new();
        thread::scope(|scope| {
            let sent = &text;
            scope.spawn(move || write.write_all(sent).expect("sent"));
            File::from(its).read_to_end(&mut read).expect("read");
        });
        assert!(read == text, "{} bytes", read.len());
    }

    #[test]
    fn a_sandboxed_tool_gets_a_pipe_in_place_of_a_socket() {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        let its = sandboxed(&own);
        assert_eq!(kind(&its), FileType::Fifo);
        let text: Vec<u8> = (0..300_000_u32).map(|it| it as u8).collect();
        let mut read = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.write_all(&text).expect("sent");
                peer.shutdown(Shutdown::Write).expect("closed");
            });
            File::from(its).read_to_end(&mut read).expect("read");
        });
        assert!(read == text, "{} bytes", read.len());
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert_eq!(kind(&sandboxed(&datagrams)), FileType::Fifo);
        let unconfined = for_tool(own.as_fd(), Sandbox::Off).expect("a stdin");
        assert_eq!(kind(&unconfined.its), FileType::Socket);
    }

    #[test]
    fn a_socket_is_not_read_after_the_tool_closed_its_stdin() {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        let its = sandboxed(&own);
        drop((own, its));
        // Only the thread holds the socket, and lets go of it.
        assert_eq!(peer.read(&mut [0]).expect("the end"), 0);
    }

    #[test]
    fn a_sandboxed_tool_gets_the_rest_of_a_file_and_not_the_file() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"one\ntwo\n").expect("written");
        file.seek(io::SeekFrom::Start(4)).expect("moved");
        let its = sandboxed(&file);
        assert_eq!(kind(&its), FileType::Fifo);
        let mut read = String::new();
        File::from(its).read_to_string(&mut read).expect("read");
        assert_eq!(read, "two\n");
        assert_eq!(file.stream_position().expect("a position"), 4);
    }

    #[test]
    fn a_sandboxed_tool_gets_a_terminal_and_not_its_master() {
        let mut master = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("one"));
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("opened");
        // A shell with a `<>/dev/ptmx` has another open master.
        let opened = File::options().read(true).write(true).open("/dev/ptmx").expect("a master");
        for master in [&master, &opened] {
            assert!(master.is_terminal());
            assert_eq!(kind(&sandboxed(master)), FileType::Fifo);
        }
        assert_eq!(kind(&sandboxed(&terminal)), FileType::CharacterDevice);
        let unconfined = for_tool(master.as_fd(), Sandbox::Off).expect("a stdin");
        assert_eq!(kind(&unconfined.its), FileType::CharacterDevice);
        // The tool still reads what the program on the terminal prints.
        let InheritedStdin { its, copied } =
            for_tool(master.as_fd(), Sandbox::Require).expect("a stdin");
        File::from(terminal.try_clone().expect("a copy")).write_all(b"said").expect("written");
        let (mut its, mut read) = (File::from(its), [0; 4]);
        its.read_exact(&mut read).expect("read");
        assert_eq!(&read, b"said");
        // Text for its own pipe goes nowhere else.
        let again = format!("/proc/self/fd/{}", its.as_raw_fd());
        let mut again = File::options().write(true).open(again).expect("its own pipe");
        again.write_all(b"typed\n").expect("written");
        drop(again);
        close(its, copied);
        master.write_all(b"x\n").expect("typed");
        let mut typed = [0; 16];
        let length = File::from(terminal).read(&mut typed).expect("read");
        assert_eq!(&typed[..length], b"x\n");
    }

    #[test]
    fn other_devices_than_terminals_are_copied() {
        let device = |name: &str| sandboxed(&File::open(name).expect("a device"));
        let mut nothing = Vec::new();
        let its = device("/dev/null");
        assert_eq!(kind(&its), FileType::Fifo);
        File::from(its).read_to_end(&mut nothing).expect("read");
        assert_eq!(nothing, b"");
        let mut zeros = [1; 3];
        let its = device("/dev/zero");
        assert_eq!(kind(&its), FileType::Fifo);
        File::from(its).read_exact(&mut zeros).expect("read");
        assert_eq!(zeros, [0; 3]);
    }
}
