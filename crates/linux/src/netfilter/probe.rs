//! What of netfilter the kernel has and permits, asked before anything is started.

use std::io;

use super::exchange::{ControlSocket, Exchange, SocketError};
use super::nfqueue;
use super::nftables::{self, Family, Hook, HookConfig, HookError, HookRule, Packets, QueueAction};
use crate::fault::{Faults, Refuse};

/// What the kernel offers; all that is not optional is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// How packets get into a queue.
    pub action: QueueAction,
    /// Rules can stamp arrivals; else `NFQA_TIMESTAMP` or our own clock must serve.
    pub arrival_stamps: bool,
    /// Rules can write CE into packets; else nothing may be configured that marks.
    pub ce_marks: bool,
    /// Rules can divide flows among queues ([`Packets`]); else one has to serve all.
    pub shares: bool,
}

/// What is missing, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// No socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// No `CAP_NET_ADMIN`.
    #[error(
        "not permitted to use netfilter in this network namespace: run as root, or in a user \
         namespace that owns it (CAP_NET_ADMIN)"
    )]
    NotPermitted,
    /// No NFQUEUE.
    #[error(
        "this kernel has no NFQUEUE: load it with `modprobe nfnetlink_queue` \
         (CONFIG_NETFILTER_NETLINK_QUEUE)"
    )]
    Queue,
    /// Rules cannot be installed.
    #[error(transparent)]
    Hooks(#[from] HookError),
    /// Any other answer.
    #[error("cannot find out whether this kernel has NFQUEUE: {0}")]
    Unknown(#[source] io::Error),
}

/// Asks the kernel, in the calling thread's network namespace. Changes nothing there, and no packet
/// held by anybody is flushed. `faults` may have NFQUEUE or CE marking missing.
pub fn probe(faults: &Faults) -> Result<Support, Missing> {
    if faults.refuses(Refuse::NfqueueMissing) {
        return Err(Missing::Queue);
    }
    let found = probe_kernel(&mut ControlSocket::open()?)?;
    let ce_marks = found.ce_marks && !faults.refuses(Refuse::CeMarkMissing);
    let shares = found.shares && !faults.refuses(Refuse::SharesMissing);
    Ok(Support { ce_marks, shares, ..found })
}

/// The same over a given exchange, which in tests is a kernel that refuses.
fn probe_kernel(kernel: &mut impl Exchange) -> Result<Support, Missing> {
    probe_queue(kernel)?;
    let (mut arrival_stamps, mut ce_marks) = (true, true);
    loop {
        match nftables::choose_action(kernel, &trial_rules(arrival_stamps, ce_marks)) {
            Ok(action) => {
                let shares = probe_shares(kernel, arrival_stamps)?;
                return Ok(Support { action, arrival_stamps, ce_marks, shares });
            }
            Err(HookError::NoArrivalStamp) if arrival_stamps => arrival_stamps = false,
            Err(HookError::NoCeMark) if ce_marks => ce_marks = false,
            Err(error) => return Err(error.into()),
        }
    }
}

fn probe_shares(kernel: &mut impl Exchange, stamp_arrival: bool) -> Result<bool, Missing> {
    let mut config = trial_rules(stamp_arrival, false);
    let all = [Packets::OtherProtocols, Packets::Fragments, Packets::Share { share: 1, of: 2 }];
    let rules = all.iter().flat_map(|packets| {
        config.rules.iter().map(|rule| HookRule { packets: *packets, ..rule.clone() })
    });
    config.rules = rules.collect();
    match nftables::choose_action(kernel, &config) {
        Ok(_) => Ok(true),
        Err(HookError::NoShares) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn probe_queue(kernel: &mut impl Exchange) -> Result<(), Missing> {
    match nfqueue::ask_nothing(kernel).map_err(Missing::Unknown)? {
        Some(0) => Ok(()),
        Some(libc::EPERM) => Err(Missing::NotPermitted),
        // nfnetlink's answer to a subsystem that it neither has nor can load.
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Err(Missing::Queue),
        Some(error) => Err(Missing::Unknown(io::Error::from_raw_os_error(error))),
        None => Err(Missing::Unknown(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn trial_rules(stamp_arrival: bool, ce: bool) -> HookConfig {
    let rule = |family| HookRule {
        family,
        device: "lo".to_owned(),
        packets: Packets::All,
        queue: 0,
        stamp_arrival,
        bypass: true,
    };
    HookConfig {
        // Only asked about, never made; the process number keeps two probes apart.
        table: format!("punctual_probe_{}", std::process::id()),
        hook: Hook::Forward,
        priority: 0,
        rules: vec![rule(Family::Ip4), rule(Family::Ip6)],
        ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netfilter::attribute::{self, Messages};
    use crate::netfilter::exchange::Answer;

    /// Answers success to what asks for it, except where a message contains these bytes.
    struct Kernel {
        refused: Vec<(&'static [u8], i32)>,
    }

    impl Exchange for Kernel {
        fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<Answer>> {
            Ok(Messages::new(request)
                .map(Result::unwrap)
                .filter_map(|message| {
                    let refusal = self.refused.iter().find_map(|&(part, error)| {
                        let at = message.body.windows(part.len()).position(|it| it == part)?;
                        Some((error, at + 16))
                    });
                    let asked = message.flags & attribute::ACK != 0;
                    let answer = |(error, offset)| Answer {
                        sequence: message.sequence,
                        error,
                        offset: Some(offset),
                    };
                    refusal.or_else(|| asked.then_some((0, 0))).map(answer)
                })
                .collect())
        }
    }

    fn outcome(refused: &[(&'static [u8], i32)]) -> Result<Support, String> {
        let mut kernel = Kernel { refused: refused.to_vec() };
        probe_kernel(&mut kernel).map_err(|missing| missing.to_string())
    }

    /// An attribute of a `meta` expression, key 30.
    const TIME: &[u8] = &[0, 0, 0, 30];
    const QUEUE: &[u8] = b"queue\0";
    const TARGET: &[u8] = b"target\0";
    const PAYLOAD: &[u8] = b"payload\0";
    /// The body of a batch's first message: no family, version 0, subsystem 10.
    const BATCH: &[u8] = &[0, 0, 0, 10];

    #[test]
    fn a_kernel_with_everything_is_used_natively() {
        let support = Support {
            action: QueueAction::Native,
            arrival_stamps: true,
            ce_marks: true,
            shares: true,
        };
        assert_eq!(outcome(&[]), Ok(support));
    }

    #[test]
    fn without_nft_queue_the_compat_target_serves() {
        let support = Support {
            action: QueueAction::Compat,
            arrival_stamps: true,
            ce_marks: true,
            shares: true,
        };
        assert_eq!(outcome(&[(QUEUE, libc::ENOENT)]), Ok(support));
    }

    #[test]
    fn without_both_the_remedy_names_both() {
        let words = outcome(&[(QUEUE, libc::ENOENT), (TARGET, libc::ENOENT)]).unwrap_err();
        assert!(words.contains("nft_queue") && words.contains("xt_NFQUEUE"), "{words}");
    }

    #[test]
    fn without_meta_time_there_are_no_stamps() {
        for (queue, action) in [(0, QueueAction::Native), (libc::ENOENT, QueueAction::Compat)] {
            let support = Support { action, arrival_stamps: false, ce_marks: true, shares: true };
            let refused = [(TIME, libc::EOPNOTSUPP), (QUEUE, queue)];
            assert_eq!(outcome(&refused), Ok(support));
        }
    }

    #[test]
    fn without_payload_expressions_there_are_no_ce_marks() {
        for (time, arrival_stamps) in [(0, true), (libc::EOPNOTSUPP, false)] {
            let support = Support {
                action: QueueAction::Native,
                arrival_stamps,
                ce_marks: false,
                shares: false,
            };
            assert_eq!(outcome(&[(PAYLOAD, libc::ENOENT), (TIME, time)]), Ok(support));
        }
    }

    #[test]
    fn without_jhash_flows_cannot_be_divided() {
        let support = outcome(&[(b"hash\0", libc::ENOENT)]).unwrap();
        assert!(!support.shares && support.ce_marks && support.arrival_stamps);
    }

    #[test]
    fn without_nf_tables_or_the_right_to_it_the_remedy_is_named() {
        let words = outcome(&[(BATCH, libc::EOPNOTSUPP)]).unwrap_err();
        assert!(words.contains("modprobe nf_tables"), "{words}");
        let words = outcome(&[(BATCH, libc::EPERM)]).unwrap_err();
        assert!(words.contains("CAP_NET_ADMIN"), "{words}");
    }

    #[test]
    fn each_answer_of_the_queue_subsystem_is_told_apart() {
        let words = |error| outcome(&[(&nfqueue::PF_BIND, error)]);
        assert!(words(libc::EINVAL).unwrap_err().contains("modprobe nfnetlink_queue"));
        assert!(words(libc::EPERM).unwrap_err().contains("CAP_NET_ADMIN"));
        assert!(words(libc::ENOMEM).unwrap_err().contains("cannot find out"));
    }

    #[test]
    fn a_kernel_that_says_nothing_is_not_taken_for_one_that_agrees() {
        struct Silent;
        impl Exchange for Silent {
            fn exchange(&mut self, _: &[u8]) -> io::Result<Vec<Answer>> {
                Ok(Vec::new())
            }
        }
        assert!(probe_kernel(&mut Silent).is_err());
        assert!(matches!(
            nftables::choose_action(&mut Silent, &trial_rules(true, false)),
            Err(HookError::NoAnswer { expected: 6, acknowledged: 0 })
        ));
    }
}
