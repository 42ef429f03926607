//! One provider at one address: sends a request, and reads the stream that answers it.

use std::time::Duration;

use crate::{Answer, Event, Failure, Key, Provider, Request};

/// Where requests go, and how long they may take.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Whose interface is spoken there.
    pub provider: Provider,
    /// Where, if not at the provider's own address: ending in `/v1` for OpenAI's two
    /// interfaces, without a version for the others.
    pub base_url: Option<String>,
    /// What opens it; local servers want none.
    pub key: Option<Key>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long nothing may come once it is made.
    pub silence: Duration,
}

/// Sends requests to one endpoint.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
}

impl Client {
    /// A client of an endpoint. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// [`crate::FailureKind::Address`]: the base URL is none.
    pub fn new(endpoint: Endpoint) -> Result<Self, Failure> {
        Ok(Self { endpoint })
    }

    /// Whose interface is spoken.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.endpoint.provider
    }

    /// Sends a request and tells of the answer while it arrives. Dropping the future ends
    /// the request.
    ///
    /// Failures that pass are tried again, at most 4 times, unless something was shown:
    /// a text or a call that was told of.
    ///
    /// # Errors
    ///
    /// No whole answer came; what was told of until then is no part of the conversation.
    pub async fn send(
        &self,
        request: &Request<'_>,
        tell: &mut (dyn for<'e> FnMut(Event<'e>) + Send),
    ) -> Result<Answer, Failure> {
        let _ = (request, tell);
        unimplemented!("written next")
    }
}
