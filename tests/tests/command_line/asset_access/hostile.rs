//! Tools that misuse the host socket. Each attack would succeed with a host that does not check.

use std::time::Duration;

use ikigai_host::exec::{Exit, Stdin};
use ikigai_host::policy::{AssetAccess, Sandbox};
use ikigai_protocol::host_socket::MAX_LINE;
use ikigai_tools::ports::Assets as _;

use crate::asset_access::rig::{Rig, Store, printed};

/// The client of the host socket for tools in Python.
const CLIENT: &str = r#"
import fcntl, json, os, socket, struct, sys, time
host = socket.socket(fileno=int(os.environ["IKIGAI_HOST_FD"]))
answers = host.makefile("rb")
def line(method, number=1, **params):
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(request).encode() + b"\n"
def ask(method, **params):
    host.sendall(line(method, **params))
    return json.loads(answers.readline())
"#;

const MODES: [Sandbox; 2] = [Sandbox::Require, Sandbox::Off];

/// Runs a tool of [`CLIENT`] and `body`, and returns its output and the store behind the socket.
fn run(assets: AssetAccess, sandbox: Sandbox, body: &str) -> (String, std::sync::Arc<Store>) {
    let store = Store::new();
    let rig = Rig::new(Some(store.clone()));
    let outcome = rig.python(assets, sandbox, &format!("{CLIENT}{body}"), |call| {
        call.limits.wall_clock = Duration::from_secs(30);
    });
    (printed(&outcome).trim().to_owned(), store)
}

#[test]
fn a_tool_talks_to_the_store_in_lines() {
    let body = r#"
print(ask("read", uri="ikigai:///blocks/decisions.md", offset=2, limit=1)["result"])
print(ask("write", uri="ikigai:///a.md", content="x\n")["result"])
print(ask("edit", uri="ikigai:///a.md", old="x", new="yy", all=True)["result"])
print(ask("list", prefix="a")["result"])
print(ask("read", uri="ikigai:///none")["error"])
"#;
    for sandbox in MODES {
        let (output, _) = run(AssetAccess::Write, sandbox, body);
        let expected = "{'content': 'two\\n'}\n{'bytes': 2}\n{'replacements': 1}\n\
            {'entries': [{'path': 'a.md', 'tokens': 1, 'read_only': False}], 'more': False}\n\
            {'code': -32000, 'message': 'File not found: ikigai:///none', 'data': {'error_code': \
            'FILE_NOT_FOUND'}}";
        assert_eq!(output, expected);
    }
}

#[test]
fn the_example_of_the_page_reads_and_changes_an_asset() {
    let example = ikigai_tests::paths::repository().join("tests/examples/open-questions");
    let example = std::fs::read_to_string(example).expect("the example");
    let store = Store::new();
    let assets = &store.assets;
    assets.write("ikigai:///q.md", "Why?\nBecause.\nHow?\n").expect("written");
    let rig = Rig::new(Some(store.clone()));
    let call_with = |uri: &str, access: AssetAccess, more: &str| {
        let outcome = rig.python(access, Sandbox::Require, &example, |call| {
            call.stdin = Stdin::Bytes(format!(r#"{{"uri":"{uri}"{more}}}"#).into());
        });
        printed(&outcome)
    };
    let call = |uri: &str| call_with(uri, AssetAccess::Read, "");
    assert_eq!(call("ikigai:///q.md"), r#"{"questions": ["Why?", "How?"]}"#);
    let mark = |access| call_with("ikigai:///q.md", access, r#","answered":"Why?""#);
    assert!(mark(AssetAccess::Read).contains("PERMISSION_DENIED"));
    assert_eq!(mark(AssetAccess::Write), r#"{"questions": ["How?"]}"#);
    assets.write("ikigai:///q.md", "How?\n").expect("written");
    assert!(mark(AssetAccess::Write).contains("NOT_FOUND"), "another call has removed it");
    let absent = r#"{"error": "File not found: ikigai:///none", "error_code": "FILE_NOT_FOUND"}"#;
    assert_eq!(call("ikigai:///none"), absent);
}

#[test]
fn garbage_is_answered_by_its_number_and_changes_nothing() {
    let body = r#"
lines = [b"", b"garbage", b"\xff\xfe", b"{", b"[]", b"null", b"[" * 100000,
    b'{"jsonrpc":"2.0","id":5,"method":"drop","params":{}}',
    b'{"jsonrpc":"2.0","id":5,"method":"read","params":{"uri":7}}',
    b'{"jsonrpc":"2.0","method":"write","params":{"uri":"ikigai:///blocks/empty.md","content":"x"}}']
host.sendall(b"\n".join(lines) + b"\n")
print([json.loads(answers.readline())["error"]["code"] for line in lines])
print(ask("read", uri="ikigai:///blocks/empty.md")["result"])
"#;
    let (output, _) = run(AssetAccess::Write, Sandbox::Require, body);
    let expected = "[-32700, -32700, -32700, -32700, -32600, -32600, -32700, -32601, -32602, \
        -32600]\n{'content': ''}";
    assert_eq!(output, expected);
}

#[test]
fn a_line_without_an_end_ends_the_conversation() {
    let body = r#"
sent = 0
try:
    while sent < 300 << 20:
        sent += host.send(b"x" * (1 << 16))
except (BrokenPipeError, ConnectionResetError):
    pass
answer = json.loads(answers.readline())
print(sent, answer["error"]["code"])
"#;
    let (output, _) = run(AssetAccess::Write, Sandbox::Require, body);
    let (sent, code) = output.split_once(' ').expect("two words");
    let sent: usize = sent.parse().expect("a number");
    assert!(sent > MAX_LINE && sent < MAX_LINE + (2 << 20), "the host took {sent} bytes");
    assert_eq!(code, "-32600");
}

#[test]
fn a_tool_that_does_not_read_answers_is_not_served_on() {
    let body = r#"
host.setblocking(False)
request, sent, idle = b"", 0, 0
while idle < 20 and sent < 300 << 20:
    request = request or line("read", uri="ikigai:///blocks/decisions.md")
    try:
        count = host.send(request)
        sent, request, idle = sent + count, request[count:], 0
    except BlockingIOError:
        time.sleep(0.05)
        idle += 1
print(sent)
"#;
    for sandbox in MODES {
        let (output, store) = run(AssetAccess::Read, sandbox, body);
        let sent: usize = output.parse().expect("a number");
        // The buffers of two sockets and of the host together are smaller than this.
        assert!(sent < 4 << 20, "the host took {sent} bytes");
        assert!(store.asked() < 40_000, "the store was asked {} times", store.asked());
    }
}

#[test]
fn requests_that_wait_are_answered_in_their_order() {
    let body = r#"
for number in range(500):
    host.sendall(line("write", number, uri="ikigai:///n.md", content=str(number)))
print([json.loads(answers.readline())["id"] for _ in range(500)] == list(range(500)))
print(ask("read", uri="ikigai:///n.md")["result"]["content"])
"#;
    let (output, _) = run(AssetAccess::Write, Sandbox::Require, body);
    assert_eq!(output, "True\n499");
}

#[test]
fn a_partial_request_is_ignored_and_a_whole_one_is_answered_after_the_tool_stopped_writing() {
    let half = r#"
host.sendall(line("write", uri="ikigai:///blocks/empty.md", content="x")[:-1])
host.shutdown(socket.SHUT_WR)
print(answers.read())
"#;
    let (half_output, store) = run(AssetAccess::Write, Sandbox::Require, half);
    assert_eq!((half_output.as_str(), store.asked()), ("b''", 0));
    let whole = r#"
host.sendall(line("write", uri="ikigai:///blocks/empty.md", content="x"))
host.shutdown(socket.SHUT_WR)
print(json.loads(answers.readline())["result"], answers.read())
"#;
    let (whole_output, store) = run(AssetAccess::Write, Sandbox::Require, whole);
    assert_eq!(whole_output, "{'bytes': 1} b''");
    assert_eq!(store.content("blocks/empty.md").as_deref(), Some(&b"x"[..]));
}

#[test]
fn a_tool_that_closes_the_socket_goes_on() {
    let body = r#"
host.sendall(line("list") * 1000)
answers.close()
host.close()
time.sleep(0.2)
print("done")
"#;
    assert_eq!(run(AssetAccess::Read, Sandbox::Require, body).0, "done");
}

#[test]
fn nobody_writes_after_the_end() {
    let body = r#"
sys.stdout.flush()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.5)
        for _ in range(100):
            host.sendall(line("write", uri="ikigai:///blocks/empty.md", content="late"))
            time.sleep(0.01)
    os._exit(0)
time.sleep(0.1)
print("done")
"#;
    for sandbox in MODES {
        let (output, store) = run(AssetAccess::Write, sandbox, body);
        assert_eq!(output, "done");
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(store.content("blocks/empty.md").as_deref(), Some(&b""[..]));
    }
}

#[test]
fn the_socket_is_there_where_it_is_granted_and_nothing_else_is() {
    let body = r#"
import os, stat
open_ones = []
for number in range(1024):
    try:
        kind = os.fstat(number).st_mode
        open_ones.append((number, stat.S_ISSOCK(kind)))
    except OSError:
        pass
print(os.environ.get("IKIGAI_HOST_FD"), open_ones)
"#;
    for sandbox in MODES {
        for (assets, expected) in [
            (AssetAccess::None, "None [(0, False), (1, False), (2, False)]"),
            (AssetAccess::Read, "3 [(0, False), (1, False), (2, False), (3, True)]"),
            (AssetAccess::Write, "3 [(0, False), (1, False), (2, False), (3, True)]"),
        ] {
            let rig = Rig::new(Some(Store::new()));
            let outcome = rig.python(assets, sandbox, body, |call| {
                // The host may itself be a tool of another host, and then has this variable in its
                // environment.
                let mut grant = (*call.grant).clone();
                grant.env.push(("IKIGAI_HOST_FD".into(), "1".into()));
                call.grant = grant.into();
            });
            assert_eq!(printed(&outcome).trim(), expected, "{sandbox:?} {assets:?}");
        }
    }
}

#[test]
fn the_socket_is_no_way_to_the_network_of_the_host() {
    let body = r#"
try:
    import ctypes
    SIOCGIFCONF, buffer = 0x8912, ctypes.create_string_buffer(4096)
    asked = struct.pack("iP", 4096, ctypes.addressof(buffer))
    size, _ = struct.unpack("iP", fcntl.ioctl(host.fileno(), SIOCGIFCONF, asked))
    print("reached" if size > 0 else "empty")
except OSError as error:
    print(error.errno)
"#;
    let (free, _) = run(AssetAccess::Read, Sandbox::Off, body);
    assert_eq!(free, "reached", "the attempt shows nothing");
    let (confined, _) = run(AssetAccess::Read, Sandbox::Require, body);
    assert_eq!(confined, libc::EPERM.to_string());
}

#[test]
fn a_tool_that_dies_in_the_middle_of_a_request_is_a_tool_that_died() {
    let store = Store::new();
    let rig = Rig::new(Some(store.clone()));
    let body = r#"
host.sendall(line("write", uri="ikigai:///blocks/empty.md", content="x" * 100000)[:50000])
os.kill(os.getpid(), 9)
"#;
    let outcome =
        rig.python(AssetAccess::Write, Sandbox::Require, &format!("{CLIENT}{body}"), |_| {});
    assert!(matches!(outcome.exit, Exit::Signal(9) | Exit::Code(137)), "{outcome:?}");
    assert_eq!(store.asked(), 0);
}
