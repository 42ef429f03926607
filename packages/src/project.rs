//! The project of a tool: `tool.toml`, in which its author writes the manifest and the build
//! command.
//!
//! ```toml
//! manifest = 1
//! name = "weather"
//! version = "1.2.0"
//! license = "MIT"
//!
//! [[needs.net]]
//! peer = "api.weather.example:443"
//! why = "forecasts"
//!
//! [build]
//! command = "go build -o out.wasm ."
//! env = { GOOS = "wasip1", GOARCH = "wasm" }
//! output = "out.wasm"
//! ```
//!
//! The table `build` stays in the project. The rest becomes the [`Manifest`].

use std::collections::BTreeMap;

use ikigai_protocol::is_deceptive;

use crate::document::{self, DocumentError, Node};
use crate::harmless;
use crate::manifest::{self, Manifest};

/// The name of the file in the directory of a project.
pub const PROJECT_FILE: &str = "tool.toml";

/// The largest project file in bytes. A typical file has a few dozen lines.
pub const MAX_PROJECT_BYTES: usize = 256 << 10;

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The manifest.
    pub manifest: Manifest,
    /// The build of the tool. `None` for a project that only describes a tool.
    pub build: Option<ProjectBuild>,
}

/// The command that builds the file of a tool, its variables and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectBuild {
    /// The shell command line, which runs in the directory of the project. It may have several
    /// lines.
    pub command: String,
    /// The variables that the command gets in addition to its caller's.
    pub env: BTreeMap<String, String>,
    /// The file that the command writes: a path in the project, relative to its directory.
    pub output: String,
}

impl Project {
    /// Parses a project file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not TOML, has an unknown key, lacks a key, has an invalid value, or was
    /// written for a newer ikigai. The error contains line and column.
    pub fn parse(text: &[u8]) -> Result<Self, DocumentError> {
        let node = document::parse_toml(text, MAX_PROJECT_BYTES)?;
        let known = [manifest::KEYS, &["build"]].concat();
        let table = node.table("the project")?.version("manifest")?.only(&known)?;
        Ok(Self { manifest: Manifest::read(table)?, build: table.optional("build", build)? })
    }
}

fn build(node: &Node) -> Result<ProjectBuild, DocumentError> {
    let table = node.table("build")?.only(&["command", "env", "output"])?;
    let command = table.require("command")?;
    let env = table.optional("env", environment)?.unwrap_or_default();
    Ok(ProjectBuild {
        command: line(command, "command")?,
        env,
        output: output(table.require("output")?)?,
    })
}

/// Reads a text for a shell. The user may read it before it runs.
fn line(node: &Node, key: &str) -> Result<String, DocumentError> {
    let text = node.text(key)?;
    if text.trim().is_empty() {
        return Err(node.fail(format!("`{key}` is empty")));
    }
    check_visible(node, key, text)?;
    Ok(text.to_owned())
}

fn environment(node: &Node) -> Result<BTreeMap<String, String>, DocumentError> {
    let mut env = BTreeMap::new();
    for member in node.table("env")?.members() {
        let name = &member.key;
        if name.is_empty() || name.contains(|c: char| c == '=' || is_deceptive(c)) {
            let what = format!("`{}` is not a valid variable name", harmless::line(name));
            return Err(DocumentError::at(member.place.clone(), what));
        }
        let value = member.node.text(name)?;
        check_visible(&member.node, name, value)?;
        env.insert(name.clone(), value.to_owned());
    }
    Ok(env)
}

fn check_visible(node: &Node, key: &str, text: &str) -> Result<(), DocumentError> {
    match text.chars().find(|c| is_deceptive(*c) && !matches!(c, '\n' | '\t')) {
        Some(c) => Err(node
            .fail(format!("`{key}` has the character U+{:04X}", u32::from(c)))
            .hint("remove control characters and marks of direction")),
        None => Ok(()),
    }
}

fn output(node: &Node) -> Result<String, DocumentError> {
    let text = node.text("output")?;
    let leads_out = text.starts_with('/') || text.split('/').any(|name| name == "..");
    let names_file = text.split('/').next_back().is_some_and(|name| !matches!(name, "" | "."));
    if leads_out || !names_file || text.contains(is_deceptive) {
        return Err(node
            .fail(format!("`{}` is not the path of a file in the project", harmless::line(text)))
            .hint("write it as `out.wasm` or `target/out.wasm`"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
