//! The engine of a process, with the linkers for components.

use std::sync::OnceLock;

use wasmtime::Engine;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::state::GuestState;
use super::{ComponentError, guest, wasi_version};

/// The beginning of the names of the interfaces of `wasi:http`.
const HTTP: &str = "wasi:http/";

/// An engine, and the linkers of the components that it runs.
pub(super) struct Linkers {
    pub(super) engine: Engine,
    linker: Linker<GuestState>,
    /// Made when the first component imports `wasi:http`: most do not.
    with_http: OnceLock<Result<Linker<GuestState>, String>>,
}

impl Linkers {
    pub(super) fn new(engine: Engine) -> wasmtime::Result<Self> {
        let linker = guest::linker(&engine)?;
        Ok(Self { engine, linker, with_http: OnceLock::new() })
    }

    pub(super) fn link(
        &self,
        component: &Component,
    ) -> Result<CommandPre<GuestState>, ComponentError> {
        let instance = self.linker_for(component)?.instantiate_pre(component).map_err(|error| {
            match imports(component).iter().any(|name| wasi_version::is_version_0_3(name)) {
                true => ComponentError::OfWasi03,
                // wasmtime's text names the import that is missing or of another type.
                false => ComponentError::Link(format!("{error:#}")),
            }
        })?;
        CommandPre::new(instance).map_err(|_| ComponentError::NotACommand)
    }

    /// Returns the linker for a component. It depends on the imports, and never on a grant,
    /// which is not known yet: imports that are not granted are linked to refusals.
    fn linker_for(&self, component: &Component) -> Result<&Linker<GuestState>, ComponentError> {
        if !imports(component).iter().any(|name| name.starts_with(HTTP)) {
            return Ok(&self.linker);
        }
        let make = || guest::with_http(&self.linker).map_err(|error| format!("{error:#}"));
        let made = self.with_http.get_or_init(make);
        made.as_ref().map_err(|reason| ComponentError::NoRuntime(reason.clone()))
    }
}

/// Returns the interfaces that a component imports, with their versions.
pub(super) fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}
