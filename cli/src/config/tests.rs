//! The files of a configuration: what they set, and the errors for mistakes in them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ikigai_provider::{AnswerSettings, Effort};

use super::*;

fn read_all(texts: &[&str]) -> Result<Config, TomlError> {
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
    assert_eq!(refused("timeuot = \"3s\""), "1:1 unknown key `timeuot`; did you mean `timeout`?");
    assert_eq!(refused("\nfuel = \"x\""), "2:8 `fuel` is a string; expected a whole number; ");
    assert_eq!(refused("[providers.opnai]"), "1:12 unknown key `opnai`; did you mean `openai`?");
    assert_eq!(
        refused("[providers.google]\nbaseurl = \"x\""),
        "2:1 unknown key `baseurl`; did you mean `base_url`?"
    );
    assert!(
        refused("workspace = \"src\"").contains("depend on the directory that ikigai starts in")
    );
    assert!(refused("model = \"\"").contains("`model` is empty"));
    assert!(refused("[providers.google]\nsilence_timeout = \"soon\"").starts_with("2:19 "));
    let wrong = refused("[providers.google]\nfirst_tools = [\"a b\"]");
    assert!(wrong.starts_with("2:16 `a b` cannot be the name of a tool; "), "{wrong}");
    let wrong = refused("[providers.google]\nfirst_tools = [3]");
    assert!(wrong.contains("is an array; expected an array of names"), "{wrong}");
    assert!(refused("[providers.google]\nmax_tools = 0").contains("`0` is not a limit"));
    assert!(refused("[providers.google]\ncontext = 0").contains("`0` is not a number of tokens"));
    assert!(refused("providers = 3").contains("expected a table, found"));
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
    assert!(refused("[providers.openai]\nmodels = 3").contains("expected a table, found"));
}

#[test]
fn how_a_model_is_to_answer() {
    let config = read_all(&["[providers.openai]\neffort = \"high\"\ntemperature = 1\n\
         [providers.openai.models.small]\neffort = \"none\"\ntemperature = 0.2"])
    .expect("a configuration");
    let settings = |effort, temperature| AnswerSettings {
        effort: Some(effort),
        temperature: Some(temperature),
    };
    let of = |model| config.settings_of(Provider::OpenAi, model);
    assert_eq!(of("small"), settings(Effort::None, 0.2));
    assert_eq!(of("another"), settings(Effort::High, 1.0));
    assert_eq!(config.settings_of(Provider::Google, "small"), AnswerSettings::default());

    let table = |provider: &str, line: &str| refused(&format!("[providers.{provider}]\n{line}"));
    assert!(table("openai", "effort = \"hard\"").starts_with("2:10 unknown effort `hard`"));
    let unknown = table("google", "effort = \"max\"");
    assert!(unknown.starts_with("2:10 `google` has no effort `max`; expected"), "{unknown}");
    assert!(table("openai", "effort = 3").contains("is an integer; expected a string"));
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
    assert_eq!(headers.iter().map(RequestHeader::name).collect::<Vec<_>>(), ["x-team"]);
    assert!(from.to_string().ends_with("0.toml:2"), "{from}");
    assert!(config.headers_of(Provider::Google).is_none());

    for (headers, told) in [
        ("\"X Team\" = \"hush\"", "2:13 `X Team` is not a header name"),
        ("Authorization = \"hush\"", "2:13 `authorization` is the header of the key"),
        ("x-goog-api-key = \"hush\"", "2:13 `x-goog-api-key` is the header of the key"),
        ("Host = \"hush\"", "2:13 `host` is set by ikigai in every request"),
        ("a = \"hush\\n\"", "2:13 the value of `a` has characters"),
        ("a = 3, b = \"hush\"", "2:13 the header `a` is an integer; expected a string"),
        ("a = \"hush\", A = \"hush\"", "2:25 the header `A` occurs twice"),
    ] {
        let text = format!("[providers.openai]\nheaders = {{ {headers} }}");
        let error = read_all(&[&text]).expect_err("a mistake");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        let shown = refused(&text);
        assert!(shown.starts_with(told), "{shown}");
    }
    assert!(refused("[providers.openai]\nheaders = \"a: b\"").contains("expected a table, found"));
}

#[test]
fn what_conversations_may_spend_and_when_they_are_compacted() {
    let config = read_all(&["compact_at = 0.5\n[spend]\nday = 2_000_000", "compact_at = 30_000"])
        .expect("a configuration");
    let [(_, session, default), (_, day, file)] = config.spend();
    assert_eq!((session, default), (None, SettingSource::Default));
    assert_eq!(day, Some(2_000_000));
    assert!(file.to_string().ends_with("0.toml:3"), "{file}");
    let (at, from) = config.compact_at();
    assert_eq!(at, CompactAt::Tokens(30_000));
    assert!(from.to_string().ends_with("1.toml:1"), "{from}");
    let none = Config::default().compact_at();
    assert_eq!(none, (CompactAt::Share(0.8), SettingSource::Default));
    for (text, share) in [("1.0", 1.0), ("8e-1", 0.8)] {
        assert_eq!(text.parse(), Ok(CompactAt::Share(share)));
    }

    for wrong in ["0", "1", "999", "0.0", "1.1", "-0.5", "nan", "inf", "-3"] {
        let told = refused(&format!("compact_at = {wrong}"));
        assert!(told.starts_with("1:14 ") && told.contains("nor a number of tokens"), "{told}");
    }
    assert!(refused("compact_at = \"0.8\"").contains("is a string; expected a number"));
    let told = refused("sessions = \"soon\"");
    assert!(told.starts_with("1:12 `soon` is not a valid retention for sessions"), "{told}");
    assert!(refused("spend = 3").contains("expected a table, found"));
    assert!(refused("[spend]\nday = 0").starts_with("2:7 `0` is not a number of tokens"));
    assert!(refused("[spend]\nday = \"1\"").contains("expected a whole number"));
    assert!(refused("[spend]\nweek = 5").starts_with("2:1 unknown key `week`"));
}

#[test]
fn what_others_may_write_is_not_read() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let path = scratch.path().join(CONFIG);
    fs::write(&path, "fuel = 1").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("permissions");
    let error = read(&path).expect_err("a refusal");
    assert!(error.what.contains("another user"), "{error}");
    assert!(error.hint.expect("a hint").starts_with("chmod"));
    assert!(read(scratch.path()).is_err(), "a directory is not a configuration");
    assert_eq!(read(&scratch.path().join("absent")), Ok(None));
    assert_eq!(read(&path.join("beneath a file")), Ok(None));
}
