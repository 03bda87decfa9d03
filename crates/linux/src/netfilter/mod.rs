//! Netfilter without any program installed: rules that hand packets to us, and the queues that
//! hold them.
//!
//! [`probe()`] first; then open all [`nfqueue::Queue`]s; then install all [`nftables`] rules, before
//! traffic; remove none while packets are held (any removal of a base chain in a network namespace
//! makes the kernel drop all packets held there).

mod attribute;
mod exchange;
pub mod nfqueue;
pub mod nftables;
mod probe;

pub use exchange::SocketError;
pub use nfqueue::queue_statistics;
pub use probe::{Missing, Support, probe};
