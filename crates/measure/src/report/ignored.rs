//! What was asked for by shared memory and not done.

use serde::{Deserialize, Serialize};

/// Stores to the control block that were not done, because nothing can be so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredStores {
    /// How many.
    pub count: u64,
    /// The first 100.
    pub first: Vec<IgnoredStore>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredStore {
    /// Event time at which it was seen, since the start of the run.
    pub at_ns: i64,
    /// `word` or `set`: where it stood.
    pub place: String,
    /// The parameter that is the trouble; `set` where it is none alone.
    pub parameter: String,
    /// What its word held.
    pub value: u64,
    /// Why it was not done.
    pub reason: String,
}

/// Stores listed one by one.
pub const MAX_IGNORED: usize = 100;
