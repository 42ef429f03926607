//! Installed tools over time: newer versions, removal, and files that were changed by hand.

use std::fs;

use ikigai_packages_testing::Reply;
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::shipping::scene::*;

fn outdated(host: &Host, code: i32) -> Value {
    host.run(["tool", "outdated", "--json"]).expect_code(code).json()[0].clone()
}

#[test]
fn a_newer_version_is_told_and_taken() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    assert_eq!(outdated(&host, 0)["state"], "current");
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "unchanged", "{ran}");
    publish(&fake, "1.1.0", &weather("1.1.0"));
    publish(&fake, "2.0.0-rc.1", &weather("2.0.0-rc.1"));
    let row = outdated(&host, 1);
    assert_eq!((&row["state"], &row["newest"]), (&json!("outdated"), &json!("1.1.0")), "{row}");
    let table = host.run(["tool", "outdated"]).expect_code(1).stdout();
    assert!(table.contains("1.0.0") && table.contains("1.1.0"), "{table}");
    answers(&host, "1.0.0");
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(0);
    let done = &ran.json()[0];
    assert_eq!((&done["state"], &done["version"]), (&json!("installed"), &json!("1.1.0")), "{ran}");
    assert!(ran.stderr().contains("replaces"), "{ran}");
    // A model sees the schema, so its change is shown.
    for line in ["-  \"description\": \"weather 1.0.0\"", "+  \"description\": \"weather 1.1.0\""] {
        assert!(ran.stderr().contains(line), "{line}\n{ran}");
    }
    answers(&host, "1.1.0");
    assert_eq!(outdated(&host, 0)["state"], "current");
    let records = records(&host);
    assert_eq!(records[1]["installed"]["action"], "update", "{records:#?}");
    assert_eq!(records[1]["installed"]["replaced"], sha256(&weather("1.0.0")), "{records:#?}");
}

#[test]
fn a_requirement_holds_for_updates() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    publish(&fake, "1.0.0", &weather("1.0.0"));
    host.run(["tool", "install", "--yes", &at(&fake.host(), ""), "--version", "^1"]).expect_code(0);
    publish(&fake, "2.0.0", &weather("2.0.0"));
    let row = outdated(&host, 0);
    assert_eq!((&row["state"], &row["newest"]), (&json!("beyond"), &json!("2.0.0")), "{row}");
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.0.0");
    publish(&fake, "1.9.0", &weather("1.9.0"));
    host.run(["tool", "update", "--yes", "weather"]).expect_code(0);
    answers(&host, "1.9.0");
    assert_eq!(locked(&lock_text(&host), "wanted"), "^1");
}

#[test]
fn an_older_version_is_taken_only_where_it_is_asked_for() {
    let (host, path) = installed();
    fs::write(&path, weather("0.9.0")).expect("written");
    let older =
        ["`weather` is installed in version 1.0.0, and this is the older 0.9.0", "--downgrade"];
    refused(&host, &["tool", "install", "--yes", path.to_str().expect("UTF-8")], 1, &older);
    refused(&host, &["tool", "update", "--yes"], 1, &older);
    host.run(["tool", "update", "--yes", "--downgrade"]).expect_code(0);
    answers(&host, "0.9.0");
}

#[test]
fn a_name_that_was_not_installed_is_told_with_the_nearest() {
    let (host, _) = installed();
    let args = ["tool", "update", "--yes", "wether"];
    refused(&host, &args, 1, &["`wether` was not installed", "did you mean `weather`?"]);
    host.script("by_hand", "echo 1");
    let args = ["tool", "remove", "by_hand"];
    let removal = format!("`rm {}` removes the tool", host.user_tools().join("by_hand").display());
    refused(&host, &args, 1, &["`by_hand` was not installed", &removal]);
    host.run(["policy", "grant", "by_hand"]).expect_code(0);
    let revocation = "; then `ikigai policy revoke by_hand` removes its entry";
    refused(&host, &args, 1, &[&removal, revocation]);
}

/// A source that is trusted for one tool cannot install a different one by its updates.
#[test]
fn an_update_never_brings_a_tool_of_another_name() {
    let (host, path) = installed();
    for other in [named("climate", "1.1.0", "{}"), component("climate", "no manifest")] {
        fs::write(&path, other).expect("written");
        let told =
            ["now has the tool `climate` instead of `weather`", "ikigai tool remove weather"];
        refused(&host, &["tool", "update", "--yes"], 1, &told);
        refused(&host, &["tool", "update", "--yes", "--grant"], 1, &told);
    }
}

#[test]
fn a_tool_is_removed_with_its_lock_and_its_grant() {
    let host = Host::without_system_tools();
    let needs = r#"{"env":[{"name":"KEY","why":"the key"}]}"#;
    let path = host.write("source/weather.wasm", needing("1.0.0", needs), 0o644);
    let clock = host.write("source/clock.wasm", named("clock", "0.1.0", needs), 0o644);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    install_with(&host, &clock, &["--grant"]).expect_code(0);
    let ran = host.run(["tool", "remove", "weather", "--json"]).expect_code(0);
    assert_eq!(ran.json()["sha256"], sha256(&needing("1.0.0", needs)), "{ran}");
    assert!(!host.user_tools().join("weather.wasm").exists(), "{ran}");
    for (text, what) in [(lock_text(&host), "lock"), (policy_text(&host), "policy")] {
        assert!(!text.contains("weather") && text.contains("clock"), "{what}: {text}");
    }
    let last = records(&host).pop().expect("a record");
    assert_eq!(
        (&last["tool"], &last["installed"]["action"]),
        (&json!("weather"), &json!("remove"))
    );
    assert_eq!(call(&host)["error_code"], "TOOL_NOT_FOUND");
    let ran = host.run(["tool", "call", "clock", "{}"]).expect_code(0);
    assert_eq!(ran.json()["result"]["description"], "clock 0.1.0", "{ran}");
    host.run(["tool", "remove", "weather"]).expect_code(1);
}

/// A file that the user put there instead belongs to the user.
#[test]
fn a_file_that_somebody_changed_is_told_and_neither_updated_nor_removed() {
    let (host, path) = installed();
    let place = host.user_tools().join("weather.wasm");
    let changed = component("weather", "weather changed");
    fs::write(&place, &changed).expect("written");
    let verified = host.run(["tool", "verify", "--json"]).expect_code(1).json();
    let finding = verified[0]["findings"].to_string();
    for digest in [sha256(&changed), sha256(&weather("1.0.0"))] {
        assert!(finding.contains(&digest), "{verified:#}");
    }
    fs::write(&path, weather("1.1.0")).expect("written");
    let before = state(&host);
    let ran = host.run(["tool", "update", "--yes"]).expect_code(1);
    assert!(error(&ran).contains("was changed after it was installed"), "{ran}");
    // The hint's command exists, and is tested below.
    let command = format!("`ikigai tool install {} --replace`", path.display());
    assert!(error(&ran).contains(&command), "{command}\n{ran}");
    assert_eq!(state(&host), before);
    let ran = host.run(["tool", "remove", "weather", "--yes"]).expect_code(1);
    for text in ["is not what was installed", &sha256(&changed), "nothing was removed"] {
        assert!(error(&ran).contains(text), "{text}\n{ran}");
    }
    assert_eq!((state(&host), fs::read(&place).expect("there")), (before, changed));
    fs::remove_file(&place).expect("removed");
    host.run(["tool", "remove", "weather"]).expect_code(0);
    assert!(!lock_text(&host).contains("weather"));
}

/// Returns a native tool that runs these commands.
fn native(commands: &str) -> String {
    let schema = schema("weather", "weather 1.0.0");
    format!(
        "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '{schema}'; exit; fi\n{commands}\n"
    )
}

/// Without an entry, a native program would run under the profile's rules.
#[test]
fn the_removal_of_a_changed_native_program_does_not_let_it_run() {
    let host = Host::without_system_tools();
    let path = host.write("source/weather", native("echo 1"), 0o755);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    let place = host.user_tools().join("weather");
    fs::write(&place, native("echo 2")).expect("written");
    assert_eq!(call(&host)["error_code"], "PERMISSION_DENIED");
    let before = (state(&host), policy_text(&host), lock_text(&host));
    host.run(["tool", "remove", "weather", "--yes"]).expect_code(1);
    assert_eq!((state(&host), policy_text(&host), lock_text(&host)), before);
    assert_eq!(call(&host)["error_code"], "PERMISSION_DENIED");
    fs::remove_file(&place).expect("removed");
    host.run(["tool", "remove", "weather", "--yes"]).expect_code(0);
    assert!(!policy_text(&host).contains("weather"), "{}", policy_text(&host));
    assert_eq!(call(&host)["error_code"], "TOOL_NOT_FOUND");
}

/// A workspace's tool and a user's tool may have the same name, and a grant applies to only one of
/// them.
#[test]
fn the_removal_of_a_tool_leaves_the_grant_of_another_one() {
    let (host, _) = installed();
    let place = host.user_tools().join("weather.wasm");
    let digest = sha256(&component("weather", "another"));
    write_policy(&host, &format!("[tools.weather]\nsha256 = [\"{digest}\"]\n"));
    host.run(["tool", "remove", "weather", "--yes"]).expect_code(0);
    assert!(!place.exists() && policy_text(&host).contains(&digest), "{}", policy_text(&host));
}

/// Returns the arguments of the command in backticks that contains this text.
#[track_caller]
fn command<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    let found = text.split('`').find(|command| command.contains(part)).expect(text);
    let words = found.split(' ').skip(1).map(|word| word.trim_matches('\''));
    // The test has no person who could answer.
    words.chain(["--yes"]).collect()
}

#[test]
fn the_commands_that_verify_and_update_name_mend_a_changed_file() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let before = state(&host);
    let place = host.user_tools().join("weather.wasm");
    let change = || fs::write(&place, component("weather", "weather changed")).expect("written");
    change();
    let told = host.run(["tool", "verify"]).expect_code(1).stdout();
    let mending = command(&told, "--replace");
    host.run(&mending).expect_code(0);
    assert_eq!(state(&host), before, "{mending:?}");
    change();
    publish(&fake, "1.1.0", &weather("1.1.0"));
    host.run(&mending).expect_code(0);
    assert_eq!(state(&host), before, "the file of the lock, and not the newest one");
    change();
    let ran = host.run(["tool", "update", "--yes"]).expect_code(1);
    host.run(command(&error(&ran), "--replace")).expect_code(0);
    answers(&host, "1.1.0");
    host.run(["tool", "verify"]).expect_code(0);
}

#[test]
fn a_standard_tool_is_not_said_to_be_put_there_by_hand() {
    let host = Host::without_system_tools();
    host.write("system-tools/grep.wasm", component("grep", "the standard grep"), 0o644);
    let ran = host.run(["tool", "remove", "grep", "--yes"]).expect_code(1);
    for text in ["is a built-in tool", "`[tools.grep]`", "`deny = true`"] {
        assert!(error(&ran).contains(text), "{text}\n{ran}");
    }
    assert!(!error(&ran).contains("by hand"), "{ran}");
}

/// The registry is asked for the manifest, although the file is among the downloads.
#[test]
fn verify_tells_that_a_registry_has_a_tool_no_more() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let digest = locked(&lock_text(&host), "manifest");
    let gone = Reply::new(404, "application/json", r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#);
    fake.page(&format!("/v2/{REPOSITORY}/manifests/{digest}"), gone);
    let ran = host.run(["tool", "verify"]).expect_code(1);
    for text in ["FAIL  there is no ", &digest, "ikigai tool install REF --replace"] {
        assert!(ran.stdout().contains(text), "{text}\n{ran}");
    }
    assert!(!ran.stdout().contains("still has it"), "{ran}");
    answers(&host, "1.0.0");
}

#[test]
fn verify_asks_the_file_its_lock_and_its_source() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let before = state(&host);
    let ran = host.run(["tool", "verify"]).expect_code(0);
    assert!(ran.stdout().contains("its file is the one that was installed"), "{ran}");
    assert!(ran.stdout().contains("its source still has it"), "{ran}");
    let ran = host.run(["tool", "verify", "weather", "--offline"]).expect_code(0);
    assert!(!ran.stdout().contains("its source"), "{ran}");
    // A reference that is not installed is checked, and stays uninstalled.
    publish(&fake, "2.0.0", &weather("2.0.0"));
    let reference = at(&fake.host(), ":2.0.0");
    let ran = host.run(["tool", "verify", &reference, "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["report"]["version"], "2.0.0", "{ran}");
    assert_eq!(state(&host), before);
    fs::remove_file(host.user_tools().join("weather.wasm")).expect("removed");
    let ran = host.run(["tool", "verify"]).expect_code(1);
    assert!(ran.stdout().contains("FAIL  its file is missing; reinstall it"), "{ran}");
    host.run(["tool", "install", "--yes", &at(&fake.host(), ":1.0.0")]).expect_code(0);
    answers(&host, "1.0.0");
}

#[test]
fn nothing_that_is_installed_is_no_error() {
    let host = Host::without_system_tools();
    for command in ["update", "outdated"] {
        let ran = host.run(["tool", command]).expect_code(0);
        assert!(ran.stderr().contains("no tool was installed"), "{ran}");
    }
    for command in ["update", "outdated", "verify"] {
        let ran = host.run(["tool", command, "--json"]).expect_code(0);
        assert_eq!(ran.json(), json!([]), "{ran}");
    }
    assert!(state(&host).is_empty());
}
