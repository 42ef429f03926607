use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"
manifest = 1
name = "weather"                # the schema's
version = "1.2.0"
license = "MIT"

[[needs.net]]
peer = "api.weather.example:443"
why = "forecasts"
[[needs.env]]
name = "WEATHER_KEY"
why = "the API key"
optional = true
[[needs.fs]]
dir = "ro:."
why = "reads stations.csv"

[build]
command = "go build -trimpath -buildvcs=false -ldflags='-s -w' -o out.wasm ."
env = { GOOS = "wasip1", GOARCH = "wasm" }
output = "out.wasm"
"#;

/// Returns a project with these lines after the required ones. The first of them is line 4.
fn with(lines: &str) -> String {
    format!("manifest = 1\nname = \"a\"\nversion = \"1.0.0\"\n{lines}")
}

fn refusal(text: &str) -> String {
    let error = Project::parse(text.as_bytes()).expect_err(text);
    format!("{error}; {}", error.hint.as_deref().unwrap_or_default())
}

#[test]
fn a_project_is_read_and_its_build_stays_out_of_the_manifest() {
    let project = Project::parse(WHOLE.as_bytes()).expect("a project");
    let build = project.build.expect("a build");
    assert_eq!(build.command, "go build -trimpath -buildvcs=false -ldflags='-s -w' -o out.wasm .");
    let env: Vec<_> = build.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["GOARCH=wasm", "GOOS=wasip1"]);
    assert_eq!(build.output, "out.wasm");
    let json = String::from_utf8(project.manifest.to_json()).expect("text");
    assert_eq!(
        json,
        r#"{"manifest":1,"name":"weather","version":"1.2.0","license":"MIT","needs":{"env":[{"name":"WEATHER_KEY","optional":true,"why":"the API key"}],"fs":[{"dir":"ro:.","why":"reads stations.csv"}],"net":[{"peer":"api.weather.example:443","why":"forecasts"}]}}"#
    );
    let bare = Project::parse(with("").as_bytes()).expect("a project");
    assert_eq!(bare.build, None);
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    for (text, told) in [
        ("name = \"a\"".into(), "1:11: `manifest` is missing; write `manifest = 1`"),
        (
            "new = 1\nmanifest = 2".into(),
            "2:12: `manifest = 2` needs a newer ikigai; this one reads `manifest = 1`; update ikigai",
        ),
        ("manifest = 1\nname = \"a\"\n\n".into(), "2:11: `version` is missing; "),
        (
            "manifest = 1\nname = ".into(),
            "2:8: string values must be quoted, expected literal string; ",
        ),
        ("manifest = 1\nmanifest = 1".into(), "2:1: duplicate key; "),
        (with("licence = \"MIT\""), "4:1: unknown key `licence`; did you mean `license`?"),
        (
            with("\"ö\" = 1 # ö"),
            "4:1: unknown key `ö`; known here are manifest, name, version, license, description, homepage, \
             repository, needs, build",
        ),
        (with("version.x = 1"), "4:1: cannot extend value of type string with a dotted key; "),
        (with("description = \"\""), "4:15: `description` is empty; "),
        (
            with("description = \"a\\nb\""),
            "4:15: `description` has the character U+000A; write one line, without control characters and marks \
             of direction",
        ),
        (
            with("description = \"a\u{202e}b\""),
            "4:15: `description` has the character U+202E; write one line, without control characters and marks \
             of direction",
        ),
        (with("license = 2026-01-01"), "4:11: `license`: expected a string, found a datetime; "),
        (with("[build]\ncommand = \"x\""), "4:1: `output` is missing; "),
        (with("[build]\noutput = \"x\""), "4:1: `command` is missing; "),
        (with("[build]\noutput = \"x\"\ncommand = \" \""), "6:11: `command` is empty; "),
        (
            with("[build]\noutput = \"x\"\ncommand = \"a\\u001bb\""),
            "6:11: `command` has the character U+001B; remove control characters and marks of direction",
        ),
        (
            with("[build]\noutput = \"x\"\ncomand = \"x\""),
            "6:1: unknown key `comand`; did you mean `command`?",
        ),
        (
            with("[build]\noutput = \"x\"\ncommand = \"x\"\nenv = { \"A=\" = \"\" }"),
            "7:9: `A=` is not a valid variable name; ",
        ),
        (
            with("[build]\noutput = \"x\"\ncommand = \"x\"\nenv = { A = 1 }"),
            "7:13: `A`: expected a string, found an integer; ",
        ),
    ] {
        assert_eq!(refusal(&text), told);
    }
    for output in ["", ".", "/x", "../x", "a/../../x", "a/", "a\\u0000"] {
        let error = refusal(&with(&format!("[build]\ncommand = \"x\"\noutput = \"{output}\"")));
        assert!(
            error.contains("is not the path of a file in the project; write it as `out.wasm`"),
            "{error}"
        );
    }
    let large = vec![b'\n'; MAX_PROJECT_BYTES + 1];
    let error = Project::parse(&large).expect_err("large").to_string();
    assert_eq!(error, "has more than 262144 bytes");
    let error = Project::parse(b"manifest = 1\n# \xff").expect_err("no text").to_string();
    assert_eq!(error, "2:3: is not UTF-8");
}

proptest! {
    #[test]
    fn a_changed_project_is_read_or_refused_at_a_place_in_it(
        cut in 0..WHOLE.len(),
        length in 0..8_usize,
        replaced in proptest::collection::vec(any::<char>(), 0..3),
    ) {
        let start = WHOLE.chars().take(cut);
        let text: String = start.chain(replaced).chain(WHOLE.chars().skip(cut + length)).collect();
        if let Err(error) = Project::parse(text.as_bytes()) {
            let position = error.position().expect("a position");
            let line = text.split('\n').nth(position.line - 1).expect("a line of the text");
            prop_assert!((1..=line.chars().count() + 1).contains(&position.column), "{}", error);
            let told = format!("{error}{}", error.hint.clone().unwrap_or_default());
            prop_assert!(!told.contains(ikigai_protocol::is_invisible), "{:?}", told);
        }
    }
}
