//! Commands that are killed. Afterwards either the old or the new tool answers, and the same
//! command repairs the rest.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use ikigai_packages::ToolsLock;
use ikigai_packages_testing::Fault;
use ikigai_tests::draw::Draw;
use ikigai_tests::host::Host;
use ikigai_tests::wait::TIMEOUT;
use rustix::process::Signal;

use crate::shipping::scene::*;

const NEEDS: &str = r#"{"env":[{"name":"KEY","why":"the key"}]}"#;
const UPDATE: &[&str] = &["tool", "update", "--yes", "--downgrade", "--grant"];

/// Fails unless the tool is exactly the old or the new version, and no other files are left.
#[track_caller]
fn is_old_or_new(host: &Host, versions: [&str; 2], when: &str) {
    let files = versions.map(|version| needing(version, NEEDS));
    let digests = files.each_ref().map(|file| sha256(file));
    let placed = fs::read(host.user_tools().join("weather.wasm")).expect("a tool");
    assert!(files.contains(&placed), "{when}: the file is neither the old nor the new");
    let text = lock_text(host);
    let lock =
        ToolsLock::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{when}: {error}\n{text}"));
    let locked = lock.get("weather").expect("locked").sha256.to_string();
    assert!(digests.contains(&locked), "{when}: {text}");
    let policy = policy_text(host);
    let granted: Vec<_> = policy.split('"').filter(|it| it.len() == 64).collect();
    assert!(granted.iter().all(|it| digests.iter().any(|digest| digest == it)), "{when}: {policy}");
    let envelope = call(host);
    match envelope["error_code"].as_str() {
        // The grant is for the other version until the command is run again.
        Some(code) => assert_eq!(code, "PERMISSION_DENIED", "{when}: {envelope}"),
        None => {
            let says = versions.map(|version| format!("weather {version}"));
            let said = envelope["result"]["description"].as_str().unwrap_or_default().to_owned();
            assert!(says.contains(&said), "{when}: {envelope}");
        }
    }
    for path in state(host).into_keys() {
        let name = Path::new(&path).file_name().expect("a name").to_string_lossy().into_owned();
        let is_known = ["weather.wasm", "user-tools.lock", "policy.toml"].contains(&name.as_str());
        let is_draft = name.starts_with(".ikigai-draft-");
        assert!(is_known || is_draft, "{when}: `{path}` is left");
    }
    for entry in fs::read_dir(host.scratch()).expect("read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_known = !name.starts_with('.')
            || name.starts_with(".ikigai-draft-")
            || name == ".user-tools.lock.held";
        assert!(is_known, "{when}: `{name}` is left");
    }
}

/// Runs the same command again, which completes the change to the new version.
#[track_caller]
fn mends(host: &Host, version: &str, when: &str) {
    let ran = host.run(UPDATE);
    assert_eq!(ran.code(), Some(0), "{when}\n{ran}");
    let digest = sha256(&needing(version, NEEDS));
    assert_eq!(locked(&lock_text(host), "sha256"), digest, "{when}");
    assert!(policy_text(host).contains(&digest), "{when}: {}", policy_text(host));
    answers(host, version);
}

fn granted() -> (Host, std::path::PathBuf) {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", needing("1.0.0", NEEDS), 0o644);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    fs::write(&path, needing("1.0.1", NEEDS)).expect("written");
    // Both versions are compiled first, so that all runs take about the same time.
    host.run(UPDATE).expect_code(0);
    fs::write(&path, needing("1.0.0", NEEDS)).expect("written");
    host.run(UPDATE).expect_code(0);
    (host, path)
}

#[test]
fn a_download_that_was_killed_leaves_the_old_tool_and_goes_on_later() {
    let net = Net::new();
    let fake = net.registry();
    let proxy = net.proxy(&fake.host());
    publish(&fake, "1.0.0", &weather("1.0.0"));
    let host = Host::without_system_tools();
    host.run(["tool", "install", "--yes", &at(&proxy.host(), "")]).expect_code(0);
    let mut file = weather("2.0.0");
    // A custom section of 1 MiB.
    file.extend([0, 0x80, 0x80, 0x40, 1, b'x']);
    file.resize(file.len() + (1 << 20) - 2, 7);
    publish(&fake, "2.0.0", &file);
    let before = state(&host);
    proxy.next("/blobs/", Fault::Stall(500_000));
    drop(proxy.seen());
    let mut running = host.start(["tool", "update", "--yes"]);
    let part = host.cache().join(format!("blobs/sha256/{}.part", sha256(&file)));
    running.wait_until("a part of the file is there", || {
        fs::metadata(&part).is_ok_and(|it| it.len() > 0)
    });
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code(), None);
    assert_eq!(state(&host), before);
    answers(&host, "1.0.0");
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "2.0.0");
    let seen = proxy.seen();
    let range =
        seen.iter().rev().find(|it| it.path.contains("/blobs/")).and_then(|it| it.header("range"));
    assert!(range.is_some_and(|it| it.starts_with("bytes=") && it != "bytes=0-"), "{range:?}");
    assert!(!part.exists(), "nothing half is left");
}

#[test]
fn the_next_command_removes_the_drafts_of_killed_ones() {
    let (host, path) = granted();
    let places = [host.user_tools(), host.scratch().to_owned(), host.home().join(".config/ikigai")];
    let drafts = places.map(|place| place.join(".ikigai-draft-killed"));
    for draft in &drafts {
        let file = fs::File::create(draft).expect("made");
        file.set_modified(SystemTime::now() - Duration::from_secs(2 * 60 * 60)).expect("set");
    }
    fs::write(&path, needing("1.0.1", NEEDS)).expect("written");
    host.run(UPDATE).expect_code(0);
    for draft in &drafts {
        assert!(!draft.exists(), "`{}`", draft.display());
    }
}

/// Kills the command between file and lock, and between lock and grant: as soon as the first of the
/// two is replaced.
#[test]
fn a_command_that_was_killed_between_its_steps_is_mended_by_itself() {
    let (host, path) = granted();
    let steps = [host.user_tools().join("weather.wasm"), lock(&host)];
    let versions = ["1.0.0", "1.0.1"];
    for (round, step) in steps.iter().cycle().take(6).enumerate() {
        let next = versions[(round + 1) % 2];
        fs::write(&path, needing(next, NEEDS)).expect("written");
        let inode = |path: &Path| fs::metadata(path).map(|it| it.ino()).unwrap_or_default();
        let before = inode(step);
        let running = host.start(UPDATE);
        let begun = Instant::now();
        // The loop must not pause, because the next step is microseconds away.
        while inode(step) == before {
            assert!(begun.elapsed() < TIMEOUT, "`{}` is never replaced", step.display());
        }
        running.signal(Signal::KILL);
        drop(running.wait());
        let when = format!("round {round}, at {}", step.display());
        is_old_or_new(&host, versions, &when);
        mends(&host, next, &when);
    }
}

/// The moment is a random part of the time that a run takes.
#[test]
fn a_command_that_was_killed_at_any_moment_leaves_one_tool_or_the_other() {
    let (host, path) = granted();
    let versions = ["1.0.0", "1.0.1"];
    let mut draw = Draw::new(0x1415_9265);
    let begun = Instant::now();
    host.run(UPDATE).expect_code(0);
    let whole = begun.elapsed();
    let thousandths: Vec<u32> = (0..1250).collect();
    for round in 0..20 {
        let next = versions[(round + 1) % 2];
        fs::write(&path, needing(next, NEEDS)).expect("written");
        let moment = whole * *draw.one(&thousandths) / 1000;
        let running = host.start(UPDATE);
        std::thread::sleep(moment);
        running.signal(Signal::KILL);
        let ended = running.wait().code();
        assert!(ended.is_none_or(|code| code == 0), "round {round}: {ended:?}");
        let when = format!("round {round}, after {moment:?}");
        is_old_or_new(&host, versions, &when);
        mends(&host, next, &when);
    }
    ikigai_tests::leftovers::assert_none(host.scratch());
}
