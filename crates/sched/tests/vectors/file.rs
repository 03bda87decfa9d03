//! Reading the recordings.

use std::path::PathBuf;

use punctual_sched::Instant;
use punctual_sched::packet::{Ecn, Packet};
use punctual_sched::queue::Queued;

/// One recording.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) name: &'static str,
    /// `tc -s -d qdisc show` after the last packet, one line each.
    pub(crate) after: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// One packet and its fate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) sent: u64,
    pub(crate) flow: u32,
    /// With the 14 bytes of the Ethernet header.
    pub(crate) len: u32,
    pub(crate) tos: u8,
    pub(crate) priority: u8,
    /// `None` when it was dropped.
    pub(crate) left: Option<u64>,
    pub(crate) tos_left: u8,
    pub(crate) copies: u8,
}

impl Vector {
    pub(crate) fn read(name: &'static str) -> Self {
        let path: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "tests/vectors/data", &format!("{name}.txt")]
                .iter()
                .collect();
        let text = std::fs::read_to_string(&path).unwrap();
        let after = text.lines().filter_map(|line| line.strip_prefix("# after: "));
        let rows: Vec<_> =
            text.lines().filter(|line| !line.starts_with('#')).map(Row::read).collect();
        assert!(rows.len() >= 10, "{name} has only {} rows", rows.len());
        Self { name, after: after.map(str::to_owned).collect(), rows }
    }

    /// The number that follows `word` in what `tc` printed at the end, at its last occurrence: a
    /// child's lines come after its parent's.
    pub(crate) fn counter(&self, word: &str) -> u64 {
        let numbers = self.after.iter().flat_map(|line| {
            let words: Vec<_> = line.split(|c: char| c.is_whitespace() || c == '(').collect();
            let pairs: Vec<_> =
                words.windows(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
            pairs
        });
        let found = numbers.rev().find(|(name, _)| name == word);
        let (_, value) = found.unwrap_or_else(|| panic!("{}: tc printed no {word}", self.name));
        let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("{}: {word} {value} is no number", self.name))
    }
}

impl Row {
    pub(crate) fn read(line: &str) -> Self {
        let fields: Vec<i64> =
            line.split_whitespace().map(|field| field.parse().unwrap()).collect();
        let [id, sent, flow, len, tos, priority, left, tos_left, copies] = fields[..] else {
            panic!("not nine fields: {line}")
        };
        Self {
            id: id.try_into().unwrap(),
            sent: sent.try_into().unwrap(),
            flow: flow.try_into().unwrap(),
            len: len.try_into().unwrap(),
            tos: tos.try_into().unwrap(),
            priority: priority.try_into().unwrap(),
            left: left.try_into().ok(),
            tos_left: tos_left.max(0).try_into().unwrap(),
            copies: copies.try_into().unwrap(),
        }
    }

    /// The packet as it reaches the qdisc; its handle is the row's id.
    pub(crate) fn queued(&self) -> Queued {
        let entered = Instant::from_nanos(self.sent);
        let packet = Packet {
            dscp: self.tos >> 2,
            ecn: Ecn::from_tos(self.tos),
            priority: self.priority,
            socket: true,
            ..Packet::on_path(self.id, entered, self.len - FRAMING, self.flow)
        };
        Queued { packet, entered, bytes: self.len.into() }
    }
}

const FRAMING: u32 = 14;
