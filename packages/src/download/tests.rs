use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::{Instant, SystemTime};

use super::partial::{DownloadWait, STALLED, WaitStep};
use super::*;
use crate::file_error::FileError;
use crate::reference::Reference;
use crate::transport::TransportSettings;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn transport() -> Transport {
    Transport::new(&TransportSettings::of_this_machine().expect("settings")).expect("a transport")
}

/// Returns the address of a file at a port without a server.
fn nowhere(fragment: &str) -> FileUrl {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = format!("http://127.0.0.1:{port}/a.wasm{fragment}");
    let Reference::Url(file) = text.parse().expect("a reference") else { panic!("{text}") };
    file
}

#[tokio::test]
async fn a_cached_digest_needs_no_network_and_a_changed_file_is_not_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = DownloadCache::new(directory.path());
    let (transport, file) = (transport(), nowhere(&format!("#sha256={ABC}")));
    let path = directory.path().join("blobs/sha256").join(ABC);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(&path, "abc").expect("written");
    let found =
        cache.download(DownloadSource::Url(&transport, &file), &|_, _| {}).await.expect("cached");
    assert_eq!((found.path.as_path(), found.size), (path.as_path(), 3));
    fs::write(&path, "abd").expect("written");
    let error =
        cache.download(DownloadSource::Url(&transport, &file), &|_, _| {}).await.expect_err("gone");
    let said = error.to_string();
    assert!(said.contains("cannot be reached") && said.contains("127.0.0.1:"), "{said}");
    assert!(!path.exists(), "a file with other bytes is removed");
}

#[tokio::test]
async fn one_who_gives_up_waiting_leaves_the_lock_to_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("x.part");
    let lock = || Partial::lock(path.clone(), |_| ());
    let first = lock().await.expect("locked");
    let waiting = tokio::time::timeout(Duration::from_millis(20), lock()).await;
    assert!(waiting.is_err(), "it is locked");
    drop(first);
    let mut third = lock().await.expect("locked after both");
    third.append(b"abc").expect("written");
    assert_eq!(third.digest().to_string(), ABC);
    let placed = third.place(directory.path()).await.expect("placed");
    assert_eq!(fs::read(placed.path).expect("read"), b"abc");
    assert!(!path.exists());
}

#[test]
fn a_download_without_progress_is_waited_for_no_longer() {
    let (begun, time) = (Instant::now(), SystemTime::UNIX_EPOCH);
    let mut wait = DownloadWait::begin(begun);
    let mut next =
        |seconds, length| wait.next(begun + Duration::from_secs(seconds), (length, time));
    assert_eq!(next(0, 0), WaitStep::Retry);
    assert_eq!(next(1, 0), WaitStep::Tell, "once");
    // A download that makes progress is waited for, however slow it is.
    for minutes in 1..60 {
        assert_eq!(next(60 * minutes, minutes), WaitStep::Retry);
    }
    let last = 60 * 59;
    assert_eq!(next(last + STALLED.as_secs() - 1, 59), WaitStep::Retry);
    assert_eq!(next(last + STALLED.as_secs(), 59), WaitStep::GiveUp);
    let error = DownloadError::Held { path: "x.part".into() };
    assert!(error.to_string().contains("`x.part`") && error.hint().is_some(), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("x.part");
    symlink("/dev/full", &path).expect("linked");
    let mut partial = Partial::lock(path.clone(), |_| ()).await.expect("locked");
    let error = partial.append(b"abc").expect_err("full");
    assert!(
        matches!(&error, DownloadError::File(FileError::DiskFull(at)) if *at == path),
        "{error}"
    );
    assert!(error.spoils_the_part());
    assert_eq!(error.hint().as_deref(), Some("free space, and run it again"));
}

fn record(tag: Option<&str>, manifest: &[u8]) -> SourceRecord {
    SourceRecord {
        from: "oci://ghcr.io/acme/weather".to_owned(),
        tag: tag.map(str::to_owned),
        manifest: Some(Digest::from_bytes(manifest)),
        sha256: Digest::from_bytes(b"file"),
        signatures: vec![("beside".to_owned(), Digest::from_bytes(b"signature"))],
    }
}

#[test]
fn the_latest_record_of_a_tag_comes_first_and_a_damaged_one_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = DownloadCache::new(directory.path());
    let (first, second) = (record(Some("1"), b"one"), record(Some("1"), b"two"));
    let recall = || cache.recall(&first.from).expect("read");
    assert!(recall().is_empty());
    cache.remember(first.clone()).expect("written");
    let path = |it: &SourceRecord| cache.records(&it.from).join(format!("{}.json", it.name()));
    let file = fs::File::options().write(true).open(path(&first)).expect("opened");
    file.set_modified(std::time::UNIX_EPOCH).expect("set");
    cache.remember(second.clone()).expect("written");
    assert_eq!(recall(), [second.clone(), first.clone()]);
    // A download by digest neither removes the tag nor claims that the tag leads there.
    cache.remember(SourceRecord { tag: None, ..first.clone() }).expect("written");
    assert_eq!(recall(), [second.clone(), first.clone()]);
    cache.remember(first.clone()).expect("written");
    assert_eq!(recall().len(), 2);
    fs::write(path(&second), "{").expect("written");
    assert_eq!(recall(), [first]);
}

#[test]
fn a_kept_file_that_was_changed_is_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = DownloadCache::new(directory.path());
    let digest = cache.keep(b"signature").expect("written");
    assert_eq!(cache.kept(digest, 9).expect("read").as_deref(), Some(&b"signature"[..]));
    assert_eq!(cache.kept(digest, 8).expect("read"), None, "it is larger than that");
    fs::write(cache.directory.join(digest.to_string()), "signaturf").expect("written");
    assert_eq!(cache.kept(digest, 9).expect("read"), None);
    assert_eq!(cache.kept(Digest::from_bytes(b"none"), 9).expect("read"), None);
}
