//! The settings of a server over HTTP, and its bounds.

use std::time::Duration;

use super::access::Access;
use super::admission::{Admission, InvalidAdmission};
use super::tls::Tls;

/// The settings of a server over HTTP.
#[derive(Debug)]
pub struct HttpSettings {
    pub(super) access: Access,
    pub(super) admission: Admission,
    pub(super) tls: Option<Tls>,
    pub(super) bounds: HttpBounds,
}

/// The bounds of a server over HTTP. They are settings for tests alone.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct HttpBounds {
    /// The connections at once.
    pub connections: usize,
    /// Those of them that belong to nobody yet: no request of theirs was authenticated.
    pub unauthenticated: usize,
    /// Those of one principal.
    pub of_principal: usize,
    /// Those of one session.
    pub of_session: usize,
    /// The sessions of clients of older revisions.
    pub sessions: usize,
    /// The listeners to changes, of all clients.
    pub listeners: usize,
    /// The time that a connection which belongs to nobody has before it makes room for another.
    pub asks_within: Duration,
    /// The time after which a connection ends that belongs to nobody. TLS must be agreed on in it.
    pub unauthenticated_within: Duration,
    /// The time in which the headers of a request must have come.
    pub headers_within: Duration,
    /// The time in which a body must have come.
    pub body_within: Duration,
    /// The time in which a client must have read something of what it is sent.
    pub read_within: Duration,
    /// The time after which a session ends that nobody used.
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
    /// Returns the settings of a server without TLS that is reached by the names of this machine, and
    /// by that which its tokens are for, and by no page of a browser.
    #[must_use]
    pub fn new(access: Access) -> Self {
        let mut admission = Admission::default();
        if let Access::OAuth(oauth) = &access {
            admission.allow_name(oauth.host());
        }
        Self { access, admission, tls: None, bounds: HttpBounds::default() }
    }

    /// Allows requests for one more host: a name or an address, which stands for all of its ports
    /// where it has none.
    ///
    /// # Errors
    ///
    /// It is no host.
    pub fn allow_host(mut self, host: &str) -> Result<Self, InvalidAdmission> {
        self.admission.allow_host(host)?;
        Ok(self)
    }

    /// Allows requests of pages of one more origin, such as `https://app.example`.
    ///
    /// # Errors
    ///
    /// It is no origin.
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
