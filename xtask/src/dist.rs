//! `cargo xtask dist`: makes every file of a release from one list of targets.
//!
//! This module owns the command line and the order of the steps. Each channel has a module, and
//! [`payload`] decides which files all of them contain. Nothing is published here.

mod archive;
mod build;
mod compress;
mod container;
mod debian;
mod elf;
mod inventory;
mod notices;
mod npm;
mod payload;
mod release;
mod sbom;
mod script;
mod signing;
mod sums;
mod tar;
mod target;
mod tree;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use crate::dist::payload::ReleasePayload;
use crate::dist::release::Release;
use crate::dist::signing::ReleaseKey;
use crate::dist::target::{CLibrary, ReleaseTarget, TARGETS};
use crate::place;
use crate::project::CargoProject;
use crate::run::step;

#[derive(Args)]
pub(crate) struct DistOptions {
    /// Make the files for this target only; may be repeated [default: all targets of a release]
    #[arg(long = "target", value_name = "TRIPLE", value_parser = known_target)]
    targets: Vec<&'static ReleaseTarget>,
    /// Make the files of this channel only; may be repeated [default: all channels]
    #[arg(long = "only", value_name = "CHANNEL")]
    channels: Vec<ReleaseChannel>,
    /// Name the release VERSION [default: the version of the workspace]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Build with this cargo profile; `dev` also compresses less
    #[arg(long, value_name = "NAME", default_value = "release-lto")]
    profile: String,
    /// Write the files to DIR [default: dist in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build nothing, and package the installation in DIR, or in DIR/TRIPLE for several targets
    #[arg(long, value_name = "DIR")]
    no_build: Option<PathBuf>,
    /// Sign the list of digests with this secret key of ssh or minisign
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Make install.sh download the files from URL unless its user names another place
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Let install.sh follow redirects to HOST, as the hosts of releases need; may be repeated
    #[arg(long = "redirect-host", value_name = "HOST", requires = "base_url")]
    redirect_hosts: Vec<String>,
}

/// A way in which users get ikigai.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReleaseChannel {
    /// Archives of an installation, as .tar.zst and .tar.gz
    Archive,
    /// The script that downloads and unpacks an archive
    Script,
    /// Packages for npm
    Npm,
    /// Wheels for PyPI
    Pypi,
    /// Packages for Debian and Ubuntu
    Deb,
    /// The recipe of a container image
    Container,
}

impl ReleaseChannel {
    const ALL: [Self; 6] =
        [Self::Archive, Self::Script, Self::Npm, Self::Pypi, Self::Deb, Self::Container];
}

pub(crate) fn dist(project: &CargoProject, options: &DistOptions) -> anyhow::Result<()> {
    let out = match &options.out {
        Some(out) => std::path::absolute(out).context("cannot use `--out`")?,
        None => project.target.join("dist"),
    };
    let release = Release::new(project, options.version.as_deref(), &options.profile, out)?;
    let key = options.sign.as_deref().map(ReleaseKey::load).transpose()?;
    place::empty_directory(&release.out)?;

    let channels: &[ReleaseChannel] =
        if options.channels.is_empty() { &ReleaseChannel::ALL } else { &options.channels };
    let all: Vec<&ReleaseTarget> = TARGETS.iter().collect();
    let targets = if options.targets.is_empty() { &all } else { &options.targets };
    for target in targets {
        let staged = match &options.no_build {
            Some(folder) => installation(folder, target, targets.len())?,
            None => build::build(project, target, &options.profile, release.time)?,
        };
        step(&format!("Packaging {} for {}", release.version, target.triple));
        let payload = ReleasePayload::load(project, &release, target, &staged)?;
        for channel in channels {
            package(project, *channel, &release, &payload)?;
        }
    }
    for channel in channels {
        match channel {
            ReleaseChannel::Npm => npm::main_package(project, &release, targets)?,
            ReleaseChannel::Script => {
                let source = script::ScriptSource {
                    base_url: options.base_url.as_deref(),
                    redirect_hosts: &options.redirect_hosts,
                };
                script::install_script(project, &release, &source, key.as_ref())?;
            }
            ReleaseChannel::Container => container::recipe(project, &release)?,
            _ => {}
        }
    }
    sums::write(&release.out)?;
    if let Some(key) = &key {
        step("Signing the list of digests");
        key.sign(&release.out.join(sums::SUMS))?;
    }
    step(&format!("Wrote {}", project.shown(&release.out)));
    Ok(())
}

/// Makes the files of a channel for one target.
fn package(
    project: &CargoProject,
    channel: ReleaseChannel,
    release: &Release,
    payload: &ReleasePayload,
) -> anyhow::Result<()> {
    match channel {
        ReleaseChannel::Archive => archive::archive(project, release, payload),
        ReleaseChannel::Npm => npm::platform_package(release, payload),
        ReleaseChannel::Pypi => wheel::wheel(release, payload),
        // Debian's users have glibc.
        ReleaseChannel::Deb if payload.target.library == CLibrary::Glibc => {
            debian::package(release, payload)
        }
        ReleaseChannel::Deb | ReleaseChannel::Script | ReleaseChannel::Container => Ok(()),
    }
}

/// Returns the folder of a target's installation in the folder of `--no-build`.
fn installation(folder: &Path, target: &ReleaseTarget, targets: usize) -> anyhow::Result<PathBuf> {
    let own = folder.join(target.triple);
    if own.is_dir() {
        return Ok(own);
    }
    if targets > 1 {
        bail!(
            "`{}` has no folder `{}`; give one `--target`, or a folder for each target",
            folder.display(),
            target.triple
        );
    }
    Ok(folder.to_owned())
}

fn known_target(triple: &str) -> Result<&'static ReleaseTarget, String> {
    ReleaseTarget::named(triple).ok_or_else(|| {
        let known: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        format!("expected one of {}", known.join(", "))
    })
}
