//! The surroundings of the calls. Each call has its own workspace, store and server, and a host
//! that knows one tool. The policy grants the tool what both the project and the case request.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ikigai_agent::assets::StoredAssets;
use ikigai_assets::{Budget, Capacity, StoreUrl};
use ikigai_host::exec::assets::{AssetCaller, AssetStore};
use ikigai_host::exec::envelope::Envelope;
use ikigai_host::host::Host;
use ikigai_host::paths::Paths;
use ikigai_host::policy::BackendChoice;
use ikigai_host::registry::usable_cache;
use ikigai_packages::needs::AssetNeed;
use ikigai_packages::{Manifest, PROJECT_FILE};
use ikigai_protocol::Digest;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toml_edit::{Array, DocumentMut, InlineTable, Table, Value, value};

use super::cases::{Case, Cases, Content};
use super::names::Names;
use super::server::Server;
use crate::error::{CliError, with_path};
use crate::options::SharedOptions;
use crate::progress;
use crate::shipping::ProjectDirectory;

/// The agent of every call, who owns the assets of its case.
const AGENT: &str = "test";

/// The hosts of the calls.
pub(super) struct Trials {
    scratch: TempDir,
    paths: Paths,
    ceiling: Option<PathBuf>,
    manifest: Manifest,
    /// The project's directory, from which cases copy files.
    project: PathBuf,
    /// The file that was built.
    built: PathBuf,
    digest: Digest,
}

/// A call that has ended.
pub(super) struct Trial {
    pub(super) envelope: Envelope,
    /// The names in the case, with their values in this call.
    pub(super) names: Names,
    /// The requests that the case had no answer for, as `METHOD PATH`.
    pub(super) unexpected: Vec<String>,
}

impl Trials {
    /// Lays out the tool, which all calls share.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written, or if a case uses something that the project does not
    /// request.
    pub(super) fn new(
        options: &SharedOptions,
        project: &ProjectDirectory,
        cases: &Cases,
    ) -> Result<Self, CliError> {
        let manifest = project.manifest().clone();
        for case in cases.iter() {
            check_needed(&manifest, case).map_err(|(what, hint)| {
                let place = format!("{}:{}", cases.path.display(), case.line);
                CliError::usage(anyhow::Error::msg(format!("{place}: {what}"))).hint(hint)
            })?;
        }
        let scratch = tempfile::Builder::new().prefix("ikigai-test-").tempdir()?;
        let tools = scratch.path().join("tools");
        let (built, tool) = (project.built(), tools.join(project.file_name()));
        let lay_out = || {
            fs::create_dir(&tools)?;
            let bytes = fs::read(&built)?;
            fs::write(&tool, &bytes)?;
            Ok(Digest::from_bytes(&bytes))
        };
        let digest = with_path(lay_out(), "lay out the calls in", scratch.path())?;
        let found = options.paths();
        let paths = Paths {
            // The record of earlier runs is in the user's state.
            cache: usable_cache(&found).map(Path::to_path_buf),
            system_tools: None,
            system_cache: None,
            user_tools: Some(tools),
            config: None,
            data: None,
            // Without a state directory, the host warns that calls are not recorded.
            state: Some(scratch.path().join("state")),
            home: None,
            // Compiled components, a supervisor and the administrator's bounds come from the user's
            // paths.
            ..found
        };
        let (ceiling, project) = (options.ceiling().cloned(), project.path.clone());
        Ok(Self { scratch, paths, ceiling, manifest, project, built, digest })
    }

    /// Calls the tool as a case specifies.
    ///
    /// # Errors
    ///
    /// Fails if the surroundings cannot be laid out, or if the file is not the tool.
    pub(super) async fn call(
        &self,
        case: &Case,
        cancel: &CancellationToken,
    ) -> Result<Trial, CliError> {
        let workspace = self.scratch.path().join(format!("workspace-{}", case.line));
        with_path(self.lay_out(&workspace, case), "lay out", &workspace)?;
        let server = self.server(case).await?;
        let address = server.as_ref().map(|it| it.address.to_string());
        // The tool sees the path without links.
        let seen = with_path(workspace.canonicalize(), "find", &workspace)?;
        let names = Names::new(&seen.to_string_lossy(), address.clone());
        let host = self.host(&workspace, case, &names, address).await?;
        let name = &self.manifest.name;
        let snapshot = host.look_up(name).await;
        if snapshot.get(name).is_none() {
            let skipped = snapshot.skipped().first().map(|skipped| skipped.reason.as_str());
            let reason = skipped.unwrap_or("its schema has another name");
            let what = format!("`{}` is not the tool `{name}`: {reason}", self.built.display());
            return Err(CliError::failed(anyhow::Error::msg(what))
                .hint("`ikigai tool build` checks the tools that it builds"));
        }
        let arguments = Bytes::from(names.resolve_json(&case.arguments));
        let envelope = host.call(&snapshot, name, arguments, cancel.clone()).await;
        let unexpected = server.map(|server| server.unexpected()).unwrap_or_default();
        Ok(Trial { envelope, names, unexpected })
    }

    async fn server(&self, case: &Case) -> Result<Option<Server>, CliError> {
        if case.server.is_empty() {
            return Ok(None);
        }
        let started = Server::start(case.server.clone()).await;
        let started = started.map_err(|error| {
            CliError::failed(anyhow::Error::new(error).context("cannot start the case's server"))
        })?;
        Ok(Some(started))
    }

    /// Returns a host for one call, with the variables and the assets of the case.
    async fn host(
        &self,
        workspace: &Path,
        case: &Case,
        names: &Names,
        server: Option<String>,
    ) -> Result<Arc<Host>, CliError> {
        let policy = self.scratch.path().join(format!("policy-{}.toml", case.line));
        let write = || {
            fs::write(&policy, policy_text(&self.manifest, &self.digest, case, server))?;
            // The host refuses a policy that others may write, so the mode must not depend on the
            // umask.
            fs::set_permissions(&policy, fs::Permissions::from_mode(0o600))
        };
        with_path(write(), "write", &policy)?;
        let paths =
            Paths { required: vec![policy.clone()], policy: Some(policy), ..self.paths.clone() };
        let progress = progress::reporter();
        let mut host = Host::builder(workspace)
            .paths(paths)
            .backend(BackendChoice::Wasm)
            .hints(crate::remedy::policy::sentence)
            .secrets(crate::options::runtime_dir())
            .progress(move |event| progress(event));
        if self.manifest.needs.assets.is_some() {
            host = host.assets(self.assets(case, names).await?, AGENT);
        }
        if let Some(file) = &self.ceiling {
            host = host.ceiling(file);
        }
        let host = host.build()?;
        for (name, value) in &case.env {
            let set = host.authority().set_variable(name, &names.resolve(value));
            set.map_err(|what| CliError::usage(anyhow::Error::msg(what)))?;
        }
        Ok(host)
    }

    /// Returns a store that has only the assets of a case.
    async fn assets(&self, case: &Case, names: &Names) -> Result<Arc<dyn AssetStore>, CliError> {
        let file = self.scratch.path().join(format!("assets-{}.db", case.line));
        let url = StoreUrl::sqlite(file);
        let store = StoredAssets::at(Ok(url), Budget::default(), Capacity::default());
        let caller = AssetCaller { agent: AGENT.into(), own_thread: false, is_principal: false };
        for (uri, text) in &case.assets {
            store.write(&caller, uri, &names.resolve(text)).await.map_err(|error| {
                let what = format!("cannot write the case's asset `{uri}`: {error}");
                CliError::usage(anyhow::Error::msg(what))
            })?;
        }
        Ok(Arc::new(store))
    }

    /// Makes a workspace with the case's files and every granted directory, since a call is denied
    /// if a granted directory is missing.
    fn lay_out(&self, workspace: &Path, case: &Case) -> io::Result<()> {
        fs::create_dir(workspace)?;
        for need in &self.manifest.needs.fs {
            fs::create_dir_all(workspace.join(need.dir.path()))?;
        }
        for (path, content) in &case.files {
            let path = workspace.join(path);
            fs::create_dir_all(path.parent().unwrap_or(workspace))?;
            match content {
                Content::Bytes(bytes) => fs::write(path, bytes)?,
                Content::Copy(from) => {
                    let from = self.project.join(from);
                    fs::copy(&from, path).map_err(|error| {
                        io::Error::new(
                            error.kind(),
                            format!("cannot copy `{}`: {error}", from.display()),
                        )
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that the project requests what the case uses, which the tool could not see otherwise. The
/// error has the mistake, and the text to write.
fn check_needed(manifest: &Manifest, case: &Case) -> Result<(), (String, String)> {
    let needs = &manifest.needs;
    let ask = |lines: &str| format!("ask for it in {PROJECT_FILE}: {lines}");
    if !case.files.is_empty() && needs.fs.is_empty() {
        let what = "the case has files, and the tool asks for no directory".to_owned();
        return Err((what, ask("`[[needs.fs]]`, `dir = \"ro:.\"` and `why = \"…\"`")));
    }
    let unknown = case.env.keys().find(|name| needs.env.iter().all(|need| need.name != **name));
    if let Some(name) = unknown {
        let what = format!("the case has the variable `{name}`, and the tool does not ask for it");
        return Err((
            what,
            ask(&format!("`[[needs.env]]`, `name = \"{name}\"` and `why = \"…\"`")),
        ));
    }
    if !case.assets.is_empty() && needs.assets.is_none_or(|it| it == AssetNeed::None) {
        let what = "the case has assets, and the tool asks for none".to_owned();
        return Err((what, ask("`assets = \"read\"` in the table `[needs]`")));
    }
    if !case.server.is_empty() && needs.net.is_empty() {
        let what = "the case has a server, and the tool asks for no peer".to_owned();
        return Err((what, ask("`[[needs.net]]`, `peer = \"HOST:PORT\"` and `why = \"…\"`")));
    }
    Ok(())
}

/// Returns the policy that grants a file what its manifest requests. It grants no variables and no
/// peers except the case's own variables and its server.
fn policy_text(
    manifest: &Manifest,
    digest: &Digest,
    case: &Case,
    server: Option<String>,
) -> String {
    let needs = &manifest.needs;
    let mut entry = Table::new();
    entry["sha256"] = value(Array::from_iter([digest.to_string()]));
    let directories: Array = needs.fs.iter().map(|need| need.dir.to_string()).collect();
    if !directories.is_empty() {
        entry["fs"] = value(directories);
    }
    if !case.env.is_empty() {
        entry["env"] = value(Array::from_iter(case.env.keys()));
    }
    if let Some(server) = server {
        entry["net"] = value(Array::from_iter([server]));
    }
    if let Some(assets) = needs.assets {
        entry["assets"] = value(assets.as_str());
    }
    let mut limits = InlineTable::new();
    for (name, limit) in &needs.limits {
        let text = limit.to_string();
        // A count is written as a number, and a duration or a size as a word.
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
    use ikigai_packages::Project;

    use super::*;

    fn case(members: &str) -> Case {
        let line = format!("{{\"name\": \"a\", \"arguments\": {{}}{members}}}");
        let cases = Cases::parse("cases.jsonl".into(), line.into_bytes()).expect(members);
        cases.into_iter().next().expect("a case")
    }

    fn manifest(needs: &str) -> Manifest {
        let project = format!("manifest = 1\nname = \"a\"\nversion = \"1.0.0\"\n{needs}");
        Project::parse(project.as_bytes()).expect(needs).manifest
    }

    const NEEDS: &str = "[needs]\nassets = \"read\"\n[[needs.fs]]\ndir = \"rw:a \\\"b\"\nwhy = \"w\"\n\
        [[needs.net]]\npeer = \"*\"\nwhy = \"w\"\n[[needs.env]]\nname = \"KEY\"\nwhy = \"w\"\n\
        [needs.limits]\nwall_clock = \"60s\"\nhandles = 7\n";

    #[test]
    fn the_policy_grants_no_variable_and_no_peer_but_those_of_the_case() {
        let manifest = manifest(NEEDS);
        let digest = Digest::from_bytes(b"");
        let head = format!("[tools]\n\n[tools.a]\nsha256 = [\"{digest}\"]\nfs = ['rw:a \"b']\n");
        let tail = "assets = \"read\"\nlimits = { handles = 7, wall_clock = \"60s\" }\n";
        assert_eq!(policy_text(&manifest, &digest, &case(""), None), format!("{head}{tail}"));
        let with_env = case(", \"env\": {\"KEY\": \"v\"}");
        assert_eq!(
            policy_text(&manifest, &digest, &with_env, Some("127.0.0.1:1".to_owned())),
            format!("{head}env = [\"KEY\"]\nnet = [\"127.0.0.1:1\"]\n{tail}")
        );
    }

    #[test]
    fn a_case_has_nothing_that_the_project_does_not_ask_for() {
        for members in [
            ", \"files\": {\"a\": \"\"}",
            ", \"env\": {\"KEY\": \"v\"}",
            ", \"assets\": {\"ikigai:///a\": \"\"}",
            ", \"server\": [{\"path\": \"/\"}]",
        ] {
            assert!(check_needed(&manifest(NEEDS), &case(members)).is_ok(), "{members}");
            assert!(check_needed(&manifest(""), &case(members)).is_err(), "{members}");
        }
    }
}
