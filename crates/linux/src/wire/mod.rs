//! Changing a departing packet on the wire: its bytes, and how many there are of it.
//!
//! Only a link that corrupts or duplicates needs this; all other packets keep their bytes in the
//! kernel from arrival to departure.

mod egress;
mod rewrite;
mod store;

pub use egress::{Egress, EgressConfig, EgressCounts, EgressError};
pub use rewrite::{flip, is_in_header, set_ce};
pub use store::{PayloadStore, Stored};
