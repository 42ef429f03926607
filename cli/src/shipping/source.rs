//! The source of a tool: fetches and copies the target of a reference, with the signatures next to
//! it.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use ikigai_host::Digest;
use ikigai_packages::download::{DownloadCache, DownloadSource, SourceRecord};
use ikigai_packages::layout::OciLayout;
use ikigai_packages::lock::{LockedTool, WantedVersion};
use ikigai_packages::oci::{self, LARGEST_MANIFEST};
use ikigai_packages::open_regular;
use ikigai_packages::reference::{FileUrl, LocalTool, Pointer, Reference, RegistryReference};
use ikigai_packages::signature::{self, MAX_SIGNATURE_BYTES, SignatureKind};
use semver::VersionReq;
use strum::VariantArray as _;

use super::artifact::{attached, newest, resolve, source_of, version_of};
use super::client::{RegistryClient, not_here};
use super::project::ProjectDirectory;
use super::staging::{Fetched, ToolSource};
use crate::error::{CliError, with_path};
use crate::variables::ProgramVariable;

/// A request for a tool.
pub(crate) struct ToolRequest<'a> {
    /// The reference of the tool.
    pub(crate) reference: Reference,
    /// The accepted versions. The newest one is taken.
    pub(crate) versions: Option<VersionReq>,
    /// The lock's entry for the tool, if it must be exactly that tool.
    pub(crate) locked: Option<&'a LockedTool>,
}

/// Returns the reference that the user typed. Its path has no `..`, since a lock stores the path
/// and compares it to see whether two files come from the same place.
pub(crate) fn typed(text: &str) -> Result<Reference, CliError> {
    let reference = Reference::typed(text, &std::env::current_dir()?);
    let reference = reference.map_err(|error| CliError::from(error).into_usage())?;
    Ok(match reference {
        Reference::Path(path) => Reference::Path(without_parents(path)),
        other => other,
    })
}

impl ToolRequest<'_> {
    /// Returns the tools that the reference leads to: one, or each tool of an OCI layout.
    pub(crate) async fn fetch(&self, client: &RegistryClient) -> Result<Vec<Fetched>, CliError> {
        let fetched = match &self.reference {
            Reference::Path(path) => self.fetch_path(path, client).await?,
            Reference::Url(url) => vec![self.fetch_url(url, client).await?],
            Reference::Registry(reference) => vec![self.fetch_artifact(reference, client).await?],
        };
        if let (Some(locked), [only]) = (self.locked, &fetched[..])
            && only.digest != locked.sha256
        {
            let error = anyhow::Error::msg(format!(
                "`{}` now has the digest {}, and the lock has {}",
                self.reference, only.digest, locked.sha256
            ));
            return Err(CliError::failed(error).hint(
                "if its author confirms the change, `ikigai tool install` installs it, with `--in-workspace` \
                 for a workspace tool",
            ));
        }
        Ok(fetched)
    }

    fn no_versions(&self) -> Result<(), CliError> {
        if self.versions.is_none() {
            return Ok(());
        }
        let what = format!("`--version` has no effect on `{}`, which is one file", self.reference);
        Err(CliError::usage(anyhow::Error::msg(what)))
    }

    async fn fetch_path(
        &self,
        path: &Path,
        client: &RegistryClient,
    ) -> Result<Vec<Fetched>, CliError> {
        let path = std::path::absolute(expanded(path))?;
        let file = match LocalTool::from_path(&path)? {
            LocalTool::File(file) => file,
            LocalTool::Project(directory) => built(&directory)?,
            LocalTool::Layout(directory) => return self.fetch_layout(&directory, client).await,
        };
        self.no_versions()?;
        let signatures = signatures_beside(&file)?;
        let source = ToolSource { signatures, ..ToolSource::at(Reference::Path(path).to_string()) };
        Ok(vec![Fetched::stage(client.staging(), &file, source)?])
    }

    async fn fetch_layout(
        &self,
        directory: &Path,
        client: &RegistryClient,
    ) -> Result<Vec<Fetched>, CliError> {
        let layout = OciLayout::open(directory)?;
        let mut fetched = Vec::new();
        for (name, descriptor) in layout.entries()? {
            let what = name.clone().unwrap_or_else(|| descriptor.digest.clone());
            let digest = descriptor.sha256(&what)?;
            if self.locked.and_then(|locked| locked.manifest).is_some_and(|it| it != digest) {
                continue;
            }
            let artifact = oci::resolve(&layout, &Pointer::Digest(digest)).await?;
            let tag = name.as_deref().and_then(|name| name.rsplit(':').next());
            let version = tag.and_then(version_of);
            if let Some(versions) = &self.versions
                && version.as_ref().is_none_or(|version| !versions.matches(version))
            {
                continue;
            }
            let mut source = ToolSource {
                wanted: self.versions.clone().map(WantedVersion::Versions),
                is_named: self.versions.is_some(),
                tag: tag.map(str::to_owned),
                reference: name.as_deref().and_then(registry_reference),
                ..ToolSource::at(Reference::Path(directory.to_owned()).to_string())
            };
            attached(&layout, &artifact, &mut source).await?;
            let file = Fetched::stage(client.staging(), &layout.blob(artifact.digest), source)?;
            if file.digest != artifact.digest {
                let what = format!(
                    "the file of `{what}` in `{}` has the digest {}, and its manifest says {}",
                    directory.display(),
                    file.digest,
                    artifact.digest
                );
                return Err(CliError::failed(anyhow::Error::msg(what))
                    .hint("the layout is damaged: create it again with `ikigai tool fetch`"));
            }
            fetched.push(file);
        }
        if fetched.is_empty() {
            let what = format!("the OCI layout `{}` has no such tool", directory.display());
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
        Ok(fetched)
    }

    async fn fetch_url(&self, url: &FileUrl, client: &RegistryClient) -> Result<Fetched, CliError> {
        self.no_versions()?;
        let mut source = ToolSource {
            is_named: url.sha256().is_some(),
            ..ToolSource::at(url.url().to_string())
        };
        let digest = url.sha256().or(self.locked.map(|locked| locked.sha256));
        if client.is_offline() {
            let records = client.cache().recall(&source.from)?;
            let is_asked =
                |record: &&SourceRecord| digest.is_none_or(|digest| record.sha256 == digest);
            let record = records.iter().find(is_asked);
            return self.of_cache(client, record, source, &records).await;
        }
        let transport = client.transport(url)?;
        let url = match digest {
            Some(digest) => &url.clone().pinned(digest),
            None => url,
        };
        let downloaded =
            client.download(DownloadSource::Url(&transport, url), &source.from).await?;
        for kind in SignatureKind::VARIANTS {
            let beside = url.beside(kind.suffix());
            if let Some(bytes) = transport.small(&beside, MAX_SIGNATURE_BYTES).await? {
                source.signatures.push((beside.to_string(), bytes));
            }
        }
        remember(client.cache(), downloaded.digest, &source)?;
        Fetched::stage(client.staging(), &downloaded.path, source)
    }

    async fn fetch_artifact(
        &self,
        reference: &RegistryReference,
        client: &RegistryClient,
    ) -> Result<Fetched, CliError> {
        if client.is_offline() {
            let versions = self.versions.as_ref();
            let records = client.cache().recall(&reference.without_pointer().to_string())?;
            let record = match self.locked {
                Some(locked) => records.iter().find(|record| {
                    record.sha256 == locked.sha256 && record.manifest == locked.manifest
                }),
                None => recorded(&records, reference, versions),
            };
            let tag = record.and_then(|record| record.tag.as_deref());
            let source = source_of(reference, versions, tag.filter(|_| self.locked.is_none()));
            return self.of_cache(client, record, source, &records).await;
        }
        let repository = client.repository(reference)?;
        let pinned = self.locked.and_then(|locked| locked.manifest);
        let (artifact, mut source) = match pinned {
            Some(digest) => {
                let artifact = oci::resolve(&repository, &Pointer::Digest(digest)).await?;
                let wanted = self.locked.and_then(|locked| locked.wanted.clone());
                let source = source_of(reference, self.versions.as_ref(), None);
                (artifact, ToolSource { wanted, ..source })
            }
            None => resolve(&repository, reference, self.versions.as_ref()).await?,
        };
        let downloaded =
            client.download(DownloadSource::Blob(&repository, &artifact), &source.from).await?;
        attached(&repository, &artifact, &mut source).await?;
        remember(client.cache(), downloaded.digest, &source)?;
        Fetched::stage(client.staging(), &downloaded.path, source)
    }

    /// Returns the file of a record, with the signatures and the manifest of its download. `all`
    /// are all records of the reference, for the error.
    async fn of_cache(
        &self,
        client: &RegistryClient,
        record: Option<&SourceRecord>,
        mut source: ToolSource,
        all: &[SourceRecord],
    ) -> Result<Fetched, CliError> {
        let cache = client.cache();
        let missing = || {
            let tags: Vec<&str> = all.iter().filter_map(|record| record.tag.as_deref()).collect();
            let hint = format!("the cache has {} of it", tags.join(", "));
            not_here(&self.reference).hints((!tags.is_empty()).then_some(hint))
        };
        let record = record.ok_or_else(missing)?;
        let found = cache.find(record.sha256).await?.ok_or_else(missing)?;
        let most = LARGEST_MANIFEST.max(MAX_SIGNATURE_BYTES);
        let kept = |digest| cache.kept(digest, most);
        for (place, digest) in &record.signatures {
            // Without its signatures the file would look unsigned.
            let bytes = kept(*digest)?.ok_or_else(missing)?;
            source.signatures.push((place.clone(), bytes));
        }
        if let Some(manifest) = record.manifest {
            let bytes = if record.signatures.is_empty() { None } else { kept(manifest)? };
            source.manifest = Some((manifest, bytes.unwrap_or_default()));
        }
        source.notes.push("taken from the cache, with the signatures of its download".to_owned());
        Fetched::stage(client.staging(), &found.path, source)
    }
}

/// Stores the signatures and the manifest of a downloaded file, for commands without a network.
fn remember(cache: &DownloadCache, sha256: Digest, source: &ToolSource) -> Result<(), CliError> {
    if let Some((_, bytes)) = source.manifest.as_ref().filter(|(_, bytes)| !bytes.is_empty()) {
        cache.keep(bytes)?;
    }
    let keep = |(place, bytes): &(String, Bytes)| Ok((place.clone(), cache.keep(bytes)?));
    let signatures = source.signatures.iter().map(keep).collect::<Result<_, CliError>>()?;
    cache.remember(SourceRecord {
        from: source.from.clone(),
        tag: source.tag.clone(),
        manifest: source.manifest.as_ref().map(|(digest, _)| *digest),
        sha256,
        signatures,
    })?;
    Ok(())
}

/// Returns the record for a reference: the one that a registry with the artifacts of these records
/// would return.
fn recorded<'a>(
    records: &'a [SourceRecord],
    reference: &RegistryReference,
    versions: Option<&VersionReq>,
) -> Option<&'a SourceRecord> {
    if let Some(digest) = reference.digest() {
        return records.iter().find(|record| record.manifest == Some(digest));
    }
    let newest = || {
        let tags: Vec<String> = records.iter().filter_map(|record| record.tag.clone()).collect();
        newest(&tags, versions).or_else(|| versions.is_none().then(|| "latest".to_owned()))
    };
    let tag = reference.tag().map(str::to_owned).or_else(newest)?;
    records.iter().find(|record| record.tag.as_ref() == Some(&tag))
}

/// Returns the registry reference in the name of a layout's entry, in the form that a lock stores.
/// Files from other sources have another kind of name.
fn registry_reference(name: &str) -> Option<String> {
    match format!("oci://{name}").parse() {
        Ok(Reference::Registry(reference)) => Some(reference.without_pointer().to_string()),
        _ => None,
    }
}

/// Reads the signatures next to a file.
fn signatures_beside(file: &Path) -> Result<Vec<(String, Bytes)>, CliError> {
    let mut found = Vec::new();
    for path in signature::beside(file) {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let most = MAX_SIGNATURE_BYTES as u64 + 1;
            open_regular(&path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => {
                let bytes = with_path(read, "read", &path)?;
                found.push((path.display().to_string(), bytes.into()));
            }
        }
    }
    Ok(found)
}

/// Returns the built file of the project in a directory.
fn built(directory: &Path) -> Result<PathBuf, CliError> {
    let file = ProjectDirectory::read(directory)?.built();
    if file.is_file() {
        return Ok(file);
    }
    let what = format!("the project `{}` is not built", directory.display());
    let hint = format!("`ikigai tool build {}` builds it", directory.display());
    Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
}

/// Returns a path without `..`. Keeps its last component, even if that is a symlink. Returns a path
/// whose directory does not exist unchanged, since opening it reports the error.
fn without_parents(path: PathBuf) -> PathBuf {
    let resolved = || -> io::Result<PathBuf> {
        let whole = std::path::absolute(expanded(&path))?;
        match (whole.parent(), whole.file_name()) {
            (Some(directory), Some(name)) => Ok(directory.canonicalize()?.join(name)),
            _ => whole.canonicalize(),
        }
    };
    if path.components().all(|component| component != Component::ParentDir) {
        return path;
    }
    resolved().unwrap_or(path)
}

/// Returns a path with the home directory in place of `~`.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), ProgramVariable::Home.value()) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_owned(),
    }
}
