//! `punctual demo`: what punctual does, shown in a quarter of a minute on any machine.
//!
//! Real packets where namespaces can be had; else the same link in virtual time. Its first line
//! says which, and why.

mod real;
mod simulated;

use std::io::Write;

use anyhow::Context;
use serde_json::Value;

use crate::cli::DemoOptions;
use crate::failure::Failure;

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
    let mut stdout = std::io::stdout().lock();
    let written = if options.json {
        writeln!(stdout, "{}", shown.json)
    } else {
        write!(stdout, "{}", shown.text)
    };
    written.context("cannot write to stdout")?;
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
