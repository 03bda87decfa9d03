//! `punctual demo`: what punctual does, shown in a quarter of a minute on any machine.
//!
//! Real packets where namespaces can be had; else the same link in virtual time. Its first line
//! says which, and why.

mod real;
mod simulated;

use serde_json::Value;

use crate::cli::DemoOptions;
use crate::failure::Failure;
use crate::output::print;

/// Runs the demonstration; 0 when everything that it claims was seen, else 1.
pub fn run(options: &DemoOptions) -> Result<u8, Failure> {
    let shown = if options.virtual_time {
        simulated::show("as asked for with --virtual")?
    } else {
        match real::show() {
            Err(Failure::Refused(reason)) => {
                simulated::show(&format!("because {}{reason}", Failure::REFUSED))?
            }
            other => other?,
        }
    };
    print(if options.json { format!("{}\n", shown.json) } else { shown.text })?;
    Ok(u8::from(!shown.as_claimed))
}

/// What a demonstration has to say.
struct Shown {
    text: String,
    json: Value,
    /// Packets flowed, and the replay was identical.
    as_claimed: bool,
}

/// The demonstrated link: parameters of both directions.
const LINK: &str = "rate=20mbit delay=15ms";
