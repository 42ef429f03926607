//! The grant that a tool asks for. It is shown, and written only if the user agreed.

use std::fs;

use ikigai_tests::core_module::{import, tool};
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::shipping::scene::*;

const NEEDS: &str = r#"{"env":[{"name":"KEY","why":"the key of the service"}],
    "net":[{"peer":"api.weather.example:443","why":"forecasts"}],
    "fs":[{"dir":"ro:.","why":"reads stations.csv"}],
    "limits":{"wall_clock":"5s"}}"#;

/// Returns a core module that answers with its environment, `|` between variables, with this
/// manifest.
fn environment(version: &str, needs: &str) -> Vec<u8> {
    let imports = import("environ_sizes_get", "i32 i32") + &import("environ_get", "i32 i32");
    let body = r#"(if (call $environ_sizes_get (i32.const 32) (i32.const 36)) (then unreachable))
           (if (call $environ_get (i32.const 16384) (i32.const 17408)) (then unreachable))
           (i32.store (i32.const 40) (i32.const 17408))
           (loop $next
             (if (i32.eqz (i32.load8_u (i32.load (i32.const 40))))
               (then (i32.store8 (i32.load (i32.const 40)) (i32.const 0x7c))))
             (i32.store (i32.const 40) (i32.add (i32.load (i32.const 40)) (i32.const 1)))
             (br_if $next (i32.lt_u (i32.load (i32.const 40))
               (i32.add (i32.const 17407) (i32.load (i32.const 36))))))
           (i32.store16 (i32.const 17406) (i32.const 0x225b))
           (call $say (i32.const 17406) (i32.const 2))
           (if (i32.load (i32.const 36)) (then
             (call $say (i32.const 17408) (i32.sub (i32.load (i32.const 36)) (i32.const 1)))))
           (i32.store16 (i32.const 17406) (i32.const 0x5d22))
           (call $say (i32.const 17406) (i32.const 2))"#;
    let module = tool(&schema("weather", &format!("weather {version}")), &imports, body);
    let json =
        format!(r#"{{"manifest":1,"name":"weather","version":"{version}","needs":{needs}}}"#);
    with_manifest(&module, &json)
}

#[track_caller]
fn result(host: &Host) -> Value {
    let envelope = call(host);
    assert_eq!(envelope.get("error_code").unwrap_or(&Value::Null), &Value::Null, "{envelope}");
    let variables = envelope["result"][0].as_str().expect("a text").split('|');
    // The host sets `PWD` for every tool.
    variables.filter(|it| !it.is_empty() && !it.starts_with("PWD=")).collect()
}

#[test]
fn without_a_flag_for_it_a_tool_is_installed_and_not_granted() {
    for flags in [&["--json"][..], &["--json", "--imports"]] {
        let host = Host::without_system_tools().env("KEY", "a value");
        let path = host.write("source/weather.wasm", environment("1.0.0", NEEDS), 0o644);
        let ran = install_with(&host, &path, flags).expect_code(0);
        assert_eq!(ran.json()[0]["granted"], false, "{ran}");
        assert_eq!(ran.json()[0]["needs"]["net"][0]["why"], "forecasts", "{ran}");
        for reason in ["the key of the service", "forecasts", "reads stations.csv"] {
            assert!(ran.stderr().contains(reason), "{ran}");
        }
        // The list of imports may be long, and the user need not decide about any of them.
        let stderr = ran.stderr();
        let place = |text: &str| stderr.find(text).unwrap_or_else(|| panic!("{text}\n{ran}"));
        assert!(place("  needs ") < place("  imports "), "{ran}");
        let is_listed = flags.contains(&"--imports");
        assert_eq!(stderr.contains("wasi_snapshot_preview1"), is_listed, "{ran}");
        assert_eq!(stderr.contains("1 interface; `--imports` lists it"), !is_listed, "{ran}");
        assert_eq!(policy_text(&host), "", "{ran}");
        assert_eq!(ran.json()[0]["callable"], true, "{ran}");
        assert_eq!(result(&host), json!([]), "it has nothing yet");
        let line = ran
            .stderr()
            .lines()
            .find_map(|line| line.split_once("to grant it: "))
            .map(|it| it.1.to_owned());
        let command = line.unwrap_or_else(|| panic!("no command\n{ran}"));
        let words = shell_words(&command);
        assert_eq!(words[..4], ["ikigai", "policy", "grant", "weather"], "{ran}");
        host.run(&words[1..]).expect_code(0);
        assert_eq!(result(&host), json!(["KEY=a value"]));
        let policy = policy_text(&host);
        for text in ["api.weather.example:443", "ro:.", "KEY", "5s"] {
            assert!(policy.contains(text), "{text}\n{policy}");
        }
    }
}

/// Splits the words of a command, which uses only single quotes.
fn shell_words(text: &str) -> Vec<String> {
    text.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
}

#[test]
fn what_a_person_grants_is_bound_to_the_file_and_then_there() {
    let host = Host::without_system_tools().env("KEY", "a value").env("OTHER", "x");
    let file = environment("1.0.0", NEEDS);
    let path = host.write("source/weather.wasm", &file, 0o644);
    let ran = install_with(&host, &path, &["--grant", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["granted"], true, "{ran}");
    assert!(ran.stderr().contains("+") && ran.stderr().contains("and granted"), "{ran}");
    let policy = policy_text(&host);
    for text in ["[tools.weather]", &sha256(&file), "api.weather.example:443", "ro:.", "KEY", "5s"]
    {
        assert!(policy.contains(text), "{text}\n{policy}");
    }
    assert_eq!(result(&host), json!(["KEY=a value"]), "and nothing else");
    let record = &records(&host)[0];
    assert!(record["grant"].to_string().contains("api.weather.example"), "{record:#}");
    // A second installation changes nothing.
    let ran = install_with(&host, &path, &["--grant"]).expect_code(0);
    assert_eq!(policy_text(&host), policy, "{ran}");
    assert!(ran.stderr().contains("`weather` is already installed"), "{ran}");
    assert_eq!(records(&host).len(), 1, "and nothing is recorded again");
}

#[test]
fn a_grant_of_which_a_bound_takes_a_part_away_is_not_called_granted() {
    let host = Host::without_system_tools().env("KEY", "a value");
    host.write("workspace/.ikigai/policy.toml", "[tools.\"*\"]\nnet = []\n", 0o600);
    let path = host.write("source/weather.wasm", environment("1.0.0", NEEDS), 0o644);
    for state in ["installed", "unchanged"] {
        let ran = install_with(&host, &path, &["--grant", "--json"]).expect_code(1);
        let done = &ran.json()[0];
        assert_eq!((&done["state"], &done["callable"]), (&json!(state), &json!(true)), "{ran}");
        if state == "installed" {
            assert_eq!(done["granted"], false, "{ran}");
            assert_eq!(done["taken_away"][0]["what"], "net api.weather.example:443", "{ran}");
            assert!(ran.stderr().contains("warning: `net api.weather.example:443` is not granted"));
        }
        assert!(!ran.stderr().contains("and granted"), "{ran}");
        assert!(ran.stderr().contains("not all of its grant is in force here"), "{ran}");
    }
    assert_eq!(result(&host), json!(["KEY=a value"]), "the rest is in force");
}

#[test]
fn no_flag_grants_every_address_or_a_private_one() {
    let withheld = [
        ("*", "every address"),
        ("10.0.0.7:443", "a private address"),
        ("127.0.0.1:*", "a private address"),
        ("[::1]:80", "a private address"),
        ("169.254.169.254:80", "a private address"),
        ("10.0.0.0/8:443", "a network"),
        ("0.0.0.0/0:443", "a network"),
    ];
    let mut net: Vec<_> =
        withheld.iter().map(|(peer, _)| json!({"peer": peer, "why": "asks"})).collect();
    net.push(json!({"peer": "api.weather.example:443", "why": "forecasts"}));
    let file = needing("1.0.0", &json!({ "net": net }).to_string());
    for flags in [&["--grant", "--yes", "--json"][..], &["--yes", "--json"], &["--json"]] {
        let host = Host::without_system_tools();
        let path = host.write("source/weather.wasm", &file, 0o644);
        let ran = install_with(&host, &path, flags).expect_code(0);
        for (peer, why) in withheld {
            let text = format!("never granted from a manifest: net {peer} ({why})");
            assert!(ran.stderr().contains(&text), "{text}\n{ran}");
            assert!(!policy_text(&host).contains(&format!("\"{peer}\"")), "{}", policy_text(&host));
        }
        assert_eq!(ran.json()[0]["never_granted"].as_array().map(Vec::len), Some(withheld.len()));
        let has_public = policy_text(&host).contains("api.weather.example:443");
        assert_eq!(has_public, flags.contains(&"--grant"), "{ran}");
    }
}

#[test]
fn a_grant_ends_with_its_file_and_is_renewed_by_a_person_alone() {
    let host = Host::without_system_tools().env("KEY", "a value").env("MORE", "more");
    let path = host.write("source/weather.wasm", environment("1.0.0", NEEDS), 0o644);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    let next = environment("1.1.0", NEEDS);
    fs::write(&path, &next).expect("written");
    // In the second round the version is already installed, and still cannot be called.
    for state in ["installed", "unchanged"] {
        let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(1);
        assert_eq!(ran.json()[0]["state"], state, "{ran}");
        assert_eq!(ran.json()[0]["callable"], false, "{ran}");
        assert!(ran.stderr().contains("warning: `weather` cannot be called: "), "{ran}");
        assert!(ran.stderr().contains("`ikigai policy grant weather"), "{ran}");
    }
    assert!(!policy_text(&host).contains(&sha256(&next)), "`--yes` grants nothing");
    assert_eq!(call(&host)["error_code"], "PERMISSION_DENIED", "the grant was for the old file");
    let grown = r#"{"env":[{"name":"KEY","why":"the key"},{"name":"MORE","why":"more"}]}"#;
    let third = environment("1.2.0", grown);
    fs::write(&path, &third).expect("written");
    let ran = host.run(["tool", "update", "--yes", "--grant"]).expect_code(0);
    // Needs that the installed version did not have are marked.
    assert!(ran.stderr().contains("+ env MORE") || ran.stderr().contains("+ MORE"), "{ran}");
    let policy = policy_text(&host);
    assert!(policy.contains(&sha256(&third)) && policy.contains("MORE"), "{policy}");
    assert!(!policy.contains(&sha256(&next)), "{policy}");
    let variables = result(&host).to_string();
    assert!(variables.contains("MORE=more"), "{variables}");
}

/// A renewal keeps the user's changes in the entry.
#[test]
fn a_renewal_changes_the_digest_alone() {
    let host = Host::without_system_tools().env("KEY", "a value");
    let first = environment("1.0.0", NEEDS);
    let path = host.write("source/weather.wasm", &first, 0o644);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    let narrowed = policy_text(&host).replace("api.weather.example:443", "narrow.example:443");
    write_policy(&host, &format!("# mine\n{narrowed}"));
    let next = environment("1.1.0", NEEDS);
    fs::write(&path, &next).expect("written");
    host.run(["tool", "update", "--yes", "--grant"]).expect_code(0);
    let expected = format!("# mine\n{narrowed}").replace(&sha256(&first), &sha256(&next));
    assert_eq!(policy_text(&host), expected);
    assert_eq!(result(&host), json!(["KEY=a value"]));
}

/// A native program is installed only with an entry that binds it to its contents and puts it into
/// the sandbox.
#[test]
fn a_native_program_is_installed_into_the_sandbox_or_not_at_all() {
    let host = Host::without_system_tools();
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '{}'; exit; fi\necho 1\n",
        schema("weather", "weather 1.0.0")
    );
    let path = host.write("source/weather", text, 0o755);
    let ran = install(&host, &path).expect_code(1);
    assert!(error(&ran).contains("needs a grant to be installed"), "{ran}");
    assert!(state(&host).is_empty(), "{ran}");
    install_with(&host, &path, &["--grant"]).expect_code(0);
    let policy = policy_text(&host);
    assert!(policy.contains("sandbox") && policy.contains("sha256"), "{policy}");
}

/// A file is asked for its schema before the user has agreed to it.
#[test]
fn a_native_program_touches_nothing_while_it_is_looked_at() {
    let host = Host::without_system_tools();
    let places = [host.workspace(), host.home(), host.user_tools()].map(|it| it.join("touched"));
    let touch: String = places.iter().map(|it| format!("touch '{}'\n", it.display())).collect();
    let text = format!(
        "#!/bin/sh\n{touch}printf %s '{}'\necho 1 >&2\n",
        schema("weather", "weather 1.0.0")
    );
    let path = host.write("source/weather", text, 0o755);
    for command in ["install", "verify"] {
        let ran = host.run(["tool", command, path.to_str().expect("UTF-8")]);
        for place in &places {
            assert!(!place.exists(), "`{}` was written\n{ran}", place.display());
        }
    }
    host.assert_nothing_left();
}
