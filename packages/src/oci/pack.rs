//! A tool as the artifact that is pushed: its configuration and its manifest. The same file with
//! the same details always gives the same bytes and the same digest.

use std::collections::BTreeMap;

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde::Serialize;

use super::manifest::{CONFIG_MEDIA_TYPE, EMPTY, TITLE};
use super::{Descriptor, MANIFEST_MEDIA_TYPE, OciManifest, WASM_MEDIA_TYPE};

/// The time in an artifact without a build time. Readers of the format require one.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// The facts that are pushed together with a tool.
#[derive(Clone, Debug, Default)]
pub struct ArtifactDetails {
    /// The name of the file.
    pub title: String,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The interfaces of a component; nothing for a core module of WASI preview 1.
    pub interfaces: Option<ComponentInterfaces>,
    /// The author.
    pub author: Option<String>,
    /// The build time, in RFC 3339 format.
    pub created: Option<String>,
}

/// The interfaces of a component.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComponentInterfaces {
    /// The interfaces that it exports.
    pub exports: Vec<String>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
}

/// A tool in the form in which it is pushed.
#[derive(Clone, Debug)]
pub struct Packed {
    pub(crate) file: Bytes,
    pub(crate) config: Bytes,
    pub(crate) manifest: Bytes,
}

/// A file that is attached to a manifest, in the form in which it is pushed.
#[derive(Clone, Debug)]
pub struct Attached {
    pub(crate) file: Bytes,
    pub(crate) manifest: Bytes,
    /// The descriptor of the manifest, as in a list of referrers.
    pub(crate) descriptor: Descriptor,
    pub(crate) subject: Descriptor,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration<'a> {
    created: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    architecture: &'a str,
    os: &'a str,
    layer_digests: [&'a str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<&'a ComponentInterfaces>,
}

impl Packed {
    /// Packs a component or a core module.
    ///
    /// # Errors
    ///
    /// Fails if the JSON cannot be written.
    pub fn new(tool: Bytes, details: &ArtifactDetails) -> serde_json::Result<Self> {
        let mut layer = Descriptor::from_bytes(WASM_MEDIA_TYPE, &tool);
        layer.annotations.insert(TITLE.to_owned(), details.title.clone());
        let config = serde_json::to_vec(&Configuration {
            created: details.created.as_deref().unwrap_or(NO_TIME),
            author: details.author.as_deref(),
            architecture: "wasm",
            os: if details.interfaces.is_some() { "wasip2" } else { "wasip1" },
            layer_digests: [&layer.digest],
            component: details.interfaces.as_ref(),
        })?;
        let manifest = serde_json::to_vec(&OciManifest {
            schema_version: 2,
            media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
            artifact_type: None,
            config: Descriptor::from_bytes(CONFIG_MEDIA_TYPE, &config),
            layers: vec![layer],
            subject: None,
            annotations: details.annotations.clone(),
        })?;
        Ok(Self { file: tool, config: config.into(), manifest: manifest.into() })
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_bytes(&self.manifest)
    }

    /// Returns the manifest, which Sigstore signs.
    #[must_use]
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// Returns the descriptor of the manifest, which is the subject of its attachments.
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::from_bytes(MANIFEST_MEDIA_TYPE, &self.manifest)
    }
}

impl Attached {
    /// Packs a file, usually a signature, that is attached to a manifest.
    ///
    /// # Errors
    ///
    /// Fails if the JSON cannot be written.
    pub fn new(
        file: Bytes,
        media_type: &str,
        artifact_type: &str,
        title: &str,
        annotations: BTreeMap<String, String>,
        subject: Descriptor,
    ) -> serde_json::Result<Self> {
        let mut layer = Descriptor::from_bytes(media_type, &file);
        layer.annotations.insert(TITLE.to_owned(), title.to_owned());
        let manifest = serde_json::to_vec(&OciManifest {
            schema_version: 2,
            media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
            artifact_type: Some(artifact_type.to_owned()),
            config: Descriptor::from_bytes(EMPTY.0, EMPTY.1),
            layers: vec![layer],
            subject: Some(subject.clone()),
            annotations: annotations.clone(),
        })?;
        let mut descriptor = Descriptor::from_bytes(MANIFEST_MEDIA_TYPE, &manifest);
        descriptor.artifact_type = Some(artifact_type.to_owned());
        descriptor.annotations = annotations;
        Ok(Self { file, manifest: manifest.into(), descriptor, subject })
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_bytes(&self.manifest)
    }
}
