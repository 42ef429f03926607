//! The names that a program without a network could not look up, by the messages of common programs.
//!
//! Such a program has no socket, so that the judge of the network never sees the name: what it printed is
//! the only trace. A name from here is proposed to a person and grants nothing.

use url::Host;

use crate::exec::net::parse_host;

/// The bytes at the end of an output that are searched.
const SEARCHED: usize = 64 << 10;

/// The most names of one call.
const NAMES: usize = 8;

/// The words before a name.
const BEFORE: [&str; 9] = [
    // curl, and with it git and cargo
    "Could not resolve host: ",
    // OpenSSH
    "Could not resolve hostname ",
    // apt
    "Could not resolve '",
    // wget
    "unable to resolve host address ",
    // Node.js, and with it npm
    "getaddrinfo EAI_AGAIN ",
    "getaddrinfo ENOTFOUND ",
    // urllib3, and with it pip
    "Failed to resolve '",
    "HTTPSConnectionPool(host='",
    // Go
    "dial tcp: lookup ",
];

/// Returns the names in the outputs of a program.
pub(super) fn names(outputs: [&[u8]; 2]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for output in outputs {
        let text = String::from_utf8_lossy(&output[output.len().saturating_sub(SEARCHED)..]);
        let found = BEFORE.iter().flat_map(|before| text.match_indices(before));
        for name in found.filter_map(|(at, before)| name(&text[at + before.len()..])) {
            if names.len() < NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the name at the beginning of a text, in quotes or not.
fn name(text: &str) -> Option<String> {
    let text = text.trim_start_matches(['\'', '"', '‘', '\\']);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    match parse_host(&text[..end])? {
        Host::Domain(name) => Some(name),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_common_messages_are_found() {
        for (message, expected) in [
            ("curl: (6) Could not resolve host: A.test", "a.test"),
            (
                "fatal: unable to access 'https://b.test/x/': Could not resolve host: b.test\n",
                "b.test",
            ),
            (
                "ssh: Could not resolve hostname c.test: Temporary failure in name resolution",
                "c.test",
            ),
            ("E: Failed to fetch http://d.test/x  Could not resolve 'd.test'", "d.test"),
            ("wget: unable to resolve host address ‘e.test’", "e.test"),
            (
                "npm error request to https://f.test failed, reason: getaddrinfo EAI_AGAIN f.test",
                "f.test",
            ),
            (r#"{"output":"Error: getaddrinfo ENOTFOUND g.test\n    at GetAddr"}"#, "g.test"),
            (
                "NameResolutionError(\"...: Failed to resolve 'h.test' ([Errno -3] Temporary",
                "h.test",
            ),
            ("HTTPSConnectionPool(host='i.test', port=443): Max retries exceeded", "i.test"),
            ("Get \"https://j.test/\": dial tcp: lookup j.test on 1.1.1.1:53: dial", "j.test"),
        ] {
            assert_eq!(names([message.as_bytes(), b""]), [expected], "{message}");
            assert_eq!(names([b"", message.as_bytes()]), [expected], "{message}");
        }
        for message in
            ["", "Could not resolve host: ", "Could not resolve host: 10.0.0.1", "k.test"]
        {
            assert_eq!(names([message.as_bytes(), b""]), [] as [&str; 0], "{message}");
        }
        let many: String =
            (0..20).map(|n| format!("Could not resolve host: n{n}.test\n")).collect();
        assert_eq!(names([many.as_bytes(), many.as_bytes()]).len(), NAMES);
    }
}
