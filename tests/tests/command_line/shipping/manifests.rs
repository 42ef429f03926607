//! The manifests of files, including the ones that are refused.

use std::fs;
use std::path::PathBuf;

use ikigai_packages::section::SECTION;
use ikigai_tests::host::Host;
use serde_json::json;

use crate::shipping::scene::*;

/// Replaces the installation source by `weather` with a manifest of this text.
fn offer(host: &Host, json: &str) -> PathBuf {
    host.write(
        "source/weather.wasm",
        with_manifest(&component("weather", "weather 2.0.0"), json),
        0o644,
    )
}

#[track_caller]
fn is_refused(host: &Host, path: &std::path::Path, texts: &[&str]) {
    let path = path.to_str().expect("UTF-8");
    refused(host, &["tool", "install", "--yes", path], 1, texts);
    refused(host, &["tool", "update", "--yes"], 1, texts);
}

#[test]
fn a_file_that_says_two_things_is_refused_with_both() {
    let (host, _) = installed();
    let path = offer(&host, r#"{"manifest":1,"name":"climate","version":"2.0.0"}"#);
    is_refused(&host, &path, &["has the manifest of `climate`", "but the schema of `weather`"]);
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    publish(&fake, "2.0.0", &weather("2.0.1"));
    let reference = at(&fake.host(), ":2.0.0");
    let texts = ["the tag `2.0.0` of", "version 2.0.1"];
    refused(&host, &["tool", "install", "--yes", &reference], 1, &texts);
    refused(&host, &["tool", "update", "--yes"], 1, &texts);
}

#[test]
fn unknown_keys_and_newer_manifests_are_refused_with_what_to_do() {
    let (host, _) = installed();
    for (json, texts) in [
        (
            r#"{"manifest":1,"name":"weather","version":"2.0.0","licence":"MIT"}"#,
            ["unknown key `licence`", "did you mean `license`?"],
        ),
        (
            r#"{"manifest":1,"name":"weather","version":"2.0.0","needs":{"nett":[]}}"#,
            ["unknown key `nett`", "did you mean `net`?"],
        ),
        (
            r#"{"manifest":2,"name":"weather","version":"2.0.0"}"#,
            ["`manifest = 2` needs a newer ikigai", "update ikigai"],
        ),
        (r#"{"manifest":1,"name":"weather"}"#, ["`version` is missing", "manifest"]),
        (
            r#"{"manifest":1,"name":"weather","version":"two"}"#,
            ["`two` is not a version", "in `version`"],
        ),
        ("not JSON", ["a manifest that cannot be used", "the file of"]),
    ] {
        let path = offer(&host, json);
        is_refused(&host, &path, &texts);
    }
}

#[test]
fn needs_of_what_no_tool_gets_are_refused() {
    let (host, _) = installed();
    let needs = |needs: serde_json::Value| {
        json!({"manifest": 1, "name": "weather", "version": "2.0.0", "needs": needs}).to_string()
    };
    for dir in ["ro:..", "ro:../other", "rw:/etc", "ro:~", "ro:a/../../b"] {
        let path = offer(&host, &needs(json!({"fs": [{"dir": dir, "why": "w"}]})));
        is_refused(&host, &path, &["is not in the workspace", &format!("`{dir}`")]);
    }
    for (name, text) in [
        ("IKIGAI_STORE", "`IKIGAI_STORE` is for ikigai itself"),
        ("ANTHROPIC_API_KEY", "is the key of a provider of models"),
        ("OPENAI_API_KEY", "is the key of a provider of models"),
    ] {
        let path = offer(&host, &needs(json!({"env": [{"name": name, "why": "w"}]})));
        is_refused(&host, &path, &[text]);
    }
    let path = offer(&host, &needs(json!({"net": [{"peer": "api.example:443"}]})));
    is_refused(&host, &path, &["`why` is missing"]);
}

#[test]
fn a_section_is_bounded_and_there_once() {
    let (host, source) = installed();
    let name = SECTION.as_bytes();
    let section = |contents: &[u8]| {
        let mut body = vec![u8::try_from(name.len()).expect("short")];
        body.extend_from_slice(name);
        body.extend_from_slice(contents);
        let size = body.len();
        let mut bytes = vec![
            0,
            (size & 0x7f) as u8 | 0x80,
            (size >> 7 & 0x7f) as u8 | 0x80,
            (size >> 14) as u8,
        ];
        bytes.extend(body);
        bytes
    };
    let base = component("weather", "weather 2.0.0");
    let json = br#"{"manifest":1,"name":"weather","version":"2.0.0"}"#;
    let mut large = base.clone();
    large.extend(section(&[b' '; (64 << 10) + 1]));
    fs::write(&source, large).expect("written");
    is_refused(
        &host,
        &source,
        &["has a section `ikigai:manifest` of 65537 bytes; at most 65536 are allowed"],
    );
    let mut twice = base.clone();
    twice.extend(section(json));
    twice.extend(section(json));
    fs::write(&source, twice).expect("written");
    is_refused(&host, &source, &["has two sections `ikigai:manifest`"]);
    let mut cut = base;
    cut.extend(&section(json)[..20]);
    fs::write(&source, cut).expect("written");
    is_refused(&host, &source, &["is broken or cut off"]);
}

/// A terminal obeys escape sequences, and direction marks reverse text.
#[test]
fn no_text_of_a_manifest_steers_a_terminal() {
    let host = Host::without_system_tools();
    let evil = "a\u{1b}[2K\u{202e}b\u{200b}";
    let json = json!({"manifest": 1, "name": "weather", "version": "1.0.0", "description": evil,
        "needs": {"net": [{"peer": "a.example:443", "why": evil}]}})
    .to_string();
    let file = with_manifest(&component("weather", "weather 1.0.0"), &json);
    let path = host.write("source/weather.wasm", &file, 0o644);
    let ran = install_with(&host, &path, &["--json"]).expect_code(0);
    let is_bad = |text: &str| text.contains(['\u{1b}', '\u{202e}']);
    // Programs read JSON, which escapes control characters itself.
    let is_obeyed = ran.stdout().contains('\u{1b}');
    assert!(!is_bad(&ran.stderr()) && !is_obeyed, "{ran:?}", ran = ran.to_string());
    assert!(ran.stderr().contains("a.example:443"), "{ran}");
    // In a name such a text is escaped in the message, and refused.
    for (key, value) in [("name", evil), ("license", evil), ("version", evil), ("homepage", evil)] {
        let mut manifest = json!({"manifest": 1, "name": "weather", "version": "1.0.0"});
        manifest[key] = value.into();
        let path = offer(&host, &manifest.to_string());
        let ran = install(&host, &path).expect_code(1);
        assert!(error(&ran).contains(r"\u{1b}[2K\u{202e}b"), "{key}\n{ran}");
        assert!(!is_bad(&ran.stderr()), "{key}\n{ran}");
    }
    answers(&host, "1.0.0");
    for command in [&["tool", "verify"][..], &["tool", "show", "weather"], &["tool", "outdated"]] {
        let ran = host.run(command);
        assert!(!is_bad(&ran.stdout()) && !is_bad(&ran.stderr()), "{command:?}\n{ran}");
    }
}

/// The manifest of a nested component does not apply to the whole file.
#[test]
fn a_nested_section_is_no_manifest() {
    let host = Host::without_system_tools();
    let inner = needing("6.6.6", r#"{"net":[{"peer":"*","why":"all"}]}"#);
    // A component within a component is a section that contains the whole other file.
    let mut outer = component("weather", "weather 1.0.0");
    let size = inner.len();
    outer.extend([
        4,
        (size & 0x7f) as u8 | 0x80,
        (size >> 7 & 0x7f) as u8 | 0x80,
        (size >> 14) as u8,
    ]);
    outer.extend(inner);
    let path = host.write("source/weather.wasm", outer, 0o644);
    let ran = install_with(&host, &path, &["--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["version"], serde_json::Value::Null, "{ran}");
    answers(&host, "1.0.0");
}
