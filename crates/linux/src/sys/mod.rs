//! System calls that no safe wrapper offers: the one folder of the workspace with `unsafe`.
//!
//! Everything here is a thin, safe function over one or few system calls; policy lives above.
#![expect(unsafe_code, reason = "raw system calls; each block says why it is sound")]

pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod netlink;
pub(crate) mod process;
pub(crate) mod schedule;
pub(crate) mod socket;
