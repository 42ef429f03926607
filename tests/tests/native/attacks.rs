//! Attempts of a sandboxed tool that must fail. Each is first made without the sandbox and must
//! succeed there, to prove that the test can fail.

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::limits::Limit;
use ikigai_host::policy::{Grant, Net, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::mode::permit;

use super::rig::{self, NOBODY, Rig, each_user, text};

/// The user for whom an attempt succeeds without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Anyone,
    Root,
    /// A user other than root, who has no PID namespace without a sandbox.
    Nobody,
}

/// Asserts that each attempt succeeds without a sandbox and is refused in one.
#[track_caller]
fn assert_refused(rig: &Rig, dirs: &[GrantedDir], attempts: &[(By, String)], prepare: impl Fn()) {
    for (by, attempt) in attempts {
        let shows = match by {
            By::Anyone => true,
            By::Root => rig.is_root(),
            By::Nobody => !rig.is_root(),
        };
        if shows {
            prepare();
            let report = intrude(rig, Sandbox::Off, dirs, attempt);
            assert_eq!(report, "reached", "`{attempt}` fails without a sandbox too");
        }
        prepare();
        let report = intrude(rig, Sandbox::Require, dirs, attempt);
        assert_ne!(report, "reached", "`{attempt}`, root: {}", rig.is_root());
        assert!(report.contains("os error") || report.contains("is user"), "`{attempt}`: {report}");
    }
}

/// Makes one attempt, and returns the intruder's report.
fn intrude(rig: &Rig, sandbox: Sandbox, dirs: &[GrantedDir], attempt: &str) -> String {
    let outcome = rig.run(&rig.intruder(), |call| {
        call.args = vec![attempt.into()];
        call.grant = Arc::new(Grant { dirs: dirs.to_vec(), sandbox, ..(*call.grant).clone() });
    });
    assert_eq!(outcome.exit, Exit::Code(0), "{attempt}: {outcome:?}");
    text(&outcome.stdout).trim().to_owned()
}

fn dir(access: Access, path: &Path) -> GrantedDir {
    GrantedDir { access, path: path.to_owned() }
}

fn workspace(rig: &Rig) -> Vec<GrantedDir> {
    vec![dir(Access::ReadWrite, rig.workspace())]
}

/// Creates a directory outside the workspace that every user may write to.
fn beside() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = fs::canonicalize(scratch.path()).expect("a path");
    permit(&path, 0o777);
    (scratch, path)
}

/// Creates a file of the rig's user.
fn own_file(rig: &Rig, path: &Path) {
    fs::write(path, "secret").expect("written");
    permit(path, 0o666);
    if !rig.is_root() {
        // If this is not root, the file already belongs to the user.
        let _ = std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY));
    }
}

#[test]
fn no_file_outside_of_the_grant_is_reached() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, outside) = beside();
        let secret = outside.join("secret");
        let (out, file, here) = (outside.display(), secret.display(), rig.workspace().display());
        let relative = file.to_string();
        let relative = relative.trim_start_matches('/');
        let mut attempts = vec![
            (By::Anyone, format!("read {file}")),
            (By::Anyone, format!("list {out}")),
            (By::Anyone, format!("up {relative}")),
            (By::Anyone, format!("read {here}/{}{relative}", "../".repeat(30))),
            (By::Anyone, format!("symlink-read {file} {here}/link")),
            (By::Anyone, format!("read /proc/self/root{file}")),
            (By::Anyone, format!("read /proc/self/cwd/{}{relative}", "../".repeat(30))),
            (By::Root, format!("read /proc/1/root{file}")),
            (By::Root, "readlink /proc/1/cwd".to_owned()),
            (By::Root, "readlink /proc/1/fd/0".to_owned()),
            (By::Root, "read /proc/1/maps".to_owned()),
            (By::Anyone, format!("write {out}/new")),
            (By::Anyone, format!("open {file}")),
            (By::Anyone, format!("truncate {file}")),
            (By::Anyone, format!("chmod {file}")),
            (By::Anyone, format!("unlink {file}")),
            (By::Anyone, format!("link {file} {here}/hard")),
            (By::Anyone, format!("rename {file} {here}/stolen")),
            (By::Root, "write /etc/ikigai-intruder".to_owned()),
            (By::Root, "write /usr/ikigai-intruder".to_owned()),
            (By::Root, "write /proc/sys/kernel/domainname".to_owned()),
            (By::Root, format!("mount {here}")),
            (By::Root, "remount /proc".to_owned()),
            (By::Root, "open-tree /".to_owned()),
            (By::Root, format!("chroot {here}")),
            (By::Root, format!("by-handle {here}")),
        ];
        if Path::new("/etc/ssl/private").is_dir() {
            attempts.push((By::Root, "list /etc/ssl/private".to_owned()));
        }
        let prepare = || {
            own_file(rig, &secret);
            for left in ["link", "hard", "stolen"] {
                let _ = fs::remove_file(rig.path(left));
            }
            for left in ["/etc/ikigai-intruder", "/usr/ikigai-intruder"] {
                let _ = fs::remove_file(left);
            }
        };
        assert_refused(rig, &workspace(rig), &attempts, prepare);
        assert_eq!(fs::read_to_string(&secret).expect("there"), "secret");
        prepare();
    });
}

#[test]
fn nothing_is_written_through_a_read_only_grant() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, granted) = beside();
        let file = granted.join("file");
        let dirs = [workspace(rig), vec![dir(Access::ReadOnly, &granted)]].concat();
        assert_eq!(
            {
                own_file(rig, &file);
                intrude(rig, Sandbox::Require, &dirs, &format!("read {}", file.display()))
            },
            "reached"
        );
        let (granted, path, here) = (granted.display(), file.display(), rig.workspace().display());
        let attempts = [
            format!("open {path}"),
            format!("truncate {path}"),
            format!("chmod {path}"),
            format!("hint {path}"),
            format!("unlink {path}"),
            format!("mkdir {granted}/made"),
            format!("write {granted}/new"),
            format!("link {path} {granted}/hard"),
            format!("link {path} {here}/hard"),
            format!("rename {path} {granted}/moved"),
            format!("rename {path} {here}/moved"),
            format!("open /proc/self/root{path}"),
        ]
        .map(|attempt| (By::Anyone, attempt));
        let prepare = || {
            own_file(rig, &file);
            let _ = fs::remove_dir(file.with_file_name("made"));
            for left in [file.with_file_name("new"), file.with_file_name("hard"), rig.path("hard")]
            {
                let _ = fs::remove_file(left);
            }
        };
        assert_refused(rig, &dirs, &attempts, prepare);
        assert_eq!(fs::read_to_string(&file).expect("there"), "secret");
    });
}

/// Listening sockets of the host.
struct Listeners {
    tcp: TcpListener,
    udp: UdpSocket,
    stream: PathBuf,
    datagram: PathBuf,
    name: String,
    _held: (UnixListener, UnixDatagram, UnixListener, UnixDatagram),
}

impl Listeners {
    fn new(rig: &Rig) -> io::Result<Self> {
        let (stream, datagram) = (rig.path("stream"), rig.path("datagram"));
        let name = format!("ikigai-{}", rig.workspace().display());
        let streams = UnixListener::bind(&stream)?;
        let datagrams = UnixDatagram::bind(&datagram)?;
        permit(&stream, 0o777);
        permit(&datagram, 0o777);
        let abstract_streams = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let address = SocketAddr::from_abstract_name(format!("{name}-datagram"))?;
        let abstract_datagrams = UnixDatagram::bind_addr(&address)?;
        Ok(Self {
            tcp: TcpListener::bind("127.0.0.1:0")?,
            udp: UdpSocket::bind("127.0.0.1:0")?,
            stream,
            datagram,
            name,
            _held: (streams, datagrams, abstract_streams, abstract_datagrams),
        })
    }

    fn internet(&self) -> io::Result<[String; 2]> {
        Ok([format!("tcp {}", self.tcp.local_addr()?), format!("udp {}", self.udp.local_addr()?)])
    }

    /// Returns attempts on local sockets, which are in a granted directory or have no directory.
    fn local(&self) -> [String; 4] {
        [
            format!("unix {}", self.stream.display()),
            format!("pair {}", self.datagram.display()),
            format!("abstract {}", self.name),
            format!("abstract-pair {}-datagram", self.name),
        ]
    }
}

#[test]
fn no_peer_and_no_local_socket_is_reached() {
    each_user(Sandbox::Require, |rig| {
        let listeners = Listeners::new(rig).expect("listens");
        let families = [libc::AF_NETLINK, libc::AF_PACKET].map(|it| format!("socket {it}"));
        let [netlink, packet] = families;
        let anyone = listeners.internet().expect("addresses").into_iter();
        let anyone = anyone.chain(listeners.local()).chain([netlink]);
        let attempts: Vec<_> =
            anyone.map(|attempt| (By::Anyone, attempt)).chain([(By::Root, packet)]).collect();
        assert_refused(rig, &workspace(rig), &attempts, || {});
    });
}

#[test]
fn what_does_not_ask_the_relay_reaches_nothing_though_peers_are_granted() {
    each_user(Sandbox::Require, |rig| {
        let listeners = Listeners::new(rig).expect("listens");
        let [netlink, packet] =
            [libc::AF_NETLINK, libc::AF_PACKET].map(|it| format!("socket {it}"));
        let attempts = listeners.internet().expect("addresses").into_iter();
        let attempts: Vec<_> = attempts.chain(listeners.local()).chain([netlink, packet]).collect();
        let ask = |attempts: &[String], net: &[&str], sandbox| {
            let outcome = rig.run(&rig.intruder(), |call| {
                call.args = attempts.iter().map(Into::into).collect();
                let net = Net::parse(net.iter().copied()).expect("a list");
                call.grant = Arc::new(Grant { net, sandbox, ..(*call.grant).clone() });
            });
            assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            text(&outcome.stdout).lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let reached = ask(&attempts, &[], Sandbox::Off);
        assert_eq!(reached[..7], ["reached"; 7], "{reached:?}");
        // Everything is granted, but only through the relay, which these attempts do not use.
        let reports = ask(&attempts, &["127.0.0.0/8:*", "a.test:*"], Sandbox::Require);
        assert!(
            reports.len() == 8 && reports.iter().all(|report| report.contains("os error")),
            "{reports:?}"
        );
        let own = ["own-server".to_owned()];
        assert_eq!(ask(&own, &["a.test:1"], Sandbox::Require), ["reached"]);
        assert_ne!(ask(&own, &[], Sandbox::Require), ["reached"]);
    });
}

#[test]
fn a_tool_with_the_network_reaches_peers_and_still_no_local_socket() {
    each_user(Sandbox::Require, |rig| {
        let listeners = Listeners::new(rig).expect("listens");
        let ask = |attempts: &[String]| {
            let outcome = rig.run(&rig.intruder(), |call| {
                call.args = attempts.iter().map(Into::into).collect();
                let net = Net { any: true, ..Net::default() };
                call.grant = Arc::new(Grant { net, ..(*call.grant).clone() });
            });
            assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            assert!(
                outcome.isolation.as_ref().is_some_and(|isolation| isolation.net.is_enforced())
            );
            text(&outcome.stdout).lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ask(&listeners.internet().expect("addresses")), ["reached"; 2]);
        let reports = ask(&listeners.local());
        assert!(
            reports.len() == 4 && reports.iter().all(|report| report.contains("os error")),
            "{reports:?}"
        );
    });
}

/// A process of the rig's user, outside of any sandbox.
struct Victim(Child);

impl Victim {
    fn new(rig: &Rig) -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").env_clear().env("SECRET", "of another").stdin(Stdio::null());
        if !rig.is_root() && rig::started_as_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Self(command.spawn().expect("starts"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("reaped");
    }
}

#[test]
fn no_process_of_the_host_is_reached() {
    each_user(Sandbox::Require, |rig| {
        let victim = Victim::new(rig);
        let pid = victim.0.id();
        let attempts = [
            format!("kill {pid}"),
            format!("ptrace {pid}"),
            format!("memory {pid}"),
            format!("read /proc/{pid}/environ"),
            format!("list /proc/{pid}"),
        ]
        .map(|attempt| (By::Nobody, attempt));
        assert_refused(rig, &workspace(rig), &attempts, || {});
        let outcome = rig.run(&rig.script("ls /proc | grep -c '^[0-9]'"), |_| {});
        let seen: usize = text(&outcome.stdout).trim().parse().expect("a count");
        // The four processes are the init, the shell, `ls` and `grep`.
        assert!(seen <= 4, "{outcome:?}");
    });
}

#[test]
fn no_privilege_is_gained() {
    each_user(Sandbox::Require, |rig| {
        let own = rig.path("own");
        let setuid = rig.path("id");
        let mut attempts: Vec<_> = [
            "unshare-user",
            "clone-user",
            "clone3-user",
            "io-uring",
            "memory-of-nobody",
            "keyctl",
            "add-key",
            "type-into-terminal",
            "long-survey",
            "own-descriptors",
            "see-locks",
        ]
        .map(|it| (By::Anyone, it.to_owned()))
        .into();
        attempts.extend(
            ["setns", "bpf", "perf", "userfaultfd", "syslog"].map(|it| (By::Root, it.to_owned())),
        );
        attempts.push((By::Anyone, format!("setuid {}", own.display())));
        attempts.push((By::Anyone, format!("lease {}", own.display())));
        let born = rig.path("born");
        attempts.push((By::Anyone, format!("born-setuid {}", born.display())));
        if rig::started_as_root() {
            attempts.push((By::Nobody, format!("run {}", setuid.display())));
        }
        // This attempt comes last, because it gives up what a setuid program could gain.
        attempts.push((By::Anyone, "listen-to-filter".to_owned()));
        let prepare = || {
            own_file(rig, &own);
            // The attempt without the sandbox has created it.
            fs::remove_file(&born)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
                .expect("removed");
            fs::copy("/usr/bin/id", &setuid).expect("copied");
            permit(&setuid, 0o4755);
        };
        // For root in a sandbox, a setuid program gains nothing that root lacks.
        let attempts: Vec<_> =
            attempts.into_iter().filter(|(by, _)| !(rig.is_root() && *by == By::Nobody)).collect();
        assert_refused(rig, &workspace(rig), &attempts, prepare);
        let outcome = rig.run(
            &rig.script(
                "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status",
            ),
            |_| {},
        );
        let status = text(&outcome.stdout);
        let held = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(held(name), "0000000000000000", "{name} {status}");
        }
        assert_eq!((held("NoNewPrivs:"), held("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    });
}

#[test]
fn no_request_to_a_file_system_gets_past_the_mounts() {
    // The requests of btrfs for a snapshot (two kinds), a subvolume, the end of a snapshot (two
    // kinds), the flags of a subvolume and the names in it; of fscrypt for a policy, a key, its
    // end (two kinds) and its state; of fs-verity; of bcachefs for a snapshot; and of all file
    // systems for the flags of a file (three kinds). The last one sets a line discipline.
    const REFUSED: [u32; 18] = [
        0x5000_9401,
        0x5000_9417,
        0x5000_940e,
        0x5000_940f,
        0x5000_943f,
        0x4008_941a,
        0xd000_943e,
        0x800c_6613,
        0xc050_6617,
        0xc040_6618,
        0xc040_6619,
        0xc080_661a,
        0x4080_6685,
        0x4020_bc10,
        0x4008_6602,
        0x4008_7602,
        0x401c_5820,
        0x5423,
    ];
    // TCGETS, TIOCGWINSZ, TCGETS2, SIOCATMARK, NS_GET_USERNS, FS_IOC_GETFLAGS, FS_IOC_GETVERSION
    // and FS_IOC_FSGETXATTR.
    const ORDINARY: [u32; 8] =
        [0x5401, 0x5413, 0x802c_542a, 0x8905, 0xb701, 0x8008_6601, 0x8008_7601, 0x801c_581f];
    // FIONREAD and FIGETBSZ.
    const OF_FILES: [u32; 2] = [0x541b, 0x0002];
    each_user(Sandbox::Require, |rig| {
        let own = rig.path("own");
        own_file(rig, &own);
        let ask = |attempts: &[String], sandbox| {
            let outcome = rig.run(&rig.intruder(), |call| {
                call.args = attempts.iter().map(Into::into).collect();
                let dirs = workspace(rig);
                call.grant = Arc::new(Grant { dirs, sandbox, ..(*call.grant).clone() });
            });
            assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            text(&outcome.stdout).lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let on = |path: &Path, request: u32| format!("request {} {request}", path.display());
        let device = Path::new("/dev/urandom");
        // The device shows whether the filter let the request through. On a file of the workspace,
        // an ordinary file system gives the same error as the filter.
        let refused = REFUSED.map(|request| on(device, request));
        assert_eq!(ask(&refused, Sandbox::Off), ["reached"; REFUSED.len()]);
        let in_workspace = REFUSED.map(|request| on(&own, request));
        for reports in [ask(&refused, Sandbox::Require), ask(&in_workspace, Sandbox::Require)] {
            let unknown = reports.iter().filter(|report| report.ends_with("(os error 25)"));
            assert_eq!(unknown.count(), REFUSED.len(), "{reports:?}");
        }
        let ordinary = ORDINARY.map(|request| on(device, request)).into_iter();
        let ordinary: Vec<_> = ordinary.chain(OF_FILES.map(|request| on(&own, request))).collect();
        for sandbox in [Sandbox::Off, Sandbox::Require] {
            assert_eq!(ask(&ordinary, sandbox), ["reached"; ORDINARY.len() + OF_FILES.len()]);
        }
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn calls_by_the_rules_of_another_architecture_kill() {
    each_user(Sandbox::Require, |rig| {
        for attempt in ["other-architecture", "x32"] {
            let outcome = rig.run(&rig.intruder(), |call| call.args = vec![attempt.into()]);
            assert_eq!(outcome.exit, Exit::Signal(libc::SIGSYS), "{attempt}: {outcome:?}");
        }
        let outcome = rig.run(&rig.intruder(), |call| call.args = vec!["newer-call".into()]);
        assert_eq!(text(&outcome.stdout), "Function not implemented (os error 38)\n");
    });
}

#[test]
fn the_init_of_a_sandbox_is_out_of_reach() {
    each_user(Sandbox::Require, |rig| {
        let alive = rig.fifo();
        let intruder = rig.intruder();
        let tool = rig.script(&format!(
            "exec 9>alive; {} signal-init; setsid sleep 1000 & echo still here",
            intruder.display()
        ));
        let outcome = rig.run(&tool, |_| {});
        assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
        assert!(text(&outcome.stdout).ends_with("still here\n"), "{outcome:?}");
        alive.assert_nobody();
        let outcome =
            rig.run(&rig.script("kill -KILL $PPID; kill -STOP 1; exec sleep 1000"), |call| {
                call.limits.wall_clock = Duration::from_millis(700);
            });
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::WallClock)));
    });
}

#[test]
fn a_supervisor_that_is_killed_half_way_takes_everything_with_it() {
    each_user(Sandbox::Require, |rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; (setsid sleep 1000 &); echo x >&9; sleep 1000");
        let outcome = rig.run_until(&tool, alive.first_byte(), |_| rig.kill_supervisor());
        assert_eq!(outcome.exit, Exit::Signal(libc::SIGKILL), "{outcome:?}");
        let isolation = outcome.isolation.expect("it ran");
        assert!(
            isolation.guarantees().iter().all(|(_, guarantee)| guarantee.as_str() == "none"),
            "{isolation:?}"
        );
        alive.wait_for_nobody();
        let next: Outcome = rig.run(&rig.script("exit 4"), |_| {});
        assert_eq!(next.exit, Exit::Code(4), "{next:?}");
    });
}
