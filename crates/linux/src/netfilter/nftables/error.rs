//! Why rules could not be installed, in words and with the remedy.

use std::io;

use super::ruleset::{Expression, Place};
use crate::netfilter::exchange::SocketError;

/// Why rules could not be installed. Nothing was.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The configuration cannot be put into rules.
    #[error("cannot install rules: {what}")]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// No socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The transaction could not be sent, or its answer not be read.
    #[error("cannot talk to nf_tables: {0}")]
    Exchange(#[source] io::Error),
    /// No `CAP_NET_ADMIN`.
    #[error(
        "not permitted to install nf_tables rules: run as root, or in a user namespace that owns \
         this network namespace (CAP_NET_ADMIN)"
    )]
    NotPermitted,
    /// The kernel has no nf_tables.
    #[error(
        "this kernel has no nf_tables: load it with `modprobe nf_tables` (CONFIG_NF_TABLES, Linux \
         5.12 or later)"
    )]
    NoTables,
    /// The table's name is in use.
    #[error(
        "the table name is in use in this network namespace: another instance holds it; choose \
         another name, or end that instance"
    )]
    TableTaken,
    /// The kernel does not know tables with an owner.
    #[error("this kernel knows no nf_tables table with an owner: Linux 5.12 or later is needed")]
    NoOwner,
    /// The kernel has no way to queue packets from a rule.
    #[error(
        "this kernel can queue packets by neither nft_queue nor the NFQUEUE target: load one with \
         `modprobe nft_queue` (CONFIG_NFT_QUEUE), or with `modprobe -a nft_compat xt_NFQUEUE` \
         (CONFIG_NFT_COMPAT, CONFIG_NETFILTER_XT_TARGET_NFQUEUE)"
    )]
    NoQueueAction,
    /// The kernel has no clock for rules.
    #[error(
        "this kernel cannot stamp arrivals (meta time): Linux 5.4 or later is needed, or rules \
         without stamps"
    )]
    NoArrivalStamp,
    /// The kernel cannot write into a packet's header.
    #[error(
        "this kernel cannot write CE into packets (payload set): Linux 4.5 or later is needed, or \
         rules that do not mark"
    )]
    NoCeMark,
    /// The kernel cannot divide flows among rules.
    #[error(
        "this kernel cannot divide flows among queues (jhash, exthdr): load it with `modprobe \
         nft_hash` (CONFIG_NFT_HASH, Linux 4.11 or later), or one queue has to serve all"
    )]
    NoShares,
    /// Any other refusal.
    #[error("the kernel refused {what}: {error}")]
    Refused {
        /// Table, chain or rule, and the expression of the rule.
        what: String,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// Answers are missing.
    #[error("the kernel acknowledged {acknowledged} of {expected} messages to nf_tables")]
    NoAnswer {
        /// Messages that asked for an answer.
        expected: usize,
        /// Answers that came.
        acknowledged: usize,
    },
}

/// What the kernel means by this error number at this place.
pub(super) fn explain(place: &Place, expression: Option<Expression>, error: i32) -> HookError {
    match (place, expression, error) {
        // Both are answered by nfnetlink to the first message, before nf_tables sees any.
        (Place::Batch, _, libc::EPERM) => HookError::NotPermitted,
        (Place::Batch, _, libc::EOPNOTSUPP | libc::EINVAL) => HookError::NoTables,
        // EEXIST: a table that anybody may change; EPERM: another owner's.
        (Place::Table(_), _, libc::EEXIST | libc::EPERM) => HookError::TableTaken,
        (Place::Table(_), _, libc::EOPNOTSUPP | libc::EINVAL) => HookError::NoOwner,
        (Place::Rule { .. }, Some(Expression::Queue(_)), libc::ENOENT | libc::EOPNOTSUPP)
        // A kernel that names no expression: only the queueing one is optional.
        | (Place::Rule { .. }, None, libc::ENOENT) => HookError::NoQueueAction,
        (
            Place::Rule { .. },
            Some(Expression::ArrivalTime),
            libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL,
        ) => HookError::NoArrivalStamp,
        (
            Place::Rule { .. },
            Some(Expression::Packets(_)),
            libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL,
        ) => HookError::NoShares,
        // No expression named: the chain's rules hold nothing else that can be missing.
        (Place::CeRule(_), _, libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL) => {
            HookError::NoCeMark
        }
        _ => refused(place, expression, error),
    }
}

fn refused(place: &Place, expression: Option<Expression>, error: i32) -> HookError {
    let what = match expression {
        Some(expression) => format!("{expression} of {place}"),
        None => place.to_string(),
    };
    HookError::Refused { what, error: io::Error::from_raw_os_error(error) }
}

#[cfg(test)]
mod tests {
    use super::super::{Family, QueueAction};
    use super::*;

    fn rule() -> Place {
        Place::Rule { index: 1, family: Family::Ip6, device: "veth0".to_owned() }
    }

    fn words(place: &Place, expression: Option<Expression>, error: i32) -> String {
        explain(place, expression, error).to_string()
    }

    #[test]
    fn each_refusal_names_the_part_and_the_remedy() {
        let queue = Some(Expression::Queue(QueueAction::Compat));
        let table = Place::Table(Family::Ip4);
        for (place, expression, error, expected) in [
            (&Place::Batch, None, libc::EPERM, "CAP_NET_ADMIN"),
            (&Place::Batch, None, libc::EOPNOTSUPP, "modprobe nf_tables"),
            (&table, None, libc::EEXIST, "choose another name"),
            (&table, None, libc::EPERM, "choose another name"),
            (&table, None, libc::EOPNOTSUPP, "5.12"),
            (&rule(), queue, libc::ENOENT, "modprobe nft_queue"),
            (&rule(), None, libc::ENOENT, "xt_NFQUEUE"),
            (&rule(), Some(Expression::ArrivalTime), libc::EOPNOTSUPP, "5.4"),
            (&Place::CeRule(Family::Ip6), None, libc::ENOENT, "write CE"),
        ] {
            let words = words(place, expression, error);
            assert!(words.contains(expected), "{error} at {place}: {words}");
        }
    }

    #[test]
    fn an_unexpected_refusal_says_where() {
        let said = words(&rule(), Some(Expression::Counter), libc::ENOMEM);
        assert!(said.contains("the counter of rule 1 (IPv6 packets of veth0)"), "{said}");
        let said = words(&Place::Chain(Family::Ip6), None, libc::ENOENT);
        assert!(said.contains("the IPv6 chain"), "{said}");
    }
}
