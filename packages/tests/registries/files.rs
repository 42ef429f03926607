//! Files at web servers.

use std::fs;

use ikigai_packages::download::{DownloadError, DownloadSource};
use ikigai_packages::reference::{FileUrl, Reference};
use ikigai_packages_testing::{Fake, Fault, Proxy, Reply, Style};
use ikigai_protocol::Digest;

use crate::scene::*;

fn address(text: &str) -> FileUrl {
    match text.parse().expect("a reference") {
        Reference::Url(file) => file,
        other => panic!("no address: {other}"),
    }
}

#[tokio::test]
async fn a_file_without_a_digest_is_kept_by_the_one_it_has() {
    let fake = Fake::start(Style::default()).await.expect("a server");
    let proxy = Proxy::start(&fake.host()).await.expect("a proxy");
    let (directory, cache) = cache();
    let transport = transport(&settings());
    let file = Reply::new(200, "application/wasm", component(1)).with("etag", "\"1\"");
    fake.page("/weather.wasm", file);
    fake.page("/weather.wasm.sig", Reply::new(200, "text/plain", "signed"));
    let text = format!("http://{}/weather.wasm", proxy.host());
    let at = address(&text);
    proxy.next("/weather.wasm", Fault::Cut(1000));
    let found =
        cache.download(DownloadSource::Url(&transport, &at), &|_, _| {}).await.expect("downloaded");
    assert_eq!(fs::read(&found.path).expect("read"), component(1));
    assert_eq!(files(&directory), [found.digest.to_string()]);
    let seen = proxy.seen();
    assert_eq!(seen[1].header("if-range"), Some("\"1\""), "the rest of the same file");
    let beside = transport.small(&at.beside(".sig"), 6).await.expect("read");
    assert_eq!(beside.as_deref(), Some(&b"signed"[..]));
    assert_eq!(transport.small(&at.beside(".minisig"), 6).await.expect("asked"), None);
    let error = transport.small(&at.beside(".sig"), 5).await.expect_err("large").to_string();
    assert!(error.ends_with("has more than 5 bytes"), "{error}");
    let pinned = address(&format!("{text}#sha256={}", Digest::from_bytes(b"another")));
    let error = cache.download(DownloadSource::Url(&transport, &pinned), &|_, _| {}).await;
    assert!(matches!(error, Err(DownloadError::Digest { .. })), "{error:?}");
    assert_eq!(files(&directory), [found.digest.to_string()], "nothing else is left");
}

#[tokio::test]
async fn a_page_and_a_file_that_is_too_large_are_refused() {
    let fake = Fake::start(Style::default()).await.expect("a server");
    let (directory, cache) = cache();
    let cache = cache.with_largest(1 << 20);
    let transport = transport(&settings());
    fake.page("/page", Reply::new(200, "text/html; charset=utf-8", "<html>"));
    let at = address(&format!("http://{}/page", fake.host()));
    let error =
        cache.download(DownloadSource::Url(&transport, &at), &|_, _| {}).await.expect_err("a page");
    assert!(error.to_string().ends_with("is a web page, not a tool"), "{error}");
    assert_eq!(files(&directory), Vec::<String>::new());
    let proxy = Proxy::start(&fake.host()).await.expect("a proxy");
    fake.page("/endless", Reply::new(200, "application/wasm", "x"));
    proxy.next("/endless", Fault::Endless);
    let at = address(&format!("http://{}/endless", proxy.host()));
    let error = cache
        .download(DownloadSource::Url(&transport, &at), &|_, _| {})
        .await
        .expect_err("endless");
    assert!(matches!(error, DownloadError::TooLarge { .. }), "{error}");
    fake.page("/large", Reply::new(200, "application/wasm", vec![0; (1 << 20) + 1]));
    let at = address(&format!("http://{}/large", fake.host()));
    let error =
        cache.download(DownloadSource::Url(&transport, &at), &|_, _| {}).await.expect_err("large");
    assert!(
        error.to_string().ends_with("has 1048577 bytes, and a tool has at most 1048576"),
        "{error}"
    );
    assert_eq!(files(&directory), Vec::<String>::new());
}
