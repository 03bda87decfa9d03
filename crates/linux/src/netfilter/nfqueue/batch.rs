//! What one read of a queue brings: held packets, and answers to verdicts.

use crate::netfilter::attribute::{
    self, Malformed, Message, Messages, native_u16, native_u32, network_u16, network_u32,
    network_u64,
};
use crate::sys::netlink::{Filled, SLOTS};

/// Buffers for one read of a queue, made once by [`Queue::batch`](super::Queue::batch) and filled
/// again by each [`Queue::receive`](super::Queue::receive); nothing is allocated in between.
#[derive(Debug)]
pub struct Batch {
    buffer: Vec<u8>,
    slot_size: usize,
    filled: [Filled; SLOTS],
    items: Vec<Item>,
    malformed: u64,
}

/// One thing that the kernel had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A packet that the kernel holds until its verdict.
    Packet(HeldPacket<'a>),
    /// The kernel did not take the verdict on the packet `id`.
    Refused {
        /// The packet.
        id: u32,
        /// Error number. `ENOENT`: the kernel no longer holds it, because it was flushed (any
        /// removal of a base chain in the namespace does that) or because the id is not one.
        error: i32,
    },
    /// The kernel refused a change of the queue's flags.
    ConfigurationRefused {
        /// Error number.
        error: i32,
    },
}

/// A packet held by the kernel, with the head of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket<'a> {
    /// Everything but the bytes.
    pub info: PacketInfo,
    /// The first bytes from the IP header on, at most the queue's copy range.
    pub payload: &'a [u8],
}

/// What the kernel tells about a held packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// Names the packet in its verdict; unique per queue for 2^32 packets, from 1 on.
    pub id: u32,
    /// The hook that it was taken at (`NF_INET_*`; 2 is FORWARD).
    pub hook: u8,
    /// Ethertype: 0x0800 is IPv4, 0x86dd IPv6.
    pub protocol: u16,
    /// The packet's mark, absent when it is 0. With `stamp_arrival` these are the low 32 bits of
    /// `CLOCK_REALTIME` in nanoseconds at the hook.
    pub mark: Option<u32>,
    /// `CLOCK_REALTIME` in microseconds since 1970; at PREROUTING, INPUT and FORWARD only, and
    /// only when the stack stamps packets at all.
    pub timestamp_us: Option<u64>,
    /// True length in bytes from the IP header on, however much of it was copied.
    pub len: u32,
    /// A burst that the kernel has not yet cut into wire packets.
    pub gso: bool,
    /// The transport checksum is yet to be filled in, by the device or on segmentation.
    pub checksum_unfinished: bool,
    /// Interface index it came in by; 0 for a local sender.
    pub in_device: u32,
    /// Interface index it will leave by; 0 for a local receiver, and before routing.
    pub out_device: u32,
}

impl Batch {
    pub(super) fn new(slot_size: usize) -> Self {
        Self {
            buffer: vec![0; slot_size * SLOTS],
            slot_size,
            filled: [Filled::default(); SLOTS],
            // One datagram holds one message of a queue; a second one would only reallocate.
            items: Vec::with_capacity(SLOTS),
            malformed: 0,
        }
    }

    /// What came, in the order in which the kernel sent it.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        self.items.iter().map(|item| item.received(&self.buffer))
    }

    /// Things that came: the length of [`iter`](Self::iter).
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Nothing came.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Messages that could not be understood, since this batch was made. Each may be a packet that
    /// will get no verdict, so that anything but 0 is to be reported.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The memory to receive into, its slot size, and where to say what came.
    pub(super) fn slots(&mut self) -> (&mut [u8], usize, &mut [Filled; SLOTS]) {
        (&mut self.buffer, self.slot_size, &mut self.filled)
    }

    /// Puts a datagram that was read before into a slot.
    pub(super) fn place(&mut self, slot: usize, datagram: &[u8]) {
        let length = datagram.len().min(self.slot_size);
        let start = slot * self.slot_size;
        self.buffer[start..start + length].copy_from_slice(&datagram[..length]);
        self.filled[slot] = Filled { length, truncated: length < datagram.len() };
    }

    /// Replaces the items by those of the first `count` slots.
    pub(super) fn parse(&mut self, count: usize) {
        self.items.clear();
        for (slot, filled) in self.filled[..count].iter().enumerate() {
            let start = slot * self.slot_size;
            let datagram = &self.buffer[start..start + filled.length];
            self.malformed += u64::from(filled.truncated);
            for message in Messages::new(datagram) {
                match message.and_then(|message| parse(&message)) {
                    Ok(Some(parsed)) => self.items.push(Item::new(parsed, &self.buffer)),
                    Ok(None) => {}
                    // A cut datagram is one loss, not two.
                    Err(Malformed) => self.malformed += u64::from(!filled.truncated),
                }
            }
        }
    }
}

/// A [`Received`] that names its payload by position, so that it can be kept beside the buffer.
#[derive(Clone, Copy, Debug)]
enum Item {
    Packet { info: PacketInfo, start: usize, length: usize },
    Other(Received<'static>),
}

impl Item {
    fn new(received: Received<'_>, buffer: &[u8]) -> Self {
        match received {
            Received::Packet(HeldPacket { info, payload }) => {
                let start = payload.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
                Self::Packet { info, start, length: payload.len() }
            }
            Received::Refused { id, error } => Self::Other(Received::Refused { id, error }),
            Received::ConfigurationRefused { error } => {
                Self::Other(Received::ConfigurationRefused { error })
            }
        }
    }

    fn received<'a>(&self, buffer: &'a [u8]) -> Received<'a> {
        match *self {
            Self::Packet { info, start, length } => {
                let payload = buffer.get(start..start + length).unwrap_or_default();
                Received::Packet(HeldPacket { info, payload })
            }
            Self::Other(received) => received,
        }
    }
}

/// `None` for a message that says nothing (an ACK).
fn parse<'a>(message: &Message<'a>) -> Result<Option<Received<'a>>, Malformed> {
    match message.kind {
        PACKET => parse_packet(message).map(|packet| Some(Received::Packet(packet))),
        attribute::NLMSG_ERROR => parse_error(message.body),
        NLMSG_NOOP => Ok(None),
        _ => Err(Malformed),
    }
}

/// The body is `struct nlmsgerr`: error number (negative) and the header of the message that it
/// answers.
fn parse_error<'a>(body: &[u8]) -> Result<Option<Received<'a>>, Malformed> {
    let error = native_u32(body, 0).ok_or(Malformed)?.cast_signed().wrapping_neg();
    let kind = native_u16(body, 8).ok_or(Malformed)?;
    let id = native_u32(body, 12).ok_or(Malformed)?;
    match (error, kind) {
        (0, _) => Ok(None),
        (_, super::VERDICT) => Ok(Some(Received::Refused { id, error })),
        (_, super::CONFIG) => Ok(Some(Received::ConfigurationRefused { error })),
        _ => Err(Malformed),
    }
}

fn parse_packet<'a>(message: &Message<'a>) -> Result<HeldPacket<'a>, Malformed> {
    let mut info = PacketInfo::default();
    let mut payload: &[u8] = &[];
    let mut named = false;
    let mut captured = None;
    for attribute in message.attributes().ok_or(Malformed)? {
        let (kind, value) = attribute?;
        let number = || network_u32(value, 0).ok_or(Malformed);
        match kind {
            NFQA_PACKET_HDR => {
                info.id = number()?;
                info.protocol = network_u16(value, 4).ok_or(Malformed)?;
                info.hook = *value.get(6).ok_or(Malformed)?;
                named = true;
            }
            super::NFQA_MARK => info.mark = Some(number()?),
            NFQA_TIMESTAMP => info.timestamp_us = Some(timestamp_us(value)?),
            NFQA_IFINDEX_INDEV => info.in_device = number()?,
            NFQA_IFINDEX_OUTDEV => info.out_device = number()?,
            NFQA_CAP_LEN => captured = Some(number()?),
            NFQA_SKB_INFO => {
                let flags = number()?;
                info.gso = flags & NFQA_SKB_GSO != 0;
                info.checksum_unfinished = flags & NFQA_SKB_CSUMNOTREADY != 0;
            }
            super::NFQA_PAYLOAD => payload = value,
            _ => {}
        }
    }
    if !named {
        return Err(Malformed);
    }
    // NFQA_CAP_LEN comes only when the copy is shorter than the packet.
    info.len = captured.unwrap_or_else(|| u32::try_from(payload.len()).unwrap_or(u32::MAX));
    Ok(HeldPacket { info, payload })
}

/// Two 64-bit words in network order: seconds and microseconds.
fn timestamp_us(value: &[u8]) -> Result<u64, Malformed> {
    let seconds = network_u64(value, 0).ok_or(Malformed)?;
    let microseconds = network_u64(value, 8).ok_or(Malformed)?;
    seconds
        .checked_mul(1_000_000)
        .and_then(|whole| whole.checked_add(microseconds))
        .ok_or(Malformed)
}

const NLMSG_NOOP: u16 = 1;
const PACKET: u16 = super::QUEUE_SUBSYSTEM;
const NFQA_PACKET_HDR: u16 = 1;
const NFQA_TIMESTAMP: u16 = 4;
const NFQA_IFINDEX_INDEV: u16 = 5;
const NFQA_IFINDEX_OUTDEV: u16 = 6;
const NFQA_CAP_LEN: u16 = 13;
const NFQA_SKB_INFO: u16 = 14;
const NFQA_SKB_CSUMNOTREADY: u32 = 1;
const NFQA_SKB_GSO: u32 = 2;

#[cfg(test)]
pub(super) mod tests {
    use super::super::{CONFIG, NFQA_MARK, NFQA_PAYLOAD, VERDICT};
    use super::*;
    use crate::netfilter::attribute::{Head, NLMSG_ERROR, Writer};

    const HEAD: Head = Head { kind: PACKET, flags: 0, sequence: 0, family: 2, resource: 5 };

    pub(in crate::netfilter) fn packet_with_id(id: u8) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.message(HEAD);
        writer.attribute(NFQA_PACKET_HDR, &[0, 0, 0, id, 0x08, 0x00, 2]);
        writer.bytes().to_vec()
    }

    fn packet_message() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.message(HEAD);
        writer.attribute(NFQA_PACKET_HDR, &[0, 0, 1, 2, 0x08, 0x00, 2]);
        writer.number(NFQA_IFINDEX_INDEV, 3);
        writer.number(NFQA_IFINDEX_OUTDEV, 4);
        writer.number(NFQA_MARK, 0xdead_beef);
        writer.attribute(
            NFQA_TIMESTAMP,
            &[[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 9]].concat(),
        );
        writer.number(NFQA_CAP_LEN, 1500);
        writer.number(NFQA_SKB_INFO, NFQA_SKB_GSO | NFQA_SKB_CSUMNOTREADY);
        writer.attribute(NFQA_PAYLOAD, &[0x45, 0, 5]);
        writer.bytes().to_vec()
    }

    fn error_message(kind: u16, id: u32, error: i32) -> Vec<u8> {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend(NLMSG_ERROR.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(id.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend((-error).to_ne_bytes());
        bytes.extend(32_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(id.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    fn batch_of(datagrams: &[&[u8]]) -> Batch {
        let mut batch = Batch::new(256);
        for (slot, datagram) in datagrams.iter().enumerate() {
            batch.place(slot, datagram);
        }
        batch.parse(datagrams.len());
        batch
    }

    #[test]
    fn every_attribute_of_a_packet_is_read() {
        let message = packet_message();
        let batch = batch_of(&[&message]);
        let info = PacketInfo {
            id: 0x0102,
            hook: 2,
            protocol: 0x0800,
            mark: Some(0xdead_beef),
            timestamp_us: Some(2_000_009),
            len: 1500,
            gso: true,
            checksum_unfinished: true,
            in_device: 3,
            out_device: 4,
        };
        let expected = Received::Packet(HeldPacket { info, payload: &[0x45, 0, 5] });
        assert_eq!(batch.iter().collect::<Vec<_>>(), [expected]);
        assert_eq!(batch.malformed(), 0);
    }

    #[test]
    fn the_length_of_an_untruncated_packet_is_that_of_its_payload() {
        let mut writer = Writer::default();
        writer.message(HEAD);
        writer.attribute(NFQA_PACKET_HDR, &[0, 0, 0, 1, 0x86, 0xdd, 1]);
        writer.attribute(NFQA_PAYLOAD, &[0x60; 41]);
        let batch = batch_of(&[writer.bytes()]);
        let Some(Received::Packet(packet)) = batch.iter().next() else { panic!("no packet") };
        assert_eq!((packet.info.len, packet.payload.len()), (41, 41));
        assert_eq!((packet.info.mark, packet.info.timestamp_us), (None, None));
    }

    #[test]
    fn an_error_names_the_packet_of_its_verdict_and_an_ack_is_silent() {
        let refused = error_message(VERDICT, 77, libc::ENOENT);
        let configuration = error_message(CONFIG, 0, libc::EOPNOTSUPP);
        let ack = error_message(CONFIG, 0, 0);
        let batch = batch_of(&[&refused, &ack, &configuration]);
        let expected = [
            Received::Refused { id: 77, error: libc::ENOENT },
            Received::ConfigurationRefused { error: libc::EOPNOTSUPP },
        ];
        assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_packet_without_an_id_or_of_an_unknown_kind_is_counted() {
        let mut nameless = Writer::default();
        nameless.message(HEAD);
        nameless.number(NFQA_MARK, 1);
        let mut unknown = Writer::default();
        unknown.message(Head { kind: 0x0399, ..HEAD });
        let batch = batch_of(&[nameless.bytes(), unknown.bytes()]);
        assert_eq!((batch.len(), batch.malformed()), (0, 2));
    }

    #[test]
    fn a_datagram_longer_than_its_slot_is_counted_once() {
        let mut writer = Writer::default();
        writer.message(HEAD);
        writer.attribute(NFQA_PACKET_HDR, &[0, 0, 0, 1, 0x08, 0x00, 1]);
        writer.attribute(NFQA_PAYLOAD, &[0; 400]);
        let batch = batch_of(&[writer.bytes()]);
        assert_eq!((batch.len(), batch.malformed()), (0, 1));
    }

    #[test]
    fn every_truncation_is_either_understood_or_counted() {
        for whole in [packet_message(), error_message(VERDICT, 77, libc::ENOENT)] {
            for length in 1..whole.len() {
                let batch = batch_of(&[&whole[..length]]);
                assert_eq!((batch.len(), batch.malformed()), (0, 1), "{length} bytes");
            }
        }
    }

    /// Each byte is given each of 255 other values; then bytes are changed several at a time by a
    /// fixed xorshift sequence. Whatever comes out, the packets lie inside the buffer and nothing
    /// vanishes without a count.
    #[test]
    fn no_changed_byte_makes_the_parser_panic_or_forget() {
        let whole = packet_message();
        let mut batch = Batch::new(256);
        let mut check = |bytes: &[u8]| {
            let before = batch.malformed();
            batch.place(0, bytes);
            batch.parse(1);
            let silent = batch.is_empty() && batch.malformed() == before;
            let kind = native_u16(bytes, 4);
            assert!(!silent || kind == Some(NLMSG_NOOP) || kind == Some(NLMSG_ERROR));
            for received in batch.iter() {
                if let Received::Packet(packet) = received {
                    assert!(packet.payload.len() <= bytes.len());
                }
            }
        };
        for at in 0..whole.len() {
            for change in 1..=u8::MAX {
                let mut changed = whole.clone();
                changed[at] ^= change;
                check(&changed);
            }
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let mut changed = whole.clone();
            for _ in 0..4 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let [at, value, ..] = state.to_le_bytes();
                changed[usize::from(at) % whole.len()] = value;
            }
            check(&changed);
        }
    }
}
