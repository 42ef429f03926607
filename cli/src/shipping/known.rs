//! The facts about a present tool, from the manifest in its file and from the locks.

use std::fs::File;
use std::path::Path;

use ikigai_host::host::Host;
use ikigai_host::policy::Backend;
use ikigai_host::registry::Tool;
use ikigai_packages::Manifest;
use ikigai_packages::lock::LockedTool;
use serde_json::{Map, Value, json};

use super::lock_file::read_lock;
use super::workspace::WorkspaceToolPaths;

/// The facts about a tool that its file and the locks state.
#[derive(Default)]
pub(crate) struct ToolFacts {
    manifest: Option<Manifest>,
    locked: Option<LockedTool>,
}

/// Returns the manifest in the file of a tool; `None` if there is no readable manifest.
pub(crate) fn manifest_at(path: &Path) -> Option<Manifest> {
    Manifest::of_file(File::open(path).ok()?).ok()?
}

impl ToolFacts {
    /// Returns the facts about a tool. Ignores an unreadable manifest or lock: `tool verify` and
    /// `doctor` report it.
    pub(crate) fn for_tool(host: &Host, tool: &Tool) -> Self {
        let build = &tool.build;
        if build.backend() == Backend::Mcp {
            return Self::default();
        }
        let manifest =
            (build.backend() == Backend::Wasm).then(|| manifest_at(&build.path)).flatten();
        let paths = host.registry().paths();
        let approved = WorkspaceToolPaths::find(paths, host.authority().workspace());
        let approved = approved.map(|tools| tools.approved().to_owned());
        let locks = paths.lock().into_iter().chain(approved);
        let locked = locks
            .filter_map(|path| read_lock(&path).ok()?.get(tool.name()).cloned())
            .find(|locked| locked.sha256 == build.digest);
        Self { manifest, locked }
    }

    /// Returns the facts as rows of a table: a name, and a text of one or several lines.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(manifest) = &self.manifest {
            rows.push(("version", manifest.version.to_string()));
            rows.extend(manifest.license.clone().map(|license| ("licence", license)));
        }
        if let Some(locked) = &self.locked {
            rows.push(("from", locked.from.clone()));
            rows.push(("signed by", locked.signer.to_string()));
        }
        if let Some(manifest) = &self.manifest {
            let needs: Vec<String> = manifest.needs.iter().map(|it| it.with_reason()).collect();
            let needs = if needs.is_empty() { "nothing".to_owned() } else { needs.join("\n") };
            rows.push(("asks for", needs));
        }
        rows
    }

    /// Returns the facts as JSON fields, `null` if a fact is missing.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let (manifest, locked) = (self.manifest.as_ref(), self.locked.as_ref());
        let fields = json!({
            "version": manifest.map(|it| it.version.to_string()),
            "license": manifest.and_then(|it| it.license.as_ref()),
            "from": locked.map(|it| &it.from),
            "signer": locked.map(|it| &it.signer),
            "needs": manifest.map(|it| &it.needs),
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}
