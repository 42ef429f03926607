//! An MCP server as its definition describes it. Knows neither its process nor its connection.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ikigai_protocol::Digest;

use super::connect::Auth;

/// A server, as its definition describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedServer {
    /// The name of the definition.
    pub name: String,
    /// The digest of the definition.
    pub digest: Digest,
    /// The way to reach it.
    pub target: ServerTarget,
}

impl DefinedServer {
    /// Returns its program; nothing for a server that is reached over HTTP.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        match &self.target {
            ServerTarget::Process { program, .. } => Some(program),
            ServerTarget::Remote { .. } => None,
        }
    }
}

/// The way to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTarget {
    /// It is a program, which speaks on its stdin and stdout.
    Process {
        /// The absolute path of the program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// It is somewhere else, and speaks over HTTP.
    Remote {
        /// The address of its endpoint.
        url: String,
        /// The source of its token.
        auth: Auth,
    },
}
