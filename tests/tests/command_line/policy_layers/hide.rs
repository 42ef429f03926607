//! Hidden names across the layers. A name that any layer hides is hidden, and needs the sandbox.

use ikigai_host::policy::{Backend, Decision, LayerKind, PolicyRequest, Provenance, Sandbox};

use crate::policy_layers::rig::{CEILING, Rig, USER, contents, granted, system, users};

/// Returns the hidden patterns, sorted.
fn hidden(decision: &Decision) -> Vec<&str> {
    let mut patterns: Vec<&str> =
        decision.grant.hide.patterns().iter().map(String::as_str).collect();
    patterns.sort_unstable();
    patterns
}

/// Returns the layers of these rules.
fn kinds(rules: &[Provenance]) -> Vec<LayerKind> {
    let kind = |rule: &Provenance| match rule {
        Provenance::File { kind, .. } => *kind,
        other => panic!("no rule of a file: {other:?}"),
    };
    rules.iter().map(kind).collect()
}

/// Returns a request for each kind of tool: a built-in tool and a user's tool, as either build.
fn requests(contents: &[ikigai_host::Digest]) -> [PolicyRequest<'_>; 5] {
    [
        system("grep", Backend::Wasm),
        system("grep", Backend::Native),
        system("bash", Backend::Native),
        users(Backend::Wasm, contents),
        users(Backend::Native, contents),
    ]
}

#[test]
fn a_grant_of_less_shows_no_more_of_what_a_ceiling_hides() {
    let own = contents();
    for (bound, fs) in
        [("docs", "docs/conf"), (".", "docs/conf"), (".", "docs"), ("..", "."), ("..", "docs/conf")]
    {
        for backend in [Backend::Wasm, Backend::Native] {
            // Each pattern starts at a different place: at the workspace, at the ceiling's granted
            // directory, at any directory.
            let hide = match bound {
                ".." => "hide = [\"w/docs/*/key\", \"**/deep/key\"]",
                _ => "hide = [\"docs/conf/key\", \"conf/key\", \"**/deep/key\"]",
            };
            let ceiling = format!("[tools.\"*\"]\nfs = [\"ro:{bound}\"]\n{hide}\n");
            let ceiling = ceiling.replace("ro:..", "ro:WORKSPACE/..");
            let rig = Rig::new();
            std::fs::create_dir_all(rig.path("w/docs/conf/deep")).expect("made");
            rig.write(
                CEILING,
                &ceiling.replace("WORKSPACE", rig.path("w").to_str().expect("UTF-8")),
            );
            rig.write(USER, &granted(&format!("fs = [\"ro:{fs}\"]")));
            let decision = rig.allowed(users(backend, &own));
            assert_eq!(decision.grant.dirs.len(), 1, "{bound} {fs}");
            for hidden in ["w/docs/conf/key", "w/docs/conf/key/x", "w/docs/conf/deep/key"] {
                assert!(decision.grant.hides(&rig.path(hidden)), "{bound} {fs} {hidden}");
            }
            assert!(!decision.grant.hides(&rig.path("w/docs/conf/other")), "{bound} {fs}");
        }
    }
}

#[test]
fn what_any_layer_hides_is_hidden_and_none_shows_it_again() {
    let own = contents();
    let of = |pattern: &str| format!("[tools.tool]\nhide = [{pattern}]\n");
    let rig = Rig::with(
        &of("\".env\", \"ceiling/\""),
        &granted("hide = [\".env\", \"*.pem\"]\nfs = [\"rw:.\"]"),
        &of("\"workspace\""),
    );
    let decision = rig.allowed(users(Backend::Wasm, &own));
    assert_eq!(hidden(&decision), ["*.pem", ".env", "ceiling/", "workspace"]);
    let kinds = kinds(decision.provenance.for_capability("hide"));
    for kind in [LayerKind::Ceiling, LayerKind::User, LayerKind::Workspace] {
        assert_eq!(kinds.iter().filter(|it| **it == kind).count(), 1, "{kinds:?}");
    }
    // An empty list, or a different one, reveals nothing.
    for bound in ["[tools.tool]\nhide = []\n", "[tools.\"*\"]\nhide = []\n"] {
        for rig in [
            Rig::with(bound, &granted("hide = [\".env\"]"), ""),
            Rig::with(&of("\".env\""), &granted("hide = []"), bound),
        ] {
            assert_eq!(hidden(&rig.allowed(users(Backend::Wasm, &own))), [".env"], "{bound}");
        }
    }
    // One tool's entry hides nothing from another tool.
    let rig = Rig::with(&of("\".env\""), "", &of("\".env\""));
    assert!(hidden(&rig.allowed(system("grep", Backend::Wasm))).is_empty());
}

#[test]
fn a_ceiling_hides_for_everybody() {
    let own = contents();
    let every = "[tools.\"*\"]\nhide = [\".env\"]\n";
    for user in ["", &granted("fs = [\"rw:.\"]"), "[tools.grep]\nhide = [\"*.pem\"]\n"] {
        for (rig, kind) in [
            (Rig::with(every, user, ""), LayerKind::Ceiling),
            (Rig::with("", user, every), LayerKind::Workspace),
            (Rig::with("", &format!("{user}{every}"), ""), LayerKind::User),
        ] {
            for request in requests(&own) {
                let decision = rig.allowed(request);
                assert!(hidden(&decision).contains(&".env"), "{user}\n{request:?}");
                let kinds = kinds(decision.provenance.for_capability("hide"));
                assert!(kinds.contains(&kind), "{user}\n{request:?} {kinds:?}");
                assert_eq!(decision.grant.sandbox, Sandbox::Require, "{user}\n{request:?}");
            }
        }
    }
}

#[test]
fn a_tool_from_which_something_is_hidden_needs_the_sandbox() {
    let own = contents();
    let native = users(Backend::Native, &own);
    let free = granted("sandbox = \"off\"");
    let hiding = "[tools.tool]\nhide = [\".env\"]\n";
    for rig in [
        Rig::with("", &granted("sandbox = \"off\"\nhide = [\".env\"]"), ""),
        Rig::with(hiding, &free, ""),
        Rig::with("", &free, hiding),
    ] {
        let decision = rig.allowed(native);
        assert_eq!(decision.grant.sandbox, Sandbox::Require);
        assert!(!decision.is_unconfined(Backend::Native));
        assert!(decision.grant.dirs.is_empty(), "to hide gives nothing: {:?}", decision.grant);
    }
    for user in ["sandbox = \"off\"", "sandbox = \"prefer\""] {
        let user = format!("[tools.bash]\n{user}\nhide = [\".env\"]\n");
        let decision = Rig::with("", &user, "").allowed(system("bash", Backend::Native));
        assert_eq!(decision.grant.sandbox, Sandbox::Require, "{user}");
    }
    // An empty list hides nothing.
    let rig = Rig::with("[tools.tool]\nhide = []\n", &free, "");
    assert_eq!(rig.allowed(native).grant.sandbox, Sandbox::Off);
}

#[test]
fn what_is_denied_by_itself_is_not_allowed_by_a_bound() {
    let own = contents();
    let native = users(Backend::Native, &own);
    let keys = "sandbox = \"off\"\nnet = [\"a.example:443\"]";
    let denied = |rig: &Rig| {
        let denial = rig.decide(native).expect_err("denied").to_string();
        assert!(denial.contains("the whole network"), "{denial}");
    };
    denied(&Rig::with("", &granted(keys), ""));
    for bound in [
        "[tools.tool]\nhide = [\".env\"]\n",
        "[tools.\"*\"]\nhide = [\".env\"]\n",
        "[tools.tool]\nsandbox = \"require\"\n",
        "profile = \"strict\"\n",
    ] {
        denied(&Rig::with(bound, &granted(keys), ""));
        denied(&Rig::with("", &granted(keys), bound));
    }
    // The user's own entry contains both keys, and the pattern confines the tool.
    let rig = Rig::with("", &granted(&format!("{keys}\nhide = [\".env\"]")), "");
    let decision = rig.allowed(native);
    assert_eq!(decision.grant.sandbox, Sandbox::Require);
    assert_eq!(decision.grant.net.to_string(), "a.example:443");
}

#[test]
fn a_granted_link_with_a_hidden_name_is_not_shown() {
    let rig = Rig::new();
    let link = rig.path("elsewhere/link");
    std::os::unix::fs::symlink(rig.path("w/docs"), &link).expect("linked");
    let fs = format!("[tools.bash]\nfs = [\"rw:.\", \"ro:{}\"]\n", link.display());
    for (hide, links) in [("other", 1), ("link", 0)] {
        rig.write(USER, &fs);
        rig.write(CEILING, &format!("[tools.\"*\"]\nhide = [\"{hide}\"]\n"));
        let decision = rig.allowed(system("bash", Backend::Native));
        assert_eq!(decision.grant.links.len(), links, "{hide}");
    }
}
