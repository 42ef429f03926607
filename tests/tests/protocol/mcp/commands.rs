//! Rules for commands of `bash`, for a client that has to ask about commands that no rule lists.

use std::fs;

use ikigai_tests::host::{Host, USER_POLICY};
use ikigai_tests::mcp::Client;
use serde_json::{Value, json};

use crate::mcp::consent::{assert_denied, message, question, repeat};
use crate::mcp::{server, text};

const RULES: &str = "[tools.bash]\napprove = \"unlisted\"\n\
                     commands = { allow = [\"echo *\"], ask = [\"echo secret *\"], \
                     deny = [\"rm *\"] }\n";

fn script(text: &str) -> Value {
    json!({ "command": text })
}

#[test]
fn what_no_rule_lists_is_asked_about_and_what_a_rule_denies_is_not_run() {
    let host = Host::new();
    host.write_policy(RULES);
    let marked = host.scratch().join("workspace/marked");
    let mut client = Client::start(&mut server(&host)).asking();
    let result = client.call("bash", &script("echo one && echo 'two; rm x'"));
    assert!(text(&result).contains("one\ntwo; rm x"), "{result}");
    // The question contains the whole script and the reason.
    let unlisted = script("echo x >marked");
    let asked = question(&mut client, "bash", &unlisted);
    for part in ["echo x >marked", "policy.toml:2", "redirection"] {
        assert!(message(&asked).contains(part), "{part}: {asked}");
    }
    assert!(!marked.exists());
    let response = repeat(&mut client, ("bash", &unlisted), &asked, "accept");
    assert_eq!(response["result"]["isError"], false, "{response}");
    assert_eq!(fs::read_to_string(&marked).expect("written"), "x\n");
    let asked = question(&mut client, "bash", &script("echo secret $x"));
    assert!(message(&asked).contains("policy.toml:3"), "{asked}");
    // A denied command causes no question.
    for denied in ["rm marked", "echo a; rm -r .", "rm $(echo marked)", "cd . && r\\m marked"] {
        let result = client.call("bash", &script(denied));
        assert_denied(&result, "is denied, by `rm *` of ");
        assert!(text(&result).contains("policy.toml:3"), "{result}");
    }
    // The denial applies even if the rule is newer than the question.
    let unlisted = script("echo y >marked");
    let asked = question(&mut client, "bash", &unlisted);
    host.write_policy(RULES.replace("\"rm *\"", "\"rm *\", \"echo y *\""));
    let response = repeat(&mut client, ("bash", &unlisted), &asked, "accept");
    assert_denied(&response["result"], "is denied, by `echo y *`");
    client.wait().0.expect_code(0);
    assert_eq!(fs::read_to_string(&marked).expect("there"), "x\n");
    let log = host.run(["audit", "--json"]).expect_code(0).stdout();
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let seen: Vec<String> = records
        .map(|it| format!("{} {}", it["consent"]["answer"], it["outcome"]).replace('"', ""))
        .collect();
    let expected = [
        "null ok",
        "pending PERMISSION_DENIED",
        "yes ok",
        "pending PERMISSION_DENIED",
        "null PERMISSION_DENIED",
        "null PERMISSION_DENIED",
        "null PERMISSION_DENIED",
        "null PERMISSION_DENIED",
        "pending PERMISSION_DENIED",
        "null PERMISSION_DENIED",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_flag_asks_about_each_command_where_no_rule_lists_any() {
    let host = Host::new();
    let mut command = server(&host);
    command.args(["--approve", "unlisted"]);
    let mut client = Client::start(&mut command).asking();
    let asked = question(&mut client, "bash", &script("echo x"));
    assert!(message(&asked).contains("--approve, since no rule lists `echo x`"), "{asked}");
    host.write("workspace/a", "a\n", 0o644);
    let read = client.call("file_read", &json!({ "file_path": "a" }));
    assert_eq!(text(&read), "a\n");
    // For other tools, `unlisted` has the same effect as `changes`.
    question(&mut client, "file_write", &json!({ "file_path": "b", "content": "b" }));
    client.wait().0.expect_code(0);
}

#[test]
fn the_command_line_shows_the_rules_and_the_verdict_of_a_script() {
    let host = Host::new();
    host.write_policy(RULES);
    let test = |script: &str| host.run(["policy", "test", "bash", "--command", script]);
    let listed = test("echo a && echo b").expect_code(0).stdout();
    assert!(
        listed.starts_with("listed: bash command `echo a && echo b` (by `echo *` of "),
        "{listed}"
    );
    assert!(listed.trim_end().ends_with("policy.toml:3)"), "{listed}");
    for (script, verdict, part) in [
        ("echo $x", "unlisted", "`$`"),
        ("touch x", "unlisted", "no rule lists `touch x`"),
        ("echo secret", "ask", "`echo secret *`"),
        ("rm \u{202e}x", "denied", "`rm \\u{202e}x`"),
    ] {
        let told = test(script).expect_code(1).stdout();
        assert!(told.starts_with(&format!("{verdict}: bash command ")), "{told}");
        assert!(told.contains(part) && !told.contains('\u{202e}'), "{told}");
    }
    // Without `approve` the command runs anyway.
    host.write_policy("[tools.bash]\ncommands = { ask = [\"git push *\"] }\n");
    let told = test("ls -la && id").expect_code(0).stdout();
    assert!(told.starts_with("allowed: bash command `ls -la && id` (it runs; no rule"), "{told}");
    assert!(told.contains("with `approve = \"unlisted\"` somebody would be asked"), "{told}");
    let told = test("git push x").expect_code(1).stdout();
    assert!(told.contains("somebody is asked, by `commands.ask`"), "{told}");
    host.write_policy(RULES);
    let told = host.run(["policy", "test", "bash", "--command", "rm x", "--json"]);
    let told = told.expect_code(1).json();
    assert_eq!(told["answers"][0]["verdict"], "denied", "{told}");
    assert_eq!(told["allowed"], false, "{told}");
    host.run(["policy", "test", "grep", "--command", "ls"]).expect_code(2);
    let shown = host.run(["policy", "show", "bash"]).expect_code(0).stdout();
    for part in [
        "those that no rule lists",
        "lists `echo *` of ",
        "asks about `echo secret *`",
        "denies `rm *`",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = host.run(["policy", "show", "bash", "--json"]).expect_code(0).json();
    let commands = &shown["tools"][0]["commands"];
    assert_eq!(commands["allow"][0][0]["rule"], "echo *", "{shown}");
    assert_eq!(commands["deny"][0]["rule"], "rm *", "{shown}");
    // A new grant keeps the rules.
    host.run(["policy", "grant", "bash", "--replace", "--read", ".", "--yes"]).expect_code(0);
    let written = fs::read_to_string(host.scratch().join(USER_POLICY)).expect("the policy");
    assert!(written.contains(RULES.lines().last().expect("a line")), "{written}");
}
