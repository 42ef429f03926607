//! A tool for the benchmarks that does one thing at a time. One source, which uses only `std`, is
//! built as a component and as a native executable.
//!
//! Without arguments the tool answers with its input, which shows the cost of the call itself. The
//! first argument selects another mode.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// The schema. `cargo xtask bench` writes another number into each copy of the component, so that a
/// hundred copies are a hundred tools.
const SCHEMA: &str = r#"{"name":"bench_tool_0000","description":"Answers with its arguments.","parameters":{"type":"object","properties":{"text":{"type":"string","description":"Anything."}}}}"#;

/// The time that a guest sleeps: long enough that all calls of a benchmark are in flight at once.
const SLEEP: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count = args.get(1).and_then(|count| count.parse().ok()).unwrap_or(1);
    let done = match args.first().map(String::as_str) {
        None => echo(),
        Some("--schema") => io::stdout().write_all(SCHEMA.as_bytes()),
        Some("stream") => io::copy(&mut io::stdin(), &mut io::stdout()).map(drop),
        Some("sleep") => {
            std::thread::sleep(SLEEP);
            Ok(())
        }
        Some("spin") => answer(spin(count)),
        Some("work") => answer(work(count)),
        Some(_) => return ExitCode::from(2),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the whole input, then writes it: the pattern of most tools.
fn echo() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    io::stdout().write_all(&input)
}

fn answer(number: u64) -> io::Result<()> {
    write!(io::stdout(), "{number}")
}

/// Runs a loop of arithmetic: the most instructions that fit into a second.
fn spin(rounds: u64) -> u64 {
    let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for round in 0..rounds {
        state = (state ^ (state >> 12)).wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(round);
    }
    state
}

/// Runs ordinary code: allocation, text, a map, a sort.
fn work(rounds: u64) -> u64 {
    let mut sum = 0_u64;
    for round in 0..rounds {
        let mut words: HashMap<String, u64> = HashMap::new();
        for index in 0..200_u64 {
            let word = format!("word-{}", index.wrapping_mul(round + 7) % 97);
            *words.entry(word).or_default() += index;
        }
        let mut sorted: Vec<(&String, &u64)> = words.iter().collect();
        sorted.sort();
        sum = sorted.iter().fold(sum, |sum, (word, count)| sum + word.len() as u64 + **count);
    }
    sum
}
