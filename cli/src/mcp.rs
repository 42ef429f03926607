//! The tools and the assets of a host, as the offer of an MCP server.
//!
//! Owns the translation between the host and `ikigai-mcp`: the catalog of tools (`tools`), the
//! answer of a call (`answer`, `plain`) and its client (`client`). It also offers assets as
//! resources (`assets`), and reports the changes of all these (`changes`). Every call is one
//! [`Host::call_for`]. `install` adds the server to the configuration of a client; `token` stores
//! the secret of a server over HTTP.

mod answer;
pub(crate) mod approved;
mod assets;
mod changes;
mod client;
pub(crate) mod description;
pub(crate) mod install;
mod plain;
pub(crate) mod token;
mod tools;

use std::sync::Arc;

use bytes::Bytes;
use ikigai_agent::SessionAssets;
use ikigai_assets::{Agent, AssetMetadata};
use ikigai_host::Host;
use ikigai_host::audit::{Requester, Via};
use ikigai_host::nearest::nearest;
use ikigai_host::policy::CLIENTS;
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_mcp::{
    AccessScope, CallAnswer, Catalog, CatalogChange, ClientCall, ForbiddenRequest, Offer,
    Principal, Resource, ResourceError, ResourceText, Unanswered, UriTemplate,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use changes::WatchedAssets;
use client::ClientFrontEnd;
use tools::HostTools;

/// The settings of a server.
#[derive(Debug)]
pub(crate) struct ServeSettings {
    /// The names of the tools to offer; if empty, all tools.
    pub(crate) tools: Vec<String>,
    /// The most characters of a result that a client gets.
    pub(crate) max_result: usize,
    /// True if clients come over a network.
    pub(crate) is_remote: bool,
}

/// The principal that stands for all principals, if no single client asks.
const ALL_PRINCIPALS: &str = "*";

/// The reason for a call that was cancelled while its tool was compiled.
const CANCELLED: &str = "the call was cancelled before its tool was compiled";

/// The reason for a call whose arguments are another JSON value.
const NO_OBJECT: &str = "`arguments` is not a JSON object";

/// The number of changes by which a slow client may lag.
const CHANGES_KEPT: usize = 256;

/// A host as an offer to one principal.
#[derive(Clone)]
pub(crate) struct HostOffer {
    host: Arc<Host>,
    requester: Requester,
    /// True if the principal may ask for assets at all.
    offers_assets: bool,
    assets: Option<SessionAssets>,
    max_result: usize,
    tools: Arc<HostTools>,
    changes: broadcast::Sender<CatalogChange>,
    watched: Arc<WatchedAssets>,
}

impl HostOffer {
    pub(crate) fn new(
        host: Arc<Host>,
        assets: Option<SessionAssets>,
        settings: ServeSettings,
    ) -> Self {
        let changes = broadcast::Sender::new(CHANGES_KEPT);
        let ServeSettings { tools, max_result, is_remote } = settings;
        let tools = Arc::new(HostTools::new(Arc::clone(&host), tools, max_result));
        let principal = is_remote.then(|| ALL_PRINCIPALS.to_owned());
        let requester = Requester { via: Via::Mcp, principal, ..Requester::default() };
        let (offers_assets, watched) = (true, Arc::default());
        Self { host, requester, offers_assets, assets, max_result, tools, changes, watched }
    }

    /// Returns the offer to one principal, who becomes the agent that owns its assets.
    pub(crate) fn to(&self, principal: &Principal) -> Self {
        let mut offer = self.clone();
        offer.requester.principal = Some(principal.name().to_owned());
        offer.assets = offer.assets.and_then(|assets| {
            match Agent::new(principal.name()) {
                Ok(agent) => Some(SessionAssets { agent, is_principal: true, ..assets }),
                // The server has already checked the name more strictly.
                Err(error) => {
                    tracing::warn!("a principal has no assets: {error}");
                    None
                }
            }
        });
        offer.offers_assets = principal.may(AccessScope::Documents);
        offer.requester.without_assets = !offer.offers_assets;
        offer
    }

    /// Returns an error for the first name of [`ServeSettings::tools`] that no tool has.
    pub(crate) async fn check_names(&self) -> Result<(), String> {
        self.tools.check_names().await
    }

    fn requester(&self, client: Option<String>) -> Requester {
        Requester { client, ..self.requester.clone() }
    }

    /// Starts the first scan, and from then on notices changes of the tools and of the watched
    /// assets.
    pub(crate) fn watch_changes(&self) {
        tokio::spawn(changes::of_tools(Arc::clone(&self.tools), self.changes.clone()));
        if let Some(assets) = self.assets.clone() {
            let (host, watched) = (Arc::clone(&self.host), Arc::clone(&self.watched));
            let (requester, changes) = (self.requester.clone(), self.changes.clone());
            tokio::spawn(changes::of_assets(host, requester, assets, watched, changes));
        }
    }

    fn missing(&self, name: &str, snapshot: &Snapshot) -> Unanswered {
        if snapshot.get(name).is_some() {
            let text =
                format!("the tool `{name}` is not offered: `--tools` of the server leaves it out");
            return Unanswered::Invalid(text);
        }
        let offered = snapshot.tools().map(Tool::name).filter(|name| self.tools.is_offered(name));
        let known = match nearest(name, offered) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => String::new(),
        };
        let name: String = name.escape_debug().take(100).collect();
        Unanswered::Invalid(format!("there is no tool `{name}`{known}"))
    }
}

impl Offer for HostOffer {
    async fn catalog(&self) -> Arc<Catalog> {
        self.tools.catalog().await
    }

    async fn call(&self, call: ClientCall) -> Result<CallAnswer, Unanswered> {
        let ClientCall { name, arguments, cancel, client, asker } = call;
        let requester = self.requester(client);
        // The component may have to be compiled first, which can take many seconds.
        let found = cancel.run_until_cancelled(self.tools.snapshot_with(&name)).await;
        let Some(snapshot) = found else {
            self.host.refuse_unbegun(&requester, &name, CANCELLED);
            return Ok(CallAnswer::failed(CANCELLED));
        };
        let tool = snapshot.get(&name).filter(|_| self.tools.is_offered(&name));
        let Some(tool) = tool else {
            self.host.refuse_missing(&requester, &snapshot, &name);
            return Err(self.missing(&name, &snapshot));
        };
        if !arguments.starts_with(b"{") {
            self.host.refuse_arguments(&requester, tool, arguments, NO_OBJECT);
            return Err(Unanswered::Invalid(NO_OBJECT.to_owned()));
        }
        let mismatches = tool.mismatches(&arguments);
        if !mismatches.is_empty() {
            let text = answer::of_mismatches(&name, &mismatches);
            self.host.refuse_arguments(&requester, tool, arguments, &text);
            return Ok(CallAnswer::failed(text));
        }
        let client = Arc::new(ClientFrontEnd(asker));
        let called =
            self.host.call_for(&requester, &snapshot, &name, arguments, cancel, Some(client));
        let envelope = called.await;
        answer::from_envelope(envelope, tool, self.max_result, self.assets.as_ref()).await
    }

    fn has_resources(&self) -> bool {
        self.offers_assets && self.assets.is_some()
    }

    fn template(&self) -> UriTemplate {
        assets::TEMPLATE
    }

    async fn resources(&self, client: Option<String>) -> Result<Vec<Resource>, ResourceError> {
        let requester = self.requester(client);
        let found = assets::list(&self.host, &requester, self.assets.as_ref()).await?;
        self.watched.note_list(&found);
        let is_for_client = |it: &AssetMetadata| {
            !self.assets.as_ref().is_some_and(|own| own.is_of_another(&it.path))
        };
        Ok(found.into_iter().filter(is_for_client).map(assets::resource).collect())
    }

    async fn read(&self, uri: &str, client: Option<String>) -> Result<ResourceText, ResourceError> {
        assets::read(&self.host, &self.requester(client), self.assets.as_ref(), uri).await
    }

    fn changes(&self) -> broadcast::Receiver<CatalogChange> {
        self.changes.subscribe()
    }

    fn refused(&self, name: &str, client: Option<String>, reason: &str) {
        self.host.refuse_unbegun(&self.requester(client), name, reason);
    }

    fn forbidden(&self, request: ForbiddenRequest, reason: &str) {
        let of_assets = |question: Value| (CLIENTS.to_owned(), Bytes::from(question.to_string()));
        let (name, arguments) = match request {
            ForbiddenRequest::Call { name, arguments } => (name, arguments),
            ForbiddenRequest::List => of_assets(json!({ "list": "" })),
            ForbiddenRequest::Read(uri) => of_assets(json!({ "read": uri })),
            ForbiddenRequest::Watch(uri) => of_assets(json!({ "watch": uri })),
        };
        self.host.refuse_forbidden(&self.requester, &name, arguments, reason);
    }

    async fn watch(&self, uri: &str, client: Option<String>) -> Result<(), ResourceError> {
        let requester = self.requester(client);
        let found = assets::watch(&self.host, &requester, self.assets.as_ref(), uri).await?;
        self.watched.begin(uri, &found);
        Ok(())
    }

    fn unwatch(&self, uri: &str) {
        self.watched.end(uri);
    }
}
