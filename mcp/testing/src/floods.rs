//! Floods of the two outputs. They end with the reader, and at the latest after [`BOUND`] bytes, so
//! that a client that stores everything fails before the machine does.

use std::io::{self, Write as _};
use std::thread;

use crate::definition::Stream;

/// The size of one flood in bytes.
const BOUND: usize = 256 << 20;

/// The size of one write in bytes.
const PIECE: usize = 64 << 10;

/// Floods an output. A flood of stdout never returns, so the output stays locked.
pub(crate) fn start(stream: Stream) {
    match stream {
        Stream::Stdout => {
            let mut stdout = io::stdout().lock();
            let piece = vec![b'x'; PIECE];
            write(&piece, |piece| stdout.write_all(piece).and_then(|()| stdout.flush()));
            rest()
        }
        Stream::Stderr => {
            thread::spawn(|| {
                let mut piece = b"noise ".repeat(PIECE / 6);
                piece.push(b'\n');
                write(&piece, |piece| io::stderr().write_all(piece));
            });
        }
    }
}

/// Never returns.
pub(crate) fn rest() -> ! {
    loop {
        thread::park();
    }
}

fn write(piece: &[u8], mut write: impl FnMut(&[u8]) -> io::Result<()>) {
    for _ in 0..BOUND / PIECE {
        // The reader has gone.
        if write(piece).is_err() {
            return;
        }
    }
}
