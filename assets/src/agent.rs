//! The name of an agent. The pins and the budget that belong to it are elsewhere.

use std::fmt;

use ikigai_protocol::is_deceptive;

/// The longest name of an agent, in bytes: room for a user and a host.
pub const MAX_AGENT_BYTES: usize = 512;

/// The name of an agent, which has pins and a budget: `USER@HOST`, or what the caller chooses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Agent(Box<str>);

/// The error for a text that is not a valid name of an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an agent's name has 1 to {MAX_AGENT_BYTES} bytes and no control characters")]
pub struct InvalidAgent;

impl Agent {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// Fails if `name` is empty, longer than [`MAX_AGENT_BYTES`], or has control characters.
    pub fn new(name: &str) -> Result<Self, InvalidAgent> {
        let valid =
            !name.is_empty() && name.len() <= MAX_AGENT_BYTES && !name.contains(is_deceptive);
        if valid { Ok(Self(name.into())) } else { Err(InvalidAgent) }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}
