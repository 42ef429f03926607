//! The configuration files: their keys and their values.
//!
//! Owns the names and kinds of keys, the order of the files, and the check of who may write them.
//! It does not interpret values: the command line parses the values of shared flags as if they had
//! been given as flags. Variables and flags override the files and are not known here; only
//! [`provider`] knows the vendors' variables.

mod conversation;
mod provenance;
pub(crate) mod provider;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ikigai_agent::{CompactAt, SessionRetention};
use ikigai_protocol::is_tool_name;
use ikigai_provider::{Provider, RequestHeader};
use toml::de::DeValue;

pub(crate) use provenance::SettingSource;

use ikigai_host::paths::{self, OtherWriter, Paths};
use ikigai_host::policy::{EarlierReach, InEarlierReach};
use ikigai_host::toml_file::{
    self, ReadError, ReadRules, TextPosition, TomlError, TomlFile, TomlItem, TomlPair, kind_of,
    pairs,
};

/// The name of a configuration file.
pub(crate) const CONFIG: &str = "config.toml";

/// The administrator's file, which the user's file overrides.
const SYSTEM: &str = "/etc/ikigai/config.toml";

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The kind of a TOML value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Text,
    /// An absolute path, or one below `~`.
    Path,
    Number,
    /// A number, with or without a decimal point.
    Decimal,
    Switch,
    /// A list of tool names.
    Tools,
}

/// The keys of the shared flags and of the agent, named after the flags if there are any.
const KEYS: &[(&str, ValueKind)] = &[
    ("workspace", ValueKind::Path),
    ("system_tools", ValueKind::Path),
    ("user_tools", ValueKind::Path),
    ("policy", ValueKind::Path),
    ("profile", ValueKind::Text),
    ("backend", ValueKind::Text),
    ("timeout", ValueKind::Text),
    ("fuel", ValueKind::Number),
    ("memory", ValueKind::Text),
    ("max_output", ValueKind::Text),
    ("store", ValueKind::Text),
    ("budget", ValueKind::Number),
    ("capacity", ValueKind::Text),
    ("agent", ValueKind::Text),
    ("audit_arguments", ValueKind::Switch),
    ("verbose", ValueKind::Switch),
    ("provider", ValueKind::Text),
    ("model", ValueKind::Text),
    ("system", ValueKind::Text),
    ("agents_md", ValueKind::Text),
    ("auto_summary", ValueKind::Text),
    ("approve", ValueKind::Text),
    (conversation::COMPACT_AT, ValueKind::Decimal),
    (conversation::SESSIONS, ValueKind::Text),
];

/// The table that has a table for each provider.
const PROVIDERS: &str = "providers";

/// The keys of one provider.
const PROVIDER_KEYS: &[(&str, ValueKind)] = &[
    ("base_url", ValueKind::Text),
    ("key_command", ValueKind::Text),
    ("model", ValueKind::Text),
    ("max_tokens", ValueKind::Number),
    ("context", ValueKind::Number),
    ("effort", ValueKind::Text),
    ("temperature", ValueKind::Decimal),
    ("max_tools", ValueKind::Number),
    ("max_description", ValueKind::Number),
    ("first_tools", ValueKind::Tools),
    ("connect_timeout", ValueKind::Text),
    ("silence_timeout", ValueKind::Text),
];

/// The table inside a provider's table that has a table for each model.
const MODELS: &str = "models";

/// The keys of one model.
const MODEL_KEYS: &[(&str, ValueKind)] = &[
    ("max_tokens", ValueKind::Number),
    ("context", ValueKind::Number),
    ("effort", ValueKind::Text),
    ("temperature", ValueKind::Decimal),
];

/// The table of the headers that are added to the requests of a provider.
const HEADERS: &str = "headers";

/// A value and its position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The value as a flag would have it. Names in a list are separated by spaces.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// The position in the file.
    pub position: TextPosition,
}

impl Setting {
    /// Returns the line of the value.
    pub(crate) fn provenance(&self) -> SettingSource {
        SettingSource::File { path: self.path.clone(), line: self.position.line }
    }
}

/// The settings of the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    settings: BTreeMap<&'static str, Setting>,
    providers: BTreeMap<(Provider, &'static str), Setting>,
    /// The settings of single models, by the names that their providers use.
    models: BTreeMap<(Provider, String), BTreeMap<&'static str, Setting>>,
    /// The headers of each provider, and the place of their table.
    headers: BTreeMap<Provider, (Vec<RequestHeader>, SettingSource)>,
    spend: BTreeMap<&'static str, Setting>,
}

impl Config {
    /// Reads the administrator's file and the user's file, if they exist. The user's file overrides
    /// the other.
    ///
    /// # Errors
    ///
    /// Fails if a file is malformed, cannot be read, or could have been written by another user or
    /// by a tool.
    pub(crate) fn load(paths: &Paths) -> Result<Self, TomlError> {
        let user = paths.config.as_ref().map(|dir| dir.join(CONFIG));
        if let Some(path) = user.as_ref().filter(|path| path.exists())
            && let Err(found) = EarlierReach::from_paths(paths).check(path)
        {
            let (dir, hint) = (found.dir.display(), InEarlierReach::HINT);
            let what = format!("is not used: tools could write in `{dir}` in an earlier run");
            return Err(TomlError::whole(path, what).hint(hint));
        }
        let mut config = Self::default();
        for path in [Some(PathBuf::from(SYSTEM)), user].into_iter().flatten() {
            config.add(&path, paths.home.as_deref())?;
        }
        Ok(config)
    }

    /// Returns the settings outside the tables of providers, in the order of the list of keys.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        KEYS.iter().filter_map(|(key, _)| Some((*key, self.settings.get(key)?)))
    }

    /// Returns the setting of a key.
    #[must_use]
    pub(crate) fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key)
    }

    /// Returns every key, in the order in which they are shown.
    pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|(key, _)| *key)
    }

    fn of_provider(&self, provider: Provider, key: &'static str) -> Option<&Setting> {
        self.providers.get(&(provider, key))
    }

    fn add(&mut self, path: &Path, home: Option<&Path>) -> Result<(), TomlError> {
        let Some(text) = read(path)? else { return Ok(()) };
        let (file, table) = TomlFile::parse(path, &text)?;
        for TomlPair { key, span, item } in pairs(table.get_ref()) {
            match key {
                PROVIDERS => {
                    self.add_providers(&file, item)?;
                    continue;
                }
                conversation::SPEND => {
                    self.add_spend(&file, item)?;
                    continue;
                }
                _ => {}
            }
            let Some((key, kind)) = KEYS.iter().find(|(known, _)| *known == key) else {
                let tables = [PROVIDERS, conversation::SPEND];
                let known: Vec<&str> = Self::keys().chain(tables).collect();
                return Err(file.unknown(&span, key, &known));
            };
            let setting = setting(&file, key, *kind, item, home)?;
            if *key == conversation::COMPACT_AT {
                let checked = setting.value.parse::<CompactAt>();
                checked.map_err(|error| file.fail(&item.span(), error.to_string()))?;
            }
            if *key == conversation::SESSIONS {
                let checked = setting.value.parse::<SessionRetention>();
                checked.map_err(|error| file.fail(&item.span(), error.to_string()))?;
            }
            self.settings.insert(key, setting);
        }
        Ok(())
    }

    fn add_providers(&mut self, file: &TomlFile<'_>, item: &TomlItem<'_>) -> Result<(), TomlError> {
        for TomlPair { key: name, span, item } in pairs(file.table(PROVIDERS, item)?) {
            let Ok(provider) = name.parse::<Provider>() else {
                return Err(file.unknown(&span, name, &Provider::ALL.map(Provider::as_str)));
            };
            for TomlPair { key, span, item } in pairs(file.table(name, item)?) {
                match key {
                    MODELS => {
                        self.add_models(file, provider, item)?;
                        continue;
                    }
                    HEADERS => {
                        let place = file.position(&span).line;
                        let from =
                            SettingSource::File { path: file.path().to_owned(), line: place };
                        self.headers.insert(provider, (headers(file, item)?, from));
                        continue;
                    }
                    _ => {}
                }
                let Some((key, kind)) = PROVIDER_KEYS.iter().find(|(known, _)| *known == key)
                else {
                    let tables = [MODELS, HEADERS];
                    let known = PROVIDER_KEYS.iter().map(|(key, _)| *key).chain(tables);
                    return Err(file.unknown(&span, key, &known.collect::<Vec<_>>()));
                };
                let setting = provider_setting(file, provider, key, *kind, item)?;
                self.providers.insert((provider, key), setting);
            }
        }
        Ok(())
    }

    fn add_models(
        &mut self,
        file: &TomlFile<'_>,
        provider: Provider,
        item: &TomlItem<'_>,
    ) -> Result<(), TomlError> {
        for TomlPair { key: model, item, .. } in pairs(file.table(MODELS, item)?) {
            for TomlPair { key, span, item } in pairs(file.table(model, item)?) {
                let Some((key, kind)) = MODEL_KEYS.iter().find(|(known, _)| *known == key) else {
                    let known: Vec<&str> = MODEL_KEYS.iter().map(|(key, _)| *key).collect();
                    let error = file.unknown(&span, key, &known);
                    return Err(match item.get_ref() {
                        DeValue::Table(_) => error.hint(format!(
                            "put a model name with a dot in quotes: \
                             `[{PROVIDERS}.{provider}.{MODELS}.\"{model}.{key}\"]`"
                        )),
                        _ => error,
                    });
                };
                let setting = provider_setting(file, provider, key, *kind, item)?;
                self.models.entry((provider, model.to_owned())).or_default().insert(key, setting);
            }
        }
        Ok(())
    }

    fn add_spend(&mut self, file: &TomlFile<'_>, item: &TomlItem<'_>) -> Result<(), TomlError> {
        for TomlPair { key, span, item } in pairs(file.table(conversation::SPEND, item)?) {
            let keys = conversation::SPEND_KEYS;
            let Some((key, kind)) = keys.iter().find(|(known, _)| *known == key) else {
                let known: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
                return Err(file.unknown(&span, key, &known));
            };
            let setting = setting(file, key, *kind, item, None)?;
            conversation::check_spend(&setting.value)
                .map_err(|what| file.fail(&item.span(), what))?;
            self.spend.insert(key, setting);
        }
        Ok(())
    }
}

/// Reads a value in the table of a provider or of a model.
fn provider_setting(
    file: &TomlFile<'_>,
    provider: Provider,
    key: &str,
    kind: ValueKind,
    item: &TomlItem<'_>,
) -> Result<Setting, TomlError> {
    let setting = setting(file, key, kind, item, None)?;
    provider::check(provider, key, &setting.value).map_err(|what| {
        let error = file.fail(&item.span(), what);
        // A malformed address may contain a password.
        if key == "base_url" { error.without_excerpt() } else { error }
    })?;
    Ok(setting)
}

/// Reads a table of headers. Their values may be secret, so no line of the file is shown.
fn headers(file: &TomlFile<'_>, item: &TomlItem<'_>) -> Result<Vec<RequestHeader>, TomlError> {
    let mut headers: Vec<RequestHeader> = Vec::new();
    let table = file.table(HEADERS, item).map_err(TomlError::without_excerpt)?;
    for TomlPair { key: name, span, item } in pairs(table) {
        let fail = |what: String| file.fail(&span, what).without_excerpt();
        let Some(value) = item.get_ref().as_str() else {
            let what = format!("the header `{name}` is {}; expected a string", kind_of(item));
            return Err(fail(what));
        };
        let header = RequestHeader::new(name, value).map_err(|error| fail(error.to_string()))?;
        if headers.iter().any(|other| other.name() == header.name()) {
            return Err(fail(format!("the header `{name}` occurs twice")));
        }
        headers.push(header);
    }
    Ok(headers)
}

fn setting(
    file: &TomlFile<'_>,
    key: &str,
    kind: ValueKind,
    item: &TomlItem<'_>,
    home: Option<&Path>,
) -> Result<Setting, TomlError> {
    let span = item.span();
    let value = item.get_ref();
    let text = match kind {
        ValueKind::Text | ValueKind::Path => value.as_str().map(str::to_owned),
        ValueKind::Number => number(value),
        ValueKind::Decimal => match value {
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Integer(_) => number(value),
            _ => None,
        },
        ValueKind::Switch => value.as_bool().map(|it| it.to_string()),
        ValueKind::Tools => names(file, value)?,
    };
    let text = text.ok_or_else(|| {
        let form = match kind {
            ValueKind::Text | ValueKind::Path => "a string",
            ValueKind::Number => "a whole number",
            ValueKind::Decimal => "a number",
            ValueKind::Switch => "`true` or `false`",
            ValueKind::Tools => "an array of names",
        };
        let what = format!("`{key}` is {}; expected {form}", kind_of(item));
        let error = file.fail(&span, what);
        match (key, value) {
            ("provider", DeValue::Table(_)) => {
                error.hint(format!("the table of a provider is `[{PROVIDERS}.NAME]`"))
            }
            (_, DeValue::Integer(number)) if key.ends_with("timeout") => {
                error.hint(format!("write it with its unit, such as `\"{}s\"`", number.as_str()))
            }
            ("effort", _) => error.hint("use the provider's values, such as `\"high\"`"),
            ("memory" | "max_output" | "capacity", DeValue::Integer(_)) => {
                error.hint("write it with its unit, such as `\"64MiB\"`")
            }
            _ => error,
        }
    })?;
    let text = match (kind, text.strip_prefix("~/"), home) {
        (ValueKind::Path, Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
        (ValueKind::Path, _, _) if !Path::new(&text).is_absolute() => {
            let what = format!("`{text}` would depend on the directory that ikigai starts in");
            return Err(file.fail(&span, what).hint("write an absolute path, or `~/…`"));
        }
        (ValueKind::Text | ValueKind::Path, _, _) if text.is_empty() => {
            return Err(file.fail(&span, format!("`{key}` is empty")).hint("leave out the key"));
        }
        _ => text,
    };
    Ok(Setting { value: text, path: file.path().to_owned(), position: file.position(&span) })
}

/// Returns a whole number in its decimal form; `None` for other values.
fn number(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
}

/// Returns the tool names of a list; `None` if it is not a list of strings.
fn names(file: &TomlFile<'_>, list: &DeValue<'_>) -> Result<Option<String>, TomlError> {
    let Some(list) = list.as_array() else { return Ok(None) };
    let mut names = Vec::new();
    for item in list {
        let Some(name) = item.get_ref().as_str() else { return Ok(None) };
        if !is_tool_name(name) {
            let error = file.fail(&item.span(), format!("`{name}` cannot be the name of a tool"));
            return Err(error.hint("`ikigai tool list` lists the tools"));
        }
        names.push(name);
    }
    Ok(Some(names.join(" ")))
}

/// Returns the text of a file; `None` if it does not exist.
///
/// Follows a symlink, since people keep such files elsewhere and link them. The link target may
/// name a command to run, so it must belong to the user or the administrator.
fn read(path: &Path) -> Result<Option<Vec<u8>>, TomlError> {
    let rules = ReadRules { largest: LARGEST, follows_links: true, owner: Some(is_trusted) };
    let refused = |what: String| TomlError::whole(path, what);
    match toml_file::read(path, rules) {
        Ok(text) => Ok(Some(text)),
        // The host also warns that the policy is not in force.
        Err(ReadError::Missing(_) | ReadError::Foreign(_)) => Ok(None),
        // The file may narrow access, for example with a profile.
        Err(ReadError::Hidden(dir)) => {
            Err(refused(format!("cannot be read: {dir}")).hint(dir.hint()))
        }
        Err(error @ ReadError::OtherWriter(OtherWriter::Owner(_))) => {
            Err(refused(format!("is not used: {error}")))
        }
        Err(error @ ReadError::OtherWriter(OtherWriter::Mode(_))) => {
            let hint = format!("chmod go-w {}", path.display());
            Err(refused(format!("is not used: {error}")).hint(hint))
        }
        Err(ReadError::Ancestor(dir)) => {
            Err(refused(format!("is not used: {dir}")).hint(if dir.is_writable {
                format!("chmod go-w {}", dir.dir.display())
            } else {
                "put it in a directory that you own".to_owned()
            }))
        }
        Err(ReadError::TooLarge(most)) => {
            let what = format!("is too large: ikigai reads at most {most} bytes of configuration");
            Err(refused(what))
        }
        Err(error @ (ReadError::Link | ReadError::Unreadable(_))) => {
            Err(refused(format!("cannot be read: {error}")))
        }
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || paths::is_own(uid)
}

#[cfg(test)]
mod tests;
