//! The engines of a process, with the linkers for components and core modules.

use std::sync::OnceLock;

use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Module};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::engine::EngineKind;
use super::p3::command::AsyncCommand;
use super::program::{LinkedProgram, LoadedCode, exports, imports};
use super::state::GuestState;
use super::{ComponentError, guest, p3, preview1, wasi_version};

/// The beginning of the names of the interfaces of `wasi:http`.
const HTTP: &str = "wasi:http/";

/// An engine, and the linkers of the programs that it runs.
pub(super) struct Linkers {
    pub(super) engine: Engine,
    pub(super) kind: EngineKind,
    linker: Linker<GuestState>,
    /// Made when the first component imports `wasi:http`: most do not.
    with_http: OnceLock<Result<Linker<GuestState>, String>>,
    /// Made when the first core module is linked.
    of_modules: OnceLock<Result<wasmtime::Linker<GuestState>, String>>,
}

impl Linkers {
    pub(super) fn new(engine: Engine, kind: EngineKind) -> wasmtime::Result<Self> {
        let mut linker = guest::linker(&engine)?;
        if kind == EngineKind::Concurrent {
            p3::add_to_linker(&mut linker)?;
        }
        let (with_http, of_modules) = (OnceLock::new(), OnceLock::new());
        Ok(Self { engine, kind, linker, with_http, of_modules })
    }

    /// Links a program to the functions of the host.
    pub(super) fn link(&self, code: &LoadedCode) -> Result<LinkedProgram, ComponentError> {
        match code {
            LoadedCode::Component(component) => self.link_component(component),
            LoadedCode::Module(module) => self.link_module(module),
        }
    }

    fn link_module(&self, module: &Module) -> Result<LinkedProgram, ComponentError> {
        let make = || preview1::linker(&self.engine).map_err(|error| format!("{error:#}"));
        let linker = self.of_modules.get_or_init(make).as_ref();
        let linker = linker.map_err(|reason| ComponentError::NoRuntime(reason.clone()))?;
        let linked = linker.instantiate_pre(module);
        let linked = linked.map_err(|error| ComponentError::Link(format!("{error:#}")))?;
        Ok(LinkedProgram::Module(linked))
    }

    fn link_component(&self, component: &Component) -> Result<LinkedProgram, ComponentError> {
        let instance = self.linker_for(component)?.instantiate_pre(component).map_err(|error| {
            match imports(component).into_iter().find(|name| wasi_version::is_other_version(name)) {
                Some(other) => ComponentError::OtherWasi(other),
                // wasmtime's text names the import that is missing or of another type.
                None => ComponentError::Link(format!("{error:#}")),
            }
        })?;
        // A program of WASI 0.3 can also export `run` of 0.2: in Rust, that is a `main` which only
        // panics.
        match AsyncCommand::new(instance.clone()) {
            Ok(command) => Ok(LinkedProgram::AsyncComponent(command)),
            Err(_) => match CommandPre::new(instance) {
                Ok(command) => Ok(LinkedProgram::Component(command)),
                Err(_) => Err(wasi_version::no_command(exports(component))),
            },
        }
    }

    /// Returns the linker for a component. It depends on the imports, and never on a grant,
    /// which is not known yet: imports that are not granted are linked to refusals.
    fn linker_for(&self, component: &Component) -> Result<&Linker<GuestState>, ComponentError> {
        if !imports(component).iter().any(|name| name.starts_with(HTTP)) {
            return Ok(&self.linker);
        }
        let make = || guest::with_http(&self.linker, self.kind);
        let made = self.with_http.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_ref().map_err(|reason| ComponentError::NoRuntime(reason.clone()))
    }
}
