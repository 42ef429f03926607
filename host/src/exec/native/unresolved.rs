//! The names that a program without a network could not look up, by the messages of common
//! programs.
//!
//! Such a program has no socket, so the host never sees the name: the program's message is the only
//! trace. The port comes from a URL in the arguments or in an output. A peer from here is proposed
//! to the user and grants nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use url::{Host, Url};

use crate::exec::net::parse_host;
use crate::policy::RequestedAccess;

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

/// The port of SSH, which the URL parser does not know.
const SSH: u16 = 22;

/// Returns the peers that a program with these arguments and outputs could not look up. Without a port, each
/// port of the name is meant.
pub(in crate::exec) fn peers(outputs: [&[u8]; 2], arguments: &[u8]) -> Vec<RequestedAccess> {
    let names = names(outputs);
    if names.is_empty() {
        return Vec::new();
    }
    let texts = [outputs[0], outputs[1], arguments].map(end);
    let urls: Vec<Url> = texts.iter().flat_map(|text| urls(text)).collect();
    let of_name = |host: String| {
        let mut ports: BTreeSet<u16> = urls
            .iter()
            .filter(|url| url.host_str().is_some_and(|own| own.eq_ignore_ascii_case(&host)))
            .filter_map(port)
            .collect();
        ports.extend(texts.iter().flat_map(|text| pooled_ports(text, &host)));
        match ports.is_empty() {
            true => vec![RequestedAccess::Host { host }],
            false => {
                let peer = |port| RequestedAccess::Peer { host: host.clone(), port };
                ports.into_iter().take(NAMES).map(peer).collect()
            }
        }
    };
    names.into_iter().flat_map(of_name).collect()
}

/// Returns the end of an output as text.
pub(super) fn end(output: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&output[output.len().saturating_sub(SEARCHED)..])
}

/// Returns the URLs in a text.
fn urls(text: &str) -> Vec<Url> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_behind = |c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>' | '(' | ')' | ',' | ';' | '|')
    };
    let found = text.match_indices("://").filter_map(|(at, mark)| {
        let start = text[..at].trim_end_matches(is_of_scheme).len();
        let rest = &text[at + mark.len()..];
        let end = at + mark.len() + rest.find(is_behind).unwrap_or(rest.len());
        Url::parse(text[start..end].trim_end_matches(['.', ':'])).ok()
    });
    found.collect()
}

fn port(url: &Url) -> Option<u16> {
    url.port_or_known_default().or_else(|| (url.scheme() == "ssh").then_some(SSH))
}

/// Returns the ports that urllib3 prints together with a host.
fn pooled_ports(text: &str, host: &str) -> Vec<u16> {
    let before = format!("host='{host}', port=");
    let found = text.match_indices(before.as_str()).filter_map(|(at, before)| {
        let rest = &text[at + before.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u16>().ok()
    });
    found.collect()
}

/// Returns the names in the outputs of a program.
fn names(outputs: [&[u8]; 2]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for output in outputs {
        let text = end(output);
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
        // The message may come from the tool. A name that begins like a flag would be one in the
        // command that is proposed.
        Host::Domain(name) => name.split('.').all(is_label).then_some(name),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Returns whether a part of a name begins and ends as that of a host does.
fn is_label(label: &str) -> bool {
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_a_url_with_the_name() {
        let curl = "curl: (6) Could not resolve host: a.test";
        let peer = |port| RequestedAccess::Peer { host: "a.test".to_owned(), port };
        let any = || RequestedAccess::Host { host: "a.test".to_owned() };
        for (output, arguments, expected) in [
            (curl, r#"{"command":"curl https://a.test"}"#, vec![peer(443)]),
            (curl, r#"{"command":"curl -s 'http://me:pw@A.test:8080/x?y'"}"#, vec![peer(8080)]),
            (curl, r#"{"command":"git fetch ssh://git@a.test/x.git"}"#, vec![peer(22)]),
            (
                curl,
                r#"{"command":"curl http://a.test https://a.test."}"#,
                vec![peer(80), peer(443)],
            ),
            (curl, r#"{"command":"curl a.test"}"#, vec![any()]),
            (curl, r#"{"command":"curl https://b.test:1 x://a.test"}"#, vec![any()]),
            (
                "unable to access 'https://a.test/x/': Could not resolve host: a.test",
                "",
                vec![peer(443)],
            ),
            ("HTTPSConnectionPool(host='a.test', port=8443): Max retries", "", vec![peer(8443)]),
            ("nothing of a name", "https://a.test", vec![]),
        ] {
            assert_eq!(
                peers([output.as_bytes(), b""], arguments.as_bytes()),
                expected,
                "{output} {arguments}"
            );
        }
    }

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
        for name in ["--unconfined", "-a.test", "a.-b.test", "a-.test", "a..test"] {
            let message = format!("curl: (6) Could not resolve host: {name}\n");
            assert_eq!(names([message.as_bytes(), b""]), [] as [&str; 0], "{name}");
        }
        let many: String =
            (0..20).map(|n| format!("Could not resolve host: n{n}.test\n")).collect();
        assert_eq!(names([many.as_bytes(), many.as_bytes()]).len(), NAMES);
    }
}
