//! The documents of the host, as the programs of both lanes reach them.
//!
//! Owns the trait that a store serves ([`Documents`]), and the one place where a call's
//! grant is asked before the store is ([`Desk`]). Knows no database, and not what a
//! good name of a document is: those are the store's.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ikigai_protocol::ToolCode;
use ikigai_protocol::host_socket::MAX_CONTENT;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::{Call, Denied};
use crate::policy::Assets;

pub use ikigai_protocol::AssetError;
pub use ikigai_protocol::host_socket::{Entry, Listing};

/// The most entries of one listing.
pub const MAX_ENTRIES: usize = 1000;

/// What the URI of a document begins with.
const SCHEME: &str = "ikigai://";

/// The longest URI that is passed on, in bytes: a path of 1,024 bytes, the scheme, and
/// the slash of an empty authority.
const MAX_URI: usize = 1024 + SCHEME.len() + 1;

/// How much of a name goes into a record, in characters.
const NAME_KEPT: usize = 200;

/// What an operation comes to.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AssetError>> + Send + 'a>>;

/// A store of documents.
///
/// Nothing here asks whether the caller may: that has been done. URIs arrive as a
/// program wrote them. A future may be dropped at any point, where the call that waits
/// for it has ended; a change is then made wholly or not at all. It runs on the host's
/// runtime, on whose thread it may count and copy what it was given, but never wait.
///
/// Codes: `INVALID_ARG` for what names no document, `FILE_NOT_FOUND` for one that is
/// not there, `NOT_FOUND` and `NOT_UNIQUE` of an edit, `BUDGET_EXCEEDED`, `READ_ONLY`;
/// `READ_FAILED`, `WRITE_FAILED`, `READ_ERROR` (a listing) where the store itself fails.
/// Messages are read by models.
pub trait Documents: Send + Sync {
    /// The lines of a document in `window`, as they are stored; see [`Window::cut`].
    fn read<'a>(&'a self, caller: &'a Caller, uri: &'a str, window: Window) -> Answer<'a, Bytes>;

    /// Makes `content`, of at most [`MAX_CONTENT`] bytes, the whole of a document.
    fn write<'a>(&'a self, caller: &'a Caller, uri: &'a str, content: &'a str) -> Answer<'a, ()>;

    /// Replaces `old`, which is not empty and not `new`, and returns how often.
    ///
    /// What comes of it may be far larger than the two texts: a result that is larger than
    /// a document may be is to be refused with `INVALID_ARG` before it is made.
    fn edit<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> Answer<'a, u64>;

    /// The documents whose paths begin with `prefix`, in their order, and at most
    /// [`MAX_ENTRIES`].
    fn list<'a>(&'a self, caller: &'a Caller, prefix: &'a str) -> Answer<'a, Listing>;
}

/// On whose behalf a document is read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The agent, whose pins and budget count.
    pub agent: Arc<str>,
}

/// The store of a call, and its caller. What the program may do with it is in its grant.
#[derive(Clone)]
pub struct Shelf {
    /// The store.
    pub documents: Arc<dyn Documents>,
    /// Who asks.
    pub caller: Caller,
}

/// Which lines of a document are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first line, counted from 1; 0 and nothing mean the first, too.
    pub offset: Option<u64>,
    /// How many lines; all that follow, where it is nothing.
    pub limit: Option<u64>,
}

impl Window {
    /// The lines of `content` that are in the window, with their newlines.
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

/// Where one call asks for documents.
///
/// Operations run on the runtime of the host, not on that of a guest, which has neither
/// sockets nor a life beyond its call. One that is waited for no longer is ended.
#[derive(Clone)]
pub(super) struct Desk {
    shelf: Option<Shelf>,
    access: Assets,
    runtime: Handle,
    denied: Arc<Mutex<Denied>>,
}

impl Desk {
    /// That of a call which runs on the current runtime.
    pub(super) fn of(call: &Call) -> Self {
        Self {
            shelf: call.documents.clone(),
            access: call.grant.assets,
            runtime: Handle::current(),
            denied: Arc::default(),
        }
    }

    /// What was refused so far.
    pub(super) fn denied(&self) -> Denied {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn read(&self, uri: String, window: Window) -> Result<String, AssetError> {
        let shelf = self.admit(Assets::Read, "read", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        let name = uri.clone();
        let read = async move { shelf.documents.read(&shelf.caller, &uri, window).await };
        let content = self.perform(&name, read).await?;
        if content.len() > MAX_CONTENT {
            let message = format!(
                "Failed to read document: {name} (too large for one answer; use offset and limit \
                 to read a part of it)"
            );
            return Err(AssetError::new(ToolCode::ReadFailed, message));
        }
        Ok(String::from_utf8_lossy(&content).into_owned())
    }

    pub(super) async fn write(&self, uri: String, content: String) -> Result<(), AssetError> {
        let shelf = self.admit(Assets::Write, "write", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        check_content("the content", &content)?;
        let name = uri.clone();
        let write = async move { shelf.documents.write(&shelf.caller, &uri, &content).await };
        self.perform(&name, write).await
    }

    pub(super) async fn edit(
        &self,
        uri: String,
        old: String,
        new: String,
        all: bool,
    ) -> Result<u64, AssetError> {
        let shelf = self.admit(Assets::Write, "write", &uri)?;
        check_scheme(&uri)?;
        check_uri(&uri)?;
        check_content("the text to replace", &old)?;
        check_content("the new text", &new)?;
        let senseless = |message: &str| AssetError::new(ToolCode::InvalidArg, message);
        if old.is_empty() {
            return Err(senseless("the text to replace is empty"));
        }
        if old == new {
            return Err(senseless("the text to replace and the new one are identical"));
        }
        let name = uri.clone();
        let edit = async move { shelf.documents.edit(&shelf.caller, &uri, &old, &new, all).await };
        self.perform(&name, edit).await
    }

    pub(super) async fn list(&self, prefix: String) -> Result<Listing, AssetError> {
        let name = format!("ikigai:///{prefix}");
        let shelf = self.admit(Assets::Read, "list", &name)?;
        check_uri(&name)?;
        let list = async move { shelf.documents.list(&shelf.caller, &prefix).await };
        let mut listing = self.perform(&name, list).await?;
        listing.more |= listing.entries.len() > MAX_ENTRIES;
        listing.entries.truncate(MAX_ENTRIES);
        Ok(listing)
    }

    /// The store, if the call may do this much with it. No operation gets at it in
    /// another way.
    fn admit(&self, needed: Assets, what: &str, name: &str) -> Result<Shelf, AssetError> {
        if self.access < needed {
            let shown: String = name.escape_debug().take(NAME_KEPT).collect();
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            denied.note(format!("assets {what} {shown}"));
            return Err(match self.access {
                Assets::None => AssetError::not_granted(&clipped(name)),
                Assets::Read | Assets::Write => {
                    let name = clipped(name);
                    let message = format!(
                        "Permission denied: {name} (documents are granted to this tool for reading \
                         only)"
                    );
                    AssetError::new(ToolCode::PermissionDenied, message)
                }
            });
        }
        self.shelf.clone().ok_or_else(|| {
            let name = clipped(name);
            let message = format!("Cannot open document: {name} (this host keeps no documents)");
            AssetError::new(ToolCode::OpenFailed, message)
        })
    }

    async fn perform<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, AssetError>> + Send + 'static,
    ) -> Result<T, AssetError> {
        let task = self.runtime.spawn(work);
        let _ends_with_this = EndsWithThis(task.abort_handle());
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an operation on a document broke off");
            let message = format!("Cannot open document: {name} (the store failed)");
            Err(AssetError::new(ToolCode::OpenFailed, message))
        })
    }
}

/// Ends a task that nobody waits for any more.
struct EndsWithThis(AbortHandle);

impl Drop for EndsWithThis {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A name as it is told again: as long as a good one can be.
fn clipped(name: &str) -> String {
    name.chars().take(MAX_URI).collect()
}

/// What is no URI of a document is not taken for a path of one.
fn check_scheme(uri: &str) -> Result<(), AssetError> {
    if uri.starts_with(SCHEME) {
        return Ok(());
    }
    let message = format!("`{}` is not named as a document is: ikigai:///PATH", clipped(uri));
    Err(AssetError::new(ToolCode::InvalidArg, message))
}

fn check_uri(uri: &str) -> Result<(), AssetError> {
    if uri.len() <= MAX_URI {
        return Ok(());
    }
    let message = "the name of a document has at most 1,024 bytes";
    Err(AssetError::new(ToolCode::InvalidArg, message))
}

fn check_content(what: &str, text: &str) -> Result<(), AssetError> {
    if text.len() <= MAX_CONTENT {
        return Ok(());
    }
    let message = format!("{what} has {} bytes, and a document at most {MAX_CONTENT}", text.len());
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
