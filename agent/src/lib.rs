//! A conversation with a model over the tools of a host.
//!
//! Owns what a model is sent, when its calls run, what it is told of them, and the commands
//! that a person and a model share. Prints nothing and reads no terminal: whoever holds a
//! [`Session`] is told what happens ([`Event`]) and asked where a person must decide
//! ([`command::By`]). How a vendor wants to be spoken to is `ikigai-provider`'s; what a tool
//! may touch has been decided before, behind [`Host::call`].
//!
//! **Invariant:** between two operations of a session its conversation is valid for every
//! provider: the sides alternate, it ends where the model may be asked, and each call has its
//! result, also after a failure or an interruption at any point.

pub mod assets;
mod calls;
pub mod command;
mod excerpt;
mod members;
pub mod mention;
mod offer;
mod order;
mod slash;
mod system;
mod transcript;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ikigai_assets::Agent;
use ikigai_provider::{Client, Failure, Message, Usage};

pub use calls::{CallError, Called};
pub use excerpt::SHOWN_CHARACTERS;
pub use offer::{Offer, crowded_out, offered};
pub use turn::{End, NoModel, Prompt, Turn};

use crate::assets::StoredAssets;
use ikigai_host::host::Host;
use ikigai_host::policy;
use offer::ToolsOnce;

/// Requests that one turn may take. A model that has not answered after so many is going
/// in circles.
pub const MAX_ROUNDS: u32 = 50;

/// The name of the host's own tool. No other tool can have it
/// ([`ikigai_protocol::RESERVED_NAMES`]).
pub const SLASH_COMMAND: &str = policy::OWN_TOOL;

/// Whom a conversation is with.
#[derive(Debug)]
pub struct Model {
    /// What requests are sent through.
    pub client: Client,
    /// The model, by the provider's name for it.
    pub name: String,
    /// The most tokens of an answer, where the person sets a bound; else the model's own
    /// holds, and 32,000 with Anthropic, which wants one to be named.
    pub max_tokens: Option<u32>,
    /// Which tools it is offered.
    pub offer: Offer,
}

/// The assets of a conversation, and who reads and writes them.
#[derive(Clone, Debug)]
pub struct SessionAssets {
    /// Where they are; opened when first needed.
    pub store: Arc<StoredAssets>,
    /// What each agent may have pinned, in tokens; for the model to know.
    pub budget: u64,
    /// Whose pins are in the context.
    pub agent: Agent,
}

/// One conversation.
pub struct Session {
    host: Arc<Host>,
    workspace: PathBuf,
    assets: Option<SessionAssets>,
    model: Option<Model>,
    system: Option<String>,
    max_rounds: u32,
    messages: Vec<Message>,
    tools: ToolsOnce,
    /// What requests cost that are no part of the conversation, until somebody asks.
    aside: Mutex<Usage>,
}

impl Session {
    /// A conversation that has not begun. Without a model no turn can be taken, but every
    /// command that asks none works.
    #[must_use]
    pub fn new(host: Arc<Host>, assets: Option<SessionAssets>, model: Option<Model>) -> Self {
        Self {
            workspace: host.authority().workspace().to_owned(),
            host,
            assets,
            model,
            system: None,
            max_rounds: MAX_ROUNDS,
            messages: Vec::new(),
            tools: ToolsOnce::default(),
            aside: Mutex::default(),
        }
    }

    /// Whom the conversation is with.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// Goes on with another model, of the same provider or of another: what only the old
    /// provider reads is left out of what the new one is sent.
    pub fn set_model(&mut self, model: Option<Model>) {
        self.model = model;
    }

    /// The person's own part of the system prompt.
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Replaces that part; an empty one is none.
    pub fn set_system(&mut self, text: Option<String>) {
        self.system = text.filter(|text| !text.trim().is_empty());
    }

    /// How many requests one turn may take, at least one. [`MAX_ROUNDS`] by default.
    pub fn set_max_rounds(&mut self, rounds: u32) {
        self.max_rounds = rounds.max(1);
    }

    /// Forgets what was said. Pins, the system prompt and the model stay.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// What was said so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What was said so far, for a program: an array of `{"role": "user" | "model", "parts":
    /// […]}`; a part is `{"text"}`, `{"call": {id, name, arguments}}` with the arguments as the
    /// model wrote them, or `{"result": {id, name, content, is_error}}` with the text that the
    /// model read. What only a provider reads is left out.
    #[must_use]
    pub fn transcript(&self) -> serde_json::Value {
        transcript::messages(&self.messages)
    }

    /// Counts what a request beside the conversation cost.
    fn add_aside(&self, usage: Usage) {
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        *aside = turn::sum(*aside, usage);
    }

    /// What such requests cost since this was last asked.
    fn take_aside(&self) -> Usage {
        std::mem::take(&mut *self.aside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The assets of the conversation, where there are any.
    #[must_use]
    pub fn assets(&self) -> Option<&SessionAssets> {
        self.assets.as_ref()
    }

    /// The directory that tools work in and mentions of files count from.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }
}

/// Who is told what happens in a turn.
pub type Tell<'a> = &'a mut (dyn for<'e> FnMut(Event<'e>) + Send);

/// What happens in a turn, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that a person should know and that stops nothing.
    Warning(&'a str),
    /// A further piece of the model's text.
    Text(&'a str),
    /// The model thinks.
    Thinking,
    /// The model began to ask for this tool; nothing runs yet.
    Asking(&'a str),
    /// A call will run. Calls of one answer are told of in their order, before any of them
    /// runs.
    Calling(Calling<'a>),
    /// A call begins to run; some wait for others.
    Running(Calling<'a>),
    /// A call has ended. They end in any order.
    Called(&'a Called),
    /// A request failed and is sent again after the wait.
    Retry {
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// How long until the next.
        wait: Duration,
        /// Why it failed.
        failure: &'a Failure,
    },
    /// A request was answered, and what that cost.
    Answered(Usage),
}

/// A call that has no end yet.
#[derive(Clone, Copy, Debug)]
pub struct Calling<'a> {
    /// Unique in the conversation.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// As the model wrote them: JSON as a rule.
    pub arguments: &'a str,
}
