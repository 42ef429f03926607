//! The surroundings of a sandboxed tool, and the errors if they cannot be provided.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::exec::native::{OmittedLayers, Supervisor};
use ikigai_host::exec::{Exit, Outcome, Stdin};
use ikigai_host::limits::Limit;
use ikigai_host::policy::{Grant, GrantedLink, Net, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_supervisor::base_view::BASE_VIEW;
use ikigai_supervisor::isolation::{Boundary, Guarantee, Isolation, LimitEnforcer, Mechanism};
use ikigai_tests::mode::permit;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::rig::{self, NOBODY, Rig, each_user, text};

fn run(rig: &Rig, tool: &Path, adjust: impl Fn(&mut Grant)) -> Outcome {
    rig.run(tool, |call| {
        let mut grant = (*call.grant).clone();
        adjust(&mut grant);
        call.grant = Arc::new(grant);
    })
}

#[track_caller]
fn not_started(outcome: &Outcome) -> &str {
    let Exit::NotStarted(reason) = &outcome.exit else { panic!("it ran: {outcome:?}") };
    assert_eq!(outcome.isolation, None, "nothing was held, because nothing ran");
    reason
}

/// Creates a directory that every user may write to.
fn directory(path: &Path) {
    fs::create_dir_all(path).expect("made");
    permit(path, 0o777);
}

#[test]
fn of_etc_a_tool_sees_the_base_view_alone() {
    let is_shown = |path: &Path| {
        let may_read = |it: fs::Metadata| it.permissions().mode() & 0o004 != 0;
        let mut places = BASE_VIEW.iter().filter(|place| !place.of_network);
        fs::metadata(path).is_ok_and(may_read)
            && places.any(|place| place.has(path) || Path::new(place.path).starts_with(path))
    };
    let all = fs::read_dir("/etc").expect("a directory").map(|entry| entry.expect("read").path());
    let expected: BTreeSet<_> = all.filter(|path| is_shown(path)).collect();
    assert!(expected.contains(Path::new("/etc/passwd")), "{expected:?}");
    each_user(Sandbox::Require, |rig| {
        let list = "for it in /etc/*; do [ ! -r \"$it\" ] || echo \"$it\"; done";
        let outcome = rig.run(&rig.script(list), |_| {});
        let seen: BTreeSet<_> = text(&outcome.stdout).lines().map(Into::into).collect();
        assert_eq!(seen, expected, "{outcome:?}");
    });
}

#[test]
fn everything_is_enforced_and_reported_but_memory_without_a_cgroup() {
    each_user(Sandbox::Require, |rig| {
        for cgroups in [true, false] {
            let rig = rig.lacking(without(|it| it.cgroups = !cgroups));
            let isolation = rig.run(&rig.script("exit 0"), |_| {}).isolation.expect("it ran");
            for (name, guarantee) in isolation.guarantees() {
                assert!(guarantee.is_enforced() || name == Boundary::Memory, "{name}: {guarantee}");
            }
            let kept = cgroups && has_memory_cgroup(&rig);
            assert_eq!(isolation.memory.as_str(), if kept { "enforced" } else { "partial" });
            let first = if kept { LimitEnforcer::Cgroup } else { LimitEnforcer::Rlimit };
            assert_eq!(isolation.kept_by.memory.first(), Some(&first), "{isolation:?}");
        }
    });
    each_user(Sandbox::Off, |rig| {
        let isolation = rig.run(&rig.script("exit 0"), |_| {}).isolation.expect("it ran");
        // Root can make other programs start processes that outlive the call. Another user can kill
        // the supervisor.
        let kill_tree = "partial";
        let states = isolation.guarantees().map(|(_, guarantee)| guarantee.as_str());
        assert_eq!(states, ["none", "none", "none", "partial", kill_tree, "none"], "{isolation:?}");
    });
}

#[test]
fn each_call_has_its_own_place_for_temporary_files() {
    each_user(Sandbox::Require, |rig| {
        let home = rig.path("nowhere/home");
        let grant = |grant: &mut Grant| {
            grant.env.push(("HOME".into(), home.clone().into()));
            grant.env.push(("TMPDIR".into(), "/somewhere/else".into()));
            grant.dirs.clear();
        };
        let tool = rig.script(
            "cd; ls -A /tmp /dev/shm \"$HOME\"; echo x >/tmp/ikigai-own; echo x >/dev/shm/ikigai-own; echo x >~/x\n\
             pwd; echo $TMPDIR; mktemp >/dev/null && cat /tmp/ikigai-own /dev/shm/ikigai-own ~/x",
        );
        for _ in 0..2 {
            let outcome = run(rig, &tool, grant);
            let (home, work) = (home.display(), rig.workspace().display());
            let output = text(&outcome.stdout);
            // /tmp contains only the workspace, which is usually below it.
            let first = work.to_string().split('/').nth(2).unwrap_or_default().to_owned();
            let shown = output.replace(&format!("{first}\n"), "");
            let expected = format!("/dev/shm:\n\n/tmp:\n\n{home}:\n{home}\n/tmp\nx\nx\nx\n");
            assert_eq!(shown, expected, "{outcome:?}");
        }
        assert!(!Path::new("/tmp/ikigai-own").exists() && !home.exists());
        let outcome = rig
            .run(&rig.script("head -c 60000000 /dev/zero >/tmp/much || echo full"), |call| {
                call.limits.native_memory = 100 << 20
            });
        assert_eq!(text(&outcome.stdout), "full\n", "{outcome:?}");
    });
}

#[test]
fn what_the_kernel_shows_to_root_alone_is_empty() {
    let shown = |rig: &Rig| {
        let script = "cat /proc/slabinfo /proc/keys /proc/timer_list /proc/locks 2>/dev/null | \
                      wc -c; \
                      grep -c processor /proc/cpuinfo";
        let outcome = rig.run(&rig.script(script), |_| {});
        let output = text(&outcome.stdout);
        let numbers = output.lines().map(|line| line.trim().parse().expect("a number"));
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers.len() == 2 && numbers[1] > 0, "{outcome:?}");
        numbers[0]
    };
    each_user(Sandbox::Require, |rig| assert!(shown(rig) == 0 || !rig.is_root()));
    // Without the sandbox the files are not empty.
    each_user(Sandbox::Off, |rig| assert!(shown(rig) > 0 || !rig.is_root()));
}

#[test]
fn what_is_granted_is_there_and_the_wider_of_two_grants_counts() {
    each_user(Sandbox::Require, |rig| {
        let (outer, inner) = (rig.path("outer"), rig.path("outer/inner"));
        directory(&outer);
        directory(&inner);
        let tool = rig.script("touch inner/y && ! touch x 2>/dev/null && cd inner && pwd");
        let outcome = rig.run(&tool, |call| {
            call.workspace = outer.clone().into();
            let mut grant = (*call.grant).clone();
            grant.dirs = vec![
                GrantedDir { access: Access::ReadWrite, path: inner.clone() },
                GrantedDir { access: Access::ReadOnly, path: outer.clone() },
            ];
            call.grant = Arc::new(grant);
        });
        assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
        assert_eq!(text(&outcome.stdout).trim(), inner.to_str().expect("UTF-8"));
        // A tool that may read the whole machine still has its own /tmp and its own processes.
        let outcome = run(
            rig,
            &rig.script(
                "ls /etc/hostname /dev; echo x >/tmp/ikigai-own; ls /proc | grep -c '^[0-9]'; touch x",
            ),
            |grant| {
                grant.dirs = vec![GrantedDir { access: Access::ReadOnly, path: "/".into() }];
            },
        );
        let lines: Vec<&str> = text(&outcome.stdout).lines().collect();
        assert!(lines.contains(&"/etc/hostname") && lines.contains(&"null"), "{outcome:?}");
        assert!(!lines.contains(&"pts") && !Path::new("/tmp/ikigai-own").exists(), "{outcome:?}");
        let processes: usize = lines.last().expect("a count").parse().expect("a number");
        assert!(processes <= 4 && outcome.exit != Exit::Code(0), "{outcome:?}");
    });
}

#[test]
fn a_grant_that_cannot_be_kept_starts_nothing() {
    each_user(Sandbox::Require, |rig| {
        directory(&rig.path("real"));
        symlink(rig.path("real"), rig.path("link")).expect("made");
        directory(&rig.path("real/sub"));
        let fifo = (CWD, rig.path("fifo"));
        mknodat(fifo.0, &fifo.1, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
        for (path, expected) in [
            (rig.path("absent"), "does not exist"),
            (rig.path("link"), "symbolic link"),
            (rig.path("link/sub"), "symbolic link"),
            (rig.path("fifo"), "neither a directory nor a regular file"),
            ("/proc".into(), "cannot be granted"),
            ("/sys/kernel".into(), "cannot be granted"),
        ] {
            for sandbox in [Sandbox::Require, Sandbox::Prefer] {
                let outcome = run(rig, &rig.script("exit 0"), |grant| {
                    grant.dirs.push(GrantedDir { access: Access::ReadOnly, path: path.clone() });
                    grant.sandbox = sandbox;
                });
                let reason = not_started(&outcome);
                assert!(reason.contains(expected), "`{reason}` does not say `{expected}`");
                assert!(reason.contains(path.to_str().expect("UTF-8")), "{reason}");
            }
        }
        let outcome = run(rig, &rig.script("exit 0"), |grant| {
            grant.net = Net::parse(["example.com:443"]).expect("a list");
            grant.sandbox = Sandbox::Off;
        });
        assert!(not_started(&outcome).contains("list of hosts"), "{outcome:?}");
    });
}

#[test]
fn a_granted_directory_may_go_away_during_the_call() {
    each_user(Sandbox::Require, |rig| {
        let alive = rig.fifo();
        let scratch = tempfile::tempdir().expect("a directory");
        let granted = fs::canonicalize(scratch.path()).expect("a path").join("granted");
        directory(&granted);
        // A removed directory has no links.
        let tool = rig.script(&format!(
            "exec 9>alive; cd {}; echo x >&9; until [ \"$(stat -c %h .)\" = 0 ]; do :; done\n\
             touch new 2>/dev/null || echo gone",
            granted.display()
        ));
        let granting = |grant: &mut Grant| {
            grant.dirs.push(GrantedDir { access: Access::ReadWrite, path: granted.clone() });
        };
        let outcome = rig.run_granted_until(&tool, granting, alive.first_byte(), |_| {
            fs::remove_dir(&granted).expect("removed");
        });
        assert_eq!((&outcome.exit, text(&outcome.stdout)), (&Exit::Code(0), "gone\n"));
        alive.assert_nobody();
    });
}

#[test]
fn a_fifo_of_the_workspace_holds_nobody_up() {
    each_user(Sandbox::Require, |rig| {
        let path = rig.path("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::from(0o666), 0).expect("a FIFO");
        permit(&path, 0o666);
        let outcome = rig.run(&rig.script("exec cat fifo"), |call| {
            call.limits.wall_clock = Duration::from_millis(500);
        });
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::WallClock)));
        assert_eq!(rig.run(&rig.script("exit 6"), |_| {}).exit, Exit::Code(6));
    });
}

#[test]
fn a_directory_as_stdin_is_no_way_out() {
    let alone = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "confined::with_a_directory_as_stdin", "--ignored"])
        .stdin(fs::File::open("/").expect("a directory"))
        .output()
        .expect("runs");
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
}

#[test]
#[ignore = "runs inside another test"]
fn with_a_directory_as_stdin() {
    let run =
        |rig: &Rig| rig.run(&rig.script("ls /proc/self/fd/0/"), |call| call.stdin = Stdin::Inherit);
    each_user(Sandbox::Off, |rig| {
        let outcome = run(rig);
        assert!(text(&outcome.stdout).lines().any(|name| name == "usr"), "{outcome:?}");
    });
    each_user(Sandbox::Prefer, |rig| assert!(not_started(&run(rig)).contains("directory")));
}

#[test]
fn a_socket_or_a_file_as_stdin_is_copied_into_a_pipe() {
    let (socket, _peer) = UnixStream::pair().expect("a pair");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let file = fs::File::open(std::env::current_exe().expect("this program")).expect("a file");
    for stdin in [OwnedFd::from(socket), OwnedFd::from(datagrams), OwnedFd::from(file)] {
        let alone = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "confined::with_a_stdin_that_is_no_pipe", "--ignored"])
            .stdin(stdin)
            .output()
            .expect("runs");
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
    }
}

#[test]
#[ignore = "runs inside another test"]
fn with_a_stdin_that_is_no_pipe() {
    let body = "if test -p /proc/self/fd/0; then echo pipe; else echo other; fi";
    let modes =
        [(Sandbox::Off, "other\n"), (Sandbox::Prefer, "pipe\n"), (Sandbox::Require, "pipe\n")];
    for (sandbox, expected) in modes {
        each_user(sandbox, |rig| {
            let outcome = rig.run(&rig.script(body), |call| call.stdin = Stdin::Inherit);
            assert_eq!(text(&outcome.stdout), expected, "{sandbox:?}: {outcome:?}");
        });
    }
}

/// The next reader of the pipe would take the tool's text for the user's.
#[test]
fn a_tool_cannot_write_into_the_pipe_that_is_the_hosts_stdin() {
    let (mut read, write) = std::io::pipe().expect("a pipe");
    let owner = |pipe: &std::io::PipeReader| {
        let stat = rustix::fs::fstat(pipe).expect("its metadata");
        (stat.st_uid, stat.st_gid)
    };
    let before = owner(&read);
    let alone = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "confined::with_a_pipe_as_stdin", "--ignored"])
        .stdin(read.try_clone().expect("another descriptor"))
        .output()
        .expect("runs");
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
    assert_eq!(owner(&read), before);
    drop(write);
    let mut left = String::new();
    std::io::Read::read_to_string(&mut read, &mut left).expect("read");
    assert_eq!(left, "");
}

#[test]
#[ignore = "runs inside another test"]
fn with_a_pipe_as_stdin() {
    let body = "(echo evil >/proc/self/fd/0) 2>/dev/null; test -p /proc/self/fd/0 && echo pipe";
    for sandbox in [Sandbox::Prefer, Sandbox::Require] {
        each_user(sandbox, |rig| {
            let outcome = rig.run(&rig.script(body), |call| call.stdin = Stdin::Inherit);
            assert_eq!(text(&outcome.stdout), "pipe\n", "{sandbox:?}: {outcome:?}");
        });
    }
}

#[test]
fn a_tool_in_a_home_does_not_show_the_home() {
    each_user(Sandbox::Require, |rig| {
        let home = rig.path("home");
        directory(&home.join("tools"));
        fs::write(home.join("secret"), "x").expect("written");
        fs::write(home.join("tools/part"), "a part\n").expect("written");
        let body = "#!/bin/sh\ncat \"$(dirname \"$0\")/part\"; cat ~/secret || exit 9\n";
        let grant = |grant: &mut Grant| {
            grant.dirs.clear();
            grant.env.push(("HOME".into(), home.clone().into()));
        };
        for (name, expected) in [("home/tool", ""), ("home/tools/tool", "a part\n")] {
            let tool = rig.file(name, body, 0o755);
            let outcome = run(rig, &tool, grant);
            let output = (&outcome.exit, text(&outcome.stdout));
            assert_eq!(output, (&Exit::Code(9), expected), "{name}: {outcome:?}");
        }
        // Tools are often installed as links.
        let link = home.join("tools/link");
        symlink(home.join("tools/tool"), &link).expect("made");
        assert_eq!(text(&run(rig, &link, grant).stdout), "a part\n");
    });
}

#[test]
fn a_granted_link_is_seen_if_its_target_is() {
    each_user(Sandbox::Require, |rig| {
        for dir in ["home", "opt", "private"] {
            directory(&rig.path(dir));
        }
        let program = rig.file("opt/program", "#!/bin/sh\necho ran\n", 0o755);
        let link = |name: &str, target: &Path| {
            symlink(target, rig.path(name)).expect("made");
            GrantedLink { path: rig.path(name), target: target.to_owned() }
        };
        let links = [
            link("home/name", &program),
            link("home/dir", &rig.path("opt")),
            link("home/out", &rig.path("private")),
        ];
        let tool = rig.script("cd && echo * && ./name && ls dir");
        let outcome = run(rig, &tool, |grant| {
            grant.dirs = vec![GrantedDir { access: Access::ReadOnly, path: rig.path("opt") }];
            grant.links = links.to_vec();
            grant.env.push(("HOME".into(), rig.path("home").into()));
        });
        assert_eq!(text(&outcome.stdout), "dir name\nran\nprogram\n", "{outcome:?}");
    });
}

#[test]
fn an_interpreter_elsewhere_is_found_with_what_it_is_installed_with() {
    each_user(Sandbox::Require, |rig| {
        let base = rig.path("opt/language-1.0");
        let environment = rig.path("opt/environment");
        for dir in [base.join("bin"), base.join("lib"), environment.join("bin")] {
            directory(&dir);
        }
        fs::write(base.join("lib/part"), "a part of it\n").expect("written");
        let interpreter =
            format!("#!/bin/sh\ncat {}/lib/part\nexec /bin/sh \"$@\"\n", base.display());
        rig.file("opt/language-1.0/bin/language", &interpreter, 0o755);
        symlink(base.join("bin/language"), environment.join("bin/language")).expect("made");
        directory(&rig.path("elsewhere"));
        let direct = format!("#!{}/bin/language\necho ran\n", environment.display());
        let searched = "#!/usr/bin/env language\necho ran\n".to_owned();
        for script in [direct, searched] {
            let tool = rig.file("elsewhere/tool", &script, 0o755);
            let outcome = run(rig, &tool, |grant| {
                grant.dirs.clear();
                let path = format!("/usr/bin:/bin:{}/bin", environment.display());
                grant.env = vec![("PATH".into(), path.into())];
            });
            assert_eq!(text(&outcome.stdout), "a part of it\nran\n", "{script}: {outcome:?}");
        }
    });
}

#[test]
fn the_interpreter_line_of_a_tool_makes_nothing_else_visible() {
    each_user(Sandbox::Require, |rig| {
        let private = rig.path("private");
        directory(&private);
        fs::write(private.join("key"), "secret\n").expect("written");
        let key = private.join("key");
        directory(&rig.path("tools/bin"));
        symlink("/bin/sh", rig.path("tools/bin/python3")).expect("made");
        fs::write(rig.path("tools/pyvenv.cfg"), format!("home = {}\n", private.display()))
            .expect("written");
        symlink(&key, rig.path("tools/key")).expect("made");
        let private = key.display();
        for line in [
            format!("#!/usr/bin/env -S -u {private} sh"),
            format!("#!{}/tools/bin/python3", rig.workspace().display()),
            format!("#!/usr/bin/env -S {}/tools/../private/key=1 sh", rig.workspace().display()),
        ] {
            let tool = rig.file("tools/tool", &format!("{line}\ncat {private} || exit 9\n"), 0o755);
            let outcome = run(rig, &tool, |grant| grant.dirs.clear());
            assert_eq!(outcome.exit, Exit::Code(9), "{line}: {outcome:?}");
            let outcome = run(rig, &tool, |grant| grant.sandbox = Sandbox::Off);
            assert_eq!(text(&outcome.stdout), "secret\n", "{line}: {outcome:?}");
        }
    });
}

#[test]
fn a_word_that_env_does_not_start_shows_no_installation() {
    each_user(Sandbox::Require, |rig| {
        let app = rig.path("app");
        for dir in ["bin", "lib"] {
            directory(&app.join(dir));
        }
        rig.file("app/bin/deploy", "#!/bin/sh\n", 0o755);
        fs::write(app.join("lib/key"), "secret\n").expect("written");
        directory(&rig.path("tools"));
        // It has the name of `env`, and runs the script.
        let other = rig.file("tools/env", "#!/bin/sh\nshift\nexec /bin/sh \"$@\"\n", 0o755);
        for line in [
            "#!/usr/bin/env -S -u deploy sh".to_owned(),
            "#!/usr/bin/env -S -iu deploy PATH=/usr/bin:/bin sh".to_owned(),
            "#!/usr/bin/env -S --unset deploy --chdir / 'sh'".to_owned(),
            "#!/usr/bin/env -S --uns deploy sh".to_owned(),
            format!("#!{} deploy", other.display()),
        ] {
            let script = format!("{line}\ncat {}/lib/key || exit 9\n", app.display());
            let tool = rig.file("tools/tool", &script, 0o755);
            let path = format!("/usr/bin:/bin:{}/bin", app.display());
            let env = vec![("PATH".into(), path.into())];
            let outcome = run(rig, &tool, |grant| {
                grant.dirs.clear();
                grant.env.clone_from(&env);
            });
            assert_eq!(outcome.exit, Exit::Code(9), "{line}: {outcome:?}");
            let outcome = run(rig, &tool, |grant| {
                grant.sandbox = Sandbox::Off;
                grant.env.clone_from(&env);
            });
            assert_eq!(text(&outcome.stdout), "secret\n", "{line}: {outcome:?}");
        }
    });
}

#[test]
fn a_link_in_an_installation_leads_nowhere_outside_of_it() {
    each_user(Sandbox::Require, |rig| {
        let private = rig.path("private");
        directory(&private);
        fs::write(private.join("key"), "secret\n").expect("written");
        directory(&rig.path("venv/bin"));
        fs::copy("/bin/sh", rig.path("venv/bin/sh")).expect("copied");
        symlink(&private, rig.path("venv/lib")).expect("made");
        directory(&rig.path("elsewhere"));
        let venv = rig.path("venv");
        let script = format!("#!{0}/bin/sh\ncat {0}/lib/key || exit 9\n", venv.display());
        let tool = rig.file("elsewhere/tool", &script, 0o755);
        let outcome = run(rig, &tool, |grant| grant.dirs.clear());
        assert_eq!(outcome.exit, Exit::Code(9), "{outcome:?}");
        let outcome = run(rig, &tool, |grant| grant.sandbox = Sandbox::Off);
        assert_eq!(text(&outcome.stdout), "secret\n", "{outcome:?}");
    });
}

#[test]
fn what_compilers_interpreters_and_git_need_is_there() {
    each_user(Sandbox::Require, |rig| {
        for (program, script) in [
            (
                "git",
                "git init -q r && cd r && git config --global user.email a@b && git config --global user.name n && git commit -q --allow-empty -m m && git log --oneline | wc -l",
            ),
            ("cc", "printf 'int main(){return 0;}' >a.c && cc a.c -o a && ./a && echo 1"),
            (
                "python3",
                "/usr/bin/python3 -c 'import subprocess,threading,multiprocessing,tempfile;tempfile.mkdtemp();print(subprocess.run([\"echo\",\"1\"],capture_output=True,text=True).stdout.strip())'",
            ),
            (
                "node",
                "node -e 'const c=require(\"child_process\");console.log(c.execSync(\"echo 1\").toString().trim())'",
            ),
            ("bash", "bash -c 'cat <(echo 1) <<<x; cat <<X >/dev/null\nx\nX\n'"),
        ] {
            if !["/usr/bin", "/usr/local/bin"]
                .iter()
                .any(|dir| Path::new(dir).join(program).exists())
            {
                continue;
            }
            let outcome = run(rig, &rig.script(script), |grant| {
                grant.env.push(("HOME".into(), "/home/of-mine".into()));
            });
            assert_eq!(text(&outcome.stdout).trim(), "1", "{program}: {outcome:?}");
            assert_eq!(outcome.exit, Exit::Code(0), "{program}: {outcome:?}");
        }
    });
}

fn without(change: impl Fn(&mut OmittedLayers)) -> OmittedLayers {
    let mut layers = OmittedLayers::default();
    change(&mut layers);
    layers
}

/// Returns whether the supervisor of the rig may create cgroups that limit memory.
fn has_memory_cgroup(rig: &Rig) -> bool {
    let layer =
        rig.machine().layers.into_iter().find(|layer| layer.mechanism == Mechanism::MemoryCgroup);
    layer.expect("listed").guarantee.is_enforced()
}

/// Returns the names of the boundaries that are not enforced.
fn open(isolation: &Isolation) -> Vec<&'static str> {
    isolation
        .guarantees()
        .into_iter()
        .filter(|(_, guarantee)| !guarantee.is_enforced())
        .map(|(boundary, _)| boundary.as_str())
        .collect()
}

#[test]
fn a_missing_layer_is_reported_and_what_is_required_is_not_started() {
    let all = ["fs", "net", "processes", "memory", "kill_tree", "privileges"];
    let cases: [(OmittedLayers, &[&str]); 5] = [
        // Without namespaces, root cannot be mapped to another user.
        (
            without(|it| it.namespaces = true),
            &["fs", "processes", "memory", "kill_tree", "privileges"],
        ),
        (without(|it| it.seccomp = true), &["net", "memory", "privileges"]),
        // The root of bind mounts suffices without Landlock.
        (without(|it| it.landlock = true), &["memory"]),
        (
            without(|it| (it.namespaces, it.landlock) = (true, true)),
            &["fs", "processes", "memory", "kill_tree", "privileges"],
        ),
        (without(|it| (it.namespaces, it.landlock, it.seccomp) = (true, true, true)), &all),
    ];
    for (layers, expected) in cases {
        each_user(Sandbox::Prefer, |rig| {
            let rig = rig.lacking(OmittedLayers { cgroups: true, ..layers });
            let is_other_users =
                |name: &str| name == "privileges" && !layers.seccomp && !rig.is_root();
            let expected: Vec<_> =
                expected.iter().copied().filter(|name| !is_other_users(name)).collect();
            let outcome = rig.run(&rig.script("echo ran"), |_| {});
            assert_eq!(text(&outcome.stdout), "ran\n", "{layers:?}: {outcome:?}");
            let isolation = outcome.isolation.clone().expect("it ran");
            assert_eq!(open(&isolation), expected, "{layers:?}: {isolation:?}");
            for (_, guarantee) in isolation.guarantees() {
                assert!(
                    guarantee.is_enforced() || guarantee.reason().is_some_and(|why| why.len() > 10)
                );
            }
            let outcome = run(&rig, &rig.script("touch ran"), |grant| {
                grant.sandbox = Sandbox::Require;
            });
            if expected == ["memory"] {
                assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            } else {
                let reason = not_started(&outcome);
                assert!(reason.contains(expected[0]), "{reason}");
                assert!(reason.contains("cannot provide the sandbox"), "{reason}");
                assert!(!rig.path("ran").exists());
            }
        });
    }
}

#[test]
fn without_a_user_namespace_root_has_nearly_all_of_it_and_another_user_what_is_left() {
    each_user(Sandbox::Prefer, |rig| {
        let rig = rig.lacking(without(|it| it.user_namespace = true));
        let outcome = rig.run(
            &rig.script("grep CapEff /proc/self/status; ls /root /home; touch /etc/x"),
            |_| {},
        );
        let isolation = outcome.isolation.clone().expect("it ran");
        assert_eq!(isolation.fs.is_enforced(), rig.is_root(), "{isolation:?}");
        assert_eq!(isolation.privileges.is_enforced(), !rig.is_root(), "{isolation:?}");
        assert!(text(&outcome.stdout).starts_with("CapEff:\t0000000000000000\n"), "{outcome:?}");
        assert_ne!(outcome.exit, Exit::Code(0), "{outcome:?}");
        let outcome = rig.run(&rig.intruder(), |call| {
            call.args =
                ["write /proc/sys/kernel/domainname", "unshare-user"].map(Into::into).into();
        });
        assert!(
            text(&outcome.stdout).lines().all(|report| report.contains("os error")),
            "{outcome:?}"
        );
    });
}

/// Checks a sandbox without namespaces, if the kernel itself refuses them and not a test parameter.
#[test]
fn where_no_namespace_can_be_made_files_network_and_signals_are_still_kept() {
    each_user(Sandbox::Prefer, |rig| {
        let secret = tempfile::NamedTempFile::new().expect("a file");
        permit(secret.path(), 0o666);
        fs::write(secret.path(), "secret").expect("written");
        let rig = rig.under_a_filter().lacking_cgroups();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let intruder = rig.intruder();
        let attempts = [
            format!("read {}", secret.path().display()),
            format!("open {}", secret.path().display()),
            format!("truncate {}", secret.path().display()),
            format!("tcp {}", listener.local_addr().expect("an address")),
            "udp 127.0.0.1:9".to_owned(),
            "abstract-pair ikigai".to_owned(),
            format!("kill {}", std::process::id()),
            "unshare-user".to_owned(),
            "read /etc/hostname".to_owned(),
        ];
        let outcome =
            rig.run(&intruder, |call| call.args = attempts.iter().map(Into::into).collect());
        let reports: Vec<&str> = text(&outcome.stdout).lines().collect();
        assert_eq!(reports.len(), attempts.len(), "{outcome:?}");
        assert!(reports.iter().all(|report| report.contains("os error")), "{reports:?}");
        let isolation = outcome.isolation.expect("it ran");
        let mut expected = vec!["fs", "processes", "memory", "kill_tree"];
        expected.extend(rig.is_root().then_some("privileges"));
        assert_eq!(open(&isolation), expected, "{isolation:?}");
        assert!(
            isolation.fs.reason().is_some_and(|why| why.contains("user namespace")),
            "{isolation:?}"
        );
        let alive = rig.fifo();
        let outcome = rig.run(
            &rig.script("exec 9>alive; (setsid sleep 1000 &); echo hi >file; cat file"),
            |_| {},
        );
        assert_eq!((&outcome.exit, text(&outcome.stdout)), (&Exit::Code(0), "hi\n"), "{outcome:?}");
        alive.assert_nobody();
        // The tool cannot kill its supervisor, although it runs as the same user.
        let outcome = rig.run(&rig.script("kill -KILL $PPID || exit 5"), |_| {});
        assert_eq!(outcome.exit, Exit::Code(5), "{outcome:?}");
        let required = run(&rig, &rig.script("exit 0"), |grant| grant.sandbox = Sandbox::Require);
        assert!(not_started(&required).contains("fs is partial"), "{required:?}");
    });
}

#[test]
fn a_probe_reports_what_a_call_would() {
    each_user(Sandbox::Prefer, |rig| {
        // Enforcement for files that other programs execute depends only on the call's grant.
        let held = |rig: &Rig| {
            let isolation = rig.run(&rig.script("exit 0"), |_| {}).isolation.expect("it ran");
            Isolation { places: None, ..isolation }
        };
        let found = rig.machine();
        assert_eq!(found.isolation, held(rig));
        assert!(
            found.layers.iter().all(|layer| layer.mechanism.as_str().starts_with("cgroup")
                || layer.guarantee.is_enforced()),
            "{:?}",
            found.layers
        );
        let landlock = found
            .layers
            .iter()
            .find(|layer| layer.mechanism == Mechanism::Landlock)
            .expect("listed");
        assert!(landlock.detail.as_ref().is_some_and(|it| it.starts_with("ABI ")), "{landlock:?}");
        let bare = rig.under_a_filter();
        let found = bare.machine();
        assert_eq!(found.isolation, held(&bare));
        for mechanism in [
            Mechanism::UserNamespace,
            Mechanism::MountNamespace,
            Mechanism::PidNamespace,
            Mechanism::NetworkNamespace,
        ] {
            let layer =
                found.layers.iter().find(|layer| layer.mechanism == mechanism).expect("listed");
            assert!(matches!(layer.guarantee, Guarantee::None(_)), "{layer:?}");
        }
    });
    let runtime = rig::one_thread();
    let none = runtime.block_on(Supervisor::new(Some("/bin/false".into()), 0).machine());
    assert_eq!(open(&none.isolation).len(), 6, "{none:?}");
}

#[test]
fn a_home_and_a_workspace_in_a_directory_of_the_system_are_not_shown() {
    if !rig::started_as_root() {
        ikigai_tests::impossible_here("only root can make a directory in /usr");
        return;
    }
    each_user(Sandbox::Require, |rig| {
        let system = tempfile::tempdir_in("/usr/local").expect("a directory");
        let root = system.path().canonicalize().expect("a path");
        permit(&root, 0o755);
        let (home, app) = (root.join("home"), root.join("app"));
        for (dir, file) in [(&home, "secret"), (&home.join("work"), "kept"), (&app, "secret")] {
            fs::create_dir_all(dir).expect("made");
            fs::write(dir.join(file), format!("{file}\n")).expect("written");
            if !rig.is_root() {
                std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).expect("given");
            }
        }
        let script = format!(
            "cd {root}; cat home/secret app/secret; cat home/work/kept; pwd; \
             echo own >~/made && cat ~/made",
            root = root.display()
        );
        let tool = rig.script(&script);
        let outcome = rig.run(&tool, |call| {
            let mut grant = (*call.grant).clone();
            grant.env.push(("HOME".into(), home.clone().into()));
            grant.dirs = vec![GrantedDir { access: Access::ReadOnly, path: home.join("work") }];
            call.grant = Arc::new(grant);
            call.workspace = app.as_path().into();
        });
        let expected = format!("kept\n{}\nown\n", root.display());
        assert_eq!(text(&outcome.stdout), expected, "{outcome:?}");
        assert!(!home.join("made").exists());
    });
}
