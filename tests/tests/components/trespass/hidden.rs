//! Names that a grant hides in its directories. Each way to them is also tried with nothing hidden,
//! to prove that it leads there.

use std::fs;
use std::os::unix::fs::symlink;

use ikigai_tests::host::Host;
use ikigai_tests::mode::permit;

use crate::trespass::rig::{RO, RW, Tree};

const ACCESS: &str = "access";

/// Returns a workspace with secrets and the ways to them.
fn tree() -> Tree {
    let tree = Tree::from_files(&[
        "work/kept",
        "work/.env",
        "work/sub/key.pem",
        "work/sub/kept",
        "work/secrets/one",
        "work/conf/private/token",
        "work/conf/kept",
    ]);
    symlink(".env", tree.path("work/to-env")).expect("linked");
    symlink("secrets", tree.path("work/to-secrets")).expect("linked");
    symlink("sub", tree.path("work/to-sub")).expect("linked");
    symlink("to-env", tree.path("work/twice")).expect("linked");
    symlink("none.pem", tree.path("work/to-none")).expect("linked");
    fs::hard_link(tree.path("work/.env"), tree.path("work/plain")).expect("linked");
    fs::hard_link(tree.path("work/secrets/one"), tree.path("work/plain-one")).expect("linked");
    fs::hard_link(tree.path("work/kept"), tree.path("work/kept-too")).expect("linked");
    tree
}

const HIDE: &[&str] = &[".env", "**/*.pem", "secrets", "/conf/private"];

#[test]
fn a_hidden_file_is_read_in_no_way() {
    let tree = tree();
    let steps = [
        "open . .env",
        "open . ./.env",
        "open . sub/../.env",
        "open . to-env",
        "open . twice",
        "open . plain",
        "open . plain-one",
        "open . sub/key.pem",
        "open . to-sub/key.pem",
        "open . secrets/one",
        "open . to-secrets/one",
        "open . conf/private/token",
        "open-link . .env",
        "open-in . sub key.pem",
        "open-in . secrets one",
        "open-in . to-secrets one",
        "open-in . conf private/token",
        "std read .env",
        "std read to-env",
    ];
    let seen = tree.walk(&tree.grant(&[(RO, "work")], HIDE), &steps);
    for (step, seen) in steps.iter().zip(&seen) {
        let is_refused = seen == ACCESS || seen == "PermissionDenied";
        assert!(is_refused, "{step}: {seen}");
    }
    // With nothing hidden, all of them lead there.
    let seen = tree.walk(&tree.grant(&[(RO, "work")], &[]), &steps);
    for (step, seen) in steps.iter().zip(&seen) {
        assert!(seen.starts_with("work/"), "{step}: {seen}");
    }
    // A file that is not hidden can be read, even by another of its names.
    let others = ["open . kept", "open . kept-too", "open . sub/kept", "open . conf/kept"];
    let seen = tree.walk(&tree.grant(&[(RO, "work")], HIDE), &others);
    assert_eq!(seen, ["work/kept", "work/kept", "work/sub/kept", "work/conf/kept"]);
}

#[test]
fn nothing_is_learnt_of_a_hidden_file_and_nothing_changed() {
    let steps = [
        "stat . .env",
        "stat . to-env",
        "stat . plain",
        "stat . .env/",
        "stat . .env/x",
        "stat . secrets/none",
        "stat . none.pem",
        "open . none.pem",
        "open . to-none",
        "stat . to-none",
        "replace . none.pem x",
        "replace . to-none x",
        "open . .env/x",
        "open . secrets/../kept",
        "stat-link . .env",
        "stat . secrets",
        "stat . secrets/",
        "hash . .env",
        "hash . plain",
        "touch . .env",
        "touch . plain",
        "write . .env x",
        "write . plain x",
        "create . .env",
        "create . to-env",
        "create . plain",
        "replace . .env x",
        "replace . to-env x",
        "replace . plain x",
        "link . .env stolen",
        "link . plain stolen",
        "rename . .env stolen",
        "rename . secrets stolen",
        "rename . kept .env",
        "link . kept sub/new.pem",
        "unlink . .env",
        "unlink . secrets/one",
        "rmdir . secrets",
        "create-new . sub/new.pem",
        "create-new . .ENV",
        "create-new . secrets/new",
        "mkdir . Secrets",
        "mkdir . x.pem/",
        "symlink . kept sub/link.pem",
    ];
    let tree = tree();
    let seen = tree.walk(&tree.grant(&[(RW, "work")], HIDE), &steps);
    for (step, seen) in steps.iter().zip(&seen) {
        assert_eq!(seen, ACCESS, "{step}");
    }
    let contents = ["work/.env", "work/secrets/one"].map(|name| tree.read(name));
    assert_eq!(contents, ["work/.env", "work/secrets/one"]);
    assert!(!tree.path("work/stolen").exists() && !tree.path("work/.ENV").exists());
    // With nothing hidden, each step succeeds on its own, except steps that are impossible anyway.
    let cannot = ["none", ".env/", "secrets/..", "rmdir", "x.pem/"];
    for step in steps.iter().filter(|step| !cannot.iter().any(|it| step.contains(it))) {
        let tree = self::tree();
        let seen = tree.walk(&tree.grant(&[(RW, "work")], &[]), &[step]);
        assert_eq!(seen, ["done"], "{step}");
    }
}

#[test]
fn a_listing_leaves_hidden_names_out() {
    let tree = tree();
    let grant = tree.grant(&[(RO, "work")], HIDE);
    let steps = ["list . .", "list . sub", "list . conf", "list . secrets", "list . to-secrets"];
    let all = "conf kept kept-too plain plain-one sub to-env to-none to-secrets to-sub twice";
    assert_eq!(tree.walk(&grant, &steps), [all, "kept", "kept", ACCESS, ACCESS]);
}

#[test]
fn no_directory_above_a_hidden_name_gets_another_under_which_it_would_be_seen() {
    let tree = tree();
    let grant = tree.grant(&[(RW, "work")], HIDE);
    let steps = [
        "rename . conf moved",
        "open . moved/private/token",
        "open-in-moved . conf elsewhere private/token",
        // A pattern that consists of a single name applies at every depth.
        "rename . sub below",
        "open . below/key.pem",
        "open . below/kept",
    ];
    let seen = tree.walk(&grant, &steps);
    let expected = [ACCESS, "no-entry", "access, access", "done", ACCESS, "work/sub/kept"];
    assert_eq!(seen, expected);
    let tree = self::tree();
    let seen = tree.walk(&tree.grant(&[(RW, "work")], &[]), &steps);
    assert_eq!(seen[..2], ["done", "work/conf/private/token"]);
}

/// The rule applies even if nothing beneath the directory is hidden now: another guest could create
/// a hidden file there between the check and the renaming.
#[test]
fn a_directory_that_might_hold_something_hidden_keeps_its_path() {
    let tree =
        Tree::from_files(&["work/services/empty/kept", "work/services/file", "work/src/kept"]);
    let hide = &["services/*/credentials"];
    let steps = [
        "rename . services/empty moved",
        "rename . services/none moved",
        "rename . services moved",
        "rename . services/file moved",
        "rename . services/empty services/other",
        "rename . src services/src",
        "rename . services/other/kept kept",
        "std rename services/file moved",
    ];
    let seen = tree.walk(&tree.grant(&[(RW, "work")], hide), &steps);
    let expected = [
        ACCESS,
        ACCESS,
        ACCESS,
        // For this error, programs copy the file and remove the original.
        "cross-device",
        "done",
        "done",
        "done",
        "CrossesDevices",
    ];
    assert_eq!(seen, expected);
    assert_eq!(tree.read("work/services/file"), "work/services/file");
}

#[test]
fn a_path_through_a_hidden_directory_does_not_tell_whether_it_is_there() {
    let (there, not_there) = (tree(), tree());
    fs::remove_dir_all(not_there.path("work/secrets")).expect("removed");
    fs::remove_file(not_there.path("work/plain-one")).expect("removed");
    let mut answers = Vec::new();
    for tree in [there, not_there] {
        for (target, link) in [
            ("secrets/../kept", "work/to-kept"),
            ("secrets/..", "work/to-work"),
            ("sub/../to-secrets/../kept", "work/far"),
        ] {
            symlink(target, tree.path(link)).expect("linked");
        }
        let steps = [
            "open . to-kept",
            "stat . to-kept",
            "list . to-work",
            "open . to-work/kept",
            "open . far",
            "create . to-work/new",
            "mkdir . to-work/new",
            "rename . to-work/kept moved",
            "replace . to-kept x",
            "readlink . secrets/one",
        ];
        let seen = tree.walk(&tree.grant(&[(RW, "work")], HIDE), &steps);
        for (step, seen) in steps.iter().zip(&seen) {
            assert_eq!(seen, ACCESS, "{step}");
        }
        // The links themselves are visible, and other ways lead to the file.
        let seen = tree.walk(
            &tree.grant(&[(RW, "work")], HIDE),
            &["readlink . to-kept", "open . to-sub/../kept", "open . sub/./../to-sub/kept"],
        );
        assert_eq!(seen, ["secrets/../kept", "work/kept", "work/sub/kept"]);
        answers.push(seen);
    }
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_path_is_followed_as_it_is_where_nothing_is_hidden() {
    let tree = Tree::from_files(&["work/a/b/file", "work/c"]);
    symlink("a/b", tree.path("work/to-b")).expect("linked");
    symlink("b/", tree.path("work/a/slash")).expect("linked");
    symlink("../../c", tree.path("work/a/b/up")).expect("linked");
    symlink("../../../work/c", tree.path("work/a/b/out")).expect("linked");
    symlink("/etc/hostname", tree.path("work/absolute")).expect("linked");
    symlink("loop", tree.path("work/loop")).expect("linked");
    symlink("c", tree.path("work/to-c")).expect("linked");
    let deep = format!("stat . {}", "a/".repeat(1_900));
    let long = format!("stat . {}", "a/".repeat(2_100));
    let steps = [
        "open . to-b/file",
        "open . to-b/../b/file",
        "open . to-b/up",
        "open . to-b/out",
        "open . a/slash/file",
        "open . a/slash/../../c",
        "open . to-b/../../c",
        "open . to-b/../../../c",
        "open . ..",
        "open . absolute",
        "open . absolute/x",
        "open . loop",
        "open . loop/x",
        "open . to-c/",
        "open . to-c/.",
        "open . c/x",
        "list . to-b/",
        "list . to-b/.",
        "list . a/b/..",
        "list . ./",
        "stat . a//b///file",
        "open . none/../c",
        "mkdir . a/new/",
        "create . to-b/made",
        "unlink . to-b/made",
        "rmdir . a/new",
        &deep,
        &long,
    ];
    let grant = |hide: &[&str]| tree.grant(&[(RW, "work")], hide);
    let (seen, plain) = (tree.walk(&grant(&["x/hidden"]), &steps), tree.walk(&grant(&[]), &steps));
    for (step, (seen, plain)) in steps.iter().zip(seen.iter().zip(&plain)) {
        assert_eq!(seen, plain, "{step}");
    }
    assert_eq!(seen[0], "work/a/b/file");
    assert_eq!(seen[steps.len() - 2..], ["no-entry", "name-too-long"]);
}

#[test]
fn what_a_wider_grant_hides_a_narrower_one_does_not_show() {
    let tree = tree();
    let grant = tree.grant(&[(RO, "work"), (RW, "work/conf"), (RW, "work/.env")], HIDE);
    let steps = [
        "open . conf/private/token",
        "open conf private/token",
        "open conf kept",
        "open . .env",
        "list conf .",
    ];
    let expected = [ACCESS, ACCESS, "work/conf/kept", ACCESS, "kept"];
    assert_eq!(tree.walk(&grant, &steps), expected);
}

/// Steps that change files which other programs execute, or prepare them elsewhere.
const EXECUTED: &[&str] = &[
    "write . .git/config x",
    "create-new . .git/hooks/new",
    "create-new . .git/commondir",
    "replace . .git/config x",
    "unlink . .git/hooks/pre-commit",
    "touch . .git/config",
    "rename . .git git",
    "rename . .git/hooks h",
    "rename . kept .git/config",
    "rename . other .vscode",
    "write . to-git/config x",
    "write . to-config x",
    "replace . to-config x",
    "link . .git/config second",
    "link . kept .envrc",
    "symlink . kept .envrc",
    "create-new . .mcp.json",
    "create-new . sub/.MCP.json",
    "mkdir . .claude",
    "mkdir . sub/.git",
    "std append .git/config x",
    "std write .envrc x",
];

fn repository() -> Tree {
    let files =
        ["kept", "other/x", "sub/kept", ".git/config", ".git/hooks/pre-commit", ".git/index"];
    let tree =
        Tree::from_files(&files.map(|file| format!("work/{file}")).each_ref().map(String::as_str));
    symlink(".git", tree.path("work/to-git")).expect("linked");
    symlink("sub/../.git/config", tree.path("work/to-config")).expect("linked");
    tree
}

#[test]
fn what_other_programs_execute_is_not_changed_unless_it_is_named() {
    let tree = repository();
    let seen = tree.walk(&tree.guarding(&[]), EXECUTED);
    for (step, seen) in EXECUTED.iter().zip(&seen) {
        assert!(seen == ACCESS || seen == "PermissionDenied", "{step}: {seen}");
    }
    // With nothing guarded, each step succeeds on its own. It also succeeds if the grant names the
    // place.
    let named = ["work/.git", "work/.envrc", "work/.vscode", "work/.mcp.json", "work/.claude"];
    let named = [&named[..], &["work/sub/.MCP.json", "work/sub/.git"]].concat();
    for step in EXECUTED {
        let (free, named) = ((repository(), None), (repository(), Some(&named)));
        for (tree, named) in [free, named] {
            let grant = match named {
                Some(named) => tree.guarding(named),
                None => tree.grant(&[(RW, "work")], &[]),
            };
            assert_eq!(tree.walk(&grant, &[step]), ["done"], "{step} {named:?}");
        }
    }
    // The rest of the repository can be changed, and all of it can be read.
    let steps =
        ["open . .git/config", "write . .git/index x", "rename . sub moved", "create-new . x"];
    let tree = repository();
    let seen = tree.walk(&tree.guarding(&[]), &steps);
    assert_eq!(seen, ["work/.git/config", "done", "done", "done"]);
}

#[test]
fn an_absolute_path_is_refused_alike_whether_it_exists_or_not() {
    let tree = repository();
    let steps = ["mkdir", "unlink", "create-new", "rename . kept", "link . kept"];
    for step in steps {
        let step = if step.contains('.') { step.to_owned() } else { format!("{step} .") };
        let both = ["/etc/passwd", "/etc/none"].map(|path| format!("{step} {path}"));
        let seen = tree.walk(&tree.guarding(&[]), &both.each_ref().map(String::as_str));
        assert_eq!(seen[0], seen[1], "{step}");
        assert_ne!(seen[0], "done", "{step}");
    }
}

#[test]
fn the_tools_see_nothing_of_hidden_names() {
    let tree = tree();
    let grant = tree.grant(&[(RW, "work")], HIDE);
    let everywhere = r#"{"pattern":"work/","path":".","glob":"**/*"}"#;
    let found = tree.tool(&grant, "grep", everywhere).to_string();
    assert!(found.contains("sub/kept"), "{found}");
    for hidden in [".env", "key.pem", "plain", "token", "secrets"] {
        assert!(!found.contains(hidden), "{hidden}: {found}");
    }
    let found = tree.tool(&grant, "glob", r#"{"pattern":"**/*"}"#).to_string();
    assert!(found.contains("sub/kept"), "{found}");
    for hidden in [".env", "key.pem", "token", "secrets/"] {
        assert!(!found.contains(hidden), "{hidden}: {found}");
    }
    for (tool, input) in [
        ("file-read", r#"{"file_path":".env"}"#),
        ("file-read", r#"{"file_path":"plain"}"#),
        ("file-write", r#"{"file_path":"sub/new.pem","content":"x"}"#),
        ("file-edit", r#"{"file_path":".env","old_string":"work","new_string":"x"}"#),
    ] {
        let refused = tree.tool(&grant, tool, input);
        assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{tool}: {refused}");
    }
}

#[test]
fn a_directory_without_rights_does_not_show_its_hidden_files_under_other_names() {
    let host = Host::new();
    host.write_policy("[tools.bash]\nhide = [\".env\"]\n[tools.file_read]\nhide = [\".env\"]\n");
    host.write("workspace/sub/.env", "secret", 0o644);
    let (sub, plain) = (host.workspace().join("sub"), host.workspace().join("plain"));
    fs::hard_link(sub.join(".env"), plain).expect("linked");
    let host = host.as_nobody();
    // With the second, the names are seen, and nothing can be opened.
    for rights in [0o000, 0o444] {
        permit(&sub, rights);
        let shell = host.run(["tool", "call", "bash", "--command", "cat plain; cat sub/.env"]);
        let file = host.run(["tool", "call", "file_read", "--file_path", "plain"]);
        // Allows the directory to be removed.
        permit(&sub, 0o755);
        for ran in [shell, file] {
            assert!(ran.stdout().contains("tool_success"), "{rights:o}: {ran}");
            assert!(!ran.stdout().contains("secret"), "{rights:o}: {ran}");
        }
    }
}

#[test]
fn the_shell_sees_nothing_of_hidden_names() {
    let host = Host::new();
    let policy = "[tools.bash]\nhide = [\".env\", \"*.pem\"]\n";
    host.write_policy(policy);
    host.write("workspace/.env", "secret", 0o644);
    host.write("workspace/kept", "seen", 0o644);
    host.write("workspace/sub/key.pem", "secret", 0o644);
    symlink(".env", host.workspace().join("link")).expect("linked");
    fs::hard_link(host.workspace().join(".env"), host.workspace().join("plain")).expect("linked");
    let command = "ls -A . sub; cat kept; for it in .env ./.ENV link plain sub/key.pem; do \
                   cat $it 2>/dev/null; done; cp .env copy 2>/dev/null; mv .env moved 2>/dev/null; \
                   cat copy moved 2>/dev/null; ln -s .env other; cat other 2>/dev/null";
    let arguments = serde_json::json!({ "command": command }).to_string();
    let ran = host.run(["--backend", "wasm", "tool", "call", "bash", &arguments]);
    let output = ran.json()["result"]["output"].to_string();
    assert!(output.contains("seen") && output.contains("kept"), "{ran}");
    for hidden in ["secret", "key.pem", ".env"] {
        assert!(!output.contains(hidden), "{hidden}: {ran}");
    }
    assert!(host.workspace().join(".env").exists(), "{ran}");
}

#[test]
fn a_hidden_name_that_is_not_text_is_in_no_listing() {
    use std::os::unix::ffi::OsStrExt as _;

    let host = Host::new();
    host.write_policy("[tools.glob]\nhide = [\"*.pem\"]\n");
    host.write("workspace/kept", "", 0o644);
    let name = std::ffi::OsStr::from_bytes(b"k\xe9.pem");
    fs::write(host.workspace().join(name), "").expect("written");
    let list = || host.run(["--backend", "wasm", "tool", "call", "glob", "--pattern", "*"]);
    let hidden = list();
    assert!(hidden.stdout().contains("kept"), "{hidden}");
    assert!(!hidden.stdout().contains("UTF-8"), "{hidden}");
    host.write_policy("");
    let shown = list();
    assert!(shown.stdout().contains("UTF-8"), "{shown}");
}
