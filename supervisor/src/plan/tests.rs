//! Messages that arrive as they were sent, and malformed ones, which are refused.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use super::*;

fn plan() -> Plan {
    let string = |text: &str| CString::new(text).expect("no NUL");
    Plan {
        program: string("/bin/tool"),
        directory: string("/work"),
        args: vec![string("/bin/tool"), string(""), string("a b\n")],
        env: vec![string("A=1"), string("B=")],
        dirs: vec![PathGrant {
            path: string("/work"),
            writable: true,
            searched: Some(InodeId { directory: true, device: 1, inode: 4 }),
        }],
        hidden: vec![HiddenPath {
            path: string("/work/.env"),
            found: InodeId { directory: false, device: 1, inode: u64::MAX },
        }],
        read_only: vec![HiddenPath {
            path: string("/work/.git/hooks"),
            found: InodeId { directory: true, device: 1, inode: 3 },
        }],
        pinned: vec![HiddenPath {
            path: string("/work/.envrc"),
            found: InodeId { directory: false, device: 1, inode: 5 },
        }],
        machine: Some(vec![HiddenPath {
            path: string("/root/.ssh"),
            found: InodeId { directory: true, device: 1, inode: 2 },
        }]),
        links: vec![Link { path: string("/home/name"), target: string("/work/tool") }],
        closed: vec![string("/work")],
        closed_except: vec![string("/work/tools")],
        kind: RunMode {
            sandbox: Sandbox::Require,
            net: ToolNetwork::Relay,
            own_sockets: true,
            host_socket: true,
            probe: false,
            watch: WatchLevel::All,
            without: OmittedLayers::default(),
        },
        bounds: CallBounds {
            wall_clock: Duration::from_millis(1500),
            memory: 1 << 30,
            processes: 7,
        },
    }
}

fn parts(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let prefix = frame[..PREFIX].try_into().expect("eight bytes");
    let (header, strings) = Plan::lengths(prefix).expect("short enough");
    let body = &frame[PREFIX..];
    assert_eq!(body.len(), header + strings);
    (body[..header].to_vec(), body[header..].to_vec())
}

#[test]
fn a_plan_arrives_as_it_was_sent() {
    let (header, strings) = parts(&plan().encode().expect("encodes"));
    assert_eq!(Plan::decode(&header, &strings).expect("decodes"), plan());
}

#[test]
fn a_time_arrives_as_it_was_sent() {
    let time = Duration::from_millis(150_500);
    assert_eq!(time_of(time_message(time)), time);
    assert_eq!(time_of(time_message(Duration::MAX)), Duration::from_nanos(u64::MAX));
}

#[test]
fn malformed_plans_are_refused() {
    let (header, strings) = parts(&plan().encode().expect("encodes"));
    let text = String::from_utf8(header.clone()).expect("JSON");
    let refused = |header: &[u8], strings: &[u8]| {
        assert!(Plan::decode(header, strings).is_err(), "{:?}", String::from_utf8_lossy(header));
    };
    refused(&header, &strings[..strings.len() - 1]);
    refused(&header, &[&strings[..], b"more\0"].concat());
    refused(&header, &[&b"relative\0/work\0"[..], &strings["/bin/tool\0/work\0".len()..]].concat());
    let paths = [
        "/work\0",
        "/work/.env\0",
        "/work/.git/hooks\0",
        "/work/.envrc\0",
        "/root/.ssh\0",
        "/home/name\0",
        "/work/tool\0",
        "/work\0",
        "/work/tools\0",
    ];
    let before = &strings[..strings.len() - paths.concat().len()];
    assert_eq!([before, paths.concat().as_bytes()].concat(), strings);
    for relative in 0..paths.len() {
        let mut paths = paths;
        paths[relative] = &paths[relative][1..];
        refused(&header, &[before, paths.concat().as_bytes()].concat());
    }
    refused(
        text.replace("\"args\":3", "\"args\":0").as_bytes(),
        b"/p\0/d\0A=1\0B=\0/w\0/w/.env\0/w/.git/hooks\0/w/.envrc\0/root/.ssh\0/h/n\0/w/t\0/w\0/w/s\0",
    );
    refused(text.replace("Require", "Of").as_bytes(), &strings);
    refused(text.replace('}', ",\"extra\":1}").as_bytes(), &strings);
    refused(b"{", &strings);
    refused(&header, b"");
    assert!(Plan::lengths([0xff; PREFIX]).is_err());
}

#[test]
fn a_refused_call_reports_no_isolation_and_says_so() {
    let report = SupervisorReport {
        end: ToolEnd::Refused("no".to_owned()),
        duration: Duration::ZERO,
        peak_memory: 0,
        memory_floor: 0,
        left_running: 0,
        survivors: 0,
        notes: Vec::new(),
        isolation: None,
        layers: Vec::new(),
        seen: ObservedAccesses {
            reached: vec![
                FileAccess { path: "/a\n\"".into(), access: AccessKind::Read },
                FileAccess { path: OsStr::from_bytes(b"/\xff").into(), access: AccessKind::Make },
            ],
            peers: vec![([127, 0, 0, 1], 80).into()],
            ..ObservedAccesses::default()
        },
    };
    let line = String::from_utf8(report.encode().expect("encodes")).expect("JSON");
    assert!(line.contains("\"level\":null"), "{line}");
    assert_eq!(SupervisorReport::decode(line.as_bytes()).expect("decodes"), report);
    let silent = line.replace("\"level\":null,", "");
    assert!(SupervisorReport::decode(silent.as_bytes()).is_err(), "{silent}");
}
