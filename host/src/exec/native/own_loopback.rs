//! The ports on which a program in the sandbox found no server at the loopback, according to the
//! messages of common programs.
//!
//! The loopback there belongs to the call. A user who has a server on this machine sees only that
//! the connection was refused. A port from here goes into a hint and grants nothing.

use std::collections::BTreeSet;

use super::unresolved::end;

/// The most ports of one call.
const PORTS: usize = 4;

/// The words before an address.
const BEFORE: [&str; 4] = [
    // curl, and with it git
    "Failed to connect to ",
    // Node.js
    "connect ECONNREFUSED ",
    // Go
    "dial tcp ",
    // urllib3, and with it requests
    "ConnectionPool(host='",
];

/// The names and addresses of the loopback.
const LOOPBACK: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "::1"];

/// The words between an address and its port.
const BETWEEN: [&str; 3] = [" port ", ":", "', port="];

/// Returns the ports in the outputs of a program that failed.
pub(super) fn ports(outputs: [&[u8]; 2]) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    for output in outputs {
        let text = end(output);
        let found = BEFORE.iter().flat_map(|before| text.match_indices(before));
        let found = found.filter_map(|(at, before)| port(&text[at + before.len()..]));
        for port in found {
            if ports.len() < PORTS {
                ports.insert(port);
            }
        }
    }
    ports
}

/// Returns the port of the address at the beginning of a text, if it is a loopback address.
fn port(text: &str) -> Option<u16> {
    let text = LOOPBACK.iter().find_map(|host| text.strip_prefix(host))?;
    let text = BETWEEN.iter().find_map(|words| text.strip_prefix(words))?;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse::<u16>().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_common_messages_are_found() {
        for (message, expected) in [
            ("curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect", 1),
            ("fatal: Failed to connect to localhost port 8080: Connection refused", 8080),
            (
                r#"{"output":"Error: connect ECONNREFUSED ::1:3000\n    at TCP","exit_code":1}"#,
                3000,
            ),
            ("dial tcp [::1]:5432: connect: connection refused", 5432),
            ("HTTPConnectionPool(host='localhost', port=65535): Max retries exceeded", 65535),
        ] {
            assert_eq!(ports([message.as_bytes(), b""]), BTreeSet::from([expected]), "{message}");
            assert_eq!(ports([b"", message.as_bytes()]), BTreeSet::from([expected]), "{message}");
        }
        for message in [
            "",
            "Failed to connect to ",
            "Failed to connect to 10.0.0.1 port 80",
            "Failed to connect to localhost.test port 80",
            "Failed to connect to 127.0.0.1 port 65536",
            "dial tcp 127.0.0.1:0",
            "127.0.0.1:80",
        ] {
            assert_eq!(ports([message.as_bytes(), b""]), BTreeSet::new(), "{message}");
        }
        let many: String = (1..20).map(|port| format!("dial tcp ::1:{port}\n")).collect();
        assert_eq!(ports([many.as_bytes(), b""]).len(), PORTS);
    }
}
