//! System calls that no safe wrapper offers: the one folder of the workspace with `unsafe`.
#![expect(unsafe_code, reason = "raw system calls; each block says why it is sound")]

pub(crate) mod netlink;
pub(crate) mod schedule;
pub(crate) mod socket;
