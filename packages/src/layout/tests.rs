use std::collections::BTreeMap;

use super::*;
use crate::file_error::FileError;
use crate::oci::{ArtifactDetails, referrers, resolve, signature};

fn packed() -> Packed {
    let details =
        ArtifactDetails { title: "weather.wasm".to_owned(), ..ArtifactDetails::default() };
    Packed::new(Bytes::from_static(b"\0asm component"), &details).expect("packed")
}

fn signed(packed: &Packed, text: &'static [u8]) -> Attached {
    let (kind, about) = ("application/x.test.signature", packed.descriptor());
    let annotations = BTreeMap::from([("by".to_owned(), "me".to_owned())]);
    Attached::new(Bytes::from_static(text), kind, kind, "a.sig", annotations, about)
        .expect("packed")
}

#[tokio::test]
async fn a_layout_gives_back_what_was_put_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let layout = OciLayout::create(&directory.path().join("out")).expect("created");
    let packed = packed();
    layout.add(&packed, "weather").expect("added");
    layout.add(&packed, "weather").expect("added again");
    layout.attach(&signed(&packed, b"one")).expect("attached");
    layout.attach(&signed(&packed, b"two")).expect("attached");
    let layout = OciLayout::open(&directory.path().join("out")).expect("a layout");
    let names: Vec<_> = layout.entries().expect("read").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [Some("weather".to_owned())]);
    let tag = Pointer::Tag("weather".to_owned());
    let artifact = resolve(&layout, &tag).await.expect("a tool");
    assert_eq!((artifact.manifest, artifact.size), (packed.digest(), 14));
    assert_eq!(artifact.title.as_deref(), Some("weather.wasm"));
    assert_eq!(fs::read(layout.blob(artifact.digest)).expect("read"), b"\0asm component");
    let found = referrers(&layout, artifact.manifest).await.expect("read");
    let mut texts = Vec::new();
    for referrer in &found {
        assert_eq!(referrer.manifest.annotations["by"], "me");
        texts.push(signature(&layout, referrer, 100).await.expect("read"));
    }
    assert_eq!(texts, [&b"one"[..], b"two"]);
    assert!(signature(&layout, &found[0], 2).await.is_err(), "it has three bytes");

    let copied = OciLayout::create(&directory.path().join("copy")).expect("created");
    let file = layout.blob(artifact.digest);
    copied.copy(&layout, &artifact, &file, &found, 1000, "weather").await.expect("copied");
    assert_eq!(resolve(&copied, &tag).await.expect("a tool"), artifact);
    assert_eq!(referrers(&copied, artifact.manifest).await.expect("read"), found);
}

#[tokio::test]
async fn a_changed_file_of_a_layout_is_refused_with_both_digests() {
    let directory = tempfile::tempdir().expect("a directory");
    let layout = OciLayout::create(directory.path()).expect("created");
    let packed = packed();
    layout.add(&packed, "weather").expect("added");
    fs::write(layout.blob(packed.digest()), "{}").expect("written");
    let tag = Pointer::Tag("weather".to_owned());
    let error = resolve(&layout, &tag).await.expect_err("changed").to_string();
    assert!(error.contains(&packed.digest().to_string()), "{error}");
    assert!(error.contains(&Digest::from_bytes(b"{}").to_string()), "{error}");
    let missing = resolve(&layout, &Pointer::Tag("rain".to_owned())).await.expect_err("missing");
    assert!(missing.to_string().ends_with("; tags are weather"), "{missing}");
}

#[test]
fn what_is_no_layout_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("mine.txt"), "mine").expect("written");
    let error = OciLayout::create(directory.path()).expect_err("in use");
    assert!(matches!(error, LayoutError::NotEmpty(_)), "{error}");
    assert!(matches!(
        OciLayout::open(directory.path()),
        Err(LayoutError::File(FileError::Unusable { .. }))
    ));
    fs::write(at("oci-layout"), r#"{"imageLayoutVersion": "2.0.0"}"#).expect("written");
    let error = OciLayout::open(directory.path()).expect_err("newer");
    assert!(error.to_string().contains("`2.0.0`"), "{error}");
}

#[test]
fn a_lock_that_another_process_keeps_is_waited_for_no_longer() {
    let directory = tempfile::tempdir().expect("a directory");
    let held = lock(directory.path(), Duration::ZERO).expect("nobody has it");
    let error = lock(directory.path(), Duration::ZERO).expect_err("held");
    assert!(matches!(error, LayoutError::Held { .. }) && error.hint().is_some(), "{error}");
    drop(held);
    lock(directory.path(), Duration::ZERO).expect("nobody has it");
}
