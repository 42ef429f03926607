//! The Model Context Protocol: a server that offers tools and resources to a client.
//!
//! A program implements [`Offer`] and hands it to [`serve_stdio`]. The protocol itself (its
//! revisions, its negotiation, the shapes of its messages) is that of the crate `rmcp`, which no
//! other package of the project names. Around it this crate puts what holds against a client that
//! is careless or hostile: lines of a bounded length, arguments that are never parsed into a tree,
//! a bound on calls in flight, and one writer whose backlog is bounded.
//!
//! It knows nothing of hosts, policies and envelopes.

mod offer;
mod result;
mod serve;
mod wire;

pub use offer::{
    Answer, Call, Catalog, Change, Hints, Offer, Resource, ResourceError, ResourceText, Template,
    ToolEntry, Unanswered,
};
#[doc(hidden)]
pub use wire::fuzzing;

pub use serve::{ServeError, Server, serve_stdio, serve_streams};
