//! The servers of a scan: their definitions, their tools, and which of the tools were approved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use ikigai_protocol::{Digest, ResultKind, ToolSchema};
use serde_json::Value;

use super::candidate::{Candidate, DEFINITION};
use super::definition::ServerDefinition;
use super::memo::{SchemaKey, SchemaReply};
use super::scan_context::{ScanContext, ScanTarget};
use super::tool::{Build, Tool};
use super::{ScanDepth, Snapshot};
use crate::exec::arguments;
use crate::exec::mcp::{
    AddressGate, Remote, ServerProgram, ServerTarget, ServerTools, ToolDescription,
};
use crate::exec::{Call, Refusals};
use crate::policy::{Backend, Decision, PolicyRequest, ServerTool, ToolOrigin};

/// The number of servers that are asked at once.
pub(super) const ASKED_AT_ONCE: usize = 8;

/// The longest name for a server's tool, in bytes. Clients add their own prefixes, and allow 64
/// bytes in all.
const LONGEST_NAME: usize = 48;

/// The number of hexadecimal digits that distinguish shortened names.
const DIGITS: usize = 6;

/// The characters between a server's name and its tool's name.
const BETWEEN: &str = "__";

/// A server that the user's tool directory defines: [`Snapshot::servers`].
#[derive(Clone, Debug)]
pub struct KnownServer {
    /// Its name.
    pub name: String,
    /// The path of its definition.
    pub path: PathBuf,
    /// The definition; `None` if it has a mistake.
    pub definition: Option<Arc<ServerDefinition>>,
    /// Its tools, if it can be used.
    pub state: ServerState,
}

impl KnownServer {
    /// Returns the tools that are not approved yet.
    pub fn withheld(&self) -> impl Iterator<Item = &ListedTool> {
        let tools = match &self.state {
            ServerState::Listed { tools, .. } => &tools[..],
            ServerState::NotAsked | ServerState::Unusable(_) => &[],
        };
        tools
            .iter()
            .filter(|tool| matches!(tool.standing, ApprovalState::New | ApprovalState::Changed))
    }

    /// Returns the prefix for the names of its tools, such as `github__`.
    #[must_use]
    pub fn tool_prefix(&self) -> String {
        prefix(&self.name)
    }

    /// Returns a line about the server for the user, if a part of it cannot be used.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let name = &self.name;
        if let ServerState::Unusable(reason) = &self.state {
            return Some(format!("the server `{name}` is not used: {reason}"));
        }
        let withheld: Vec<_> =
            self.withheld().map(|it| it.description.name.escape_debug().to_string()).collect();
        if withheld.is_empty() {
            return None;
        }
        let tools = withheld.join("`, `");
        Some(format!("of the server `{name}` are withheld until they are approved: `{tools}`"))
    }
}

/// The state of a server at a scan.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerState {
    /// It was not asked for its tools yet.
    NotAsked,
    /// It cannot be used, for this reason.
    Unusable(String),
    /// It has these tools.
    Listed {
        /// The tools, in the order of their names.
        tools: Vec<ListedTool>,
        /// The names of tools that cannot be used, with the reason.
        skipped: Vec<(String, String)>,
    },
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTool {
    /// The description by the server.
    pub description: ToolDescription,
    /// The digest of the description.
    pub digest: Digest,
    /// The name that it is offered under after approval.
    pub name: String,
    /// The state of its approval.
    pub standing: ApprovalState,
}

/// The state of the approval of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// The user approved it in its present form.
    Approved,
    /// No tool with this name was approved.
    New,
    /// It was approved, but has changed since.
    Changed,
    /// The server's definition does not select it.
    NotChosen,
    /// The policy forbids it, for this reason.
    Forbidden(String),
}

/// A server that may be used, with the decision on it.
struct Usable {
    definition: Arc<ServerDefinition>,
    contents: Vec<Digest>,
    decision: Decision,
}

impl ScanContext {
    /// Examines one definition. Asks the server for its tools, unless they are known or the scan
    /// does not want the server.
    pub(super) async fn server(&self, candidate: &Candidate) -> KnownServer {
        let path = candidate.path.clone();
        let definition = match ServerDefinition::read(&path) {
            Ok(definition) => Arc::new(definition),
            Err(error) => {
                let name = super::file::name(&path);
                let name = name.trim_end_matches(DEFINITION).to_owned();
                let state = ServerState::Unusable(error.line());
                return KnownServer { name, path, definition: None, state };
            }
        };
        let name = definition.server.name.clone();
        let known =
            |state| KnownServer { name, path, definition: Some(Arc::clone(&definition)), state };
        let usable = match self.usable(&definition) {
            Ok(usable) => usable,
            Err(reason) => return known(ServerState::Unusable(reason)),
        };
        let listed = self.listed(&usable).await;
        known(match listed {
            None => ServerState::NotAsked,
            Some(Err(reason)) => ServerState::Unusable(reason),
            Some(Ok(listed)) => self.judge(&usable, &listed),
        })
    }

    /// Returns how to connect to an HTTP server, with its grant.
    pub(super) fn remote(&self, candidate: &Candidate) -> Result<Remote, String> {
        let definition = ServerDefinition::read(&candidate.path).map_err(|error| error.line())?;
        let usable = self.usable(&Arc::new(definition))?;
        let server = &usable.definition.server;
        let ServerTarget::Remote { url, auth } = &server.target else {
            return Err(format!("the server `{}` is a program of this machine", server.name));
        };
        Ok(Remote {
            name: server.name.clone(),
            url: url.clone(),
            auth: auth.clone(),
            // A login is not a call, and is not recorded.
            judge: AddressGate::new(Arc::new(usable.decision.grant), Refusals::default()),
        })
    }

    /// Decides whether a server may be used at all.
    fn usable(&self, definition: &Arc<ServerDefinition>) -> Result<Usable, String> {
        if !self.loader.servers().can_connect() {
            return Err("this program does not support MCP servers".to_owned());
        }
        let contents = contents(definition, &self.memo)?;
        let decision = self
            .authority
            .decide(&server_request(definition, &contents, None))
            .map_err(|denial| denial.to_string())?;
        Ok(Usable { definition: Arc::clone(definition), contents, decision })
    }

    /// Returns the tools of a server, or `None` if they are unknown and the server must not be
    /// asked.
    async fn listed(&self, usable: &Usable) -> Option<Result<Arc<ServerTools>, String>> {
        let server = &usable.definition.server;
        let pool = self.loader.servers();
        let question = question(usable);
        let remembered = self.memo.answer(&question);
        if let Some((live, revision)) = pool.listed(server) {
            self.keep(question, remembered.as_ref(), &live, revision);
            return Some(Ok(live));
        }
        let wants = self.wants_server(&server.name);
        match remembered {
            Some(SchemaReply::Server { revision, tools, skipped })
                if !wants || self.depth != ScanDepth::Everything =>
            {
                pool.remember(server, &revision);
                return Some(Ok(Arc::new(ServerTools { tools, skipped })));
            }
            Some(SchemaReply::Refused(reason)) if !wants => return Some(Err(reason)),
            _ if !wants => return None,
            _ => {}
        }
        // The process starts now, and may write to its granted directories. So record them first.
        if let Err(reason) = self.authority.record_writable(&usable.decision.grant) {
            return Some(Err(reason));
        }
        let call = self.server_call(&usable.decision);
        let asked = pool.list(server, &call);
        let Some(asked) = super::before_deadline(self.deadline, asked).await else {
            return Some(Err("it was still being asked".to_owned()));
        };
        Some(match asked {
            Ok((tools, revision)) => {
                let ServerTools { tools: all, skipped } = (*tools).clone();
                self.memo
                    .keep_answer(question, SchemaReply::Server { revision, tools: all, skipped });
                Ok(tools)
            }
            Err(reason) => {
                self.memo.keep_answer(question, SchemaReply::Refused(reason.clone()));
                Err(reason)
            }
        })
    }

    /// Remembers the list of a server in use, if it differs from the remembered list. It may be the
    /// list under an earlier grant, so that the server's tools stay until it is started with the
    /// present grant.
    fn keep(
        &self,
        question: SchemaKey,
        remembered: Option<&SchemaReply>,
        live: &ServerTools,
        revision: String,
    ) {
        let is_known = matches!(
            remembered,
            Some(SchemaReply::Server { tools, skipped, .. })
                if *tools == live.tools && *skipped == live.skipped
        );
        if !is_known {
            let ServerTools { tools, skipped } = live.clone();
            self.memo.keep_answer(question, SchemaReply::Server { revision, tools, skipped });
        }
    }

    /// Returns whether to ask an unknown server for its tools. A scan for all tools asks no
    /// servers, because it must not wait for them.
    fn wants_server(&self, server: &str) -> bool {
        match &self.wanted {
            ScanTarget::All | ScanTarget::Known => false,
            ScanTarget::Servers => true,
            ScanTarget::Tool(name) => name.starts_with(&prefix(server)),
        }
    }

    fn server_call(&self, decision: &Decision) -> Call {
        Call {
            grant: Arc::new(decision.grant.clone()),
            limits: decision.limits,
            ..Call::new(Arc::clone(&self.workspace))
        }
    }

    /// Returns the state of a server with these tools.
    fn judge(&self, usable: &Usable, listed: &ServerTools) -> ServerState {
        let definition = &usable.definition;
        let approved = self.authority.approved(&definition.server.name);
        let mut skipped = listed.skipped.clone();
        let mut tools = Vec::with_capacity(listed.tools.len());
        for description in &listed.tools {
            let input = Value::Object(description.parameters.clone());
            if let Err(error) = arguments::compile(&input) {
                let reason = format!("its schema does not compile as JSON Schema: {error}");
                skipped.push((description.name.clone(), reason));
                continue;
            }
            let digest = description.digest();
            let tool = ServerTool { name: &description.name, digest };
            let is_chosen =
                definition.tools.as_ref().is_none_or(|chosen| chosen.contains(&description.name));
            let decided =
                self.authority.decide(&server_request(definition, &usable.contents, Some(tool)));
            let standing = match (decided, approved.get(&description.name)) {
                _ if !is_chosen => ApprovalState::NotChosen,
                (Ok(_), _) => ApprovalState::Approved,
                (Err(_), None) => ApprovalState::New,
                (Err(_), Some(before)) if *before != digest => ApprovalState::Changed,
                (Err(denial), Some(_)) => ApprovalState::Forbidden(denial.to_string()),
            };
            let (description, name) = (description.clone(), String::new());
            tools.push(ListedTool { description, digest, name, standing });
        }
        tools.sort_by(|one, other| one.description.name.cmp(&other.description.name));
        name_all(&definition.server.name, &mut tools);
        ServerState::Listed { tools, skipped }
    }

    /// Adds the approved tools of a server to a snapshot.
    pub(super) fn add_server(&self, snapshot: &mut Snapshot, server: KnownServer) {
        if let (Some(definition), ServerState::Listed { tools, .. }) =
            (&server.definition, &server.state)
        {
            let approved = tools.iter().filter(|tool| tool.standing == ApprovalState::Approved);
            for tool in approved {
                if let Some(other) = snapshot.tools.get(&tool.name) {
                    snapshot.warnings.push(format!(
                        "`{}` of the server `{}` is not offered: `{}` has this name",
                        tool.description.name.escape_debug(),
                        server.name,
                        other.build.path.display()
                    ));
                    continue;
                }
                let offered = self.tool(definition, tool);
                snapshot.tools.insert(tool.name.clone(), offered);
            }
        }
        snapshot.servers.push(server);
    }

    /// Ends each running server whose definition, program or grant has changed or is gone.
    pub(super) fn end_changed_servers(&self, snapshot: &Snapshot) {
        self.loader.servers().retain(|digest, grant| {
            let defined = snapshot.servers.iter().filter_map(|it| it.definition.as_ref());
            let mut same = defined.filter(|it| it.server.digest == digest);
            same.any(|it| self.usable(it).is_ok_and(|usable| usable.decision.grant == *grant))
        });
    }

    fn tool(&self, definition: &Arc<ServerDefinition>, tool: &ListedTool) -> Tool {
        let ToolDescription { description, parameters, returns, .. } = &tool.description;
        let mut parameters = parameters.clone();
        parameters.entry("type").or_insert_with(|| "object".into());
        parameters.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        let schema = ToolSchema {
            name: tool.name.clone(),
            description: description.clone(),
            parameters: Value::Object(parameters),
            returns: returns.clone().map(Value::Object),
            result: ResultKind::Content,
        };
        let program = ServerProgram {
            server: Arc::clone(&definition.server),
            tool: tool.description.name.as_str().into(),
            digest: tool.digest,
            pool: Arc::clone(self.loader.servers()),
        };
        let build = Build::of_server(definition.path.clone(), tool.name.clone(), program);
        let reason = format!("it is a tool of the server `{}`", definition.server.name);
        Tool::new(schema, ToolOrigin::User, Arc::new(build), reason.into(), None)
    }
}

/// Returns the present digests of a definition and of the program that it names.
pub(super) fn contents(
    definition: &ServerDefinition,
    memo: &super::memo::Memo,
) -> Result<Vec<Digest>, String> {
    let mut contents = vec![definition.server.digest];
    if let ServerTarget::Process { program, .. } = &definition.server.target {
        contents.push(program_digest(program, memo)?);
    }
    Ok(contents)
}

/// Returns the present digest of a server's program.
pub(super) fn program_digest(
    program: &std::path::Path,
    memo: &super::memo::Memo,
) -> Result<Digest, String> {
    let unusable = |reason: String| format!("its program `{}`: {reason}", program.display());
    let candidate = Candidate::at(program.to_owned(), ToolOrigin::User)
        .map_err(|unfit| unusable(unfit.to_string()))?;
    if candidate.backend != Backend::Native {
        return Err(unusable("it is not an executable".to_owned()));
    }
    candidate.digest(memo).map_err(|error| unusable(error.to_string()))
}

/// Returns the request to the policy for a server with these contents
/// ([`Registry::server_contents`](super::Registry::server_contents)), or for a tool of the server.
#[must_use]
pub fn server_request<'a>(
    definition: &'a ServerDefinition,
    contents: &'a [Digest],
    tool: Option<ServerTool<'a>>,
) -> PolicyRequest<'a> {
    PolicyRequest {
        name: Some(&definition.server.name),
        names: &[],
        registered: &[],
        origin: ToolOrigin::User,
        backend: Backend::Mcp,
        fell_back: false,
        path: &definition.path,
        program: definition.server.program(),
        contents,
        wasi: &[],
        tool,
    }
}

/// Returns the key of a server's answer. With another grant, a server may answer differently.
fn question(usable: &Usable) -> SchemaKey {
    let grant = &usable.decision.grant;
    let names: Vec<_> = grant.env.iter().map(|(name, _)| name).collect();
    let asked = format!(
        "{:?} {:?} {:?} {names:?} {:?}",
        usable.contents, grant.dirs, grant.net, grant.sandbox
    );
    SchemaKey::new(Backend::Mcp, &usable.definition.path, Digest::from_bytes(asked.as_bytes()))
}

/// Returns the prefix for the names of a server's tools.
pub(super) fn prefix(server: &str) -> String {
    format!("{}{BETWEEN}", sanitized(server))
}

/// Replaces each character that a tool name cannot have with `_`.
fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Names the tools of a server. A name gets digits if it is too long, or if it had to be changed
/// and now equals another tool's name. The digits come from the digest of the server's own name for
/// the tool.
fn name_all(server: &str, tools: &mut [ListedTool]) {
    let plain =
        |tool: &ListedTool| format!("{}{}", prefix(server), sanitized(&tool.description.name));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools.iter() {
        *counts.entry(plain(tool)).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    for tool in tools.iter_mut() {
        let plain = plain(tool);
        let is_own = sanitized(&tool.description.name) == tool.description.name;
        let is_alone = counts.get(&plain) == Some(&1);
        tool.name = if plain.len() <= LONGEST_NAME && (is_own || is_alone) {
            plain
        } else {
            shortened(&plain, &tool.description.name)
        };
        // The two digests begin alike, so the second tool has no name, and is not offered.
        if !taken.insert(tool.name.clone()) {
            tool.standing = ApprovalState::Forbidden("another tool has its name".to_owned());
        }
    }
}

/// Returns a name of at most [`LONGEST_NAME`] bytes, with both ends of `plain` and digits from the
/// digest of the tool's own name.
fn shortened(plain: &str, own: &str) -> String {
    let digits = &Digest::from_bytes(own.as_bytes()).to_string()[..DIGITS];
    let room = LONGEST_NAME - DIGITS - 2;
    if plain.len() <= room {
        return format!("{plain}_{digits}");
    }
    // The names are ASCII.
    let (head, tail) = (room / 2, room - room / 2);
    format!("{}_{digits}_{}", &plain[..head], &plain[plain.len() - tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    fn named(server: &str, names: &[&str]) -> Vec<String> {
        let tool = |name: &&str| ListedTool {
            description: ToolDescription {
                name: (*name).to_owned(),
                title: None,
                description: String::new(),
                parameters: Map::new(),
                returns: None,
                annotations: None,
            },
            digest: Digest::from_bytes(name.as_bytes()),
            name: String::new(),
            standing: ApprovalState::Approved,
        };
        let mut tools: Vec<_> = names.iter().map(tool).collect();
        name_all(server, &mut tools);
        tools.into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn names_fit_every_client_and_differ() {
        assert_eq!(named("git-hub", &["search", "a.b"]), ["git_hub__search", "git_hub__a_b"]);
        let alike = named("s", &["a.b", "a/b", "a_b"]);
        assert_eq!(alike[2], "s__a_b", "the name that needs no change keeps it");
        assert!(alike[0].starts_with("s__a_b_") && alike[1].starts_with("s__a_b_"), "{alike:?}");
        assert_ne!(alike[0], alike[1]);
        let long = |end: char| format!("{}{end}", "x".repeat(100));
        let (one, other) = (long('1'), long('2'));
        let names = named("server", &[&one, &other]);
        for name in &names {
            assert_eq!(name.len(), LONGEST_NAME, "{name}");
            assert!(name.starts_with("server__x") && ikigai_protocol::is_tool_name(name), "{name}");
        }
        assert!(names[0].ends_with("x1") && names[1].ends_with("x2"), "{names:?}");
        assert_eq!(named("s", &["é"]), ["s___"]);
    }
}
