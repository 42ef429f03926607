//! Joins two builds of a component into one file that starts in every host.
//!
//! No import of a component is optional, so a tool with this host's imports would start in no
//! other. Each such tool is built twice: without those imports for any host, and with them for this
//! one. The second build is a nested component in the first, and no host instantiates it
//! automatically. This host looks for it and runs it. So a tool stays one file.

use std::fs;

use anyhow::{Context as _, bail};

use crate::place;
use crate::project::{BuiltProgram, CargoProject};

/// The package with the feature that [`WITHOUT_HOST_IMPORTS`] turns off.
pub(crate) const PACKAGE: &str = "ikigai-tools-wasm";

/// The arguments of cargo for the build that runs in any host.
pub(crate) const WITHOUT_HOST_IMPORTS: &[&str] = &["--no-default-features"];

/// The beginning of the names of the interfaces that only this host has.
const OWN: &[u8] = b"ikigai:tool/";

/// The section of a component that holds another (the component model's binary format).
const COMPONENT_SECTION: u8 = 4;

/// The component header: the magic number, version 13, layer 1.
const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

/// Returns `true` if a component imports an interface that only this host has.
pub(crate) fn is_for_this_host_only(tool: &BuiltProgram) -> anyhow::Result<bool> {
    let bytes = read(tool)?;
    // A component contains names of interfaces for its imports and exports only, and exports none
    // of these.
    Ok(bytes.windows(OWN.len()).any(|window| window == OWN))
}

/// Nests each component of `own` in the component of `portable` with the same name, and returns the
/// results.
pub(crate) fn join(
    project: &CargoProject,
    own: Vec<(BuiltProgram, Vec<u8>)>,
    portable: Vec<BuiltProgram>,
) -> anyhow::Result<Vec<BuiltProgram>> {
    let directory = project.target.join("portable");
    place::directory(&directory)?;
    let mut joined = Vec::new();
    for (own, bytes) in own {
        let Some(portable) = portable.iter().find(|it| it.name == own.name) else {
            bail!("`{}` was not built for other hosts", own.name);
        };
        if is_for_this_host_only(portable)? {
            bail!("`{}` imports `ikigai:tool` also where it is built for other hosts", own.name);
        }
        let whole = nest(read(portable)?, &bytes)
            .with_context(|| format!("cannot join the builds of `{}`", own.name))?;
        let file = directory.join(&own.name);
        fs::write(&file, whole).with_context(|| format!("cannot write `{}`", file.display()))?;
        joined.push(BuiltProgram { file, name: own.name });
    }
    Ok(joined)
}

pub(crate) fn read(tool: &BuiltProgram) -> anyhow::Result<Vec<u8>> {
    fs::read(&tool.file).with_context(|| format!("cannot read `{}`", tool.file.display()))
}

/// Returns the component `outer` with `inner` as one more section.
fn nest(mut outer: Vec<u8>, inner: &[u8]) -> anyhow::Result<Vec<u8>> {
    if !outer.starts_with(HEADER) || !inner.starts_with(HEADER) {
        bail!("one of the two builds is not a component");
    }
    let mut length = u32::try_from(inner.len()).context("it is too large")?;
    outer.push(COMPONENT_SECTION);
    // LEB128 has seven bits per byte, the lowest first.
    while length >= 0x80 {
        outer.push(length as u8 | 0x80);
        length >>= 7;
    }
    outer.push(length as u8);
    outer.extend_from_slice(inner);
    Ok(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_nested_as_a_section_with_its_length() {
        let long = [HEADER, &[0; 292]].concat();
        let whole = nest(HEADER.to_vec(), &long).expect("two components");
        assert_eq!(whole, [HEADER, &[4, 0xac, 0x02], &long].concat());
        let empty = nest(HEADER.to_vec(), HEADER).expect("two components");
        assert_eq!(empty, [HEADER, &[4, 8], HEADER].concat());
        assert!(nest(b"\0asm\x01\0\0\0".to_vec(), HEADER).is_err());
        assert!(nest(HEADER.to_vec(), b"").is_err());
    }
}
