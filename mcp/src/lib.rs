//! The Model Context Protocol: a server that offers tools and resources to a client, and a client
//! of such servers.
//!
//! A program implements [`Offer`] and hands it to [`serve_stdio`] or [`serve_http`], or calls the
//! tools of a server through the [`RemoteConnection`] that [`connect_streams`] returns. The protocol
//! itself (its revisions, its negotiation, the shapes of its messages) comes from the crate `rmcp`,
//! which no other package of the project names. This crate protects it against a careless or
//! hostile peer. Lines have a bounded length, arguments and results are never parsed into a tree,
//! calls in flight are bounded, and one writer has a bounded backlog. Over HTTP it also checks who
//! sends a request.
//!
//! It knows nothing of hosts, policies and envelopes.

/// The readers of this crate for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::connect::fuzzing::challenge_parameter;
    pub use crate::serve::fuzzing::{FuzzIssuer, ISSUER, RESOURCE, keys};
    pub use crate::wire::fuzzing::{FuzzedLine, Heard, Traces, line, server_message};
}

mod annotation;
mod connect;
mod form;
mod offer;
mod result;
mod serve;
mod wire;

pub use connect::{
    Authorization, BoxFuture, CallProgress, Callback, ClientIdentity, ConnectError, Era,
    HostResolver, HttpServer, Issuer, OAuthClient, OAuthError, OAuthHttp, OAuthSession, Protection,
    RemoteCallError, RemoteConnection, RemoteTool, RemoteTools, TokenSource, connect_http,
    connect_streams, insufficient_scope,
};
pub use form::{FormReply, FormRequest, Interaction, Unattended};
pub use offer::{
    AnswerBody, AskReply, Asker, CallAnswer, Catalog, CatalogChange, ClientCall, ForbiddenRequest,
    Offer, QuestionVerdict, Resource, ResourceError, ResourceText, ToolEntry, ToolHints,
    Unanswered, UriTemplate,
};
#[doc(hidden)]
pub use serve::HttpBounds;
pub use serve::{
    AccessScope, ClientAccess, HttpSettings, InvalidAdmission, InvalidOAuth, InvalidToken, OAuth,
    Principal, ServeError, ServerIdentity, SharedToken, Tls, TlsError, listen, serve_http,
    serve_stdio, serve_streams,
};
