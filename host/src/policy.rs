//! What a tool may touch.
//!
//! Owns the grant and the built-in `standard` profile that it comes from. Opens
//! nothing: a grant is a list of names, and the lane that runs a tool turns it
//! into handles.

mod net;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, DIRS_VARIABLE, DirsError, GrantedDir, encode_dirs};

pub use net::{Net, Peer, PeerHost, is_public};

/// What one tool may touch in one workspace. Nothing else is reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Directories, absolute. A component gets each as a preopen; a native file
    /// tool gets them in `IKIGAI_DIRS`.
    pub dirs: Vec<GrantedDir>,
    /// The whole environment of the tool.
    pub env: Vec<(OsString, OsString)>,
    /// Whether that is its user's own environment rather than variables that were
    /// granted by name.
    pub inherits_env: bool,
    /// Which peers it may connect to. A native tool has no network or all of it.
    pub net: Net,
    /// How much of this the native lane must be able to keep. Components are always
    /// kept to all of it.
    pub sandbox: Sandbox,
}

/// What becomes of a native call where this machine cannot keep the whole grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sandbox {
    /// There is no sandbox: the tool runs with all of its user's rights.
    Off,
    /// It runs with what can be kept, and is reported so.
    Prefer,
    /// It does not run.
    #[default]
    Require,
}

impl Sandbox {
    /// `off`, `prefer` or `require`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Prefer => "prefer",
            Self::Require => "require",
        }
    }
}

/// Which of the two directories a tool comes from. The built-in grants are for
/// system tools only: a user's tool that calls itself `file_write` gets nothing
/// from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Installed with the host.
    System,
    /// Put there by the user, or named by its path.
    User,
}

/// Which kind of program a tool is run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// A WebAssembly component.
    Wasm,
    /// A native executable.
    Native,
}

impl Backend {
    /// `wasm` or `native`, as flags and tables write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Native => "native",
        }
    }
}

impl Origin {
    /// `system` or `user`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// Variables that hold the keys of model providers: never for a tool, which would
/// then be able to spend its user's money.
pub const PROVIDER_KEYS: &[&str] =
    &["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"];

/// What a tool sees of the environment where it is granted nothing of it.
const MINIMAL_ENV: &[&str] = &["PATH", "HOME", "LANG"];

/// The access of a standard tool to its workspace.
fn standard_access(tool: &str) -> Option<Access> {
    match tool {
        "file_read" | "glob" | "grep" => Some(Access::ReadOnly),
        "file_write" | "file_edit" | "bash" => Some(Access::ReadWrite),
        _ => None,
    }
}

/// Whether the native build of a standard tool runs whatever it is told to, and
/// so cannot hold the boundary of its directories by itself.
fn runs_commands(tool: &str) -> bool {
    tool == "bash"
}

/// What may be done at most in a workspace: reading only where it holds, or lies
/// in, one of the host's `own` places. A tool that may write there could install a
/// tool, a grant or machine code.
#[must_use]
pub fn most_in(workspace: &Path, own: &[PathBuf]) -> Access {
    let meets = |place: &PathBuf| place.starts_with(workspace) || workspace.starts_with(place);
    if own.iter().any(meets) { Access::ReadOnly } else { Access::ReadWrite }
}

/// Whether a standard tool is there to write, and so misses the right to.
#[must_use]
pub fn writes(tool: &str, origin: Origin) -> bool {
    origin == Origin::System && standard_access(tool) == Some(Access::ReadWrite)
}

/// The grant of `tool` under the `standard` profile. `most` is what may be done in
/// the workspace at most, see [`most_in`].
///
/// # Errors
///
/// The workspace's path cannot be handed to a native tool.
pub fn standard(
    tool: &str,
    origin: Origin,
    backend: Backend,
    workspace: &Path,
    most: Access,
) -> Result<Grant, DirsError> {
    if origin == Origin::User {
        return Ok(match backend {
            Backend::Wasm => Grant::default(),
            Backend::Native => Grant {
                env: user_env(),
                inherits_env: true,
                net: Net { any: true, ..Net::default() },
                sandbox: Sandbox::Off,
                ..Grant::default()
            },
        });
    }
    let dirs: Vec<GrantedDir> = standard_access(tool)
        .map(|access| GrantedDir { access: access.min(most), path: workspace.to_owned() })
        .into_iter()
        .collect();
    match backend {
        Backend::Wasm => Ok(Grant { dirs, ..Grant::default() }),
        Backend::Native => {
            let mut env = minimal_env();
            // Only the standard tools are known to hold a boundary by themselves.
            let unconfined = runs_commands(tool) || standard_access(tool).is_none();
            if !unconfined {
                env.push((DIRS_VARIABLE.into(), encode_dirs(&dirs)?));
            }
            let sandbox = if unconfined { Sandbox::Off } else { Sandbox::Prefer };
            Ok(Grant { dirs, env, sandbox, ..Grant::default() })
        }
    }
}

/// The grant of a `--schema` call: nothing.
#[must_use]
pub fn for_schema(backend: Backend) -> Grant {
    match backend {
        Backend::Wasm => Grant::default(),
        Backend::Native => {
            Grant { env: minimal_env(), sandbox: Sandbox::Prefer, ..Grant::default() }
        }
    }
}

fn minimal_env() -> Vec<(OsString, OsString)> {
    let pass = |name: &&str| Some((OsString::from(*name), std::env::var_os(name)?));
    MINIMAL_ENV.iter().filter_map(pass).collect()
}

fn user_env() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !is_provider_key(name)).collect()
}

fn is_provider_key(name: &OsStr) -> bool {
    PROVIDER_KEYS.iter().any(|key| name == *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(tool: &str, origin: Origin, backend: Backend) -> Grant {
        standard(tool, origin, backend, Path::new("/w"), Access::ReadWrite)
            .expect("the path can be granted")
    }

    #[test]
    fn the_standard_tools_get_the_workspace_and_no_more() {
        for (tool, access) in [
            ("file_read", Access::ReadOnly),
            ("glob", Access::ReadOnly),
            ("grep", Access::ReadOnly),
            ("file_write", Access::ReadWrite),
            ("file_edit", Access::ReadWrite),
        ] {
            let dirs = vec![GrantedDir { access, path: "/w".into() }];
            let wasm = grant(tool, Origin::System, Backend::Wasm);
            assert_eq!(wasm, Grant { dirs: dirs.clone(), ..Grant::default() });
            let native = grant(tool, Origin::System, Backend::Native);
            assert_eq!(native.dirs, dirs);
            assert_eq!(native.sandbox, Sandbox::Prefer);
            let line = OsString::from(format!("{}:/w", access.as_str()));
            assert!(native.env.contains(&(DIRS_VARIABLE.into(), line)));
        }
        assert!(grant("other", Origin::System, Backend::Wasm).dirs.is_empty());
        assert_eq!(grant("other", Origin::System, Backend::Native).sandbox, Sandbox::Off);
    }

    #[test]
    fn a_users_tool_gets_nothing_from_a_borrowed_name() {
        assert_eq!(grant("file_write", Origin::User, Backend::Wasm), Grant::default());
        let native = grant("file_write", Origin::User, Backend::Native);
        assert!(native.sandbox == Sandbox::Off && native.dirs.is_empty());
        assert!(native.env.iter().all(|(name, _)| !is_provider_key(name)));
    }

    #[test]
    fn nothing_is_written_where_a_tool_could_be_installed() {
        let own = [PathBuf::from("/home/u/.ikigai/tools")];
        for workspace in ["/", "/home/u", "/home/u/.ikigai/tools", "/home/u/.ikigai/tools/x"] {
            assert_eq!(most_in(Path::new(workspace), &own), Access::ReadOnly, "{workspace}");
        }
        for workspace in ["/home/u/work", "/home/u/.ikigai/tools-of-mine"] {
            assert_eq!(most_in(Path::new(workspace), &own), Access::ReadWrite, "{workspace}");
        }
        let narrowed = standard(
            "file_write",
            Origin::System,
            Backend::Wasm,
            Path::new("/w"),
            Access::ReadOnly,
        );
        assert_eq!(narrowed.expect("granted").dirs[0].access, Access::ReadOnly);
    }

    #[test]
    fn keys_of_model_providers_are_known() {
        assert!(is_provider_key(OsStr::new("OPENAI_API_KEY")));
        assert!(!is_provider_key(OsStr::new("DB_CONNECTION_STRING")));
    }
}
