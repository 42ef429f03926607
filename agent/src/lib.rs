//! Conversations with language models that may call the tools of a host.
//!
//! A [`Session`] is one conversation. Each [turn](Session::turn) begins with a [`Prompt`]: the
//! session asks the model, runs the tools that it calls on a [`Host`](ikigai_host::Host), sends
//! their results, and asks again until the model calls nothing.
//!
//! ```no_run
//! use std::future::ready;
//!
//! use ikigai_agent::{Event, Model, Offer, Session};
//! use ikigai_host::{CancellationToken, Host, Paths};
//! use ikigai_provider::{Client, Endpoint, Key, Provider, Settings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder(".").paths(Paths::of_installation("/usr")).build()?;
//! let tools = host.refresh().await;
//!
//! let provider = Provider::Anthropic;
//! let key = Some(Key::new(&std::env::var("ANTHROPIC_API_KEY")?));
//! let model = Model {
//!     client: Client::new(Endpoint { key, ..Endpoint::new(provider) })?,
//!     name: "claude-sonnet-4-5".to_owned(),
//!     max_tokens: None,
//!     context: None,
//!     settings: Settings::default(),
//!     offer: Offer::for_provider(provider),
//! };
//!
//! let mut session = Session::new(host, None, Some(model));
//! let mut on_event = |event: Event<'_>| {
//!     if let Event::Text(text) = event {
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
//! 2. [`Session::turn`] takes a turn. It reports each [`Event`] while it happens, and returns a
//!    [`Turn`]: the way in which it [ended](End), its cost and its [calls](Called).
//! 3. [`Session::command`] carries out a [command](command::Command) on assets and tools. The
//!    model gives the same commands through the tool [`SLASH_COMMAND`].
//! 4. [`assets::StoredAssets`] is the store of assets, for the session and for the host.
//! 5. [`Session::keep`] has the conversation written to that store, and [`Session::resume`] goes on
//!    with one that was. [`journal`] is its log, and [`Surroundings`] tell what changed meanwhile.
//!
//! Within a turn, [`mention`] replaces the files and assets that a prompt mentions by their text and
//! finds its images, for which `images` knows the room that a request has, `system` writes the system prompt with the pinned assets and the notes that `guidance` reads from
//! files, `offer` translates the tools for the provider, `order` decides which calls run at once,
//! `calls` runs them, `excerpt` shortens long results, `confined` says where the sandbox of the
//! shell is the reason for a failure, and `undo` copies the files that calls change.
//! `recent` has the model sum up conversations for those that come later.
//! `conversation` holds the messages, `counting` knows how large a request is, and `compaction`
//! makes room before one.
//!
//! # Guarantees
//!
//! - Between two operations the conversation is valid for every provider, also after a failure or
//!   an interruption at any point: the sides alternate, it ends where the model or the person may
//!   speak, and each call has its result.
//! - A tool runs through the host alone, so its policy, limits and audit log hold for every call.
//! - This crate prints nothing and reads no terminal. A person who has to decide is asked through
//!   [`command::Confirm`].
//!
//! The form of requests and answers is that of `ikigai-provider`.

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
mod notes;
mod offer;
mod order;
mod own_tool;
mod recent;
mod record;
mod retention;
mod session;
mod slash;
mod spend;
mod surroundings;
mod system;
mod turn;
mod undo;
mod usage;

pub use called::{CallError, Called};
pub use compaction::{CompactAt, Compacted, InvalidCompactAt};
pub use counting::{ContextUsage, Counted};
pub use environment::{Model, SessionAssets};
pub use event::{Calling, Event, OnEvent};
pub use excerpt::{Excerpt, Extent, SHOWN_CHARACTERS, excerpt};
pub use offer::{CrowdedOut, Offer, crowded_out, offered};
pub use own_tool::SLASH_COMMAND;
pub use retention::{InvalidRetention, Pruned, SessionRetention, prune_sessions};
pub use session::{Ending, Exchanged, MAX_ROUNDS, ResumeError, Resumed, Session};
pub use spend::{Spend, SpendLimit};
pub use surroundings::Surroundings;
pub use system::{SystemBlock, about_bash};
pub use turn::{End, Prompt, Turn, TurnError};
pub use undo::{ChangedFile, FileContents, Undone};
