//! Attempts of a sandboxed tool to read files that are hidden from it in a granted directory. Each
//! is first made with nothing hidden and must succeed there, to prove that the test can fail.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::policy::{ClosedPlaces, Grant, Hide, Reserved, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_supervisor::isolation::Guarantee;
use ikigai_tests::mode::permit;

use super::rig::{NOBODY, Rig, each_user, text};

const SECRET: &str = "hunter2";

/// Ways to the secret from the workspace, as shell scripts.
const WAYS: [&str; 24] = [
    "cat .env",
    "cat sub/.ENV",
    "cat secret/deep/key",
    "cat plain",
    "cat out/key",
    "cat link",
    "cat dirlink/.ENV",
    "cat sub/../.env",
    "cat /proc/self/root$PWD/.env",
    "cat /proc/$$/root$PWD/.env",
    "cat /proc/self/cwd/.env",
    "cat /proc/$$/cwd/.env",
    "exec 3<.; cat /proc/self/fd/3/.env",
    "exec 3<sub; cat /proc/self/fd/3/.ENV",
    "mv sub moved; cat moved/.ENV",
    "mv .env moved; cat moved .env",
    "ln .env hard; cat hard .env",
    "ln -s .env soft; cat soft",
    "cp -r . /tmp/copy; cat /tmp/copy/.env",
    "grep -rh 'hunte[r]' .",
    "tar -cf - . | tar -xOf -",
    "unshare -rm umount $PWD/.env; cat .env",
    "umount $PWD/.env; cat .env",
    "mkdir around; unshare -rm mount --bind . around; cat around/.env .env",
];

/// Fills the workspace of a rig with secrets.
fn fill(rig: &Rig) {
    for dir in ["sub", "secret", "secret/deep", "out"] {
        fs::create_dir(rig.path(dir)).expect("made");
    }
    for file in [".env", "sub/.ENV", "secret/deep/key", "notes"] {
        let text = if file == "notes" { "notes\n" } else { "hunter2\n" };
        fs::write(rig.path(file), text).expect("written");
    }
    fs::hard_link(rig.path(".env"), rig.path("plain")).expect("linked");
    fs::hard_link(rig.path("secret/deep/key"), rig.path("out/key")).expect("linked");
    symlink(".env", rig.path("link")).expect("linked");
    symlink("sub", rig.path("dirlink")).expect("linked");
    let all = ["sub", "secret", "secret/deep", "out", ".env", "sub/.ENV", "secret/deep/key"];
    for name in all {
        let mode = if rig.path(name).is_dir() { 0o777 } else { 0o666 };
        permit(rig.path(name), mode);
        if !rig.is_root() {
            // If this is not root, the file already belongs to the user.
            let _ = std::os::unix::fs::chown(rig.path(name), Some(NOBODY), Some(NOBODY));
        }
    }
}

fn hide() -> Hide {
    Hide::parse([".env", "secret/"]).expect("patterns")
}

/// Runs a script in a rig's workspace.
fn run(rig: &Rig, script: &str, hide: Hide, change: impl FnOnce(&mut Grant)) -> Outcome {
    rig.run(&rig.script(script), |call| {
        let mut grant = Grant { hide, sandbox: rig.sandbox, ..(*call.grant).clone() };
        change(&mut grant);
        call.grant = Arc::new(grant);
    })
}

fn tells(outcome: &Outcome) -> bool {
    text(&outcome.stdout).contains(SECRET)
}

#[test]
fn no_way_leads_to_a_hidden_file() {
    each_user(Sandbox::Require, |rig| {
        for way in WAYS {
            let shown = rig.lacking(OmittedLayers::default());
            fill(&shown);
            let outcome = run(&shown, way, Hide::default(), |_| {});
            assert!(tells(&outcome), "`{way}` fails with nothing hidden too: {outcome:?}");
            let hidden = rig.lacking(OmittedLayers::default());
            fill(&hidden);
            let outcome = run(&hidden, way, hide(), |_| {});
            assert!(matches!(outcome.exit, Exit::Code(_)), "`{way}`: {outcome:?}");
            assert!(!tells(&outcome), "`{way}`, root: {}: {outcome:?}", rig.is_root());
        }
    });
}

#[test]
fn a_hidden_file_is_neither_written_nor_removed() {
    each_user(Sandbox::Require, |rig| {
        for way in ["echo x >.env", "rm -f .env", "rm -rf secret", "mv notes .env", "mv secret x"] {
            let rig = rig.lacking(OmittedLayers::default());
            fill(&rig);
            run(&rig, way, hide(), |_| {});
            for file in [".env", "secret/deep/key"] {
                let kept = fs::read_to_string(rig.path(file)).expect("there");
                assert_eq!(kept, "hunter2\n", "`{way}` {file}");
            }
        }
    });
}

#[test]
fn what_is_not_hidden_is_there_and_work_goes_on() {
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        let script = "cat notes .env; ls -A secret | wc -l; echo new >sub/new; mv sub/new out/new; \
                      cat out/new; find . -name '*.ENV' -o -name .env | sort; [ -d secret ] && echo dir";
        let outcome = run(rig, script, hide(), |_| {});
        let expected = "notes\n0\nnew\n./.env\n./sub/.ENV\ndir\n";
        assert_eq!(text(&outcome.stdout), expected, "{outcome:?}");
        // The covers leave nothing behind in the tool's own root.
        let outcome = run(rig, "ls -A / | grep -c '^\\.'", hide(), |_| {});
        assert_eq!(text(&outcome.stdout), "0\n", "{outcome:?}");
    });
}

#[test]
fn a_repository_with_hidden_files_is_one() {
    if !Path::new("/usr/bin/git").exists() {
        return ikigai_tests::impossible_here("no git");
    }
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        fs::write(rig.path(".gitignore"), ".env\n.ENV\ntool\n").expect("written");
        let script = "export HOME=/tmp; git init -q . && git add notes && \
                      git -c user.name=a -c user.email=a@b commit -qm one && git status --short notes \
                      && git log --format=%s";
        let outcome = run(rig, script, hide(), |_| {});
        assert_eq!(text(&outcome.stdout), "one\n", "{outcome:?}");
    });
}

#[test]
fn what_is_hidden_in_one_grant_is_hidden_in_those_within_it() {
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        let granting = |grant: &mut Grant| {
            let dir = |access, path: &Path| GrantedDir { access, path: path.to_owned() };
            grant.dirs = vec![
                dir(Access::ReadOnly, rig.workspace()),
                dir(Access::ReadWrite, &rig.path("sub")),
                dir(Access::ReadWrite, &rig.path("secret/deep")),
                dir(Access::ReadOnly, &rig.path(".env")),
            ];
        };
        let script = "cat .env sub/.ENV secret/deep/key; touch sub/new && echo made";
        let outcome = run(rig, script, Hide::default(), granting);
        assert!(tells(&outcome), "{outcome:?}");
        let outcome = run(rig, script, hide(), granting);
        assert_eq!(text(&outcome.stdout), "made\n", "{outcome:?}");
    });
}

#[test]
fn a_file_that_changes_its_name_before_the_call_is_not_shown() {
    each_user(Sandbox::Require, |rig| {
        for change in ["mv .env .moved", "mv .env .moved; echo x >.env", "mv sub elsewhere"] {
            let early = rig.lacking(OmittedLayers::default());
            fill(&early);
            let text = format!("cd {} && {change}", early.workspace().display());
            let early = early.preceded_by(&text);
            let outcome = run(&early, "cat .moved elsewhere/.ENV", hide(), |_| {});
            let Exit::NotStarted(reason) = &outcome.exit else { panic!("{change}: {outcome:?}") };
            assert!(reason.contains("changed while the call was prepared"), "{reason}");
        }
    });
}

#[test]
fn nothing_is_started_where_nothing_can_be_hidden() {
    each_user(Sandbox::Require, |rig| {
        let rig = rig.lacking(OmittedLayers { namespaces: true, ..OmittedLayers::default() });
        fill(&rig);
        for sandbox in [Sandbox::Require, Sandbox::Prefer] {
            let outcome = run(&rig, "cat .env", hide(), |grant| grant.sandbox = sandbox);
            let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
            assert!(reason.contains("files must be hidden"), "{reason}");
        }
        // No file here has such a name.
        let none = Hide::parse(["*.pem"]).expect("a pattern");
        let outcome = run(&rig, "cat .env", none, |grant| grant.sandbox = Sandbox::Prefer);
        assert!(tells(&outcome), "{outcome:?}");
    });
}

#[test]
fn an_installation_that_a_link_names_shows_nothing_that_is_hidden() {
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        let scratch = tempfile::tempdir().expect("a directory");
        let alias = fs::canonicalize(scratch.path()).expect("a path").join("alias");
        permit(scratch.path(), 0o755);
        symlink(rig.workspace(), &alias).expect("linked");
        rig.script(&format!("cat {0}/.env; cat {0}/secret/deep/key", alias.display()));
        for (hide, told) in [(Hide::default(), true), (hide(), false)] {
            let outcome = rig.run(&alias.join("tool"), |call| {
                call.grant = Arc::new(Grant { hide, ..(*call.grant).clone() });
            });
            assert_eq!(tells(&outcome), told, "{outcome:?}");
        }
    });
}

/// Ways in which a tool that may write to the workspace can arrange an installation for another
/// tool: a shell script, the other tool's interpreter, and the secret beside it.
const INSTALLATIONS: [(&str, &str, &str); 5] = [
    ("mkdir shims; ln -s /bin/sh shims/x", "shims/x", ".env"),
    ("mkdir shims; cp /bin/sh shims/x", "shims/x", "secret/deep/key"),
    ("mkdir shims; cp /bin/sh shims/x; ln -s $PWD/shims/x tools/x", "tools/x", "sub/.ENV"),
    ("mkdir bin lib; cp /bin/sh bin/x; cp .env lib", "bin/x", "lib/.env"),
    (
        "mkdir -p v/bin base/bin base/lib; cp /bin/sh v/bin/x; cp /bin/sh base/bin/python3; \
         cp .env base/lib; echo home = $PWD/base/bin >v/pyvenv.cfg",
        "v/bin/x",
        "base/lib/.env",
    ),
];

/// Ways in which a tool that may write only to `w` can lead another tool's interpreter to an
/// installation outside of it, in the same form. Links outside of `w` are the user's own.
const LED_AWAY: [(&str, &str, &str); 4] = [
    (
        "mkdir -p w app/bin app/lib; cp /bin/sh app/bin/x; cp .env app/lib; \
         ln -s $PWD/app/bin/x w/x",
        "w/x",
        "app/lib/.env",
    ),
    (
        "mkdir -p w app/bin app/lib; cp /bin/sh w/sh; cp .env app/lib; \
         ln -s $PWD/w/sh app/bin/x; ln -s $PWD/app/bin/x w/x",
        "w/x",
        "app/lib/.env",
    ),
    (
        "mkdir -p w app/shims; cp /bin/sh app/shims/x; cp .env app; \
         ln -s w alias; ln -s $PWD/app/shims w/bin",
        "alias/bin/x",
        "app/.env",
    ),
    (
        "mkdir -p w app/bin app/lib my; cp /bin/sh app/bin/x; cp .env app/lib; \
         ln -s $PWD/w/dir/x my/x; ln -s $PWD/app/bin w/dir",
        "my/x",
        "app/lib/.env",
    ),
];

#[test]
fn an_interpreter_where_tools_may_write_shows_nothing_around_it() {
    each_user(Sandbox::Require, |rig| {
        let around = INSTALLATIONS.map(|way| (way, ""));
        let away = LED_AWAY.map(|way| (way, "w"));
        for ((arrange, interpreter, secret), closed) in around.into_iter().chain(away) {
            let rig = rig.lacking(OmittedLayers::default());
            fill(&rig);
            fs::create_dir(rig.path("tools")).expect("made");
            let mut arranged = Command::new("sh");
            arranged.args(["-ec", arrange]).current_dir(rig.workspace());
            assert!(arranged.status().expect("a shell").success(), "{arrange}");
            let workspace = rig.workspace().display();
            let script =
                format!("#!{workspace}/{interpreter}\ncat {workspace}/{secret}; echo ran\n");
            let tool = rig.file("tools/tool", &script, 0o755);
            let run = |places: Vec<PathBuf>| {
                rig.run(&tool, |call| {
                    let closed = ClosedPlaces { places, except: Vec::new() };
                    let grant = (*call.grant).clone();
                    call.grant =
                        Arc::new(Grant { dirs: Vec::new(), hide: hide(), closed, ..grant });
                })
            };
            let outcome = run(Vec::new());
            assert!(tells(&outcome), "{arrange}: nothing is shown anyway: {outcome:?}");
            let outcome = run(vec![rig.path(closed)]);
            assert_eq!(text(&outcome.stdout), "ran\n", "{arrange}: {outcome:?}");
        }
    });
}

#[test]
fn a_tool_where_tools_may_write_is_seen_without_its_directory() {
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        let tool = rig.script("cd $(dirname $0); cat .env; echo ran");
        for (is_closed, told) in [(false, "hunter2\nran\n"), (true, "ran\n")] {
            let outcome = rig.run(&tool, |call| {
                let places = is_closed.then(|| rig.workspace().to_owned()).into_iter().collect();
                let closed = ClosedPlaces { places, except: Vec::new() };
                let grant = (*call.grant).clone();
                call.grant = Arc::new(Grant { dirs: Vec::new(), closed, ..grant });
            });
            assert_eq!(text(&outcome.stdout), told, "{outcome:?}");
        }
        // A granted directory is shown with its hidden names, wherever the tool lies.
        let outcome = run(rig, "cat notes .env", hide(), |grant| {
            grant.closed.places = vec![rig.workspace().to_owned()];
        });
        assert_eq!(text(&outcome.stdout), "notes\n", "{outcome:?}");
    });
}

#[test]
fn what_a_tool_makes_does_not_end_later_calls() {
    each_user(Sandbox::Require, |rig| {
        fill(rig);
        // There are more hidden names than mounts per call, and a path that is deeper than the
        // search goes.
        for number in 0..4200 {
            let dir = rig.path(&format!("many/{number}"));
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join(".env"), "").expect("written");
        }
        let deep = rig.path(&"d/".repeat(140));
        fs::create_dir_all(&deep).expect("made");
        fs::write(deep.join(".env"), "").expect("written");
        let script = "ls -A many | wc -l; cat notes .env; ls sub";
        let outcome = run(rig, script, hide(), |_| {});
        assert_eq!(text(&outcome.stdout), "0\nnotes\n", "{outcome:?}");
    });
}

/// The files of a workspace that other programs execute.
const EXECUTED: [&str; 9] = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/modules/sub/config",
    ".vscode/tasks.json",
    ".mcp.json",
    ".envrc",
    "tools/hooks/pre-commit",
    "scripts/push",
    "zed/tasks.json",
];

/// The links among them, each with its target.
const LINKS: [(&str, &str); 8] = [
    (".githooks", "tools/hooks"),
    (".git/hooks/pre-push", "../../scripts/push"),
    (".git/hooks/pre-rebase", "../../chain"),
    ("chain", "scripts/push"),
    (".git/hooks/post-merge", "../../made/hook"),
    (".zed", "link"),
    ("link", "zed"),
    (".idea", "made/idea"),
];

/// Ways to make other programs execute `evil`, as shell scripts.
const EVIL: [&str; 33] = [
    "echo evil >.mcp.json",
    "echo evil >>.git/config",
    "echo evil >.git/config.lock; mv -f .git/config.lock .git/config",
    "rm -f .envrc; echo evil >.envrc",
    "mv .git git; echo evil >git/config; mv git .git",
    "mv .git/hooks h; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "echo evil >.git/hooks/post-commit",
    "mv .vscode v; mkdir .vscode; echo evil >.vscode/tasks.json",
    "ln .envrc hard; echo evil >hard",
    "echo evil >made; ln -f made .envrc",
    "echo evil >made; rm .envrc; ln -s made .envrc",
    "echo evil >tools/hooks/pre-commit",
    "mv tools t; mkdir -p tools/hooks; echo evil >tools/hooks/pre-commit",
    "rm .githooks; mkdir .githooks; echo evil >.githooks/pre-commit",
    "echo evil >.git/modules/sub/config",
    "mv .git/modules m; echo evil >m/sub/config; mv m .git/modules",
    "echo evil >.git/commondir",
    "mkdir .cursor; echo evil >.cursor/mcp.json",
    "mkdir made; echo evil >made/mcp.json; mv made .cursor",
    "echo evil >.zshenv",
    "echo evil >scripts/push",
    "echo evil >.git/hooks/pre-push",
    "echo evil >other; ln -sfn other chain",
    "mkdir -p made; echo evil >made/hook",
    "mkdir other; echo evil >other/tasks.json; ln -sfn other link",
    "mkdir -p made/idea; echo evil >made/idea/workspace.xml",
    "echo ../../../evil >.git/modules/sub/commondir",
    "echo evil >HEAD",
    "echo evil >.exrc; touch .exrc.withheld .exrc.withheld-2 .exrc.withheld-3",
    "echo evil >made; ln -s made .bashrc",
    "echo evil >made; ln made .exrc",
    "umount $PWD/.envrc; echo evil >.envrc",
    "mkdir a; unshare -rm mount --bind . a; echo evil >a/.envrc; echo evil >.envrc",
];

/// Fills the workspace of a rig with files that other programs execute.
fn fill_executed(rig: &Rig) {
    let own = |path: &Path, mode| {
        permit(path, mode);
        if !rig.is_root() {
            // If this is not root, the file already belongs to the user.
            let _ = std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY));
        }
    };
    for file in EXECUTED.iter().chain(&[".git/HEAD", ".git/modules/sub/HEAD"]) {
        let path = rig.path(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, "good\n").expect("written");
        own(&path, 0o666);
        let above = path.ancestors().skip(1).take_while(|dir| *dir != rig.workspace());
        above.for_each(|dir| own(dir, 0o777));
    }
    for (link, target) in LINKS {
        symlink(target, rig.path(link)).expect("linked");
        own_link(rig, link);
    }
}

fn own_link(rig: &Rig, link: &str) {
    if !rig.is_root() {
        // If this is not root, the link already belongs to the user.
        let _ = std::os::unix::fs::lchown(rig.path(link), Some(NOBODY), Some(NOBODY));
    }
}

/// Returns whether a program would execute `evil` somewhere in the workspace.
fn is_evil(rig: &Rig) -> bool {
    let is_evil = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("evil"));
    let new =
        [".git/hooks/post-commit", ".git/commondir", ".cursor/mcp.json", ".zshenv", ".bashrc"];
    let new = new.iter().chain(&[".exrc", ".githooks/pre-commit", ".zed/tasks.json", "HEAD"]);
    let new = new.chain(&[".idea/workspace.xml", ".git/modules/sub/commondir"]);
    let new = new.chain(&[".git/hooks/pre-rebase", ".git/hooks/post-merge"]);
    EXECUTED.iter().chain(new).any(|name| is_evil(&rig.path(name)))
}

/// Runs a script that may write to the whole workspace, except to files that other programs
/// execute.
fn run_guarded(rig: &Rig, script: &str, named: &[&str]) -> Outcome {
    run(rig, script, Hide::default(), |grant| {
        let named = named.iter().map(|name| rig.path(name)).chain([rig.workspace().to_owned()]);
        let dir = |path| GrantedDir { access: Access::ReadWrite, path };
        grant.reserved = Reserved::guarding(named.map(dir).collect());
    })
}

#[test]
fn no_way_leads_to_what_other_programs_execute() {
    each_user(Sandbox::Require, |rig| {
        for way in EVIL {
            let free = rig.lacking(OmittedLayers::default());
            fill_executed(&free);
            let outcome = run(&free, way, Hide::default(), |_| {});
            assert!(is_evil(&free), "`{way}` fails with nothing guarded too: {outcome:?}");
            let guarded = rig.lacking(OmittedLayers::default());
            fill_executed(&guarded);
            let outcome = run_guarded(&guarded, way, &[]);
            assert!(matches!(outcome.exit, Exit::Code(_)), "`{way}`: {outcome:?}");
            assert!(!is_evil(&guarded), "`{way}`, root: {}: {outcome:?}", rig.is_root());
            for file in EXECUTED {
                let kept = fs::read_to_string(guarded.path(file)).expect("there");
                assert_eq!(kept, "good\n", "`{way}` {file}");
            }
        }
    });
}

#[test]
fn what_a_tool_makes_where_other_programs_execute_is_set_aside() {
    each_user(Sandbox::Require, |rig| {
        let script =
            "echo evil >.envrc; mkdir .vscode; echo evil >.vscode/tasks.json; echo x >free";
        fs::write(rig.path(".envrc.withheld"), "mine").expect("written");
        run_guarded(rig, script, &[".vscode"]);
        let read = |name: &str| fs::read_to_string(rig.path(name)).unwrap_or_default();
        assert_eq!((read("free").as_str(), rig.path(".envrc").exists()), ("x\n", false));
        assert_eq!(
            (read(".envrc.withheld"), read(".envrc.withheld-2")),
            ("mine".into(), "evil\n".into())
        );
        // The grant names this directory.
        assert_eq!(read(".vscode/tasks.json"), "evil\n");
        // No placeholder is left for names that the tool did not create.
        let dotted = fs::read_dir(rig.workspace()).expect("listed").flatten();
        let dotted = dotted.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
        assert_eq!(dotted.count(), 3);
    });
}

/// A first call removes the file that identifies a submodule's repository.
#[test]
fn a_repository_without_its_head_is_guarded_too() {
    each_user(Sandbox::Require, |rig| {
        fill_executed(rig);
        run_guarded(rig, "mv .git/modules/sub/HEAD .git/modules/sub/H", &[]);
        run_guarded(
            rig,
            "echo evil >.git/modules/sub/config; mv .git/modules/sub/H .git/modules/sub/HEAD",
            &[],
        );
        assert!(!is_evil(rig), "root: {}", rig.is_root());
    });
}

#[test]
fn a_directory_that_is_named_beside_the_one_around_it_is_guarded_too() {
    each_user(Sandbox::Require, |rig| {
        fs::create_dir_all(rig.path("packages/a")).expect("made");
        for dir in ["packages", "packages/a"] {
            permit(rig.path(dir), 0o777);
            own_link(rig, dir);
        }
        let script = "echo evil >packages/a/.envrc; mv packages p; mkdir -p packages/a; \
                      echo evil >packages/a/.envrc";
        run_guarded(rig, script, &["packages/a"]);
        for dir in ["packages/a", "p/a"] {
            let names = fs::read_dir(rig.path(dir)).expect("listed").flatten();
            let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            assert_eq!(names, [".envrc.withheld"], "{dir}, root: {}", rig.is_root());
        }
    });
}

/// A tool replaces a directory, in which the host looks for new files, by a link.
#[test]
fn nothing_outside_of_the_granted_directory_is_renamed() {
    each_user(Sandbox::Require, |rig| {
        fill_executed(rig);
        let outside = tempfile::tempdir().expect("a directory");
        for dir in ["x", "a"] {
            fs::create_dir(outside.path().join(dir)).expect("made");
            fs::write(outside.path().join(dir).join("config"), "mine").expect("written");
            fs::write(outside.path().join(dir).join(".envrc"), "mine").expect("written");
        }
        run_guarded(rig, "mkdir -p .git/modules/x packages/a; touch .git/modules/x/index", &[]);
        let path = outside.path().display();
        let script = format!(
            "mv .git/modules m; ln -s {path} .git/modules; mv packages p; ln -s {path} packages"
        );
        run_guarded(rig, &script, &["packages/a"]);
        for dir in ["x", "a"] {
            for file in ["config", ".envrc"] {
                let kept = fs::read_to_string(outside.path().join(dir).join(file));
                assert_eq!(kept.expect("there"), "mine", "{dir}/{file}, root: {}", rig.is_root());
            }
        }
    });
}

#[test]
fn what_is_new_beside_something_named_is_set_aside() {
    each_user(Sandbox::Require, |rig| {
        fs::create_dir(rig.path(".claude")).expect("made");
        rig.file(".claude/settings.json", "good\n", 0o666);
        permit(rig.path(".claude"), 0o777);
        let script = "echo new >.claude/settings.json; echo evil >.claude/hooks.json";
        run_guarded(rig, script, &[".claude/settings.json"]);
        let read = |name: &str| fs::read_to_string(rig.path(name)).unwrap_or_default();
        assert_eq!(read(".claude/settings.json"), "new\n");
        assert_eq!(
            (read(".claude/hooks.json"), read(".claude/hooks.json.withheld")),
            (String::new(), "evil\n".into())
        );
        let swap = "mv .claude c; mkdir .claude; echo evil >.claude/other.json";
        run_guarded(rig, swap, &[".claude/settings.json"]);
        assert!(!rig.path("c").exists() && !rig.path(".claude/other.json").exists());
        assert_eq!(read(".claude/other.json.withheld"), "evil\n");
    });
}

#[test]
fn a_tool_that_takes_rights_away_keeps_nothing_from_being_set_aside() {
    each_user(Sandbox::Require, |rig| {
        let outcome = run_guarded(rig, "echo evil >.envrc; chmod 0 .", &[]);
        assert!(
            !rig.path(".envrc").exists() && rig.path(".envrc.withheld").exists(),
            "{outcome:?}"
        );
        let isolation = outcome.isolation.expect("it ran");
        assert!(isolation.fs.is_enforced());
        let places = isolation.places.expect("said");
        assert!(places.reason().is_some_and(|why| why.contains("after the call")), "{places}");
        let rig = rig.lacking(OmittedLayers::default());
        let outcome = rig.run(&rig.script("exit 0"), |call| {
            let grant = Arc::make_mut(&mut call.grant);
            grant.dirs.iter_mut().for_each(|dir| dir.access = Access::ReadOnly);
        });
        assert_eq!(outcome.isolation.expect("it ran").places, Some(Guarantee::Enforced));
    });
}

#[test]
fn a_file_that_appears_while_another_call_runs_is_set_aside_by_that_call() {
    each_user(Sandbox::Require, |rig| {
        let fifo = rig.fifo();
        let grant = |grant: &mut Grant| {
            let dir = GrantedDir { access: Access::ReadWrite, path: rig.workspace().to_owned() };
            grant.reserved = Reserved::guarding(vec![dir]);
        };
        let waiting = rig.script("exec 3>alive; echo >&3; while [ ! -e go ]; do sleep 0.01; done");
        rig.run_granted_until(&waiting, grant, fifo.first_byte(), |_| {
            let other = rig.file("other", "#!/bin/sh\necho evil >.envrc; touch go", 0o755);
            thread::scope(|scope| {
                let run = || rig.run(&other, |call| grant(Arc::make_mut(&mut call.grant)));
                scope.spawn(run).join().expect("no panic");
            });
        });
        assert!(!rig.path(".envrc").exists() && rig.path(".envrc.withheld").exists());
    });
}

#[test]
fn a_link_at_a_place_and_what_it_leads_to_on_any_way_stay_as_they_are() {
    each_user(Sandbox::Require, |rig| {
        let outside = rig.lacking(OmittedLayers::default());
        for (file, text) in
            [("scripts/pc", "good"), (".git/HEAD", "ref: refs/heads/a"), (".git/config", "")]
        {
            let dir = rig.path(file).parent().expect("a directory").to_owned();
            fs::create_dir_all(&dir).expect("made");
            permit(&dir, 0o777);
            rig.file(file, text, 0o666);
        }
        // A link outside of the granted directory leads back.
        symlink(rig.path("scripts/pc"), outside.path("pre-commit")).expect("linked");
        symlink(outside.workspace(), rig.path(".git/hooks")).expect("linked");
        symlink("scripts", rig.path(".vscode")).expect("linked");
        // A link on the way to the target.
        symlink("pc", rig.path("scripts/way")).expect("linked");
        symlink("scripts/way", rig.path(".envrc")).expect("linked");
        let change = "echo evil >>scripts/pc; rm .vscode .git/hooks; ln -sfn /bin/sh scripts/way; \
                      ln -sfn /bin/sh .envrc; mv .vscode v; mv scripts s; echo made >free";
        let outcome = run_guarded(rig, change, &[]);
        let read = |name: &str| fs::read_to_string(rig.path(name)).unwrap_or_default();
        for path in ["scripts/pc", ".vscode/pc", ".git/hooks/pre-commit", ".envrc"] {
            assert_eq!(read(path), "good", "{path}: {outcome:?}");
        }
        assert_eq!(read("free"), "made\n", "{outcome:?}");
    });
}

#[test]
fn nothing_takes_the_place_of_a_repository() {
    each_user(Sandbox::Require, |rig| {
        rig.file("x", "", 0o666);
        let make = "mkdir .git .git/objects .git/refs; echo ref: refs/heads/a >.git/HEAD";
        rig.run(&rig.script(make), |_| {});
        let outcome = run_guarded(rig, "mv .git g; rm -r .git; echo gitdir: e >.git", &[]);
        assert!(rig.path(".git").is_dir() && !rig.path("g").exists(), "{outcome:?}");
    });
}

/// A first call makes links in the repository, for later calls to protect what they lead to.
#[test]
fn what_links_of_a_tool_among_submodules_lead_to_stays_writable() {
    each_user(Sandbox::Require, |rig| {
        rig.file("notes", "planted\n", 0o666);
        let make = "mkdir .git .git/objects .git/refs src; echo ref: refs/heads/a >.git/HEAD";
        rig.run(&rig.script(make), |_| {});
        run_guarded(rig, "ln -s ../src .git/modules", &[]);
        assert!(rig.path(".git/modules.withheld").is_symlink());
        assert!(!rig.path(".git/modules").is_symlink());
        let plant = "mkdir .git/modules; cd .git/modules; ln -s ../../notes m; ln -s ../../src s; \
                     ln -s ../objects o";
        run_guarded(rig, plant, &[]);
        let repair = "rm notes && echo mended >notes; echo x >src/a; echo x >.git/objects/a; \
                      rm .git/modules/m";
        let outcome = run_guarded(rig, repair, &[]);
        let read = |name: &str| fs::read_to_string(rig.path(name)).unwrap_or_default();
        assert_eq!(read("notes"), "mended\n", "root: {}, {outcome:?}", rig.is_root());
        assert_eq!([read("src/a"), read(".git/objects/a")], ["x\n", "x\n"], "{outcome:?}");
        // Git makes no such links, so a tool has no need to remove them.
        assert!(rig.path(".git/modules/m").is_symlink(), "{outcome:?}");
    });
}

/// A first call makes more names than are looked at.
#[test]
fn too_many_names_among_submodules_leave_later_calls_working() {
    each_user(Sandbox::Require, |rig| {
        let make = "mkdir .git .git/objects .git/refs; echo ref: refs/heads/a >.git/HEAD";
        rig.run(&rig.script(make), |_| {});
        run_guarded(rig, "mkdir .git/modules; cd .git/modules; seq 1 5000 | xargs touch", &[]);
        let work = "echo x >free; echo x >.git/index; wc -l </proc/self/mountinfo";
        let outcome = run_guarded(rig, work, &[]);
        let mounts: usize = text(&outcome.stdout).trim().parse().expect("a number");
        assert!(mounts < 1_000, "{mounts}");
        assert!(rig.path("free").exists() && !rig.path(".git/index").exists(), "{outcome:?}");
        let places = outcome.isolation.expect("it ran").places.expect("said");
        assert!(places.reason().is_some_and(|why| why.contains("too many files")), "{places}");
    });
}

/// A first call makes links that take long to follow.
#[test]
fn links_that_lead_too_far_among_submodules_leave_later_calls_working() {
    each_user(Sandbox::Require, |rig| {
        let make = "mkdir .git .git/objects .git/refs src; echo ref: refs/heads/a >.git/HEAD";
        rig.run(&rig.script(make), |_| {});
        for (dir, up) in [(".git/modules", "../.."), (".git/modules/sub/hooks", "../../../..")] {
            let plant = format!(
                "mkdir -p .git/modules/sub/hooks; touch .git/modules/sub/HEAD; cd {dir}; way={up}; \
                 for i in $(seq 100); do way=$way/src/..; done; \
                 for i in $(seq 20); do ln -s $way/free l$i; done"
            );
            run_guarded(rig, &plant, &[]);
            assert!(rig.path(dir).join("l20").is_symlink(), "{dir}");
            let outcome = run_guarded(rig, "echo x >free; echo x >.git/index", &[]);
            let is_open = rig.path(".git/index").exists();
            assert!(rig.path("free").exists() && !is_open, "{dir}: {outcome:?}");
            let places = outcome.isolation.expect("it ran").places.expect("said");
            assert!(places.reason().is_some_and(|why| why.contains("lead too far")), "{places}");
            for made in ["free", ".git/modules"] {
                let made = rig.path(made);
                let removed = match made.is_dir() {
                    true => fs::remove_dir_all(made),
                    false => fs::remove_file(made),
                };
                removed.expect("removed");
            }
        }
    });
}

#[test]
fn what_one_call_adds_to_a_place_is_new_for_another_that_runs_longer() {
    each_user(Sandbox::Require, |rig| {
        rig.fifo();
        let path = rig.path(".vscode");
        fs::create_dir(&path).expect("made");
        permit(&path, 0o777);
        rig.file(".vscode/settings.json", "good", 0o666);
        let grant = |grant: &mut Grant| {
            let dir = |path| GrantedDir { access: Access::ReadWrite, path };
            let named = [rig.workspace().to_owned(), rig.path(".vscode/settings.json")];
            grant.reserved = Reserved::guarding(named.map(dir).into());
        };
        let first =
            "echo evil >.vscode/tasks.json; echo >alive; while [ ! -e go ]; do sleep 0.01; done";
        let second = "touch go; while [ -e .vscode/tasks.json ]; do sleep 0.01; done; \
                      echo evil >.vscode/tasks.json";
        let [first, second] = [("first", first), ("second", second)]
            .map(|(name, text)| rig.file(name, &format!("#!/bin/sh\n{text}\n"), 0o755));
        let run = |tool: &Path| rig.run(tool, |call| grant(Arc::make_mut(&mut call.grant)));
        thread::scope(|scope| {
            let one = scope.spawn(|| run(&first));
            fs::File::open(rig.path("alive")).expect("opened").read_exact(&mut [0]).expect("made");
            let outcome = run(&second);
            assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            one.join().expect("no panic");
        });
        assert!(!rig.path(".vscode/tasks.json").exists());
    });
}

#[test]
fn ordinary_work_in_a_repository_goes_on() {
    if !Path::new("/usr/bin/git").exists() {
        return ikigai_tests::impossible_here("no git");
    }
    each_user(Sandbox::Require, |rig| {
        rig.file("notes", "notes\n", 0o666);
        let git = "export HOME=/tmp; git() { command git -c user.name=a -c user.email=a@b -c \
                   safe.directory='*' -c commit.gpgsign=false \"$@\"; }; ";
        let ran = |script: &str, named: &[&str]| run_guarded(rig, &format!("{git}{script}"), named);
        let outcome = ran("git init -q . && echo made", &[".git"]);
        assert_eq!(text(&outcome.stdout), "made\n", "{outcome:?}");
        let work = "git add notes && git commit -qm one && git branch side && git checkout -q side && \
                    echo x >>notes && git stash -q && git stash pop -q && git commit -qam two && \
                    git tag t && git gc -q && git log --format=%s";
        let outcome = ran(work, &[]);
        assert_eq!(text(&outcome.stdout), "two\none\n", "{outcome:?}");
        let remote = "git remote add origin https://git.test/x && git remote";
        assert_eq!(text(&ran(remote, &[]).stdout), "", "refused");
        let outcome = ran(remote, &[".git/config"]);
        assert_eq!(text(&outcome.stdout), "origin\n", "{outcome:?}");
    });
}
