//! The network of a native tool by name. Each way around a grant is also tried with a wider grant,
//! to prove that it leads somewhere.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::wasm::SharedNetwork;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::limits::Limit;
use ikigai_host::policy::Sandbox;
use ikigai_protocol::{Access, GrantedDir};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use super::peers::{Names, ReadWrite, Server, ok};
use super::rig::{Rig, each_user, text};

/// The address of the relay for a tool.
const RELAY: &str = "127.0.0.1:3128";

/// The answers to a tunnel that was established.
const MADE: &str = r"HTTP/1.1 200 Connection established\r\n\r\n";
const MADE_BY_SOCKS: &str = r"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00";

/// The answers to a tunnel to a peer without a grant.
const NOT_GRANTED: &str = "HTTP/1.1 403 Forbidden";
const NOT_GRANTED_BY_SOCKS: &str = r"\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00";

/// Talks to the relay once with each of these messages, and returns its answers.
fn talk(
    rig: &Rig,
    network: SharedNetwork,
    net: &[&str],
    sent: &[Vec<u8>],
) -> (Vec<String>, Vec<String>, Outcome) {
    let outcome = rig.run_within(network, net, &rig.intruder(), |call| {
        call.args =
            sent.iter().map(|sent| format!("talk {RELAY} {}", digits(sent)).into()).collect();
    });
    assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
    let isolation = outcome.isolation.as_ref().expect("it ran");
    assert!(isolation.net.is_enforced(), "{isolation:?}");
    let answers = text(&outcome.stdout).lines().map(str::to_owned).collect();
    (answers, outcome.denied.first.clone(), outcome)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a request for a tunnel, followed by the data to send through it.
fn connect(peer: &str, then: &[u8]) -> Vec<u8> {
    [format!("CONNECT {peer} HTTP/1.1\r\nHost: {peer}\r\n\r\n").as_bytes(), then].concat()
}

/// Returns such a request over SOCKS, with the peer as a name or as an address.
fn socks(name: &str, port: u16, then: &[u8]) -> Vec<u8> {
    let host = match name.parse() {
        Ok(std::net::IpAddr::V4(ip)) => [&[1], &ip.octets()[..]].concat(),
        Ok(std::net::IpAddr::V6(ip)) => [&[4], &ip.octets()[..]].concat(),
        Err(_) => [&[3, name.len() as u8], name.as_bytes()].concat(),
    };
    [&[5, 1, 0, 5, 1, 0], &host[..], &port.to_be_bytes(), then].concat()
}

/// Returns the first TLS message for this server, in one record.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("written");
    bytes
}

/// Returns the same message in records of at most 40 bytes.
fn in_pieces(hello: &[u8]) -> Vec<u8> {
    let pieces = hello[5..].chunks(40);
    pieces.flat_map(|piece| [&[22, 3, 1, 0, piece.len() as u8], piece].concat()).collect()
}

/// A server that reports all data of a connection, and closes once the other side has closed.
fn listening(ip: &str) -> Server {
    Server::start(ip, |mut stream, events| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard)?;
        drop(events.send(heard.escape_ascii().to_string()));
        Ok(())
    })
}

#[test]
fn a_tool_reaches_the_granted_peers_and_no_others() {
    each_user(Sandbox::Require, |rig| {
        let servers = ["127.0.0.1", "127.0.0.1", "127.0.0.2"].map(Server::greeting);
        let [own, other_port, other_address] = servers.each_ref().map(|it| it.address);
        let sent: Vec<Vec<u8>> = [own, other_port, other_address]
            .iter()
            .flat_map(|to| {
                let ip = to.ip().to_string();
                [connect(&to.to_string(), b"12345"), socks(&ip, to.port(), b"12345")]
            })
            .collect();
        let (answers, denied, _) = talk(rig, SharedNetwork::default(), &["127.0.0.0/8:*"], &sent);
        for pair in answers.chunks(2) {
            assert_eq!(pair, [format!("{MADE}hello"), format!("{MADE_BY_SOCKS}hello")]);
        }
        assert!(denied.is_empty(), "{denied:?}");
        assert_eq!(servers.each_ref().map(Server::connections), [2, 2, 2]);
        let (answers, denied, _) = talk(rig, SharedNetwork::default(), &[&own.to_string()], &sent);
        assert_eq!(answers[..2], [format!("{MADE}hello"), format!("{MADE_BY_SOCKS}hello")]);
        for pair in answers[2..].chunks(2) {
            assert!(pair[0].starts_with(NOT_GRANTED), "{answers:?}");
            assert_eq!(pair[1], NOT_GRANTED_BY_SOCKS);
        }
        assert_eq!(denied, [format!("net {other_port}"), format!("net {other_address}")]);
        assert_eq!(servers.each_ref().map(Server::connections), [2, 0, 0]);
    });
}

#[test]
fn a_name_leads_to_no_address_that_would_have_to_be_named() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::greeting("127.0.0.1");
        let port = server.port();
        let names = Names::default()
            .with("own.test", &[&["127.0.0.1"]])
            .with("cloud.test", &[&["169.254.169.254", "::ffff:169.254.169.254"]]);
        let sent: Vec<Vec<u8>> = ["own.test", "OWN.test.", "cloud.test", "b.test", "localhost"]
            .iter()
            .flat_map(|name| {
                [connect(&format!("{name}:{port}"), b"12345"), socks(name, port, b"12345")]
            })
            .collect();
        let granted = [format!("own.test:{port}"), format!("cloud.test:{port}")];
        let by_name = granted.each_ref().map(String::as_str);
        let (answers, denied, outcome) = talk(rig, names.network(), &by_name, &sent);
        for pair in answers.chunks(2) {
            assert!(pair[0].starts_with(NOT_GRANTED), "{answers:?}");
            assert_eq!(pair[1], NOT_GRANTED_BY_SOCKS);
        }
        assert_eq!(
            denied,
            [
                format!("net own.test:{port} (127.0.0.1)"),
                format!("net cloud.test:{port} (169.254.169.254)"),
                format!("net b.test:{port}"),
                format!("net localhost:{port}"),
            ]
        );
        assert_eq!((outcome.denied.count, server.connections()), (12, 0));
        // A name without a grant is not even looked up.
        assert!(!names.asked().iter().any(|name| name == "b.test"), "{:?}", names.asked());
        let wider = [by_name[0], by_name[1], "127.0.0.1:*"];
        let (answers, ..) = talk(rig, names.network(), &wider, &sent[..4]);
        let made = [format!("{MADE}hello"), format!("{MADE_BY_SOCKS}hello")];
        assert_eq!(answers, [made.clone(), made].concat());
        // A granted name does not grant its address to requests that use the address.
        let (answers, ..) = talk(
            rig,
            names.network(),
            &by_name,
            &[
                connect(&format!("own.test:{port}"), b""),
                connect(&format!("127.0.0.1:{port}"), b"12345"),
            ],
        );
        assert!(answers.iter().all(|answer| answer.starts_with(NOT_GRANTED)), "{answers:?}");
    });
}

#[test]
fn a_wildcard_stands_for_one_label() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::greeting("127.0.0.1");
        let port = server.port();
        let names = ["x.crates.test", "crates.test", "y.x.crates.test"]
            .iter()
            .fold(Names::default(), |names, name| names.with(name, &[&["127.0.0.1"]]));
        let sent = ["x.crates.test", "crates.test", "y.x.crates.test"]
            .map(|name| connect(&format!("{name}:{port}"), b"12345"));
        let granted = format!("*.crates.test:{port}");
        let (answers, denied, _) = talk(rig, names.network(), &[&granted, "127.0.0.1:*"], &sent);
        assert_eq!(answers[0], format!("{MADE}hello"));
        assert_eq!(
            denied,
            [format!("net crates.test:{port}"), format!("net y.x.crates.test:{port}")]
        );
    });
}

#[test]
fn addresses_are_what_they_mean_in_every_spelling() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::greeting("127.0.0.1");
        let port = server.port();
        let spellings = ["[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1"];
        let mut sent: Vec<Vec<u8>> =
            spellings.iter().map(|host| connect(&format!("{host}:{port}"), b"12345")).collect();
        sent.push(socks("127.1", port, b"12345"));
        sent.push(socks("::ffff:127.0.0.1", port, b"12345"));
        let (answers, ..) = talk(rig, SharedNetwork::default(), &["127.0.0.1:*"], &sent);
        assert!(answers.iter().all(|answer| answer.ends_with("hello")), "{answers:?}");
        let others = ["10.0.0.0/8:*", "[::1]:*", "localhost:*"];
        let (answers, denied, _) = talk(rig, SharedNetwork::default(), &others, &sent);
        assert!(!answers.iter().any(|answer| answer.ends_with("hello")), "{answers:?}");
        assert_eq!(denied, [format!("net 127.0.0.1:{port}")]);
        let literal = connect(&format!("[fd00::1]:{port}"), b"");
        let (answers, denied, _) = talk(rig, SharedNetwork::default(), &others, &[literal]);
        assert!(answers[0].starts_with(NOT_GRANTED), "{answers:?}");
        assert_eq!(denied, [format!("net [fd00::1]:{port}")]);
    });
}

#[test]
fn a_tunnel_to_a_name_is_for_no_other_server_at_its_address() {
    each_user(Sandbox::Require, |rig| {
        let server = listening("127.0.0.1");
        let port = server.port();
        let names = Names::default().with("a.test", &[&["127.0.0.1"]]);
        let (by_name, by_address) = (format!("a.test:{port}"), server.target());
        let (own, other, nobody) = (hello("a.test"), hello("b.test"), hello("127.0.0.1"));
        let mut damaged = own.clone();
        damaged[5] = 2;
        let net = [by_name.as_str(), by_address.as_str()];
        let heard = |sent: &[u8]| sent.escape_ascii().to_string();
        // Data that is not TLS passes, and so does TLS for the peer itself.
        let passing = [
            (by_name.as_str(), own.clone()),
            (&by_name, in_pieces(&own)),
            (&by_name, b"SSH-2.0-x".to_vec()),
            (&by_address, own.clone()),
            (&by_address, nobody.clone()),
        ];
        for (peer, sent) in passing {
            let (answers, denied, _) = talk(rig, names.network(), &net, &[connect(peer, &sent)]);
            assert_eq!((answers, denied), (vec![MADE.to_owned()], vec![]), "{peer}");
            assert_eq!(server.next(), heard(&sent));
        }
        let of_name = |name: &str| format!("net {name}:{port} (TLS in a tunnel to a.test)");
        let refused = [
            (by_name.as_str(), other.clone(), of_name("b.test")),
            (&by_name, in_pieces(&other), of_name("b.test")),
            (&by_name, nobody, format!("net {by_name} (TLS without the name of a server)")),
            (&by_name, damaged, format!("net {by_name} (malformed TLS)")),
            (&by_name, own[..own.len() - 1].to_vec(), format!("net {by_name} (malformed TLS)")),
            (
                &by_name,
                [b"\x15\x03\x01\x00\x02\x01\x5a", &other[..]].concat(),
                format!("net {by_name} (malformed TLS)"),
            ),
            (&by_address, other, format!("net b.test:{port} (TLS in a tunnel to 127.0.0.1)")),
        ];
        for (peer, sent, why) in refused {
            let (_, denied, _) = talk(rig, names.network(), &net, &[connect(peer, &sent)]);
            assert_eq!(denied, [why], "{peer}");
            assert_eq!(server.next(), "", "{peer}");
        }
    });
}

#[test]
fn a_request_for_a_proxy_reaches_its_peer_under_no_other_name_and_alone() {
    each_user(Sandbox::Require, |rig| {
        // The server would continue to use the connection, and reports at its end what it received.
        let server = Server::start("127.0.0.1", |mut stream, events| {
            let mut heard = Vec::new();
            while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut bytes = [0; 1024];
                let length = stream.read(&mut bytes)?;
                if length == 0 {
                    break;
                }
                heard.extend_from_slice(&bytes[..length]);
            }
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
            )?;
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_end(&mut heard)?;
            drop(events.send(String::from_utf8_lossy(&heard).into_owned()));
            Ok(())
        });
        let to = server.target();
        let port = server.port();
        let ask = |request: &str| {
            let sent = request.replace("PEER", &to).into_bytes();
            let (answers, denied, _) = talk(rig, SharedNetwork::default(), &[&to], &[sent]);
            (answers.into_iter().next().expect("an answer"), denied)
        };
        let answered = r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        let (answer, _) =
            ask("GET http://PEER/x?y HTTP/1.1\r\nHost: b.test\r\nHost: c.test\r\nA: b\r\n\r\n\
             GET http://PEER/2 HTTP/1.1\r\n\r\nGET http://b.test/3 HTTP/1.1\r\n\r\n");
        assert_eq!(answer, answered);
        let alone = format!("GET /x?y HTTP/1.1\r\nHost: {to}\r\na: b\r\nconnection: close\r\n\r\n");
        assert_eq!(server.next(), alone);
        let (answer, _) = ask(
            "POST http://PEER/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
             GET http://b.test/ HTTP/1.1\r\n\r\n",
        );
        assert_eq!(answer, answered);
        let heard = server.next();
        assert!(
            !heard.contains("b.test") && heard.contains("transfer-encoding: chunked"),
            "{heard}"
        );
        for (request, status) in [
            ("GET http://127.0.0.2:PORT/ HTTP/1.1\r\nHost: PEER\r\n\r\n", "403"),
            ("GET http://PEER@127.0.0.2:PORT/ HTTP/1.1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: PEER\r\n\r\n", "400"),
            ("GET https://PEER/ HTTP/1.1\r\n\r\n", "400"),
            ("GET http://PEER/ HTTP/1.1\r\nHost : PEER\r\n\r\n", "400"),
            ("GET http://PEER/ HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n", "400"),
            (
                "POST http://PEER/ HTTP/1.1\r\nContent-Length: 3\r\n\
                 Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "400",
            ),
            ("POST http://PEER/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\n", "400"),
            ("CONNECT PEER:80 HTTP/1.1\r\n\r\n", "400"),
        ] {
            let (answer, _) = ask(&request.replace("PORT", &port.to_string()));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
        }
        assert_eq!(server.connections(), 2);
    });
}

#[test]
fn a_head_without_an_end_is_cut_off() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::http("127.0.0.1", |stream: &mut dyn ReadWrite, _| ok(stream, "x"));
        let to = server.target();
        let long = |length: usize| {
            let start = format!("GET http://{to}/ HTTP/1.1\r\nA: ");
            format!("{},61x{length},{}", digits(start.as_bytes()), digits(b"\r\n\r\n"))
        };
        let sent = [
            long(60 << 10),
            long(66 << 10),
            long(1 << 20),
            digits(b"GET http://"),
            digits(b"\x16"),
        ];
        let outcome = rig.run_within(SharedNetwork::default(), &[&to], &rig.intruder(), |call| {
            call.args = sent.iter().map(|sent| format!("talk {RELAY} {sent}").into()).collect();
        });
        let answers: Vec<&str> = text(&outcome.stdout).lines().collect();
        assert!(answers[0].starts_with("HTTP/1.1 200"), "{answers:?}");
        assert!(
            answers[1..].iter().all(|answer| answer.contains("400 Bad Request")),
            "{answers:?}"
        );
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn connections_that_say_nothing_lock_nobody_out_for_long() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::greeting("127.0.0.1");
        let to = server.target();
        let sent = digits(&connect(&to, b"12345"));
        // The number of connections that the relay serves at once.
        let outcome = rig.run_within(SharedNetwork::default(), &[&to], &rig.intruder(), |call| {
            call.args = vec![format!("crowd {RELAY} {sent} 64").into()];
        });
        assert_eq!(text(&outcome.stdout).trim(), format!("{MADE}hello"), "{outcome:?}");
    });
}

#[test]
fn a_thousand_connections_are_served_a_few_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start("127.0.0.1", move |mut stream, _| {
        let at_once = counted.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(at_once, Ordering::SeqCst);
        let answered = stream.read_exact(&mut [0; 5]).and_then(|()| stream.write_all(b"hello"));
        // For the relay, the connection is over once this side has closed.
        counted.fetch_sub(1, Ordering::SeqCst);
        answered
    });
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let to = server.target();
    let sent = digits(&connect(&to, b"12345"));
    let outcome = rig.run_within(SharedNetwork::default(), &[&to], &rig.intruder(), |call| {
        call.args = vec![format!("flood {RELAY} {sent} 1000").into()];
        call.limits.processes = 256;
    });
    assert_eq!(text(&outcome.stdout).trim(), "1000", "{outcome:?}");
    let most = most.load(Ordering::SeqCst);
    assert!((2..=64).contains(&most), "{most} at once");
}

#[test]
fn everything_ends_with_the_call() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::silent("127.0.0.1");
        let to = server.target();
        let sent = digits(&connect(&to, b"12345"));
        let outcome = rig.run_within(SharedNetwork::default(), &[&to], &rig.intruder(), |call| {
            call.args = vec![format!("keep {RELAY} {sent}").into()];
            call.limits.wall_clock = Duration::from_secs(2);
        });
        assert_eq!(outcome.limit, Some(Limit::WallClock), "{outcome:?}");
        assert_eq!((server.next(), server.next()), ("12345".to_owned(), "left".to_owned()));
    });
}

#[test]
fn a_tool_finds_the_relay_by_its_environment_and_no_proxy_of_the_hosts() {
    each_user(Sandbox::Require, |rig| {
        let tool = rig.script("env | grep -i -e proxy | sort");
        let outcome = rig.run_within(SharedNetwork::default(), &["a.test:443"], &tool, |call| {
            let grant = Arc::make_mut(&mut call.grant);
            grant.env.push(("https_proxy".into(), "http://proxy.corp:8080".into()));
            grant.env.push(("NO_PROXY".into(), "*".into()));
        });
        let lines: Vec<&str> = text(&outcome.stdout).lines().collect();
        let mut expected = vec!["NODE_USE_ENV_PROXY=1", "NO_PROXY=", "no_proxy="];
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"]
            .map(|name| format!("{name}=http://{RELAY}"));
        expected.extend(proxies.iter().map(String::as_str));
        assert!(expected.iter().all(|line| lines.contains(line)), "{lines:?}");
        assert_eq!(lines.len(), 9, "{lines:?}");
        // Without granted peers, the environment names no proxy.
        let outcome = rig.run_within(SharedNetwork::default(), &[], &tool, |_| {});
        assert_eq!(text(&outcome.stdout), "");
    });
}

#[test]
fn without_a_network_namespace_nothing_is_reached_and_what_requires_it_is_not_started() {
    each_user(Sandbox::Require, |rig| {
        let server = Server::greeting("127.0.0.1");
        let to: SocketAddr = server.address;
        let net = [to.to_string()];
        let net = net.each_ref().map(String::as_str);
        let attempts = [
            format!("talk {RELAY} {}", digits(&connect(net[0], b"12345"))),
            format!("talk {to} {}", digits(b"12345")),
        ];
        let run = |rig: &Rig, sandbox| {
            let outcome = rig.run_within(SharedNetwork::default(), &net, &rig.intruder(), |call| {
                Arc::make_mut(&mut call.grant).sandbox = sandbox;
                call.args = attempts.iter().map(Into::into).collect();
            });
            let said = text(&outcome.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
            (said, outcome)
        };
        let (said, _) = run(rig, Sandbox::Require);
        assert!(said[0].ends_with("hello") && said[1].contains("os error"), "{said:?}");
        let lacking = rig.lacking(OmittedLayers { namespaces: true, ..OmittedLayers::default() });
        let (said, outcome) = run(&lacking, Sandbox::Prefer);
        assert_eq!(said.len(), 2, "{outcome:?}");
        assert!(said.iter().all(|said| said.contains("os error")), "{said:?}");
        let (_, outcome) = run(&lacking, Sandbox::Require);
        let Exit::NotStarted(reason) = &outcome.exit else { panic!("it ran: {outcome:?}") };
        assert!(reason.contains("the peers of `net` cannot be reached"), "{reason}");
        assert_eq!(server.connections(), 1);
    });
}

/// A server of the files below `root`. For a directory, it returns the list.
fn serving(root: &Path) -> Server {
    let root = root.to_owned();
    Server::http("127.0.0.1", move |stream: &mut dyn ReadWrite, path| {
        answer_with_file(&root, stream, path)
    })
}

/// Answers a request for a file below `root`, or for a directory's list. The connection ends after
/// the answer.
pub(super) fn answer_with_file(
    root: &Path,
    stream: &mut dyn ReadWrite,
    path: &str,
) -> io::Result<()> {
    let path = path.split('?').next().unwrap_or(path).trim_start_matches('/');
    let (file, kind) = match path.strip_suffix('/') {
        Some(directory) => (root.join(directory).join("list.html"), "text/html"),
        None => (root.join(path), "application/octet-stream"),
    };
    let (status, content) = match fs::read(file) {
        Ok(content) => ("200 OK", content),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = content.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    )?;
    stream.write_all(&content)
}

/// Makes a git repository with the file `file`, whose directory can be served unchanged.
pub(super) fn repository() -> TempDir {
    let repository = tempfile::tempdir().expect("a directory");
    let root = repository.path();
    let git = |args: &[&str]| {
        let ran = Command::new("git").arg("-C").arg(root).args(args).env("HOME", root).output();
        let ran = ran.expect("git");
        assert!(ran.status.success(), "{args:?}: {ran:?}");
    };
    git(&["init", "-q", "."]);
    fs::write(root.join("file"), "from afar\n").expect("written");
    git(&["add", "file"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b.test", "commit", "-q", "-m", "x"]);
    git(&["update-server-info"]);
    repository
}

/// Runs each script with a grant of the server, and without one.
fn assert_only_granted(rig: &Rig, server: &Server, scripts: &[(String, &str)]) {
    let to = server.target();
    // Cargo and its compiler belong to a user, so their directory must be granted.
    let toolchain = Path::new(env!("CARGO")).ancestors().nth(2).expect("a toolchain");
    for (script, said) in scripts {
        let bin = toolchain.join("bin");
        let path = format!("/usr/bin:$PATH:{}", bin.display());
        let tool = rig.script(&format!("export HOME=/tmp PATH={path}; {script}"));
        let run = |net: &[&str]| {
            rig.run_within(SharedNetwork::default(), net, &tool, |call| {
                let toolchain = GrantedDir { access: Access::ReadOnly, path: toolchain.to_owned() };
                Arc::make_mut(&mut call.grant).dirs.push(toolchain);
            })
        };
        let outcome = run(&[&to]);
        assert_eq!(text(&outcome.stdout).trim(), *said, "{script}: {outcome:?}");
        let outcome = run(&["127.0.0.1:1"]);
        assert_ne!(text(&outcome.stdout).trim(), *said, "{script}: {outcome:?}");
        assert_eq!(outcome.denied.first, [format!("net {to}")], "{script}");
    }
}

#[test]
fn programs_find_their_way_without_being_told() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let repository = repository();
    let server = serving(repository.path());
    let to = server.target();
    let scripts = [
        (format!("git clone -q http://{to}/.git /tmp/out && cat /tmp/out/file"), "from afar"),
        (
            format!(
                "python3 -c 'import urllib.request as r; \
                 print(r.urlopen(\"http://{to}/file\").read().decode())'"
            ),
            "from afar",
        ),
    ];
    assert_only_granted(&rig, &server, &scripts);
}

/// Creates the package `pkg` for the registries of three package managers.
const REGISTRIES: &str = include_str!("registries.py");

#[test]
fn package_managers_install_from_the_granted_registry() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let registries = tempfile::tempdir().expect("a directory");
    let server = serving(registries.path());
    let to = server.target();
    let mut made = Command::new("python3");
    let ran = made.args(["-c", REGISTRIES]).arg(registries.path()).arg(&to).output();
    let ran = ran.expect("python3");
    assert!(ran.status.success(), "{ran:?}");
    let scripts = [
        (
            format!(
                "python3 -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 \
                 --root-user-action ignore --index-url http://{to}/simple --target /tmp/out pkg \
                 && cat /tmp/out/pkg/__init__.py"
            ),
            "# from pip",
        ),
        (
            format!(
                "npm install --silent --no-audit --no-fund --fetch-retries=0 --prefix=/tmp/out \
                 --registry=http://{to}/ pkg && cat /tmp/out/node_modules/pkg/said"
            ),
            "from npm",
        ),
        (
            format!(
                "mkdir -p /tmp/out/src && cd /tmp/out && touch src/lib.rs && printf \
                 '[package]\\nname = \"out\"\\n[dependencies]\\npkg = {{ version = \"1\", registry = \"own\" }}\\n' \
                 >Cargo.toml && export CARGO_HOME=/tmp/cargo CARGO_NET_RETRY=0 \
                 CARGO_REGISTRIES_OWN_INDEX=sparse+http://{to}/index/ \
                 && cargo fetch -q && cat /tmp/cargo/registry/src/*/pkg-1.2.3/src/lib.rs"
            ),
            "// from cargo",
        ),
    ];
    assert_only_granted(&rig, &server, &scripts);
}
