//! The npm packages: one with the programs for each platform, and `ikigai` with a launcher, which
//! has the others as optional dependencies. No package runs a script when it is installed.

use serde_json::{Map, Value, json};

use crate::dist::compress;
use crate::dist::payload::ReleasePayload;
use crate::dist::release::Release;
use crate::dist::tar::tar;
use crate::dist::target::ReleaseTarget;
use crate::dist::tree::FileTree;
use crate::project::CargoProject;

/// The package that users install.
const MAIN: &str = "ikigai";

/// The oldest Node.js that the launcher runs with.
const NODE: &str = ">=18";

/// Writes the package with the programs for a platform.
pub(crate) fn platform_package(release: &Release, payload: &ReleasePayload) -> anyhow::Result<()> {
    let target = payload.target;
    let name = target.npm_package();
    let mut manifest = common(&name, release);
    let mut set = |key: &str, value: Value| manifest.insert(key.to_owned(), value);
    set("description", json!(format!("The programs of ikigai for {}", target.triple)));
    set("os", json!(["linux"]));
    set("cpu", json!([target.npm_cpu()]));
    set("libc", json!([target.npm_libc()]));
    // Package managers that keep packages in archives have to unpack the programs.
    set("preferUnplugged", json!(true));
    let mut tree = payload.tree.clone();
    tree.insert("package.json", text(&manifest)?);
    write(release, &name, &tree)
}

/// Writes the package with the launcher. It names the packages of `targets`.
pub(crate) fn main_package(
    project: &CargoProject,
    release: &Release,
    targets: &[&'static ReleaseTarget],
) -> anyhow::Result<()> {
    let mut manifest = common(MAIN, release);
    let mut set = |key: &str, value: Value| manifest.insert(key.to_owned(), value);
    set("description", json!("Runs the tools of language models in a sandbox"));
    set("keywords", json!(["mcp", "sandbox", "wasm", "tools"]));
    set("bin", json!({ MAIN: "bin/ikigai.js" }));
    set("engines", json!({ "node": NODE }));
    // Every version belongs to exactly one version of the programs.
    let packages = targets.iter().map(|target| (target.npm_package(), json!(release.version)));
    set("optionalDependencies", packages.collect());
    let mut tree = FileTree::default();
    tree.insert("package.json", text(&manifest)?);
    let files = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    for name in files {
        tree.add_file(name.to_owned(), &project.root.join(name))?;
    }
    let launcher = project.root.join("etc").join("npm").join("ikigai.js");
    tree.add_file("bin/ikigai.js".to_owned(), &launcher)?;
    write(release, MAIN, &tree)
}

fn common(name: &str, release: &Release) -> Map<String, Value> {
    let mut manifest = Map::new();
    manifest.insert("name".to_owned(), json!(name));
    manifest.insert("version".to_owned(), json!(release.version));
    manifest.insert("license".to_owned(), json!("Apache-2.0 OR MIT"));
    manifest
}

fn text(manifest: &Map<String, Value>) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(manifest)?))
}

fn write(release: &Release, name: &str, tree: &FileTree) -> anyhow::Result<()> {
    let content = tar(tree, "package", release.time)?;
    let name = format!("{name}-{}.tgz", release.version);
    release.write(&name, compress::gzip(&content, release.effort)?)
}
