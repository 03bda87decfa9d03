//! FCC Measuring Broadband America: throughput of web downloads, in intervals of 5 s.

use punctual_sched::Duration;
use punctual_sched::trace::Step;

use super::super::build::{Held, Parsed};
use super::super::error::Problem;
use super::super::lines::{Line, Lines};

/// Web-get CSV: unit, date, target, address, ..., bytes/s in the seventh column. Lines of one unit
/// and target, one interval each.
pub(in super::super) fn web_get(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut held = Held::default();
    let mut of: Option<[String; 2]> = None;
    while let Some(line) = lines.data()? {
        let mut fields = line.commas();
        let (unit, target, rate) = (fields.next(), fields.nth(1), fields.nth(3));
        let (Some(unit), Some(target), Some(rate)) = (unit, target, rate) else {
            return Err(line.wrong("less than 7 columns, expected bytes/s in the seventh"));
        };
        // A header.
        if line.number == 1 && unit.eq_ignore_ascii_case("unit_id") {
            continue;
        }
        let first = of.get_or_insert_with(|| [unit.to_owned(), target.to_owned()]);
        if *first != [unit, target] {
            return Err(line.wrong("another unit or target, expected the lines of one"));
        }
        push(&mut held, &line, rate)?;
    }
    held.finish()
}

/// One rate in bytes/s a line, as scripts cut them out of the above.
pub(in super::super) fn rates(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut held = Held::default();
    while let Some(line) = lines.data()? {
        push(&mut held, &line, line.text)?;
    }
    held.finish()
}

fn push(held: &mut Held, line: &Line<'_>, rate: &str) -> Result<(), Problem> {
    let rate = line.rate(rate, 8, "a rate in bytes/s")?;
    let step = Step { rate: Some(rate), ..Step::default() };
    held.push(step, INTERVAL).map_err(|what| line.wrong(what))
}

/// How long a rate holds.
const INTERVAL: Duration = Duration::from_secs(5);
