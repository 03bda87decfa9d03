//! The demonstration in virtual time, where real packets cannot be had.

use anyhow::Result;
use punctual_sched::{Duration, LinkConfig, Output, Rate};
use punctual_sim::{Scenario, Source, Traffic, Wakes};
use serde_json::json;

use super::{LINK, Shown};

/// Offers twice what the link carries for 6 s of virtual time, with a driver that is always on
/// time and with one that is late, and compares every decision.
pub(super) fn show(reason: &str) -> Result<Shown> {
    let link = LinkConfig::parse(LINK, "demo")?;
    let punctual = decisions(&link, Wakes::Punctual)?;
    let late = decisions(&link, Wakes::Uniform(Duration::from_millis(4)))?;
    let same = punctual.fates == late.fates;
    let drops = punctual.fates.iter().filter(|fate| matches!(fate, Output::Drop { .. })).count();
    let verdict = if same {
        format!("identical: {} packets, {drops} drops, 0 marks", punctual.fates.len())
    } else {
        "different: this is a bug".to_owned()
    };
    Ok(Shown {
        text: format!(
            "virtual time: {LINK}, {reason}\n\n\
             a driver that is always on time:\n{}\n\
             a driver that wakes up to 4 ms late:\n{}\n\
             decisions  {verdict}\n",
            punctual.table, late.table
        ),
        json: json!({
            "mode": "virtual",
            "reason": reason,
            "link": LINK,
            "packets": punctual.fates.len(),
            "drops": drops,
            "identical": same,
        }),
        as_claimed: same,
    })
}

struct Run {
    fates: Vec<Output>,
    table: String,
}

fn decisions(link: &LinkConfig, wakes: Wakes) -> Result<Run> {
    let twice = Rate::from_bps(40_000_000).expect("within 0 to 10^12");
    let scenario = Scenario {
        sources: vec![Source::new(Traffic::Constant(twice)).with_len(1428)],
        wakes,
        duration: Duration::from_secs(6),
        ..Scenario::new(link.clone())
    };
    let mut fates = Vec::new();
    let outcome = scenario.run_observed(|fate| fates.push(fate.output))?;
    Ok(Run { fates, table: outcome.to_string() })
}
