//! Core modules that try what no program of a compiler tries, against the functions of the host.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ikigai_protocol::{Access, GrantedDir};

use crate::exec::wasm::{GuestProgram, Runtime, Tier};
use crate::exec::{Call, Executor as _, Exit, Outcome};
use crate::limits::{CallLimits, Limit};
use crate::policy::{Grant, Hide};

/// Imports of the functions that the tests call.
const IMPORTS: &[(&str, &str)] = &[
    ("fd_close", "i32"),
    ("fd_fdstat_get", "i32 i32"),
    ("fd_prestat_get", "i32 i32"),
    ("fd_read", "i32 i32 i32 i32"),
    ("fd_readdir", "i32 i32 i32 i64 i32"),
    ("fd_renumber", "i32 i32"),
    ("fd_seek", "i32 i64 i32 i32"),
    ("fd_tell", "i32 i32"),
    ("fd_write", "i32 i32 i32 i32"),
    ("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
    ("poll_oneoff", "i32 i32 i32 i32"),
    ("random_get", "i32 i32"),
];

/// Returns a module whose `_start` has this body. `pages` is the size of its memory.
fn module(pages: u32, more: &str, body: &str) -> String {
    let mut imports = String::new();
    for (name, parameters) in IMPORTS {
        // Writing to a string cannot fail.
        let _ = writeln!(
            imports,
            "(import \"wasi_snapshot_preview1\" \"{name}\" \
             (func ${name} (param {parameters}) (result i32)))"
        );
    }
    format!(
        r#"(module {imports}
            (memory (export "memory") {pages})
            (func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))
            (func $say (param i32 i32)
                (i32.store (i32.const 0) (local.get 0))
                (i32.store (i32.const 4) (local.get 1))
                (call $is (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
                    (i32.const 0)))
            {more}
            (func $main (export "_start") {body}))"#
    )
}

fn compiled_to(text: &str, tier: Tier) -> GuestProgram {
    let runtime = Runtime::new(1, u64::MAX).expect("a runtime");
    let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    runtime.compile_here_to(&bytes, tier).expect("compiled")
}

fn compiled(text: &str) -> GuestProgram {
    compiled_to(text, Tier::Optimised)
}

async fn run_in(dir: Option<&Path>, hide: &[&str], limits: CallLimits, text: &str) -> Outcome {
    let mut call = Call::new(dir.unwrap_or(Path::new("/")));
    if let Some(dir) = dir {
        let mut grant = Grant::clone(&call.grant);
        grant.dirs.push(GrantedDir { access: Access::ReadWrite, path: dir.to_owned() });
        grant.hide = Hide::parse(hide.iter().copied()).expect("patterns");
        call.grant = Arc::new(grant);
    }
    compiled(text).run(Call { limits, ..call }).await
}

async fn run(text: &str) -> Outcome {
    run_in(None, &[], CallLimits::default(), text).await
}

/// The allocator of Go believes that all memory above the data is its own, and that memory grows
/// only when it asks.
#[tokio::test]
async fn the_host_writes_where_the_module_asked_and_takes_no_page() {
    let body = r#"
        (local $at i32)
        (memory.fill (i32.const 64) (i32.const 0xaa) (i32.const 131008))
        (call $say (i32.const 64) (i32.const 4))
        (call $is (call $random_get (i32.const 64) (i32.const 8)) (i32.const 0))
        (call $is (call $fd_fdstat_get (i32.const 1) (i32.const 72)) (i32.const 0))
        (call $is (call $fd_prestat_get (i32.const 3) (i32.const 96)) (i32.const 8))
        (call $is (memory.size) (i32.const 2))
        (local.set $at (i32.const 96))
        (loop $next
            (call $is (i32.load8_u (local.get $at)) (i32.const 0xaa))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $at) (i32.const 131072))))"#;
    let ran = run(&module(2, "", body)).await;
    assert_eq!((&ran.exit, &ran.stdout.bytes[..]), (&Exit::Code(0), &[0xaa; 4][..]), "{ran:?}");
    assert_eq!(ran.usage.peak_memory, Some(2 << 16), "{ran:?}");
}

#[tokio::test]
async fn an_address_outside_of_its_memory_ends_a_module() {
    for call in [
        "(call $fd_write (i32.const 1) (i32.const -8) (i32.const 1) (i32.const 8))",
        "(call $fd_write (i32.const 1) (i32.const 65535) (i32.const 1) (i32.const 8))",
        "(call $fd_read (i32.const 0) (i32.const 65528) (i32.const 2) (i32.const 8))",
        "(call $random_get (i32.const 65535) (i32.const 2))",
        "(call $random_get (i32.const 0) (i32.const -1))",
        "(call $fd_fdstat_get (i32.const 1) (i32.const 65520))",
        "(call $poll_oneoff (i32.const 65500) (i32.const 0) (i32.const 1) (i32.const 8))",
        "(call $path_open (i32.const 3) (i32.const 0) (i32.const 65530) (i32.const 10)
            (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8))",
        "(call $fd_readdir (i32.const 3) (i32.const 65530) (i32.const 100) (i64.const 0)
            (i32.const 8))",
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        let text = module(1, "", &format!("(drop {call})"));
        let ran = run_in(Some(&root), &[], CallLimits::default(), &text).await;
        let Exit::Trap(reason) = &ran.exit else { panic!("{call}: {ran:?}") };
        assert!(reason.contains("outside of its memory"), "{call}: {ran:?}");
    }
}

#[tokio::test]
async fn the_start_function_of_a_module_may_write() {
    let more = r#"(data (i32.const 64) "begun") (start $begin)
        (func $begin (call $say (i32.const 64) (i32.const 5)))"#;
    let ran = run(&module(1, more, "")).await;
    assert_eq!((&ran.exit, &ran.stdout.bytes[..]), (&Exit::Code(0), &b"begun"[..]), "{ran:?}");
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_code_of_both_tiers_calls_the_host() {
    let body = "(call $say (i32.const 64) (i32.const 4)) (call $main)";
    let text = module(1, r#"(data (i32.const 64) "more")"#, body);
    for tier in [Tier::Baseline, Tier::Optimised] {
        let limits = CallLimits { output: 10_000, ..CallLimits::default() };
        let call = Call { limits, ..Call::new(Path::new("/")) };
        let ran = compiled_to(&text, tier).run(call).await;
        assert_eq!(ran.limit, Some(Limit::Output), "{tier:?}: {ran:?}");
        assert!(ran.stdout.bytes.starts_with(b"moremore"), "{tier:?}: {ran:?}");
    }
}

#[tokio::test]
async fn limits_end_a_core_module() {
    let deep = "(func $deep (param i32) (result i32)
        (i32.add (call $deep (local.get 0)) (i32.const 1)))";
    let grow = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        unreachable";
    let fuel = CallLimits { fuel: 1_000_000, ..CallLimits::default() };
    let memory = CallLimits { wasm_memory: 1 << 20, ..CallLimits::default() };
    let plain = CallLimits::default();
    for (limits, more, body, limit) in [
        (fuel, "", "(loop $again (br $again))", Some(Limit::Fuel)),
        (memory, "", grow, Some(Limit::Memory)),
        (plain, deep, "(drop (call $deep (i32.const 1)))", None),
        (memory, "(table 60000 funcref) (table 60000 funcref)", grow, Some(Limit::Memory)),
    ] {
        let ran = run_in(None, &[], limits, &module(1, more, body)).await;
        assert_eq!(ran.limit, limit, "{body}: {ran:?}");
        assert!(matches!(ran.exit, Exit::Trap(_)), "{body}: {ran:?}");
    }
}

/// Each call is one long piece of work of the host, or a wait without an end.
#[tokio::test]
async fn a_deadline_ends_long_work_of_the_host() {
    const LATE: Duration = Duration::from_millis(300);
    // 1,024 buffers, each of which is the whole memory of 64 MiB.
    let buffers = "(local $at i32)
        (loop $next
            (i32.store (i32.add (i32.const 1024) (local.get $at)) (i32.const 0))
            (i32.store (i32.add (i32.const 1028) (local.get $at)) (i32.const 0x4000000))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $next (i32.lt_u (local.get $at) (i32.const 8192))))";
    let never = "(i32.store8 (i32.const 2056) (i32.const 0))
        (i32.store (i32.const 2064) (i32.const 1))
        (i64.store (i32.const 2072) (i64.const -1))";
    let works = [
        (
            1024,
            format!(
                "{buffers} (drop (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 1024) (i32.const 8)))"
            ),
        ),
        (16_384, "(drop (call $random_get (i32.const 0) (i32.const 0x3fffffff)))".to_owned()),
        (
            1,
            format!(
                "{never} (drop (call $poll_oneoff (i32.const 2048) (i32.const 4096) (i32.const 1) (i32.const 8)))"
            ),
        ),
    ];
    for (pages, body) in works {
        let body = format!("{body} (loop $again (br $again))");
        let limits = CallLimits { wall_clock: LATE, wasm_memory: 2 << 30, ..CallLimits::default() };
        let begun = Instant::now();
        let ran = run_in(None, &[], limits, &module(pages, "", &body)).await;
        assert_eq!(ran.limit, Some(Limit::WallClock), "{body}: {:?}", ran.exit);
        assert!(begun.elapsed() < 20 * LATE, "{body}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn events_that_have_happened_are_told_and_too_many_are_refused() {
    // stdin, a closed descriptor, and a clock that is late.
    let body = r#"
        (call $is (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 0) (i32.const 8))
            (i32.const 28))
        (call $is (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 1025) (i32.const 8))
            (i32.const 28))
        (i64.store (i32.const 1024) (i64.const 11))
        (i32.store8 (i32.const 1032) (i32.const 1))
        (i64.store (i32.const 1072) (i64.const 12))
        (i32.store8 (i32.const 1080) (i32.const 2))
        (i32.store (i32.const 1088) (i32.const 77))
        (i64.store (i32.const 1120) (i64.const 13))
        (i32.store (i32.const 1136) (i32.const 1))
        (i64.store (i32.const 1144) (i64.const 3600000000000))
        (call $is (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 3) (i32.const 8))
            (i32.const 0))
        (call $is (i32.load (i32.const 8)) (i32.const 2))
        (call $is (i32.load (i32.const 2048)) (i32.const 11))
        (call $is (i32.load16_u (i32.const 2056)) (i32.const 0))
        (call $is (i32.load8_u (i32.const 2058)) (i32.const 1))
        (call $is (i32.load (i32.const 2080)) (i32.const 12))
        (call $is (i32.load16_u (i32.const 2088)) (i32.const 8))
        (call $is (i32.load8_u (i32.const 2090)) (i32.const 2))"#;
    let ran = run(&module(1, "", body)).await;
    assert_eq!(ran.exit, Exit::Code(0), "{ran:?}");
}

/// Returns the body that opens `name`, at 64, and leaves the descriptor at 16.
fn opening(length: usize, flags: u32, rights: u32, descriptor_flags: u32) -> String {
    format!(
        "(call $is (call $path_open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const {length})
            (i32.const {flags}) (i64.const {rights}) (i64.const 0) (i32.const {descriptor_flags})
            (i32.const 16)) (i32.const 0))"
    )
}

#[tokio::test]
async fn a_file_is_written_read_and_moved_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a path");
    let write = |at: u32, length: u32| {
        format!(
            "(i32.store (i32.const 0) (i32.const {at})) (i32.store (i32.const 4) (i32.const {length}))
             (call $is (call $fd_write (i32.load (i32.const 16)) (i32.const 0) (i32.const 1)
                (i32.const 8)) (i32.const 0))
             (call $is (i32.load (i32.const 8)) (i32.const {length}))"
        )
    };
    let seek = |offset: i64, whence: u32, errno: u32| {
        format!(
            "(call $is (call $fd_seek (i32.load (i32.const 16)) (i64.const {offset})
                (i32.const {whence}) (i32.const 24)) (i32.const {errno}))"
        )
    };
    let close = "(call $is (call $fd_close (i32.load (i32.const 16))) (i32.const 0))
        (call $is (call $fd_close (i32.load (i32.const 16))) (i32.const 8))";
    let (create, write_right, read_right, append) = (1, 0x40 | 0x2, 0x2, 1);
    let body = [
        &opening(4, create, write_right, 0),
        &write(64, 4)[..],
        &seek(-2, 1, 0),
        &write(68, 2),
        &seek(-7, 2, 28),
        &seek(0, 9, 28),
        close,
        // Appended wherever the position is.
        &opening(4, 0, write_right, append),
        &seek(0, 0, 0),
        &write(64, 1),
        "(call $is (call $fd_tell (i32.load (i32.const 16)) (i32.const 24)) (i32.const 0))
         (call $is (i32.load (i32.const 24)) (i32.const 5))",
        close,
        &opening(4, 0, read_right, 0),
        "(i32.store (i32.const 0) (i32.const 128)) (i32.store (i32.const 4) (i32.const 3))
         (i32.store (i32.const 8) (i32.const 140)) (i32.store (i32.const 12) (i32.const 100))
         (call $is (call $fd_read (i32.load (i32.const 16)) (i32.const 0) (i32.const 2)
            (i32.const 32)) (i32.const 0))
         (call $say (i32.const 128) (i32.const 3))
         (call $say (i32.const 140) (i32.sub (i32.load (i32.const 32)) (i32.const 3)))
         (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 1))
         (call $is (call $fd_write (i32.load (i32.const 16)) (i32.const 0) (i32.const 1)
            (i32.const 8)) (i32.const 8))",
    ]
    .concat();
    let text = module(1, "(data (i32.const 64) \"fileXY\")", &body);
    let ran = run_in(Some(&root), &[], CallLimits::default(), &text).await;
    assert_eq!((&ran.exit, &ran.stdout.bytes[..]), (&Exit::Code(0), &b"fiXYf"[..]), "{ran:?}");
    assert_eq!(std::fs::read(root.join("file")).expect("a file"), b"fiXYf");
}

/// The numbers of closed descriptors are given again, the lowest first.
#[tokio::test]
async fn descriptors_are_renumbered_and_given_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a path");
    std::fs::write(root.join("file"), "x").expect("written");
    let body = [
        "(call $is (call $fd_close (i32.const 0)) (i32.const 0))".to_owned(),
        opening(4, 0, 2, 0),
        // The first free number is that of stdin.
        "(call $is (i32.load (i32.const 16)) (i32.const 0))
         (call $is (call $fd_renumber (i32.const 0) (i32.const 2)) (i32.const 0))
         (call $is (call $fd_tell (i32.const 0) (i32.const 24)) (i32.const 8))
         (call $is (call $fd_tell (i32.const 2) (i32.const 24)) (i32.const 0))
         (call $is (call $fd_tell (i32.const 1) (i32.const 24)) (i32.const 70))
         (call $is (call $fd_renumber (i32.const 0) (i32.const 2)) (i32.const 8))
         (call $is (call $fd_renumber (i32.const 2) (i32.const 99)) (i32.const 8))
         (call $is (call $fd_renumber (i32.const 2) (i32.const 2)) (i32.const 0))"
            .to_owned(),
    ]
    .concat();
    let text = module(1, "(data (i32.const 64) \"file\")", &body);
    let ran = run_in(Some(&root), &[], CallLimits::default(), &text).await;
    assert_eq!(ran.exit, Exit::Code(0), "{ran:?}");
}

/// A buffer of any size gives the same entries, and none that is hidden.
#[tokio::test]
async fn a_directory_is_listed_in_pieces_without_hidden_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a path");
    for index in 0..20 {
        std::fs::write(root.join(format!("file-{index:02}")), "").expect("written");
        std::fs::write(root.join(format!("key-{index:02}.pem")), "").expect("written");
    }
    // Writes the name of each entry that is complete, and goes on from the last one.
    let body = |size: u32| {
        format!(
            r#"(local $at i32) (local $end i32) (local $cookie i64) (local $name i32) (local $read i32)
            (loop $more
                (call $is (call $fd_readdir (i32.const 3) (i32.const 4096) (i32.const {size})
                    (local.get $cookie) (i32.const 16)) (i32.const 0))
                (local.set $at (i32.const 4096))
                (local.set $read (i32.load (i32.const 16)))
                (local.set $end (i32.add (i32.const 4096) (local.get $read)))
                (block $cut (loop $next
                    (br_if $cut (i32.gt_u (i32.add (local.get $at) (i32.const 24)) (local.get $end)))
                    (local.set $name (i32.load offset=16 (local.get $at)))
                    (br_if $cut (i32.gt_u
                        (i32.add (i32.add (local.get $at) (i32.const 24)) (local.get $name))
                        (local.get $end)))
                    (local.set $cookie (i64.load (local.get $at)))
                    (call $say (i32.add (local.get $at) (i32.const 24)) (local.get $name))
                    (call $say (i32.const 64) (i32.const 1))
                    (local.set $at
                        (i32.add (i32.add (local.get $at) (i32.const 24)) (local.get $name)))
                    (br $next)))
                (br_if $more (i32.eq (local.get $read) (i32.const {size}))))"#
        )
    };
    let mut expected: Vec<_> = (0..20).map(|index| format!("file-{index:02}")).collect();
    expected.splice(0..0, [".".to_owned(), "..".to_owned()]);
    for size in [33, 64, 100, 4096] {
        let text = module(1, "(data (i32.const 64) \"\\n\")", &body(size));
        let ran = run_in(Some(&root), &["*.pem"], CallLimits::default(), &text).await;
        assert_eq!(ran.exit, Exit::Code(0), "{size}: {ran:?}");
        let listed = String::from_utf8(ran.stdout.bytes.clone()).expect("UTF-8");
        let mut listed: Vec<_> = listed.lines().map(str::to_owned).collect();
        listed.sort();
        assert_eq!(listed, expected, "{size}");
    }
}

/// One call reads the whole directory, and says so if it comes to its end.
#[tokio::test]
async fn a_deadline_ends_the_listing_of_a_large_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a path");
    for index in 0..3_000 {
        std::fs::write(root.join(format!("{index}")), "").expect("written");
    }
    let body = "(call $is (call $fd_readdir (i32.const 3) (i32.const 4096) (i32.const 0xf0000)
            (i64.const 0) (i32.const 16)) (i32.const 0))
        (call $say (i32.const 64) (i32.const 1))
        (loop $again (br $again))";
    let limits = CallLimits { wall_clock: Duration::from_millis(1), ..CallLimits::default() };
    let text = module(16, "(data (i32.const 64) \"\\n\")", body);
    let ran = run_in(Some(&root), &["*.pem"], limits, &text).await;
    assert_eq!(ran.limit, Some(Limit::WallClock), "{ran:?}");
    assert!(ran.stdout.bytes.is_empty(), "{ran:?}");
}
