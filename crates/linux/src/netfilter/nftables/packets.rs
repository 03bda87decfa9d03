//! Which packets of a device a rule takes: all, or those of some flows.

use super::Family;
use super::ruleset::{
    NFT_CMP_EQ, NFT_REG32_00, NFTA_CMP_DATA, NFTA_CMP_OP, NFTA_CMP_SREG, NFTA_META_DREG,
    NFTA_META_KEY, write_value,
};
use crate::netfilter::attribute::Writer;

/// Which packets of a device a rule takes.
///
/// Flows are divided among queues by rules in this order: [`Packets::OtherProtocols`] and
/// [`Packets::Fragments`] to the first queue, each [`Packets::Share`] but the first to its own,
/// [`Packets::All`] that is left to the first. Then all packets with the same addresses, protocol
/// and ports meet the same queue, and so do all fragments with the same addresses and protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packets {
    /// All.
    #[default]
    All,
    /// Neither TCP nor UDP.
    OtherProtocols,
    /// Parts of a datagram: only the first has ports.
    Fragments,
    /// Whose two ports have this share of `of` by their hash: `share` is below it, `of` at least
    /// 2. The hash is the same in every run. A packet too short for ports has none.
    Share {
        /// Which.
        share: u16,
        /// Of how many.
        of: u16,
    },
}

/// An expression of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Protocol,
    NotTcp,
    NotUdp,
    FragmentField,
    FragmentBits,
    FragmentHeader,
    IsFragment,
    Ports,
    Hash { of: u16 },
    Share { share: u16 },
}

impl Packets {
    /// The rule ends at the first comparison that fails.
    pub(super) fn steps(self, family: Family) -> Vec<Step> {
        match (self, family) {
            (Self::All, _) => Vec::new(),
            (Self::OtherProtocols, _) => vec![Step::Protocol, Step::NotTcp, Step::NotUdp],
            (Self::Fragments, Family::Ip4) => {
                vec![Step::FragmentField, Step::FragmentBits, Step::IsFragment]
            }
            (Self::Fragments, Family::Ip6) => vec![Step::FragmentHeader, Step::IsFragment],
            (Self::Share { share, of }, _) => {
                vec![Step::Ports, Step::Hash { of }, Step::Share { share }]
            }
        }
    }
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Protocol => "meta",
            Self::NotTcp | Self::NotUdp | Self::IsFragment | Self::Share { .. } => "cmp",
            Self::FragmentField | Self::Ports => "payload",
            Self::FragmentBits => "bitwise",
            Self::FragmentHeader => "exthdr",
            Self::Hash { .. } => "hash",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Protocol => "the protocol (meta l4proto)",
            Self::NotTcp | Self::NotUdp | Self::IsFragment | Self::Share { .. } => {
                "a comparison (cmp)"
            }
            Self::FragmentField => "the fragment's offset (payload)",
            Self::FragmentBits => "the fragment's bits (bitwise)",
            Self::FragmentHeader => "the fragment's header (exthdr)",
            Self::Ports => "the ports (payload)",
            Self::Hash { .. } => "the ports' hash (jhash)",
        }
    }
}

/// The data of one expression.
pub(super) fn write(writer: &mut Writer, step: Step) {
    match step {
        Step::Protocol => {
            writer.number(NFTA_META_KEY, NFT_META_L4PROTO);
            writer.number(NFTA_META_DREG, FIELD);
        }
        Step::NotTcp => compare(writer, NFT_CMP_NEQ, &[TCP]),
        Step::NotUdp => compare(writer, NFT_CMP_NEQ, &[UDP]),
        Step::FragmentField => {
            load(writer, NFT_PAYLOAD_NETWORK_HEADER, (IP4_FRAGMENT, 2));
        }
        Step::FragmentBits => {
            writer.number(NFTA_BITWISE_SREG, FIELD);
            writer.number(NFTA_BITWISE_DREG, FIELD);
            writer.number(NFTA_BITWISE_LEN, 2);
            write_value(writer, NFTA_BITWISE_MASK, &MORE_OR_OFFSET);
            write_value(writer, NFTA_BITWISE_XOR, &[0; 2]);
        }
        Step::FragmentHeader => {
            writer.number(NFTA_EXTHDR_DREG, FIELD);
            writer.attribute(NFTA_EXTHDR_TYPE, &[IP6_FRAGMENT]);
            writer.number(NFTA_EXTHDR_OFFSET, 0);
            writer.number(NFTA_EXTHDR_LEN, 1);
            writer.number(NFTA_EXTHDR_FLAGS, NFT_EXTHDR_F_PRESENT);
        }
        Step::IsFragment => compare(writer, NFT_CMP_NEQ, &[0; 2]),
        Step::Ports => load(writer, NFT_PAYLOAD_TRANSPORT_HEADER, (0, PORTS)),
        Step::Hash { of } => {
            writer.number(NFTA_HASH_SREG, FIELD);
            writer.number(NFTA_HASH_DREG, FIELD);
            writer.number(NFTA_HASH_LEN, PORTS);
            writer.number(NFTA_HASH_MODULUS, of.into());
            writer.number(NFTA_HASH_SEED, SEED);
            writer.number(NFTA_HASH_TYPE, NFT_HASH_JENKINS);
        }
        Step::Share { share } => compare(writer, NFT_CMP_EQ, &u32::from(share).to_ne_bytes()),
    }
}

fn compare(writer: &mut Writer, operation: u32, value: &[u8]) {
    writer.number(NFTA_CMP_SREG, FIELD);
    writer.number(NFTA_CMP_OP, operation);
    write_value(writer, NFTA_CMP_DATA, value);
}

fn load(writer: &mut Writer, base: u32, (offset, length): (u32, u32)) {
    writer.number(NFTA_PAYLOAD_DREG, FIELD);
    writer.number(NFTA_PAYLOAD_BASE, base);
    writer.number(NFTA_PAYLOAD_OFFSET, offset);
    writer.number(NFTA_PAYLOAD_LEN, length);
}

/// A 4-byte register; a shorter value fills the rest of it with 0.
const FIELD: u32 = NFT_REG32_00;
/// IANA protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const IP6_FRAGMENT: u8 = 44;
/// Flags and fragment offset (RFC 791): more fragments, or not the first. 14 bits.
const IP4_FRAGMENT: u32 = 6;
const MORE_OR_OFFSET: [u8; 2] = [0x3f, 0xff];
/// Bytes: source and destination port.
const PORTS: u32 = 4;
/// Any; the kernel would draw one, and each run would divide otherwise.
const SEED: u32 = 0x7075_6e63;
const NFT_META_L4PROTO: u32 = 16;
const NFT_CMP_NEQ: u32 = 1;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_EXTHDR_DREG: u16 = 1;
const NFTA_EXTHDR_TYPE: u16 = 2;
const NFTA_EXTHDR_OFFSET: u16 = 3;
const NFTA_EXTHDR_LEN: u16 = 4;
const NFTA_EXTHDR_FLAGS: u16 = 5;
const NFT_EXTHDR_F_PRESENT: u32 = 1;
const NFTA_HASH_SREG: u16 = 1;
const NFTA_HASH_DREG: u16 = 2;
const NFTA_HASH_LEN: u16 = 3;
const NFTA_HASH_MODULUS: u16 = 4;
const NFTA_HASH_SEED: u16 = 5;
const NFTA_HASH_TYPE: u16 = 7;
const NFT_HASH_JENKINS: u32 = 0;
