//! The messages and rules that both sides of the boundary between the host and a tool share.
//!
//! A tool that is written for ikigai meets them in this order:
//!
//! 1. [`ToolSchema`]: the schema that a tool prints for `--schema`, and the checks it has to pass.
//! 2. [`Access`] and [`GrantedDir`]: the granted directories, which a native tool receives in the
//!    variable [`DIRS_VARIABLE`].
//! 3. [`EnvelopeCode`] and [`ToolCode`]: the error codes that the host writes, and the codes
//!    that the built-in tools write.
//! 4. [`host_socket`] and [`AssetError`]: the requests of a native tool for assets.
//!
//! [`Digest`] is the digest that identifies a file. [`is_deceptive`] and [`is_invisible`]
//! recognise the characters of a foreign text that must not be displayed unchanged. [`shell`]
//! has the paths of the machine's shell. [`ProviderKey`] has the variables with the keys of
//! model providers, which no tool gets by default. [`ScriptSlot`] is the place for a script
//! in the component of the shell. [`AuthChallenge`] reads how a server wants a client to
//! authenticate.
//!
//! This crate owns only shapes and their rules. It reads no file, starts no process and knows
//! nothing of WebAssembly.
//!
//! ```
//! use ikigai_protocol::ToolSchema;
//!
//! let printed = br#"{
//!     "name": "word-count",
//!     "description": "Counts the words of a text",
//!     "parameters": {"text": {"type": "string", "required": true}}
//! }"#;
//! let schema = ToolSchema::parse(printed)?;
//! assert_eq!(schema.name, "word_count");
//! assert_eq!(schema.parameters["required"][0], "text");
//! # Ok::<(), ikigai_protocol::SchemaError>(())
//! ```

#![deny(missing_docs)]

mod assets;
mod challenge;
mod digest;
mod dirs;
mod error_code;
pub mod host_socket;
mod invisible;
mod provider_key;
mod schema;
mod script_slot;
pub mod shell;

pub use assets::{AssetError, STORE_VARIABLE, is_asset};
pub use challenge::AuthChallenge;
pub use digest::{Digest, DigestError};
pub use dirs::{Access, DIRS_VARIABLE, DirsError, GrantedDir, decode_dirs, encode_dirs};
pub use error_code::{EnvelopeCode, ToolCode};
pub use invisible::{is_deceptive, is_invisible, written_out};
pub use provider_key::ProviderKey;
pub use schema::{
    ACCESS_MARK, MAX_SCHEMA_BYTES, RESERVED_NAMES, ResultKind, SchemaError, ToolSchema,
    is_tool_name,
};
pub use script_slot::ScriptSlot;
