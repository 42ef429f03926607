//! The options of a store, each with its default. The modules that use an option enforce it.

use std::time::Duration;

use crate::budget::Budget;
use crate::capacity::Capacity;

/// The options of a store. The values given here are those of [`StoreOptions::default`].
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The tokens that each agent may have pinned. 100,000.
    pub budget: Budget,
    /// The bytes that all assets may have together. 1 GiB.
    pub capacity: Capacity,
    /// The bounds on the history of assets.
    pub retention: Retention,
    /// The time after which an operation gives up waiting for another process that holds an
    /// SQLite store. 10 seconds.
    pub busy_timeout: Duration,
    /// The time after which waiting for a connection to a server ends. 5 seconds.
    pub connect_timeout: Duration,
    /// The time after which a statement of a server ends. 30 seconds.
    pub statement_timeout: Duration,
    /// The maximum number of pages, of 4,096 bytes, that an SQLite file may have. No limit.
    pub sqlite_max_pages: Option<u32>,
}

/// The bounds on replaced and removed versions of an asset. A version beyond either bound is
/// deleted when the asset is next changed, or by [`crate::Store::prune_versions`].
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The time for which a version is kept after it was replaced. 90 days.
    pub age: Duration,
    /// The number of versions of one asset that are kept, the newest. 100.
    pub count: u32,
}

impl Default for StoreOptions {
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
