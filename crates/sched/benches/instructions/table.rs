//! The committed table: a line `# compiler: rustc ...`, then a workload and its count on each.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// How far above its line a count may be: what a compiler's mood or a library's version does.
pub(crate) const MARGIN_PERCENT: u64 = 5;

/// Instructions per packet by workload.
#[derive(Debug)]
pub(crate) struct Table {
    /// As `rustc --version` names itself: other compilers make other instructions.
    pub(crate) compiler: String,
    counts: Vec<(String, u64)>,
}

impl Table {
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string(PATH).expect("the table is committed");
        let compiler = text.lines().find_map(|line| line.strip_prefix(COMPILER));
        let counts = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, count) = line.split_once(' ').expect("NAME COUNT");
            (name.to_owned(), count.trim().parse().expect("a whole number"))
        });
        Self { compiler: compiler.unwrap_or_default().to_owned(), counts: counts.collect() }
    }

    pub(crate) fn write(counts: Vec<(String, u64)>) {
        let mut text =
            format!("# Instructions per packet, see main.rs\n{COMPILER}{}\n", compiler());
        for (name, count) in counts {
            writeln!(text, "{name:<24} {count:>6}").expect("memory for a line");
        }
        fs::write(PATH, text).expect("the table can be written");
    }

    pub(crate) fn is_of_this_compiler(&self) -> bool {
        self.compiler == compiler()
    }

    /// One line of the comparison, and whether `now` is too many. A workload that the table does
    /// not know is too many: it is to be added.
    pub(crate) fn judge(&self, name: &str, now: u64) -> (String, bool) {
        let Some(&(_, expected)) = self.counts.iter().find(|(known, _)| known == name) else {
            return (format!("{name:<24} {:>8} {now:>8}", "none"), true);
        };
        let change = (i128::from(now) - i128::from(expected)) * 1000 / i128::from(expected.max(1));
        let sign = if change < 0 { '-' } else { '+' };
        let change = change.unsigned_abs();
        let percent = format!("{sign}{}.{} %", change / 10, change % 10);
        let worse = now * 100 > expected * (100 + MARGIN_PERCENT);
        let word = if worse { "  TOO MANY" } else { "" };
        (format!("{name:<24} {expected:>8} {now:>8} {percent:>8}{word}"), worse)
    }
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

const COMPILER: &str = "# compiler: ";
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/expected.txt");
