//! The mode `operations`: each operation is a byte of stdin, and takes its arguments from the bytes
//! after it. A fuzz target writes them.
//!
//! The operations share the handles, streams and ends that earlier ones have left. No operation
//! waits for long. The guest prints the beginning of everything that it has read.

mod choices;
mod files;
mod other;
mod streams;

use wasip3::cli::stdin;
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{Descriptor, DirectoryEntry, ErrorCode};
use wasip3::wit_bindgen::{FutureReader, StreamReader, StreamWriter};

/// The most operations of one run.
const MOST: usize = 256;

/// The most objects of one kind.
const MOST_KEPT: usize = 64;

/// The bytes that are printed of each text that was read.
const SHOWN: usize = 64;

/// Performs the operations on stdin.
pub(crate) async fn perform() {
    let (bytes, _end) = stdin::read_via_stream();
    let input = Input { bytes: bytes.collect().await, place: 0 };
    let handles = get_directories().into_iter().map(|(dir, _)| dir).collect();
    let mut actor = Actor { input, handles, ..Actor::default() };
    for _ in 0..MOST {
        let Some(operation) = actor.input.next() else { break };
        match operation % 40 {
            number @ 0..=15 => streams::perform(&mut actor, number).await,
            number @ 16..=31 => files::perform(&mut actor, number).await,
            number => other::perform(&mut actor, number).await,
        }
    }
    let seen = String::from_utf8_lossy(&actor.seen).into_owned();
    ikigai_test_guests::print(&seen);
}

/// The bytes that say what to do.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    place: usize,
}

impl Input {
    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.place).copied();
        self.place += 1;
        byte
    }

    /// Returns an argument, which is zero after the end.
    fn argument(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    /// Returns one of several values.
    fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::from(self.argument()) % from.len()].clone()
    }
}

/// The guest, with everything that it keeps.
#[derive(Default)]
struct Actor {
    input: Input,
    handles: Vec<Descriptor>,
    readers: Vec<StreamReader<u8>>,
    writers: Vec<StreamWriter<u8>>,
    listings: Vec<StreamReader<DirectoryEntry>>,
    ends: Vec<FutureReader<Result<(), ErrorCode>>>,
    seen: Vec<u8>,
}

impl Actor {
    /// Notes the beginning of a text that was read.
    fn see(&mut self, text: &[u8]) {
        self.seen.extend_from_slice(&text[..text.len().min(SHOWN)]);
        self.seen.push(b'\n');
    }
}

/// Returns the place of an object in a list, unless the list is empty.
fn pick<T>(input: &mut Input, of: &[T]) -> Option<usize> {
    let argument = usize::from(input.argument());
    (!of.is_empty()).then(|| argument % of.len())
}

/// Takes an object out of a list.
fn take<T>(input: &mut Input, of: &mut Vec<T>) -> Option<T> {
    pick(input, of).map(|place| of.swap_remove(place))
}

/// Keeps an object, if there is room for it.
fn keep<T>(of: &mut Vec<T>, object: T) {
    if of.len() < MOST_KEPT {
        of.push(object);
    }
}
