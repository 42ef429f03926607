//! The fixtures of `network`: calls of the guest `caller` with a grant, a resolver with the answers
//! of a case, and servers that report the traffic that they receive.

use std::collections::HashMap;
use std::future::{Future, ready};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use ikigai_host::exec::output::Sink;
use ikigai_host::exec::wasm::{GuestProgram, NameResolver, Runtime, SharedNetwork};
use ikigai_host::exec::{Call, Executor as _, Exit, Outcome};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::{Grant, Net};
use ikigai_tests::paths;
use ikigai_tests::wait::TIMEOUT;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

/// The guest `caller`, compiled, in a network.
pub(crate) struct Rig {
    program: GuestProgram,
}

impl Rig {
    /// Compiles the guest for the network of this machine.
    pub(crate) fn new() -> Self {
        Self::within(SharedNetwork::default())
    }

    pub(crate) fn within(network: SharedNetwork) -> Self {
        let runtime = Runtime::with_network(8, u64::MAX, network).expect("a runtime");
        let bytes = std::fs::read(paths::guests().join("caller.wasm")).expect("the guest");
        let program = runtime.compile_here(&bytes);
        Self { program: program.expect("compiled") }
    }

    /// Calls the guest with these entries of `net` granted.
    pub(crate) fn run(&self, net: &[&str], mode: &str, targets: &str) -> Seen {
        self.run_with(net, mode, targets, |_| {})
    }

    pub(crate) fn run_with(
        &self,
        net: &[&str],
        mode: &str,
        targets: &str,
        adjust: impl FnOnce(&mut Call),
    ) -> Seen {
        let mut call = call(net, mode, targets);
        adjust(&mut call);
        let outcome = one_thread().block_on(async {
            tokio::time::timeout(TIMEOUT, self.program.run(call)).await.expect("the call ends")
        });
        Seen { outcome }
    }

    /// Calls the guest, and cancels the call after the first event.
    pub(crate) fn run_until(
        &self,
        net: &[&str],
        mode: &str,
        targets: &str,
        event: &Receiver<String>,
    ) -> Seen {
        let call = call(net, mode, targets);
        let cancel = call.cancel.clone();
        let running = self.program.run(call);
        let running = thread::spawn(move || one_thread().block_on(running));
        event.recv_timeout(TIMEOUT).expect("the event");
        cancel.cancel();
        Seen { outcome: running.join().expect("an outcome") }
    }
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn call(net: &[&str], mode: &str, targets: &str) -> Call {
    let net = Net::parse(net.iter().copied()).expect("a list");
    Call {
        args: vec![mode.into(), targets.into()],
        stderr: Sink::Tail(64 << 10),
        grant: Arc::new(Grant { net, ..Grant::default() }),
        limits: CallLimits { wall_clock: TIMEOUT, ..CallLimits::default() },
        ..Call::new(std::env::temp_dir())
    }
}

/// The result of a call.
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
}

impl Seen {
    /// Returns the result of one attempt.
    #[track_caller]
    pub(crate) fn get(&self, what: &str) -> String {
        assert_eq!(self.outcome.exit, Exit::Code(0), "{:?}", self.outcome);
        let seen: Value = serde_json::from_slice(&self.outcome.stdout.bytes).expect("JSON");
        let came = seen.get(what).and_then(Value::as_str);
        came.unwrap_or_else(|| panic!("`{what}` was not tried: {seen:#}")).to_owned()
    }

    /// Returns whether each of the attempts succeeded, in their order.
    #[track_caller]
    pub(crate) fn reached(&self, of: &[&str]) -> Vec<bool> {
        of.iter().map(|what| self.get(what) == "REACHED").collect()
    }

    pub(crate) fn denied(&self) -> Vec<&str> {
        self.outcome.denied.first.iter().map(String::as_str).collect()
    }
}

/// A resolver with a list of answers for each name. It gives them in order, and repeats the last
/// one.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Vec<String>,
}

impl Names {
    pub(crate) fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let ips = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().expect("an IP")).collect();
        let answers = answers.iter().map(ips).rev().collect();
        self.0.lock().expect("locked").answers.insert(name.to_owned(), answers);
        self
    }

    pub(crate) fn network(&self) -> SharedNetwork {
        SharedNetwork::default().resolving_with(self.clone())
    }

    /// Returns the names that were looked up.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().expect("locked").asked.clone()
    }
}

impl NameResolver for Names {
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        _: OwnedSemaphorePermit,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let mut state = self.0.lock().expect("locked");
        state.asked.push(name.to_owned());
        let answer = state.answers.get_mut(name).map(|answers| {
            if answers.len() > 1 { answers.pop() } else { answers.first().cloned() }
        });
        Box::pin(ready(answer.flatten().ok_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

/// A resolver that never answers.
pub(crate) struct Never;

impl NameResolver for Never {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: OwnedSemaphorePermit,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}

/// A server on a port that the system chose. It runs until the test ends.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The peers that connected, in order.
    accepted: Receiver<SocketAddr>,
    /// The received data: datagrams in order, the data of several connections in no fixed order.
    pub(crate) events: Receiver<String>,
}

impl Server {
    /// Starts a server that greets each peer once it has sent something.
    pub(crate) fn greeting(ip: &str) -> Self {
        Self::start(ip, |mut stream, events| {
            let mut heard = [0; 5];
            stream.read_exact(&mut heard)?;
            let _ = events.send(String::from_utf8_lossy(&heard).into_owned());
            stream.write_all(b"hello")?;
            // Waits until the other side closes.
            stream.read_to_end(&mut Vec::new()).map(drop)
        })
    }

    /// Starts a server that never sends anything. One event contains the received data, and another
    /// reports the end of the connection.
    pub(crate) fn silent(ip: &str) -> Self {
        Self::start(ip, |mut stream, events| {
            let mut heard = [0; 1024];
            loop {
                let length = stream.read(&mut heard).unwrap_or(0);
                if length == 0 {
                    let _ = events.send("left".to_owned());
                    return Ok(());
                }
                let _ = events.send(String::from_utf8_lossy(&heard[..length]).into_owned());
            }
        })
    }

    /// Starts an HTTP server. `answer` gets the stream and the path of each request. The head of
    /// the request becomes an event.
    pub(crate) fn http(
        ip: &str,
        answer: impl Fn(&mut dyn ReadWrite, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::start(ip, move |mut stream, events| serve(&mut stream, &events, &answer))
    }

    /// Starts such a server over TLS, with a certificate for `names`. Returns the certificate of
    /// its authority as well.
    pub(crate) fn https(
        ip: &str,
        mut authority: CertificateParams,
        names: &[&str],
        answer: impl Fn(&mut dyn ReadWrite, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> (Vec<u8>, Self) {
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = authority.self_signed(&key).expect("signed").der().to_vec();
        let issuer = Issuer::new(authority, key);
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let leaf = CertificateParams::new(names).expect("names");
        let leaf = leaf.signed_by(&key, &issuer).expect("signed").der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .expect("a certificate");
        let config = Arc::new(config);
        let server = Self::start(ip, move |stream, events| {
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(tls, stream);
            serve(&mut stream, &events, &answer)?;
            stream.conn.send_close_notify();
            stream.flush()
        });
        (certificate, server)
    }

    pub(crate) fn start(
        ip: &str,
        serve: impl Fn(TcpStream, Sender<String>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((ip, 0)).expect("bound");
        let address = listener.local_addr().expect("an address");
        let (accepting, accepted) = channel();
        let (sender, events) = channel();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (serve, sender) = (Arc::clone(&serve), sender.clone());
                let peer = stream.peer_addr();
                if let Ok(peer) = peer
                    && accepting.send(peer).is_err()
                {
                    return;
                }
                // A guest may close the connection at any time.
                thread::spawn(move || drop(serve(stream, sender)));
            }
        });
        Self { address, accepted, events }
    }

    pub(crate) fn target(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of connections since the last call.
    pub(crate) fn connections(&self) -> usize {
        // Connections are accepted in the order in which they were made, so this one is the last.
        let own = TcpStream::connect(self.address).expect("connected");
        let own = own.local_addr().expect("an address");
        let next = || self.accepted.recv_timeout(TIMEOUT).expect("it accepts");
        std::iter::repeat_with(next).take_while(|peer| *peer != own).count()
    }

    /// Returns the datagrams since the last call.
    pub(crate) fn datagrams(&self) -> Vec<String> {
        let own = UdpSocket::bind((self.address.ip(), 0)).expect("bound");
        own.send_to(b"the last", self.address).expect("sent");
        let next = || self.next();
        std::iter::repeat_with(next).take_while(|datagram| datagram != "the last").collect()
    }

    /// Waits for the next event.
    pub(crate) fn next(&self) -> String {
        self.events.recv_timeout(TIMEOUT).expect("something")
    }
}

/// The stream of a connection, plain or over TLS.
pub(crate) trait ReadWrite: io::Read + io::Write {}

impl<T: io::Read + io::Write> ReadWrite for T {}

/// Reads one request, sends its head as an event, and answers.
pub(crate) fn serve(
    stream: &mut dyn ReadWrite,
    events: &Sender<String>,
    answer: &dyn Fn(&mut dyn ReadWrite, &str) -> io::Result<()>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let _ = events.send(head);
    answer(stream, &path)?;
    stream.flush()
}

/// Writes an answer with a body.
pub(crate) fn ok(stream: &mut dyn ReadWrite, body: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Starts a server that sends every datagram back, and reports it as an event.
pub(crate) fn udp_echo(ip: &str) -> Server {
    let socket = UdpSocket::bind((ip, 0)).expect("bound");
    let address = socket.local_addr().expect("an address");
    let (sender, events) = channel();
    thread::spawn(move || {
        let mut datagram = [0; 1024];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let _ = sender.send(String::from_utf8_lossy(&datagram[..length]).into_owned());
            let _ = socket.send_to(&datagram[..length], from);
        }
    });
    // Datagrams have no connections.
    Server { address, accepted: channel().1, events }
}
