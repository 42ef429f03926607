//! The rules for commands of `bash`: where they may stand, how layers combine, and the calls that
//! `approve = "unlisted"` asks about.

use ikigai_host::policy::{
    Approve, Backend, Decision, NewValue, PolicyRequest, Requirement, ScriptVerdict, ToolOrigin,
};

use crate::policy_layers::rig::{
    CEILING, Rig, USER, WORKSPACE, asked, contents, granted, system, users,
};

const RULES: &str = "[tools.bash]\napprove = \"unlisted\"\n\
                     commands = { allow = [\"git status\", \"ls *\"], ask = [\"ls /etc *\"], \
                     deny = [\"rm *\"] }\n";

fn bash(rig: &Rig) -> Decision {
    rig.allowed(system("bash", Backend::Wasm))
}

fn verdict(rig: &Rig, script: &str) -> &'static str {
    bash(rig).commands.verdict(script).as_str()
}

/// Returns the consent that a call with this script needs, in a word, with the reason.
fn required(decision: &Decision, script: &str) -> (&'static str, String) {
    let arguments = serde_json::json!({ "command": script }).to_string();
    match decision.requirement(Backend::Wasm, Some(arguments.as_bytes())) {
        Requirement::Nothing => ("nothing", String::new()),
        Requirement::Consent { by, .. } => ("consent", by),
        Requirement::Denied { reason } => ("denied", reason),
    }
}

#[test]
fn a_rule_decides_with_its_line() {
    let rig = Rig::with("", RULES, "");
    let decision = bash(&rig);
    assert_eq!(decision.approve, Approve::Unlisted);
    for (script, needed, reason) in [
        ("git status && ls -l", "nothing", ""),
        ("git status -s", "consent", "`approve = \"unlisted\"` of "),
        ("git status $x", "consent", "`$`"),
        ("ls /etc x", "consent", "`ls /etc *` of "),
        ("ls; rm -r x", "denied", "`rm -r x` is denied, by `rm *` of "),
        ("rm $x", "denied", "`rm *`"),
    ] {
        let (found, why) = required(&decision, script);
        assert_eq!(found, needed, "{script}: {why}");
        assert!(why.contains(reason), "{script}: {why}");
        assert_eq!(needed == "nothing", why.is_empty());
        assert!(why.is_empty() || why.contains("policy.toml:"), "{why}");
    }
    let ScriptVerdict::Listed { by, .. } = decision.commands.verdict("ls a; git status; ls b")
    else {
        panic!("listed")
    };
    let lines: Vec<String> = by.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("`ls *` of ") && lines[0].ends_with("policy.toml:3"));
    // A call without arguments lists nothing.
    for arguments in [None, Some(&b"{}"[..]), Some(b"{\"command\":1}"), Some(b"[\"ls\"]")] {
        let needed = decision.requirement(Backend::Wasm, arguments);
        assert!(matches!(needed, Requirement::Consent { .. }), "{arguments:?}");
    }
}

#[test]
fn rules_to_ask_and_to_deny_hold_with_every_approval() {
    for approve in [None, Some(Approve::None), Some(Approve::Changes), Some(Approve::Always)] {
        let mut rig = Rig::with("", &RULES.replace("approve = \"unlisted\"\n", ""), "");
        rig.overrides.approve = approve.map(asked);
        let decision = bash(&rig);
        assert_eq!(required(&decision, "rm x").0, "denied", "{approve:?}");
        assert_eq!(required(&decision, "ls /etc x").0, "consent", "{approve:?}");
        let free = matches!(approve, None | Some(Approve::None));
        let expected = if free { "nothing" } else { "consent" };
        for script in ["ls", "unknown $x"] {
            assert_eq!(required(&decision, script).0, expected, "{approve:?}");
        }
    }
}

#[test]
fn each_layer_can_only_take_away_from_the_commands_that_are_listed() {
    let lists: [Option<&[&str]>; 4] = [None, Some(&[]), Some(&["a", "b"]), Some(&["b", "c"])];
    let table = |key: &str, list: Option<&[&str]>| {
        list.map_or_else(String::new, |list| format!("[tools.bash.commands]\n{key} = {list:?}\n"))
    };
    for ceiling in lists {
        for user in lists {
            for (key, of_workspace) in
                [("ask", None), ("ask", Some(&["b"][..])), ("deny", Some(&["b"][..]))]
            {
                let rig = Rig::with(
                    &table("allow", ceiling),
                    &table("allow", user),
                    &table(key, of_workspace),
                );
                let all: Vec<&[&str]> = [ceiling, user].into_iter().flatten().collect();
                for name in ["a", "b", "c", "d"] {
                    let listed = !all.is_empty() && all.iter().all(|list| list.contains(&name));
                    let taken = of_workspace.is_some_and(|list| list.contains(&name));
                    let expected = match (taken, key, listed) {
                        (true, "deny", _) => "denied",
                        (true, ..) => "ask",
                        (false, _, true) => "listed",
                        (false, _, false) => "unlisted",
                    };
                    let case = format!("{ceiling:?} {user:?} {key} {of_workspace:?} {name}");
                    assert_eq!(verdict(&rig, name), expected, "{case}");
                }
            }
        }
    }
}

#[test]
fn the_value_that_holds_asks_about_all_that_any_layer_asks_about() {
    const VALUES: [Approve; 4] =
        [Approve::None, Approve::Changes, Approve::Unlisted, Approve::Always];
    let said = |value: Approve| format!("[tools.bash]\napprove = \"{value}\"\n");
    let rules = "commands = { allow = [\"ls\"] }\n";
    let scripts = ["ls", "other", "ls $x"];
    let asks = |rig: &Rig, script: &str| required(&bash(rig), script).0 == "consent";
    // The first shell may write, and the second may not.
    for dirs in ["", "fs = [\"ro:docs\"]\nassets = \"none\"\n"] {
        let user = |value| format!("{}{rules}{dirs}", said(value));
        for one in VALUES {
            for other in VALUES {
                let both = Rig::with(&said(one), &user(other), "");
                let alone = [one, other].map(|value| Rig::with("", &user(value), ""));
                for script in scripts {
                    let expected = alone.iter().any(|rig| asks(rig, script));
                    let case = format!("{one} {other} {dirs:?} {script}");
                    assert_eq!(asks(&both, script), expected, "{case}");
                }
                let swapped = Rig::with(&said(other), &user(one), "");
                assert_eq!(bash(&both).approve, bash(&swapped).approve, "{one} {other}");
            }
        }
    }
}

#[test]
fn of_other_tools_unlisted_says_what_changes_says() {
    let own = contents();
    for (grant, expected) in [("fs = [\"ro:docs\"]", false), ("fs = [\"rw:docs\"]", true)] {
        for value in ["changes", "unlisted"] {
            let ceiling = format!("[tools.\"*\"]\napprove = \"{value}\"\n");
            let rig = Rig::with(&ceiling, &granted(grant), "");
            let decision = rig.allowed(users(Backend::Wasm, &own));
            assert_eq!(decision.needs_consent(Backend::Wasm), expected, "{value} {grant}");
            let needed = decision.requirement(Backend::Wasm, Some(b"{\"command\":\"ls\"}"));
            assert_eq!(needed != Requirement::Nothing, expected, "{value} {grant}");
            assert!(!decision.commands.is_shell());
        }
    }
}

#[test]
fn nothing_is_listed_where_the_shell_or_its_environment_is_not_known() {
    let user = format!("{RULES}env = [\"BASH_ENV\"]\n");
    let rig = Rig::with("", &user, "");
    let host = rig.host().expect("a policy");
    assert_eq!(verdict(&rig, "ls"), "listed", "it is not set");
    host.authority().set_variable("BASH_ENV", "/w/evil").expect("a variable");
    let decision = host.authority().decide(&system("bash", Backend::Wasm)).expect("allowed");
    let ScriptVerdict::Unlisted { reason } = decision.commands.verdict("ls") else {
        panic!("unlisted")
    };
    assert!(reason.contains("BASH_ENV"), "{reason}");
    assert_eq!(decision.commands.verdict("rm x").as_str(), "denied");
    // A user's tool with that name may interpret its arguments in any way.
    let rig = Rig::with("", RULES, "");
    let own = contents();
    let named = PolicyRequest {
        name: Some("bash"),
        origin: ToolOrigin::User,
        ..users(Backend::Wasm, &own)
    };
    let decision = rig.allowed(named);
    assert_eq!(required(&decision, "ls").0, "consent");
    assert_eq!(required(&decision, "rm x").0, "denied");
    let names = ["bash".to_owned()];
    let by_path = PolicyRequest { name: None, names: &names, ..users(Backend::Wasm, &own) };
    let decision = rig.allowed(by_path);
    assert_eq!(required(&decision, "ls").0, "consent");
    assert_eq!(required(&decision, "rm x").0, "denied");
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (file, table, expected) in [
        (USER, "[tools.grep]\ncommands = {}", "2:1: `commands` is a key only of `[tools.bash]`"),
        (USER, "[tools.\"*\"]\ncommands = {}", "2:1: `commands` is a key only of `[tools.bash]`"),
        (USER, "[servers.bash]\ncommands = {}", "2:1: `commands` is a key only of `[tools.bash]`"),
        (USER, "[tools.bash]\ncommands = []", "`commands`: expected a table, found an array"),
        (USER, "[tools.bash]\ncommands = { alow = [] }", "2:14: unknown key `alow`"),
        (USER, "[tools.bash]\ncomands = {}", "2:1: unknown key `comands`"),
        (USER, "[tools.bash]\ncommands = { allow = \"ls\" }", "expected a list of strings"),
        (USER, "[tools.bash]\ncommands = { ask = [1] }", "expected a string, found"),
        (USER, "[tools.bash]\ncommands = { deny = [\"\"] }", "a rule without words"),
        (USER, "[tools.bash]\ncommands = { deny = [\"*\"] }", "`*` would be every command"),
        (
            USER,
            "[tools.bash]\ncommands = { allow = [\"ls | rm\"] }",
            "2:23: `ls | rm` has `|`: a rule is words",
        ),
        (
            USER,
            "[tools.bash]\ncommands = { allow = [\"git 'x'\"] }",
            "without quotes and operators",
        ),
        (USER, "[tools.bash]\ncommands = { allow = [\"cd *\"] }", "so it cannot be listed"),
        (CEILING, "[tools.bash]\ncommands = { allow = [\"./x\"] }", "so it cannot be listed"),
        (
            WORKSPACE,
            "[tools.bash]\ncommands = { allow = [\"ls\"] }",
            "2:14: the policy of a workspace cannot list commands",
        ),
    ] {
        let rig = Rig::new();
        rig.write(file, table);
        let error = rig.host().map(drop).expect_err(table).to_string();
        assert!(error.contains(expected), "{table}: {error}");
    }
}

#[test]
fn a_grant_leaves_the_rules_and_their_comments_as_they_are() {
    let text = "[tools.bash] # mine\napprove = \"unlisted\"\n# for work\ncommands = { allow = [\n  \
                \"git status\", # reads\n], deny = [\"rm *\"] }\n";
    let rig = Rig::with("", text, "");
    let host = rig.host().expect("a policy");
    let keys = [("fs".to_owned(), NewValue::List(vec!["ro:docs".to_owned()]))];
    let proposal = host.authority().propose_grant("bash", &keys).expect("a proposal");
    assert_eq!(proposal.difference(), ["+fs = [\"ro:docs\"]"]);
    // A change of another entry is refused if it would lose rules, since their meaning is compared.
    let keys = [("fs".to_owned(), NewValue::List(vec!["ro:docs".to_owned()]))];
    let proposal = host.authority().propose_grant("grep", &keys).expect("a proposal");
    assert!(proposal.difference().iter().all(|line| line.starts_with('+')));
}
