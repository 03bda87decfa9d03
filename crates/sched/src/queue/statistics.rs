//! The disciplines' own counters, as people know them.

use core::fmt;

/// A discipline's own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// `fifo` has none of its own.
    #[default]
    Fifo,
}

impl Statistics {
    /// The discipline's name: a value of the parameter `queue`, or `netem`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
        }
    }

    /// Every counter under the name that `tc -s -j qdisc` gives it, in the order of its text.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Fifo => Vec::new(),
        }
    }
}

/// The lines that `tc -s qdisc` adds for this discipline, without a line end after the last;
/// empty for none.
impl fmt::Display for Statistics {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => Ok(()),
        }
    }
}
