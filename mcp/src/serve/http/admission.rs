//! The checks of `Host` and `Origin`, which keep out web pages that run in a browser on this
//! machine.
//!
//! A page can make a browser send requests to any address. If the page's own name resolves to this
//! machine, it can even read the answers. A page cannot set either header.

use http::header::{HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use http::uri::{Authority, Uri};
use http::{HeaderValue, StatusCode};

use super::reply::{HttpRefusal, unread};

/// The names of this machine that a web page cannot have.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The hosts and origins that requests may name.
#[derive(Clone, Debug)]
pub(super) struct OriginRules {
    hosts: Vec<AllowedHost>,
    origins: Vec<WebOrigin>,
}

/// The reason why a host or an origin is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAdmission {
    /// The host is not a name or an address, with or without a port.
    #[error("`{0}` is not a host")]
    Host(String),
    /// The origin does not have the form `SCHEME://HOST:PORT`.
    #[error("`{0}` is not an origin")]
    Origin(String),
}

/// A host, and its port if only that port is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedHost {
    name: String,
    port: Option<u16>,
}

/// An origin as a browser sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WebOrigin {
    scheme: String,
    name: String,
    port: Option<u16>,
}

impl Default for OriginRules {
    fn default() -> Self {
        let hosts = LOOPBACK.map(|name| AllowedHost { name: name.to_owned(), port: None }).into();
        Self { hosts, origins: Vec::new() }
    }
}

impl OriginRules {
    /// Allows a host at each of its ports.
    pub(super) fn allow_name(&mut self, name: &str) {
        self.hosts.push(AllowedHost { name: name.to_owned(), port: None });
    }

    /// Allows one more host.
    pub(super) fn allow_host(&mut self, host: &str) -> Result<(), InvalidAdmission> {
        let invalid = || InvalidAdmission::Host(host.to_owned());
        self.hosts.push(AllowedHost::parse(host).ok_or_else(invalid)?);
        Ok(())
    }

    /// Allows one more origin.
    pub(super) fn allow_origin(&mut self, origin: &str) -> Result<(), InvalidAdmission> {
        let invalid = || InvalidAdmission::Origin(origin.to_owned());
        self.origins.push(WebOrigin::parse(origin).ok_or_else(invalid)?);
        Ok(())
    }

    /// Checks the head of a request. Returns its origin, if a web page sent it.
    ///
    /// # Errors
    ///
    /// Returns the answer to send if the request names a foreign host or comes from a foreign
    /// origin.
    pub(super) fn check(&self, head: &Parts) -> Result<Option<HeaderValue>, HttpRefusal> {
        let malformed = |reason| unread(StatusCode::BAD_REQUEST, reason);
        let host = only(&head.headers, HOST)
            .and_then(AllowedHost::parse)
            .ok_or_else(|| malformed("the request needs one valid `Host`"))?;
        // If the request line contains an authority, as for proxies, it overrides the header.
        let named = head.uri.authority().map(|named| AllowedHost::parse(named.as_str()));
        let are_allowed = |host: &AllowedHost| self.hosts.iter().any(|it| it.allows(host));
        if !are_allowed(&host)
            || named.is_some_and(|named| !named.is_some_and(|it| are_allowed(&it)))
        {
            tracing::warn!(
                "a request for another host was refused: `{}`",
                host.name.escape_debug()
            );
            return Err(unread(StatusCode::FORBIDDEN, "this `Host` is not allowed"));
        }
        let Some(named) = head.headers.get(ORIGIN) else { return Ok(None) };
        let origin = only(&head.headers, ORIGIN).and_then(WebOrigin::parse);
        // This server has no web pages, but such a page would have the server's own origin.
        let is_own = |it: &WebOrigin| it.name == host.name && it.port() == host.port;
        match origin {
            Some(origin) if is_own(&origin) || self.origins.contains(&origin) => {
                Ok(Some(named.clone()))
            }
            _ => {
                tracing::warn!("a request of a page of another origin was refused");
                Err(unread(StatusCode::FORBIDDEN, "this `Origin` is not allowed"))
            }
        }
    }
}

impl AllowedHost {
    fn parse(text: &str) -> Option<Self> {
        let authority = Authority::try_from(text).ok()?;
        let name = authority.host().to_ascii_lowercase();
        let is_plain = !text.contains('@') && is_name(&name);
        // The parser drops an invalid port.
        let has_port = text.len() > authority.host().len();
        let port = authority.port_u16();
        (is_plain && has_port == port.is_some()).then_some(Self { name, port })
    }

    fn allows(&self, other: &Self) -> bool {
        self.name == other.name && (self.port.is_none() || self.port == other.port)
    }
}

impl WebOrigin {
    fn parse(text: &str) -> Option<Self> {
        let uri = Uri::try_from(text).ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        // An origin has no path, not even `/`.
        let authority = text.split_once("://")?.1;
        let AllowedHost { name, port } = AllowedHost::parse(authority)?;
        Some(Self { scheme, name, port })
    }

    /// Returns the port as `Host` contains it: the scheme's default port is omitted.
    fn port(&self) -> Option<u16> {
        let implied = match &*self.scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        self.port.filter(|port| Some(*port) != implied)
    }
}

/// Returns whether a text can be the name or the address of a host. Rejects patterns, because they
/// would match nothing.
fn is_name(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(address) => address.ends_with(']'),
        None => {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text.bytes().all(is_part)
        }
    }
}

/// Returns the value of a header that occurs exactly once, as text.
fn only(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first: &HeaderValue = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn answer(uri: &str, headers: &[(&str, &str)]) -> Result<(), StatusCode> {
        let mut admission = OriginRules::default();
        admission.allow_host("tools.example").expect("a host");
        admission.allow_host("port.example:8443").expect("a host");
        admission.allow_origin("https://app.example").expect("an origin");
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        admission.check(&head).map(drop).map_err(|reply| reply.status())
    }

    #[test]
    fn a_pattern_is_no_host_and_no_origin() {
        let mut admission = OriginRules::default();
        for bad in ["*", "*.example", "tools.example:*", "", "a b", "[::1", "user@h", "h/x"] {
            assert!(admission.allow_host(bad).is_err(), "{bad}");
            assert!(admission.allow_origin(&format!("https://{bad}")).is_err(), "{bad}");
        }
        for good in ["tools.example", "a_b-1.example:81", "192.0.2.1", "[2001:db8::1]:443"] {
            assert!(admission.allow_host(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn only_hosts_that_are_allowed_are_answered() {
        let of_host = |host: &str| answer("/mcp", &[("host", host)]);
        for host in [
            "localhost",
            "LOCALHOST:4127",
            "127.0.0.1:4127",
            "[::1]:4127",
            "tools.example",
            "tools.example:1",
            "port.example:8443",
        ] {
            assert_eq!(of_host(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "tools.example.",
            "port.example",
            "port.example:443",
            "127.0.0.2",
            "127.1",
        ] {
            assert_eq!(of_host(host), Err(StatusCode::FORBIDDEN), "{host}");
        }
        for host in ["", "localhost@evil.example", "localhost:x", "localhost:99999", "a b", ":80"] {
            assert_eq!(of_host(host), Err(StatusCode::BAD_REQUEST), "{host}");
        }
        assert_eq!(answer("/mcp", &[]), Err(StatusCode::BAD_REQUEST));
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(answer("/mcp", &twice), Err(StatusCode::BAD_REQUEST));
        let line = "http://evil.example/mcp";
        assert_eq!(answer(line, &[("host", "localhost")]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn only_pages_of_origins_that_are_allowed_are_answered() {
        let of_origin =
            |origin: &str| answer("/mcp", &[("host", "localhost:4127"), ("origin", origin)]);
        for origin in ["http://localhost:4127", "https://app.example", "HTTPS://APP.example"] {
            assert_eq!(of_origin(origin), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:4127",
            "http://evil.example",
            "http://app.example",
            "https://app.example:8443",
            "https://app.example.evil.example",
            "https://app.example/",
            "https://evil.example@app.example",
            "app.example",
        ] {
            assert_eq!(of_origin(origin), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        let own = [("host", "tools.example"), ("origin", "https://tools.example:443")];
        assert_eq!(answer("/mcp", &own), Ok(()));
        let twice = [("origin", "https://app.example"), ("origin", "https://evil.example")];
        let headers = [("host", "localhost"), twice[0], twice[1]];
        assert_eq!(answer("/mcp", &headers), Err(StatusCode::FORBIDDEN));
    }
}
