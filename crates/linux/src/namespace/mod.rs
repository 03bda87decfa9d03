//! User and network namespaces, see `user_namespaces(7)` and `network_namespaces(7)`.

pub mod network;
pub mod refusal;
pub mod user;

pub use network::{Network, NetworkError};
pub use refusal::{Observed, Refusal, Step, apparmor_profile};
pub use user::{Caller, Entered};
