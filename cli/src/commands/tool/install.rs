//! `ikigai tool install`: tools from a file, an address, a registry, a layout or a project.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_supply::reference::Reference;
use semver::VersionReq;
use serde_json::{Value, json};

use super::installation::{Done, Expected, Flags, Installation, State};
use super::target::Target;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::print_json;
use crate::shipping::{Client, Request, root, typed};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool install ghcr.io/acme/weather --version '^1.2'\n  \
    ikigai tool install https://acme.example/weather.wasm#sha256=HEX\n  \
    ikigai tool install ./dist/weather.wasm --grant\n  \
    ikigai tool install ghcr.io/acme/weather:1.2.0 --in-workspace\n\n\
    REF is a file, an address, HOST/REPOSITORY[:TAG][@sha256:DIGEST], the directory of an OCI layout \
    or of a project. What a tool needs is shown with its author's reasons, and granted only if you \
    agree. Without a terminal it is installed and not granted, unless --grant is given.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tools
    #[arg(required = true, value_name = "REF", value_hint = ValueHint::AnyPath)]
    references: Vec<String>,
    /// The versions to choose from, such as ^1.2; the newest is taken
    #[arg(long, value_name = "REQ")]
    version: Option<VersionReq>,
    /// Install for this workspace: into its lock, which others can share
    #[arg(long)]
    in_workspace: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    network: Network,
    /// Take the place of a standard tool, or of one that came from elsewhere
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The flags by which a person agrees beforehand.
#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Grant what the tool needs, but for what no manifest is granted
    #[arg(long)]
    pub(super) grant: bool,
    /// Do not ask; grants nothing
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Accept another signer than before, or none
    #[arg(long)]
    pub(super) accept_signer: bool,
}

/// The flags of commands that ask registries.
#[derive(Debug, Args)]
pub(super) struct Network {
    /// Ask nothing over a network: take what was downloaded before
    #[arg(long)]
    pub(super) offline: bool,
    /// The authorities of Sigstore (a trusted_root.json) in place of the public ones
    #[arg(long, value_name = "FILE", env = "IKIGAI_TRUSTED_ROOT", value_hint = ValueHint::FilePath)]
    pub(super) trusted_root: Option<PathBuf>,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { references, version, in_workspace, consent, network, replace, json } =
        arguments;
    // All of them first: nothing is installed where one is no reference.
    let references = references.iter().map(|text| typed(text)).collect::<Result<Vec<_>, _>>()?;
    let (host, paths) = (options.host()?, options.paths());
    let client = Client::new(&paths, network.offline)?;
    let target = Target::of(options, &paths, in_workspace)?;
    let flags = Flags {
        grant: consent.grant,
        yes: consent.yes,
        accept_signer: consent.accept_signer,
        replace,
        ..Flags::default()
    };
    let root = root(network.trusted_root.as_deref())?;
    let installation = Installation::new(&host, &paths, target, flags, "install", root)?;
    let mut done: Vec<Done> = Vec::new();
    for reference in references {
        let lock = installation.target.lock()?;
        let known = lock.of_source(&without_pointer(&reference));
        let locked = known.filter(|_| network.offline);
        let request = Request { reference, versions: version.clone(), locked };
        for fetched in request.fetch(&client).await? {
            done.push(installation.install(fetched, Expected::Any).await?);
        }
    }
    finish(&done, json)
}

/// Prints what was done as JSON, if that is asked for, and returns the exit code.
pub(super) fn finish(done: &[Done], json: bool) -> Result<ExitCode, CliError> {
    if json {
        print_json(&done.iter().map(as_json).collect::<Vec<Value>>())?;
    }
    let is_declined = done.iter().any(|done| done.state == State::Declined);
    Ok(ExitCode::from(if is_declined { error::FAILED } else { 0 }))
}

fn as_json(done: &Done) -> Value {
    let mut value = json!({ "state": done.state });
    if let (Value::Object(value), Value::Object(report)) = (&mut value, &done.json) {
        value.extend(report.clone());
    }
    value
}

/// Returns the text of a reference as a lock keeps it.
fn without_pointer(reference: &Reference) -> String {
    match reference {
        Reference::Registry(reference) => reference.without_pointer().to_string(),
        Reference::Url(url) => url.url().to_string(),
        Reference::Path(_) => reference.to_string(),
    }
}
