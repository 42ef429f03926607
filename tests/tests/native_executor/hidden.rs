//! Attempts of a sandboxed tool to read what is hidden from it in a directory that it has. Each is
//! made with nothing hidden first, where it must succeed, to prove that the test can fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use ikigai_host::exec::native::Without;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::policy::{Grant, Hide, Sandbox};
use ikigai_protocol::{Access, GrantedDir};

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
        fs::set_permissions(rig.path(name), fs::Permissions::from_mode(mode)).expect("permitted");
        if !rig.is_root() {
            // If this is not root, the file is the user's already.
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
            let shown = rig.lacking(Without::default());
            fill(&shown);
            let outcome = run(&shown, way, Hide::default(), |_| {});
            assert!(tells(&outcome), "`{way}` fails with nothing hidden too: {outcome:?}");
            let hidden = rig.lacking(Without::default());
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
            let rig = rig.lacking(Without::default());
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
        // Nothing of the covers is left in the tool's own root.
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
            let early = rig.lacking(Without::default());
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
        let rig = rig.lacking(Without { namespaces: true, ..Without::default() });
        fill(&rig);
        for sandbox in [Sandbox::Require, Sandbox::Prefer] {
            let outcome = run(&rig, "cat .env", hide(), |grant| grant.sandbox = sandbox);
            let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
            assert!(reason.contains("files are to be hidden"), "{reason}");
        }
        // Nothing here has such a name.
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
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("permitted");
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
