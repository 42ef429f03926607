//! The names that a server in the sandbox could not look up, by what its failed calls say.
//!
//! A server that asks the proxy for a host is refused there. One that looks names up itself finds
//! nobody who answers, and leaves no trace but its error. A name from here is recorded and grants
//! nothing.

use crate::exec::envelope::did_its_work;
use crate::exec::native::unresolved_peers;
use crate::exec::{Call, Exit, Outcome, Stdin};
use crate::policy::{RequestedAccess, Sandbox};

/// Notes the hosts that the outcome of a call names as not found, unless the server was granted
/// them.
pub(super) fn note(outcome: &mut Outcome, call: &Call) {
    // With the machine's network, a name that is not found may not exist.
    if call.grant.sandbox == Sandbox::Off || call.grant.net.any {
        return;
    }
    let outputs: [&[u8]; 2] = match outcome.exit {
        Exit::Code(_) if !did_its_work(outcome, true) => [&outcome.stdout.bytes, b""],
        Exit::NotStarted(_) | Exit::Lost { .. } => [b"", &outcome.stderr.bytes],
        _ => return,
    };
    let arguments: &[u8] = match &call.stdin {
        Stdin::Bytes(bytes) => bytes,
        Stdin::Inherit => b"",
    };
    let peers = unresolved_peers(outputs, arguments).into_iter();
    for reached in peers.filter(|reached| !call.grant.covers(reached)) {
        match reached {
            RequestedAccess::Peer { host, port } => {
                outcome.denied.note(format!("net {host}:{port}"))
            }
            RequestedAccess::Host { host } => outcome.denied.note(format!("net {host}:*")),
            RequestedAccess::Path { .. } | RequestedAccess::Run => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exec::mcp::fake::call_of;
    use crate::exec::output::Captured;
    use crate::policy::{Grant, Net};

    fn captured(text: &str) -> Captured {
        Captured { bytes: text.into(), total: text.len() as u64 }
    }

    fn answered(text: &str) -> Outcome {
        Outcome { exit: Exit::Code(0), stdout: captured(text), ..Outcome::not_started("") }
    }

    /// Returns what is noted of a call with these arguments, by a server with these peers.
    fn noted(mut outcome: Outcome, arguments: &'static str, net: &[&str]) -> Vec<String> {
        let net = Net::parse(net.iter().copied()).expect("peers");
        let grant = Grant { net, sandbox: Sandbox::Require, ..Grant::default() };
        let stdin = Stdin::Bytes(arguments.into());
        note(&mut outcome, &Call { grant: Arc::new(grant), stdin, ..call_of(None) });
        outcome.denied.first
    }

    #[test]
    fn a_failed_call_tells_which_names_it_could_not_look_up() {
        let text = |is_error: bool| {
            let content = r#"[{"type":"text","text":"getaddrinfo EAI_AGAIN a.test"}]"#;
            format!(r#"{{"content":{content},"isError":{is_error}}}"#)
        };
        let failed = || answered(&text(true));
        assert_eq!(noted(failed(), "{}", &[]), ["net a.test:*"]);
        assert_eq!(noted(failed(), r#"{"url":"https://a.test/x"}"#, &[]), ["net a.test:443"]);
        for net in ["a.test:443", "*"] {
            assert_eq!(noted(failed(), "{}", &[net]), [] as [&str; 0], "{net}");
        }
        // A text may speak of another machine.
        assert_eq!(noted(answered(&text(false)), "{}", &[]), [] as [&str; 0]);
        let stderr = captured("Error: getaddrinfo ENOTFOUND b.test\n");
        let not_started = Outcome { stderr, ..Outcome::not_started("it ended") };
        assert_eq!(noted(not_started, "{}", &[]), ["net b.test:*"]);
    }
}
