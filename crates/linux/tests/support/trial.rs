//! What tests of the datapath need of the machine.

use punctual_linux::fault::Faults;
use punctual_linux::namespace::{Network, user};
use punctual_linux::netfilter::probe;

/// The reason for which this machine queues no packets for us, if it does not.
pub(crate) fn queues_packets() -> Result<(), String> {
    user::enter(&Faults::default()).map_err(|refusal| refusal.to_string())?;
    let network = Network::new().map_err(|error| error.to_string())?;
    let found = network.within(|| probe(&Faults::default())).map_err(|error| error.to_string())?;
    found.map(drop).map_err(|missing| missing.to_string())
}
