//! Artifacts that are pushed and read back, and artifacts that are refused.

use std::process::Command;

use ikigai_packages::download::DownloadSource;
use ikigai_packages::layout::OciLayout;
use ikigai_packages::oci::{ContentSource as _, OciError, referrers, resolve, signature};
use ikigai_packages::reference::Pointer;
use ikigai_packages_testing::{Fake, Reply, Style};
use ikigai_protocol::Digest;

use crate::scene::*;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

#[tokio::test]
async fn a_tool_comes_back_as_it_was_pushed_with_its_signatures() {
    for (name, server) in servers().await {
        let repository = repository(&server.host());
        let (first, second) = (packed(1), packed(2));
        let digest = repository.push(&first, &tag("1.2.0")).await.expect(name);
        assert_eq!(repository.push(&first, &tag("1.2.0")).await.expect(name), digest, "{name}");
        for text in [&b"one"[..], b"two", b"one"] {
            repository.attach(&signed(&first, text)).await.expect(name);
        }
        repository.push(&second, &tag("1.3.0")).await.expect(name);
        // The tag moves; the digest stays.
        repository.push(&second, &tag("1.2.0")).await.expect(name);
        let moved = resolve(&repository, &tag("1.2.0")).await.expect(name);
        assert_eq!(moved.manifest, second.digest(), "{name}");
        let artifact = resolve(&repository, &Pointer::Digest(digest)).await.expect(name);
        assert_eq!(
            (artifact.manifest, artifact.digest),
            (digest, Digest::from_bytes(&component(1)))
        );
        assert_eq!(artifact.title.as_deref(), Some("weather.wasm"), "{name}");
        assert_eq!(artifact.annotations["org.opencontainers.image.version"], "1.2.0", "{name}");
        let tags = repository.tags().await.expect(name);
        assert!(
            tags.contains(&"1.2.0".to_owned()) && tags.contains(&"1.3.0".to_owned()),
            "{tags:?}"
        );
        let attached = referrers(&repository, digest).await.expect(name);
        let mut texts = Vec::new();
        for referrer in &attached {
            assert_eq!(referrer.artifact_type, "application/x.test.signature", "{name}");
            texts.push(signature(&repository, referrer, 10).await.expect(name));
        }
        texts.sort();
        assert_eq!(texts, [&b"one"[..], b"two"], "{name}");
        assert_eq!(referrers(&repository, second.digest()).await.expect(name), [], "{name}");

        let (directory, cache) = cache();
        let file = cache
            .download(DownloadSource::Blob(&repository, &artifact), &|_, _| {})
            .await
            .expect(name);
        let layout = OciLayout::create(&directory.path().join("out")).expect(name);
        let copied =
            layout.copy(&repository, &artifact, &file.path, &attached, 1 << 20, "weather").await;
        copied.expect(name);
        assert_eq!(resolve(&layout, &tag("weather")).await.expect(name), artifact, "{name}");
        assert_eq!(referrers(&layout, digest).await.expect(name).len(), 2, "{name}");
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the other program")]
async fn another_program_copies_what_was_pushed_and_its_copy_is_read() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        let is_required = std::env::var_os(ikigai_packages_testing::REQUIRE_VARIABLE);
        assert!(is_required.is_none_or(|it| it != "1"), "`skopeo` is not installed");
        return;
    }
    for (name, server) in servers().await {
        if name.starts_with("fake") {
            continue;
        }
        let (repository, packed) = (repository(&server.host()), packed(1));
        repository.push(&packed, &tag("1.2.0")).await.expect(name);
        let directory = tempfile::tempdir().expect("a directory");
        let copy = async |from: &str, to: &str, insecure: &str| {
            let mut command = Command::new("skopeo");
            command.args(["--insecure-policy", "--tmpdir"]).arg(directory.path());
            command.args(["copy", insecure, from, to]).env("HOME", directory.path());
            let run = tokio::task::spawn_blocking(move || command.output());
            let output = run.await.expect("run").expect("started");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {from} to {to}: {said}");
        };
        let at = |it: &str| format!("docker://{}/acme/{it}", server.host());
        let out = format!("oci:{}:weather", directory.path().join("out").display());
        copy(&at("weather:1.2.0"), &out, "--src-tls-verify=false").await;
        let layout = OciLayout::open(&directory.path().join("out")).expect(name);
        let of_layout = resolve(&layout, &tag("weather")).await.expect(name);
        assert_eq!(of_layout.manifest, packed.digest(), "{name}: byte by byte");
        copy(&out, &at("weather:copied"), "--dest-tls-verify=false").await;
        let copied = resolve(&repository, &tag("copied")).await.expect(name);
        assert_eq!(copied.manifest, packed.digest(), "{name}");
        // Other programs can read ikigai's layouts.
        let own = directory.path().join("own");
        OciLayout::create(&own).expect(name).add(&packed, "weather").expect(name);
        let own = format!("oci:{}:weather", own.display());
        copy(&own, &at("weather:own"), "--dest-tls-verify=false").await;
        let own = resolve(&repository, &tag("own")).await.expect(name);
        assert_eq!(own.manifest, packed.digest(), "{name}");
    }
}

/// Returns a manifest with layers of these media types, whose configuration lists `config`.
fn manifest(fake: &Fake, kinds: &[&str], config: (&str, &str)) -> String {
    let descriptor = |kind: &str, bytes: &[u8]| {
        let digest = fake.blob(bytes);
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{}}}"#, bytes.len())
    };
    let layers: Vec<_> = kinds.iter().map(|kind| descriptor(kind, kind.as_bytes())).collect();
    let config = descriptor(config.0, config.1.as_bytes());
    format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","))
}

async fn refused(fake: &Fake, kind: &str, text: &str) -> OciError {
    fake.manifest("acme/weather", "1", kind, text.as_bytes());
    resolve(&repository(&fake.host()), &tag("1")).await.expect_err("refused")
}

const WASM: &str = "application/wasm";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const EMPTY: (&str, &str) = ("application/vnd.oci.empty.v1+json", "{}");
const IMAGE: (&str, &str) = ("application/vnd.oci.image.config.v1+json", "{}");

#[tokio::test]
async fn what_is_no_tool_is_told_what_it_is() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    let of = |kinds: &[&str], config| manifest(&fake, kinds, config);
    let said = async |text: &str| refused(&fake, MANIFEST, text).await.to_string();
    let text = said(&of(&["application/vnd.oci.image.layer.v1.tar+gzip"], IMAGE)).await;
    assert!(text.ends_with("/acme/weather:1` is a container image, not a tool"), "{text}");
    let text = said(&of(&[WASM, WASM, "text/plain"], EMPTY)).await;
    assert!(text.ends_with("has 2 layers of `application/wasm`, and a tool has one"), "{text}");
    let text = said(&of(&["text/plain"], ("application/x.chart\u{1b}", "{}"))).await;
    assert!(text.contains("not usable"), "control characters are no JSON: {text}");
    let text = said(&of(&["text/plain"], ("application/x.chart", "{}"))).await;
    assert!(text.contains("it is of the kind `application/x.chart`; tags are 1"), "{text}");
    let digests = r#"{"layerDigests":["sha256:00"]}"#;
    let text = said(&of(&[WASM], (CONFIG, digests))).await;
    let layer = Digest::from_bytes(WASM.as_bytes());
    let both = format!("lists the layers sha256:00, and its manifest sha256:{layer}");
    assert!(text.ends_with(&both), "{text}");
    for text in [
        "{",
        "[]",
        r#"{"schemaVersion":1}"#,
        r#"{"schemaVersion":2}"#,
        r#"{"schemaVersion":2,"layers":[],"config":{},"manifests":[]}"#,
    ] {
        assert!(said(text).await.contains("is not usable: "), "{text}");
    }
    fake.page("/v2/acme/weather/manifests/2", Reply::new(200, "text/html", "<html>"));
    let error = resolve(&repository(&fake.host()), &tag("2")).await.expect_err("a page");
    assert!(
        error.to_string().ends_with("answers with a web page: it is not a registry"),
        "{error}"
    );
    let error = resolve(&repository(&fake.host()), &tag("3")).await.expect_err("nothing");
    assert!(error.to_string().ends_with("/acme/weather:3`; tags are 1"), "{error}");
}

#[tokio::test]
async fn other_layers_are_ignored_and_named() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    let text = manifest(&fake, &["text/markdown", WASM], EMPTY);
    fake.manifest("acme/weather", "1", MANIFEST, text.as_bytes());
    let found = resolve(&repository(&fake.host()), &tag("1")).await.expect("a tool");
    assert_eq!(found.ignored, ["text/markdown"]);
    assert_eq!(found.digest, Digest::from_bytes(WASM.as_bytes()));
}

#[tokio::test]
async fn an_index_leads_to_its_one_wasm_entry() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    let inner = manifest(&fake, &[WASM], EMPTY);
    let digest = fake.manifest("acme/weather", "inner", MANIFEST, inner.as_bytes());
    let entry = |architecture: &str| {
        format!(
            r#"{{"mediaType":"{MANIFEST}","digest":"{digest}","size":{},
                "platform":{{"os":"linux","architecture":"{architecture}"}}}}"#,
            inner.len()
        )
    };
    let index = |entries: &[String]| {
        format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, entries.join(","))
    };
    let text = index(&[entry("amd64"), entry("wasm")]);
    fake.manifest("acme/weather", "1", INDEX, text.as_bytes());
    let found = resolve(&repository(&fake.host()), &tag("1")).await.expect("a tool");
    assert_eq!(format!("sha256:{}", found.manifest), digest);
    let text = refused(&fake, INDEX, &index(&[entry("amd64"), entry("arm64")])).await.to_string();
    let end = "its index is of container images for linux/amd64, linux/arm64; tags are 1, inner";
    assert!(text.ends_with(end), "{text}");
    let text = refused(&fake, INDEX, &index(&[entry("wasm"), entry("wasm")])).await.to_string();
    assert!(text.contains("2 entries of its index are wasm"), "{text}");
}

#[tokio::test]
async fn tags_are_read_over_several_pages() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    for tag in ["1", "2", "3", "4", "5"] {
        fake.manifest("acme/weather", tag, MANIFEST, tag.as_bytes());
    }
    let tags = repository(&fake.host()).tags().await.expect("read");
    assert_eq!(tags, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn a_listed_signature_that_is_gone_is_no_unsigned_tool() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    let (repository, packed) = (repository(&fake.host()), packed(1));
    repository.push(&packed, &tag("1")).await.expect("pushed");
    let attached = signed(&packed, b"one");
    repository.attach(&attached).await.expect("attached");
    let path = format!("/v2/acme/weather/manifests/sha256:{}", attached.digest());
    fake.page(&path, Reply::new(404, "application/json", "{}"));
    let error = referrers(&repository, packed.digest()).await.expect_err("gone");
    assert!(matches!(error, OciError::NoManifest { .. }), "{error}");
    let entry =
        format!(r#"{{"mediaType":"{MANIFEST}","digest":"sha256:{}","size":1}}"#, packed.digest());
    let text = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, vec![entry; 65].join(","));
    fake.manifest("acme/weather", &format!("sha256-{}", packed.digest()), INDEX, text.as_bytes());
    let error = referrers(&repository, packed.digest()).await.expect_err("too many").to_string();
    assert!(error.ends_with("has more than 64 referrers"), "{error}");
}
