//! Manifests and indexes in their serialized form, and the search for wasm in them. Addresses in
//! them (`urls`) are never followed, so they are not even read.

use std::collections::BTreeMap;

use ikigai_protocol::Digest;
use serde::{Deserialize, Serialize};

use super::OciError;
use crate::harmless;

/// The media type of a manifest.
pub const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an index.
pub(super) const INDEX_MEDIA_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of the layer that is a module or a component.
pub const WASM_MEDIA_TYPE: &str = "application/wasm";
/// The media type of the configuration of a Wasm artifact.
pub(super) const CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The media type of an empty configuration, and its contents.
pub(super) const EMPTY: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");
/// The name of a layer's file.
pub(super) const TITLE: &str = "org.opencontainers.image.title";

/// The media types that are requested.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// The media types of the configurations of container images.
const IMAGES: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// The descriptor of a blob or a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type.
    pub media_type: String,
    /// The digest, of any algorithm.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
    /// The artifact type of a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The platform of an index entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<Platform>,
}

/// The platform of an index entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Platform {
    architecture: String,
    os: String,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OciManifest {
    /// The version of the format, which is 2.
    pub schema_version: u8,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The artifact type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// The files.
    pub layers: Vec<Descriptor>,
    /// The manifest that this one refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An index of manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The version of the format, which is 2.
    pub schema_version: u8,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests.
    #[serde(deserialize_with = "or_empty")]
    pub manifests: Vec<Descriptor>,
}

/// A manifest or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestOrIndex {
    /// A manifest.
    Manifest(Box<OciManifest>),
    /// An index.
    Index(Index),
}

/// The layer with the tool, and the media types of the other layers.
pub(super) struct ToolLayer<'a> {
    pub(super) wasm: &'a Descriptor,
    pub(super) ignored: Vec<String>,
}

impl ManifestOrIndex {
    /// Reads a document. `what` names it in messages.
    ///
    /// # Errors
    ///
    /// Fails if the text is neither a manifest nor an index.
    pub fn read(text: &[u8], what: &str) -> Result<Self, OciError> {
        let malformed = |detail: String| OciError::Malformed { what: what.to_owned(), detail };
        let parts: ManifestMembers = serde_json::from_slice(text).map_err(|error| {
            malformed(format!("line {}: {}", error.line(), harmless::line(&error.to_string())))
        })?;
        if parts.schema_version != Some(2) {
            return Err(malformed("its `schemaVersion` is not 2".to_owned()));
        }
        let failed = |error: serde_json::Error| malformed(harmless::line(&error.to_string()));
        match (parts.layers.is_some() || parts.config.is_some(), parts.manifests.is_some()) {
            // One digest must not have two meanings: CVE-2021-41190.
            (true, true) => Err(malformed("it is a manifest and an index at once".to_owned())),
            (_, true) => serde_json::from_slice(text).map(Self::Index).map_err(failed),
            (true, false) => {
                serde_json::from_slice(text).map(|it| Self::Manifest(Box::new(it))).map_err(failed)
            }
            (false, false) => Err(malformed("it is neither a manifest nor an index".to_owned())),
        }
    }
}

/// The members that distinguish a manifest from an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestMembers {
    schema_version: Option<u64>,
    config: Option<serde::de::IgnoredAny>,
    layers: Option<serde::de::IgnoredAny>,
    manifests: Option<serde::de::IgnoredAny>,
}

impl Descriptor {
    /// Returns the descriptor of these bytes.
    #[must_use]
    pub fn from_bytes(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", Digest::from_bytes(bytes)),
            size: bytes.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
            platform: None,
        }
    }

    /// Returns the digest. `what` names the thing in the message.
    ///
    /// # Errors
    ///
    /// Fails if it is not a SHA-256 digest.
    pub fn sha256(&self, what: &str) -> Result<Digest, OciError> {
        let hex = self.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        hex.ok_or_else(|| OciError::Malformed {
            what: what.to_owned(),
            detail: format!("`{}` is not a SHA-256 digest", harmless::line(&self.digest)),
        })
    }
}

impl OciManifest {
    /// Returns the layer that contains the tool.
    pub(super) fn wasm_layer(&self, what: &str) -> Result<ToolLayer<'_>, OciError> {
        let is_wasm = |layer: &&Descriptor| layer.media_type == WASM_MEDIA_TYPE;
        let (wasm, others): (Vec<_>, Vec<_>) = self.layers.iter().partition(is_wasm);
        let what = what.to_owned();
        match wasm[..] {
            [wasm] => {
                let ignored = others.iter().map(|it| harmless::line(&it.media_type)).collect();
                Ok(ToolLayer { wasm, ignored })
            }
            [] if IMAGES.contains(&self.config.media_type.as_str()) => {
                Err(OciError::Image { what })
            }
            [] => Err(OciError::NoWasm { what, found: self.kind(), tags: Vec::new() }),
            _ => Err(OciError::SeveralLayers { what, count: wasm.len() }),
        }
    }

    /// Returns its artifact type, for a message.
    fn kind(&self) -> String {
        let kind = self.artifact_type.as_ref().unwrap_or(&self.config.media_type);
        format!("it is of the kind `{}`", harmless::line(kind))
    }
}

impl Index {
    /// Returns the index of these manifests.
    pub(crate) fn new(manifests: Vec<Descriptor>) -> Self {
        Self { schema_version: 2, media_type: Some(INDEX_MEDIA_TYPE.to_owned()), manifests }
    }

    /// Returns the entry for wasm.
    pub(super) fn wasm_entry(&self, what: &str) -> Result<&Descriptor, OciError> {
        let is_wasm = |entry: &&Descriptor| {
            let kind = entry.artifact_type.as_deref();
            let platform = entry.platform.as_ref();
            kind.is_some_and(|kind| [CONFIG_MEDIA_TYPE, WASM_MEDIA_TYPE].contains(&kind))
                || platform.is_some_and(|platform| platform.architecture == "wasm")
        };
        let is_silent =
            |entry: &&Descriptor| entry.artifact_type.is_none() && entry.platform.is_none();
        let wasm: Vec<_> = self.manifests.iter().filter(is_wasm).collect();
        let silent: Vec<_> = self.manifests.iter().filter(is_silent).collect();
        let found = match (&wasm[..], &silent[..]) {
            ([one], _) | ([], [one]) => return Ok(one),
            ([], _) => self.platforms(),
            (several, _) => format!("{} entries of its index are wasm", several.len()),
        };
        Err(OciError::NoWasm { what: what.to_owned(), found, tags: Vec::new() })
    }

    /// Describes the contents of an index without wasm, for a message.
    fn platforms(&self) -> String {
        let named = self.manifests.iter().filter_map(|entry| {
            let platform = entry.platform.as_ref()?;
            Some(harmless::line(&format!("{}/{}", platform.os, platform.architecture)))
        });
        let named: Vec<_> = named.take(8).collect();
        if named.is_empty() {
            return format!("its index has {} entries", self.manifests.len());
        }
        format!("its index is of container images for {}", named.join(", "))
    }
}

/// Reads `null`, which Go's encoders write, as an empty list.
fn or_empty<'de, T: Deserialize<'de> + Default, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
