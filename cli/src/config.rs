//! The configuration files: their keys and their values.
//!
//! Owns the names and kinds of keys, the order of the files, and the check of who may write them.
//! It does not interpret values: the command line parses those of the shared flags as if they had
//! been given as flags. Variables and flags, which are above the files, are not known here; only
//! [`provider`] knows variables, those of the vendors.

mod conversation;
mod provenance;
pub(crate) mod provider;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ikigai_agent::{CompactAt, SessionRetention};
use ikigai_protocol::is_tool_name;
use ikigai_provider::{Header, Provider};
use toml::de::DeValue;

pub(crate) use provenance::Provenance;

use ikigai_host::paths::{self, OtherWriter, Paths};
use ikigai_host::toml_file::{
    self, FileError, Item, Pair, Position, ReadError, ReadRules, TomlFile, kind_of, pairs,
};

/// The name of a configuration file.
pub(crate) const CONFIG: &str = "config.toml";

/// The administrator's file, below the user's.
const SYSTEM: &str = "/etc/ikigai/config.toml";

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The kind of a value in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// An absolute path, or one below `~`.
    Path,
    Number,
    /// A number, with a point or without.
    Decimal,
    Switch,
    /// A list of names of tools.
    Tools,
}

/// The keys of the shared flags and of the agent's, by the names of the flags where there are any.
const KEYS: &[(&str, Kind)] = &[
    ("workspace", Kind::Path),
    ("system_tools", Kind::Path),
    ("user_tools", Kind::Path),
    ("policy", Kind::Path),
    ("profile", Kind::Text),
    ("backend", Kind::Text),
    ("timeout", Kind::Text),
    ("fuel", Kind::Number),
    ("memory", Kind::Text),
    ("max_output", Kind::Text),
    ("store", Kind::Text),
    ("budget", Kind::Number),
    ("capacity", Kind::Text),
    ("agent", Kind::Text),
    ("audit_arguments", Kind::Switch),
    ("verbose", Kind::Switch),
    ("provider", Kind::Text),
    ("model", Kind::Text),
    ("system", Kind::Text),
    ("agents_md", Kind::Text),
    (conversation::COMPACT_AT, Kind::Decimal),
    (conversation::SESSIONS, Kind::Text),
];

/// The table of tables, one for each provider.
const PROVIDERS: &str = "providers";

/// The keys of one provider.
const PROVIDER_KEYS: &[(&str, Kind)] = &[
    ("base_url", Kind::Text),
    ("key_command", Kind::Text),
    ("model", Kind::Text),
    ("max_tokens", Kind::Number),
    ("context", Kind::Number),
    ("effort", Kind::Text),
    ("temperature", Kind::Decimal),
    ("max_tools", Kind::Number),
    ("max_description", Kind::Number),
    ("first_tools", Kind::Tools),
    ("connect_timeout", Kind::Text),
    ("silence_timeout", Kind::Text),
];

/// The table of tables within that of a provider, one for each model.
const MODELS: &str = "models";

/// The keys of one model.
const MODEL_KEYS: &[(&str, Kind)] = &[
    ("max_tokens", Kind::Number),
    ("context", Kind::Number),
    ("effort", Kind::Text),
    ("temperature", Kind::Decimal),
];

/// The table of the headers that are added to the requests of a provider.
const HEADERS: &str = "headers";

/// A value and its position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The value as it would be given with a flag. The names of a list have a space between them.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// The position in the file.
    pub position: Position,
}

impl Setting {
    /// Returns the line that the value stands in.
    pub(crate) fn provenance(&self) -> Provenance {
        Provenance::File { path: self.path.clone(), line: self.position.line }
    }
}

/// The settings of the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    settings: BTreeMap<&'static str, Setting>,
    providers: BTreeMap<(Provider, &'static str), Setting>,
    /// The settings of single models, by their providers' names for them.
    models: BTreeMap<(Provider, String), BTreeMap<&'static str, Setting>>,
    /// The headers of each provider, and the place of their table.
    headers: BTreeMap<Provider, (Vec<Header>, Provenance)>,
    spend: BTreeMap<&'static str, Setting>,
}

impl Config {
    /// Reads the administrator's file and the user's, if they exist. The user's is above the
    /// other.
    ///
    /// # Errors
    ///
    /// A file is malformed, cannot be read, or could have been written by somebody else.
    pub(crate) fn load(paths: &Paths) -> Result<Self, FileError> {
        let user = paths.config.as_ref().map(|dir| dir.join(CONFIG));
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

    fn add(&mut self, path: &Path, home: Option<&Path>) -> Result<(), FileError> {
        let Some(text) = read(path)? else { return Ok(()) };
        let (file, table) = TomlFile::parse(path, &text)?;
        for Pair { key, span, item } in pairs(table.get_ref()) {
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

    fn add_providers(&mut self, file: &TomlFile<'_>, item: &Item<'_>) -> Result<(), FileError> {
        for Pair { key: name, span, item } in pairs(file.table(PROVIDERS, item)?) {
            let Ok(provider) = name.parse::<Provider>() else {
                return Err(file.unknown(&span, name, &Provider::ALL.map(Provider::as_str)));
            };
            for Pair { key, span, item } in pairs(file.table(name, item)?) {
                match key {
                    MODELS => {
                        self.add_models(file, provider, item)?;
                        continue;
                    }
                    HEADERS => {
                        let place = file.position(&span).line;
                        let from = Provenance::File { path: file.path().to_owned(), line: place };
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
        item: &Item<'_>,
    ) -> Result<(), FileError> {
        for Pair { key: model, item, .. } in pairs(file.table(MODELS, item)?) {
            for Pair { key, span, item } in pairs(file.table(model, item)?) {
                let Some((key, kind)) = MODEL_KEYS.iter().find(|(known, _)| *known == key) else {
                    let known: Vec<&str> = MODEL_KEYS.iter().map(|(key, _)| *key).collect();
                    let error = file.unknown(&span, key, &known);
                    return Err(match item.get_ref() {
                        DeValue::Table(_) => error.hint(format!(
                            "write the name of a model that has a dot in quotes: \
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

    fn add_spend(&mut self, file: &TomlFile<'_>, item: &Item<'_>) -> Result<(), FileError> {
        for Pair { key, span, item } in pairs(file.table(conversation::SPEND, item)?) {
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

/// Reads a value in the table of a provider, or of one of its models.
fn provider_setting(
    file: &TomlFile<'_>,
    provider: Provider,
    key: &str,
    kind: Kind,
    item: &Item<'_>,
) -> Result<Setting, FileError> {
    let setting = setting(file, key, kind, item, None)?;
    provider::check(provider, key, &setting.value).map_err(|what| {
        let error = file.fail(&item.span(), what);
        // A malformed address may contain a password.
        if key == "base_url" { error.without_excerpt() } else { error }
    })?;
    Ok(setting)
}

/// Reads a table of headers. Their values may be secret, so no line of the file is shown.
fn headers(file: &TomlFile<'_>, item: &Item<'_>) -> Result<Vec<Header>, FileError> {
    let mut headers: Vec<Header> = Vec::new();
    let table = file.table(HEADERS, item).map_err(FileError::without_excerpt)?;
    for Pair { key: name, span, item } in pairs(table) {
        let fail = |what: String| file.fail(&span, what).without_excerpt();
        let Some(value) = item.get_ref().as_str() else {
            let what = format!("the header `{name}` is {} where a string belongs", kind_of(item));
            return Err(fail(what));
        };
        let header = Header::new(name, value).map_err(|error| fail(error.to_string()))?;
        if headers.iter().any(|other| other.name() == header.name()) {
            return Err(fail(format!("the header `{name}` is there twice")));
        }
        headers.push(header);
    }
    Ok(headers)
}

fn setting(
    file: &TomlFile<'_>,
    key: &str,
    kind: Kind,
    item: &Item<'_>,
    home: Option<&Path>,
) -> Result<Setting, FileError> {
    let span = item.span();
    let value = item.get_ref();
    let text = match kind {
        Kind::Text | Kind::Path => value.as_str().map(str::to_owned),
        Kind::Number => number(value),
        Kind::Decimal => match value {
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Integer(_) => number(value),
            _ => None,
        },
        Kind::Switch => value.as_bool().map(|it| it.to_string()),
        Kind::Tools => names(file, value)?,
    };
    let text = text.ok_or_else(|| {
        let form = match kind {
            Kind::Text | Kind::Path => "a string",
            Kind::Number => "a whole number",
            Kind::Decimal => "a number",
            Kind::Switch => "`true` or `false`",
            Kind::Tools => "an array of names",
        };
        let what = format!("`{key}` is {} where {form} belongs", kind_of(item));
        let error = file.fail(&span, what);
        match (key, value) {
            ("provider", DeValue::Table(_)) => {
                error.hint(format!("the table of a provider is `[{PROVIDERS}.NAME]`"))
            }
            (_, DeValue::Integer(number)) if key.ends_with("timeout") => {
                error.hint(format!("write it with its unit, such as `\"{}s\"`", number.as_str()))
            }
            ("effort", _) => error.hint("its words are those of the provider, such as `\"high\"`"),
            ("memory" | "max_output" | "capacity", DeValue::Integer(_)) => {
                error.hint("write it with its unit, such as `\"64MiB\"`")
            }
            _ => error,
        }
    })?;
    let text = match (kind, text.strip_prefix("~/"), home) {
        (Kind::Path, Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
        (Kind::Path, _, _) if !Path::new(&text).is_absolute() => {
            let what = format!("`{text}` would depend on where ikigai is started");
            return Err(file.fail(&span, what).hint("write an absolute path, or `~/…`"));
        }
        (Kind::Text | Kind::Path, _, _) if text.is_empty() => {
            return Err(file.fail(&span, format!("`{key}` is empty")).hint("leave the key out"));
        }
        _ => text,
    };
    Ok(Setting { value: text, path: file.path().to_owned(), position: file.position(&span) })
}

/// Returns a whole number in its decimal form, or nothing if the value is none.
fn number(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
}

/// Returns the names of tools in a list, or nothing if it is not a list of strings.
fn names(file: &TomlFile<'_>, list: &DeValue<'_>) -> Result<Option<String>, FileError> {
    let Some(list) = list.as_array() else { return Ok(None) };
    let mut names = Vec::new();
    for item in list {
        let Some(name) = item.get_ref().as_str() else { return Ok(None) };
        if !is_tool_name(name) {
            let error = file.fail(&item.span(), format!("no tool can be called `{name}`"));
            return Err(error.hint("`ikigai tool list` names the tools"));
        }
        names.push(name);
    }
    Ok(Some(names.join(" ")))
}

/// The text of a file; nothing where there is none.
///
/// A link is followed: people keep such files elsewhere and link them. What it leads to
/// may name a command to run, so that it must be the user's or the administrator's.
fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let rules = ReadRules { largest: LARGEST, follows_links: true, owner: Some(is_trusted) };
    let refused = |what: String| FileError::whole(path, what);
    match toml_file::read(path, rules) {
        Ok(text) => Ok(Some(text)),
        // Also in the home of somebody else, as where another user's environment was kept.
        Err(ReadError::Missing(_) | ReadError::Hidden(_)) => Ok(None),
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
                "keep it in a directory of your own".to_owned()
            }))
        }
        Err(ReadError::TooLarge(most)) => {
            let what = format!("is larger than any configuration: {most} bytes are read at most");
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
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use ikigai_provider::{Effort, Settings};

    use super::*;

    fn read_all(texts: &[&str]) -> Result<Config, FileError> {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut config = Config::default();
        for (number, text) in texts.iter().enumerate() {
            let path = scratch.path().join(format!("{number}.toml"));
            fs::write(&path, text).expect("a file");
            config.add(&path, Some(Path::new("/home/her")))?;
        }
        Ok(config)
    }

    fn refused(text: &str) -> String {
        let error = read_all(&[text]).expect_err("a mistake");
        let position =
            error.position.map_or_else(String::new, |it| format!("{}:{} ", it.line, it.column));
        format!("{position}{}; {}", error.what, error.hint.unwrap_or_default())
    }

    #[test]
    fn the_later_file_holds_key_by_key() {
        let config = read_all(&[
            "timeout = \"5s\"\nfuel = 7\n[providers.openai]\nmodel = \"a\"\nbase_url = \"http://x/v1\"",
            "timeout = \"9s\"\naudit_arguments = true\npolicy = \"~/p.toml\"\n[providers.openai]\nmodel = \"b\"",
        ])
        .expect("a configuration");
        let found: Vec<_> = config.settings().map(|(key, it)| (key, it.value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("policy", "/home/her/p.toml"),
                ("timeout", "9s"),
                ("fuel", "7"),
                ("audit_arguments", "true"),
            ]
        );
        let of = |key| config.of_provider(Provider::OpenAi, key).map(|it| it.value.as_str());
        assert_eq!((of("model"), of("base_url")), (Some("b"), Some("http://x/v1")));
        assert!(config.setting("fuel").expect("a setting").path.ends_with("0.toml"));
    }

    #[test]
    fn what_is_probably_meant_is_said() {
        let hint = |text: &str| read_all(&[text]).expect_err(text).hint.expect("a hint");
        let meant = "the table of a provider is `[providers.NAME]`";
        assert_eq!(hint("[provider.anthropic]\nmodel = \"a\""), meant);
        assert_eq!(hint("timeout = 3"), "write it with its unit, such as `\"3s\"`");
        assert_eq!(hint("memory = 3"), "write it with its unit, such as `\"64MiB\"`");
        let refused = refused("[providers.google]\nmax_tokens = 0");
        assert!(refused.starts_with("2:14 `0` is not a number of tokens"), "{refused}");
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        assert_eq!(refused("a = 1\ntimeuot = 3"), refused("a = 1"));
        assert_eq!(
            refused("timeuot = \"3s\""),
            "1:1 unknown key `timeuot`; did you mean `timeout`?"
        );
        assert_eq!(
            refused("\nfuel = \"x\""),
            "2:8 `fuel` is a string where a whole number belongs; "
        );
        assert_eq!(
            refused("[providers.opnai]"),
            "1:12 unknown key `opnai`; did you mean `openai`?"
        );
        assert_eq!(
            refused("[providers.google]\nbaseurl = \"x\""),
            "2:1 unknown key `baseurl`; did you mean `base_url`?"
        );
        assert!(refused("workspace = \"src\"").contains("depend on where ikigai is started"));
        assert!(refused("model = \"\"").contains("`model` is empty"));
        assert!(refused("[providers.google]\nsilence_timeout = \"soon\"").starts_with("2:19 "));
        let wrong = refused("[providers.google]\nfirst_tools = [\"a b\"]");
        assert!(wrong.starts_with("2:16 no tool can be called `a b`; "), "{wrong}");
        let wrong = refused("[providers.google]\nfirst_tools = [3]");
        assert!(wrong.contains("is an array where an array of names belongs"), "{wrong}");
        assert!(refused("[providers.google]\nmax_tools = 0").contains("`0` is not a bound"));
        assert!(
            refused("[providers.google]\ncontext = 0").contains("`0` is not a number of tokens")
        );
        assert!(refused("providers = 3").contains("where a table belongs"));
        assert!(refused("timeout = ").starts_with("1:"));
    }

    #[test]
    fn what_one_model_is_given_is_above_what_its_provider_is() {
        let config = read_all(&[
            "[providers.openai]\ncontext = 128_000\nmax_tokens = 9\n\
             [providers.openai.models.\"gpt-4.1\"]\ncontext = 1_000_000",
            "[providers.openai.models.small]\nmax_tokens = 5",
        ])
        .expect("a configuration");
        let of = |model| {
            let provider = Provider::OpenAi;
            (config.context(provider, model), config.max_tokens(provider, model))
        };
        assert_eq!(of("gpt-4.1"), (Some(1_000_000), Some(9)));
        assert_eq!(of("small"), (Some(128_000), Some(5)));
        assert_eq!(of("another"), (Some(128_000), Some(9)));
        assert_eq!(config.context(Provider::Google, "gpt-4.1"), None);

        let models = "[providers.openai.models.small]\n";
        assert_eq!(
            refused(&format!("{models}contxt = 3")),
            "2:1 unknown key `contxt`; did you mean `context`?"
        );
        assert!(refused(&format!("{models}base_url = \"x\"")).contains("unknown key `base_url`"));
        assert!(refused(&format!("{models}context = -1")).starts_with("2:11 `-1` is not a number"));
        let dotted = refused("[providers.openai.models.gpt-4.1]\ncontext = 3");
        assert!(dotted.ends_with("`[providers.openai.models.\"gpt-4.1\"]`"), "{dotted}");
        assert!(refused("[providers.openai]\nmodels = 3").contains("where a table belongs"));
    }

    #[test]
    fn how_a_model_is_to_answer() {
        let config = read_all(&["[providers.openai]\neffort = \"high\"\ntemperature = 1\n\
             [providers.openai.models.small]\neffort = \"none\"\ntemperature = 0.2"])
        .expect("a configuration");
        let settings =
            |effort, temperature| Settings { effort: Some(effort), temperature: Some(temperature) };
        let of = |model| config.settings_of(Provider::OpenAi, model);
        assert_eq!(of("small"), settings(Effort::None, 0.2));
        assert_eq!(of("another"), settings(Effort::High, 1.0));
        assert_eq!(config.settings_of(Provider::Google, "small"), Settings::default());

        let table =
            |provider: &str, line: &str| refused(&format!("[providers.{provider}]\n{line}"));
        assert!(
            table("openai", "effort = \"hard\"").starts_with("2:10 no effort is called `hard`")
        );
        let unknown = table("google", "effort = \"max\"");
        assert!(unknown.starts_with("2:10 `google` has no effort `max`: take"), "{unknown}");
        assert!(table("openai", "effort = 3").contains("is an integer where a string belongs"));
        let hot = table("anthropic", "temperature = 1.5");
        assert!(hot.starts_with("2:15 `anthropic` has no temperature 1.5"), "{hot}");
        for wrong in ["nan", "inf", "-0.1", "2.5"] {
            let told = table("google", &format!("temperature = {wrong}"));
            assert!(told.contains("`google` has no temperature"), "{told}");
        }
    }

    #[test]
    fn headers_are_checked_and_their_values_are_not_shown() {
        let config = read_all(&["[providers.openai]\nheaders = { \"X-Team\" = \"hush\" }"])
            .expect("a configuration");
        let (headers, from) = config.headers_of(Provider::OpenAi).expect("headers");
        assert_eq!(headers.iter().map(Header::name).collect::<Vec<_>>(), ["x-team"]);
        assert!(from.to_string().ends_with("0.toml:2"), "{from}");
        assert!(config.headers_of(Provider::Google).is_none());

        for (headers, told) in [
            ("\"X Team\" = \"hush\"", "2:13 `X Team` is no name of a header"),
            ("Authorization = \"hush\"", "2:13 `authorization` is the header of a key"),
            ("x-goog-api-key = \"hush\"", "2:13 `x-goog-api-key` is the header of a key"),
            ("Host = \"hush\"", "2:13 `host` is set by every request itself"),
            ("a = \"hush\\n\"", "2:13 the value of `a` has characters"),
            ("a = 3, b = \"hush\"", "2:13 the header `a` is an integer where a string belongs"),
            ("a = \"hush\", A = \"hush\"", "2:25 the header `A` is there twice"),
        ] {
            let text = format!("[providers.openai]\nheaders = {{ {headers} }}");
            let error = read_all(&[&text]).expect_err("a mistake");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
            let shown = refused(&text);
            assert!(shown.starts_with(told), "{shown}");
        }
        assert!(
            refused("[providers.openai]\nheaders = \"a: b\"").contains("where a table belongs")
        );
    }

    #[test]
    fn what_conversations_may_spend_and_when_they_are_compacted() {
        let config =
            read_all(&["compact_at = 0.5\n[spend]\nday = 2_000_000", "compact_at = 30_000"])
                .expect("a configuration");
        let [(_, session, default), (_, day, file)] = config.spend();
        assert_eq!((session, default), (None, Provenance::Default));
        assert_eq!(day, Some(2_000_000));
        assert!(file.to_string().ends_with("0.toml:3"), "{file}");
        let (at, from) = config.compact_at();
        assert_eq!(at, CompactAt::Tokens(30_000));
        assert!(from.to_string().ends_with("1.toml:1"), "{from}");
        let none = Config::default().compact_at();
        assert_eq!(none, (CompactAt::Share(0.8), Provenance::Default));
        for (text, share) in [("1.0", 1.0), ("8e-1", 0.8)] {
            assert_eq!(text.parse(), Ok(CompactAt::Share(share)));
        }

        for wrong in ["0", "1", "999", "0.0", "1.1", "-0.5", "nan", "inf", "-3"] {
            let told = refused(&format!("compact_at = {wrong}"));
            assert!(told.starts_with("1:14 ") && told.contains("nor a number of tokens"), "{told}");
        }
        assert!(refused("compact_at = \"0.8\"").contains("is a string where a number belongs"));
        let told = refused("sessions = \"soon\"");
        assert!(told.starts_with("1:12 `soon` is no time to keep sessions"), "{told}");
        assert!(refused("spend = 3").contains("where a table belongs"));
        assert!(refused("[spend]\nday = 0").starts_with("2:7 `0` is not a number of tokens"));
        assert!(refused("[spend]\nday = \"1\"").contains("where a whole number belongs"));
        assert!(refused("[spend]\nweek = 5").starts_with("2:1 unknown key `week`"));
    }

    #[test]
    fn what_others_may_write_is_not_read() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let path = scratch.path().join(CONFIG);
        fs::write(&path, "fuel = 1").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("permissions");
        let error = read(&path).expect_err("a refusal");
        assert!(error.what.contains("somebody else"), "{error}");
        assert!(error.hint.expect("a hint").starts_with("chmod"));
        assert!(read(scratch.path()).is_err(), "a directory is no configuration");
        assert_eq!(read(&scratch.path().join("absent")), Ok(None));
        assert_eq!(read(&path.join("beneath a file")), Ok(None));
    }
}
