//! Servers that are down, disconnect, lie or change their minds.

use std::fs;

use ikigai_packages_testing::{Fake, Fault, Proxy, Reply};
use ikigai_tests::host::{Host, Ran};
use serde_json::json;

use crate::shipping::scene::*;

/// Returns a version whose file does not fit into one read, so that it can be cut anywhere.
fn large(version: &str) -> Vec<u8> {
    let filling: Vec<u8> =
        (0..200_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut section = b"\x07filling".to_vec();
    section.extend(filling);
    let mut file = weather(version);
    file.push(0);
    let mut size = section.len();
    while size > 0x7f {
        file.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    file.push(size as u8);
    file.extend(section);
    file
}

/// A host with `weather` 1.0.0 from a registry behind a proxy, which has 2.0.0 as well.
fn behind(net: &Net) -> (Host, Proxy, String, Vec<u8>, Fake) {
    let fake = net.registry();
    let proxy = net.proxy(&fake.host());
    let host = Host::without_system_tools();
    publish(&fake, "1.0.0", &weather("1.0.0"));
    host.run(["tool", "install", "--yes", &at(&proxy.host(), "")]).expect_code(0);
    let file = large("2.0.0");
    publish(&fake, "2.0.0", &file);
    drop(proxy.seen());
    let reference = at(&proxy.host(), ":2.0.0");
    (host, proxy, reference, file, fake)
}

#[test]
fn another_digest_is_asked_for_once_more_and_then_refused_with_both() {
    let net = Net::new();
    let (host, proxy, reference, file, _fake) = behind(&net);
    let before = downloads(&host);
    for _ in 0..2 {
        proxy.next("/blobs/", Fault::Flip(70_000));
    }
    let mut wrong = file.clone();
    wrong[70_000] ^= 1;
    let (expected, found) =
        (format!("sha256:{}", sha256(&file)), format!("sha256:{}", sha256(&wrong)));
    let ran = refused(&host, &["tool", "install", "--yes", &reference], 1, &[&expected, &found]);
    assert!(error(&ran).contains("hint: nothing was installed"), "{ran}");
    assert_eq!((proxy.left(), downloads(&host)), (0, before), "nothing of it is left");
    proxy.next("/blobs/", Fault::Flip(70_000));
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "2.0.0");
}

#[test]
fn a_download_that_was_cut_goes_on_where_it_was() {
    let net = Net::new();
    let (host, proxy, reference, _, _fake) = behind(&net);
    proxy.next("/blobs/", Fault::Cut(100_000));
    proxy.next("/blobs/", Fault::Unavailable);
    host.run(["tool", "install", "--yes", &reference]).expect_code(0);
    let seen = proxy.seen();
    let ranges: Vec<_> = seen
        .iter()
        .filter(|it| it.path.contains("/blobs/"))
        .filter_map(|it| it.header("range"))
        .collect();
    assert_eq!(ranges, ["bytes=100000-", "bytes=100000-"]);
    answers(&host, "2.0.0");
}

#[test]
fn a_server_that_sends_another_part_is_not_believed() {
    for fault in [Fault::WrongPart, Fault::WrongRange, Fault::Whole] {
        let net = Net::new();
        let (host, proxy, reference, file, _fake) = behind(&net);
        proxy.next("/blobs/", Fault::Cut(100_000));
        proxy.next("/blobs/", fault);
        let ran = host.run(["tool", "install", "--yes", &reference]).expect_code(0);
        assert_eq!(proxy.left(), 0, "{fault:?}\n{ran}");
        let placed = fs::read(host.user_tools().join("weather.wasm")).expect("placed");
        assert_eq!(sha256(&placed), sha256(&file), "{fault:?}");
        answers(&host, "2.0.0");
    }
}

#[test]
fn after_five_attempts_the_next_run_goes_on() {
    let net = Net::new();
    let (host, proxy, reference, file, _fake) = behind(&net);
    for _ in 0..5 {
        proxy.next("/blobs/", Fault::Cut(50_000));
    }
    let ran = refused(&host, &["tool", "install", "--yes", &reference], 1, &[]);
    assert!(error(&ran).contains("hint: try again later"), "{ran}");
    assert_eq!(proxy.left(), 0, "{ran}");
    let part = format!("{}.part", sha256(&file));
    assert!(downloads(&host).contains(&part), "{:?}", downloads(&host));
    drop(proxy.seen());
    host.run(["tool", "install", "--yes", &reference]).expect_code(0);
    let seen = proxy.seen();
    let range = seen.iter().find_map(|it| it.header("range"));
    assert!(range.is_some_and(|it| it != "bytes=0-"), "{range:?}");
    answers(&host, "2.0.0");
    assert!(!downloads(&host).contains(&part));
}

#[test]
fn a_registry_that_is_down_is_named_and_what_is_in_the_cache_installs() {
    let net = Net::new();
    let (host, proxy, reference, _, fake) = behind(&net);
    let name = proxy.host();
    drop((proxy, fake));
    let down = format!("`{name}` cannot be reached");
    let hint = "installed tools run on";
    refused(&host, &["tool", "install", "--yes", &reference], 1, &[&down, hint]);
    refused(&host, &["tool", "update", "--yes"], 1, &[&down, hint]);
    let ran = host.run(["tool", "outdated", "--json"]).expect_code(1);
    assert_eq!(ran.json()[0]["state"], "failed", "{ran}");
    let reason = ran.json()[0]["error"].to_string();
    assert!(reason.starts_with(&format!("\"{down}")) && !reason.contains(hint), "{ran}");
    let ran = host.run(["tool", "verify", "--json"]).expect_code(1);
    let findings = ran.json()[0]["findings"].to_string();
    assert!(findings.contains(&down) && !findings.contains(hint), "{ran}");
    let place = host.user_tools().join("weather.wasm");
    fs::remove_file(&place).expect("removed");
    let ran = host.run(["tool", "install", "--yes", &at(&name, ""), "--offline"]).expect_code(0);
    assert!(ran.stderr().contains("taken from the cache"), "{ran}");
    answers(&host, "1.0.0");
    let missing = at(&name, ":2.0.0").replace(REPOSITORY, "acme/other");
    let args = ["tool", "install", "--yes", &missing, "--offline"];
    refused(&host, &args, 1, &["is not in the cache, and `--offline` forbids downloading it"]);
    let args = ["tool", "install", "--yes", &at(&name, ":7.0.0"), "--offline"];
    refused(&host, &args, 1, &["is not in the cache", "the cache has 1.0.0 of it"]);
}

#[test]
fn a_tag_that_moved_is_told_and_taken_by_an_update() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    publish(&fake, "stable", &weather("1.0.0"));
    let first = at(&fake.host(), ":stable");
    host.run(["tool", "install", "--yes", &first]).expect_code(0);
    publish(&fake, "stable", &weather("1.0.1"));
    let before = state(&host);
    let row = host.run(["tool", "outdated", "--json"]).expect_code(1).json()[0].clone();
    assert_eq!(row["state"], "outdated", "{row}");
    assert!(sha256(&weather("1.0.1")).starts_with(row["newest"].as_str().expect("text")), "{row}");
    assert_eq!(state(&host), before);
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.0.1");
    assert_eq!(locked(&lock_text(&host), "wanted"), "stable");
}

/// Simulates `push --replace`: the version is the same, but the file is different.
#[test]
fn another_file_under_the_same_version_is_told_and_taken() {
    let net = Net::new();
    for rest in ["", ":1.0.0"] {
        let (host, fake) = (Host::without_system_tools(), net.registry());
        publish(&fake, "1.0.0", &weather("1.0.0"));
        host.run(["tool", "install", "--yes", &at(&fake.host(), rest)]).expect_code(0);
        host.run(["tool", "outdated"]).expect_code(0);
        let other = needing("1.0.0", r#"{"env":[{"name":"KEY","why":"the key"}]}"#);
        publish(&fake, "1.0.0", &other);
        let row = host.run(["tool", "outdated", "--json"]).expect_code(1).json()[0].clone();
        assert_eq!((&row["state"], &row["installed"]), (&"moved".into(), &"1.0.0".into()), "{row}");
        assert!(sha256(&other).starts_with(row["newest"].as_str().expect("text")), "{row}");
        let ran = host.run(["tool", "outdated"]).expect_code(1);
        assert!(ran.stdout().contains("another file under the same version"), "{ran}");
        host.run(["tool", "update", "--yes"]).expect_code(0);
        assert_eq!(locked(&lock_text(&host), "sha256"), sha256(&other));
        host.run(["tool", "outdated"]).expect_code(0);
    }
}

#[test]
fn too_much_is_refused_while_it_is_read() {
    let net = Net::new();
    let (host, proxy, reference, _, fake) = behind(&net);
    proxy.next("/manifests/", Fault::Endless);
    refused(&host, &["tool", "install", "--yes", &reference], 1, &["has more than 4194304 bytes"]);
    let digest = format!("sha256:{}", sha256(b"never sent"));
    let size = (256 << 20) + 1;
    let layer = format!(r#"{{"mediaType":"{WASM}","digest":"{digest}","size":{size}}}"#);
    let text = artifact(&fake, &[(WASM, b"x")]);
    let (before, _) = text.split_once("\"layers\":[").expect("layers");
    let text = format!("{before}\"layers\":[{layer}]}}");
    fake.manifest(REPOSITORY, "3.0.0", MANIFEST, text.as_bytes());
    drop(proxy.seen());
    let args = ["tool", "install", "--yes", &at(&proxy.host(), ":3.0.0")];
    let most = format!("has {size} bytes, and a tool has at most {}", size - 1);
    refused(&host, &args, 1, &[&most]);
    let asked = proxy.seen().iter().any(|it| it.path.contains(&digest));
    assert!(!asked, "nobody asks for a file that is too large");
    // If a server states no size, the received bytes decide.
    let address = format!("http://{}/weather.wasm", proxy.host());
    fake.page(
        "/weather.wasm",
        Reply::new(200, WASM, vec![0; 1 << 10]).with("content-encoding", "identity"),
    );
    refused(&host, &["tool", "install", "--yes", &address], 1, &["is not a tool"]);
}

#[test]
fn what_is_for_people_is_no_tool() {
    let net = Net::new();
    let (host, proxy, _, _, fake) = behind(&net);
    let page = || Reply::new(200, "text/html; charset=utf-8", "<html>a login</html>");
    fake.page(&format!("/v2/{REPOSITORY}/manifests/7"), page());
    let args = ["tool", "install", "--yes", &at(&proxy.host(), ":7")];
    refused(&host, &args, 1, &["answers with a web page: it is not a registry"]);
    fake.page("/weather.wasm", page());
    let address = format!("http://{}/weather.wasm", proxy.host());
    let ran =
        refused(&host, &["tool", "install", "--yes", &address], 1, &["is a web page, not a tool"]);
    assert!(!ran.stderr().contains("a login"), "{ran}");
    fake.page("/weather.wasm", Reply::new(200, "application/wasm", "<!doctype html>"));
    refused(&host, &["tool", "install", "--yes", &address], 1, &["is not a tool: "]);
}

#[test]
fn of_two_at_once_one_waits_and_finds_it_done() {
    let net = Net::new();
    let (host, proxy, reference, file, _fake) = behind(&net);
    let needs = json!({"env": [{"name": "KEY", "why": "the key"}]}).to_string();
    let clock = host.write("source/clock.wasm", named("clock", "0.1.0", &needs), 0o644);
    let timer = host.write("source/timer.wasm", named("timer", "0.1.0", &needs), 0o644);
    let (clock, timer) = (clock.display().to_string(), timer.display().to_string());
    let runs = [
        [reference.as_str(), "--json"],
        [&reference, "--json"],
        [&clock, "--grant"],
        [&timer, "--grant"],
        [&clock, "--grant"],
    ];
    let ended = std::thread::scope(|scope| {
        let started = runs.map(|args| {
            let host = &host;
            scope.spawn(move || host.run(["tool", "install", "--yes"].iter().chain(&args)))
        });
        started.map(|run| run.join().expect("no panic"))
    });
    for (args, ran) in runs.iter().zip(&ended) {
        assert_eq!(ran.code(), Some(0), "{args:?}\n{ran}");
    }
    let [one, other, clock, _, again] = &ended;
    let mut states = [one, other].map(|ran| ran.json()[0]["state"].to_string());
    states.sort();
    assert_eq!(states, [r#""installed""#, r#""unchanged""#], "{one}\n{other}");
    let found_done = |ran: &&Ran| ran.stderr().contains("`clock` is already installed");
    assert_eq!([clock, again].into_iter().filter(found_done).count(), 1, "{clock}\n{again}");
    let recorded = records(&host);
    let of = |name: &str| recorded.iter().filter(|it| it["tool"] == name).count();
    // `weather` was installed before, in an older version.
    assert_eq!([of("weather"), of("clock"), of("timer")], [2, 1, 1], "{recorded:#?}");
    let blobs = proxy.seen().iter().filter(|it| it.path.contains(&sha256(&file))).count();
    assert_eq!(blobs, 1, "it is downloaded once");
    answers(&host, "2.0.0");
    let (lock, policy) = (lock_text(&host), policy_text(&host));
    for name in ["weather", "clock", "timer"] {
        assert_eq!(lock.matches(&format!("\"{name}\"")).count(), 1, "{lock}");
    }
    for name in ["clock", "timer"] {
        assert_eq!(policy.matches(&format!("[tools.{name}]")).count(), 1, "{policy}");
    }
    assert_no_drafts(&host);
}

/// Fails if an unfinished file is left behind.
#[track_caller]
fn assert_no_drafts(host: &Host) {
    let drafts: Vec<_> = state(host).into_keys().filter(|path| path.contains(".ikigai-")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
    host.assert_nothing_left();
}
