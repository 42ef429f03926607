//! A server that listens on a free port, sends the replies of the test, and records the requests.

mod connection;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};

use crate::check;
use crate::issued::Issued;
use crate::refusal::Refusal;
use crate::reply::{Delivery, Kind, Reply};
use crate::stream::{self, Asked, Step};
use crate::{Received, Vendor};

/// A server with a separate thread. Dropping it closes its port and every connection.
pub struct FakeServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The settings of a server that has not started.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    vendor: Vendor,
    wants_key: bool,
    checks: bool,
}

/// The function that returns the reply to a valid request, or nothing if no reply is left.
type Handler = Box<dyn FnMut(&Received) -> Option<Reply> + Send>;

/// The state that the connections share.
struct Shared {
    builder: Builder,
    handler: Mutex<Handler>,
    state: Mutex<State>,
    counts: watch::Sender<Counts>,
}

#[derive(Default)]
struct State {
    issued: Issued,
    requests: Vec<Received>,
    violations: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: usize,
    hang_ups: usize,
}

/// A reply that is ready to be sent.
enum Plan {
    Response {
        status: u16,
        content_type: String,
        headers: Vec<(String, String)>,
        steps: Vec<Step>,
        delivery: Delivery,
    },
    Silence(crate::Gate),
    HangUp,
}

impl Builder {
    /// Makes the server accept requests without a key, as local servers do.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.wants_key = false;
        self
    }

    /// Makes the server accept requests of clients by other authors. These use fields that the
    /// checks do not know, and paths that the server does not have, which it answers with 404.
    #[must_use]
    pub fn for_other_clients(mut self) -> Self {
        self.checks = false;
        self
    }

    /// Starts the server with replies, which it sends in their order. A request after the last
    /// reply is a violation.
    ///
    /// # Panics
    ///
    /// Panics if the system has no free port or cannot start a thread.
    #[must_use]
    pub fn start(self, replies: impl IntoIterator<Item = Reply>) -> FakeServer {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        self.run(move |_| replies.pop_front())
    }

    /// Starts the server with a function that returns the reply to each valid request.
    ///
    /// # Panics
    ///
    /// Panics if the system has no free port or cannot start a thread.
    #[must_use]
    pub fn start_with(
        self,
        mut handler: impl FnMut(&Received) -> Reply + Send + 'static,
    ) -> FakeServer {
        self.run(move |request| Some(handler(request)))
    }

    fn run(self, handler: impl FnMut(&Received) -> Option<Reply> + Send + 'static) -> FakeServer {
        let shared = Arc::new(Shared {
            builder: self,
            handler: Mutex::new(Box::new(handler)),
            state: Mutex::default(),
            counts: watch::Sender::default(),
        });
        FakeServer::run(shared).expect("a port and a thread for a server")
    }
}

impl FakeServer {
    /// Returns the settings of a server of this vendor.
    #[must_use]
    pub fn for_vendor(vendor: Vendor) -> Builder {
        Builder { vendor, wants_key: true, checks: true }
    }

    /// Starts a server with replies, which it sends in their order.
    ///
    /// # Panics
    ///
    /// Panics if the system has no free port or cannot start a thread.
    #[must_use]
    pub fn start(vendor: Vendor, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::for_vendor(vendor).start(replies)
    }

    /// Starts a server with a function that returns the reply to each valid request.
    ///
    /// # Panics
    ///
    /// Panics if the system has no free port or cannot start a thread.
    #[must_use]
    pub fn with(vendor: Vendor, handler: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        Self::for_vendor(vendor).start_with(handler)
    }

    fn run(shared: Arc<Shared>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let connections = shared.clone();
        let thread = thread::Builder::new().name("fake server".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)
                    .expect("a listener that does not block");
                tokio::select! {
                    () = connection::accept(listener, connections) => {}
                    // Either a message or a dropped sender ends the server.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, shared, handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the vendor whose interface the server has.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.shared.builder.vendor
    }

    /// Returns the base URL for a client: it ends in `/v1` for OpenAI's two interfaces, and has no
    /// version for the others.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.vendor().prefix())
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns every request so far, refused ones included, in the order in which they were read.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.shared.state().requests.clone()
    }

    /// Returns the faults of the requests so far: requests that the vendor would have refused, and
    /// requests for which no reply was left.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.state().violations.clone()
    }

    /// Returns how many times a client closed the connection before the reply was complete.
    #[must_use]
    pub fn hang_ups(&self) -> usize {
        self.shared.counts.borrow().hang_ups
    }

    /// Waits until this many requests have been read.
    pub async fn requests_reach(&self, requests: usize) {
        self.wait(|counts| counts.requests >= requests).await;
    }

    /// Waits until clients have closed this many connections before the reply was complete.
    pub async fn hang_ups_reach(&self, hang_ups: usize) {
        self.wait(|counts| counts.hang_ups >= hang_ups).await;
    }

    /// Waits on the server's runtime, for tests that have no runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    async fn wait(&self, is_so: impl Fn(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        // The sender is in `self`, so that it cannot be closed.
        let _ = counts.wait_for(is_so).await;
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vendor, address) = (self.vendor(), self.address);
        f.debug_struct("FakeServer")
            .field("vendor", &vendor)
            .field("address", &address)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no connection panicked")
    }

    /// Returns the plan for the reply to a request.
    fn plan(&self, request: Received) -> Plan {
        let reply = self.check(&request).and_then(|()| self.reply(&request));
        let vendor = self.builder.vendor;
        let mut state = self.state();
        let plan = match reply {
            Ok(reply) => plan(vendor, reply, &request, &mut state.issued),
            Err(refusal) if !self.builder.checks => {
                respond(vendor, &refusal, Vec::new(), Delivery::default())
            }
            Err(refusal) => {
                let number = state.requests.len() + 1;
                state.violations.push(format!("request {number}: {}", refusal.message));
                respond(vendor, &refusal, Vec::new(), Delivery::default())
            }
        };
        state.requests.push(request);
        drop(state);
        self.counts.send_modify(|counts| counts.requests += 1);
        plan
    }

    fn reply(&self, request: &Received) -> Result<Reply, Refusal> {
        let mut handler = self.handler.lock().expect("no handler panicked");
        handler(request).ok_or_else(|| Refusal::new(500, "the test has no reply left"))
    }

    fn check(&self, request: &Received) -> Result<(), Refusal> {
        let vendor = self.builder.vendor;
        if !self.builder.checks {
            return check::path(vendor, request);
        }
        if self.builder.wants_key && vendor.key(request).is_none_or(str::is_empty) {
            return Err(Refusal::new(401, "Missing authentication"));
        }
        check::check(vendor, request, &self.state().issued)
    }

    fn hung_up(&self) {
        self.counts.send_modify(|counts| counts.hang_ups += 1);
    }
}

fn plan(vendor: Vendor, reply: Reply, request: &Received, issued: &mut Issued) -> Plan {
    let (headers, delivery) = (reply.headers, reply.delivery);
    match reply.kind {
        Kind::Answer(answer) => {
            let model = vendor.model(request).unwrap_or_default();
            let mut asked = Asked { model, request, issued };
            let steps = stream::render(vendor, &answer, &mut asked);
            let content_type = answer.content_type;
            Plan::Response { status: 200, content_type, headers, steps, delivery }
        }
        Kind::Trouble(trouble) => respond(vendor, &trouble.refusal(vendor), headers, delivery),
        Kind::Status { status, message } => {
            respond(vendor, &Refusal::new(status, message), headers, delivery)
        }
        Kind::Raw { status, content_type, body } => Plan::Response {
            status,
            content_type,
            headers,
            steps: vec![Step::Bytes(body)],
            delivery,
        },
        Kind::Silence(gate) => Plan::Silence(gate),
        Kind::HangUp => Plan::HangUp,
    }
}

/// Returns an error in the vendor's JSON.
fn respond(
    vendor: Vendor,
    refusal: &Refusal,
    headers: Vec<(String, String)>,
    delivery: Delivery,
) -> Plan {
    let body = refusal.body(vendor);
    Plan::Response {
        status: refusal.status,
        content_type: "application/json; charset=UTF-8".to_owned(),
        headers,
        steps: vec![Step::Bytes(body.to_string().into_bytes())],
        delivery,
    }
}
