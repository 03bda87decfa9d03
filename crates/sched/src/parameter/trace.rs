//! `trace` and `trace.*`: what a link does over time.

use std::sync::Arc;

use super::validate::ensure;
use super::{Live, Parameter, or, read, unless, word, written};
use crate::config::{ConfigError, LinkConfig, QueueKind};
use crate::impair::Impair;
use crate::time::Duration;
use crate::trace::{Bounds, Trace, TraceMode, TraceOptions, TracePacket, TraceStart};
use crate::units::Rate;

pub(super) const FILE_ROW: Parameter = Parameter {
    name: "trace",
    takes: "FILE|none",
    default: "none",
    help: "follow the rates, delays, losses or packet deliveries recorded in a file",
    live: FIXED,
    set: |c, v| unless("none", v, text).map(|v| c.trace_options.file = v),
    get: |c| or("none", c.trace_options.file.as_deref()),
};

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "trace.start",
        takes: "first|now",
        default: "first",
        help: "begin with the first packet, or when the link does",
        live: FIXED,
        set: |c, v| word(v, STARTS).map(|v| c.trace_options.start = v),
        get: |c| written(c.trace_options.start, STARTS),
    },
    Parameter {
        name: "trace.loop",
        takes: "yes|no|auto",
        default: "auto",
        help: "begin anew at the end; auto: as the format means it",
        live: FIXED,
        set: |c, v| word(v, LOOPS).map(|v| c.trace_options.repeat = v),
        get: |c| written(c.trace_options.repeat, LOOPS),
    },
    Parameter {
        name: "trace.offset",
        takes: "TIME",
        default: "0ms",
        help: "begin at this time of the trace, modulo its length",
        live: FIXED,
        set: |c, v| read(v).map(|v| c.trace_options.offset = v),
        get: |c| c.trace_options.offset.to_string(),
    },
    Parameter {
        name: "trace.scale",
        takes: "FACTOR",
        default: "1",
        help: "times the rates, or the number of opportunities, of the trace",
        live: FIXED,
        set: |c, v| read(v).map(|v| c.trace_options.scale = v),
        get: |c| c.trace_options.scale.to_string(),
    },
    Parameter {
        name: "trace.mode",
        takes: "exact|fluid",
        default: "exact",
        help: "packet deliveries one by one, or as the rates that carry as much",
        live: FIXED,
        set: |c, v| word(v, MODES).map(|v| c.trace_options.mode = v),
        get: |c| written(c.trace_options.mode, MODES),
    },
    Parameter {
        name: "trace.packet",
        takes: "1504|1500",
        default: "1504",
        help: "bytes of an opportunity: 1504 with 4 for each packet, as Mahimahi, or 1500 of IP",
        live: FIXED,
        set: |c, v| word(v, PACKETS).map(|v| c.trace_options.packet = v),
        get: |c| written(c.trace_options.packet, PACKETS),
    },
    Parameter {
        name: "trace.format",
        takes: "NAME|auto",
        default: "auto",
        help: "format of the file; auto: recognised, see punctual trace check",
        live: FIXED,
        set: |c, v| unless("auto", v, text).map(|v| c.trace_options.format = v),
        get: |c| or("auto", c.trace_options.format.as_deref()),
    },
    Parameter {
        name: "trace.unit",
        takes: "NAME|auto",
        default: "auto",
        help: "unit of rates where the format has none of its own",
        live: FIXED,
        set: |c, v| unless("auto", v, text).map(|v| c.trace_options.unit = v),
        get: |c| or("auto", c.trace_options.unit.as_deref()),
    },
    Parameter {
        name: "trace.direction",
        takes: "up|down|auto",
        default: "auto",
        help: "which direction of a file that holds both; auto: the link's own",
        live: FIXED,
        set: |c, v| word(v, DIRECTIONS).map(|v| c.trace_options.direction = v.map(Arc::from)),
        get: |c| or("auto", c.trace_options.direction.as_deref()),
    },
];

impl LinkConfig {
    /// The trace for reports: its file and format where they are known, its length, mean rate and
    /// checksum; `none` where there is none.
    pub fn trace_brief(&self) -> String {
        let TraceOptions { file, format, .. } = &self.trace_options;
        let Some(Trace { schedule, .. }) = &self.trace else { return or("none", file.as_deref()) };
        let format = format.as_deref().map(|format| format!("{format}, "));
        let mean = schedule.mean_rate().map(|rate| format!(", mean {rate}"));
        let (format, mean) = (format.unwrap_or_default(), mean.unwrap_or_default());
        let (span, crc) = (schedule.span(), schedule.checksum());
        let figures = format!("{format}{span}{mean}, crc32 {crc:08x}");
        file.as_ref().map_or_else(|| figures.clone(), |file| format!("{file} ({figures})"))
    }

    /// Refuses what cannot go with the trace.
    pub(super) fn check_trace(&self) -> Result<(), ConfigError> {
        let Some(Trace { schedule, .. }) = &self.trace else {
            let file = or("none", self.trace_options.file.as_deref());
            return Err(ConfigError::new("trace", format!("\"{file}\" has not been read")));
        };
        if self.delivers() {
            let against = self.against_deliveries();
            return against.map_or(Ok(()), |(name, problem)| {
                Err(ConfigError::new(name, format!("{problem}, expected none with this trace")))
            });
        }
        let bounds = schedule.bounds();
        let delay = bounds.longest.unwrap_or_default();
        ensure(delay <= Self::MAX_DELAY, "trace", || {
            format!("it delays by up to {delay}, more than {}", Self::MAX_DELAY)
        })?;
        let delay = bounds.shortest.unwrap_or(self.jitter);
        ensure(self.jitter <= delay || self.impair == Impair::Netem, "jitter", || {
            format!("{} is more than the trace's least delay of {delay}", self.jitter)
        })?;
        self.check_traced_rates(bounds)
    }

    /// Refuses rates that what serves at a rate of its own cannot have.
    fn check_traced_rates(&self, bounds: Bounds) -> Result<(), ConfigError> {
        let netem = self.impair == Impair::Netem;
        let serves = !netem && matches!(self.queue, QueueKind::Tbf | QueueKind::Jens);
        ensure(!serves || bounds.fastest != Some(Rate::UNLIMITED), "trace", || {
            let queue = written(self.queue, super::QUEUES);
            format!("it sets unlimited rates, but {queue} serves at a rate")
        })?;
        ensure(!netem || !bounds.pauses, "trace", || {
            "it sets rates of 0bit, at which netem cannot give a packet its time".into()
        })?;
        let least = bounds.slowest.filter(|_| netem || self.queue == QueueKind::Tbf);
        ensure(least.is_none_or(|rate| rate.as_bps() >= 8), "trace", || {
            "it sets rates of less than a byte per second, expected 8bit or more".into()
        })
    }

    /// Refuses what the trace would replace at once.
    pub(super) fn check_trace_as_written(&self) -> Result<(), ConfigError> {
        let Some(Trace { schedule, per_packet, .. }) = &self.trace else { return Ok(()) };
        let bounds = schedule.bounds();
        let sets = |what: &str| format!("the trace sets {what}, expected none");
        let rate = self.rate != Rate::UNLIMITED && schedule.paces();
        ensure(!rate, "rate", || sets("it"))?;
        let delay = self.delay != Duration::ZERO && bounds.shortest.is_some();
        ensure(!delay, "delay", || sets("it"))?;
        ensure(self.loss.is_none() || bounds.most_loss.is_none(), "loss", || sets("it"))?;
        let Some(counted) = per_packet else { return Ok(()) };
        let counts =
            || format!("opportunities count {counted} bytes for each packet, expected none");
        ensure(self.overhead == 0, "overhead", counts)?;
        ensure(self.framing == Self::default().framing, "framing", counts)
    }
}

fn text(text: &str) -> Result<Arc<str>, String> {
    if text.is_empty() { Err("nothing given".to_owned()) } else { Ok(Arc::from(text)) }
}

const FIXED: Live = Live::No("a running link is told to follow another trace by punctual play");
const STARTS: &[(&str, TraceStart)] =
    &[("first", TraceStart::FirstPacket), ("now", TraceStart::AtOnce)];
const LOOPS: &[(&str, Option<bool>)] = &[("yes", Some(true)), ("no", Some(false)), ("auto", None)];
const MODES: &[(&str, TraceMode)] = &[("exact", TraceMode::Exact), ("fluid", TraceMode::Fluid)];
const PACKETS: &[(&str, TracePacket)] =
    &[("1504", TracePacket::Mahimahi), ("1500", TracePacket::Ip)];
const DIRECTIONS: &[(&str, Option<&str>)] =
    &[("up", Some("up")), ("down", Some("down")), ("auto", None)];
