//! The program's own CSV, exactly what was in memory.

use std::io::{self, Write};

use punctual_sched::Rate;
use punctual_sched::trace::{Course, Delivery, Opportunity, Step, Timeline};

use super::formats::punctual::UNLIMITED;

/// Writes a timeline so that reading it gives the same timeline; `repeat` says whether it is meant
/// to begin anew at its end.
pub fn write(out: &mut impl Write, timeline: &Timeline, repeat: bool) -> io::Result<()> {
    let repeat = if repeat { "yes" } else { "no" };
    writeln!(out, "# punctual trace, version 1")?;
    writeln!(out, "# span_ns={} repeat={repeat}", timeline.span.as_nanos())?;
    match &timeline.course {
        Course::Steps(steps) => write_steps(out, steps),
        Course::Deliveries { at, opportunity } => write_deliveries(out, at, *opportunity),
    }
}

/// Columns that no step sets are left out.
fn write_steps(out: &mut impl Write, steps: &[Step]) -> io::Result<()> {
    let rate = steps.iter().any(|step| step.rate.is_some());
    let delay = steps.iter().any(|step| step.delay.is_some());
    let loss = steps.iter().any(|step| step.loss.is_some());
    let names = [("rate_bps", rate), ("delay_ns", delay), ("loss", loss)];
    out.write_all(b"time_ns")?;
    for (name, _) in names.iter().filter(|(_, is_set)| *is_set) {
        write!(out, ",{name}")?;
    }
    out.write_all(b"\n")?;
    for step in steps {
        write!(out, "{}", step.at.as_nanos())?;
        match step.rate {
            Some(Rate::UNLIMITED) => write!(out, ",{UNLIMITED}")?,
            Some(rate) => write!(out, ",{}", rate.as_bps())?,
            None if rate => out.write_all(b",")?,
            None => {}
        }
        match step.delay {
            Some(delay) => write!(out, ",{}", delay.as_nanos())?,
            None if delay => out.write_all(b",")?,
            None => {}
        }
        match step.loss {
            Some(loss) => write!(out, ",{loss}")?,
            None if loss => out.write_all(b",")?,
            None => {}
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_deliveries(
    out: &mut impl Write,
    at: &[Delivery],
    opportunity: Opportunity,
) -> io::Result<()> {
    let Opportunity { bytes, per_packet } = opportunity;
    writeln!(out, "# opportunity_bytes={bytes} per_packet_bytes={per_packet}")?;
    writeln!(out, "time_ns,opportunities")?;
    at.iter().try_for_each(|one| writeln!(out, "{},{}", one.at.as_nanos(), one.count))
}
