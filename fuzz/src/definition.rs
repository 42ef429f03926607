//! The definitions of MCP servers. They lie among tools, so they can come from any author.

use std::path::Path;

use ikigai_host::Digest;
use ikigai_host::exec::mcp::{Auth, ServerTarget};
use ikigai_host::registry::ServerDefinition;

use crate::policy::check_refusal;

/// Checks that a definition names one program by its absolute path, or one address, and is
/// identified by the digest of its text. Otherwise it must be refused with the place of the
/// mistake.
pub(crate) fn run(data: &[u8]) {
    let definition = match ServerDefinition::parse(Path::new("/tools/files.mcp.toml"), data) {
        Ok(definition) => definition,
        Err(error) => return check_refusal(&error, data),
    };
    assert_eq!(definition.server.name, "files");
    assert_eq!(definition.server.digest, Digest::from_bytes(data));
    match &definition.server.target {
        ServerTarget::Process { program, .. } => assert!(program.is_absolute(), "{program:?}"),
        ServerTarget::Remote { url, auth } => {
            assert!(!url.is_empty());
            match auth {
                Auth::None | Auth::OAuth => {}
                Auth::Variable(name) => assert!(!name.is_empty()),
                Auth::Command { program, .. } => assert!(program.is_absolute(), "{program:?}"),
            }
        }
    }
}
