//! The real world: clocks, the driver loop, NFQUEUE, nf_tables, namespaces, sockets, kernel probes.
//!
//! The only `unsafe` of the workspace is in `sys`, each block with its reason.

pub mod clock;
pub mod control;
pub mod driver;
pub mod fault;
pub mod host;
pub mod lab;
pub mod memfd;
pub mod namespace;
pub mod netfilter;
pub mod observe;
pub mod probe;
pub mod process;
pub mod rtnetlink;
mod sys;
pub mod traffic;
pub mod wait;
pub mod wire;
