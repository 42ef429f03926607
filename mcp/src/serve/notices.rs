//! Notifications of changes, for the clients that want them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::{calls, lists};
use crate::offer::{CatalogChange, Offer};

/// The most resources that one connection may subscribe to.
const SUBSCRIPTIONS: usize = 1000;

/// The most listeners of one connection over streams.
pub(super) const LISTENERS: usize = 16;

/// The notifications of one connection.
pub(super) struct ConnectionNotices<O: Offer> {
    offer: Arc<O>,
    /// The resources that a client of an older revision subscribed to.
    subscribed: Arc<Mutex<HashSet<String>>>,
    tells_unasked: AtomicBool,
    listeners: Arc<Semaphore>,
    has_ended: CancellationToken,
}

impl<O: Offer> ConnectionNotices<O> {
    /// Returns notifications that end when `has_ended` is cancelled, or when they are dropped. Each
    /// listener takes one permit of `listeners`.
    pub(super) fn new(
        offer: Arc<O>,
        has_ended: &CancellationToken,
        listeners: Arc<Semaphore>,
    ) -> Self {
        let (subscribed, has_ended) = (Arc::default(), has_ended.child_token());
        Self { offer, subscribed, tells_unasked: AtomicBool::new(false), listeners, has_ended }
    }

    /// Subscribes a client of an older revision to a resource.
    pub(super) async fn subscribe(
        &self,
        uri: &str,
        client: Option<String>,
    ) -> Result<(), ErrorData> {
        self.offer.watch(uri, client).await.map_err(|it| lists::read_error(it, uri))?;
        let mut subscribed = self.subscribed.lock();
        let has_room = subscribed.len() < SUBSCRIPTIONS || subscribed.contains(uri);
        if !has_room || !subscribed.insert(uri.to_owned()) {
            self.offer.unwatch(uri);
        }
        if !has_room {
            let message = format!("no more than {SUBSCRIPTIONS} resources can be subscribed to");
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(())
    }

    /// Ends a subscription to a resource.
    pub(super) fn unsubscribe(&self, uri: &str) {
        if self.subscribed.lock().remove(uri) {
            self.offer.unwatch(uri);
        }
    }

    /// Notifies a client of an older revision of changes from now on, until it is gone.
    pub(super) fn tell_unasked(&self, peer: Peer<RoleServer>) {
        if self.tells_unasked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut changes, subscribed) = (self.offer.changes(), Arc::clone(&self.subscribed));
        let (has_resources, stop) = (self.offer.has_resources(), self.has_ended.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                let told = match changes.recv().await {
                    Err(RecvError::Closed) => return,
                    Ok(change) => vec![change],
                    Err(RecvError::Lagged(_)) => everything(subscribed.lock().iter()),
                };
                for change in told {
                    let sent = match change {
                        CatalogChange::Tools => peer.notify_tool_list_changed().await,
                        CatalogChange::Resources if has_resources => {
                            peer.notify_resource_list_changed().await
                        }
                        CatalogChange::Resource(uri) if subscribed.lock().contains(&*uri) => {
                            let uri = ResourceUpdatedNotificationParam::new(uri.to_string());
                            peer.notify_resource_updated(uri).await
                        }
                        CatalogChange::Resources | CatalogChange::Resource(_) => continue,
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            }
        }));
    }

    /// Notifies a client of the changes that it listens for, until it stops listening.
    pub(super) async fn listen(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_listener) = self.listeners.try_acquire() else {
            let message = "there are as many listeners as there can be at once";
            return Err(ErrorData::invalid_params(message, None));
        };
        let (mut changes, has_resources) = (self.offer.changes(), self.offer.has_resources());
        let mut watched = WatchedResources { offer: &*self.offer, uris: Vec::new() };
        let client = calls::client(context.request_context());
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            // A resource that cannot be read never causes a notification.
            if self.offer.watch(uri, client.clone()).await.is_ok() {
                watched.uris.push(uri.clone());
            }
        }
        if context.accepted().resources_list_changed == Some(true) {
            // Later changes are relative to this list. If it cannot be read, it has no changes.
            let _ = self.offer.resources(client).await;
        }
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.has_ended.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let told = match change {
                Err(RecvError::Closed) => return Ok(()),
                Ok(change) => vec![change],
                Err(RecvError::Lagged(_)) => everything(watched.uris.iter()),
            };
            let sink = context.sink();
            for change in told {
                // The sink drops a change that the client does not listen for.
                let _ = match change {
                    CatalogChange::Tools => sink.notify_tool_list_changed().await,
                    CatalogChange::Resources if has_resources => {
                        sink.notify_resource_list_changed().await
                    }
                    CatalogChange::Resource(uri) if watched.uris.iter().any(|it| **it == *uri) => {
                        sink.notify_resource_updated(uri.to_string()).await
                    }
                    CatalogChange::Resources | CatalogChange::Resource(_) => Ok(()),
                };
            }
        }
    }
}

/// Returns all changes that a client may have missed.
fn everything<'a>(uris: impl Iterator<Item = &'a String>) -> Vec<CatalogChange> {
    let texts = uris.map(|uri| CatalogChange::Resource(uri.as_str().into()));
    [CatalogChange::Tools, CatalogChange::Resources].into_iter().chain(texts).collect()
}

impl<O: Offer> Drop for ConnectionNotices<O> {
    fn drop(&mut self) {
        self.has_ended.cancel();
        for uri in self.subscribed.lock().drain() {
            self.offer.unwatch(&uri);
        }
    }
}

/// Returns the part of a filter that this server supports.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    accepted.prompts_list_changed = None;
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.truncate(SUBSCRIPTIONS);
    }
    accepted
}

/// The resources that one listener watches.
struct WatchedResources<'a, O: Offer> {
    offer: &'a O,
    uris: Vec<String>,
}

impl<O: Offer> Drop for WatchedResources<'_, O> {
    fn drop(&mut self) {
        for uri in &self.uris {
            self.offer.unwatch(uri);
        }
    }
}
