//! `ikigai tool install`: tools from a file, an address, a registry, a layout or a project.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use semver::VersionReq;
use serde_json::{Value, json};

use super::installation::{ExpectedTool, Flags, InstallOutcome, Installer};
use super::target::InstallTarget;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::shipping::{RegistryClient, ToolRequest, root, typed};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool install ghcr.io/acme/weather --version '^1.2'\n  \
    ikigai tool install https://acme.example/weather.wasm#sha256=HEX\n  \
    ikigai tool install ./dist/weather.wasm --grant\n  \
    ikigai tool install ghcr.io/acme/weather:1.2.0 --in-workspace\n\n\
    REF is a file, a URL, HOST/REPOSITORY[:TAG][@sha256:DIGEST], or the directory of an OCI \
    layout or a project. ikigai shows what a tool needs, and the reasons that its author gives. \
    ikigai grants this only if you agree. Without a terminal, --yes installs the tool, and --yes \
    --grant also grants what it needs.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tools
    #[arg(required = true, value_name = "REF", value_hint = ValueHint::AnyPath)]
    references: Vec<String>,
    /// The version requirement, such as ^1.2; the newest match is used. 1.2.0 means ^1.2.0, which 1.2.5 matches too;
    /// =1.2.0 is exactly that version
    #[arg(long, value_name = "REQ")]
    version: Option<VersionReq>,
    /// Install for this workspace: into its lock file, which others can share
    #[arg(long)]
    in_workspace: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    shown: DisplayFlags,
    #[command(flatten)]
    network: RegistryFlags,
    /// Replace a built-in tool, or a tool from another source
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The flags by which a person agrees beforehand.
#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Grant what the tool needs, except for what ikigai never grants from a manifest
    #[arg(long)]
    pub(super) grant: bool,
    /// Do not ask, and grant nothing
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Accept a changed signer, or an unsigned file
    #[arg(long)]
    pub(super) accept_signer: bool,
}

/// The flags for what is shown of a tool.
#[derive(Debug, Args)]
pub(super) struct DisplayFlags {
    /// List the interfaces that a component imports
    #[arg(long)]
    pub(super) imports: bool,
}

/// The flags of commands that ask registries.
#[derive(Debug, Args)]
pub(super) struct RegistryFlags {
    /// Do not use the network: use earlier downloads
    #[arg(long)]
    pub(super) offline: bool,
    /// Sigstore authorities (a trusted_root.json) to use instead of the public ones
    #[arg(long, value_name = "FILE", env = "IKIGAI_TRUSTED_ROOT", value_hint = ValueHint::FilePath)]
    pub(super) trusted_root: Option<PathBuf>,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { references, version, in_workspace, consent, shown, network, replace, json } =
        arguments;
    // Parse all of them first, so that nothing is installed if one reference is invalid.
    let references = references.iter().map(|text| typed(text)).collect::<Result<Vec<_>, _>>()?;
    let (host, paths) = (options.host()?, options.paths());
    let client = RegistryClient::new(&paths, network.offline, options.command_gate()?)?;
    let target = InstallTarget::from_options(options, &paths, in_workspace)?;
    let flags = Flags {
        grant: consent.grant,
        yes: consent.yes,
        accept_signer: consent.accept_signer,
        replace,
        imports: shown.imports,
        ..Flags::default()
    };
    let root = root(network.trusted_root.as_deref())?;
    let installation = Installer::new(&host, &paths, target, flags, "install", root)?;
    let mut ended = ToolResults::default();
    for reference in references {
        let asked = RequestedTool { name: None, from: reference.to_string() };
        let request = ToolRequest { reference, versions: version.clone(), locked: None };
        match request.fetch(&client).await {
            Err(error) => ended.add(&asked, Err(error)),
            Ok(all) => {
                for fetched in all {
                    ended.add(&asked, installation.install(fetched, ExpectedTool::Any).await);
                }
            }
        }
    }
    ended.finish(json)
}

/// A tool that a command requests.
#[derive(Clone)]
pub(super) struct RequestedTool {
    /// The name, if it was known before the tool was fetched.
    pub(super) name: Option<String>,
    /// The place that the tool comes from.
    pub(super) from: String,
}

/// The results for the tools of one command. A failed tool does not stop the others.
#[derive(Default)]
pub(super) struct ToolResults(Vec<(RequestedTool, Result<InstallOutcome, CliError>)>);

impl ToolResults {
    /// Adds the result for one tool, and prints its error at once.
    pub(super) fn add(&mut self, asked: &RequestedTool, end: Result<InstallOutcome, CliError>) {
        if let Err(error) = &end {
            eprint(&error.text());
        }
        self.0.push((asked.clone(), end));
    }

    /// Prints the results as JSON, if requested, and returns the exit code. The error of a single
    /// tool has its own exit code. Otherwise the code is 1 if a tool failed, was declined, cannot
    /// be called, or lost a part of its grant.
    pub(super) fn finish(self, json: bool) -> Result<ExitCode, CliError> {
        if json {
            let ends = self.0.iter().map(|(asked, end)| match end {
                Ok(done) => as_json(done),
                Err(error) => failure(asked, error),
            });
            print_json(&ends.collect::<Vec<Value>>())?;
        }
        if let [(_, Err(error))] = &self.0[..] {
            return Ok(ExitCode::from(error.exit));
        }
        let failed: Vec<String> = self.0.iter().filter_map(failed).collect();
        if !failed.is_empty() {
            let (count, all) = (failed.len(), self.0.len());
            eprint(&format!("{count} of {all} failed: {}\n", failed.join(", ")));
        }
        let is_bad =
            self.0.iter().any(|(_, end)| end.as_ref().map_or(true, InstallOutcome::is_bad));
        Ok(ExitCode::from(if is_bad { error::FAILED } else { 0 }))
    }
}

/// Returns the text for a failed tool in a list; `None` for other tools.
fn failed((asked, end): &(RequestedTool, Result<InstallOutcome, CliError>)) -> Option<String> {
    let text = asked.name.as_ref().unwrap_or(&asked.from);
    end.is_err().then(|| format!("`{text}`"))
}

fn failure(asked: &RequestedTool, error: &CliError) -> Value {
    json!({
        "state": "failed",
        "name": asked.name,
        "from": asked.from,
        "error": error.reason(),
    })
}

/// Prints the results as JSON, if requested, and returns the exit code.
pub(super) fn finish(done: &[InstallOutcome], json: bool) -> Result<ExitCode, CliError> {
    if json {
        print_json(&done.iter().map(as_json).collect::<Vec<Value>>())?;
    }
    Ok(ExitCode::from(if done.iter().any(InstallOutcome::is_bad) { error::FAILED } else { 0 }))
}

fn as_json(done: &InstallOutcome) -> Value {
    let mut value = json!({ "state": done.state });
    if let (Value::Object(value), Value::Object(report)) = (&mut value, &done.json) {
        value.extend(report.clone());
    }
    value
}
