//! Processor time of a link that nobody uses.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::spacing::processor_share;
use crate::stage::{Load, Stage, Way};

pub(crate) fn measure(stage: &Stage) -> Result<()> {
    let load = Load { command: "sleep 10".to_owned(), ..Load::default() };
    for precision in ["eco", "balanced"] {
        let title = format!("idle: {precision}, 10 s; % of one processor");
        let mut table = Table::begin(&title, &["link's thread", "whole process"]);
        for _ in 0..3 {
            let way = Way::Link { precision, both: "rate=20mbit delay=10ms" };
            let outcome = stage.run(&way, &load)?;
            let all = number(&outcome.report, "/run/cpu_ns")?;
            let duration = number(&outcome.report, "/run/duration_ns")?;
            table.row(&[processor_share(&outcome)?, 100.0 * all / duration]);
        }
        table.end();
    }
    Ok(())
}
