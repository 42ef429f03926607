//! Signatures of `ssh-keygen` and `minisign`, with keys that are made for the test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ikigai_packages::Signer;
use ikigai_packages::signature::{
    MinisignKey, Payload, PublicKeyError, Signature, SignatureError, SignatureKind, SignerKey,
    SigstoreRoot, SshKey, beside,
};
use tempfile::TempDir;

/// If this variable is `1`, a missing program is a failure. It is for CI, which would not notice
/// skipped tests.
const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_SIGNERS";

const FILE: &[u8] = b"\0asm and the rest of a tool";

/// A directory with a file, in which a program signs.
struct Desk {
    program: &'static str,
    directory: TempDir,
}

impl Desk {
    /// Returns `None` and reports it if the program is missing.
    fn new(program: &'static str) -> Option<Self> {
        let is_there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file());
        if !is_there {
            left_out(program);
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("tool.wasm"), FILE).expect("the file");
        Some(Self { program, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    #[allow(clippy::disallowed_methods, reason = "the programs that sign are the test")]
    fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> String {
        let output = Command::new(self.program)
            .args(arguments)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .output()
            .expect(self.program);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Makes a key `NAME` and returns the public key for a policy.
    fn ssh_key(&self, name: &str, arguments: &[&str]) -> SshKey {
        self.run([&["-q", "-N", "", "-f", name], arguments].concat());
        SshKey::parse(&self.read(&format!("{name}.pub"))).expect("a key")
    }

    /// Signs the file, and returns the signature that was written next to it.
    fn ssh_signature(&self, key: &str, arguments: &[&str]) -> Vec<u8> {
        let path = self.path("tool.wasm.sig");
        if path.exists() {
            fs::remove_file(&path).expect("an old signature");
        }
        self.run([&["-q", "-Y", "sign", "-f", key], arguments, &["tool.wasm"]].concat());
        fs::read(path).expect("a signature")
    }
}

/// Reports that a test was skipped.
fn left_out(program: &str) {
    let is_required = std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
    assert!(!is_required, "`{program}` is missing, and `{REQUIRE_VARIABLE}` asks for it");
    let line = format!("signatures of `{program}` need `{program}`");
    #[expect(clippy::print_stderr, reason = "the only way to say that a test did nothing")]
    {
        eprintln!("left out: {line}");
    }
    let Some(path) = std::env::var_os("IKIGAI_TEST_LEFT_OUT") else { return };
    let file = File::options().append(true).create(true).open(path);
    // One write, so that the lines of concurrent tests do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.expect("the report of what was left out");
}

fn verdict(bytes: &[u8], file: &[u8], keys: &[&SignerKey]) -> Result<Signer, SignatureError> {
    let root = SigstoreRoot::compiled_in().expect("a root");
    let signed = Signature::parse(bytes)?.verify(Payload::of_tool(file, None), keys, &root)?;
    Ok(signed.signer)
}

#[test]
fn signatures_of_ssh_keygen_name_the_key_as_ssh_keygen_does() {
    let Some(desk) = Desk::new("ssh-keygen") else { return };
    for arguments in [
        &["-t", "ed25519"][..],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "rsa", "-b", "2048"],
    ] {
        let name = arguments.concat();
        let key = desk.ssh_key(&name, arguments);
        let listed = desk.run(["-l", "-f", &format!("{name}.pub")]);
        let fingerprint = listed.split_whitespace().nth(1).expect("a fingerprint");
        assert_eq!(key.signer().to_string(), format!("ssh:{fingerprint}"));
        for hash in ["hashalg=sha256", "hashalg=sha512"] {
            let signature = desk.ssh_signature(&name, &["-n", "ikigai-tool", "-O", hash]);
            assert_eq!(SignatureKind::from_bytes(&signature), Some(SignatureKind::Ssh));
            assert_eq!(verdict(&signature, FILE, &[]).expect(&name), key.signer());
            let error = verdict(&signature, b"another", &[]).expect_err("another file");
            assert!(matches!(error, SignatureError::Bad { .. }), "{error}");
        }
    }
    assert!(beside(&desk.path("tool.wasm"))[0].is_file(), "`ssh-keygen` names it so as well");
}

#[test]
fn what_ssh_keygen_makes_for_other_ends_is_refused() {
    let Some(desk) = Desk::new("ssh-keygen") else { return };
    desk.ssh_key("key", &["-t", "ed25519"]);
    let error = verdict(&desk.ssh_signature("key", &["-n", "file"]), FILE, &[]);
    assert!(matches!(error, Err(SignatureError::Namespace { .. })), "{error:?}");

    desk.run(["-q", "-s", "key", "-I", "id", "-n", "somebody", "key.pub"]);
    let error = SshKey::parse(&desk.read("key-cert.pub"));
    assert!(matches!(error, Err(PublicKeyError::Certificate(_))), "{error:?}");
    let error = SshKey::parse(&desk.read("key"));
    assert!(matches!(error, Err(PublicKeyError::Private)), "{error:?}");

    desk.run(["-q", "-N", "", "-f", "p521", "-t", "ecdsa", "-b", "521"]);
    let error = verdict(&desk.ssh_signature("p521", &["-n", "ikigai-tool"]), FILE, &[]);
    assert!(matches!(error, Err(SignatureError::Key(PublicKeyError::Type(_)))), "{error:?}");
}

#[test]
fn signatures_of_minisign_verify_with_the_key_that_they_name() {
    let Some(desk) = Desk::new("minisign") else { return };
    let make = |name: &str| {
        let (public, secret) = (format!("{name}.pub"), format!("{name}.key"));
        desk.run(["-G", "-W", "-f", "-p", &public, "-s", &secret]);
        SignerKey::Minisign(MinisignKey::parse(&desk.read(&public)).expect("a key"))
    };
    let (key, other) = (make("a"), make("b"));
    let public = desk.read("a.pub");
    let line = public.lines().nth(1).expect("a line");
    assert_eq!(MinisignKey::parse(line).map(SignerKey::Minisign).expect("a key"), key);
    // The comment that minisign writes contains the id, without leading zeros.
    let id = public.lines().next().and_then(|line| line.split(' ').next_back()).expect("an id");
    assert_eq!(key.signer().to_string(), format!("minisign:{id:0>16}"));
    assert!(matches!(MinisignKey::parse(&desk.read("a.key")), Err(PublicKeyError::Private)));

    desk.run(["-S", "-s", "a.key", "-m", "tool.wasm", "-t", "weather 1.2.0"]);
    let path = beside(&desk.path("tool.wasm")).swap_remove(1);
    let signature = fs::read_to_string(path).expect("a signature");
    assert_eq!(SignatureKind::from_bytes(signature.as_bytes()), Some(SignatureKind::Minisign));
    let verdict = |text: &str, file, keys: &[&SignerKey]| verdict(text.as_bytes(), file, keys);
    assert_eq!(verdict(&signature, FILE, &[&other, &key]).expect("signed"), key.signer());

    let error = verdict(&signature, FILE, &[&other]).expect_err("an unknown key");
    assert!(matches!(error, SignatureError::UnknownKey { .. }), "{error}");
    assert!(error.to_string().contains(id), "{error}");
    let comment = signature.replace("weather 1.2.0", "weather 9.9.9");
    assert_ne!(comment, signature);
    for (text, file) in [(&signature, &b"another"[..]), (&comment, FILE)] {
        let error = verdict(text, file, &[&key]).expect_err("changed");
        assert!(matches!(error, SignatureError::Bad { .. }), "{error}");
    }
    let lines: Vec<&str> = signature.lines().collect();
    for text in [lines[..3].join("\n"), format!("{signature}more\n"), lines.join("\n\n")] {
        let error = verdict(&text, FILE, &[&key]).expect_err("cut or more");
        assert!(matches!(error, SignatureError::Malformed { .. }), "{error}");
    }

    desk.run(["-S", "-l", "-s", "a.key", "-m", "tool.wasm"]);
    let legacy = desk.read("tool.wasm.minisig");
    let error = verdict(&legacy, FILE, &[&key]).expect_err("the older way");
    assert!(error.to_string().contains("sign again with a newer minisign"), "{error}");
}
