//! What components reach of the network: what they are granted, and nothing else. Each
//! way round a grant is first shown to lead somewhere once more is granted.

#![cfg(target_os = "linux")]

#[path = "network/rig.rs"]
mod rig;

use std::net::UdpSocket;
use std::time::Duration;

use ikigai::limits::Limit;
use rig::{Names, PATIENCE, Rig, Server, udp_echo};

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
    assert_eq!(seen.of(targets[1]), "Permission denied (os error 2)");
    // Public addresses do not hold the machine itself.
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
    // Without a grant of the address; some of them are spellings of it to the system.
    for net in [&[][..], &["*"], &["128.0.0.1:*"]] {
        let seen = rig.run(net, "tcp", &spellings.join(" "));
        assert!(!seen.reached(&spellings).contains(&true), "{:?}", seen.outcome);
        assert_eq!(server.connections(), 0);
    }
    // With it, the ones that the system understands lead there.
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
    // `localhost` is a name like others.
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
    // Everything may be looked up, and is.
    rig.run(&["*", LOOPBACK], "lookup", tried);
    assert_eq!(names.asked(), ["a.test", "a.test", "secret.b.test", "x.a.test", "localhost"]);
    let seen = rig.run(&["a.test:80", "127.0.0.1:*"], "lookup", tried);
    assert_eq!(seen.of("A.TEST."), "found 127.0.0.1");
    assert_eq!(names.asked()[5..], ["a.test", "a.test"]);
    assert_eq!(seen.denied(), ["net secret.b.test", "net x.a.test", "net localhost"]);
    rig.run(&[], "lookup", tried);
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
        // A socket that datagrams are sent from is bound to nothing in particular.
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
    let told = UdpSocket::bind("127.0.0.1:0").expect("bound");
    told.set_read_timeout(Some(PATIENCE)).expect("set");
    let stranger = UdpSocket::bind("127.0.0.2:0").expect("bound");
    let address = told.local_addr().expect("an address").to_string();
    for (net, expected) in [([LOOPBACK], "from a stranger"), ([address.as_str()], "from a friend")]
    {
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut port = [0; 16];
                let (length, _) = told.recv_from(&mut port).expect("the guest tells its port");
                let port = std::str::from_utf8(&port[..length]).expect("digits");
                let guest = ("127.0.0.1", port.parse().expect("a port"));
                stranger.send_to(b"from a stranger", guest).expect("sent");
                told.send_to(b"from a friend", guest).expect("sent");
            });
            rig.run(&net, "udp_listens", &address).of("heard")
        });
        assert_eq!(heard, expected);
    }
}

#[test]
fn sockets_are_counted_with_files() {
    let rig = Rig::new();
    let server = Server::silent("127.0.0.1");
    let seen = rig.run_with(&[LOOPBACK], "sockets", &server.target(), |call| {
        call.limits.handles = 10;
    });
    assert_eq!(seen.of("open"), "10");
    assert!(seen.of("refused").contains("No file descriptors"), "{:?}", seen.outcome);
    assert_eq!(seen.of("again"), "REACHED");
}

#[test]
fn a_peer_that_is_silent_is_waited_for_no_longer_than_the_call_lasts() {
    let rig = Rig::new();
    let server = Server::silent("127.0.0.1");
    let seen = rig.run_with(&[LOOPBACK], "hang", &server.target(), |call| {
        call.limits.wall_clock = Duration::from_millis(700);
    });
    assert_eq!(seen.outcome.limit, Some(Limit::WallClock), "{:?}", seen.outcome);
    // Nothing of the call is left: its connection is closed.
    while server.next() != "left" {}
    let seen = rig.run_until(&[LOOPBACK], "hang", &server.target(), &server.events);
    assert!(seen.outcome.cancelled, "{:?}", seen.outcome);
    while server.next() != "left" {}
}
