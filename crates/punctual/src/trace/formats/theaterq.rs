//! TheaterQ: entries that are kept for a time.

use punctual_measure::units::plural;
use punctual_sched::trace::Step;
use punctual_sched::{Duration, Probability, Rate};

use super::super::build::{Held, Parsed};
use super::super::columns;
use super::super::error::Problem;
use super::super::lines::{Line, Lines};

/// `KEEP,LATENCY,RATE,LOSS,LIMIT`.
pub(in super::super) fn simple(lines: Lines<'_>) -> Result<Parsed, Problem> {
    read(lines, |line| {
        let [keep, latency, rate, loss, limit] = columns::exactly(line, SIMPLE)?;
        Ok((Entry { keep, latency, rate, loss }, [("LIMIT", limit)].into()))
    })
}

/// `KEEP,LATENCY,JITTER,RATE,LOSS,LIMIT,DUP_PROB,DUP_DELAY` and, as versions added them, `ROUTE_ID`
/// and `QUEUE_ID`.
pub(in super::super) fn extended(lines: Lines<'_>) -> Result<Parsed, Problem> {
    read(lines, |line| {
        let fields: Vec<_> = line.commas().collect();
        let wrong = || {
            let has = plural(fields.len() as u64, "column");
            line.wrong(format!("{has}, expected 8 to 10: {EXTENDED}"))
        };
        let [keep, latency, jitter, rate, loss, limit, dup, dup_delay, more @ ..] = &fields[..]
        else {
            return Err(wrong());
        };
        if more.len() > 2 {
            return Err(wrong());
        }
        let mut left: Vec<_> = vec![("JITTER", *jitter), ("LIMIT", limit), ("DUP_PROB", dup)];
        left.push(("DUP_DELAY", dup_delay));
        left.extend(["ROUTE_ID", "QUEUE_ID"].into_iter().zip(more.iter().copied()));
        Ok((Entry { keep, latency, rate, loss }, left))
    })
}

/// The columns that are carried.
struct Entry<'a> {
    keep: &'a str,
    latency: &'a str,
    rate: &'a str,
    loss: &'a str,
}

/// The columns of an entry that are not carried.
type Left<'a> = Vec<(&'static str, &'a str)>;

/// Lines that do not begin with a digit are ignored, as the module does.
fn read(
    mut lines: Lines<'_>,
    entry: impl for<'a> Fn(&Line<'a>) -> Result<(Entry<'a>, Left<'a>), Problem>,
) -> Result<Parsed, Problem> {
    let mut held = Held::default();
    let mut left_out: Vec<&str> = Vec::new();
    let mut outage = false;
    while let Some(line) = lines.full()? {
        if !line.text.starts_with(|c: char| c.is_ascii_digit()) {
            // What a reader of numbers would take for one is a mistake rather than a comment.
            if line.text.starts_with('-') {
                return Err(line.wrong("KEEP is negative, expected microseconds above 0"));
            }
            continue;
        }
        let (entry, left) = entry(&line)?;
        let (step, keep) = entry.read(&line)?;
        outage |= step.rate == Some(Rate::PAUSE);
        held.push(step, keep).map_err(|what| line.wrong(what))?;
        for (name, field) in left {
            let value = line.scaled(field, 1, name)?;
            if value != 0 && !left_out.contains(&name) {
                left_out.push(name);
            }
        }
    }
    let names = left_out.join(", ");
    let warning = format!("not carried: {names}; give the link what it shall have of them");
    let parsed = held.finish()?.warn_if(!left_out.is_empty(), warning);
    Ok(parsed
        .warn_if(outage, "RATE 0 is an outage here; older versions of TheaterQ took it for -1"))
}

impl Entry<'_> {
    fn read(&self, line: &Line<'_>) -> Result<(Step, Duration), Problem> {
        let keep = line.time(self.keep, 1_000, "KEEP in microseconds")?;
        if keep == Duration::ZERO {
            return Err(line.wrong("KEEP is 0, expected microseconds above 0"));
        }
        let delay = line.time(self.latency, 1, "LATENCY in nanoseconds")?;
        let rate = match self.rate {
            // What -1 becomes in the module's 64 bits.
            "-1" | "18446744073709551615" => Rate::UNLIMITED,
            rate => line.rate(rate, 1, "RATE in bit/s or -1")?,
        };
        let loss = line.scaled(self.loss, 1, "LOSS up to 4294967295")?;
        let loss = u32::try_from(loss);
        let loss = loss.map_err(|_| line.wrong("LOSS is more than 4294967295, which is 100 %"))?;
        let (rate, delay, loss) = (Some(rate), Some(delay), Some(Probability::from_raw(loss)));
        Ok((Step { at: Duration::ZERO, rate, delay, loss }, keep))
    }
}

const SIMPLE: &str = "KEEP,LATENCY,RATE,LOSS,LIMIT";
const EXTENDED: &str =
    "KEEP,LATENCY,JITTER,RATE,LOSS,LIMIT,DUP_PROB,DUP_DELAY[,ROUTE_ID[,QUEUE_ID]]";
