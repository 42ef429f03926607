//! The surroundings of the calls: for each a workspace of its own, with a host that knows one tool, and
//! a policy that grants it the directories that the project asks for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_host::exec::envelope::Envelope;
use ikigai_host::host::Host;
use ikigai_host::paths::Paths;
use ikigai_host::policy::BackendChoice;
use ikigai_protocol::Digest;
use ikigai_supply::{Manifest, PROJECT_FILE};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toml_edit::{Array, DocumentMut, InlineTable, Table, Value, value};

use super::cases::{Case, Cases};
use crate::error::{CliError, with_path};
use crate::options::Options;
use crate::progress;
use crate::shipping::ProjectDirectory;

/// The hosts of the calls.
pub(super) struct Trials {
    scratch: TempDir,
    paths: Paths,
    ceiling: Option<PathBuf>,
    manifest: Manifest,
    /// The file that was built.
    built: PathBuf,
}

impl Trials {
    /// Lays out the tool and the policy that all calls share.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or a case has files that the tool could never see.
    pub(super) fn new(
        options: &Options,
        project: &ProjectDirectory,
        cases: &Cases,
    ) -> Result<Self, CliError> {
        let manifest = project.manifest().clone();
        let with_files = cases.iter().find(|case| !case.files.is_empty());
        if let Some(case) = with_files.filter(|_| manifest.needs.fs.is_empty()) {
            let place = format!("{}:{}", cases.path.display(), case.line);
            let what = format!("{place}: the case has files, and the tool asks for no directory");
            let hint = format!(
                "ask for it in {PROJECT_FILE}: `[[needs.fs]]`, `dir = \"ro:.\"` and `why = \"…\"`"
            );
            return Err(CliError::usage(anyhow::Error::msg(what)).hint(hint));
        }
        let scratch = tempfile::Builder::new().prefix("ikigai-test-").tempdir()?;
        let (tools, policy) = (scratch.path().join("tools"), scratch.path().join("policy.toml"));
        let (built, tool) = (project.built(), tools.join(project.file_name()));
        let lay_out = || {
            fs::create_dir(&tools)?;
            let bytes = fs::read(&built)?;
            fs::write(&tool, &bytes)?;
            fs::write(&policy, policy_text(&manifest, Digest::of(&bytes)))?;
            // A policy that others may write is refused, and the umask must not decide.
            fs::set_permissions(&policy, fs::Permissions::from_mode(0o600))
        };
        with_path(lay_out(), "lay out the calls in", scratch.path())?;
        let paths = Paths {
            system_tools: None,
            system_cache: None,
            user_tools: Some(tools),
            required: vec![policy.clone()],
            policy: Some(policy),
            config: None,
            data: None,
            // Without one it is said that calls are not recorded.
            state: Some(scratch.path().join("state")),
            home: None,
            // Compiled components, a supervisor and the administrator's bounds are those of the user.
            ..options.paths()
        };
        Ok(Self { scratch, paths, ceiling: options.ceiling().cloned(), manifest, built })
    }

    /// Calls the tool as a case says.
    ///
    /// # Errors
    ///
    /// The workspace cannot be laid out, or the file is no tool.
    pub(super) async fn call(
        &self,
        case: &Case,
        cancel: &CancellationToken,
    ) -> Result<Envelope, CliError> {
        let workspace = self.scratch.path().join(format!("workspace-{}", case.line));
        with_path(self.lay_out(&workspace, &case.files), "lay out", &workspace)?;
        let host = self.host(&workspace)?;
        let name = &self.manifest.name;
        let snapshot = host.look_up(name).await;
        if snapshot.get(name).is_none() {
            let skipped = snapshot.skipped().first().map(|skipped| skipped.reason.as_str());
            let reason = skipped.unwrap_or("its schema has another name");
            let what = format!("`{}` is not the tool `{name}`: {reason}", self.built.display());
            return Err(CliError::failed(anyhow::Error::msg(what))
                .hint("`ikigai tool build` checks what it builds"));
        }
        Ok(host.call(&snapshot, name, case.arguments.clone(), cancel.clone()).await)
    }

    fn host(&self, workspace: &Path) -> Result<Arc<Host>, CliError> {
        let progress = progress::reporter();
        let mut host = Host::builder(workspace)
            .paths(self.paths.clone())
            .backend(BackendChoice::Wasm)
            .hints(crate::remedy::policy::sentence)
            .progress(move |event| progress(event));
        if let Some(file) = &self.ceiling {
            host = host.ceiling(file);
        }
        Ok(host.build()?)
    }

    /// Makes a workspace with files, and with every directory that is granted: a call is denied where
    /// one is missing.
    fn lay_out(&self, workspace: &Path, files: &BTreeMap<String, String>) -> io::Result<()> {
        fs::create_dir(workspace)?;
        for need in &self.manifest.needs.fs {
            fs::create_dir_all(workspace.join(need.dir.path()))?;
        }
        for (path, text) in files {
            let path = workspace.join(path);
            fs::create_dir_all(path.parent().unwrap_or(workspace))?;
            fs::write(path, text)?;
        }
        Ok(())
    }
}

/// Returns the policy that grants a file the directories that its manifest asks for, with the limits
/// that it asks for.
fn policy_text(manifest: &Manifest, digest: Digest) -> String {
    let needs = &manifest.needs;
    let mut entry = Table::new();
    entry["sha256"] = value(Array::from_iter([digest.to_string()]));
    let directories: Array = needs.fs.iter().map(|need| need.dir.to_string()).collect();
    if !directories.is_empty() {
        entry["fs"] = value(directories);
    }
    let mut limits = InlineTable::new();
    for (name, limit) in &needs.limits {
        let text = limit.to_string();
        // A count is written as a number, a duration or a size as a word.
        let limit = text.parse::<i64>().map_or_else(|_| Value::from(&text), Value::from);
        limits.insert(name.as_str(), limit);
    }
    if !limits.is_empty() {
        entry["limits"] = value(limits);
    }
    let mut policy = DocumentMut::new();
    policy["tools"] = Table::new().into();
    policy["tools"][&manifest.name] = entry.into();
    policy.to_string()
}

#[cfg(test)]
mod tests {
    use ikigai_supply::Project;

    use super::*;

    #[test]
    fn the_policy_grants_directories_and_limits_and_nothing_else() {
        let project = "manifest = 1\nname = \"a\"\nversion = \"1.0.0\"\n\
            [[needs.fs]]\ndir = \"rw:a \\\"b\"\nwhy = \"w\"\n\
            [[needs.net]]\npeer = \"*\"\nwhy = \"w\"\n[[needs.env]]\nname = \"KEY\"\nwhy = \"w\"\n\
            [needs.limits]\nwall_clock = \"60s\"\nhandles = 7\n";
        let manifest = Project::parse(project.as_bytes()).expect("a project").manifest;
        let digest = Digest::of(b"");
        assert_eq!(
            policy_text(&manifest, digest),
            format!(
                "[tools]\n\n[tools.a]\nsha256 = [\"{digest}\"]\nfs = ['rw:a \"b']\n\
                 limits = {{ handles = 7, wall_clock = \"60s\" }}\n"
            )
        );
    }
}
