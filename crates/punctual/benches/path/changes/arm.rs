//! What a run with a steady load showed.

use anyhow::{Context, Result};

use crate::figures::number;
use crate::stage::Outcome;

/// One run by its report.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    /// Percent of departures within 50 us, 1 ms, 4 ms, and later.
    pub(super) buckets: [f64; 4],
    pub(super) p50_us: f64,
    p999_us: f64,
    max_us: f64,
    /// How often the writer did what it does.
    asked: usize,
    /// Changes that the report counts.
    changes: f64,
    lost: f64,
    reordered: f64,
}

impl Arm {
    pub(super) fn of(outcome: &Outcome, asked: usize) -> Result<Self> {
        let up = |name: &str| number(&outcome.report, &format!("/directions/up/{name}"));
        let departures = up("lateness/n")?;
        let percent = |name: &str| Ok::<_, anyhow::Error>(100.0 * up(name)? / departures);
        let listed = outcome.report.pointer("/directions/up/changes");
        let listed = listed.and_then(|changes| changes.as_array()).context("no list of changes")?;
        let sent = number(&outcome.command, "/sent")?;
        Ok(Self {
            buckets: [
                percent("lateness/lt_50us")?,
                percent("lateness/lt_1ms")?,
                percent("lateness/lt_4ms")?,
                percent("lateness/ge_4ms")?,
            ],
            p50_us: up("lateness/p50_ns")? / 1e3,
            p999_us: up("lateness/p999_ns")? / 1e3,
            max_us: up("lateness/max_ns")? / 1e3,
            asked,
            changes: up("changes_omitted")? + f64::from(u32::try_from(listed.len())?),
            lost: sent - number(&outcome.peer, "/received")?,
            reordered: number(&outcome.peer, "/reordered")?,
        })
    }

    pub(super) fn line(&self, name: &str) -> String {
        let [soon, millisecond, four, later] = self.buckets;
        format!(
            "{name} <50us {soon:7.3} % <1ms {millisecond:6.3} % <4ms {four:6.3} % later {later:6.3} % \
             | p50 {:5.1} p999 {:7.1} max {:7.1} us | {} asked, {} changes, {} lost, {} reordered",
            self.p50_us,
            self.p999_us,
            self.max_us,
            self.asked,
            self.changes,
            self.lost,
            self.reordered
        )
    }
}
