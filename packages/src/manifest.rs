//! The manifest of a tool: its name, version and licence, and what it needs.
//!
//! The author writes it in [`tool.toml`](crate::Project). A tool's file contains it as JSON in the
//! section `ikigai:manifest`:
//!
//! ```json
//! {"manifest":1,"name":"weather","version":"1.2.0","license":"MIT",
//!  "needs":{"net":[{"peer":"api.weather.example:443","why":"forecasts"}]}}
//! ```
//!
//! The JSON has no white space, and omits absent members. An unknown member is always an error,
//! because it could be a need that the user would not see. New members come with a new version
//! number of the manifest.

use std::io;

use ikigai_protocol::{RESERVED_NAMES, is_tool_name};
use semver::Version;
use serde::Serialize;

use crate::document::{self, DocumentError, Node, Table};
use crate::harmless;
use crate::license;
use crate::needs::{self, Needs};
use crate::section::{self, MAX_SECTION_BYTES, SectionError};

/// The keys of a manifest, in JSON and in TOML.
pub(crate) const KEYS: &[&str] =
    &["manifest", "name", "version", "license", "description", "homepage", "repository", "needs"];

/// The longest version in characters. It matches the limit for a registry's tag.
const LONGEST_VERSION: usize = 128;

/// The longest description or licence in characters.
const LONGEST_LINE: usize = 500;

/// The longest address in characters.
const LONGEST_URL: usize = 2000;

/// The manifest of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The name. It equals the name in the tool's schema.
    pub name: String,
    /// The version.
    #[serde(serialize_with = "as_text")]
    pub version: Version,
    /// The licence, as an SPDX expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// One line that describes the tool, for registries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The address of the tool's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// The address of the tool's source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The needs of the tool.
    #[serde(skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
}

/// The reason why a file's manifest cannot be read. Each text completes a sentence that begins with
/// the file.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The section cannot be read.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// The section does not contain a valid manifest.
    #[error("has a manifest that cannot be used: {0}")]
    Document(DocumentError),
}

impl ManifestError {
    /// Returns how to fix it, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Section(_) => None,
            Self::Document(error) => error.hint.as_deref(),
        }
    }
}

impl Manifest {
    /// Returns the manifest in the section of a core module or component, or `None` if it has no
    /// such section. Keeps only that section in memory.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not WebAssembly, or if it has two manifests, or a
    /// manifest that is too large or invalid.
    pub fn of_file(file: impl io::Read) -> Result<Option<Self>, ManifestError> {
        let json = section::read(file)?;
        json.map(|json| Self::from_json(&json).map_err(ManifestError::Document)).transpose()
    }

    /// Returns a core module or component with this manifest as its last section. It replaces every
    /// manifest in the file.
    ///
    /// # Errors
    ///
    /// Fails if the file is not WebAssembly, or if the file or the manifest is too large.
    pub fn embed(&self, file: &[u8]) -> Result<Vec<u8>, SectionError> {
        section::write(file, &self.to_json())
    }

    /// Parses the JSON of a section.
    ///
    /// # Errors
    ///
    /// Fails if the text is not JSON, has an unknown key, lacks a key, has an invalid value, or was
    /// written for a newer ikigai. The place of the error is the member.
    pub fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        let node = document::parse_json(json, MAX_SECTION_BYTES)?;
        Self::read(node.table("the manifest")?.version("manifest")?.only(KEYS)?)
    }

    /// Returns the JSON of the section, without white space.
    ///
    /// # Panics
    ///
    /// Never: a manifest consists of texts and numbers, which JSON can represent.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Versioned<'a> {
            manifest: u64,
            #[serde(flatten)]
            rest: &'a Manifest,
        }
        serde_json::to_vec(&Versioned { manifest: 1, rest: self }).expect("texts are JSON")
    }

    /// Reads the members of a manifest, and ignores others.
    pub(crate) fn read(table: Table<'_>) -> Result<Self, DocumentError> {
        Ok(Self {
            name: name(table.require("name")?)?,
            version: table.require("version")?.parsed("version", version)?,
            license: table.optional("license", license)?,
            description: table
                .optional("description", |node| node.prose("description", LONGEST_LINE))?,
            homepage: table.optional("homepage", |node| address("homepage", node))?,
            repository: table.optional("repository", |node| address("repository", node))?,
            needs: table.optional("needs", needs::read)?.unwrap_or_default(),
        })
    }
}

fn as_text<S: serde::Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
}

/// Returns whether a tool may have this name. The same rule applies to its schema.
pub(crate) fn is_name(name: &str) -> bool {
    is_tool_name(name) && !RESERVED_NAMES.contains(&name)
}

/// Reads the name of a tool.
pub(crate) fn name(node: &Node) -> Result<String, DocumentError> {
    let name = node.text("name")?;
    if is_name(name) {
        return Ok(name.to_owned());
    }
    if RESERVED_NAMES.contains(&name) {
        return Err(node.fail(format!("the name `{name}` is reserved for ikigai")));
    }
    let error = node.fail(format!("`{}` is not a valid tool name", harmless::line(name)));
    let meant = name.replace('-', "_");
    Err(if is_tool_name(&meant) {
        error.hint(format!("tools are named with underscores: `{meant}`"))
    } else {
        error.hint("names have letters, digits and underscores, at most 64")
    })
}

/// Parses a version.
fn version(text: &str) -> Result<Version, String> {
    if text.len() > LONGEST_VERSION {
        return Err(format!("has more than {LONGEST_VERSION} characters"));
    }
    text.parse().map_err(|error| format!("is not a version such as `1.2.0`: {error}"))
}

fn license(node: &Node) -> Result<String, DocumentError> {
    let text = node.text("license")?;
    if text.len() > LONGEST_LINE {
        return Err(node.fail(format!("`license` has more than {LONGEST_LINE} characters")));
    }
    node.parsed("license", |text| license::check(text).map(|()| text.to_owned()))
}

fn address(key: &str, node: &Node) -> Result<String, DocumentError> {
    let is_address = |text: &str| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
        host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
            && text.len() <= LONGEST_URL
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    node.parsed(key, |text| {
        let refusal = "is not a web page's URL; write it as `https://HOST/PATH`";
        if is_address(text) { Ok(text.to_owned()) } else { Err(refusal) }
    })
}

#[cfg(test)]
mod tests;
