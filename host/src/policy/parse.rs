//! The parser of policy files: in this TOML, every key must be known, every value must have the
//! right kind, and every mistake is reported with its position.

mod commands;
mod signers;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ikigai_protocol::host_socket::HOST_FD_VARIABLE;
use ikigai_protocol::{Access, DIRS_VARIABLE, Digest, is_tool_name};
use strum::VariantArray;
use toml::de::DeTable;

use super::provenance::LayerKind;
use super::rule::{DirRule, LimitKey, LimitRules, Located, PolicyEntry, PolicyLayer};
use super::signers::Signatures;
use super::standard::{SHELL, STORE_VARIABLE};
use super::{Hide, Net, WasiVersion, dirs};
use crate::limits;
use crate::toml_file::{
    TomlError, TomlFile, TomlItem, TomlPair, did_you_mean, kind_of, pairs, printable,
};

/// The name that stands for every tool.
pub(super) const EVERY: &str = "*";

const FILE_KEYS: &[&str] = &["profile", "require_signed", "tools", "servers", "signers"];
const TOOL_KEYS: &[&str] = &[
    "deny", "backend", "sandbox", "sha256", "wasi", "fs", "hide", "net", "env", "path", "assets",
    "ask", "approve", "limits",
];
const SHELL_KEYS: &[&str] = &[
    "deny", "backend", "sandbox", "sha256", "wasi", "fs", "hide", "net", "env", "path", "assets",
    "ask", "approve", "commands", "limits",
];
const SERVER_KEYS: &[&str] =
    &["deny", "sandbox", "sha256", "fs", "net", "env", "approve", "limits", "tools"];

/// The directories that paths in a policy file are relative to, with the check of its signers.
#[derive(Clone)]
pub(super) struct Base {
    /// The workspace, absolute and canonical.
    pub(super) workspace: PathBuf,
    /// The directory that `~` stands for.
    pub(super) home: Option<PathBuf>,
    /// The check of the texts of signers; `None` in a program that does not support signatures.
    pub(super) signatures: Option<Arc<dyn Signatures>>,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workspace, home, signatures: _ } = self;
        f.debug_struct("Base")
            .field("workspace", workspace)
            .field("home", home)
            .finish_non_exhaustive()
    }
}

/// Parses one file.
pub(super) fn parse(
    kind: LayerKind,
    path: &Path,
    text: &[u8],
    base: &Base,
) -> Result<PolicyLayer, TomlError> {
    let (file, table) = TomlFile::parse(path, text)?;
    PolicyReader { kind, file, base }.file(table.get_ref())
}

struct PolicyReader<'a> {
    kind: LayerKind,
    file: TomlFile<'a>,
    base: &'a Base,
}

type FileResult<T> = Result<T, TomlError>;

impl PolicyReader<'_> {
    fn file(&self, table: &DeTable<'_>) -> FileResult<PolicyLayer> {
        let mut layer = PolicyLayer::empty(self.kind, self.file.path());
        for TomlPair { key, span, item } in pairs(table) {
            match key {
                "profile" => layer.profile = Some(self.word(key, item)?),
                "require_signed" => layer.require_signed = Some(self.truth(key, item)?),
                "tools" => self.tools(item, &mut layer)?,
                "servers" => self.servers(item, &mut layer)?,
                "signers" => self.signers(item, &span, &mut layer)?,
                _ => return Err(self.file.unknown(&span, key, FILE_KEYS)),
            }
        }
        layer.settle();
        Ok(layer)
    }

    fn tools(&self, item: &TomlItem<'_>, layer: &mut PolicyLayer) -> FileResult<()> {
        let table = self.file.table("tools", item)?;
        for TomlPair { key: name, span, item } in pairs(table) {
            if name == EVERY {
                layer.every = Some(self.entry(name, item, span, TOOL_KEYS)?);
            } else if is_tool_name(name) {
                let known = if name == SHELL { SHELL_KEYS } else { TOOL_KEYS };
                let entry = self.entry(name, item, span, known)?;
                layer.tools.insert(name.to_owned(), entry);
            } else {
                let what = format!("`{name}` is not a valid tool name");
                let error = self.file.fail(&span, what);
                let meant = name.replace('-', "_");
                return Err(if is_tool_name(&meant) {
                    error.hint(format!("tools are named with underscores: `{meant}`"))
                } else {
                    error.hint("names have letters, digits and underscores, at most 64")
                });
            }
        }
        Ok(())
    }

    fn servers(&self, item: &TomlItem<'_>, layer: &mut PolicyLayer) -> FileResult<()> {
        let table = self.file.table("servers", item)?;
        for TomlPair { key: name, span, item } in pairs(table) {
            check_server_name(name).map_err(|what| self.file.fail(&span, what))?;
            let entry = self.entry(name, item, span, SERVER_KEYS)?;
            layer.servers.insert(name.to_owned(), entry);
        }
        Ok(())
    }

    /// Reads an entry with these allowed keys.
    fn entry(
        &self,
        name: &str,
        item: &TomlItem<'_>,
        span: Range<usize>,
        known: &[&str],
    ) -> FileResult<PolicyEntry> {
        let table = self.file.table(name, item)?;
        let mut entry =
            PolicyEntry { position: self.file.position(&span), ..PolicyEntry::default() };
        for TomlPair { key, span, item } in pairs(table) {
            if name == EVERY && matches!(key, "backend" | "sha256" | "path") {
                let what = format!("`{key}` cannot be set for every tool at once");
                return Err(self.file.fail(&span, what));
            }
            if key == "commands" && !known.contains(&key) {
                return Err(self.misplaced_commands(&span));
            }
            if !known.contains(&key) {
                return Err(self.file.unknown(&span, key, known));
            }
            match key {
                "deny" => entry.deny = Some(self.truth(key, item)?),
                "backend" => entry.backend = Some(self.word(key, item)?),
                "sandbox" => entry.sandbox = Some(self.word(key, item)?),
                "sha256" => entry.sha256 = Some(self.list(key, item, Self::digest)?),
                "fs" => entry.fs = Some(self.dirs(item)?),
                "net" => entry.net = Some(self.net(item)?),
                "env" => entry.env = Some(self.list(key, item, Self::variable)?),
                "path" => entry.path = Some(self.search_path(&span, item)?),
                "assets" => entry.assets = Some(self.word(key, item)?),
                "approve" => entry.approve = Some(self.word(key, item)?),
                "ask" => entry.ask = Some(self.truth(key, item)?),
                "hide" => entry.hide = Some(self.hide(item)?),
                "wasi" => entry.wasi = Some(self.wasi(item)?),
                "commands" => entry.commands = Some(self.commands(item)?),
                "limits" => entry.limits = self.limits(item)?,
                "tools" => entry.approved = Some(self.approved(item)?),
                _ => return Err(self.file.unknown(&span, key, known)),
            }
        }
        Ok(entry)
    }

    fn approved(&self, item: &TomlItem<'_>) -> FileResult<Located<BTreeMap<String, Digest>>> {
        let table = self.file.table("tools", item)?;
        let mut value = BTreeMap::new();
        for TomlPair { key: name, item, .. } in pairs(table) {
            let span = item.span();
            let text = item.get_ref().as_str().ok_or_else(|| {
                let what = format!("`{name}`: expected a digest, found {}", kind_of(item));
                self.file.fail(&span, what)
            })?;
            value.insert(name.to_owned(), self.digest(text, &span)?);
        }
        Ok(Located { value, position: self.file.position(&item.span()) })
    }

    fn dirs(&self, item: &TomlItem<'_>) -> FileResult<Located<Vec<DirRule>>> {
        let spanned = |reader: &Self, text: &str, span: &Range<usize>| {
            Ok((reader.dir(text, span)?, span.clone()))
        };
        let Located { value, position } = self.list("fs", item, spanned)?;
        let (rules, spans): (Vec<DirRule>, Vec<_>) = value.into_iter().unzip();
        // Compare only names, so that the mistake is reported when the file is read. Links are
        // resolved at the decision on a call.
        let named = rules.iter().map(|rule| (rule.access, rule.path.as_path()));
        if let Some((inner, outer)) = dirs::overlap(&named.collect::<Vec<_>>()) {
            return Err(self.file.fail(&spans[inner], overlap_text(&rules[inner], &rules[outer])));
        }
        Ok(Located { value: rules, position })
    }

    fn dir(&self, text: &str, span: &Range<usize>) -> FileResult<DirRule> {
        let (access, raw) = match text.split_once(':') {
            Some(("ro", raw)) => (Access::ReadOnly, raw),
            Some(("rw", raw)) => (Access::ReadWrite, raw),
            _ => {
                let what = format!("`{text}` begins with neither `ro:` nor `rw:`");
                return Err(self
                    .file
                    .fail(span, what)
                    .hint(format!("to read it, write `ro:{text}`")));
            }
        };
        if raw.is_empty() || raw.contains(['\n', '\0']) {
            return Err(self
                .file
                .fail(span, "this is not the path of a directory that can be granted"));
        }
        let (path, within) = self.absolute(raw, span)?;
        let position = self.file.position(span);
        Ok(DirRule { access, path, within, raw: raw.to_owned(), position })
    }

    /// Returns the absolute path, and whether it was written relative to the workspace.
    fn absolute(&self, raw: &str, span: &Range<usize>) -> FileResult<(PathBuf, bool)> {
        if raw == "~" || raw.starts_with("~/") {
            let home = self.base.home.as_ref();
            let home =
                home.ok_or_else(|| self.file.fail(span, "`~` cannot be used without a home"))?;
            let beneath = raw.strip_prefix('~').unwrap_or_default().trim_start_matches('/');
            return Ok((home.join(beneath), false));
        }
        if Path::new(raw).is_absolute() {
            return Ok((PathBuf::from(raw), false));
        }
        let mut path = self.base.workspace.clone();
        for component in Path::new(raw).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => path.push(name),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    let what = format!("`{raw}` leads out of the workspace");
                    return Err(self
                        .file
                        .fail(span, what)
                        .hint("write an absolute path, or `~/…`"));
                }
            }
        }
        Ok((path, true))
    }

    fn net(&self, item: &TomlItem<'_>) -> FileResult<Located<Net>> {
        let one = |reader: &Self, text: &str, span: &Range<usize>| {
            Net::parse([text]).map_err(|what| reader.file.fail(span, what))
        };
        let nets = self.list("net", item, one)?;
        let mut net = Net::default();
        for one in nets.value {
            net.any |= one.any;
            net.peers.extend(one.peers);
        }
        Ok(Located { value: net, position: nets.position })
    }

    fn hide(&self, item: &TomlItem<'_>) -> FileResult<Located<Hide>> {
        let one = |reader: &Self, text: &str, span: &Range<usize>| {
            let read = Hide::parse([text]).map(|_| text.to_owned());
            read.map_err(|what| reader.file.fail(span, what))
        };
        let Located { value, position } = self.list("hide", item, one)?;
        let all = Hide::parse(value.iter().map(String::as_str));
        let value = all.map_err(|what| self.file.fail(&item.span(), what))?;
        Ok(Located { value, position })
    }

    fn wasi(&self, item: &TomlItem<'_>) -> FileResult<Located<Vec<WasiVersion>>> {
        let one =
            |reader: &Self, text: &str, span: &Range<usize>| reader.word_in("wasi", text, span);
        let Located { mut value, position } = self.list("wasi", item, one)?;
        value.sort_unstable();
        value.dedup();
        Ok(Located { value, position })
    }

    fn digest(&self, text: &str, span: &Range<usize>) -> FileResult<Digest> {
        Digest::from_str(text).map_err(|error| self.file.fail(span, error.to_string()))
    }

    fn variable(&self, text: &str, span: &Range<usize>) -> FileResult<String> {
        check_variable(text).map_err(|what| self.file.fail(span, what))?;
        Ok(text.to_owned())
    }

    /// Reads the directories in which the tool first looks for programs.
    fn search_path(
        &self,
        span: &Range<usize>,
        item: &TomlItem<'_>,
    ) -> FileResult<Located<Vec<PathBuf>>> {
        if self.kind != LayerKind::User {
            let what = "`path` is a key of your own policy: this file only takes away";
            return Err(self.file.fail(span, what));
        }
        self.list("path", item, |reader, text, span| {
            let (path, within) = reader.absolute(text, span)?;
            // A directory in the workspace would be removed from `PATH`, because tools may write to
            // it. A directory with a colon cannot be written in `PATH`.
            if within || text.contains(':') {
                let what = format!("`{text}` is not a directory that `PATH` can have");
                let error = reader.file.fail(span, what);
                return Err(error.hint("write an absolute path, or `~/…`, without a colon"));
            }
            Ok(path)
        })
    }

    fn limits(&self, item: &TomlItem<'_>) -> FileResult<LimitRules> {
        let table = self.file.table("limits", item)?;
        let mut rules = LimitRules::new();
        for TomlPair { key: name, span, item } in pairs(table) {
            let Ok(key) = name.parse::<LimitKey>() else {
                return Err(self.file.unknown(&span, name, &words::<LimitKey>()));
            };
            let span = item.span();
            let value = self.limit(key, item).map_err(|what| self.file.fail(&span, what))?;
            rules.insert(key, Located { value, position: self.file.position(&span) });
        }
        Ok(rules)
    }

    fn limit(&self, key: LimitKey, item: &TomlItem<'_>) -> Result<u64, String> {
        let name = key.as_str();
        let form = limit_form(key);
        let wrong = || format!("`{name}`: expected {form}, found {}", kind_of(item));
        match key {
            LimitKey::WallClock | LimitKey::Memory | LimitKey::Output => {
                let text = item.get_ref().as_str().ok_or_else(wrong)?;
                parse_limit(key, text)
            }
            LimitKey::Fuel | LimitKey::Handles | LimitKey::Processes => {
                let number = item.get_ref().as_integer().ok_or_else(wrong)?;
                let number = i64::from_str_radix(number.as_str(), number.radix());
                match number.ok().and_then(|number| u64::try_from(number).ok()) {
                    Some(number) if number > 0 => Ok(number),
                    _ => Err(format!("`{name}` must be more than zero")),
                }
            }
        }
    }

    fn truth(&self, key: &str, item: &TomlItem<'_>) -> FileResult<Located<bool>> {
        let span = item.span();
        let value = item.get_ref().as_bool().ok_or_else(|| {
            let what = format!("`{key}`: expected true or false, found {}", kind_of(item));
            self.file.fail(&span, what)
        })?;
        Ok(Located { value, position: self.file.position(&span) })
    }

    fn word<T>(&self, key: &str, item: &TomlItem<'_>) -> FileResult<Located<T>>
    where
        T: VariantArray + AsRef<str> + FromStr,
    {
        let span = item.span();
        let Some(text) = item.get_ref().as_str() else {
            let (choice, found) = (choice::<T>(), kind_of(item));
            let what = format!("`{key}`: expected one of {choice}, found {found}");
            return Err(self.file.fail(&span, what));
        };
        let value = self.word_in(key, text, &span)?;
        Ok(Located { value, position: self.file.position(&span) })
    }

    /// Parses one of the words of a type.
    fn word_in<T>(&self, key: &str, text: &str, span: &Range<usize>) -> FileResult<T>
    where
        T: VariantArray + AsRef<str> + FromStr,
    {
        text.parse::<T>().map_err(|_| {
            let what =
                format!("invalid value `{text}` for `{key}`; expected one of {}", choice::<T>());
            did_you_mean(self.file.fail(span, what), text, words::<T>().into_iter())
        })
    }

    fn list<T>(
        &self,
        key: &str,
        item: &TomlItem<'_>,
        one: impl Fn(&Self, &str, &Range<usize>) -> FileResult<T>,
    ) -> FileResult<Located<Vec<T>>> {
        let value = self.file.list(key, item, |text, span| one(self, text, span))?;
        Ok(Located { value, position: self.file.position(&item.span()) })
    }
}

/// Returns the policy words for the values of a type, for messages.
fn choice<T: VariantArray + AsRef<str>>() -> String {
    let names = words::<T>().into_iter().map(|word| format!("`{word}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the policy words for the values of a type.
fn words<T: VariantArray + AsRef<str>>() -> Vec<&'static str> {
    T::VARIANTS.iter().map(AsRef::as_ref).collect()
}

/// Returns the reason why one `fs` list cannot have both entries.
pub(super) fn overlap_text(inner: &DirRule, outer: &DirRule) -> String {
    format!(
        "`{}:{}` lies in `{}:{}`: a directory has one access, which applies to everything in it",
        inner.access.as_str(),
        inner.raw,
        outer.access.as_str(),
        outer.raw
    )
}

/// Returns the written form of a limit, for messages.
pub(super) fn limit_form(key: LimitKey) -> &'static str {
    match key {
        LimitKey::WallClock => "a duration such as \"30s\"",
        LimitKey::Memory | LimitKey::Output => "a size such as \"512MiB\"",
        LimitKey::Fuel | LimitKey::Handles | LimitKey::Processes => "a whole number",
    }
}

/// Parses a limit. Returns it in the unit of its key.
///
/// # Errors
///
/// Fails if the text is not such a limit. The error is the reason.
#[doc(hidden)]
pub fn parse_limit(key: LimitKey, text: &str) -> Result<u64, String> {
    let error = |what: String| format!("`{text}` {what}");
    match key {
        LimitKey::WallClock => {
            let time = limits::parse_timeout(text).map_err(error)?;
            // The time is at most a week.
            Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        }
        LimitKey::Memory => limits::parse_memory(text).map_err(error),
        LimitKey::Output => limits::parse_size(text).map_err(error),
        LimitKey::Fuel | LimitKey::Handles | LimitKey::Processes => match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(error("is not a whole number above zero".to_owned())),
        },
    }
}

/// The longest name of a server, in bytes. It leaves room for the names of the server's tools.
const LONGEST_SERVER_NAME: usize = 24;

/// Checks the name of an MCP server.
///
/// # Errors
///
/// Fails if it is not a valid name. The text is the reason.
#[doc(hidden)]
pub fn check_server_name(name: &str) -> Result<(), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_valid = name.len() <= LONGEST_SERVER_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_known)
        && !name.contains("__");
    if is_valid {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a valid server name: names begin with a letter and have letters, digits, \
         single underscores and hyphens, at most {LONGEST_SERVER_NAME}",
        printable(name)
    ))
}

/// Checks that a variable with this name can be granted.
///
/// # Errors
///
/// Fails if it cannot be granted. The text is the reason.
#[doc(hidden)]
pub fn check_variable(name: &str) -> Result<(), String> {
    if name == DIRS_VARIABLE || name == HOST_FD_VARIABLE {
        return Err(format!("`{name}` is set by ikigai itself"));
    }
    if name == STORE_VARIABLE {
        return Err(format!("`{name}` is for ikigai itself: it may hold a password"));
    }
    if name == "*" {
        return Err("variables are granted by name, not all of them at once".to_owned());
    }
    if name.is_empty()
        || name.contains(|c: char| {
            matches!(c, '=' | '"' | '\'') || c.is_whitespace() || c.is_control()
        })
    {
        return Err(format!("`{}` is not a valid variable name", printable(name)));
    }
    Ok(())
}
