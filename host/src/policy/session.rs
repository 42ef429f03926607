//! The layer of a session: the accesses that the user allowed or refused a tool for as long as this
//! host lives.
//!
//! It widens the user's file. Ceilings and the workspace bound it in the same way as that file. It
//! is kept in memory. An entry applies to the contents that the user was asked about.

use ikigai_protocol::Digest;
use parking_lot::Mutex;

use super::Backend;
use super::decision::PolicyRequest;
use super::reached::RequestedAccess;

/// The most entries. Beyond that, the oldest are forgotten, and the user is asked again.
const ENTRIES: usize = 4096;

/// The answers of this session.
#[derive(Debug, Default)]
pub(super) struct SessionAnswers(Mutex<Vec<AnswerEntry>>);

#[derive(Debug, PartialEq, Eq)]
struct AnswerEntry {
    subject: ToolIdentity,
    reached: RequestedAccess,
    allowed: bool,
}

/// The tool that an entry belongs to: a build with certain contents, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolIdentity {
    name: Option<String>,
    backend: Backend,
    contents: Vec<Digest>,
}

/// The user's answer about a tool. It applies for as long as this host lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAnswer {
    /// The tool; `None` for a tool without a name.
    pub tool: Option<String>,
    /// The access that the tool was allowed or refused.
    pub reached: RequestedAccess,
    /// True if the access was allowed.
    pub allowed: bool,
}

impl ToolIdentity {
    fn from_request(request: &PolicyRequest<'_>) -> Self {
        Self {
            name: request.name.map(str::to_owned),
            backend: request.backend,
            contents: request.contents.to_vec(),
        }
    }
}

impl AnswerEntry {
    fn answer(&self) -> SessionAnswer {
        let Self { subject, reached, allowed } = self;
        let tool = subject.name.clone();
        SessionAnswer { tool, reached: reached.clone(), allowed: *allowed }
    }
}

impl SessionAnswers {
    /// Notes an answer, which replaces an earlier one.
    pub(super) fn note(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
        allowed: bool,
    ) {
        let subject = ToolIdentity::from_request(request);
        let mut entries = self.0.lock();
        entries.retain(|entry| entry.subject != subject || entry.reached != *reached);
        if entries.len() >= ENTRIES {
            entries.remove(0);
        }
        entries.push(AnswerEntry { subject, reached: reached.clone(), allowed });
    }

    /// Returns all answers, with the oldest first. Equal answers about several builds of a tool are
    /// merged.
    pub(super) fn answers(&self) -> Vec<SessionAnswer> {
        let entries = self.0.lock();
        let mut answers: Vec<SessionAnswer> = Vec::with_capacity(entries.len());
        for answer in entries.iter().map(AnswerEntry::answer) {
            if !answers.contains(&answer) {
                answers.push(answer);
            }
        }
        answers
    }

    pub(super) fn forget(&self, answer: &SessionAnswer) {
        let mut entries = self.0.lock();
        entries.retain(|entry| entry.answer() != *answer);
    }

    /// Returns the accesses that were allowed to the subject of a request.
    pub(super) fn allowed(&self, request: &PolicyRequest<'_>) -> Vec<RequestedAccess> {
        let entries = self.0.lock();
        if entries.is_empty() {
            return Vec::new();
        }
        let subject = ToolIdentity::from_request(request);
        let own = entries.iter().filter(|entry| entry.allowed && entry.subject == subject);
        own.map(|entry| entry.reached.clone()).collect()
    }

    /// Returns whether this access, or a directory around it, was refused to the subject of a
    /// request.
    pub(super) fn was_refused_around(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        let subject = ToolIdentity::from_request(request);
        let is_in = |dir: &RequestedAccess| match (dir, reached) {
            (
                RequestedAccess::Path { access: refused, path: dir },
                RequestedAccess::Path { access, path },
            ) => access >= refused && path.starts_with(dir),
            (refused, reached) => refused == reached,
        };
        let entries = self.0.lock();
        entries.iter().any(|it| !it.allowed && it.subject == subject && is_in(&it.reached))
    }

    /// Returns whether this access was refused to the subject of a request.
    pub(super) fn was_refused(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        let subject = ToolIdentity::from_request(request);
        let entries = self.0.lock();
        entries.iter().any(|it| !it.allowed && it.reached == *reached && it.subject == subject)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use ikigai_protocol::{Access, GrantedDir};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::remedy::RemedyHints;
    use crate::policy::{Authority, Grant, Net, Overrides, PolicyFiles, ToolOrigin};

    const DIRS: [&str; 6] = ["a", "a/b", "a/b/c", "a/d", "e", "e/f"];

    const PEERS: [&str; 4] = ["one.test:443", "two.test:443", "one.test:80", "10.0.0.1:443"];

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![Just(Access::ReadOnly), Just(Access::ReadWrite)]
    }

    /// The directories and the peers of a layer, by their indexes; either may be absent.
    type LayerSample = (Option<Vec<(Access, usize)>>, Option<Vec<usize>>);

    /// The entry of a layer.
    fn entry() -> impl Strategy<Value = LayerSample> {
        let dirs = vec((access(), 0..DIRS.len()), 0..3);
        (proptest::option::of(dirs), proptest::option::of(vec(0..PEERS.len(), 0..3)))
    }

    /// Writes a file for the tool `glob`. A contradictory layer is written as an empty one.
    fn write(path: &Path, base: &Path, (dirs, peers): &LayerSample) {
        let mut text = String::from("[tools.glob]\n");
        if let Some(dirs) = dirs {
            let named: Vec<_> =
                dirs.iter().map(|(access, dir)| (*access, Path::new(DIRS[*dir]))).collect();
            let contradicts = super::super::dirs::overlap(&named).is_some();
            let entry = |(access, dir): &(Access, &Path)| {
                format!("{:?}", format!("{}:{}", access.as_str(), base.join(dir).display()))
            };
            let list: Vec<String> = named.iter().filter(|_| !contradicts).map(entry).collect();
            text.push_str(&format!("fs = [{}]\n", list.join(", ")));
        }
        if let Some(peers) = peers {
            let list: Vec<String> =
                peers.iter().map(|peer| format!("{:?}", PEERS[*peer])).collect();
            text.push_str(&format!("net = [{}]\n", list.join(", ")));
        }
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permitted");
    }

    /// Returns the grant of the tool, including the accesses that the user allowed in this session.
    fn grant(authority: &Authority) -> Option<Grant> {
        Some(authority.decide(&request()).ok()?.grant)
    }

    fn request() -> PolicyRequest<'static> {
        PolicyRequest {
            name: Some("glob"),
            names: &[],
            registered: &[],
            origin: ToolOrigin::System,
            backend: Backend::Wasm,
            fell_back: false,
            path: Path::new("/system/glob.wasm"),
            program: None,
            contents: &[],
            wasi: &[],
            tool: None,
        }
    }

    /// Returns the request for a file with these contents.
    fn request_of_file(contents: &[Digest]) -> PolicyRequest<'_> {
        PolicyRequest { contents, ..request() }
    }

    fn authority(base: &Path) -> Authority {
        authority_in(base, None)
    }

    fn authority_in(base: &Path, home: Option<PathBuf>) -> Authority {
        let files = PolicyFiles {
            ceiling: Some(base.join("ceiling.toml")),
            further_ceilings: Vec::new(),
            user: Some(base.join("user.toml")),
            user_is_named: true,
            workspace: base.join("work"),
            home,
            state: None,
        };
        let own: Vec<PathBuf> = vec![base.join("e/f")];
        Authority::open(&files, Overrides::default(), own, RemedyHints::default(), None)
            .expect("opened")
    }

    #[test]
    fn an_answer_holds_for_the_contents_that_it_was_given_for() {
        let scratch = tempfile::tempdir().expect("a directory");
        let base = scratch.path().canonicalize().expect("there");
        for dir in DIRS.iter().chain(&["work"]) {
            fs::create_dir_all(base.join(dir)).expect("a directory");
        }
        for file in ["ceiling.toml", "user.toml"] {
            fs::write(base.join(file), "").expect("a file");
        }
        let authority = authority(&base);
        let [old, new] = [Digest::from_bytes(b"old"), Digest::from_bytes(b"new")];
        let reached =
            |name: &str| RequestedAccess::Path { access: Access::ReadOnly, path: base.join(name) };
        authority.answered(&request_of_file(&[old]), &reached("a/b"), true);
        authority.answered(&request_of_file(&[old]), &reached("a/d"), false);
        let has = |request: &PolicyRequest<'_>, name: &str| {
            let decision = authority.decide(request).expect("allowed");
            decision.grant.dirs.iter().any(|dir| dir.path == base.join(name))
        };
        assert!(has(&request_of_file(&[old]), "a/b"));
        assert!(
            !authority.may_ask(&request_of_file(&[old]), &[], &reached("a/d")),
            "it was refused"
        );
        // A component compiled from one version of its file, while the file now has another
        // version, counts as neither.
        for other in [&[new][..], &[old, new], &[new, old], &[]] {
            let other = request_of_file(other);
            assert!(!has(&other, "a/b"), "{other:?}");
            assert!(!authority.was_allowed(&other, &reached("a/b")), "{other:?}");
            // It has no answers, so the user can be asked.
            for name in ["a/b", "a/d"] {
                assert!(authority.may_ask(&other, &[], &reached(name)), "{name} of {other:?}");
            }
        }
        // A forgotten answer no longer applies, and the user may be asked again.
        for (reached, allowed) in [(reached("a/b"), true), (reached("a/d"), false)] {
            let tool = Some("glob".to_owned());
            let answer = SessionAnswer { tool, reached, allowed };
            assert!(authority.session_answers().contains(&answer));
            authority.forget_answer(&answer);
            assert!(!authority.session_answers().contains(&answer));
            assert!(authority.may_ask(&request_of_file(&[old]), &[], &answer.reached));
        }
        assert!(!has(&request_of_file(&[old]), "a/b"));
        authority.answered(&request_of_file(&[old]), &reached("a/b"), true);
        // The same contents under another name, or as another build, count as another tool.
        for other in [
            PolicyRequest { name: Some("grep"), ..request_of_file(&[old]) },
            PolicyRequest { backend: Backend::Native, ..request_of_file(&[old]) },
        ] {
            assert!(!has(&other, "a/b"), "{other:?}");
        }
    }

    #[test]
    fn answers_about_reading_and_writing_do_not_add_up_to_writing_a_secret() {
        let scratch = tempfile::tempdir().expect("a directory");
        let base = scratch.path().canonicalize().expect("there");
        let file = base.join("home/.cargo/credentials.toml");
        fs::create_dir_all(base.join("home/.cargo")).expect("a directory");
        fs::create_dir_all(base.join("work")).expect("a directory");
        fs::write(&file, "").expect("a file");
        let path = |access, path: &Path| RequestedAccess::Path { access, path: path.to_owned() };
        let reads = path(Access::ReadOnly, &file);
        let writes_around = path(Access::ReadWrite, &base.join("home/.cargo"));
        let in_file = format!("[tools.glob]\nfs = [\"ro:{}\"]\n", file.display());
        for (policy, answers) in [
            ("", vec![&reads, &writes_around]),
            ("", vec![&writes_around, &reads]),
            (&in_file, vec![&writes_around]),
        ] {
            fs::write(base.join("ceiling.toml"), "").expect("a file");
            fs::write(base.join("user.toml"), policy).expect("a file");
            fs::set_permissions(base.join("user.toml"), fs::Permissions::from_mode(0o600))
                .expect("permitted");
            let authority = authority_in(&base, Some(base.join("home")));
            for answer in &answers {
                authority.answered(&request(), answer, true);
            }
            let decision = authority.decide(&request()).expect("allowed");
            let writes = path(Access::ReadWrite, &file);
            assert!(decision.grant.covers(&writes_around), "{answers:?}");
            assert!(!decision.grant.covers(&writes), "{answers:?}");
            assert!(!decision.grant.covers(&reads), "{answers:?}");
            assert_eq!(decision.grant.question_for(reads.clone()), writes, "{answers:?}");
            assert!(decision.notes[0].contains("stays hidden"), "{:?}", decision.notes);
            authority.answered(&request(), &writes, true);
            let decision = authority.decide(&request()).expect("allowed");
            assert!(decision.grant.covers(&writes), "{answers:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn no_session_is_wider_than_a_bound(
            (ceiling, user, workspace) in (entry(), entry(), entry()),
            dirs in vec((access(), 0..DIRS.len()), 0..4),
            peers in vec(0..PEERS.len(), 0..3),
        ) {
            let scratch = tempfile::tempdir().expect("a directory");
            let base = scratch.path().canonicalize().expect("there");
            for dir in DIRS.iter().chain(&["work/.ikigai"]) {
                fs::create_dir_all(base.join(dir)).expect("a directory");
            }
            write(&base.join("ceiling.toml"), &base, &ceiling);
            write(&base.join("user.toml"), &base, &user);
            write(&base.join("work/.ikigai/policy.toml"), &base, &workspace);
            let authority = authority(&base);
            let before = grant(&authority);
            let mut asked = Vec::new();
            for (access, dir) in dirs {
                asked.push(RequestedAccess::Path { access, path: base.join(DIRS[dir]) });
            }
            for peer in peers {
                let (host, port) = PEERS[peer].split_once(':').expect("a peer");
                asked.push(RequestedAccess::Peer { host: host.into(), port: port.parse().expect("a port") });
            }
            for reached in &asked {
                // Note the answer even if the user may not be asked, because the bounds must apply
                // without that check.
                let may_ask = authority.may_ask(&request(), &[], reached);
                if let RequestedAccess::Path { path, .. } = reached {
                    prop_assert!(!may_ask || !path.starts_with(base.join("e/f")));
                }
                authority.answered(&request(), reached, true);
            }
            let Some(after) = grant(&authority) else { return Ok(()) };
            let within = |bound: &LayerSample, dir: &GrantedDir| {
                bound.0.as_ref().is_none_or(|dirs| dirs.iter().any(|(access, name)| {
                    dir.path.starts_with(base.join(DIRS[*name])) && dir.access <= *access
                }))
            };
            for dir in &after.dirs {
                for bound in [&ceiling, &workspace] {
                    prop_assert!(within(bound, dir), "{dir:?} beyond {bound:?}");
                }
                let writes_own = dir.access == Access::ReadWrite
                    && (dir.path.starts_with(base.join("e/f")) || base.join("e/f").starts_with(&dir.path));
                prop_assert!(!writes_own, "{dir:?}");
            }
            for peer in &after.net.peers {
                for (_, allowed) in [&ceiling, &workspace] {
                    let named = allowed.as_ref().is_none_or(|allowed| {
                        allowed.iter().any(|index| {
                            Net::parse([PEERS[*index]]).is_ok_and(|own| own.peers.contains(peer))
                        })
                    });
                    prop_assert!(named, "{peer} beyond {allowed:?}");
                }
            }
            // An answer never removes an access that the files grant.
            if let Some(before) = before {
                for dir in &before.dirs {
                    prop_assert!(after.dirs.iter().any(|wider| {
                        dir.path.starts_with(&wider.path) && wider.access >= dir.access
                    }), "{dir:?} lost: {after:?}");
                }
            }
        }
    }
}
