//! A guest that takes more than it may, never ends, or ends badly.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use ikigai_test_guests::{Attempts, Order, print};
use wasip2::cli::stdin::get_stdin;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::random::random::get_random_bytes;
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;

const SCHEMA: &str = r#"{"name":"greedy","description":"Takes more than it may","parameters":{
"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"spin","sleep","read_all","open","memory","small_memory","recurse","flood_stdout","flood_stderr","pollables","bad_utf8","long_line","deep_json","two_values","answer_then_hang","trap","exit_7",
"panic","echo_args","random_bomb","read_bomb","copy_bomb","write_bomb","orphan","fine"]}}}}"#;

fn main() {
    let order = Order::read(SCHEMA);
    match order.mode.as_str() {
        "spin" => spin(),
        "sleep" => std::thread::sleep(Duration::from_secs(60)),
        "read_all" => drop(io::stdin().read_to_end(&mut Vec::new())),
        "open" => open(&order.path),
        "memory" => memory(16 << 20),
        "small_memory" => memory(1 << 10),
        "recurse" => drop(black_box(recurse(1))),
        "flood_stdout" => flood(io::stdout()),
        "flood_stderr" => flood_stderr(),
        "pollables" => pollables(),
        "orphan" => orphan(),
        "bad_utf8" => drop(io::stdout().write_all(b"{\"text\":\"\xff\xfe\"}")),
        "long_line" => print(&format!("\"{}\"", "x".repeat(10_000_000))),
        "deep_json" => print(&("[".repeat(100_000) + &"]".repeat(100_000))),
        "two_values" => print("{} {}"),
        "answer_then_hang" => {
            print("{\"answered\":true}");
            spin();
        }
        "trap" => std::process::abort(),
        "exit_7" => {
            print("half an answer");
            std::process::exit(7);
        }
        "panic" => panic!("as it was told to"),
        "echo_args" => print(&format!("{:?}", std::env::args().skip(2).collect::<Vec<_>>())),
        "random_bomb" => drop(black_box(get_random_bytes(1 << 40))),
        "read_bomb" => drop(black_box(get_stdin().blocking_read(1 << 40))),
        "copy_bomb" => drop(resolve_addresses(&instance_network(), &"a".repeat(100 << 20))),
        "write_bomb" => drop(get_stdout().write(&vec![b'y'; 32 << 20])),
        "fine" => print("{\"fine\":true}"),
        other => print(&format!("{{\"error\":\"there is no mode '{other}'\"}}")),
    }
}

fn spin() -> ! {
    loop {
        black_box(0);
    }
}

fn open(path: &str) {
    let mut attempts = Attempts::default();
    attempts.note(path, File::open(path));
    attempts.print();
}

/// Takes memory and writes to it, so that it is really resident.
fn memory(piece: usize) {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; piece]));
    }
}

#[allow(unconditional_recursion, reason = "this is the attack")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth) + 1)) + 1
}

fn flood(mut stream: impl io::Write) {
    let piece = vec![b'y'; 64 << 10];
    while stream.write_all(&piece).is_ok() {}
}

/// Writes 20 MiB to stderr, then a mark for its end, then an answer.
fn flood_stderr() {
    let mut stderr = io::stderr();
    for _ in 0..320 {
        let _ = stderr.write_all(&[b'y'; 64 << 10]);
    }
    let _ = stderr.write_all(b"the end");
    print("{\"flooded\":true}");
    std::process::exit(3);
}

/// Creates clocks that are never waited for. Each one is a handle.
fn pollables() {
    let mut taken = Vec::new();
    for _ in 0..1_000_000 {
        taken.push(subscribe_duration(1_000_000_000_000));
    }
    print(&format!("{{\"taken\":{}}}", taken.len()));
}

/// Drops a stream while something waits for it.
fn orphan() {
    let stream = get_stdin();
    let waits = stream.subscribe();
    drop(stream);
    drop(waits);
}
