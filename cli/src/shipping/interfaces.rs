//! The interfaces that a component imports and exports according to its own sections, for
//! registries to show.

use wasmparser::{Encoding, Parser, Payload};

/// The interfaces of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interfaces {
    /// The names of its imports, sorted.
    pub(crate) imports: Vec<String>,
    /// The names of its exports, sorted.
    pub(crate) exports: Vec<String>,
}

impl Interfaces {
    /// Returns the interfaces of a component; `None` for a core module, or for a file that is not
    /// WebAssembly.
    pub(crate) fn from_component(component: &[u8]) -> Option<Self> {
        let mut interfaces = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload.ok()? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return None,
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.checked_sub(1)?,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        interfaces.imports.push(import.ok()?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        interfaces.exports.push(export.ok()?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        interfaces.imports.sort_unstable();
        interfaces.exports.sort_unstable();
        Some(interfaces)
    }
}
