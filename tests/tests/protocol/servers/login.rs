//! Logins at servers over HTTP. A test acts as the browser, and the test server redirects it back
//! at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::browser::WebPage;
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mcp::peer::HttpPeer;
use ikigai_tests::mode::permit;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::servers::{doing, offered, text};

/// The beginnings of the secrets that the test's issuer hands out.
const SECRETS: [&str; 2] = ["access-", "refresh-"];

/// Starts a peer with an issuer, and adds it.
fn start(host: &Host, oauth: &Value) -> HttpPeer {
    let mut definition = doing(&["echo"]);
    definition["http"] = json!({ "oauth": oauth });
    definition["journal"] = journal(host).display().to_string().into();
    let peer = HttpPeer::start(host, &definition);
    let added = host.run(["mcp", "add", "peer", &peer.url, "--oauth", "--yes"]).expect_code(0);
    assert!(added.stderr().contains("`ikigai mcp login peer`"), "{added}");
    peer
}

fn journal(host: &Host) -> PathBuf {
    host.scratch().join("peer/journal")
}

/// Returns how often the peer received a request that begins with `request`.
fn sent(host: &Host, request: &str) -> usize {
    let journal = fs::read_to_string(journal(host)).unwrap_or_default();
    journal.lines().filter(|line| line.starts_with(request)).count()
}

fn kept(host: &Host) -> PathBuf {
    host.scratch().join("state/ikigai/logins/peer.json")
}

/// Logs in with these flags, and acts as the browser. Returns the command's result and the final
/// page.
fn log_in(host: &Host, flags: &[&str]) -> (Ran, String) {
    let mut running = host.start(["mcp", "login", "peer", "--yes"].iter().chain(flags));
    let url = format!("http{}", running.line_of_stderr("http"));
    let page = WebPage::get(&url);
    let place = page.location.unwrap_or_else(|| panic!("no way back: {}", page.text));
    let page = WebPage::get(&place);
    (running.wait(), page.text)
}

#[track_caller]
fn has_no_secret(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{text}");
    }
}

fn echo(host: &Host) -> Value {
    host.run(["tool", "call", "peer__echo", "{}"]).json()
}

fn state(host: &Host) -> Value {
    host.run(["mcp", "list", "--json"]).json()["servers"][0]["login"].clone()
}

#[test]
fn a_person_logs_in_uses_the_server_and_logs_out() {
    let host = Host::without_system_tools();
    let peer = start(&host, &json!({}));
    assert_eq!(state(&host), json!({ "state": "not_logged_in" }));
    let doctor = host.run(["doctor"]).stdout();
    assert!(doctor.contains("`peer`: not logged in; `ikigai mcp login peer`"), "{doctor}");
    let (ran, page) = log_in(&host, &[]);
    let ran = ran.expect_code(0);
    assert!(page.contains("close this page"), "{page}");
    let origin = peer.url.trim_end_matches("/mcp");
    assert!(ran.stderr().contains(&format!("logged in at {origin}")), "{ran}");
    let mode = fs::metadata(kept(&host)).expect("a file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    assert_eq!(offered(&host), ["peer__echo"]);
    assert_eq!(text(&echo(&host)), "{}");
    let login = state(&host);
    assert_eq!((&login["state"], &login["issuer"]), (&json!("logged_in"), &json!(origin)));
    assert_eq!((&login["renewed"], &login["scope"]), (&json!(true), &json!("tools")));
    assert!(login["expires"].as_str().is_some_and(|it| it.ends_with('Z')), "{login}");
    let (again, _) = log_in(&host, &["--json"]);
    assert_eq!(again.json()["state"], "logged_in", "{again}");
    let shown = host.run(["mcp", "show", "peer"]).expect_code(0);
    assert!(shown.stdout().contains("logged in at"), "{shown}");
    let doctor = host.run(["doctor"]).stdout();
    assert!(doctor.contains("logins") && !doctor.contains("not logged in"), "{doctor}");
    let audit = fs::read_to_string(host.audit_log());
    let listed = host.run(["mcp", "list"]);
    for text in [ran.stderr(), again.stdout(), shown.stdout(), doctor, listed.stdout()] {
        has_no_secret(&text);
    }
    has_no_secret(&audit.expect("read"));
    let out = host.run(["mcp", "logout", "peer"]).expect_code(0);
    assert!(out.stderr().contains("its issuer revoked the tokens"), "{out}");
    assert_eq!((sent(&host, "POST /revoke"), kept(&host).exists()), (2, false));
    let refused = echo(&host).to_string();
    assert!(refused.contains("`ikigai mcp login peer` logs in"), "{refused}");
    let nobody = host.run(["mcp", "logout", "peer", "--json"]).expect_code(0);
    assert_eq!(nobody.json()["removed"], false);
    host.run(["mcp", "logout", "other"]).expect_code(2);
}

#[test]
fn tokens_are_renewed_in_time_and_by_one_process_at_a_time() {
    let host = Host::without_system_tools();
    // Each token has already expired when it arrives, and each refresh token is valid only once. A
    // process that used another process's refresh token would be refused.
    let _peer = start(&host, &json!({ "expires": 0 }));
    log_in(&host, &[]).0.expect_code(0);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| echo(&host))).collect();
        for call in calls {
            let called = call.join().expect("no panic");
            assert_eq!(called["tool_success"], true, "{called}");
        }
    });
    assert!(sent(&host, "POST /token") > 4);
    assert_eq!(state(&host)["state"], "logged_in");
}

#[test]
fn a_token_that_is_refused_is_renewed_once() {
    let host = Host::without_system_tools();
    let _peer = start(&host, &json!({ "lasts": 2 }));
    log_in(&host, &[]).0.expect_code(0);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    let before = sent(&host, "POST /token");
    for _ in 0..3 {
        assert_eq!(text(&echo(&host)), "{}");
    }
    assert!(sent(&host, "POST /token") > before);
}

#[test]
fn a_login_that_cannot_go_on_says_what_to_do() {
    let host = Host::without_system_tools();
    let peer = start(&host, &json!({ "renews": false, "lasts": 8 }));
    log_in(&host, &[]).0.expect_code(0);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    // The token will be used up at some point.
    let refused = (0..8).map(|_| echo(&host)).find(|called| called["tool_success"] != true);
    let refused = refused.expect("a refusal").to_string();
    assert!(refused.contains("`ikigai mcp login peer` logs in"), "{refused}");
    has_no_secret(&refused);
    host.run(["mcp", "remove", "peer", "--yes"]).expect_code(0);
    assert!(!kept(&host).exists());
    drop(peer);
    let _peer = start(&host, &json!({ "lacks": "write" }));
    log_in(&host, &[]).0.expect_code(0);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    let refused = echo(&host);
    assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("`ikigai mcp login peer --scope write`"), "{refused}");
    // Everything that worked with the first login's scopes must still work.
    let (ran, _) = log_in(&host, &["--scope", "write"]);
    assert!(ran.stderr().contains("scope=tools+write"), "{ran}");
    ran.expect_code(0);
}

#[test]
fn an_attack_ends_without_tokens() {
    for (oauth, expected) in [
        (json!({ "fault": "resource" }), "describes another server"),
        (json!({ "fault": "private" }), "no address of `10.255.255.1:443` is granted"),
        (json!({ "registers": false }), "--client-id"),
    ] {
        let host = Host::without_system_tools();
        let _peer = start(&host, &oauth);
        let ran = host.run(["mcp", "login", "peer", "--yes"]).expect_code(1);
        assert!(ran.stderr().contains(expected), "{oauth}: {ran}");
        assert!(!kept(&host).exists());
    }
    for (oauth, expected) in [
        (json!({ "fault": "denied" }), "access_denied: no"),
        (json!({ "issuer": "mixed" }), "did not come from the issuer"),
        (json!({ "fault": "redirect" }), "leads to another address"),
        (json!({ "fault": "large" }), "more than 256 KiB"),
    ] {
        let host = Host::without_system_tools();
        let _peer = start(&host, &oauth);
        let (ran, _) = log_in(&host, &[]);
        let ran = ran.expect_code(1);
        assert!(ran.stderr().contains(expected), "{oauth}: {ran}");
        has_no_secret(&ran.stderr());
        assert!(!kept(&host).exists());
    }
}

#[test]
fn no_browser_is_opened_by_a_program_that_a_tool_could_replace() {
    let host = Host::without_system_tools();
    let _peer = start(&host, &json!({}));
    let [bad, good] = ["bad", "good"].map(|name| host.scratch().join(name));
    for opener in ["open", "xdg-open"] {
        for (dir, mark) in [("workspace/bin", &bad), ("bin", &good)] {
            let script = format!("#!/bin/sh\n: > '{}'\n", mark.display());
            host.write(format!("{dir}/{opener}"), script, 0o755);
        }
    }
    let dirs = [host.workspace().join("bin"), host.scratch().join("bin")];
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&old)));
    let mut command = host.command();
    command.env("PATH", path.expect("a path")).args(["mcp", "login", "peer", "--yes"]);
    let mut terminal = Terminal::start(&command, 240, 60);
    terminal.wait_until("a browser was opened", |_| good.exists());
    terminal.signal(Signal::TERM);
    terminal.wait();
    assert!(!bad.exists(), "{}", terminal.everything());

    // A machine without another one prints the address only.
    let only = std::env::join_paths([host.workspace().join("bin"), host.scratch().join("empty")]);
    command.env("PATH", only.expect("a path"));
    let mut terminal = Terminal::start(&command, 240, 60);
    terminal.wait_for("no browser was opened");
    assert!(terminal.everything().contains("open this URL to log in"));
    terminal.signal(Signal::TERM);
    terminal.wait();
    assert!(!bad.exists(), "{}", terminal.everything());
}

#[test]
fn an_answer_with_a_foreign_state_is_not_taken_and_the_wait_can_be_given_up() {
    for signal in [Signal::INT, Signal::TERM] {
        let host = Host::without_system_tools();
        let _peer = start(&host, &json!({ "fault": "state" }));
        let mut running = host.start(["mcp", "login", "peer", "--yes"]);
        let url = format!("http{}", running.line_of_stderr("http"));
        let place = WebPage::get(&url).location.expect("a way back");
        let WebPage { status, text, .. } = WebPage::get(&place);
        assert_eq!(status, "400", "{text}");
        assert!(text.contains("no login that ikigai waits for"), "{text}");
        running.signal(signal);
        let ran = running.wait().expect_code(130);
        assert!(ran.stderr().contains("login cancelled"), "{ran}");
        assert_eq!((sent(&host, "POST /token"), kept(&host).exists()), (0, false));
    }
}

#[test]
fn nothing_is_sent_to_an_issuer_that_nobody_agreed_to() {
    let host = Host::without_system_tools();
    let peer = start(&host, &json!({}));
    let ran = host.run(["mcp", "login", "peer"]).expect_code(1);
    let origin = peer.url.trim_end_matches("/mcp");
    assert!(ran.stderr().contains(&format!("has its tokens from {origin}")), "{ran}");
    assert!(ran.stderr().contains("--yes confirms it"), "{ran}");
    let others = ["GET /.well-known/oauth-authorization-server", "POST /register"];
    assert_eq!(others.map(|request| sent(&host, request)), [0, 0]);
    let ran = host.run(["mcp", "login", "peer", "--yes", "--issuer", "https://b.example"]);
    assert!(ran.expect_code(2).stderr().contains("another issuer"));
    host.run(["mcp", "login", "other"]).expect_code(2);
    host.run(["mcp", "remove", "peer", "--yes"]).expect_code(0);
    let without = format!("url = {:?}\ntoken_env = \"HOME\"\n", peer.url);
    host.write("user-tools/peer.mcp.toml", without, 0o644);
    // The server is granted, but rejects the variable's value as a token.
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(1);
    let ran = host.run(["mcp", "login", "peer"]).expect_code(2);
    assert!(ran.stderr().contains("has no `oauth`"), "{ran}");
}

#[test]
fn a_login_is_for_the_user_and_for_one_address_alone() {
    let host = Host::without_system_tools();
    let peer = start(&host, &json!({}));
    log_in(&host, &[]).0.expect_code(0);
    host.run(["mcp", "approve", "peer", "--yes"]).expect_code(0);
    permit(kept(&host), 0o644);
    let refused = echo(&host).to_string();
    assert!(refused.contains("others than its owner may read it"), "{refused}");
    assert_eq!(state(&host)["state"], "unusable");
    permit(kept(&host), 0o600);
    let login = fs::read(kept(&host)).expect("read");
    host.run(["mcp", "remove", "peer", "--yes"]).expect_code(0);
    drop(peer);
    let before = sent(&host, "POST /mcp");
    let _other = start(&host, &json!({}));
    fs::write(kept(&host), login).expect("written");
    permit(kept(&host), 0o600);
    let shown = host.run(["mcp", "show", "peer"]).expect_code(1).stdout();
    assert!(shown.contains("you are not logged in to `peer`"), "{shown}");
    assert_eq!(sent(&host, "POST /mcp"), before, "the tokens of another server were sent");
}
