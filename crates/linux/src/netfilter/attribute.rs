//! Netlink framing: message headers and attributes, written and read as plain bytes.
//!
//! Layout: linux/netlink.h and linux/netfilter/nfnetlink.h. Header fields and attribute headers
//! are in the machine's byte order, the values of netfilter attributes in network order.

/// Writes netlink messages one after the other into one buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    message: usize,
}

/// Kind, flags and address of a netfilter message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Subsystem in the high byte, message in the low one.
    pub(crate) kind: u16,
    /// `NLM_F_*`.
    pub(crate) flags: u16,
    /// Comes back in the answer.
    pub(crate) sequence: u32,
    /// Protocol family (`NFPROTO_*`).
    pub(crate) family: u8,
    /// Queue number, or subsystem of a batch.
    pub(crate) resource: u16,
}

impl Writer {
    /// Ends the message before, begins the next.
    pub(crate) fn message(&mut self, head: Head) {
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&head.kind.to_ne_bytes());
        self.bytes.extend_from_slice(&head.flags.to_ne_bytes());
        self.bytes.extend_from_slice(&head.sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&[head.family, NFNETLINK_V0]);
        self.bytes.extend_from_slice(&head.resource.to_be_bytes());
        self.update_message_length();
    }

    /// Appends an attribute with these bytes.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend_from_slice(&attribute_length(HEADER + value.len()).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        self.update_message_length();
    }

    /// Appends a number in network order.
    pub(crate) fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Appends a NUL-terminated string.
    pub(crate) fn string(&mut self, kind: u16, value: &str) {
        let mut bytes = Vec::with_capacity(value.len() + 1);
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    /// Appends an attribute that holds what `fill` writes.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute(kind | NLA_F_NESTED, &[]);
        fill(self);
        let length = attribute_length(self.bytes.len() - start);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Bytes since the start of the message being written: the offset by which the kernel names
    /// an attribute that it refuses.
    pub(crate) fn offset(&self) -> usize {
        self.bytes.len() - self.message
    }

    /// All messages.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn update_message_length(&mut self) {
        let length = u32::try_from(self.bytes.len() - self.message)
            .expect("a message is a few attributes of less than 64 kB");
        self.bytes[self.message..self.message + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

fn attribute_length(length: usize) -> u16 {
    u16::try_from(length).expect("names are bounded where they come in, the rest is fixed")
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// What follows the netlink header.
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes of a netfilter message, behind its 4-byte address; `None` if it is shorter.
    pub(crate) fn attributes(&self) -> Option<Attributes<'a>> {
        self.body.get(NFGENMSG..).map(Attributes::new)
    }
}

/// The messages of one datagram; ends after the first malformed one.
#[derive(Clone, Debug)]
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(crate) fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = split_message(self.rest);
        self.rest = message.map_or(&[], |(_, rest)| rest);
        Some(message.map(|(message, _)| message).ok_or(Malformed))
    }
}

fn split_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = usize::try_from(native_u32(bytes, 0)?).ok()?;
    let body = bytes.get(NLMSGHDR..length)?;
    let message = Message {
        kind: native_u16(bytes, 4)?,
        flags: native_u16(bytes, 6)?,
        sequence: native_u32(bytes, 8)?,
        body,
    };
    // The padding behind the last message may be left out.
    Some((message, bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default()))
}

/// The attributes of a message or of a nest; ends after the first malformed one.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The value of the first attribute of this kind; malformed ones are as good as absent.
    pub(crate) fn find(self, wanted: u16) -> Option<&'a [u8]> {
        self.map_while(Result::ok).find(|&(kind, _)| kind == wanted).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = split_attribute(self.rest);
        self.rest = attribute.map_or(&[], |(_, _, rest)| rest);
        Some(attribute.map(|(kind, value, _)| (kind, value)).ok_or(Malformed))
    }
}

fn split_attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(native_u16(bytes, 0)?);
    let kind = native_u16(bytes, 2)? & NLA_TYPE_MASK;
    let value = bytes.get(HEADER..length)?;
    Some((kind, value, bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default()))
}

/// A length or a field that does not fit the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) fn native_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

pub(crate) fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

pub(crate) fn network_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

pub(crate) fn network_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

pub(crate) fn network_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
}

/// `NLMSG_ERROR`: an answer, with an error number or 0.
pub(crate) const NLMSG_ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub(crate) const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST`
pub(crate) const REQUEST: u16 = 1;
/// `NLM_F_ACK`: answer success too.
pub(crate) const ACK: u16 = 4;

const ALIGN: usize = 4;
const HEADER: usize = 4;
const NLMSGHDR: usize = 16;
const NFGENMSG: usize = 4;
const NFNETLINK_V0: u8 = 0;
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;

    fn two_messages() -> Writer {
        let mut writer = Writer::default();
        let head = Head { kind: 0x0a06, flags: REQUEST, sequence: 7, family: 2, resource: 0x0102 };
        writer.message(head);
        writer.number(1, 0x0102_0304);
        writer.nested(2, |writer| writer.string(3, "abcd"));
        writer.message(Head { sequence: 8, ..head });
        writer
    }

    #[test]
    fn what_is_written_is_read_back() {
        let writer = two_messages();
        let messages: Vec<_> = Messages::new(writer.bytes()).map(Result::unwrap).collect();
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].kind, messages[0].flags), (0x0a06, REQUEST));
        assert_eq!((messages[0].sequence, messages[1].sequence), (7, 8));
        assert_eq!(messages[0].body[..4], [2, 0, 1, 2]);
        let attributes = messages[0].attributes().unwrap();
        assert_eq!(attributes.clone().find(1), Some(&[1, 2, 3, 4][..]));
        let nest = attributes.find(2).unwrap();
        assert_eq!(Attributes::new(nest).find(3), Some(&b"abcd\0"[..]));
    }

    #[test]
    fn an_attribute_is_padded_but_its_length_is_not() {
        let mut writer = Writer::default();
        writer.message(Head { kind: 0, flags: 0, sequence: 0, family: 0, resource: 0 });
        writer.attribute(9, &[1]);
        assert_eq!(writer.bytes().len(), 28);
        assert_eq!(writer.bytes()[20..22], 5_u16.to_ne_bytes());
        assert_eq!(writer.bytes()[..4], 28_u32.to_ne_bytes());
        assert_eq!(writer.offset(), 28);
    }

    #[test]
    fn every_truncation_ends_in_an_error_or_in_whole_messages() {
        let writer = two_messages();
        let whole = writer.bytes();
        for length in 1..whole.len() {
            let read: Vec<_> = Messages::new(&whole[..length]).collect();
            let first = usize::try_from(native_u32(whole, 0).unwrap()).unwrap();
            if length == first {
                assert!(read.len() == 1 && read[0].is_ok());
            } else {
                assert!(read.last().unwrap().is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn an_attribute_length_below_its_header_ends_the_list() {
        for length in 0..4_u16 {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[1, 0, 0, 0]);
            let read: Vec<_> = Attributes::new(&bytes).collect();
            assert_eq!(read, [Err(Malformed)]);
        }
    }
}
