//! Pushed tools. They follow the specification, so that other programs copy them byte by byte, and
//! contain only what the author meant to publish.

use std::fs;
use std::path::Path;

use ikigai_packages_testing::{REQUIRE_VARIABLE, Real};
use ikigai_tests::host::{Host, Ran};
use serde_json::json;

use crate::shipping::scene::*;
use crate::shipping::signing::{self, Signer};

/// Returns a running docker-registry, or `None` if it is not installed.
fn docker() -> Option<Real> {
    Real::docker(None, None).expect("a registry")
}

/// Copies with skopeo, a program that knows nothing about ikigai.
fn copy(host: &Host, from: &str, to: &str) -> Option<()> {
    let skopeo = program("skopeo", REQUIRE_VARIABLE)?;
    signing::run(
        host,
        skopeo,
        &[
            "--insecure-policy",
            "copy",
            "--preserve-digests",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            from,
            to,
        ],
    );
    Some(())
}

fn push(host: &Host, reference: &str, path: &Path, flags: &[&str]) -> Ran {
    let path = path.to_str().expect("UTF-8");
    host.run(["tool", "push", reference, path].iter().chain(flags))
}

#[test]
fn a_tool_is_pushed_copied_by_another_program_and_installed() {
    let Some(registry) = docker() else { return };
    let (host, place) = (Host::without_system_tools(), registry.host().to_owned());
    let file = weather("1.0.0");
    let path = host.write("push/weather.wasm", &file, 0o644);
    let ran = push(&host, &at(&place, ""), &path, &["--json"]).expect_code(0);
    let pushed = ran.json();
    assert_eq!(
        pushed,
        json!({"reference": format!("oci://{}", at(&place, ":1.0.0")), "tag": "1.0.0",
               "manifest": pushed["manifest"], "sha256": sha256(&file), "size": file.len(), "signers": []})
    );
    assert!(ran.stderr().contains("it is not signed"), "{ran}");
    let from = format!("docker://{}", at(&place, ":1.0.0"));
    let other = format!("{place}/elsewhere/copy:1.0.0");
    if copy(&host, &from, &format!("docker://{other}")).is_none() {
        return;
    }
    let installing = Host::without_system_tools();
    let ran = installing.run(["tool", "install", "--yes", &other, "--json"]).expect_code(0);
    assert_eq!(
        ran.json()[0]["manifest"],
        pushed["manifest"].to_string().trim_matches('"').replace("sha256:", ""),
        "{ran}"
    );
    assert_eq!(fs::read(installing.user_tools().join("weather.wasm")).expect("placed"), file);
    answers(&installing, "1.0.0");
    // The tool is copied into a layout and back.
    let layout = host.scratch().join("layout");
    copy(&host, &from, &format!("oci:{}:weather:1.0.0", layout.display()));
    let installing = Host::without_system_tools();
    install(&installing, &layout).expect_code(0);
    assert_eq!(fs::read(installing.user_tools().join("weather.wasm")).expect("placed"), file);
    let own = host.scratch().join("own");
    push(&host, own.to_str().expect("UTF-8"), &path, &[]).expect_code(0);
    let third = format!("{place}/third/copy:1.0.0");
    copy(&host, &format!("oci:{}:weather:1.0.0", own.display()), &format!("docker://{third}"));
    let installing = Host::without_system_tools();
    installing.run(["tool", "install", "--yes", &third]).expect_code(0);
    answers(&installing, "1.0.0");
}

/// The whole path: the tool is pushed with a signature, and another user installs it and sees the
/// signer.
#[test]
fn a_signed_tool_is_pushed_and_installed_by_tag() {
    let Some(registry) = docker() else { return };
    let (host, place) = (Host::without_system_tools(), registry.host().to_owned());
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let needs = r#"{"env":[{"name":"KEY","why":"the key"}]}"#;
    let path = host.write("push/weather.wasm", needing("1.0.0", needs), 0o644);
    acme.sign_beside(&host, &path);
    let signature = format!("{}.sig", path.display());
    let ran =
        push(&host, &at(&place, ":1.0.0"), &path, &["--sign", &signature, "--json"]).expect_code(0);
    assert_eq!(ran.json()["signers"], json!([acme.text]), "{ran}");
    let other = Host::without_system_tools();
    let ran =
        other.run(["tool", "install", "--yes", &at(&place, ":1.0.0"), "--grant"]).expect_code(0);
    for shown in [&acme.text[..], "KEY", "the key"] {
        assert!(ran.stderr().contains(shown), "{shown}\n{ran}");
    }
    answers(&other, "1.0.0");
    // The next version is signed, and the one after it is not.
    let next = host.write("push/weather.wasm", needing("1.1.0", needs), 0o644);
    acme.sign_beside(&host, &next);
    push(&host, &at(&place, ""), &next, &["--sign", &signature]).expect_code(0);
    let unsigned = host.write("push/weather.wasm", needing("1.2.0", needs), 0o644);
    push(&host, &at(&place, ""), &unsigned, &[]).expect_code(0);
    refused(
        &other,
        &["tool", "install", "--yes", &at(&place, ":1.2.0")],
        1,
        &[&acme.text, "signed by `none`"],
    );
    other.run(["tool", "install", "--yes", &at(&place, ":1.1.0"), "--grant"]).expect_code(0);
    answers(&other, "1.1.0");
    let name = place;
    drop(registry);
    let ran = other.run(["tool", "update", "--yes"]).expect_code(1);
    assert!(error(&ran).contains(&format!("`{name}` cannot be reached")), "{ran}");
    answers(&other, "1.1.0");
}

#[test]
fn what_is_no_component_of_its_tag_is_not_pushed() {
    let net = Net::new();
    let fake = net.registry();
    let host = Host::without_system_tools();
    let script = host.script("tool", "echo 1");
    let file = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    let bare = host.write("push/bare.wasm", component("weather", "x"), 0o644);
    let notes = host.write("push/notes.wasm", "notes", 0o644);
    for (path, rest, code, told) in [
        (&script, ":1.0.0", 2, "is a native program"),
        (&file, ":1.0.1", 2, "the tag is `1.0.1`, and the version of the manifest 1.0.0"),
        (&bare, "", 2, "neither the file has a manifest nor the reference a tag"),
        (&notes, ":1.0.0", 1, "is not a tool"),
    ] {
        let ran = push(&host, &at(&fake.host(), rest), path, &[]).expect_code(code);
        assert!(error(&ran).contains(told), "{told}\n{ran}");
    }
    let digest = format!("@sha256:{}", sha256(b"x"));
    let ran = push(&host, &at(&fake.host(), &digest), &file, &[]).expect_code(2);
    assert!(error(&ran).contains("a digest is the result of a push"), "{ran}");
    let address = format!("http://{}/weather.wasm", fake.host());
    let ran = push(&host, &address, &file, &[]).expect_code(2);
    assert!(error(&ran).contains("push to a registry or into a layout"), "{ran}");
    let writes = fake.seen().into_iter().filter(|it| it.method != "GET" && it.method != "HEAD");
    assert_eq!(writes.count(), 0, "nothing was sent");
}

#[test]
fn a_tag_is_moved_only_where_somebody_says_so() {
    let net = Net::new();
    let fake = net.registry();
    let host = Host::without_system_tools();
    let path = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    let reference = at(&fake.host(), ":stable");
    let first = push(&host, &reference, &path, &["--json"]).expect_code(0).json();
    push(&host, &reference, &path, &[]).expect_code(0);
    let next = host.write("push/weather.wasm", weather("1.1.0"), 0o644);
    drop(fake.seen());
    let ran = push(&host, &reference, &next, &[]).expect_code(1);
    let digest = first["manifest"].as_str().expect("text");
    for told in ["is another file", digest, "--replace"] {
        assert!(error(&ran).contains(told), "{told}\n{ran}");
    }
    let writes = fake.seen().into_iter().filter(|it| it.method == "PUT").count();
    assert_eq!(writes, 0, "nothing was sent");
    push(&host, &reference, &next, &["--replace"]).expect_code(0);
    host.run(["tool", "install", "--yes", &reference]).expect_code(0);
    answers(&host, "1.1.0");
}

#[test]
fn a_signature_over_other_bytes_is_not_pushed() {
    let net = Net::new();
    let fake = net.registry();
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let path = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    let other = acme.sign(&host, b"another file");
    let purpose = acme.sign_for(&host, &weather("1.0.0"), "git");
    for (signature, code, told) in [
        (other, 1, "is bad"),
        (purpose, 1, "is for the namespace"),
        (b"nothing".to_vec(), 1, "neither an ssh signature"),
        (vec![b'x'; (1 << 20) + 1], 2, "too large for a signature"),
    ] {
        let signature = host.write("push/weather.sig", signature, 0o644);
        let flags = ["--sign", signature.to_str().expect("UTF-8")];
        let ran = push(&host, &at(&fake.host(), ""), &path, &flags).expect_code(code);
        assert!(error(&ran).contains(told), "{told}\n{ran}");
    }
    let ran = push(&host, &at(&fake.host(), ""), &path, &["--sign", "gone.sig"]).expect_code(2);
    assert!(error(&ran).contains("cannot read the signature `gone.sig`"), "{ran}");
    let writes = fake.seen().into_iter().filter(|it| it.method != "GET" && it.method != "HEAD");
    assert_eq!(writes.count(), 0, "nothing was sent");
}

/// The signature is pushed before the tag, so that an unsigned tool is never visible.
#[test]
fn a_tag_appears_when_its_signatures_are_there() {
    let net = Net::new();
    let fake = net.registry();
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let path = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    acme.sign_beside(&host, &path);
    let signature = format!("{}.sig", path.display());
    push(&host, &at(&fake.host(), ""), &path, &["--sign", &signature]).expect_code(0);
    let puts: Vec<String> =
        fake.seen().into_iter().filter(|it| it.method == "PUT").map(|it| it.path).collect();
    let last = puts.last().expect("a request");
    assert!(last.ends_with("/manifests/1.0.0"), "{puts:#?}");
    assert_eq!(puts.iter().filter(|it| it.ends_with("/manifests/1.0.0")).count(), 1, "{puts:#?}");
}
