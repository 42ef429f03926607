//! A host that sends its requests to the test's own server.

use ikigai_provider_testing::{FakeServer, Received, Reply, Vendor};
use ikigai_tests::host::{Host, Ran, Running};
use serde_json::Value;

/// The API key in each request.
pub(crate) const KEY: &str = "key-of-the-test";

/// A host, and the server that it asks.
pub(crate) struct Rig {
    pub(crate) host: Host,
    pub(crate) server: FakeServer,
}

impl Rig {
    /// Creates a host with the staged tools, and a server that gives these replies in order.
    pub(crate) fn new(vendor: Vendor, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_host(Host::new(), FakeServer::start(vendor, replies))
    }

    /// Does the same with a function from requests to replies.
    pub(crate) fn with(
        vendor: Vendor,
        handler: impl FnMut(&Received) -> Reply + Send + 'static,
    ) -> Self {
        Self::with_host(Host::new(), FakeServer::with(vendor, handler))
    }

    pub(crate) fn with_host(host: Host, server: FakeServer) -> Self {
        let (key, base_url) = match server.vendor() {
            Vendor::OpenAi | Vendor::OpenAiChat => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            Vendor::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Vendor::Google => ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
        };
        let host =
            host.env(key, KEY).env(base_url, server.base_url()).env("IKIGAI_AGENT", "tester@here");
        Self { host, server }
    }

    fn arguments<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let provider = self.server.vendor().as_str();
        [&["ask", "--provider", provider, "--model", "model-of-the-test"], arguments].concat()
    }

    /// Runs `ikigai ask`, with an empty stdin.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Ran {
        self.ask_with(arguments, b"")
    }

    pub(crate) fn ask_with(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        self.host.run_with(self.arguments(arguments), stdin)
    }

    /// Starts `ikigai ask`, without waiting for its end.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        // `ask` waits for the end of stdin.
        let mut shell = self.host.shell("exec \"$0\" \"$@\" < /dev/null");
        Running::start(shell.args(self.arguments(arguments)))
    }

    /// Returns the text of the request with this number.
    pub(crate) fn request(&self, number: usize) -> String {
        let requests = self.server.requests();
        let request = requests.get(number);
        request.unwrap_or_else(|| panic!("only {} requests", requests.len())).body.to_string()
    }

    /// Asserts that the vendor would have accepted every request.
    #[track_caller]
    pub(crate) fn assert_valid(&self) {
        assert_eq!(self.server.violations(), Vec::<String>::new());
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        self.host.write(format!("workspace/{name}"), content, 0o644);
    }
}

/// Returns the envelopes of all calls of an exchange.
pub(crate) fn envelopes(exchange: &Value) -> Vec<Value> {
    let calls = exchange["calls"].as_array().expect("calls");
    calls.iter().map(|call| call["envelope"].clone()).collect()
}
