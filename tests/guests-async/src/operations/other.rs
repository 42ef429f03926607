//! The operations on clocks, random numbers and the network.

use wasip3::clocks::monotonic_clock::{self, wait_for, wait_until};
use wasip3::clocks::system_clock;
use wasip3::http::client::send;
use wasip3::http::types::{ErrorCode, Fields, Method, Request, RequestOptions, Scheme};
use wasip3::random::{insecure, random};
use wasip3::sockets::ip_name_lookup::resolve_addresses;
use wasip3::sockets::types::{
    IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, TcpSocket, UdpSocket,
};
use wasip3::{wit_future, wit_stream};

use super::{Actor, Input, choices};
use crate::waits::{begin, within};

/// The hosts. None of them is granted.
const HOSTS: &[&str] = &[
    "",
    "localhost",
    "a.test",
    "127.0.0.1",
    "[::1]:80",
    "a.test:99999",
    "a b",
    "\0",
    "\u{e4}.test",
];

/// Performs an operation with a number from 32.
pub(super) async fn perform(actor: &mut Actor, number: u8) {
    let input = &mut actor.input;
    match number {
        32 => wait(input).await,
        33 => draw(input),
        34 => drop(within(resolve_addresses(host(input))).await),
        35 => connect(input).await,
        36 => send_datagram(input).await,
        _ => request(input).await,
    }
}

fn host(input: &mut Input) -> String {
    match input.argument() {
        255 => "h".repeat(70_000),
        number => HOSTS[usize::from(number) % HOSTS.len()].to_owned(),
    }
}

/// Begins waits for extreme times, and ends them.
async fn wait(input: &mut Input) {
    let time = input.choose(&[0, 1, 1 << 63, u64::MAX - 1, u64::MAX]);
    match input.argument() % 4 {
        0 => drop(begin(wait_for(time)).await),
        1 => drop(begin(wait_until(time)).await),
        2 => drop(within(wait_until(monotonic_clock::now().saturating_add(time))).await),
        _ => {
            let (_, _) = (system_clock::now(), system_clock::get_resolution());
            within(wait_for(time)).await;
        }
    }
}

/// Draws random bytes. The host gives fewer of them than the guest asks for.
fn draw(input: &mut Input) {
    let length = input.choose(&[0, 1, 64 << 10, 64 << 10, 64 << 10, u64::MAX]);
    match input.argument() % 2 {
        0 => drop(random::get_random_bytes(length)),
        _ => drop(insecure::get_insecure_random_bytes(length)),
    }
}

fn address(input: &mut Input) -> IpSocketAddress {
    let address = input.choose(&[(127, 0, 0, 1), (0, 0, 0, 0), (255, 255, 255, 255)]);
    IpSocketAddress::Ipv4(Ipv4SocketAddress { port: input.choose(&[0, 9, u16::MAX]), address })
}

fn family(input: &mut Input) -> IpAddressFamily {
    input.choose(&[IpAddressFamily::Ipv4, IpAddressFamily::Ipv6])
}

async fn connect(input: &mut Input) {
    let Ok(socket) = TcpSocket::create(family(input)) else { return };
    if input.argument().is_multiple_of(2) {
        let _ = socket.bind(address(input));
    }
    let _ = within(socket.connect(address(input))).await;
    let _ = socket.set_receive_buffer_size(choices::offset(input));
}

async fn send_datagram(input: &mut Input) {
    let Ok(socket) = UdpSocket::create(family(input)) else { return };
    let bytes = vec![b'd'; choices::size(input)];
    let _ = within(socket.send(bytes, Some(address(input)))).await;
    let _ = within(socket.receive()).await;
}

/// Makes a request with or without a body, and sends or drops it.
async fn request(input: &mut Input) {
    let headers = Fields::new();
    let field = input.choose(&["x", "host", "", "a b", "transfer-encoding"]);
    let _ = headers.append(field, &vec![b'v'; choices::size(input)]);
    let (trailers, end) = wit_future::new::<Result<Option<Fields>, ErrorCode>>(|| Ok(None));
    let (body, contents) = match input.argument() % 2 {
        0 => (None, None),
        _ => {
            let (body, contents) = wit_stream::new::<u8>();
            (Some(body), Some(contents))
        }
    };
    let options = RequestOptions::new();
    let _ = options.set_connect_timeout(Some(choices::offset(input)));
    let (request, sent) = Request::new(headers, contents, end, Some(options));
    let host = host(input);
    let _ = request.set_scheme(Some(&input.choose(&[Scheme::Http, Scheme::Https])));
    let _ = request.set_authority(Some(&host));
    let _ = request.set_path_with_query(Some(&choices::path(input)));
    let _ = request.set_method(&input.choose(&[
        Method::Get,
        Method::Post,
        Method::Connect,
        Method::Other(host),
    ]));
    if input.argument().is_multiple_of(3) {
        drop(request);
    } else if let Some(mut body) = body {
        let sending = begin(send(request)).await;
        within(body.write_all(vec![b'b'; choices::size(input)])).await;
        drop(sending);
    } else {
        drop(within(send(request)).await);
    }
    drop(sent);
    let _ = within(trailers.write(Ok(None))).await;
}
