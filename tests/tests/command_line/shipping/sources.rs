//! Each kind of place that a tool is installed from, and what the lock records about it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ikigai_packages::{Manifest, Needs};
use ikigai_packages_testing::{Fake, Reply, Style};
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::shipping::scene::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

/// Serves a file at `/weather.wasm`, and returns its address.
fn serve(fake: &Fake, file: &[u8]) -> String {
    fake.page("/weather.wasm", Reply::new(200, WASM, file));
    for suffix in [".sig", ".minisig", ".sigstore.json"] {
        let path = format!("/weather.wasm{suffix}");
        fake.page(&path, Reply::new(404, "text/plain", "none"));
    }
    format!("http://{}/weather.wasm", fake.host())
}

#[test]
fn a_file_is_placed_locked_and_recorded() {
    let host = Host::without_system_tools();
    let file = weather("1.0.0");
    let path = host.write("source/weather.wasm", &file, 0o600);
    let ran = install_with(&host, &path, &["--json"]).expect_code(0);
    let (place, from) = (host.user_tools().join("weather.wasm"), path.display().to_string());
    assert_eq!(
        ran.json(),
        json!([{
            "state": "installed",
            "name": "weather",
            "version": "1.0.0",
            "license": "MIT",
            "description": "weather 1.0.0",
            "from": from,
            "wanted": null,
            "tag": null,
            "manifest": null,
            "sha256": sha256(&file),
            "size": file.len(),
            "backend": "wasm",
            "imports": ran.json()[0]["imports"],
            "needs": {},
            "never_granted": [],
            "signer": "none",
            "signer_name": null,
            "signed_at": null,
            "first_approval": true,
            "approved_from": null,
            "replaces": null,
            "notes": [],
            "path": place.display().to_string(),
            "granted": false,
            "callable": true,
        }])
    );
    let imports = ran.json()[0]["imports"].to_string();
    assert!(imports.contains("wasi:cli/stdout@0.2"), "{imports}");
    assert!(ran.stderr().contains("none: the file is not signed"), "{ran}");
    assert_eq!((fs::read(&place).expect("placed"), mode(&place)), (file.clone(), 0o644));
    let expected = format!(
        "version = 1\n\n[[tool]]\nname = \"weather\"\nversion = \"1.0.0\"\nfrom = \"{from}\"\n\
         sha256 = \"{}\"\nsize = {}\nsigner = \"none\"\nneeds = \"sha256:{}\"\n",
        sha256(&file),
        file.len(),
        Needs::default().digest()
    );
    assert_eq!((lock_text(&host), mode(&lock(&host))), (expected, 0o600));
    assert_eq!(policy_text(&host), "", "needs grant nothing");
    let records = records(&host);
    let [record] = &records[..] else { panic!("{records:#?}") };
    for (key, value) in [
        ("tool", json!("weather")),
        ("origin", json!("user")),
        ("path", json!(place)),
        ("digest", json!(sha256(&file))),
        ("backend", json!("wasm")),
        ("outcome", json!("ok")),
        (
            "installed",
            json!({"action": "install", "source": from, "version": "1.0.0", "signer": "none"}),
        ),
    ] {
        assert_eq!(record[key], value, "{record:#}");
    }
    assert_eq!(record.get("grant"), None, "{record:#}");
    answers(&host, "1.0.0");
    let listed = host.run(["tool", "show", "weather", "--json"]).expect_code(0).json();
    assert!(listed.to_string().contains(&sha256(&file)), "{listed:#}");
    host.assert_nothing_left();
}

#[test]
fn what_is_installed_already_is_left_as_it_is() {
    let (host, path) = installed();
    let before = state(&host);
    let inode =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("there"));
    let place = host.user_tools().join("weather.wasm");
    let seen = inode(&place);
    let ran = install_with(&host, &path, &["--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "unchanged", "{ran}");
    assert!(ran.stderr().contains("`weather` is already installed"), "{ran}");
    assert_eq!((state(&host), inode(&place)), (before, seen), "nothing is written again");
    assert_eq!(records(&host).len(), 1, "and nothing recorded");
}

/// A relative path is stored as an absolute one, because `update` may run in another directory.
#[test]
fn a_relative_path_is_kept_as_a_whole_one() {
    let host = Host::without_system_tools();
    host.write("workspace/dist/weather.wasm", weather("1.0.0"), 0o644);
    host.run(["tool", "install", "--yes", "./dist/weather.wasm"]).expect_code(0);
    let from = locked(&lock_text(&host), "from");
    assert!(Path::new(&from).is_absolute() && Path::new(&from).is_file(), "{from}");
    host.write("workspace/dist/weather.wasm", weather("1.1.0"), 0o644);
    let elsewhere = host.write("elsewhere/mark", "", 0o644);
    let elsewhere = elsewhere.parent().expect("a directory").to_str().expect("UTF-8");
    host.run(["--workspace", elsewhere, "tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.1.0");
}

/// The same file is stored as the same path, however it was typed.
#[test]
fn a_path_with_dots_is_kept_without_them() {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    host.write("workspace/sub/mark", "", 0o644);
    host.run(["tool", "install", "--yes", "sub/../../source/weather.wasm"]).expect_code(0);
    let from = locked(&lock_text(&host), "from");
    let directory = path.parent().expect("a directory").canonicalize().expect("there");
    assert_eq!(from, directory.join("weather.wasm").display().to_string());
    let ran =
        host.run(["tool", "install", "--yes", "../source/weather.wasm", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "unchanged", "{ran}");
    for missing in ["../source/missing.wasm", "../nowhere/weather.wasm"] {
        refused(
            &host,
            &["tool", "install", "--yes", missing],
            1,
            &["cannot be read", "No such file"],
        );
    }
}

#[test]
fn a_file_without_a_manifest_is_still_a_tool() {
    let host = Host::without_system_tools();
    let path = host.write("source/any.wasm", component("weather", "weather 1.0.0"), 0o644);
    let ran = install_with(&host, &path, &["--json"]).expect_code(0);
    assert_eq!((&ran.json()[0]["version"], &ran.json()[0]["needs"]), (&Value::Null, &Value::Null));
    assert!(ran.stderr().contains("unknown: it has no manifest"), "{ran}");
    let text = lock_text(&host);
    assert!(!text.contains("needs") && !text.contains("\nversion = \""), "{text}");
    answers(&host, "1.0.0");
}

#[test]
fn an_address_is_installed_from_and_pinned_by_its_digest() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let file = weather("1.0.0");
    let address = serve(&fake, &file);
    let ran = host.run(["tool", "install", "--yes", &address, "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["from"], address.as_str(), "{ran}");
    assert_eq!(locked(&lock_text(&host), "from"), address);
    answers(&host, "1.0.0");
    let pinned = format!("{address}#sha256={}", sha256(&file));
    let ran = host.run(["tool", "install", "--yes", &pinned, "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "unchanged", "the digest is no part of the place: {ran}");
    let other = sha256(b"another");
    let pinned = format!("{address}#sha256={other}");
    let both = [format!("sha256:{other}"), format!("sha256:{}", sha256(&file))];
    refused(&host, &["tool", "install", "--yes", &pinned], 1, &[&both[0], &both[1]]);
    serve(&fake, &weather("1.1.0"));
    let ran = host.run(["tool", "update", "--yes", "weather", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["replaces"]["version"], "1.0.0", "{ran}");
    answers(&host, "1.1.0");
}

/// An earlier download says nothing about the file that the address has now.
#[test]
fn verify_asks_an_address_and_not_the_cache() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let address = serve(&fake, &weather("1.0.0"));
    host.run(["tool", "install", "--yes", &address]).expect_code(0);
    let ran = host.run(["tool", "verify"]).expect_code(0);
    assert!(ran.stdout().contains("its source still has it"), "{ran}");
    serve(&fake, &weather("1.1.0"));
    let ran = host.run(["tool", "verify"]).expect_code(1);
    let told = ["FAIL", "now has another file", &sha256(&weather("1.1.0")), "tool update weather"];
    assert!(told.iter().all(|text| ran.stdout().contains(text)), "{ran}");
    assert!(!ran.stdout().contains("still has it"), "{ran}");
    fake.page("/weather.wasm", Reply::new(404, "text/plain", "none"));
    let ran = host.run(["tool", "verify"]).expect_code(1);
    for text in ["FAIL", "answers 404", "ikigai tool install REF --replace"] {
        assert!(ran.stdout().contains(text), "{text}\n{ran}");
    }
    drop(fake.seen());
    host.run(["tool", "verify", "--offline"]).expect_code(0);
    assert!(fake.seen().is_empty(), "nothing is asked for");
    answers(&host, "1.0.0");
}

#[test]
fn a_registry_is_installed_from_by_tag_digest_and_version() {
    let net = Net::new();
    let debian = Style { absolute_location: true, ranges: true, ..Style::default() };
    let newer = Style { referrers: true, ..Style::default() };
    for fake in [net.fake(debian), net.fake(newer)] {
        let mut digest = String::new();
        for version in ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "3.0.0-rc.1"] {
            let published = publish(&fake, version, &weather(version));
            if version == "1.1.0" {
                digest = published;
            }
        }
        let by_digest = format!("@{digest}");
        for (rest, flags, version, wanted) in [
            (":1.1.0", &[][..], "1.1.0", Some("1.1.0")),
            (&by_digest, &[], "1.1.0", None),
            ("", &["--version", "^1.1"], "1.2.0", Some("^1.1")),
            ("", &["--version", "=3.0.0-rc.1"], "3.0.0-rc.1", Some("=3.0.0-rc.1")),
            // Without a request for it, a pre-release is not installed.
            ("", &[], "2.0.0", None),
        ] {
            let host = Host::without_system_tools();
            let reference = at(&fake.host(), rest);
            let before = ["tool", "install", "--yes", &reference, "--json"];
            let ran = host.run(before.iter().chain(flags)).expect_code(0);
            assert_eq!(ran.json()[0]["version"], version, "{rest} {flags:?}\n{ran}");
            let text = lock_text(&host);
            assert_eq!(locked(&text, "from"), format!("oci://{}", at(&fake.host(), "")));
            let kept = text.contains("wanted = ").then(|| locked(&text, "wanted"));
            assert_eq!(kept.as_deref(), wanted, "{rest} {flags:?}\n{text}");
            if version == "1.1.0" {
                assert_eq!(locked(&text, "manifest"), digest, "{text}");
            }
            answers(&host, version);
        }
    }
}

#[test]
fn versions_that_are_not_there_are_told_with_those_that_are() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let place = at(&fake.host(), "");
    let args = ["tool", "install", "--yes", &place, "--version", "^7"];
    refused(&host, &args, 1, &["has no version ^7; its tags are 1.0.0"]);
    let tagged = at(&fake.host(), ":1.0.0");
    let args = ["tool", "install", "--yes", &tagged, "--version", "^7"];
    refused(&host, &args, 2, &["has one version, and `--version` another"]);
    let gone = at(&fake.host(), ":7.0.0");
    refused(&host, &["tool", "install", "--yes", &gone], 1, &["there is no ", "tags are 1.0.0"]);
    let (host, path) = installed();
    let args = ["tool", "install", "--yes", path.to_str().expect("UTF-8"), "--version", "^1"];
    refused(&host, &args, 2, &["`--version` has no effect on"]);
}

#[test]
fn a_project_is_installed_once_it_is_built() {
    let host = Host::without_system_tools();
    let project = "manifest = 1\nname = \"weather\"\nversion = \"1.0.0\"\n\
                   [build]\ncommand = \"true\"\noutput = \"out.wasm\"\n";
    host.write("project/tool.toml", project, 0o644);
    let directory = host.scratch().join("project");
    let ran = install(&host, &directory).expect_code(1);
    assert!(error(&ran).contains("is not built"), "{ran}");
    assert!(error(&ran).contains("ikigai tool build "), "{ran}");
    assert!(state(&host).is_empty(), "{ran}");
    host.write("project/dist/weather.wasm", weather("1.0.0"), 0o644);
    install(&host, &directory).expect_code(0);
    assert_eq!(locked(&lock_text(&host), "from"), directory.display().to_string());
    answers(&host, "1.0.0");
}

/// If one of several references is invalid, nothing is installed.
#[test]
fn several_are_installed_with_one_command_or_none_of_them() {
    let host = Host::without_system_tools();
    let first = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    let second = host.write("source/clock.wasm", named("clock", "0.1.0", "{}"), 0o644);
    let text = |path: &Path| path.display().to_string();
    let wrong = ["tool", "install", "--yes", &text(&first), "http://example.org/x.wasm"];
    let ran = host.run(wrong).expect_code(2);
    assert!(error(&ran).contains("`http` is only for this machine"), "{ran}");
    assert!(state(&host).is_empty(), "{ran}");
    let ran = host.run(["tool", "install", "--yes", &text(&first), &text(&second), "--json"]);
    let names: Vec<_> = ran.expect_code(0).json().as_array().expect("a list").to_owned();
    assert_eq!((&names[0]["name"], &names[1]["name"]), (&json!("weather"), &json!("clock")));
    // The lock is sorted by name, regardless of the order of installation.
    let text = lock_text(&host);
    assert!(text.find("clock") < text.find("\"weather\""), "{text}");
}

/// One failure does not keep other tools from being installed, and each failure is reported.
#[test]
fn of_several_that_are_asked_for_the_others_are_done() {
    let host = Host::without_system_tools();
    let weather_at = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    let clock_at = host.write("source/clock.wasm", named("clock", "0.1.0", "{}"), 0o644);
    let (first, second) = (weather_at.display().to_string(), clock_at.display().to_string());
    let missing = host.scratch().join("source/missing.wasm").display().to_string();
    let ran = host.run(["tool", "install", "--yes", &missing, &first, "--json"]).expect_code(1);
    let done = ran.json();
    assert_eq!((&done[0]["state"], &done[0]["from"]), (&json!("failed"), &json!(missing)), "{ran}");
    assert_eq!(done[0]["name"], Value::Null, "{ran}");
    assert!(done[0]["error"].to_string().contains("cannot be read"), "{ran}");
    assert_eq!(done[1]["state"], "installed", "{ran}");
    assert!(error(&ran).contains("1 of 2 failed"), "{ran}");
    answers(&host, "1.0.0");
    host.run(["tool", "install", "--yes", &second]).expect_code(0);
    fs::remove_file(&clock_at).expect("removed");
    fs::write(&weather_at, weather("1.1.0")).expect("written");
    // The lock is sorted, so `clock` is requested first.
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(1);
    let done = ran.json();
    assert_eq!((&done[0]["state"], &done[0]["name"]), (&json!("failed"), &json!("clock")), "{ran}");
    assert_eq!((&done[1]["state"], &done[1]["version"]), (&json!("installed"), &json!("1.1.0")));
    assert!(error(&ran).contains("1 of 2 failed: `clock`"), "{ran}");
    answers(&host, "1.1.0");
}

/// The lock contains the manifest's digest of the needs, so that it reveals a change in them.
#[test]
fn needs_are_locked_by_their_digest() {
    let host = Host::without_system_tools();
    let needs = r#"{"env":[{"name":"KEY","why":"the key"}]}"#;
    let file = needing("1.0.0", needs);
    let manifest = Manifest::of_file(&file[..]).expect("readable").expect("a manifest");
    let path = host.write("source/weather.wasm", &file, 0o644);
    install(&host, &path).expect_code(0);
    let digest = format!("sha256:{}", manifest.needs.digest());
    assert_eq!(locked(&lock_text(&host), "needs"), digest);
}
