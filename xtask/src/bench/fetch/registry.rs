//! A registry on a port of this machine, which has what it was started with: the part of the OCI
//! distribution API that a download needs. A thread for each connection, and nothing beyond `std`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use serde_json::json;

use crate::run;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const BLOB: &str = "application/octet-stream";

/// The tag of every artifact.
const TAG: &str = "1.0.0";

/// The empty configuration of an artifact.
const NO_CONFIGURATION: &str = "{}";
const NO_CONFIGURATION_DIGEST: &str =
    "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// A file in the registry.
pub(super) struct BenchArtifact {
    name: &'static str,
    bytes: Vec<u8>,
    manifest: String,
    manifest_digest: String,
    /// The digest of the file, as 64 digits.
    pub(super) digest: String,
    /// The size of the file in bytes.
    pub(super) size: u64,
}

impl BenchArtifact {
    /// Reads the file at a path as an artifact. Its manifest is written to the same directory.
    pub(super) fn new(name: &'static str, path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let (digest, size) = (sha256(path)?, bytes.len() as u64);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": format!("sha256:{NO_CONFIGURATION_DIGEST}"),
                "size": NO_CONFIGURATION.len(),
            },
            "layers": [{
                "mediaType": "application/wasm",
                "digest": format!("sha256:{digest}"),
                "size": size,
            }],
        });
        let manifest = manifest.to_string();
        let beside = path.with_extension("json");
        fs::write(&beside, &manifest).context("cannot write a manifest")?;
        let manifest_digest = sha256(&beside)?;
        Ok(Self { name, bytes, manifest, manifest_digest, digest, size })
    }

    fn path(&self, rest: &str) -> String {
        format!("/v2/bench/{}/{rest}", self.name)
    }
}

/// The answers, by their paths: the kind and the bytes.
type Pages = BTreeMap<String, (&'static str, Vec<u8>)>;

/// A running registry. Dropping it ends it.
pub(super) struct BenchRegistry {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BenchRegistry {
    /// Starts a registry with this artifact.
    pub(super) fn start(artifact: &BenchArtifact) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no port")?;
        let address = listener.local_addr()?;
        let pages = Arc::new(pages(artifact));
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), pages) = (stream, Arc::clone(&pages)) else { continue };
                // A client that does not get its answer says so itself.
                thread::spawn(move || drop(serve(&stream, &pages)));
            }
        });
        Ok(Self { address, has_ended, thread: Some(thread) })
    }

    /// Returns the reference of an artifact.
    pub(super) fn reference(&self, artifact: &BenchArtifact) -> String {
        format!("{}/bench/{}:{TAG}", self.address, artifact.name)
    }

    /// Returns the address of the file of an artifact.
    pub(super) fn url(&self, artifact: &BenchArtifact) -> String {
        let path = artifact.path(&format!("blobs/sha256:{}", artifact.digest));
        format!("http://{}{path}", self.address)
    }
}

impl Drop for BenchRegistry {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // It waits for a connection, and looks only then.
        let is_awake = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_awake) {
            // It has no result, and a panic has been printed.
            let _ = thread.join();
        }
    }
}

fn pages(artifact: &BenchArtifact) -> Pages {
    let nothing = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [] }).to_string();
    let mut pages = Pages::from([("/v2/".to_owned(), ("application/json", b"{}".to_vec()))]);
    let digest = &artifact.manifest_digest;
    for (rest, kind, bytes) in [
        (format!("manifests/{TAG}"), MANIFEST, artifact.manifest.as_bytes()),
        (format!("manifests/sha256:{digest}"), MANIFEST, artifact.manifest.as_bytes()),
        (format!("blobs/sha256:{}", artifact.digest), BLOB, &artifact.bytes[..]),
        (format!("blobs/sha256:{NO_CONFIGURATION_DIGEST}"), BLOB, NO_CONFIGURATION.as_bytes()),
        (format!("referrers/sha256:{digest}"), INDEX, nothing.as_bytes()),
    ] {
        pages.insert(artifact.path(&rest), (kind, bytes.to_vec()));
    }
    pages
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, pages: &Pages) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        // None of them changes an answer, and no request has a body.
        while reader.read_line(&mut header)? > 0 && header.trim() != "" {
            header.clear();
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next(), words.next().unwrap_or_default());
        let missing = ("text/plain", Vec::new());
        let (status, (kind, bytes)) = match pages.get(path) {
            Some(page) => (200, page),
            None => (404, &missing),
        };
        let length = bytes.len();
        let head = format!(
            "HTTP/1.1 {status} \r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        writer.write_all(head.as_bytes())?;
        if method != Some("HEAD") {
            writer.write_all(bytes)?;
        }
    }
}

/// Returns the digest of a file by the program that is compared with: nothing here hashes.
fn sha256(path: &Path) -> anyhow::Result<String> {
    let printed = run::output(Command::new("sha256sum").arg(path))?;
    let digest = printed.split_whitespace().next();
    digest.map(str::to_owned).context("`sha256sum` printed no digest")
}
