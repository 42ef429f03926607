//! The sessions of clients of older revisions. Only the principal that began a session can find it,
//! and only with the scopes of the token that began it. Within a session, each id belongs to at most
//! one request in flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use tokio::time::Instant;

use super::principal::Principal;
use crate::wire::{RequestAdmission, RequestIds, answered, cancelled};

/// All sessions of a server.
pub(super) struct Sessions {
    local: LocalSessionManager,
    most: usize,
    begun: Mutex<HashMap<SessionId, ClientSession>>,
}

/// A session that has begun.
struct ClientSession {
    principal: Principal,
    /// The time of its last request.
    used: Instant,
    requests: Arc<RequestIds>,
}

/// The library's transport of a session, which sends the answers.
pub(super) struct Answering {
    inner: <LocalSessionManager as SessionManager>::Transport,
    requests: Arc<RequestIds>,
}

impl Transport<RoleServer> for Answering {
    type Error =
        <<LocalSessionManager as SessionManager>::Transport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        // Before it is sent, because a client that has its answer may use the id again.
        if let Some(id) = answered(&message) {
            self.requests.end(id);
        }
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The reason why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// Other principals have all the sessions.
    #[error("there are as many sessions as there can be")]
    Full,
    /// The id of a request is not allowed.
    #[error("{0}")]
    Id(ErrorData),
    /// The library cannot use the session.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    /// Creates room for `most` sessions. A session ends after it was idle for `idle`.
    pub(super) fn new(most: usize, idle: Duration) -> Arc<Self> {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(idle);
        // An answer that was sent is not kept. Otherwise a client could make the server keep any
        // number of answers.
        config.completed_cache_ttl = Duration::ZERO;
        let mut local = LocalSessionManager::default();
        local.session_config = config;
        Arc::new(Self { local, most, begun: Mutex::default() })
    }

    /// Returns whether this principal can begin a session.
    pub(super) fn has_room(&self, principal: &str) -> bool {
        let begun = self.begun.lock();
        begun.len() < self.most || begun.values().any(|it| it.principal.name() == principal)
    }

    /// Returns the sessions of one principal.
    pub(super) fn for_principal(self: &Arc<Self>, principal: &Principal) -> Arc<OwnSessions> {
        Arc::new(OwnSessions { all: Arc::clone(self), principal: principal.clone() })
    }

    /// Returns an error if another request of the session already has this id.
    pub(super) fn taken(
        &self,
        principal: &Principal,
        id: &str,
        request: &RequestId,
    ) -> Option<ErrorData> {
        let begun = self.begun.lock();
        let session = begun.get(id).filter(|it| it.principal.shares_sessions(principal))?;
        session.requests.taken(request)
    }
}

/// The sessions of one principal. It cannot see other principals' sessions, or those that it began
/// with other scopes.
pub(super) struct OwnSessions {
    all: Arc<Sessions>,
    principal: Principal,
}

impl OwnSessions {
    /// Returns whether this principal began the session, with the same scopes. If so, records that
    /// the session is used.
    fn is_own(&self, id: &SessionId) -> bool {
        match self.all.begun.lock().get_mut(id) {
            Some(begun) if begun.principal.shares_sessions(&self.principal) => {
                begun.used = Instant::now();
                true
            }
            _ => false,
        }
    }

    fn check(&self, id: &SessionId) -> Result<(), SessionError> {
        self.requests(id).map(drop)
    }

    /// Returns the requests in flight of this principal's session, and records that it is used.
    fn requests(&self, id: &SessionId) -> Result<Arc<RequestIds>, SessionError> {
        if self.is_own(id)
            && let Some(begun) = self.all.begun.lock().get(id)
        {
            return Ok(Arc::clone(&begun.requests));
        }
        Err(LocalSessionManagerError::SessionNotFound(id.clone()).into())
    }

    /// Reserves a place for a new session. If all places are taken, replaces the principal's own
    /// session that has been unused for longest, and returns its id.
    fn begin(
        &self,
        id: &SessionId,
        requests: &Arc<RequestIds>,
    ) -> Result<Option<SessionId>, SessionError> {
        let mut begun = self.all.begun.lock();
        let mut oldest = None;
        if begun.len() >= self.all.most {
            let name = self.principal.name();
            let own = begun.iter().filter(|(_, it)| it.principal.name() == name);
            oldest = own.min_by_key(|(_, it)| it.used).map(|(id, _)| id.clone());
            begun.remove(oldest.as_ref().ok_or(SessionError::Full)?);
        }
        let principal = self.principal.clone();
        let requests = Arc::clone(requests);
        begun.insert(id.clone(), ClientSession { principal, used: Instant::now(), requests });
        Ok(oldest)
    }
}

impl SessionManager for OwnSessions {
    type Error = SessionError;
    type Transport = Answering;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let local = &self.all.local;
        let (id, inner) = local.create_session().await?;
        let requests = Arc::<RequestIds>::default();
        match self.begin(&id, &requests) {
            Ok(None) => {}
            Ok(Some(oldest)) => local.close_session(&oldest).await?,
            Err(full) => {
                local.close_session(&id).await?;
                return Err(full);
            }
        }
        Ok((id, Answering { inner, requests }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        self.check(id)?;
        Ok(self.all.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.is_own(id) && self.all.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        if !self.is_own(id) {
            return Ok(());
        }
        self.all.begun.lock().remove(id);
        Ok(self.all.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let requests = self.requests(id)?;
        let begun = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        if let Some(id) = &begun
            && let RequestAdmission::Busy(_, error) | RequestAdmission::Refused(error) =
                requests.begin(id.clone())
        {
            return Err(SessionError::Id(error));
        }
        let stream = self.all.local.create_stream(id, message).await;
        if let (Err(_), Some(id)) = (&stream, &begun) {
            requests.end(id);
        }
        Ok(stream?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let requests = self.requests(id)?;
        if let Some(request) = cancelled(&message) {
            requests.cancel(request);
        }
        Ok(self.all.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.check(id)?;
        Ok(self.all.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.check(id)?;
        Ok(self.all.local.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(most: usize) -> (Arc<OwnSessions>, Arc<OwnSessions>) {
        let all = Sessions::new(most, Duration::from_secs(60));
        let own = |name| all.for_principal(&Principal::with_all(name));
        (own("one"), own("other"))
    }

    #[tokio::test]
    async fn a_session_is_found_by_its_principal_alone() {
        let (one, other) = sessions(8);
        let (id, _transport) = one.create_session().await.expect("room");
        assert!(one.has_session(&id).await.expect("known"));
        assert!(!other.has_session(&id).await.expect("known"));
        assert!(other.create_standalone_stream(&id).await.is_err());
        assert!(other.resume(&id, "0".to_owned()).await.is_err());
        // The answer is the same as for a session that never existed.
        other.close_session(&id).await.expect("nothing to do");
        assert!(one.has_session(&id).await.expect("known"));
        one.close_session(&id).await.expect("closed");
        assert!(!one.has_session(&id).await.expect("known"));
    }

    #[tokio::test]
    async fn a_session_is_found_with_the_scopes_that_began_it_alone() {
        let all = Sessions::new(1, Duration::from_secs(60));
        let of = |tools, documents| all.for_principal(&Principal::new("one", tools, documents));
        let begun = of(true, true);
        let (id, _transport) = begun.create_session().await.expect("room");
        for (tools, documents) in [(true, false), (false, true), (false, false)] {
            let other = of(tools, documents);
            assert!(!other.has_session(&id).await.expect("known"), "{tools} {documents}");
            assert!(other.create_standalone_stream(&id).await.is_err());
            assert!(other.resume(&id, "0".to_owned()).await.is_err());
            other.close_session(&id).await.expect("nothing to do");
        }
        // A later token with the same scopes continues the session.
        let later = Principal::new("one", true, true).until(Some(std::time::SystemTime::now()));
        assert!(all.for_principal(&later).has_session(&id).await.expect("known"));
        // The principal has one share of the places, whatever the scopes of its sessions are.
        assert!(all.has_room("one"));
        let (second, _second) = of(true, false).create_session().await.expect("its own place");
        assert!(!begun.has_session(&id).await.expect("known"));
        assert!(of(true, false).has_session(&second).await.expect("known"));
    }

    #[tokio::test]
    async fn a_principal_takes_no_place_of_another() {
        let (one, other) = sessions(2);
        let (first, _first) = one.create_session().await.expect("room");
        let (second, _second) = one.create_session().await.expect("room");
        assert!(!other.all.has_room("other") && other.all.has_room("one"));
        assert!(matches!(other.create_session().await, Err(SessionError::Full)));
        // The second session began later, and the first is used again.
        assert!(one.has_session(&first).await.expect("known"));
        let (third, _third) = one.create_session().await.expect("the place of the second");
        for (id, expected) in [(first, true), (second, false), (third, true)] {
            assert_eq!(one.has_session(&id).await.expect("known"), expected);
        }
    }
}
