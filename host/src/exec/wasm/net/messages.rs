//! The functions of `wasi:http/types` that make messages in the host, instead of wasmtime's own.
//!
//! Header fields, requests and responses lie in the host, with or without a grant of the network.
//! With wasmtime's own functions, a guest can make as many as the table has entries, with texts of
//! any length. Here their number and their size are limited. From the first one on, the most that
//! they can take counts into the memory of the guest.

use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi_http::p2::bindings::http::types::{
    Host as _, HostFields, HostOutgoingRequest as _, Method, Scheme,
};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};
use wasmtime_wasi_http::p3::bindings::http::types::RequestOptions;
use wasmtime_wasi_http::{FieldMap, WasiHttpView as _, p3};

use crate::exec::wasm::state::GuestState;

/// The number of requests, responses and lists of fields of one guest at once.
const MOST: usize = 64;

/// The longest method, scheme, authority or path, in bytes.
pub(in crate::exec::wasm) const TEXT: usize = 8 << 10;

/// The largest size of one message in the host, in bytes: the fields, four texts, and two chunks.
/// The shortest fields take more than twice their size.
const EACH: u64 = 128 << 10;

/// Links the functions of this module instead of wasmtime's.
pub(in crate::exec::wasm) fn add_to_linker(
    linker: &mut Linker<GuestState>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    types.func_wrap("[constructor]fields", |mut store, ()| {
        Ok((HostFields::new(&mut room(store.data_mut())?.http())?,))
    })?;
    types.func_wrap(
        "[static]fields.from-list",
        |mut store, (entries,): (Vec<(String, Vec<u8>)>,)| {
            let mut http = room(store.data_mut())?.http();
            Ok((match http.from_list(entries) {
                Ok(fields) => Ok(fields),
                Err(error) => Err(http.convert_header_error(error)?),
            },))
        },
    )?;
    types.func_wrap("[method]fields.clone", |mut store, (fields,): (Resource<FieldMap>,)| {
        Ok((HostFields::clone(&mut room(store.data_mut())?.http(), fields)?,))
    })?;
    type Request = Resource<HostOutgoingRequest>;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store, (request, method): (Request, Method)| {
            let fits = !matches!(&method, Method::Other(name) if name.len() > TEXT);
            let set = || store.data_mut().http().set_method(request, method);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-scheme",
        |mut store, (request, scheme): (Request, Option<Scheme>)| {
            let fits = !matches!(&scheme, Some(Scheme::Other(name)) if name.len() > TEXT);
            let set = || store.data_mut().http().set_scheme(request, scheme);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store, (request, authority): (Request, Option<String>)| {
            let fits = authority.as_ref().is_none_or(|text| text.len() <= TEXT);
            let set = || store.data_mut().http().set_authority(request, authority);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store, (request, path): (Request, Option<String>)| {
            let fits = path.as_ref().is_none_or(|text| text.len() <= TEXT);
            let set = || store.data_mut().http().set_path_with_query(request, path);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.resource_async(
        "future-incoming-response",
        ResourceType::host::<HostFutureIncomingResponse>(),
        |mut store, response| {
            Box::new(async move { drop_response(store.data_mut(), response).await })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Ends a request whose response the guest does not wait for any more, and its connection.
pub(super) async fn drop_response(state: &mut GuestState, response: u32) -> wasmtime::Result<()> {
    let response = Resource::<HostFutureIncomingResponse>::new_own(response);
    let answer = match state.http().table.delete(response)? {
        HostFutureIncomingResponse::Pending(request) => request.cancel().await,
        HostFutureIncomingResponse::Ready(answer) => Some(answer),
        HostFutureIncomingResponse::Consumed => None,
    };
    if let Some(Ok((_, connection))) = answer {
        connection.cancel().await;
    }
    Ok(())
}

/// Returns the state, if one more list of fields may be made in it. Every other message is made
/// from one: a request from its fields, a response from its request.
pub(in crate::exec::wasm) fn room(state: &mut GuestState) -> wasmtime::Result<&mut GuestState> {
    let of_http = |entry: &&mut (dyn std::any::Any + Send)| {
        entry.is::<FieldMap>()
            || entry.is::<HostOutgoingRequest>()
            || entry.is::<HostOutgoingResponse>()
            || entry.is::<HostFutureIncomingResponse>()
            || entry.is::<HostIncomingResponse>()
            || entry.is::<p3::Request>()
            || entry.is::<p3::Response>()
            || entry.is::<RequestOptions>()
    };
    if state.http().table.iter_mut().filter(of_http).count() >= MOST {
        return Err(wasmtime::Error::msg(format!(
            "a component has at most {MOST} requests, responses and lists of header fields"
        )));
    }
    if !state.memory.set_aside(MOST as u64 * EACH) {
        return Err(wasmtime::Error::msg("there is no memory for requests"));
    }
    Ok(state)
}
