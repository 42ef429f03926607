//! Components whose compilation would never end. It is stopped once at its limits, and every
//! command continues.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Instant;

use ikigai_host::Digest;
use ikigai_tests::component::{Ending, heavy, nested, printing};
use ikigai_tests::host::{Host, Ran, schema};
use ikigai_tests::paths;

use super::{HOST_ALONE, IN_TIME, within_means};

/// Returns a component with ten to the power of eight core instances, in a thousand bytes.
fn bomb() -> Vec<u8> {
    let bomb = nested(100, 4);
    assert!(bomb.len() < 2_000, "{} bytes", bomb.len());
    bomb
}

#[test]
fn a_compilation_without_end_is_ended_once_and_holds_up_nothing() {
    for host in [Host::without_system_tools(), Host::without_system_tools().as_nobody()] {
        host.program("good.wasm", printing(schema("good"), Ending::Well));
        host.program("bomb.wasm", bomb());
        let begun = Instant::now();
        let first = list(&host);
        assert!(begun.elapsed() < IN_TIME, "took {:?}\n{first}", begun.elapsed());
        assert!(first.stderr().contains("compiling bomb.wasm"), "{first}");
        for text in ["bomb.wasm", "was not compiled", "MiB of memory", "the limit for"] {
            let said = first.stdout() + &first.stderr();
            // The position of line breaks does not matter.
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(text), "`{text}`\n{first}");
        }
        // Every command that discovers tools remembers the failure.
        for args in
            [&["tool", "list"][..], &["doctor"], &["policy", "show"], &["tool", "call", "good"]]
        {
            let ran = within_means(&host, args).wait_within(HOST_ALONE);
            assert!(!ran.stderr().contains("compiling"), "{args:?}\n{ran}");
        }
        // A changed file is compiled.
        host.program("bomb.wasm", printing(schema("bomb"), Ending::Well));
        let ran = list(&host);
        assert!(ran.stdout().contains("bomb"), "{ran}");
        host.assert_nothing_left();
    }
}

#[track_caller]
fn list(host: &Host) -> Ran {
    let ran = within_means(host, &["tool", "list", "--all"]);
    let ran = ran.wait_within(HOST_ALONE).expect_code(0);
    assert!(ran.stdout().contains("good"), "{ran}");
    ran
}

#[test]
fn a_file_that_is_named_is_refused_with_what_to_do() {
    let host = Host::without_system_tools();
    let path = host.write("bomb.wasm", bomb(), 0o644);
    let path = path.to_str().expect("UTF-8");
    let ran = within_means(&host, &["tool", "run", path]).wait_within(HOST_ALONE);
    let ran = ran.expect_code(126);
    assert!(ran.stderr().contains("split it into smaller tools"), "{ran}");
    host.assert_nothing_left();
}

/// Runs the compiler directly, because exhausting even a host's lowest limits would take a minute.
#[test]
fn every_limit_of_a_compilation_is_kept() {
    /// A limit that is not reached.
    const MUCH: u64 = 4 << 30;
    let host = Host::without_system_tools();
    let heavy = heavy(&schema("heavy"), 60_000);
    let source = host.write("heavy.wasm", &heavy, 0o644);
    let compile = |digest: &str, processor: u64, memory: u64, code: u64| {
        let mut command = host.command_of(paths::compiler());
        command
            .args(["optimised", digest])
            .args([processor, memory, code].map(|limit| limit.to_string()))
            .arg(std::process::id().to_string())
            .stdin(Stdio::from(File::open(&source).expect("there")))
            .stdout(Stdio::from(tempfile::tempfile().expect("a file")));
        let output = command.output().expect("run");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let digest = Digest::from_bytes(&heavy).to_string();
    let (status, said) = compile(&digest, 1, MUCH, MUCH);
    assert_eq!(status.signal(), Some(libc::SIGXCPU), "{status} {said}");
    let (status, said) = compile(&digest, 600, 128 << 20, MUCH);
    let is_memory = status.code() == Some(12)
        || status.signal() == Some(libc::SIGABRT) && said.contains("memory allocation");
    assert!(is_memory, "{status} {said}");
    // The size of the code is known only after the compilation, so the component is a small one.
    let small = printing(schema("small"), Ending::Well);
    host.write("heavy.wasm", &small, 0o644);
    let (status, said) = compile(&Digest::from_bytes(&small).to_string(), 600, MUCH, 4096);
    assert!(status.code() == Some(13) || status.signal() == Some(libc::SIGXFSZ), "{status} {said}");
    let (status, said) = compile(&Digest::from_bytes(b"another").to_string(), 600, MUCH, MUCH);
    assert_eq!((status.code(), said.as_str()), (Some(11), "the file has changed; scan again"));
    host.assert_nothing_left();
}
