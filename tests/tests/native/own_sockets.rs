//! Tools with their own sockets: they can connect only to themselves, and within bounds.

use std::fs;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::{Call, Exit, Outcome};
use ikigai_host::limits::Limit;
use ikigai_host::policy::{Grant, Net, Sandbox};
use ikigai_supervisor::isolation::LimitEnforcer;
use ikigai_tests::mode::permit;

use super::limits::Guard;
use super::rig::{Rig, each_user, text};

/// Grants a call its own sockets.
fn grant(call: &mut Call) {
    Arc::make_mut(&mut call.grant).own_sockets = true;
}

/// Grants a call its own sockets and its own home directory.
fn grant_with_home(call: &mut Call) {
    grant(call);
    let home = ("HOME".into(), "/home/somebody".into());
    Arc::make_mut(&mut call.grant).env.push(home);
}

/// Makes these attempts in a call with its own sockets, and returns the report of each.
fn ask(rig: &Rig, attempts: &[String], adjust: impl FnOnce(&mut Call)) -> Vec<String> {
    let outcome = rig.run(&rig.intruder(), |call| {
        grant(call);
        call.args = attempts.iter().map(Into::into).collect();
        adjust(call);
    });
    reports(&outcome)
}

fn reports(outcome: &Outcome) -> Vec<String> {
    assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
    text(&outcome.stdout).lines().map(ToOwned::to_owned).collect()
}

fn words(attempts: &[&str]) -> Vec<String> {
    attempts.iter().map(|attempt| (*attempt).to_owned()).collect()
}

/// Runs the case for each user whose calls have a control group that counts their memory. Other
/// users' calls get no sockets.
fn each_counted_user(case: impl Fn(&Rig)) {
    each_user(Sandbox::Require, |rig| {
        let outcome = rig.run(&rig.script("exit 0"), |_| {});
        let kept_by = outcome.isolation.expect("it ran").kept_by;
        if kept_by.memory.first() == Some(&LimitEnforcer::Cgroup) {
            case(rig);
            return;
        }
        ikigai_tests::impossible_here("sockets of a tool whose memory no control group counts");
        let refused = ask(rig, &words(&["own-server", "own-udp", "own-unix /tmp/own"]), |_| {});
        assert!(refused.iter().all(|report| report.contains("os error 1)")), "{refused:?}");
    });
}

const OWN: [&str; 8] = [
    "own-server",
    "own-udp",
    "own-unix /tmp/own",
    "own-unix /dev/shm/own",
    // This path makes the address as long as an IPv4 or IPv6 address.
    "own-unix /tmp/a-name-abc",
    "own-abstract a-name",
    "own-packets /tmp/packets",
    "own-queue /tmp/queue",
];

/// Returns these attempts and two in the workspace, whose files do not exist yet.
fn own(rig: &Rig) -> Vec<String> {
    let place = rig.path("own.sock");
    let _ = fs::remove_file(&place);
    let _ = fs::remove_file(rig.path("relative"));
    let here = [format!("own-unix {}", place.display()), "own-unix relative".to_owned()];
    words(&OWN).into_iter().chain(here).collect()
}

#[test]
fn a_tool_reaches_its_own_servers() {
    each_counted_user(|rig| {
        for net in [&[][..], &["a.test:1"]] {
            let attempts = own(rig);
            let reached = ask(rig, &attempts, |call| {
                let net = Net::parse(net.iter().copied()).expect("a list");
                call.grant = Arc::new(Grant { net, ..(*call.grant).clone() });
            });
            let expected = vec!["reached"; attempts.len()];
            assert_eq!(reached, expected, "{net:?}, root: {}", rig.is_root());
        }
        let attempts = own(rig);
        let (outcome, seen) = rig.watch(&rig.intruder(), |call| {
            grant(call);
            call.args = attempts.iter().map(Into::into).collect();
        });
        assert_eq!(reports(&outcome), vec!["reached"; attempts.len()]);
        assert!(seen.watched, "{outcome:?}");
        let isolation = outcome.isolation.expect("it ran");
        assert!(isolation.net.is_enforced() && !isolation.memory.is_enforced(), "{isolation:?}");
    });
}

#[test]
fn a_tool_reaches_its_own_servers_through_short_links_outside_of_proc() {
    each_counted_user(|rig| {
        let here = rig.workspace().display();
        for name in ["own-1", "link-1", "link-2"] {
            let _ = fs::remove_file(rig.path(name));
        }
        let attempts = [
            format!("own-unix-by-link {here}/own-1 link-1 own-1"),
            format!("own-unix-by-link /tmp/own-2 {here}/link-2 ../../../../../../../../tmp/own-2"),
            "own-unix-by-link /tmp/own-3 /tmp/link-3 /tmp/./own-3".to_owned(),
        ];
        let reached = ask(rig, &attempts, |_| {});
        assert_eq!(reached, vec!["reached"; attempts.len()], "root: {}", rig.is_root());
        // The kernel would follow each of these links. Many such links take it long, and the
        // supervisor could check neither the time nor the sockets in the meantime.
        let far = "./".repeat(1000);
        let attempts = [
            format!("own-unix-by-link /tmp/own-1 /tmp/link-1 {far}own-1"),
            "own-unix-by-link /tmp/own-2 /tmp/link-2 /proc/self/net/../../../tmp/own-2".to_owned(),
            "own-unix-by-link /tmp/own-3 /tmp/link-3 ../proc/1/../../tmp/own-3".to_owned(),
        ];
        let refused = ask(rig, &attempts, |_| {});
        for (attempt, report) in attempts.iter().zip(&refused) {
            let is_loop = report.contains(&format!("os error {}", libc::ELOOP));
            assert!(is_loop, "`{attempt}`: {report}, root: {}", rig.is_root());
        }
        assert_eq!(refused.len(), attempts.len());
    });
}

#[test]
fn sockets_that_are_not_granted_are_refused() {
    each_user(Sandbox::Require, |rig| {
        let outcome = rig.run(&rig.intruder(), |call| call.args = OWN.map(Into::into).to_vec());
        let refused = reports(&outcome);
        assert!(refused.iter().all(|report| report.contains("os error 1)")), "{refused:?}");
    });
}

/// A server of another program in the workspace, such as a container engine's.
struct Foreign {
    _stream: UnixListener,
    _packets: OwnedFd,
    _held: [UnixListener; 3],
}

impl Foreign {
    fn new(rig: &Rig) -> Self {
        let listen = |name: &str| {
            let listener = UnixListener::bind(rig.path(name)).expect("listens");
            permit(rig.path(name), 0o777);
            listener
        };
        let _stream = listen("engine.sock");
        let _held = [listen("a"), listen("to-be-moved"), listen("to-be-put-there")];
        let path = rig.path("packets.sock");
        let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
        let address = [&family[..], path.as_os_str().as_encoded_bytes(), b"\0"].concat();
        // SAFETY: system calls on numbers and on bytes of this length; a new descriptor has no
        // other owner.
        let _packets = unsafe {
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
            let socket = OwnedFd::from_raw_fd(socket);
            let length = address.len() as libc::socklen_t;
            assert_eq!(libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length), 0);
            assert_eq!(libc::listen(socket.as_raw_fd(), 8), 0);
            socket
        };
        permit(&path, 0o777);
        Self { _stream, _packets, _held }
    }
}

#[test]
fn no_socket_of_another_program_is_reached_in_a_granted_directory() {
    each_counted_user(|rig| {
        let here = rig.workspace().display();
        let own = tempfile::tempdir().expect("a directory");
        let sandboxed = |text: &str, place: &str| text.replace("{tmp}", place);
        let attempts = [
            format!("unix {here}/engine.sock"),
            format!("unix-from {here} engine.sock"),
            format!("unix-from {here} ./a"),
            format!("unix-packets {here}/packets.sock"),
            "unix /proc/self/cwd/engine.sock".to_owned(),
            format!("unix /proc/self/root{here}/engine.sock"),
            format!("unix {here}/../{}/engine.sock", file_name(rig.workspace())),
            format!("unix-by-link {here}/engine.sock {{tmp}}/link"),
            format!("unix-by-link engine.sock {here}/link"),
            format!("unix-by-hard-link {here}/engine.sock {here}/hard"),
            format!("unix-by-rename {here}/to-be-moved {here}/moved"),
            format!("unix-replaced {here}/own {here}/to-be-put-there"),
            format!("race-address {{tmp}}/own-1 {here}/engine.sock"),
            format!("race-link {{tmp}}/own-2 {here}/engine.sock"),
        ];
        // The addresses of these attempts are as long as internet addresses.
        let short = ["unix-exactly a 16", "unix-exactly a 28", "race-descriptor a"];
        let prepare = || {
            for entry in fs::read_dir(rig.workspace()).expect("read").flatten() {
                if !entry.file_type().expect("told").is_file() {
                    fs::remove_file(entry.path()).expect("removed");
                }
            }
            Foreign::new(rig)
        };
        let all: Vec<String> = attempts.iter().cloned().chain(words(&short)).collect();
        permit(own.path(), 0o777);
        let foreign = prepare();
        let outcome = rig.run(&rig.intruder(), |call| {
            let place = own.path().display().to_string();
            call.args = all.iter().map(|attempt| sandboxed(attempt, &place).into()).collect();
            call.grant = Arc::new(Grant { sandbox: Sandbox::Off, ..(*call.grant).clone() });
        });
        let reached = reports(&outcome);
        assert_eq!(
            reached,
            vec!["reached"; all.len()],
            "without a sandbox, root: {}",
            rig.is_root()
        );
        drop(foreign);
        let _foreign = prepare();
        let inside: Vec<String> = all.iter().map(|attempt| sandboxed(attempt, "/tmp")).collect();
        let refused = ask(rig, &inside, |_| {});
        for (attempt, report) in all.iter().zip(&refused) {
            assert!(report.contains("os error"), "`{attempt}`: {report}, root: {}", rig.is_root());
        }
        assert_eq!(refused.len(), all.len());
    });
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn a_tool_has_no_interface_but_its_loopback_and_no_other_family() {
    each_counted_user(|rig| {
        let outside = TcpListener::bind("127.0.0.1:0").expect("listens");
        let outside = outside.local_addr().expect("an address");
        let families = [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_XDP, libc::AF_TIPC];
        let families = families.iter().map(|family| format!("socket {family}"));
        // `socket` creates raw sockets, which are refused for the internet's families as well.
        let raw = [libc::AF_INET, libc::AF_INET6].map(|family| format!("socket {family}"));
        let others = ["io-uring", "listen-to-filter", "own-descriptors"].map(ToOwned::to_owned);
        let peers = [
            format!("tcp {outside}"),
            "udp 192.0.2.1:53".to_owned(),
            "tcp 192.0.2.1:80".to_owned(),
        ];
        let attempts: Vec<_> = families.chain(raw).chain(others).chain(peers).collect();
        let refused = ask(rig, &attempts, |_| {});
        for (attempt, report) in attempts.iter().zip(&refused) {
            assert!(report.contains("os error"), "`{attempt}`: {report}");
        }
        assert_eq!(refused.len(), attempts.len());
        let tool = rig.script("cat /etc/hosts; tail -n +3 /proc/net/dev | cut -d: -f1");
        let outcome = rig.run(&tool, grant);
        let shown = text(&outcome.stdout).split_whitespace().collect::<Vec<_>>();
        assert_eq!(shown, ["127.0.0.1", "localhost", "::1", "localhost", "lo"], "{outcome:?}");
    });
}

/// A project's test suite uses the following: servers, by name and by number, a process manager, a
/// server of local sockets, and a query of the interfaces.
const PYTHON: &str = r#"
import asyncio, http.server, multiprocessing, os, socket, tempfile, threading, urllib.request

def served(host, family):
    class Server(http.server.ThreadingHTTPServer):
        address_family = family
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"served")
        def log_message(self, *_):
            pass
    server = Server((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"[{host}]" if ":" in host else host
    with urllib.request.urlopen(f"http://{name}:{server.server_port}/", timeout=20) as answer:
        print(host, answer.read().decode())
    server.shutdown()

async def local():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    path = os.path.join(tempfile.mkdtemp(), "socket")
    async with await asyncio.start_unix_server(answer, path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"local\n")
        print((await reader.readline()).decode().strip())
        writer.close()

if __name__ == "__main__":
    served("127.0.0.1", socket.AF_INET)
    served("localhost", socket.AF_INET)
    served("::1", socket.AF_INET6)
    asyncio.run(local())
    with multiprocessing.Manager() as manager:
        shared = manager.dict(answer=42)
        print("managed", shared["answer"])
    print(socket.if_nameindex())
"#;

#[test]
fn servers_of_python_run() {
    const PROGRAM: &str = "/usr/bin/python3";
    if !Path::new(PROGRAM).exists() {
        ikigai_tests::left_out::<()>("servers in the sandbox", PROGRAM);
        return;
    }
    each_counted_user(|rig| {
        rig.file("servers.py", PYTHON, 0o644);
        let tool = rig.script(&format!("exec {PROGRAM} servers.py"));
        let outcome = rig.run(&tool, grant_with_home);
        let expected =
            "127.0.0.1 served\nlocalhost served\n::1 served\nlocal\nmanaged 42\n[(1, 'lo')]\n";
        assert_eq!(text(&outcome.stdout), expected, "{outcome:?}");
    });
}

/// A page on the call's own loopback, and a browser that opens it.
const BROWSER: &str = r#"
import http.server, subprocess, sys, threading

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>own loopback</h1>")
        if self.path == "/":
            print("looked at", flush=True)
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
page = f"http://127.0.0.1:{server.server_port}/"
options = ["--headless", "--no-sandbox", "--disable-gpu", "--screenshot=page.png"]
sys.exit(subprocess.run([sys.argv[1], *options, page], stderr=subprocess.PIPE).returncode)
"#;

#[test]
fn a_browser_takes_a_screenshot_of_a_page_of_the_call() {
    const PYTHON: &str = "/usr/bin/python3";
    // The start script in `PATH` would read a directory of `/etc`, so the program is started
    // directly.
    const CHROMIUM: &str = "/usr/lib/chromium/chromium";
    if ![PYTHON, CHROMIUM].iter().all(|program| Path::new(program).exists()) {
        ikigai_tests::impossible_here("a browser in the sandbox, without Debian's Chromium");
        return;
    }
    each_counted_user(|rig| {
        rig.file("browser.py", BROWSER, 0o644);
        let tool = rig.script(&format!("exec {PYTHON} browser.py {CHROMIUM}"));
        let outcome = rig.run(&tool, |call| {
            grant_with_home(call);
            call.limits.wall_clock = Duration::from_secs(50);
        });
        assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
        assert_eq!(text(&outcome.stdout), "looked at\n", "{outcome:?}");
        let picture = fs::read(rig.path("page.png")).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG"), "{} bytes", picture.len());
    });
}

#[test]
fn connections_that_nobody_accepts_end_a_call_by_their_number() {
    let _guard = Guard::new();
    each_counted_user(|rig| {
        let path = rig.path("glutton");
        fs::copy(env!("CARGO_BIN_EXE_glutton"), &path).expect("copied");
        let outcome = rig.run(&path, |call| {
            grant(call);
            call.args = ["connections", "2000"].map(Into::into).to_vec();
            call.limits.native_memory = 64 << 20;
        });
        assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
        assert!(outcome.stdout.total < 2000, "{outcome:?}");
    });
}

#[test]
fn a_connection_that_never_comes_keeps_no_call_beyond_its_time() {
    each_counted_user(|rig| {
        let alive = rig.fifo();
        rig.intruder();
        let tool = rig.script("exec 9>alive; exec ./intruder 'race-flag /tmp/own'");
        let outcome = rig.run(&tool, |call| {
            grant(call);
            call.limits.wall_clock = Duration::from_millis(700);
        });
        // The supervisor itself ended the call, and reported it.
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::WallClock)));
        assert!(outcome.isolation.is_some_and(|it| it.net.is_enforced()));
        alive.assert_nobody();
    });
}

#[test]
fn a_tool_has_no_sockets_where_something_is_missing_that_keeps_them() {
    each_user(Sandbox::Prefer, |rig| {
        let none = OmittedLayers::default();
        for (name, lacking) in [
            ("namespaces", rig.lacking(OmittedLayers { namespaces: true, ..none })),
            ("control groups", rig.lacking(OmittedLayers { cgroups: true, ..none })),
            ("a listener", rig.under_a_listener()),
        ] {
            let refused =
                ask(&lacking, &words(&["own-server", "own-udp", "own-unix /tmp/own"]), |_| {});
            assert_eq!(refused.len(), 3, "{name}");
            assert!(refused.iter().all(|it| it.contains("os error 1)")), "{name}: {refused:?}");
        }
    });
}
