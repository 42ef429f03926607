//! The client of one provider at one address. It sends requests, tries again if that may help, and
//! reads the stream of the answer.
//!
//! The client logs nothing that it sends or receives.

mod address;
mod answer_reader;
mod read_timeout;
mod retry;
mod transport;

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::time::sleep;
use url::Url;

use self::address::Address;
pub(crate) use self::answer_reader::AnswerReader;
use self::read_timeout::ReadTimeout;
use self::transport::{ProviderResponse, ProviderTransport};
use crate::wire::{Flow, OnAnswerEvent, outgoing, stream_reader};
use crate::{
    AnswerEvent, ApiKey, FailureKind, ModelAnswer, ModelRequest, Provider, RequestFailure,
    RequestHeader,
};

/// The address of a provider, and the timeouts of requests to it. `Debug` shows no secret of the
/// address.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider whose interface the server has.
    pub provider: Provider,
    /// The base URL, if it is not [`Provider::own_base_url`]. It ends in `/v1` for OpenAI's two
    /// interfaces and has no version for the others. A trailing slash makes no difference.
    pub base_url: Option<String>,
    /// The API key. Local servers need none.
    pub key: Option<ApiKey>,
    /// The headers that are added to every request, because some gateways require them. A later
    /// header replaces an earlier one that has the same name. Only two of the client's own headers
    /// can be replaced: the user agent and the version.
    pub headers: Vec<RequestHeader>,
    /// The time limit for making a connection, including a proxy and TLS.
    pub connect_timeout: Duration,
    /// The time limit without any data once the connection is made, before the answer begins and
    /// while it arrives. Keep-alives, such as comments in the stream or Anthropic's `ping`, extend
    /// it to at most six times this, counted from the last event that carried more.
    pub silence_timeout: Duration,
    /// The wait before the second attempt, unless the server asks for a longer one. Each further
    /// wait is twice as long, up to 8 seconds, and each varies by a quarter.
    pub first_wait: Duration,
}

impl Endpoint {
    /// Creates the endpoint of a provider at its own address, without a key. The limits are 10 s
    /// for a connection and 300 s without data, because models send nothing while they think. The
    /// first wait is 500 ms.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            base_url: None,
            key: None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(300),
            first_wait: Duration::from_millis(500),
        }
    }

    /// Returns the base URL without user, password and query, so that it may be shown.
    #[must_use]
    pub fn shown_base_url(&self) -> String {
        match &self.base_url {
            Some(address) => address::shown(address),
            None => self.provider.own_base_url().to_owned(),
        }
    }

    /// Checks that the base URL is an address that requests can be sent to.
    ///
    /// # Errors
    ///
    /// Fails with [`FailureKind::Address`].
    pub fn check_address(&self) -> Result<(), RequestFailure> {
        Address::from_endpoint(self).map(drop)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("base_url", &self.base_url.as_deref().map(address::shown))
            .field("key", &self.key)
            .field("headers", &self.headers)
            .field("connect_timeout", &self.connect_timeout)
            .field("silence_timeout", &self.silence_timeout)
            .field("first_wait", &self.first_wait)
            .finish()
    }
}

/// Sends requests to one endpoint. Connections are kept for the next request.
#[derive(Debug)]
pub struct ModelClient {
    endpoint: Endpoint,
    address: Address,
    transport: ProviderTransport,
}

/// The parts of a request that are the same in each attempt.
struct Sending<'a> {
    request: &'a ModelRequest<'a>,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl ModelClient {
    /// Creates a client of an endpoint. No connection is opened yet.
    ///
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are read here, and the certificates
    /// that this machine trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    ///
    /// # Errors
    ///
    /// Fails with [`FailureKind::Address`] if the base URL is not valid, and with
    /// [`FailureKind::Key`] if the key has characters that no key can have.
    pub fn new(endpoint: Endpoint) -> Result<Self, RequestFailure> {
        Self::with_proxies(endpoint, &Matcher::from_env())
    }

    /// Creates a client that uses these proxies.
    fn with_proxies(endpoint: Endpoint, proxies: &Matcher) -> Result<Self, RequestFailure> {
        let address = Address::from_endpoint(&endpoint)?;
        let transport = ProviderTransport::new(&endpoint, &address, proxies)?;
        let client = Self { endpoint, address, transport };
        client.headers()?;
        Ok(client)
    }

    /// Returns the provider whose interface is used.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.endpoint.provider
    }

    /// Returns whether requests would fail for lack of a key. A key is required at the provider's
    /// own address; other servers may not need one.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        self.endpoint.key.is_none() && self.address.is_own()
    }

    /// Sends a request and reports events while the answer arrives. Dropping the future ends the
    /// request.
    ///
    /// Temporary failures are retried up to 4 times, unless a text was already reported. If an
    /// answer breaks off after a call began, it is requested once more, since the call has not run;
    /// everything that was reported of it is void. If a server asks for a wait of more than 60 s,
    /// the request fails instead; [`RequestFailure::retry_after`] has the time.
    ///
    /// # Errors
    ///
    /// Fails if there was no complete answer. Events that were reported until then are not part of
    /// the conversation.
    pub async fn send(
        &self,
        request: &ModelRequest<'_>,
        on_event: &mut (dyn for<'e> FnMut(AnswerEvent<'e>) + Send),
    ) -> Result<ModelAnswer, RequestFailure> {
        let provider = self.endpoint.provider;
        if self.lacks_key() {
            return Err(RequestFailure::new(provider, FailureKind::NoKey { provider }));
        }
        let outgoing = outgoing(provider, request, self.address.is_own());
        let sending = Sending {
            request,
            url: self.address.join(&outgoing),
            headers: self.headers()?,
            body: outgoing.body.into(),
        };
        let mut attempt = 1;
        let mut was_cut_in_call = false;
        loop {
            let (mut has_text, mut has_call) = (false, false);
            let mut watched = |event: AnswerEvent<'_>| {
                has_text |= matches!(event, AnswerEvent::Text(_));
                has_call |= matches!(event, AnswerEvent::Call(_));
                on_event(event);
            };
            let failure = match self.attempt(&sending, &mut watched).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => self.sanitized(failure.of_images(request.images()), request),
            };
            let wait = retry::wait(&failure, attempt, self.endpoint.first_wait);
            let may_ask_again = match (has_call, has_text) {
                (true, _) => !std::mem::replace(&mut was_cut_in_call, true),
                (false, has_text) => !has_text,
            };
            let Some(wait) = wait.filter(|_| may_ask_again) else { return Err(failure) };
            on_event(AnswerEvent::Retry { attempt, wait, failure: &failure });
            sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        sending: &Sending<'_>,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<ModelAnswer, RequestFailure> {
        let provider = self.endpoint.provider;
        let sent = self.transport.post(&sending.url, &sending.headers, &sending.body);
        let mut response = match sent.await? {
            ProviderResponse::Stream(response) => response,
            ProviderResponse::Document(document) => {
                return Err(document.failure(provider, sending.request.model));
            }
        };
        let mut answer_reader =
            AnswerReader::new(provider, stream_reader(provider, sending.request));
        let mut read_timeout = ReadTimeout::new(self.endpoint.silence_timeout, Instant::now());
        loop {
            let wait = read_timeout.wait(Instant::now());
            let bytes = match self.transport.next(&mut response, wait).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(_) if read_timeout.has_answer() => break,
                Err(failure) => return Err(answer_reader.broken_off(failure)),
            };
            let flow = answer_reader.feed(&bytes, on_event)?;
            if flow == Flow::Done {
                self.transport.finish(response);
                break;
            }
            read_timeout.received(flow, Instant::now());
        }
        answer_reader.finish()
    }

    /// Adds details to a failure that only this client knows, and removes secrets from it.
    fn sanitized(&self, mut failure: RequestFailure, request: &ModelRequest<'_>) -> RequestFailure {
        if let FailureKind::UnknownModel { model } = &mut failure.kind {
            request.model.clone_into(model);
            if let Some(version) = self.address.needless_version(self.endpoint.provider) {
                let advice =
                    format!("the address must be without `/{version}`, which every request adds");
                let detail =
                    [advice, failure.detail].into_iter().filter(|detail| !detail.is_empty());
                failure.detail = detail.collect::<Vec<_>>().join("; ");
            }
        }
        let key = self.endpoint.key.as_ref().map_or("", ApiKey::reveal);
        let mut secrets = vec![key];
        secrets.extend(self.endpoint.headers.iter().filter_map(RequestHeader::reveal));
        secrets.extend(self.transport.secrets());
        secrets.extend(self.address.secrets());
        failure.sanitized(&secrets)
    }

    fn headers(&self) -> Result<HeaderMap, RequestFailure> {
        let mut headers = address::headers(self.endpoint.provider, self.endpoint.key.as_ref())?;
        headers.extend(self.endpoint.headers.iter().map(RequestHeader::pair));
        Ok(headers)
    }
}

#[cfg(test)]
mod tests;
