//! The client for registries and web servers, as the commands of this program use it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytesize::ByteSize;
use ikigai_host::paths::{Paths, lock_holder};
use ikigai_host::policy::EarlierReach;
use ikigai_packages::credentials::Credentials;
use ikigai_packages::download::{CachedFile, DownloadCache, DownloadSource};
use ikigai_packages::oci::Repository;
use ikigai_packages::reference::RegistryReference;
use ikigai_packages::signature::SigstoreRoot;
use ikigai_packages::transport::{Transport, TransportSettings};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CliError;
use crate::output::eprint;
use crate::user_command::CommandGate;
use crate::variables;

/// The time after which a download prints a line if there is no terminal.
const LONG: Duration = Duration::from_secs(1);

/// The connections to registries and web servers, and the files downloaded so far. It connects with
/// the first request.
pub(crate) struct RegistryClient {
    transport: OnceLock<Arc<Transport>>,
    credentials: Arc<Credentials>,
    cache: DownloadCache,
    staging: PathBuf,
    offline: bool,
}

impl RegistryClient {
    /// Returns the client of this user. An `offline` client only has earlier downloads. `gate`
    /// checks credential helpers.
    pub(crate) fn new(paths: &Paths, offline: bool, gate: CommandGate) -> Result<Self, CliError> {
        let credentials = Credentials::of_environment(variables::listed)
            .with_helper_check(move |words| gate.env(words));
        let directory = paths.cache.clone().ok_or_else(|| {
            let error = anyhow::Error::msg("no directory is known for downloads");
            CliError::usage(error).hint("set HOME or XDG_CACHE_HOME")
        })?;
        EarlierReach::from_paths(paths).check(&directory)?;
        Ok(Self {
            transport: OnceLock::new(),
            credentials: Arc::new(credentials),
            cache: DownloadCache::new(&directory).with_wait(tell_wait),
            staging: directory.join("staging"),
            offline,
        })
    }

    /// Returns the cache of downloaded files.
    pub(crate) fn cache(&self) -> &DownloadCache {
        &self.cache
    }

    /// Returns the directory of the copies to examine.
    pub(crate) fn staging(&self) -> &Path {
        &self.staging
    }

    /// Returns whether network requests are forbidden.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    /// Returns the transport to servers. Fails if the client is offline.
    pub(crate) fn transport(
        &self,
        what: &dyn std::fmt::Display,
    ) -> Result<Arc<Transport>, CliError> {
        if self.offline {
            return Err(not_here(what));
        }
        if let Some(transport) = self.transport.get() {
            return Ok(Arc::clone(transport));
        }
        let transport = Arc::new(Transport::new(&TransportSettings::of_this_machine()?)?);
        Ok(Arc::clone(self.transport.get_or_init(|| transport)))
    }

    /// Returns the repository of a reference.
    pub(crate) fn repository(&self, reference: &RegistryReference) -> Result<Repository, CliError> {
        let transport = self.transport(reference)?;
        Ok(Repository::new(transport, Arc::clone(&self.credentials), reference))
    }

    /// Downloads a file, and shows the progress on stderr.
    pub(crate) async fn download(
        &self,
        origin: DownloadSource<'_>,
        name: &str,
    ) -> Result<CachedFile, CliError> {
        let bar = Bar::new(name);
        let downloaded = self.cache.download(origin, &|done, all| bar.show(done, all)).await;
        bar.end();
        Ok(downloaded?)
    }
}

/// Reports that a download waits for another process.
fn tell_wait(path: &Path) {
    tracing::warn!("waiting for {}, which is downloading the same file", lock_holder(path));
}

/// Returns the error for something that is not in the cache while downloads are forbidden.
pub(super) fn not_here(what: &dyn std::fmt::Display) -> CliError {
    let what = format!("`{what}` is not in the cache, and `--offline` forbids downloading it");
    CliError::failed(anyhow::Error::msg(what)).hint("run the command once without `--offline`")
}

/// Returns the Sigstore authorities: those in the named file, or else the compiled-in ones.
pub(crate) fn root(file: Option<&Path>) -> Result<SigstoreRoot, CliError> {
    let Some(file) = file else { return SigstoreRoot::compiled_in().map_err(CliError::failed) };
    let shown = || format!("the trusted root `{}`", file.display());
    let text = std::fs::read_to_string(file).with_context(shown).map_err(CliError::usage)?;
    SigstoreRoot::from_json(&text).with_context(shown).map_err(CliError::usage)
}

/// The progress of one download: a bar on a terminal, otherwise a line if it takes long.
struct Bar {
    name: String,
    bar: Option<ProgressBar>,
    begun: Instant,
    is_told: AtomicBool,
}

impl Bar {
    fn new(name: &str) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0).with_message(name.to_owned());
            style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
        });
        Self { name: name.to_owned(), bar, begun: Instant::now(), is_told: AtomicBool::new(false) }
    }

    fn show(&self, done: u64, all: Option<u64>) {
        if let Some(bar) = &self.bar {
            if let Some(all) = all {
                bar.set_length(all);
            }
            bar.set_position(done);
        } else if self.begun.elapsed() > LONG && !self.is_told.swap(true, Ordering::Relaxed) {
            let of = all.map_or_else(String::new, |all| format!(" of {}", ByteSize(all)));
            let done = ByteSize(done);
            eprint(&format!("downloading {} ({done}{of} so far)\n", self.name));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
