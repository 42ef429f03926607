//! The principal of a request: who sends it, and which methods they may use.

use std::sync::Arc;
use std::time::SystemTime;

/// The authenticated client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    name: Arc<str>,
    scopes: Scopes,
    /// The time from which its token is refused, if the token expires.
    ends: Option<SystemTime>,
}

/// The parts of a server that a principal may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scopes {
    tools: bool,
    documents: bool,
}

/// A part of a server for which a principal needs permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessScope {
    /// The tools.
    Tools,
    /// The resources.
    Documents,
}

impl AccessScope {
    /// Returns the part that a method belongs to, or `None` for a method that every client needs.
    pub(super) fn for_method(method: &str) -> Option<Self> {
        match method.split_once('/')?.0 {
            "tools" => Some(Self::Tools),
            "resources" => Some(Self::Documents),
            _ => None,
        }
    }

    /// Returns the name of the scope in a token.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Documents => "documents",
        }
    }
}

impl Principal {
    /// Returns a principal that an issuer named.
    pub(super) fn new(name: &str, tools: bool, documents: bool) -> Self {
        Self { name: name.into(), scopes: Scopes { tools, documents }, ends: None }
    }

    /// Returns the principal of a token that is refused from this time on.
    pub(super) fn until(self, ends: Option<SystemTime>) -> Self {
        Self { ends, ..self }
    }

    /// Returns a principal that may use everything.
    pub(super) fn with_all(name: &str) -> Self {
        Self::new(name, true, true)
    }

    /// Returns the name: `anyone`, `token`, or the issuer's name for the principal, followed by `@`
    /// and the beginning of a digest of the issuer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name, as an `Arc` that can be shared.
    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the time from which the principal's token is refused, if the token expires.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        self.ends
    }

    /// Returns whether this principal may use a session that the other one began. The handler of a
    /// session keeps the scopes of the token that began it, so the scopes must be equal.
    pub(super) fn shares_sessions(&self, other: &Self) -> bool {
        self.name == other.name && self.scopes == other.scopes
    }

    /// Returns whether the principal may use a part of the server.
    #[must_use]
    pub fn may(&self, scope: AccessScope) -> bool {
        match scope {
            AccessScope::Tools => self.scopes.tools,
            AccessScope::Documents => self.scopes.documents,
        }
    }
}
