//! `ikigai doctor --verify`: checks a downloaded file of a release against the signed list of
//! digests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_host::Digest;
use ikigai_packages::{Signer, open_regular};
use serde_json::json;

use crate::error::{self, CliError, with_path};
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use crate::shipping::{ReleaseList, ReleaseSigners, SUMS, trust};

#[derive(Debug, Args)]
pub(super) struct DownloadFlags {
    /// Check this downloaded file of a release, and not the machine
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) verify: Option<PathBuf>,
    /// The signed list of digests [default: SHA256SUMS next to the file]
    #[arg(long, value_name = "FILE", requires = "verify", value_hint = ValueHint::FilePath)]
    sums: Option<PathBuf>,
    /// Public key of the list's signer [default: the signers in the policy]
    #[arg(long, value_name = "KEY | FILE", requires = "verify", value_hint = ValueHint::FilePath)]
    key: Option<String>,
}

/// The findings on one file.
#[derive(Default)]
struct DownloadFindings {
    /// The checks that succeeded.
    good: Vec<String>,
    /// The faults.
    bad: Vec<String>,
    /// Hints on how to fix the faults.
    hints: Vec<String>,
    digest: Option<Digest>,
    /// The trusted signer of the list.
    signer: Option<Signer>,
}

pub(super) fn run(
    options: &SharedOptions,
    file: &Path,
    flags: &DownloadFlags,
    as_json: bool,
) -> Result<ExitCode, CliError> {
    let open = with_path(open_regular(file), "read", file)?;
    let sums = flags.sums.clone().unwrap_or_else(|| file.with_file_name(SUMS));
    let signers = match &flags.key {
        Some(key) => ReleaseSigners::from_key(key)?,
        None => ReleaseSigners::Policy(trust(&*options.host()?.authority().signers()?)?),
    };
    let mut findings = DownloadFindings::default();
    let list = ReleaseList::read(&sums)?;
    findings.check_digest(file, open, &list)?;
    findings.check_signer(&list, &signers);
    let good = findings.bad.is_empty();
    if as_json {
        print_json(&json!({
            "file": file.to_string_lossy(),
            "good": good,
            "findings": findings.bad,
            "facts": findings.good,
            "digest": findings.digest,
            "signer": findings.signer,
        }))?;
    } else {
        print(&findings.text(file))?;
    }
    Ok(ExitCode::from(if good { 0 } else { error::FAILED }))
}

impl DownloadFindings {
    /// Compares the size and the digest of a file with the list.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    fn check_digest(
        &mut self,
        file: &Path,
        open: File,
        list: &ReleaseList,
    ) -> Result<(), CliError> {
        let size = open.metadata()?.len();
        let found = with_path(Digest::of_reader(open), "read", file)?;
        self.digest = Some(found);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let sums = list.name();
        let Some(listed) = list.digest(&name) else {
            self.bad.push(format!("`{sums}` does not list `{name}`"));
            self.hints.push(
                "use the list of the same release, and the name that the file has there".to_owned(),
            );
            return Ok(());
        };
        if found == listed {
            self.good.push(format!("its digest is the one in `{sums}`: {found}"));
            return Ok(());
        }
        self.bad.push(match list.size(&name) {
            Some(whole) if size < whole => {
                format!("the file was cut: it has {size} of {whole} bytes")
            }
            _ => format!("its digest is {found}, and `{sums}` has {listed}"),
        });
        self.hints.push("download the file and the list again".to_owned());
        Ok(())
    }

    /// Looks for a signer that vouches for the list.
    fn check_signer(&mut self, list: &ReleaseList, signers: &ReleaseSigners) {
        match list.voucher(signers) {
            Ok(voucher) => {
                self.good.push(format!(
                    "`{}` is signed by `{}`, {}",
                    list.name(),
                    voucher.signer,
                    voucher.trusted_by
                ));
                self.signer = Some(voucher.signer);
            }
            Err(error) => {
                self.bad.push(error.reason());
                self.hints.extend_from_slice(error.given_hints());
            }
        }
    }

    fn text(&self, file: &Path) -> String {
        let good = self.good.iter().map(|line| ("ok  ", line));
        let bad = self.bad.iter().map(|line| ("FAIL", line));
        let hints = self.hints.iter().map(|line| ("hint", line));
        let lines = good.chain(bad).chain(hints).map(|(mark, line)| format!("  {mark}  {line}\n"));
        format!("{}\n{}", file.display(), lines.collect::<String>())
    }
}
