//! `ikigai doctor --verify`: a downloaded file of a release, the list of digests and its signature.

use std::fs;
use std::path::PathBuf;

use ikigai_protocol::Digest;
use ikigai_tests::host::{Host, Ran};
use serde_json::json;

use crate::shipping::signing::Signer;

const NAME: &str = "ikigai-0.2.0-x86_64-unknown-linux-gnu.tar.gz";
const CONTENT: &[u8] = b"an archive\n";

/// The namespace of a release's ssh signature.
const NAMESPACE: &str = "ikigai-release";

/// Writes a release below a host's directory, and returns its file.
fn release(host: &Host) -> PathBuf {
    let sizes = format!("{}  {NAME}\n", CONTENT.len());
    let digests = [sizes.as_bytes(), CONTENT].map(Digest::from_bytes);
    host.write("release/SIZES", sizes, 0o644);
    let sums = format!("{}  SIZES\n{}  {NAME}\n", digests[0], digests[1]);
    host.write("release/SHA256SUMS", sums, 0o644);
    host.write(format!("release/{NAME}"), CONTENT, 0o644)
}

/// Signs the list of digests for a purpose, and writes the signature next to it.
fn sign(host: &Host, signer: &Signer, suffix: &str, namespace: &str) {
    let sums = fs::read(host.scratch().join("release/SHA256SUMS")).expect("the list");
    let signature = signer.sign_for(host, &sums, namespace);
    host.write(format!("release/SHA256SUMS.{suffix}"), signature, 0o644);
}

fn verify(host: &Host, args: &[&str]) -> Ran {
    let file = host.scratch().join("release").join(NAME);
    let file = file.to_str().expect("UTF-8");
    host.run([&["doctor", "--verify", file][..], args].concat())
}

/// Asserts that the output has these texts.
#[track_caller]
fn shows(ran: &Ran, texts: &[&str]) {
    for text in texts {
        assert!(ran.stdout().contains(text), "`{text}` is missing\n{ran}");
    }
}

#[test]
fn a_download_whose_list_is_signed_by_a_trusted_key_is_good() {
    let host = Host::without_system_tools();
    release(&host);
    let signers =
        [(Signer::ssh(&host, "ssh"), "sig"), (Signer::minisign(&host, "minisign"), "minisig")];
    for (signer, suffix) in signers {
        let Some(signer) = signer else { continue };
        sign(&host, &signer, suffix, NAMESPACE);
        let key_file = host.write("release.pub", format!("{}\n", signer.public), 0o644);
        for key in [&signer.public[..], key_file.to_str().expect("UTF-8")] {
            let ran = verify(&host, &["--key", key]).expect_code(0);
            shows(&ran, &["  ok    its digest is the one in `SHA256SUMS`: ", "of `--key`\n"]);
            assert!(!ran.stdout().contains("FAIL"), "{ran}");
        }
        host.write_policy(signer.table(""));
        let ran = verify(&host, &["--json"]).expect_code(0).json();
        assert_eq!(ran["good"], true);
        assert_eq!(ran["signer"], json!(signer.text));
        assert_eq!(ran["digest"], json!(Digest::from_bytes(CONTENT)));
        assert_eq!(ran["facts"].as_array().map(Vec::len), Some(2));

        host.write_policy(signer.table("tools = [\"weather\"]"));
        shows(&verify(&host, &[]).expect_code(1), &["may sign only `weather`", "  ok    its"]);
        host.write_policy("");
        let ran = verify(&host, &[]).expect_code(1);
        shows(&ran, &["nobody that you trust vouches for `SHA256SUMS`", &signer.text, "--key"]);
        fs::remove_file(host.scratch().join(format!("release/SHA256SUMS.{suffix}")))
            .expect("removed");
    }
    assert!(!host.state().exists(), "it only looks");
}

#[test]
fn a_download_that_differs_from_its_list_is_refused() {
    let host = Host::without_system_tools();
    let file = release(&host);
    shows(&verify(&host, &[]).expect_code(1), &["`SHA256SUMS` is not signed", "SHA256SUMS.sig"]);
    host.write(&file, &CONTENT[..4], 0o644);
    shows(&verify(&host, &[]).expect_code(1), &["FAIL  the file was cut: it has 4 of 11 bytes"]);
    host.write(&file, b"an Archive\n", 0o644);
    shows(&verify(&host, &[]).expect_code(1), &["FAIL  its digest is", "`SHA256SUMS` has"]);

    host.write("release/SHA256SUMS", "", 0o644);
    shows(&verify(&host, &[]).expect_code(1), &[&format!("does not list `{NAME}`")]);
    host.write("release/SHA256SUMS", "<html>\n", 0o644);
    let ran = verify(&host, &[]).expect_code(1);
    assert!(ran.stderr().contains("is not a list of digests: line 1"), "{ran}");
    let ran = verify(&host, &["--sums", "/nowhere/SHA256SUMS"]).expect_code(1);
    assert!(ran.stderr().contains("cannot read the list of digests"), "{ran}");
    assert!(ran.stderr().contains("hint: download `SHA256SUMS`"), "{ran}");
    fs::remove_file(file).expect("removed");
    let ran = verify(&host, &[]).expect_code(1);
    assert!(ran.stderr().contains("cannot read `"), "{ran}");
    for args in [["doctor", "--key", "KEY"], ["doctor", "--sums", "FILE"]] {
        let ran = host.run(args).expect_code(2);
        assert!(ran.stderr().contains("--verify"), "{ran}");
    }
}

#[test]
fn a_list_that_another_key_signed_is_refused() {
    let host = Host::without_system_tools();
    release(&host);
    let Some(signer) = Signer::ssh(&host, "ssh") else { return };
    let Some(other) = Signer::ssh(&host, "other") else { return };
    let by_key = |key: &Signer| verify(&host, &["--key", &key.public]);
    sign(&host, &other, "sig", NAMESPACE);
    by_key(&other).expect_code(0);
    let ran = by_key(&signer).expect_code(1);
    shows(&ran, &[&format!("it is by `{}`, and `--key` is `{}`", other.text, signer.text)]);
    sign(&host, &signer, "sig", "ikigai-tool");
    shows(&by_key(&signer).expect_code(1), &["namespace \"ikigai-tool\"", "-n ikigai-release"]);

    sign(&host, &signer, "sig", NAMESPACE);
    by_key(&signer).expect_code(0);
    let sums = host.scratch().join("release/SHA256SUMS");
    let changed = fs::read_to_string(&sums).expect("the list").replace("  SIZES", "  sizes");
    fs::write(&sums, changed).expect("written");
    shows(&by_key(&signer).expect_code(1), &["is bad: it is over another file"]);

    let ran = verify(&host, &["--key", "no-key"]).expect_code(2);
    assert!(ran.stderr().contains("`no-key` is neither a public key nor a file"), "{ran}");
}
