//! Minimal components, written as text. Most tests of discovery need only a component's output and
//! exit code, and hundreds of these compile in the time of a single component from Rust.

use std::fmt::Write as _;

/// The behaviour of a component after its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The component returns success.
    Well,
    /// The component returns failure.
    Badly,
    /// The component traps.
    Trap,
    /// The component never ends.
    Spin,
    /// The component repeats its output without end.
    Flood,
    /// The component grows a table until that is refused, and then traps.
    GrowTable,
}

/// Returns a component that prints `text` for any arguments and never reads stdin.
#[must_use]
pub fn printing(text: impl AsRef<[u8]>, ending: Ending) -> Vec<u8> {
    assemble(&printing_text(text.as_ref(), ending, ""))
}

/// Returns the component of [`printing`] with additional definitions, as text.
#[must_use]
pub fn printing_with(text: impl AsRef<[u8]>, ending: Ending, more: &str) -> Vec<u8> {
    assemble(&printing_text(text.as_ref(), ending, more))
}

/// Returns a printing component with an import that no host has.
#[must_use]
pub fn importing(import: &str, text: &str) -> Vec<u8> {
    let import = format!("(import \"{import}\" (instance (export \"it\" (func))))");
    assemble(&printing_text(text.as_bytes(), Ending::Well, &import))
}

/// Returns a printing component with enough additional functions that compiling it takes a while.
#[must_use]
pub fn heavy(text: &str, functions: usize) -> Vec<u8> {
    let function = |number| {
        format!(
            "(func (export \"f{number}\") (param i32) (result i32) (local i32)
               (loop (local.set 1 (i32.add (local.get 1) (i32.mul (local.get 0) (i32.const {number}))))
                 (if (i32.rem_u (local.get 1) (i32.const 7)) (then (local.set 0 (local.get 1))))
                 (br_if 0 (i32.lt_u (local.get 1) (i32.const 1000)))) (local.get 1))"
        )
    };
    let functions: String = (0..functions).map(function).collect();
    let weight = format!("(core module {functions})");
    assemble(&printing_text(text.as_bytes(), Ending::Well, &weight))
}

/// Returns a component with a custom section of `zeros` zeros at its end, which means nothing
/// (*Custom Section* of the binary format).
#[must_use]
pub fn padded(component: &[u8], zeros: u32) -> Vec<u8> {
    const NAME: &[u8] = b"\x07padding";
    let mut padded = component.to_vec();
    padded.push(0);
    // The length as LEB128, written out to five bytes.
    let length = zeros + NAME.len() as u32;
    padded.extend((0..5).map(|byte| {
        let more = if byte < 4 { 0x80 } else { 0 };
        (length >> (7 * byte)) as u8 & 0x7f | more
    }));
    padded.extend_from_slice(NAME);
    padded.resize(padded.len() + zeros as usize, 0);
    padded
}

/// The superfluous parts of a component: core instances, each with its own tables.
#[derive(Clone, Copy, Debug)]
pub struct Hoard {
    /// The number of instances.
    pub instances: usize,
    /// The number of tables of each instance.
    pub tables: usize,
    /// The number of elements of each table.
    pub elements: usize,
}

/// Returns the component of [`printing`] with a hoard.
#[must_use]
pub fn hoarding(text: &str, ending: Ending, hoard: Hoard) -> Vec<u8> {
    let tables = format!("(table {} funcref)", hoard.elements).repeat(hoard.tables);
    let instances = "(core instance (instantiate $hoard))".repeat(hoard.instances);
    let weight = format!("(core module $hoard {tables}) {instances}");
    assemble(&printing_text(text.as_bytes(), ending, &weight))
}

/// Returns a component of nested components. Each level has `width` instances of the next, so a few
/// hundred bytes make `width` to the power of `depth` core instances.
#[must_use]
pub fn nested(width: usize, depth: u32) -> Vec<u8> {
    let core = "(core module $core (func (export \"f\"))) (core instance (instantiate $core))";
    let body = (0..depth).fold(core.to_owned(), |inner, level| {
        let instances = format!("(instance (instantiate $c{level}))").repeat(width);
        format!("(component $c{level} {inner}) {instances}")
    });
    assemble(&format!("(component {body})"))
}

/// Returns a component that is a library, with nothing to run.
#[must_use]
pub fn library() -> Vec<u8> {
    assemble("(component)")
}

/// Returns a component of a draft of WASI 0.3, whose types differ from those of 0.3.0.
#[must_use]
pub fn of_a_draft() -> Vec<u8> {
    assemble(
        r#"(component (import "wasi:cli/stdin@0.3.0-rc-2026-02-09" (instance
          (export "read-via-stream" (func (result (stream u8)))))))"#,
    )
}

/// Returns a component without WASI that uses a feature that the component model got with 0.3.
#[must_use]
pub fn streaming() -> Vec<u8> {
    assemble(r#"(component (import "lines" (func (result (stream u8)))))"#)
}

/// Returns a core module that is a library, and so cannot be used.
#[must_use]
pub fn core_library() -> Vec<u8> {
    assemble("(module (memory (export \"memory\") 1) (func (export \"_initialize\")))")
}

fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn printing_text(text: &[u8], ending: Ending, import: &str) -> String {
    const START: usize = 64;
    let pages = (START + text.len()).div_ceil(65536);
    let data = text.iter().fold(String::new(), |mut data, byte| {
        // Writing to a string cannot fail.
        let _ = write!(data, "\\{byte:02x}");
        data
    });
    let (length, ending) = (text.len(), ending_text(ending));
    format!(
        r#"(component
  {import}
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $error (type $outer))
    (export "error" (type $error (eq $outer)))
    (export "output-stream" (type $stream (sub resource)))
    (type $failure (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $failure)))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $stream)) (param "contents" (list u8))
      (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $stream (type $outer))
    (export "output-stream" (type $stream (eq $outer)))
    (export "get-stdout" (func (result (own $stream))))))
  (core module $memory
    (memory (export "memory") {pages})
    (data (i32.const {START}) "{data}"))
  (core instance $memory (instantiate $memory))
  (core func $get-stdout (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower
    (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory (core memory $memory "memory"))))
  (core module $main
    (import "memory" "memory" (memory {pages}))
    (import "host" "get-stdout" (func $get-stdout (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (table $table 1 funcref)
    (func $say (param $out i32)
      (local $at i32) (local $length i32)
      (loop $next
        (local.set $length (i32.sub (i32.const {length}) (local.get $at)))
        (if (i32.gt_u (local.get $length) (i32.const 4096))
          (then (local.set $length (i32.const 4096))))
        (if (i32.eqz (local.get $length)) (then return))
        (call $write (local.get $out)
          (i32.add (i32.const {START}) (local.get $at)) (local.get $length) (i32.const 0))
        (if (i32.load8_u (i32.const 0)) (then unreachable))
        (local.set $at (i32.add (local.get $at) (local.get $length)))
        (br $next)))
    (func (export "run") (result i32)
      (local $out i32)
      (local.set $out (call $get-stdout))
      (call $say (local.get $out))
      {ending}))
  (core instance $main (instantiate $main
    (with "memory" (instance $memory))
    (with "host" (instance
      (export "get-stdout" (func $get-stdout)) (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (component $command
    (import "run" (func $run (result (result))))
    (export "run" (func $run)))
  (instance $command (instantiate $command (with "run" (func $run))))
  (export "wasi:cli/run@0.2.0" (instance $command)))"#
    )
}

fn ending_text(ending: Ending) -> &'static str {
    match ending {
        Ending::Well => "(i32.const 0)",
        Ending::Badly => "(i32.const 1)",
        Ending::Trap => "unreachable",
        Ending::Spin => "(loop $forever (br $forever)) unreachable",
        Ending::Flood => "(loop $again (call $say (local.get $out)) (br $again)) unreachable",
        Ending::GrowTable => {
            "(loop $more (br_if $more (i32.ne (i32.const -1)
               (table.grow $table (ref.null func) (i32.const 1000))))) unreachable"
        }
    }
}
