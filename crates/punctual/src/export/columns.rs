//! The columns of a table of packets, in their order.

use punctual_sched::{Ecn, Instant, Mark};

use super::row::Row;

/// A column: its name, what it holds, and how that is read from a row.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The unit is in the name, as in the report.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it can be empty.
    pub nullable: bool,
    get: fn(&Row) -> Value,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 to 255.
    U8,
    /// 0 to 2^16 - 1.
    U16,
    /// 0 to 2^32 - 1.
    U32,
    /// 0 to 2^64 - 1.
    U64,
    /// -2^63 to 2^63 - 1.
    I64,
    /// Text.
    Text,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// There is nothing to say.
    Null,
    /// Of the unsigned kinds.
    Unsigned(u64),
    /// Of [`Kind::I64`].
    Signed(i64),
    /// Of [`Kind::Text`].
    Word(&'static str),
    /// Of [`Kind::Text`], written as eight hexadecimal digits.
    Hash(u32),
}

impl Column {
    /// The value in `row`.
    pub fn value(&self, row: &Row) -> Value {
        (self.get)(row)
    }
}

/// Every column. `docs/log-export.md` says what each means.
pub static COLUMNS: [Column; 23] = [
    column("direction", Kind::Text, |row| Value::Word(row.direction.name())),
    column("packet", Kind::U64, |row| Value::Unsigned(row.packet)),
    column("copy", Kind::U8, |row| Value::Unsigned(row.copy.into())),
    column("fate", Kind::Text, |row| Value::Word(row.fate.word())),
    column("arrival_ns", Kind::U64, |row| Value::Unsigned(row.arrival.at.as_nanos())),
    column("arrival_unix_ns", Kind::U64, |row| Value::Unsigned(row.unix_ns(row.arrival.at))),
    nullable("due_ns", Kind::U64, |row| {
        unsigned(row.departure().map(|departure| departure.due.as_nanos()))
    }),
    nullable("released_ns", Kind::U64, |row| unsigned(row.released().map(Instant::as_nanos))),
    nullable("dropped_ns", Kind::U64, |row| unsigned(row.drop().map(|drop| drop.at.as_nanos()))),
    column("bytes", Kind::U32, |row| Value::Unsigned(row.arrival.len.into())),
    column("segments", Kind::U16, |row| Value::Unsigned(row.arrival.segments.into())),
    column("flow", Kind::Text, |row| Value::Hash(row.arrival.flow)),
    column("dscp", Kind::U8, |row| Value::Unsigned(row.arrival.dscp.into())),
    column("ecn", Kind::Text, |row| Value::Word(ecn(row.arrival.ecn))),
    column("fwmark", Kind::U32, |row| Value::Unsigned(row.arrival.mark.into())),
    nullable("mark", Kind::Text, |row| {
        row.departure().map_or(Value::Null, |departure| Value::Word(mark(departure.mark)))
    }),
    nullable("corrupt_bit", Kind::U32, |row| {
        let bit = row.departure().and_then(|departure| departure.corrupt);
        unsigned(bit.map(|bit| bit.0.into()))
    }),
    nullable("pacing_ns", Kind::U64, |row| {
        unsigned(row.departure().map(|departure| departure.pacing.as_nanos()))
    }),
    nullable("queue_ns", Kind::U64, |row| {
        unsigned(row.departure().map(|departure| departure.queue.as_nanos()))
    }),
    nullable("serialisation_ns", Kind::U64, |row| {
        unsigned(row.departure().map(|departure| departure.serialisation.as_nanos()))
    }),
    nullable("propagation_ns", Kind::U64, |row| {
        unsigned(row.departure().map(|departure| departure.propagation().as_nanos()))
    }),
    nullable("lateness_ns", Kind::I64, |row| {
        let lateness = row.departure().and_then(|departure| departure.lateness_ns);
        lateness.map_or(Value::Null, Value::Signed)
    }),
    nullable("total_ns", Kind::I64, |row| row.total_ns().map_or(Value::Null, Value::Signed)),
];

/// The words of RFC 3168.
pub(super) const fn ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not_ect",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::Ce => "ce",
    }
}

/// What became of the ECN field.
pub(super) const fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::None => "none",
        Mark::Decided => "decided",
        Mark::Ce => "ce",
    }
}

const fn column(name: &'static str, kind: Kind, get: fn(&Row) -> Value) -> Column {
    Column { name, kind, nullable: false, get }
}

const fn nullable(name: &'static str, kind: Kind, get: fn(&Row) -> Value) -> Column {
    Column { name, kind, nullable: true, get }
}

fn unsigned(value: Option<u64>) -> Value {
    value.map_or(Value::Null, Value::Unsigned)
}
