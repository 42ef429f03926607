//! `wasi:sockets`, as far as a guest's grant allows it.
//!
//! TCP and UDP are wasmtime's, with a check of every address. The host looks names up itself:
//! wasmtime has one switch for all names. A guest that may look up any name can send its secrets to
//! the server that answers for that name. A guest's memory limit does not count the kernel's buffers
//! of its sockets, so a socket has fixed ones that the guest can only make smaller.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::vec;

use url::Host;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::sockets::network::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Network,
};
use wasmtime_wasi::p2::bindings::sockets::tcp::{HostTcpSocket, TcpSocket};
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket::Host as _;
use wasmtime_wasi::p2::bindings::sockets::udp::{
    HostUdpSocket, IncomingDatagramStream, OutgoingDatagramStream, UdpSocket,
};
use wasmtime_wasi::p2::bindings::sockets::udp_create_socket::Host as _;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, Pollable, SocketError, subscribe,
};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, poll_noop, spawn};
use wasmtime_wasi::sockets::{SocketAddrUse, WasiSocketsView as _};
use wasmtime_wasi::{WasiCtxBuilder, WasiView as _};

use crate::exec::net::{NetworkGate, NoAddress, parse_host};
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::tasks;

mod bindings {
    wasmtime::component::bindgen!({
        path: "wit",
        inline: "
            package ikigai:lookup;
            world imports {
                import wasi:sockets/ip-name-lookup@0.2.12;
            }
        ",
        world: "ikigai:lookup/imports",
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:sockets/network": wasmtime_wasi::p2::bindings::sockets::network,
            "wasi:sockets/ip-name-lookup.resolve-address-stream": super::Lookup,
        },
        imports: {
            "wasi:sockets/ip-name-lookup.[drop]resolve-address-stream": async | trappable,
            default: trappable,
        },
        require_store_data_send: true,
    });
}

pub(super) use bindings::wasi::sockets::ip_name_lookup;

/// The largest buffer of a guest's socket in each direction, in bytes. The kernel takes twice as
/// much memory for it.
pub(in crate::exec::wasm) const BUFFER: u64 = 128 << 10;

/// The number of addresses that a guest gets for a name. More lie in the host until the guest has
/// taken them.
const ADDRESSES: usize = 64;

/// Links the host's own functions instead of wasmtime's, which are linked already.
pub(in crate::exec::wasm) fn add_to_linker(
    linker: &mut Linker<GuestState>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    ip_name_lookup::add_to_linker::<GuestState, HasSelf<GuestState>>(linker, |state| state)?;
    linker.instance("wasi:sockets/tcp-create-socket@0.2.12")?.func_wrap_async(
        "create-tcp-socket",
        |mut store, (family,): (IpAddressFamily,)| {
            Box::new(async move { Ok((create_tcp(store.data_mut(), family).await?,)) })
        },
    )?;
    linker.instance("wasi:sockets/udp-create-socket@0.2.12")?.func_wrap_async(
        "create-udp-socket",
        |mut store, (family,): (IpAddressFamily,)| {
            Box::new(async move { Ok((create_udp(store.data_mut(), family).await?,)) })
        },
    )?;
    linker.instance("wasi:sockets/udp@0.2.12")?.func_wrap_async(
        "[method]udp-socket.stream",
        |mut store, (socket, remote): (Resource<UdpSocket>, Option<IpSocketAddress>)| {
            Box::new(async move { Ok((stream(store.data_mut(), socket, remote).await?,)) })
        },
    )?;
    linker.instance("wasi:sockets/tcp@0.2.12")?.func_wrap(
        "[method]tcp-socket.finish-connect",
        |mut store, (socket,): (Resource<TcpSocket>,)| {
            Ok((finish_connect(store.data_mut(), socket)?,))
        },
    )?;
    macro_rules! bound {
        ($interface:literal, $name:literal, $kind:ty, $set:path) => {
            linker.instance($interface)?.func_wrap(
                $name,
                |mut store, (socket, size): (Resource<$kind>, u64)| {
                    let mut sockets = store.data_mut().sockets();
                    Ok((answer($set(&mut sockets, socket, size.min(BUFFER)))?,))
                },
            )?;
        };
    }
    bound!(
        "wasi:sockets/tcp@0.2.12",
        "[method]tcp-socket.set-receive-buffer-size",
        TcpSocket,
        HostTcpSocket::set_receive_buffer_size
    );
    bound!(
        "wasi:sockets/tcp@0.2.12",
        "[method]tcp-socket.set-send-buffer-size",
        TcpSocket,
        HostTcpSocket::set_send_buffer_size
    );
    bound!(
        "wasi:sockets/udp@0.2.12",
        "[method]udp-socket.set-receive-buffer-size",
        UdpSocket,
        HostUdpSocket::set_receive_buffer_size
    );
    bound!(
        "wasi:sockets/udp@0.2.12",
        "[method]udp-socket.set-send-buffer-size",
        UdpSocket,
        HostUdpSocket::set_send_buffer_size
    );
    linker.allow_shadowing(false);
    Ok(())
}

/// Allows a guest's sockets the granted addresses, and no others.
pub(in crate::exec::wasm) fn permit(wasi: &mut WasiCtxBuilder, reach: &Arc<NetworkGate>) {
    if reach.is_none() {
        // No socket is made, wasmtime refuses every address, and the thread of the guest has no
        // I/O driver.
        wasi.allow_tcp(false).allow_udp(false);
        return;
    }
    wasi.allow_tcp(true).allow_udp(true);
    let reach = Arc::clone(reach);
    wasi.socket_addr_check(move |address, usage| {
        let reach = Arc::clone(&reach);
        let mut judged = Box::pin(async move { is_allowed(&reach, address, usage).await });
        match poll_noop(judged.as_mut()) {
            Some(allowed) => Box::pin(std::future::ready(allowed)),
            // The user is asked.
            None => Box::pin(spawn(judged)),
        }
    });
}

async fn is_allowed(reach: &NetworkGate, address: SocketAddr, usage: SocketAddrUse) -> bool {
    match usage {
        SocketAddrUse::TcpConnect | SocketAddrUse::UdpSend => reach.check(address).await,
        // Datagrams from elsewhere are dropped.
        SocketAddrUse::UdpReceive => reach.allows(address),
        // This is also asked for a socket that is not bound before it is connected.
        SocketAddrUse::TcpBind | SocketAddrUse::UdpBind => {
            let unbound = address.ip().is_unspecified() && address.port() == 0;
            if !unbound {
                reach.deny(format!("bind {address}"));
            }
            unbound
        }
        SocketAddrUse::TcpListen | SocketAddrUse::TcpAccept => {
            reach.deny(format!("listen {address}"));
            false
        }
    }
}

pub(super) async fn create_tcp(
    state: &mut GuestState,
    family: IpAddressFamily,
) -> wasmtime::Result<Result<Resource<TcpSocket>, ErrorCode>> {
    if let Err(refused) = may_create(state, "tcp").await {
        return Ok(Err(refused));
    }
    let mut sockets = state.sockets();
    // The kernel lets buffers grow up to several megabytes unless their size is set.
    answer(sockets.create_tcp_socket(family).and_then(|socket| {
        let named = || Resource::new_borrow(socket.rep());
        HostTcpSocket::set_receive_buffer_size(&mut sockets, named(), BUFFER)?;
        HostTcpSocket::set_send_buffer_size(&mut sockets, named(), BUFFER)?;
        Ok(socket)
    }))
}

pub(super) async fn create_udp(
    state: &mut GuestState,
    family: IpAddressFamily,
) -> wasmtime::Result<Result<Resource<UdpSocket>, ErrorCode>> {
    if let Err(refused) = may_create(state, "udp").await {
        return Ok(Err(refused));
    }
    let mut sockets = state.sockets();
    let created = sockets.create_udp_socket(family).await;
    // The machine's default size may be any.
    answer(created.and_then(|socket| {
        let named = || Resource::new_borrow(socket.rep());
        HostUdpSocket::set_receive_buffer_size(&mut sockets, named(), BUFFER)?;
        HostUdpSocket::set_send_buffer_size(&mut sockets, named(), BUFFER)?;
        Ok(socket)
    }))
}

/// Returns new streams of a socket. A guest that drops them and asks for others has one task at a time.
pub(super) async fn stream(
    state: &mut GuestState,
    socket: Resource<UdpSocket>,
    remote: Option<IpSocketAddress>,
) -> wasmtime::Result<Result<DatagramStreams, ErrorCode>> {
    tasks::finish_aborted().await;
    if !state.may_stream(2) {
        return Ok(Err(ErrorCode::OutOfMemory));
    }
    answer(state.sockets().stream(socket, remote).await)
}

/// Returns the streams of a connected socket, if there is memory for their buffers.
fn finish_connect(
    state: &mut GuestState,
    socket: Resource<TcpSocket>,
) -> wasmtime::Result<Result<ByteStreams, ErrorCode>> {
    if !state.may_stream(2) {
        return Ok(Err(ErrorCode::OutOfMemory));
    }
    answer(HostTcpSocket::finish_connect(&mut state.sockets(), socket))
}

/// The streams of bytes that come in and go out.
type ByteStreams = (Resource<DynInputStream>, Resource<DynOutputStream>);

/// The streams of datagrams that come in and go out.
type DatagramStreams = (Resource<IncomingDatagramStream>, Resource<OutgoingDatagramStream>);

/// Fails if a guest may not make one more socket.
pub(in crate::exec::wasm) async fn may_create(
    state: &mut GuestState,
    what: &str,
) -> Result<(), ErrorCode> {
    if state.reach.is_none() {
        state.reach.deny(what);
        return Err(ErrorCode::AccessDenied);
    }
    // A task of a socket that the guest dropped keeps the descriptor open.
    tasks::finish_aborted().await;
    if state.may_open() { Ok(()) } else { Err(ErrorCode::NewSocketLimit) }
}

/// Returns a result as a guest gets it; an error of the host itself is a trap.
fn answer<T>(result: Result<T, SocketError>) -> wasmtime::Result<Result<T, ErrorCode>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => Ok(Err(error.downcast()?)),
    }
}

/// The addresses of one name, or the wait for them.
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub enum Lookup {
    Pending(AbortOnDropJoinHandle<LookupResult>),
    Ready(LookupResult),
}

#[allow(unreachable_pub, reason = "it is a part of `Lookup`")]
pub type LookupResult = Result<vec::IntoIter<IpAddr>, ErrorCode>;

/// A name that a guest looks up.
pub(in crate::exec::wasm) enum SoughtName {
    /// It is an address. No server is asked, and connecting is checked.
    Address(IpAddr),
    /// It is not granted.
    Refused,
    Name(String),
}

impl SoughtName {
    /// Returns nothing if it is malformed.
    pub(in crate::exec::wasm) fn parse(reach: &NetworkGate, name: &str) -> Option<Self> {
        Some(match parse_host(name)? {
            Host::Ipv4(ip) => Self::Address(ip.into()),
            Host::Ipv6(ip) => Self::Address(IpAddr::from(ip).to_canonical()),
            Host::Domain(name) if reach.refuses(&name) => Self::Refused,
            Host::Domain(name) => Self::Name(name),
        })
    }
}

/// Looks a name up.
pub(in crate::exec::wasm) async fn resolve(
    reach: &NetworkGate,
    name: &str,
) -> Result<vec::IntoIter<IpAddr>, NoAddress> {
    let found = reach.resolve(name, None).await;
    if let Err(NoAddress::Unresolved(error)) = &found {
        tracing::debug!("a name did not resolve: {error}");
    }
    found.map(first_addresses)
}

/// Returns those of the addresses of a name that a guest gets.
fn first_addresses(mut found: Vec<IpAddr>) -> vec::IntoIter<IpAddr> {
    found.truncate(ADDRESSES);
    found.shrink_to_fit();
    found.into_iter()
}

impl ip_name_lookup::Host for GuestState {
    fn resolve_addresses(
        &mut self,
        _: Resource<Network>,
        name: String,
    ) -> wasmtime::Result<Result<Resource<Lookup>, ErrorCode>> {
        let lookup = match SoughtName::parse(&self.reach, &name) {
            None => return Ok(Err(ErrorCode::InvalidArgument)),
            Some(SoughtName::Address(ip)) => Lookup::Ready(Ok(vec![ip].into_iter())),
            Some(SoughtName::Refused) => Lookup::Ready(Err(ErrorCode::AccessDenied)),
            Some(SoughtName::Name(name)) => {
                let reach = Arc::clone(&self.reach);
                Lookup::Pending(spawn(async move {
                    resolve(&reach, &name).await.map_err(|error| error_code(&error))
                }))
            }
        };
        Ok(Ok(self.ctx().table.push(lookup)?))
    }
}

impl ip_name_lookup::HostResolveAddressStream for GuestState {
    fn resolve_next_address(
        &mut self,
        lookup: Resource<Lookup>,
    ) -> wasmtime::Result<Result<Option<IpAddress>, ErrorCode>> {
        let lookup = self.ctx().table.get_mut(&lookup)?;
        if let Lookup::Pending(pending) = lookup
            && let Some(found) = poll_noop(Pin::new(pending))
        {
            *lookup = Lookup::Ready(found);
        }
        Ok(match lookup {
            Lookup::Pending(_) => Err(ErrorCode::WouldBlock),
            Lookup::Ready(Ok(found)) => Ok(found.next().map(IpAddress::from)),
            Lookup::Ready(Err(error)) => Err(*error),
        })
    }

    fn subscribe(&mut self, lookup: Resource<Lookup>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.ctx().table, lookup)
    }

    async fn drop(&mut self, lookup: Resource<Lookup>) -> wasmtime::Result<()> {
        if let Lookup::Pending(task) = self.ctx().table.delete(lookup)? {
            task.cancel().await;
        }
        Ok(())
    }
}

#[async_trait]
impl Pollable for Lookup {
    async fn ready(&mut self) {
        if let Self::Pending(pending) = self {
            *self = Self::Ready(pending.await);
        }
    }
}

fn error_code(error: &NoAddress) -> ErrorCode {
    match error {
        NoAddress::NotGranted | NoAddress::NotPublic => ErrorCode::AccessDenied,
        NoAddress::TooMany => ErrorCode::TemporaryResolverFailure,
        // The system's resolver gives no portable reason.
        NoAddress::Unresolved(_) => ErrorCode::NameUnresolvable,
    }
}
