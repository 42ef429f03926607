//! Compiles a component or core module to machine code, in this process and without limits.
//!
//! Owns the settings of the two compilers. [`super::super::engine`] owns those of the code.

use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};
use wasmtime::component::Component;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, Module, OptLevel, Strategy};
use wasmtime_environ::{FlagValue, Tunables, obj::ELF_WASM_ENGINE};

use super::super::code_version::{self, C_LIBRARY};
use super::super::engine::{self, EngineKind, Tier};
use super::super::instance_memory::InstanceMemory;
use super::super::wasi_version::UsesAsync;
use super::super::{bounds, preview1};
use super::{binary, measure};

/// The extensions that every processor has on which compiled code runs: those of x86-64-v2 (*System
/// V psABI*), which has been sold since 2009. With them, code that was compiled on one machine runs
/// on the others, so that an archive can bring it.
#[cfg(target_arch = "x86_64")]
const EXTENSIONS: [&str; 6] =
    ["has_cmpxchg16b", "has_popcnt", "has_sse3", "has_sse41", "has_sse42", "has_ssse3"];

#[cfg(not(target_arch = "x86_64"))]
const EXTENSIONS: [&str; 0] = [];

/// The further extensions for code of the baseline, which stays on the machine that compiled it.
const EXTENSIONS_FOR_VECTORS: [&str; 2] = ["has_avx", "has_avx2"];

/// Compiles a component, the build in it that is meant for this host, or a core module. The engine
/// of this kind, in every process, runs the code. The memory of its instances follows it
/// ([`super::super::instance_memory`]).
///
/// # Errors
///
/// Fails if it does not compile, or exceeds [`bounds`]. The error is [`UsesAsync`] if it uses a part
/// of the async feature that this host does not have, and [`preview1::CoreModuleError`] if it is a
/// core module that cannot be a program.
pub(in super::super) fn compile(
    binary: &[u8],
    tier: Tier,
) -> wasmtime::Result<(Vec<u8>, EngineKind)> {
    if preview1::is_core_module(binary) {
        return Ok((compile_module(binary, tier)?, EngineKind::Sequential));
    }
    let component = binary::for_this_host(binary);
    if !binary::is_of_wasi_0_3(component) {
        let compiled = compile_component(component, tier, EngineKind::Sequential);
        let is_async =
            |error: &wasmtime::Error| binary::async_built_in(&format!("{error:#}")).is_some();
        if !compiled.as_ref().is_err_and(is_async) {
            return Ok((compiled?, EngineKind::Sequential));
        }
    }
    let compiled = compile_component(component, tier, EngineKind::Concurrent);
    let compiled = compiled.map_err(|error| match binary::async_built_in(&format!("{error:#}")) {
        Some(built_in) => UsesAsync(built_in.to_owned()).into(),
        None => error,
    });
    Ok((compiled?, EngineKind::Concurrent))
}

/// Programs are loaded too, because only then their parts are compared with the bounds.
fn compile_module(binary: &[u8], tier: Tier) -> wasmtime::Result<Vec<u8>> {
    preview1::check(binary)?;
    let engine = Engine::new(&config(tier, EngineKind::Sequential)?)?;
    let module = Module::from_binary(&engine, binary)?;
    preview1::check_start(&module)?;
    let code = module.serialize()?;
    let instances = measure::module_memory(&code)?;
    finish(code, instances, tier)
}

fn compile_component(component: &[u8], tier: Tier, kind: EngineKind) -> wasmtime::Result<Vec<u8>> {
    let engine = Engine::new(&config(tier, kind)?)?;
    let code = Component::from_binary(&engine, component)?.serialize()?;
    let instances = measure::instance_memory(&code)?;
    finish(code, instances, tier)
}

/// Labels the code for the engine, and appends the memory of its instances.
fn finish(mut code: Vec<u8>, instances: InstanceMemory, tier: Tier) -> wasmtime::Result<Vec<u8>> {
    if tier == Tier::Baseline {
        relabel(&mut code)?;
    }
    instances.append_to(&mut code);
    Ok(code)
}

/// Returns the settings of the compiler for this tier and engine.
fn config(tier: Tier, kind: EngineKind) -> wasmtime::Result<Config> {
    let mut config = engine::base(kind);
    // The bounds belong to a pool from which nothing is ever allocated.
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(bounds::pool()));
    config.target(&format!("{}-unknown-linux-{C_LIBRARY}", std::env::consts::ARCH))?;
    let mut extensions = EXTENSIONS.to_vec();
    match tier {
        Tier::Baseline => {
            // wasmtime considers Winch ready for untrusted code only there (*Tiers of Support in
            // Wasmtime*).
            wasmtime::ensure!(cfg!(target_arch = "x86_64"), "Winch is used on x86-64 alone");
            config.strategy(Strategy::Winch);
            if code_version::has_avx() {
                extensions.extend(EXTENSIONS_FOR_VECTORS);
            }
        }
        Tier::Optimised => {
            config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::Speed);
        }
    }
    for extension in extensions {
        // SAFETY: wasmtime loads the code only on a processor that has the extension.
        unsafe { config.cranelift_flag_enable(extension) };
    }
    Ok(config)
}

/// The settings that code was compiled for, as wasmtime writes them into it: the same fields in the
/// same order as `Metadata` of wasmtime's `engine/serialization.rs`, which is private.
#[derive(Serialize, Deserialize)]
struct CodeLabel<'a> {
    target: &'a str,
    #[serde(borrow)]
    shared_flags: Vec<(&'a str, FlagValue<'a>)>,
    #[serde(borrow)]
    isa_flags: Vec<(&'a str, FlagValue<'a>)>,
    tunables: Tunables,
    features: u64,
}

/// Lets the engine load code of Winch.
///
/// The label of such code says that its functions call each other by Winch's convention. An engine
/// without a compiler cannot be told that it may load such code, though nothing in it depends on
/// the convention: a component is compiled as a whole, with the entries that the host calls. So
/// this function says the contrary in the label, which changes one byte.
/// docs/contributing/decisions/winch-first.md has the reasons.
fn relabel(code: &mut [u8]) -> wasmtime::Result<()> {
    let unknown = || wasmtime::Error::msg("the label of its code is unknown");
    let (start, label) = {
        let file = object::File::parse(&*code)?;
        let section = file.section_by_name(ELF_WASM_ENGINE).ok_or_else(unknown)?;
        let (offset, _) = section.file_range().ok_or_else(unknown)?;
        let data = section.data()?;
        // The version of the format, and the version of wasmtime after its length.
        let length = usize::from(*data.get(1).ok_or_else(unknown)?);
        let label = data.get(2 + length..).ok_or_else(unknown)?;
        let start = usize::try_from(offset)? + 2 + length;
        let mut parsed: CodeLabel<'_> = postcard::from_bytes(label)?;
        parsed.tunables.winch_callable = false;
        let changed = postcard::to_allocvec(&parsed)?;
        wasmtime::ensure!(changed.len() == label.len(), "the label of its code is unknown");
        (start, changed)
    };
    code.get_mut(start..start + label.len()).ok_or_else(unknown)?.copy_from_slice(&label);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::EMPTY;
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_label_changes_by_one_byte() {
        let engine =
            Engine::new(&config(Tier::Baseline, EngineKind::Sequential).expect("settings"))
                .expect("an engine");
        let before = engine.precompile_component(EMPTY).expect("compiled");
        let mut after = before.clone();
        relabel(&mut after).expect("a label");
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert_eq!(changed.collect::<Vec<_>>(), [(&1, &0)]);
    }
}
