//! OpenSSH signatures over tools.

use std::sync::LazyLock;

use ikigai_packages::signature::{Payload, Signature, SigstoreRoot};

/// A file for which the corpus has no signature.
const FILE: &[u8] = b"nobody signed this";

static ROOT: LazyLock<SigstoreRoot> =
    LazyLock::new(|| SigstoreRoot::compiled_in().expect("a root"));

/// Checks that no bytes count as a signature over this file, and that each refusal is one line.
pub(crate) fn run(data: &[u8]) {
    // The other formats have their own parsers, which their authors test.
    let armoured = [b"-----BEGIN SSH SIGNATURE-----", data].concat();
    for bytes in [data, &armoured] {
        if !bytes.starts_with(b"-----BEGIN SSH") {
            continue;
        }
        let payload = Payload::of_tool(FILE, None);
        let verdict = Signature::parse(bytes).and_then(|read| read.verify(payload, &[], &ROOT));
        let error = verdict.expect_err("nobody signed the file").to_string();
        assert!(!error.contains('\n'), "{error:?}");
    }
}
