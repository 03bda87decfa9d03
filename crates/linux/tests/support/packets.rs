//! IP packets as a capture shows them: their checksums, their ECN bits.

/// What a capture saw, from the IP header on.
pub(crate) type Packet = Vec<u8>;

/// The ECN field (RFC 3168): 0 is Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
pub(crate) fn ecn(packet: &[u8]) -> u8 {
    if is_ip4(packet) { packet[1] & 3 } else { packet[1] >> 4 & 3 }
}

pub(crate) fn is_ip4(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4
}

pub(crate) fn is_udp_or_tcp(packet: &[u8]) -> bool {
    packet.len() >= 28 && [UDP, TCP].contains(&protocol(packet))
}

pub(crate) fn protocol(packet: &[u8]) -> u8 {
    if is_ip4(packet) { packet[9] } else { packet[6] }
}

/// Where the transport header begins; the packets of these tests have no extension headers.
pub(crate) fn transport_at(packet: &[u8]) -> usize {
    if is_ip4(packet) { usize::from(packet[0] & 15) * 4 } else { 40 }
}

/// Whether the IPv4 header's checksum is right; IPv6 has none.
pub(crate) fn header_checksum_is_right(packet: &[u8]) -> bool {
    !is_ip4(packet) || sum(&packet[..transport_at(packet)], 0) == 0xffff
}

/// Whether the checksum of UDP or TCP is right (RFC 768, 9293, 8200 section 8.1).
pub(crate) fn transport_checksum_is_right(packet: &[u8]) -> bool {
    let header = transport_at(packet);
    let addresses = if is_ip4(packet) { &packet[12..20] } else { &packet[8..40] };
    let length = u32::try_from(packet.len() - header).unwrap();
    let pseudo = sum(addresses, u32::from(protocol(packet)) + length);
    sum(&packet[header..], u32::from(pseudo)) == 0xffff
}

/// The positions at which two packets of one length differ, in bits from the first on.
pub(crate) fn differing_bits(one: &[u8], other: &[u8]) -> Vec<usize> {
    assert_eq!(one.len(), other.len());
    let differs = |&bit: &usize| (one[bit / 8] ^ other[bit / 8]) << (bit % 8) & 0x80 != 0;
    (0..one.len() * 8).filter(differs).collect()
}

/// The one's complement sum of RFC 1071, not inverted.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    let mut total = bytes.chunks(2).map(word).sum::<u32>() + start;
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).unwrap()
}

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
