//! The definition of a server: a file `NAME.mcp.toml` in the user's tool directory.
//!
//! Says how to connect to a server, and contains no secrets. It grants nothing: only the policy
//! does.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Digest;
use toml::de::DeTable;

use super::candidate::{self, DEFINITION};
use super::file;
use crate::exec::mcp::{Auth, DefinedServer, ServerTarget};
use crate::policy::{ToolOrigin, check_server_name};
use crate::toml_file::{TomlError, TomlFile, TomlItem, TomlPair, kind_of, pairs};

/// The largest definition in bytes.
const LARGEST: u64 = 64 << 10;

/// The keys of a definition.
const KEYS: [&str; 7] = ["command", "args", "url", "token_env", "token_command", "oauth", "tools"];

/// The definition of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDefinition {
    /// Its path.
    pub path: PathBuf,
    /// The server.
    pub server: Arc<DefinedServer>,
    /// The tools to offer, by the server's own names; `None` means all tools.
    pub tools: Option<Vec<String>>,
}

/// Returns the path of the definition of the server with this name.
#[must_use]
pub fn definition_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{DEFINITION}"))
}

/// Returns the names of the servers that have a definition in a directory. Opens no files.
#[must_use]
pub fn defined_servers(dir: &Path) -> Vec<String> {
    let listing = candidate::list(dir, ToolOrigin::User).unwrap_or_default();
    let name = |candidate: candidate::Candidate| {
        file::name(&candidate.path).strip_suffix(DEFINITION).map(ToOwned::to_owned)
    };
    listing.candidates.into_iter().filter_map(name).collect()
}

impl ServerDefinition {
    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a definition.
    pub(super) fn read(path: &Path) -> Result<Self, TomlError> {
        let unreadable = |error| TomlError::whole(path, format!("cannot be read: {error}"));
        let mut text = Vec::new();
        file::open(path)
            .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text))
            .map_err(unreadable)?;
        if text.len() as u64 > LARGEST {
            let most = LARGEST >> 10;
            return Err(TomlError::whole(path, format!("is larger than {most} KiB")));
        }
        Self::parse(path, &text)
    }

    /// Parses the text of a definition at this path. The file name is the server's name.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a definition, or if the name cannot be a server's name.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, TomlError> {
        let name = file::name(path);
        let name = name.strip_suffix(DEFINITION).unwrap_or(&name);
        check_server_name(name).map_err(|what| TomlError::whole(path, what))?;
        let (file, table) = TomlFile::parse(path, text)?;
        let keys = ServerKeys::read(&file, table.get_ref())?;
        let target = keys.target().map_err(|what| TomlError::whole(path, what))?;
        let server =
            DefinedServer { name: name.to_owned(), digest: Digest::from_bytes(text), target };
        Ok(Self { path: path.to_owned(), server: Arc::new(server), tools: keys.tools })
    }
}

/// The keys of a definition, as written.
#[derive(Default)]
struct ServerKeys {
    command: Option<String>,
    args: Option<Vec<String>>,
    url: Option<String>,
    token_env: Option<String>,
    token_command: Option<Vec<String>>,
    oauth: bool,
    tools: Option<Vec<String>>,
}

impl ServerKeys {
    fn read(file: &TomlFile<'_>, table: &DeTable<'_>) -> Result<Self, TomlError> {
        let mut keys = Self::default();
        let text = |key: &str, item: &TomlItem<'_>| {
            let text = item.get_ref().as_str().filter(|text| !text.is_empty());
            text.map(ToOwned::to_owned).ok_or_else(|| {
                let found = item
                    .get_ref()
                    .as_str()
                    .map_or_else(|| kind_of(item), |_| "an empty one".to_owned());
                let what = format!("`{key}`: expected a text, found {found}");
                file.fail(&item.span(), what)
            })
        };
        let list = |key: &str, item: &TomlItem<'_>| {
            let whole = file.list(key, item, |text, _| Ok(text.to_owned()))?;
            Ok(Some(whole))
        };
        for TomlPair { key, span, item } in pairs(table) {
            match key {
                "command" => keys.command = Some(text(key, item)?),
                "args" => keys.args = list(key, item)?,
                "url" => keys.url = Some(text(key, item)?),
                "token_env" => keys.token_env = Some(text(key, item)?),
                "token_command" => keys.token_command = list(key, item)?,
                "oauth" => {
                    keys.oauth = item.get_ref().as_bool().ok_or_else(|| {
                        let found = kind_of(item);
                        let what = format!("`{key}`: expected true or false, found {found}");
                        file.fail(&item.span(), what)
                    })?;
                }
                "tools" => keys.tools = list(key, item)?,
                _ => return Err(file.unknown(&span, key, &KEYS)),
            }
        }
        Ok(keys)
    }

    fn auth(&self) -> Result<Auth, &'static str> {
        match (&self.token_env, &self.token_command, self.oauth) {
            (None, None, false) => Ok(Auth::None),
            (Some(name), None, false) => Ok(Auth::Variable(name.clone())),
            (None, Some(command), false) => {
                let (program, args) =
                    command.split_first().ok_or("has an empty `token_command`")?;
                let program = PathBuf::from(program);
                if !program.is_absolute() {
                    // A program's name may mean different programs in different environments.
                    return Err("has a `token_command` whose program is not an absolute path");
                }
                Ok(Auth::Command { program, args: args.iter().map(OsString::from).collect() })
            }
            (None, None, true) => Ok(Auth::OAuth),
            _ => Err("has more than one of `token_env`, `token_command` and `oauth`"),
        }
    }

    fn target(&self) -> Result<ServerTarget, &'static str> {
        let auth = self.auth()?;
        match (&self.command, &self.url) {
            (Some(_), None) if auth != Auth::None => {
                Err("has a token for a `command`, which gets variables by its grant")
            }
            (Some(command), None) => {
                let program = PathBuf::from(command);
                if !program.is_absolute() {
                    return Err("has a `command` that is not an absolute path");
                }
                let args = self.args.iter().flatten().map(OsString::from).collect();
                Ok(ServerTarget::Process { program, args })
            }
            (None, Some(_)) if self.args.is_some() => Err("has `args` for a `url`"),
            (None, Some(url)) => Ok(ServerTarget::Remote { url: url.clone(), auth }),
            (Some(_), Some(_)) => Err("has both `command` and `url`"),
            (None, None) => Err("has neither `command` nor `url`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<ServerDefinition, String> {
        ServerDefinition::parse(Path::new(name), text.as_bytes()).map_err(|error| error.line())
    }

    #[test]
    fn both_kinds_of_servers_are_read() {
        let text = "command = \"/bin/x\"\nargs = [\"-y\", \"a b\"]\ntools = [\"one\"]\n";
        let definition = parse("/t/files.mcp.toml", text).expect("read");
        assert_eq!(definition.server.name, "files");
        assert_eq!(definition.server.digest, Digest::from_bytes(text.as_bytes()));
        assert_eq!(definition.tools.as_deref(), Some(&["one".to_owned()][..]));
        let args = vec!["-y".into(), "a b".into()];
        let program = PathBuf::from("/bin/x");
        assert_eq!(definition.server.target, ServerTarget::Process { program, args });
        let text = "url = \"https://mcp.example/\"\ntoken_env = \"TOKEN\"\n";
        let auth = Auth::Variable("TOKEN".to_owned());
        let url = "https://mcp.example/".to_owned();
        let definition = parse("/t/a-b.mcp.toml", text).expect("read");
        assert_eq!(definition.server.target, ServerTarget::Remote { url, auth });
    }

    #[test]
    fn each_source_of_a_token_is_read() {
        let command = Auth::Command { program: "/bin/pass".into(), args: vec!["a b".into()] };
        for (text, expected) in [
            ("", Auth::None),
            ("oauth = false", Auth::None),
            ("oauth = true", Auth::OAuth),
            ("token_command = [\"/bin/pass\", \"a b\"]", command),
        ] {
            let definition = parse("a.mcp.toml", &format!("url = \"https://a.example\"\n{text}"));
            let ServerTarget::Remote { auth, .. } = &definition.expect(text).server.target else {
                panic!("{text}: a process")
            };
            assert_eq!(*auth, expected, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (name, text, expected) in [
            ("x.mcp.toml", "", "neither `command` nor `url`"),
            ("x.mcp.toml", "command = \"npx\"", "not an absolute path"),
            ("x.mcp.toml", "command = \"/a\"\nurl = \"https://b\"", "both"),
            ("x.mcp.toml", "url = \"https://b\"\nargs = []", "`args` for a `url`"),
            ("x.mcp.toml", "command = \"/a\"\ntoken_env = \"A\"", "a token for a `command`"),
            ("x.mcp.toml", "command = \"/a\"\noauth = true", "a token for a `command`"),
            (
                "x.mcp.toml",
                "url = \"https://b\"\noauth = 1",
                "expected true or false, found an integer",
            ),
            ("x.mcp.toml", "url = \"https://b\"\ntoken_command = []", "empty `token_command`"),
            ("x.mcp.toml", "url = \"https://b\"\ntoken_command = [\"a\"]", "not an absolute path"),
            ("x.mcp.toml", "url = \"https://b\"\noauth = true\ntoken_env = \"A\"", "more than one"),
            ("x.mcp.toml", "comand = \"/a\"", "did you mean `command`?"),
            ("x.mcp.toml", "command = 1", "expected a text, found an integer"),
            ("x.mcp.toml", "args = [1]", "expected a string, found an integer"),
            ("a__b.mcp.toml", "command = \"/a\"", "not a valid server name"),
            ("1.mcp.toml", "command = \"/a\"", "not a valid server name"),
        ] {
            let error = parse(name, text).expect_err(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
