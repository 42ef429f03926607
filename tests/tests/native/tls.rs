//! Programs that connect to a server by TLS through the relay: the machine's git and curl, started
//! by a script and by the tool `bash`.
//!
//! The server has one certificate for all its names, so only a grant distinguishes them.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ikigai_host::policy::Sandbox;
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::left_out;
use rcgen::{CertificateParams, DnType};
use serde_json::json;

use super::peers::{Names, Server};
use super::relay::{answer_with_file, repository};
use super::rig::{Rig, text};

/// The server's names in its certificate.
const NAMES: [&str; 4] = ["a.test", "b.test", "localhost", "127.0.0.1"];

/// Starts a server of the files below `root`. Returns the certificate of its authority in PEM as
/// well.
fn serving(root: &Path) -> (String, Server) {
    let mut authority = CertificateParams::default();
    // OpenSSL treats a certificate as self-signed if its subject has the same name as its issuer.
    authority.distinguished_name.push(DnType::CommonName, "the authority of a test");
    let root = root.to_owned();
    let (authority, server) = Server::https("127.0.0.1", authority, &NAMES, move |stream, path| {
        answer_with_file(&root, stream, path)
    });
    let authority = STANDARD.encode(authority);
    let lines = authority.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    let lines: String = lines.collect();
    let authority = format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n");
    (authority, server)
}

/// Runs a command with granted peers of one server, and with other peers at the same address.
/// `command` gets the file with the authority and a peer, and prints the peer's file `file`.
#[track_caller]
fn assert_granted_peers_alone(command: impl Fn(&str, &str) -> String) {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let repository = repository();
    let (authority, server) = serving(repository.path());
    let authority = rig.file("authority.pem", &authority, 0o644);
    let authority = authority.to_str().expect("UTF-8");
    let names =
        Names::default().with("a.test", &[&["127.0.0.1"]]).with("b.test", &[&["127.0.0.1"]]);
    let address = server.target();
    let [a, b] = ["a.test", "b.test"].map(|name| format!("{name}:{}", server.port()));
    // A name leads to this machine only if the address is granted as well.
    for (net, peer, is_granted) in [
        ([a.as_str(), &address], a.as_str(), true),
        ([b.as_str(), &address], b.as_str(), true),
        ([a.as_str(), &address], address.as_str(), true),
        ([a.as_str(), &address], b.as_str(), false),
        ([b.as_str(), &address], a.as_str(), false),
        (["a.test:1", &address], a.as_str(), false),
        ([a.as_str(), "127.0.0.1:1"], address.as_str(), false),
    ] {
        let run = command(authority, peer);
        let tool = rig.script(&format!("export HOME=/tmp PATH=/usr/bin:$PATH; {run}"));
        let outcome = rig.run_within(names.network(), &net, &tool, |_| {});
        let case = format!("{net:?} {run}: {outcome:?}");
        let denied = &outcome.denied.first;
        if is_granted {
            assert_eq!(text(&outcome.stdout).trim(), "from afar", "{case}");
            assert!(denied.is_empty() && server.connections() > 0, "{case}");
        } else {
            assert_eq!(text(&outcome.stdout), "", "{case}");
            assert_eq!(*denied, [format!("net {peer}")], "{case}");
            assert_eq!(server.connections(), 0, "{case}");
        }
    }
}

#[test]
fn git_clones_over_tls_from_granted_peers_alone() {
    assert_granted_peers_alone(|authority, peer| {
        format!(
            "git -c http.sslCAInfo={authority} clone -q https://{peer}/.git /tmp/out \
             && cat /tmp/out/file"
        )
    });
}

#[test]
fn curl_fetches_over_tls_from_granted_peers_alone() {
    let found = Command::new("curl").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return left_out("curl through the relay", "curl").unwrap_or_default();
    }
    // curl uses `CONNECT`, which its environment selects, and SOCKS.
    for proxy in ["", "--socks5-hostname 127.0.0.1:3128"] {
        assert_granted_peers_alone(|authority, peer| {
            format!("curl -sS --fail {proxy} --cacert {authority} https://{peer}/file")
        });
    }
}

#[test]
fn bash_clones_over_tls_from_the_granted_host_alone() {
    let repository = repository();
    let (authority, server) = serving(repository.path());
    let host = Host::new().with_shared_cache();
    host.write("workspace/authority.pem", &authority, 0o644);
    let (name, address) = (format!("localhost:{}", server.port()), server.target());
    let command = format!(
        "git -c http.sslCAInfo=\"$PWD/authority.pem\" clone -q https://{name}/.git out \
         && cat out/file"
    );
    let arguments = json!({ "command": command }).to_string();
    let grant = |peers: [&str; 2]| {
        let [first, second] = peers;
        host.run(["policy", "grant", "bash", "--net", first, "--net", second]).expect_code(0);
    };
    let call = || host.run(["--backend", "native", "tool", "call", "bash", &arguments]);
    let failed =
        |ran: &Ran| ran.json()["result"]["exit_code"].as_u64().is_some_and(|code| code > 0);

    let ran = call();
    assert!(failed(&ran), "without a grant: {ran}");
    assert_eq!(server.connections(), 0, "{ran}");

    grant(["localhost:1", &address]);
    let ran = call();
    assert!(failed(&ran), "with a grant of another port: {ran}");
    assert_eq!(server.connections(), 0, "{ran}");
    let record = host.records().pop().expect("a record");
    assert_eq!(record["denied"], json!([format!("net {name}")]), "{record:#}");
    assert!(record["used"].as_array().is_none_or(|it| it.iter().all(|it| it["kind"] != "peer")));

    grant([&name, &address]);
    let ran = call();
    let envelope = ran.json();
    let expected = json!({ "output": "from afar", "exit_code": 0 });
    assert_eq!(envelope["result"], expected, "{ran}");
    assert!(server.connections() > 0, "{ran}");
    let used = json!({ "kind": "peer", "host": "localhost", "port": server.port() });
    let record = host.records().pop().expect("a record");
    assert!(record["used"].as_array().is_some_and(|it| it.contains(&used)), "{record:#}");
    host.assert_nothing_left();
}
