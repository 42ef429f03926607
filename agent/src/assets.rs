//! The user's stored assets, as the [`AssetStore`] of a host.
//!
//! Owns the time at which the store is opened (when an asset is first asked for) and the form of
//! its answers for a tool. The rules of assets are in `ikigai-assets`; the host asks the policy
//! before it asks a store.

pub mod display;
mod named;
pub(crate) mod private;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use ikigai_assets::{
    Agent, AssetMetadata, AssetPath, Author, Budget, Capacity, ChangeCause, Error, InvalidStoreUrl,
    Precondition, Store, StoreOptions, StoreRemedy, StoreUrl,
};
use ikigai_host::exec::assets::{
    AssetCaller, AssetEntry, AssetFuture, AssetListing, AssetStore, MAX_ENTRIES, Window,
};
use ikigai_host::paths;
use ikigai_protocol::{AssetError, ToolCode};
use tokio::sync::OnceCell;
use uuid::Uuid;

pub use named::{NotNamed, named};

/// The longest that an operation waits for a server, or for another process that has locked the
/// file. It is well within the wall clock of a call (30 s), so that a tool can report what went
/// wrong.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which a tool's result is kept below `outputs/`.
const OUTPUTS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most bytes of all outputs; the oldest are removed first. That is enough for some 9,000 of
/// the shortest outputs that are kept, which have 30,000 characters.
const OUTPUTS_MOST: u64 = 256 << 20;

/// The longest that the removal of old outputs and versions may delay a write.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(1);

/// The URI below which long results of tools are kept.
const OUTPUTS: &str = "ikigai:///outputs";

/// The most characters of a call's id in the name of its output.
const MAX_ID: usize = 100;

/// The entries that a listing asks for: one more than it returns, to see if there are more.
const ENTRIES_ASKED: u32 = MAX_ENTRIES as u32 + 1;

/// A store of assets, which is opened when it is first needed.
#[derive(Debug)]
pub struct StoredAssets {
    url: Result<StoreUrl, InvalidStoreUrl>,
    options: StoreOptions,
    store: OnceCell<Store>,
    pruned: OnceCell<()>,
}

impl StoredAssets {
    /// Creates the assets of the store at this address, with the budget of each agent's pins and
    /// the capacity for all assets. Nothing is opened yet. If the address is invalid, every
    /// operation on an asset fails with that error, and everything else works.
    #[must_use]
    pub fn at(url: Result<StoreUrl, InvalidStoreUrl>, budget: Budget, capacity: Capacity) -> Self {
        let options = StoreOptions {
            budget,
            capacity,
            busy_timeout: OPERATION_TIMEOUT,
            statement_timeout: OPERATION_TIMEOUT,
            ..StoreOptions::default()
        };
        Self { url, options, store: OnceCell::new(), pruned: OnceCell::new() }
    }

    /// Returns the address of the store, which is shown without user and password.
    ///
    /// # Errors
    ///
    /// Fails if the address is invalid.
    pub fn url(&self) -> Result<&StoreUrl, Error> {
        self.url.as_ref().map_err(|error| Error::Url(error.clone()))
    }

    /// Returns the store, and opens it at the first call. If that fails, the next call tries again.
    ///
    /// # Errors
    ///
    /// See [`Store::open`].
    pub async fn open(&self) -> Result<&Store, Error> {
        let url = self.url()?;
        if let Some(file) = url.file().filter(|_| !self.store.initialized()) {
            check_way(file)?;
        }
        self.store.get_or_try_init(|| Store::open(url, &self.options)).await
    }

    /// Returns the store for an operation of a tool.
    async fn opened_for(&self, caller: &AssetCaller) -> Result<Store, Error> {
        let store = self.open().await?;
        Ok(if caller.own_thread { store.on_own_thread() } else { store.clone() })
    }

    /// Returns false if the store is a file that does not exist, and thus holds no assets. The
    /// check does not create the file.
    #[must_use]
    pub fn may_hold_assets(&self) -> bool {
        let file = self.url.as_ref().ok().and_then(StoreUrl::file);
        self.store.initialized() || file.is_none_or(std::path::Path::exists)
    }

    /// Keeps a tool's long result as an asset: `outputs/ID.txt`, or a name that begins with `ID` if
    /// an earlier call had the same id. Each principal has its own `folder` for outputs.
    ///
    /// # Errors
    ///
    /// Fails if the result cannot be kept. The message of the error is for a model.
    pub async fn keep_output(
        &self,
        agent: &Agent,
        folder: Option<&str>,
        id: &str,
        text: &str,
    ) -> Result<AssetPath, AssetError> {
        let folder = folder.unwrap_or(private::OUTPUTS);
        // The provider chooses the id, which may have any character.
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let id: String = id.chars().take(MAX_ID).map(plain).collect();
        let unique = || format!("{folder}{id}-{}.txt", Uuid::now_v7().simple());
        let author = Author { agent: agent.clone(), cause: ChangeCause::Write };
        answered(OUTPUTS, async {
            let store = self.open().await?;
            let mut path = AssetPath::parse(&format!("{folder}{id}.txt"))?;
            let written = store.write(&path, text.as_bytes(), &author, Precondition::Absent).await;
            if let Err(Error::Changed { .. }) = written {
                path = AssetPath::parse(&unique())?;
                store.write(&path, text.as_bytes(), &author, Precondition::Absent).await?;
            } else {
                written?;
            }
            self.make_room_for_outputs(store).await;
            Ok(path)
        })
        .await
    }

    /// Removes outputs that are too old, and then the oldest ones until the rest is within the
    /// limit.
    // Boxed: the futures that write assets are nested deep enough without it.
    fn make_room_for_outputs<'a>(
        &'a self,
        store: &'a Store,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            self.prune(store).await;
            if let Err(error) = store.prune_outputs_beyond(OUTPUTS_MOST).await {
                tracing::warn!("old outputs were not removed: {error}");
            }
        })
    }

    /// Removes old outputs and versions, once per process. A process that writes outputs makes room
    /// for them as well. If the work does not end within a short time, the next process continues
    /// it.
    pub async fn prune(&self, store: &Store) {
        let work = async {
            if let Err(error) = store.prune_outputs(OUTPUTS_KEPT).await {
                tracing::warn!("old outputs were not removed: {error}");
            }
            if let Err(error) = store.prune_versions().await {
                tracing::warn!("old versions were not removed: {error}");
            }
        };
        let prune = async || {
            if tokio::time::timeout(PRUNE_TIMEOUT, work).await.is_err() {
                tracing::debug!(
                    "more old outputs and versions are left than could be removed at once"
                );
            }
        };
        self.pruned.get_or_init(prune).await;
    }
}

impl AssetStore for StoredAssets {
    fn files(&self) -> Vec<PathBuf> {
        self.url().map(StoreUrl::files).unwrap_or_default()
    }

    fn addresses(&self) -> Vec<(String, u16)> {
        self.url().ok().and_then(StoreUrl::peer).into_iter().collect()
    }

    fn runs_on_guest_threads(&self) -> bool {
        self.url().is_ok_and(StoreUrl::is_sqlite)
    }

    fn is_kept_for(&self, caller: &AssetCaller, uri: &str) -> bool {
        let is_own = |path: &AssetPath| private::is_kept_for(&caller.agent, path);
        caller.is_principal && AssetPath::parse(uri).is_ok_and(|path| is_own(&path))
    }

    fn read<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        window: Window,
    ) -> AssetFuture<'a, Bytes> {
        Box::pin(answered(uri, async move {
            let path = path_for(caller, uri)?;
            let store = self.opened_for(caller).await?;
            let content = store.read(&path).await?.content;
            let shown = window.cut(&content);
            // Mostly this is the whole content, which is then not copied.
            Ok(if shown.len() == content.len() { content.into() } else { shown.to_vec().into() })
        }))
    }

    fn write<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        content: &'a str,
    ) -> AssetFuture<'a, ()> {
        Box::pin(answered(uri, async move {
            let (path, author) = (path_for(caller, uri)?, author(caller, ChangeCause::Write)?);
            let store = self.opened_for(caller).await?;
            store.write(&path, content.as_bytes(), &author, Precondition::Any).await?;
            if path.is_output() {
                self.make_room_for_outputs(&store).await;
            }
            Ok(())
        }))
    }

    fn edit<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> AssetFuture<'a, u64> {
        Box::pin(answered(uri, async move {
            let (path, author) = (path_for(caller, uri)?, author(caller, ChangeCause::Edit)?);
            let store = self.opened_for(caller).await?;
            let edited = store.edit(&path, old.as_bytes(), new.as_bytes(), all, &author).await?;
            if path.is_output() {
                self.make_room_for_outputs(&store).await;
            }
            Ok(edited.replacements)
        }))
    }

    fn list<'a>(
        &'a self,
        caller: &'a AssetCaller,
        prefix: &'a str,
    ) -> AssetFuture<'a, AssetListing> {
        let list = answered(prefix, async move {
            let store = self.opened_for(caller).await?;
            // The assets of other principals are removed before the limit applies, which they would
            // use up.
            let asked = (!caller.is_principal).then_some(ENTRIES_ASKED);
            let mut found = store.list(prefix, asked).await?;
            found.retain(|metadata| is_for(caller, &metadata.path));
            let more = found.len() > MAX_ENTRIES;
            let entry = |metadata: AssetMetadata| AssetEntry {
                path: metadata.path.as_str().to_owned(),
                tokens: metadata.tokens,
                read_only: metadata.read_only,
            };
            let entries = found.into_iter().take(MAX_ENTRIES).map(entry).collect();
            Ok(AssetListing { entries, more })
        });
        Box::pin(async {
            list.await.map_err(|error| match error.code {
                ToolCode::ReadFailed => AssetError { code: ToolCode::ReadError, ..error },
                _ => error,
            })
        })
    }
}

/// Refuses a file that another user could swap: its pinned assets go into the model's context.
fn check_way(file: &Path) -> Result<(), Error> {
    paths::check_ancestors(file, paths::is_own).map_err(|way| Error::Unsafe {
        path: way.dir,
        reason: "another user could replace the store through this directory above it",
    })
}

/// Returns the path of an asset. An asset that is kept for another principal is not found.
fn path_for(caller: &AssetCaller, uri: &str) -> Result<AssetPath, Error> {
    let path = AssetPath::parse(uri)?;
    if is_for(caller, &path) { Ok(path) } else { Err(Error::NotFound(path)) }
}

/// Returns whether the caller may know of an asset. A principal knows only its own outputs.
fn is_for(caller: &AssetCaller, path: &AssetPath) -> bool {
    !caller.is_principal || !path.is_output() || private::is_kept_for(&caller.agent, path)
}

fn author(caller: &AssetCaller, cause: ChangeCause) -> Result<Author, Error> {
    Ok(Author { agent: Agent::new(&caller.agent)?, cause })
}

/// Returns the message of an error for a model, with the commands that help.
pub(crate) fn for_model(error: &Error) -> String {
    match error.remedy() {
        Some(StoreRemedy::FreeBudget) => format!("{error} Use /compact or /unpin to free space."),
        _ => error.to_string(),
    }
}

/// Turns an error into an error for a tool, which names the asset as the tool did.
async fn answered<T>(
    uri: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, AssetError> {
    work.await.map_err(|error| {
        let message = match (&error, fault(&error)) {
            (Error::NotFound(_), _) => format!("File not found: {uri}"),
            (Error::ReadOnly(_), _) => format!("Asset is read-only: {uri}"),
            (_, Some(fault)) => {
                // The tool must not see the address of the store or the messages of its server.
                tracing::warn!("an operation on an asset failed: {error}");
                format!("Cannot reach asset: {uri} ({fault})")
            }
            (_, None) => for_model(&error),
        };
        let code = match &error {
            // The invalid argument is the host's, not the tool's.
            Error::Url(_) => ToolCode::OpenFailed,
            _ => error.code(),
        };
        AssetError::new(code, message)
    })
}

/// Returns a description of an error of the store itself, without the store's address.
fn fault(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Locked { .. } => "another process holds the store",
        Error::Slow { .. } => "the store did not answer in time",
        Error::Contended(_) => "other processes change the same asset; try again",
        Error::StoreReadOnly(_) => "the store is read-only",
        Error::Full(_) => "the store is full",
        Error::Limited { .. } => "ikigai was started with a limit that is too low for the store",
        Error::Unreachable { .. }
        | Error::Unauthenticated(_)
        | Error::Denied { .. }
        | Error::Unsafe { .. }
        | Error::NotAStore { .. }
        | Error::Newer { .. } => "the store cannot be opened",
        Error::Altered { .. } => "its text is damaged",
        Error::Damaged { .. } => "the store is damaged",
        Error::Read { .. } | Error::Write { .. } => "the store failed",
        Error::Url(_) => "the address of the store is malformed",
        Error::Path(_)
        | Error::Agent(_)
        | Error::NotFound(_)
        | Error::NoVersion { .. }
        | Error::EmptyString
        | Error::StringNotFound
        | Error::StringNotUnique(_)
        | Error::TooLarge { .. }
        | Error::BudgetExceeded(_)
        | Error::Overfull(_)
        | Error::Unpinnable(_)
        | Error::ReadOnly(_)
        | Error::Changed { .. }
        | Error::SessionId(_)
        | Error::SessionText(_)
        | Error::NoSession(_)
        | Error::NoEvent { .. }
        | Error::EventTooLarge { .. }
        | Error::SessionHeld { .. }
        | Error::SessionLost(_)
        | Error::SessionChanged { .. }
        | Error::OutOfMemory => return None,
    })
}

#[cfg(test)]
mod tests {
    use ikigai_assets::{BudgetExcess, BudgetedOperation};

    use super::*;

    #[tokio::test]
    async fn an_output_of_a_principal_is_there_for_no_other_one() {
        let url = StoreUrl::parse("memory:");
        let assets = StoredAssets::at(url, Budget::default(), Capacity::default());
        let caller = |agent: &str, is_principal| AssetCaller {
            agent: agent.into(),
            is_principal,
            own_thread: false,
        };
        // A name that would lead into another principal's folder if it were used unchanged.
        let (ann, bob) = (caller("ann", true), caller("ann/../bob", true));
        let owner = caller("ann", false);
        let mut kept = Vec::new();
        for it in [&ann, &bob, &owner] {
            let agent = Agent::new(&it.agent).expect("a name");
            let folder = it.is_principal.then(|| private::folder(&it.agent));
            let path = assets.keep_output(&agent, folder.as_deref(), "call", &it.agent).await;
            kept.push(path.expect("kept").to_uri());
        }
        assets.write(&owner, "ikigai:///note.md", "shared").await.expect("written");
        let whole = Window::default();
        for (caller, own) in [(&ann, 0), (&bob, 1)] {
            for (index, uri) in kept.iter().enumerate() {
                let is_own = index == own;
                assert_eq!(assets.is_kept_for(caller, uri), is_own, "{uri}");
                let read = assets.read(caller, uri, whole).await;
                assert_eq!(read.is_ok(), is_own, "{uri}: {read:?}");
                if !is_own {
                    let read = read.expect_err("refused");
                    assert_eq!(read.code, ToolCode::FileNotFound, "{uri}");
                    let written = assets.write(caller, uri, "mine").await;
                    assert_eq!(written.expect_err("refused").code, ToolCode::FileNotFound);
                    let edited = assets.edit(caller, uri, "ann", "eve", false).await;
                    assert_eq!(edited.expect_err("refused").code, ToolCode::FileNotFound);
                }
            }
            let listed = assets.list(caller, "").await.expect("a list");
            let listed: Vec<_> = listed.entries.iter().map(|it| it.path.as_str()).collect();
            assert_eq!(listed, ["note.md", &kept[own]["ikigai:///".len()..]]);
        }
        let listed = assets.list(&owner, "").await.expect("a list");
        assert_eq!(listed.entries.len(), 4, "the owner sees all: {listed:?}");
        assert_eq!(assets.read(&owner, &kept[1], whole).await.expect("read"), "ann/../bob");
        assert!(kept.iter().all(|uri| !assets.is_kept_for(&owner, uri)));
    }

    #[test]
    fn a_model_is_told_how_to_free_space_in_the_words_of_the_specification() {
        let exceeded = BudgetExcess {
            purpose: BudgetedOperation::Write,
            other: None,
            pinned: 95_000,
            budget: Budget::default(),
            wanted: 80_000,
        };
        assert_eq!(
            for_model(&Error::BudgetExceeded(exceeded)),
            "Block budget exceeded: 95k/100k tokens. This write would use 80k tokens. \
             Use /compact or /unpin to free space."
        );
        assert_eq!(for_model(&Error::OutOfMemory), "out of memory");
    }
}
