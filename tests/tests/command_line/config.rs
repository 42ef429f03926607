//! Configuration files: their precedence below variables and flags, the origin that is shown for
//! each value, and mistakes, which end the command with their position.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ikigai_tests::host::{Host, USER_POLICY};
use ikigai_tests::mode::permit;
use serde_json::Value;

/// Returns a host whose user has this configuration, and the path of the file.
fn configured(text: &str) -> (Host, PathBuf) {
    let host = Host::without_system_tools();
    let file = host.home().join(".config/ikigai/config.toml");
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    fs::write(&file, text).expect("a file");
    (host, file)
}

fn shown(host: &Host, args: &[&str]) -> Value {
    let ran = host.run(["config", "show", "--json"].iter().chain(args)).expect_code(0);
    serde_json::from_str(&ran.stdout()).expect("JSON")
}

fn from(shown: &Value, key: &str) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or("–").to_owned();
    (text(&shown[key]["value"]), text(&shown[key]["from"]))
}

fn pair(value: &str, from: impl Into<String>) -> (String, String) {
    (value.to_owned(), from.into())
}

#[test]
fn an_address_with_a_password_is_refused_and_not_shown() {
    let (host, file) =
        configured("[providers.anthropic]\nbase_url = \"http://me:secret@localhost:9\"");
    let ran = host.run(["config", "show"]).expect_code(2);
    assert!(ran.stderr().contains(&format!("{}:2:", file.display())), "{ran}");
    assert!(ran.stderr().contains("an address cannot contain a user and a password"), "{ran}");
    assert!(!ran.stderr().contains("secret"), "{ran}");
}

#[test]
fn flags_are_above_variables_and_those_above_the_file() {
    let (host, file) = configured(
        "timeout = \"7s\"\nfuel = 1_000\nprofile = \"strict\"\naudit_arguments = true\n\
         model = \"any\"\nprovider = \"anthropic\"\n[providers.anthropic]\nmodel = \"mine\"\n\
         base_url = \"http://localhost:9?key=hidden\"\nkey_command = \"echo top-secret\"",
    );
    let host = host.env("IKIGAI_TIMEOUT", "8s").env("IKIGAI_FUEL", "2000");
    let line = |number: u32| format!("{}:{number}", file.display());

    let found = shown(&host, &["--fuel", "3000"]);
    assert_eq!(from(&found, "fuel"), pair("3000", "--fuel"));
    assert_eq!(from(&found, "timeout"), pair("8s", "IKIGAI_TIMEOUT"));
    assert_eq!(from(&found, "profile"), pair("strict", line(3)));
    assert_eq!(from(&found, "audit_arguments"), pair("true", line(4)));
    assert_eq!(from(&found, "model"), pair("mine", line(8)));
    assert_eq!(from(&found, "provider"), pair("anthropic", line(6)));
    assert_eq!(from(&found, "backend"), pair("auto", "default"));
    assert_eq!(
        from(&found, "providers.anthropic.base_url"),
        pair("http://localhost:9/?…", line(9))
    );
    assert_eq!(from(&found, "providers.anthropic.key"), pair("(by a command)", line(10)));
    assert_eq!(from(&found, "providers.openai.key"), pair("–", "default"));
    let own = pair("https://api.openai.com/v1", "default");
    assert_eq!(from(&found, "providers.openai.base_url"), own);

    let found = shown(&host, &["--provider", "google", "--model", "g"]);
    assert_eq!(from(&found, "provider"), pair("google", "--provider"));
    assert_eq!(from(&found, "model"), pair("g", "--model"));

    // A flag takes precedence over a variable, before the command and after it.
    let host = host.env("IKIGAI_MODEL", "of-the-variable");
    let model = |args: &[&str]| {
        let ran = host.run(args).expect_code(0);
        from(&serde_json::from_str(&ran.stdout()).expect("JSON"), "model")
    };
    let show = ["config", "show", "--json"];
    assert_eq!(model(&show), pair("of-the-variable", "IKIGAI_MODEL"));
    assert_eq!(model(&[&["--model", "b"], &show[..]].concat()), pair("b", "--model"));
    assert_eq!(model(&[&show[..], &["--model", "c"]].concat()), pair("c", "--model"));

    let host = host.env("OPENAI_API_KEY", "sk-very-secret").env("OPENAI_BASE_URL", "http://h/v1");
    let ran = host.run(["config", "show"]).expect_code(0);
    let text = ran.stdout();
    assert!(text.contains("OPENAI_API_KEY") && text.contains("OPENAI_BASE_URL"), "{text}");
    for secret in ["sk-very-secret", "top-secret", "me:secret", "hidden"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn the_profile_in_force_is_shown_with_the_line_that_sets_it() {
    let (host, file) = configured("");
    assert_eq!(from(&shown(&host, &[]), "profile"), pair("standard", "default"));
    let policy = host.write(USER_POLICY, "# mine\nprofile = \"strict\"\n", 0o600);
    let of_policy = pair("strict", format!("{}:2", policy.display()));
    assert_eq!(from(&shown(&host, &[]), "profile"), of_policy);
    let flag = ["--profile", "standard"];
    assert_eq!(from(&shown(&host, &flag), "profile"), pair("standard", "--profile"));
    fs::write(&file, "profile = \"standard\"").expect("written");
    let of_config = pair("standard", format!("{}:1", file.display()));
    assert_eq!(from(&shown(&host, &[]), "profile"), of_config);
    let ceiling = host.write("ceiling.toml", "profile = \"strict\"\n", 0o600);
    let path = ceiling.display().to_string();
    let of_ceiling = pair("strict", format!("{path}:1"));
    assert_eq!(from(&shown(&host, &["--ceiling", &path]), "profile"), of_ceiling);
    host.write(USER_POLICY, "profil = 1\n", 0o600);
    let (value, by) = from(&shown(&host, &[]), "profile");
    assert!(value == "–" && by.contains("`ikigai doctor`"), "{value} {by}");
}

#[test]
fn what_a_model_is_given_is_shown_without_what_may_be_secret() {
    let (host, file) = configured(
        "compact_at = 0.5\n[spend]\nday = 9000\n[providers.openai]\ncontext = 128_000\n\
         headers = { X-Team = \"hush\" }\n[providers.openai.models.\"a.b\"]\neffort = \"low\"",
    );
    let line = |number: u32| format!("{}:{number}", file.display());
    let found = shown(&host, &["--effort", "high"]);
    assert_eq!(from(&found, "effort"), pair("high", "--effort"));
    assert_eq!(from(&found, "compact_at"), pair("0.5", line(1)));
    assert_eq!(from(&found, "spend.day"), pair("9000", line(3)));
    assert_eq!(from(&found, "spend.session"), pair("–", "default"));
    assert_eq!(from(&found, "providers.openai.context"), pair("128000", line(5)));
    assert_eq!(from(&found, "providers.openai.headers"), pair("x-team (not shown)", line(6)));
    assert_eq!(from(&found, "providers.openai.models.\"a.b\".effort"), pair("low", line(8)));
    assert!(!found.to_string().contains("hush"), "{found}");
}

#[test]
fn what_the_file_says_holds_for_calls() {
    let (host, _) = configured("max_output = \"1KiB\"");
    host.script("long", "head -c 5000 /dev/zero | tr '\\0' ' '; echo 1");
    let ran = host.run(["tool", "call", "long"]).expect_code(1);
    assert!(ran.stdout().contains("\"limit\":\"output\""), "{}", ran.stdout());
    host.run(["tool", "call", "long", "--max-output", "1MiB"]).expect_code(0);
}

#[test]
fn a_mistake_is_reported_with_its_position_and_nothing_runs() {
    for (text, told) in [
        ("timeuot = \"3s\"", "config.toml:1:1: unknown key `timeuot`\n1 | timeuot = \"3s\"\n"),
        ("timeout = \"soon\"", "config.toml:1:11: invalid value 'soon' for '--timeout"),
        ("backend = \"wsm\"", "config.toml:1:11: invalid value 'wsm' for '--backend"),
        ("fuel = -1", "config.toml:1:8: invalid value '-1' for '--fuel"),
        ("[providers.gogle]", "did you mean `google`?"),
        ("timeout = ", "config.toml:1:"),
    ] {
        let (host, _) = configured(text);
        host.script("tool", "echo 1");
        let ran = host.run(["tool", "call", "tool"]).expect_code(2);
        assert!(ran.stderr().contains(told), "{text}: {}", ran.stderr());
        assert_eq!(ran.stdout(), "");
        // Commands that need no file still work.
        host.run(["--help"]).expect_code(0);
        host.run(["--version"]).expect_code(0);
    }
    let (host, _) = configured("provider = \"openapi\"");
    let ran = host.run(["config", "show"]).expect_code(2);
    assert!(ran.stderr().contains("unknown provider `openapi`"), "{}", ran.stderr());
}

#[test]
fn a_file_that_others_may_write_is_not_used() {
    let (host, file) = configured("fuel = 1");
    permit(&file, 0o666);
    let ran = host.run(["config", "show"]).expect_code(2);
    assert!(ran.stderr().contains("another user may have written it"), "{}", ran.stderr());
    assert!(ran.stderr().contains("hint: chmod go-w"), "{}", ran.stderr());
}

#[test]
fn a_provider_is_shown_exactly_what_it_is_sent() {
    let host = Host::without_system_tools();
    let own = r#"{"name":"greet","description":"Greets.","parameters":{"type":"object","properties":
        {"who":{"type":"string","description":"Whom"},"loud":{"type":"boolean",
        "description":"Whether"}},"required":["who"]}}"#;
    host.program("greet", format!("#!/bin/sh\n[ \"$1\" = --schema ] && echo '{own}'\ntrue\n"));
    let schema = |provider: &str| -> Value {
        let ran = host.run(["tool", "schema", "--provider", provider]).expect_code(0);
        serde_json::from_str(&ran.stdout()).expect("JSON")
    };
    let openai = schema("openai");
    assert_eq!(openai[0]["strict"], true);
    assert_eq!(openai[0]["parameters"]["required"], serde_json::json!(["who", "loud"]));
    assert_eq!(schema("openai-chat")[0]["function"]["name"], "greet");
    assert_eq!(schema("anthropic")[0]["input_schema"]["required"], serde_json::json!(["who"]));
    assert_eq!(schema("google")[0]["functionDeclarations"][0]["name"], "greet");

    let ran = host.run(["tool", "check", &host.user_tools().join("greet").display().to_string()]);
    for provider in ["openai", "openai-chat", "anthropic", "google"] {
        assert!(ran.stdout().contains(provider), "{}", ran.stdout());
    }
}

#[test]
fn a_long_description_is_reported_and_cut_if_the_configuration_asks_for_it() {
    let (host, _) = configured("[providers.openai-chat]\nmax_description = 1024");
    let parameters = r#"{"type":"object","properties":{}}"#;
    let description = "d".repeat(9000);
    let own =
        format!(r#"{{"name":"long","description":"{description}","parameters":{parameters}}}"#);
    host.program("long", format!("#!/bin/sh\n[ \"$1\" = --schema ] && echo '{own}'\ntrue\n"));
    let path = host.user_tools().join("long").display().to_string();
    let report = host.run(["tool", "check", "--json", &path]).json();
    let finding = |check: &str| {
        let findings = report["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("nothing of `{check}`: {report:#}")).clone()
    };
    assert_eq!(finding("description")["verdict"], "warn");
    let text = finding("description")["text"].as_str().expect("a text").to_owned();
    assert!(
        text.contains("9000 characters") && text.contains("1024") && text.contains("2048"),
        "{text}"
    );
    assert_eq!(finding("openai")["text"], "sent as it is");
    let text = finding("openai-chat")["text"].as_str().expect("a text").to_owned();
    assert!(text.starts_with("`description`: cut: 9000 characters"), "{text}");
    let ran = host.run(["tool", "schema", "--provider", "openai-chat"]).expect_code(0);
    let sent: Value = serde_json::from_str(&ran.stdout()).expect("JSON");
    let sent = sent[0]["function"]["description"].as_str().expect("a text");
    assert_eq!(sent.chars().count(), 1024);

    let found = shown(&host, &[]);
    assert_eq!(from(&found, "providers.openai-chat.max_description").0, "1024");
    let own = pair("128", "default");
    assert_eq!(from(&found, "providers.openai-chat.max_tools"), own);
}

#[test]
fn a_command_for_a_key_that_a_tool_could_change_is_not_started() {
    let (host, file) = configured("");
    let (scratch, workspace) = (host.scratch().display().to_string(), host.workspace());
    let script = format!("#!/bin/sh\n: > '{scratch}/ran'\n");
    host.write("workspace/get-key", &script, 0o755);
    host.write("workspace/plain", &script, 0o644);
    host.write("bin/get-key", &script, 0o755);
    for name in ["key.awk", "key.mk", "key.sed", "key.gdb", "lib/Key.pm"] {
        host.write(format!("workspace/{name}"), "two words", 0o644);
    }
    symlink(workspace.join("get-key"), host.scratch().join("bin/linked")).expect("linked");
    symlink("/etc/hostname", workspace.join("link")).expect("linked");
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = [host.scratch().join("bin")].into_iter().chain(std::env::split_paths(&old));
    let host = host.env("PATH", std::env::join_paths(path).expect("a path"));
    let ask = |command: &str| {
        let text = format!("[providers.anthropic]\nkey_command = {command:?}");
        fs::write(&file, text).expect("a file");
        host.run(["ask", "--provider", "anthropic", "--model", "m", "hi"]).expect_code(2).stderr()
    };
    let inside = workspace.display();
    for command in [
        format!("{inside}/get-key"),
        format!("cd {inside} && ./get-key"),
        format!("sh {inside}/plain"),
        format!("echo $({inside}/get-key)"),
        format!("sh -c '. {inside}/plain'"),
        // A tool could make it between the check and the start.
        format!("{inside}/absent"),
        // Any file may be code for the program that gets it.
        format!("awk -f {inside}/key.awk"),
        format!("make -s -f{inside}/key.mk"),
        format!("sed -nf {inside}/key.sed /etc/hostname"),
        format!("gdb -batch --command={inside}/key.gdb"),
        format!("make -C {inside}"),
        format!("env PERL5OPT=-I{inside}/lib {scratch}/bin/get-key"),
        format!("cat {inside}/key.awk | sh"),
        // The shell or another program may run what a file has in it, or set it as variables.
        format!("export $(cat {inside}/plain) && printenv KEY"),
        format!("cat {inside}/key.awk | awk -f -"),
        format!("jq -nf {inside}/plain"),
        "cd && awk -f key.awk".to_owned(),
        format!("$(cat {inside}/key.awk)"),
        // The path stands in code, in nested quotes, in a list or in an address.
        format!("bash -c '\"{inside}/get-key\"'"),
        format!("bash -c \"'${{KEY:-{inside}/get-key}}'\""),
        format!("git -c alias.k='!{inside}/get-key' k"),
        format!("python3 -c 'import os; os.execv(r\"{inside}/get-key\", [\"k\"])'"),
        format!("env PATH=/usr/bin:/{inside} get-key"),
        format!("git clone git+file://{inside} /tmp/x"),
        format!("nix run {inside}#key"),
        // Relative to where the command starts, and to directories that it names.
        format!("env -C{scratch} workspace/get-key"),
        format!("env -C {} workspace/get-key", scratch.trim_start_matches('/')),
        format!("awk -f{}/key.awk", inside.to_string().trim_start_matches('/')),
        format!("env -C {scratch} sh workspace/absent"),
        format!("make -C {scratch} -sfworkspace/key.mk"),
        // A program in `PATH` is a link to a file of a tool.
        "git -c alias.k=!linked k".to_owned(),
        "env -Slinked".to_owned(),
        "awk 'BEGIN{\"linked\" | getline}'".to_owned(),
        // The command would print another file.
        format!("cat {inside}/link"),
    ] {
        let refused = ask(&command);
        assert!(refused.contains("a tool could change the command"), "{command}: {refused}");
        assert!(refused.contains("move the program to a directory outside"), "{refused}");
    }
    assert!(!host.scratch().join("ran").exists());
    for command in [
        format!("cat {inside}/plain"),
        "echo op://a/b/c pass/show/x".to_owned(),
        format!("{scratch}/bin/get-key"),
    ] {
        let ran = ask(&command);
        assert!(!ran.contains("a tool could change"), "{command}: {ran}");
    }
    assert!(host.scratch().join("ran").exists());
}

#[test]
fn a_command_for_a_key_starts_with_known_variables() {
    let (host, file) = configured("");
    let seen = host.scratch().join("seen");
    let script = format!(
        "#!/bin/sh\necho \"${{PERL5OPT-none}} ${{PERLLIB-none}} ${{AWS_CONFIG_FILE-none}} \
         ${{AWS_PROFILE-none}} ${{BROWSER-none}}\" > '{}'\n",
        seen.display()
    );
    let program = host.write("bin/get-key", script, 0o755);
    fs::write(&file, format!("[providers.anthropic]\nkey_command = \"{}\"", program.display()))
        .expect("a file");
    let inside = host.workspace().display().to_string();
    let host = host
        .env("PERL5OPT", format!("-I{inside}/lib"))
        .env("PERLLIB", format!("{inside}/lib"))
        .env("AWS_CONFIG_FILE", format!("{inside}/aws"))
        .env("AWS_PROFILE", "mine")
        .env("BROWSER", format!("/bin/sh '{inside}/open' %s"));
    host.run(["ask", "--provider", "anthropic", "--model", "m", "hi"]).expect_code(2);
    assert_eq!(fs::read_to_string(seen).expect("it ran"), "none none none mine none\n");
}

#[test]
fn a_configuration_in_a_closed_directory_is_refused_and_not_left_out() {
    let (host, file) = configured("fuel = 1");
    let directory = file.parent().expect("a directory").to_owned();
    let host = host.as_nobody();
    permit(&directory, 0o000);
    let refused = host.run(["config", "show", "--json"]);
    // Allows the directory to be removed.
    permit(&directory, 0o700);
    let refused = refused.expect_code(2);
    let hint = format!("hint: chmod u+rwx {}\n", directory.display());
    assert!(refused.stderr().ends_with(&hint), "{refused}");
    assert_eq!(from(&shown(&host, &[]), "fuel").1, format!("{}:1", file.display()));
}
