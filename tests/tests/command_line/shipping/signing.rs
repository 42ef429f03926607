//! Keys of ssh and minisign that are made for a test, and signatures with them.

use std::fs;
use std::path::Path;
use std::process::Command;

use ikigai_packages::signature::{MinisignKey, SignerKey, SshKey};
use ikigai_tests::host::{Host, Ran};

use crate::shipping::scene::*;

/// If this variable is set, a missing signing program is a failure.
const REQUIRED: &str = "IKIGAI_REQUIRE_SIGNERS";

/// A key that signs tools.
pub(crate) struct Signer {
    program: &'static str,
    name: &'static str,
    /// The public key, as a policy names it.
    pub(crate) public: String,
    /// The signer, as a lock names it.
    pub(crate) text: String,
}

impl Signer {
    /// Makes an ssh key, beneath the directory of a host.
    pub(crate) fn ssh(host: &Host, name: &'static str) -> Option<Self> {
        let program = program("ssh-keygen", REQUIRED)?;
        run(host, program, &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]);
        let public = read(host, &format!("{name}.pub")).trim().to_owned();
        let text = SignerKey::Ssh(SshKey::parse(&public).expect("a key")).signer().to_string();
        Some(Self { program, name, public, text })
    }

    /// Makes a minisign key.
    pub(crate) fn minisign(host: &Host, name: &'static str) -> Option<Self> {
        let program = program("minisign", REQUIRED)?;
        let (public, secret) = (format!("{name}.pub"), format!("{name}.key"));
        run(host, program, &["-G", "-W", "-f", "-p", &public, "-s", &secret]);
        let whole = read(host, &public);
        let public = whole.lines().nth(1).expect("a line").to_owned();
        let text =
            SignerKey::Minisign(MinisignKey::parse(&public).expect("a key")).signer().to_string();
        Some(Self { program, name, public, text })
    }

    /// Signs a file, and returns the signature without writing it to a file.
    pub(crate) fn sign(&self, host: &Host, file: &[u8]) -> Vec<u8> {
        self.sign_for(host, file, "ikigai-tool")
    }

    /// Signs a file for another purpose.
    pub(crate) fn sign_for(&self, host: &Host, file: &[u8], namespace: &str) -> Vec<u8> {
        host.write("keys/file", file, 0o644);
        let (suffix, secret) = match self.program {
            "minisign" => ("minisig", format!("{}.key", self.name)),
            _ => ("sig", self.name.to_owned()),
        };
        match self.program {
            "minisign" => run(host, self.program, &["-S", "-s", &secret, "-m", "file"]),
            _ => run(
                host,
                self.program,
                &["-q", "-Y", "sign", "-f", &secret, "-n", namespace, "file"],
            ),
        };
        let path = host.scratch().join(format!("keys/file.{suffix}"));
        let signature = fs::read(&path).expect("a signature");
        fs::remove_file(path).expect("removed");
        signature
    }

    /// Signs the file at a path, and writes the signature next to it.
    pub(crate) fn sign_beside(&self, host: &Host, path: &Path) {
        let signature = self.sign(host, &fs::read(path).expect("a file"));
        let suffix = if self.program == "minisign" { "minisig" } else { "sig" };
        fs::write(format!("{}.{suffix}", path.display()), signature).expect("written");
    }

    /// Returns the policy table that names the signer, with further lines.
    pub(crate) fn table(&self, lines: &str) -> String {
        let kind = if self.program == "minisign" { "minisign" } else { "ssh" };
        format!("[signers.{}]\n{kind} = \"{}\"\n{lines}\n", self.name, self.public)
    }
}

fn read(host: &Host, name: &str) -> String {
    fs::read_to_string(host.scratch().join("keys").join(name)).expect(name)
}

/// Runs a signing program in the directory of keys.
pub(crate) fn run(host: &Host, program: &str, arguments: &[&str]) {
    let keys = host.scratch().join("keys");
    fs::create_dir_all(&keys).expect("a directory");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&keys).env("HOME", &keys).env_remove("SSH_AUTH_SOCK");
    let _ = Ran::from_command(&mut command, b"").expect_code(0);
}
