//! The facts that all files of a release share: its version, its time and its directory.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::dist::compress::CompressionEffort;
use crate::project::{CargoProject, HOST};
use crate::run;

/// The variable with the time of a release, in seconds since 1970 (reproducible-builds.org).
const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// A release in the making.
pub(crate) struct Release {
    pub(crate) version: String,
    /// The time of every file, in seconds since 1970, taken from the commit.
    pub(crate) time: u64,
    pub(crate) effort: CompressionEffort,
    /// `true` for files that users may get, whose programs must run with an old glibc.
    pub(crate) is_final: bool,
    /// The directory of the finished files.
    pub(crate) out: PathBuf,
}

impl Release {
    pub(crate) fn new(
        project: &CargoProject,
        version: Option<&str>,
        profile: &str,
        out: PathBuf,
    ) -> anyhow::Result<Self> {
        let version = match version {
            Some(version) => version.to_owned(),
            None => project.version(HOST)?,
        };
        check_version(&version)?;
        let time = match env::var(TIME_VARIABLE) {
            Ok(time) => time,
            Err(_) => time_of_commit(project)?,
        };
        let time = time.trim().parse();
        let time =
            time.with_context(|| format!("`{TIME_VARIABLE}` must be a number of seconds"))?;
        let effort = CompressionEffort::for_profile(profile);
        Ok(Self { version, time, effort, is_final: effort == CompressionEffort::High, out })
    }

    /// Writes a finished file.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path = self.out.join(name);
        let bytes = bytes.as_ref();
        fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
        run::note(&format!("{name}, {:.1} MB", bytes.len() as f64 / 1e6));
        Ok(())
    }
}

fn time_of_commit(project: &CargoProject) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.current_dir(&project.root).args(["log", "-1", "--format=%ct"]);
    run::output(&mut git)
        .with_context(|| format!("there is no commit to take the time from; set `{TIME_VARIABLE}`"))
}

/// Checks a version, which becomes part of file names and of a script.
fn check_version(version: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let numbers = version.split('-').next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = numbers.split('.').count() == 3 && numbers.split('.').all(is_number);
    if !is_version || !version.chars().all(is_plain) {
        bail!("invalid version `{version}`; expected one like `0.2.0` or `0.2.0-rc.1`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_version;

    #[test]
    fn a_version_is_three_numbers_and_perhaps_a_suffix() {
        for good in ["0.2.0", "1.10.2-rc.1"] {
            check_version(good).expect("a version");
        }
        for bad in ["", "1", "1.2", "1.2.x", "1.2.3;rm", "v1.2.3", "1.2.3.4", "../1.2.3"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }
}
