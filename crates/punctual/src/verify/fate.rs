//! Fates of a log and of a replay, field by field.

use punctual_sched::{BitFlip, Instant};

use crate::log::{Departure, Dropped};

/// A fate that can be compared.
pub(super) trait Fate: Copy {
    /// `departure` or `drop`.
    const KIND: &str;

    fn sequence(&self) -> u64;
    /// No earlier than the decision.
    fn time(&self) -> Instant;
    /// The first field that differs: name, value here, value there.
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)>;
    fn describe(&self) -> String;
}

impl Fate for Departure {
    const KIND: &str = "departure";

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn time(&self) -> Instant {
        self.due
    }

    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let fields = |fate: &Self| {
            [
                ("packet", fate.sequence.to_string()),
                ("copy", fate.copy.to_string()),
                ("corrupt", format!("{:?}", fate.corrupt)),
                ("due", nanos(fate.due)),
                ("delay", format!("{} ns", fate.delay.as_nanos())),
                ("mark", format!("{:?}", fate.mark)),
                ("queue", format!("{} ns", fate.queue.as_nanos())),
                ("serialisation", format!("{} ns", fate.serialisation.as_nanos())),
                ("pacing", format!("{} ns", fate.pacing.as_nanos())),
            ]
        };
        // Lateness is wall time's, not the link's.
        let decided = |fate: &Self| Self { lateness_ns: None, ..*fate };
        (decided(self) != decided(other)).then(|| first_difference(fields(self), fields(other)))?
    }

    fn describe(&self) -> String {
        format!(
            "packet {}{} departs at {}: delay {} ns = queue {} + serialisation {} + pacing {} + \
             propagation {}, mark {:?}{}",
            self.sequence,
            copy(self.copy),
            nanos(self.due),
            self.delay.as_nanos(),
            self.queue.as_nanos(),
            self.serialisation.as_nanos(),
            self.pacing.as_nanos(),
            self.propagation().as_nanos(),
            self.mark,
            self.corrupt.map_or_else(String::new, |BitFlip(bit)| format!(", bit {bit} flipped")),
        )
    }
}

impl Fate for Dropped {
    const KIND: &str = "drop";

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn time(&self) -> Instant {
        self.at
    }

    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let fields = |fate: &Self| {
            [
                ("packet", fate.sequence.to_string()),
                ("copy", fate.copy.to_string()),
                ("reason", fate.reason.name().to_owned()),
                ("at", nanos(fate.at)),
                ("delay", format!("{} ns", fate.delay.as_nanos())),
            ]
        };
        (self != other).then(|| first_difference(fields(self), fields(other)))?
    }

    fn describe(&self) -> String {
        let (at, delay) = (nanos(self.at), self.delay.as_nanos());
        let (sequence, copy) = (self.sequence, copy(self.copy));
        format!("packet {sequence}{copy} dropped at {at}: {}, {delay} ns old", self.reason.name())
    }
}

/// Nothing for a packet itself.
fn copy(number: u8) -> String {
    if number == 0 { String::new() } else { format!(" copy {number}") }
}

fn first_difference<const N: usize>(
    logged: [(&'static str, String); N],
    replayed: [(&'static str, String); N],
) -> Option<(&'static str, String, String)> {
    let mut pairs = logged.into_iter().zip(replayed);
    pairs.find(|(logged, replayed)| logged != replayed).map(|(a, b)| (a.0, a.1, b.1))
}

pub(super) fn nanos(at: Instant) -> String {
    format!("{} ns", at.as_nanos())
}
