//! Distributions from files, as `tc` reads them: whole numbers, decimal or hexadecimal, comments
//! from `#` to the end of the line.

use std::fs;
use std::io::Read;

use punctual_sched::ConfigError;
use punctual_sched::impair::{Distribution, Table};
use punctual_sched::words::nearest;

/// The words of a link with each file of a distribution replaced by what is in it.
pub(super) fn words(text: &str) -> Result<String, ConfigError> {
    let word = |word: &str| match word.split_once('=') {
        Some((name, value)) => Ok(format!("{name}={}", value_of(name, value)?)),
        None => Ok(word.to_owned()),
    };
    text.split_whitespace().map(word).collect::<Result<Vec<_>, _>>().map(|words| words.join(" "))
}

/// The value of one parameter, likewise.
pub(crate) fn value_of(name: &str, value: &str) -> Result<String, ConfigError> {
    let Some((file, rest)) = file_of(name, value) else { return Ok(value.to_owned()) };
    match read(file) {
        Ok(table) => Ok(format!("{}{rest}", Distribution::Table(table))),
        Err(problem) => Err(ConfigError::new(name, problem)),
    }
}

/// The file that a value names, and what follows it.
pub(super) fn file_of<'a>(name: &str, value: &'a str) -> Option<(&'a str, &'a str)> {
    let (file, rest) = match name {
        "distribution" => (value, ""),
        // The name of a distribution where there could be a time.
        "slot" if !is_number(value) => value.split_at(value.find(',').unwrap_or(value.len())),
        _ => return None,
    };
    // tc's `slot distribution normal ...` is none of a file, and is told how to be written.
    let known = Distribution::WORDS.contains(&file)
        || ["none", "distribution"].contains(&file)
        || file.starts_with("table:");
    (!known && !file.is_empty()).then_some((file, rest))
}

/// Whether it begins as a number does: `5ms`, `.5ms`, `-1ms`, but not `./file`.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.strip_prefix('.').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
}

fn read(file: &str) -> Result<Table, String> {
    let refused = |error| format!("cannot read \"{file}\": {error}; {}", expected(file));
    // A pipe might never end, and a device tells what is none of a link's business.
    if !fs::metadata(file).map_err(refused)?.is_file() {
        return Err(format!("\"{file}\" is no regular file; {}", expected(file)));
    }
    let mut text = String::new();
    fs::File::open(file)
        .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
        .map_err(refused)?;
    if text.len() as u64 > LONGEST {
        return Err(format!("\"{file}\" is larger than 1 MB: no table of a distribution"));
    }
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let numbers = line.split_once('#').map_or(line, |(numbers, _)| numbers);
        for word in numbers.split_whitespace() {
            let entry = entry(word).ok_or_else(|| {
                let (line, word) = (number + 1, word.chars().take(40).collect::<String>());
                format!(
                    "\"{file}\", line {line}: \"{word}\" is no whole number from -32768 to 32767"
                )
            })?;
            entries.push(entry);
        }
    }
    Table::new(&entries).map_err(|error| format!("\"{file}\": {error}"))
}

/// A number such as `-5461` or `0x1f`.
fn entry(word: &str) -> Option<i16> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |digits| (-1, digits));
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((digits, 10), |digits| (digits, 16));
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    i16::try_from(sign * i64::from_str_radix(digits, radix).ok()?).ok()
}

/// What would have been accepted in place of `word`.
fn expected(word: &str) -> String {
    match nearest(word, Distribution::WORDS) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => format!("expected a file or one of {}", Distribution::WORDS.join(", ")),
    }
}

/// Of a file, bytes: eight times what the longest table takes.
const LONGEST: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_sched::LinkConfig;

    /// A file that goes with the test.
    struct Temporary(std::path::PathBuf);

    impl Temporary {
        fn new(name: &str, text: &str) -> Self {
            let file = format!("punctual-{}-{name}.dist", std::process::id());
            let path = std::env::temp_dir().join(file);
            fs::write(&path, text).unwrap();
            Self(path)
        }

        fn name(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_is_replaced_by_its_numbers() {
        let file = Temporary::new("good", "# a table\n -8192 0\n\n0x2000 -0x1 # the end\n32767\n");
        let text = format!(
            "delay=9ms  jitter=2ms distribution={0} slot={0},1ms,1ms,packets=2 loss=1%",
            file.name()
        );
        let config = LinkConfig::parse(&words(&text).unwrap(), "--up").unwrap();
        let table = Distribution::Table(Table::new(&[-8192, 0, 8192, -1, 32767]).unwrap());
        assert_eq!(config.distribution, table);
        let slot = format!("{table},1ms,1ms,packets=2");
        assert_eq!(config.slot.unwrap().to_string(), slot);
        for (name, value) in [
            ("distribution", "pareto"),
            ("distribution", "table:0001"),
            ("slot", "1ms,2ms"),
            ("slot", "none"),
            ("slot", "normal,1ms,1ms"),
            ("rate", "1mbit"),
        ] {
            assert_eq!(value_of(name, value).unwrap(), value);
        }
    }

    #[test]
    fn a_bad_file_says_where_what_and_what_was_expected() {
        let missing = value_of("distribution", "norml").unwrap_err().to_string();
        assert!(missing.starts_with("distribution: cannot read \"norml\": "), "{missing}");
        assert!(missing.ends_with("did you mean \"normal\"?"), "{missing}");
        let far = value_of("slot", "/nowhere/at.all,1ms,1ms").unwrap_err().to_string();
        assert!(far.ends_with("a file or one of uniform, normal, pareto, paretonormal"), "{far}");
        for (text, problem) in [
            ("1 2\n3 x\n", ", line 2: \"x\" is no whole number from -32768 to 32767"),
            ("32768", ", line 1: \"32768\" is no whole number from -32768 to 32767"),
            ("1.5", ", line 1: \"1.5\" is no whole number from -32768 to 32767"),
            ("--1", ", line 1: \"--1\" is no whole number from -32768 to 32767"),
            ("0x", ", line 1: \"0x\" is no whole number from -32768 to 32767"),
            ("# nothing\n", ": a table needs at least one value"),
            (&"7 ".repeat(16_385), ": 16385 values are too many, a table has at most 16384"),
        ] {
            let file = Temporary::new("bad", text);
            let error = value_of("distribution", file.name()).unwrap_err().to_string();
            assert_eq!(error, format!("distribution: \"{}\"{problem}", file.name()));
        }
        let file = Temporary::new("large", &" ".repeat(1_000_001));
        let error = value_of("distribution", file.name()).unwrap_err().to_string();
        assert!(error.ends_with("is larger than 1 MB: no table of a distribution"), "{error}");
    }
}
