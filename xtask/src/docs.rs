//! `cargo xtask docs`: the pages of the documentation that the program writes about its commands
//! and its environment variables.

use std::process::Command;

use crate::build::{self, EVERYDAY};
use crate::place;
use crate::project::CargoProject;
use crate::run::{self, step};

/// Builds the host in the everyday profile, and makes it write its reference pages.
pub(crate) fn docs(project: &CargoProject) -> anyhow::Result<()> {
    step("Building the host");
    build::native(project, EVERYDAY)?;
    let pages = project.root.join("docs").join("reference");
    step(&format!("Writing the pages in {}", project.shown(&pages)));
    place::directory(&pages)?;
    let host = build::host(project, EVERYDAY).file;
    run::run(Command::new(host).arg("__reference").arg(&pages))
}
