//! Rules that write CE into a packet whose verdict asked for it.
//!
//! The packet's bytes never come to us. The verdict sets [`CE_MARK`]; a chain of the same hook
//! that comes after the one that held the packet writes the two ECN bits, and clears the mark.

use super::Family;
use super::ruleset::{
    NFT_CMP_EQ, NFT_META_MARK, NFT_REG32_00, NFTA_CMP_DATA, NFTA_CMP_OP, NFTA_CMP_SREG,
    NFTA_META_DREG, NFTA_META_KEY, NFTA_META_SREG, write_value,
};
use crate::netfilter::attribute::Writer;

/// The mark by which a verdict asks for CE. The whole mark is compared: 0xCE in its highest byte,
/// 0 in the others. It is cleared before the packet goes on, whether CE could be written or not.
pub const CE_MARK: u32 = 0xce00_0000;

/// An expression of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CeStep {
    MarkRead,
    MarkEqual,
    HeaderRead,
    EcnOnly,
    NotNotEct,
    NotCe,
    EcnSet,
    HeaderWrite,
    Count,
    Zero,
    MarkClear,
}

/// The first rule ends at the first comparison that fails; the second clears the mark all the
/// same.
pub(super) const RULES: [&[CeStep]; 2] = [
    &[
        CeStep::MarkRead,
        CeStep::MarkEqual,
        CeStep::HeaderRead,
        CeStep::EcnOnly,
        CeStep::NotNotEct,
        CeStep::NotCe,
        CeStep::EcnSet,
        CeStep::HeaderWrite,
        CeStep::Count,
    ],
    &[CeStep::MarkRead, CeStep::MarkEqual, CeStep::Zero, CeStep::MarkClear],
];

impl CeStep {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MarkRead | Self::MarkClear => "meta",
            Self::MarkEqual | Self::NotNotEct | Self::NotCe => "cmp",
            Self::HeaderRead | Self::HeaderWrite => "payload",
            Self::EcnOnly | Self::EcnSet => "bitwise",
            Self::Count => "counter",
            Self::Zero => "immediate",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::MarkRead | Self::MarkClear => "the mark (meta mark)",
            Self::MarkEqual | Self::NotNotEct | Self::NotCe => "a comparison (cmp)",
            Self::HeaderRead => "the header's first bytes (payload)",
            Self::HeaderWrite => "writing the header's first bytes (payload set)",
            Self::EcnOnly | Self::EcnSet => "the ECN bits (bitwise)",
            Self::Count => "the counter",
            Self::Zero => "the constant (immediate)",
        }
    }
}

/// The data of one expression.
pub(super) fn write(writer: &mut Writer, step: CeStep, family: Family) {
    let [ce, others] = [ecn_bits(family), !ecn_bits(family)].map(u16::to_be_bytes);
    match step {
        CeStep::MarkRead => {
            writer.number(NFTA_META_KEY, NFT_META_MARK);
            writer.number(NFTA_META_DREG, HEADER);
        }
        CeStep::MarkEqual => compare(writer, (HEADER, NFT_CMP_EQ), &CE_MARK.to_ne_bytes()),
        CeStep::HeaderRead => {
            writer.number(NFTA_PAYLOAD_DREG, HEADER);
            first_two_bytes(writer);
        }
        CeStep::EcnOnly => masked(writer, ECN, ce, [0; 2]),
        CeStep::NotNotEct => compare(writer, (ECN, NFT_CMP_NEQ), &[0; 2]),
        CeStep::NotCe => compare(writer, (ECN, NFT_CMP_NEQ), &ce),
        CeStep::EcnSet => masked(writer, HEADER, others, ce),
        CeStep::HeaderWrite => {
            writer.number(NFTA_PAYLOAD_SREG, HEADER);
            first_two_bytes(writer);
            if family == Family::Ip4 {
                writer.number(NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
                writer.number(NFTA_PAYLOAD_CSUM_OFFSET, IP4_CHECKSUM);
            }
        }
        CeStep::Count => {}
        CeStep::Zero => {
            writer.number(NFTA_IMMEDIATE_DREG, HEADER);
            write_value(writer, NFTA_IMMEDIATE_DATA, &[0; 4]);
        }
        CeStep::MarkClear => {
            writer.number(NFTA_META_KEY, NFT_META_MARK);
            writer.number(NFTA_META_SREG, HEADER);
        }
    }
}

/// The two ECN bits within the header's first 16: the low ones of the second byte in IPv4 (RFC 791,
/// 3168); in IPv6 the traffic class begins 4 bits later than a byte does (RFC 8200).
fn ecn_bits(family: Family) -> u16 {
    match family {
        Family::Ip4 => 0x0003,
        Family::Ip6 => 0x0030,
    }
}

fn compare(writer: &mut Writer, (register, operation): (u32, u32), value: &[u8]) {
    writer.number(NFTA_CMP_SREG, register);
    writer.number(NFTA_CMP_OP, operation);
    write_value(writer, NFTA_CMP_DATA, value);
}

/// `into` = header & `mask` ^ `flip`.
fn masked(writer: &mut Writer, into: u32, mask: [u8; 2], flip: [u8; 2]) {
    writer.number(NFTA_BITWISE_SREG, HEADER);
    writer.number(NFTA_BITWISE_DREG, into);
    writer.number(NFTA_BITWISE_LEN, 2);
    write_value(writer, NFTA_BITWISE_MASK, &mask);
    write_value(writer, NFTA_BITWISE_XOR, &flip);
}

/// Two, though one byte would hold the bits of IPv4: the checksum adds words of 16 bits, and the
/// kernel's correction of it is right only for whole words.
fn first_two_bytes(writer: &mut Writer) {
    writer.number(NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
    writer.number(NFTA_PAYLOAD_OFFSET, 0);
    writer.number(NFTA_PAYLOAD_LEN, 2);
}

/// 4-byte registers.
const HEADER: u32 = NFT_REG32_00;
const ECN: u32 = NFT_REG32_00 + 1;
const IP4_CHECKSUM: u32 = 10;
const NFT_CMP_NEQ: u32 = 1;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_PAYLOAD_SREG: u16 = 5;
const NFTA_PAYLOAD_CSUM_TYPE: u16 = 6;
const NFTA_PAYLOAD_CSUM_OFFSET: u16 = 7;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_CSUM_INET: u32 = 1;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
