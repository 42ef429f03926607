//! `ikigai:tool/assets`: the assets of the host, for a guest.
//!
//! Every guest that imports it is linked to it, since no grant is known when a guest is linked;
//! [`AssetGate`](crate::exec::assets::AssetGate) refuses operations that are not granted. A guest
//! that waits here yields its thread, so its deadline still applies.

use ikigai_protocol::ToolCode;
use wasmtime::component::{HasSelf, Linker};

use self::bindings::ikigai::tool::assets::{Entry, Error, ErrorCode, Host, Listing};
use super::state::GuestState;
use crate::exec::assets::{AssetError, Window};

mod bindings {
    wasmtime::component::bindgen!({
        path: "wit",
        inline: "
            package ikigai:host;
            world assets {
                import ikigai:tool/assets@0.1.0;
            }
        ",
        world: "ikigai:host/assets",
        imports: { default: async | trappable },
        require_store_data_send: true,
    });
}

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    bindings::ikigai::tool::assets::add_to_linker::<GuestState, HasSelf<GuestState>>(
        linker,
        |state| state,
    )
}

/// The answer to a guest; the outer error is a trap.
type AssetResult<T> = wasmtime::Result<Result<T, Error>>;

impl Host for GuestState {
    async fn read(
        &mut self,
        uri: String,
        offset: Option<u64>,
        limit: Option<u64>,
    ) -> AssetResult<String> {
        Ok(self.gate.read(uri, Window { offset, limit }).await.map_err(error))
    }

    async fn write(&mut self, uri: String, content: String) -> AssetResult<()> {
        Ok(self.gate.write(uri, content).await.map_err(error))
    }

    async fn edit(&mut self, uri: String, old: String, new: String, all: bool) -> AssetResult<u64> {
        Ok(self.gate.edit(uri, old, new, all).await.map_err(error))
    }

    async fn list(&mut self, prefix: String) -> AssetResult<Listing> {
        let listing = self.gate.list(prefix).await;
        Ok(listing.map_err(error).map(|listing| Listing {
            more: listing.more,
            entries: listing
                .entries
                .into_iter()
                .map(|it| Entry { path: it.path, tokens: it.tokens, read_only: it.read_only })
                .collect(),
        }))
    }
}

fn error(error: AssetError) -> Error {
    let code = match error.code {
        ToolCode::FileNotFound => ErrorCode::FileNotFound,
        ToolCode::PermissionDenied => ErrorCode::PermissionDenied,
        ToolCode::OpenFailed => ErrorCode::OpenFailed,
        ToolCode::ReadFailed => ErrorCode::ReadFailed,
        ToolCode::WriteFailed => ErrorCode::WriteFailed,
        ToolCode::SeekFailed => ErrorCode::SeekFailed,
        ToolCode::SizeFailed => ErrorCode::SizeFailed,
        ToolCode::NoSpace => ErrorCode::NoSpace,
        ToolCode::InvalidPattern => ErrorCode::InvalidPattern,
        ToolCode::OutOfMemory => ErrorCode::OutOfMemory,
        ToolCode::ReadError => ErrorCode::ReadError,
        ToolCode::NotFound => ErrorCode::NotFound,
        ToolCode::NotUnique => ErrorCode::NotUnique,
        ToolCode::InvalidArg => ErrorCode::InvalidArg,
        ToolCode::InvalidParams => ErrorCode::InvalidParams,
        ToolCode::BudgetExceeded => ErrorCode::BudgetExceeded,
        ToolCode::ReadOnly => ErrorCode::ReadOnly,
    };
    Error { code, message: error.message }
}
