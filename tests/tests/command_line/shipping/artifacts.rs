//! Registry artifacts that are not tools, or that lead to the wrong tool.

use ikigai_packages_testing::Fake;
use ikigai_tests::host::Host;
use serde_json::json;

use crate::shipping::scene::*;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const IMAGE: &str = "application/vnd.oci.image.config.v1+json";

/// Publishes a document as the tag `2`, and returns the arguments that install it.
fn offer(fake: &Fake, kind: &str, text: &str) -> [String; 4] {
    fake.manifest(REPOSITORY, "2", kind, text.as_bytes());
    ["tool", "install", "--yes", &at(&fake.host(), ":2")].map(str::to_owned)
}

#[track_caller]
fn is_refused(host: &Host, args: &[String; 4], texts: &[&str]) {
    refused(host, &args.each_ref().map(String::as_str), 1, texts);
}

#[test]
fn an_index_leads_to_its_one_wasm_entry() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let (first, second) =
        (publish(&fake, "a", &weather("2.0.0")), publish(&fake, "b", &weather("3.0.0")));
    let entry = |digest: &str, architecture: &str| {
        json!({"mediaType": MANIFEST, "digest": digest, "size": 1,
               "platform": {"os": "linux", "architecture": architecture}})
    };
    let index = |entries: &[serde_json::Value]| {
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).to_string()
    };
    let two = index(&[entry(&first, "wasm"), entry(&second, "wasm")]);
    is_refused(
        &host,
        &offer(&fake, INDEX, &two),
        &["no wasm artifact in", "2 entries of its index are wasm", "tags are 1.0.0, 2, a, b"],
    );
    let images = index(&[entry(&first, "amd64"), entry(&second, "arm64")]);
    let texts = [
        "no wasm artifact in",
        "container images for linux/amd64, linux/arm64",
        "tags are 1.0.0, 2, a, b",
    ];
    is_refused(&host, &offer(&fake, INDEX, &images), &texts);
    let one = index(&[entry(&second, "amd64"), entry(&first, "wasm")]);
    host.run(offer(&fake, INDEX, &one)).expect_code(0);
    answers(&host, "2.0.0");
    assert_eq!(locked(&lock_text(&host), "manifest"), first);
}

#[test]
fn a_tool_has_one_layer_and_the_others_are_named() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let (first, second) = (weather("2.0.0"), weather("3.0.0"));
    let text = artifact(&fake, &[(WASM, &first), (WASM, &second)]);
    is_refused(
        &host,
        &offer(&fake, MANIFEST, &text),
        &["has 2 layers of `application/wasm`, and a tool has one"],
    );
    let text = artifact(&fake, &[("text/markdown", b"# Read me"), (WASM, &first)]);
    let ran = host.run(offer(&fake, MANIFEST, &text)).expect_code(0);
    assert!(ran.stderr().contains("its other layers are not used: text/markdown"), "{ran}");
    answers(&host, "2.0.0");
}

#[test]
fn what_is_no_tool_is_told_what_it_is() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let layers: &[(&str, &[u8])] = &[("application/vnd.oci.image.layer.v1.tar+gzip", b"x")];
    let text = artifact_of(&fake, layers, (IMAGE, "{}"));
    let texts = ["is a container image, not a tool", "docker run"];
    is_refused(&host, &offer(&fake, MANIFEST, &text), &texts);
    let text = artifact_of(&fake, &[("text/plain", b"x")], ("application/x.chart", "{}"));
    let texts =
        ["no wasm artifact in", "it is of the kind `application/x.chart`; tags are 1.0.0, 2"];
    is_refused(&host, &offer(&fake, MANIFEST, &text), &texts);
    for text in [
        "{",
        "[]",
        r#"{"schemaVersion":1}"#,
        r#"{"schemaVersion":2,"layers":[],"config":{},"manifests":[]}"#,
    ] {
        is_refused(&host, &offer(&fake, MANIFEST, text), &["is not usable: "]);
    }
    let text = artifact(&fake, &[(WASM, b"no component")]);
    is_refused(&host, &offer(&fake, MANIFEST, &text), &["is not a tool: "]);
}

#[test]
fn a_configuration_that_speaks_of_other_layers_is_refused_with_both() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let file = weather("2.0.0");
    let other = format!("sha256:{}", sha256(b"another"));
    let config = json!({"layerDigests": [other]}).to_string();
    let text = artifact_of(&fake, &[(WASM, &file)], (CONFIG, &config));
    let own = format!("sha256:{}", sha256(&file));
    is_refused(&host, &offer(&fake, MANIFEST, &text), &[&other, &own]);
    let config = json!({"layerDigests": [own]}).to_string();
    let text = artifact_of(&fake, &[(WASM, &file)], (CONFIG, &config));
    host.run(offer(&fake, MANIFEST, &text)).expect_code(0);
    answers(&host, "2.0.0");
}

#[test]
fn a_manifest_that_was_changed_on_its_way_is_refused_with_both_digests() {
    let net = Net::new();
    let fake = net.registry();
    let host = installed_from(&fake);
    let digest = publish(&fake, "2", &weather("2.0.0"));
    let other = artifact(&fake, &[(WASM, &weather("3.0.0"))]);
    let path = format!("/v2/{REPOSITORY}/manifests/{digest}");
    fake.page(&path, ikigai_packages_testing::Reply::new(200, MANIFEST, other.as_bytes()));
    let reference = at(&fake.host(), &format!("@{digest}"));
    let found = format!("sha256:{}", sha256(other.as_bytes()));
    refused(&host, &["tool", "install", "--yes", &reference], 1, &[&digest, &found]);
}

/// A layer may list addresses on other hosts (`urls`), which are never contacted.
#[test]
fn foreign_addresses_of_a_layer_are_not_followed() {
    let net = Net::new();
    let (fake, foreign) = (net.registry(), net.registry());
    let host = installed_from(&fake);
    let file = weather("2.0.0");
    foreign.page("/weather.wasm", ikigai_packages_testing::Reply::new(200, WASM, file.clone()));
    let text = artifact(&fake, &[(WASM, b"x")]);
    let (before, _) = text.split_once("\"layers\":[").expect("layers");
    let layer = json!({"mediaType": WASM, "digest": format!("sha256:{}", sha256(&file)),
        "size": file.len(), "urls": [format!("http://{}/weather.wasm", foreign.host())]});
    let text = format!("{before}\"layers\":[{layer}]}}");
    is_refused(&host, &offer(&fake, MANIFEST, &text), &["answers 404"]);
    assert_eq!(foreign.seen().len(), 0, "nobody asked there");
}
