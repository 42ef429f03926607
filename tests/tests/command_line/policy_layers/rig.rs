//! The files of the three layers, and the requests that the tests decide.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_host::Digest;
use ikigai_host::policy::{
    Backend, Decision, Denial, Override, Overrides, PolicyRequest, Reserved, ServerTool,
    Signatures, ToolOrigin,
};
use ikigai_host::{BuildError, Host, HostBuilder, Paths};
use ikigai_tests::mode::permit;
use tempfile::TempDir;

/// The files of the three layers, in their own directory.
pub(crate) struct Rig {
    pub(crate) scratch: TempDir,
    pub(crate) overrides: Overrides,
    pub(crate) signatures: Option<Arc<dyn Signatures>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        for dir in ["w/.ikigai", "w/docs/secrets", "w/src", "home", "elsewhere", "own"] {
            fs::create_dir_all(scratch.path().join(dir)).expect("a directory of the test");
        }
        Self { scratch, overrides: Overrides::default(), signatures: None }
    }

    pub(crate) fn with(ceiling: &str, user: &str, workspace: &str) -> Self {
        let rig = Self::new();
        for (file, text) in [(CEILING, ceiling), (USER, user), (WORKSPACE, workspace)] {
            rig.write(file, text);
        }
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let text = text.replace("ELSEWHERE", self.path("elsewhere").to_str().expect("UTF-8"));
        fs::write(self.path(name), text).expect("written");
        permit(self.path(name), 0o600);
    }

    pub(crate) fn host(&self) -> Result<Arc<Host>, BuildError> {
        self.builder().build()
    }

    pub(crate) fn builder(&self) -> HostBuilder {
        let paths = Paths {
            system_tools: Some("/system".into()),
            user_tools: Some("/user".into()),
            policy: Some(self.path(USER)),
            ceiling: self.path(CEILING),
            home: Some(self.path("home")),
            state: Some(self.path("own")),
            system_cache: None,
            required: Vec::new(),
            cache: None,
            config: None,
            data: None,
            supervisor: None,
            compiler: None,
        };
        let builder = Host::builder(self.path("w")).paths(paths);
        let builder = builder.overrides(self.overrides.clone());
        match &self.signatures {
            Some(signatures) => builder.signatures(Arc::clone(signatures)),
            None => builder,
        }
    }

    #[track_caller]
    pub(crate) fn decide(&self, request: PolicyRequest<'_>) -> Result<Decision, Denial> {
        let host = self.host().unwrap_or_else(|error| panic!("{error}"));
        host.authority().decide(&request)
    }

    #[track_caller]
    pub(crate) fn allowed(&self, request: PolicyRequest<'_>) -> Decision {
        self.decide(request).unwrap_or_else(|denial| panic!("{denial}"))
    }

    /// Replaces this rig's directory by `/rig`, so that decisions of several rigs can be compared.
    pub(crate) fn rebased(&self, mut decision: Decision) -> Decision {
        let base = self.path("");
        for dir in &mut decision.grant.dirs {
            if let Ok(inner) = dir.path.strip_prefix(&base) {
                dir.path = Path::new("/rig").join(inner);
            }
        }
        // These paths follow from the rig's directories.
        decision.grant.reserved = Reserved::default();
        decision
    }

    /// Returns the granted directories as a policy file writes them.
    pub(crate) fn dirs(&self, decision: &Decision) -> Vec<String> {
        let base = self.path("");
        let spelled = |dir: &ikigai_protocol::GrantedDir| {
            let path = dir.path.strip_prefix(&base).unwrap_or(&dir.path);
            format!("{}:{}", dir.access.as_str(), path.display())
        };
        decision.grant.dirs.iter().map(spelled).collect()
    }
}

pub(crate) const CEILING: &str = "ceiling.toml";
pub(crate) const USER: &str = "policy.toml";
pub(crate) const WORKSPACE: &str = "w/.ikigai/policy.toml";

pub(crate) fn asked<T>(value: T) -> Override<T> {
    Override { value, from: "--flag".into() }
}

pub(crate) fn contents() -> [Digest; 1] {
    [Digest::from_bytes(b"tool")]
}

pub(crate) fn system(name: &str, backend: Backend) -> PolicyRequest<'_> {
    let (origin, path) = (ToolOrigin::System, Path::new("/system/tool"));
    PolicyRequest {
        name: Some(name),
        names: &[],
        registered: &[],
        origin,
        backend,
        fell_back: false,
        path,
        program: None,
        contents: &[],
        wasi: &[],
        tool: None,
    }
}

pub(crate) fn users<'a>(backend: Backend, contents: &'a [Digest]) -> PolicyRequest<'a> {
    let (origin, path) = (ToolOrigin::User, Path::new("/user/tool"));
    PolicyRequest {
        name: Some("tool"),
        names: &[],
        registered: &[],
        origin,
        backend,
        fell_back: false,
        path,
        program: None,
        contents,
        wasi: &[],
        tool: None,
    }
}

/// Returns the request for a tool of the server `peer`, or for the server itself.
pub(crate) fn of_server<'a>(tool: Option<&'a str>, contents: &'a [Digest]) -> PolicyRequest<'a> {
    PolicyRequest {
        name: Some("peer"),
        names: &[],
        registered: &[],
        origin: ToolOrigin::User,
        backend: Backend::Mcp,
        fell_back: false,
        path: Path::new("/user/peer.mcp.toml"),
        program: None,
        contents,
        wasi: &[],
        tool: tool.map(|name| ServerTool { name, digest: described() }),
    }
}

/// Returns the digest of the description of each tool of the server.
pub(crate) fn described() -> Digest {
    Digest::from_bytes(b"described")
}

/// Returns the digests of the definition of the server and of its program.
pub(crate) fn server_contents() -> [Digest; 2] {
    [Digest::from_bytes(b"definition"), Digest::from_bytes(b"program")]
}

/// Returns the table of a server in which these tools are approved.
pub(crate) fn approved(tools: &[&str]) -> String {
    let approved = tools.iter().map(|tool| format!("{tool} = \"{}\"\n", described()));
    format!("[servers.peer.tools]\n{}", approved.collect::<String>())
}

/// Returns a user's entry for the server, with these keys and its tools `echo` and `env`.
pub(crate) fn granted_server(keys: &str) -> String {
    let contents = server_contents().map(|digest| digest.to_string());
    let tools = approved(&["echo", "env"]);
    format!("[servers.peer]\nsha256 = {contents:?}\n{keys}\n{tools}")
}

/// Returns a user's entry for the tool, with these keys.
pub(crate) fn granted(keys: &str) -> String {
    format!("[tools.tool]\nsha256 = [\"{}\"]\n{keys}\n", contents()[0])
}
