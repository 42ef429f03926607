//! Conversations with language models that may call the tools of a host.
//!
//! A [`Session`] is one conversation. Each [turn](Session::turn) begins with a [`Prompt`]. The
//! session asks the model, runs the tools that it calls on a [`Host`](ikigai_host::Host), sends
//! their results, and asks again until the model calls nothing.
//!
//! ```no_run
//! use std::future::ready;
//!
//! use ikigai_agent::{TurnEvent, Model, ToolOffer, Session};
//! use ikigai_host::{CancellationToken, Host, Paths};
//! use ikigai_provider::{ModelClient, Endpoint, ApiKey, Provider, AnswerSettings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder(".").paths(Paths::of_installation("/usr")).build()?;
//! let tools = host.refresh().await;
//!
//! let provider = Provider::Anthropic;
//! let key = Some(ApiKey::new(&std::env::var("ANTHROPIC_API_KEY")?));
//! let model = Model {
//!     client: ModelClient::new(Endpoint { key, ..Endpoint::new(provider) })?,
//!     name: "claude-sonnet-4-5".to_owned(),
//!     max_tokens: None,
//!     context: None,
//!     settings: AnswerSettings::default(),
//!     offer: ToolOffer::for_provider(provider),
//! };
//!
//! let mut session = Session::new(host, None, Some(model));
//! let mut on_event = |event: TurnEvent<'_>| {
//!     if let TurnEvent::Text(text) = event {
//!         print!("{text}");
//!     }
//! };
//! let cancel = CancellationToken::new();
//! let prompt = "Which files are the largest?".into();
//! let turn = session.turn(ready(Some(tools)), prompt, &cancel, &mut on_event).await?;
//! println!("\n{:?} after {} requests", turn.end, turn.rounds);
//! # Ok(())
//! # }
//! ```
//!
//! # In this order
//!
//! 1. [`Session`] holds the conversation, the host, and the [`Model`] and the [`SessionAssets`]
//!    that it was given.
//! 2. [`Session::turn`] takes a turn. It reports each [`TurnEvent`] while it happens, and returns a
//!    [`Turn`]: how the turn [ended](TurnEnd), its cost and its [calls](FinishedCall).
//! 3. [`Session::command`] carries out a [command](command::AgentCommand) on assets and tools. The
//!    model gives the same commands through the tool [`SLASH_COMMAND`].
//! 4. [`assets::StoredAssets`] is the store of assets, for the session and for the host.
//! 5. [`Session::keep`] has the conversation written to that store, and [`Session::resume`]
//!    continues a kept conversation. [`journal`] is its log, and [`TurnSurroundings`] tell what has
//!    changed since.
//!
//! The modules have these parts in a turn:
//!
//! - [`mention`] replaces the files and assets that a prompt mentions by their text, and finds its
//!   images. `images` knows the room that a request has for them.
//! - `system` writes the system prompt with the pinned assets and the notes that `guidance` reads
//!   from files.
//! - `offer` translates the tools for the provider.
//! - `order` decides which calls run at once, and `calls` runs them.
//! - `excerpt` shortens long results.
//! - `confined` reports failures that the shell's sandbox causes.
//! - `undo` copies the files that calls change.
//! - `recent` has the model summarise conversations for later ones.
//! - `conversation` holds the messages, `counting` knows how large a request is, and `compaction`
//!   makes room before one.
//!
//! # Guarantees
//!
//! - Between two operations the conversation is valid for every provider, even after a failure or
//!   an interruption at any point. The sides alternate, each call has its result, and the model or
//!   the user may speak next.
//! - A tool runs only through the host, so its policy, limits and audit log apply to every call.
//! - This crate prints nothing and reads no terminal. It asks the user through
//!   [`command::Confirm`].
//!
//! `ikigai-provider` defines the form of requests and answers.

#![deny(missing_docs)]

pub mod assets;
mod called;
mod calls;
pub mod command;
mod compaction;
mod confined;
mod conversation;
mod counting;
mod environment;
mod event;
mod excerpt;
mod fence;
mod guidance;
mod images;
pub mod journal;
mod members;
pub mod mention;
mod model;
mod notes;
mod offer;
mod order;
mod own_tool;
mod recent;
mod record;
mod retention;
mod session;
mod session_assets;
mod slash;
mod spend;
mod surroundings;
mod system;
mod turn;
mod undo;
mod usage;

pub use called::{CallError, FinishedCall};
pub use compaction::{CompactAt, Compacted, InvalidCompactAt};
pub use counting::{ContextUsage, TokenCount};
pub use event::{Calling, OnEvent, TurnEvent};
pub use excerpt::{Excerpt, Extent, SHOWN_CHARACTERS, excerpt};
pub use model::{Model, ToolOffer};
pub use offer::{CrowdedOut, crowded_out, offered};
pub use own_tool::SLASH_COMMAND;
pub use retention::{InvalidRetention, Pruned, SessionRetention, prune_sessions};
pub use session::{ConversationEnding, Exchanged, MAX_ROUNDS, ResumeError, Resumed, Session};
pub use session_assets::SessionAssets;
pub use spend::{Spend, SpendLimit};
pub use surroundings::TurnSurroundings;
pub use system::{SystemBlock, about_bash};
pub use turn::{Prompt, Turn, TurnEnd, TurnError};
pub use undo::{ChangedFile, FileContents, Undone};
