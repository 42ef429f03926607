//! The engines of a process, with the linkers for components.

use std::sync::OnceLock;

use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::engine::EngineKind;
use super::p3::command::AsyncCommand;
use super::state::GuestState;
use super::{ComponentError, guest, p3, wasi_version};

/// The beginning of the names of the interfaces of `wasi:http`.
const HTTP: &str = "wasi:http/";

/// A component that is linked, with the function that it starts with.
#[derive(Clone)]
pub(super) enum Command {
    /// `wasi:cli/run` of WASI 0.2.
    Sync(CommandPre<GuestState>),
    /// `wasi:cli/run` of WASI 0.3.
    Async(AsyncCommand),
}

impl Command {
    pub(super) fn instance(&self) -> &InstancePre<GuestState> {
        match self {
            Self::Sync(command) => command.instance_pre(),
            Self::Async(command) => command.instance(),
        }
    }
}

/// An engine, and the linkers of the components that it runs.
pub(super) struct Linkers {
    pub(super) engine: Engine,
    kind: EngineKind,
    linker: Linker<GuestState>,
    /// Made when the first component imports `wasi:http`: most do not.
    with_http: OnceLock<Result<Linker<GuestState>, String>>,
}

impl Linkers {
    pub(super) fn new(engine: Engine, kind: EngineKind) -> wasmtime::Result<Self> {
        let mut linker = guest::linker(&engine)?;
        if kind == EngineKind::Concurrent {
            p3::add_to_linker(&mut linker)?;
        }
        Ok(Self { engine, kind, linker, with_http: OnceLock::new() })
    }

    pub(super) fn link(&self, component: &Component) -> Result<Command, ComponentError> {
        let instance = self.linker_for(component)?.instantiate_pre(component).map_err(|error| {
            match imports(component).into_iter().find(|name| wasi_version::is_other_version(name)) {
                Some(other) => ComponentError::OtherWasi(other),
                // wasmtime's text names the import that is missing or of another type.
                None => ComponentError::Link(format!("{error:#}")),
            }
        })?;
        match CommandPre::new(instance.clone()) {
            Ok(command) => Ok(Command::Sync(command)),
            Err(_) => match AsyncCommand::new(instance) {
                Ok(command) => Ok(Command::Async(command)),
                Err(_) => Err(ComponentError::NotACommand),
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

/// Returns the interfaces that a component imports, with their versions.
pub(super) fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}
