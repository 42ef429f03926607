//! The hosts that are contacted, and the credentials that they receive.

use ikigai_packages_testing::{Fake, Reply, Style};
use ikigai_tests::host::Host;

use crate::shipping::scene::*;

/// `me:secret` in base64.
const BASIC: &str = "bWU6c2VjcmV0";

/// Returns a registry that asks for a password, and `weather` 2.0.0 in it.
fn guarded(net: &Net, authorization: &str, challenge: &str) -> Fake {
    let (authorization, challenge) = (Some(authorization.to_owned()), Some(challenge.to_owned()));
    let fake = net.fake(Style {
        ranges: true,
        referrers: true,
        authorization,
        challenge,
        ..Style::default()
    });
    publish(&fake, "2.0.0", &weather("2.0.0"));
    fake
}

/// Writes the credentials that `docker login` stores for a host.
fn log_in(host: &Host, registry: &str) {
    let text = format!(r#"{{"auths":{{"{registry}":{{"auth":"{BASIC}"}}}}}}"#);
    host.write("home/.docker/config.json", text, 0o600);
}

#[test]
fn a_kept_password_is_sent_to_its_registry_and_shown_nowhere() {
    let net = Net::new();
    let fake = guarded(&net, &format!("Basic {BASIC}"), "Basic realm=\"r\"");
    let (host, _) = installed();
    let reference = at(&fake.host(), ":2.0.0");
    refused(
        &host,
        &["tool", "install", "--yes", &reference],
        1,
        &["no credential is kept for it", "docker login"],
    );
    log_in(&host, &fake.host());
    drop(fake.seen());
    let ran = host.run(["tool", "install", "--yes", &reference, "--replace"]).expect_code(0);
    answers(&host, "2.0.0");
    let sent: Vec<_> = fake.seen();
    assert!(sent.iter().any(|it| it.header("authorization") == Some(&format!("Basic {BASIC}"))));
    let log = std::fs::read_to_string(host.audit_log()).expect("a log");
    for text in [ran.stdout(), ran.stderr(), lock_text(&host), log] {
        assert!(!text.contains(BASIC) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_helper_that_a_tool_could_replace_is_not_started() {
    let net = Net::new();
    let fake = guarded(&net, &format!("Basic {BASIC}"), "Basic realm=\"r\"");
    let (host, _) = installed();
    let ran = host.scratch().join("ran");
    let answer = "echo '{\"Username\":\"me\",\"Secret\":\"secret\"}'";
    let script = format!("#!/bin/sh\n: > '{}'\n{answer}\n", ran.display());
    host.write("workspace/bin/docker-credential-of-test", script, 0o755);
    host.write("home/.docker/config.json", r#"{"credsStore": "of-test"}"#, 0o600);
    let dirs = [host.workspace().join("bin"), host.scratch().join("bin")];
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&old)));
    let host = host.env("PATH", path.expect("a path"));
    let reference = at(&fake.host(), ":2.0.0");
    let install = ["tool", "install", "--yes", &reference, "--replace"];
    let refused = host.run(install).stderr();
    assert!(refused.contains("`docker-credential-of-test` was not started"), "{refused}");
    assert!(refused.contains("where tools may write"), "{refused}");
    // The next directory of `PATH` counts.
    let script = format!("#!/bin/sh\n{answer}\n");
    host.write("bin/docker-credential-of-test", script, 0o755);
    host.run(install).expect_code(0);
    answers(&host, "2.0.0");
    assert!(!ran.exists());
}

#[test]
fn a_redirect_takes_no_password_along() {
    let net = Net::new();
    let fake = guarded(&net, &format!("Basic {BASIC}"), "Basic realm=\"r\"");
    let store = net.registry();
    let (host, _) = installed();
    log_in(&host, &fake.host());
    let file = weather("2.0.0");
    let path = format!("/v2/{REPOSITORY}/blobs/sha256:{}", sha256(&file));
    let elsewhere = format!("http://{}/file", store.host());
    fake.page(&path, Reply::new(307, "text/plain", "").with("location", &elsewhere));
    store.page("/file", Reply::new(200, "application/octet-stream", file));
    host.run(["tool", "install", "--yes", &at(&fake.host(), ":2.0.0"), "--replace"]).expect_code(0);
    answers(&host, "2.0.0");
    let seen = store.seen();
    assert!(!seen.is_empty());
    for request in seen {
        assert_eq!(request.header("authorization"), None, "{request:?}");
        assert!(!format!("{request:?}").contains(BASIC), "{request:?}");
    }
}

#[test]
fn a_realm_elsewhere_or_over_http_is_refused_and_asked_nothing() {
    let net = Net::new();
    let other = net.registry();
    for realm in [format!("http://{}/token", other.host()), "http://example.org/token".to_owned()] {
        let fake = guarded(&net, "Bearer t", &format!("Bearer realm=\"{realm}\""));
        let (host, _) = installed();
        log_in(&host, &fake.host());
        let texts = ["asks to log in at", &realm, "which is refused"];
        refused(&host, &["tool", "install", "--yes", &at(&fake.host(), ":2.0.0")], 1, &texts);
    }
    assert_eq!(other.seen().len(), 0, "nobody was asked");
}

#[test]
fn http_is_for_this_machine_alone_wherever_it_is_named() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let refusal = "`http` is only for this machine";
    let args = ["tool", "install", "--yes", "http://example.org/weather.wasm"];
    refused(&host, &args, 2, &[refusal, "use `https`"]);
    let away =
        || Reply::new(307, "text/plain", "").with("location", "http://example.org/x?secret=1");
    fake.page("/weather.wasm", away());
    let address = format!("http://{}/weather.wasm", fake.host());
    let texts = ["leads to `http://example.org/x`, which is refused", refusal];
    let ran = refused(&host, &["tool", "install", "--yes", &address], 1, &texts);
    assert!(!ran.stderr().contains("secret=1"), "{ran}");
    publish(&fake, "2.0.0", &weather("2.0.0"));
    let path = format!("/v2/{REPOSITORY}/blobs/sha256:{}", sha256(&weather("2.0.0")));
    fake.page(&path, away());
    refused(&host, &["tool", "update", "--yes"], 1, &texts);
    let push = host.write("source/weather.wasm", weather("3.0.0"), 0o644);
    fake.page(&format!("/v2/{REPOSITORY}/blobs/uploads/"), Reply { status: 202, ..away() });
    let reference = at(&fake.host(), "");
    let args = ["tool", "push", &reference, push.to_str().expect("UTF-8")];
    refused(&host, &args, 1, &texts);
}

#[test]
fn a_password_on_the_command_line_is_refused_and_not_repeated() {
    let (host, _) = installed();
    for reference in
        ["https://me:secret@127.0.0.1/weather.wasm", "me:secret@127.0.0.1/acme/weather"]
    {
        let ran = refused(
            &host,
            &["tool", "install", "--yes", reference],
            2,
            &["has a user or a password in it", "docker login"],
        );
        assert!(!ran.stderr().contains("secret"), "{ran}");
    }
}

/// A registry's page must not put another author's text on a terminal.
#[test]
fn a_message_of_a_server_is_made_harmless() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let body = "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"a\\u001b[31m\\u202eb\"}]}";
    fake.page(&format!("/v2/{REPOSITORY}/manifests/2"), Reply::new(418, "application/json", body));
    let ran =
        refused(&host, &["tool", "install", "--yes", &at(&fake.host(), ":2")], 1, &["answers 418"]);
    assert!(!ran.stderr().contains(['\u{1b}', '\u{202e}']), "{ran}");
}
