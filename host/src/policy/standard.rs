//! The built-in profiles: the grants of tools that no policy file names.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ikigai_protocol::{Access, ProviderKey};

use super::variables::Variables;
use super::{AssetAccess, Backend, Grant, PolicyRequest, Profile, Sandbox, ToolOrigin};
use crate::limits::CallLimits;

#[doc(hidden)]
pub use ikigai_protocol::STORE_VARIABLE;

/// The time that an MCP server has for a call. Many servers first ask another service.
const SERVER_CALL: Duration = Duration::from_secs(60);

/// The variables that every confined native tool has.
const MINIMAL_ENV: &[&str] = &["PATH", "HOME", "LANG"];

/// Returns a built-in tool's access to the workspace.
pub(super) fn access(tool: &str) -> Option<Access> {
    match tool {
        "file_read" | "glob" | "grep" => Some(Access::ReadOnly),
        "file_write" | "file_edit" => Some(Access::ReadWrite),
        _ if tool == SHELL => Some(Access::ReadWrite),
        _ => None,
    }
}

/// Returns the access to the workspace for a user native tool without a grant. It is the same as
/// for the shell, whose sandbox the tool runs in. The profile `strict` gives no access.
pub(super) fn native_access(profile: Profile) -> Option<Access> {
    match profile {
        Profile::Standard => access(SHELL),
        Profile::Strict => None,
    }
}

/// Returns the arguments of a built-in tool that are file paths, with the access that they need. An
/// argument for a file has a second name, which is read if the first is missing.
pub(crate) fn path_arguments(tool: &str) -> &'static [(&'static str, Access)] {
    match tool {
        "file_read" => &[("file_path", Access::ReadOnly), ("path", Access::ReadOnly)],
        "file_write" | "file_edit" => {
            &[("file_path", Access::ReadWrite), ("path", Access::ReadWrite)]
        }
        "glob" | "grep" => &[("path", Access::ReadOnly)],
        _ => &[],
    }
}

/// Returns whether a tool with this name is a built-in tool. Only a user tool may replace it.
#[doc(hidden)]
#[must_use]
pub fn is_standard(tool: &str) -> bool {
    access(tool).is_some()
}

/// Returns the access to assets of a built-in tool, or of a tool that is part of the host.
pub(super) fn assets(tool: &str) -> AssetAccess {
    match tool {
        "file_read" | CLIENTS => AssetAccess::Read,
        "file_write" | "file_edit" | OWN_TOOL => AssetAccess::Write,
        _ => AssetAccess::None,
    }
}

/// The built-in tool by which a model reads files. What is hidden from it is not sent to a model.
pub(super) const FILE_READ: &str = "file_read";

/// The tool that is part of the host and lets a model work with assets, in addition to the file
/// tools.
#[doc(hidden)]
pub const OWN_TOOL: &str = "slash_command";

/// The policy's name for MCP clients that read assets as resources.
#[doc(hidden)]
pub const CLIENTS: &str = "mcp_assets";

/// The built-in tool that runs any command. So its native build cannot restrict itself to its
/// directories.
pub(super) const SHELL: &str = "bash";

/// Returns the sandbox that the native build of a built-in tool needs.
pub(super) fn sandbox(tool: &str) -> Sandbox {
    // The file tools restrict themselves to their directories.
    if tool != SHELL && access(tool).is_some() { Sandbox::Prefer } else { Sandbox::Require }
}

/// Returns whether a tool may create sockets on its own loopback interface, as servers and their
/// tests do. The file tools don't need them.
pub(super) fn has_own_sockets(profile: Profile, request: &PolicyRequest<'_>) -> bool {
    let is_file_tool =
        request.origin == ToolOrigin::System && request.name.is_some_and(|name| name != SHELL);
    profile == Profile::Standard && request.backend != Backend::Wasm && !is_file_tool
}

/// Returns the first of the `protected` paths that `dir` contains or lies in. A tool that may write
/// there could install a tool, a grant or machine code.
pub(super) fn protected_path_in<'a>(dir: &Path, protected: &'a [PathBuf]) -> Option<&'a Path> {
    let meets = |path: &&PathBuf| path.starts_with(dir) || dir.starts_with(path);
    protected.iter().find(meets).map(PathBuf::as_path)
}

/// Returns the grant of a `--schema` call, which is empty.
pub(super) fn for_schema(backend: Backend) -> Grant {
    match backend {
        Backend::Wasm => Grant::default(),
        Backend::Native | Backend::Mcp => {
            Grant { env: minimal_env(), sandbox: Sandbox::Prefer, ..Grant::default() }
        }
    }
}

/// Returns the limits of a call that no policy file sets.
pub(super) fn limits(backend: Backend) -> CallLimits {
    match backend {
        Backend::Wasm | Backend::Native => CallLimits::default(),
        Backend::Mcp => CallLimits { wall_clock: SERVER_CALL, ..CallLimits::default() },
    }
}

/// Returns the environment of a native tool without granted variables.
pub(super) fn minimal_env() -> Vec<(OsString, OsString)> {
    let pass = |name: &&str| Some((OsString::from(*name), std::env::var_os(name)?));
    MINIMAL_ENV.iter().filter_map(pass).collect()
}

/// Returns the user's environment, without the variables that are only for the host.
pub(super) fn user_env(variables: &Variables) -> Vec<(OsString, OsString)> {
    let is_kept = |name: &OsStr| !is_provider_key(name) && name != STORE_VARIABLE;
    variables.all().into_iter().filter(|(name, _)| is_kept(name)).collect()
}

/// Returns whether a variable with this name contains a model provider's key. No tool gets such a
/// variable unless the user grants it by name.
pub(super) fn is_provider_key(name: &OsStr) -> bool {
    ProviderKey::ALL.iter().any(|key| name == key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_where_a_tool_could_be_installed() {
        let protected = [PathBuf::from("/home/u/.ikigai/tools")];
        for dir in ["/", "/home/u", "/home/u/.ikigai/tools", "/home/u/.ikigai/tools/x"] {
            assert!(protected_path_in(Path::new(dir), &protected).is_some(), "{dir}");
        }
        for dir in ["/home/u/work", "/home/u/.ikigai/tools-of-mine"] {
            assert!(protected_path_in(Path::new(dir), &protected).is_none(), "{dir}");
        }
    }

    #[test]
    fn keys_of_model_providers_are_known() {
        for name in ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"] {
            assert!(is_provider_key(OsStr::new(name)), "{name}");
        }
        assert!(!is_provider_key(OsStr::new("DB_CONNECTION_STRING")));
        let variables = Variables::default();
        for name in ["OPENAI_API_KEY", STORE_VARIABLE, "DB_CONNECTION_STRING"] {
            variables.set(name, "set for this run");
        }
        let env = user_env(&variables);
        assert!(env.iter().all(|(name, _)| !is_provider_key(name) && name != STORE_VARIABLE));
        assert!(env.iter().any(|(name, _)| name == "DB_CONNECTION_STRING"));
    }
}
