//! Blocks of pcapng (draft-ietf-opsawg-pcapng), little-endian.

/// A block as it is put together: `type, length, body, options, length`.
#[derive(Debug)]
pub(super) struct Block(Vec<u8>);

impl Block {
    pub(super) fn new(kind: u32) -> Self {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        Self(bytes)
    }

    /// A section: what follows is little-endian, of version 1.0 and of unknown length.
    pub(super) fn section() -> Self {
        Self::new(SECTION_HEADER).u32(BYTE_ORDER_MAGIC).u32(1).bytes(&u64::MAX.to_le_bytes())
    }

    /// An interface whose stamps count nanoseconds.
    pub(super) fn interface(link_type: u16, snap_length: u32) -> Self {
        Self::new(INTERFACE).u32(link_type.into()).u32(snap_length).option(IF_TSRESOL, &[9])
    }

    /// A packet on an interface: what of it is there, and its length on the wire.
    pub(super) fn packet(interface: u32, unix_ns: u64, captured: &[u8], length: u32) -> Self {
        let captured_length = u32::try_from(captured.len()).unwrap_or(u32::MAX);
        Self::new(ENHANCED_PACKET)
            .u32(interface)
            .time(unix_ns)
            .u32(captured_length)
            .u32(length)
            .bytes(captured)
    }

    /// What an interface counted, told at some time.
    pub(super) fn statistics(interface: u32, unix_ns: u64, received: u64, dropped: u64) -> Self {
        Self::new(INTERFACE_STATISTICS)
            .u32(interface)
            .time(unix_ns)
            .option(ISB_IFRECV, &received.to_le_bytes())
            .option(ISB_IFDROP, &dropped.to_le_bytes())
    }

    /// An entry in the journal's export format.
    pub(super) fn journal(entry: &str) -> Self {
        Self::new(JOURNAL_EXPORT).bytes(entry.as_bytes())
    }

    pub(super) fn option(self, code: u16, value: &[u8]) -> Self {
        // What is longer than an option can be is cut.
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.bytes(&[code.to_le_bytes(), length.to_le_bytes()].concat()).bytes(value)
    }

    /// The block as it stands in a file. `options`: whether some were added.
    pub(super) fn finish(self, options: bool) -> Vec<u8> {
        let Self(mut bytes) = if options { self.bytes(&[0; 4]) } else { self };
        let length = u32::try_from(bytes.len() + 4).unwrap_or(u32::MAX).to_le_bytes();
        bytes[4..8].copy_from_slice(&length);
        bytes.extend(length);
        bytes
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// The upper half of a stamp stands first.
    fn time(self, unix_ns: u64) -> Self {
        let [high, low] = [unix_ns >> 32, unix_ns & 0xffff_ffff];
        self.u32(u32::try_from(high).unwrap_or(u32::MAX))
            .u32(u32::try_from(low).unwrap_or(u32::MAX))
    }

    /// Padded to 32 bits.
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const SHB_USERAPPL: u16 = 4;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_DESCRIPTION: u16 = 3;
pub(super) const EPB_FLAGS: u16 = 2;
pub(super) const EPB_PACKETID: u16 = 5;
const IF_TSRESOL: u16 = 9;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const JOURNAL_EXPORT: u32 = 9;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
