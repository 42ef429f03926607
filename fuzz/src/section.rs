//! Tool files and the manifests in them, both from other authors.

use ikigai_packages::{DocumentError, Manifest, ManifestError, section};
use ikigai_protocol::is_invisible;

/// The smallest core module.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Takes the same bytes as a file and as the contents of its section.
pub(crate) fn run(data: &[u8]) {
    file(data);
    if let Ok(module) = section::write(MODULE, data) {
        assert_eq!(section::read(&module[..]).expect("read").as_deref(), Some(data));
        assert_eq!(section::remove(&module).expect("removed"), MODULE);
    }
    match Manifest::from_json(data) {
        Ok(manifest) => check_manifest(&manifest),
        Err(error) => check_refusal(&error),
    }
}

/// Checks that a file that can be read can be written, and that only its manifest changes.
fn file(data: &[u8]) {
    let found = section::read(data);
    match section::write(data, b"{}") {
        Ok(written) => {
            assert_eq!(section::read(&written[..]).expect("read").as_deref(), Some(&b"{}"[..]));
            let without = section::remove(data).expect("removed");
            assert!(written.starts_with(&without));
            assert_eq!(section::remove(&written).expect("removed"), without);
            if let Ok(None) = found {
                assert_eq!(without, data);
            }
        }
        Err(error) => assert!(found.is_err(), "{error}"),
    }
    match Manifest::of_file(data) {
        Ok(manifest) => manifest.iter().for_each(check_manifest),
        Err(ManifestError::Document(error)) => check_refusal(&error),
        Err(ManifestError::Section(error)) => assert!(!error.to_string().is_empty()),
    }
}

/// Checks that a manifest reads back with the same needs.
fn check_manifest(manifest: &Manifest) {
    let json = manifest.to_json();
    let again = Manifest::from_json(&json).expect("what was written is read");
    assert_eq!(&again, manifest);
    assert_eq!(again.needs.digest(), manifest.needs.digest());
    assert!(!again.needs.grown(&manifest.needs));
    for need in manifest.needs.iter() {
        assert!(!need.to_string().contains(char::is_control), "{need:?}");
        assert!(!need.why().is_some_and(|why| why.contains(char::is_control)), "{need:?}");
    }
}

/// Checks that a refusal reports the mistake, without deceptive characters.
pub(crate) fn check_refusal(error: &DocumentError) {
    assert!(!error.what.is_empty());
    let told = format!("{error}{}", error.hint.as_deref().unwrap_or_default());
    assert!(!told.contains(is_invisible), "{told:?}");
}
