//! The two kinds of programs: components, and core modules of WASI preview 1.
//!
//! Owns what differs between them from the loading of their code to the run. The limits, the cache
//! and the threads do not know the kind.

use std::path::Path;

use wasmtime::component::Component;
use wasmtime::{Engine, InstancePre, Module, Store};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::engine::EngineKind;
use super::instance_memory::InstanceMemory;
use super::p3::command::AsyncCommand;
use super::state::GuestState;
use super::{preview1, wasi_version};
use crate::policy::{WasiUse, WasiVersion};

/// Compiled code that is loaded.
pub(super) enum LoadedCode {
    Component(Component),
    Module(Module),
}

impl LoadedCode {
    /// Loads code from a file, which is mapped.
    ///
    /// # Safety
    ///
    /// As for [`Component::deserialize_file`].
    pub(super) unsafe fn from_file(
        engine: &Engine,
        path: &Path,
        instances: InstanceMemory,
    ) -> wasmtime::Result<Self> {
        // SAFETY: this function has the same conditions.
        unsafe {
            match instances.are_of_a_module() {
                true => Module::deserialize_file(engine, path).map(Self::Module),
                false => Component::deserialize_file(engine, path).map(Self::Component),
            }
        }
    }

    /// Loads code from bytes.
    ///
    /// # Safety
    ///
    /// As for [`Component::deserialize`].
    pub(super) unsafe fn from_bytes(
        engine: &Engine,
        code: &[u8],
        instances: InstanceMemory,
    ) -> wasmtime::Result<Self> {
        // SAFETY: this function has the same conditions.
        unsafe {
            match instances.are_of_a_module() {
                true => Module::deserialize(engine, code).map(Self::Module),
                false => Component::deserialize(engine, code).map(Self::Component),
            }
        }
    }
}

/// A program that is linked, and can be run any number of times.
#[derive(Clone)]
pub(super) enum LinkedProgram {
    /// A component with `wasi:cli/run` of WASI 0.2.
    Component(CommandPre<GuestState>),
    /// A component with `wasi:cli/run` of WASI 0.3.
    AsyncComponent(AsyncCommand),
    /// A core module with `_start`.
    Module(InstancePre<GuestState>),
}

impl LinkedProgram {
    pub(super) fn engine(&self) -> &Engine {
        match self {
            Self::Component(component) => component.engine(),
            Self::AsyncComponent(component) => component.instance().component().engine(),
            Self::Module(module) => module.module().engine(),
        }
    }

    /// Returns the interfaces that a component imports, with their versions. A core module imports
    /// functions of preview 1 and nothing else.
    pub(super) fn imports(&self) -> Vec<String> {
        match self {
            Self::Component(component) => imports(component.instance_pre().component()),
            Self::AsyncComponent(component) => imports(component.instance().component()),
            Self::Module(module) => match module.module().imports().len() {
                0 => Vec::new(),
                _ => vec![preview1::PREVIEW1.to_owned()],
            },
        }
    }

    /// Returns the versions of WASI that the program uses.
    pub(super) fn wasi(&self, engine: EngineKind) -> Vec<WasiUse> {
        let component = match self {
            Self::Component(component) => component.instance_pre().component(),
            Self::AsyncComponent(component) => component.instance().component(),
            Self::Module(_) => {
                let by = format!("`{}`", preview1::PREVIEW1);
                return vec![WasiUse { version: WasiVersion::V0_1, by }];
            }
        };
        let mut interfaces = imports(component);
        interfaces.extend(exports(component));
        wasi_version::uses(&interfaces, engine)
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    ///
    /// Fails if it exits with a code, or traps.
    pub(super) async fn run(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<(), ()>> {
        match self {
            Self::Component(component) => {
                let command = component.instantiate_async(&mut *store).await?;
                command.wasi_cli_run().call_run(&mut *store).await
            }
            Self::AsyncComponent(component) => component.run(store).await,
            Self::Module(module) => preview1::run(module, store).await.map(Ok),
        }
    }
}

/// Returns the interfaces that a component exports, with their versions.
pub(super) fn exports(component: &Component) -> Vec<String> {
    let exports = component.component_type();
    exports.exports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the interfaces that a component imports, with their versions.
pub(super) fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}
