//! A REPL in a terminal, and the server that it asks.

use ikigai_provider_testing::{FakeServer, Gate, Received, Reply, Vendor};
use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use serde_json::json;

/// The host and the server of a REPL, and the width of its terminal.
pub(crate) struct Rig {
    pub(crate) host: Host,
    pub(crate) server: FakeServer,
    pub(crate) columns: u16,
}

impl Rig {
    /// Creates a host without system tools, and a server that gives these replies in order.
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let server = FakeServer::start(Vendor::Anthropic, replies);
        Self::with_host(Host::without_system_tools(), server)
    }

    /// Creates a host with the staged tools, and a server with a reply to each request.
    pub(crate) fn staged(handler: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        let server = FakeServer::with(Vendor::Anthropic, handler);
        Self::with_host(Host::new().with_shared_cache(), server)
    }

    fn with_host(host: Host, server: FakeServer) -> Self {
        let host = host
            .env("ANTHROPIC_API_KEY", "key-of-the-test")
            .env("ANTHROPIC_BASE_URL", server.base_url())
            .env("IKIGAI_MODEL", "model-of-the-test")
            .env("IKIGAI_AGENT", "tester@here")
            // The summary makes additional requests, which other tests do not expect.
            .env("IKIGAI_AUTO_SUMMARY", "off");
        Self { host, server, columns: 80 }
    }

    /// Returns a REPL in the middle of a call of `slow` that never ends and has started a process.
    pub(crate) fn in_endless_call() -> (Self, Terminal) {
        let rig = Self::new([Reply::answer().call("slow", &json!({}))]);
        let started = rig.host.workspace().join("started");
        rig.host.script("slow", &format!("sleep 1000 &\n: > '{}'\nwait", started.display()));
        let terminal = rig.ready();
        terminal.send("call it\r");
        terminal.wait_for("slow {}");
        terminal.wait_until("the tool has started", |_| started.exists());
        (rig, terminal)
    }

    /// Returns a REPL in the middle of an answer, which ends once the gate is open. `next` are the
    /// replies after it.
    pub(crate) fn in_answer(next: impl IntoIterator<Item = Reply>) -> (Gate, Self, Terminal) {
        let gate = Gate::closed();
        let first = Reply::answer().text("It begins ").stall(&gate).text("and ends.");
        let rig = Self::new([first].into_iter().chain(next));
        let terminal = rig.ready();
        terminal.send("go on\r");
        terminal.wait_for("It begins");
        (gate, rig, terminal)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.host = self.host.env(name, value);
        self
    }

    /// Starts the REPL, without waiting for anything.
    pub(crate) fn start(&self) -> Terminal {
        Terminal::start(&self.host.command(), self.columns, 24)
    }

    /// Starts the REPL, and waits for its prompt and its tools.
    pub(crate) fn ready(&self) -> Terminal {
        self.ready_with(&[])
    }

    /// Starts the REPL with flags, and waits for its prompt and its tools.
    pub(crate) fn ready_with(&self, flags: &[&str]) -> Terminal {
        let mut command = self.host.command();
        let terminal = Terminal::start(command.args(flags), self.columns, 24);
        wait_for_answer(&terminal, " available.");
        terminal
    }
}

/// Returns whether the last line is a prompt and nothing else.
pub(crate) fn is_asking(screen: &str) -> bool {
    screen.lines().last().is_some_and(|line| line == ">")
}

/// Waits until `text` is on the screen, and a prompt is its last line. Returns the screen.
#[track_caller]
pub(crate) fn wait_for_answer(terminal: &Terminal, text: &str) -> String {
    terminal.wait_until(&format!("`{text}` is on the screen, and it asks"), |screen| {
        screen.contains(text) && is_asking(screen)
    })
}

/// Types a line, and waits for the next prompt.
pub(crate) fn enter(terminal: &Terminal, line: &str) -> String {
    terminal.send(&format!("{line}\r"));
    terminal.wait_until("the line was dealt with", |screen| {
        screen.contains(&format!("> {line}")) && is_asking(screen)
    })
}
