//! Tests that a guest leaves no task and no socket of the operations that it starts and drops.

use std::sync::Arc;

use tokio::runtime::Handle;
use wasmtime::component::Resource;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::sockets::instance_network::Host as _;
use wasmtime_wasi::p2::bindings::sockets::network::{
    IpAddressFamily, IpSocketAddress, Ipv4SocketAddress,
};
use wasmtime_wasi::p2::bindings::sockets::udp::{
    HostIncomingDatagramStream, HostOutgoingDatagramStream, HostUdpSocket,
};
use wasmtime_wasi::sockets::WasiSocketsView as _;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host as _;
use wasmtime_wasi_http::p2::bindings::http::types::{
    HostFields, HostOutgoingRequest, Scheme as HttpScheme,
};

use super::messages;
use super::sockets::ip_name_lookup::{Host as _, HostResolveAddressStream};
use super::sockets::{BUFFER, create_tcp, create_udp, permit, stream};
use crate::exec::assets::AssetGate;
use crate::exec::net::{NetworkGate, SharedNetwork};
use crate::exec::output::{Pipe, Sink};
use crate::exec::wasm::guard::Guard;
use crate::exec::wasm::places::GuestPlaces;
use crate::exec::wasm::state::{GuestFiles, GuestOutputs, GuestState, MemoryBudget, MemoryLimit};
use crate::exec::wasm::tests::call;
use crate::policy::{Grant, Net};

/// Returns the state of a guest to which these peers are granted.
fn state(net: &[&str]) -> GuestState {
    let net = Net::parse(net.iter().copied()).expect("a list");
    let grant = Arc::new(Grant { net, ..Grant::default() });
    let reach = Arc::new(NetworkGate::new(grant, Arc::new(SharedNetwork::default()), None));
    let mut wasi = WasiCtxBuilder::new();
    permit(&mut wasi, &reach);
    let guard = Guard::new(&Arc::default());
    let files = GuestFiles { places: GuestPlaces::default(), hidden: None, guard, held: None };
    let memory = MemoryLimit::new(u64::MAX, MemoryBudget::new(u64::MAX));
    let output = Pipe::new(Sink::Head, 0);
    let outputs = GuestOutputs { stdout: output.clone(), stderr: output };
    let gate = AssetGate::of_guest(&call());
    GuestState::new(wasi.build(), files, reach, gate, outputs, memory, 256)
}

/// Returns the number of tasks of this runtime.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn a_lookup_that_is_dropped_leaves_no_task() {
    let mut state = state(&[]);
    for _ in 0..100 {
        let lookup = state.resolve_addresses(Resource::new_own(0), "a.test".to_owned());
        let lookup = lookup.expect("no trap").expect("begun");
        HostResolveAddressStream::drop(&mut state, lookup).await.expect("no trap");
        assert_eq!(tasks(), 0);
    }
    assert_eq!(state.reach.denied().count, 100, "each was refused when it began");
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_no_task() {
    let mut state = state(&[]);
    for _ in 0..100 {
        let mut http = state.http();
        let fields = HostFields::new(&mut http).expect("made");
        let request = HostOutgoingRequest::new(&mut http, fields).expect("made");
        let named = Resource::new_borrow(request.rep());
        http.set_scheme(named, Some(HttpScheme::Http)).expect("no trap").expect("set");
        let named = Resource::new_borrow(request.rep());
        http.set_authority(named, Some("a.test".to_owned())).expect("no trap").expect("set");
        let named = Resource::new_borrow(request.rep());
        http.set_path_with_query(named, Some("/".to_owned())).expect("no trap").expect("set");
        let response = http.handle(request, None).expect("begun");
        messages::drop_response(&mut state, response.rep()).await.expect("no trap");
        assert_eq!(tasks(), 0);
    }
}

#[tokio::test]
async fn a_socket_that_is_dropped_while_it_waits_is_closed_before_the_next_one() {
    let mut state = state(&["127.0.0.1:9"]);
    let anywhere = || IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 0, address: (0, 0, 0, 0) });
    for _ in 0..100 {
        let socket = create_udp(&mut state, IpAddressFamily::Ipv4).await.expect("no trap");
        let socket = socket.expect("made");
        assert_eq!(tasks(), 0, "those before are gone");
        let named = || Resource::new_borrow(socket.rep());
        let mut sockets = state.sockets();
        let network = sockets.instance_network().expect("room");
        sockets.start_bind(named(), network, anywhere()).await.expect("bound");
        HostUdpSocket::finish_bind(&mut sockets, named()).expect("bound");
        let (incoming, outgoing) = sockets.stream(named(), None).await.expect("streams");
        let heard = sockets.receive(Resource::new_borrow(incoming.rep()), 1);
        assert!(heard.expect("nothing yet").is_empty() && tasks() == 1);
        HostIncomingDatagramStream::drop(&mut sockets, incoming).expect("no trap");
        HostOutgoingDatagramStream::drop(&mut sockets, outgoing).await.expect("no trap");
        HostUdpSocket::drop(&mut sockets, socket).expect("no trap");
    }
}

#[tokio::test]
async fn the_kernel_does_not_let_the_buffers_of_a_socket_grow() {
    // Its methods have the names of those for UDP.
    use wasmtime_wasi::p2::bindings::sockets::tcp::HostTcpSocket;

    let mut state = state(&["127.0.0.1:9"]);
    let family = IpAddressFamily::Ipv4;
    let tcp = create_tcp(&mut state, family).await.expect("no trap").expect("made");
    let udp = create_udp(&mut state, family).await.expect("no trap").expect("made");
    let mut sockets = state.sockets();
    let named = || Resource::new_borrow(tcp.rep());
    let of_tcp = [
        HostTcpSocket::receive_buffer_size(&mut sockets, named()).expect("a size"),
        HostTcpSocket::send_buffer_size(&mut sockets, named()).expect("a size"),
    ];
    let named = || Resource::new_borrow(udp.rep());
    let of_udp = [
        HostUdpSocket::receive_buffer_size(&mut sockets, named()).expect("a size"),
        HostUdpSocket::send_buffer_size(&mut sockets, named()).expect("a size"),
    ];
    assert_eq!((of_tcp, of_udp), ([BUFFER; 2], [BUFFER; 2]));
}

#[tokio::test]
async fn a_socket_whose_streams_are_dropped_again_and_again_has_one_task() {
    let mut state = state(&["127.0.0.1:9"]);
    let socket = create_udp(&mut state, IpAddressFamily::Ipv4).await.expect("no trap");
    let socket = socket.expect("made");
    let named = || Resource::new_borrow(socket.rep());
    let network = state.sockets().instance_network().expect("room");
    let anywhere = IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 0, address: (0, 0, 0, 0) });
    state.sockets().start_bind(named(), network, anywhere).await.expect("bound");
    HostUdpSocket::finish_bind(&mut state.sockets(), named()).expect("bound");
    for _ in 0..100 {
        let streams = stream(&mut state, named(), None).await.expect("no trap");
        let (incoming, outgoing) = streams.expect("streams");
        assert_eq!(tasks(), 0, "those before are gone");
        let mut sockets = state.sockets();
        let heard = sockets.receive(Resource::new_borrow(incoming.rep()), 1);
        assert!(heard.expect("nothing yet").is_empty() && tasks() == 1);
        HostIncomingDatagramStream::drop(&mut sockets, incoming).expect("no trap");
        HostOutgoingDatagramStream::drop(&mut sockets, outgoing).await.expect("no trap");
    }
}
