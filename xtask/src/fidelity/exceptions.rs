//! The cases that fail, with the reasons. docs/contributing/fidelity.md explains them.

/// A reason, and the cases of a suite that fail for it.
struct Exception {
    suite: &'static str,
    reason: &'static str,
    cases: &'static [&'static str],
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        suite: "Rust, WASI 0.3",
        reason: "every tool has the name `tool` as its first argument",
        cases: &["cli-env"],
    },
    Exception {
        suite: "Rust, WASI 0.3",
        reason: "wasmtime refuses a request's path without a slash at its beginning",
        cases: &["http-request"],
    },
    Exception {
        suite: "Rust, WASI 0.3",
        reason: "a tool may connect to granted peers, and never bind a socket to an address",
        cases: &[
            "sockets-echo",
            "sockets-tcp-bind",
            "sockets-tcp-connect",
            "sockets-tcp-listen",
            "sockets-tcp-receive",
            "sockets-tcp-send",
            "sockets-udp-bind",
            "sockets-udp-connect",
            "sockets-udp-receive",
        ],
    },
];

/// Returns why a case fails, if it is known to fail.
pub(crate) fn reason(suite: &str, case: &str) -> Option<&'static str> {
    let is_it =
        |exception: &&Exception| exception.suite == suite && exception.cases.contains(&case);
    EXCEPTIONS.iter().find(is_it).map(|exception| exception.reason)
}
