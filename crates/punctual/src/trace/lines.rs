//! A trace file line by line: bounded, counted, text only.

use std::io::{BufRead, IsTerminal, Read, Write, stderr};

use punctual_sched::{Duration, Probability, Rate};

use super::error::{Problem, line_after, quoted};
use super::number::{Decimal, Unfit};

/// The lines of a file. Ends may be `\n` or `\r\n`, the last line needs none, and a byte order mark
/// before the first is skipped.
pub(super) struct Lines<'a> {
    source: Box<dyn BufRead + 'a>,
    number: u64,
    bytes: u64,
    buffer: Vec<u8>,
    progress: Progress<'a>,
}

/// One line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: u64,
    /// Without its end and the blanks around it.
    pub(super) text: &'a str,
}

impl<'a> Lines<'a> {
    pub(super) fn new(name: &'a str, source: Box<dyn BufRead + 'a>) -> Self {
        let progress = Progress::new(name);
        Self { source, number: 0, bytes: 0, buffer: Vec::new(), progress }
    }

    /// Nobody is told how far it is.
    pub(super) fn be_quiet(&mut self) {
        self.progress.enabled = false;
    }

    /// The next line, blank or not.
    pub(super) fn any(&mut self) -> Result<Option<Line<'_>>, Problem> {
        Ok(self.advance()?.then(|| self.current()))
    }

    /// The next line that is not blank.
    pub(super) fn full(&mut self) -> Result<Option<Line<'_>>, Problem> {
        while self.advance()? {
            if !self.current().text.is_empty() {
                return Ok(Some(self.current()));
            }
        }
        Ok(None)
    }

    /// The next line that is neither blank nor a comment, which begins with `#`.
    pub(super) fn data(&mut self) -> Result<Option<Line<'_>>, Problem> {
        while self.advance()? {
            let text = self.current().text;
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some(self.current()));
            }
        }
        Ok(None)
    }

    /// Reads a line and sees that it is text; false at the end.
    fn advance(&mut self) -> Result<bool, Problem> {
        self.buffer.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let line = (&mut self.source).take(limit).read_until(b'\n', &mut self.buffer);
        let read = line.map_err(|error| Problem::input(&error))?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.bytes += u64::try_from(read).unwrap_or(u64::MAX);
        self.progress.at(self.number);
        if self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        let what = if self.buffer.contains(&0) || std::str::from_utf8(&self.buffer).is_err() {
            "holds bytes that are no text, expected a trace in text"
        } else if read >= MAX_LINE {
            "is longer than 65536 bytes, expected lines of numbers"
        } else if self.bytes > MAX_BYTES {
            "the file is larger than 4 GiB, expected a trace that fits in memory"
        } else {
            return Ok(true);
        };
        Err(Problem::at(self.number, what))
    }

    /// The line that was read last.
    fn current(&self) -> Line<'_> {
        // `advance` has seen that it is text.
        let text = std::str::from_utf8(&self.buffer).unwrap_or_default();
        Line { number: self.number, text: text.trim() }
    }

    /// How many lines were read.
    pub(super) fn count(&self) -> u64 {
        self.number
    }

    /// All that is left, for formats that are not read by lines.
    pub(super) fn rest(mut self) -> Result<String, Problem> {
        let mut text = Vec::new();
        let read = self.source.by_ref().take(MAX_TEXT + 1).read_to_end(&mut text);
        let read = read.map_err(|error| Problem::input(&error))?;
        if u64::try_from(read).unwrap_or(u64::MAX) > MAX_TEXT {
            return Err(Problem::whole("is larger than 256 MiB, too large for JSON or TOML"));
        }
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        String::from_utf8(text).map_err(|error| {
            let before = error.utf8_error().valid_up_to();
            let line = line_after(&error.as_bytes()[..before]);
            Problem::at(line, "holds bytes that are no text, expected JSON or TOML")
        })
    }
}

impl<'a> Line<'a> {
    /// What is wrong with it.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Problem {
        Problem::at(self.number, what)
    }

    /// Fields between commas, without the blanks and quotes around them.
    pub(super) fn commas(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.text.split(',').map(|field| field.trim().trim_matches('"'))
    }

    /// A number times `factor`, to the nearest whole: `what` says what was expected.
    pub(super) fn scaled(&self, text: &str, factor: u64, what: &str) -> Result<u64, Problem> {
        // Most fields of most files.
        if let Some(value) = text.parse::<u64>().ok().and_then(|value| value.checked_mul(factor)) {
            return Ok(value);
        }
        match Decimal::parse(text).map(|number| number.scaled(factor)) {
            Some(Ok(value)) => Ok(value),
            Some(Err(unfit)) => {
                let how = match unfit {
                    Unfit::Negative => "negative",
                    Unfit::TooLarge => "too large",
                };
                Err(self.wrong(format!("{} is {how}, expected {what}", quoted(text))))
            }
            None => Err(self.wrong(format!("{} is no number, expected {what}", quoted(text)))),
        }
    }

    /// A rate of which one is `bits` per second.
    pub(super) fn rate(&self, text: &str, bits: u64, what: &str) -> Result<Rate, Problem> {
        let bps = self.scaled(text, bits, what)?;
        self.known_rate(bps, text, what)
    }

    /// A rate in bits per second that stands as `text` in the file.
    pub(super) fn known_rate(&self, bps: u64, text: &str, what: &str) -> Result<Rate, Problem> {
        let fits = Rate::from_bps(bps).filter(|rate| *rate != Rate::UNLIMITED);
        let too_large = || format!("{} is more than 1tbit, expected {what}", quoted(text));
        fits.ok_or_else(|| self.wrong(too_large()))
    }

    /// A time of which one is `nanos`.
    pub(super) fn time(&self, text: &str, nanos: u64, what: &str) -> Result<Duration, Problem> {
        self.scaled(text, nanos, what).map(Duration::from_nanos)
    }

    /// A share of which `whole` is all.
    pub(super) fn share(&self, text: &str, whole: u32, what: &str) -> Result<Probability, Problem> {
        let fine = self.scaled(text, SHARE, what)?;
        let whole = u128::from(SHARE) * u128::from(whole);
        let too_large = || self.wrong(format!("{} is too large, expected {what}", quoted(text)));
        probability(fine.into(), whole).ok_or_else(too_large)
    }
}

/// `part / whole`, below 2^96 each, as a link reads it in percent: `rint(p * (2^32 - 1))`, of two as
/// near the even one. `None`: more than all.
pub(super) fn probability(part: u128, whole: u128) -> Option<Probability> {
    let (product, twice) = (part * u128::from(u32::MAX), 2 * whole);
    let raw = (2 * product + whole) / twice;
    let is_half = (2 * product + whole).is_multiple_of(twice);
    let raw = if is_half { raw - raw % 2 } else { raw };
    u32::try_from(raw).ok().map(Probability::from_raw)
}

/// How far a long file is, on a terminal.
struct Progress<'a> {
    name: &'a str,
    enabled: bool,
    shown: bool,
}

impl<'a> Progress<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, enabled: stderr().is_terminal(), shown: false }
    }

    fn at(&mut self, line: u64) {
        if line.is_multiple_of(SHOW_EVERY) && self.enabled {
            self.shown = true;
            // A terminal that is gone cannot be told anything.
            let _ = write!(stderr(), "\r{}: {} million lines", self.name, line / 1_000_000);
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shown {
            // Erases the line (ECMA-48, EL).
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Bytes of a line, and of the file's beginning by which its format is recognised.
pub(super) const MAX_LINE: usize = 1 << 16;
/// Bytes of a file: the 10 million lines of a long recording with 26 columns fit.
const MAX_BYTES: u64 = 1 << 32;
/// Bytes of a file that is not read by lines.
const MAX_TEXT: u64 = 1 << 28;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// About half a second.
const SHOW_EVERY: u64 = 2_000_000;
/// Steps of a share between 0 and 1, finer than a 32-bit threshold.
const SHARE: u64 = 1_000_000_000_000;
