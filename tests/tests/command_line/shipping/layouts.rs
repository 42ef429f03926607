//! Layouts on disk, through which tools get to machines without a network.

use std::fs;
use std::path::PathBuf;

use ikigai_tests::core_module;
use ikigai_tests::host::{Host, schema};
use serde_json::{Value, json};

use crate::shipping::scene::*;
use crate::shipping::signing::Signer;

/// Returns the path of a layout as an argument.
fn layout(host: &Host) -> (PathBuf, String) {
    let path = host.scratch().join("stick/tools");
    let text = path.display().to_string();
    (path, text)
}

fn read(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|_| panic!("{}", path.display())))
        .expect("JSON")
}

#[test]
fn what_is_fetched_installs_elsewhere_without_a_network_with_its_signer() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let path = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    acme.sign_beside(&host, &path);
    let signature = format!("{}.sig", path.display());
    let reference = at(&fake.host(), "");
    let args = ["tool", "push", &reference, path.to_str().expect("UTF-8"), "--sign", &signature];
    host.run(args).expect_code(0);
    let clock = host.write("push/clock.wasm", named("clock", "2.0.0", "{}"), 0o644);
    acme.sign_beside(&host, &clock);
    let clock = clock.display().to_string();
    let (directory, out) = layout(&host);
    let ran =
        host.run(["tool", "fetch", &reference, &clock, "--out", &out, "--json"]).expect_code(0);
    let fetched = ran.json();
    assert_eq!(fetched[0]["name"], at(&fake.host(), ":1.0.0"), "{ran}");
    assert_eq!(fetched[0]["sha256"], sha256(&weather("1.0.0")), "{ran}");
    assert_eq!(
        (&fetched[0]["signatures"], &fetched[1]["signatures"]),
        (&json!(1), &json!(1)),
        "{ran}"
    );
    assert!(!lock(&host).exists(), "fetching installs nothing");
    drop(fake);

    let other = Host::without_system_tools();
    let ran = install_with(&other, &directory, &["--json"]).expect_code(0);
    let done = ran.json();
    for (index, name) in ["weather", "clock"].iter().enumerate() {
        assert_eq!(
            (&done[index]["name"], &done[index]["signer"]),
            (&json!(name), &json!(acme.text)),
            "{ran}"
        );
    }
    assert!(ran.stderr().contains(&acme.text), "the signer is shown\n{ran}");
    answers(&other, "1.0.0");
    assert_eq!(locked(&lock_text(&other), "from"), out);
    let ran = install_with(&other, &directory, &["--json"]).expect_code(0);
    assert_eq!(
        (&ran.json()[0]["state"], &ran.json()[1]["state"]),
        (&json!("unchanged"), &json!("unchanged"))
    );
    other.run(["tool", "verify"]).expect_code(0);
}

/// A layout has the tools of several authors.
#[test]
fn each_tool_of_a_layout_has_a_signer_of_its_own() {
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let other = Signer::ssh(&host, "other").expect("a key");
    let (directory, out) = layout(&host);
    let push = |name: &str, version: &str, signer: &Signer| {
        let path = host.write(format!("push/{name}.wasm"), named(name, version, "{}"), 0o644);
        signer.sign_beside(&host, &path);
        let signature = format!("{}.sig", path.display());
        let path = path.to_str().expect("UTF-8");
        host.run(["tool", "push", &out, path, "--sign", &signature]).expect_code(0);
    };
    push("weather", "1.0.0", &acme);
    push("clock", "2.0.0", &other);
    let ran = install_with(&host, &directory, &["--yes", "--json"]).expect_code(0);
    let signers = [&ran.json()[0]["signer"], &ran.json()[1]["signer"]].map(Value::to_string);
    assert_eq!(signers, [&acme.text, &other.text].map(|it| json!(it).to_string()), "{ran}");
    // From then on, each tool's own signer is expected.
    push("weather", "1.1.0", &other);
    let line = ["tool", "update", "weather", "--yes"];
    refused(&host, &line, 1, &[&acme.text, &other.text, "--accept-signer"]);
}

#[test]
fn a_layout_has_several_versions_of_which_one_is_asked_for() {
    let host = Host::without_system_tools();
    let (directory, out) = layout(&host);
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        let path = host.write("push/weather.wasm", weather(version), 0o644);
        host.run(["tool", "push", &out, path.to_str().expect("UTF-8")]).expect_code(0);
    }
    install_with(&host, &directory, &["--version", "=1.0.0"]).expect_code(0);
    answers(&host, "1.0.0");
    refused(
        &host,
        &["tool", "install", "--yes", &out, "--version", "^7"],
        1,
        &["has no such tool"],
    );
}

#[test]
fn a_layout_that_was_changed_is_refused_with_both_digests() {
    let (host, _) = installed();
    let (directory, out) = layout(&host);
    let path = host.write("push/weather.wasm", weather("1.1.0"), 0o644);
    host.run(["tool", "push", &out, path.to_str().expect("UTF-8")]).expect_code(0);
    let digest = sha256(&weather("1.1.0"));
    let blob = directory.join("blobs/sha256").join(&digest);
    let other = weather("6.6.6");
    fs::write(&blob, &other).expect("written");
    let args = ["tool", "install", "--yes", &out, "--replace"];
    refused(&host, &args, 1, &[&digest, &sha256(&other), "the layout is damaged"]);
    fs::write(&blob, weather("1.1.0")).expect("written");
    let index = directory.join("index.json");
    let manifest = read(index.clone())["manifests"][0]["digest"]
        .as_str()
        .expect("text")
        .replace("sha256:", "");
    let manifest = directory.join("blobs/sha256").join(manifest);
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, text.replace(&digest, &sha256(&other))).expect("written");
    refused(&host, &args, 1, &["should have the digest sha256:"]);
    fs::remove_file(&manifest).expect("removed");
    refused(&host, &args, 1, &["cannot be read"]);
    fs::write(&index, "{").expect("written");
    refused(&host, &args, 1, &["is not usable"]);
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"9.0.0"}"#).expect("written");
    refused(&host, &args, 1, &["9.0.0", "use a newer ikigai"]);
}

/// Other programs read pushed artifacts by the specification.
#[test]
fn what_is_pushed_says_what_it_is() {
    let host = Host::without_system_tools();
    let (directory, out) = layout(&host);
    let file = weather("1.0.0");
    let path = host.write("push/weather.wasm", &file, 0o644);
    let args = ["tool", "push", &out, path.to_str().expect("UTF-8"), "--json"];
    let ran = host.run(args).expect_code(0);
    let blob = |digest: &Value| {
        directory.join("blobs/sha256").join(digest.as_str().expect("text").replace("sha256:", ""))
    };
    let index = read(directory.join("index.json"));
    assert_eq!(index["manifests"][0]["digest"], ran.json()["manifest"], "{ran}");
    let manifest = read(blob(&ran.json()["manifest"]));
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    let layers = manifest["layers"].as_array().expect("a list");
    assert_eq!((layers.len(), &layers[0]["mediaType"]), (1, &json!(WASM)));
    assert_eq!(layers[0]["annotations"]["org.opencontainers.image.title"], "weather.wasm");
    for (key, value) in [
        ("title", "weather"),
        ("version", "1.0.0"),
        ("licenses", "MIT"),
        ("description", "weather 1.0.0"),
    ] {
        assert_eq!(
            manifest["annotations"][format!("org.opencontainers.image.{key}")],
            value,
            "{manifest:#}"
        );
    }
    let config = read(blob(&manifest["config"]["digest"]));
    assert_eq!(config["layerDigests"], json!([format!("sha256:{}", sha256(&file))]), "{config:#}");
    assert!(config["component"].to_string().contains("wasi:cli/run@0.2"), "{config:#}");
    assert_eq!(fs::read(blob(&layers[0]["digest"])).expect("a blob"), file, "byte by byte");
    // The same file is the same artifact.
    assert_eq!(host.run(args).expect_code(0).json(), ran.json());
    assert_eq!(read(directory.join("index.json")), index);
}

/// The specification has no interfaces for a core module.
#[test]
fn a_core_module_is_pushed_as_one_of_preview_1_and_installed_again() {
    let host = Host::without_system_tools();
    let (directory, out) = layout(&host);
    let echo = "(call $say (i32.const 65536) (call $read))";
    let manifest = r#"{"manifest":1,"name":"echo","version":"1.0.0","needs":{}}"#;
    let module = with_manifest(&core_module::tool(&schema("echo"), "", echo), manifest);
    let path = host.write("push/echo.wasm", module, 0o644);
    let args = ["tool", "push", &out, path.to_str().expect("UTF-8"), "--json"];
    let ran = host.run(args).expect_code(0);
    let blob = |digest: &Value| {
        directory.join("blobs/sha256").join(digest.as_str().expect("text").replace("sha256:", ""))
    };
    let manifest = read(blob(&ran.json()["manifest"]));
    let config = read(blob(&manifest["config"]["digest"]));
    assert_eq!(
        (&config["os"], &config["component"]),
        (&json!("wasip1"), &Value::Null),
        "{config:#}"
    );
    let other = Host::without_system_tools();
    install(&other, &directory).expect_code(0);
    let called = other.run(["tool", "call", "echo", "{\"a\":1}"]).expect_code(0);
    assert_eq!(called.json()["result"], json!({"a": 1}), "{called}");
}

#[test]
fn a_directory_with_something_else_is_no_layout() {
    let host = Host::without_system_tools();
    let path = host.write("push/weather.wasm", weather("1.0.0"), 0o644);
    let notes = host.write("stick/tools/notes", "mine", 0o644);
    let (_, out) = layout(&host);
    let ran = host.run(["tool", "push", &out, path.to_str().expect("UTF-8")]).expect_code(1);
    assert!(error(&ran).contains("name an empty directory"), "{ran}");
    let directory = notes.parent().expect("a directory");
    let names: Vec<_> =
        fs::read_dir(directory).expect("read").flatten().map(|it| it.file_name()).collect();
    assert_eq!(names, ["notes"]);
    let ran = install(&host, directory).expect_code(1);
    assert!(error(&ran).contains("has neither `tool.toml` nor `oci-layout`"), "{ran}");
}
