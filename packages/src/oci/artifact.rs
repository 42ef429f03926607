//! Finds the one file of a tool, and its attachments, by name.

use std::collections::BTreeMap;

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde::Deserialize;

use super::manifest::{CONFIG_MEDIA_TYPE, TITLE, ToolLayer};
use super::{Descriptor, LARGEST_CONFIG, MOST_REFERRERS, ManifestOrIndex, OciError, OciManifest};
use crate::harmless;
use crate::reference::Pointer;

/// A source of manifests and blobs: a repository of a registry, or a layout on disk.
pub trait ContentSource: Sync {
    /// Returns a name for the target of a pointer, for messages.
    fn what(&self, pointer: &Pointer) -> String;

    /// Returns the bytes of a manifest or an index, with their digest.
    fn manifest(
        &self,
        pointer: &Pointer,
    ) -> impl Future<Output = Result<(Digest, Bytes), OciError>> + Send;

    /// Returns a blob of at most `most` bytes, after checking the digest in its descriptor.
    fn small_blob(
        &self,
        descriptor: &Descriptor,
        most: usize,
        what: &str,
    ) -> impl Future<Output = Result<Bytes, OciError>> + Send;

    /// Returns the names of the manifests.
    fn tags(&self) -> impl Future<Output = Result<Vec<String>, OciError>> + Send;

    /// Returns the listed descriptors of the manifests whose subject is the manifest with this
    /// digest.
    fn listed_referrers(
        &self,
        subject: Digest,
    ) -> impl Future<Output = Result<Vec<Descriptor>, OciError>> + Send;
}

/// A tool as an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolArtifact {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The size of the manifest in bytes.
    pub manifest_size: u64,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file in bytes.
    pub size: u64,
    /// The name of the file.
    pub title: Option<String>,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The media types of layers that are not used.
    pub ignored: Vec<String>,
}

/// A manifest that was attached to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The digest of its manifest.
    pub digest: Digest,
    /// Its artifact type.
    pub artifact_type: String,
    /// The parsed manifest.
    pub manifest: OciManifest,
}

/// The configuration of a Wasm artifact.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig {
    layer_digests: Option<Vec<String>>,
}

/// Returns the tool that a pointer names.
///
/// # Errors
///
/// Fails if it does not exist, or does not follow the specification of Wasm artifacts.
pub async fn resolve(
    content: &impl ContentSource,
    pointer: &Pointer,
) -> Result<ToolArtifact, OciError> {
    match find(content, pointer).await {
        // If the registry does not list its tags, the error is reported without them.
        Err(OciError::NoWasm { what, found, tags: _ }) => {
            let tags = content.tags().await.unwrap_or_default();
            Err(OciError::NoWasm { what, found, tags })
        }
        Err(OciError::NoManifest { what, tags: _ }) => {
            let tags = content.tags().await.unwrap_or_default();
            Err(OciError::NoManifest { what, tags })
        }
        found => found,
    }
}

async fn find(content: &impl ContentSource, pointer: &Pointer) -> Result<ToolArtifact, OciError> {
    let what = content.what(pointer);
    let (mut digest, mut text) = content.manifest(pointer).await?;
    let manifest = match ManifestOrIndex::read(&text, &what)? {
        ManifestOrIndex::Manifest(manifest) => manifest,
        ManifestOrIndex::Index(index) => {
            let entry = Pointer::Digest(index.wasm_entry(&what)?.sha256(&what)?);
            (digest, text) = content.manifest(&entry).await?;
            match ManifestOrIndex::read(&text, &what)? {
                ManifestOrIndex::Manifest(manifest) => manifest,
                ManifestOrIndex::Index(_) => {
                    let detail = "its index leads to another index".to_owned();
                    return Err(OciError::Malformed { what, detail });
                }
            }
        }
    };
    let ToolLayer { wasm, ignored } = manifest.wasm_layer(&what)?;
    if manifest.config.media_type == CONFIG_MEDIA_TYPE {
        let of = format!("the configuration of {what}");
        let text = content.small_blob(&manifest.config, LARGEST_CONFIG, &of).await?;
        check_configuration(&text, &manifest, &what)?;
    }
    Ok(ToolArtifact {
        manifest: digest,
        manifest_size: text.len() as u64,
        digest: wasm.sha256(&what)?,
        size: wasm.size,
        title: wasm.annotations.get(TITLE).map(|title| harmless::line(title)),
        annotations: manifest.annotations.clone(),
        ignored,
    })
}

fn check_configuration(text: &[u8], manifest: &OciManifest, what: &str) -> Result<(), OciError> {
    let read: WasmConfig = serde_json::from_slice(text).map_err(|error| {
        let what = format!("the configuration of {what}");
        OciError::Malformed { what, detail: harmless::line(&error.to_string()) }
    })?;
    let layers: Vec<_> = manifest.layers.iter().map(|layer| layer.digest.clone()).collect();
    let config = read.layer_digests.unwrap_or_default();
    if config == layers {
        return Ok(());
    }
    let shown = |digests: Vec<String>| -> Vec<String> {
        let shown = digests.iter().take(8).map(|digest| harmless::line(digest)).collect::<Vec<_>>();
        if shown.is_empty() { vec!["none".to_owned()] } else { shown }
    };
    let (what, config, layers) = (what.to_owned(), shown(config), shown(layers));
    Err(OciError::LayerDigests { what, config, layers })
}

/// Returns the attachments of the manifest with this digest. Each manifest is read, because a list
/// may lack the artifact type and the annotations. Manifests about other subjects are left out.
///
/// # Errors
///
/// Fails if one of them cannot be fetched, or if there are more than [`MOST_REFERRERS`]. A listed
/// signature that cannot be read must not look like a missing one.
pub async fn referrers(
    content: &impl ContentSource,
    subject: Digest,
) -> Result<Vec<Referrer>, OciError> {
    let what = content.what(&Pointer::Digest(subject));
    let listed = content.listed_referrers(subject).await?;
    if listed.len() > MOST_REFERRERS {
        return Err(OciError::TooMany { what, things: "referrers", most: MOST_REFERRERS });
    }
    let mut found: Vec<Referrer> = Vec::new();
    for entry in listed {
        let pointer = Pointer::Digest(entry.sha256(&what)?);
        let of = content.what(&pointer);
        let (digest, text) = content.manifest(&pointer).await?;
        let ManifestOrIndex::Manifest(manifest) = ManifestOrIndex::read(&text, &of)? else {
            continue;
        };
        let about = manifest.subject.as_ref().map(|subject| subject.sha256(&of)).transpose()?;
        if about != Some(subject) || found.iter().any(|known| known.digest == digest) {
            continue;
        }
        let kind = manifest.artifact_type.as_ref().unwrap_or(&manifest.config.media_type);
        let artifact_type = kind.clone();
        found.push(Referrer { digest, artifact_type, manifest: *manifest });
    }
    Ok(found)
}

/// Returns the only file of an attachment, of at most `most` bytes.
///
/// # Errors
///
/// Fails if the attachment does not have exactly one file, or if the file cannot be fetched.
pub async fn signature(
    content: &impl ContentSource,
    referrer: &Referrer,
    most: usize,
) -> Result<Bytes, OciError> {
    let what = content.what(&Pointer::Digest(referrer.digest));
    let [layer] = &referrer.manifest.layers[..] else {
        let detail =
            format!("it has {} files, and a signature is one", referrer.manifest.layers.len());
        return Err(OciError::Malformed { what, detail });
    };
    content.small_blob(layer, most, &format!("the signature in {what}")).await
}
