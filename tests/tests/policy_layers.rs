//! The layers of a policy: a ceiling and a workspace take away and never give, and an edit is in
//! force at the next call.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::digest::Digest;
use ikigai_host::policy::{
    Approve, AssetAccess, Backend, BackendChoice, Decision, Denial, LayerKind, LimitKey, Net,
    Override, Overrides, Permissions, Profile, Provenance, Remedy, Request, Sandbox, ServerTool,
    ToolOrigin,
};
use ikigai_host::{BuildError, Host, Paths};
use ikigai_tests::draw::Draw;
use tempfile::TempDir;

/// The files of the three layers, in a directory of their own.
struct Rig {
    scratch: TempDir,
    overrides: Overrides,
}

impl Rig {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        for dir in ["w/.ikigai", "w/docs", "w/src", "home", "elsewhere", "own"] {
            fs::create_dir_all(scratch.path().join(dir)).expect("a directory of the test");
        }
        Self { scratch, overrides: Overrides::default() }
    }

    fn with(ceiling: &str, user: &str, workspace: &str) -> Self {
        let rig = Self::new();
        for (file, text) in [(CEILING, ceiling), (USER, user), (WORKSPACE, workspace)] {
            rig.write(file, text);
        }
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let text = text.replace("ELSEWHERE", self.path("elsewhere").to_str().expect("UTF-8"));
        fs::write(self.path(name), text).expect("written");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).expect("permitted");
    }

    fn host(&self) -> Result<Arc<Host>, BuildError> {
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
        Host::builder(self.path("w")).paths(paths).overrides(self.overrides.clone()).build()
    }

    #[track_caller]
    fn decide(&self, request: Request<'_>) -> Result<Decision, Denial> {
        let host = self.host().unwrap_or_else(|error| panic!("{error}"));
        host.authority().decide(&request)
    }

    #[track_caller]
    fn allowed(&self, request: Request<'_>) -> Decision {
        self.decide(request).unwrap_or_else(|denial| panic!("{denial}"))
    }

    /// Replaces the directory of this rig by `/rig`, so that decisions of several rigs can be
    /// compared.
    fn rebased(&self, mut decision: Decision) -> Decision {
        let base = self.path("");
        for dir in &mut decision.grant.dirs {
            if let Ok(inner) = dir.path.strip_prefix(&base) {
                dir.path = Path::new("/rig").join(inner);
            }
        }
        decision
    }

    /// Returns the granted directories as a policy file writes them.
    fn dirs(&self, decision: &Decision) -> Vec<String> {
        let base = self.path("");
        let spelled = |dir: &ikigai_protocol::GrantedDir| {
            let path = dir.path.strip_prefix(&base).unwrap_or(&dir.path);
            format!("{}:{}", dir.access.as_str(), path.display())
        };
        decision.grant.dirs.iter().map(spelled).collect()
    }
}

const CEILING: &str = "ceiling.toml";
const USER: &str = "policy.toml";
const WORKSPACE: &str = "w/.ikigai/policy.toml";

fn asked<T>(value: T) -> Override<T> {
    Override { value, from: "--flag".into() }
}

fn contents() -> [Digest; 1] {
    [Digest::of(b"tool")]
}

fn system(name: &str, backend: Backend) -> Request<'_> {
    let (origin, path) = (ToolOrigin::System, Path::new("/system/tool"));
    Request { name: Some(name), origin, backend, fell_back: false, path, contents: &[], tool: None }
}

fn users<'a>(backend: Backend, contents: &'a [Digest]) -> Request<'a> {
    let (origin, path) = (ToolOrigin::User, Path::new("/user/tool"));
    Request { name: Some("tool"), origin, backend, fell_back: false, path, contents, tool: None }
}

/// Returns the request for a tool of the server `peer`, or for the server itself.
fn of_server<'a>(tool: Option<&'a str>, contents: &'a [Digest]) -> Request<'a> {
    Request {
        name: Some("peer"),
        origin: ToolOrigin::User,
        backend: Backend::Mcp,
        fell_back: false,
        path: Path::new("/user/peer.mcp.toml"),
        contents,
        tool: tool.map(|name| ServerTool { name, digest: described() }),
    }
}

/// Returns the digest of the description of each tool of the server.
fn described() -> Digest {
    Digest::of(b"described")
}

/// Returns the digests of the definition of the server and of its program.
fn server_contents() -> [Digest; 2] {
    [Digest::of(b"definition"), Digest::of(b"program")]
}

/// Returns the table of a server in which these tools are approved.
fn approved(tools: &[&str]) -> String {
    let approved = tools.iter().map(|tool| format!("{tool} = \"{}\"\n", described()));
    format!("[servers.peer.tools]\n{}", approved.collect::<String>())
}

/// Returns a user's entry for the server, with these keys and its tools `echo` and `env`.
fn granted_server(keys: &str) -> String {
    let contents = server_contents().map(|digest| digest.to_string());
    let tools = approved(&["echo", "env"]);
    format!("[servers.peer]\nsha256 = {contents:?}\n{keys}\n{tools}")
}

/// Returns a user's entry for the tool, with these keys.
fn granted(keys: &str) -> String {
    format!("[tools.tool]\nsha256 = [\"{}\"]\n{keys}\n", contents()[0])
}

#[test]
fn the_standard_tools_get_the_workspace_and_no_more() {
    let rig = Rig::new();
    for (tool, access) in [
        ("file_read", "ro:w"),
        ("glob", "ro:w"),
        ("grep", "ro:w"),
        ("file_write", "rw:w"),
        ("file_edit", "rw:w"),
        ("bash", "rw:w"),
    ] {
        let wasm = rig.allowed(system(tool, Backend::Wasm));
        assert_eq!(rig.dirs(&wasm), [access]);
        assert!(wasm.grant.net.is_none() && wasm.grant.env.is_empty());
        let native = rig.allowed(system(tool, Backend::Native));
        assert_eq!(rig.dirs(&native), [access]);
        let is_shell = tool == "bash";
        let sandbox = if is_shell { Sandbox::Require } else { Sandbox::Prefer };
        assert_eq!(native.grant.sandbox, sandbox, "{tool}");
        let told = native.grant.env.iter().any(|(name, _)| name == "IKIGAI_DIRS");
        assert_eq!(told, !is_shell, "{tool}");
        assert!(native.grant.net.is_none());
    }
    let other = rig.allowed(system("other", Backend::Native));
    assert!(other.grant.dirs.is_empty() && other.grant.sandbox == Sandbox::Require);
}

#[test]
fn a_users_tool_has_nothing_or_all_of_its_user_until_it_is_granted_something() {
    let rig = Rig::with("", "[tools.tool]\nfs = [\"rw:.\"]\nnet = [\"*\"]", "");
    let own = contents();
    let wasm = rig.allowed(users(Backend::Wasm, &own));
    assert!(wasm.grant.dirs.is_empty() && wasm.grant.net.is_none() && wasm.grant.env.is_empty());
    assert!(wasm.notes[0].contains("speaks of system tools alone"), "{:?}", wasm.notes);
    let native = rig.allowed(users(Backend::Native, &own));
    assert!(native.is_unconfined(Backend::Native) && native.grant.inherits_env);
    // A user's tool with the name of a standard tool does not get its grant.
    let borrowed = Request { name: Some("file_write"), ..users(Backend::Wasm, &own) };
    assert!(rig.allowed(borrowed).grant.dirs.is_empty());

    let rig = Rig::with("", &granted("fs = [\"ro:docs\", \"rw:src\"]\nenv = [\"PATH\"]"), "");
    for backend in [Backend::Wasm, Backend::Native] {
        let decision = rig.allowed(users(backend, &own));
        assert_eq!(rig.dirs(&decision), ["ro:w/docs", "rw:w/src"]);
        assert_eq!(decision.grant.sandbox, Sandbox::Require);
        assert!(decision.grant.net.is_none());
        assert_eq!(decision.variables[0].name, "PATH");
        let line = |capability: &str| decision.provenance.of(capability)[0].to_string();
        assert!(line("fs").ends_with("policy.toml:3") && line("env").ends_with("policy.toml:4"));
        assert_eq!(line("net"), "profile standard");
    }
}

#[test]
fn a_grant_ends_when_the_contents_change() {
    let rig = Rig::with("", &granted("net = [\"db.internal:5432\"]\nenv = [\"DB\"]"), "");
    let changed = [Digest::of(b"another")];
    for backend in [Backend::Wasm, Backend::Native] {
        let denial = rig.decide(users(backend, &changed)).expect_err("denied");
        let permissions = Permissions {
            net: Net::parse(["db.internal:5432"]).expect("a list"),
            env: vec!["DB".to_owned()],
            ..Permissions::default()
        };
        let again = Remedy::GrantAgain { tool: "tool".to_owned(), permissions };
        assert_eq!(denial.remedy.as_deref(), Some(&again));
        let denial = denial.to_string();
        for part in [
            "/user/tool",
            "net db.internal:5432, env DB",
            "policy.toml:1",
            &changed[0].to_string(),
            &contents()[0].to_string(),
        ] {
            assert!(denial.contains(part), "{part}: {denial}");
        }
    }
    // The contents that were compiled and those of the file now must both be granted.
    let both = [contents()[0], changed[0]];
    rig.decide(users(Backend::Wasm, &both)).expect_err("denied");
    // A tool that is called by its path is found by its contents alone.
    let own = contents();
    let of_path = |request| Request { name: None, ..request };
    assert!(!rig.allowed(of_path(users(Backend::Wasm, &own))).grant.net.is_none());
    assert!(rig.allowed(of_path(users(Backend::Wasm, &changed))).grant.net.is_none());
}

#[test]
fn strict_runs_nothing_unconfined_and_nothing_that_fell_back() {
    let own = contents();
    let rig = Rig::with("", "profile = \"strict\"", "");
    let denial = rig.decide(users(Backend::Native, &own)).expect_err("denied");
    assert_eq!(denial.remedy.as_deref(), Some(&Remedy::GrantToRun { tool: "tool".to_owned() }));
    rig.allowed(users(Backend::Wasm, &own));
    for tool in ["bash", "grep"] {
        let denial = rig.decide(system(tool, Backend::Native)).expect_err("denied");
        assert_eq!(denial.remedy.as_deref(), Some(&Remedy::AllowNative { tool: tool.to_owned() }));
    }
    let fell = Request { fell_back: true, ..users(Backend::Native, &own) };
    rig.decide(fell).expect_err("denied");

    let text = format!(
        "profile = \"strict\"\n{}sandbox = \"off\"\n[tools.bash]\nbackend = \"native\"\n",
        granted("")
    );
    let rig = Rig::with("", &text, "");
    assert_eq!(rig.allowed(users(Backend::Native, &own)).grant.sandbox, Sandbox::Require);
    rig.decide(fell).expect_err("a grant is no leave to fall back");
    assert_eq!(rig.allowed(system("bash", Backend::Native)).grant.sandbox, Sandbox::Require);
}

/// A policy that asks for more of everything. A bound must not give any of it.
const GREEDY: &str = "profile = \"standard\"\n\
    [tools.\"*\"]\nfs = [\"rw:/\"]\nnet = [\"*\"]\nenv = [\"PATH\", \"HOME\"]\nsandbox = \"off\"\n\
    limits = { wall_clock = \"1h\", fuel = 999999999999999, memory = \"64GiB\", output = \"1GiB\", \
    handles = 9999, processes = 9999 }\n";

#[test]
fn neither_a_workspace_nor_a_ceiling_can_give() {
    let own = contents();
    let named = GREEDY.replace("\"*\"]\nfs", "tool]\nfs");
    let new = format!("[tools.tool]\nsha256 = [\"{}\"]\nfs = [\"rw:.\"]\nnet = [\"*\"]\n", own[0]);
    for user in [
        String::new(),
        granted("fs = [\"ro:docs\"]\nnet = [\"a.example:443\"]"),
        "profile = \"strict\"\n[tools.grep]\nfs = [\"ro:docs\"]\nlimits = { fuel = 5 }".to_owned(),
    ] {
        let without = Rig::with("", &user, "");
        for bound in [GREEDY, &named, &new, "[tools.tool]\nbackend = \"native\"\n"] {
            for rig in [Rig::with("", &user, bound), Rig::with(bound, &user, "")] {
                for request in [
                    users(Backend::Wasm, &own),
                    users(Backend::Native, &own),
                    system("grep", Backend::Wasm),
                    system("bash", Backend::Native),
                ] {
                    let what = format!("{user}\n---\n{bound}\n{request:?}");
                    let (before, after) = (without.decide(request), rig.decide(request));
                    match (before, after) {
                        (_, Err(_)) => {}
                        (Err(denial), Ok(_)) => panic!("was denied ({denial}), is not: {what}"),
                        (Ok(before), Ok(after)) => {
                            let (after, before) = (rig.rebased(after), without.rebased(before));
                            assert_within(&after, &before, request, &what);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn each_bound_takes_away_what_it_does_not_allow() {
    let own = contents();
    let user = granted(
        "fs = [\"rw:.\", \"ro:ELSEWHERE\"]\nnet = [\"a.example:443\", \"10.0.0.0/8:*\"]\n\
         env = [\"PATH\", \"HOME\"]\nlimits = { wall_clock = \"60s\", memory = \"1GiB\" }",
    );
    let bound = "[tools.tool]\nfs = [\"ro:docs\", \"rw:src\", \"rw:ELSEWHERE\", \"ro:missing\"]\n\
        net = [\"a.example:*\", \"10.1.0.0/16:80\", \"b.example:1\"]\nenv = [\"PATH\", \"USER\"]\n\
        limits = { wall_clock = \"2s\", memory = \"2GiB\", handles = 3 }\n";
    for (kind, rig) in [
        (LayerKind::Workspace, Rig::with("", &user, bound)),
        (LayerKind::Ceiling, Rig::with(bound, &user, "")),
    ] {
        let decision = rig.allowed(users(Backend::Wasm, &own));
        assert_eq!(rig.dirs(&decision), ["ro:elsewhere", "ro:w/docs", "rw:w/src"]);
        assert_eq!(decision.grant.net.to_string(), "a.example:443 10.1.0.0/16:80");
        assert_eq!(decision.variables.len(), 1, "{:?}", decision.variables);
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(2));
        assert_eq!((decision.limits.wasm_memory, decision.limits.handles), (1 << 30, 3));
        for capability in ["fs", "net", "env", "wall_clock", "handles"] {
            let last = decision.provenance.of(capability).last();
            let narrowed = matches!(last, Some(Provenance::File { kind: own, .. }) if *own == kind);
            assert!(narrowed, "{capability}: {last:?}");
        }
        assert_eq!(decision.provenance.of("memory").len(), 1);
    }
    // An absent key takes nothing away. An empty list takes everything away.
    let rig = Rig::with("[tools.tool]\nnet = []\n", &user, "");
    let decision = rig.allowed(users(Backend::Wasm, &own));
    assert_eq!(rig.dirs(&decision), ["ro:elsewhere", "rw:w"]);
    assert!(decision.grant.net.is_none() && decision.variables.len() == 2);
}

#[test]
fn a_bound_on_an_unconfined_tool_needs_the_sandbox() {
    let own = contents();
    for bound in ["fs = [\"ro:.\"]", "net = []", "env = [\"LANG\"]", "sandbox = \"require\""] {
        for name in ["tool", "\"*\""] {
            let text = format!("[tools.{name}]\n{bound}\n");
            for rig in [Rig::with("", "", &text), Rig::with(&text, "", "")] {
                let decision = rig.allowed(users(Backend::Native, &own));
                assert_eq!(decision.grant.sandbox, Sandbox::Require, "{text}");
                assert_eq!(decision.grant.inherits_env, !bound.starts_with("env"), "{text}");
                if bound.starts_with("fs") {
                    assert!(decision.grant.dirs.is_empty(), "a bound gives nothing");
                }
                assert_eq!(decision.grant.net.any, !bound.starts_with("net"), "{text}");
            }
        }
    }
    // A file tool keeps to a bound by itself, and so stays at `prefer`. `off` becomes `require`.
    let rig = Rig::with("[tools.grep]\nfs = [\"ro:docs\"]", "", "");
    let decision = rig.allowed(system("grep", Backend::Native));
    assert_eq!(
        (rig.dirs(&decision), decision.grant.sandbox),
        (vec!["ro:w/docs".into()], Sandbox::Prefer)
    );
    let rig = Rig::with("[tools.grep]\nfs = [\"ro:docs\"]", "[tools.grep]\nsandbox = \"off\"", "");
    assert_eq!(rig.allowed(system("grep", Backend::Native)).grant.sandbox, Sandbox::Require);
}

#[test]
fn a_default_for_the_shell_is_above_the_profile_and_below_everything_else() {
    let minutes = |number: u64| Duration::from_secs(60 * number);
    let nanos = |minutes: u64| minutes * 60_000_000_000;
    let of_shell = Overrides {
        shell_limits: vec![(LimitKey::WallClock, asked(nanos(2)))],
        ..Overrides::default()
    };
    let bound = "[tools.\"*\"]\nlimits = { wall_clock = \"1m\" }";
    let own = "[tools.bash]\nlimits = { wall_clock = \"5m\" }";
    let flag =
        Overrides { limits: vec![(LimitKey::WallClock, asked(nanos(3)))], ..of_shell.clone() };
    for (ceiling, user, overrides, minutes_allowed) in [
        ("", "", &of_shell, 2),
        ("", own, &of_shell, 5),
        ("", own, &flag, 3),
        (bound, own, &of_shell, 1),
        (bound, "", &of_shell, 1),
        ("", bound, &of_shell, 1),
    ] {
        let mut rig = Rig::with(ceiling, user, "");
        rig.overrides = overrides.clone();
        let decision = rig.allowed(system("bash", Backend::Native));
        assert_eq!(decision.limits.wall_clock, minutes(minutes_allowed), "{ceiling} {user}");
    }
    let mut rig = Rig::with("", "", "");
    rig.overrides = of_shell;
    let decision = rig.allowed(system("bash", Backend::Native));
    assert_eq!(decision.provenance.of("wall_clock"), [Provenance::Override("--flag".into())]);
    let other = rig.allowed(system("grep", Backend::Native));
    assert_eq!(other.limits.wall_clock, Duration::from_secs(30));
}

#[test]
fn flags_pass_the_users_file_and_no_bound() {
    let user = "profile = \"strict\"\n[tools.grep]\nbackend = \"wasm\"\nlimits = { fuel = 5 }";
    let asked = Overrides {
        profile: Some(asked(Profile::Standard)),
        backend: Some(asked(BackendChoice::Native)),
        limits: vec![(LimitKey::Fuel, asked(100)), (LimitKey::WallClock, asked(60_000_000_000))],
        ..Overrides::default()
    };
    let mut rig = Rig::with("", user, "");
    rig.overrides = asked.clone();
    let decision = rig.allowed(system("grep", Backend::Native));
    assert_eq!((decision.profile, decision.limits.fuel), (Profile::Standard, 100));
    assert_eq!(decision.provenance.of("fuel"), [Provenance::Override("--flag".into())]);
    let bound = "profile = \"strict\"\n[tools.grep]\nbackend = \"wasm\"\n\
                 limits = { wall_clock = \"1s\", fuel = 50 }";
    for text in [bound, &bound.replace("backend = \"wasm\"\n", "")] {
        let mut rig = Rig::with(text, user, "");
        rig.overrides = asked.clone();
        let decision = rig.allowed(system("grep", Backend::Wasm));
        assert_eq!((decision.profile, decision.limits.fuel), (Profile::Strict, 50));
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(1));
        let native = rig.decide(system("grep", Backend::Native));
        assert_eq!(native.is_err(), text.contains("backend"), "{native:?}");
        let choice = rig.host().expect("a policy").authority().choose("grep", ToolOrigin::System);
        let expected = if text.contains("backend") { "wasm" } else { "native" };
        assert_eq!(choice.backend.as_str(), expected);
    }
    // A workspace cannot choose a build.
    let rig = Rig::with("", "", "[tools.bash]\nbackend = \"native\"\n");
    let choice = rig.host().expect("a policy").authority().choose("bash", ToolOrigin::System);
    assert_eq!(choice.backend.as_str(), "auto");
}

#[test]
fn the_strictest_of_all_layers_decides_who_is_asked() {
    const VALUES: [Option<Approve>; 4] =
        [None, Some(Approve::Never), Some(Approve::Changes), Some(Approve::Always)];
    let own = contents();
    let said = |table: &str, value: Option<Approve>| {
        value.map_or_else(String::new, |it| format!("[tools.{table}]\napprove = \"{it}\"\n"))
    };
    for ceiling in VALUES {
        for user in VALUES {
            for workspace in VALUES {
                // An entry without a digest is no grant, and counts here nevertheless.
                let mut rig = Rig::with(
                    &said("\"*\"", ceiling),
                    &said("tool", user),
                    &said("tool", workspace),
                );
                for flag in VALUES {
                    rig.overrides.approve = flag.map(asked);
                    let decision = rig.allowed(users(Backend::Wasm, &own));
                    let all = [ceiling, user, workspace, flag];
                    let strictest = all.into_iter().flatten().max().unwrap_or_default();
                    assert_eq!(decision.approve, strictest, "{all:?}");
                    assert_eq!(decision.needs_consent(Backend::Wasm), strictest == Approve::Always);
                    assert!(decision.notes.is_empty(), "{:?}", decision.notes);
                    let by_profile = decision.provenance.of("approve")
                        == [Provenance::Profile(Profile::Standard)];
                    assert_eq!(by_profile, strictest == Approve::Never, "{all:?}");
                }
            }
        }
    }
}

#[test]
fn changes_are_what_the_grant_allows() {
    let own = contents();
    for (grant, backend, changes) in [
        ("", Backend::Wasm, false),
        ("fs = [\"ro:docs\"]", Backend::Wasm, false),
        ("fs = [\"rw:docs\"]", Backend::Wasm, true),
        ("net = [\"db.internal:5432\"]", Backend::Wasm, true),
        ("assets = \"read\"", Backend::Wasm, false),
        ("assets = \"write\"", Backend::Wasm, true),
        ("fs = [\"ro:docs\"]", Backend::Native, false),
        ("fs = [\"ro:docs\"]\nsandbox = \"prefer\"", Backend::Native, true),
    ] {
        let rig = Rig::with("[tools.\"*\"]\napprove = \"changes\"\n", &granted(grant), "");
        let decision = rig.allowed(users(backend, &own));
        assert_eq!(decision.needs_consent(backend), changes, "{grant} {backend}");
    }
}

#[test]
fn contents_that_a_bound_does_not_name_do_not_run() {
    let other = format!("[tools.tool]\nsha256 = [\"{}\"]\n", Digest::of(b"other"));
    let own = contents();
    for rig in [Rig::with(&other, &granted(""), ""), Rig::with("", &granted(""), &other)] {
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains("allows other contents"), "{denial}");
    }
}

#[test]
fn a_list_of_hosts_is_refused_for_a_native_tool() {
    let own = contents();
    let rig = Rig::with("", &granted("net = [\"db.internal:5432\"]"), "");
    let denial = rig.decide(users(Backend::Native, &own)).expect_err("denied");
    assert!(denial.reason.contains("has no network or all of it"), "{denial}");
    assert_eq!(denial.remedy.as_deref(), Some(&Remedy::GrantNetwork { tool: "tool".to_owned() }));
    rig.allowed(users(Backend::Wasm, &own));
    let rig = Rig::with("", &granted("net = [\"*\"]"), "");
    assert!(rig.allowed(users(Backend::Native, &own)).grant.net.any);
    // So is a list of hosts that comes from a bound.
    let rig = Rig::with("[tools.tool]\nnet = [\"a.example:1\"]\n", &granted("net = [\"*\"]"), "");
    rig.decide(users(Backend::Native, &own)).expect_err("denied");
}

#[test]
fn directories_are_what_they_are_when_the_call_is_made() {
    let own = contents();
    let denied = |rig: &Rig, part: &str| {
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains(part) && denial.contains("policy.toml:3"), "{denial}");
    };
    denied(&Rig::with("", &granted("fs = [\"ro:absent\"]"), ""), "does not exist");
    let rig = Rig::with("", &granted("fs = [\"ro:link\"]"), "");
    fs::write(rig.path("w/link"), "").expect("written");
    denied(&rig, "is no directory");
    fs::remove_file(rig.path("w/link")).expect("removed");
    std::os::unix::fs::symlink(rig.path("elsewhere"), rig.path("w/link")).expect("linked");
    denied(&rig, "leads out of the workspace");
    // Two names of one directory with different access.
    let rig = Rig::with("", &granted("fs = [\"ro:docs\", \"rw:link\"]"), "");
    std::os::unix::fs::symlink("docs", rig.path("w/link")).expect("linked");
    denied(&rig, "a directory has one access");
    // `~` and absolute paths are allowed.
    let rig = Rig::with("", &granted("fs = [\"ro:~\", \"rw:ELSEWHERE\"]"), "");
    assert_eq!(rig.dirs(&rig.allowed(users(Backend::Wasm, &own))), ["rw:elsewhere", "ro:home"]);
}

#[test]
fn assets_are_for_the_tools_of_files_and_for_whom_they_are_granted() {
    let own = contents();
    let rig = Rig::new();
    for (tool, assets) in [
        ("file_read", AssetAccess::Read),
        ("file_write", AssetAccess::Write),
        ("file_edit", AssetAccess::Write),
        ("glob", AssetAccess::None),
        ("grep", AssetAccess::None),
        ("bash", AssetAccess::None),
    ] {
        for (backend, profile) in [
            (Backend::Wasm, Profile::Standard),
            (Backend::Native, Profile::Standard),
            (Backend::Wasm, Profile::Strict),
        ] {
            let mut rig = Rig::new();
            rig.overrides.profile = Some(asked(profile));
            let decision = rig.allowed(system(tool, backend));
            assert_eq!(decision.grant.assets, assets, "{tool} {backend:?} {profile:?}");
        }
    }
    // A user's tool without a grant has none, even a native one that is unconfined.
    assert_eq!(rig.allowed(users(Backend::Native, &own)).grant.assets, AssetAccess::None);
    assert_eq!(rig.allowed(users(Backend::Wasm, &own)).grant.assets, AssetAccess::None);

    // The access is the least of all layers. A bound alone grants nothing.
    let words =
        [("none", AssetAccess::None), ("read", AssetAccess::Read), ("write", AssetAccess::Write)];
    for (user, granted_value) in words {
        for (bound, bound_value) in words {
            let user = granted(&format!("assets = \"{user}\""));
            let bound = format!("[tools.tool]\nassets = \"{bound}\"\n");
            for rig in [Rig::with(&bound, &user, ""), Rig::with("", &user, &bound)] {
                let decision = rig.allowed(users(Backend::Wasm, &own));
                assert_eq!(decision.grant.assets, granted_value.min(bound_value), "{user}{bound}");
                let narrowed = decision.provenance.of("assets").len() > 1;
                assert_eq!(narrowed, bound_value < granted_value, "{user}{bound}");
            }
        }
    }
    let bound = "[tools.tool]\nassets = \"write\"\n";
    let rig = Rig::with(bound, "", bound);
    assert_eq!(rig.allowed(users(Backend::Wasm, &own)).grant.assets, AssetAccess::None);

    // A bound on assets requires the sandbox: an unconfined tool could open the store itself.
    let rig = Rig::with("[tools.\"*\"]\nassets = \"read\"\n", "", "");
    assert_eq!(rig.allowed(users(Backend::Native, &own)).grant.sandbox, Sandbox::Require);
    let rig = Rig::with("", &granted("assets = \"writ\""), "");
    let error = rig.host().err().expect("refused").to_string();
    assert!(error.contains("is no `assets`: `none`, `read`, `write`"), "{error}");
    let rig = Rig::with("", &granted("env = [\"IKIGAI_HOST_FD\"]"), "");
    let error = rig.host().err().expect("refused").to_string();
    assert!(error.contains("is set by ikigai itself"), "{error}");
}

#[test]
fn no_grant_is_to_write_where_a_tool_could_be_installed() {
    let own = contents();
    for dir in ["own", "own/deeper", ""] {
        let rig = Rig::new();
        fs::create_dir_all(rig.path(dir)).expect("a directory of the test");
        let dir = rig.path(dir);
        let grant = |access: &str| granted(&format!("fs = [\"{access}:{}\"]", dir.display()));
        rig.write(USER, &grant("rw"));
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains("can install a tool"), "{denial}");
        rig.write(USER, &grant("ro"));
        rig.allowed(users(Backend::Wasm, &own));
    }
}

#[test]
fn an_edit_is_in_force_at_the_next_call() {
    let rig = Rig::with("", "", "");
    let host = rig.host().expect("a policy");
    let authority = host.authority();
    let dirs = || authority.decide(&system("grep", Backend::Wasm)).map(|it| rig.dirs(&it));
    assert_eq!(dirs(), Ok(vec!["ro:w".into()]));
    rig.write(USER, "[tools.grep]\nfs = [\"ro:docs\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    // An invalid file is reported, and the policy before it stays in force.
    rig.write(USER, "[tools.grep]\nfs = [\"ro:src\"]\nfss = []\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    let problems = |kind: LayerKind| {
        let files = authority.files();
        let file = files.into_iter().find(|file| file.kind == kind).expect("the file");
        file.problem.map(|problem| problem.line())
    };
    let told = problems(LayerKind::User).expect("a problem");
    assert!(told.contains("unknown key `fss`") && told.contains("did you mean `fs`?"), "{told}");
    rig.write(USER, "[tools.grep]\nfs = [\"ro:src\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/src".into()]));
    assert_eq!(problems(LayerKind::User), None);
    fs::remove_file(rig.path(USER)).expect("removed");
    assert_eq!(dirs(), Ok(vec!["ro:w".into()]));
    // An edit of the workspace's file is in force too.
    rig.write(WORKSPACE, "[tools.grep]\nfs = [\"ro:docs\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    rig.write(WORKSPACE, "[tools");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    // An invalid ceiling denies everything.
    rig.write(CEILING, "profil = 1");
    let denial = dirs().expect_err("denied").to_string();
    assert!(denial.contains("did you mean `profile`?"), "{denial}");
    rig.write(CEILING, "[tools.grep]\nfs = []\n");
    assert_eq!(dirs(), Ok(Vec::new()));
}

#[test]
fn whatever_the_layers_say_together_they_never_give_more_than_each() {
    let own = contents();
    let mut draw = Draw::new(7);
    let mut both = 0;
    for round in 0..300 {
        let user = random(&mut draw, Some(&own[0]));
        let bound = random(&mut draw, None);
        let without = Rig::with("", &user, "");
        let rigs = [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")];
        for rig in rigs {
            let (Ok(_), Ok(_)) = (without.host(), rig.host()) else { continue };
            for backend in [Backend::Wasm, Backend::Native] {
                for request in
                    [users(backend, &own), system("grep", backend), system("bash", backend)]
                {
                    let what = format!("round {round}\n{user}\n---\n{bound}\n{request:?}");
                    match (without.decide(request), rig.decide(request)) {
                        (_, Err(_)) => {}
                        (Err(denial), Ok(_)) => panic!("was denied ({denial}), is not: {what}"),
                        (Ok(before), Ok(after)) => {
                            both += 1;
                            let (after, before) = (rig.rebased(after), without.rebased(before));
                            assert_within(&after, &before, request, &what);
                        }
                    }
                }
            }
        }
    }
    assert!(both > 500, "{both} were compared");
}

/// Returns a policy file with a random choice of keys and values.
fn random(draw: &mut Draw, digest: Option<&Digest>) -> String {
    const DIRS: &[&str] = &["ro:.", "rw:.", "ro:docs", "rw:docs", "ro:src", "rw:ELSEWHERE", "ro:/"];
    const PEERS: &[&str] =
        &["*", "a.example:443", "a.example:*", "10.0.0.0/8:*", "10.1.0.0/16:80", "b.example:1"];
    let mut text = String::new();
    if draw.flip() {
        let profile = *draw.one(&["strict", "standard"]);
        text += &format!("profile = \"{profile}\"\n");
    }
    for name in ["tool", "grep", "bash", "\"*\""] {
        if draw.flip() {
            continue;
        }
        text += &format!("[tools.{name}]\n");
        if let Some(digest) = digest.filter(|_| name == "tool") {
            text += &format!("sha256 = [\"{digest}\"]\n");
        }
        for (key, words) in
            [("fs", DIRS), ("net", PEERS), ("env", &["PATH", "HOME", "OPENAI_API_KEY"])]
        {
            if draw.flip() {
                let words: Vec<_> =
                    draw.some(words).iter().map(|word| format!("{word:?}")).collect();
                text += &format!("{key} = [{}]\n", words.join(", "));
            }
        }
        if draw.flip() {
            let word = draw.one(&["none", "read", "write"]);
            text += &format!("assets = \"{word}\"\n");
        }
        if draw.flip() {
            let word = draw.one(&["off", "prefer", "require"]);
            text += &format!("sandbox = \"{word}\"\n");
        }
        if draw.flip() {
            let (fuel, seconds) = (draw.one(&["5", "500"]), draw.one(&["1", "60"]));
            text += &format!("limits = {{ fuel = {fuel}, wall_clock = \"{seconds}s\" }}\n");
        }
    }
    text
}

/// Asserts that `after` gives nothing that `before` does not.
#[track_caller]
fn assert_within(after: &Decision, before: &Decision, request: Request<'_>, what: &str) {
    let (now, then) = (&after.grant, &before.grant);
    let was_free = before.is_unconfined(request.backend);
    assert!(!after.is_unconfined(request.backend) || was_free, "unconfined now\n{what}");
    assert!(now.sandbox >= then.sandbox && after.profile >= before.profile, "{what}");
    for dir in &now.dirs {
        let covers = |outer: &ikigai_protocol::GrantedDir| {
            dir.path.starts_with(&outer.path) && dir.access <= outer.access
        };
        assert!(was_free || then.dirs.iter().any(covers), "{dir:?}\n{what}");
    }
    assert!(was_free || !now.net.any || then.net.any, "the whole network\n{what}");
    for peer in &now.net.peers {
        // A peer that the list covers is equal to what it shares with the list.
        let alone = ikigai_host::policy::Net { any: false, peers: vec![peer.clone()] };
        let shared = then.net.meet(&alone);
        assert!(was_free || shared.peers.contains(peer), "{peer}\n{what}");
    }
    assert!(now.assets <= then.assets, "assets\n{what}");
    let told = |name: &std::ffi::OsString| name == "IKIGAI_DIRS";
    for (name, _) in now.env.iter().filter(|(name, _)| !told(name)) {
        assert!(then.env.iter().any(|(own, _)| own == name), "{name:?}\n{what}");
    }
    let (now, then) = (&after.limits, &before.limits);
    assert!(
        now.wall_clock <= then.wall_clock
            && now.fuel <= then.fuel
            && now.wasm_memory <= then.wasm_memory
            && now.native_memory <= then.native_memory
            && now.output <= then.output
            && now.handles <= then.handles
            && now.processes <= then.processes,
        "{now:?} and {then:?}\n{what}"
    );
}

#[test]
fn a_variable_set_for_this_run_reaches_those_who_may_have_it() {
    const NAME: &str = "IKIGAI_TEST_CONNECTION";
    let named = format!("env = [\"{NAME}\"]");
    let rig = Rig::with("", &granted(&named), "");
    let contents = contents();
    for backend in [Backend::Wasm, Backend::Native] {
        let host = rig.host().expect("valid");
        let authority = host.authority();
        let request = users(backend, &contents);
        let other = Request { name: Some("other"), ..request };
        let value = |request| {
            let decision = authority.decide(&request).expect("allowed");
            let env = decision.grant.env.iter();
            let value = env.clone().find(|(name, _)| name == NAME).map(|(_, value)| value.clone());
            (value, decision.granted_values().len())
        };
        assert_eq!(value(request), (None, 0));
        authority.set_variable(NAME, "first").expect("a name");
        authority.set_variable("IKIGAI_TEST_UNNAMED", "x").expect("a name");
        authority.set_variable(NAME, "second").expect("a name");
        assert_eq!(value(request), (Some("second".into()), 1), "{backend:?}: and it is a secret");
        // An unconfined tool has the variable as part of the whole environment, others do not.
        let inherited = (backend == Backend::Native).then(|| "second".into());
        assert_eq!(value(other), (inherited, 0), "{backend:?}");
        let grant = authority.decide(&request).expect("allowed").grant;
        assert!(grant.env.iter().all(|(name, _)| name != "IKIGAI_TEST_UNNAMED"), "{grant:?}");
        for (name, value) in [("A=B", "x"), ("", "x"), ("IKIGAI_STORE", "x"), ("A", "\0")] {
            assert!(authority.set_variable(name, value).is_err(), "{name}");
        }
    }
}

#[test]
fn a_server_is_used_as_it_was_granted_and_a_call_of_it_has_a_minute() {
    let own = server_contents();
    let rig = Rig::with("", &granted_server("fs = [\"ro:docs\"]\nenv = [\"PATH\"]"), "");
    let tool = rig.allowed(of_server(Some("echo"), &own));
    let server = rig.allowed(of_server(None, &own));
    assert_eq!(rig.dirs(&tool), ["ro:w/docs"]);
    assert!(tool.grant.net.is_none() && tool.grant.sandbox == Sandbox::Require);
    assert_eq!(tool.grant, server.grant, "the process serves each of its tools");
    assert_eq!(tool.limits.wall_clock, Duration::from_secs(60));
    let longer = Rig::with("", &granted_server("limits = { wall_clock = \"90s\" }"), "");
    let longer = longer.allowed(of_server(Some("echo"), &own));
    assert_eq!(longer.limits.wall_clock, Duration::from_secs(90));
    for (tool, contents, expected) in [
        (Some("other"), &own[..], "was not approved"),
        (Some("echo"), &own[..1], ""),
        (Some("echo"), &[own[0], Digest::of(b"another")][..], "is not the file that was granted"),
        (None, &[Digest::of(b"another"), own[1]][..], "is not the file that was granted"),
        (None, &[][..], "is not the file that was granted"),
    ] {
        match rig.decide(of_server(tool, contents)) {
            Ok(_) => assert_eq!(expected, "", "{tool:?}"),
            Err(denial) => {
                let denial = denial.to_string();
                assert!(!expected.is_empty() && denial.contains(expected), "{tool:?}: {denial}");
            }
        }
    }
    let changed = ServerTool { name: "echo", digest: Digest::of(b"described otherwise") };
    let changed = Request { tool: Some(changed), ..of_server(None, &own) };
    let denial = rig.decide(changed).expect_err("denied").to_string();
    assert!(denial.contains("changed its tool `echo`"), "{denial}");
    // An entry of a tool with the same name is not that of the server.
    let rig = Rig::with("", &granted_server("").replace("servers.peer", "tools.peer"), "");
    assert!(rig.host().is_err(), "tools are those of servers");
    let rig = Rig::with("", &format!("[tools.peer]\nsha256 = [\"{}\"]\n", own[0]), "");
    let denial = rig.decide(of_server(None, &own)).expect_err("denied").to_string();
    assert!(denial.contains("the server `peer` was granted nothing"), "{denial}");
}

#[test]
fn a_bound_takes_away_from_a_server_as_from_a_tool() {
    let own = server_contents();
    let user = granted_server(
        "fs = [\"rw:.\", \"ro:ELSEWHERE\"]\nnet = [\"a.example:443\", \"b.example:443\"]\n\
         env = [\"PATH\", \"HOME\"]\nlimits = { wall_clock = \"90s\", memory = \"1GiB\" }",
    );
    for table in ["[servers.peer]", "[tools.\"*\"]"] {
        let bound = format!(
            "{table}\nfs = [\"ro:docs\"]\nnet = [\"a.example:*\"]\nenv = [\"PATH\", \"USER\"]\n\
             limits = {{ wall_clock = \"2s\", memory = \"2GiB\" }}\napprove = \"always\"\n"
        );
        for rig in [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")] {
            for request in [of_server(Some("echo"), &own), of_server(None, &own)] {
                let decision = rig.allowed(request);
                assert_eq!(rig.dirs(&decision), ["ro:w/docs"], "{table}");
                assert_eq!(decision.grant.net.to_string(), "a.example:443", "{table}");
                assert_eq!(decision.variables.len(), 1, "{table}: {:?}", decision.variables);
                assert_eq!(decision.limits.wall_clock, Duration::from_secs(2), "{table}");
                assert_eq!(decision.limits.native_memory, 1 << 30, "{table}");
                assert_eq!(decision.approve, Approve::Always, "{table}");
            }
        }
    }
    // A bound on a tool of the same name is none on the server.
    let rig = Rig::with("", &user, "[tools.peer]\nfs = []\n");
    assert_eq!(rig.dirs(&rig.allowed(of_server(None, &own))), ["ro:elsewhere", "rw:w"]);
    // To be asked more often needs no bound, and a flag can ask for it as well.
    let mut rig = Rig::with("", &granted_server("approve = \"changes\""), "");
    assert_eq!(rig.allowed(of_server(Some("echo"), &own)).approve, Approve::Changes);
    rig.overrides.approve = Some(asked(Approve::Always));
    assert_eq!(rig.allowed(of_server(Some("echo"), &own)).approve, Approve::Always);
}

#[test]
fn a_bound_that_lists_tools_of_a_server_allows_no_others() {
    let own = server_contents();
    let user = granted_server("");
    let bound = approved(&["echo"]);
    let other = bound.replace(&described().to_string(), &Digest::of(b"before").to_string());
    for (bound, allowed) in
        [(&bound, &["echo"][..]), (&other, &[]), (&"".to_owned(), &["echo", "env"])]
    {
        for rig in [Rig::with("", &user, bound), Rig::with(bound, &user, "")] {
            rig.allowed(of_server(None, &own));
            for tool in ["echo", "env", "other"] {
                let decided = rig.decide(of_server(Some(tool), &own));
                assert_eq!(decided.is_ok(), allowed.contains(&tool), "{tool}: {bound}");
            }
        }
    }
    // What only a bound lists was approved by nobody.
    let bound = approved(&["echo", "env", "other"]);
    for rig in [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")] {
        let denial = rig.decide(of_server(Some("other"), &own)).expect_err("denied").to_string();
        assert!(denial.contains("was not approved"), "{denial}");
    }
}

#[test]
fn neither_a_workspace_nor_a_ceiling_can_grant_a_server_anything() {
    let own = server_contents();
    let greedy = granted_server("fs = [\"rw:.\"]\nnet = [\"*\"]\nenv = [\"HOME\"]");
    for rig in [Rig::with("", "", &greedy), Rig::with(&greedy, "", "")] {
        let denial = rig.decide(of_server(Some("echo"), &own)).expect_err("denied").to_string();
        assert!(denial.contains("the server `peer` was granted nothing"), "{denial}");
    }
    let user = granted_server("fs = [\"ro:docs\"]");
    for rig in [Rig::with("", &user, &greedy), Rig::with(&greedy, &user, "")] {
        let decision = rig.allowed(of_server(Some("echo"), &own));
        assert_eq!(rig.dirs(&decision), ["ro:w/docs"]);
        assert!(decision.grant.net.is_none() && decision.variables.is_empty());
    }
}
