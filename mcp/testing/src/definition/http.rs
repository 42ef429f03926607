//! The keys of a definition for a peer over HTTP.

use serde_json::{Map, Value};

use super::{flag, nothing_left, text};

/// The behaviour of a peer over HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Http {
    /// Answers are event streams.
    pub(crate) sse: bool,
    /// A handshake opens a session, which later requests must name.
    pub(crate) sessions: bool,
    /// The only token that is accepted in addition to the authorization server's tokens.
    pub(crate) token: Option<String>,
    /// `"same"` or `"cross"`: requests are redirected, within the origin or to another.
    pub(crate) redirect: Option<Redirect>,
    /// An object: the peer has an authorization server.
    pub(crate) oauth: Option<OauthOptions>,
}

/// The target of redirects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Redirect {
    Same,
    Cross,
}

/// The behaviour of the authorization server.
#[derive(Clone, Debug)]
pub(crate) struct OauthOptions {
    /// The number of requests for which a token is accepted.
    pub(crate) lasts: Option<u64>,
    /// `"mixed"` or `"missing"`: the issuer in the answer to an authorization.
    pub(crate) issuer: Issuer,
    /// `false`: clients cannot register themselves.
    pub(crate) registers: bool,
    /// `false`: the server issues no refresh tokens.
    pub(crate) renews: bool,
    /// The lifetime of a token according to the answer, in seconds. The default is one hour.
    pub(crate) expires: u64,
    /// A scope that calls need and that tokens lack.
    pub(crate) lacks: Option<String>,
    /// Another attack than those above.
    pub(crate) fault: Option<Fault>,
}

/// An attack by the server or its issuer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// `"state"`: the browser is sent back with the state of another login.
    State,
    /// `"denied"`: the browser is sent back with an error.
    Denied,
    /// `"resource"`: the metadata belongs to another server.
    Resource,
    /// `"private"`: the issuer is at an address of a private network.
    Private,
    /// `"redirect"`: the token endpoint redirects to another origin.
    Redirect,
    /// `"large"`: the token endpoint answers with 2 MiB.
    Large,
}

/// The issuer that an answer names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Issuer {
    Own,
    Mixed,
    Missing,
}

impl Http {
    pub(super) fn from_value(value: Option<Value>) -> Result<Self, String> {
        let Some(mut keys) = object(value, "http")? else { return Ok(Self::default()) };
        let redirect = match text(&mut keys, "redirect")?.as_deref() {
            None => None,
            Some("same") => Some(Redirect::Same),
            Some("cross") => Some(Redirect::Cross),
            Some(other) => return Err(format!("`redirect` is `{other}`")),
        };
        let http = Self {
            sse: flag(&mut keys, "sse")?.unwrap_or(false),
            sessions: flag(&mut keys, "sessions")?.unwrap_or(false),
            token: text(&mut keys, "token")?,
            redirect,
            oauth: OauthOptions::from_value(keys.shift_remove("oauth"))?,
        };
        nothing_left(&keys)?;
        Ok(http)
    }
}

impl OauthOptions {
    fn from_value(value: Option<Value>) -> Result<Option<Self>, String> {
        let Some(mut keys) = object(value, "oauth")? else { return Ok(None) };
        let issuer = match text(&mut keys, "issuer")?.as_deref() {
            None => Issuer::Own,
            Some("mixed") => Issuer::Mixed,
            Some("missing") => Issuer::Missing,
            Some(other) => return Err(format!("`issuer` is `{other}`")),
        };
        let lasts = match keys.shift_remove("lasts") {
            None => None,
            Some(lasts) => Some(lasts.as_u64().ok_or_else(|| format!("`lasts` is `{lasts}`"))?),
        };
        let fault = match text(&mut keys, "fault")?.as_deref() {
            None => None,
            Some("state") => Some(Fault::State),
            Some("denied") => Some(Fault::Denied),
            Some("resource") => Some(Fault::Resource),
            Some("private") => Some(Fault::Private),
            Some("redirect") => Some(Fault::Redirect),
            Some("large") => Some(Fault::Large),
            Some(other) => return Err(format!("`fault` is `{other}`")),
        };
        let expires = match keys.shift_remove("expires") {
            None => 3600,
            Some(life) => life.as_u64().ok_or_else(|| format!("`expires` is `{life}`"))?,
        };
        let registers = flag(&mut keys, "registers")?.unwrap_or(true);
        let renews = flag(&mut keys, "renews")?.unwrap_or(true);
        let lacks = text(&mut keys, "lacks")?;
        nothing_left(&keys)?;
        Ok(Some(Self { lasts, issuer, registers, renews, expires, lacks, fault }))
    }
}

fn object(value: Option<Value>, key: &str) -> Result<Option<Map<String, Value>>, String> {
    match value {
        None => Ok(None),
        Some(Value::Object(keys)) => Ok(Some(keys)),
        Some(other) => Err(format!("`{key}` is `{other}`")),
    }
}
