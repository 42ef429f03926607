//! The registries, the tool and the client that the tests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ikigai_packages::credentials::Credentials;
use ikigai_packages::download::DownloadCache;
use ikigai_packages::oci::{ArtifactDetails, Attached, ComponentInterfaces, Packed, Repository};
use ikigai_packages::reference::{Pointer, Reference, RegistryReference};
use ikigai_packages::transport::{Transport, TransportSettings};
use ikigai_packages_testing::{Fake, Real, Style};
use tempfile::TempDir;

pub(crate) enum Server {
    Fake(Fake),
    Real(Real),
}

impl Server {
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Fake(fake) => fake.host(),
            Self::Real(real) => real.host().to_owned(),
        }
    }
}

/// Starts every available registry.
pub(crate) async fn servers() -> Vec<(&'static str, Server)> {
    let debian = Style { absolute_location: true, ranges: true, ..Style::default() };
    let newer = Style { referrers: true, ..Style::default() };
    let fake = async |style| Server::Fake(Fake::start(style).await.expect("a registry"));
    let mut all = vec![("fake", fake(debian).await), ("fake with referrers", fake(newer).await)];
    let real = |it: anyhow::Result<Option<Real>>| it.expect("a registry").map(Server::Real);
    all.extend(real(Real::docker(None, None)).map(|it| ("docker-registry", it)));
    all.extend(real(Real::ferro()).map(|it| ("ferro", it)));
    all
}

pub(crate) fn settings() -> TransportSettings {
    TransportSettings::of_this_machine().expect("settings")
}

pub(crate) fn transport(settings: &TransportSettings) -> Arc<Transport> {
    Arc::new(Transport::new(settings).expect("a transport"))
}

/// Returns settings with a short limit on silence.
pub(crate) fn impatient() -> TransportSettings {
    TransportSettings { silence: Duration::from_secs(1), ..settings() }
}

pub(crate) fn reference(text: &str) -> RegistryReference {
    match text.parse().expect("a reference") {
        Reference::Registry(reference) => reference,
        other => panic!("no registry: {other}"),
    }
}

/// Returns the client of the repository `acme/weather` of a host, without credentials.
pub(crate) fn repository(host: &str) -> Repository {
    repository_with(host, &settings(), Credentials::default())
}

pub(crate) fn repository_with(
    host: &str,
    settings: &TransportSettings,
    credentials: Credentials,
) -> Repository {
    let reference = reference(&format!("{host}/acme/weather"));
    Repository::new(transport(settings), Arc::new(credentials), &reference)
}

pub(crate) fn tag(name: &str) -> Pointer {
    Pointer::Tag(name.to_owned())
}

/// Returns a file that does not repeat itself, so that a part in the wrong place is noticed.
pub(crate) fn component(seed: u32) -> Bytes {
    let number = |it: u32| it.wrapping_mul(2_654_435_761).wrapping_add(seed).to_le_bytes();
    (0..60_000).flat_map(number).collect()
}

pub(crate) fn packed(seed: u32) -> Packed {
    let annotation = ("org.opencontainers.image.version".to_owned(), "1.2.0".to_owned());
    let details = ArtifactDetails {
        title: "weather.wasm".to_owned(),
        annotations: BTreeMap::from([annotation]),
        interfaces: Some(ComponentInterfaces {
            exports: vec!["wasi:cli/run@0.2.0".to_owned()],
            imports: vec!["wasi:cli/stdout@0.2.0".to_owned()],
        }),
        ..ArtifactDetails::default()
    };
    Packed::new(component(seed), &details).expect("packed")
}

pub(crate) fn signed(packed: &Packed, text: &'static [u8]) -> Attached {
    let kind = "application/x.test.signature";
    let about = packed.descriptor();
    Attached::new(Bytes::from_static(text), kind, kind, "weather.sig", BTreeMap::new(), about)
        .expect("packed")
}

/// Returns an empty cache that hardly pauses between attempts.
pub(crate) fn cache() -> (TempDir, DownloadCache) {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = DownloadCache::new(directory.path()).with_pause(Duration::from_millis(1));
    (directory, cache)
}

/// Returns the names of the files in a cache.
pub(crate) fn files(directory: &TempDir) -> Vec<String> {
    let Ok(listed) = directory.path().join("blobs/sha256").read_dir() else { return Vec::new() };
    listed.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}
