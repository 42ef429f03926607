//! The files that every channel contains: an installation, its documentation, and the samples for
//! an administrator.
//!
//! Owns the layout below a prefix, the checks of the programs, and nothing about package formats.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::apparmor;
use crate::dist::elf::ElfProgram;
use crate::dist::inventory::Inventory;
use crate::dist::release::Release;
use crate::dist::target::{CLibrary, GLIBC_FLOOR, GlibcVersion, ReleaseTarget};
use crate::dist::tree::FileTree;
use crate::dist::{notices, sbom};
use crate::project::CargoProject;
use crate::run::note;

/// The programs without which an installation does not work. Tools and components are found next
/// to them.
const PROGRAMS: [&str; 3] = ["bin/ikigai", "libexec/ikigai-supervisor", "libexec/ikigai-compiler"];

/// The directories of an installation.
const DIRECTORIES: [&str; 3] = ["bin", "libexec", "share"];

/// The bill of materials, relative to the prefix.
pub(crate) const SBOM: &str = "share/doc/ikigai/sbom.cdx.json";

/// The licences of the crates in the programs, relative to the prefix.
pub(crate) const NOTICES: &str = "share/doc/ikigai/THIRD-PARTY-LICENSES";

/// Files of the repository, and their paths relative to the prefix.
const FILES: [(&str, &str); 8] = [
    ("README.md", "share/doc/ikigai/README.md"),
    ("CHANGELOG.md", "share/doc/ikigai/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/doc/ikigai/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/doc/ikigai/LICENSE-MIT"),
    ("etc/ikigai/config.toml", "share/doc/ikigai/config.toml"),
    (apparmor::SOURCE, apparmor::INSTALLED),
    ("etc/systemd/delegate.conf", "share/ikigai/systemd/delegate.conf"),
    ("etc/systemd/ikigai-mcp.service", "share/ikigai/systemd/ikigai-mcp.service"),
];

/// The files for one target.
pub(crate) struct ReleasePayload {
    pub(crate) target: &'static ReleaseTarget,
    /// The files, relative to the prefix of an installation.
    pub(crate) tree: FileTree,
    /// The oldest glibc that the programs run with.
    pub(crate) glibc: GlibcVersion,
}

impl ReleasePayload {
    /// Reads the installation in `staged`, and adds the other files.
    pub(crate) fn load(
        project: &CargoProject,
        release: &Release,
        target: &'static ReleaseTarget,
        staged: &Path,
    ) -> anyhow::Result<Self> {
        let mut tree = FileTree::default();
        for program in PROGRAMS {
            if !staged.join(program).is_file() {
                bail!("`{}` has no `{program}`, so it is no installation", staged.display());
            }
        }
        for directory in DIRECTORIES {
            tree.add_directory(directory, &staged.join(directory))?;
        }
        for (source, path) in FILES {
            tree.add_file(path.to_owned(), &project.root.join(source))?;
        }
        let inventory = Inventory::load(project, target.triple)?;
        tree.insert(SBOM, sbom::sbom(&inventory, release)?);
        tree.insert(NOTICES, notices::notices(&inventory)?);
        let glibc = check_programs(release, target, staged)?;
        Ok(Self { target, tree, glibc })
    }
}

/// Checks what the programs need, and returns the oldest glibc that has it.
fn check_programs(
    release: &Release,
    target: &ReleaseTarget,
    staged: &Path,
) -> anyhow::Result<GlibcVersion> {
    let mut needed = GLIBC_FLOOR;
    let tools = staged.join("libexec").join("ikigai");
    let list = || format!("cannot list `{}`", tools.display());
    let mut programs: Vec<_> = PROGRAMS.iter().map(|program| staged.join(program)).collect();
    for entry in fs::read_dir(&tools).with_context(list)? {
        let path = entry.with_context(list)?.path();
        if path.is_file() && path.extension().is_none() {
            programs.push(path);
        }
    }
    for path in programs {
        let cannot_read = || format!("cannot read `{}`", path.display());
        let bytes = fs::read(&path).with_context(cannot_read)?;
        let program = ElfProgram::parse(&bytes).with_context(cannot_read)?;
        if target.library == CLibrary::Musl && !program.is_static().with_context(cannot_read)? {
            bail!("`{}` is not static, as a program for {} is", path.display(), target.triple);
        }
        needed = needed.max(program.glibc().with_context(cannot_read)?.unwrap_or(GLIBC_FLOOR));
        if program.auditable().is_none() && release.is_final {
            note(&format!("`{}` has no list of its crates: no cargo-auditable", path.display()));
        }
    }
    if needed > GLIBC_FLOOR {
        let what = format!("the programs need glibc {needed}, and a release {GLIBC_FLOOR}");
        if release.is_final {
            bail!("{what}; build with cargo-zigbuild, or use `--profile dev` to try things");
        }
        note(&what);
    }
    Ok(needed)
}
