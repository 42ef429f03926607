//! The settings of a server over HTTP, and its bounds.

use std::time::Duration;

use super::access::ClientAccess;
use super::admission::{InvalidAdmission, OriginRules};
use super::tls::Tls;

/// The settings of a server over HTTP.
#[derive(Debug)]
pub struct HttpSettings {
    pub(super) access: ClientAccess,
    pub(super) admission: OriginRules,
    pub(super) tls: Option<Tls>,
    pub(super) bounds: HttpBounds,
}

/// The bounds of a server over HTTP. Only tests change them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct HttpBounds {
    /// The most connections that may be open at once.
    pub connections: usize,
    /// The most connections that may be unknown: no request on them has been authenticated.
    pub unauthenticated: usize,
    /// The most connections that one principal may have.
    pub of_principal: usize,
    /// The most connections that one session may have.
    pub of_session: usize,
    /// The most sessions that all clients of older revisions may have together.
    pub sessions: usize,
    /// The most listeners to changes that all clients may have together.
    pub listeners: usize,
    /// The time for which an unknown connection keeps its place before it must make room for
    /// another.
    pub asks_within: Duration,
    /// The time after which an unknown connection ends. It includes the TLS handshake.
    pub unauthenticated_within: Duration,
    /// The time in which the headers of a request must arrive.
    pub headers_within: Duration,
    /// The time in which a body must arrive.
    pub body_within: Duration,
    /// The time in which a client must read at least part of what the server sends.
    pub read_within: Duration,
    /// The time after which an unused session ends.
    pub idle: Duration,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            connections: 512,
            unauthenticated: 64,
            of_principal: 256,
            of_session: 128,
            sessions: 256,
            listeners: 256,
            asks_within: Duration::from_millis(50),
            unauthenticated_within: Duration::from_secs(5),
            headers_within: Duration::from_secs(10),
            body_within: Duration::from_secs(30),
            read_within: Duration::from_secs(60),
            idle: Duration::from_secs(30 * 60),
        }
    }
}

impl HttpSettings {
    /// Returns the settings of a server without TLS. It accepts requests for this machine's
    /// loopback names, and for the host that its tokens are made for, but no requests of web pages.
    #[must_use]
    pub fn new(access: ClientAccess) -> Self {
        let mut admission = OriginRules::default();
        if let ClientAccess::OAuth(oauth) = &access {
            admission.allow_name(oauth.host());
        }
        Self { access, admission, tls: None, bounds: HttpBounds::default() }
    }

    /// Allows requests for one more host: a name or an address. Without a port, it allows all
    /// ports.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a host.
    pub fn allow_host(mut self, host: &str) -> Result<Self, InvalidAdmission> {
        self.admission.allow_host(host)?;
        Ok(self)
    }

    /// Allows requests of web pages of one more origin, such as `https://app.example`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not an origin.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, InvalidAdmission> {
        self.admission.allow_origin(origin)?;
        Ok(self)
    }

    /// Serves over TLS.
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Replaces the bounds.
    #[doc(hidden)]
    #[must_use]
    pub fn bounds(self, bounds: HttpBounds) -> Self {
        Self { bounds, ..self }
    }
}
