//! A guest that uses the network, by sockets and by HTTP, in honest and dishonest ways. The tests
//! choose its grant.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use ikigai_test_guests::{Attempts, Order};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp_create_socket::create_udp_socket;

#[path = "caller/http.rs"]
mod http;

/// The number of lookups and requests that are begun and dropped. As tasks of the host they once
/// took 230 MiB.
const DROPPED: usize = 30_000;

const SCHEMA: &str = r#"{"name":"_caller","description":"Reaches for the network",
"parameters":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"tcp","udp","udp_strays","udp_listens","listen","lookup","sockets","hang","get","follow","hoard",
"forge","connections","impatient","texts","requests","drops","buffers"]}}}}"#;

fn main() {
    let order = Order::read(SCHEMA);
    let mut attempts = Attempts::default();
    // The targets are separated by blanks.
    let targets: Vec<&str> = order.path.split(' ').collect();
    match order.mode.as_str() {
        "tcp" => targets.iter().for_each(|it| attempts.note(it, tcp(it))),
        "udp" => targets.iter().for_each(|it| attempts.note(it, udp(it))),
        "udp_strays" => udp_strays(&mut attempts, &targets),
        "udp_listens" => udp_listens(&mut attempts, &targets),
        "listen" => listen(&mut attempts, &targets),
        "lookup" => targets.iter().for_each(|it| lookup(&mut attempts, it)),
        "sockets" => sockets(&mut attempts, targets[0]),
        "hang" => hang(&mut attempts, targets[0]),
        "get" => targets.iter().for_each(|it| attempts.observe(it, &http::get(it))),
        "follow" => http::follow(&mut attempts, targets[0]),
        "hoard" => http::hoard(&mut attempts, targets[0]),
        "forge" => http::forge(&mut attempts, targets[0]),
        "connections" => http::connections(&mut attempts, targets[0]),
        "impatient" => http::impatient(&mut attempts, targets[0]),
        "texts" => http::texts(&mut attempts),
        "requests" => http::requests(&mut attempts),
        "drops" => {
            drop_lookups(&mut attempts);
            http::drop_requests(&mut attempts);
        }
        "buffers" => buffers(&mut attempts),
        other => attempts.observe("error", &format!("there is no mode '{other}'")),
    }
    attempts.print();
}

/// Connects, and expects a greeting.
fn tcp(target: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(target)?;
    stream.write_all(b"hello")?;
    stream.read_exact(&mut [0; 5])
}

/// Sends a datagram, and expects an answer.
fn udp(target: &str) -> std::io::Result<()> {
    let socket = UdpSocket::bind(anywhere(target))?;
    socket.send_to(b"hello", target)?;
    socket.recv_from(&mut [0; 64]).map(drop)
}

/// Returns the unspecified address of the family of `target`.
fn anywhere(target: &str) -> SocketAddr {
    let any = if target.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    any.parse().expect("an address")
}

/// Connects a socket to the first target and sends to the others with it. Then sends to each in
/// turn with an unconnected socket.
fn udp_strays(attempts: &mut Attempts, targets: &[&str]) {
    let connected = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect(targets[0])?;
        socket.send(b"hello")?;
        Ok(socket)
    });
    for target in &targets[1..] {
        let sent = connected.as_ref().map_err(ToString::to_string);
        let sent = sent.and_then(|it| it.send_to(b"stray", target).map_err(|it| it.to_string()));
        attempts.note(&format!("connected {target}"), sent);
    }
    attempts.note("connected", connected);
    match UdpSocket::bind("0.0.0.0:0") {
        Ok(socket) => {
            for target in targets {
                attempts.note(&format!("free {target}"), socket.send_to(b"hello", target));
            }
        }
        Err(error) => attempts.note::<(), _>("free", Err(error)),
    }
}

/// Sends its port to the first target, then waits for the first datagram that the host passes on.
fn udp_listens(attempts: &mut Attempts, targets: &[&str]) {
    let heard = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.send_to(socket.local_addr()?.port().to_string().as_bytes(), targets[0])?;
        let mut datagram = [0; 64];
        let length = socket.recv(&mut datagram)?;
        Ok(String::from_utf8_lossy(&datagram[..length]).into_owned())
    });
    attempts.observe("heard", &heard.unwrap_or_else(|error| error.to_string()));
}

/// Uses each target as an address to listen on, and as an address to send from.
fn listen(attempts: &mut Attempts, targets: &[&str]) {
    for target in targets {
        attempts.note(&format!("tcp {target}"), TcpListener::bind(target));
        attempts.note(&format!("udp {target}"), UdpSocket::bind(target));
    }
}

fn lookup(attempts: &mut Attempts, name: &str) {
    let found = (name, 0).to_socket_addrs().map(|found| {
        let found: Vec<String> = found.map(|address| address.ip().to_string()).collect();
        found.join(" ")
    });
    match found {
        Ok(found) => attempts.observe(name, &format!("found {found}")),
        Err(error) => attempts.observe(name, &error.to_string()),
    }
}

/// Asks for large buffers of sockets, and notes the sizes that the sockets have then.
fn buffers(attempts: &mut Attempts) {
    const LARGE: u64 = 8 << 20;
    let tcp = create_tcp_socket(IpAddressFamily::Ipv4).expect("a socket");
    let set = [tcp.set_receive_buffer_size(LARGE), tcp.set_send_buffer_size(LARGE)];
    let sizes = [tcp.receive_buffer_size(), tcp.send_buffer_size()];
    attempts.observe("tcp", &format!("{set:?} {sizes:?}"));
    let udp = create_udp_socket(IpAddressFamily::Ipv4).expect("a socket");
    let set = [udp.set_receive_buffer_size(LARGE), udp.set_send_buffer_size(LARGE)];
    let sizes = [udp.receive_buffer_size(), udp.send_buffer_size()];
    attempts.observe("udp", &format!("{set:?} {sizes:?}"));
    let set = [tcp.set_receive_buffer_size(9_000), udp.set_send_buffer_size(9_000)];
    let sizes = [tcp.receive_buffer_size(), udp.send_buffer_size()];
    attempts.observe("smaller", &format!("{set:?} {sizes:?}"));
}

/// Begins lookups without waiting for them.
fn drop_lookups(attempts: &mut Attempts) {
    let network = instance_network();
    let begun = (0..DROPPED).filter(|_| resolve_addresses(&network, "a.test").is_ok());
    attempts.observe("lookups", &begun.count().to_string());
}

/// Connects until the host refuses.
fn sockets(attempts: &mut Attempts, target: &str) {
    let mut open = Vec::new();
    let refused = loop {
        match TcpStream::connect(target) {
            Ok(stream) => open.push(stream),
            Err(error) => break error,
        }
    };
    attempts.observe("open", &open.len().to_string());
    attempts.observe("refused", &refused.to_string());
    drop(open);
    attempts.note("again", TcpStream::connect(target));
}

/// Waits for an answer that never comes.
fn hang(attempts: &mut Attempts, target: &str) {
    let read = TcpStream::connect(target).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(3600)))?;
        stream.write_all(b"hello")?;
        stream.read(&mut [0; 1])
    });
    attempts.note("read", read);
}
