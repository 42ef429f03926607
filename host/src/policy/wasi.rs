//! The versions of WASI: those that a program uses, and those that the key `wasi` allows.
//!
//! Owns the check and its sentence. Does not read programs: the executor of components finds out
//! which versions a program uses.

use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use super::decision::{Denial, PolicyRequest};
use super::provenance::Provenance;
use super::rule::{PolicyEntry, PolicyLayer, provenance_of};

/// A version of WASI that this host runs: a value of the key `wasi` of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
pub enum WasiVersion {
    /// WASI 0.1, also called preview 1: the functions that a core module imports.
    #[serde(rename = "0.1")]
    #[strum(serialize = "0.1")]
    V0_1,
    /// WASI 0.2.
    #[serde(rename = "0.2")]
    #[strum(serialize = "0.2")]
    V0_2,
    /// WASI 0.3, with the async functions of the component model.
    #[serde(rename = "0.3")]
    #[strum(serialize = "0.3")]
    V0_3,
}

impl WasiVersion {
    /// Returns `0.1`, `0.2` or `0.3`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A version of WASI that a program uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasiUse {
    /// The version.
    pub version: WasiVersion,
    /// The first interface of this version in the program, or another part of it, for a sentence.
    pub by: String,
}

/// The versions of WASI that every rule lists.
pub(super) struct AllowedWasi {
    pub(super) versions: Vec<WasiVersion>,
    /// The rules that took a version away.
    pub(super) narrowed_by: Vec<Provenance>,
}

/// Returns the versions that all of these rules list.
///
/// # Errors
///
/// Fails if the program of the request uses a version that one of the rules does not list.
pub(super) fn allowed(
    rules: &[(&PolicyLayer, &PolicyEntry)],
    request: &PolicyRequest<'_>,
) -> Result<AllowedWasi, Denial> {
    let mut versions = WasiVersion::VARIANTS.to_vec();
    let mut narrowed_by = Vec::new();
    for (layer, entry) in rules {
        let Some(at) = &entry.wasi else { continue };
        let by = provenance_of(layer, at);
        if let Some(used) = request.wasi.iter().find(|used| !at.value.contains(&used.version)) {
            let WasiUse { version, by: part } = used;
            let listed = listed(&at.value);
            let reason = format!("it needs WASI {version} for {part}, and {by} allows {listed}");
            return Err(Denial::new(reason, by));
        }
        let before = versions.len();
        versions.retain(|version| at.value.contains(version));
        if versions.len() < before {
            narrowed_by.push(by);
        }
    }
    Ok(AllowedWasi { versions, narrowed_by })
}

/// Returns the versions of a list in words.
fn listed(versions: &[WasiVersion]) -> String {
    match versions {
        [] => "no version of WASI".to_owned(),
        [only] => format!("WASI {only} only"),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(|version| version.as_str()).collect();
            format!("WASI {} and {last} only", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
