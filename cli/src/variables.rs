//! The environment variables that ikigai reads, each declared once.
//!
//! An option declares its own variable. A provider declares the variables of its key and its
//! address. The others are in [`ProgramVariable`]. No other module of this crate reads the
//! environment, and docs/reference/environment.md lists all of them.

use std::ffi::OsString;
use std::str::FromStr as _;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A variable that does not belong to an option or a provider. The name of the variant is the name
/// of the variable, in capitals. Libraries read some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ProgramVariable {
    IkigaiLog,
    IkigaiComplete,
    Home,
    XdgConfigHome,
    XdgDataHome,
    XdgStateHome,
    XdgCacheHome,
    XdgRuntimeDir,
    Tmpdir,
    Path,
    Lang,
    User,
    Logname,
    Visual,
    Editor,
    Shell,
    Term,
    NoColor,
    HttpsProxy,
    HttpProxy,
    AllProxy,
    NoProxy,
    SslCertFile,
    SslCertDir,
    RegistryAuthFile,
    DockerConfig,
    Pgpassword,
    Pgsslmode,
    ClaudeConfigDir,
    CodexHome,
}

impl ProgramVariable {
    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the value, which may be empty.
    pub(crate) fn value(self) -> Option<OsString> {
        value(self.name())
    }

    /// Returns the value if it is UTF-8. It may be empty.
    pub(crate) fn text(self) -> Option<String> {
        text(self.name())
    }

    /// Returns what the variable sets, in Markdown.
    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Self::IkigaiLog => {
                "Filter of the log on stderr, in the syntax of `tracing`, such as `debug` or `ikigai=debug`"
            }
            Self::IkigaiComplete => {
                "Shell that asks for completions; only the completion scripts set it"
            }
            Self::Home => "Your home, which `~` stands for; if unset, the home of your account",
            Self::XdgConfigHome => {
                "Directory of your configuration and policy, and of podman's credentials"
            }
            Self::XdgDataHome => {
                "Directory of assets, saved conversations and the approved tools of workspaces"
            }
            Self::XdgStateHome => "Directory of the audit log, logins and approvals of MCP servers",
            Self::XdgCacheHome => "Directory of compiled components and downloads",
            Self::XdgRuntimeDir => {
                "Directory with the token of `mcp serve --http`, and podman's credentials"
            }
            Self::Tmpdir => "Directory of temporary files",
            Self::Path => "Directories of programs; passed to native tools",
            Self::Lang => "Language, passed to native tools",
            Self::User | Self::Logname => "Your name in the default of `--agent`",
            Self::Visual => "Your editor, as a command with its options",
            Self::Editor => "Your editor, if `VISUAL` is not set",
            Self::Shell => "Shell that runs the commands that you type in a conversation",
            Self::Term => "Terminal; `dumb` turns off menus, spinners and styles",
            Self::NoColor => "Turns off colours, if it is not empty",
            Self::HttpsProxy => "Proxy for `https://` requests to providers and registries",
            Self::HttpProxy => "Proxy for `http://` requests to providers and registries",
            Self::AllProxy => "Proxy for requests that `HTTPS_PROXY` and `HTTP_PROXY` do not cover",
            Self::NoProxy => "Hosts that need no proxy, separated by commas",
            Self::SslCertFile => "File of the certificates to trust, in PEM",
            Self::SslCertDir => "Directories of the certificates to trust",
            Self::RegistryAuthFile => "File with registry credentials; ikigai reads it first",
            Self::DockerConfig => "Directory of docker's credentials for registries",
            Self::Pgpassword => {
                "Password of a `postgres://` store whose URL has none; PostgreSQL's other variables, \
                 such as `PGHOST`, apply too"
            }
            Self::Pgsslmode => "TLS mode of a `postgres://` store whose URL has none",
            Self::ClaudeConfigDir => "Directory in which `mcp install claude-code` adds its entry",
            Self::CodexHome => "Directory in which `mcp install codex` adds its entry",
        }
    }

    /// Returns the value that applies if the variable is not set, in Markdown.
    pub(crate) fn default_value(self) -> &'static str {
        match self {
            Self::IkigaiLog => "warnings; with `--verbose` also ikigai's debug messages",
            Self::XdgConfigHome => "`~/.config`",
            Self::XdgDataHome => "`~/.local/share`",
            Self::XdgStateHome => "`~/.local/state`",
            Self::XdgCacheHome => "`~/.cache`",
            Self::Tmpdir => "`/tmp`",
            Self::User | Self::Logname => "the name in `/etc/passwd`",
            Self::Editor => "`vi`",
            Self::Shell => "`/bin/sh`",
            Self::SslCertFile | Self::SslCertDir => "the machine's certificates",
            Self::DockerConfig => "`~/.docker`",
            Self::Pgsslmode => "`verify-full` for other machines",
            Self::ClaudeConfigDir => "`~`",
            Self::CodexHome => "`~/.codex`",
            Self::IkigaiComplete
            | Self::Home
            | Self::XdgRuntimeDir
            | Self::Path
            | Self::Lang
            | Self::Visual
            | Self::Term
            | Self::NoColor
            | Self::HttpsProxy
            | Self::HttpProxy
            | Self::AllProxy
            | Self::NoProxy
            | Self::RegistryAuthFile
            | Self::Pgpassword => "",
        }
    }
}

/// Returns the value of a variable, for a library that asks by name. Returns `None` for a name that
/// [`ProgramVariable`] does not have.
pub(crate) fn listed(name: &str) -> Option<OsString> {
    ProgramVariable::from_str(name).ok()?.value()
}

/// Returns the value of a variable by its name. It belongs to an option, a provider or a toolchain,
/// or the user's files name it.
pub(crate) fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the same as [`value`], if it is UTF-8.
pub(crate) fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_name() {
        for variable in ProgramVariable::VARIANTS {
            assert_eq!(ProgramVariable::from_str(variable.name()), Ok(*variable));
        }
        assert_eq!(ProgramVariable::XdgConfigHome.name(), "XDG_CONFIG_HOME");
        assert_eq!(listed("PATH"), ProgramVariable::Path.value());
        assert_eq!(listed("CARGO_MANIFEST_DIR"), None, "it is set, and not in the list");
        assert!(value("CARGO_MANIFEST_DIR").is_some());
    }
}
