//! Changes of tools and assets, for clients that want to know.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ikigai_host::Host;
use ikigai_mcp::{Change, Offer as _};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::HostOffer;
use super::assets;

/// The quiet after which a directory counts as changed: an installation writes several files.
const QUIET: Duration = Duration::from_millis(200);

/// The time between two looks at the assets that somebody watches.
const LOOK: Duration = Duration::from_secs(2);

/// The resources that clients watch.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The number of clients for each URI.
    uris: Mutex<HashMap<String, usize>>,
    has_listed: AtomicBool,
}

impl Watched {
    /// Begins or ends the watch of one client on a resource.
    pub(super) fn set(&self, uri: &str, begin: bool) {
        let mut uris = self.uris();
        let count = uris.entry(uri.to_owned()).or_default();
        *count = if begin { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            uris.remove(uri);
        }
    }

    /// Notes that a client has a list of the resources, which may change.
    pub(super) fn note_list(&self) {
        self.has_listed.store(true, Ordering::Relaxed);
    }

    fn is_wanted(&self) -> bool {
        self.has_listed.load(Ordering::Relaxed) || !self.uris().is_empty()
    }

    fn uris(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scans the tools, and again whenever their directories or the policy change. Tells clients where
/// the catalog is another one then.
pub(super) async fn of_tools(offer: Arc<HostOffer>) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut watch = match DirectoryWatch::new(&offer.host, sender) {
        Ok(watch) => Some(watch),
        Err(error) => {
            tracing::warn!("changes of tools are not noticed until a client lists them: {error}");
            None
        }
    };
    offer.host.refresh().await;
    let mut revision = offer.catalog().await.revision();
    while events.recv().await.is_some() {
        while tokio::time::timeout(QUIET, events.recv()).await.is_ok_and(|event| event.is_some()) {}
        // Before the look, so that a change in a directory that is new is seen in any case.
        if let Some(watch) = &mut watch {
            watch.extend();
        }
        let now = offer.catalog().await.revision();
        if now != revision {
            revision = now;
            // Without a client nobody is told.
            let _ = offer.changes.send(Change::Tools);
        }
    }
}

/// The watch on the directories of tools and of policy files.
struct DirectoryWatch {
    wanted: Vec<PathBuf>,
    watcher: RecommendedWatcher,
}

impl DirectoryWatch {
    /// Begins the watch. An event is sent for each change that may concern tools.
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
                // Reading is an event as well.
                let is_change = |event: &notify::Event| !event.kind.is_access();
                if event.is_ok_and(|it| is_change(&it) && it.paths.iter().any(concerns)) {
                    // The receiver is gone when the server ends.
                    let _ = sender.send(());
                }
            }
        };
        let mut watch = Self { wanted, watcher: notify::recommended_watcher(on_event)? };
        watch.extend();
        Ok(watch)
    }

    /// Watches each directory that exists by now, and for one that does not the nearest around it.
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

/// Looks at the assets now and then while somebody watches them.
pub(super) async fn of_assets(offer: Arc<HostOffer>) {
    let Some(assets) = &offer.assets else { return };
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<BTreeMap<String, u64>> = None;
    loop {
        ticks.tick().await;
        if !offer.watched.is_wanted() {
            last = None;
            continue;
        }
        let Ok(found) = assets::found(assets).await else { continue };
        let now: BTreeMap<String, u64> =
            found.into_iter().map(|it| (it.path.to_uri(), it.version)).collect();
        if let Some(last) = &last {
            for change in differences(last, &now, &offer.watched.uris()) {
                let _ = offer.changes.send(change);
            }
        }
        last = Some(now);
    }
}

/// Returns the changes between two looks.
fn differences(
    last: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
    watched: &HashMap<String, usize>,
) -> Vec<Change> {
    let has_changed = |uri: &&String| last.get(*uri) != now.get(*uri);
    let texts = watched.keys().filter(has_changed).map(|uri| Change::Resource(uri.as_str().into()));
    let is_other_list = !last.keys().eq(now.keys());
    is_other_list.then_some(Change::Resources).into_iter().chain(texts).collect()
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
        assert_eq!(after(&[("a", 1), ("b", 2)]), [Change::Resource("b".into())]);
        assert_eq!(after(&[("b", 1)]), [Change::Resources]);
        let gone = [Change::Resources, Change::Resource("b".into())];
        assert_eq!(after(&[("a", 1)]), gone);
    }
}
