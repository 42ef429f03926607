//! The modes that never end, write without end, or end badly.

use std::hint::black_box;

use wasip3::cli::{exit, stderr, stdout};
use wasip3::clocks::monotonic_clock::wait_for;
use wasip3::filesystem::types::DescriptorFlags;
use wasip3::random::random::get_random_bytes;
use wasip3::wit_bindgen::StreamWriter;
use wasip3::wit_stream;

use crate::waits::begin;
use crate::workspace::open;

/// An hour, in nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

const MODES: &[&str] = &[
    "fine",
    "spin",
    "sleep",
    "answer_then_hang",
    "recurse",
    "trap",
    "panic",
    "exit",
    "fail",
    "leave",
    "flood_stdout",
    "flood_stderr",
    "pour_stdout",
    "pour_stderr",
    "random_bomb",
];

/// Returns whether a mode is one of this module.
pub(crate) fn is_one(mode: &str) -> bool {
    MODES.contains(&mode)
}

/// Ends as the mode says. Returns the result of the component.
pub(crate) async fn end(mode: &str, path: &str) -> Result<(), ()> {
    match mode {
        "spin" => spin(),
        "sleep" => wait_for(HOUR).await,
        "answer_then_hang" => {
            answer("{\"answered\":true}").await;
            wait_for(HOUR).await;
        }
        "recurse" => drop(black_box(recurse(1))),
        "trap" => std::process::abort(),
        "panic" => panic!("as it was told to"),
        "exit" => {
            answer("half an answer").await;
            exit::exit(Err(()));
        }
        "fail" => {
            answer("half an answer").await;
            return Err(());
        }
        "leave" => leave().await,
        "flood_stdout" => {
            let (bytes, stream) = wit_stream::new();
            let _end = stdout::write_via_stream(stream);
            flood(bytes).await;
        }
        "flood_stderr" => return flood_stderr().await,
        "pour_stdout" => pour(path, true).await,
        "pour_stderr" => pour(path, false).await,
        "random_bomb" => {
            let drawn = black_box(get_random_bytes(1 << 40)).len();
            answer(&format!("{{\"drawn\":{drawn}}}")).await;
        }
        _ => answer("{\"fine\":true}").await,
    }
    Ok(())
}

fn spin() -> ! {
    loop {
        black_box(0);
    }
}

#[allow(unconditional_recursion, reason = "this is the attack")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth) + 1)) + 1
}

/// Ends while waits, a stream of stdin and a stream of stderr are open.
async fn leave() {
    let mut waits = Vec::new();
    for _ in 0..100 {
        waits.push(begin(wait_for(HOUR)).await);
    }
    let (mut bytes, stream) = wit_stream::new();
    let end = stderr::write_via_stream(stream);
    bytes.write_all(b"begun".to_vec()).await;
    answer("{\"left\":true}").await;
    // Dropping them would end them first.
    std::mem::forget((waits, bytes, end));
}

/// Writes without end.
async fn flood(mut bytes: StreamWriter<u8>) {
    while bytes.write_all(vec![b'y'; 64 << 10]).await.is_empty() {}
}

/// Writes 20 MiB to stderr, then a mark for its end, then an answer.
async fn flood_stderr() -> Result<(), ()> {
    let (mut bytes, stream) = wit_stream::new();
    let end = stderr::write_via_stream(stream);
    for _ in 0..320 {
        bytes.write_all(vec![b'y'; 64 << 10]).await;
    }
    bytes.write_all(b"the end".to_vec()).await;
    drop(bytes);
    let ended = end.await;
    answer("{\"flooded\":true}").await;
    if ended.is_ok() { Err(()) } else { Ok(()) }
}

/// Passes the stream of a file on to an output. No byte comes through the guest.
async fn pour(path: &str, to_stdout: bool) {
    let file = open(path, DescriptorFlags::READ).await.expect("opened");
    let (bytes, _read) = file.read_via_stream(0);
    let write = if to_stdout { stdout::write_via_stream } else { stderr::write_via_stream };
    let _ = write(bytes).await;
    answer("{\"poured\":true}").await;
}

/// Prints an answer through a stream of WASI 0.3.
async fn answer(text: &str) {
    let (mut bytes, stream) = wit_stream::new();
    let end = stdout::write_via_stream(stream);
    bytes.write_all(text.as_bytes().to_vec()).await;
    drop(bytes);
    // A guest that may not write has no way to report that.
    let _ = end.await;
}
