//! What a router and a bad wire do to the bytes of an IP packet.

use punctual_sched::BitFlip;

/// Sets the ECN field of an IPv4 or IPv6 packet to CE (RFC 3168) and keeps the IPv4 header
/// checksum right. False, and nothing is changed, if the packet is not ECN-capable or has CE.
pub fn set_ce(packet: &mut [u8]) -> bool {
    let Some(&[first, second]) = packet.first_chunk() else { return false };
    // The traffic class of IPv6 begins 4 bits later than a byte does (RFC 8200).
    let ce = if is_ip4(packet) { 0x03 } else { 0x30 };
    if second & ce == 0 || second & ce == ce {
        return false;
    }
    packet[1] = second | ce;
    if is_ip4(packet) {
        let [before, after] = [[first, second], [first, second | ce]].map(u16::from_be_bytes);
        correct_header_checksum(packet, before, after);
    }
    true
}

/// Flips one bit and corrects no checksum. A packet without bytes stays.
pub fn flip(packet: &mut [u8], BitFlip(bit): BitFlip) {
    if let Some((byte, mask)) = place(packet, bit) {
        packet[byte] ^= mask;
    }
}

/// Whether the bit lies in the IP header: the fixed one of IPv6, the whole one of IPv4.
pub fn is_in_header(packet: &[u8], BitFlip(bit): BitFlip) -> bool {
    let header = match packet.first() {
        Some(&first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
        _ => 40,
    };
    place(packet, bit).is_some_and(|(byte, _)| byte < header)
}

/// The byte of a bit and its mask: the first bit is the most significant one of the first byte.
fn place(packet: &[u8], bit: u32) -> Option<(usize, u8)> {
    let bits = u64::try_from(packet.len()).ok()?.checked_mul(8)?;
    let bit = u64::from(bit).checked_rem(bits)?;
    Some((usize::try_from(bit / 8).ok()?, 0x80 >> (bit % 8)))
}

fn is_ip4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
fn correct_header_checksum(packet: &mut [u8], before: u16, after: u16) {
    let Some(field) = packet.get_mut(10..12) else { return };
    let old = u16::from_be_bytes([field[0], field[1]]);
    let sum = u32::from(!old) + u32::from(!before) + u32::from(after);
    // Two carries at most: three numbers of 16 bits were added.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    let sum = u16::try_from(folded).unwrap_or(u16::MAX);
    field.copy_from_slice(&(!sum).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header_sum(header: &[u8]) -> u16 {
        let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        let mut sum: u32 = header.chunks_exact(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    /// An IPv4 header of 20 bytes with a right checksum.
    fn ip4(bytes: [u8; 18]) -> Vec<u8> {
        let mut packet = vec![0x45];
        packet.extend(&bytes[..9]);
        packet.extend([0, 0]);
        packet.extend(&bytes[9..17]);
        let sum = !header_sum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn marking_sets_ce_and_keeps_the_header_checksum_right(bytes: [u8; 18]) {
            let before = ip4(bytes);
            let mut packet = before.clone();
            let capable = [1, 2].contains(&(before[1] & 3));
            prop_assert_eq!(set_ce(&mut packet), capable);
            prop_assert_eq!(header_sum(&packet), 0xffff);
            if capable {
                prop_assert_eq!(packet[1], before[1] | 3);
                packet[1] = before[1];
                packet[10..12].copy_from_slice(&before[10..12]);
            }
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn flipping_twice_changes_nothing_and_once_one_bit(mut bytes: Vec<u8>, bit: u32) {
            let before = bytes.clone();
            flip(&mut bytes, BitFlip(bit));
            let changed: u32 =
                before.iter().zip(&bytes).map(|(one, other)| (one ^ other).count_ones()).sum();
            prop_assert_eq!(changed, u32::from(!before.is_empty()));
            flip(&mut bytes, BitFlip(bit));
            prop_assert_eq!(bytes, before);
        }

        #[test]
        fn bytes_that_are_no_packet_are_survived(mut bytes: Vec<u8>, bit: u32) {
            set_ce(&mut bytes);
            is_in_header(&bytes, BitFlip(bit));
        }
    }

    #[test]
    fn the_ecn_bits_of_ip6_lie_across_the_second_byte() {
        for (second, expected) in
            [(0x00, None), (0x1f, Some(0x3f)), (0x20, Some(0x30)), (0x30, None)]
        {
            let mut packet = vec![0x60; 40];
            packet[1] = second;
            assert_eq!(set_ce(&mut packet), expected.is_some());
            assert_eq!(packet[1], expected.unwrap_or(second));
        }
    }

    #[test]
    fn bits_are_counted_from_the_most_significant_one_and_wrap_at_the_end() {
        for (bit, expected) in [(0, [0x80, 0]), (7, [1, 0]), (8, [0, 0x80]), (16, [0x80, 0])] {
            let mut packet = [0; 2];
            flip(&mut packet, BitFlip(bit));
            assert_eq!(packet, expected);
        }
    }

    #[test]
    fn a_header_ends_where_it_says() {
        let mut packet = vec![0x46; 60];
        let last = |packet: &[u8]| {
            let inside = |&bit: &u32| is_in_header(packet, BitFlip(bit));
            (0..480).filter(inside).max().unwrap()
        };
        assert_eq!(last(&packet), 24 * 8 - 1);
        packet[0] = 0x60;
        assert_eq!(last(&packet), 40 * 8 - 1);
        assert!(is_in_header(&packet, BitFlip(480)), "the first bit again");
    }
}
