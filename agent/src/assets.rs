//! The store of assets behind the trait that `exec` has for one.
//!
//! Owns when the store is opened (when somebody first asks for an asset) and how its
//! answers become those of a tool. What holds for assets is `ikigai-assets`'; whether
//! a tool may ask has been decided before.

mod named;
pub mod told;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use ikigai_assets::{
    Agent, AssetPath, Author, Budget, Capacity, Cause, Error, Expected, InvalidStoreUrl, Metadata,
    Options, Remedy, Store, StoreUrl,
};
use ikigai_protocol::{AssetError, ToolCode};
use tokio::sync::OnceCell;
use uuid::Uuid;

pub use named::{NotNamed, named};

use ikigai_host::exec::assets::{Answer, AssetStore, Caller, Entry, Listing, MAX_ENTRIES, Window};
use ikigai_host::paths;

/// How long a server, or another process that holds a file, may keep an operation waiting:
/// well within the wall clock of a call (30 s), so that a tool can say what went wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a result of a tool is kept below `outputs/`.
const OUTPUTS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How many bytes all of them have at most; the oldest go first. Room for some 9,000 of the
/// shortest that are kept, which have 30,000 characters.
const OUTPUTS_MOST: u64 = 256 << 20;

/// How long the removal of what is old may hold up a write.
const PRUNING: Duration = Duration::from_secs(1);

/// Where long results of tools are.
const OUTPUTS: &str = "ikigai:///outputs";

/// The most characters of a call's id in the name of its output.
const MAX_ID: usize = 100;

/// One more than a listing holds, to see whether there are more.
const ENOUGH: u32 = MAX_ENTRIES as u32 + 1;

/// One store, opened by whoever needs it first.
#[derive(Debug)]
pub struct StoredAssets {
    url: Result<StoreUrl, InvalidStoreUrl>,
    options: Options,
    store: OnceCell<Store>,
    pruned: OnceCell<()>,
}

impl StoredAssets {
    /// The store at this address, what each agent may have pinned, and what all assets may
    /// come to. Nothing is opened yet; what is no address is told to whoever asks for a
    /// asset, and keeps nobody else from anything.
    #[must_use]
    pub fn at(url: Result<StoreUrl, InvalidStoreUrl>, budget: Budget, capacity: Capacity) -> Self {
        let options = Options {
            budget,
            capacity,
            busy_timeout: PATIENCE,
            statement_timeout: PATIENCE,
            ..Options::default()
        };
        Self { url, options, store: OnceCell::new(), pruned: OnceCell::new() }
    }

    /// Its address, which is shown without user and password.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn url(&self) -> Result<&StoreUrl, Error> {
        self.url.as_ref().map_err(|error| Error::Url(error.clone()))
    }

    /// The store itself. One that could not be opened is tried again the next time.
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

    /// Whether a store is there or can only be asked; a file that was never made holds
    /// nothing, and need not be made to say so.
    #[must_use]
    pub fn may_hold_assets(&self) -> bool {
        let file = self.url.as_ref().ok().and_then(StoreUrl::file);
        self.store.initialized() || file.is_none_or(std::path::Path::exists)
    }

    /// Keeps a long result of a tool as an asset of its own: `outputs/ID.txt`, or, where
    /// an earlier call had the same id, a name that begins with it.
    ///
    /// # Errors
    ///
    /// It is not kept; the message is one for a model.
    pub async fn keep_output(
        &self,
        agent: &Agent,
        id: &str,
        text: &str,
    ) -> Result<AssetPath, AssetError> {
        // Ids are the provider's: anything.
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let id: String = id.chars().take(MAX_ID).map(plain).collect();
        let unique = || format!("outputs/{id}-{}.txt", Uuid::now_v7().simple());
        let author = Author { agent: agent.clone(), cause: Cause::Write };
        answered(OUTPUTS, async {
            let store = self.open().await?;
            let mut path = AssetPath::parse(&format!("outputs/{id}.txt"))?;
            let written = store.write(&path, text.as_bytes(), &author, Expected::Absent).await;
            if let Err(Error::Changed { .. }) = written {
                path = AssetPath::parse(&unique())?;
                store.write(&path, text.as_bytes(), &author, Expected::Absent).await?;
            } else {
                written?;
            }
            self.make_room_for_outputs(store).await;
            Ok(path)
        })
        .await
    }

    /// Removes outputs that are old, or beyond what all of them may have.
    // Boxed: what writes assets is a deep enough type without it.
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

    /// Removes what has grown old, once in the life of a process: whoever writes outputs
    /// makes room for them. What a moment is too short for is left to the next one.
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
            if tokio::time::timeout(PRUNING, work).await.is_err() {
                tracing::debug!("there is more that is old than could be removed at once");
            }
        };
        self.pruned.get_or_init(prune).await;
    }
}

impl AssetStore for StoredAssets {
    fn files(&self) -> Vec<PathBuf> {
        self.url().ok().and_then(StoreUrl::file).map(Path::to_owned).into_iter().collect()
    }

    fn read<'a>(&'a self, _: &'a Caller, uri: &'a str, window: Window) -> Answer<'a, Bytes> {
        Box::pin(answered(uri, async move {
            let content = self.open().await?.read(&AssetPath::parse(uri)?).await?.content;
            let shown = window.cut(&content);
            // The whole, as a rule, and then without another copy of it.
            Ok(if shown.len() == content.len() { content.into() } else { shown.to_vec().into() })
        }))
    }

    fn write<'a>(&'a self, caller: &'a Caller, uri: &'a str, content: &'a str) -> Answer<'a, ()> {
        Box::pin(answered(uri, async move {
            let (path, author) = (AssetPath::parse(uri)?, author(caller, Cause::Write)?);
            let store = self.open().await?;
            store.write(&path, content.as_bytes(), &author, Expected::Any).await?;
            if path.is_output() {
                self.make_room_for_outputs(store).await;
            }
            Ok(())
        }))
    }

    fn edit<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> Answer<'a, u64> {
        Box::pin(answered(uri, async move {
            let (path, author) = (AssetPath::parse(uri)?, author(caller, Cause::Edit)?);
            let store = self.open().await?;
            let edited = store.edit(&path, old.as_bytes(), new.as_bytes(), all, &author).await?;
            if path.is_output() {
                self.make_room_for_outputs(store).await;
            }
            Ok(edited.replacements)
        }))
    }

    fn list<'a>(&'a self, _: &'a Caller, prefix: &'a str) -> Answer<'a, Listing> {
        let list = answered(prefix, async move {
            let found = self.open().await?.list(prefix, Some(ENOUGH)).await?;
            let more = found.len() > MAX_ENTRIES;
            let entry = |metadata: Metadata| Entry {
                path: metadata.path.as_str().to_owned(),
                tokens: metadata.tokens,
                read_only: metadata.read_only,
            };
            let entries = found.into_iter().take(MAX_ENTRIES).map(entry).collect();
            Ok(Listing { entries, more })
        });
        Box::pin(async {
            list.await.map_err(|error| match error.code {
                ToolCode::ReadFailed => AssetError { code: ToolCode::ReadError, ..error },
                _ => error,
            })
        })
    }
}

/// Refuses a file that somebody else could swap: what is pinned in it goes into the context.
fn check_way(file: &Path) -> Result<(), Error> {
    paths::check_ancestors(file, paths::is_own).map_err(|way| Error::Unsafe {
        path: way.dir,
        reason: "somebody else could swap the store by this directory on the way to it",
    })
}

fn author(caller: &Caller, cause: Cause) -> Result<Author, Error> {
    Ok(Author { agent: Agent::new(&caller.agent)?, cause })
}

/// Returns the message of an error for a model, with the commands that help.
pub(crate) fn for_model(error: &Error) -> String {
    match error.remedy() {
        Some(Remedy::FreeBudget) => format!("{error} Use /compact or /unpin to free space."),
        _ => error.to_string(),
    }
}

/// The failure in the words of the tools, which name what was asked for as it was named.
async fn answered<T>(
    uri: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, AssetError> {
    work.await.map_err(|error| {
        let message = match (&error, fault(&error)) {
            (Error::NotFound(_), _) => format!("File not found: {uri}"),
            (Error::ReadOnly(_), _) => format!("Asset is read-only: {uri}"),
            (_, Some(fault)) => {
                // For whoever can do something about it. Where a store is, and what its
                // server says, is nothing for a tool.
                tracing::warn!("an asset was not to be had: {error}");
                format!("Cannot reach asset: {uri} ({fault})")
            }
            (_, None) => for_model(&error),
        };
        let code = match &error {
            // The argument of the host, not of the tool.
            Error::Url(_) => ToolCode::OpenFailed,
            _ => error.code(),
        };
        AssetError::new(code, message)
    })
}

/// What is wrong with the store, where it is the store, without saying which one it is.
fn fault(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Locked { .. } => "another process holds the store",
        Error::Slow { .. } => "the store did not answer in time",
        Error::Contended(_) => "others change the same; try again",
        Error::StoreReadOnly(_) => "the store is read-only",
        Error::Full(_) => "the store is full",
        Error::Unreachable { .. }
        | Error::Unauthenticated(_)
        | Error::Denied { .. }
        | Error::Unsafe { .. }
        | Error::NotAStore { .. }
        | Error::Newer { .. } => "the store cannot be opened",
        Error::Damaged { .. } | Error::Read { .. } | Error::Write { .. } => "the store failed",
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
        | Error::OutOfMemory => return None,
    })
}

#[cfg(test)]
mod tests {
    use ikigai_assets::{Exceeded, Purpose};

    use super::*;

    #[test]
    fn a_model_is_told_how_to_free_space_in_the_words_of_the_specification() {
        let exceeded = Exceeded {
            purpose: Purpose::Write,
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
