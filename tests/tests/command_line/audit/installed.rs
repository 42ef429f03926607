//! The records of installations, which are not calls.

use ikigai_host::audit::{GrantSummary, InstallationRecord, LogReader, ProgramRecord, Via};
use ikigai_host::{Digest, Paths};
use ikigai_tests::host::Host;
use serde_json::json;

use super::{keys, script};

/// Records a successful update of the tool, and a failed one.
fn record(host: &Host) {
    let paths = Paths { state: Some(host.state()), ..Paths::of_installation("/nowhere") };
    let writer = ikigai_host::Host::builder(host.workspace()).paths(paths).build();
    let writer = writer.unwrap_or_else(|error| panic!("{error}"));
    let installation = || InstallationRecord {
        action: "update".to_owned(),
        source: "oci://ghcr.io/acme/weather".to_owned(),
        version: Some("1.2.0".to_owned()),
        signer: "minisign:0000A3F1E7620F18".to_owned(),
        replaced: Some(Digest::from_bytes(b"before")),
    };
    let program = ProgramRecord {
        origin: "user".to_owned(),
        path: "/tools/weather.wasm".to_owned(),
        digest: Digest::from_bytes(b"after"),
        backend: "wasm".to_owned(),
        wasi: vec!["0.2".to_owned()],
        server: None,
        backend_reason: "it was installed".to_owned(),
    };
    let grant =
        GrantSummary { net: vec!["api.weather.example:443".to_owned()], ..GrantSummary::default() };
    writer.record_installation("weather", Some(program), Some(grant), installation(), Ok(()));
    let long = InstallationRecord { source: "x".repeat(1 << 20), ..installation() };
    writer.record_installation("weather", None, None, long, Err("the registry is gone".to_owned()));
}

#[test]
fn an_installation_is_a_record_among_those_of_calls() {
    let host = script("echo '{}'");
    host.run(["tool", "call", "tool", "{}"]).expect_code(0);
    record(&host);
    let records = host.records();
    let [call, done, failed] = &records[..] else { panic!("{records:#?}") };
    assert!(call.get("installed").is_none() && call["via"] == "call", "{call}");
    assert_eq!((&done["via"], &done["outcome"]), (&json!("install"), &json!("ok")), "{done}");
    let expected = ["action", "source", "version", "signer", "replaced"];
    assert_eq!(keys(&done["installed"]), expected, "{done}");
    assert_eq!(done["digest"], Digest::from_bytes(b"after").to_string());
    assert_eq!(failed["outcome"], "failed");
    assert_eq!(failed["error"], "the registry is gone");
    assert_eq!(failed["installed"]["source"].as_str().map(str::len), Some(1024));
    let batch = LogReader::open(&host.state()).expect("a log").read_back().expect("a file");
    let lines = batch.expect("read").lines;
    assert_eq!(lines.iter().filter(|line| line.record.via == Via::Install).count(), 2);
}

#[test]
fn audit_shows_installations_and_finds_them() {
    let host = script("echo '{}'");
    host.run(["tool", "call", "tool", "{}"]).expect_code(0);
    record(&host);
    let table = host.run(["audit"]).expect_code(0).stdout();
    assert!(table.contains("update ok") && table.contains("update failed"), "{table}");
    let found = host.run(["audit", "--via", "install", "--json"]).expect_code(0).stdout();
    assert_eq!(found.lines().count(), 2, "{found}");
    let found = host.run(["audit", "--via", "call", "--via", "run", "--json"]).expect_code(0);
    assert_eq!(found.stdout().lines().count(), 1, "{found}");
    let found = host.run(["audit", "--outcome", "failed", "--json"]).expect_code(0).stdout();
    assert_eq!(found.lines().count(), 1, "{found}");
    let all = host.run(["audit", "--via", "install", "--outcome", "ok", "--long"]).expect_code(0);
    let all = all.stdout();
    for part in [
        "update from oci://ghcr.io/acme/weather, version 1.2.0",
        "signed by: minisign:0000A3F1E7620F18",
        &format!("replaced: sha256 {}", Digest::from_bytes(b"before")),
        "api.weather.example:443",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let wrong = host.run(["audit", "--via", "instal"]).expect_code(2);
    assert!(wrong.stderr().contains("a similar value exists: 'install'"), "{wrong}");
}
