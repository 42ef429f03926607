//! `install.sh`, with releases that the test makes up: installing, upgrading, removing, and
//! everything that can be wrong with a download or a directory.

mod made_up;
mod server;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};

use ikigai_tests::host::Ran;
use ikigai_tests::{impossible_here, left_out};
use tempfile::TempDir;

use made_up::{MadeUpRelease, TARGET, is_executable};
use server::{DownloadFault, ReleaseServer};

/// A user with an empty home.
struct ScriptUser {
    home: TempDir,
    /// The `PATH` of this user.
    path: String,
}

impl ScriptUser {
    fn new() -> Self {
        let path = env::var("PATH").expect("a PATH");
        Self { home: TempDir::new().expect("a home"), path }
    }

    fn prefix(&self) -> PathBuf {
        self.home.path().join(".local")
    }

    fn program(&self) -> PathBuf {
        self.prefix().join("bin/ikigai")
    }

    /// Runs a script with arguments.
    fn script(&self, script: &Path, args: &[&str]) -> Ran {
        let mut sh = Command::new("sh");
        sh.env_clear().env("HOME", self.home.path()).env("PATH", &self.path);
        Ran::from_command(sh.arg(script).args(args).current_dir(self.home.path()), b"")
    }

    /// Installs a release from its directory.
    fn install(&self, release: &MadeUpRelease, args: &[&str]) -> Ran {
        let from = release.path().to_str().expect("UTF-8");
        let fixed = ["--from", from, "--target", TARGET];
        self.script(&release.script(), &[&fixed, args].concat())
    }

    /// Installs a release from a server.
    fn download(&self, release: &MadeUpRelease, server: &ReleaseServer, args: &[&str]) -> Ran {
        let url = server.url();
        let fixed = ["--from", url.as_str(), "--target", TARGET];
        self.script(&release.script(), &[&fixed, args].concat())
    }

    /// Returns the version that the installed program prints.
    fn version(&self) -> String {
        let ran = Ran::from_command(&mut Command::new(self.program()), b"").expect_code(0);
        ran.stdout().trim().to_owned()
    }

    /// Returns the paths below the prefix, without directories.
    fn files(&self) -> BTreeSet<String> {
        let mut find = Command::new("find");
        find.arg(self.prefix()).args(["!", "-type", "d", "-printf", "%P\n"]);
        Ran::from_command(&mut find, b"").stdout().lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn assert_nothing_installed(&self) {
        assert_eq!(self.files(), BTreeSet::new());
    }
}

/// Asserts that a run failed with this text in its message.
#[track_caller]
fn assert_refused(ran: &Ran, text: &str) {
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains(text), "expected `{text}`\n{ran}");
}

#[test]
fn a_release_is_installed_and_removed() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let data = user.home.path().join(".ikigai/policy.toml");
    fs::create_dir_all(data.parent().expect("a parent")).expect("a directory");
    fs::write(&data, "kept").expect("written");

    let ran = user.install(&release, &[]).expect_code(0);
    assert_eq!(user.version(), "ikigai 1.2.3");
    assert!(is_executable(&user.program()));
    let manual = user.prefix().join("share/man/man1/ikigai.1");
    assert_eq!(fs::read_to_string(manual).expect("a manual page"), "1.2.3");

    let stderr = ran.stderr();
    let remove = stderr.lines().find_map(|line| line.strip_prefix("To remove it: sh "));
    let words: Vec<&str> = remove.expect("the command that removes").split(' ').collect();
    user.script(Path::new(words[0]), &words[1..]).expect_code(0);
    user.assert_nothing_installed();
    assert_eq!(fs::read_to_string(data).expect("read"), "kept");
}

#[test]
fn the_same_version_is_installed_once() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    user.install(&release, &[]).expect_code(0);
    let before = user.files();
    let ran = user.install(&release, &[]).expect_code(0);
    assert!(ran.stderr().contains("is installed already"), "{ran}");
    let ran = user.install(&release, &["--force"]).expect_code(0);
    assert!(ran.stderr().contains("Installed"), "{ran}");
    assert_eq!(user.files(), before);
}

#[test]
fn an_upgrade_leaves_a_running_program_its_files() {
    let (user, old) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    user.install(&old, &[]).expect_code(0);
    let directory = user.prefix().join("lib/ikigai/1.2.3");
    let mut server = Command::new(directory.join("bin/server")).arg("600").spawn().expect("begun");

    let new = MadeUpRelease::new("1.10.0");
    let ran = user.install(&new, &[]).expect_code(0);
    assert!(ran.stderr().contains("1.2.3 stays"), "{ran}");
    assert_eq!(user.version(), "ikigai 1.10.0");
    assert!(directory.join("bin/server").exists());
    let refused = user.script(&new.script(), &["--uninstall"]);
    assert_refused(&refused, "quit your MCP clients");

    server.kill().expect("ended");
    server.wait().expect("an end");
    user.install(&new, &["--force"]).expect_code(0);
    assert!(!directory.exists(), "no process runs it any more");
}

#[test]
fn an_older_version_needs_force() {
    let (user, new) = (ScriptUser::new(), MadeUpRelease::new("1.10.0"));
    user.install(&new, &[]).expect_code(0);
    for old in ["1.9.0", "1.10.0-rc.1"] {
        let old = MadeUpRelease::new(old);
        assert_refused(&user.install(&old, &[]), "the newer version 1.10.0 is installed");
    }
    let old = MadeUpRelease::new("1.9.0");
    user.install(&old, &["--force"]).expect_code(0);
    assert_eq!(user.version(), "ikigai 1.9.0");
}

#[test]
fn another_program_of_this_name_needs_force() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    fs::create_dir_all(user.prefix().join("bin")).expect("a directory");
    fs::write(user.program(), "other").expect("written");
    assert_refused(&user.install(&release, &[]), "was not installed by this script");
    assert_refused(&user.script(&release.script(), &["--uninstall"]), "was not installed");
    assert_eq!(fs::read_to_string(user.program()).expect("read"), "other");
    user.install(&release, &["--force"]).expect_code(0);
    assert_eq!(user.version(), "ikigai 1.2.3");
}

/// The programs that download, each in a `PATH` without the others.
fn clients() -> Vec<(&'static str, ScriptUser, TempDir)> {
    const OTHERS: [&str; 20] = [
        "cat",
        "cp",
        "find",
        "getconf",
        "grep",
        "gzip",
        "head",
        "ln",
        "mkdir",
        "mv",
        "readlink",
        "rm",
        "rmdir",
        "sed",
        "sh",
        "sha256sum",
        "tail",
        "tar",
        "tr",
        "wc",
    ];
    let mut clients = Vec::new();
    for (name, program) in [("curl", "curl"), ("wget", "wget"), ("wget", "busybox")] {
        let Some(found) = which(program) else {
            left_out::<()>("install.sh", program);
            continue;
        };
        let programs = TempDir::new().expect("a directory");
        symlink(found, programs.path().join(name)).expect("a link");
        for other in OTHERS {
            let found = which(other).unwrap_or_else(|| panic!("`{other}` is missing"));
            symlink(found, programs.path().join(other)).expect("a link");
        }
        let mut user = ScriptUser::new();
        user.path = programs.path().to_str().expect("UTF-8").to_owned();
        clients.push((program, user, programs));
    }
    clients
}

fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[test]
fn every_client_downloads() {
    for (client, user, _programs) in clients() {
        let release = MadeUpRelease::new("1.2.3");
        let server = ReleaseServer::start(release.path(), DownloadFault::None);
        let ran = user.download(&release, &server, &[]);
        assert_eq!(ran.code(), Some(0), "{client}\n{ran}");
        assert_eq!(user.version(), "ikigai 1.2.3");
    }
}

#[test]
fn a_bad_download_changes_nothing() {
    let cases = [
        (DownloadFault::CutOff, "cut off"),
        (DownloadFault::Endless, "larger than announced"),
        (DownloadFault::OtherHost, "refusing a redirect to another host: `localhost"),
    ];
    for (client, user, _programs) in clients() {
        for (fault, message) in cases {
            let release = MadeUpRelease::new("1.2.3");
            let server = ReleaseServer::start(release.path(), fault);
            let ran = user.download(&release, &server, &[]);
            assert!(ran.stderr().contains(message), "{client}, {fault:?}\n{ran}");
            assert_eq!(ran.code(), Some(1), "{client}, {fault:?}\n{ran}");
            user.assert_nothing_installed();
        }
    }
}

#[test]
fn a_redirect_to_an_allowed_host_is_followed() {
    for (client, user, _programs) in clients() {
        let release = MadeUpRelease::new("1.2.3");
        let server = ReleaseServer::start(release.path(), DownloadFault::OtherHost);
        let host = server.other_host();
        let ran = user.download(&release, &server, &["--redirect-host", &host]);
        assert_eq!(ran.code(), Some(0), "{client}\n{ran}");
    }
}

#[test]
fn only_this_machine_may_answer_without_tls() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    for (url, message) in [
        ("http://example.org/release", "without https"),
        ("http://127.0.0.1.example.org/", "without https"),
        ("http://user@localhost/", "not a plain name"),
        ("ftp://localhost/", "invalid place"),
        ("relative", "invalid place"),
    ] {
        assert_refused(&user.script(&release.script(), &["--from", url]), message);
    }
    user.assert_nothing_installed();
}

#[test]
fn a_damaged_file_is_refused() {
    for name in ["SIZES", "archive"] {
        let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
        let archive = release.archive();
        release.damage(if name == "archive" { &archive } else { name });
        let message = if name == "archive" { "larger than announced" } else { "another digest" };
        assert_refused(&user.install(&release, &[]), message);
        user.assert_nothing_installed();
    }
}

#[test]
fn a_signature_of_another_key_is_refused() {
    if which("ssh-keygen").is_none() {
        left_out::<()>("the signature of a release", "ssh-keygen");
        return;
    }
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    release.sign();
    user.install(&release, &["--require-signature"]).expect_code(0);

    let user = ScriptUser::new();
    release.sign_by_another();
    assert_refused(&user.install(&release, &[]), "is not signed with the key of this release");
    fs::remove_file(release.path().join("SHA256SUMS.sig")).expect("removed");
    assert_refused(&user.install(&release, &[]), "the release is not signed");
    user.assert_nothing_installed();
}

#[test]
fn a_release_without_a_key_is_reported() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let ran = user.install(&release, &["--require-signature"]);
    assert_refused(&ran, "contains no public key");
    let ran = user.install(&release, &[]).expect_code(0);
    assert!(ran.stderr().contains("the signature is not checked"), "{ran}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    // Even an administrator cannot make a directory there.
    let ran = user.install(&release, &["--prefix", "/proc/ikigai"]);
    assert_refused(&ran, "cannot write to `/proc/ikigai/lib/ikigai`");
}

#[test]
fn a_full_disk_is_reported() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let (prefix, from) = (user.prefix(), release.path().to_str().expect("UTF-8").to_owned());
    fs::create_dir(&prefix).expect("a directory");
    let commands = "mount -t tmpfs -o size=32k tmpfs \"$1\" && shift && exec sh \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", commands, "sh"]);
    unshare.arg(&prefix).arg(release.script()).args(["--from", &from, "--target", TARGET]);
    let ran = Ran::from_command(unshare.env("HOME", user.home.path()), b"");
    if ran.stderr().contains("unshare") || ran.stderr().contains("mount:") {
        return impossible_here("a full disk for install.sh needs a user namespace");
    }
    assert_refused(&ran, "full?");
}

#[test]
fn two_installations_do_not_meet() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let lib = user.prefix().join("lib/ikigai");
    fs::create_dir_all(&lib).expect("a directory");
    symlink(id().to_string(), lib.join(".lock")).expect("a lock");
    assert_refused(&user.install(&release, &[]), &format!("process {} installs into", id()));

    // The lock of a process that was killed, and the directory that it left.
    let mut killed = Command::new("true").stdout(Stdio::null()).spawn().expect("begun");
    killed.wait().expect("an end");
    fs::remove_file(lib.join(".lock")).expect("removed");
    symlink(killed.id().to_string(), lib.join(".lock")).expect("a lock");
    fs::create_dir(lib.join(".draft.1")).expect("a directory");
    user.install(&release, &[]).expect_code(0);
    let names: Vec<_> =
        fs::read_dir(&lib).expect("listed").flatten().map(|it| it.file_name()).collect();
    assert_eq!(names, ["1.2.3"]);
}

#[test]
fn an_old_glibc_gets_the_static_build() {
    let (mut user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let programs = TempDir::new().expect("a directory");
    for (name, answer) in [("getconf", "glibc 2.17"), ("uname", "x86_64")] {
        let program = programs.path().join(name);
        // `uname -s` asks for the system.
        let script = format!("#!/bin/sh\n[ \"$1\" != -s ] && echo {answer} || echo Linux\n");
        fs::write(&program, script).expect("written");
        ikigai_tests::mode::permit(&program, 0o755);
    }
    user.path = format!("{}:{}", programs.path().display(), user.path);
    let from = release.path().to_str().expect("UTF-8");
    let ran = user.script(&release.script(), &["--from", from]);
    assert_refused(&ran, "the release has no build for x86_64-unknown-linux-musl");
}

#[test]
fn a_script_that_was_cut_off_does_nothing() {
    let (user, release) = (ScriptUser::new(), MadeUpRelease::new("1.2.3"));
    let script = fs::read(release.script()).expect("the script");
    let cut = user.home.path().join("cut.sh");
    for part in 1..20 {
        fs::write(&cut, &script[..script.len() * part / 20]).expect("written");
        let from = release.path().to_str().expect("UTF-8");
        user.script(&cut, &["--from", from, "--target", TARGET]);
        user.assert_nothing_installed();
    }
}
