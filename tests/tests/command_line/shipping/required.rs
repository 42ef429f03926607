//! The policy's signers: the tools that are admitted, and the calls that are refused.

use std::fs;

use ikigai_tests::host::Host;

use crate::shipping::scene::*;
use crate::shipping::signing::Signer;

/// Returns a host with `weather` 1.0.0, signed by `acme`, under a policy that requires a signature.
fn required() -> Option<(Host, std::path::PathBuf, Signer)> {
    let host = Host::without_system_tools();
    let acme = Signer::ssh(&host, "acme")?;
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    acme.sign_beside(&host, &path);
    write_policy(&host, &format!("require_signed = true\n{}", acme.table("")));
    let ran = install(&host, &path).expect_code(0);
    assert!(ran.stderr().contains("`acme` of the policy"), "{ran}");
    answers(&host, "1.0.0");
    Some((host, path, acme))
}

#[track_caller]
fn denied(host: &Host, tool: &str, texts: &[&str]) {
    let envelope = host.run(["tool", "call", tool, "{}"]).expect_code(1).json();
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{envelope}");
    for text in texts {
        assert!(envelope["error"].to_string().contains(text), "{text}\n{envelope}");
    }
}

#[test]
fn calls_of_tools_that_nobody_signed_end() {
    let Some((host, _, _)) = required() else { return };
    host.program("by_hand.wasm", component("by_hand", "by hand"));
    host.script("a_script", "echo 1");
    for tool in ["by_hand", "a_script"] {
        let text = format!("`{tool}` was not installed by `ikigai tool install`");
        denied(&host, tool, &["requires signed tools", &text]);
    }
    let unsigned = host.write("other/clock.wasm", named("clock", "1.0.0", "{}"), 0o644);
    let args = ["tool", "install", "--yes", unsigned.to_str().expect("UTF-8")];
    refused(&host, &args, 1, &["`clock` is not signed, and `require_signed` asks for a signature"]);
    let args = [&args[..], &["--grant", "--accept-signer", "--replace"]].concat();
    refused(&host, &args, 1, &["`clock` is not signed"]);
    answers(&host, "1.0.0");
}

#[test]
fn a_file_that_was_changed_after_its_installation_is_not_called() {
    let Some((host, _, _)) = required() else { return };
    let place = host.user_tools().join("weather.wasm");
    fs::write(&place, component("weather", "weather changed")).expect("written");
    denied(&host, "weather", &["requires signed tools", "was not installed by"]);
    fs::write(&place, weather("1.0.0")).expect("written");
    answers(&host, "1.0.0");
}

#[test]
fn a_lock_that_cannot_be_read_is_the_reason_why_nothing_is_called() {
    let Some((host, _, _)) = required() else { return };
    fs::write(lock(&host), "version = 1\n<<<<<<< HEAD\n").expect("written");
    denied(&host, "weather", &["requires signed tools", "user-tools.lock:2:"]);
    let reason = call(&host)["error"].to_string();
    assert!(!reason.contains("error: ") && !reason.contains("\\n"), "one sentence: {reason}");
}

#[test]
fn a_stranger_is_refused_and_a_signer_that_is_removed_ends_its_tools() {
    let Some((host, path, acme)) = required() else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    fs::write(&path, weather("1.1.0")).expect("written");
    mallory.sign_beside(&host, &path);
    let texts = ["`weather` is signed by", &mallory.text, "not a signer in the policy"];
    refused(&host, &["tool", "update", "--yes"], 1, &texts);
    refused(&host, &["tool", "update", "--accept-signer", "--yes"], 1, &texts);
    write_policy(&host, &format!("require_signed = true\n{}", mallory.table("")));
    denied(&host, "weather", &["`weather` is signed by", &acme.text, "not a signer in the policy"]);
    let ran = host.run(["tool", "verify", "--offline"]).expect_code(1);
    assert!(ran.stdout().contains("FAIL") && ran.stdout().contains(&acme.text), "{ran}");
    write_policy(&host, &format!("require_signed = true\n{}", acme.table("")));
    answers(&host, "1.0.0");
}

#[test]
fn names_that_a_signer_claims_are_that_signers() {
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    write_policy(&host, &acme.table("tools = [\"weather\", \"acme_*\"]"));
    let ran = install(&host, &path).expect_code(1);
    assert!(error(&ran).contains("only the signer `acme` signs tools of this name"), "{ran}");
    mallory.sign_beside(&host, &path);
    let ran = install_with(&host, &path, &["--yes", "--accept-signer"]).expect_code(1);
    assert!(error(&ran).contains(&mallory.text), "{ran}");
    assert!(
        !lock(&host).exists() && fs::read_dir(host.user_tools()).expect("read").next().is_none()
    );
    acme.sign_beside(&host, &path);
    install(&host, &path).expect_code(0);
    answers(&host, "1.0.0");
    // A signer may not sign tools outside its `tools` list.
    let clock = host.write("other/clock.wasm", named("clock", "1.0.0", "{}"), 0o644);
    acme.sign_beside(&host, &clock);
    let args = ["tool", "install", "--yes", clock.to_str().expect("UTF-8")];
    refused(&host, &args, 1, &["`acme` may sign only `weather`, `acme_*`"]);
}

#[test]
fn a_signer_has_a_last_day_for_installations_and_none_for_calls() {
    let Some((host, path, acme)) = required() else { return };
    let over = format!("require_signed = true\n{}", acme.table("until = 2020-01-01"));
    write_policy(&host, &over);
    fs::write(&path, weather("1.1.0")).expect("written");
    acme.sign_beside(&host, &path);
    refused(
        &host,
        &["tool", "update", "--yes"],
        1,
        &["files of `acme` are installed until 2020-01-01 only"],
    );
    write_policy(&host, &over.replace("2020-01-01", "2199-01-01"));
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.1.0");
}

/// If a ceiling names signers, only its signers count.
#[test]
fn the_signers_of_a_ceiling_are_the_only_ones() {
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let ceiling =
        host.write("ceiling.toml", format!("require_signed = true\n{}", acme.table("")), 0o600);
    write_policy(&host, &format!("require_signed = false\n{}", mallory.table("")));
    let host = host.env("IKIGAI_CEILING", ceiling);
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    mallory.sign_beside(&host, &path);
    let ran = install_with(&host, &path, &["--accept-signer"]).expect_code(1);
    assert!(error(&ran).contains("not a signer in the policy"), "{ran}");
    acme.sign_beside(&host, &path);
    install(&host, &path).expect_code(0);
    answers(&host, "1.0.0");
}

#[test]
fn a_policy_that_names_no_usable_signer_is_no_policy() {
    let host = Host::without_system_tools();
    host.program("weather.wasm", component("weather", "weather 1.0.0"));
    for (text, told) in [
        (
            "[signers.acme]\nssh = \"ssh-ed25519 nonsense\"\n",
            "`[signers.acme]` has a `ssh` that cannot be used",
        ),
        ("[signers.acme]\ntools = [\"weather\"]\n", "does not say by what the signer is known"),
        ("[signers.acme]\nssh = \"-----BEGIN OPENSSH PRIVATE KEY-----\"\n", "private key"),
        ("require_signed = \"yes\"\n", "expected true or false, found"),
    ] {
        write_policy(&host, text);
        let ran = host.run(["tool", "list"]).expect_code(2);
        assert!(error(&ran).contains(told), "{ran}");
    }
    write_policy(&host, "");
    host.write("workspace/.ikigai/policy.toml", "[signers.acme]\nssh = \"x\"\n", 0o644);
    let ran = host.run(["tool", "list"]).expect_code(2);
    assert!(error(&ran).contains("the policy of a workspace cannot name signers"), "{ran}");
}
