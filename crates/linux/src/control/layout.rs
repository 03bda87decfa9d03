//! Where everything stands in the two blocks, in bytes; `docs/control-block.md` explains it.

/// The first word of a control block: `PNCTCTRL` in ASCII.
pub const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"PNCTCTRL");
/// The first word of a statistics block: `PNCTSTAT` in ASCII.
pub const STATS_MAGIC: u64 = u64::from_le_bytes(*b"PNCTSTAT");
/// The second word of both. Another layout has another version.
pub const VERSION: u64 = 1;
/// The size of each block in bytes, which is also its third word.
pub const SIZE: usize = 4096;

/// One word of a block: a name as in the C header, and its offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in C: `up.rate` for a word of one direction.
    pub name: &'static str,
    /// In the direction's part for words of one direction, else in the block.
    pub offset: usize,
}

/// Both blocks begin with these.
pub const HEADER: [Field; 4] =
    [field("magic", 0), field("version", 8), field("size", 16), field("pid", 24)];

/// Where the parts of up and down begin in the control block.
pub const CONTROL_SIDES: [usize; 2] = [256, 512];

/// One direction of the control block. What one program stores to does not share a cache line with
/// what another does: a line has 64 bytes.
pub const CONTROL: [Field; 10] = [
    field("rate", 0),
    field("spare", 64),
    field("set_generation", 128),
    field("set_mask", 136),
    field("set_rate", 144),
    field("set_delay_ns", 152),
    field("set_jitter_ns", 160),
    field("set_loss", 168),
    field("set_limit_packets", 176),
    field("set_limit_bytes", 184),
];

/// Where the parts of up and down begin in the statistics block.
pub const STATS_SIDES: [usize; 2] = [1024, 2048];

/// One direction of the statistics block: the generation, then what it guards.
pub const STATS: [Field; 37] = [
    field("generation", 0),
    field("at_ns", 8),
    field("rate", 16),
    field("delay_ns", 24),
    field("jitter_ns", 32),
    field("loss", 40),
    field("limit_packets", 48),
    field("limit_bytes", 56),
    field("packets_in", 64),
    field("packets_duplicated", 72),
    field("packets_out", 80),
    field("packets_queued", 88),
    field("packets_dropped", 96),
    field("packets_marked", 104),
    field("packets_corrupted", 112),
    field("packets_reordered", 120),
    field("bytes_in", 128),
    field("bytes_duplicated", 136),
    field("bytes_out", 144),
    field("bytes_dropped", 152),
    field("backlog_packets", 160),
    field("backlog_bytes", 168),
    field("backlog_peak_bytes", 176),
    field("held_bytes", 184),
    field("held_peak_bytes", 192),
    field("late_early", 200),
    field("late_lt_50us", 208),
    field("late_lt_1ms", 216),
    field("late_lt_4ms", 224),
    field("late_ge_4ms", 232),
    field("changes", 240),
    field("changed_at_ns", 248),
    field("ignored", 256),
    field("turns", 264),
    field("reserved_0", 272),
    field("reserved_1", 280),
    // 32 words: packets dropped by reason, by the numbers of a log.
    field("dropped", 288),
];

/// Words of `dropped`: more than there are reasons, so that new ones find room.
pub const DROP_WORDS: usize = 32;

const fn field(name: &'static str, offset: usize) -> Field {
    Field { name, offset }
}
