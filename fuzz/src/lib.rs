//! The fuzz targets, for parsers of untrusted input, and for the imports of components.
//!
//! A target accepts any bytes and panics if a promise is broken. The first promise is that it
//! returns at all. `cargo xtask fuzz` runs the targets under libFuzzer. `cargo test` replays the
//! corpus, so that every bug that was once found stays fixed.

mod arguments;
mod commands;
mod definition;
mod envelope;
mod ere;
mod host_socket;
mod lock;
mod mcp_line;
mod mcp_server;
mod oauth;
mod oci;
mod pieces;
mod policy;
mod reference;
mod schema;
mod section;
mod sse;
mod sshsig;
mod stream;
mod supervisor;
mod wasi_0_3;

/// One parser, or another part of the program that serves untrusted input.
pub struct Target {
    /// The name of the target and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the target on the bytes. Panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "anthropic", run: stream::anthropic },
    Target { name: "arguments", run: arguments::run },
    Target { name: "commands", run: commands::run },
    Target { name: "definition", run: definition::run },
    Target { name: "envelope", run: envelope::run },
    Target { name: "ere", run: ere::run },
    Target { name: "google", run: stream::google },
    Target { name: "host_socket", run: host_socket::run },
    Target { name: "lock", run: lock::run },
    Target { name: "mcp_line", run: mcp_line::run },
    Target { name: "mcp_server", run: mcp_server::run },
    Target { name: "oauth", run: oauth::run },
    Target { name: "oci", run: oci::run },
    Target { name: "openai", run: stream::openai },
    Target { name: "openai_chat", run: stream::openai_chat },
    Target { name: "policy", run: policy::run },
    Target { name: "reference", run: reference::run },
    Target { name: "schema", run: schema::run },
    Target { name: "section", run: section::run },
    Target { name: "sse", run: sse::run },
    Target { name: "sshsig", run: sshsig::run },
    Target { name: "supervisor", run: supervisor::run },
    Target { name: "wasi_0_3", run: wasi_0_3::run },
];

/// Returns the target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
