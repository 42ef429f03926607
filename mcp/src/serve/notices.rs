//! Notifications of changes, for the clients that want them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::offer::{Change, Offer};

/// The resources that one connection may subscribe to.
const SUBSCRIPTIONS: usize = 1000;

/// The notifications of one connection.
pub(super) struct Notices<O: Offer> {
    offer: Arc<O>,
    /// The resources that a client of an older revision subscribed to.
    subscribed: Arc<Mutex<HashSet<String>>>,
    tells_unasked: AtomicBool,
    stop: CancellationToken,
}

impl<O: Offer> Notices<O> {
    /// Returns notifications that end when `stop` is cancelled.
    pub(super) fn new(offer: Arc<O>, stop: CancellationToken) -> Self {
        Self { offer, subscribed: Arc::default(), tells_unasked: AtomicBool::new(false), stop }
    }

    /// Subscribes a client of an older revision to a resource.
    pub(super) fn subscribe(&self, uri: &str) -> Result<(), ErrorData> {
        let mut subscribed = lock(&self.subscribed);
        if subscribed.len() >= SUBSCRIPTIONS && !subscribed.contains(uri) {
            let message = format!("no more than {SUBSCRIPTIONS} resources can be subscribed to");
            return Err(ErrorData::invalid_params(message, None));
        }
        if subscribed.insert(uri.to_owned()) {
            self.offer.watch(uri, true);
        }
        Ok(())
    }

    /// Ends such a subscription.
    pub(super) fn unsubscribe(&self, uri: &str) {
        if lock(&self.subscribed).remove(uri) {
            self.offer.watch(uri, false);
        }
    }

    /// Tells a client of an older revision of changes from now on, until it is gone.
    pub(super) fn tell_unasked(&self, peer: Peer<RoleServer>) {
        if self.tells_unasked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut changes, subscribed) = (self.offer.changes(), Arc::clone(&self.subscribed));
        let has_resources = self.offer.has_resources();
        let stop = self.stop.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                let sent = match changes.recv().await {
                    Err(RecvError::Closed) => return,
                    Ok(Change::Tools) => peer.notify_tool_list_changed().await,
                    Ok(Change::Resources) if has_resources => {
                        peer.notify_resource_list_changed().await
                    }
                    Ok(Change::Resource(uri)) if lock(&subscribed).contains(&*uri) => {
                        let uri = ResourceUpdatedNotificationParam::new(uri.to_string());
                        peer.notify_resource_updated(uri).await
                    }
                    Ok(Change::Resources | Change::Resource(_)) => continue,
                    Err(RecvError::Lagged(_)) => peer.notify_tool_list_changed().await,
                };
                if sent.is_err() {
                    return;
                }
            }
        }));
    }

    /// Tells a client of the changes that it listens for, until it no longer does.
    pub(super) async fn listen(&self, context: &SubscriptionContext) {
        let mut changes = self.offer.changes();
        let watched = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let _watched = Watched::new(&*self.offer, watched);
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return,
                change = changes.recv() => change,
            };
            // A change that the client does not listen for is refused by the sink.
            let sink = context.sink();
            let _ = match change {
                Err(RecvError::Closed) => return,
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Resources) => sink.notify_resource_list_changed().await,
                Ok(Change::Resource(uri)) => sink.notify_resource_updated(uri.to_string()).await,
                Err(RecvError::Lagged(_)) => {
                    let _ = sink.notify_tool_list_changed().await;
                    sink.notify_resource_list_changed().await
                }
            };
        }
    }
}

impl<O: Offer> Drop for Notices<O> {
    fn drop(&mut self) {
        for uri in lock(&self.subscribed).drain() {
            self.offer.watch(&uri, false);
        }
    }
}

/// Returns the part of a filter that this server can keep.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    accepted.prompts_list_changed = None;
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.truncate(SUBSCRIPTIONS);
    }
    accepted
}

/// The resources that one listener has watched.
struct Watched<'a, O: Offer> {
    offer: &'a O,
    uris: Vec<String>,
}

impl<'a, O: Offer> Watched<'a, O> {
    fn new(offer: &'a O, uris: Vec<String>) -> Self {
        for uri in &uris {
            offer.watch(uri, true);
        }
        Self { offer, uris }
    }
}

impl<O: Offer> Drop for Watched<'_, O> {
    fn drop(&mut self) {
        for uri in &self.uris {
            self.offer.watch(uri, false);
        }
    }
}

fn lock(subscribed: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    subscribed.lock().unwrap_or_else(PoisonError::into_inner)
}
