//! The modes that use the streams of files, of directories and of stdin in dishonest ways: begun and
//! kept, dropped, cancelled, or without an end.

use std::pin::pin;

use ikigai_test_guests::Attempts;
use wasip3::cli::stdin;
use wasip3::filesystem::types::{Descriptor, DescriptorFlags, DirectoryEntry, ErrorCode};
use wasip3::wit_bindgen::{FutureReader, StreamReader, StreamResult, yield_async};
use wasip3::wit_stream;

use crate::waits::{begin, poll_once};
use crate::workspace::{name, open};

/// The number of streams of each kind that are begun and dropped.
const DROPPED: usize = 30_000;

/// The room for bytes of one read.
const PIECE: usize = 64 << 10;

/// The turns after which the host has reported the end of a stream that it refused.
const TURNS: usize = 4;

type End = FutureReader<Result<(), ErrorCode>>;

async fn opened(path: &str, access: DescriptorFlags) -> Descriptor {
    open(path, access).await.expect("opened")
}

/// Reads a file to its end, and keeps the bytes.
pub(crate) async fn collect(attempts: &mut Attempts, path: &str) {
    let (bytes, end) = opened(path, DescriptorFlags::READ).await.read_via_stream(0);
    let kept = bytes.collect().await;
    attempts.observe("kept", &kept.len().to_string());
    attempts.note("end", end.await.map_err(name));
}

/// Reads a file to its end, and counts the bytes.
pub(crate) async fn sum(attempts: &mut Attempts, path: &str) {
    let (mut bytes, end) = opened(path, DescriptorFlags::READ).await.read_via_stream(0);
    let mut count = 0_u64;
    let mut room = Vec::with_capacity(PIECE);
    loop {
        room.clear();
        let (result, read) = bytes.read(room).await;
        room = read;
        match result {
            StreamResult::Complete(more) => count += more as u64,
            _ => break,
        }
    }
    attempts.observe("read", &count.to_string());
    attempts.note("end", end.await.map_err(name));
}

/// Writes to a file without end.
pub(crate) async fn write_on(path: &str) {
    let file = opened(path, DescriptorFlags::WRITE).await;
    let (mut bytes, stream) = wit_stream::new();
    let _end = file.write_via_stream(stream, 0);
    while bytes.write_all(vec![b'y'; 256]).await.is_empty() {}
}

/// Makes streams of each kind until the host refuses one, and drops them all; then once more. The
/// paths lead to a file and to a directory.
pub(crate) async fn keep(attempts: &mut Attempts, paths: &str) {
    let (file, dir) = paths.split_once(' ').expect("two paths");
    let read = opened(file, DescriptorFlags::READ).await;
    let write = opened(file, DescriptorFlags::WRITE).await;
    let dir = opened(dir, DescriptorFlags::READ).await;
    for round in ["first", "again"] {
        let mut observe = |kind: &str, (count, refused): (usize, ErrorCode)| {
            attempts.observe(&format!("{kind} {round}"), &format!("{count} {}", name(refused)));
        };
        observe("unread", hoard(async || read.read_via_stream(0)).await);
        observe("listed", hoard(async || begun_listing(&dir).await).await);
        observe("unlisted", hoard(async || dir.read_directory()).await);
        let writing = async || {
            let (writer, stream) = wit_stream::new::<u8>();
            (writer, write.write_via_stream(stream, 0))
        };
        observe("unwritten", hoard(writing).await);
        let appending = async || {
            let (writer, stream) = wit_stream::new::<u8>();
            (writer, write.append_via_stream(stream))
        };
        observe("unappended", hoard(appending).await);
    }
}

/// Returns the stream of a directory after the first entry.
async fn begun_listing(dir: &Descriptor) -> (StreamReader<DirectoryEntry>, End) {
    let (mut entries, end) = dir.read_directory();
    // A refused stream ends before the first entry.
    let _ = entries.next().await;
    (entries, end)
}

/// Makes streams until one has ended at once. Returns their number, and the reason of that end.
async fn hoard<S>(mut make: impl AsyncFnMut() -> (S, End)) -> (usize, ErrorCode) {
    let mut kept = Vec::new();
    loop {
        let (stream, end) = make().await;
        let mut end = Box::pin(end.into_future());
        for _ in 0..TURNS {
            match poll_once(end.as_mut()).await {
                Some(Err(refused)) => return (kept.len(), refused),
                Some(Ok(())) => break,
                None => yield_async().await,
            }
        }
        kept.push((stream, end));
    }
}

/// Begins streams and drops them, with and without bytes on their way, and without a turn for the
/// host in between. Then reads the file, and counts the entries of the directory.
pub(crate) async fn drop_all(attempts: &mut Attempts, paths: &str) {
    let (path, dir) = paths.split_once(' ').expect("two paths");
    let file = opened(path, DescriptorFlags::READ | DescriptorFlags::WRITE).await;
    let dir = opened(dir, DescriptorFlags::READ).await;
    let mut granted = 0;
    for number in 0..DROPPED {
        // The end is dropped before its stream, or after it.
        let (bytes, end) = file.read_via_stream(0);
        match number % 2 {
            0 => drop((bytes, end)),
            _ => drop((end, bytes)),
        }
        drop(dir.read_directory());
        let (writer, stream) = wit_stream::new::<u8>();
        let end = file.write_via_stream(stream, u64::MAX);
        match number % 2 {
            0 => drop((writer, end)),
            _ => drop((end, writer)),
        }
        // The host refuses to read a directory as a file. The guest drops the error, too.
        drop(dir.read_via_stream(0));
        if number % 1_000 == 0 {
            let (mut bytes, end) = file.read_via_stream(0);
            granted += usize::from(bytes.next().await.is_some());
            drop(end);
        }
    }
    attempts.observe("granted", &granted.to_string());
    let (entries, end) = dir.read_directory();
    attempts.observe("entries", &entries.collect().await.len().to_string());
    attempts.note("end", end.await.map_err(name));
}

/// Reads a file, in which each byte is its place modulo 251. Each read is cancelled as soon as it has
/// begun. No byte may be lost or come twice.
pub(crate) async fn cancel(attempts: &mut Attempts, path: &str) {
    let file = opened(path, DescriptorFlags::READ).await;
    let (mut bytes, end) = file.read_via_stream(0);
    let (mut place, mut cancelled) = (0_usize, 0_usize);
    let mut wrong = None;
    loop {
        let mut read = pin!(bytes.read(Vec::with_capacity(100)));
        let (result, found) = match poll_once(read.as_mut()).await {
            Some(done) => done,
            None => {
                cancelled += 1;
                read.as_mut().cancel()
            }
        };
        for byte in found {
            if usize::from(byte) != place % 251 {
                wrong.get_or_insert(place);
            }
            place += 1;
        }
        if result == StreamResult::Dropped {
            break;
        }
    }
    attempts.observe("bytes", &place.to_string());
    attempts.observe("wrong", &wrong.map_or("none".to_owned(), |place| place.to_string()));
    // How many reads wait is up to the host.
    attempts.observe("cancelled", &cancelled.to_string());
    attempts.note("end", end.await.map_err(name));
}

/// Begins to read stdin, on which nothing comes, and cancels or drops the read.
pub(crate) async fn cancel_stdin(attempts: &mut Attempts) {
    let (mut bytes, end) = stdin::read_via_stream();
    for round in 0..100 {
        let mut read = pin!(bytes.read(Vec::with_capacity(100)));
        if let Some(done) = poll_once(read.as_mut()).await {
            return attempts.observe("ended", &format!("{done:?}"));
        }
        if round % 2 == 0 {
            let (result, found) = read.as_mut().cancel();
            if (result, found.len()) != (StreamResult::Cancelled, 0) {
                return attempts.observe("cancelled", &format!("{result:?} {}", found.len()));
            }
        }
    }
    let waits = begin(end.into_future()).await.is_pending();
    attempts.observe("waits", &waits.to_string());
}

/// Keeps the ends of streams, which the host made, and drops the streams.
pub(crate) async fn keep_futures(dir: &str) {
    let dir = opened(dir, DescriptorFlags::READ).await;
    let mut kept: Vec<End> = Vec::new();
    for _ in 0..1_000_000 {
        let (bytes, end) = dir.read_via_stream(0);
        drop(bytes);
        kept.push(end);
    }
    drop(kept);
}
