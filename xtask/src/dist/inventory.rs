//! The crates that the programs and the components of a release contain.
//!
//! cargo resolves them for one target. No program contains the crates that only tests, build
//! scripts or derive macros use, so this module leaves them out.
//!
//! cargo resolves the features of all packages of the workspace together, so an optional crate of
//! one program counts for all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::project::{
    COMPILER, COMPONENTS, CargoProject, HOST, NATIVE_TOOLS, SUPERVISOR, array, text,
};
use crate::run;
use crate::toolchain::WASM_TARGET;

/// The crates, by package URL.
pub(crate) struct Inventory {
    pub(crate) crates: BTreeMap<String, ShippedCrate>,
    /// The package URL of the host.
    pub(crate) main: String,
}

/// A crate in a program.
pub(crate) struct ShippedCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence as an SPDX expression.
    pub(crate) licence: Option<String>,
    /// The digest of the file on the registry, from Cargo.lock. A crate of the workspace lacks it.
    pub(crate) checksum: Option<String>,
    pub(crate) folder: PathBuf,
    /// The package URLs of the crates that it uses.
    pub(crate) uses: BTreeSet<String>,
}

impl Inventory {
    /// Asks cargo about the programs for `triple` and the components.
    pub(crate) fn load(project: &CargoProject, triple: &str) -> anyhow::Result<Self> {
        let lock = project.root.join("Cargo.lock");
        let lock = fs::read_to_string(&lock)
            .with_context(|| format!("cannot read `{}`", lock.display()))?;
        let checksums = checksums(&lock);
        let mut crates = BTreeMap::new();
        let native: &[&str] = &[HOST, SUPERVISOR, NATIVE_TOOLS, COMPILER];
        for (triple, roots) in [(triple, native), (WASM_TARGET, &COMPONENTS)] {
            let metadata = metadata(project, triple)?;
            DependencyGraph::new(&metadata).add_to(&mut crates, roots, &checksums)?;
        }
        let is_main = |(_, it): &(&String, &ShippedCrate)| it.name == HOST;
        let main = crates.iter().find(is_main).map(|(url, _)| url.clone());
        let main = main.context("cargo metadata lacks the host")?;
        Ok(Self { crates, main })
    }
}

fn metadata(project: &CargoProject, triple: &str) -> anyhow::Result<Value> {
    let arguments = ["metadata", "--locked", "--format-version=1", "--filter-platform", triple];
    let text = run::output(&mut project.cargo(&arguments))?;
    serde_json::from_str(&text).context("cannot read cargo metadata")
}

/// The packages that cargo resolved for one target, by id.
struct DependencyGraph<'a> {
    packages: HashMap<&'a str, &'a Value>,
    nodes: HashMap<&'a str, &'a Value>,
}

impl<'a> DependencyGraph<'a> {
    fn new(metadata: &'a Value) -> Self {
        let by_id = |list: &'a [Value]| list.iter().map(|it| (text(it, "id"), it)).collect();
        let nodes = metadata.get("resolve").map_or(&[][..], |resolve| array(resolve, "nodes"));
        Self { packages: by_id(array(metadata, "packages")), nodes: by_id(nodes) }
    }

    /// Adds the crates that the packages `roots` contain, these packages included.
    fn add_to(
        &self,
        crates: &mut BTreeMap<String, ShippedCrate>,
        roots: &[&str],
        checksums: &HashMap<(&str, &str), &str>,
    ) -> anyhow::Result<()> {
        let is_root = |package: &&&Value| {
            roots.contains(&text(package, "name"))
                && package.get("source").is_none_or(Value::is_null)
        };
        let mut open: Vec<&str> =
            self.packages.values().filter(is_root).map(|package| text(package, "id")).collect();
        let mut seen: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            let package = self.packages.get(id).with_context(|| format!("no package `{id}`"))?;
            let mut uses = BTreeSet::new();
            for used in self.uses(id) {
                uses.insert(url(self.packages.get(used).context("a package is missing")?));
                if seen.insert(used) {
                    open.push(used);
                }
            }
            let (name, version) = (text(package, "name"), text(package, "version"));
            let checksum = checksums.get(&(name, version)).map(|it| (*it).to_owned());
            let manifest = Path::new(text(package, "manifest_path"));
            let new = ShippedCrate {
                name: name.to_owned(),
                version: version.to_owned(),
                licence: licence(text(package, "license")),
                checksum,
                folder: manifest.parent().unwrap_or(manifest).to_owned(),
                uses: BTreeSet::new(),
            };
            crates.entry(url(package)).or_insert(new).uses.extend(uses);
        }
        Ok(())
    }

    /// Returns the ids of the packages that a package contains.
    fn uses(&self, id: &str) -> Vec<&'a str> {
        let dependencies = self.nodes.get(id).map_or(&[][..], |node| array(node, "deps"));
        let is_contained = |dependency: &&'a Value| {
            let is_normal = array(dependency, "dep_kinds")
                .iter()
                .any(|it| it.get("kind").is_some_and(Value::is_null));
            is_normal && !self.is_macro(text(dependency, "pkg"))
        };
        dependencies.iter().filter(is_contained).map(|it| text(it, "pkg")).collect()
    }

    fn is_macro(&self, id: &str) -> bool {
        let targets = self.packages.get(id).map_or(&[][..], |package| array(package, "targets"));
        let is_macro =
            |target: &Value| array(target, "kind").iter().any(|kind| kind == "proc-macro");
        targets.iter().any(is_macro)
    }
}

/// Returns the package URL of a crate.
fn url(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version").replace('+', "%2B"))
}

/// Returns a licence in today's form. Old manifests have a slash in place of `OR`.
fn licence(text: &str) -> Option<String> {
    let alternatives: Vec<&str> = text.split('/').map(str::trim).collect();
    (!text.is_empty()).then(|| alternatives.join(" OR "))
}

/// Returns the checksums of a Cargo.lock, by name and version.
fn checksums(lock: &str) -> HashMap<(&str, &str), &str> {
    let checksum = |package| {
        let key = (lock_value(package, "name")?, lock_value(package, "version")?);
        Some((key, lock_value(package, "checksum")?))
    };
    lock.split("[[package]]").filter_map(checksum).collect()
}

/// Returns the value in `KEY = "VALUE"`, a whole line of a Cargo.lock.
fn lock_value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let is_key = |line: &&str| line.split(' ').next() == Some(key);
    package.lines().find(is_key)?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_from_the_lock() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\n\
                    name = \"b\"\nversion = \"2.0.0+x\"\nsource = \"registry\"\n\
                    checksum = \"12ab\"\n";
        let checksums = checksums(lock);
        assert_eq!(checksums.get(&("b", "2.0.0+x")), Some(&"12ab"));
        assert_eq!(checksums.len(), 1, "a crate of the workspace has none");
    }

    #[test]
    fn an_old_licence_gets_its_form_of_today() {
        assert_eq!(licence("MIT/Apache-2.0").as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(licence("MIT OR Zlib").as_deref(), Some("MIT OR Zlib"));
        assert_eq!(licence(""), None);
    }
}
