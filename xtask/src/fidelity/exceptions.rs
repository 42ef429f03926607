//! The cases that fail, with the reasons. docs/contributing/fidelity.md explains them.

/// A reason, and the cases of a suite that fail for it.
struct Exception {
    suite: &'static str,
    reason: &'static str,
    cases: &'static [&'static str],
}

const NAME: &str = "every tool has the name `tool` as its first argument";
const SOCKETS: &str = "a tool may connect to granted peers, and never bind a socket to an address";

const EXCEPTIONS: &[Exception] = &[
    Exception { suite: "Rust, WASI 0.3", reason: NAME, cases: &["cli-env"] },
    Exception {
        suite: "Rust, WASI 0.3",
        reason: "wasmtime refuses a request's path without a slash at its beginning",
        cases: &["http-request"],
    },
    Exception {
        suite: "Rust, WASI 0.3",
        reason: SOCKETS,
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
    Exception {
        suite: "wasmtime, preview 1",
        reason: "reading a directory fails with `isdir`, as on Linux, instead of `badf`",
        cases: &["p1_dir_fd_op_failures"],
    },
    Exception {
        suite: "wasmtime, preview 1",
        reason: "a write of no bytes succeeds, also to a file that was opened for reading",
        cases: &["p1_file_write"],
    },
    Exception {
        suite: "wasmtime, preview 1",
        reason: "`poll_oneoff` reports a bad descriptor in its event, and does not fail",
        cases: &["p1_poll_oneoff_files"],
    },
    Exception {
        suite: "wasmtime, WASI 0.2",
        reason: SOCKETS,
        cases: &[
            "p2_tcp_bind",
            "p2_tcp_busy_poll",
            "p2_tcp_connect",
            "p2_tcp_sample_application",
            "p2_tcp_sockopts",
            "p2_tcp_states",
            "p2_tcp_streams",
            "p2_udp_bind",
            "p2_udp_connect",
            "p2_udp_sample_application",
            "p2_udp_send_to_closed_receiver",
            "p2_udp_send_too_much",
            "p2_udp_states",
            "p2_udp_stream",
        ],
    },
    Exception { suite: "wasmtime, WASI 0.3", reason: NAME, cases: &["p3_cli"] },
    Exception {
        suite: "wasmtime, WASI 0.3",
        reason: SOCKETS,
        cases: &[
            "p3_sockets_tcp_bind",
            "p3_sockets_tcp_busy_poll",
            "p3_sockets_tcp_connect",
            "p3_sockets_tcp_listen",
            "p3_sockets_tcp_sample_application",
            "p3_sockets_tcp_sockopts",
            "p3_sockets_tcp_states",
            "p3_sockets_tcp_streams",
            "p3_sockets_udp_bind",
            "p3_sockets_udp_connect",
            "p3_sockets_udp_sample_application",
            "p3_sockets_udp_send",
            "p3_sockets_udp_states",
        ],
    },
];

/// Returns why a case fails, if it is known to fail.
pub(crate) fn reason(suite: &str, case: &str) -> Option<&'static str> {
    let is_it =
        |exception: &&Exception| exception.suite == suite && exception.cases.contains(&case);
    EXCEPTIONS.iter().find(is_it).map(|exception| exception.reason)
}
