//! The asset store: keeps assets, which have URIs under `ikigai://`, in a database and not in
//! files. Each change makes a version, and each agent has a budget of tokens. The store also
//! keeps sessions, which are conversations written event by event.
//!
//! [`Store`] is the entry point; its address is a [`StoreUrl`]. SQLite is the default,
//! PostgreSQL is for teams and for more than one machine, and a store in memory is for
//! tests. All three share the statements, the rule of the budget and the tests.
//!
//! A module uses only modules of lower rows:
//!
//! ```text
//! store                                  the operations
//! database                               one way to run a statement in either database
//! backoff                                the attempts at a transaction
//! error, options
//! session                                the same for kept conversations
//! asset                                  the values that callers hand over and get
//! budget, references
//! agent, capacity, path, store_url, tokens
//! ```
//!
//! Nothing here knows tools, models, WebAssembly, a command line or the default address of a
//! store: the caller hands over the address, the agent's name and the budget. Nothing here reads
//! a file that is not the store. An [`Error`] has a [`StoreRemedy`] as a type; the words for it
//! belong to the caller.

mod agent;
mod asset;
mod backoff;
mod budget;
mod capacity;
mod damage;
mod database;
mod error;
mod options;
mod path;
mod references;
mod session;
mod store;
mod store_url;
mod tokens;

pub use agent::{Agent, InvalidAgent, MAX_AGENT_BYTES};
pub use asset::{
    Asset, AssetMetadata, AssetVersion, Author, ChangeCause, EditOutcome, MAX_ASSET_BYTES,
    NewVersion, PinOutcome, PinnedAsset, Precondition, Snapshot, StoreUsage, UnknownCause,
    VersionEnd,
};
pub use budget::{Budget, BudgetExcess, BudgetedOperation, thousands};
pub use capacity::{Capacity, Overfull};
pub use damage::{Damage, StoredText};
pub use error::{Error, ProcessLimit, Result, StoreRemedy};
pub use options::{Retention, StoreOptions};
pub use path::{AssetPath, MAX_PATH_BYTES, PathError, SCHEME, resolution};
pub use references::{AssetReference, references};
pub use session::{
    Holder, InvalidSessionId, InvalidSessionText, Lease, MAX_EVENT_BYTES, MAX_TITLE_BYTES,
    MAX_WORKSPACE_BYTES, NewEvent, NewSession, SessionChanges, SessionEvent, SessionFilter,
    SessionId, SessionSummary,
};
pub use store::Store;
pub use store_url::{InvalidStoreUrl, POSTGRES_PARAMETERS, StoreUrl};
pub use tokens::tokens;
