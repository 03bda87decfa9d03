//! A scalable sender of UDP datagrams and its receiver, without clock or socket.
//!
//! It behaves as the L4S architecture asks of a congestion control (RFC 9330; RFC 9331, section
//! 4.3): it sends ECT(1), and the more packets are marked the more it slows down, in proportion, so
//! that it can live with a queue of a millisecond. A load to test L4S queues with.
//!
//! * [`sender`]: pacing, round trips, reactions
//! * [`window`]: the congestion window
//! * [`receiver`]: counts by ECN codepoint
//! * [`wire`]: what travels between the two

pub mod receiver;
pub mod sender;
pub mod window;
pub mod wire;

pub use receiver::Receiver;
pub use sender::{Sender, SenderConfig, SenderSummary};
pub use window::Window;
pub use wire::{Acknowledgement, Counts, Datagram};
