//! The transaction that installs our rules, and which part of it an answer is about.

use std::fmt;

use super::ce::{self, CeStep};
use super::error::{HookError, explain};
use super::packets::{self, Step};
use super::{Family, Hook, HookConfig, HookRule, QueueAction};
use crate::netfilter::attribute::{self, Head, Writer};
use crate::netfilter::exchange::{Answer, Exchange};

/// A batch: all of it is carried out, or nothing.
#[derive(Debug)]
pub(super) struct Ruleset {
    writer: Writer,
    /// What the message with this sequence number is about.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    place: Place,
    /// Where each expression ends, in bytes from the start of the message.
    expressions: Vec<(Expression, usize)>,
}

/// What a message of the batch installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Batch,
    Table(Family),
    Chain(Family),
    CeChain(Family),
    Rule { index: usize, family: Family, device: String },
    CeRule(Family),
}

/// An expression of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    DeviceName,
    DeviceEqual,
    Packets(Step),
    ArrivalTime,
    MarkSet,
    Counter,
    Queue(QueueAction),
    Ce(CeStep),
}

impl Ruleset {
    /// Tables, base chains and rules.
    pub(super) fn new(config: &HookConfig, action: QueueAction) -> Self {
        let mut ruleset = Self::unfinished(config, action, true);
        ruleset.begin(Place::Batch, BATCH_END, 0, AF_UNSPEC, NFTABLES);
        ruleset
    }

    /// The same as a question: the chains hang at no hook (adding and removing a base chain makes
    /// the kernel drop all packets held in the namespace), and a batch without an end is checked
    /// and undone.
    pub(super) fn trial(config: &HookConfig, action: QueueAction) -> Self {
        Self::unfinished(config, action, false)
    }

    /// Asks the kernel to carry it out; the first refusal is explained.
    pub(super) fn commit(&self, kernel: &mut impl Exchange) -> Result<(), HookError> {
        let answers = kernel.exchange(self.writer.bytes()).map_err(HookError::Exchange)?;
        // Messages after a failed one fail for its sake.
        let refused = answers.iter().filter(|answer| answer.error != 0);
        if let Some(first) = refused.min_by_key(|answer| answer.sequence) {
            let (place, expression) = self.find(first);
            return Err(explain(place, expression, first.error));
        }
        let acknowledged = answers.len();
        let expected = self.parts.iter().filter(|part| part.place != Place::Batch).count();
        if acknowledged < expected {
            return Err(HookError::NoAnswer { expected, acknowledged });
        }
        Ok(())
    }

    fn unfinished(config: &HookConfig, action: QueueAction, at_hook: bool) -> Self {
        let mut ruleset = Self { writer: Writer::default(), parts: Vec::new() };
        ruleset.begin(Place::Batch, BATCH_BEGIN, 0, AF_UNSPEC, NFTABLES);
        for family in [Family::Ip4, Family::Ip6] {
            if config.rules.iter().any(|rule| rule.family == family) {
                ruleset.table(config, family);
                ruleset.chain(config, family, at_hook);
                if config.ce {
                    ruleset.ce_chain(config, family, at_hook);
                }
            }
        }
        for (index, rule) in config.rules.iter().enumerate() {
            ruleset.rule(config, index, rule, action);
        }
        ruleset
    }

    fn begin(&mut self, place: Place, kind: u16, flags: u16, family: u8, resource: u16) {
        let sequence = u32::try_from(self.parts.len()).expect("a few messages per rule");
        let flags = flags | attribute::REQUEST;
        self.writer.message(Head { kind, flags, sequence, family, resource });
        self.parts.push(Part { place, expressions: Vec::new() });
    }

    fn table(&mut self, config: &HookConfig, family: Family) {
        let flags = attribute::ACK | CREATE | EXCLUSIVE;
        self.begin(Place::Table(family), NEWTABLE, flags, family.number(), 0);
        self.writer.string(NFTA_TABLE_NAME, &config.table);
        self.writer.number(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
    }

    fn chain(&mut self, config: &HookConfig, family: Family, at_hook: bool) {
        self.begin(Place::Chain(family), NEWCHAIN, attribute::ACK | CREATE, family.number(), 0);
        let place = at_hook.then_some((config.hook, config.priority));
        write_chain(&mut self.writer, &config.table, CHAIN, place);
    }

    /// The chain that comes right after the one that holds, and its rules.
    fn ce_chain(&mut self, config: &HookConfig, family: Family, at_hook: bool) {
        self.begin(Place::CeChain(family), NEWCHAIN, attribute::ACK | CREATE, family.number(), 0);
        let place = at_hook.then_some((config.hook, config.priority.saturating_add(1)));
        write_chain(&mut self.writer, &config.table, CE_CHAIN, place);
        for steps in ce::RULES {
            let expressions = steps.iter().map(|&step| Expression::Ce(step)).collect();
            let rule = (Place::CeRule(family), CE_CHAIN, expressions);
            self.append(config, family, rule, |writer, expression| {
                if let Expression::Ce(step) = expression {
                    ce::write(writer, step, family);
                }
            });
        }
    }

    fn rule(&mut self, config: &HookConfig, index: usize, rule: &HookRule, action: QueueAction) {
        let family = rule.family;
        let place = Place::Rule { index, family, device: rule.device.clone() };
        let parts = (place, CHAIN, expressions(rule, action));
        self.append(config, family, parts, |writer, expression| {
            write_expression(writer, expression, config.hook, rule);
        });
    }

    /// Appends a rule to a chain; `write` fills in one expression's data.
    fn append(
        &mut self,
        config: &HookConfig,
        family: Family,
        (place, chain, expressions): (Place, &str, Vec<Expression>),
        write: impl Fn(&mut Writer, Expression),
    ) {
        let flags = attribute::ACK | CREATE | APPEND;
        self.begin(place, NEWRULE, flags, family.number(), 0);
        self.writer.string(NFTA_RULE_TABLE, &config.table);
        self.writer.string(NFTA_RULE_CHAIN, chain);
        let mut ends = Vec::new();
        self.writer.nested(NFTA_RULE_EXPRESSIONS, |writer| {
            for expression in expressions {
                writer.nested(NFTA_LIST_ELEM, |writer| {
                    writer.string(NFTA_EXPR_NAME, expression.name());
                    writer.nested(NFTA_EXPR_DATA, |writer| write(writer, expression));
                });
                ends.push((expression, writer.offset()));
            }
        });
        if let Some(part) = self.parts.last_mut() {
            part.expressions = ends;
        }
    }

    /// What the answer is about. A failed commit is answered as if the first message had failed.
    fn find(&self, answer: &Answer) -> (&Place, Option<Expression>) {
        let part = usize::try_from(answer.sequence).ok().and_then(|index| self.parts.get(index));
        let Some(part) = part else { return (&Place::Batch, None) };
        let expression = answer.offset.and_then(|offset| {
            part.expressions.iter().find(|&&(_, end)| offset < end).map(|&(found, _)| found)
        });
        (&part.place, expression)
    }
}

/// `place`: the hook and the priority there; without it the chain sees no packet.
fn write_chain(writer: &mut Writer, table: &str, name: &str, place: Option<(Hook, i32)>) {
    writer.string(NFTA_CHAIN_TABLE, table);
    writer.string(NFTA_CHAIN_NAME, name);
    if let Some((hook, priority)) = place {
        writer.nested(NFTA_CHAIN_HOOK, |writer| {
            writer.number(NFTA_HOOK_HOOKNUM, hook.number());
            writer.number(NFTA_HOOK_PRIORITY, priority.cast_unsigned());
        });
        writer.string(NFTA_CHAIN_TYPE, "filter");
        writer.number(NFTA_CHAIN_POLICY, NF_ACCEPT);
    }
}

/// Time is read as early as the match allows; the counter counts what the queue is given.
fn expressions(rule: &HookRule, action: QueueAction) -> Vec<Expression> {
    let mut expressions = vec![Expression::DeviceName, Expression::DeviceEqual];
    expressions.extend(rule.packets.steps(rule.family).into_iter().map(Expression::Packets));
    if rule.stamp_arrival {
        expressions.extend([Expression::ArrivalTime, Expression::MarkSet]);
    }
    expressions.extend([Expression::Counter, Expression::Queue(action)]);
    expressions
}

fn write_expression(writer: &mut Writer, expression: Expression, hook: Hook, rule: &HookRule) {
    match expression {
        Expression::DeviceName => {
            writer.number(NFTA_META_KEY, device_key(hook));
            writer.number(NFTA_META_DREG, NFT_REG_1);
        }
        Expression::DeviceEqual => {
            writer.number(NFTA_CMP_SREG, NFT_REG_1);
            writer.number(NFTA_CMP_OP, NFT_CMP_EQ);
            write_value(writer, NFTA_CMP_DATA, &device_name(&rule.device));
        }
        Expression::ArrivalTime => {
            writer.number(NFTA_META_KEY, NFT_META_TIME_NS);
            writer.number(NFTA_META_DREG, NFT_REG32_00);
        }
        Expression::MarkSet => {
            writer.number(NFTA_META_KEY, NFT_META_MARK);
            writer.number(NFTA_META_SREG, LOW_HALF);
        }
        Expression::Packets(step) => packets::write(writer, step),
        // Written by `ce::write`.
        Expression::Counter | Expression::Ce(_) => {}
        Expression::Queue(QueueAction::Native) => {
            writer.attribute(NFTA_QUEUE_NUM, &rule.queue.to_be_bytes());
            writer.attribute(NFTA_QUEUE_TOTAL, &1_u16.to_be_bytes());
            writer.attribute(NFTA_QUEUE_FLAGS, &u16::from(rule.bypass).to_be_bytes());
        }
        Expression::Queue(QueueAction::Compat) => {
            writer.string(NFTA_TARGET_NAME, "NFQUEUE");
            writer.number(NFTA_TARGET_REV, 3);
            writer.attribute(NFTA_TARGET_INFO, &target_info(rule));
        }
    }
}

/// A value to compare with, or to compute with.
pub(super) fn write_value(writer: &mut Writer, kind: u16, value: &[u8]) {
    writer.nested(kind, |writer| writer.attribute(NFTA_DATA_VALUE, value));
}

/// At OUTPUT and POSTROUTING a packet has the interface that it will leave by.
fn device_key(hook: Hook) -> u32 {
    match hook {
        Hook::PreRouting | Hook::Input | Hook::Forward => NFT_META_IIFNAME,
        Hook::Output | Hook::PostRouting => NFT_META_OIFNAME,
    }
}

/// All 16 bytes are compared, so that `veth1` does not match `veth10`.
fn device_name(device: &str) -> [u8; 16] {
    let mut name = [0; 16];
    for (byte, given) in name.iter_mut().zip(device.bytes()) {
        *byte = given;
    }
    name
}

/// `struct xt_NFQ_info_v3` in the machine's byte order: queue, number of queues, flags, padded to
/// a multiple of 8 bytes.
fn target_info(rule: &HookRule) -> [u8; 8] {
    let mut info = [0; 8];
    info[..2].copy_from_slice(&rule.queue.to_ne_bytes());
    info[2..4].copy_from_slice(&1_u16.to_ne_bytes());
    info[4..6].copy_from_slice(&u16::from(rule.bypass).to_ne_bytes());
    info
}

impl Expression {
    fn name(self) -> &'static str {
        match self {
            Self::DeviceName | Self::ArrivalTime | Self::MarkSet => "meta",
            Self::DeviceEqual => "cmp",
            Self::Packets(step) => step.name(),
            Self::Counter => "counter",
            Self::Queue(QueueAction::Native) => "queue",
            Self::Queue(QueueAction::Compat) => "target",
            Self::Ce(step) => step.name(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch => write!(f, "the transaction as a whole"),
            Self::Table(family) => write!(f, "the {family} table"),
            Self::Chain(family) => write!(f, "the {family} chain"),
            Self::CeChain(family) => write!(f, "the {family} chain that writes CE"),
            Self::CeRule(family) => write!(f, "the {family} rule that writes CE"),
            Self::Rule { index, family, device } => {
                write!(f, "rule {index} ({family} packets of {device})")
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DeviceName => "the interface name (meta iifname or oifname)",
            Self::DeviceEqual => "the comparison of the interface name (cmp)",
            Self::ArrivalTime => "the arrival time (meta time)",
            Self::MarkSet => "the mark (meta mark set)",
            Self::Packets(step) => step.description(),
            Self::Counter => "the counter",
            Self::Queue(QueueAction::Native) => "the queue expression",
            Self::Queue(QueueAction::Compat) => "the NFQUEUE target",
            Self::Ce(step) => step.description(),
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip4 => "IPv4",
            Self::Ip6 => "IPv6",
        })
    }
}

pub(super) const CHAIN: &str = "hold";
pub(super) const CE_CHAIN: &str = "ce";
const AF_UNSPEC: u8 = 0;
const NFTABLES: u16 = 10;
pub(super) const NFTABLES_SUBSYSTEM: u16 = NFTABLES << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEWTABLE: u16 = NFTABLES_SUBSYSTEM;
const NEWCHAIN: u16 = NFTABLES_SUBSYSTEM | 3;
const NEWRULE: u16 = NFTABLES_SUBSYSTEM | 6;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
const NF_ACCEPT: u32 = 1;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFT_TABLE_F_OWNER: u32 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
pub(super) const NFTA_RULE_TABLE: u16 = 1;
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(super) const NFTA_EXPR_NAME: u16 = 1;
pub(super) const NFTA_EXPR_DATA: u16 = 2;
pub(super) const NFTA_META_DREG: u16 = 1;
pub(super) const NFTA_META_KEY: u16 = 2;
pub(super) const NFTA_META_SREG: u16 = 3;
pub(super) const NFT_META_MARK: u32 = 3;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_TIME_NS: u32 = 30;
pub(super) const NFTA_CMP_SREG: u16 = 1;
pub(super) const NFTA_CMP_OP: u16 = 2;
pub(super) const NFTA_CMP_DATA: u16 = 3;
pub(super) const NFT_CMP_EQ: u32 = 0;
const NFTA_DATA_VALUE: u16 = 1;
/// A 16-byte register.
const NFT_REG_1: u32 = 1;
/// The first of the 4-byte registers; the time fills it and the next, in the machine's byte order.
pub(super) const NFT_REG32_00: u32 = 8;
const LOW_HALF: u32 = if cfg!(target_endian = "little") { NFT_REG32_00 } else { NFT_REG32_00 + 1 };
const NFTA_QUEUE_NUM: u16 = 1;
const NFTA_QUEUE_TOTAL: u16 = 2;
const NFTA_QUEUE_FLAGS: u16 = 3;
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_REV: u16 = 2;
const NFTA_TARGET_INFO: u16 = 3;

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::netfilter::attribute::{Attributes, Message, Messages};

    fn messages(ruleset: &Ruleset) -> Vec<Message<'_>> {
        Messages::new(ruleset.writer.bytes()).map(Result::unwrap).collect()
    }

    fn expression_names(message: &Message<'_>) -> Vec<String> {
        let list = message.attributes().unwrap().find(NFTA_RULE_EXPRESSIONS).unwrap();
        Attributes::new(list)
            .map(|element| {
                let name = Attributes::new(element.unwrap().1).find(NFTA_EXPR_NAME).unwrap();
                String::from_utf8(name.strip_suffix(&[0]).unwrap().to_vec()).unwrap()
            })
            .collect()
    }

    #[test]
    fn one_batch_holds_a_table_and_a_chain_per_family_and_all_rules() {
        let ruleset = Ruleset::new(&config(), QueueAction::Native);
        let kinds: Vec<_> = messages(&ruleset).iter().map(|message| message.kind).collect();
        let family = [NEWTABLE, NEWCHAIN];
        let expected =
            [&[BATCH_BEGIN][..], &family, &family, &[NEWRULE, NEWRULE], &[BATCH_END]].concat();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_trial_has_neither_hook_nor_end() {
        let ruleset = Ruleset::trial(&config(), QueueAction::Native);
        let messages = messages(&ruleset);
        assert_eq!(messages.last().unwrap().kind, NEWRULE);
        let chain = messages.iter().find(|message| message.kind == NEWCHAIN).unwrap();
        assert_eq!(chain.attributes().unwrap().find(NFTA_CHAIN_HOOK), None);
    }

    #[test]
    fn the_counter_stands_right_before_the_queue() {
        for (action, name) in [(QueueAction::Native, "queue"), (QueueAction::Compat, "target")] {
            let mut config = config();
            let names = |config: &HookConfig| {
                let ruleset = Ruleset::new(config, action);
                let messages = messages(&ruleset);
                expression_names(messages.iter().find(|message| message.kind == NEWRULE).unwrap())
            };
            assert_eq!(names(&config), ["meta", "cmp", "meta", "meta", "counter", name]);
            config.rules[0].stamp_arrival = false;
            assert_eq!(names(&config), ["meta", "cmp", "counter", name]);
        }
    }

    #[test]
    fn an_answer_is_attributed_to_its_message_and_expression() {
        let ruleset = Ruleset::new(&config(), QueueAction::Native);
        let part = &ruleset.parts[6];
        let mut start = 0;
        for &(expression, end) in &part.expressions {
            let offset = Some(start + (end - start) / 2);
            let answer = Answer { sequence: 6, error: libc::EINVAL, offset };
            let (place, found) = ruleset.find(&answer);
            assert!(matches!(place, Place::Rule { index: 1, family: Family::Ip6, .. }));
            assert_eq!(found, Some(expression));
            start = end;
        }
        assert_eq!(part.expressions.len(), 6);
        let unknown = Answer { sequence: 99, error: libc::EINVAL, offset: None };
        assert_eq!(ruleset.find(&unknown), (&Place::Batch, None));
    }

    #[test]
    fn a_name_is_compared_to_its_last_byte() {
        assert_eq!(&device_name("veth1"), b"veth1\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&device_name("fifteen-bytes-x"), b"fifteen-bytes-x\0");
    }
}
