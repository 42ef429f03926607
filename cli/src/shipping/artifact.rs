//! The artifact in a registry or a layout that a reference leads to: its version, and the
//! signatures attached to it.

use bytes::Bytes;
use ikigai_packages::lock::{Tag, WantedVersion};
use ikigai_packages::oci::{self, ContentSource, Repository, ToolArtifact};
use ikigai_packages::reference::{Pointer, RegistryReference};
use ikigai_packages::signature::{MAX_SIGNATURE_BYTES, SignatureKind};
use semver::{Version, VersionReq};

use super::staging::ToolSource;
use crate::error::CliError;

/// Finds the artifact for a reference and a version requirement. Without a tag, takes the newest
/// version, or `latest` if no tag is a version.
pub(crate) async fn resolve(
    repository: &Repository,
    reference: &RegistryReference,
    versions: Option<&VersionReq>,
) -> Result<(ToolArtifact, ToolSource), CliError> {
    let is_named = reference.tag().is_some() || reference.digest().is_some();
    if is_named && versions.is_some() {
        let what = format!("`{reference}` has one version, and `--version` another");
        return Err(CliError::usage(anyhow::Error::msg(what)).hint("leave out one of them"));
    }
    if is_named {
        let artifact = oci::resolve(repository, &reference.pointer()).await?;
        return Ok((artifact, source_of(reference, None, reference.tag())));
    }
    let tags = repository.tags().await?;
    let tag = match (newest(&tags, versions), versions) {
        (Some(tag), _) => tag,
        (None, None) => "latest".to_owned(),
        (None, Some(wanted)) => {
            let known: Vec<&str> = tags.iter().take(20).map(String::as_str).collect();
            let what = format!(
                "`{reference}` has no version {wanted}; its tags are {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
    };
    let artifact = oci::resolve(repository, &Pointer::Tag(tag.clone())).await?;
    Ok((artifact, source_of(reference, versions, Some(&tag))))
}

/// Returns the source of an artifact in a registry, before anything is read from the registry.
pub(super) fn source_of(
    reference: &RegistryReference,
    versions: Option<&VersionReq>,
    tag: Option<&str>,
) -> ToolSource {
    let of_tag = || reference.tag().and_then(|tag| tag.parse::<Tag>().ok()).map(WantedVersion::Tag);
    ToolSource {
        wanted: versions.cloned().map(WantedVersion::Versions).or_else(of_tag),
        is_named: versions.is_some() || reference.tag().is_some() || reference.digest().is_some(),
        tag: tag.map(str::to_owned),
        ..ToolSource::at(reference.without_pointer().to_string())
    }
}

/// Returns the tag of the newest matching version. A pre-release only counts if the requirement
/// names one.
pub(super) fn newest(tags: &[String], versions: Option<&VersionReq>) -> Option<String> {
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

/// Adds the artifact's other parts to its source: the attached signatures, the manifest that they
/// may sign, and a note about layers that are not used.
pub(super) async fn attached(
    content: &impl ContentSource,
    artifact: &ToolArtifact,
    source: &mut ToolSource,
) -> Result<(), CliError> {
    if !artifact.ignored.is_empty() {
        let kinds = artifact.ignored.join(", ");
        source.notes.push(format!("its other layers are not used: {kinds}"));
    }
    source.manifest = Some((artifact.manifest, Bytes::new()));
    for referrer in oci::referrers(content, artifact.manifest).await? {
        // Lists of parts and other documents are attached as well.
        if SignatureKind::of_artifact_type(&referrer.artifact_type).is_none() {
            continue;
        }
        let bytes = oci::signature(content, &referrer, MAX_SIGNATURE_BYTES).await?;
        // The other places, paths and addresses, have no backticks around them.
        let place = content.what(&Pointer::Digest(referrer.digest));
        source.signatures.push((place.trim_matches('`').to_owned(), bytes));
    }
    if !source.signatures.is_empty() {
        let pointer = Pointer::Digest(artifact.manifest);
        source.manifest = Some(content.manifest(&pointer).await?);
    }
    Ok(())
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
