//! What travels between the two ends, in fixed fields of 64 bits, big-endian.

/// A numbered datagram of the sender. What follows it is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Tells one run from another.
    pub run: u64,
    /// Its number, from 0.
    pub seq: u64,
    /// The sender's clock when it was sent, in ns.
    pub sent_ns: u64,
}

/// What the receiver answers to each datagram: totals, so that a lost answer loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The run.
    pub run: u64,
    /// The highest number received.
    pub highest: u64,
    /// `sent_ns` of the datagram that is answered.
    pub echo_ns: u64,
    /// Totals so far.
    pub counts: Counts,
}

/// What a receiver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams by ECN codepoint: Not-ECT, ECT(1), ECT(0), CE (RFC 3168's numbers 0 to 3).
    pub codepoints: [u64; 4],
    /// Their payload bytes.
    pub bytes: u64,
}

impl Counts {
    /// Datagrams of every codepoint.
    pub fn received(&self) -> u64 {
        self.codepoints.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Datagrams that arrived with a congestion mark.
    pub fn marked(&self) -> u64 {
        self.codepoints[3]
    }
}

impl Datagram {
    /// Bytes that it takes: the least payload.
    pub const BYTES: usize = 32;

    /// Writes it to the beginning of `payload`, which has room for it.
    pub fn encode(&self, payload: &mut [u8]) {
        write(payload, &[DATAGRAM, self.run, self.seq, self.sent_ns]);
    }

    /// `None` when `payload` is something else.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let [DATAGRAM, run, seq, sent_ns] = read(payload)? else { return None };
        Some(Self { run, seq, sent_ns })
    }
}

impl Acknowledgement {
    /// Bytes that it takes.
    pub const BYTES: usize = 72;

    /// The answer's payload.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let [not_ect, ect1, ect0, ce] = self.counts.codepoints;
        let (highest, echo, bytes) = (self.highest, self.echo_ns, self.counts.bytes);
        let mut payload = [0; Self::BYTES];
        write(&mut payload, &[ANSWER, self.run, highest, echo, not_ect, ect1, ect0, ce, bytes]);
        payload
    }

    /// `None` when `payload` is something else.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let [ANSWER, run, highest, echo_ns, not_ect, ect1, ect0, ce, bytes] = read(payload)? else {
            return None;
        };
        let counts = Counts { codepoints: [not_ect, ect1, ect0, ce], bytes };
        Some(Self { run, highest, echo_ns, counts })
    }
}

fn write(payload: &mut [u8], fields: &[u64]) {
    for (place, field) in payload.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_be_bytes());
    }
}

fn read<const FIELDS: usize>(payload: &[u8]) -> Option<[u64; FIELDS]> {
    let mut fields = [0; FIELDS];
    let (places, _) = payload.as_chunks::<8>();
    for (index, field) in fields.iter_mut().enumerate() {
        *field = u64::from_be_bytes(*places.get(index)?);
    }
    Some(fields)
}

/// "pnctl4sd" and "pnctl4sa".
const DATAGRAM: u64 = 0x706e_6374_6c34_7364;
const ANSWER: u64 = 0x706e_6374_6c34_7361;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_read_back_and_nothing_else_is_read() {
        let datagram = Datagram { run: 7, seq: u64::MAX, sent_ns: 3 };
        let mut payload = [0xff; 40];
        datagram.encode(&mut payload);
        assert_eq!(Datagram::decode(&payload), Some(datagram));
        assert_eq!(Datagram::decode(&payload[..Datagram::BYTES - 1]), None);
        assert_eq!(Acknowledgement::decode(&[payload, payload].concat()), None);
        let counts = Counts { codepoints: [1, 2, 3, 4], bytes: 5 };
        let answer = Acknowledgement { run: 7, highest: 9, echo_ns: 8, counts };
        assert_eq!(Acknowledgement::decode(&answer.encode()), Some(answer));
        assert_eq!(Datagram::decode(&answer.encode()), None);
        assert_eq!((counts.received(), counts.marked()), (10, 4));
    }
}
