//! `punctual clean`: removes what killed runs left behind.
//!
//! Namespaces, devices, rules and processes of a run go with its process, however it died. What
//! can stay behind is its directory.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::CleanOptions;
use crate::runtime::{self, Tidied};

/// Tidies, and says what was removed and what is running.
pub fn run(options: &CleanOptions) -> Result<u8> {
    let base = runtime::base_directory();
    let Tidied { removed, running, problems } = runtime::remove_stale(&base)?;
    let mut stdout = std::io::stdout().lock();
    let written = if options.json {
        let result = json!({
            "directory": base, "removed": removed, "running": running, "problems": problems,
        });
        writeln!(stdout, "{result}")
    } else {
        let list = |names: &[String]| {
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        writeln!(stdout, "removed: {}\nrunning: {}", list(&removed), list(&running))
    };
    written.context("cannot write to stdout")?;
    for problem in &problems {
        crate::tell(format_args!("punctual: {problem}"));
    }
    Ok(if problems.is_empty() { 0 } else { NOT_ALL })
}

/// Something could not be removed.
const NOT_ALL: u8 = 125;
