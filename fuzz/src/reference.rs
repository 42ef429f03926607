//! References to tools. Users copy them from web pages, and workspaces' locks contain them.

use ikigai_packages::reference::Reference;

/// Checks that a reference reads back from its text, or is refused in one line with a hint in one
/// line, neither with a character that would move a cursor.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Reference>() {
        Ok(reference) => {
            let text = reference.to_string();
            assert_eq!(text.parse::<Reference>().expect("what was written is read"), reference);
            if let Reference::Registry(registry) = reference {
                let place = registry.without_pointer();
                assert!(place.tag().is_none() && place.digest().is_none());
                assert!(registry.repository().ends_with(place.repository().as_str()));
            }
        }
        Err(error) => {
            for text in [error.to_string(), error.hint()] {
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    }
}
