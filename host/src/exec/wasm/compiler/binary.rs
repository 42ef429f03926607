//! Reads a component's binary before it is compiled: finds the build in it that is meant for this
//! host, and the version of WASI that it was built for.
//!
//! Refuses nothing: the compiler refuses binaries that cannot be read.

use wasmparser::{Chunk, Parser, Payload};

use super::super::wasi_version::{RUN, WASI, version};

/// The beginning of the names of interfaces that only this host has.
const OWN: &str = "ikigai:tool/";

/// Returns the build of a component that is meant for this host: the component itself, or a
/// component nested in it.
///
/// No import of a component is optional, so a component that imports [`OWN`] interfaces starts in
/// no other host. A component for every host does without these interfaces, or contains a stand-in
/// for them, and it contains a command that imports them. That command runs here if it is the only
/// one and can run on its own, and if the component around it imports no [`OWN`] interface itself.
pub(super) fn for_this_host(component: &[u8]) -> &[u8] {
    let outer = Outline::from_component(component);
    if outer.imports(OWN) || !outer.exports(RUN) {
        return component;
    }
    let is_meant = |nested: &&&[u8]| {
        let nested = Outline::from_component(nested);
        let by_itself = |name: &&str| name.starts_with(OWN) || name.starts_with(WASI);
        nested.exports(RUN) && nested.imports(OWN) && nested.imports.iter().all(by_itself)
    };
    let mut meant = outer.nested.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(nested), None) => nested,
        _ => component,
    }
}

/// Returns whether a component imports or exports an interface of WASI 0.3, or of its drafts.
pub(super) fn is_of_wasi_0_3(component: &[u8]) -> bool {
    let names = Outline::from_component(component);
    let is_0_3 = |name: &&str| version(name).is_some_and(|version| version.starts_with("0.3."));
    names.imports.iter().chain(&names.exports).any(is_0_3)
}

/// Returns the built-in, type or option of the async feature for which wasmparser refuses a
/// component with this error.
pub(super) fn async_built_in(refusal: &str) -> Option<&str> {
    const FEATURES: [&str; 4] = ["async", "more async", "threading", "error-context"];

    let (before, feature) = refusal.split_once(" requires the component model ")?;
    if !FEATURES.iter().any(|name| feature.starts_with(name)) {
        return None;
    }
    before.strip_suffix('`')?.rsplit('`').next()
}

/// The outermost layer of a component.
#[derive(Default)]
struct Outline<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    nested: Vec<&'a [u8]>,
}

impl<'a> Outline<'a> {
    /// Reads as much as can be read.
    fn from_component(component: &'a [u8]) -> Self {
        let mut outline = Self::default();
        // The compiler reports what is broken, and where.
        let _ = outline.read(component);
        outline
    }

    fn read(&mut self, mut rest: &'a [u8]) -> wasmparser::Result<()> {
        let mut parser = Parser::new(0);
        loop {
            let Chunk::Parsed { consumed, payload } = parser.parse(rest, true)? else {
                return Ok(());
            };
            rest = rest.get(consumed..).unwrap_or_default();
            match payload {
                Payload::ComponentImportSection(imports) => {
                    for import in imports {
                        self.imports.push(import?.name.name);
                    }
                }
                Payload::ComponentExportSection(exports) => {
                    for export in exports {
                        self.exports.push(export?.name.name);
                    }
                }
                Payload::ComponentSection { unchecked_range, .. } => {
                    let Some((nested, after)) = rest.split_at_checked(unchecked_range.len()) else {
                        return Ok(());
                    };
                    self.nested.push(nested);
                    rest = after;
                }
                // The parser expects what follows a module next.
                Payload::ModuleSection { unchecked_range, .. } => {
                    rest = rest.get(unchecked_range.len()..).unwrap_or_default();
                }
                Payload::End(_) => return Ok(()),
                _ => {}
            }
        }
    }

    fn imports(&self, prefix: &str) -> bool {
        self.imports.iter().any(|name| name.starts_with(prefix))
    }

    fn exports(&self, prefix: &str) -> bool {
        self.exports.iter().any(|name| name.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component that imports and exports these interfaces and contains these components.
    fn component(imports: &[&str], exports: &[&str], nested: &[&str]) -> String {
        let nested: String = nested.iter().map(|nested| format!("({nested})\n")).collect();
        let line = |name: &&str| format!("(import \"{name}\" (instance))\n");
        let imports: String = imports.iter().map(line).collect();
        let line = |name: &&str| format!("(export \"{name}\" (instance $empty))\n");
        let exports: String = exports.iter().map(line).collect();
        format!("component\n(core module)\n{imports}(instance $empty)\n{nested}{exports}")
    }

    fn binary(text: &str) -> Vec<u8> {
        wat::parse_str(format!("({text})")).expect("a component")
    }

    const ASSETS: &str = "ikigai:tool/assets@0.1.0";
    const COMMAND: &str = "wasi:cli/run@0.2.3";
    const EXIT: &str = "wasi:cli/exit@0.2.3";

    #[test]
    fn a_command_inside_that_imports_what_only_this_host_has_is_the_one_that_runs() {
        let own = component(&[ASSETS, EXIT], &[COMMAND], &[]);
        let stand_in = component(&[], &[ASSETS], &[]);
        for around in [
            component(&[EXIT], &[COMMAND], &[&own]),
            component(&[EXIT], &[COMMAND], &[&stand_in, &own]),
        ] {
            assert_eq!(for_this_host(&binary(&around)), binary(&own), "{around}");
        }
    }

    #[test]
    fn any_other_component_runs_as_it_is() {
        let own = component(&[ASSETS], &[COMMAND], &[]);
        let plain = component(&[EXIT], &[COMMAND], &[]);
        let library = component(&[ASSETS], &[EXIT], &[]);
        // The component around it provides its other import.
        let part = component(&[ASSETS, "acme:db/query"], &[COMMAND], &[]);
        for as_it_is in [
            own.clone(),
            plain.clone(),
            component(&[], &[COMMAND], &[&plain]),
            component(&[], &[COMMAND], &[&library]),
            component(&[], &[COMMAND], &[&part]),
            component(&[], &[COMMAND], &[&own, &own]),
            component(&[], &[EXIT], &[&own]),
            component(&[ASSETS], &[COMMAND], &[&own]),
        ] {
            let binary = binary(&as_it_is);
            assert_eq!(for_this_host(&binary), binary, "{as_it_is}");
        }
        let whole = binary(&component(&[], &[COMMAND], &[&own]));
        for end in 0..whole.len() {
            let broken = &whole[..end];
            let found = for_this_host(broken);
            assert!(found == broken || found == binary(&own), "cut at {end}");
        }
        assert_eq!(for_this_host(b"#!/bin/sh\n"), b"#!/bin/sh\n");
    }

    #[test]
    fn wasi_0_3_is_seen_in_the_names_of_interfaces() {
        let built_for = |name: &str| is_of_wasi_0_3(&binary(&component(&[name], &[], &[])));
        assert!(built_for("wasi:cli/environment@0.3.0"));
        assert!(built_for("wasi:clocks/system-clock@0.3.0-rc-2026-02-09"));
        assert!(!built_for("wasi:cli/environment@0.2.3"));
        assert!(!built_for("acme:cli/environment@0.3.0"));
    }

    #[test]
    fn the_async_built_in_is_named_by_the_error_of_the_parser() {
        let refusal = |body: &str| {
            let component = binary(&format!("component {body}"));
            let features = wasmparser::WasmFeatures::default() - wasmparser::WasmFeatures::CM_ASYNC;
            let mut validator = wasmparser::Validator::new_with_features(features);
            validator.validate_all(&component).err().expect("refused").to_string()
        };
        for (body, named) in [
            ("(core func (canon waitable-set.new))", Some("waitable-set.new")),
            ("(core func (canon task.cancel))", Some("task.cancel")),
            ("(import \"f\" (func (result (stream u8))))", Some("stream")),
            ("(import \"f\" (func (param \"x\" (own 7))))", None),
        ] {
            let refusal = refusal(body);
            assert_eq!(async_built_in(&refusal), named, "{refusal}");
        }
        assert_eq!(async_built_in("`x` requires the component model gc feature"), None);
    }
}
