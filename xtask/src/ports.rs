//! Checks that the sources compile for other machines than the one that builds.
//!
//! Only types are checked, and only in the packages that need no C compiler for the target. These
//! packages contain system calls, which differ by processor and C library.

use std::env;

use anyhow::bail;

use crate::project::CargoProject;
use crate::run::{self, note, step};
use crate::toolchain;

/// Linux with the other processor and the other C library at once, and the other system. Every
/// difference from the building machine is covered by one of them.
const TARGETS: [&str; 2] = ["aarch64-unknown-linux-musl", "aarch64-apple-darwin"];

const PACKAGES: [&str; 3] = ["ikigai-supervisor", "ikigai-tools-native", "ikigai-protocol"];

pub(crate) fn check(project: &CargoProject) -> anyhow::Result<()> {
    for target in TARGETS {
        step(&format!("Types, for {target}"));
        if toolchain::has(project, target)? {
            let mut command = project.cargo(&["check", "--target", target]);
            for package in PACKAGES {
                command.args(["--package", package]);
            }
            run::run(&mut command)?;
        } else if env::var_os("CI").is_some() {
            bail!("the target {target} is missing; add it with `rustup target add {target}`")
        } else {
            note("the target is not installed, so this goes unchecked; CI checks it");
        }
    }
    Ok(())
}
