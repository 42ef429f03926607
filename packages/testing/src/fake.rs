//! A registry in memory that imitates the differences between real registries. A test can replace
//! its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::io::BufReader;
use tokio::net::TcpStream;

use crate::http::{Received, Reply, request};
use crate::serving::Serving;

/// The differences between registries.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// True if `Location` has scheme and host.
    pub absolute_location: bool,
    /// True if the registry sends parts of blobs.
    pub ranges: bool,
    /// True if the registry supports the referrers API.
    pub referrers: bool,
    /// The expected value of `Authorization`, for user and password.
    pub authorization: Option<String>,
    /// The value of `WWW-Authenticate` that asks for it.
    pub challenge: Option<String>,
}

/// A registry on a port of this machine. Dropping it ends it.
pub struct Fake(Serving<State>);

#[derive(Default)]
struct State {
    style: Style,
    host: String,
    blobs: BTreeMap<String, Vec<u8>>,
    /// The media type and the text, by repository and by tag or digest.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    pages: BTreeMap<String, Reply>,
    seen: Vec<Received>,
    uploads: usize,
}

impl Fake {
    /// Starts a registry.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub async fn start(style: Style) -> io::Result<Self> {
        let state =
            |address: SocketAddr| State { style, host: address.to_string(), ..State::default() };
        Ok(Self(Serving::start(state, serve).await?))
    }

    /// Returns `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.0.host()
    }

    /// Changes the style, for example to one that contains the registry's own address.
    pub fn restyle(&self, style: Style) {
        self.0.state().style = style;
    }

    /// Answers every request for a path with this reply, for all methods.
    pub fn page(&self, path: &str, reply: Reply) {
        self.0.state().pages.insert(path.to_owned(), reply);
    }

    /// Stores a blob, and returns its digest as `sha256:HEX`.
    pub fn blob(&self, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        self.0.state().blobs.insert(digest.clone(), bytes.to_vec());
        digest
    }

    /// Stores a manifest under a tag and under its digest, and returns the digest.
    pub fn manifest(&self, repository: &str, tag: &str, kind: &str, text: &[u8]) -> String {
        let (digest, value) = (digest(text), (kind.to_owned(), text.to_vec()));
        let mut state = self.0.state();
        for name in [tag, &digest] {
            state.manifests.insert((repository.to_owned(), name.to_owned()), value.clone());
        }
        digest
    }

    /// Returns the requests since the last call, and forgets them.
    #[must_use]
    pub fn seen(&self) -> Vec<Received> {
        std::mem::take(&mut self.0.state().seen)
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let Some(asked) = request(&mut BufReader::new(reader)).await? else { return Ok(()) };
    let reply = state.lock().answer(&asked);
    reply.write(&mut writer, &asked.method).await
}

impl State {
    fn answer(&mut self, asked: &Received) -> Reply {
        self.seen.push(asked.clone());
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        if let Some(page) = self.pages.get(path) {
            return page.clone();
        }
        if self
            .style
            .authorization
            .as_deref()
            .is_some_and(|it| asked.header("authorization") != Some(it))
        {
            let challenge = self.style.challenge.clone().unwrap_or_default();
            return missing(401, "UNAUTHORIZED").with("www-authenticate", &challenge);
        }
        if path == "/v2/" {
            return Reply::new(200, "application/json", "{}");
        }
        let Some(rest) = path.strip_prefix("/v2/") else { return missing(404, "NO_SUCH_PAGE") };
        for (mark, answer) in [
            (
                "/blobs/uploads/",
                Self::upload as fn(&mut Self, &Received, &str, &str, &str) -> Reply,
            ),
            ("/blobs/", Self::blob),
            ("/manifests/", Self::manifest),
            ("/tags/", Self::tags),
            ("/referrers/", Self::referrers),
        ] {
            if let Some((repository, name)) = rest.split_once(mark) {
                return answer(self, asked, repository, name, query);
            }
        }
        missing(404, "NO_SUCH_PAGE")
    }

    fn upload(&mut self, asked: &Received, repository: &str, _: &str, query: &str) -> Reply {
        if asked.method == "POST" {
            self.uploads += 1;
            let path = format!("/v2/{repository}/blobs/uploads/{}?state=1", self.uploads);
            let is_absolute = self.style.absolute_location;
            let start = if is_absolute { format!("http://{}", self.host) } else { String::new() };
            return Reply::new(202, "text/plain", "").with("location", &format!("{start}{path}"));
        }
        let wanted = query.split('&').find_map(|it| it.strip_prefix("digest="));
        let wanted = wanted.unwrap_or_default().replace("%3A", ":");
        if !query.contains("state=1") || wanted != digest(&asked.body) {
            return missing(400, "DIGEST_INVALID");
        }
        self.blobs.insert(wanted, asked.body.clone());
        Reply::new(201, "text/plain", "")
    }

    fn blob(&mut self, asked: &Received, _: &str, name: &str, _: &str) -> Reply {
        let Some(bytes) = self.blobs.get(name) else { return missing(404, "BLOB_UNKNOWN") };
        let kind = "application/octet-stream";
        let from =
            asked.header("range").and_then(|it| it.strip_prefix("bytes=")?.strip_suffix('-'));
        match from.filter(|_| self.style.ranges).and_then(|from| from.parse::<usize>().ok()) {
            Some(from) if from >= bytes.len() => missing(416, "RANGE_INVALID"),
            Some(from) => {
                let (last, total) = (bytes.len() - 1, bytes.len());
                let range = format!("bytes {from}-{last}/{total}");
                Reply::new(206, kind, &bytes[from..]).with("content-range", &range)
            }
            None => Reply::new(200, kind, bytes.clone()),
        }
    }

    fn manifest(&mut self, asked: &Received, repository: &str, name: &str, _: &str) -> Reply {
        let of = |name: &str| (repository.to_owned(), name.to_owned());
        if asked.method == "PUT" {
            let kind = asked.header("content-type").unwrap_or_default();
            let digest = digest(&asked.body);
            for name in [name, &digest] {
                self.manifests.insert(of(name), (kind.to_owned(), asked.body.clone()));
            }
            let reply = Reply::new(201, "text/plain", "").with("docker-content-digest", &digest);
            let has_subject = String::from_utf8_lossy(&asked.body).contains("\"subject\"");
            let is_listed = self.style.referrers && has_subject;
            return if is_listed { reply.with("oci-subject", "listed") } else { reply };
        }
        match self.manifests.get(&of(name)) {
            Some((kind, text)) => {
                Reply::new(200, kind, text.clone()).with("docker-content-digest", &digest(text))
            }
            None => missing(404, "MANIFEST_UNKNOWN"),
        }
    }

    fn tags(&mut self, _: &Received, repository: &str, _: &str, query: &str) -> Reply {
        let of = |(known, name): &(String, String)| {
            (known == repository && !name.starts_with("sha256:")).then(|| name.clone())
        };
        let tags: Vec<String> = self.manifests.keys().filter_map(of).collect();
        // Two tags per page, so that clients must request further pages.
        let last = query.split('&').find_map(|it| it.strip_prefix("last="));
        let rest: Vec<_> =
            tags.iter().filter(|tag| last.is_none_or(|last| tag.as_str() > last)).collect();
        let page: Vec<_> = rest.iter().take(2).map(|tag| format!("{tag:?}")).collect();
        let text = format!("{{\"name\":{repository:?},\"tags\":[{}]}}", page.join(","));
        let reply = Reply::new(200, "application/json", text);
        match rest.get(1).filter(|_| rest.len() > 2) {
            Some(last) => {
                let next = format!("</v2/{repository}/tags/list?n=2&last={last}>; rel=\"next\"");
                reply.with("link", &next)
            }
            None => reply,
        }
    }

    fn referrers(&mut self, _: &Received, repository: &str, name: &str, _: &str) -> Reply {
        if !self.style.referrers {
            return missing(404, "NO_SUCH_PAGE");
        }
        let mark = "\"subject\":{";
        let mut known = BTreeSet::new();
        let mut entries = Vec::new();
        for ((of, _), (kind, text)) in &self.manifests {
            let said = String::from_utf8_lossy(text);
            let about = said.split_once(mark).is_some_and(|(_, rest)| {
                rest.split_once('}').is_some_and(|(subject, _)| subject.contains(name))
            });
            let digest = digest(text);
            if of == repository && about && known.insert(digest.clone()) {
                entries.push(format!(
                    "{{\"mediaType\":{kind:?},\"digest\":{digest:?},\"size\":{}}}",
                    text.len()
                ));
            }
        }
        let kind = "application/vnd.oci.image.index.v1+json";
        let text = format!(
            "{{\"schemaVersion\":2,\"mediaType\":{kind:?},\"manifests\":[{}]}}",
            entries.join(",")
        );
        Reply::new(200, kind, text)
    }
}

fn missing(status: u16, code: &str) -> Reply {
    let text = format!("{{\"errors\":[{{\"code\":\"{code}\",\"message\":\"\"}}]}}");
    Reply::new(status, "application/json", text)
}

fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
