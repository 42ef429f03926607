//! Examines a file: its answer to `--schema` with nothing granted, and the manifest in it.

use std::fs::File;
use std::path::Path;

use ikigai_host::host::Host;
use ikigai_host::policy::Backend;
use ikigai_host::registry::{ScanDepth, Tool, is_wrap_definition};
use ikigai_packages::Manifest;

use super::artifact::version_of;
use super::staging::Fetched;
use crate::error::CliError;

/// A fetched file that is a tool.
pub(crate) struct ExaminedTool {
    /// The copy and its source.
    pub(crate) fetched: Fetched,
    /// The tool, as discovery would find it.
    pub(crate) tool: Tool,
    /// The interfaces that a component imports.
    pub(crate) imports: Vec<String>,
    /// The manifest in the file.
    pub(crate) manifest: Option<Manifest>,
}

impl ExaminedTool {
    /// Examines a file as discovery does: parses and compiles it, and asks for its schema
    /// with nothing granted.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a tool, or if its schema, manifest and tag contradict each other.
    pub(crate) async fn from_fetched(host: &Host, fetched: Fetched) -> Result<Self, CliError> {
        let from = fetched.source.from.clone();
        if is_wrap_definition(Path::new(&from)) {
            let what = format!(
                "`{from}` wraps a program on its author's machine, and cannot be installed"
            );
            return Err(CliError::failed(anyhow::Error::msg(what))
                .hint("check its `program` and `args`, then copy it to your tools"));
        }
        let manifest = manifest(&fetched)?;
        // A native file has to run to print its schema, before the user has agreed to anything.
        if !fetched.is_wasm() {
            check_confined(host, &from).await?;
        }
        let tool = host.registry().tool_at(&fetched.path, ScanDepth::Everything).await;
        let tool = tool.map_err(|reason| {
            let what = format!("`{from}` is not a tool: {reason}");
            CliError::failed(anyhow::Error::msg(what)).hint("`ikigai tool check FILE` shows more")
        })?;
        if tool.build.digest != fetched.digest {
            let what = format!("the copy of `{from}` changed while it was checked");
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
        let imports = tool.build.imports().await.map_err(CliError::failed)?;
        let examined = Self { fetched, tool, imports, manifest };
        examined.check_names()?;
        Ok(examined)
    }

    /// Checks that the schema, the manifest and the tag describe the same tool.
    fn check_names(&self) -> Result<(), CliError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let from = &self.fetched.source.from;
        if manifest.name != self.tool.name() {
            let what = format!(
                "`{from}` has the manifest of `{}`, but the schema of `{}`",
                manifest.name,
                self.tool.name()
            );
            return Err(of_author(what));
        }
        let tag = self.fetched.source.tag.as_deref();
        if let Some((tag, named)) = tag.and_then(|tag| Some((tag, version_of(tag)?)))
            && named != manifest.version
        {
            let what =
                format!("the tag `{tag}` of `{from}` has a file of version {}", manifest.version);
            return Err(of_author(what));
        }
        Ok(())
    }

    /// Returns the name of the tool.
    pub(crate) fn name(&self) -> &str {
        self.tool.name()
    }

    /// Returns whether the file is a native program, which only the sandbox confines.
    pub(crate) fn is_native(&self) -> bool {
        self.tool.build.backend() == Backend::Native
    }

    /// Returns the version in words.
    pub(crate) fn version(&self) -> String {
        self.manifest.as_ref().map_or_else(|| "no version".to_owned(), |it| it.version.to_string())
    }
}

/// Checks that the sandbox can confine a native file completely while it prints its schema.
async fn check_confined(host: &Host, from: &str) -> Result<(), CliError> {
    let machine = host.machine().await;
    if machine.isolation.unmet().next().is_none() {
        return Ok(());
    }
    let what = format!(
        "`{from}` is a native program, and this machine does not fully support the sandbox"
    );
    Err(CliError::failed(anyhow::Error::msg(what)).hint(
        "nothing was run; `ikigai doctor` shows what the sandbox lacks, or ask its author for a component",
    ))
}

fn of_author(what: String) -> CliError {
    CliError::failed(anyhow::Error::msg(what)).hint("only its author can fix that")
}

fn manifest(fetched: &Fetched) -> Result<Option<Manifest>, CliError> {
    if !fetched.is_wasm() {
        return Ok(None);
    }
    Manifest::of_file(File::open(&fetched.path)?).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        let what = format!("the file of `{}` {error}", fetched.source.from);
        CliError::failed(anyhow::Error::msg(what)).hints(hint)
    })
}
