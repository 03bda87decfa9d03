//! Rules that hand packets to a queue, spoken to nf_tables without the `nft` program.
//!
//! Everything is installed by one transaction into tables with the OWNER flag (Linux 5.12): they
//! vanish when our socket closes, however we died, and nobody else may change them. Messages:
//! linux/netfilter/nf_tables.h.

mod ce;
mod error;
mod packets;
mod ruleset;

use std::io;

pub use self::ce::CE_MARK;
pub use self::error::HookError;
pub use self::packets::Packets;
use self::ruleset::{CE_CHAIN, CHAIN, Ruleset};
use super::attribute::{self, Attributes, Head, Message, Writer, network_u64};
use super::exchange::{ControlSocket, Exchange};

/// Rules to install at one hook.
#[derive(Clone, Debug)]
pub struct HookConfig {
    /// Name of the tables, one per family; at most 200 bytes. It must not exist yet.
    pub table: String,
    /// Where packets are taken.
    pub hook: Hook,
    /// Place among the other chains of the hook: lower is earlier, 0 is that of filters,
    /// -150 that of mangling.
    pub priority: i32,
    /// At least one.
    pub rules: Vec<HookRule>,
    /// Have a second chain, right behind the first, write CE (RFC 3168) into packets whose verdict
    /// sets [`CE_MARK`], and clear that mark.
    pub ce: bool,
}

/// A rule that hands packets to a queue.
#[derive(Clone, Debug)]
pub struct HookRule {
    /// IPv4 or IPv6.
    pub family: Family,
    /// The interface that the packet came in by (PREROUTING, INPUT, FORWARD) or will leave by
    /// (OUTPUT, POSTROUTING): 1 to 15 bytes.
    pub device: String,
    /// Which of its packets.
    pub packets: Packets,
    /// The queue's number.
    pub queue: u16,
    /// Write the low 32 bits of the kernel's `CLOCK_REALTIME` in nanoseconds into the packet's
    /// mark, replacing what was there.
    pub stamp_arrival: bool,
    /// Let packets pass while nobody is bound to the queue; else they are dropped.
    pub bypass: bool,
}

/// A place in the kernel's path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Every packet that came in, before routing.
    PreRouting,
    /// Packets for this host.
    Input,
    /// Packets that pass through.
    Forward,
    /// Packets of this host's own sockets.
    Output,
    /// Every packet that is about to leave.
    PostRouting,
}

/// A protocol family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    Ip4,
    /// IPv6
    Ip6,
}

/// How the kernel takes a packet into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// The `queue` expression (`CONFIG_NFT_QUEUE`).
    Native,
    /// The `NFQUEUE` target of x_tables (`CONFIG_NFT_COMPAT` and
    /// `CONFIG_NETFILTER_XT_TARGET_NFQUEUE`).
    Compat,
}

/// What a rule has handed to its queue, counted by the kernel apart from the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets; a burst that is not cut yet is one.
    pub packets: u64,
    /// Bytes from the IP header on.
    pub bytes: u64,
}

/// Rules in force until this is dropped.
///
/// Dropping it removes base chains, and **the kernel then drops every packet held by NFQUEUE in
/// the network namespace**, also those of others.
#[derive(Debug)]
pub struct InstalledHooks {
    socket: ControlSocket,
    table: String,
    families: Vec<Family>,
    action: QueueAction,
}

impl InstalledHooks {
    /// Installs all rules, or nothing, in the calling thread's network namespace.
    ///
    /// What the kernel can do is found out by a trial without a base chain, so that a refusal
    /// disturbs no packet that somebody holds.
    pub fn install(config: &HookConfig) -> Result<Self, HookError> {
        check(config)?;
        let mut socket = ControlSocket::open()?;
        let action = choose_action(&mut socket, config)?;
        Ruleset::new(config, action).commit(&mut socket)?;
        let families = config.rules.iter().map(|rule| rule.family).collect();
        Ok(Self { socket, table: config.table.clone(), families, action })
    }

    /// How packets get into the queue on this kernel.
    pub fn action(&self) -> QueueAction {
        self.action
    }

    /// Counts per rule, in the order in which the rules were given.
    pub fn counters(&mut self) -> io::Result<Vec<RuleCount>> {
        let mut ip4 = self.chain_counters(Family::Ip4, CHAIN)?.into_iter();
        let mut ip6 = self.chain_counters(Family::Ip6, CHAIN)?.into_iter();
        let mut next = |family: &Family| match family {
            Family::Ip4 => ip4.next(),
            Family::Ip6 => ip6.next(),
        };
        self.families.iter().map(|family| next(family).ok_or_else(rules_are_gone)).collect()
    }

    /// Packets into which CE was written: those that carried ECT and not CE yet.
    pub fn ce_written(&mut self) -> io::Result<u64> {
        let mut packets = 0;
        for family in [Family::Ip4, Family::Ip6] {
            let counts = self.chain_counters(family, CE_CHAIN)?;
            packets += counts.iter().map(|count| count.packets).sum::<u64>();
        }
        Ok(packets)
    }

    fn chain_counters(&mut self, family: Family, chain: &str) -> io::Result<Vec<RuleCount>> {
        if !self.families.contains(&family) {
            return Ok(Vec::new());
        }
        let mut request = Writer::default();
        request.message(Head {
            kind: GETRULE,
            flags: attribute::REQUEST | NLM_F_DUMP,
            sequence: 0,
            family: family.number(),
            resource: 0,
        });
        request.string(ruleset::NFTA_RULE_TABLE, &self.table);
        for _ in 0..DUMP_TRIES {
            let mut counts = Vec::new();
            let collect =
                |message: &Message<'_>| counts.extend(rule_count(message, (&self.table, chain)));
            match self.socket.dump(request.bytes(), collect) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|()| counts),
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "somebody keeps changing the host's rules"))
    }
}

impl Hook {
    /// `NF_INET_*`
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::PreRouting => 0,
            Self::Input => 1,
            Self::Forward => 2,
            Self::Output => 3,
            Self::PostRouting => 4,
        }
    }
}

impl Family {
    /// `NFPROTO_*`
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Ip4 => 2,
            Self::Ip6 => 10,
        }
    }
}

/// The first way of queueing that the kernel has.
pub(super) fn choose_action(
    kernel: &mut impl Exchange,
    config: &HookConfig,
) -> Result<QueueAction, HookError> {
    match Ruleset::trial(config, QueueAction::Native).commit(kernel) {
        Ok(()) => Ok(QueueAction::Native),
        Err(HookError::NoQueueAction) => {
            Ruleset::trial(config, QueueAction::Compat).commit(kernel)?;
            Ok(QueueAction::Compat)
        }
        Err(error) => Err(error),
    }
}

/// What would make the message longer than its length fields, or the rule match nothing.
pub(super) fn check(config: &HookConfig) -> Result<(), HookError> {
    let invalid = |what: String| Err(HookError::Invalid { what });
    if config.rules.is_empty() {
        return invalid("no rule given".to_owned());
    }
    if config.table.is_empty() || config.table.len() > 200 || config.table.contains('\0') {
        return invalid(format!("table name {:?} is not 1 to 200 bytes", config.table));
    }
    if config.ce && config.priority == i32::MAX {
        return invalid("no chain can come after one of the last priority".to_owned());
    }
    for HookRule { device, packets, .. } in &config.rules {
        if let Packets::Share { share, of } = packets
            && (*of < 2 || share >= of)
        {
            return invalid(format!("share {share} of {of} is none"));
        }
        // IFNAMSIZ is 16 with the NUL.
        if device.is_empty() || device.len() > 15 || device.contains(['\0', '/']) {
            return invalid(format!("device name {device:?} is not 1 to 15 bytes without a slash"));
        }
    }
    Ok(())
}

/// The counter of one rule of a dump; `None` for a rule of another table or chain, or without one.
fn rule_count(message: &Message<'_>, (table, chain): (&str, &str)) -> Option<RuleCount> {
    let attributes = message.attributes()?;
    for (kind, wanted) in [(ruleset::NFTA_RULE_TABLE, table), (ruleset::NFTA_RULE_CHAIN, chain)] {
        let name = attributes.clone().find(kind)?;
        if name.strip_suffix(&[0]) != Some(wanted.as_bytes()) {
            return None;
        }
    }
    let expressions = attributes.find(ruleset::NFTA_RULE_EXPRESSIONS)?;
    Attributes::new(expressions).map_while(Result::ok).find_map(|(_, expression)| {
        let expression = Attributes::new(expression);
        let name = expression.clone().find(ruleset::NFTA_EXPR_NAME)?;
        let data = Attributes::new(expression.find(ruleset::NFTA_EXPR_DATA)?);
        (name == b"counter\0").then_some(())?;
        Some(RuleCount {
            bytes: network_u64(data.clone().find(NFTA_COUNTER_BYTES)?, 0)?,
            packets: network_u64(data.find(NFTA_COUNTER_PACKETS)?, 0)?,
        })
    })
}

fn rules_are_gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the kernel no longer lists the rules installed")
}

/// A dump is repeated when the rules of anybody change in the middle of it.
const DUMP_TRIES: usize = 20;
const GETRULE: u16 = ruleset::NFTABLES_SUBSYSTEM | 7;
const NLM_F_DUMP: u16 = 0x300;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::netfilter::attribute::Messages;

    pub(in crate::netfilter) fn config() -> HookConfig {
        let rule = HookRule {
            family: Family::Ip4,
            device: "veth0".to_owned(),
            packets: Packets::All,
            queue: 5,
            stamp_arrival: true,
            bypass: false,
        };
        let ip6 = HookRule { family: Family::Ip6, queue: 6, ..rule.clone() };
        HookConfig {
            table: "punctual".to_owned(),
            hook: Hook::Forward,
            priority: 0,
            rules: vec![rule, ip6],
            ce: false,
        }
    }

    fn dumped_rule((table, chain): (&str, &str), packets: u64, bytes: u64) -> Writer {
        let mut writer = Writer::default();
        writer.message(Head { kind: 0x0a06, flags: 2, sequence: 0, family: 2, resource: 0 });
        writer.string(ruleset::NFTA_RULE_TABLE, table);
        writer.string(ruleset::NFTA_RULE_CHAIN, chain);
        writer.nested(ruleset::NFTA_RULE_EXPRESSIONS, |writer| {
            writer.nested(1, |writer| {
                writer.string(1, "meta");
                writer.nested(2, |_| {});
            });
            writer.nested(1, |writer| {
                writer.string(1, "counter");
                writer.nested(2, |writer| {
                    writer.attribute(NFTA_COUNTER_BYTES, &bytes.to_be_bytes());
                    writer.attribute(NFTA_COUNTER_PACKETS, &packets.to_be_bytes());
                });
            });
        });
        writer
    }

    fn count_of(writer: &Writer) -> Option<RuleCount> {
        let message = Messages::new(writer.bytes()).next().unwrap().unwrap();
        rule_count(&message, ("punctual", "hold"))
    }

    #[test]
    fn the_counter_is_found_among_the_expressions_of_our_chain_only() {
        let expected = RuleCount { packets: 3, bytes: 1 << 40 };
        let dumped = |table, chain| count_of(&dumped_rule((table, chain), 3, 1 << 40));
        assert_eq!(dumped("punctual", "hold"), Some(expected));
        assert_eq!(dumped("punctual2", "hold"), None);
        assert_eq!(dumped("punctual", "ce"), None);
    }

    #[test]
    fn names_that_do_not_fit_are_refused_before_the_kernel_is_asked() {
        let refused = |change: fn(&mut HookConfig)| {
            let mut config = config();
            change(&mut config);
            matches!(check(&config), Err(HookError::Invalid { .. }))
        };
        assert!(check(&config()).is_ok());
        assert!(refused(|config| config.rules.clear()));
        assert!(refused(|config| config.table.clear()));
        assert!(refused(|config| config.table = "t".repeat(201)));
        assert!(refused(|config| config.rules[0].device = "sixteen-bytes-xx".to_owned()));
        assert!(refused(|config| (config.ce, config.priority) = (true, i32::MAX)));
        assert!(refused(|config| config.rules[1].device.clear()));
        assert!(refused(|config| config.rules[1].device.push('\0')));
        assert!(refused(|config| config.rules[0].packets = Packets::Share { share: 2, of: 2 }));
        assert!(refused(|config| config.rules[0].packets = Packets::Share { share: 0, of: 1 }));
    }
}
