//! `ikigai tool outdated`: installed tools with a newer version, or with another file under the
//! same version.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream;
use ikigai_packages::lock::LockedTool;
use ikigai_packages::oci::{self, ContentSource as _, Repository};
use ikigai_packages::reference::{LocalTool, Pointer, Reference};
use semver::{Version, VersionReq};
use serde_json::json;

use super::install::RegistryFlags;
use super::list::plain_table;
use super::target::InstallTarget;
use super::update::source;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use crate::shipping::{RegistryClient, short, version_of};
use ikigai_host::Digest;

/// The most sources that are asked at once. It is enough that twenty tools need no more round trips
/// than one tool.
const AT_ONCE: usize = 32;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Use this workspace's lock file
    #[arg(long)]
    in_workspace: bool,
    #[command(flatten)]
    network: RegistryFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result for one tool.
struct OutdatedRow {
    name: String,
    installed: String,
    state: Result<NewestVersion, CliError>,
    from: String,
}

/// The newest version of a tool.
enum NewestVersion {
    /// The installed version.
    Current,
    /// A newer version, which `update` would install.
    Newer(String),
    /// Another file under the installed version, which `update` would install. This is its digest.
    Moved(String),
    /// A newer version that the lock's requirement excludes.
    Beyond(String),
    /// Unknown for this reason, for example because the source has no versions.
    Unknown(&'static str),
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { in_workspace, network, json } = arguments;
    let paths = options.paths();
    let client = RegistryClient::new(&paths, network.offline, options.command_gate()?)?;
    let lock = InstallTarget::from_options(options, &paths, in_workspace)?.lock()?;
    let rows = stream::iter(lock.iter())
        .map(async |(name, tool)| OutdatedRow {
            name: name.to_owned(),
            installed: tool
                .version
                .as_ref()
                .map_or_else(|| short(&tool.sha256), Version::to_string),
            state: state(&client, tool).await,
            from: tool.from.clone(),
        })
        .buffered(AT_ONCE)
        .collect::<Vec<OutdatedRow>>()
        .await;
    let is_outdated = rows
        .iter()
        .any(|row| matches!(row.state, Ok(NewestVersion::Newer(_) | NewestVersion::Moved(_))));
    let has_failed = rows.iter().any(|row| row.state.is_err());
    if json {
        print_json(&rows.iter().map(as_json).collect::<Vec<_>>())?;
    } else if rows.is_empty() {
        eprint("no tool was installed by `ikigai tool install`\n");
    } else {
        let mut table = plain_table();
        table.set_header(["TOOL", "INSTALLED", "NEWEST", "FROM"]);
        for row in &rows {
            table.add_row([&row.name, &row.installed, &newest(row), &row.from]);
        }
        print(&format!("{table}\n"))?;
        for error in rows.iter().filter_map(|row| row.state.as_ref().err()) {
            eprint(&error.text());
        }
    }
    Ok(ExitCode::from(if is_outdated || has_failed { error::FAILED } else { 0 }))
}

fn newest(row: &OutdatedRow) -> String {
    match &row.state {
        Ok(NewestVersion::Current) => "the same".to_owned(),
        Ok(NewestVersion::Newer(version)) => version.clone(),
        Ok(NewestVersion::Moved(digest)) => {
            format!("another file under the same version ({digest})")
        }
        Ok(NewestVersion::Beyond(version)) => {
            format!("{version}, which does not match the requirement")
        }
        Ok(NewestVersion::Unknown(why)) => (*why).to_owned(),
        Err(_) => "cannot be asked".to_owned(),
    }
}

fn as_json(row: &OutdatedRow) -> serde_json::Value {
    let (state, version) = match &row.state {
        Ok(NewestVersion::Current) => ("current", None),
        Ok(NewestVersion::Newer(version)) => ("outdated", Some(version)),
        Ok(NewestVersion::Moved(digest)) => ("moved", Some(digest)),
        Ok(NewestVersion::Beyond(version)) => ("beyond", Some(version)),
        Ok(NewestVersion::Unknown(_)) => ("unknown", None),
        Err(_) => ("failed", None),
    };
    json!({
        "name": row.name,
        "installed": row.installed,
        "state": state,
        "newest": version,
        "from": row.from,
        "error": row.state.as_ref().err().map(CliError::reason),
    })
}

async fn state(client: &RegistryClient, tool: &LockedTool) -> Result<NewestVersion, CliError> {
    let (reference, versions) = source(tool)?;
    match reference {
        Reference::Registry(registry) => {
            let repository = client.repository(&registry)?;
            if let Some(tag) = registry.tag() {
                let found = oci::resolve(&repository, &registry.pointer()).await?.digest;
                let is_version = tool.version.is_some() && version_of(tag) == tool.version;
                return Ok(match changed(found, tool) {
                    NewestVersion::Newer(digest) if is_version => NewestVersion::Moved(digest),
                    state => state,
                });
            }
            let tags = repository.tags().await?;
            let state = among(&tags, versions.as_ref(), tool);
            match tag_of(&tags, versions.as_ref(), tool) {
                Some(tag) if !matches!(state, NewestVersion::Newer(_)) => {
                    Ok(moved(&repository, tag, tool).await?.unwrap_or(state))
                }
                _ => Ok(state),
            }
        }
        Reference::Url(_) => Ok(NewestVersion::Unknown("a URL has no versions")),
        Reference::Path(path) => match LocalTool::from_path(&path)? {
            LocalTool::File(file) => Ok(changed(Digest::of_reader(File::open(file)?)?, tool)),
            LocalTool::Layout(_) | LocalTool::Project(_) => {
                Ok(NewestVersion::Unknown("a directory has no versions"))
            }
        },
    }
}

fn changed(found: Digest, tool: &LockedTool) -> NewestVersion {
    if found == tool.sha256 { NewestVersion::Current } else { NewestVersion::Newer(short(&found)) }
}

/// Compares the installed version with those that the tags name.
fn among(tags: &[String], versions: Option<&VersionReq>, tool: &LockedTool) -> NewestVersion {
    let Some(installed) = &tool.version else { return NewestVersion::Unknown("it has no version") };
    let known = || tags.iter().filter_map(|tag| version_of(tag)).filter(|it| it > installed);
    if let Some(newer) = known().filter(|it| is_wanted(it, versions)).max() {
        return NewestVersion::Newer(newer.to_string());
    }
    match known().filter(|version| version.pre.is_empty()).max() {
        Some(beyond) => NewestVersion::Beyond(beyond.to_string()),
        None => NewestVersion::Current,
    }
}

/// Returns whether a version is among those that `update` chooses from.
fn is_wanted(version: &Version, versions: Option<&VersionReq>) -> bool {
    match versions {
        Some(versions) => versions.matches(version),
        None => version.pre.is_empty(),
    }
}

/// Returns the tag of the installed version, if `update` would look at it.
fn tag_of<'a>(
    tags: &'a [String],
    versions: Option<&VersionReq>,
    tool: &LockedTool,
) -> Option<&'a str> {
    let installed = tool.version.as_ref().filter(|version| is_wanted(version, versions))?;
    tags.iter().rfind(|tag| version_of(tag).as_ref() == Some(installed)).map(String::as_str)
}

/// Returns the state of a tool whose tag leads to another file than the installed one; `None` if
/// the tag leads to the installed file.
async fn moved(
    repository: &Repository,
    tag: &str,
    tool: &LockedTool,
) -> Result<Option<NewestVersion>, CliError> {
    let pointer = Pointer::Tag(tag.to_owned());
    // For a tag that did not move, which is the usual case, one request is enough.
    let (manifest, _) = repository.manifest(&pointer).await?;
    if Some(manifest) == tool.manifest {
        return Ok(None);
    }
    let found = oci::resolve(repository, &pointer).await?.digest;
    Ok((found != tool.sha256).then(|| NewestVersion::Moved(short(&found))))
}
