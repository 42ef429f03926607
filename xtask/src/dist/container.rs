//! The recipe of a container image, next to the archive that it unpacks.

use std::fs;

use anyhow::Context as _;

use crate::dist::release::Release;
use crate::project::CargoProject;

/// The default of the recipe's argument, which a release replaces.
const VERSION: &str = "ARG VERSION=0.0.0";

pub(crate) fn recipe(project: &CargoProject, release: &Release) -> anyhow::Result<()> {
    let path = project.root.join("etc").join("container").join("Containerfile");
    let recipe =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let version = format!("ARG VERSION={}", release.version);
    release.write("Containerfile", recipe.replace(VERSION, &version))
}
