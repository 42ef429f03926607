//! What crosses the boundary between the host and a tool: the schema a tool
//! answers with, the error codes both sides speak, and the list of granted
//! directories that a native tool is handed, what it may say on the host socket, which
//! characters of a text from the other side must not be shown as they are, and which variables
//! of the environment hold keys that no tool gets unasked.
//!
//! Shapes and their rules only. Nothing here reads a file, starts a process or
//! knows WebAssembly.

mod assets;
mod dirs;
mod error_code;
pub mod host_socket;
mod invisible;
mod provider_key;
mod schema;
pub mod shell;

pub use assets::AssetError;
pub use dirs::{Access, DIRS_VARIABLE, DirsError, GrantedDir, decode_dirs, encode_dirs};
pub use error_code::{EnvelopeCode, ToolCode};
pub use invisible::{is_deceptive, is_unseen};
pub use provider_key::ProviderKey;
pub use schema::{MAX_SCHEMA_BYTES, RESERVED_NAMES, SchemaError, ToolSchema, is_tool_name};
