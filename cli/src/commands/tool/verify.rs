//! `ikigai tool verify`: checks that installed files are unchanged, and whether another tool may be
//! installed.

use std::fs::File;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_host::Digest;
use ikigai_packages::LockedTool;
use serde_json::{Value, json};

use super::install::{DisplayFlags, RegistryFlags};
use super::target::{InstallTarget, pinned};
use super::update::source;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use crate::shipping::{
    ExaminedTool, InstallReport, RegistryClient, Requested, SignatureVerdict, ToolRequest,
    manifest_at, root, trust, typed,
};
use ikigai_host::host::Host;
use ikigai_packages::signature::SigstoreRoot;
use ikigai_packages::trust::Trust;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool verify                              every installed tool\n  \
    ikigai tool verify weather --offline            only its file and its lock entry\n  \
    ikigai tool verify ghcr.io/acme/weather:1.2.0   before it is installed";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// An installed tool, or a reference [default: every installed tool]
    #[arg(value_name = "NAME | REF", add = complete::tools(), value_hint = ValueHint::AnyPath)]
    subject: Option<String>,
    /// Use this workspace's lock file
    #[arg(long)]
    in_workspace: bool,
    #[command(flatten)]
    shown: DisplayFlags,
    #[command(flatten)]
    network: RegistryFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The findings on one tool.
#[derive(Default)]
struct ToolFindings {
    name: String,
    /// The checks that succeeded.
    good: Vec<String>,
    /// The faults.
    bad: Vec<String>,
    /// Hints on how to fix the faults.
    hints: Vec<String>,
    report: Option<Value>,
    /// True if the file in its place differs from the installed one.
    is_changed: bool,
}

/// The means by which tools are verified.
struct Verifier<'a> {
    host: &'a Host,
    client: RegistryClient,
    target: InstallTarget,
    trust: Trust,
    root: SigstoreRoot,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { subject, in_workspace, shown, network, json } = arguments;
    let (host, paths) = (options.host()?, options.paths());
    let target = InstallTarget::from_options(options, &paths, in_workspace)?;
    let lock = target.lock()?;
    let verifier = Verifier {
        host: &host,
        client: RegistryClient::new(&paths, network.offline, options.command_gate()?)?,
        target,
        trust: trust(&*host.authority().signers()?)?,
        root: root(network.trusted_root.as_deref())?,
    };
    let mut all = Vec::new();
    match subject {
        None => {
            for (name, tool) in lock.iter() {
                all.push(verifier.installed(name, tool).await);
            }
        }
        Some(text) => match lock.get(&text) {
            Some(tool) => all.push(verifier.installed(&text, tool).await),
            None => all = verifier.elsewhere(&text, shown.imports).await?,
        },
    }
    let is_good = all.iter().all(|findings| findings.bad.is_empty());
    if json {
        print_json(&all.iter().map(as_json).collect::<Vec<_>>())?;
    } else {
        print(&all.iter().map(as_text).collect::<String>())?;
    }
    Ok(ExitCode::from(if is_good { 0 } else { error::FAILED }))
}

impl Verifier<'_> {
    /// Checks an installed tool: its file, its signer under the current policy, and its signature
    /// at its source.
    async fn installed(&self, name: &str, tool: &LockedTool) -> ToolFindings {
        let mut findings = ToolFindings { name: name.to_owned(), ..ToolFindings::default() };
        let path = self.target.file(name, tool);
        match path.map(|path| (File::open(&path).and_then(Digest::of_reader), path)) {
            None => {
                findings.bad.push("its file is missing; reinstall it".to_owned());
                findings.hints.push(self.again(tool));
            }
            Some((Err(error), path)) => {
                findings.bad.push(format!("`{}` cannot be read: {error}", path.display()));
            }
            Some((Ok(found), path)) if found != tool.sha256 => {
                findings.bad.push(format!(
                    "`{}` was changed: its digest is {found}, and the lock has {}",
                    path.display(),
                    tool.sha256
                ));
                findings.hints.push(self.again(tool));
                findings.is_changed = true;
            }
            Some((Ok(_), path)) => {
                findings.good.push("its file is the one that was installed".to_owned());
                if manifest_at(&path).map(|manifest| manifest.needs.digest()) != tool.needs {
                    findings.bad.push("its needs differ from the lock".to_owned());
                }
            }
        }
        match self.trust.admit_call(name, &tool.signer) {
            Ok(()) if tool.signer.is_none() => {
                findings
                    .good
                    .push("it is not signed, and the policy requires no signature".to_owned());
            }
            Ok(()) => findings.good.push(format!("the policy trusts its signer, {}", tool.signer)),
            Err(refusal) => findings.bad.push(refusal.to_string()),
        }
        if !self.client.is_offline()
            && let Err(error) = self.at_source(name, tool, &mut findings).await
        {
            findings.bad.push(error.reason());
            findings.hints.extend_from_slice(error.given_hints());
        }
        findings
    }

    /// Returns the hint for a tool whose file differs from the installed one.
    fn again(&self, tool: &LockedTool) -> String {
        format!("`{}` restores the file in the lock", self.target.command_for(tool))
    }

    /// Asks the source of an installed tool whether it still has the file, and verifies its
    /// signature again.
    async fn at_source(
        &self,
        name: &str,
        tool: &LockedTool,
        findings: &mut ToolFindings,
    ) -> Result<(), CliError> {
        let (reference, versions) = source(tool)?;
        // Ask for an artifact by the digest of its manifest. Ask for any other file without a
        // digest, or the cache would answer instead of the source.
        let locked = tool.manifest.is_some().then_some(tool);
        let versions = versions.filter(|_| locked.is_none());
        let request = ToolRequest { reference, versions, locked };
        let fetched = request.fetch(&self.client).await.map_err(|error| {
            error.hint(format!(
                "you can still call the installed `{name}`; if its author moved it, `ikigai tool install REF \
                 --replace` installs it from its new source"
            ))
        })?;
        let found = fetched.first().map(|it| it.digest).filter(|_| fetched.len() == 1);
        for fetched in fetched {
            if fetched.digest != tool.sha256 {
                continue;
            }
            let examined = ExaminedTool::from_fetched(self.host, fetched).await?;
            let verdict = SignatureVerdict::reach(
                &examined,
                &self.trust,
                &self.root,
                Some((name, tool)),
                false,
            )?;
            if verdict.signer == tool.signer {
                findings.good.push("its source still has it, with the same signer".to_owned());
            }
            return Ok(());
        }
        findings.bad.push(match found {
            Some(found) => format!(
                "`{}` now has another file: its digest is {found}, and the lock has {}",
                tool.from, tool.sha256
            ),
            None => format!("`{}` no longer has this file of `{name}`", tool.from),
        });
        let command = match &self.target {
            // `update` does not touch a file that was changed.
            InstallTarget::User { .. } if findings.is_changed => {
                let reference = pinned(&tool.from, None, found.unwrap_or(tool.sha256));
                format!("ikigai tool install {reference} --replace")
            }
            InstallTarget::User { .. } => format!("ikigai tool update {name}"),
            InstallTarget::Workspace(_) => format!("ikigai tool update {name} --in-workspace"),
        };
        findings
            .hints
            .push(format!("if its author confirms the change, `{command}` installs that file"));
        Ok(())
    }

    /// Examines a tool that is not installed.
    async fn elsewhere(&self, text: &str, imports: bool) -> Result<Vec<ToolFindings>, CliError> {
        let approvals = self.target.approvals(self.host.registry().paths())?;
        let request = ToolRequest { reference: typed(text)?, versions: None, locked: None };
        let mut all = Vec::new();
        for fetched in request.fetch(&self.client).await? {
            let examined = ExaminedTool::from_fetched(self.host, fetched).await?;
            let name = examined.name().to_owned();
            let approved = approvals.find(&name, &examined.fetched.source);
            let verdict =
                SignatureVerdict::reach(&examined, &self.trust, &self.root, approved, false)?;
            let needs = examined.manifest.as_ref().map(|it| it.needs.clone()).unwrap_or_default();
            let requested =
                Requested::from_needs(&needs, examined.fetched.digest, examined.is_native());
            let report = InstallReport {
                examined: &examined,
                verdict: &verdict,
                requested: &requested,
                installed: None,
                has_imports: imports,
            };
            all.push(ToolFindings {
                name,
                good: report.text().lines().skip(1).map(|line| line.trim().to_owned()).collect(),
                report: Some(report.json()),
                ..ToolFindings::default()
            });
        }
        Ok(all)
    }
}

fn as_text(findings: &ToolFindings) -> String {
    let mut text = format!("{}\n", findings.name);
    for good in &findings.good {
        text.push_str(&format!("  ok    {good}\n"));
    }
    for bad in &findings.bad {
        text.push_str(&format!("  FAIL  {bad}\n"));
    }
    for hint in &findings.hints {
        text.push_str(&format!("  hint  {hint}\n"));
    }
    text
}

fn as_json(findings: &ToolFindings) -> Value {
    json!({
        "name": findings.name,
        "good": findings.bad.is_empty(),
        "findings": findings.bad,
        "facts": findings.good,
        "report": findings.report,
    })
}
