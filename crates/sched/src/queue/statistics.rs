//! The disciplines' own counters, as people know them.

use core::fmt;

use super::FqStatistics;
use super::codel::CodelStatistics;
use super::dualpi2::Dualpi2Statistics;
use super::fq_codel::FqCodelStatistics;
use super::jens::JensStatistics;
use super::tbf::TbfStatistics;
use crate::netem::NetemStatistics;

/// A discipline's own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// `fifo` has none of its own.
    #[default]
    Fifo,
    /// `jens`.
    Jens(JensStatistics),
    /// `impair=netem`.
    Netem(NetemStatistics),
    /// Of `dualpi2`.
    Dualpi2(Dualpi2Statistics),
    /// Of `tbf`.
    Tbf(TbfStatistics),
    /// Of `codel`.
    Codel(CodelStatistics),
    /// Of `fq_codel`.
    FqCodel(FqCodelStatistics),
    /// Those of `fq`.
    Fq(FqStatistics),
}

impl Statistics {
    /// The discipline's name: a value of the parameter `queue`, or `netem`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Jens(_) => "jens",
            Self::Netem(_) => "netem",
            Self::Dualpi2(_) => "dualpi2",
            Self::Tbf(_) => "tbf",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Fq(_) => "fq",
        }
    }

    /// Packets that left after one that had been enqueued later, where the queue reorders as
    /// impairments do.
    pub(crate) fn overtaken(&self) -> u64 {
        if let Self::Netem(netem) = self { netem.overtaken } else { 0 }
    }

    /// Every counter under the name that `tc -s -j qdisc` gives it, in the order of its text.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Fifo => Vec::new(),
            Self::Jens(jens) => jens.counters(),
            Self::Netem(netem) => netem.counters(),
            Self::Dualpi2(statistics) => statistics.counters(),
            Self::Tbf(statistics) => statistics.counters(),
            Self::Codel(statistics) => statistics.counters(),
            Self::FqCodel(statistics) => statistics.counters(),
            Self::Fq(fq) => fq.counters(),
        }
    }
}

/// The lines that `tc -s qdisc` adds for this discipline, without a line end after the last;
/// empty for none.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jens(jens) => jens.fmt(f),
            Self::Netem(netem) => netem.fmt(f),
            Self::Dualpi2(statistics) => statistics.fmt(f),
            Self::Fifo | Self::Tbf(_) => Ok(()),
            Self::Codel(statistics) => statistics.fmt(f),
            Self::FqCodel(statistics) => statistics.fmt(f),
            Self::Fq(fq) => fq.fmt(f),
        }
    }
}
