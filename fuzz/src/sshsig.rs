//! Signatures of OpenSSH over tools.

use std::sync::LazyLock;

use ikigai_supply::signature::{Payload, Root, Signature};

/// A file that no signature of the corpus is over.
const FILE: &[u8] = b"nobody signed this";

static ROOT: LazyLock<Root> = LazyLock::new(|| Root::compiled_in().expect("a root"));

/// No bytes are a signature over a file that nobody signed, and each refusal is one line.
pub(crate) fn run(data: &[u8]) {
    // The other formats have parsers of their own, which their authors test.
    let armoured = [b"-----BEGIN SSH SIGNATURE-----", data].concat();
    for bytes in [data, &armoured] {
        if !bytes.starts_with(b"-----BEGIN SSH") {
            continue;
        }
        let payload = Payload { file: FILE, manifest: None };
        let verdict = Signature::parse(bytes).and_then(|read| read.verify(payload, &[], &ROOT));
        let error = verdict.expect_err("nobody signed the file").to_string();
        assert!(!error.contains('\n'), "{error:?}");
    }
}
