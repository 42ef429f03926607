//! Releases that a test makes up: a program that prints its version, in the layout of an archive.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use tempfile::TempDir;

pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A release without a signature, until [`sign`](Self::sign) adds one.
pub(crate) struct MadeUpRelease {
    files: TempDir,
    version: &'static str,
}

impl MadeUpRelease {
    pub(crate) fn new(version: &'static str) -> Self {
        let files = TempDir::new().expect("a directory");
        let root = format!("ikigai-{version}-{TARGET}");
        let place = files.path().join(&root);
        let put = |path: &str, text: &str, mode| {
            let path = place.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(&path, text).expect("written");
            permit(&path, mode);
        };
        put("bin/ikigai", &format!("#!/bin/sh\necho ikigai {version}\n"), 0o755);
        put("share/man/man1/ikigai.1", version, 0o644);
        put("share/man/man1/ikigai-of.1", version, 0o644);
        put("share/bash-completion/completions/ikigai", version, 0o644);
        fs::create_dir_all(place.join("share/ikigai")).expect("a directory");
        fs::copy(Self::source(), place.join("share/ikigai/install.sh")).expect("copied");
        // A program of the release that runs for a while.
        let sleep = fs::canonicalize("/bin/sleep").expect("sleep");
        fs::copy(sleep, place.join("bin/server")).expect("copied");
        let release = Self { files, version };
        release.run("tar", &["-czf", &format!("{root}.tar.gz"), &root]);
        fs::remove_dir_all(place).expect("removed");
        release.fill("", "");
        release.list();
        release
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }

    pub(crate) fn archive(&self) -> String {
        format!("ikigai-{}-{TARGET}.tar.gz", self.version)
    }

    pub(crate) fn script(&self) -> PathBuf {
        self.path().join("install.sh")
    }

    /// Signs the list of digests, and puts the public key into the script.
    pub(crate) fn sign(&self) {
        self.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key"]);
        self.sign_with("key");
        let public = fs::read_to_string(self.path().join("key.pub")).expect("the public key");
        self.fill(public.trim(), "ikigai-release");
        for name in ["key", "key.pub"] {
            fs::remove_file(self.path().join(name)).expect("removed");
        }
    }

    /// Signs the list of digests with a key whose public half the script does not contain.
    pub(crate) fn sign_by_another(&self) {
        fs::remove_file(self.path().join("SHA256SUMS.sig")).expect("removed");
        self.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "another"]);
        self.sign_with("another");
    }

    fn sign_with(&self, key: &str) {
        let purpose = "ikigai-release";
        self.run("ssh-keygen", &["-q", "-Y", "sign", "-n", purpose, "-f", key, "SHA256SUMS"]);
    }

    /// Writes the lists of sizes and digests.
    fn list(&self) {
        let archive = self.archive();
        let size = fs::metadata(self.path().join(&archive)).expect("the archive").len();
        fs::write(self.path().join("SIZES"), format!("{size}  {archive}\n")).expect("written");
        let sums = self.run("sha256sum", &["SIZES", &archive]);
        fs::write(self.path().join("SHA256SUMS"), sums).expect("written");
    }

    /// Appends to a file of the release after it was listed.
    pub(crate) fn damage(&self, name: &str) {
        let file = File::options().append(true).open(self.path().join(name));
        file.and_then(|mut file| file.write_all(b"x")).expect("written");
    }

    /// Puts this release's values into the script, as `cargo xtask dist` does.
    fn fill(&self, ssh_key: &str, namespace: &str) {
        let mut script = fs::read_to_string(Self::source()).expect("the script");
        for (name, value) in [
            ("release_version", self.version),
            ("release_ssh_key", ssh_key),
            ("release_namespace", namespace),
        ] {
            let line = format!("\n{name}=''\n");
            assert!(script.contains(&line), "{name}");
            script = script.replace(&line, &format!("\n{name}='{value}'\n"));
        }
        fs::write(self.script(), script).expect("written");
    }

    fn source() -> PathBuf {
        paths::repository().join("etc/install.sh")
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = Command::new(program);
        let command = command.args(args).current_dir(self.path()).env_remove("SSH_AUTH_SOCK");
        Ran::from_command(command, b"").expect_code(0).stdout()
    }
}

/// Returns whether anybody may execute a file.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}
