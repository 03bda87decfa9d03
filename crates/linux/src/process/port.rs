//! Whether somebody listens on a port of a network namespace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::namespace::{Network, NetworkError};

/// Whether a TCP socket listens on `port`, or a UDP socket is bound to it, at an address that can
/// be reached from outside of `network`'s loopback.
pub fn port_listening(network: &Network, port: u16) -> Result<bool, NetworkError> {
    network.within(|| {
        TABLES.iter().any(|(name, state)| {
            // A kernel without IPv6 has no such table.
            let table = fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            table.is_ok_and(|table| listens(&table, port, state))
        })
    })
}

/// Reads `/proc/net/tcp` or its kin (`proc_net_tcp(5)`): slot, local address, remote address,
/// state, all in hexadecimal.
fn listens(table: &str, port: u16, state: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, found) = (fields.next().and_then(parse_local), fields.nth(1));
        found == Some(state)
            && local.is_some_and(|(address, p)| p == port && !address.is_loopback())
    })
}

/// An address is printed word by word as the machine's own integers.
fn parse_local(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |n: usize| {
        let digits = address.get(n * 8..n * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let address = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            Ipv6Addr::from(*words.as_flattened().first_chunk::<16>()?).to_canonical()
        }
        _ => return None,
    };
    Some((address, port))
}

/// Tables, and the state of a socket that waits: `TCP_LISTEN`; UDP's unconnected is `TCP_CLOSE`.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 00000000:0016 0100A8C0:0016 01 00000000:00000000 00:00000000 00000000  1000        0 1 1
   2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0
   1: 00000000000000000000000001000000:0051 00000000000000000000000000000000:0000 0A 0
   2: 0000000000000000FFFF00000100007F:0052 00000000000000000000000000000000:0000 0A 0
";

    #[test]
    fn a_listening_socket_is_found_and_a_connected_one_is_not() {
        assert!(listens(TCP, 5201, "0A"));
        assert!(!listens(TCP, 22, "0A"));
        assert!(!listens(TCP, 5202, "0A"));
        assert!(!listens(TCP, 5201, "07"));
        assert!(listens(TCP6, 8080, "0A"));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_socket_on_the_loopback_cannot_be_reached_and_does_not_count() {
        assert!(!listens(TCP, 80, "0A"));
        assert!(!listens(TCP6, 0x51, "0A"));
        assert!(!listens(TCP6, 0x52, "0A"));
    }

    #[test]
    fn lines_that_are_no_socket_are_skipped() {
        for bad in ["", "x", "0: 00:00", "0: 0000000G:1451 0 0A", "0: 00000000 0 0A", "é: é:é é é"]
        {
            assert!(!listens(&format!("header\n{bad}\n"), 5201, "0A"), "{bad}");
        }
    }
}
