//! The core modules that can be programs: what Go, Zig, TinyGo and clang with wasi-libc build.
//!
//! Decides by the imports and exports of a module, before anything is compiled. The compiler
//! validates the rest.

use wasmparser::{ExternalKind, Import, Parser, Payload, TypeRef};
#[cfg(feature = "compiler")]
use wasmtime::{ExternType, Module};

use super::{EXIT, FUNCTIONS, MEMORY, PREVIEW1, START};

/// The module of imports of WASI before preview 1.
const UNSTABLE: &str = "wasi_unstable";

/// The largest number of imports. WASI preview 1 has 46 functions.
const MAX_IMPORTS: usize = 1_000;

/// The longest part of an imported name that a message shows, in characters.
const SHOWN: usize = 80;

/// The reason that a well-formed core module cannot be a program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum CoreModuleError {
    #[error(
        "exports no function `{START}`, so it is a library: build a program with a `main` instead (in \
         Go without `-buildmode=c-shared`, with clang without `-mexec-model=reactor`, in Zig with \
         `build-exe`)"
    )]
    NoStart,
    #[cfg(feature = "compiler")]
    #[error("exports `{START}`, but not as a function without parameters and results")]
    StartType,
    #[error(
        "has a memory with 64-bit addresses, and WASI preview 1 has addresses of 32 bits: build it for \
         `wasm32-wasip1`"
    )]
    WideMemory,
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

/// Returns whether a binary has the header of a core module.
pub(in super::super) fn is_core_module(binary: &[u8]) -> bool {
    Parser::is_core_wasm(binary)
}

/// Checks that a core module can be a program.
///
/// # Errors
///
/// Fails with a [`CoreModuleError`], or with another error for a malformed module.
pub(in super::super) fn check(binary: &[u8]) -> wasmtime::Result<()> {
    let outline = Outline::read(binary)?;
    Ok(outline.check()?)
}

#[cfg(feature = "compiler")]
/// Checks the type of the function that a compiled module starts with.
pub(in super::super) fn check_start(module: &Module) -> Result<(), CoreModuleError> {
    match module.get_export(START) {
        Some(ExternType::Func(start))
            if start.params().len() == 0 && start.results().len() == 0 =>
        {
            Ok(())
        }
        _ => Err(CoreModuleError::StartType),
    }
}

/// The parts of a core module that decide whether it can be a program.
#[derive(Default)]
struct Outline<'a> {
    imports: Vec<Import<'a>>,
    has_start: bool,
    has_memory: bool,
    is_threaded: bool,
    is_wide: bool,
}

impl<'a> Outline<'a> {
    fn read(binary: &'a [u8]) -> wasmparser::Result<Self> {
        let mut outline = Self::default();
        for payload in Parser::new(0).parse_all(binary) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        outline.imports.push(import?);
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        let memory = memory?;
                        outline.is_threaded |= memory.shared;
                        outline.is_wide |= memory.memory64;
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        let named = (export.name, export.kind);
                        outline.has_start |= named == (START, ExternalKind::Func);
                        outline.has_memory |= named == (MEMORY, ExternalKind::Memory);
                    }
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    fn check(&self) -> Result<(), CoreModuleError> {
        if self.is_threaded || self.imports.iter().any(is_of_threads) {
            return Err(CoreModuleError::Threads);
        }
        if self.imports.len() > MAX_IMPORTS {
            return Err(CoreModuleError::TooManyImports(self.imports.len()));
        }
        self.imports.iter().try_for_each(check_import)?;
        if !self.has_start {
            return Err(CoreModuleError::NoStart);
        }
        if !self.has_memory {
            return Err(CoreModuleError::NoMemory);
        }
        if self.is_wide {
            return Err(CoreModuleError::WideMemory);
        }
        Ok(())
    }
}

/// Returns whether an import belongs to wasi-threads.
fn is_of_threads(import: &Import<'_>) -> bool {
    let is_spawn = (import.module, import.name) == ("wasi", "thread-spawn");
    is_spawn || matches!(import.ty, TypeRef::Memory(memory) if memory.shared)
}

fn check_import(import: &Import<'_>) -> Result<(), CoreModuleError> {
    let is_function = matches!(import.ty, TypeRef::Func(_));
    match import.module {
        PREVIEW1 if is_function && is_offered(import.name) => Ok(()),
        PREVIEW1 => Err(CoreModuleError::UnknownFunction(shown(import.name))),
        UNSTABLE => Err(CoreModuleError::Unstable),
        module => {
            Err(CoreModuleError::ForeignImport(format!("{}.{}", shown(module), shown(import.name))))
        }
    }
}

/// Returns whether the host has a function of preview 1 with this name.
fn is_offered(name: &str) -> bool {
    name == EXIT || FUNCTIONS.contains(&name)
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
    fn refusal(parts: &str) -> CoreModuleError {
        let error = check(&module(parts)).expect_err(parts);
        error.downcast::<CoreModuleError>().unwrap_or_else(|error| panic!("{parts}: {error:#}"))
    }

    fn importing(module: &str, name: &str, kind: &str) -> String {
        format!("(import \"{module}\" \"{name}\" ({kind})) {MAIN}")
    }

    #[test]
    fn a_program_is_a_core_module_with_a_start_and_a_memory() {
        let program = module(&importing(PREVIEW1, "sched_yield", "func (result i32)"));
        assert!(is_core_module(&program) && check(&program).is_ok());
        for other in [&b""[..], b"\0asm", b"#!/bin/sh\n", b"\0asm\x0d\0\0\0", b"\0asm\x0d\0\x01\0"]
        {
            assert!(!is_core_module(other), "{other:?}");
        }
    }

    #[test]
    fn what_a_module_may_not_import_is_named() {
        let function = |module, name| refusal(&importing(module, name, "func"));
        assert_eq!(function("wasi_unstable", "fd_write"), CoreModuleError::Unstable);
        assert_eq!(function(PREVIEW1, "fd_fly"), CoreModuleError::UnknownFunction("fd_fly".into()));
        for name in FUNCTIONS.iter().chain([&EXIT]) {
            let imported = module(&importing(PREVIEW1, name, "func"));
            assert!(check(&imported).is_ok(), "{name}");
        }
        assert_eq!(function("env", "log"), CoreModuleError::ForeignImport("env.log".into()));
        let global = importing(PREVIEW1, "fd_write", "global i32");
        assert_eq!(refusal(&global), CoreModuleError::UnknownFunction("fd_write".into()));
        let more = format!("(import \"{PREVIEW1}\" \"fd_close\" (func (param i32) (result i32)))");
        let many = more.repeat(MAX_IMPORTS + 1) + MAIN;
        assert_eq!(refusal(&many), CoreModuleError::TooManyImports(MAX_IMPORTS + 1));
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
            assert_eq!(refusal(&parts), CoreModuleError::Threads, "{parts}");
        }
    }

    #[test]
    fn a_module_without_start_or_memory_is_no_program() {
        assert_eq!(refusal("(memory (export \"memory\") 1)"), CoreModuleError::NoStart);
        assert_eq!(refusal("(memory (export \"_start\") 1)"), CoreModuleError::NoStart);
        assert_eq!(refusal(""), CoreModuleError::NoStart);
        assert_eq!(refusal("(func (export \"_start\"))"), CoreModuleError::NoMemory);
        let wide = MAIN.replace(" 1)", " i64 1)");
        assert_eq!(refusal(&wide), CoreModuleError::WideMemory);
        assert_eq!(
            refusal("(memory 1) (func (export \"_start\") (export \"memory\"))"),
            CoreModuleError::NoMemory
        );
    }

    #[test]
    fn a_damaged_module_is_an_error_and_never_a_panic() {
        let whole = module(&importing(PREVIEW1, "fd_close", "func (param i32) (result i32)"));
        for end in 8..whole.len() {
            // A module that is cut between two sections is a different, complete module.
            if let Err(error) = check(&whole[..end]) {
                assert!(!error.to_string().is_empty(), "cut at {end}");
            }
        }
        for at in 8..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                if let Err(error) = check(&flipped) {
                    assert!(!error.to_string().is_empty(), "bit {bit} of byte {at}");
                }
            }
        }
    }
}
