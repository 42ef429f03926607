//! The options of a store, each with its default. What they bound is enforced elsewhere.

use std::time::Duration;

use crate::budget::Budget;
use crate::capacity::Capacity;

/// How a store behaves. [`Options::default`] is what is meant for people.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each agent may have pinned. 100,000 tokens.
    pub budget: Budget,
    /// The bytes that all assets may come to. 1 GiB.
    pub capacity: Capacity,
    /// What is kept of replaced and removed assets.
    pub retention: Retention,
    /// How long another process may hold a store of SQLite before an operation gives up.
    /// 10 seconds.
    pub busy_timeout: Duration,
    /// How long a connection to a server may take to be made, or to become free. 5 seconds.
    pub connect_timeout: Duration,
    /// How long a server may take for one statement. 30 seconds.
    pub statement_timeout: Duration,
    /// The most pages, of 4,096 bytes, that a file of SQLite may have. As many as there is
    /// room for.
    pub sqlite_max_pages: Option<u32>,
}

/// What is kept of replaced and removed assets. What is past either bound goes when the
/// asset is next changed, or with [`crate::Store::prune_versions`].
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// For how long after it was replaced. 90 days.
    pub age: Duration,
    /// How many of one asset, the newest. 100.
    pub count: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            capacity: Capacity::default(),
            retention: Retention::default(),
            busy_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            sqlite_max_pages: None,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(90 * 24 * 60 * 60), count: 100 }
    }
}
