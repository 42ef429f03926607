//! Core modules of WASI preview 1, written as text. They have the form that Go, Zig and clang
//! build, without any of these compilers.

use std::fmt::Write as _;

/// The address at which the module of [`tool`] keeps its stdin.
pub const STDIN: u32 = 65_536;

/// Returns a core module that prints `schema` when asked for it, and otherwise executes `body`: the
/// locals and the instructions of a function. A body may call:
///
/// - `$read`: reads stdin to [`STDIN`] and returns its length, at most 60,000 bytes.
/// - `$say` (address, length): writes to stdout.
/// - `$number` (i32): writes a number in decimal to stdout.
/// - `$args_get`, `$args_sizes_get`, `$fd_read`, `$fd_write`, `$proc_exit`: functions of WASI.
/// - everything that `imports` declares: imports first, then functions, tables and data.
///
/// The 4,096 bytes from address 16,384 on belong to the body.
#[must_use]
pub fn tool(schema: &str, imports: &str, body: &str) -> Vec<u8> {
    assemble(&text(schema, imports, body))
}

/// Returns the text of such a module, for tests that change a part of it.
#[must_use]
pub fn text(schema: &str, imports: &str, body: &str) -> String {
    /// The address of the schema.
    const SCHEMA: u32 = 4096;
    let data = literal(schema.as_bytes());
    let length = schema.len();
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  {imports}
  (memory (export "memory") 2)
  (data (i32.const {SCHEMA}) "{data}")
  (func $say (param $at i32) (param $left i32)
    (loop $next
      (if (i32.eqz (local.get $left)) (then return))
      (i32.store (i32.const 0) (local.get $at))
      (i32.store (i32.const 4) (local.get $left))
      (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
      (local.set $left (i32.sub (local.get $left) (i32.load (i32.const 8))))
      (br $next)))
  (func $number (param $number i32)
    (if (i32.ge_u (local.get $number) (i32.const 10))
      (then (call $number (i32.div_u (local.get $number) (i32.const 10)))))
    (i32.store8 (i32.const 16)
      (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
    (call $say (i32.const 16) (i32.const 1)))
  (func $read (result i32)
    (local $length i32)
    (loop $next
      (i32.store (i32.const 0) (i32.add (i32.const {STDIN}) (local.get $length)))
      (i32.store (i32.const 4) (i32.sub (i32.const 60000) (local.get $length)))
      (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (local.set $length (i32.add (local.get $length) (i32.load (i32.const 8))))
      (br_if $next (i32.load (i32.const 8))))
    (local.get $length))
  (func $is_asked (result i32)
    (if (call $args_sizes_get (i32.const 32) (i32.const 36)) (then unreachable))
    (if (i32.ne (i32.load (i32.const 32)) (i32.const 2)) (then (return (i32.const 0))))
    (if (call $args_get (i32.const 40) (i32.const 1024)) (then unreachable))
    ;; The second argument, compared as one number with `--schema`.
    (i64.eq (i64.load (i32.load (i32.const 44))) (i64.const {asked})))
  (func $main {body})
  (func (export "_start")
    (if (call $is_asked)
      (then (call $say (i32.const {SCHEMA}) (i32.const {length})))
      (else (call $main)))))"#,
        asked = i64::from_le_bytes(*b"--schema"),
    )
}

/// Returns a function `$print`, which writes a constant text to stdout, for `imports` of [`tool`].
#[must_use]
pub fn saying(text: &str) -> String {
    let (data, length) = (literal(text.as_bytes()), text.len());
    format!(
        "(data (i32.const 20480) \"{data}\")
         (func $print (call $say (i32.const 20480) (i32.const {length})))"
    )
}

/// Returns an import of a function of WASI preview 1 that returns an error number.
#[must_use]
pub fn import(name: &str, parameters: &str) -> String {
    format!(
        "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {parameters}) (result i32)))"
    )
}

/// Returns the binary of a text.
#[must_use]
pub fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn literal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut data, byte| {
        // Writing to a string cannot fail.
        let _ = write!(data, "\\{byte:02x}");
        data
    })
}
