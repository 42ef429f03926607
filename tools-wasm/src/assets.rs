//! The asset port over the import `ikigai:tool/assets`.

use ikigai_protocol::ToolCode;
use ikigai_tools::ports::{AssetError, Assets, LineWindow};

use crate::bindings::ikigai::tool::assets::{self, Error, ErrorCode};

/// The assets of the host that runs this component.
#[derive(Clone, Copy, Debug)]
pub struct WitAssets;

impl Assets for WitAssets {
    fn read(&self, uri: &str, lines: LineWindow) -> Result<String, AssetError> {
        let offset = Some(lines.skip.saturating_add(1));
        assets::read(uri, offset, lines.limit).map_err(said)
    }

    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError> {
        assets::write(uri, content).map_err(said)
    }

    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError> {
        assets::edit(uri, old, new, all).map_err(said)
    }
}

fn said(error: Error) -> AssetError {
    let code = match error.code {
        ErrorCode::FileNotFound => ToolCode::FileNotFound,
        ErrorCode::PermissionDenied => ToolCode::PermissionDenied,
        ErrorCode::OpenFailed => ToolCode::OpenFailed,
        ErrorCode::ReadFailed => ToolCode::ReadFailed,
        ErrorCode::WriteFailed => ToolCode::WriteFailed,
        ErrorCode::SeekFailed => ToolCode::SeekFailed,
        ErrorCode::SizeFailed => ToolCode::SizeFailed,
        ErrorCode::NoSpace => ToolCode::NoSpace,
        ErrorCode::InvalidPattern => ToolCode::InvalidPattern,
        ErrorCode::OutOfMemory => ToolCode::OutOfMemory,
        ErrorCode::ReadError => ToolCode::ReadError,
        ErrorCode::NotFound => ToolCode::NotFound,
        ErrorCode::NotUnique => ToolCode::NotUnique,
        ErrorCode::InvalidArg => ToolCode::InvalidArg,
        ErrorCode::InvalidParams => ToolCode::InvalidParams,
        ErrorCode::BudgetExceeded => ToolCode::BudgetExceeded,
        ErrorCode::ReadOnly => ToolCode::ReadOnly,
    };
    AssetError::new(code, error.message)
}
