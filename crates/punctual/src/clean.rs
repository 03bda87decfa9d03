//! `punctual clean`: removes what killed runs left behind.
//!
//! Namespaces, devices, rules and processes of a run go with its process, however it died. What
//! can stay behind is its directory, or that of a demonstration's files.

use serde_json::json;

use crate::cli::CleanOptions;
use crate::failure::Failure;
use crate::output::print;
use crate::runtime::{self, Tidied};

/// Tidies, and says what was removed and what is running.
pub fn run(options: &CleanOptions) -> Result<u8, Failure> {
    let base = runtime::base_directory();
    let Tidied { removed, running, problems } = runtime::remove_stale(&base)?;
    let text = if options.json {
        let result = json!({
            "directory": base, "removed": removed, "running": running, "problems": problems,
        });
        format!("{result}\n")
    } else {
        let list = |names: &[String]| {
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        format!("removed: {}\nrunning: {}\n", list(&removed), list(&running))
    };
    print(text)?;
    for problem in &problems {
        crate::tell(problem);
    }
    Ok(if problems.is_empty() { 0 } else { NOT_ALL })
}

/// Something could not be removed.
const NOT_ALL: u8 = 125;
