//! The URL and the headers of a request.

use std::fmt;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::{Url, form_urlencoded};

use super::Endpoint;
use crate::wire::PostRequest;
use crate::{ApiKey, FailureKind, Provider, RequestFailure};

/// The version of the Messages API: <https://docs.anthropic.com/en/api/versioning>.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The minimum length of a query value that is treated as a key, in bytes; `api-version=2024-10-21`
/// is shorter.
const MIN_SECRET: usize = 16;

/// The base URL of an endpoint.
#[derive(Clone)]
pub(super) struct Address {
    base: Url,
    is_own: bool,
    /// The values of the query, in every form in which a server may repeat them.
    secrets: Vec<String>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&shown(self.base.as_str())).finish()
    }
}

/// Returns an address without user, password and query, which may be secret.
pub(super) fn shown(address: &str) -> String {
    let Ok(mut url) = Url::parse(address.trim()) else { return "…".to_owned() };
    let (name, password) = (url.set_username(""), url.set_password(None));
    if name.and(password).is_err() {
        return "…".to_owned();
    }
    let query = if url.query().is_some() { "?…" } else { "" };
    url.set_query(None);
    url.set_fragment(None);
    format!("{url}{query}")
}

impl Address {
    /// Parses the address of an endpoint.
    pub(super) fn from_endpoint(endpoint: &Endpoint) -> Result<Self, RequestFailure> {
        let own = endpoint.provider.own_base_url();
        let given = endpoint.base_url.as_deref().unwrap_or(own).trim();
        let failed = |detail: &str| {
            Err(RequestFailure::new(endpoint.provider, FailureKind::Address)
                .with_detail(detail)
                .sanitized(&[]))
        };
        let base = match Url::parse(given) {
            Ok(base) => base,
            // A text that is not a valid URL may still contain a password or a key.
            Err(error) if given.contains(['@', '?']) => return failed(&error.to_string()),
            Err(error) => return failed(&format!("`{given}`: {error}")),
        };
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return failed(&format!("`{}` is neither http nor https", base.scheme()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return failed("an address cannot contain a user and a password; set the key instead");
        }
        let is_own = base.as_str().trim_end_matches('/') == own;
        let secrets = secrets(given, &base);
        Ok(Self { base, is_own, secrets })
    }

    /// Returns whether this is the provider's own address.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// Returns the keys in the query, which some gateways require and which no message may contain.
    /// Longer keys come first, so that no key is part of a later one.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// Returns the version at the end of the address, for a provider whose requests add one.
    pub(super) fn needless_version(&self, provider: Provider) -> Option<&str> {
        let wants_none = matches!(provider, Provider::Anthropic | Provider::Google);
        let last = self.base.path_segments()?.rfind(|segment| !segment.is_empty())?;
        let is_version = last
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        Some(last).filter(|_| wants_none && is_version)
    }

    /// Returns the host and port, as messages show them.
    pub(super) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Returns the URL of a request. The query of the base URL is kept, because some gateways
    /// require it.
    pub(super) fn join(&self, outgoing: &PostRequest) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(&outgoing.path);
        }
        if let Some(query) = outgoing.query {
            let joined = match url.query() {
                Some(given) if !given.is_empty() => format!("{given}&{query}"),
                _ => query.to_owned(),
            };
            url.set_query(Some(&joined));
        }
        url
    }
}

/// Returns the query values that may be keys: as written, as sent, decoded, and encoded again as a
/// server might do it. The longest come first.
fn secrets(given: &str, base: &Url) -> Vec<String> {
    let values = |query: &str| -> Vec<String> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(_, value)| value.to_owned()).collect()
    };
    let written = given.split_once('?').map_or("", |(_, rest)| rest);
    let written = written.split_once('#').map_or(written, |(query, _)| query);
    let mut secrets = values(written);
    secrets.extend(values(base.query().unwrap_or_default()));
    // In a form, a plus sign means a space. Elsewhere it means itself.
    let literal = written.replace('+', "%2B");
    for query in [written, &literal] {
        for (_, value) in form_urlencoded::parse(query.as_bytes()) {
            let encoded: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            let percent = encoded.replace('+', "%20");
            secrets.extend([percent.clone(), in_lower_case(&percent)]);
            secrets.extend([in_lower_case(&encoded), encoded, value.into_owned()]);
        }
    }
    secrets.retain(|secret| secret.len() >= MIN_SECRET);
    secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.len()), secret.clone()));
    secrets.dedup();
    secrets
}

/// Returns the text with its percent-encodings in lower case.
fn in_lower_case(encoded: &str) -> String {
    let mut pieces = encoded.split('%');
    let mut lower = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at(piece.len().min(2));
        lower.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    lower
}

/// Returns the headers of a request.
pub(super) fn headers(
    provider: Provider,
    key: Option<&ApiKey>,
) -> Result<HeaderMap, RequestFailure> {
    let mut headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("text/event-stream")),
        (USER_AGENT, HeaderValue::from_static(concat!("ikigai/", env!("CARGO_PKG_VERSION")))),
    ]);
    if provider == Provider::Anthropic {
        let version = HeaderValue::from_static(ANTHROPIC_VERSION);
        headers.insert(HeaderName::from_static("anthropic-version"), version);
    }
    let Some(key) = key else { return Ok(headers) };
    let (name, value) = match provider {
        Provider::OpenAi | Provider::OpenAiChat => {
            (AUTHORIZATION, format!("Bearer {}", key.reveal()))
        }
        Provider::Anthropic => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
        Provider::Google => (HeaderName::from_static("x-goog-api-key"), key.reveal().to_owned()),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        RequestFailure::new(provider, FailureKind::Key)
            .with_detail("it has characters that no key has")
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(provider: Provider, base: Option<&str>) -> Result<Address, RequestFailure> {
        Address::from_endpoint(&Endpoint {
            base_url: base.map(str::to_owned),
            ..Endpoint::new(provider)
        })
    }

    fn joined(provider: Provider, base: Option<&str>, path: &[&str]) -> String {
        let path = path.iter().map(|&segment| segment.to_owned()).collect();
        let outgoing = PostRequest { path, query: None, body: Vec::new() };
        address(provider, base).expect("an address").join(&outgoing).to_string()
    }

    #[test]
    fn a_slash_at_the_end_makes_no_difference() {
        let own = "https://api.openai.com/v1/responses";
        assert_eq!(joined(Provider::OpenAi, None, &["responses"]), own);
        for base in [
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
            " http://localhost:11434/v1 ",
        ] {
            let url = joined(Provider::OpenAiChat, Some(base), &["chat", "completions"]);
            assert_eq!(url, "http://localhost:11434/v1/chat/completions", "{base}");
        }
        let bare = joined(Provider::Anthropic, Some("https://gateway.test"), &["v1", "messages"]);
        assert_eq!(bare, "https://gateway.test/v1/messages");
        assert!(
            address(Provider::OpenAi, Some("https://api.openai.com/v1/"))
                .expect("an address")
                .is_own()
        );
        assert!(
            !address(Provider::OpenAi, Some("https://api.openai.com/v2"))
                .expect("an address")
                .is_own()
        );
    }

    #[test]
    fn a_model_cannot_leave_its_segment() {
        let url = joined(
            Provider::Google,
            None,
            &["v1beta", "models", "../a?b#c/d:streamGenerateContent"],
        );
        assert_eq!(
            url,
            "https://generativelanguage.googleapis.com/v1beta/models/..%2Fa%3Fb%23c%2Fd:streamGenerateContent"
        );
    }

    #[test]
    fn a_query_of_the_base_stays() {
        let outgoing =
            PostRequest { path: vec!["m".into()], query: Some("alt=sse"), body: Vec::new() };
        let base = address(Provider::Google, Some("https://g.test/x/?v=1")).expect("an address");
        assert_eq!(base.join(&outgoing).as_str(), "https://g.test/x/m?v=1&alt=sse");
    }

    #[test]
    fn a_value_of_the_query_is_a_secret_in_every_form() {
        let of = |query: &str| -> Vec<String> {
            let base = format!("https://g.test/v1?{query}");
            let address = address(Provider::OpenAi, Some(&base)).expect("an address");
            address.secrets().map(str::to_owned).collect()
        };
        let secrets = of("v=1&key=SECRET%2Fkey%2Bvalue%3D0123456789&api-version=2024-10-21#x=y");
        let forms = ["SECRET%2Fkey%2Bvalue%3D0123456789", "SECRET%2fkey%2bvalue%3d0123456789"];
        assert_eq!(secrets, [forms[0], forms[1], "SECRET/key+value=0123456789"]);
        let secrets = of("key=a/b+c \"0123456789\"");
        for form in [
            "a/b+c \"0123456789\"",
            "a/b+c%20%220123456789%22",
            "a/b c \"0123456789\"",
            "a%2Fb%2Bc%20%220123456789%22",
            "a%2Fb%2Bc+%220123456789%22",
            "a%2fb+c+%220123456789%22",
        ] {
            assert!(secrets.iter().any(|secret| secret == form), "{form}: {secrets:#?}");
        }
        assert!(secrets.is_sorted_by_key(|secret| std::cmp::Reverse(secret.len())), "{secrets:#?}");
        assert_eq!(of("key=%61%61%61%61%61"), [""; 0]);
    }

    #[test]
    fn a_version_at_the_end_is_needless_where_a_request_adds_one() {
        let found = |provider, base: &str| {
            let address = address(provider, Some(base)).expect("an address");
            address.needless_version(provider).map(str::to_owned)
        };
        for (base, version) in [
            ("https://a.test/v1", Some("v1")),
            ("https://a.test/v1/", Some("v1")),
            ("https://a.test/x/v1beta?key=v", Some("v1beta")),
            ("https://a.test", None),
            ("https://a.test/v1/x", None),
            ("https://a.test/vertex", None),
        ] {
            for provider in [Provider::Anthropic, Provider::Google] {
                assert_eq!(found(provider, base).as_deref(), version, "{base}");
            }
            assert_eq!(found(Provider::OpenAi, base), None, "{base}");
        }
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        for base in [
            "",
            "localhost:11434/v1",
            "file:///etc",
            "api.openai.com",
            "https://u:hidden@a.test",
            "https://u:hidden@a.test:99999",
            "https://u:hidden@a b",
            "u:hidden@a.test",
            "a.test/v1?key=hidden",
        ] {
            let failure = address(Provider::OpenAi, Some(base)).expect_err(base);
            assert_eq!(failure.kind, FailureKind::Address, "{base}");
            assert!(!failure.to_string().contains("hidden"), "{failure}");
        }
    }

    #[test]
    fn the_key_is_in_a_header_that_is_not_shown() {
        for provider in Provider::ALL {
            let headers = headers(provider, Some(&ApiKey::new("sk-secret"))).expect("headers");
            let shown = format!("{headers:?}");
            assert!(!shown.contains("sk-secret"), "{shown}");
            assert_eq!(headers.values().filter(|value| value.is_sensitive()).count(), 1);
            assert!(
                super::headers(provider, None)
                    .expect("headers")
                    .values()
                    .all(|value| !value.is_sensitive())
            );
        }
        let failure = headers(Provider::OpenAi, Some(&ApiKey::new("a\nb"))).expect_err("no header");
        assert_eq!(failure.kind, FailureKind::Key);
    }
}
