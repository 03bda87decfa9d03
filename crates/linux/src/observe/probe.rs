//! The numbered probe: the payload by which sender, captures, receiver and driver mean the same
//! packet.

use punctual_sched::Instant;

/// Bytes of a probe at the start of a UDP payload.
///
/// With IPv6 and UDP headers before them they end at byte 88, inside the 128 bytes of a packet that
/// the driver copies.
pub const PROBE_BYTES: usize = 40;

/// A numbered UDP datagram. All integers are big-endian on the wire: magic, run, number, intended,
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Tells the probes of one sender from those of another.
    pub run: u64,
    /// Counts from 0 without a gap.
    pub seq: u64,
    /// When the sender meant to send it, `CLOCK_MONOTONIC`.
    pub intended: Instant,
    /// The sender's `CLOCK_MONOTONIC` just before its system call.
    pub sent: Instant,
}

impl Probe {
    /// Writes the probe to the first [`PROBE_BYTES`] of `payload`; the rest is left as it is.
    ///
    /// # Panics
    ///
    /// When `payload` is shorter than [`PROBE_BYTES`].
    pub fn encode(&self, payload: &mut [u8]) {
        let words = [MAGIC, self.run, self.seq, self.intended.as_nanos(), self.sent.as_nanos()];
        for (bytes, word) in payload[..PROBE_BYTES].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads a UDP payload; `None` when it is no probe or is cut short.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut words = [0; PROBE_BYTES / 8];
        for (word, bytes) in words.iter_mut().zip(payload.get(..PROBE_BYTES)?.chunks_exact(8)) {
            *word = u64::from_be_bytes(bytes.try_into().ok()?);
        }
        let [magic, run, seq, intended, sent] = words;
        let [intended, sent] = [intended, sent].map(Instant::from_nanos);
        (magic == MAGIC).then_some(Self { run, seq, intended, sent })
    }

    /// The probe in a packet that starts with its IP header, which is what NFQUEUE copies.
    ///
    /// `None` for all but unfragmented UDP over IPv4 or over IPv6 without extension headers.
    pub fn find_in_packet(packet: &[u8]) -> Option<Self> {
        let udp = match packet.first()? >> 4 {
            4 => {
                let header = usize::from(packet[0] & 0x0f) * 4;
                // RFC 791: more fragments (bit 13) or an offset (bits 0 to 12) make it a fragment.
                let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
                (*packet.get(9)? == UDP && fragment == 0 && header >= 20).then_some(header)?
            }
            6 => (*packet.get(6)? == UDP).then_some(40)?,
            _ => return None,
        };
        Self::decode(packet.get(udp + 8..)?)
    }

    /// The probe in an Ethernet frame without VLAN tag, which is what a packet socket gives.
    pub fn find_in_frame(frame: &[u8]) -> Option<Self> {
        match frame.get(12..14)? {
            [0x08, 0x00] | [0x86, 0xdd] => Self::find_in_packet(&frame[14..]),
            _ => None,
        }
    }
}

/// The first eight bytes, as the capture filter compares them.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"punctual");

const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe {
        run: 0x0102_0304_0506_0708,
        seq: 77,
        intended: Instant::from_nanos(1_000),
        sent: Instant::from_nanos(1_234),
    };

    fn packet(header: &[u8]) -> Vec<u8> {
        let mut payload = [0; 60];
        PROBE.encode(&mut payload);
        [header, &[0; 8], &payload].concat()
    }

    fn ipv4() -> Vec<u8> {
        let mut header = vec![0; 24];
        (header[0], header[9]) = (0x46, UDP);
        packet(&header)
    }

    fn ipv6() -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[6]) = (0x60, UDP);
        packet(&header)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut payload = [0xff; 64];
        PROBE.encode(&mut payload);
        assert_eq!(Probe::decode(&payload), Some(PROBE));
        assert_eq!(&payload[..8], b"punctual");
        assert_eq!(&payload[PROBE_BYTES..], [0xff; 24]);
    }

    #[test]
    fn every_truncation_and_every_wrong_magic_is_refused() {
        for whole in [ipv4(), ipv6()] {
            let end = whole.len() - (60 - PROBE_BYTES);
            assert_eq!(Probe::find_in_packet(&whole[..end]), Some(PROBE));
            for length in 0..end {
                assert_eq!(Probe::find_in_packet(&whole[..length]), None, "{length} bytes");
            }
        }
        let mut payload = [0; PROBE_BYTES];
        PROBE.encode(&mut payload);
        payload[7] ^= 1;
        assert_eq!(Probe::decode(&payload), None);
    }

    #[test]
    fn a_probe_is_found_behind_ipv4_options_and_in_a_frame() {
        let frame = [&[0; 12], &[0x08, 0x00][..], &ipv4()].concat();
        assert_eq!(Probe::find_in_frame(&frame), Some(PROBE));
        let frame = [&[0; 12], &[0x86, 0xdd][..], &ipv6()].concat();
        assert_eq!(Probe::find_in_frame(&frame), Some(PROBE));
        let arp = [&[0; 12], &[0x08, 0x06][..], &ipv4()].concat();
        assert_eq!(Probe::find_in_frame(&arp), None);
    }

    #[test]
    fn a_fragment_is_no_probe() {
        let mut later = ipv4();
        later[7] = 1;
        assert_eq!(Probe::find_in_packet(&later), None);
        let mut first = ipv4();
        first[6] = 0x20;
        assert_eq!(Probe::find_in_packet(&first), None);
    }

    #[test]
    fn a_probe_ends_within_the_bytes_that_the_driver_copies() {
        assert!(ipv6().len() - (60 - PROBE_BYTES) <= 128);
    }
}
