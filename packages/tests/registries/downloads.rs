//! Downloads through a proxy that cuts, stalls and lies.

use std::fs;
use std::sync::Mutex;

use ikigai_packages::credentials::Credentials;
use ikigai_packages::download::{CachedFile, DownloadError, DownloadSource};
use ikigai_packages::oci::{OciError, Repository, ToolArtifact, resolve};
use ikigai_packages_testing::{Fault, Proxy};
use ikigai_protocol::Digest;

use crate::scene::*;

/// Runs a test against a tool in each registry, behind a proxy.
async fn behind_a_proxy(test: impl AsyncFn(&str, &Proxy, &Repository, &ToolArtifact)) {
    for (name, server) in servers().await {
        let proxy = Proxy::start(&server.host()).await.expect("a proxy");
        let repository = repository_with(&proxy.host(), &impatient(), Credentials::default());
        repository.push(&packed(1), &tag("1.2.0")).await.expect(name);
        let artifact = resolve(&repository, &tag("1.2.0")).await.expect(name);
        drop(proxy.seen());
        test(name, &proxy, &repository, &artifact).await;
        assert_eq!(proxy.left(), 0, "{name}: each fault was met");
    }
}

fn check(name: &str, downloaded: &CachedFile) {
    assert_eq!(fs::read(&downloaded.path).expect(name), component(1), "{name}");
    assert_eq!(downloaded.digest, Digest::from_bytes(&component(1)), "{name}");
}

#[tokio::test]
async fn a_download_goes_on_where_it_was_cut() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        for fault in [Fault::Cut(100_000), Fault::Stall(30_000), Fault::Cut(0), Fault::Unavailable]
        {
            proxy.next("/blobs/", fault);
        }
        let (directory, cache) = cache();
        let said = Mutex::new(Vec::new());
        let heard = |at, of| said.lock().expect("no panic").push((at, of));
        let found =
            cache.download(DownloadSource::Blob(repository, artifact), &heard).await.expect(name);
        check(name, &found);
        assert_eq!(files(&directory), [artifact.digest.to_string()], "{name}");
        let seen = proxy.seen();
        let range = seen.get(1).and_then(|it| it.header("range"));
        assert_eq!((seen.len(), range), (5, Some("bytes=100000-")), "{name}");
        let said = said.into_inner().expect("no panic");
        let size = artifact.size;
        assert_eq!(said.last(), Some(&(size, Some(size))), "{name}");
        cache.download(DownloadSource::Blob(repository, artifact), &|_, _| {}).await.expect(name);
        assert_eq!(proxy.seen().len(), 0, "{name}: a cached file needs no network");
    })
    .await;
}

#[tokio::test]
async fn a_part_that_was_not_asked_for_is_not_used() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        for fault in [Fault::WrongRange, Fault::WrongPart, Fault::Whole] {
            let (directory, cache) = cache();
            proxy.next("/blobs/", Fault::Cut(100_000));
            proxy.next("/blobs/", fault);
            let found =
                cache.download(DownloadSource::Blob(repository, artifact), &|_, _| {}).await;
            check(name, &found.unwrap_or_else(|error| panic!("{name}, {fault:?}: {error}")));
            assert_eq!(files(&directory), [artifact.digest.to_string()], "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_flipped_byte_is_asked_for_again_once_and_then_told_with_both_digests() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        let (directory, cache) = cache();
        let origin = || DownloadSource::Blob(repository, artifact);
        for _ in 0..2 {
            proxy.next("/blobs/", Fault::Flip(70_000));
        }
        let error = cache.download(origin(), &|_, _| {}).await.expect_err(name);
        let mut wrong = component(1).to_vec();
        wrong[70_000] ^= 1;
        let said = error.to_string();
        for digest in [Digest::from_bytes(&wrong), artifact.digest] {
            assert!(said.contains(&format!("sha256:{digest}")), "{name}: {said}");
        }
        assert_eq!(files(&directory), Vec::<String>::new(), "{name}: nothing is left");
        proxy.next("/blobs/", Fault::Flip(70_000));
        check(name, &cache.download(origin(), &|_, _| {}).await.expect(name));
    })
    .await;
}

#[tokio::test]
async fn a_download_that_was_given_up_goes_on_later() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        let (directory, cache) = cache();
        let origin = || DownloadSource::Blob(repository, artifact);
        for _ in 0..5 {
            proxy.next("/blobs/", Fault::Cut(10));
        }
        let error = cache.download(origin(), &|_, _| {}).await.expect_err(name);
        let passing =
            matches!(&error, DownloadError::Oci(OciError::Transport(it)) if it.is_passing());
        assert!(passing || matches!(error, DownloadError::Short { .. }), "{name}: {error}");
        assert_eq!(files(&directory), [format!("{}.part", artifact.digest)], "{name}");
        drop(proxy.seen());
        check(name, &cache.download(origin(), &|_, _| {}).await.expect(name));
        assert!(proxy.seen()[0].header("range").is_some(), "{name}");
    })
    .await;
}

#[tokio::test]
async fn of_two_downloads_one_waits_and_finds_it_done() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        let (_directory, cache) = cache();
        let one =
            async || cache.download(DownloadSource::Blob(repository, artifact), &|_, _| {}).await;
        let (first, second, third) = tokio::join!(one(), one(), one());
        for found in [first, second, third] {
            check(name, &found.expect(name));
        }
        let blobs = proxy.seen().iter().filter(|it| it.path.contains("/blobs/")).count();
        assert_eq!(blobs, 1, "{name}");
    })
    .await;
}

#[tokio::test]
async fn an_endless_manifest_is_refused_while_it_is_read() {
    behind_a_proxy(async |name, proxy, repository, _| {
        proxy.next("/manifests/", Fault::Endless);
        let error = resolve(repository, &tag("1.2.0")).await.expect_err(name).to_string();
        assert!(error.contains("has more than 4194304 bytes"), "{name}: {error}");
    })
    .await;
}

#[tokio::test]
async fn a_manifest_with_a_flipped_byte_is_refused() {
    behind_a_proxy(async |name, proxy, repository, artifact| {
        proxy.next("/manifests/", Fault::Flip(30));
        let pointer = ikigai_packages::reference::Pointer::Digest(artifact.manifest);
        let error = resolve(repository, &pointer).await.expect_err(name);
        let is_named =
            matches!(&error, OciError::Digest { expected, .. } if *expected == artifact.manifest);
        assert!(is_named, "{name}: {error}");
    })
    .await;
}

#[tokio::test]
async fn a_registry_that_is_down_is_named() {
    let proxy = Proxy::start("127.0.0.1:1").await.expect("a proxy");
    let host = proxy.host();
    drop(proxy);
    let error = resolve(&repository(&host), &tag("1")).await.expect_err("down");
    assert!(error.to_string().starts_with(&format!("`{host}` cannot be reached")), "{error}");
    let hint = error.hint().expect("a hint");
    assert!(hint.contains("installed tools run on"), "{hint}");
}
