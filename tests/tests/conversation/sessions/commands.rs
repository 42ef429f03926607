//! `ikigai session list`, `fork`, `rename` and `rm`.

use std::time::Duration;

use ikigai_assets::{Store, StoreOptions, StoreUrl};
use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::sessions::rig::{AGENT, host, session, two_turns, with_each_store};

fn listed(host: &Host, args: &[&str]) -> Vec<Value> {
    let args = [&["list", "--json"], args].concat();
    let list = session(host, &args).expect_code(0).json();
    list["sessions"].as_array().expect("a list").clone()
}

#[test]
fn sessions_are_listed_newest_first_and_by_workspace() {
    with_each_store(|host| {
        let ran = session(host, &["list"]).expect_code(0);
        assert!(ran.stdout().is_empty() && ran.stderr().contains("--all lists"), "{ran}");
        let (old, new) = (two_turns(host, "Fix the parser"), two_turns(host, "Tidy up"));
        let sessions = listed(host, &[]);
        let ids: Vec<_> = sessions.iter().map(|it| it["id"].as_str().expect("an id")).collect();
        assert_eq!(ids, [&*new, &*old]);
        let first = &sessions[1];
        assert_eq!((&first["title"], &first["turns"]), (&json!("Fix the parser"), &json!(2)));
        assert_eq!((&first["agent"], &first["events"]), (&json!(AGENT), &json!(6)));
        assert_eq!((&first["provider"], &first["model"]), (&json!("anthropic"), &json!("a-model")));
        assert_eq!((&first["in_use_by"], &first["forked_from"]), (&Value::Null, &Value::Null));
        let table = session(host, &["list"]).expect_code(0).stdout();
        for text in ["Fix the parser", &old[..13], "anthropic/a-model"] {
            assert!(table.contains(text), "{text}\n{table}");
        }
        assert!(!table.contains("in use") && !table.contains("WORKSPACE"), "{table}");

        let elsewhere = host.write("elsewhere/file", "", 0o644);
        let elsewhere = elsewhere.parent().and_then(|dir| dir.to_str()).expect("UTF-8");
        let there = ["--workspace", elsewhere];
        assert_eq!(listed(host, &there).len(), 0);
        assert_eq!(listed(host, &[&there[..], &["--all"]].concat()).len(), 2);
        let newest = session(host, &["list", "--json", "--all", "-n", "1"]).expect_code(0).json();
        assert_eq!((&newest["sessions"][0]["id"], &newest["is_cut"]), (&json!(new), &json!(true)));
        assert_eq!(newest["sessions"].as_array().map(Vec::len), Some(1));
        let ran = session(host, &["list", "--all", "-n", "1"]).expect_code(0);
        assert!(ran.stderr().contains("`-n 0` lists all"), "{ran}");
        let all = session(host, &["list", "--json", "--all", "-n", "0"]).expect_code(0).json();
        assert_eq!(
            (all["sessions"].as_array().map(Vec::len), &all["is_cut"]),
            (Some(2), &json!(false))
        );
        let ran = session(host, &["list", "--all", "-n", "2"]).expect_code(0);
        assert!(!ran.stderr().contains("older"), "{ran}");
        let table = session(host, &["list", "--all"]).expect_code(0).stdout();
        assert!(table.contains(host.workspace().to_str().expect("UTF-8")), "{table}");
        let other = host.run(["--agent", "other", "session", "list", "--all"]).expect_code(0);
        assert!(other.stdout().is_empty() && other.stderr() == "no sessions\n", "{other}");
    });
}

#[test]
fn a_session_is_named_by_its_id_or_its_title() {
    let host = host();
    let (one, two) = (two_turns(&host, "Same"), two_turns(&host, "Same"));
    for name in [&*one, &one[..13], &one.to_uppercase()] {
        let shown = session(&host, &["show", name, "--json"]).expect_code(0).json();
        assert_eq!(shown["id"], json!(one), "{name}");
    }
    let ran = session(&host, &["rename", "same", "Other"]).expect_code(1);
    assert!(ran.stderr().contains("`same` matches 2 sessions; use an id"), "{ran}");
    assert!(ran.stderr().contains(&one) && ran.stderr().contains(&two), "{ran}");
    session(&host, &["rename", &one, "Other"]).expect_code(0);
    let renamed = session(&host, &["rename", "same", "The one", "--json"]).expect_code(0).json();
    assert_eq!((&renamed["id"], &renamed["title"]), (&json!(two), &json!("The one")));
    for title in ["", "two\nlines", "\u{1b}[2J"] {
        let ran = session(&host, &["rename", &one, title]).expect_code(2);
        assert!(ran.stderr().contains("no control characters"), "{ran}");
    }
    for command in [&["show", "none"][..], &["export", "none"], &["fork", "none"]] {
        let ran = session(&host, command).expect_code(1);
        assert!(ran.stderr().contains("no session has the id or title `none`"), "{ran}");
        assert!(ran.stderr().contains("hint: `ikigai session list --all`"), "{ran}");
    }
}

#[test]
fn a_fork_leaves_the_original_as_it_was() {
    with_each_store(|host| {
        let original = two_turns(host, "Fix the parser");
        let lines = |id: &str| session(host, &["export", "--jsonl", id]).expect_code(0).stdout();
        let before = lines(&original);
        let fork = session(host, &["fork", &original, "--turns", "1", "--json"]).expect_code(0);
        let fork = fork.json();
        assert_eq!((&fork["turns"], &fork["events"]), (&json!(1), &json!(4)));
        assert_eq!((&fork["forked_from"], &fork["in_use_by"]), (&json!(original), &Value::Null));
        let ran = session(host, &["fork", &original]).expect_code(0);
        assert!(ran.stderr().ends_with(": 2 turns\n"), "{ran}");
        let ran = session(host, &["fork", &original, "--turns", "3"]).expect_code(2);
        assert!(ran.stderr().contains("has 2 turns, not 3"), "{ran}");
        assert_eq!(lines(&original), before);
        assert_eq!(listed(host, &[]).len(), 3);
        let shorter = lines(fork["id"].as_str().expect("an id"));
        let events = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(events(&shorter), events(&before)[..4]);
    });
}

#[test]
fn what_is_removed_was_agreed_to() {
    with_each_store(|host| {
        let [a, b, c] = ["a1", "b2", "c3"].map(|title| two_turns(host, title));
        let ran = session(host, &["rm", &a]).expect_code(1);
        let said = "error: nothing was removed: a removal is final, and ikigai needs a terminal to \
            ask you\n\
                    hint: add --yes\n";
        assert!(ran.stderr().contains(said), "{ran}");
        assert_eq!(listed(host, &[]).len(), 3);
        session(host, &["rm", "--yes", &a, "none"]).expect_code(1);
        assert_eq!(listed(host, &[]).len(), 3, "nothing goes if a name is wrong");
        let ran = session(host, &["rm", "--yes", "--json", &a, "b2", &a]).expect_code(0);
        assert_eq!(ran.json(), json!({ "removed": [a, b] }));
        assert_eq!(listed(host, &[])[0]["id"], json!(c));
        session(host, &["show", &a]).expect_code(1);
    });
}

#[test]
fn a_person_at_a_terminal_is_asked_before_a_session_is_removed() {
    let host = host();
    let [a, b] = ["Fix the parser", "Tidy up"].map(|title| two_turns(&host, title));
    let answer = |names: &[&str], question: &str, answer: &str, code: i32| {
        let mut command = host.command();
        command.args(["session", "rm"]).args(names);
        let mut terminal = Terminal::start(&command, 160, 24);
        let screen = terminal.wait_for(&format!("{question} [y/N]"));
        terminal.send(&format!("{answer}\r"));
        assert_eq!(terminal.wait().code(), Some(code), "{}", terminal.everything());
        (screen, terminal.everything())
    };
    // Neither an empty line nor any text other than yes counts as consent.
    for no in ["", "n", "maybe"] {
        let (asked, said) = answer(&[&a], "Permanently remove it?", no, 1);
        assert!(asked.contains(&a) && asked.contains("Fix the parser, 2 turns"), "{asked}");
        assert!(said.contains("nothing was removed"), "{said}");
        assert_eq!(listed(&host, &[]).len(), 2);
    }
    let (_, said) = answer(&["Fix the parser"], "Permanently remove it?", "y", 0);
    assert!(said.contains(&format!("Removed {a}")), "{said}");
    assert_eq!(listed(&host, &[]).len(), 1);
    let c = two_turns(&host, "Another");
    let (asked, _) = answer(&[&b, &c], "Permanently remove these 2 sessions?", "yes", 0);
    assert!(asked.contains("Tidy up, 2 turns") && asked.contains("Another, 2 turns"), "{asked}");
    assert_eq!(listed(&host, &[]).len(), 0);
}

#[test]
fn a_session_that_is_in_use_is_shown_and_not_removed() {
    let host = host();
    let id = two_turns(&host, "Fix the parser");
    let url = StoreUrl::sqlite(host.home().join(".local/share/ikigai/store.db"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let _lease = runtime.expect("a runtime").block_on(async {
        let store = Store::open(&url, &StoreOptions::default()).await.expect("it opens");
        let hour = Duration::from_secs(3600);
        store.lease_session(&id.parse().expect("an id"), "another terminal", hour).await
    });
    assert_eq!(listed(&host, &[])[0]["in_use_by"], "another terminal");
    let table = session(&host, &["list"]).expect_code(0).stdout();
    assert!(table.contains("in use"), "{table}");
    let ran = session(&host, &["rm", "--yes", &id]).expect_code(1);
    assert!(ran.stderr().contains("is in use by `another terminal`"), "{ran}");
    assert!(ran.stderr().contains("hint: close it in the other terminal"), "{ran}");
    session(&host, &["fork", &id]).expect_code(0);
    session(&host, &["rename", &id, "New"]).expect_code(0);
    session(&host, &["show", &id]).expect_code(0);
    assert_eq!(listed(&host, &[]).len(), 2);
}
