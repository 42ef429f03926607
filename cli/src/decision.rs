//! Policy decisions as text for tables and as JSON.

use bytesize::ByteSize;
use ikigai_protocol::Access;
use serde_json::{Map, Value, json};
use strum::VariantArray as _;

use ikigai_host::exec::mcp::ServerTarget;
use ikigai_host::host::Host;
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::{
    Approve, AssetAccess, Backend, CommandRule, Commands, Decision, Denial, LimitKey, Provenance,
    Sandbox, ToolOrigin, WasiVersion,
};
use ikigai_host::registry::{Build, Tool};

/// The policy's decision about one tool, or its refusal.
pub(crate) type Decided = Result<Decision, Denial>;

/// A row of a table of tools.
pub(crate) struct ToolRow<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) decided: Decided,
    /// The isolation of the tool on this machine, in one word.
    pub(crate) isolation: &'static str,
}

impl<'a> ToolRow<'a> {
    /// Makes the row of a tool from the present policy.
    pub(crate) async fn for_tool(host: &Host, tool: &'a Tool) -> Self {
        let decided = host.decide(tool.into());
        let isolation = isolation(host, tool, &decided).await;
        Self { tool, decided, isolation }
    }

    pub(crate) async fn all(host: &Host, tools: impl Iterator<Item = &'a Tool>) -> Vec<Self> {
        let mut rows = Vec::new();
        for tool in tools {
            rows.push(Self::for_tool(host, tool).await);
        }
        rows
    }

    pub(crate) fn backend(&self) -> Backend {
        self.tool.build.backend()
    }
}

/// Returns the isolation of a tool on this machine, in one word. Tries the sandbox only if a tool
/// needs it and no remembered result shows that it works.
pub(crate) async fn isolation(host: &Host, tool: &Tool, decided: &Decided) -> &'static str {
    let Ok(decision) = decided else { return "denied" };
    let sandbox = match (tool.build.backend(), decision.grant.sandbox) {
        (Backend::Wasm, _) => return "sandboxed",
        (Backend::Mcp, _) if is_remote(tool) => return "elsewhere",
        (Backend::Native | Backend::Mcp, Sandbox::Off) => return "unconfined",
        (Backend::Native | Backend::Mcp, sandbox) => sandbox,
    };
    if host.registry().is_confining().await {
        return "sandboxed";
    }
    match sandbox {
        Sandbox::Require => "refused here",
        // A built-in tool stays within its grant on its own; the sandbox is a second boundary.
        _ if tool.origin == ToolOrigin::System => "self-confined",
        _ => "partial",
    }
}

/// Returns a sentence for a tool that no sandbox on this machine confines: it runs unconfined, or
/// on a server over HTTP.
pub(crate) fn without_sandbox(tool: &Tool, decision: &Decision) -> Option<&'static str> {
    if decision.is_unconfined(tool.build.backend()) {
        return Some("This tool runs unconfined, with all rights of its user.");
    }
    is_remote(tool).then_some("This tool runs elsewhere: no sandbox of this machine confines it.")
}

/// Returns whether a tool belongs to a server over HTTP, which no sandbox on this machine confines.
fn is_remote(tool: &Tool) -> bool {
    let server = tool.build.of_a_server();
    server.is_some_and(|(server, _)| matches!(server.target, ServerTarget::Remote { .. }))
}

/// The places that a native tool in the sandbox sees beside those of its grant.
pub(crate) const BASE_VIEW: &str = "\
    Base view: native tools also read /usr, /bin, /sbin, /lib*, some files of /etc such as \
    /etc/passwd,\n           and their own /proc; `ikigai help sandbox` says more\n";

/// Returns whether a tool sees the base view of the sandbox. ikigai's own file tools keep to their directories in it.
pub(crate) fn sees_base_view(tool: &Tool, decision: &Decision) -> bool {
    let keeps_to_dirs = tool.origin == ToolOrigin::System && !decision.commands.is_shell();
    tool.build.backend() != Backend::Wasm && !is_remote(tool) && !keeps_to_dirs
}

/// Returns the directories with this access, one per line.
pub(crate) fn dirs(backend: Backend, decision: &Decision, access: Access) -> String {
    if decision.is_unconfined(backend) {
        return ALL.to_owned();
    }
    let dirs = decision.grant.dirs.iter().filter(|dir| dir.access >= access);
    list(dirs.map(|dir| dir.path.display().to_string()), "\n")
}

/// Returns the peers that the tool may connect to, one per line.
pub(crate) fn network(backend: Backend, decision: &Decision) -> String {
    if decision.is_unconfined(backend) {
        return ALL.to_owned();
    }
    match (backend, decision.grant.net.any) {
        (Backend::Native, true) => "all of it".to_owned(),
        _ => list(decision.grant.net.to_string().split_whitespace().map(str::to_owned), "\n"),
    }
}

/// Returns the names of the variables that the tool sees.
pub(crate) fn environment(decision: &Decision) -> String {
    if decision.grant.inherits_env {
        return "the user's, less provider keys".to_owned();
    }
    let unset = |name: &str| {
        decision.variables.iter().any(|variable| variable.name == name && !variable.is_set)
    };
    let set = decision.grant.env.iter().map(|(name, _)| name.to_string_lossy().into_owned());
    let missing = decision.variables.iter().filter(|it| !it.is_set).map(|it| it.name.clone());
    let shown = |name: String| if unset(&name) { format!("{name} (not set)") } else { name };
    list(set.chain(missing).map(shown), " ")
}

/// Returns the access that the tool has to the host's assets.
pub(crate) fn assets(decision: &Decision) -> &'static str {
    match decision.grant.assets {
        AssetAccess::None => "nothing",
        AssetAccess::Read => "read",
        AssetAccess::Write => "read and write",
    }
}

/// Returns the calls that need the user's approval, if there are any, with the rule that requires
/// it.
pub(crate) fn approval(backend: Backend, decision: &Decision) -> Option<String> {
    let by = decision.approve_decided_by();
    let which = match decision.approve {
        Approve::None => return None,
        Approve::Changes | Approve::Unlisted if !decision.needs_consent(backend) => {
            "none, since it changes nothing"
        }
        Approve::Unlisted if decision.commands.is_shell() => "those that no rule lists",
        Approve::Changes | Approve::Unlisted | Approve::Always => "all",
    };
    Some(format!("{which} (approve = \"{}\", by {by})", decision.approve))
}

/// Returns the patterns that are hidden from the tool, if there are any, with the rules that hide
/// them.
pub(crate) fn hidden(decision: &Decision) -> Option<String> {
    let patterns = decision.grant.hide.patterns();
    let hidden = (!patterns.is_empty())
        .then(|| format!("{} (hide, by {})", patterns.join(", "), sources(decision, &["hide"])));
    let secrets = decision.grant.reserved.hides_secrets();
    let secrets = secrets.then(|| "places with secrets that `fs` does not list".to_owned());
    let parts: Vec<String> = hidden.into_iter().chain(secrets).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the versions of WASI that a build uses. An executable uses none.
pub(crate) fn wasi(build: &Build) -> Vec<&'static str> {
    build.wasi().iter().map(|used| used.version.as_str()).collect()
}

/// Returns the versions of WASI that components may use, if they are not all, with the rules that
/// say so.
pub(crate) fn allowed_wasi(decision: &Decision) -> Option<String> {
    let versions = &decision.wasi;
    if versions.len() == WasiVersion::VARIANTS.len() {
        return None;
    }
    let versions = list(versions.iter().map(|version| version.as_str().to_owned()), ", ");
    Some(format!("{versions} (wasi, by {})", sources(decision, &["wasi"])))
}

/// Returns the rule that forbids questions about wider access, if there is one.
pub(crate) fn unasked(decision: &Decision) -> Option<String> {
    (!decision.ask).then(|| format!("ask = false, by {}", sources(decision, &["ask"])))
}

/// Returns the limits on time and memory, one per line.
pub(crate) fn main_limits(backend: Backend, limits: &CallLimits) -> String {
    let memory = match backend {
        Backend::Wasm => limits.wasm_memory,
        Backend::Native | Backend::Mcp => limits.native_memory,
    };
    format!("{}\n{}", humantime::format_duration(limits.wall_clock), ByteSize(memory))
}

/// Returns the limits, on one line.
pub(crate) fn limits(backend: Backend, limits: &CallLimits) -> String {
    let memory = match backend {
        Backend::Wasm => limits.wasm_memory,
        Backend::Native | Backend::Mcp => limits.native_memory,
    };
    let time = humantime::format_duration(limits.wall_clock);
    let (memory, output) = (ByteSize(memory), ByteSize(limits.output));
    let own = match backend {
        Backend::Wasm => format!("{} fuel, {} handles", limits.fuel, limits.handles),
        Backend::Native | Backend::Mcp => format!("{} processes", limits.processes),
    };
    format!("{time}, {memory} memory, {output} output, {own}")
}

/// Returns the distinct rules that decided these capabilities.
pub(crate) fn sources(decision: &Decision, capabilities: &[&str]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for source in capabilities.iter().flat_map(|it| decision.provenance.for_capability(it)) {
        let text = source.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

/// Returns the keys of all limits, for [`sources`].
pub(crate) fn limit_keys() -> Vec<&'static str> {
    LimitKey::VARIANTS.iter().map(|key| key.as_str()).collect()
}

/// Returns a decision as JSON. It has only the names of variables, not their values.
pub(crate) fn as_json(backend: Backend, decided: &Decided) -> Value {
    let decision = match decided {
        Ok(decision) => decision,
        Err(denial) => {
            return json!({
                "denied": {
                    "reason": denial.reason,
                    "hint": denial.hint,
                    "source": denial.provenance.as_ref().map(Provenance::to_string),
                },
            });
        }
    };
    let grant = &decision.grant;
    let dirs = grant
        .dirs
        .iter()
        .map(|dir| json!({ "access": dir.access.as_str(), "path": dir.path.to_string_lossy() }));
    let env = grant.env.iter().map(|(name, _)| name.to_string_lossy());
    let variables =
        decision.variables.iter().map(|it| json!({ "name": it.name, "set": it.is_set }));
    let net = grant.net.to_string();
    let by = decision.provenance.iter().map(|(capability, sources)| {
        let texts = sources.iter().map(Provenance::to_string).collect::<Vec<_>>();
        (capability.to_owned(), json!(texts))
    });
    json!({
        "profile": decision.profile.as_str(),
        "approve": decision.approve.as_str(),
        "needs_consent": decision.needs_consent(backend),
        "ask": decision.ask,
        "commands": commands_as_json(&decision.commands),
        "grant": {
            "unconfined": decision.is_unconfined(backend),
            "sandbox": (backend != Backend::Wasm).then(|| grant.sandbox.as_str()),
            "dirs": dirs.collect::<Vec<_>>(),
            "hide": grant.hide.patterns(),
            "wasi": decision.wasi.iter().map(|version| version.as_str()).collect::<Vec<_>>(),
            "net": net.split_whitespace().collect::<Vec<_>>(),
            "assets": grant.assets.as_str(),
            "env": env.collect::<Vec<_>>(),
            "variables": variables.collect::<Vec<_>>(),
        },
        "limits": {
            "wall_clock_ms":
                u64::try_from(decision.limits.wall_clock.as_millis()).unwrap_or(u64::MAX),
            "fuel": decision.limits.fuel,
            "wasm_memory": decision.limits.wasm_memory,
            "native_memory": decision.limits.native_memory,
            "output": decision.limits.output,
            "handles": decision.limits.handles,
            "processes": decision.limits.processes,
        },
        "decided_by": Value::Object(by.collect::<Map<_, _>>()),
        "notes": decision.notes,
    })
}

/// Returns the rules for commands as JSON; `null` for a tool that runs no scripts.
fn commands_as_json(commands: &Commands) -> Value {
    if !commands.is_shell() {
        return Value::Null;
    }
    let rules = |rules: &[CommandRule]| {
        let rule =
            |it: &CommandRule| json!({ "rule": it.text(), "source": it.provenance.to_string() });
        rules.iter().map(rule).collect::<Vec<_>>()
    };
    json!({
        // Each layer may have a list, and a command has to be in all of them.
        "allow": commands.allow().iter().map(|list| rules(list)).collect::<Vec<_>>(),
        "ask": rules(commands.ask()),
        "deny": rules(commands.deny()),
        "nothing_listed_since": commands.obstacle(),
    })
}

/// Returns the rules for commands, one line per list; empty for a tool without such rules.
pub(crate) fn commands(commands: &Commands) -> Vec<String> {
    let line = |verb: &str, rules: &[CommandRule]| {
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        (!rules.is_empty()).then(|| format!("{verb} {}", rules.join(", ")))
    };
    let empty = |list: &Vec<CommandRule>| list.is_empty();
    let mut lines: Vec<String> = match commands.allow() {
        lists if lists.iter().any(empty) => vec!["lists no command".to_owned()],
        [] => Vec::new(),
        [first, others @ ..] => {
            let first = line("lists", first);
            first
                .into_iter()
                .chain(others.iter().filter_map(|it| line("of these only", it)))
                .collect()
        }
    };
    lines.extend(line("asks about", commands.ask()));
    lines.extend(line("denies", commands.deny()));
    if !lines.is_empty()
        && let Some(reason) = commands.obstacle()
    {
        lines.push(format!("lists nothing now, since {reason}"));
    }
    lines
}

/// The access of an unconfined tool.
const ALL: &str = "unconfined: everything that its user may do";

fn list(items: impl Iterator<Item = String>, between: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(between) }
}
