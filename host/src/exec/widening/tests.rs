use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::*;
use crate::consent::{ConsentQuestion, ConsentReply, Respondent};
use crate::front_end::{AnswerFuture, Recording};
use crate::policy::{Backend, Overrides, PolicyFiles, PolicyRequest, RemedyHints, ToolOrigin};

/// A front end that records.
struct RecordingFrontEnd(Recording);

impl FrontEnd for RecordingFrontEnd {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        panic!("nobody is asked while a call is recorded")
    }

    fn recording(&self) -> Option<Recording> {
        Some(self.0)
    }
}

/// Returns the widening of a recorded call of a component, which no policy bounds. `own_peers`
/// are the host's own addresses.
pub(in crate::exec) fn recorded(recording: Recording, own_peers: &[(&str, u16)]) -> Widening {
    let files = PolicyFiles {
        ceiling: None,
        further_ceilings: Vec::new(),
        user: None,
        user_is_named: false,
        workspace: PathBuf::from("/nowhere"),
        home: None,
        state: None,
    };
    let overrides = Overrides::default();
    let authority = Authority::open(&files, overrides, Vec::new(), RemedyHints::default(), None);
    let own_peers = own_peers.iter().map(|(host, port)| ((*host).to_owned(), *port));
    let context = WideningContext {
        authority: Arc::new(authority.expect("no file to read")),
        questions: Arc::default(),
        front_end: Some(Arc::new(RecordingFrontEnd(recording))),
        deadline: Deadline::default(),
        own_peers: own_peers.collect::<Vec<_>>().into(),
    };
    let request = PolicyRequest {
        name: Some("tool"),
        names: &[],
        registered: &[],
        origin: ToolOrigin::User,
        backend: Backend::Wasm,
        fell_back: false,
        path: Path::new("/user/tool.wasm"),
        program: None,
        contents: &[Digest::from_bytes(b"tool")],
        wasi: &[],
        tool: None,
    };
    Widening::new(context, CalledProgram::from(request), Bytes::new())
}

fn peer(host: &str, port: u16) -> RequestedAccess {
    RequestedAccess::Peer { host: host.to_owned(), port }
}

#[test]
fn the_addresses_of_the_host_are_known_by_every_name() {
    let own = [("Store.internal", 5432), ("localhost", 6000), ("192.0.2.7", 7000)];
    let widening = recorded(Recording::default(), &own);
    let of_the_host = |host: &str, port| widening.is_of_the_host(&peer(host, port));
    for (host, port) in [
        ("store.internal", 5432),
        ("STORE.INTERNAL", 5432),
        ("192.0.2.7", 7000),
        ("localhost", 6000),
        ("LocalHost", 6000),
        ("127.0.0.1", 6000),
        ("127.9.9.9", 6000),
        ("::1", 6000),
        ("[::1]", 6000),
        ("::ffff:127.0.0.1", 6000),
        ("0.0.0.0", 6000),
        ("::", 6000),
    ] {
        assert!(of_the_host(host, port), "{host} {port}");
    }
    for (host, port) in [
        ("store.internal", 5433),
        ("other.internal", 5432),
        ("127.0.0.1", 5432),
        ("127.0.0.1", 6001),
        ("192.0.2.8", 7000),
        ("192.0.2.7", 6000),
    ] {
        assert!(!of_the_host(host, port), "{host} {port}");
    }
    let file = RequestedAccess::Path { access: Access::ReadOnly, path: "/store.internal".into() };
    assert!(!widening.is_of_the_host(&file) && !widening.is_of_the_host(&RequestedAccess::Run));
}

#[test]
fn an_access_that_a_recording_permits_is_not_noted_as_refused() {
    let path = |access, path: &str| RequestedAccess::Path { access, path: path.into() };
    let (read, write) =
        (path(Access::ReadOnly, "/data/list"), path(Access::ReadWrite, "/data/list"));
    for permissive in [false, true] {
        let widening = recorded(Recording { permissive, net: false }, &[]);
        widening.refused(read.clone());
        widening.refused(write.clone());
        let noted = widening.noted();
        assert_eq!(noted.refused.contains(&read), !permissive);
        assert!(noted.refused.contains(&write), "nothing is written beyond the grant");
        assert_eq!(noted.refusals, if permissive { 1 } else { 2 });
        assert_eq!(noted.beyond_the_grant(), [read.clone(), write.clone()]);
        widening.withheld(read.clone());
        assert_eq!(widening.noted().refused, [read.clone(), write.clone()]);
    }
}

#[test]
fn a_path_that_no_command_can_name_is_explained_and_not_offered() {
    let path = |path: &str| RequestedAccess::Path { access: Access::ReadOnly, path: path.into() };
    let widening = recorded(Recording::default(), &[]);
    let request = widening.program.request();
    for name in ["/data/a\nb", "/data/a\u{1b}b"] {
        assert!(!widening.authority.could_allow(&request, &path(name)), "{name:?}");
    }
    widening.refused(path("/data/plain"));
    widening.probed(path("/data/\n"));
    assert_eq!(widening.unnameable_hint(), None);
    widening.refused(path("/data/a\nb"));
    let hint = widening.unnameable_hint().expect("a hint");
    assert!(hint.starts_with("no command can allow the tool to read /data/a\\u{a}b,"), "{hint}");
}

#[test]
fn a_recording_permits_to_read_and_where_it_says_so_public_peers() {
    let path = |access, path: &str| RequestedAccess::Path { access, path: path.into() };
    for (permissive, net) in [(false, false), (true, false), (true, true)] {
        let widening = recorded(Recording { permissive, net }, &[("store.test", 443)]);
        for (reached, permitted) in [
            (path(Access::ReadOnly, "/data/list"), permissive),
            (path(Access::ReadWrite, "/data/list"), false),
            (path(Access::ReadOnly, "/data/.env"), false),
            (path(Access::ReadOnly, "/etc/shadow"), false),
            // It contains a place of secrets.
            (path(Access::ReadOnly, "/etc"), false),
            (RequestedAccess::Run, permissive),
            (peer("1.1.1.1", 443), net),
            (peer("a.test", 443), net),
            (peer("store.test", 443), false),
            (peer("127.0.0.1", 443), false),
            (peer("10.0.0.1", 443), false),
            (peer("169.254.169.254", 80), false),
            (peer("::1", 443), false),
            (peer("::ffff:10.0.0.1", 443), false),
        ] {
            let is = widening.recording_permits(&reached);
            assert_eq!(is, permitted, "{reached} {permissive} {net}");
        }
    }
}
