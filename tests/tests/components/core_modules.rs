//! Core modules of WASI preview 1 as tools. They may do what a component may do, under a
//! component's limits.

mod go;
mod limits;
mod refused;

use std::fs;
use std::os::unix::fs::symlink;

use ikigai_host::Digest;
use ikigai_tests::core_module::{STDIN, import, saying, tool};
use ikigai_tests::host::{Host, Ran, schema};
use serde_json::{Value, json};

/// Answers with its arguments.
const ECHO: &str = "(call $say (i32.const 65536) (call $read))";

/// Returns a host with the core module `tool`, which executes `body`.
fn host(imports: &str, body: &str) -> Host {
    let host = Host::without_system_tools();
    host.program("tool.wasm", tool(&schema("tool"), imports, body));
    host
}

#[track_caller]
fn call(host: &Host, arguments: &str) -> Ran {
    host.run(["tool", "call", "tool", arguments])
}

#[track_caller]
fn result(host: &Host, arguments: &str) -> Value {
    call(host, arguments).expect_code(0).json()["result"].clone()
}

#[test]
fn a_core_module_is_a_tool_like_any_other() {
    let host = host("", ECHO);
    let first = host.run(["tool", "list", "--json"]).expect_code(0);
    assert_eq!(first.json()["tools"][0]["name"], "tool", "{first}");
    assert!(first.stderr().contains("compiling tool.wasm (only the first time)"), "{first}");
    let arguments = json!({"text": "ein Löwe ✓", "number": 1});
    let ran = call(&host, &arguments.to_string()).expect_code(0);
    assert_eq!(ran.json()["result"], arguments, "{ran}");
    assert_eq!(ran.stderr(), "", "it is compiled once: {ran}");
    let path = host.user_tools().join("tool.wasm");
    let checked = host.run(["tool", "check", path.to_str().expect("UTF-8")]);
    let checked = checked.stdout();
    assert!(checked.contains("wasi_snapshot_preview1"), "{checked}");
    host.assert_nothing_left();
}

/// A tool's digest is the digest of its file. Grants and the cache use it.
#[test]
fn a_core_module_is_known_by_the_digest_of_its_file() {
    let host = host("", ECHO);
    call(&host, "{}").expect_code(0);
    let file = fs::read(host.user_tools().join("tool.wasm")).expect("read");
    let digest = Digest::from_bytes(&file).to_string();
    let shown = host.run(["tool", "show", "tool", "--json"]).expect_code(0);
    assert!(shown.stdout().contains(&digest), "{digest}\n{shown}");
    let engines = fs::read_dir(host.cache().join("components")).expect("a cache").flatten();
    let entries = engines.flat_map(|engine| fs::read_dir(engine.path()).expect("an engine"));
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let is_its = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(&digest);
    assert!(names.len() == 1 && names.iter().all(is_its), "{names:?}");
}

#[test]
fn arguments_and_stdin_of_a_run_reach_it() {
    let host = host(
        "",
        "(if (call $args_sizes_get (i32.const 32) (i32.const 36)) (then unreachable))
         (if (call $args_get (i32.const 40) (i32.const 1024)) (then unreachable))
         ;; All arguments lie one after the other, each with a zero at its end.
         (call $say (i32.const 1024) (i32.load (i32.const 36)))
         (call $say (i32.const 65536) (call $read))",
    );
    let path = host.user_tools().join("tool.wasm");
    let path = path.to_str().expect("UTF-8");
    let ran = host.run_with(["tool", "run", path, "one", "zwei ✓"], b"stdin").expect_code(0);
    assert!(ran.stdout().ends_with("\0one\0zwei ✓\0stdin"), "{ran}");
    let asked = host.run(["tool", "run", path, "--schema"]).expect_code(0);
    assert_eq!(asked.json()["name"], "tool", "{asked}");
}

#[test]
fn the_exit_code_and_stderr_are_reported() {
    let body = |code: u32| {
        format!(
            "(call $print)
             (i32.store (i32.const 0) (i32.const 20480))
             (i32.store (i32.const 4) (i32.const 4))
             (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
             (call $proc_exit (i32.const {code}))
             unreachable"
        )
    };
    let ended = host(&saying("null"), &body(0));
    assert_eq!(result(&ended, "{}"), Value::Null);
    let failed = host(&saying("null"), &body(7));
    let envelope = call(&failed, "{}").expect_code(1).json();
    assert_eq!(envelope["error_code"], "TOOL_CRASHED", "{envelope}");
    assert_eq!(
        (&envelope["exit_code"], &envelope["stdout"], &envelope["stderr"]),
        (&json!(7), &json!("null"), &json!("null"))
    );
    // A process has codes up to 255, and none of them but 0 means success.
    let large = host(&saying("null"), &body(256));
    assert_eq!(call(&large, "{}").expect_code(1).json()["exit_code"], json!(255));
}

#[test]
fn a_variable_is_there_once_it_is_granted() {
    let imports = import("environ_sizes_get", "i32 i32") + &import("environ_get", "i32 i32");
    let host = host(
        &imports,
        r#"(if (call $environ_sizes_get (i32.const 32) (i32.const 36)) (then unreachable))
           (if (call $environ_get (i32.const 16384) (i32.const 17408)) (then unreachable))
           (i32.store16 (i32.const 17406) (i32.const 0x225b))
           (call $say (i32.const 17406) (i32.const 2))
           (if (i32.load (i32.const 36)) (then
             (call $say (i32.const 17408) (i32.sub (i32.load (i32.const 36)) (i32.const 1)))))
           (i32.store16 (i32.const 17406) (i32.const 0x5d22))
           (call $say (i32.const 17406) (i32.const 2))"#,
    )
    .env("GRANTED", "its value")
    .env("OTHER", "x");
    assert_eq!(result(&host, "{}"), json!([""]));
    host.run(["policy", "grant", "tool", "--env", "GRANTED"]).expect_code(0);
    assert_eq!(result(&host, "{}"), json!(["GRANTED=its value"]));
}

#[test]
fn clocks_and_random_numbers_are_there() {
    let imports = import("clock_time_get", "i32 i64 i32") + &import("random_get", "i32 i32");
    let host = host(
        &(imports + &saying("true")),
        "(loop $again
           (if (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 16384)) (then unreachable))
           (if (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 16392)) (then unreachable))
           ;; A day in 2025, in nanoseconds.
           (if (i64.lt_u (i64.load (i32.const 16384)) (i64.const 1750000000000000000)) (then unreachable))
           (if (call $random_get (i32.const 16400) (i32.const 8)) (then unreachable))
           (if (call $random_get (i32.const 16408) (i32.const 8)) (then unreachable))
           (br_if $again (i64.eq (i64.load (i32.const 16400)) (i64.load (i32.const 16408))))
           (if (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 16384)) (then unreachable))
           (if (i64.lt_u (i64.load (i32.const 16384)) (i64.load (i32.const 16392))) (then unreachable)))
         (call $print)",
    );
    assert_eq!(result(&host, "{}"), json!(true));
}

/// Returns a host with a tool that opens the path between the quotes of `{"path":"…"}`, beneath
/// each of its first two descriptors for directories. It answers with the two WASI error numbers,
/// or with the file's contents.
fn opener(flags: u32, rights: u32) -> Host {
    let imports = import("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32") + &saying("[");
    let host = host(
        &imports,
        &format!(
            "(local $length i32) (local $fd i32) (local $error i32)
             (local.set $length (i32.sub (call $read) (i32.const 11)))
             (local.set $fd (i32.const 3))
             (i32.store16 (i32.const 17000) (i32.const 0x2c))
             (i32.store16 (i32.const 17002) (i32.const 0x5d))
             (call $print)
             (loop $next
               (local.set $error (call $path_open (local.get $fd) (i32.const 1)
                 (i32.const {path}) (local.get $length) (i32.const {flags})
                 (i64.const {rights}) (i64.const {rights}) (i32.const 0) (i32.const 16384)))
               (if (i32.eqz (local.get $error)) (then
                 (i32.store (i32.const 0) (i32.const 16400))
                 (i32.store (i32.const 4) (i32.const 100))
                 (drop (call $fd_read
                   (i32.load (i32.const 16384)) (i32.const 0) (i32.const 1) (i32.const 8)))
                 (call $say (i32.const 16400) (i32.load (i32.const 8))))
                (else (call $number (local.get $error))))
               (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
               (if (i32.lt_u (local.get $fd) (i32.const 5)) (then
                 (call $say (i32.const 17000) (i32.const 1)) (br $next))))
             (call $say (i32.const 17002) (i32.const 1))",
            path = STDIN + 9,
        ),
    );
    host.write("workspace/kept", "\"kept\"", 0o644);
    host.write("workspace/sub/inner", "\"inner\"", 0o644);
    host.write("outside/secret", "\"secret\"", 0o666);
    let outside = host.scratch().join("outside");
    symlink(outside.join("secret"), host.workspace().join("absolute")).expect("linked");
    symlink("../outside/secret", host.workspace().join("relative")).expect("linked");
    symlink(&outside, host.workspace().join("directory")).expect("linked");
    symlink("/proc/self/root", host.workspace().join("root")).expect("linked");
    host
}

/// The rights of WASI preview 1 to read and to seek.
const READ: u32 = 0x2 | 0x4;

/// The rights of WASI preview 1 to read, to seek and to write.
const WRITE: u32 = READ | 0x40;

/// Flags of WASI preview 1: make the file, and empty it.
const CREATE_AND_TRUNCATE: u32 = 1 | 8;

/// Error numbers of WASI preview 1: EBADF, ENOENT.
const NO_DESCRIPTOR: u32 = 8;
const NO_ENTRY: u32 = 44;

/// The ways out of the workspace.
const WAYS_OUT: &[&str] = &[
    "..",
    "../outside/secret",
    "sub/../../outside/secret",
    "./../outside/secret",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "absolute",
    "relative",
    "directory/secret",
    "root/etc/passwd",
];

fn path(path: &str) -> String {
    json!({ "path": path }).to_string()
}

#[test]
fn a_granted_directory_is_there_and_nothing_leads_out_of_it() {
    let host = opener(0, READ);
    let none = json!([NO_DESCRIPTOR, NO_DESCRIPTOR]);
    assert_eq!(result(&host, &path("kept")), none, "without a grant there is no directory");
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    // The workspace is preopened under its path and as `.`.
    assert_eq!(result(&host, &path("kept")), json!(["kept", "kept"]));
    assert_eq!(result(&host, &path("sub/inner")), json!(["inner", "inner"]));
    assert_eq!(result(&host, &path("gone")), json!([NO_ENTRY, NO_ENTRY]));
    for way in WAYS_OUT {
        let attempts = result(&host, &path(way));
        let attempts = attempts.as_array().expect("two");
        let refused = |attempt: &Value| attempt.as_u64().is_some_and(|error| error != 0);
        assert!(attempts.iter().all(refused), "`{way}` led to {attempts:?}");
    }
    host.assert_nothing_left();
}

#[test]
fn only_a_directory_that_is_granted_for_writing_can_be_written_to() {
    let host = opener(CREATE_AND_TRUNCATE, WRITE);
    let read = |path: &str| fs::read_to_string(host.scratch().join(path)).expect("read");
    host.run(["policy", "grant", "tool", "--read", "."]).expect_code(0);
    for name in ["kept", "new"] {
        let attempts = result(&host, &path(name));
        assert!(attempts[0].as_u64() > Some(0) && attempts[1].as_u64() > Some(0), "{attempts}");
    }
    assert_eq!(read("workspace/kept"), "\"kept\"");
    assert!(!host.workspace().join("new").exists());
    host.run(["policy", "grant", "tool", "--write", "."]).expect_code(0);
    for way in WAYS_OUT {
        // After a successful attempt the file would be empty, and the answer would not be JSON.
        assert!(result(&host, &path(way))[0].as_u64() > Some(0), "`{way}`");
    }
    assert_eq!(read("outside/secret"), "\"secret\"");
    call(&host, &path("kept"));
    call(&host, &path("new"));
    assert_eq!((read("workspace/kept"), read("workspace/new")), (String::new(), String::new()));
}
