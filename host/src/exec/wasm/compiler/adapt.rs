//! Makes a component of a core module of WASI preview 1, which is what Go, Zig, TinyGo and clang
//! with wasi-libc build.
//!
//! An adapter in the component answers the module's imports and imports WASI 0.2 itself, so the
//! module runs with the same imports and limits as every component. Decides which modules can be
//! adapted, and knows nothing of compilation, which validates the code of both.

use std::borrow::Cow;
use std::collections::HashSet;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1,
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as ADAPTER,
};
use wasmparser::{ExternalKind, Import, Parser, Payload, TypeRef};
use wit_component::ComponentEncoder;

/// The function that a module of a program starts with.
const START: &str = "_start";

/// The name by which the adapter finds the module's memory.
const MEMORY: &str = "memory";

/// The module of imports of WASI before preview 1.
const UNSTABLE: &str = "wasi_unstable";

/// The beginnings of the names of all functions of WASI preview 1. The adapter also exports others,
/// for its own use.
const FAMILIES: &[&str] = &[
    "args_", "clock_", "environ_", "fd_", "path_", "poll_", "proc_", "random_", "sched_", "sock_",
];

/// The custom section with the names of functions, for the backtraces of traps.
const NAMES: &str = "name";

/// The largest number of imports. The encoder takes time in proportion to the square of it, and
/// WASI preview 1 has 46 functions.
const MAX_IMPORTS: usize = 1_000;

/// The longest part of an imported name that a message shows, in characters.
const SHOWN: usize = 80;

/// The reason that a well-formed core module cannot be adapted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum AdaptError {
    #[error(
        "exports no function `{START}`, so it is a library: build a program with a `main` instead (in \
         Go without `-buildmode=c-shared`, with clang without `-mexec-model=reactor`, in Zig with \
         `build-exe`)"
    )]
    NoStart,
    #[error(
        "exports no memory as `{MEMORY}`, which WASI preview 1 requires: let the linker of its \
         toolchain export it"
    )]
    NoMemory,
    #[error(
        "shares its memory between threads, and a tool has one thread: build it without threads (for \
         `wasm32-wasip1`, without `-pthread`)"
    )]
    Threads,
    #[error(
        "imports `{UNSTABLE}`, which is older than WASI preview 1: build it with a newer toolchain, \
         for `wasm32-wasip1`"
    )]
    Unstable,
    #[error(
        "imports {0} functions, and a core module may import {MAX_IMPORTS}: let its linker import each \
         function once"
    )]
    TooManyImports(usize),
    #[error(
        "imports `{PREVIEW1}.{0}`, which is not a function of WASI preview 1: build it with a toolchain for \
         `wasm32-wasip1`"
    )]
    UnknownFunction(String),
    #[error(
        "imports `{0}`, and a core module may import functions of `{PREVIEW1}` only: leave the import \
         out, or build a component"
    )]
    ForeignImport(String),
}

/// Returns the component for a core module. Any other binary is returned unchanged.
///
/// # Errors
///
/// Fails with a [`AdaptError`], or with another error for a malformed module.
pub(super) fn adapted(binary: &[u8]) -> wasmtime::Result<Cow<'_, [u8]>> {
    if !Parser::is_core_wasm(binary) {
        return Ok(Cow::Borrowed(binary));
    }
    let module = Module::read(binary)?;
    module.check()?;
    ComponentEncoder::default()
        .module(&module.without_custom_sections)
        .and_then(|encoder| encoder.adapter(PREVIEW1, ADAPTER))
        .and_then(|mut encoder| encoder.encode())
        .map(Cow::Owned)
        .map_err(wasmtime::Error::from_anyhow)
}

/// The parts of a core module that decide whether it can be adapted.
#[derive(Default)]
struct Module<'a> {
    imports: Vec<Import<'a>>,
    has_start: bool,
    has_memory: bool,
    is_threaded: bool,
    /// The binary without custom sections, except for the names of functions. The encoder would
    /// otherwise trust such a section about the imports and exports of the component.
    without_custom_sections: Vec<u8>,
}

impl<'a> Module<'a> {
    /// Reads the parts of a module that decide; the compiler validates the rest.
    fn read(binary: &'a [u8]) -> wasmtime::Result<Self> {
        let mut module = Self::default();
        let mut end_of_last = 0;
        for payload in Parser::new(0).parse_all(binary) {
            let payload = payload?;
            let end = match (&payload, payload.as_section()) {
                (Payload::Version { range, .. }, _) => range.end,
                (_, Some((_, range))) => range.end,
                _ => continue,
            };
            // The parser reports the beginning of the code before it has seen the end.
            let section = binary.get(end_of_last..end).ok_or_else(|| {
                wasmtime::Error::msg(format!(
                    "a section is cut off (at offset {:#x})",
                    binary.len()
                ))
            })?;
            end_of_last = end;
            if module.keeps(payload)? {
                module.without_custom_sections.extend(section);
            }
        }
        Ok(module)
    }

    /// Takes what matters from a section, and returns whether the module keeps the section.
    fn keeps(&mut self, section: Payload<'a>) -> wasmparser::Result<bool> {
        match section {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    self.imports.push(import?);
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    self.is_threaded |= memory?.shared;
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    let named = (export.name, export.kind);
                    self.has_start |= named == (START, ExternalKind::Func);
                    self.has_memory |= named == (MEMORY, ExternalKind::Memory);
                }
            }
            Payload::CustomSection(section) => return Ok(section.name() == NAMES),
            _ => {}
        }
        Ok(true)
    }

    fn check(&self) -> wasmtime::Result<()> {
        if self.is_threaded || self.imports.iter().any(is_of_threads) {
            return Err(AdaptError::Threads.into());
        }
        if self.imports.len() > MAX_IMPORTS {
            return Err(AdaptError::TooManyImports(self.imports.len()).into());
        }
        let offered = offered()?;
        for import in &self.imports {
            check_import(import, &offered)?;
        }
        if !self.has_start {
            return Err(AdaptError::NoStart.into());
        }
        if !self.has_memory {
            return Err(AdaptError::NoMemory.into());
        }
        Ok(())
    }
}

/// Returns whether an import belongs to wasi-threads.
fn is_of_threads(import: &Import<'_>) -> bool {
    let is_spawn = (import.module, import.name) == ("wasi", "thread-spawn");
    is_spawn || matches!(import.ty, TypeRef::Memory(memory) if memory.shared)
}

fn check_import(import: &Import<'_>, offered: &HashSet<&str>) -> Result<(), AdaptError> {
    let is_function = matches!(import.ty, TypeRef::Func(_));
    match import.module {
        PREVIEW1 if is_function && offered.contains(import.name) => Ok(()),
        PREVIEW1 => Err(AdaptError::UnknownFunction(shown(import.name))),
        UNSTABLE => Err(AdaptError::Unstable),
        module => {
            Err(AdaptError::ForeignImport(format!("{}.{}", shown(module), shown(import.name))))
        }
    }
}

/// Returns the functions of WASI preview 1 that the adapter offers.
fn offered() -> wasmparser::Result<HashSet<&'static str>> {
    let mut offered = HashSet::new();
    for payload in Parser::new(0).parse_all(ADAPTER) {
        if let Payload::ExportSection(exports) = payload? {
            for export in exports {
                let export = export?;
                if FAMILIES.iter().any(|family| export.name.starts_with(family)) {
                    offered.insert(export.name);
                }
            }
        }
    }
    Ok(offered)
}

/// Returns a name for a message: the module's author chose it, and it may be long or unprintable.
fn shown(name: &str) -> String {
    name.escape_debug().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a core module with these parts.
    fn module(parts: &str) -> Vec<u8> {
        wat::parse_str(format!("(module {parts})")).expect("a module")
    }

    const MAIN: &str = "(memory (export \"memory\") 1) (func (export \"_start\"))";

    /// Returns the reason for which a module with these parts is refused.
    fn refusal(parts: &str) -> AdaptError {
        let error = adapted(&module(parts)).expect_err(parts);
        error.downcast::<AdaptError>().unwrap_or_else(|error| panic!("{parts}: {error:#}"))
    }

    fn importing(module: &str, name: &str, kind: &str) -> String {
        format!("(import \"{module}\" \"{name}\" ({kind})) {MAIN}")
    }

    #[test]
    fn a_program_becomes_a_component_and_a_component_stays_as_it_is() {
        let program = module(&importing(PREVIEW1, "sched_yield", "func (result i32)"));
        let component = adapted(&program).expect("adapted");
        assert!(Parser::is_component(&component));
        assert_eq!(adapted(&component).expect("as it is"), component);
        for other in [&b""[..], b"\0asm", b"#!/bin/sh\n", b"\0asm\x0d\0\0\0"] {
            assert!(matches!(adapted(other), Ok(Cow::Borrowed(same)) if same == other));
        }
    }

    #[test]
    fn what_a_module_may_not_import_is_named() {
        let function = |module, name| refusal(&importing(module, name, "func"));
        assert_eq!(function("wasi_unstable", "fd_write"), AdaptError::Unstable);
        assert_eq!(function(PREVIEW1, "fd_fly"), AdaptError::UnknownFunction("fd_fly".into()));
        assert_eq!(function("env", "log"), AdaptError::ForeignImport("env.log".into()));
        let exports_of_the_adapter =
            ["wasi:cli/run@0.2.12#run", "cabi_import_realloc", "reset_adapter_state"];
        for name in exports_of_the_adapter {
            assert_eq!(function(PREVIEW1, name), AdaptError::UnknownFunction(name.into()));
        }
        let memory = importing(PREVIEW1, "fd_write", "global i32");
        assert_eq!(refusal(&memory), AdaptError::UnknownFunction("fd_write".into()));
        let more = format!("(import \"{PREVIEW1}\" \"fd_close\" (func (param i32) (result i32)))");
        let many = more.repeat(MAX_IMPORTS + 1) + MAIN;
        assert_eq!(refusal(&many), AdaptError::TooManyImports(MAX_IMPORTS + 1));
        let unprintable =
            refusal(&importing("env", &"\\1b[2J\\e2\\80\\ae".repeat(50), "func")).to_string();
        assert!(
            !unprintable.contains(['\u{1b}', '\u{202e}']) && unprintable.len() < 400,
            "{unprintable}"
        );
    }

    #[test]
    fn threads_are_refused_however_they_are_asked_for() {
        for parts in [
            importing("env", "memory", "memory 1 2 shared"),
            importing("wasi", "thread-spawn", "func (param i32) (result i32)"),
            MAIN.replace(") 1)", ") 1 2 shared)"),
        ] {
            assert_eq!(refusal(&parts), AdaptError::Threads, "{parts}");
        }
    }

    #[test]
    fn a_module_without_start_or_memory_is_no_program() {
        assert_eq!(refusal("(memory (export \"memory\") 1)"), AdaptError::NoStart);
        assert_eq!(refusal("(memory (export \"_start\") 1)"), AdaptError::NoStart);
        assert_eq!(refusal(""), AdaptError::NoStart);
        assert_eq!(refusal("(func (export \"_start\"))"), AdaptError::NoMemory);
        assert_eq!(
            refusal("(memory 1) (func (export \"_start\") (export \"memory\"))"),
            AdaptError::NoMemory
        );
    }

    #[test]
    fn custom_sections_say_nothing_about_the_component() {
        let plain = adapted(&module(MAIN)).expect("adapted").into_owned();
        for section in ["component-type", "component-type:tool:encoded", "producers", "dylink.0"] {
            let custom = module(&format!("{MAIN} (@custom \"{section}\" \"\\ff\\00garbage\")"));
            assert_eq!(adapted(&custom).expect(section), plain, "{section}");
        }
    }

    #[test]
    fn a_damaged_module_is_an_error_and_never_a_panic() {
        let whole = module(&importing(PREVIEW1, "fd_close", "func (param i32) (result i32)"));
        for end in 8..whole.len() {
            // A module that is cut between two sections is a different, complete module.
            if let Err(error) = adapted(&whole[..end]) {
                assert!(!error.to_string().is_empty(), "cut at {end}");
            }
        }
        for at in 8..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                if let Ok(component) = adapted(&flipped) {
                    assert!(Parser::is_component(&component), "bit {bit} of byte {at}");
                }
            }
        }
    }
}
