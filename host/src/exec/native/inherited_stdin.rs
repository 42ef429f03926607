//! The host's own stdin, as a native tool gets it.
//!
//! A descriptor can do more than read. A socket of the host belongs to the host's network: a
//! program that has it can connect it again, send from it, or bind a name. By a descriptor of a
//! file, the file's owner can change its mode, its times and its attributes. So a sandboxed tool
//! gets the descriptor itself only if it is a pipe, a FIFO, a terminal or `/dev/null`. For anything
//! else it gets a pipe, into which a thread copies.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat, makedev};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::policy::Sandbox;

/// The size of a read: the capacity of a pipe, in bytes.
const CHUNK: usize = 64 << 10;

/// The numbers of `/dev/null` on Linux.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Returns the descriptor that a tool gets for the host's own stdin.
pub(super) fn open(sandbox: Sandbox) -> io::Result<OwnedFd> {
    for_tool(io::stdin().as_fd(), sandbox)
}

fn for_tool(stdin: BorrowedFd<'_>, sandbox: Sandbox) -> io::Result<OwnedFd> {
    let own = stdin.try_clone_to_owned()?;
    if sandbox == Sandbox::Off || may_be_given(&own)? {
        return Ok(own);
    }
    let (its, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from, to) = (File::from(own), File::from(write));
    thread::Builder::new().name("ikigai-stdin".to_owned()).spawn(move || {
        if let Err(error) = copy(from, to) {
            tracing::warn!(%error, "a tool's stdin broke");
        }
    })?;
    Ok(its)
}

/// Returns whether a sandboxed tool may have the descriptor.
fn may_be_given(stdin: &OwnedFd) -> io::Result<bool> {
    let stat = fstat(stdin)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        // The supervisor refuses the call because of a directory.
        FileType::Fifo | FileType::Directory => true,
        FileType::CharacterDevice => {
            let (major, minor) = NULL_DEVICE;
            stat.st_rdev == makedev(major, minor) || stdin.is_terminal()
        }
        _ => false,
    })
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
    use std::os::unix::net::UnixStream;

    use super::*;

    fn kind(descriptor: &OwnedFd) -> FileType {
        FileType::from_raw_mode(fstat(descriptor).expect("its metadata").st_mode)
    }

    fn sandboxed(stdin: &impl std::os::fd::AsFd) -> OwnedFd {
        for_tool(stdin.as_fd(), Sandbox::Require).expect("a stdin")
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
        assert_eq!(kind(&unconfined), FileType::Socket);
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
    fn other_devices_than_terminals_and_the_null_device_are_copied() {
        let device = |name: &str| sandboxed(&File::open(name).expect("a device"));
        assert_eq!(kind(&device("/dev/null")), FileType::CharacterDevice);
        let mut zeros = [1; 3];
        let its = device("/dev/zero");
        assert_eq!(kind(&its), FileType::Fifo);
        File::from(its).read_exact(&mut zeros).expect("read");
        assert_eq!(zeros, [0; 3]);
    }
}
