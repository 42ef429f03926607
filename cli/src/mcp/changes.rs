//! Changes of tools and assets, for clients that want to know.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_agent::SessionAssets;
use ikigai_assets::AssetMetadata;
use ikigai_host::Host;
use ikigai_host::audit::Requester;
use ikigai_mcp::CatalogChange;
use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::assets;
use super::tools::HostTools;

/// The quiet time after which a directory counts as changed, since an installation writes several
/// files.
const QUIET: Duration = Duration::from_millis(200);

/// The interval at which watched assets are polled.
const LOOK: Duration = Duration::from_secs(2);

/// The assets that clients watch.
#[derive(Debug, Default)]
pub(super) struct WatchedAssets(Mutex<WatchState>);

/// The assets at the last poll, and the clients that watch them.
#[derive(Debug, Default)]
struct WatchState {
    /// The number of clients for each URI.
    uris: HashMap<String, usize>,
    has_listed: bool,
    /// The versions at the last poll, by URI; `None` if no client watches.
    versions: Option<BTreeMap<String, u64>>,
}

impl WatchedAssets {
    /// Starts a client's watch on an asset. Changes are relative to its present version.
    pub(super) fn begin(&self, uri: &str, now: &[AssetMetadata]) {
        let mut look = self.0.lock();
        *look.uris.entry(uri.to_owned()).or_default() += 1;
        look.versions.get_or_insert_with(|| {
            let mut seen = versions(now);
            // If the asset changed just now, that may have been after the client began to listen.
            let is_it = |asset: &&AssetMetadata| asset.path.to_uri() == uri;
            let changed = now.iter().find(is_it).map(|asset| asset.updated_at.elapsed());
            if changed.is_some_and(|ago| ago.is_ok_and(|ago| ago < LOOK)) {
                seen.insert(uri.to_owned(), 0);
            }
            seen
        });
    }

    /// Ends a watch.
    pub(super) fn end(&self, uri: &str) {
        let mut look = self.0.lock();
        if let Some(count) = look.uris.get_mut(uri) {
            *count -= 1;
            if *count == 0 {
                look.uris.remove(uri);
            }
        }
    }

    /// Notes that a client has received this list of the assets, which may change.
    pub(super) fn note_list(&self, now: &[AssetMetadata]) {
        let mut look = self.0.lock();
        look.has_listed = true;
        look.versions.get_or_insert_with(|| versions(now));
    }

    fn is_wanted(&self) -> bool {
        let look = self.0.lock();
        look.has_listed || !look.uris.is_empty()
    }

    /// Returns the changes since the last poll.
    fn changes(&self, now: &[AssetMetadata]) -> Vec<CatalogChange> {
        let mut look = self.0.lock();
        let now = versions(now);
        let changes = match &look.versions {
            Some(last) => differences(last, &now, &look.uris),
            None => Vec::new(),
        };
        look.versions = Some(now);
        changes
    }
}

fn versions(assets: &[AssetMetadata]) -> BTreeMap<String, u64> {
    assets.iter().map(|it| (it.path.to_uri(), it.version)).collect()
}

/// Scans the tools, and again whenever their directories or the policy change. Notifies clients if
/// the catalog has changed.
pub(super) async fn of_tools(tools: Arc<HostTools>, changes: broadcast::Sender<CatalogChange>) {
    let (sender, mut events) = mpsc::unbounded_channel();
    tokio::spawn(of_servers(Arc::clone(&tools.host), sender.clone()));
    let mut watch = match DirectoryWatch::new(&tools.host, sender) {
        Ok(watch) => Some(watch),
        Err(error) => {
            tracing::warn!("changes of tools are not noticed until a client lists them: {error}");
            None
        }
    };
    tools.host.refresh().await;
    let mut asking: Option<JoinHandle<()>> = None;
    loop {
        // Check after the first scan as well: a client may have received a list before it was
        // complete.
        let last = tools.revision();
        let now = tools.catalog().await.revision();
        if last.is_some_and(|last| last != now) {
            // This fails without clients, which is fine.
            let _ = changes.send(CatalogChange::Tools);
        }
        // A server may take half a minute to answer. The other tools are available in the meantime.
        if asking.as_ref().is_none_or(JoinHandle::is_finished) {
            let host = Arc::clone(&tools.host);
            asking = Some(tokio::spawn(async move { host.registry().ask_servers().await }));
        }
        if events.recv().await.is_none() {
            return;
        }
        while tokio::time::timeout(QUIET, events.recv()).await.is_ok_and(|event| event.is_some()) {}
        // Extend the watch before the next look, so that changes in a new directory are not missed.
        if let Some(watch) = &mut watch {
            watch.extend();
        }
    }
}

/// Sends an event whenever the list of a server was read.
async fn of_servers(host: Arc<Host>, events: mpsc::UnboundedSender<()>) {
    let mut changes = host.registry().server_changes();
    while changes.changed().await.is_ok() {
        if events.send(()).is_err() {
            return;
        }
    }
}

/// A watch on the directories of tools and of policy files.
struct DirectoryWatch {
    wanted: Vec<PathBuf>,
    watcher: RecommendedWatcher,
}

impl DirectoryWatch {
    /// Starts the watch. It sends an event for each change that may affect tools.
    fn new(host: &Host, sender: mpsc::UnboundedSender<()>) -> notify::Result<Self> {
        let paths = host.registry().paths();
        let dirs = [&paths.system_tools, &paths.user_tools].into_iter().flatten().cloned();
        let policy = host.authority().files().into_iter().map(|file| file.path);
        let wanted: Vec<PathBuf> = dirs.chain(policy).collect();
        let on_event = {
            let wanted = wanted.clone();
            move |event: notify::Result<notify::Event>| {
                let concerns = |path: &PathBuf| {
                    wanted.iter().any(|it| path.starts_with(it) || it.starts_with(path))
                };
                if event.is_ok_and(|it| it.paths.iter().any(concerns)) {
                    // The receiver is gone when the server ends.
                    let _ = sender.send(());
                }
            }
        };
        // Opening a file is an event too, and would wake a thread for each call that reads one.
        let config = Config::default().with_event_kinds(EventKindMask::CORE);
        let mut watch = Self { wanted, watcher: RecommendedWatcher::new(on_event, config)? };
        watch.extend();
        Ok(watch)
    }

    /// Watches each directory that exists by now. If a directory is missing, watches the nearest
    /// ancestor.
    fn extend(&mut self) {
        for path in &self.wanted {
            let around = path.ancestors().skip(1).find(|dir| dir.is_dir());
            let dirs = [path.is_dir().then_some(path.as_path()), around].into_iter().flatten();
            for dir in dirs.filter(|dir| *dir != Path::new("/")) {
                if let Err(error) = self.watcher.watch(dir, RecursiveMode::NonRecursive) {
                    tracing::debug!("changes in `{}` are not noticed: {error}", dir.display());
                }
            }
        }
    }
}

/// Polls the assets while a client watches them.
pub(super) async fn of_assets(
    host: Arc<Host>,
    requester: Requester,
    assets: SessionAssets,
    watched: Arc<WatchedAssets>,
    changes: broadcast::Sender<CatalogChange>,
) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !watched.is_wanted() || !assets::are_granted(&host, &requester) {
            continue;
        }
        let Ok(found) = assets::found(&assets).await else { continue };
        for change in watched.changes(&found) {
            // This fails without clients, which is fine.
            let _ = changes.send(change);
        }
    }
}

/// Returns the changes between two polls.
fn differences(
    last: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
    watched: &HashMap<String, usize>,
) -> Vec<CatalogChange> {
    let has_changed = |uri: &&String| last.get(*uri) != now.get(*uri);
    let texts =
        watched.keys().filter(has_changed).map(|uri| CatalogChange::Resource(uri.as_str().into()));
    let is_other_list = !last.keys().eq(now.keys());
    is_other_list.then_some(CatalogChange::Resources).into_iter().chain(texts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_of_lists_and_of_the_texts_that_are_watched() {
        let look = |assets: &[(&str, u64)]| -> BTreeMap<String, u64> {
            assets.iter().map(|(uri, version)| ((*uri).to_owned(), *version)).collect()
        };
        let watched = HashMap::from([("b".to_owned(), 1), ("c".to_owned(), 1)]);
        let before = look(&[("a", 1), ("b", 1)]);
        let after = |assets: &[(&str, u64)]| differences(&before, &look(assets), &watched);
        assert_eq!(after(&[("a", 1), ("b", 1)]), []);
        assert_eq!(after(&[("a", 2), ("b", 1)]), []);
        assert_eq!(after(&[("a", 1), ("b", 2)]), [CatalogChange::Resource("b".into())]);
        assert_eq!(after(&[("b", 1)]), [CatalogChange::Resources]);
        let gone = [CatalogChange::Resources, CatalogChange::Resource("b".into())];
        assert_eq!(after(&[("a", 1)]), gone);
    }
}
