//! `wasi:http` of WASI 0.3.
//!
//! Requests are sent as those of 0.2 are ([`Hooks`](crate::exec::wasm::net::http::Hooks)). Messages
//! have the same limits on their number and their size ([`messages`](crate::exec::wasm::net::messages)).

use wasmtime::StoreContextMut;
use wasmtime::component::{Access, FutureReader, Linker, Resource, StreamReader};
use wasmtime_wasi_http::p3::bindings::http::client::HostWithStore;
use wasmtime_wasi_http::p3::bindings::http::types::{
    ErrorCode, Fields, Host as _, HostFields, HostRequest, HostRequestOptions,
    HostRequestWithStore, HostResponseWithStore, Method, Request, RequestOptions, Response, Scheme,
};
use wasmtime_wasi_http::{WasiHttp, WasiHttpView as _};

use crate::exec::wasm::net::messages::{TEXT, room};
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::tasks;

/// The end of a body: its trailers, if it has some.
type Trailers = FutureReader<Result<Option<Resource<Fields>>, ErrorCode>>;

/// The arguments of `request.new`: the headers, the body, its trailers, and the options.
type RequestParts =
    (Resource<Fields>, Option<StreamReader<u8>>, Trailers, Option<Resource<RequestOptions>>);

/// The end of the transfer of a body.
type Transferred = FutureReader<Result<(), ErrorCode>>;

/// Links `wasi:http` of WASI 0.3.
pub(in crate::exec::wasm) fn add_to_linker(
    linker: &mut Linker<GuestState>,
) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    linker.allow_shadowing(true);
    linker.instance("wasi:http/client@0.3.0")?.func_wrap_concurrent(
        "send",
        |accessor, (request,): (Resource<Request>,)| {
            Box::pin(async move {
                // A request that the guest dropped has its connection until then.
                tasks::finish_aborted().await;
                let http = accessor.with_getter::<WasiHttp>(GuestState::http);
                match HostWithStore::send(&http, request).await {
                    Ok(response) => Ok((Ok(response),)),
                    Err(error) => {
                        let code = |state: &mut GuestState| state.http().convert_error_code(error);
                        Ok((Err(accessor.with(|mut access| code(access.get()))?),))
                    }
                }
            })
        },
    )?;
    add_fields(linker)?;
    add_messages(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the functions that make fields and options.
fn add_fields(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut types = linker.instance("wasi:http/types@0.3.0")?;
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
    types.func_wrap("[method]fields.clone", |mut store, (fields,): (Resource<Fields>,)| {
        Ok((HostFields::clone(&mut room(store.data_mut())?.http(), fields)?,))
    })?;
    types.func_wrap("[constructor]request-options", |mut store, ()| {
        Ok((HostRequestOptions::new(&mut room(store.data_mut())?.http())?,))
    })?;
    types.func_wrap(
        "[method]request-options.clone",
        |mut store, (options,): (Resource<RequestOptions>,)| {
            Ok((HostRequestOptions::clone(&mut room(store.data_mut())?.http(), options)?,))
        },
    )
}

/// Links the functions that make requests and responses, and those that give them texts.
fn add_messages(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut types = linker.instance("wasi:http/types@0.3.0")?;
    types.func_wrap(
        "[static]request.new",
        |mut store: StoreContextMut<'_, GuestState>,
         (headers, contents, trailers, options): RequestParts| {
            room(store.data_mut())?;
            let http = Access::<_, WasiHttp>::new(store, GuestState::http);
            let made: (Resource<Request>, Transferred) =
                HostRequestWithStore::new(http, headers, contents, trailers, options)?;
            Ok((made,))
        },
    )?;
    types.func_wrap(
        "[static]response.new",
        |mut store: StoreContextMut<'_, GuestState>,
         (headers, contents, trailers): (Resource<Fields>, Option<StreamReader<u8>>, Trailers)| {
            room(store.data_mut())?;
            let http = Access::<_, WasiHttp>::new(store, GuestState::http);
            let made: (Resource<Response>, Transferred) =
                HostResponseWithStore::new(http, headers, contents, trailers)?;
            Ok((made,))
        },
    )?;
    types.func_wrap(
        "[method]request.set-method",
        |mut store, (request, method): (Resource<Request>, Method)| {
            let fits = !matches!(&method, Method::Other(name) if name.len() > TEXT);
            let set = || store.data_mut().http().set_method(request, method);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]request.set-scheme",
        |mut store, (request, scheme): (Resource<Request>, Option<Scheme>)| {
            let fits = !matches!(&scheme, Some(Scheme::Other(name)) if name.len() > TEXT);
            let set = || store.data_mut().http().set_scheme(request, scheme);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]request.set-authority",
        |mut store, (request, authority): (Resource<Request>, Option<String>)| {
            let fits = authority.as_ref().is_none_or(|text| text.len() <= TEXT);
            let set = || store.data_mut().http().set_authority(request, authority);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )?;
    types.func_wrap(
        "[method]request.set-path-with-query",
        |mut store, (request, path): (Resource<Request>, Option<String>)| {
            let fits = path.as_ref().is_none_or(|text| text.len() <= TEXT);
            let set = || store.data_mut().http().set_path_with_query(request, path);
            Ok((if fits { set()? } else { Err(()) },))
        },
    )
}
