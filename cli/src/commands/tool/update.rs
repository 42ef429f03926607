//! `ikigai tool update`: updates installed tools to the newest version that the lock allows.

use std::process::ExitCode;

use clap::Args;
use ikigai_packages::ToolsLock;
use ikigai_packages::lock::{LockedTool, WantedVersion};
use ikigai_packages::reference::Reference;
use semver::VersionReq;

use super::install::{Consent, DisplayFlags, RegistryFlags, RequestedTool, ToolResults};
use super::installation::{ExpectedTool, Flags, Installer};
use super::target::InstallTarget;
use crate::complete;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::eprint;
use crate::shipping::{Fetched, RegistryClient, ToolRequest, manifest_at, root};
use ikigai_host::nearest::nearest;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool outdated\n  \
    ikigai tool update weather\n  \
    ikigai tool update --yes --grant";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tools [default: all installed tools]
    #[arg(add = complete::tools())]
    names: Vec<String>,
    /// Install an older version, if the source has no newer one
    #[arg(long)]
    downgrade: bool,
    /// Use this workspace's lock file
    #[arg(long)]
    in_workspace: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    shown: DisplayFlags,
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
    let Arguments { names, downgrade, in_workspace, consent, shown, network, json } = arguments;
    let (host, paths) = (options.host()?, options.paths());
    let client = RegistryClient::new(&paths, network.offline, options.command_gate()?)?;
    let flags = Flags {
        grant: consent.grant,
        yes: consent.yes,
        accept_signer: consent.accept_signer,
        downgrade,
        imports: shown.imports,
        ..Flags::default()
    };
    let target = InstallTarget::from_options(options, &paths, in_workspace)?;
    let root = root(network.trusted_root.as_deref())?;
    let installation = Installer::new(&host, &paths, target, flags, "update", root)?;
    let lock = installation.target.lock()?;
    let mut ended = ToolResults::default();
    for (name, tool) in chosen(&lock, &names)? {
        let asked = RequestedTool { name: Some(name.to_owned()), from: tool.from.clone() };
        match fetch(&installation, &client, name, tool).await {
            Err(error) => ended.add(&asked, Err(error)),
            Ok(found) => {
                for fetched in found {
                    ended
                        .add(&asked, installation.install(fetched, ExpectedTool::Name(name)).await);
                }
            }
        }
    }
    if lock.is_empty() {
        eprint("no tool was installed by `ikigai tool install`\n");
    }
    ended.finish(json)
}

/// Fetches the newest version of an installed tool that the lock allows.
async fn fetch(
    installation: &Installer<'_>,
    client: &RegistryClient,
    name: &str,
    tool: &LockedTool,
) -> Result<Vec<Fetched>, CliError> {
    installation.check_approved(name, tool)?;
    let (reference, versions) = source(tool)?;
    let request = ToolRequest { reference, versions, locked: None };
    let mut found = request.fetch(client).await?;
    if found.len() > 1 {
        // A layout may have other tools. A file without a manifest may be any tool.
        found.retain(|it| manifest_at(&it.path).is_none_or(|manifest| manifest.name == name));
    }
    if found.is_empty() {
        let what = format!("`{}` no longer has `{name}`", tool.from);
        return Err(CliError::failed(anyhow::Error::msg(what)).hint(format!(
            "`ikigai tool remove {name}` removes it; until then you can still call it"
        )));
    }
    Ok(found)
}

/// Returns the named tools of a lock, or all tools if `names` is empty.
pub(super) fn chosen<'a>(
    lock: &'a ToolsLock,
    names: &[String],
) -> Result<Vec<(&'a str, &'a LockedTool)>, CliError> {
    if names.is_empty() {
        return Ok(lock.iter().collect());
    }
    let find = |name: &String| {
        let found = lock.iter().find(|(known, _)| known == name);
        found.ok_or_else(|| {
            let what = format!("`{name}` was not installed by `ikigai tool install`");
            let near = nearest(name, lock.iter().map(|(known, _)| known));
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            CliError::failed(anyhow::Error::msg(what)).hints(hint)
        })
    };
    names.iter().map(find).collect()
}

/// Returns the source of an installed tool, and the versions that its lock entry allows.
pub(super) fn source(tool: &LockedTool) -> Result<(Reference, Option<VersionReq>), CliError> {
    let reference: Reference = tool.from.parse()?;
    Ok(match (reference, &tool.wanted) {
        (Reference::Registry(registry), Some(WantedVersion::Tag(tag))) => {
            (Reference::Registry(registry.with_tag(tag.as_str())?), None)
        }
        (reference, Some(WantedVersion::Versions(versions))) => (reference, Some(versions.clone())),
        (reference, Some(WantedVersion::Tag(_)) | None) => (reference, None),
    })
}
