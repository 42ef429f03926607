//! An authorization server: metadata (RFC 8414, RFC 9728), registration (RFC 7591), codes with PKCE
//! (RFC 7636), tokens that rotate and can be revoked (RFC 7009), and the issuer in its answers (RFC
//! 9207).
//!
//! It asks no user: the authorization page sends the browser back at once. The definition may make
//! it attack its clients.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::request::{Request, Response, encoded};
use crate::definition::{Fault, Issuer, OauthOptions};

/// The state of the server.
pub(super) struct Oauth {
    issuer: String,
    /// The redirect URIs of each client.
    clients: HashMap<String, Vec<String>>,
    codes: HashMap<String, Code>,
    /// The number of requests that used each token.
    access: HashMap<String, u64>,
    refresh: HashSet<String>,
    /// The number of values that were issued.
    issued: u64,
}

/// A code that was not exchanged yet.
struct Code {
    client: String,
    redirect: String,
    challenge: String,
}

/// A refusal, as an OAuth error.
type Refusal = (&'static str, &'static str);

impl Oauth {
    pub(super) fn new(issuer: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            clients: HashMap::new(),
            codes: HashMap::new(),
            access: HashMap::new(),
            refresh: HashSet::new(),
            issued: 0,
        }
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, request: &Request, options: &OauthOptions) -> Response {
        let answered = match (request.method.as_str(), request.path()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                Ok(Response::json(200, &self.protection(options)))
            }
            ("GET", "/.well-known/oauth-authorization-server") => {
                Ok(Response::json(200, &self.metadata(options)))
            }
            ("POST", "/register") if options.registers => self.register(request),
            ("GET", "/authorize") => self.authorize(request, options),
            ("POST", "/token") => match options.fault {
                Some(Fault::Redirect) => {
                    // Another origin, although it leads to the same server.
                    let place = self.issuer.replace("127.0.0.1", "localhost");
                    Ok(Response::empty(307).header("location", &format!("{place}/token")))
                }
                Some(Fault::Large) => {
                    Ok(Response::json(200, &json!({ "access_token": "x".repeat(2 << 20) })))
                }
                _ => self.token(request, options),
            },
            ("POST", "/revoke") => {
                let token = request.field("token").unwrap_or_default();
                self.access.remove(&token);
                self.refresh.remove(&token);
                Ok(Response::empty(200))
            }
            _ => return Response::json(404, &json!({ "error": "not found" })),
        };
        answered.unwrap_or_else(|(error, why)| {
            Response::json(400, &json!({ "error": error, "error_description": why }))
        })
    }

    /// Takes a request with a token. Returns `false` if the token is unknown or has expired.
    pub(super) fn accepts(&mut self, token: &str, options: &OauthOptions) -> bool {
        let Some(used) = self.access.get_mut(token) else { return false };
        *used += 1;
        options.lasts.is_none_or(|lasts| *used <= lasts)
    }

    fn resource(&self) -> String {
        format!("{}/mcp", self.issuer)
    }

    fn protection(&self, options: &OauthOptions) -> Value {
        let is = |fault| options.fault == Some(fault);
        let resource =
            if is(Fault::Resource) { "https://other.example/mcp" } else { &self.resource() };
        let issuer = if is(Fault::Private) { "https://10.255.255.1" } else { &self.issuer };
        json!({
            "resource": resource,
            "authorization_servers": [issuer],
            "scopes_supported": ["tools"],
        })
    }

    fn metadata(&self, options: &OauthOptions) -> Value {
        let mut metadata = json!({
            "issuer": self.issuer,
            "authorization_endpoint": format!("{}/authorize", self.issuer),
            "token_endpoint": format!("{}/token", self.issuer),
            "revocation_endpoint": format!("{}/revoke", self.issuer),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": options.issuer != Issuer::Missing,
        });
        if options.registers {
            metadata["registration_endpoint"] = format!("{}/register", self.issuer).into();
        }
        metadata
    }

    fn register(&mut self, request: &Request) -> Result<Response, Refusal> {
        let mut client = request.json();
        let redirects = client["redirect_uris"].as_array().into_iter().flatten();
        let redirects: Vec<String> =
            redirects.filter_map(Value::as_str).map(str::to_owned).collect();
        if redirects.is_empty() {
            return Err(("invalid_redirect_uri", "there is no redirection"));
        }
        let id = self.issue("client");
        client["client_id"] = id.clone().into();
        self.clients.insert(id, redirects);
        Ok(Response::json(201, &client))
    }

    fn authorize(
        &mut self,
        request: &Request,
        options: &OauthOptions,
    ) -> Result<Response, Refusal> {
        let query = |name| request.query(name).unwrap_or_default();
        let (client, redirect) = (query("client_id"), query("redirect_uri"));
        // The server never follows an unregistered redirect URI.
        if !self.clients.get(&client).is_some_and(|known| known.contains(&redirect)) {
            return Err(("invalid_request", "the client or its redirection is unknown"));
        }
        if query("response_type") != "code" {
            return Err(("unsupported_response_type", "the type is not `code`"));
        }
        let challenge = query("code_challenge");
        if challenge.is_empty() || query("code_challenge_method") != "S256" {
            return Err(("invalid_request", "there is no challenge by S256"));
        }
        if query("resource") != self.resource() {
            return Err(("invalid_target", "the resource is another"));
        }
        let code = self.issue("code");
        let mut place = match options.fault {
            Some(Fault::Denied) => format!("{redirect}?error=access_denied&error_description=no"),
            _ => format!("{redirect}?code={}", encoded(&code)),
        };
        if let Some(state) = request.query("state") {
            let other = if options.fault == Some(Fault::State) { "other" } else { "" };
            place += &format!("&state={}{other}", encoded(&state));
        }
        match options.issuer {
            Issuer::Own => place += &format!("&iss={}", encoded(&self.issuer)),
            Issuer::Mixed => place += &format!("&iss={}", encoded("https://other.example")),
            Issuer::Missing => {}
        }
        self.codes.insert(code, Code { client, redirect, challenge });
        Ok(Response::empty(302).header("location", &place))
    }

    fn token(&mut self, request: &Request, options: &OauthOptions) -> Result<Response, Refusal> {
        let field = |name| request.field(name).unwrap_or_default();
        if field("resource") != self.resource() {
            return Err(("invalid_target", "the resource is another"));
        }
        match field("grant_type").as_str() {
            "authorization_code" => {
                // A code counts only once, even if its exchange fails.
                let code = self.codes.remove(&field("code"));
                let code = code.ok_or(("invalid_grant", "the code is unknown"))?;
                if code.client != field("client_id") || code.redirect != field("redirect_uri") {
                    return Err(("invalid_grant", "the code is another client's"));
                }
                let digest = Sha256::digest(field("code_verifier"));
                if BASE64_URL_SAFE_NO_PAD.encode(digest) != code.challenge {
                    return Err(("invalid_grant", "the verifier does not match"));
                }
            }
            "refresh_token" => {
                if !self.refresh.remove(&field("refresh_token")) {
                    return Err(("invalid_grant", "the token to refresh with is unknown or used"));
                }
            }
            _ => return Err(("unsupported_grant_type", "the grant is unknown")),
        }
        let access = self.issue("access");
        self.access.insert(access.clone(), 0);
        let mut tokens = json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": options.expires,
            "scope": "tools",
        });
        if options.renews {
            let refresh = self.issue("refresh");
            self.refresh.insert(refresh.clone());
            tokens["refresh_token"] = refresh.into();
        }
        Ok(Response::json(200, &tokens).header("cache-control", "no-store"))
    }

    /// Returns a new value. Values are numbered, so that a test can name them.
    fn issue(&mut self, what: &str) -> String {
        self.issued += 1;
        format!("{what}-{}", self.issued)
    }
}
