//! The layers of a policy. A ceiling and a workspace only narrow grants. An edit takes effect at
//! the next call.

mod bounds;
mod commands;
mod hide;
mod limits;
mod rig;
mod scripts;
mod servers;
mod shells;
mod signed;

use std::fs;

use ikigai_host::Digest;
use ikigai_host::policy::{
    AssetAccess, Backend, GrantedLink, LayerKind, NewValue, PolicyRequest, Profile, RegisteredTool,
    Remedy, Sandbox,
};

use rig::{CEILING, Rig, USER, WORKSPACE, asked, contents, granted, system, users};

#[test]
fn the_standard_tools_get_the_workspace_and_no_more() {
    let rig = Rig::new();
    for (tool, access) in [
        ("file_read", "ro:w"),
        ("glob", "ro:w"),
        ("grep", "ro:w"),
        ("file_write", "rw:w"),
        ("file_edit", "rw:w"),
        ("bash", "rw:w"),
    ] {
        let wasm = rig.allowed(system(tool, Backend::Wasm));
        assert_eq!(rig.dirs(&wasm), [access]);
        assert!(wasm.grant.net.is_none() && wasm.grant.env.is_empty());
        let native = rig.allowed(system(tool, Backend::Native));
        assert_eq!(rig.dirs(&native), [access]);
        let is_shell = tool == "bash";
        let sandbox = if is_shell { Sandbox::Require } else { Sandbox::Prefer };
        assert_eq!(native.grant.sandbox, sandbox, "{tool}");
        let told = native.grant.env.iter().any(|(name, _)| name == "IKIGAI_DIRS");
        assert_eq!(told, !is_shell, "{tool}");
        assert!(native.grant.net.is_none());
    }
    let other = rig.allowed(system("other", Backend::Native));
    assert!(other.grant.dirs.is_empty() && other.grant.sandbox == Sandbox::Require);
}

#[test]
fn a_users_tool_has_nothing_or_the_workspace_until_it_is_granted_something() {
    let rig = Rig::with("", "[tools.tool]\nfs = [\"rw:.\"]\nnet = [\"*\"]", "");
    let own = contents();
    let wasm = rig.allowed(users(Backend::Wasm, &own));
    assert!(wasm.grant.dirs.is_empty() && wasm.grant.net.is_none() && wasm.grant.env.is_empty());
    assert!(wasm.notes[0].contains("applies only to built-in tools"), "{:?}", wasm.notes);
    let native = rig.allowed(users(Backend::Native, &own));
    assert_eq!((rig.dirs(&native), native.grant.sandbox), (vec!["rw:w".into()], Sandbox::Require));
    assert!(native.grant.net.is_none() && !native.grant.inherits_env);
    let of_path = PolicyRequest { name: None, ..users(Backend::Native, &own) };
    assert_eq!(rig.dirs(&rig.allowed(of_path)), ["rw:w"]);
    // A user's tool with the name of a built-in tool does not get its grant.
    let borrowed = PolicyRequest { name: Some("file_write"), ..users(Backend::Wasm, &own) };
    assert!(rig.allowed(borrowed).grant.dirs.is_empty());

    let rig = Rig::with("", &granted("fs = [\"ro:docs\", \"rw:src\"]\nenv = [\"PATH\"]"), "");
    for backend in [Backend::Wasm, Backend::Native] {
        let decision = rig.allowed(users(backend, &own));
        assert_eq!(rig.dirs(&decision), ["ro:w/docs", "rw:w/src"]);
        assert_eq!(decision.grant.sandbox, Sandbox::Require);
        assert!(decision.grant.net.is_none());
        assert_eq!(decision.variables[0].name, "PATH");
        let line = |capability: &str| decision.provenance.for_capability(capability)[0].to_string();
        assert!(line("fs").ends_with("policy.toml:3") && line("env").ends_with("policy.toml:4"));
        assert_eq!(line("net"), "profile standard");
    }
}

#[test]
fn a_grant_ends_when_the_contents_change() {
    let rig = Rig::with("", &granted("net = [\"db.internal:5432\"]\nenv = [\"DB\"]"), "");
    let changed = [Digest::from_bytes(b"another")];
    for backend in [Backend::Wasm, Backend::Native] {
        let denial = rig.decide(users(backend, &changed)).expect_err("denied");
        let again = Remedy::GrantAgain { tool: "tool".to_owned() };
        assert_eq!(denial.remedy.as_deref(), Some(&again));
        let denial = denial.to_string();
        let begin = |digest: &Digest| format!("{}…", &digest.to_string()[..12]);
        for part in [
            "`tool` changed since you granted it",
            "policy.toml:2",
            &format!("was {}", begin(&contents()[0])),
            &format!("is {}", begin(&changed[0])),
        ] {
            assert!(denial.contains(part), "{part}: {denial}");
        }
    }
    // Both the compiled contents and the current contents of the file must be granted.
    let both = [contents()[0], changed[0]];
    rig.decide(users(Backend::Wasm, &both)).expect_err("denied");
    // For a tool that is called by its path, only the contents count.
    let own = contents();
    let of_path = |request| PolicyRequest { name: None, ..request };
    assert!(!rig.allowed(of_path(users(Backend::Wasm, &own))).grant.net.is_none());
    assert!(rig.allowed(of_path(users(Backend::Wasm, &changed))).grant.net.is_none());
}

#[test]
fn the_changed_file_of_a_granted_tool_is_refused_by_its_path_as_by_its_name() {
    let user = granted("net = [\"db.internal:5432\"]");
    let rig = Rig::with("", &user, "");
    let changed = [Digest::from_bytes(b"another")];
    let tool = |digest| [RegisteredTool { name: "tool".to_owned(), digest }];
    let (present, unreadable) = (tool(Some(changed[0])), tool(None));
    let unchanged = tool(Some(contents()[0]));
    for backend in [Backend::Wasm, Backend::Native] {
        let by_name = users(backend, &changed);
        let by_path = |registered| PolicyRequest { name: None, registered, ..by_name };
        assert_eq!(rig.decide(by_path(&present)), rig.decide(by_name));
        rig.decide(by_path(&unreadable)).expect_err("denied");
        // A program differs from the definition that wraps it, and is not what was granted.
        assert!(rig.allowed(by_path(&unchanged)).grant.net.is_none());
        // The contents count if they are granted, whatever other name the file has.
        let other = format!("{user}[tools.other]\nsha256 = [\"{}\"]\n", changed[0]);
        rig.write(USER, &other);
        rig.allowed(by_path(&present));
        rig.write(USER, &user);
    }
}

#[test]
fn strict_runs_nothing_unconfined_and_nothing_that_fell_back() {
    let own = contents();
    let rig = Rig::with("", "profile = \"strict\"", "");
    let denial = rig.decide(users(Backend::Native, &own)).expect_err("denied");
    assert_eq!(denial.remedy.as_deref(), Some(&Remedy::GrantToRun { tool: "tool".to_owned() }));
    rig.allowed(users(Backend::Wasm, &own));
    for tool in ["bash", "grep"] {
        let denial = rig.decide(system(tool, Backend::Native)).expect_err("denied");
        assert_eq!(denial.remedy.as_deref(), Some(&Remedy::AllowNative { tool: tool.to_owned() }));
    }
    let fell = PolicyRequest { fell_back: true, ..users(Backend::Native, &own) };
    rig.decide(fell).expect_err("denied");

    let text = format!(
        "profile = \"strict\"\n{}sandbox = \"off\"\n[tools.bash]\nbackend = \"native\"\n",
        granted("")
    );
    let rig = Rig::with("", &text, "");
    let confined = rig.allowed(users(Backend::Native, &own)).grant;
    assert_eq!(confined.sandbox, Sandbox::Require);
    assert!(confined.net.is_none() && !confined.inherits_env, "{confined:?}");
    rig.decide(fell).expect_err("a grant is no leave to fall back");
    assert_eq!(rig.allowed(system("bash", Backend::Native)).grant.sandbox, Sandbox::Require);
}

#[test]
fn a_native_tool_has_a_list_of_hosts_in_the_sandbox_alone() {
    let own = contents();
    let net = |rig: &Rig| {
        let grant = rig.allowed(users(Backend::Native, &own)).grant;
        assert_eq!(grant.sandbox, Sandbox::Require);
        grant.net.to_string()
    };
    let list = "net = [\"db.internal:5432\", \"*.a.example:443\"]";
    assert_eq!(net(&Rig::with("", &granted(list), "")), "db.internal:5432 *.a.example:443");
    assert_eq!(net(&Rig::with("", &granted("net = [\"*\"]"), "")), "*");
    // A bound narrows the whole network to its list.
    let bound = "[tools.tool]\nnet = [\"x.a.example:443\"]\n";
    for user in [granted("net = [\"*\"]"), granted(list)] {
        assert_eq!(net(&Rig::with(bound, &user, "")), "x.a.example:443", "{user}");
    }
    let off = granted(&format!("sandbox = \"off\"\n{list}"));
    let denial = Rig::with("", &off, "").decide(users(Backend::Native, &own)).expect_err("denied");
    assert!(denial.reason.contains("could not be enforced"), "{denial}");
    let remedy = Remedy::RequireSandbox { tool: "tool".to_owned() };
    assert_eq!(denial.remedy.as_deref(), Some(&remedy));
}

#[test]
fn directories_are_what_they_are_when_the_call_is_made() {
    let own = contents();
    let denied = |rig: &Rig, part: &str| {
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains(part) && denial.contains("policy.toml:3"), "{denial}");
    };
    denied(&Rig::with("", &granted("fs = [\"ro:absent\"]"), ""), "does not exist");
    let rig = Rig::with("", &granted("fs = [\"ro:link\"]"), "");
    let socket = std::os::unix::net::UnixListener::bind(rig.path("w/link")).expect("bound");
    denied(&rig, "is neither a directory nor a regular file");
    drop(socket);
    fs::remove_file(rig.path("w/link")).expect("removed");
    std::os::unix::fs::symlink(rig.path("elsewhere"), rig.path("w/link")).expect("linked");
    denied(&rig, "leads out of the workspace");
    // A tool may have made the link.
    let rig = Rig::with("", &granted("fs = [\"ro:docs\", \"rw:link\"]"), "");
    std::os::unix::fs::symlink("docs", rig.path("w/link")).expect("linked");
    denied(&rig, "a tool may have made the link");
    // The place that the user named did not exist. Now the link leads to another place.
    let rig = Rig::with("", &granted("fs = [\"rw:.\", \"rw:link/.vscode\"]"), "");
    fs::create_dir(rig.path("w/link")).expect("made");
    rig.allowed(users(Backend::Wasm, &own));
    fs::remove_dir(rig.path("w/link")).expect("removed");
    std::os::unix::fs::symlink(".", rig.path("w/link")).expect("linked");
    denied(&rig, "a tool may have made the link");
    // The directory has two names, with different access.
    let rig = Rig::with("", &granted("fs = [\"ro:ELSEWHERE\", \"rw:~/link\"]"), "");
    std::os::unix::fs::symlink(rig.path("elsewhere"), rig.path("home/link")).expect("linked");
    denied(&rig, "a directory has one access");
    // A program sees a link, and one to what may be written takes nothing away.
    let rig = Rig::with("", &granted("fs = [\"rw:ELSEWHERE\", \"ro:~/link\"]"), "");
    std::os::unix::fs::symlink(rig.path("elsewhere"), rig.path("home/link")).expect("linked");
    let decision = rig.allowed(users(Backend::Native, &own));
    let link = GrantedLink { path: rig.path("home/link"), target: rig.path("elsewhere") };
    assert_eq!(
        (rig.dirs(&decision), decision.grant.links),
        (vec!["rw:elsewhere".into()], vec![link])
    );
    assert_eq!(rig.allowed(users(Backend::Wasm, &own)).grant.links, []);
    // `~` and absolute paths are allowed.
    let rig = Rig::with("", &granted("fs = [\"ro:~\", \"rw:ELSEWHERE\"]"), "");
    assert_eq!(rig.dirs(&rig.allowed(users(Backend::Wasm, &own))), ["rw:elsewhere", "ro:home"]);
}

#[test]
fn programs_have_sockets_of_their_own_unless_the_profile_is_strict() {
    let own = contents();
    let of_system = |tool, backend| Rig::new().allowed(system(tool, backend)).grant.own_sockets;
    assert!(of_system("bash", Backend::Native));
    for (tool, backend) in [("bash", Backend::Wasm), ("grep", Backend::Native)] {
        assert!(!of_system(tool, backend), "{tool}");
    }
    let without = granted("net = []");
    for (ceiling, user, expected) in [
        ("", "", true),
        // The tool's own sockets are not peers, so only a profile can take them away.
        ("[tools.\"*\"]\nnet = []\n", without.as_str(), true),
        ("profile = \"strict\"\n", without.as_str(), false),
    ] {
        let rig = Rig::with(ceiling, user, "");
        let has = |backend| rig.allowed(users(backend, &own)).grant.own_sockets;
        assert_eq!(has(Backend::Native), expected, "{ceiling}{user}");
        assert!(!has(Backend::Wasm));
    }
}

#[test]
fn assets_are_for_the_tools_of_files_and_for_whom_they_are_granted() {
    let own = contents();
    let rig = Rig::new();
    for (tool, assets) in [
        ("file_read", AssetAccess::Read),
        ("file_write", AssetAccess::Write),
        ("file_edit", AssetAccess::Write),
        ("glob", AssetAccess::None),
        ("grep", AssetAccess::None),
        ("bash", AssetAccess::None),
    ] {
        for (backend, profile) in [
            (Backend::Wasm, Profile::Standard),
            (Backend::Native, Profile::Standard),
            (Backend::Wasm, Profile::Strict),
        ] {
            let mut rig = Rig::new();
            rig.overrides.profile = Some(asked(profile));
            let decision = rig.allowed(system(tool, backend));
            assert_eq!(decision.grant.assets, assets, "{tool} {backend:?} {profile:?}");
        }
    }
    // A user's tool without a grant has no access to assets.
    assert_eq!(rig.allowed(users(Backend::Native, &own)).grant.assets, AssetAccess::None);
    assert_eq!(rig.allowed(users(Backend::Wasm, &own)).grant.assets, AssetAccess::None);

    // The access is the lowest of all layers. A bound without a grant grants nothing.
    let words =
        [("none", AssetAccess::None), ("read", AssetAccess::Read), ("write", AssetAccess::Write)];
    for (user, granted_value) in words {
        for (bound, bound_value) in words {
            let user = granted(&format!("assets = \"{user}\""));
            let bound = format!("[tools.tool]\nassets = \"{bound}\"\n");
            for rig in [Rig::with(&bound, &user, ""), Rig::with("", &user, &bound)] {
                let decision = rig.allowed(users(Backend::Wasm, &own));
                assert_eq!(decision.grant.assets, granted_value.min(bound_value), "{user}{bound}");
                let narrowed = decision.provenance.for_capability("assets").len() > 1;
                assert_eq!(narrowed, bound_value < granted_value, "{user}{bound}");
            }
        }
    }
    let bound = "[tools.tool]\nassets = \"write\"\n";
    let rig = Rig::with(bound, "", bound);
    assert_eq!(rig.allowed(users(Backend::Wasm, &own)).grant.assets, AssetAccess::None);

    // A bound on assets requires the sandbox: an unconfined tool could open the store itself.
    let free = granted("sandbox = \"off\"");
    let rig = Rig::with("[tools.\"*\"]\nassets = \"read\"\n", &free, "");
    assert_eq!(rig.allowed(users(Backend::Native, &own)).grant.sandbox, Sandbox::Require);
    let rig = Rig::with("", &granted("assets = \"writ\""), "");
    let error = rig.host().err().expect("refused").to_string();
    assert!(error.contains("for `assets`; expected one of `none`, `read`, `write`"), "{error}");
    let rig = Rig::with("", &granted("env = [\"IKIGAI_HOST_FD\"]"), "");
    let error = rig.host().err().expect("refused").to_string();
    assert!(error.contains("is set by ikigai itself"), "{error}");
}

#[test]
fn no_grant_is_to_write_where_a_tool_could_be_installed() {
    let own = contents();
    for dir in ["own", "own/deeper", ""] {
        let rig = Rig::new();
        fs::create_dir_all(rig.path(dir)).expect("a directory of the test");
        let dir = rig.path(dir);
        let grant = |access: &str| granted(&format!("fs = [\"{access}:{}\"]", dir.display()));
        rig.write(USER, &grant("rw"));
        let denial = rig.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
        assert!(denial.contains("can install a tool"), "{denial}");
        rig.write(USER, &grant("ro"));
        rig.allowed(users(Backend::Wasm, &own));
    }
}

#[test]
fn an_edit_is_in_force_at_the_next_call() {
    let rig = Rig::with("", "", "");
    let host = rig.host().expect("a policy");
    let authority = host.authority();
    let dirs = || authority.decide(&system("grep", Backend::Wasm)).map(|it| rig.dirs(&it));
    assert_eq!(dirs(), Ok(vec!["ro:w".into()]));
    rig.write(USER, "[tools.grep]\nfs = [\"ro:docs\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    // An invalid file is reported, and the previous policy stays in force.
    rig.write(USER, "[tools.grep]\nfs = [\"ro:src\"]\nfss = []\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    let problems = |kind: LayerKind| {
        let files = authority.files();
        let file = files.into_iter().find(|file| file.kind == kind).expect("the file");
        file.problem.map(|problem| problem.line())
    };
    let told = problems(LayerKind::User).expect("a problem");
    assert!(told.contains("unknown key `fss`") && told.contains("did you mean `fs`?"), "{told}");
    rig.write(USER, "[tools.grep]\nfs = [\"ro:src\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/src".into()]));
    assert_eq!(problems(LayerKind::User), None);
    fs::remove_file(rig.path(USER)).expect("removed");
    assert_eq!(dirs(), Ok(vec!["ro:w".into()]));
    // An edit of the workspace's file takes effect as well.
    rig.write(WORKSPACE, "[tools.grep]\nfs = [\"ro:docs\"]\n");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    rig.write(WORKSPACE, "[tools");
    assert_eq!(dirs(), Ok(vec!["ro:w/docs".into()]));
    // An invalid ceiling denies everything.
    rig.write(CEILING, "profil = 1");
    let denial = dirs().expect_err("denied").to_string();
    assert!(denial.contains("did you mean `profile`?"), "{denial}");
    rig.write(CEILING, "[tools.grep]\nfs = []\n");
    assert_eq!(dirs(), Ok(Vec::new()));
}

#[test]
fn changes_that_nobody_looked_at_are_merged_and_others_are_not_written() {
    let rig = Rig::with("", "# mine\n[tools.grep]\nfs = [\"ro:.\"]\n", "");
    let host = rig.host().expect("a policy");
    let authority = host.authority();
    let list = |word: &str| NewValue::List(vec![word.to_owned()]);
    let propose = |tool: &str, key: &str, value: NewValue| {
        authority.propose_grant(tool, &[(key.to_owned(), value)]).expect("a proposal")
    };
    let proposals = [
        propose("grep", "fs", list("ro:docs")),
        propose("glob", "fs", list("ro:src")),
        propose("grep", "limits.fuel", NewValue::Number(5)),
        propose("grep", "limits.handles", NewValue::Number(6)),
    ];
    let removed = authority.propose_revoke("grep").expect("a proposal").expect("an entry");
    for (index, proposal) in proposals.iter().enumerate() {
        // A user agreed to exactly the change that was shown. If the file has changed, nothing is
        // written.
        assert_eq!(proposal.write().is_ok(), index == 0, "{index}");
        let merged = proposal.write_merged().expect("written");
        assert_eq!(merged.is_unchanged(), index == 0, "{index}");
    }
    let text = fs::read_to_string(rig.path(USER)).expect("read");
    for part in
        ["# mine\n", "ro:docs", "fuel = 5", "handles = 6", "[tools.glob]\nfs = [\"ro:src\"]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    removed.write_merged().expect("written");
    let text = fs::read_to_string(rig.path(USER)).expect("read");
    assert!(!text.contains("grep") && text.contains("[tools.glob]"), "{text}");
}

#[test]
fn a_variable_set_for_this_run_reaches_those_who_may_have_it() {
    const NAME: &str = "IKIGAI_TEST_CONNECTION";
    let named = format!("env = [\"{NAME}\"]");
    let rig = Rig::with("", &granted(&named), "");
    let contents = contents();
    for backend in [Backend::Wasm, Backend::Native] {
        let host = rig.host().expect("valid");
        let authority = host.authority();
        let request = users(backend, &contents);
        let other = PolicyRequest { name: Some("other"), ..request };
        let value = |request| {
            let decision = authority.decide(&request).expect("allowed");
            let env = decision.grant.env.iter();
            let value = env.clone().find(|(name, _)| name == NAME).map(|(_, value)| value.clone());
            (value, decision.granted_values().len())
        };
        assert_eq!(value(request), (None, 0));
        authority.set_variable(NAME, "first").expect("a name");
        authority.set_variable("IKIGAI_TEST_UNNAMED", "x").expect("a name");
        authority.set_variable(NAME, "second").expect("a name");
        assert_eq!(value(request), (Some("second".into()), 1), "{backend:?}: and it is a secret");
        assert_eq!(value(other), (None, 0), "{backend:?}");
        let grant = authority.decide(&request).expect("allowed").grant;
        assert!(grant.env.iter().all(|(name, _)| name != "IKIGAI_TEST_UNNAMED"), "{grant:?}");
        for (name, value) in [("A=B", "x"), ("", "x"), ("IKIGAI_STORE", "x"), ("A", "\0")] {
            assert!(authority.set_variable(name, value).is_err(), "{name}");
        }
    }
    // An unconfined tool has the variable as part of the whole environment.
    let rig = Rig::with("", &granted("sandbox = \"off\""), "");
    let host = rig.host().expect("valid");
    host.authority().set_variable(NAME, "all").expect("a name");
    let decision = host.authority().decide(&users(Backend::Native, &contents)).expect("allowed");
    assert!(
        decision.grant.env.contains(&(NAME.into(), "all".into())) && decision.grant.inherits_env
    );
}
