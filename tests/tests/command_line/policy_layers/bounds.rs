//! Bounds, which only narrow grants: ceilings, the file of the workspace, and entries for all
//! tools.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ikigai_host::Digest;
use ikigai_host::policy::{
    Approve, Backend, Decision, LayerKind, PolicyRequest, Provenance, Remedy, RequestedAccess,
    Sandbox,
};
use ikigai_protocol::Access;
use ikigai_tests::draw::Draw;

use crate::policy_layers::rig::{CEILING, Rig, USER, WORKSPACE, contents, granted, system, users};

/// A policy that asks for more of everything. As a bound it must not grant any of it.
const GREEDY: &str = "profile = \"standard\"\n\
    [tools.\"*\"]\nfs = [\"rw:/\"]\nnet = [\"*\"]\nenv = [\"PATH\", \"HOME\"]\nsandbox = \"off\"\n\
    limits = { wall_clock = \"1h\", fuel = 999999999999999, memory = \"64GiB\", output = \"1GiB\", \
    handles = 9999, processes = 9999 }\n";

#[test]
fn neither_a_workspace_nor_a_ceiling_can_give() {
    let own = contents();
    let named = GREEDY.replace("\"*\"]\nfs", "tool]\nfs");
    let new = format!("[tools.tool]\nsha256 = [\"{}\"]\nfs = [\"rw:.\"]\nnet = [\"*\"]\n", own[0]);
    for user in [
        String::new(),
        granted("fs = [\"ro:docs\"]\nnet = [\"a.example:443\"]"),
        "profile = \"strict\"\n[tools.grep]\nfs = [\"ro:docs\"]\nlimits = { fuel = 5 }".to_owned(),
    ] {
        let without = Rig::with("", &user, "");
        for bound in [GREEDY, &named, &new, "[tools.tool]\nbackend = \"native\"\n"] {
            for rig in [Rig::with("", &user, bound), Rig::with(bound, &user, "")] {
                for request in [
                    users(Backend::Wasm, &own),
                    users(Backend::Native, &own),
                    system("grep", Backend::Wasm),
                    system("bash", Backend::Native),
                ] {
                    let what = format!("{user}\n---\n{bound}\n{request:?}");
                    let (before, after) = (without.decide(request), rig.decide(request));
                    match (before, after) {
                        (_, Err(_)) => {}
                        (Err(denial), Ok(_)) => panic!("was denied ({denial}), is not: {what}"),
                        (Ok(before), Ok(after)) => {
                            let (after, before) = (rig.rebased(after), without.rebased(before));
                            assert_within(&after, &before, request, &what);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn each_bound_takes_away_what_it_does_not_allow() {
    let own = contents();
    let user = granted(
        "fs = [\"rw:.\", \"ro:ELSEWHERE\"]\nnet = [\"a.example:443\", \"10.0.0.0/8:*\"]\n\
         env = [\"PATH\", \"HOME\"]\nlimits = { wall_clock = \"60s\", memory = \"1GiB\" }",
    );
    let bound = "[tools.tool]\nfs = [\"ro:docs\", \"rw:src\", \"rw:ELSEWHERE\", \"ro:missing\"]\n\
        net = [\"a.example:*\", \"10.1.0.0/16:80\", \"b.example:1\"]\nenv = [\"PATH\", \"USER\"]\n\
        limits = { wall_clock = \"2s\", memory = \"2GiB\", handles = 3 }\n";
    for (kind, rig) in [
        (LayerKind::Workspace, Rig::with("", &user, bound)),
        (LayerKind::Ceiling, Rig::with(bound, &user, "")),
    ] {
        let decision = rig.allowed(users(Backend::Wasm, &own));
        assert_eq!(rig.dirs(&decision), ["ro:elsewhere", "ro:w/docs", "rw:w/src"]);
        assert_eq!(decision.grant.net.to_string(), "a.example:443 10.1.0.0/16:80");
        assert_eq!(decision.variables.len(), 1, "{:?}", decision.variables);
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(2));
        assert_eq!((decision.limits.wasm_memory, decision.limits.handles), (1 << 30, 3));
        for capability in ["fs", "net", "env", "wall_clock", "handles"] {
            let last = decision.provenance.for_capability(capability).last();
            let narrowed = matches!(last, Some(Provenance::File { kind: own, .. }) if *own == kind);
            assert!(narrowed, "{capability}: {last:?}");
        }
        assert_eq!(decision.provenance.for_capability("memory").len(), 1);
    }
    // A missing key narrows nothing. An empty list takes everything away.
    let rig = Rig::with("[tools.tool]\nnet = []\n", &user, "");
    let decision = rig.allowed(users(Backend::Wasm, &own));
    assert_eq!(rig.dirs(&decision), ["ro:elsewhere", "rw:w"]);
    assert!(decision.grant.net.is_none() && decision.variables.len() == 2);
}

#[test]
fn a_grant_of_what_is_hidden_grants_nothing() {
    let own = contents();
    let hide = "[tools.\"*\"]\nhide = [\"secrets\", \".env\"]\n";
    let user = granted(
        "fs = [\"ro:docs\", \"ro:secrets/a\", \"rw:src/Secrets\", \"ro:.env\", \"ro:ELSEWHERE/secrets/b\"]",
    );
    for backend in [Backend::Wasm, Backend::Native] {
        let rig = Rig::new();
        for dir in ["w/secrets/a", "w/src/Secrets", "elsewhere/secrets/b"] {
            fs::create_dir_all(rig.path(dir)).expect("made");
        }
        rig.write("w/.env", "");
        rig.write(USER, &user);
        let before = rig.allowed(users(backend, &own));
        assert_eq!(before.grant.dirs.len(), 5, "{:?}", before.grant);
        rig.write(CEILING, hide);
        let decision = rig.allowed(users(backend, &own));
        assert_eq!(rig.dirs(&decision), ["ro:w/docs"], "{backend}");
        let of_fs = decision.provenance.for_capability("fs");
        let by_ceiling = |it: &Provenance| {
            matches!(it, Provenance::File { kind: LayerKind::Ceiling, line: 2, .. })
        };
        assert!(of_fs.iter().any(by_ceiling), "{of_fs:?}");
        let notes = decision.notes.iter().filter(|note| note.contains("grants nothing"));
        assert_eq!(notes.count(), 4, "{:?}", decision.notes);
    }
}

#[test]
fn a_bound_on_an_unconfined_tool_needs_the_sandbox() {
    let own = contents();
    let free = granted("sandbox = \"off\"");
    for bound in ["fs = [\"ro:.\"]", "net = []", "env = [\"LANG\"]", "sandbox = \"require\""] {
        for name in ["tool", "\"*\""] {
            let text = format!("[tools.{name}]\n{bound}\n");
            for rig in [Rig::with("", &free, &text), Rig::with(&text, &free, "")] {
                let decision = rig.allowed(users(Backend::Native, &own));
                let grant = &decision.grant;
                assert_eq!(grant.sandbox, Sandbox::Require, "{text}");
                // The entry lists nothing, and a bound grants nothing.
                assert!(!grant.inherits_env && grant.dirs.is_empty(), "{text}: {grant:?}");
                assert!(grant.net.is_none(), "{text}: {grant:?}");
                assert!(decision.provenance.for_capability("sandbox").len() > 1, "{text}");
            }
        }
    }
    // A file tool enforces a bound itself, so its sandbox stays at `prefer`. `off` becomes
    // `require`.
    let rig = Rig::with("[tools.grep]\nfs = [\"ro:docs\"]", "", "");
    let decision = rig.allowed(system("grep", Backend::Native));
    assert_eq!(
        (rig.dirs(&decision), decision.grant.sandbox),
        (vec!["ro:w/docs".into()], Sandbox::Prefer)
    );
    let rig = Rig::with("[tools.grep]\nfs = [\"ro:docs\"]", "[tools.grep]\nsandbox = \"off\"", "");
    assert_eq!(rig.allowed(system("grep", Backend::Native)).grant.sandbox, Sandbox::Require);
}

#[test]
fn contents_that_a_bound_does_not_name_do_not_run() {
    let other = format!("[tools.tool]\nsha256 = [\"{}\"]\n", Digest::from_bytes(b"other"));
    let own = contents();
    for rig in [Rig::with(&other, &granted(""), ""), Rig::with("", &granted(""), &other)] {
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains("allows other contents"), "{denial}");
    }
}

#[test]
fn a_denied_tool_does_not_run_whatever_grants_it() {
    let own = contents();
    let changed = [Digest::from_bytes(b"another")];
    let grants = granted("fs = [\"rw:.\"]") + "[tools.grep]\nfs = [\"ro:docs\"]\n";
    for denied in ["tool", "grep"] {
        let deny = format!("[tools.{denied}]\ndeny = true\n");
        let denying_grants = grants
            .replace(&format!("[tools.{denied}]\n"), &format!("[tools.{denied}]\ndeny = true\n"));
        for rig in [
            Rig::with(&deny, &grants, ""),
            Rig::with("", &grants, &deny),
            Rig::with("", &denying_grants, ""),
            // An entry denies without a digest as well.
            Rig::with("", &deny, ""),
        ] {
            for request in [
                users(Backend::Wasm, &own),
                users(Backend::Native, &own),
                users(Backend::Native, &changed),
                system("grep", Backend::Wasm),
            ] {
                let is_denied = request.name == Some(denied);
                let decided = rig.decide(request);
                let by_key =
                    decided.as_ref().is_err_and(|it| it.reason.ends_with(" denies this tool"));
                assert_eq!(by_key, is_denied, "{denied}: {request:?}: {decided:?}");
                assert_eq!(decided.is_err_and(|it| it.is_by_deny), is_denied, "{request:?}");
            }
        }
    }
    // Nothing lifts the denial: neither a person's answer nor another layer.
    let rig = Rig::with("[tools.tool]\ndeny = true\n", "[tools.tool]\ndeny = false\n", "");
    let host = rig.host().expect("a policy");
    let denial = host.authority().decide(&users(Backend::Native, &own)).expect_err("denied");
    assert!(denial.remedy.is_none() && denial.reason.contains("ceiling.toml:2"), "{denial}");
}

#[test]
fn a_tool_that_is_named_by_its_path_is_bound_as_by_its_name() {
    let own = contents();
    let names = ["tool".to_owned()];
    let user = granted(
        "fs = [\"rw:.\", \"ro:ELSEWHERE\"]\nnet = [\"a.example:443\"]\nenv = [\"PATH\"]\n\
         limits = { wall_clock = \"60s\" }",
    );
    let free = granted("sandbox = \"off\"");
    let other = Digest::from_bytes(b"other");
    let mut layers: Vec<(String, String, String)> = Vec::new();
    for keys in [
        "deny = true",
        "fs = []",
        "fs = [\"ro:docs\"]",
        "net = []",
        "env = []",
        "hide = [\".env\"]",
        "approve = \"always\"",
        "ask = false",
        "limits = { wall_clock = \"1s\", memory = \"1MiB\" }",
        "backend = \"wasm\"",
        &format!("sha256 = [\"{other}\"]"),
    ] {
        let bound = format!("[tools.tool]\n{keys}\n");
        layers.push((bound.clone(), user.clone(), String::new()));
        layers.push((String::new(), user.clone(), bound));
    }
    for keys in ["sandbox = \"require\"", "deny = true", "hide = [\".env\"]"] {
        let bound = format!("[tools.tool]\n{keys}\n");
        layers.push((bound.clone(), free.clone(), String::new()));
        layers.push((String::new(), free.clone(), bound));
    }
    // The user's own entry denies and narrows without a digest, and so does a revoked one.
    for own in [
        "deny = true",
        "sha256 = []",
        "hide = [\".env\"]\napprove = \"always\"",
        "limits = { wall_clock = \"1s\" }",
    ] {
        layers.push((String::new(), format!("[tools.tool]\n{own}\n"), String::new()));
    }
    for (ceiling, user, workspace) in &layers {
        let rig = Rig::with(ceiling, user, workspace);
        for backend in [Backend::Wasm, Backend::Native] {
            let by_name = users(backend, &own);
            let by_path = PolicyRequest { name: None, names: &names, ..by_name };
            let what = format!("{backend}: {ceiling}---\n{user}---\n{workspace}");
            assert_eq!(rig.decide(by_path), rig.decide(by_name), "{what}");
        }
    }
    // An entry that lists the contents names the tool as well.
    let unnamed = PolicyRequest { name: None, ..users(Backend::Native, &own) };
    let deny = "[tools.tool]\ndeny = true\n";
    assert!(Rig::with(deny, &user, "").decide(unnamed).is_err_and(|it| it.is_by_deny));
    let listing = format!("[tools.another]\nsha256 = [\"{}\"]\nfs = []\n", own[0]);
    for (file, rig) in
        [(CEILING, Rig::with(&listing, &user, "")), (WORKSPACE, Rig::with("", &user, &listing))]
    {
        let decision = rig.allowed(unnamed);
        assert!(decision.grant.dirs.is_empty(), "{:?}", decision.grant);
        let line = format!("{file}:3");
        assert!(decision.granted_by().iter().any(|by| by.ends_with(&line)), "{decision:?}");
    }
    // Any of several names denies, and `*` applies beside the entries of the names.
    let several = ["tool".to_owned(), "twin".to_owned()];
    let twin = PolicyRequest { names: &several, ..unnamed };
    for denied in ["tool", "twin"] {
        let rig = Rig::with(&format!("[tools.{denied}]\ndeny = true\n"), &user, "");
        assert!(rig.decide(twin).is_err_and(|it| it.is_by_deny), "{denied}");
    }
    let rig = Rig::with("[tools.\"*\"]\nfs = []\n[tools.tool]\nfs = [\"ro:docs\"]\n", &user, "");
    assert!(rig.allowed(twin).grant.dirs.is_empty());
    // Other contents without a name are another program.
    let changed = [other];
    let another = PolicyRequest { contents: &changed, ..unnamed };
    assert!(Rig::with(deny, &user, deny).decide(another).is_ok());
}

#[test]
fn where_every_tool_is_denied_those_with_an_entry_in_that_file_run() {
    let own = contents();
    let every = "[tools.\"*\"]\ndeny = true\n";
    let entries = "[tools.grep]\nfs = [\"ro:docs\"]\n[tools.tool]\n";
    let requests = || {
        [
            system("grep", Backend::Wasm),
            system("glob", Backend::Wasm),
            users(Backend::Wasm, &own),
            PolicyRequest { name: None, ..users(Backend::Native, &own) },
        ]
    };
    let runs = |rig: &Rig| requests().map(|request| rig.decide(request).is_ok());
    let with_entries = format!("{every}{entries}");
    assert_eq!(runs(&Rig::with("", every, "")), [false; 4]);
    let denial = Rig::with("", every, "").decide(system("grep", Backend::Wasm));
    let denial = denial.expect_err("denied");
    assert!(denial.is_by_deny, "{denial}");
    assert_eq!(denial.remedy.as_deref(), Some(&Remedy::AddEntry { tool: "grep".to_owned() }));
    // No entry of the user lifts the denial of a ceiling.
    let denial = Rig::with(every, "", "").decide(system("grep", Backend::Wasm));
    assert_eq!(denial.expect_err("denied").remedy, None);
    // A bound applies to names. A grant of a user's tool applies to contents.
    assert_eq!(runs(&Rig::with(&with_entries, "", "")), [true, false, true, false]);
    assert_eq!(runs(&Rig::with("", "", &with_entries)), [true, false, true, false]);
    assert_eq!(runs(&Rig::with("", &with_entries, "")), [true, false, false, false]);
    let bound = format!("{every}{}", granted(""));
    assert_eq!(runs(&Rig::with("", &bound, "")), [false, false, true, true]);
    // An entry in another file lifts no denial.
    assert_eq!(runs(&Rig::with(every, entries, entries)), [false; 4]);
    let rig = Rig::with("", &with_entries, "");
    let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied");
    assert_eq!(denial.remedy.as_deref(), Some(&Remedy::GrantToRun { tool: "tool".to_owned() }));
    assert!(denial.reason.contains("policy.toml:2 denies every tool"), "{denial}");
}

#[test]
fn a_key_of_an_entry_replaces_that_of_every_tool_in_the_same_file() {
    let own = contents();
    let every = "[tools.\"*\"]\nfs = [\"ro:docs\"]\nnet = []\napprove = \"always\"\nask = false\n\
                 hide = [\".env\"]\nlimits = { fuel = 5, handles = 5 }\n";
    let entry = granted(
        "fs = [\"rw:.\"]\nnet = [\"a.example:443\"]\napprove = \"changes\"\nask = true\n\
         hide = [\"*.pem\"]\nlimits = { fuel = 50 }",
    );
    let both = format!("{every}{entry}");
    let check = |rig: &Rig, replaces: bool| {
        let decision = rig.allowed(users(Backend::Wasm, &own));
        let what = format!("{decision:?}");
        let dirs = rig.dirs(&decision);
        assert_eq!(dirs, [if replaces { "rw:w" } else { "ro:w/docs" }], "{what}");
        assert_eq!(decision.grant.net.is_none(), !replaces, "{what}");
        let approve = if replaces { Approve::Changes } else { Approve::Always };
        assert_eq!((decision.approve, decision.ask), (approve, replaces), "{what}");
        // If the entry lacks a key, the value for all tools stays. Hidden names add up.
        let fuel = if replaces { 50 } else { 5 };
        assert_eq!((decision.limits.fuel, decision.limits.handles), (fuel, 5), "{what}");
        assert_eq!(decision.grant.hide.patterns().len(), 2, "{what}");
    };
    check(&Rig::with("", &both, ""), true);
    check(&Rig::with(&both, &entry, ""), true);
    check(&Rig::with("", &entry, &both), true);
    check(&Rig::with(every, &entry, ""), false);
    check(&Rig::with(every, &both, &entry), false);
    check(&Rig::with("", &entry, every), false);
    // An entry that is bound to no contents is not a grant of this tool, and replaces nothing.
    let named = "[tools.tool]\napprove = \"changes\"\nask = true\n";
    let rig = Rig::with("", &format!("{every}{named}"), "");
    let decision = rig.allowed(users(Backend::Wasm, &own));
    assert_eq!((decision.approve, decision.ask), (Approve::Always, false));
}

#[test]
fn whatever_the_layers_say_together_they_never_give_more_than_each() {
    let own = contents();
    let mut draw = Draw::new(7);
    let mut both = 0;
    for round in 0..300 {
        let user = random(&mut draw, Some(&own[0]));
        let bound = random(&mut draw, None);
        let without = Rig::with("", &user, "");
        let rigs = [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")];
        for rig in rigs {
            let (Ok(_), Ok(_)) = (without.host(), rig.host()) else { continue };
            for backend in [Backend::Wasm, Backend::Native] {
                for request in
                    [users(backend, &own), system("grep", backend), system("bash", backend)]
                {
                    let what = format!("round {round}\n{user}\n---\n{bound}\n{request:?}");
                    match (without.decide(request), rig.decide(request)) {
                        (_, Err(_)) => {}
                        (Err(denial), Ok(_)) => panic!("was denied ({denial}), is not: {what}"),
                        (Ok(before), Ok(after)) => {
                            both += 1;
                            assert_hides(&rig, &after, &without, &before, &what);
                            let (after, before) = (rig.rebased(after), without.rebased(before));
                            assert_within(&after, &before, request, &what);
                        }
                    }
                }
            }
        }
    }
    assert!(both > 500, "{both} were compared");
}

/// Returns a policy file with a random choice of keys and values.
fn random(draw: &mut Draw, digest: Option<&Digest>) -> String {
    const DIRS: &[&str] = &[
        "ro:.",
        "rw:.",
        "ro:docs",
        "rw:docs",
        "ro:src",
        "rw:ELSEWHERE",
        "ro:/",
        "ro:docs/secrets",
        "ro:ELSEWHERE/..",
    ];
    const PEERS: &[&str] =
        &["*", "a.example:443", "a.example:*", "10.0.0.0/8:*", "10.1.0.0/16:80", "b.example:1"];
    const HIDDEN: &[&str] = &[".env", "**/*.pem", "docs/secrets/", "secrets/a", "w/docs/*/a"];
    let mut text = String::new();
    if draw.flip() {
        let profile = *draw.one(&["strict", "standard"]);
        text += &format!("profile = \"{profile}\"\n");
    }
    for name in ["tool", "grep", "bash", "\"*\""] {
        if draw.flip() {
            continue;
        }
        text += &format!("[tools.{name}]\n");
        if let Some(digest) = digest.filter(|_| name == "tool") {
            text += &format!("sha256 = [\"{digest}\"]\n");
        }
        let env = &["PATH", "HOME", "OPENAI_API_KEY"];
        for (key, words) in [("fs", DIRS), ("net", PEERS), ("env", env), ("hide", HIDDEN)] {
            if draw.flip() {
                let words: Vec<_> =
                    draw.some(words).iter().map(|word| format!("{word:?}")).collect();
                text += &format!("{key} = [{}]\n", words.join(", "));
            }
        }
        if draw.flip() {
            let word = draw.one(&["none", "read", "write"]);
            text += &format!("assets = \"{word}\"\n");
        }
        if draw.flip() {
            let word = draw.one(&["off", "prefer", "require"]);
            text += &format!("sandbox = \"{word}\"\n");
        }
        if *draw.one(&[true, false, false, false, false, false]) {
            text += "deny = true\n";
        }
        if draw.flip() {
            let (fuel, seconds) = (draw.one(&["5", "500"]), draw.one(&["1", "60"]));
            text += &format!("limits = {{ fuel = {fuel}, wall_clock = \"{seconds}s\" }}\n");
        }
    }
    text
}

/// Asserts that `after` shows nothing that `before` hides.
#[track_caller]
fn assert_hides(rig: &Rig, after: &Decision, without: &Rig, before: &Decision, what: &str) {
    for path in ["docs/secrets/a", "src/b.pem", "docs/secrets", "src/sub/.env", "docs/x"] {
        let path = Path::new("w").join(path);
        let (now, then) = (rig.path("").join(&path), without.path("").join(&path));
        let is_in = after.grant.dirs.iter().any(|dir| now.starts_with(&dir.path));
        let is_shown = is_in && !after.grant.hides(&now);
        assert!(!is_shown || !before.grant.hides(&then), "{path:?}\n{what}");
    }
}

/// Asserts that `after` grants nothing that `before` does not.
#[track_caller]
fn assert_within(after: &Decision, before: &Decision, request: PolicyRequest<'_>, what: &str) {
    let (now, then) = (&after.grant, &before.grant);
    let was_free = before.is_unconfined(request.backend);
    assert!(!after.is_unconfined(request.backend) || was_free, "unconfined now\n{what}");
    assert!(now.sandbox >= then.sandbox && after.profile >= before.profile, "{what}");
    for dir in &now.dirs {
        let covers = |outer: &ikigai_protocol::GrantedDir| {
            dir.path.starts_with(&outer.path) && dir.access <= outer.access
        };
        assert!(was_free || then.dirs.iter().any(covers), "{dir:?}\n{what}");
    }
    assert!(was_free || !now.net.any || then.net.any, "the whole network\n{what}");
    for peer in &now.net.peers {
        // If the list covers a peer, the peer equals its intersection with the list.
        let alone = ikigai_host::policy::Net { any: false, peers: vec![peer.clone()] };
        let shared = then.net.meet(&alone);
        assert!(was_free || shared.peers.contains(peer), "{peer}\n{what}");
    }
    assert!(now.assets <= then.assets, "assets\n{what}");
    let hidden = then.hide.patterns();
    assert!(hidden.iter().all(|it| now.hide.patterns().contains(it)), "{hidden:?}\n{what}");
    let told = |name: &std::ffi::OsString| name == "IKIGAI_DIRS";
    for (name, _) in now.env.iter().filter(|(name, _)| !told(name)) {
        assert!(then.env.iter().any(|(own, _)| own == name), "{name:?}\n{what}");
    }
    let (now, then) = (&after.limits, &before.limits);
    assert!(
        now.wall_clock <= then.wall_clock
            && now.fuel <= then.fuel
            && now.wasm_memory <= then.wasm_memory
            && now.native_memory <= then.native_memory
            && now.output <= then.output
            && now.handles <= then.handles
            && now.processes <= then.processes,
        "{now:?} and {then:?}\n{what}"
    );
}

/// A host whose home, `HOME` in policies, has secrets, and whose workspace has places that other
/// programs execute.
fn with_reserved_places(user: &str, bound: &str, bound_file: &str) -> Rig {
    let rig = Rig::new();
    for file in [
        "home/.ssh/id",
        "home/.ssh/keys/one",
        "home/.aws/config",
        "home/.netrc",
        "home/notes/today",
        "w/.git/hooks/pre-push",
        "w/.vscode/tasks.json",
    ] {
        fs::create_dir_all(rig.path(file).parent().expect("a directory")).expect("made");
        fs::write(rig.path(file), "x").expect("written");
    }
    let home = rig.path("home").display().to_string();
    rig.write(USER, &user.replace("HOME", &home));
    rig.write(bound_file, &bound.replace("HOME", &home));
    rig
}

#[test]
fn a_bound_opens_no_place_of_secrets() {
    let user = "[tools.file_read]\nfs = [\"ro:HOME\", \"ro:HOME/.aws/config\"]\n\
        [tools.bash]\nfs = [\"ro:HOME\", \"ro:HOME/.aws/config\"]\n";
    let bound = "[tools.\"*\"]\nfs = [\"ro:HOME/notes\", \"ro:HOME/.ssh/id\", \"ro:HOME/.ssh/keys\", \
        \"ro:HOME/.aws\", \"ro:HOME/.netrc\"]\n";
    for file in [CEILING, WORKSPACE] {
        let rig = with_reserved_places(user, bound, file);
        for request in [system("file_read", Backend::Wasm), system("bash", Backend::Native)] {
            let decision = rig.allowed(request);
            assert_eq!(rig.dirs(&decision), ["ro:home/.aws/config", "ro:home/notes"], "{file}");
            let notes = decision.notes.join("\n");
            assert!(notes.contains(".netrc` is in a place of secrets"), "{notes}");
        }
    }
}

#[test]
fn a_bound_lets_no_tool_write_to_a_place_that_other_programs_execute() {
    let bound = "[tools.\"*\"]\n\
        fs = [\"rw:src\", \"rw:.git/hooks/pre-push\", \"rw:.vscode/tasks.json\"]\n";
    let named = "[tools.bash]\nfs = [\"rw:.\", \"rw:.vscode\"]\n";
    for file in [CEILING, WORKSPACE] {
        for (user, tasks) in [("", "ro"), (named, "rw")] {
            let rig = with_reserved_places(user, bound, file);
            let decision = rig.allowed(system("bash", Backend::Native));
            let tasks = format!("{tasks}:w/.vscode/tasks.json");
            let expected = ["ro:w/.git/hooks/pre-push", &tasks, "rw:w/src"];
            assert_eq!(rig.dirs(&decision), expected, "{file}, {user}");
            let notes = decision.notes.join("\n");
            assert!(notes.contains("pre-push` is read-only"), "{notes}");
        }
    }
}

#[test]
fn a_bound_that_lists_a_repository_leaves_it_writable() {
    let bound = "[tools.\"*\"]\nfs = [\"rw:src\", \"rw:.git\"]\n";
    let rig = with_reserved_places("", bound, WORKSPACE);
    let decision = rig.allowed(system("bash", Backend::Native));
    assert_eq!(rig.dirs(&decision), ["rw:w/.git", "rw:w/src"]);
    let write = |path: &str| {
        decision
            .grant
            .covers(&RequestedAccess::Path { access: Access::ReadWrite, path: rig.path(path) })
    };
    assert!(write("w/.git/index") && !write("w/.git/config") && !write("w/.git/hooks/pre-push"));
}

#[test]
fn no_list_of_reserved_places_gives_an_access_that_the_tool_did_not_have() {
    const LISTED: [&str; 14] = [
        ".",
        "src",
        ".git",
        ".git/hooks",
        ".git/hooks/pre-push",
        ".vscode",
        ".vscode/tasks.json",
        "HOME",
        "HOME/.ssh",
        "HOME/.ssh/id",
        "HOME/.ssh/keys",
        "HOME/.aws",
        "HOME/.netrc",
        "HOME/notes",
    ];
    let named = "[tools.bash]\n\
        fs = [\"rw:.\", \"rw:.vscode\", \"ro:HOME\", \"ro:HOME/.ssh/keys\"]\n\
        [tools.file_write]\nfs = [\"rw:HOME/notes\", \"rw:HOME/.ssh\"]\n";
    for user in ["", named] {
        let rig = with_reserved_places(user, "", WORKSPACE);
        let home = rig.path("home").display().to_string();
        let paths: Vec<_> = LISTED
            .iter()
            .chain(&["HOME/.ssh/keys/one", "HOME/.aws/config", "HOME/notes/today", ".git/config"])
            .map(|path| match path.strip_prefix("HOME") {
                Some(rest) => rig.path(&format!("home{rest}")),
                None => rig.path("w").join(path).components().collect(),
            })
            .collect();
        let accesses: Vec<RequestedAccess> = paths
            .into_iter()
            .flat_map(|path| {
                [Access::ReadOnly, Access::ReadWrite]
                    .map(|access| RequestedAccess::Path { access, path: path.clone() })
            })
            .collect();
        for request in [system("bash", Backend::Native), system("file_write", Backend::Wasm)] {
            rig.write(WORKSPACE, "");
            let before = rig.allowed(request).grant;
            let mut given = 0;
            for (at, one) in LISTED.iter().enumerate() {
                for other in &LISTED[at..] {
                    let list = format!("[tools.\"*\"]\nfs = [\"rw:{one}\", \"rw:{other}\"]\n");
                    rig.write(WORKSPACE, &list.replace("HOME", &home));
                    let after = rig.allowed(request).grant;
                    for access in &accesses {
                        given += usize::from(after.covers(access));
                        assert!(
                            before.covers(access) || !after.covers(access),
                            "{access} of {request:?}\n{list}\n{user}"
                        );
                    }
                }
            }
            assert!(given > 0, "the lists leave nothing to {request:?}");
        }
    }
}
