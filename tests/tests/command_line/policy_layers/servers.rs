//! Grants of servers and of their tools.

use std::time::Duration;

use ikigai_host::Digest;
use ikigai_host::policy::{Approve, PolicyRequest, Sandbox, ServerTool};

use crate::policy_layers::rig::{
    Rig, approved, asked, described, granted_server, of_server, server_contents,
};

#[test]
fn a_server_is_used_as_it_was_granted_and_a_call_of_it_has_a_minute() {
    let own = server_contents();
    let rig = Rig::with("", &granted_server("fs = [\"ro:docs\"]\nenv = [\"PATH\"]"), "");
    let tool = rig.allowed(of_server(Some("echo"), &own));
    let server = rig.allowed(of_server(None, &own));
    assert_eq!(rig.dirs(&tool), ["ro:w/docs"]);
    assert!(tool.grant.net.is_none() && tool.grant.sandbox == Sandbox::Require);
    assert_eq!(tool.grant, server.grant, "the process serves each of its tools");
    assert_eq!(tool.limits.wall_clock, Duration::from_secs(60));
    let longer = Rig::with("", &granted_server("limits = { wall_clock = \"90s\" }"), "");
    let longer = longer.allowed(of_server(Some("echo"), &own));
    assert_eq!(longer.limits.wall_clock, Duration::from_secs(90));
    for (tool, contents, expected) in [
        (Some("other"), &own[..], "was not approved"),
        (Some("echo"), &own[..1], ""),
        (
            Some("echo"),
            &[own[0], Digest::from_bytes(b"another")][..],
            "is not the file that was granted",
        ),
        (None, &[Digest::from_bytes(b"another"), own[1]][..], "is not the file that was granted"),
        (None, &[][..], "is not the file that was granted"),
    ] {
        match rig.decide(of_server(tool, contents)) {
            Ok(_) => assert_eq!(expected, "", "{tool:?}"),
            Err(denial) => {
                let denial = denial.to_string();
                assert!(!expected.is_empty() && denial.contains(expected), "{tool:?}: {denial}");
            }
        }
    }
    let another = Digest::from_bytes(b"another");
    for (contents, file) in [
        (&[own[0], another][..], "the program of `/user/peer.mcp.toml`"),
        (&[another, own[1]], "`/user/peer.mcp.toml`"),
        // The definition changed after it was read.
        (&[own[0], another, own[1]], "`/user/peer.mcp.toml`"),
    ] {
        let denial = rig.decide(of_server(None, contents)).expect_err("denied").to_string();
        let told = format!("{file} is not the file that was granted");
        assert!(denial.starts_with(&told), "{told}: {denial}");
        assert!(denial.contains(&format!("its sha256 is {another},")), "{denial}");
    }
    let changed = ServerTool { name: "echo", digest: Digest::from_bytes(b"described otherwise") };
    let changed = PolicyRequest { tool: Some(changed), ..of_server(None, &own) };
    let denial = rig.decide(changed).expect_err("denied").to_string();
    assert!(denial.contains("changed its tool `echo`"), "{denial}");
    // A tool's entry with the same name is not the server's entry.
    let rig = Rig::with("", &granted_server("").replace("servers.peer", "tools.peer"), "");
    assert!(rig.host().is_err(), "tools are those of servers");
    let rig = Rig::with("", &format!("[tools.peer]\nsha256 = [\"{}\"]\n", own[0]), "");
    let denial = rig.decide(of_server(None, &own)).expect_err("denied").to_string();
    assert!(denial.contains("the server `peer` was granted nothing"), "{denial}");
}

#[test]
fn a_bound_takes_away_from_a_server_as_from_a_tool() {
    let own = server_contents();
    let user = granted_server(
        "fs = [\"rw:.\", \"ro:ELSEWHERE\"]\nnet = [\"a.example:443\", \"b.example:443\"]\n\
         env = [\"PATH\", \"HOME\"]\nlimits = { wall_clock = \"90s\", memory = \"1GiB\" }",
    );
    for table in ["[servers.peer]", "[tools.\"*\"]"] {
        let bound = format!(
            "{table}\nfs = [\"ro:docs\"]\nnet = [\"a.example:*\"]\nenv = [\"PATH\", \"USER\"]\n\
             limits = {{ wall_clock = \"2s\", memory = \"2GiB\" }}\napprove = \"always\"\n"
        );
        for rig in [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")] {
            for request in [of_server(Some("echo"), &own), of_server(None, &own)] {
                let decision = rig.allowed(request);
                assert_eq!(rig.dirs(&decision), ["ro:w/docs"], "{table}");
                assert_eq!(decision.grant.net.to_string(), "a.example:443", "{table}");
                assert_eq!(decision.variables.len(), 1, "{table}: {:?}", decision.variables);
                assert_eq!(decision.limits.wall_clock, Duration::from_secs(2), "{table}");
                assert_eq!(decision.limits.native_memory, 1 << 30, "{table}");
                assert_eq!(decision.approve, Approve::Always, "{table}");
            }
        }
    }
    // A bound on a tool with the same name does not bind the server.
    let rig = Rig::with("", &user, "[tools.peer]\nfs = []\n");
    assert_eq!(rig.dirs(&rig.allowed(of_server(None, &own))), ["ro:elsewhere", "rw:w"]);
    // Asking more often needs no bound, and a flag can demand it as well.
    let mut rig = Rig::with("", &granted_server("approve = \"changes\""), "");
    assert_eq!(rig.allowed(of_server(Some("echo"), &own)).approve, Approve::Changes);
    rig.overrides.approve = Some(asked(Approve::Always));
    assert_eq!(rig.allowed(of_server(Some("echo"), &own)).approve, Approve::Always);
}

#[test]
fn the_entry_of_a_servers_tool_narrows_its_calls_only() {
    let own = server_contents();
    let (names, others) = (["peer__echo".to_owned()], ["peer__env".to_owned()]);
    let echo = PolicyRequest { names: &names, ..of_server(Some("echo"), &own) };
    let env = PolicyRequest { names: &others, ..of_server(Some("env"), &own) };
    let user = granted_server("limits = { wall_clock = \"90s\" }");
    let rigs = |keys: &str| {
        let entry = format!("[tools.peer__echo]\n{keys}\n");
        [
            Rig::with(&entry, &user, ""),
            Rig::with("", &format!("{user}{entry}"), ""),
            Rig::with("", &user, &entry),
        ]
    };
    for rig in rigs("deny = true") {
        let denial = rig.decide(echo).expect_err("denied");
        assert!(denial.is_by_deny && denial.reason.ends_with(" denies this tool"), "{denial}");
        rig.allowed(env);
    }
    for rig in rigs("approve = \"always\"\nask = false\nlimits = { wall_clock = \"2s\" }") {
        let decision = rig.allowed(echo);
        assert_eq!((decision.approve, decision.ask), (Approve::Always, false));
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(2));
        assert_eq!(decision.grant, rig.allowed(of_server(None, &own)).grant);
        let decision = rig.allowed(env);
        assert_eq!((decision.approve, decision.ask), (Approve::None, true));
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(90));
    }
    // The process serves all tools, so the keys of a grant would bind nothing. That is an error.
    for keys in [
        "fs = []",
        "net = []",
        "env = []",
        "sandbox = \"require\"",
        "assets = \"none\"",
        "hide = [\".env\"]",
        "backend = \"native\"",
        "sha256 = []",
    ] {
        for rig in rigs(keys) {
            let denial = rig.decide(echo).expect_err("denied");
            assert!(denial.reason.contains("`[servers.peer]` has the others"), "{keys}: {denial}");
            rig.allowed(env);
        }
    }
}

#[test]
fn a_bound_that_lists_tools_of_a_server_allows_no_others() {
    let own = server_contents();
    let user = granted_server("");
    let bound = approved(&["echo"]);
    let other = bound.replace(&described().to_string(), &Digest::from_bytes(b"before").to_string());
    for (bound, allowed) in
        [(&bound, &["echo"][..]), (&other, &[]), (&"".to_owned(), &["echo", "env"])]
    {
        for rig in [Rig::with("", &user, bound), Rig::with(bound, &user, "")] {
            rig.allowed(of_server(None, &own));
            for tool in ["echo", "env", "other"] {
                let decided = rig.decide(of_server(Some(tool), &own));
                assert_eq!(decided.is_ok(), allowed.contains(&tool), "{tool}: {bound}");
            }
        }
    }
    // A server's tool that only a bound lists has not been approved.
    let bound = approved(&["echo", "env", "other"]);
    for rig in [Rig::with("", &user, &bound), Rig::with(&bound, &user, "")] {
        let denial = rig.decide(of_server(Some("other"), &own)).expect_err("denied").to_string();
        assert!(denial.contains("was not approved"), "{denial}");
    }
}

#[test]
fn neither_a_workspace_nor_a_ceiling_can_grant_a_server_anything() {
    let own = server_contents();
    let greedy = granted_server("fs = [\"rw:.\"]\nnet = [\"*\"]\nenv = [\"HOME\"]");
    for rig in [Rig::with("", "", &greedy), Rig::with(&greedy, "", "")] {
        let denial = rig.decide(of_server(Some("echo"), &own)).expect_err("denied").to_string();
        assert!(denial.contains("the server `peer` was granted nothing"), "{denial}");
    }
    let user = granted_server("fs = [\"ro:docs\"]");
    for rig in [Rig::with("", &user, &greedy), Rig::with(&greedy, &user, "")] {
        let decision = rig.allowed(of_server(Some("echo"), &own));
        assert_eq!(rig.dirs(&decision), ["ro:w/docs"]);
        assert!(decision.grant.net.is_none() && decision.variables.is_empty());
    }
}
