//! The access of programs to the assets of the host, the same for both executors.
//!
//! Owns the trait that a store implements ([`AssetStore`]), and the gate that checks a call's
//! grant before each operation (`AssetGate`). Knows no database, and does not decide which
//! names of assets are valid: the store does.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use ikigai_protocol::ToolCode;
use ikigai_protocol::host_socket::MAX_CONTENT;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::{Call, DeniedAccesses};
use crate::policy::{AssetAccess, CLIENTS};

pub use ikigai_protocol::AssetError;
pub use ikigai_protocol::host_socket::{AssetEntry, AssetListing};

/// The largest number of entries in one listing.
pub const MAX_ENTRIES: usize = 1000;

/// The beginning of the URI of an asset.
const SCHEME: &str = "ikigai://";

/// The longest URI that is passed on, in bytes: a path of 1,024 bytes, the scheme, and
/// the slash of an empty authority.
const MAX_URI: usize = 1024 + SCHEME.len() + 1;

/// The longest name in a record, in characters.
const NAME_KEPT: usize = 200;

/// The result of an operation, as a future: `Box::pin(async move { … })`.
pub type AssetFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AssetError>> + Send + 'a>>;

/// A store of assets, which a program implements to keep them.
///
/// The example `own_store` of this crate keeps them in a map.
///
/// The host has checked the grant of the call before it calls a method. URIs arrive as the
/// tool wrote them, `ikigai:///PATH` or `ikigai://PATH`; the store decides which paths are valid.
/// Methods are called by many tasks at once.
///
/// The host drops a future when the call that waits for it ends. The store must then make a change
/// wholly or not at all. Futures run on the host's runtime and must not block its threads; counting
/// and copying their input is fine. A store that
/// [runs on the threads of guests](Self::runs_on_guest_threads) may wait for a disk there.
///
/// Errors are read by models, and have these codes:
///
/// | [`ToolCode`] | reason |
/// |---|---|
/// | `InvalidArg` | the URI names no asset, or the result would be too large |
/// | `FileNotFound` | the asset does not exist |
/// | `NotFound`, `NotUnique` | the text to replace is not there, or there more than once |
/// | `BudgetExceeded`, `ReadOnly` | the store does not allow the change |
/// | `ReadFailed`, `WriteFailed`, `ReadError` (a listing) | the store itself failed |
pub trait AssetStore: Send + Sync {
    /// Returns the files of the store, which need not exist, and their directories if only the
    /// store may write there. No tool may write to them, and no tool sees them unless a grant names
    /// them. The list includes the further files of a database, such as a write-ahead log. A store
    /// that keeps no files returns an empty list.
    fn files(&self) -> Vec<PathBuf>;

    /// Returns the hosts and ports of the store. ikigai never asks the user to let a tool connect
    /// there. A store in files returns none, which is the default.
    fn addresses(&self) -> Vec<(String, u16)> {
        Vec::new()
    }

    /// Returns true if an operation may run on the calling component's thread, which saves waking
    /// another thread. Its future then has timers, but no sockets or other I/O of a runtime. While
    /// the future is being polled, the component can neither be stopped nor time out. The default
    /// is false: operations run on the host's runtime.
    fn runs_on_guest_threads(&self) -> bool {
        false
    }

    /// Returns true if the host keeps this asset for the caller, such as a long result for the
    /// principal whose call produced it. The caller may read such an asset without a grant. The
    /// default is false.
    fn is_kept_for(&self, caller: &AssetCaller, uri: &str) -> bool {
        let _ = (caller, uri);
        false
    }

    /// Returns the lines of an asset that are in `window`, as they are stored; see
    /// [`Window::cut`].
    fn read<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        window: Window,
    ) -> AssetFuture<'a, Bytes>;

    /// Replaces the content of an asset, or makes a new one. `content` has at most [`MAX_CONTENT`]
    /// bytes.
    fn write<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        content: &'a str,
    ) -> AssetFuture<'a, ()>;

    /// Replaces `old`, which is neither empty nor equal to `new`, and returns the number of
    /// replacements. Unless `all` is set, `old` must occur once.
    ///
    /// The result may be far larger than the two texts. If it would be larger than an asset may be,
    /// the store must refuse with `InvalidArg` before it builds the result.
    fn edit<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> AssetFuture<'a, u64>;

    /// Returns the assets whose paths (without `ikigai:///`) begin with `prefix`, in the order of
    /// their paths, and at most [`MAX_ENTRIES`] of them.
    fn list<'a>(
        &'a self,
        caller: &'a AssetCaller,
        prefix: &'a str,
    ) -> AssetFuture<'a, AssetListing>;
}

/// The agent on whose behalf an asset is read or changed, and the thread that does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetCaller {
    /// The name that was given to [`HostBuilder::assets`](crate::HostBuilder::assets), or the name
    /// of the call's [principal](crate::audit::Requester::principal).
    pub agent: Arc<str>,
    /// True if `agent` is a principal that came over a network, and not the agent of this host. A
    /// store must not show this principal what it keeps for another one.
    pub is_principal: bool,
    /// True on the thread of a guest, which has nothing else to do: an operation may wait there for
    /// a disk. Never true for a store that does not
    /// [run there](AssetStore::runs_on_guest_threads).
    pub own_thread: bool,
}

/// The store of a call, and its caller. The grant limits what the program may do with the store,
/// and `most` limits what the caller may do.
#[derive(Clone)]
pub struct AssetHandle {
    /// The store.
    pub assets: Arc<dyn AssetStore>,
    /// The agent that asks.
    pub caller: AssetCaller,
    /// The most that this caller may do. The grant of the program may be wider.
    pub most: AssetAccess,
}

/// A range of lines of an asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first line, counted from 1; 0 and `None` mean the first, too.
    pub offset: Option<u64>,
    /// The number of lines; `None` means all that follow.
    pub limit: Option<u64>,
}

impl Window {
    /// Returns the lines of `content` that are in the window, with their newlines.
    #[must_use]
    pub fn cut(self, content: &[u8]) -> &[u8] {
        let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
        let after = |content: &[u8], lines: usize| -> usize {
            content.split_inclusive(|byte| *byte == b'\n').take(lines).map(<[u8]>::len).sum()
        };
        let skip = number(self.offset.unwrap_or(0).saturating_sub(1));
        let rest = &content[after(content, skip)..];
        match self.limit {
            Some(limit) => &rest[..after(rest, number(limit))],
            None => rest,
        }
    }
}

/// The access of one call to assets, as far as its grant allows it.
///
/// Operations run on the host's runtime. The runtime of a guest has no sockets and ends with its
/// call, so an operation runs there only if the store needs no more than a guest's thread has. An
/// operation ends with the future that waits for it.
#[derive(Clone)]
pub(super) struct AssetGate {
    handle: Option<AssetHandle>,
    access: AssetAccess,
    runtime: Handle,
    denied: Arc<Mutex<DeniedAccesses>>,
}

impl AssetGate {
    /// Returns the gate of a call that runs on the current runtime.
    pub(super) fn for_call(call: &Call) -> Self {
        Self {
            handle: call.assets.clone(),
            access: call.grant.assets,
            runtime: Handle::current(),
            denied: Arc::default(),
        }
    }

    /// Returns the gate of a call that asks from the thread of a guest.
    pub(super) fn of_guest(call: &Call) -> Self {
        let mut gate = Self::for_call(call);
        if let Some(handle) = &mut gate.handle {
            handle.caller.own_thread = handle.assets.runs_on_guest_threads();
        }
        gate
    }

    /// Returns the refusals so far.
    pub(super) fn denied(&self) -> DeniedAccesses {
        self.denied.lock().clone()
    }

    pub(super) async fn read(&self, uri: String, window: Window) -> Result<String, AssetError> {
        let handle = self.admit(AssetAccess::Read, "read", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        let name = uri.clone();
        let read = async move { handle.assets.read(&handle.caller, &uri, window).await };
        let content = self.perform(&name, read).await?;
        if content.len() > MAX_CONTENT {
            let message = format!(
                "Failed to read asset: {name} (too large for one answer; use offset and limit \
                 to read a part of it)"
            );
            return Err(AssetError::new(ToolCode::ReadFailed, message));
        }
        Ok(String::from_utf8_lossy(&content).into_owned())
    }

    pub(super) async fn write(&self, uri: String, content: String) -> Result<(), AssetError> {
        let handle = self.admit(AssetAccess::Write, "write", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        check_content("the content", &content)?;
        let name = uri.clone();
        let write = async move { handle.assets.write(&handle.caller, &uri, &content).await };
        self.perform(&name, write).await
    }

    pub(super) async fn edit(
        &self,
        uri: String,
        old: String,
        new: String,
        all: bool,
    ) -> Result<u64, AssetError> {
        let handle = self.admit(AssetAccess::Write, "write", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        check_content("the text to replace", &old)?;
        check_content("the new text", &new)?;
        let invalid = |message: &str| AssetError::new(ToolCode::InvalidArg, message);
        if old.is_empty() {
            return Err(invalid("the text to replace is empty"));
        }
        if old == new {
            return Err(invalid("the text to replace and the new one are identical"));
        }
        let name = uri.clone();
        let edit = async move { handle.assets.edit(&handle.caller, &uri, &old, &new, all).await };
        self.perform(&name, edit).await
    }

    pub(super) async fn list(&self, prefix: String) -> Result<AssetListing, AssetError> {
        let name = format!("ikigai:///{prefix}");
        let handle = self.admit(AssetAccess::Read, "list", &name)?;
        check_uri(&name)?;
        let list = async move { handle.assets.list(&handle.caller, &prefix).await };
        let mut listing = self.perform(&name, list).await?;
        listing.more |= listing.entries.len() > MAX_ENTRIES;
        listing.entries.truncate(MAX_ENTRIES);
        Ok(listing)
    }

    /// Returns the store, if the call has the `needed` access. No operation gets the store in
    /// another way.
    fn admit(
        &self,
        needed: AssetAccess,
        what: &str,
        name: &str,
    ) -> Result<AssetHandle, AssetError> {
        if self.access < needed {
            self.note_refusal(&format!("assets {what}"), name);
            let name = clipped(name);
            return Err(match self.access {
                AssetAccess::None => AssetError::not_granted(&name),
                AssetAccess::Read | AssetAccess::Write => {
                    let message = format!(
                        "Permission denied: {name} (assets are granted to this tool for reading \
                         only)"
                    );
                    AssetError::new(ToolCode::PermissionDenied, message)
                }
            });
        }
        if !self.caller_may(needed, name) {
            // The tool has the access already, so a wider grant for it would change nothing.
            self.note_refusal(&format!("{CLIENTS} {what}"), name);
            let message = format!(
                "Permission denied: {} (the client of this call may not {what} assets; the user \
                 can grant it with the key `[tools.{CLIENTS}] assets` of the policy; an access \
                 token also needs the scope `documents`)",
                clipped(name)
            );
            return Err(AssetError::new(ToolCode::PermissionDenied, message));
        }
        self.handle.clone().ok_or_else(|| {
            let name = clipped(name);
            let message = format!("Cannot open asset: {name} (this host keeps no assets)");
            AssetError::new(ToolCode::OpenFailed, message)
        })
    }

    /// Returns whether the caller itself may have this access to an asset.
    fn caller_may(&self, needed: AssetAccess, uri: &str) -> bool {
        self.handle.as_ref().is_none_or(|AssetHandle { assets, caller, most }| {
            let is_own = || needed == AssetAccess::Read && assets.is_kept_for(caller, uri);
            *most >= needed || is_own()
        })
    }

    fn note_refusal(&self, what: &str, name: &str) {
        let shown: String = name.escape_debug().take(NAME_KEPT).collect();
        let mut denied = self.denied.lock();
        denied.note(format!("{what} {shown}"));
    }

    async fn perform<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, AssetError>> + Send + 'static,
    ) -> Result<T, AssetError> {
        let here = self.handle.as_ref().is_some_and(|handle| handle.caller.own_thread);
        let done = if here {
            caught(work).await.ok_or_else(|| "it panicked".to_owned())
        } else {
            let task = self.runtime.spawn(work);
            let _abort_on_drop = AbortOnDrop(task.abort_handle());
            task.await.map_err(|error| error.to_string())
        };
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "an operation on an asset failed");
            let message = format!("Cannot open asset: {name} (the store failed)");
            Err(AssetError::new(ToolCode::OpenFailed, message))
        })
    }
}

/// Runs work on this thread. Returns `None` if it panics, as if it had run in a separate task.
async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// Aborts a task when this is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Cuts a name for a message to the length of the longest valid name.
fn clipped(name: &str) -> String {
    name.chars().take(MAX_URI).collect()
}

/// Refuses a URI without the scheme instead of reading it as the path of an asset.
fn check_scheme(uri: &str) -> Result<(), AssetError> {
    if uri.starts_with(SCHEME) {
        return Ok(());
    }
    let message = format!("`{}` is not named as an asset is: ikigai:///PATH", clipped(uri));
    Err(AssetError::new(ToolCode::InvalidArg, message))
}

fn check_uri(uri: &str) -> Result<(), AssetError> {
    if uri.len() <= MAX_URI {
        return Ok(());
    }
    let message = "the name of an asset has at most 1,024 bytes";
    Err(AssetError::new(ToolCode::InvalidArg, message))
}

fn check_content(what: &str, text: &str) -> Result<(), AssetError> {
    if text.len() <= MAX_CONTENT {
        return Ok(());
    }
    let message = format!("{what} has {} bytes, and an asset at most {MAX_CONTENT}", text.len());
    Err(AssetError::new(ToolCode::InvalidArg, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_lines_asked_for() {
        let text = b"one\ntwo\n\nend";
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for offset in [None, Some(0), Some(1), Some(2), Some(4), Some(5), Some(u64::MAX)] {
            for limit in [None, Some(0), Some(1), Some(2), Some(u64::MAX)] {
                let skip = offset.unwrap_or(0).saturating_sub(1).min(99) as usize;
                let shown = lines.iter().skip(skip).take(limit.unwrap_or(99).min(99) as usize);
                let expected: Vec<u8> = shown.copied().flatten().copied().collect();
                assert_eq!(Window { offset, limit }.cut(text), expected, "{offset:?} {limit:?}");
            }
        }
        assert_eq!(Window { offset: Some(2), limit: Some(1) }.cut(b""), b"");
    }
}
