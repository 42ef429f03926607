//! The network as components use it: only the granted peers. Each way around a grant is also tried
//! with a wider grant, to prove that it leads somewhere.

#![cfg(target_os = "linux")]

mod rig;

use std::io::Read as _;
use std::net::UdpSocket;
use std::time::Duration;

use ikigai_host::exec::wasm::SharedNetwork;
use ikigai_host::limits::Limit;
use ikigai_tests::host::Host;
use ikigai_tests::wait::TIMEOUT;
use rcgen::CertificateParams;
use rig::{Names, Never, ReadWrite, Rig, Server, ok, udp_echo};

/// Every address of this machine's loopback, on every port.
const LOOPBACK: &str = "127.0.0.0/8:*";

#[test]
fn connections_reach_the_granted_addresses_and_ports_alone() {
    let rig = Rig::new();
    let servers = ["127.0.0.1", "127.0.0.1", "127.0.0.2"].map(Server::greeting);
    let targets = servers.each_ref().map(Server::target);
    let targets = targets.each_ref().map(String::as_str);
    let all = targets.join(" ");
    let reached = |net: &[&str]| {
        let seen = rig.run(net, "tcp", &all);
        let reached = seen.reached(&targets);
        let connected: Vec<bool> = servers.iter().map(|it| it.connections() > 0).collect();
        assert_eq!(connected, reached, "{:?}", seen.outcome);
        (reached, seen)
    };
    assert_eq!(reached(&[LOOPBACK]).0, [true, true, true]);
    assert_eq!(reached(&["127.0.0.0/24:*"]).0, [true, true, true]);
    assert_eq!(reached(&["127.0.0.1:*"]).0, [true, true, false]);
    let (one, seen) = reached(&[targets[0]]);
    assert_eq!(one, [true, false, false]);
    assert_eq!(seen.denied(), [format!("net {}", targets[1]), format!("net {}", targets[2])]);
    assert_eq!(seen.get(targets[1]), "Permission denied (os error 2)");
    // `*` grants public addresses, which do not include the machine's own.
    assert_eq!(reached(&["*"]).0, [false, false, false]);
    assert_eq!(reached(&["0.0.0.0:*", "[::]:*", "10.0.0.0/8:*"]).0, [false, false, false]);
    let (none, seen) = reached(&[]);
    assert_eq!(none, [false, false, false]);
    assert_eq!((seen.denied(), seen.outcome.denied.count), (vec!["net tcp"], 3));
}

#[test]
fn other_spellings_of_an_address_open_nothing() {
    let rig = Rig::new();
    let server = Server::greeting("127.0.0.1");
    let port = server.port();
    let spellings = [
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::127.0.0.1]:{port}"),
        format!("[64:ff9b::127.0.0.1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        format!("127.1:{port}"),
    ];
    let spellings = spellings.each_ref().map(String::as_str);
    // None of these grants contains the address, and to the system some of the spellings mean it.
    for net in [&[][..], &["*"], &["128.0.0.1:*"]] {
        let seen = rig.run(net, "tcp", &spellings.join(" "));
        assert!(!seen.reached(&spellings).contains(&true), "{:?}", seen.outcome);
        assert_eq!(server.connections(), 0);
    }
    // With a grant of the address, the spellings that the system understands connect to it.
    let seen = rig.run(&[LOOPBACK], "tcp", &spellings.join(" "));
    assert_eq!(seen.reached(&spellings)[5..], [true, true, true], "{:?}", seen.outcome);
}

#[test]
fn a_name_opens_no_address_that_would_have_to_be_named() {
    let server = Server::greeting("127.0.0.1");
    let by_name = format!("a.test:{}", server.port());
    let (name, address) = (by_name.as_str(), server.target());
    let names = Names::default().with("a.test", &[&["127.0.0.1"]]);
    let rig = Rig::within(names.network());
    for (net, expected) in [
        (&[name][..], false),
        (&[name, "*"], false),
        (&[name, "10.0.0.0/8:*"], false),
        (&[name, "127.0.0.1:1"], false),
        (&[name, &address], true),
        (&["a.test:*", LOOPBACK], true),
        (&["*", &address], true),
    ] {
        let seen = rig.run(net, "tcp", name);
        assert_eq!(seen.reached(&[name]), [expected], "{net:?} {:?}", seen.outcome);
        assert_eq!(server.connections() > 0, expected, "{net:?}");
        if !expected {
            assert_eq!(seen.outcome.denied.count, 1, "{:?}", seen.outcome.denied);
        }
    }
    // `localhost` is a name like any other.
    let rig = Rig::new();
    let local = format!("localhost:{}", server.port());
    let seen = rig.run(&[&local], "tcp", &local);
    assert_eq!((seen.reached(&[&local]), server.connections()), (vec![false], 0));
    let seen = rig.run(&[&local, &address], "tcp", &local);
    assert_eq!(seen.reached(&[&local]), [true], "{:?}", seen.outcome);
}

#[test]
fn a_name_that_is_not_granted_is_never_looked_up() {
    let names =
        Names::default().with("a.test", &[&["127.0.0.1"]]).with("secret.b.test", &[&["127.0.0.1"]]);
    let rig = Rig::within(names.network());
    let tried = "a.test A.TEST. secret.b.test x.a.test localhost";
    // With everything granted, every name is looked up.
    rig.run(&["*", LOOPBACK], "lookup", tried);
    assert_eq!(names.asked(), ["a.test", "a.test", "secret.b.test", "x.a.test", "localhost"]);
    let seen = rig.run(&["a.test:80", "127.0.0.1:*"], "lookup", tried);
    assert_eq!(seen.get("A.TEST."), "found 127.0.0.1");
    assert_eq!(names.asked()[5..], ["a.test", "a.test"]);
    assert_eq!(seen.denied(), ["net secret.b.test", "net x.a.test", "net localhost"]);
    // Requests over HTTP do not look up other names either.
    rig.run(&["a.test:80"], "get", "http://secret.b.test/ https://a.test/ http://a.test:81/");
    rig.run(&[], "lookup", tried);
    rig.run(&[], "get", "http://a.test/");
    assert_eq!(names.asked().len(), 7);
}

#[test]
fn nothing_listens_whatever_is_granted() {
    let rig = Rig::new();
    let places = ["0.0.0.0:0", "127.0.0.1:0", "[::]:0", "[::1]:0"];
    for net in [&[][..], &["*"], &["0.0.0.0/0:*", "[::/0]:*"]] {
        let seen = rig.run(net, "listen", &places.join(" "));
        let all: Vec<String> = places.iter().map(|it| format!("tcp {it}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert!(!seen.reached(&all).contains(&true), "{net:?} {:?}", seen.outcome);
        // A socket that sends datagrams may be bound to a port that the system chooses.
        let bound = seen.reached(&["udp 0.0.0.0:0", "udp 127.0.0.1:0", "udp [::1]:0"]);
        assert_eq!(bound, [!net.is_empty(), false, false], "{net:?} {:?}", seen.outcome);
    }
}

#[test]
fn every_datagram_is_checked() {
    let rig = Rig::new();
    let servers = ["127.0.0.1", "127.0.0.2"].map(udp_echo);
    let targets = servers.each_ref().map(Server::target);
    let both = targets.join(" ");
    let seen = rig.run(&[LOOPBACK], "udp", &both);
    assert_eq!(seen.reached(&targets.each_ref().map(String::as_str)), [true, true]);
    assert_eq!(servers[1].datagrams(), ["hello"]);
    let stray = format!("free {}", targets[1]);
    let seen = rig.run(&[LOOPBACK], "udp_strays", &both);
    assert_eq!(seen.reached(&["connected", &stray]), [true, true], "{:?}", seen.outcome);
    assert!(!servers[1].datagrams().is_empty());

    let seen = rig.run(&[&targets[0]], "udp_strays", &both);
    let free = format!("free {}", targets[0]);
    let connected = format!("connected {}", targets[1]);
    let reached = seen.reached(&["connected", &free, &connected, &stray]);
    assert_eq!(reached, [true, true, false, false], "{:?}", seen.outcome);
    assert_eq!(servers[1].datagrams(), [""; 0]);
    assert!(seen.denied().contains(&format!("net {}", targets[1]).as_str()));
    rig.run(&[], "udp_strays", &both);
    assert_eq!(servers[1].datagrams(), [""; 0]);
}

#[test]
fn datagrams_of_strangers_do_not_arrive() {
    let rig = Rig::new();
    let friend = UdpSocket::bind("127.0.0.1:0").expect("bound");
    friend.set_read_timeout(Some(TIMEOUT)).expect("set");
    let stranger = UdpSocket::bind("127.0.0.2:0").expect("bound");
    let address = friend.local_addr().expect("an address").to_string();
    for (net, expected) in [([LOOPBACK], "from a stranger"), ([address.as_str()], "from a friend")]
    {
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut port = [0; 16];
                let (length, _) = friend.recv_from(&mut port).expect("the guest tells its port");
                let port = std::str::from_utf8(&port[..length]).expect("digits");
                let guest = ("127.0.0.1", port.parse().expect("a port"));
                stranger.send_to(b"from a stranger", guest).expect("sent");
                friend.send_to(b"from a friend", guest).expect("sent");
            });
            rig.run(&net, "udp_listens", &address).get("heard")
        });
        assert_eq!(heard, expected);
    }
}

#[test]
fn sockets_are_counted_with_files() {
    let rig = Rig::new();
    let server = Server::silent("127.0.0.1");
    // A guest's table must have room for the streams of all sockets, because without it the guest
    // would trap.
    for handles in [10, 40] {
        let seen = rig.run_with(&[LOOPBACK], "sockets", &server.target(), |call| {
            call.limits.handles = handles;
        });
        assert_eq!(seen.get("open"), handles.to_string());
        assert!(seen.get("refused").contains("No file descriptors"), "{:?}", seen.outcome);
        assert_eq!(seen.get("again"), "REACHED");
    }
}

#[test]
fn a_socket_takes_little_memory_of_the_kernel() {
    let seen = Rig::new().run(&[LOOPBACK], "buffers", "-");
    for kind in ["tcp", "udp"] {
        assert_eq!(seen.get(kind), "[Ok(()), Ok(())] [Ok(131072), Ok(131072)]", "{kind}");
    }
    assert_eq!(seen.get("smaller"), "[Ok(()), Ok(())] [Ok(9000), Ok(9000)]");
    let memory = seen.outcome.isolation.as_ref().expect("it ran").memory.as_str();
    assert_eq!(memory, "partial");
}

#[test]
fn a_peer_that_is_silent_is_waited_for_no_longer_than_the_call_lasts() {
    let rig = Rig::new();
    let server = Server::silent("127.0.0.1");
    for (mode, target) in [("hang", server.target()), ("get", server.url("/"))] {
        let seen = rig.run_with(&[LOOPBACK], mode, &target, |call| {
            call.limits.wall_clock = Duration::from_millis(700);
        });
        assert_eq!(seen.outcome.limit, Some(Limit::WallClock), "{:?}", seen.outcome);
        // The end of the call closes its connection.
        while server.next() != "left" {}
        let seen = rig.run_until(&[LOOPBACK], mode, &target, &server.events);
        assert!(seen.outcome.cancelled, "{:?}", seen.outcome);
        while server.next() != "left" {}
    }
}

#[test]
fn a_name_that_nobody_answers_for_is_waited_for_no_longer_than_the_call_lasts() {
    let rig = Rig::within(SharedNetwork::default().resolving_with(Never));
    for (mode, target) in [("lookup", "a.test"), ("get", "http://a.test/")] {
        let seen = rig.run_with(&["a.test:80"], mode, target, |call| {
            call.limits.wall_clock = Duration::from_millis(500);
        });
        assert_eq!(seen.outcome.limit, Some(Limit::WallClock), "{:?}", seen.outcome);
    }
}

#[test]
fn requests_reach_the_granted_peers_alone() {
    let rig = Rig::new();
    let servers = ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
        .map(|ip| Server::http(ip, |stream, path| ok(stream, path)));
    let urls = servers.each_ref().map(|server| server.url("/a?b"));
    let get = |net: &[&str]| {
        let seen = rig.run(net, "get", &urls.join(" "));
        let came: Vec<String> = urls.iter().map(|url| seen.get(url)).collect();
        let connected: Vec<bool> = servers.iter().map(|it| it.connections() > 0).collect();
        assert_eq!(connected, came.iter().map(|it| it == "200 /a?b").collect::<Vec<_>>());
        (came, seen)
    };
    assert_eq!(get(&[LOOPBACK]).0, ["200 /a?b"; 3]);
    let head = servers[0].next();
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", servers[0].address)), "{head}");
    let (came, seen) = get(&[&servers[0].target()]);
    assert_eq!(came[1..], ["ErrorCode::HttpRequestDenied"; 2]);
    let refused = servers[1..].iter().map(|it| format!("net {}", it.address));
    assert_eq!(seen.denied(), refused.collect::<Vec<_>>());
    assert_eq!(get(&["*"]).0, ["ErrorCode::HttpRequestDenied"; 3]);
    assert_eq!(get(&[]).0, ["ErrorCode::HttpRequestDenied"; 3]);
}

#[test]
fn a_redirection_leads_nowhere_that_is_not_granted() {
    let rig = Rig::new();
    let secret = Server::http("127.0.0.2", |stream, _| ok(stream, "secret"));
    let inside = secret.url("/");
    let server = Server::http("127.0.0.1", {
        let inside = inside.clone();
        move |stream, _| {
            write!(stream, "HTTP/1.1 302 Found\r\nlocation: {inside}\r\ncontent-length: 0\r\n\r\n")
        }
    });
    let seen = rig.run(&[LOOPBACK], "follow", &server.url("/"));
    assert_eq!(seen.get(&inside), "200 secret");
    assert_eq!(secret.connections(), 1);
    let seen = rig.run(&[&server.target()], "follow", &server.url("/"));
    assert_eq!(
        (seen.get(&server.url("/")), seen.get(&inside)),
        ("302".into(), "ErrorCode::HttpRequestDenied".into())
    );
    assert_eq!(secret.connections(), 0);
    assert_eq!(seen.denied(), [format!("net {}", secret.address)]);
}

#[test]
fn a_name_that_changes_its_address_takes_nobody_inside() {
    let servers = ["127.0.0.1", "127.0.0.2"];
    let [server, inside] = servers.map(|ip| Server::http(ip, move |stream, _| ok(stream, ip)));
    // Both addresses have a server on the same port, as in an attack.
    let inside_at = |port: u16| std::net::TcpListener::bind(("127.0.0.2", port));
    let second = inside_at(server.port()).expect("bound");
    drop(inside);
    let url = format!("http://a.test:{}/", server.port());
    let answers: &[&[&str]] = &[&["127.0.0.1"], &["127.0.0.2"]];
    let name = format!("a.test:{}", server.port());
    let get_twice = |net: &[&str]| {
        let names = Names::default().with("a.test", answers);
        let rig = Rig::within(names.network());
        let first = rig.run(net, "get", &url).get(&url);
        assert_eq!((first.as_str(), names.asked().len()), ("200 127.0.0.1", 1));
        (rig, names)
    };
    // A request resolves its name once, and connects to the address that was checked. The second
    // answer, which leads inside, is checked as well.
    let (rig, names) = get_twice(&[&name, &server.target()]);
    let seen = rig.run(&[&name, &server.target()], "get", &url);
    assert_eq!(seen.get(&url), "ErrorCode::DestinationIpProhibited");
    assert_eq!(
        (names.asked().len(), seen.denied()),
        (2, vec![format!("net {name} (127.0.0.2)").as_str()])
    );
    second.set_nonblocking(true).expect("set");
    assert!(second.accept().is_err());
    second.set_nonblocking(false).expect("set");
    // With a grant of the address, the request reaches it.
    let (rig, _) = get_twice(&[&name, LOOPBACK]);
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = second.accept().expect("connected");
        let _ = stream.read(&mut [0; 1024]);
        let _ = ok(&mut stream, "inside");
    });
    assert_eq!(rig.run(&[&name, LOOPBACK], "get", &url).get(&url), "200 inside");
    answering.join().expect("answered");
}

#[test]
fn a_request_says_whom_it_is_for_and_cannot_say_otherwise() {
    let rig = Rig::new();
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let other = Server::http("127.0.0.2", |stream, path| ok(stream, path));
    let seen = rig.run(&[LOOPBACK], "forge", &server.url("/"));
    let forged = [
        "host",
        "Host",
        "transfer-encoding",
        "connection",
        "upgrade",
        "proxy-connection",
        "a header in a header",
        "connect",
        "connect by name",
        "a method with a line in it",
        "another URL as the path",
        "a path with a line in it",
        "no authority",
        "no scheme",
    ];
    assert!(!seen.reached(&forged).contains(&true), "{:?}", seen.outcome);
    assert_eq!(server.connections(), 0);
    // Each of these URLs has two candidates for the host.
    let tricks = [
        format!("http://{}@{}/", server.address, other.address),
        format!("http://user:secret@{}/", other.address),
        format!("http://{}:{}/", server.address, other.port()),
        "http://:80/".to_owned(),
    ];
    let seen = rig.run(&[LOOPBACK], "get", &tricks.join(" "));
    for trick in &tricks {
        assert_eq!(seen.get(trick), "ErrorCode::HttpRequestUriInvalid");
    }
    assert_eq!((server.connections(), other.connections()), (0, 0));
}

#[test]
fn what_a_server_sends_is_bounded() {
    let rig = Rig::new();
    let server = Server::http("127.0.0.1", |stream, path| match path {
        "/headers" => {
            write!(stream, "HTTP/1.1 200 OK\r\n")?;
            (0..).try_for_each(|n| write!(stream, "x{n}: {}\r\n", "y".repeat(1000)))
        }
        "/header" => {
            write!(stream, "HTTP/1.1 200 OK\r\nx: ")?;
            (0..).try_for_each(|_: u64| write!(stream, "{}", "y".repeat(1000)))
        }
        "/flood" => {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
            (0..).try_for_each(|_: u64| stream.write_all(&[b'y'; 1 << 16]))
        }
        "/short" => write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"),
        "/nonsense" => write!(stream, "nonsense\r\n\r\n"),
        "/nothing" => Ok(()),
        other => ok(stream, other),
    });
    let get = |path: &str| rig.run(&[LOOPBACK], "get", &server.url(path)).get(&server.url(path));
    assert_eq!(get("/headers"), "ErrorCode::HttpResponseHeaderSectionSize(None)");
    assert_eq!(get("/header"), "ErrorCode::HttpResponseHeaderSectionSize(None)");
    assert_eq!(get("/nonsense"), "ErrorCode::HttpProtocolError");
    assert_eq!(get("/nothing"), "ErrorCode::HttpResponseIncomplete");
    assert!(get("/short").starts_with("200 broken"));
    let seen = rig.run_with(&[LOOPBACK], "hoard", &server.url("/flood"), |call| {
        call.limits.wasm_memory = 32 << 20;
    });
    assert_eq!(seen.outcome.limit, Some(Limit::Memory), "{:?}", seen.outcome);
    assert_eq!(get("/after"), "200 /after");
}

#[test]
fn a_guest_may_have_a_shorter_timeout_than_its_call() {
    let rig = Rig::new();
    // Waits until the guest closes the connection.
    let wait = |stream: &mut dyn ReadWrite| stream.read(&mut [0; 1]).map(drop);
    let server = Server::http("127.0.0.1", move |stream, path| {
        if path == "/halfway" {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort")?;
            stream.flush()?;
        }
        wait(stream)
    });
    let seen = rig.run(&[LOOPBACK], "impatient", &server.url("/"));
    assert_eq!(seen.get("first"), "ErrorCode::ConnectionReadTimeout");
    assert!(seen.get("between").starts_with("200 broken"), "{:?}", seen.outcome);
}

#[test]
fn connections_of_one_guest_are_counted() {
    let rig = Rig::new();
    let server = Server::http("127.0.0.1", |stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")?;
        stream.flush()?;
        stream.read(&mut [0; 1]).map(drop)
    });
    let seen = rig.run(&[LOOPBACK], "connections", &server.url("/"));
    let came = ["open", "refused", "again"].map(|it| seen.get(it));
    assert_eq!(came, ["32", "ErrorCode::ConnectionLimitReached", "200"]);
}

/// Starts a server with a certificate for `a.test`, and returns the authority that signed it.
fn tls_server(ip: &str) -> (Vec<u8>, Server) {
    let authority = CertificateParams::default();
    Server::https(ip, authority, &["a.test"], |stream, path| ok(stream, path))
}

#[test]
fn a_server_must_prove_its_name() {
    let (authority, server) = tls_server("127.0.0.1");
    let (other_authority, _) = tls_server("127.0.0.1");
    let names =
        Names::default().with("a.test", &[&["127.0.0.1"]]).with("b.test", &[&["127.0.0.1"]]);
    let get = |network: SharedNetwork, url: &str| {
        Rig::within(network).run(&["*", LOOPBACK], "get", url).get(url)
    };
    let url = |host: &str| format!("https://{host}:{}/", server.port());
    let trusted = || names.network().trusting(vec![authority.clone()]);
    assert_eq!(get(trusted(), &url("a.test")), "200 /");
    // The certificate is for a name, not for an address.
    assert_eq!(get(trusted(), &url("b.test")), "ErrorCode::TlsCertificateError");
    assert_eq!(get(trusted(), &url("127.0.0.1")), "ErrorCode::TlsCertificateError");
    let other = names.network().trusting(vec![other_authority]);
    assert_eq!(get(other, &url("a.test")), "ErrorCode::TlsCertificateError");
    let none = get(names.network().trusting(Vec::new()), &url("a.test"));
    assert!(none.contains("no certificates to trust"), "{none}");
    // This server does not use TLS.
    let plain = Server::greeting("127.0.0.1");
    let plain = format!("https://a.test:{}/", plain.port());
    assert_eq!(get(trusted(), &plain), "ErrorCode::TlsProtocolError");
}

#[test]
fn a_tool_with_http_is_listed_and_refused_before_anything_is_granted() {
    let host = Host::without_system_tools();
    host.guest("caller");
    let listed = host.run(["tool", "list"]).expect_code(0);
    assert!(listed.stdout().contains("_caller"), "{listed}");
    let server = Server::http("127.0.0.1", |stream, path| ok(stream, path));
    let url = server.url("/");
    let arguments = format!("{{\"mode\":\"get\",\"path\":\"{url}\"}}");
    let ran = host.run(["tool", "call", "_caller", &arguments]).expect_code(0);
    assert_eq!(ran.json()["result"][&url], "ErrorCode::HttpRequestDenied", "{ran}");
    assert_eq!(server.connections(), 0);
    let told = host.run(["audit", "--tail", "1", "--json"]).expect_code(0).json();
    assert_eq!(told["denied"], serde_json::json!([format!("net {}", server.address)]), "{told}");
}
