//! `ikigai tool fetch`: copies tools with their signatures into an OCI layout, for machines without
//! a network.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueHint};
use ikigai_packages::download::DownloadSource;
use ikigai_packages::layout::OciLayout;
use ikigai_packages::oci::{self, MOST_REFERRERS};
use ikigai_packages::reference::{Reference, RegistryReference};
use ikigai_packages::signature::{MAX_SIGNATURE_BYTES, SignatureKind};
use semver::VersionReq;
use serde_json::{Value, json};

use super::install::RegistryFlags;
use super::push::{attached, packed};
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::shipping::{ExaminedTool, Fetched, RegistryClient, ToolRequest, resolve, typed};
use ikigai_host::host::Host;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool fetch ghcr.io/acme/weather ghcr.io/acme/clock:2.0.1 --out stick/tools\n  \
    ikigai tool install stick/tools        on the offline machine";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tools
    #[arg(required = true, value_name = "REF", value_hint = ValueHint::AnyPath)]
    references: Vec<String>,
    /// The directory of the layout; created if missing, otherwise the tools are added
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// The version requirement, such as ^1.2; the newest match is used
    #[arg(long, value_name = "REQ")]
    version: Option<VersionReq>,
    #[command(flatten)]
    network: RegistryFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { references, out, version, network, json } = arguments;
    let references = references.iter().map(|text| typed(text)).collect::<Result<Vec<_>, _>>()?;
    let client = RegistryClient::new(&options.paths(), network.offline, options.command_gate()?)?;
    let host = options.host()?;
    let layout = OciLayout::create(&out)?;
    let mut fetched: Vec<Value> = Vec::new();
    for reference in references {
        match &reference {
            Reference::Registry(registry) => {
                fetched.push(copied(&client, &layout, registry, version.as_ref()).await?);
            }
            Reference::Path(_) | Reference::Url(_) => {
                let request = ToolRequest { reference, versions: version.clone(), locked: None };
                for tool in request.fetch(&client).await? {
                    fetched.push(added(&host, &layout, tool).await?);
                }
            }
        }
    }
    for tool in &fetched {
        let name = tool["name"].as_str().unwrap_or_default();
        eprint(&format!("{name}, signatures: {}\n", tool["signatures"]));
    }
    if json {
        print_json(&fetched)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies an artifact of a registry byte by byte, with its signatures.
async fn copied(
    client: &RegistryClient,
    layout: &OciLayout,
    registry: &RegistryReference,
    versions: Option<&VersionReq>,
) -> Result<Value, CliError> {
    let repository = client.repository(registry)?;
    let (artifact, source) = resolve(&repository, registry, versions).await?;
    let downloaded =
        client.download(DownloadSource::Blob(&repository, &artifact), &source.from).await?;
    let mut signatures = oci::referrers(&repository, artifact.manifest).await?;
    signatures
        .retain(|referrer| SignatureKind::of_artifact_type(&referrer.artifact_type).is_some());
    signatures.truncate(MOST_REFERRERS);
    let from = source.from.trim_start_matches("oci://");
    let name = match &source.tag {
        Some(tag) => format!("{from}:{tag}"),
        None => format!("{from}@sha256:{}", artifact.manifest),
    };
    let path = &downloaded.path;
    layout.copy(&repository, &artifact, path, &signatures, MAX_SIGNATURE_BYTES, &name).await?;
    Ok(json!({
        "name": name,
        "manifest": format!("sha256:{}", artifact.manifest),
        "sha256": artifact.digest,
        "size": artifact.size,
        "signatures": signatures.len(),
    }))
}

/// Packs a file that comes from elsewhere than a registry.
async fn added(host: &Host, layout: &OciLayout, tool: Fetched) -> Result<Value, CliError> {
    let examined = ExaminedTool::from_fetched(host, tool).await?;
    let component: Bytes = std::fs::read(&examined.fetched.path)
        .context("cannot read the copy of the file")
        .map_err(CliError::failed)?
        .into();
    let packed = packed(&examined, &component)?;
    let name = format!(
        "{}:{}",
        examined.name(),
        match &examined.manifest {
            Some(manifest) => manifest.version.to_string().replace('+', "_"),
            None => "latest".to_owned(),
        }
    );
    layout.add(&packed, &name)?;
    let signatures = &examined.fetched.source.signatures;
    for (place, bytes) in signatures {
        let Some(kind) = SignatureKind::from_bytes(bytes) else {
            let what = format!("`{place}` is not a signature");
            return Err(CliError::failed(anyhow::Error::msg(what)));
        };
        let title = format!("{}.wasm{}", examined.name(), kind.suffix());
        layout.attach(&attached(bytes.clone(), kind, &title, &packed)?)?;
    }
    Ok(json!({
        "name": name,
        "manifest": format!("sha256:{}", packed.digest()),
        "sha256": examined.fetched.digest,
        "size": examined.fetched.size,
        "signatures": signatures.len(),
    }))
}
