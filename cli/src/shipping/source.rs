//! The source of a tool: what a reference leads to, and a copy of it in a directory of the user alone.
//!
//! The copy is hashed while it is made, and the rest of this module's callers look at the copy only:
//! the file of a person may lie where a tool can write.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use ikigai_host::Digest;
use ikigai_host::paths::make_private;
use ikigai_supply::download::{LARGEST_FILE, Origin};
use ikigai_supply::layout::Layout;
use ikigai_supply::lock::{LockedTool, Tag, Wanted};
use ikigai_supply::oci::{self, Artifact, Content, Repository};
use ikigai_supply::reference::{FileUrl, Place, Pointer, Reference, RegistryReference};
use ikigai_supply::signature::{self, Kind, MAX_SIGNATURE_BYTES};
use ikigai_supply::{PROJECT_FILE, Project};
use semver::{Version, VersionReq};
use strum::VariantArray as _;
use tempfile::TempDir;

use super::client::Client;
use crate::error::CliError;

/// The beginning of every file of WebAssembly.
const WASM: &[u8] = b"\0asm";

/// A question for a tool.
pub(crate) struct Request<'a> {
    /// The place of the tool.
    pub(crate) reference: Reference,
    /// The versions that are wanted, of which the newest is taken.
    pub(crate) versions: Option<VersionReq>,
    /// The tool as it is locked, if it must be that one.
    pub(crate) locked: Option<&'a LockedTool>,
}

/// The place where a tool was found, and what was found beside it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The reference without tag, version and digest, as a lock keeps it.
    pub(crate) from: String,
    /// The version or tag that was asked for.
    pub(crate) wanted: Option<Wanted>,
    /// True if exactly this version was asked for, by its tag, its digest or a requirement.
    pub(crate) is_named: bool,
    /// The tag that was taken.
    pub(crate) tag: Option<String>,
    /// The digest of the manifest of the artifact, with its bytes where a signature may be over it.
    pub(crate) manifest: Option<(Digest, Bytes)>,
    /// The signatures, each with the place where it was found.
    pub(crate) signatures: Vec<(String, Bytes)>,
    /// Notes for a person.
    pub(crate) notes: Vec<String>,
}

/// A tool that was fetched. The copy is removed with this value.
pub(crate) struct Fetched {
    /// The copy.
    pub(crate) path: PathBuf,
    /// The digest of the file.
    pub(crate) digest: Digest,
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The place that it came from.
    pub(crate) source: Source,
    _directory: TempDir,
}

impl Fetched {
    /// Returns whether the file is WebAssembly, by its name in the copy.
    pub(crate) fn is_wasm(&self) -> bool {
        self.path.extension().is_some()
    }
}

impl Request<'_> {
    /// Returns the tools that the reference leads to: one, or each tool of an OCI layout.
    pub(crate) async fn fetch(&self, client: &Client) -> Result<Vec<Fetched>, CliError> {
        let fetched = match &self.reference {
            Reference::Path(path) => self.fetch_path(path, client).await?,
            Reference::Url(url) => vec![self.fetch_url(url, client).await?],
            Reference::Registry(reference) => vec![self.fetch_artifact(reference, client).await?],
        };
        if let (Some(locked), [only]) = (self.locked, &fetched[..])
            && only.digest != locked.sha256
        {
            let error = anyhow::Error::msg(format!(
                "`{}` has the digest {} now, and the lock has {}",
                self.reference, only.digest, locked.sha256
            ));
            return Err(CliError::failed(error)
                .hint("if its author says that this is right, `ikigai tool update` takes it"));
        }
        Ok(fetched)
    }

    fn no_versions(&self) -> Result<(), CliError> {
        if self.versions.is_none() {
            return Ok(());
        }
        let what = format!("`{}` is one file, which `--version` cannot choose", self.reference);
        Err(CliError::usage(anyhow::Error::msg(what)))
    }

    async fn fetch_path(&self, path: &Path, client: &Client) -> Result<Vec<Fetched>, CliError> {
        let path = std::path::absolute(expanded(path))?;
        let place = Place::of(&path).map_err(|error| {
            let hint = error.hint();
            CliError::failed(error).hint(hint)
        })?;
        let file = match place {
            Place::File(file) => file,
            Place::Project(directory) => built(&directory)?,
            Place::Layout(directory) => return self.fetch_layout(&directory, client).await,
        };
        self.no_versions()?;
        let signatures = signatures_beside(&file)?;
        let source = Source {
            from: Reference::Path(path).to_string(),
            wanted: None,
            is_named: false,
            tag: None,
            manifest: None,
            signatures,
            notes: Vec::new(),
        };
        Ok(vec![stage(client, &file, source)?])
    }

    async fn fetch_layout(
        &self,
        directory: &Path,
        client: &Client,
    ) -> Result<Vec<Fetched>, CliError> {
        let layout = Layout::open(directory).map_err(|error| {
            let hint = error.hint();
            hint.into_iter().fold(CliError::failed(error), CliError::hint)
        })?;
        let entries = layout.entries().map_err(failed)?;
        let mut fetched = Vec::new();
        for (name, descriptor) in entries {
            let what = name.clone().unwrap_or_else(|| descriptor.digest.clone());
            let digest = descriptor.sha256(&what).map_err(of_registry)?;
            if self.locked.and_then(|locked| locked.manifest).is_some_and(|it| it != digest) {
                continue;
            }
            let artifact =
                oci::resolve(&layout, &Pointer::Digest(digest)).await.map_err(of_registry)?;
            let version = name.as_deref().and_then(|name| version_of(name.rsplit(':').next()?));
            if let Some(versions) = &self.versions
                && version.as_ref().is_none_or(|version| !versions.matches(version))
            {
                continue;
            }
            let mut source = Source {
                from: Reference::Path(directory.to_owned()).to_string(),
                wanted: self.versions.clone().map(Wanted::Versions),
                is_named: self.versions.is_some(),
                tag: name.as_deref().and_then(|name| name.rsplit(':').next().map(str::to_owned)),
                manifest: None,
                signatures: Vec::new(),
                notes: ignored(&artifact),
            };
            attached(&layout, &artifact, &mut source).await?;
            let file = stage(client, &layout.blob(artifact.digest), source)?;
            if file.digest != artifact.digest {
                let what = format!(
                    "the file of `{what}` in `{}` has the digest {}, and its manifest says {}",
                    directory.display(),
                    file.digest,
                    artifact.digest
                );
                return Err(CliError::failed(anyhow::Error::msg(what))
                    .hint("the layout is damaged: make it again with `ikigai tool fetch`"));
            }
            fetched.push(file);
        }
        if fetched.is_empty() {
            let what =
                format!("the OCI layout `{}` has no tool that was asked for", directory.display());
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
        Ok(fetched)
    }

    async fn fetch_url(&self, url: &FileUrl, client: &Client) -> Result<Fetched, CliError> {
        self.no_versions()?;
        let mut source = Source {
            from: Reference::Url(url.clone())
                .to_string()
                .split('#')
                .next()
                .unwrap_or_default()
                .to_owned(),
            wanted: None,
            is_named: url.sha256().is_some(),
            tag: None,
            manifest: None,
            signatures: Vec::new(),
            notes: Vec::new(),
        };
        let digest = url.sha256().or(self.locked.map(|locked| locked.sha256));
        if client.is_offline() {
            return self.of_cache(client, digest, source).await;
        }
        let transport = client.transport(url)?;
        let pinned;
        let url = match digest {
            Some(digest) if url.sha256().is_none() => {
                pinned = format!("{url}#sha256={digest}").parse::<Reference>().map_err(failed)?;
                match &pinned {
                    Reference::Url(url) => url,
                    Reference::Path(_) | Reference::Registry(_) => url,
                }
            }
            Some(_) | None => url,
        };
        let downloaded = client.download(Origin::Url(&transport, url), &source.from).await?;
        for kind in Kind::VARIANTS {
            let beside = url.beside(kind.suffix());
            let found = transport.small(&beside, MAX_SIGNATURE_BYTES).await.map_err(|error| {
                let hint = error.hint();
                hint.into_iter().fold(failed(error), CliError::hint)
            })?;
            if let Some(bytes) = found {
                source.signatures.push((beside.to_string(), bytes));
            }
        }
        stage(client, &downloaded.path, source)
    }

    async fn fetch_artifact(
        &self,
        reference: &RegistryReference,
        client: &Client,
    ) -> Result<Fetched, CliError> {
        if client.is_offline() {
            let source = source_of(reference, self.versions.as_ref(), None);
            return self.of_cache(client, self.locked.map(|locked| locked.sha256), source).await;
        }
        let repository = client.repository(reference)?;
        let pinned = self.locked.and_then(|locked| locked.manifest);
        let (artifact, mut source) = match pinned {
            Some(digest) => {
                let found = oci::resolve(&repository, &Pointer::Digest(digest)).await;
                let mut source = source_of(reference, self.versions.as_ref(), None);
                source.wanted = self.locked.and_then(|locked| locked.wanted.clone());
                (found.map_err(of_registry)?, source)
            }
            None => resolve(&repository, reference, self.versions.as_ref()).await?,
        };
        let name = reference.without_pointer().to_string();
        let downloaded = client.download(Origin::Blob(&repository, &artifact), &name).await?;
        source.notes.extend(ignored(&artifact));
        attached(&repository, &artifact, &mut source).await?;
        stage(client, &downloaded.path, source)
    }

    /// Returns a file that was downloaded before, for a machine without a network.
    async fn of_cache(
        &self,
        client: &Client,
        digest: Option<Digest>,
        mut source: Source,
    ) -> Result<Fetched, CliError> {
        let found = match digest {
            Some(digest) => client.cache().find(digest).await.map_err(failed)?,
            None => None,
        };
        let Some(found) = found else {
            // The error says what to do.
            client.transport(&self.reference)?;
            return Err(CliError::failed(anyhow::Error::msg("it is not in the cache")));
        };
        source.manifest = self.locked.and_then(|it| it.manifest).map(|it| (it, Bytes::new()));
        source.notes.push("taken from the cache; its signatures could not be asked for".to_owned());
        stage(client, &found.path, source)
    }
}

/// Finds the artifact that a reference and a requirement of versions name. Without a tag the newest
/// version is taken, or `latest` where no tag is a version.
pub(crate) async fn resolve(
    repository: &Repository,
    reference: &RegistryReference,
    versions: Option<&VersionReq>,
) -> Result<(Artifact, Source), CliError> {
    let is_named = reference.tag().is_some() || reference.digest().is_some();
    if is_named && versions.is_some() {
        let what = format!("`{reference}` names one version, and `--version` another");
        return Err(CliError::usage(anyhow::Error::msg(what)).hint("leave one of them out"));
    }
    if is_named {
        let artifact = oci::resolve(repository, &reference.pointer()).await.map_err(of_registry)?;
        return Ok((artifact, source_of(reference, None, reference.tag())));
    }
    let tags = repository.tags().await.map_err(of_registry)?;
    let tag = match newest(&tags, versions) {
        Some(tag) => tag,
        None if versions.is_none() => "latest".to_owned(),
        None => {
            let wanted = versions.map(ToString::to_string).unwrap_or_default();
            let known: Vec<&str> = tags.iter().take(20).map(String::as_str).collect();
            let what = format!(
                "`{reference}` has no version {wanted}; its tags are {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
    };
    let artifact =
        oci::resolve(repository, &Pointer::Tag(tag.clone())).await.map_err(of_registry)?;
    Ok((artifact, source_of(reference, versions, Some(&tag))))
}

fn source_of(
    reference: &RegistryReference,
    versions: Option<&VersionReq>,
    tag: Option<&str>,
) -> Source {
    let of_tag = || reference.tag().and_then(|tag| tag.parse::<Tag>().ok()).map(Wanted::Tag);
    Source {
        from: reference.without_pointer().to_string(),
        wanted: versions.cloned().map(Wanted::Versions).or_else(of_tag),
        is_named: versions.is_some() || reference.tag().is_some() || reference.digest().is_some(),
        tag: tag.map(str::to_owned),
        manifest: None,
        signatures: Vec::new(),
        notes: Vec::new(),
    }
}

/// Returns the tag of the newest version among these that is wanted. One before a release counts
/// only where the requirement names such a version.
fn newest(tags: &[String], versions: Option<&VersionReq>) -> Option<String> {
    let known = tags.iter().filter_map(|tag| Some((version_of(tag)?, tag)));
    let wanted = known.filter(|(version, _)| match versions {
        Some(versions) => versions.matches(version),
        None => version.pre.is_empty(),
    });
    wanted.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, tag)| tag.clone())
}

/// Returns the version that a tag names: `1.2.0` or `v1.2.0`.
pub(crate) fn version_of(tag: &str) -> Option<Version> {
    tag.strip_prefix('v').unwrap_or(tag).parse().ok()
}

/// Reads the signatures that are attached to an artifact, and the manifest that they may be over.
async fn attached(
    content: &impl Content,
    artifact: &Artifact,
    source: &mut Source,
) -> Result<(), CliError> {
    source.manifest = Some((artifact.manifest, Bytes::new()));
    for referrer in oci::referrers(content, artifact.manifest).await.map_err(of_registry)? {
        // Lists of parts and the like are attached as well.
        if Kind::of_artifact_type(&referrer.artifact_type).is_none() {
            continue;
        }
        let bytes = oci::signature(content, &referrer, MAX_SIGNATURE_BYTES).await;
        let place = content.what(&Pointer::Digest(referrer.digest));
        source.signatures.push((place, bytes.map_err(of_registry)?));
    }
    if !source.signatures.is_empty() {
        let pointer = Pointer::Digest(artifact.manifest);
        source.manifest = Some(content.manifest(&pointer).await.map_err(of_registry)?);
    }
    Ok(())
}

/// Reads the signatures that lie beside a file.
fn signatures_beside(file: &Path) -> Result<Vec<(String, Bytes)>, CliError> {
    let mut found = Vec::new();
    for path in signature::beside(file) {
        let shown = path.display().to_string();
        let opened = match File::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&path, error)),
        };
        let mut bytes = Vec::new();
        let most = MAX_SIGNATURE_BYTES as u64 + 1;
        opened.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(&path, error))?;
        found.push((shown, bytes.into()));
    }
    Ok(found)
}

/// Returns the file that the project in a directory was built to.
fn built(directory: &Path) -> Result<PathBuf, CliError> {
    let path = directory.join(PROJECT_FILE);
    let text = fs::read(&path).map_err(|error| unreadable(&path, error))?;
    let project = Project::parse(&text).map_err(|error| {
        let hint = error.hint.clone();
        let error = anyhow::Error::msg(format!("{}:{error}", path.display()));
        hint.into_iter().fold(CliError::usage(error), CliError::hint)
    })?;
    let file = directory.join("dist").join(format!("{}.wasm", project.manifest.name));
    if file.is_file() {
        return Ok(file);
    }
    let what = format!("the project `{}` is not built", directory.display());
    let hint = format!("`ikigai tool build {}` builds it", directory.display());
    Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
}

/// Copies a file into a directory of the user alone, under a name that tells its kind.
fn stage(client: &Client, file: &Path, source: Source) -> Result<Fetched, CliError> {
    let root = client.staging();
    let unstaged = || format!("cannot copy `{}` to `{}`", file.display(), root.display());
    let staged = || -> io::Result<(TempDir, PathBuf, Digest, u64)> {
        make_private(root)?;
        sweep(root);
        let directory = tempfile::Builder::new().prefix("tool-").tempdir_in(root)?;
        let opened = File::open(file)?;
        if !opened.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut begin = Vec::new();
        (&opened).take(WASM.len() as u64).read_to_end(&mut begin)?;
        let is_wasm = begin == WASM;
        let path = directory.path().join(if is_wasm { "tool.wasm" } else { "tool" });
        let mut copy = File::create_new(&path)?;
        copy.write_all(&begin)?;
        let rest = LARGEST_FILE + 1 - begin.len() as u64;
        io::copy(&mut (&opened).take(rest), &mut copy)?;
        if !is_wasm {
            copy.set_permissions(fs::Permissions::from_mode(0o700))?;
        }
        let size = copy.metadata()?.len();
        if size > LARGEST_FILE {
            let most = bytesize::ByteSize(LARGEST_FILE);
            return Err(io::Error::other(format!("it is larger than {most}, the most of a tool")));
        }
        drop(copy);
        // What was written is hashed, not what was read.
        let digest = Digest::of_reader(File::open(&path)?)?;
        Ok((directory, path, digest, size))
    };
    let (directory, path, digest, size) =
        staged().with_context(unstaged).map_err(CliError::failed)?;
    Ok(Fetched { path, digest, size, source, _directory: directory })
}

/// Removes the copies that commands left behind which were killed. What cannot be removed is tried
/// again by the next command.
fn sweep(root: &Path) {
    /// Longer than any command needs its copy.
    const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|it| it.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > LONG_AGO)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn ignored(artifact: &Artifact) -> Vec<String> {
    match artifact.ignored.as_slice() {
        [] => Vec::new(),
        kinds => vec![format!("its further layers are not used: {}", kinds.join(", "))],
    }
}

/// Returns a path with the home in place of `~`.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_owned(),
    }
}

fn unreadable(path: &Path, error: io::Error) -> CliError {
    let what = format!("cannot read `{}`", path.display());
    CliError::failed(anyhow::Error::new(error).context(what))
}

/// Returns the error of an operation that failed at a registry, with its hint.
pub(crate) fn of_registry(error: oci::OciError) -> CliError {
    let hint = error.hint();
    hint.into_iter().fold(failed(error), CliError::hint)
}

/// Returns the error of an operation that failed.
pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> CliError {
    CliError::failed(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken() {
        let tags = ["latest", "1.2.0", "v1.10.0", "2.0.0-rc.1", "1.9"].map(str::to_owned);
        assert_eq!(newest(&tags, None).as_deref(), Some("v1.10.0"));
        let taken = |text: &str| newest(&tags, Some(&text.parse().expect(text)));
        assert_eq!(taken("~1.2").as_deref(), Some("1.2.0"));
        assert_eq!(taken("^2.0.0-rc.1").as_deref(), Some("2.0.0-rc.1"));
        assert_eq!(taken("^3"), None);
        assert_eq!(newest(&["latest".to_owned()], None), None);
    }
}
