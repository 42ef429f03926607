//! A tool must not be able to write to the host's own directories: there it could install a tool
//! that runs with its user's rights.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use rustix::process::Signal;
use serde_json::json;

fn write(host: &Host, flags: &[&str], path: &str) -> Ran {
    let arguments = json!({"file_path": path, "content": "#!/bin/sh\nid\n"}).to_string();
    host.run([flags, &["tool", "call", "file_write", &arguments]].concat()).expect_code(0)
}

#[test]
fn a_tool_cannot_install_a_tool() {
    let host = Host::new();
    let tool = host.script("hello", "echo '{}'");
    let before = fs::read(&tool).expect("readable");
    // All directories of this host are below its scratch directory, as a user's are below the home
    // directory.
    let home = host.scratch().to_str().expect("UTF-8").to_owned();
    for backend in ["wasm", "native"] {
        let flags = ["--workspace", &home, "--backend", backend];
        for path in ["user-tools/hello", "user-tools/another", "cache/ikigai/index.json", "free"] {
            let ran = write(&host, &flags, path);
            assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{path}\n{ran}");
            assert_eq!(ran.stderr().matches("--workspace").count(), 1, "said once\n{ran}");
        }
        // A workspace below the home directory that contains no directory of the host is writable.
        let ran = write(&host, &["--backend", backend], "free");
        assert!(ran.json()["result"]["bytes"].is_number() && ran.stderr().is_empty(), "{ran}");
    }
    assert_eq!(fs::read(&tool).expect("readable"), before);
    assert!(!host.user_tools().join("another").exists());
}

#[test]
fn a_tool_cannot_write_what_runs_without_variables_use() {
    let host = Host::new();
    let root = fs::canonicalize(host.scratch()).expect("a path");
    let host = ["XDG_CONFIG_HOME", "XDG_DATA_HOME"]
        .into_iter()
        .fold(host, |host, variable| host.env(variable, root.join("moved")));
    for (workspace, path) in [
        (".cache", "ikigai/index.json"),
        (".config", "ikigai/policy.toml"),
        (".ikigai", "tools/hello"),
        (".local/share", "ikigai/tools/hello"),
        (".local/state", "ikigai/writable"),
    ] {
        let workspace = host.home().join(workspace);
        fs::create_dir_all(&workspace).expect("made");
        let ran = write(&host, &["--workspace", workspace.to_str().expect("UTF-8")], path);
        assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{path}\n{ran}");
    }
}

#[test]
fn own_files_that_a_tool_could_have_written_are_refused() {
    // The state is where it is without a variable.
    let host = Host::new().env("XDG_STATE_HOME", "");
    let moved = host.workspace().join("moved");
    host.write("workspace/moved/ikigai/config.toml", "", 0o600);
    let policy = host.write("workspace/moved/ikigai/policy.toml", "", 0o600);
    let list = |variable: &str, value: &Path| {
        let mut command = host.command();
        Ran::from_command(command.env(variable, value).args(["tool", "list"]), b"")
    };
    let variables = [
        ("XDG_CONFIG_HOME", &moved),
        ("XDG_DATA_HOME", &moved),
        ("XDG_STATE_HOME", &moved),
        ("IKIGAI_POLICY", &policy),
        ("IKIGAI_CEILING", &policy),
    ];
    for (variable, value) in variables {
        list(variable, value).expect_code(0);
    }
    write(&host, &[], "free");
    for (variable, value) in variables {
        let ran = list(variable, value).expect_code(2);
        assert!(ran.stderr().contains("tools could write in"), "{variable}\n{ran}");
        assert!(ran.stderr().contains("hint: use a directory"), "{variable}\n{ran}");
    }
    host.run(["tool", "list"]).expect_code(0);
    // Tools of the user are known by their contents, but their signers only from the lock.
    let tools = host.workspace().join("mine");
    fs::create_dir(&tools).expect("made");
    list("IKIGAI_USER_TOOLS", &tools).expect_code(0);
    host.write("workspace/mine.lock", "", 0o600);
    for variable in ["IKIGAI_USER_TOOLS", "IKIGAI_SYSTEM_TOOLS"] {
        let ran = list(variable, &tools).expect_code(2);
        assert!(ran.stderr().contains("tools could write in"), "{variable}\n{ran}");
    }
}

#[test]
fn secrets_in_the_workspace_are_hidden_until_they_are_granted_by_name() {
    let host = Host::new();
    let root = fs::canonicalize(host.scratch()).expect("a path");
    let host = host.env("XDG_RUNTIME_DIR", root.join("run"));
    let files = [
        "home/.ssh/id_ed25519",
        "home/.ssh/config",
        "home/.netrc",
        "home/.local/share/ikigai/store.db-wal",
        // With `XDG_STATE_HOME`, the state is elsewhere, and this one is that of other runs.
        "home/.local/state/ikigai/mcp.token",
        "state/ikigai/mcp.token",
        "run/ikigai/mcp.token",
    ];
    for file in files.iter().chain(&["home/notes"]) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, "hunter2\n").expect("written");
    }
    symlink("home/.ssh/id_ed25519", root.join("link")).expect("linked");
    let root = root.to_str().expect("UTF-8");
    let seen = |backend: &str, tool: &str, arguments: serde_json::Value| {
        let flags = ["--workspace", root, "--backend", backend];
        let arguments = arguments.to_string();
        host.run([&flags[..], &["tool", "call", tool, &arguments]].concat())
    };
    let command = format!("cat link home/notes home/.ssh/* {}", files[2..].join(" "));
    let script = json!({ "command": command });
    for backend in ["wasm", "native"] {
        let ran = seen(backend, "bash", script.clone());
        assert_eq!(ran.stdout().matches("hunter2").count(), 1, "{backend}\n{ran}");
        for (path, found) in [("home", 1), ("home/.ssh", 0), ("state/ikigai", 0)] {
            let ran = seen(backend, "grep", json!({"pattern": "hunter[2]", "path": path}));
            assert_eq!(ran.stdout().matches("hunter2").count(), found, "{backend} {path}\n{ran}");
        }
        for file in files {
            let ran = seen(backend, "file_read", json!({ "file_path": file }));
            assert!(!ran.stdout().contains("hunter2"), "{backend} {file}\n{ran}");
        }
    }
    // The command in the refusal lets the tool read that file, and no other file in its directory.
    let ran = seen("wasm", "file_read", json!({"file_path": "home/.ssh/config"}));
    let allow = ran.json()["allow_with"].as_str().expect("a command").to_owned();
    assert!(allow.contains("home/.ssh/config"), "{ran}");
    let grant = |tool: &str| {
        let named = format!("{root}/home/.ssh/config");
        let dirs = ["--replace", "--read", root, "--read", &named, "--yes"];
        let flags = ["--workspace", root, "policy", "grant", tool];
        host.run([&flags[..], &dirs].concat()).expect_code(0);
    };
    ["bash", "file_read"].iter().for_each(|tool| grant(tool));
    for backend in ["wasm", "native"] {
        let ran = seen(backend, "bash", script.clone());
        assert_eq!(ran.stdout().matches("hunter2").count(), 2, "{backend}\n{ran}");
        let ran = seen(backend, "file_read", json!({"file_path": "home/.ssh/config"}));
        assert!(ran.stdout().contains("hunter2"), "{backend}\n{ran}");
        let ran = seen(backend, "file_read", json!({"file_path": "home/.ssh/id_ed25519"}));
        assert!(!ran.stdout().contains("hunter2"), "{backend}\n{ran}");
    }
}

#[test]
fn secrets_in_a_directory_of_the_system_are_hidden_and_a_test_of_a_place_says_so() {
    let Ok(system) = tempfile::tempdir_in("/usr/local") else {
        ikigai_tests::impossible_here("only root can make a directory in /usr");
        return;
    };
    permit(system.path(), 0o755);
    let root = fs::canonicalize(system.path()).expect("a path");
    for file in ["state/ikigai/mcp.token", "aws/credentials", "home/notes", "app/notes", "notes"] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, "hunter2\n").expect("written");
    }
    let read = |host: &Host, flags: &[&str], file: &str, is_seen: bool| {
        let path = root.join(file).display().to_string();
        let arguments = json!({"command": format!("cat {path}")}).to_string();
        let flags = [&["--backend", "native"], flags].concat();
        let ran = host.run([&flags[..], &["tool", "call", "bash", &arguments]].concat());
        assert_eq!(ran.stdout().contains("hunter2"), is_seen, "{path}\n{ran}");
        let code = i32::from(!is_seen);
        host.run([&flags[..], &["policy", "test", "bash", "--read", &path]].concat())
            .expect_code(code);
    };
    let host = Host::new().env("XDG_STATE_HOME", root.join("state"));
    symlink(root.join("aws"), host.home().join(".aws")).expect("linked");
    for (file, is_seen) in
        [("notes", true), ("state/ikigai/mcp.token", false), ("aws/credentials", false)]
    {
        read(&host, &[], file, is_seen);
    }
    let log = host.run(["audit", "--tail", "1", "--json"]).expect_code(0);
    let record: serde_json::Value = serde_json::from_str(&log.stdout()).expect("a record");
    assert_eq!(record["level"]["fs"]["state"], "enforced", "{record}");
    // A grant of the directory around it does not open it, but one of the place does.
    let named = root.join("aws").display().to_string();
    for (path, is_seen) in [(root.display().to_string(), false), (named, true)] {
        host.run(["policy", "grant", "bash", "--read", &path, "--yes"]).expect_code(0);
        read(&host, &[], "aws/credentials", is_seen);
    }
    // Neither a search for hidden names nor another home shows it, and a tool that is asked for its
    // schema does not see it either.
    let moved = |home: &Path| {
        let host = Host::new();
        let config = host.home().join(".config");
        let host = host.env("HOME", home).env("XDG_CONFIG_HOME", config);
        host.env("XDG_STATE_HOME", root.join("state"))
    };
    let host = moved(Path::new("/"));
    host.write_policy("[tools.bash]\nhide = [\".env\"]\n");
    read(&host, &[], "state/ikigai/mcp.token", false);
    let token = root.join("state/ikigai/mcp.token").display().to_string();
    let spy = host.user_tools().join("spy");
    fs::create_dir_all(host.user_tools()).expect("made");
    fs::write(&spy, format!("#!/bin/sh\ncat {token} >&2\nexit 1\n")).expect("written");
    permit(&spy, 0o755);
    let checked = host.run(["tool", "check", spy.to_str().expect("UTF-8")]).to_string();
    assert!(checked.contains("mcp.token") && !checked.contains("hunter2"), "{checked}");
    // The home and the workspace are the user's own, too.
    let above = Path::new("/etc/..").join(root.strip_prefix("/").expect("absolute"));
    for home in [above.join("home"), root.join("home")] {
        read(&moved(&home), &[], "home/notes", false);
    }
    let host = moved(&root.join("home"));
    let app = root.join("app").display().to_string();
    read(&host, &["--workspace", &app], "app/notes", true);
    host.write_policy("[tools.bash]\nfs = []\n");
    read(&host, &["--workspace", &app], "app/notes", false);
}

#[test]
fn without_a_variable_for_it_the_home_is_that_of_the_account() {
    let shell = Command::new("sh").args(["-c", "eval echo ~$(id -un)"]).output().expect("run");
    let account = PathBuf::from(String::from_utf8(shell.stdout).expect("UTF-8").trim_end());
    let host = Host::new();
    for (path, code) in [(".ssh/id_ed25519", 1), ("notes", 0)] {
        let mut command = host.command();
        // A policy file of the account could allow or deny these paths.
        command.env_remove("HOME").env("XDG_CONFIG_HOME", host.home().join(".config"));
        command.arg("--workspace").arg(&account).args(["policy", "test", "bash", "--read", path]);
        Ran::from_command(&mut command, b"").expect_code(code);
    }
    let mut command = host.command();
    command.env_remove("HOME").arg("--workspace").arg(&account);
    command.args(["policy", "test", "bash", "--write", ".config/ikigai/policy.toml"]);
    Ran::from_command(&mut command, b"").expect_code(1);
}

/// Returns whether a shell runs a script that contains `text`.
fn is_run_by_a_shell(text: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("listed").flatten();
    let mut lines = processes.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
    lines.any(|line| {
        let line = String::from_utf8_lossy(&line);
        line.starts_with("/bin/bash\0") && line.contains(text)
    })
}

#[test]
fn secrets_that_appear_while_a_tool_runs_are_not_reported_as_hidden() {
    let host = Host::new();
    let home = fs::canonicalize(host.home()).expect("a path");
    host.write("home/work/old/credentials", "hunter2\n", 0o600);
    host.write("home/.config/nvim/init.lua", "", 0o600);
    // No place of secrets lies in its directory.
    let go = home.join("work/go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let arguments = json!({ "command": script }).to_string();
    let workspace = home.to_str().expect("UTF-8");
    let level_of_files = |meanwhile: &dyn Fn()| {
        let flags = ["--workspace", workspace, "--backend", "native"];
        let mut running = host.start([&flags[..], &["tool", "call", "bash", &arguments]].concat());
        running.wait_until("the tool runs", || is_run_by_a_shell(&script));
        meanwhile();
        fs::write(&go, "").expect("written");
        running.wait().expect_code(0);
        fs::remove_file(&go).expect("removed");
        let log = host.run(["audit", "--tail", "1", "--json"]).expect_code(0);
        let record: serde_json::Value = serde_json::from_str(&log.stdout()).expect("a record");
        record["level"]["fs"].clone()
    };
    assert_eq!(level_of_files(&|| {})["state"], "enforced");
    let (old, new) = (home.join("work/old"), home.join(".aws"));
    let rename = |from: &PathBuf, to: &PathBuf| fs::rename(from, to).expect("renamed");
    let there_and_away = || {
        rename(&old, &new);
        rename(&new, &old);
    };
    let in_a_directory = || {
        fs::create_dir(home.join(".config/gh")).expect("made");
        fs::remove_dir(home.join(".config/gh")).expect("removed");
    };
    let ways: [&dyn Fn(); 3] = [&there_and_away, &in_a_directory, &|| rename(&old, &new)];
    for way in ways {
        let level = level_of_files(way);
        assert_eq!(level["state"], "partial", "{level}");
        assert!(level["reason"].to_string().contains("appears during a call"), "{level}");
    }
    // Now it is there before the call, and hidden. What changes in it is not seen.
    let level = level_of_files(&|| fs::write(new.join("credentials"), "changed").expect("written"));
    assert_eq!(level["state"], "enforced", "{level}");
}

#[test]
fn a_tool_that_other_tools_could_replace_does_not_run_with_all_rights() {
    let host = Host::new();
    let real = host.script("hello", "echo '{\"said\":1}'");
    let replaceable = host.workspace().join("hello");
    fs::rename(&real, &replaceable).expect("moved");
    symlink(&replaceable, &real).expect("a link");
    let ran = host.run(["tool", "call", "hello"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
    assert!(ran.stdout().contains("ikigai policy grant hello"), "{ran}");
    // A grant binds the tool to its content, so that it runs until another tool replaces it.
    host.run(["policy", "grant", "hello", "--yes"]).expect_code(0);
    let ran = host.run(["tool", "call", "hello"]).expect_code(0);
    assert_eq!(ran.json()["result"]["said"], 1, "{ran}");
    let text = fs::read_to_string(&replaceable).expect("readable").replace("said", "lied");
    let arguments = json!({"file_path": "hello", "content": text}).to_string();
    host.run(["tool", "call", "file_write", &arguments]).expect_code(0);
    let ran = host.run(["tool", "call", "hello"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
}

#[test]
fn what_other_programs_execute_is_granted_by_name() {
    let host = Host::new();
    host.write("workspace/.vscode/tasks.json", "good\n", 0o644);
    host.write("workspace/.git/HEAD", "ref: refs/heads/main\n", 0o644);
    host.write("workspace/.git/config", "good\n", 0o644);
    let call = |backend: &str, tool: &str, arguments: serde_json::Value| {
        host.run(["--backend", backend, "tool", "call", tool, &arguments.to_string()])
    };
    let read = |name: &str| fs::read_to_string(host.workspace().join(name)).unwrap_or_default();
    let allow = |ran: &Ran| ran.json()["allow_with"].as_str().expect("a command").to_owned();
    for backend in ["wasm", "native"] {
        for (path, place) in [(".vscode/tasks.json", ".vscode"), (".git/config", ".git/config")] {
            let ran = call(backend, "file_write", json!({"file_path": path, "content": "evil\n"}));
            assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{backend}\n{ran}");
            assert!(allow(&ran).ends_with(&format!("file_write --write {place}")), "{ran}");
            assert_eq!(read(path), "good\n", "{backend} {path}");
        }
        let script = "echo evil >.vscode/tasks.json; mv .git git; echo evil >git/config; mv git .git; \
                      echo made >free";
        call(backend, "bash", json!({ "command": script }));
        let now = [".vscode/tasks.json", ".git/config", "free"].map(read);
        assert_eq!(now, ["good\n", "good\n", "made\n"], "{backend}");
    }
    // For a name that does not exist yet, a component is refused. A native tool's file is set aside
    // after the call.
    let make = json!({"command": "echo evil >.envrc"});
    let ran = call("wasm", "bash", make.clone());
    assert!(allow(&ran).ends_with("bash --write .envrc") && read(".envrc").is_empty(), "{ran}");
    let ran = call("native", "bash", make.clone());
    let text = ran.json()["withheld"].as_str().expect("a text").to_owned();
    assert!(text.contains(".envrc.withheld") && ran.stderr().contains(&text), "{ran}");
    assert_eq!(
        (read(".envrc"), read(".envrc.withheld")),
        (String::new(), "evil\n".into()),
        "{ran}"
    );
    // The command in the answer lets the tool create the file.
    let command = allow(&ran);
    let words = command.split(' ').skip(1).chain(["--yes"]);
    host.run(words).expect_code(0);
    for backend in ["wasm", "native"] {
        let ran = call(backend, "bash", make.clone());
        assert!(ran.json().get("withheld").is_none() && read(".envrc") == "evil\n", "{ran}");
        fs::remove_file(host.workspace().join(".envrc")).expect("removed");
    }
    let test = ["policy", "test", "bash", "--write", ".vscode/x"];
    assert!(host.run(test).expect_code(1).stdout().contains("other programs execute"));
}

#[test]
fn a_test_of_a_place_answers_what_the_build_would_do() {
    let host = Host::new();
    host.write("workspace/sub/.git/hooks/pre-commit", "good\n", 0o644);
    host.write("workspace/sub/.git/config", "good\n", 0o644);
    host.write("workspace/sub/.vscode/tasks.json", "good\n", 0o644);
    host.write("workspace/pkg/a", "", 0o644);
    host.write("workspace/.git/HEAD", "ref: refs/heads/main\n", 0o644);
    host.write("workspace/.git/config", "good\n", 0o644);
    host.write("workspace/.vscode/tasks.json", "good\n", 0o644);
    host.write("workspace/deep/commands/a", "good\n", 0o644);
    host.write("workspace/.claude/a", "good\n", 0o644);
    symlink("../deep/commands", host.workspace().join(".claude/commands")).expect("linked");
    for (path, is_direct) in [
        (".git/config", true),
        (".git/hooks/pre-commit", true),
        (".vscode/tasks.json", true),
        (".envrc", true),
        ("deep/commands/a", true),
        ("sub/.git/hooks/pre-commit", false),
        ("sub/.git/config", false),
        ("sub/.vscode/tasks.json", false),
        ("sub/.envrc", false),
        ("pkg/.mcp.json", false),
        ("pkg/HEAD", false),
        ("pkg/a", false),
        (".git/index", false),
    ] {
        let code = i32::from(is_direct);
        let native = |args: &[&str]| host.run([&["--backend", "native"], args].concat());
        let told = native(&["policy", "test", "bash", "--write", path]).expect_code(code);
        let script = format!("mkdir -p $(dirname {path}); echo evil >{path}");
        let arguments = json!({ "command": script }).to_string();
        let ran = native(&["tool", "call", "bash", &arguments]);
        let now = fs::read_to_string(host.workspace().join(path)).unwrap_or_default();
        assert_eq!(now != "evil\n", is_direct, "{path}: {now}\n{told}\n{ran}");
    }
    let wasm = ["--backend", "wasm", "policy", "test", "bash", "--write", "sub/.envrc"];
    host.run(wasm).expect_code(1);
}

#[test]
fn a_link_that_a_tool_made_does_not_choose_what_an_entry_grants() {
    let host = Host::new();
    for (file, text) in
        [("outside/key", "secret\n"), ("workspace/data/a", "open\n"), ("other/b", "")]
    {
        host.write(file, text, 0o644);
    }
    let data = host.workspace().join("data");
    let policy = format!("[tools.file_read]\nfs = [\"ro:{}\"]\n", data.display());
    host.write_policy(&policy);
    let other = host.scratch().join("other").display().to_string();
    let read = |path: PathBuf| {
        let arguments = json!({ "file_path": path }).to_string();
        host.run(["--workspace", &other, "tool", "call", "file_read", &arguments])
    };
    assert!(read(data.join("a")).stdout().contains("open"));
    let swap = json!({ "command": "rm -r data; ln -s ../outside data" }).to_string();
    host.run(["tool", "call", "bash", &swap]).expect_code(0);
    assert!(data.is_symlink());
    let ran = read(host.scratch().join("outside/key"));
    assert!(!ran.stdout().contains("secret") && ran.stdout().contains("made the link"), "{ran}");
}

#[test]
fn no_link_and_no_move_of_a_component_makes_a_place() {
    let host = Host::new();
    host.write("workspace/.git/HEAD", "ref: refs/heads/main\n", 0o644);
    symlink("conf/envrc", host.workspace().join(".envrc")).expect("linked");
    for way in [
        "mkdir evil; echo evil >evil/envrc; mv evil conf",
        "mkdir evil; echo evil >evil/envrc; ln -s evil conf",
        "mkdir conf evil; echo evil >evil/envrc; mv -T evil conf",
        "mkdir -p .git/refs/x; ln -s .git/refs/x src",
        "mkdir -p .git/refs/x; cd .git; ln -s ../.GIT/refs/x ../src",
        "mkdir .git/rebase-merge; echo evil >.git/rebase-merge/git-rebase-todo",
    ] {
        let arguments = json!({ "command": way }).to_string();
        host.run(["--backend", "wasm", "tool", "call", "bash", &arguments]).expect_code(0);
        for made in [".envrc", "src", ".git/rebase-merge"] {
            let made = host.workspace().join(made);
            assert!(!made.exists(), "`{way}` made {}", made.display());
        }
        for dir in ["evil", "conf"] {
            let _ = fs::remove_dir_all(host.workspace().join(dir));
        }
    }
}

#[test]
fn a_component_replaces_no_directory_on_the_way_of_a_link() {
    for way in ["rmdir a", "mv a b", "mkdir b; mv a b"] {
        let host = Host::new();
        host.write("workspace/other/conf/envrc", "evil", 0o644);
        for dir in ["a", "other/dir"] {
            fs::create_dir(host.workspace().join(dir)).expect("made");
        }
        symlink("a/../conf/envrc", host.workspace().join(".envrc")).expect("linked");
        let arguments = json!({ "command": format!("{way}; ln -s other/dir a") }).to_string();
        let ran = host.run(["--backend", "wasm", "tool", "call", "bash", &arguments]);
        let place = host.workspace().join(".envrc");
        assert!(!place.exists() && place.is_symlink(), "`{way}`: {ran}");
    }
}

#[test]
fn what_links_in_a_place_lead_to_is_guarded_too() {
    let host = Host::new();
    host.write("workspace/.git/HEAD", "ref: refs/heads/main\n", 0o644);
    let files = ["hooks/pre-commit", "skills/search", "mods/sub/config"];
    for file in &files[..2] {
        host.write(format!("workspace/{file}"), "good\n", 0o644);
    }
    fs::create_dir(host.workspace().join(".claude")).expect("made");
    symlink("../hooks", host.workspace().join(".git/hooks")).expect("linked");
    symlink("../skills", host.workspace().join(".claude/skills")).expect("linked");
    host.write("workspace/mods/sub/config", "good\n", 0o644);
    symlink("../mods", host.workspace().join(".git/modules")).expect("linked");
    // In a component, a directory around such a file cannot be renamed, and neither can a directory
    // from a repository.
    let moves = "mv hooks h; echo evil >>h/pre-commit; mv h hooks; mkdir -p .git/x; \
                 echo evil >.git/x/HEAD; mv .git/x made";
    let arguments = json!({ "command": moves }).to_string();
    host.run(["--backend", "wasm", "tool", "call", "bash", &arguments]);
    assert!(!host.workspace().join("made").exists());
    for backend in ["wasm", "native"] {
        for path in files.into_iter().chain([".git/hooks/pre-commit", ".claude/skills/search"]) {
            let arguments = json!({"file_path": path, "content": "evil\n"}).to_string();
            let ran = host.run(["--backend", backend, "tool", "call", "file_write", &arguments]);
            assert!(ran.json()["result"]["error_code"].is_string(), "{backend} {path}\n{ran}");
        }
        for file in files {
            let text = fs::read_to_string(host.workspace().join(file)).expect("there");
            assert_eq!(text, "good\n", "{backend} {file}");
        }
    }
}

/// Returns whether the host has renamed the `.envrc` that a tool made.
fn is_set_aside(host: &Host) -> bool {
    let there = |name: &str| host.workspace().join(name).exists();
    !there(".envrc") && there(".envrc.withheld")
}

#[test]
fn a_signal_that_ends_the_host_lets_it_set_aside_what_a_tool_made() {
    for signal in [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM, Signal::XCPU] {
        let host = Host::new();
        let script = "echo evil >.envrc; touch began; sleep 1000";
        let arguments = json!({ "command": script }).to_string();
        let mut running = host.start(["--backend", "native", "tool", "call", "bash", &arguments]);
        running.wait_for(&host.workspace().join("began"));
        running.signal(signal);
        let ran = running.wait().expect_code(130);
        assert!(is_set_aside(&host), "{signal:?}: {ran}");
    }
}

#[test]
fn a_tool_that_makes_enter_the_key_that_quits_gains_nothing() {
    let host = Host::new();
    let began = host.workspace().join("began");
    let place = host.workspace().join(".envrc");
    let body = format!(
        "echo evil >'{}'; stty quit '^J' -echo && touch '{}'; sleep 1000",
        place.display(),
        began.display()
    );
    host.script("asks", &body);
    let mut command = host.command();
    let mut terminal = Terminal::start(command.args(["tool", "run", "asks"]), 80, 24);
    terminal.wait_until("the tool has changed the keys", |_| began.exists());
    assert!(!terminal.shows_typing());
    terminal.send("\n");
    assert_eq!(terminal.wait().code(), Some(130), "{}", terminal.everything());
    assert!(is_set_aside(&host), "{}", terminal.everything());
    assert!(terminal.shows_typing(), "the settings are as before the call");
}

#[test]
fn a_bound_opens_no_target_of_a_link_in_a_place() {
    for bound in ["rw:conf", "rw:conf/tasks.json"] {
        let host = Host::new();
        let tasks = host.write("workspace/conf/tasks.json", "{}", 0o644);
        host.write("workspace/src/file", "old", 0o644);
        symlink("conf", host.workspace().join(".vscode")).expect("linked");
        let list = format!("[tools.\"*\"]\nfs = [\"rw:src\", \"{bound}\"]\n");
        host.write("workspace/.ikigai/policy.toml", list, 0o644);
        let command = json!({ "command": "echo x >conf/tasks.json; echo new >src/file" });
        host.run(["tool", "call", "bash", &command.to_string()]).expect_code(0);
        write(&host, &[], tasks.to_str().expect("UTF-8"));
        assert_eq!(fs::read_to_string(&tasks).expect("read"), "{}", "{bound}");
        let file = host.workspace().join("src/file");
        assert_eq!(fs::read_to_string(file).expect("read"), "new\n", "{bound}");
    }
}

#[test]
fn a_closed_directory_on_the_way_of_a_link_is_not_opened_for_a_tool() {
    let host = Host::new().with_tools_for_all();
    for (file, text) in
        [(".git/HEAD", "ref: refs/heads/a\n"), (".git/config", ""), (".git/objects/.keep", "")]
    {
        host.write(format!("workspace/{file}"), text, 0o644);
    }
    let direct = host.write("workspace/scripts/direct", "good", 0o755);
    let behind = host.write("workspace/lib/behind", "good", 0o755);
    let scripts = host.workspace().join("scripts");
    let hooks = host.workspace().join(".git/hooks");
    fs::create_dir(&hooks).expect("made");
    symlink("../../scripts/direct", hooks.join("pre-commit")).expect("linked");
    symlink("../../scripts/behind", hooks.join("commit-msg")).expect("linked");
    symlink("../lib/behind", scripts.join("behind")).expect("linked");
    let host = host.as_nobody();
    permit(&scripts, 0o000);
    let component = write(&host, &["--backend", "wasm"], "lib/behind");
    let command = "chmod 755 scripts; rm scripts/direct; echo evil >scripts/direct";
    let shell = host.run(["--backend", "native", "tool", "call", "bash", "--command", command]);
    permit(&scripts, 0o755);
    assert_eq!(component.json()["result"]["error_code"], "PERMISSION_DENIED", "{component}");
    assert_eq!(fs::read_to_string(behind).expect("read"), "good", "{component}");
    assert_eq!(fs::read_to_string(direct).expect("read"), "good", "{shell}");
    // The links were as closed before the call.
    assert!(hooks.join("pre-commit").is_symlink(), "{shell}");
}
