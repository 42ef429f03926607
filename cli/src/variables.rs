//! The environment variables that ikigai reads, each declared once.
//!
//! An option declares its own variable, and a provider those of its key and its address. The others
//! are in [`ProgramVariable`]. No other module of this crate reads the environment.

use std::ffi::OsString;
use std::str::FromStr as _;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A variable that is not of an option or a provider. The name of the variant is the name of the
/// variable, in capitals. ikigai's libraries read some of them.
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
}

/// Returns the value of a variable, for a library that asks by name. Returns `None` for a name that
/// [`ProgramVariable`] does not have.
pub(crate) fn listed(name: &str) -> Option<OsString> {
    ProgramVariable::from_str(name).ok()?.value()
}

/// Returns the value of a variable by its name: that of an option, a provider or a toolchain, or
/// one that the user's files name.
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
