//! Measures the memory that the instances of a compiled component or core module take in the host.
//!
//! Reads what wasmtime itself makes the instances from, so that no nesting of components is read
//! twice in two ways.

use object::{Object as _, ObjectSection as _};
use wasmtime_environ::component::{
    ComponentArtifacts, GlobalInitializer, InstantiateModule, VMComponentOffsets,
};
use wasmtime_environ::{
    CompiledFunctionsTable, CompiledModuleInfo, HostPtr, Module, ModuleTypes, VMOffsets,
    obj::ELF_WASMTIME_INFO,
};

use super::super::instance_memory::InstanceMemory;

/// The size of an entry of a passive element segment in wasmtime, in bytes (`ValRaw`).
const ELEMENT: u64 = 16;

/// The size of wasmtime's own data for a segment, a memory or a table, in bytes, rounded up.
const PART: u64 = 256;

/// The size of wasmtime's own data for an instance of a core module, in bytes, rounded up.
const CORE_INSTANCE: u64 = 512;

/// The size of the type of a resource in wasmtime, in bytes, rounded up.
const RESOURCE_TYPE: u64 = 64;

/// The largest description of a component in its code, in bytes, plus a share of its machine code.
/// The description lists types, imports, exports and functions. When the host loads the code,
/// it keeps each of them on its heap. A million types took 34 times the size of the description.
const DESCRIPTION: u64 = 1 << 20;

/// The share: a sixteenth. Python's interpreter has 20 MiB of machine code and a description of
/// 560 KiB.
const CODE_SHARE: u64 = 16;

/// Returns the memory of the instances of the component with this code. Fails if its description is
/// too large.
pub(super) fn instance_memory(code: &[u8]) -> wasmtime::Result<InstanceMemory> {
    let artifacts: ComponentArtifacts = postcard::from_bytes(description(code)?)?;
    let component = &artifacts.info.component;
    let mut allocated = u64::from(VMComponentOffsets::new(HostPtr, component).size_of_vmctx())
        + RESOURCE_TYPE * u64::from(component.num_resources);
    for initializer in &component.initializers {
        // The host offers no core modules, so an instance of an imported one is never made.
        if let GlobalInitializer::InstantiateModule(InstantiateModule::Static(index, _), _) =
            initializer
        {
            let size = core_instance(&artifacts.static_modules[*index].module);
            allocated = allocated.saturating_add(size);
        }
    }
    let components = u64::from(component.num_runtime_component_instances);
    Ok(InstanceMemory { allocated, components })
}

/// Returns the memory of the instance of the core module with this code. Fails if its description is
/// too large.
pub(super) fn module_memory(code: &[u8]) -> wasmtime::Result<InstanceMemory> {
    let (info, ..): (CompiledModuleInfo, CompiledFunctionsTable, ModuleTypes) =
        postcard::from_bytes(description(code)?)?;
    Ok(InstanceMemory { allocated: core_instance(&info.module), components: 0 })
}

/// Returns the description in code. Fails if it is too large.
fn description(code: &[u8]) -> wasmtime::Result<&[u8]> {
    let file = object::File::parse(code)?;
    let section = file
        .section_by_name(ELF_WASMTIME_INFO)
        .ok_or_else(|| wasmtime::Error::msg("its code does not describe its instances"))?;
    let machine_code = file.section_by_name(".text").map_or(0, |text| text.size());
    let most = DESCRIPTION + machine_code / CODE_SHARE;
    if section.size() > most {
        return Err(wasmtime::Error::msg(format!(
            "its types, imports and exports take {} bytes, and at most {most} are allowed",
            section.size()
        )));
    }
    Ok(section.data()?)
}

/// Returns the memory of one instance of a core module.
fn core_instance(module: &Module) -> u64 {
    let parts =
        module.passive_elements.len() + module.num_defined_memories() + module.num_defined_tables();
    let elements = module
        .passive_elements
        .values()
        .fold(0_u64, |all, (_, length)| all.saturating_add(length.saturating_mul(ELEMENT)));
    u64::from(VMOffsets::new(HostPtr, module).size_of_vmctx())
        .saturating_add(CORE_INSTANCE + PART * parts as u64)
        .saturating_add(elements)
}

#[cfg(test)]
mod tests {
    use super::super::code::compile;
    use super::*;
    use crate::exec::wasm::Tier;

    fn measured(text: &str) -> InstanceMemory {
        let component = wat::parse_str(text).expect("a component");
        let (code, _) = compile(&component, Tier::Optimised).expect("compiled");
        InstanceMemory::after_code(&code).expect("measured")
    }

    #[test]
    fn passive_elements_count_for_each_instance() {
        let with = |elements: usize, instances: usize| {
            let instances = "(core instance (instantiate $module))".repeat(instances);
            let elements = "$function ".repeat(elements);
            let module = format!("(core module $module (func $function) (elem func {elements}))");
            measured(&format!("(component {module} {instances})")).allocated
        };
        let (few, many) = (with(1, 5), with(10_001, 5));
        assert_eq!(many - few, 5 * 10_000 * ELEMENT);
        assert!(with(1, 6) > few);
    }

    #[test]
    fn nested_components_count() {
        let nested = |instances: usize| {
            let instances = "(instance (instantiate $inner))".repeat(instances);
            let inner = "(type $r (resource (rep i32))) (export \"r\" (type $r))";
            measured(&format!("(component (component $inner {inner}) {instances})"))
        };
        let (one, many) = (nested(1), nested(9));
        assert_eq!(many.components - one.components, 8);
        assert!(many.allocated > one.allocated);
    }

    #[test]
    fn a_component_with_too_many_types_or_exports_is_refused() {
        let types = format!("(core module (rec {}))", "(type (struct))".repeat(400_000));
        let functions = (0..900).map(|index| format!("(export \"e{index}\" (func $f))"));
        let instance = format!(
            "(core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
             (func $f (canon lift (core func $i \"f\"))) (instance $many {})",
            functions.collect::<String>()
        );
        let exports = (0..300).map(|index| format!("(export \"e{index}\" (instance $many))"));
        let exports = exports.collect::<String>();
        for text in [format!("(component {types})"), format!("(component {instance} {exports})")] {
            let component = wat::parse_str(text).expect("a component");
            let refused = compile(&component, Tier::Optimised).expect_err("too large");
            let refused = format!("{refused:#}");
            assert!(refused.contains("types, imports and exports take"), "{refused}");
        }
    }

    #[test]
    fn code_without_a_description_of_its_instances_is_an_error() {
        assert!(instance_memory(b"").is_err());
    }
}
