//! `wasi:sockets` of WASI 0.3, as far as a guest's grant allows it.
//!
//! wasmtime has a type of sockets for each version. Both count as handles, and the functions of 0.2
//! decide whether a guest may have one more, and look names up. Every address is checked where
//! wasmtime uses it, for both versions ([`sockets::permit`]).

use std::net::IpAddr;
use std::sync::Arc;

use wasmtime::component::{Access, Accessor, FutureReader, Linker, Resource, StreamReader};
use wasmtime::{AsContextMut as _, StoreContextMut};
use wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::ErrorCode as LookupError;
use wasmtime_wasi::p3::bindings::sockets::types::{
    ErrorCode, HostTcpSocket, HostTcpSocketWithStore, HostUdpSocket, HostUdpSocketWithStore,
    IpAddress, IpAddressFamily, IpSocketAddress, TcpSocket, UdpSocket,
};
use wasmtime_wasi::p3::sockets::SocketError;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};

use super::counted::{one_more, until_end};
use super::translation::socket_error;
use crate::exec::net::NoAddress;
use crate::exec::wasm::net::sockets::{self, BUFFER, SoughtName};
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::stream_count::CountedStream;

const TYPES: &str = "wasi:sockets/types@0.3.0";

/// The result of a stream, for the guest.
type StreamEnd = FutureReader<Result<(), ErrorCode>>;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance("wasi:sockets/ip-name-lookup@0.3.0")?.func_wrap_concurrent(
        "resolve-addresses",
        |accessor, (name,): (String,)| {
            Box::pin(async move { Ok((resolve_addresses(accessor, name).await,)) })
        },
    )?;
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[static]tcp-socket.create",
        |mut store, (family,): (IpAddressFamily,)| {
            Box::new(async move {
                let made = create_tcp(store.data_mut(), family).await?;
                Ok((made,))
            })
        },
    )?;
    types.func_wrap_async(
        "[static]udp-socket.create",
        |mut store, (family,): (IpAddressFamily,)| {
            Box::new(async move {
                let made = create_udp(store.data_mut(), family).await?;
                Ok((made,))
            })
        },
    )?;
    macro_rules! bound {
        ($name:literal, $kind:ty, $set:path) => {
            types.func_wrap($name, |mut store, (socket, size): (Resource<$kind>, u64)| {
                let mut sockets = store.data_mut().sockets();
                Ok((answer($set(&mut sockets, socket, size.min(BUFFER)))?,))
            })?;
        };
    }
    bound!(
        "[method]tcp-socket.set-receive-buffer-size",
        TcpSocket,
        HostTcpSocket::set_receive_buffer_size
    );
    bound!(
        "[method]tcp-socket.set-send-buffer-size",
        TcpSocket,
        HostTcpSocket::set_send_buffer_size
    );
    bound!(
        "[method]udp-socket.set-receive-buffer-size",
        UdpSocket,
        HostUdpSocket::set_receive_buffer_size
    );
    bound!(
        "[method]udp-socket.set-send-buffer-size",
        UdpSocket,
        HostUdpSocket::set_send_buffer_size
    );
    types.func_wrap(
        "[method]tcp-socket.send",
        |store, (socket, bytes): (Resource<TcpSocket>, StreamReader<u8>)| {
            Ok((send(store, socket, bytes)?,))
        },
    )?;
    types.func_wrap("[method]tcp-socket.receive", |store, (socket,): (Resource<TcpSocket>,)| {
        Ok((receive(store, socket)?,))
    })?;
    types.func_wrap_concurrent(
        "[method]udp-socket.send",
        |accessor,
         (socket, data, remote): (Resource<UdpSocket>, Vec<u8>, Option<IpSocketAddress>)| {
            Box::pin(async move {
                let Some(_datagram) = datagram(accessor) else {
                    return Ok((Err(ErrorCode::OutOfMemory),));
                };
                let sockets = accessor.with_getter::<WasiSockets>(GuestState::sockets);
                let sent = HostUdpSocketWithStore::send(&sockets, socket, data, remote);
                Ok((answer(sent.await)?,))
            })
        },
    )?;
    types.func_wrap_concurrent(
        "[method]udp-socket.receive",
        |accessor, (socket,): (Resource<UdpSocket>,)| {
            Box::pin(async move {
                let Some(_datagram) = datagram(accessor) else {
                    return Ok((Err(ErrorCode::OutOfMemory),));
                };
                let sockets = accessor.with_getter::<WasiSockets>(GuestState::sockets);
                Ok((answer(HostUdpSocketWithStore::receive(&sockets, socket).await)?,))
            })
        },
    )
}

/// Returns a result as a guest gets it; an error of the host itself is a trap.
fn answer<T>(result: Result<T, SocketError>) -> wasmtime::Result<Result<T, ErrorCode>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => Ok(Err(error.downcast()?)),
    }
}

async fn create_tcp(
    state: &mut GuestState,
    family: IpAddressFamily,
) -> wasmtime::Result<Result<Resource<TcpSocket>, ErrorCode>> {
    if let Err(refused) = sockets::may_create(state, "tcp").await {
        return Ok(Err(socket_error(refused)));
    }
    let mut sockets = state.sockets();
    let created = HostTcpSocket::create(&mut sockets, family);
    answer(created.and_then(|socket| {
        let named = || Resource::new_borrow(socket.rep());
        HostTcpSocket::set_receive_buffer_size(&mut sockets, named(), BUFFER)?;
        HostTcpSocket::set_send_buffer_size(&mut sockets, named(), BUFFER)?;
        Ok(socket)
    }))
}

async fn create_udp(
    state: &mut GuestState,
    family: IpAddressFamily,
) -> wasmtime::Result<Result<Resource<UdpSocket>, ErrorCode>> {
    if let Err(refused) = sockets::may_create(state, "udp").await {
        return Ok(Err(socket_error(refused)));
    }
    let mut sockets = state.sockets();
    let created = HostUdpSocket::create(&mut sockets, family).await;
    answer(created.and_then(|socket| {
        let named = || Resource::new_borrow(socket.rep());
        HostUdpSocket::set_receive_buffer_size(&mut sockets, named(), BUFFER)?;
        HostUdpSocket::set_send_buffer_size(&mut sockets, named(), BUFFER)?;
        Ok(socket)
    }))
}

/// Counts a datagram that is sent or waited for, which has a buffer in the host.
fn datagram(accessor: &Accessor<GuestState>) -> Option<CountedStream> {
    accessor.with(|mut access| {
        let state: &mut GuestState = access.get();
        state.may_stream(1).then(|| state.streams.enter())
    })
}

fn send(
    mut store: StoreContextMut<'_, GuestState>,
    socket: Resource<TcpSocket>,
    mut bytes: StreamReader<u8>,
) -> wasmtime::Result<StreamEnd> {
    let Some(stream) = one_more(store.data_mut()) else {
        bytes.close(&mut store)?;
        let refused = async { wasmtime::error::Ok(Err(ErrorCode::OutOfMemory)) };
        return FutureReader::new(&mut store, refused);
    };
    let access = Access::<_, WasiSockets>::new(store.as_context_mut(), GuestState::sockets);
    let end = HostTcpSocketWithStore::send(access, socket, bytes)?;
    until_end(store, end, stream)
}

fn receive(
    mut store: StoreContextMut<'_, GuestState>,
    socket: Resource<TcpSocket>,
) -> wasmtime::Result<(StreamReader<u8>, StreamEnd)> {
    let Some(stream) = one_more(store.data_mut()) else {
        let nothing = StreamReader::new(&mut store, std::iter::empty())?;
        let refused = async { wasmtime::error::Ok(Err(ErrorCode::OutOfMemory)) };
        return Ok((nothing, FutureReader::new(&mut store, refused)?));
    };
    let access = Access::<_, WasiSockets>::new(store.as_context_mut(), GuestState::sockets);
    let (bytes, end) = HostTcpSocketWithStore::receive(access, socket)?;
    Ok((bytes, until_end(store, end, stream)?))
}

async fn resolve_addresses(
    accessor: &Accessor<GuestState>,
    name: String,
) -> Result<Vec<IpAddress>, LookupError> {
    let reach = accessor.with(|mut access| Arc::clone(&access.get().reach));
    let sought = SoughtName::parse(&reach, &name);
    // A guest may wait for many names at once, and each text may be as long as its memory.
    drop(name);
    let found = match sought {
        None => return Err(LookupError::InvalidArgument),
        Some(SoughtName::Address(ip)) => return Ok(vec![ip.into()]),
        Some(SoughtName::Refused) => return Err(LookupError::AccessDenied),
        Some(SoughtName::Name(name)) => sockets::resolve(&reach, &name).await,
    };
    let addresses = |found: std::vec::IntoIter<IpAddr>| found.map(IpAddress::from).collect();
    found.map(addresses).map_err(|error| match error {
        NoAddress::NotGranted | NoAddress::NotPublic => LookupError::AccessDenied,
        NoAddress::TooMany => LookupError::TemporaryResolverFailure,
        NoAddress::Unresolved(_) => LookupError::NameUnresolvable,
    })
}
