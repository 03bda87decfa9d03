//! Which format a file has, by its first lines.
//!
//! Recognised by the header or the shape of the first two lines with data: what is wrong further
//! down is for the reader to find, which names the line.

use super::date::Date;
use super::error::{Missing, Problem, line_after};
use super::format::Format;
use super::formats::{netem_trace, punctual};

/// The format of a file that begins with `head`; `whole` when that is all of it.
pub(super) fn recognise(head: &[u8], whole: bool) -> Result<Format, Problem> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    if head.is_empty() {
        return Err(Problem::whole("is empty, expected a trace"));
    }
    let text = text(head, whole)?;
    let candidates = candidates(text);
    match candidates[..] {
        [format] => Ok(format),
        [] => Err(unknown(text)),
        _ => {
            let names: Vec<_> = candidates.iter().map(|format| format.name()).collect();
            let what = format!("may be {}, expected the format to be named", names.join(" or "));
            Err(Problem::open(Missing::Format, what))
        }
    }
}

/// The beginning as text; a line or a character that is cut at its end is left out.
fn text(head: &[u8], whole: bool) -> Result<&str, Problem> {
    let (text, bad) = match std::str::from_utf8(head) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = error.valid_up_to();
            let cut = error.error_len().is_none() && !whole;
            let text = std::str::from_utf8(&head[..valid]).unwrap_or_default();
            (text, (!cut).then_some(valid))
        }
    };
    let bad = text.find('\0').or(bad);
    if let Some(at) = bad {
        let line = line_after(&head[..at]);
        let what = "holds bytes that are no text, expected a trace in text";
        return Err(Problem::at(line, what));
    }
    Ok(match text.rfind('\n') {
        Some(end) if !whole => &text[..end],
        _ => text,
    })
}

fn unknown(text: &str) -> Problem {
    if text.trim().is_empty() {
        return Problem::whole("holds blank lines only, expected a trace");
    }
    let what = "has no known format, expected one that `punctual trace check --help` lists";
    Problem::open(Missing::Format, what)
}

fn candidates(text: &str) -> Vec<Format> {
    if text.trim_start().starts_with('{') {
        return json(text);
    }
    if netem_trace::is_toml(text) {
        return vec![Format::NetemTrace];
    }
    let full = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if full().take(10).any(is_mahimahi_log) {
        return vec![Format::MahimahiLog];
    }
    let Some(first) = full().find(|line| !line.starts_with('#')) else { return Vec::new() };
    let header = header(first);
    if !header.is_empty() {
        return header;
    }
    let data: Vec<_> = full().filter(|line| !line.starts_with('#')).take(2).collect();
    // TheaterQ ignores lines that do not begin with a digit: its header is one of them.
    let is_theaterq = first.to_ascii_lowercase().contains("keep");
    let first = if is_theaterq { *data.last().unwrap_or(&first) } else { first };
    [by_commas(first), by_words(&data)].concat()
}

fn json(text: &str) -> Vec<Format> {
    let netem = netem_trace::NAMES.iter().any(|name| text.contains(name));
    let entries = text.contains("\"entries\"") || text.contains("\"entryNo\"");
    let fits = [(netem, Format::NetemTrace), (entries, Format::Ntrace)];
    fits.iter().filter(|(fits, _)| *fits).map(|&(_, format)| format).collect()
}

/// `142 # 1504`, `142 + 80`, `144 - 80 2`, `150 d 1 80`.
fn is_mahimahi_log(line: &str) -> bool {
    let mut words = line.split(' ');
    let at = words.next().is_some_and(is_whole);
    at && words.next().is_some_and(|word| ["#", "+", "-", "d"].contains(&word))
}

/// By the names in the first line.
fn header(first: &str) -> Vec<Format> {
    let lower = first.to_ascii_lowercase();
    let names: Vec<_> = lower.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let has = |wanted: &[&str]| wanted.iter().all(|name| names.contains(name));
    let stamp = names[0].starts_with("timestamp");
    let fits = [
        (punctual::is_header(&names), Format::Punctual),
        (has(&["at", "delay", "min_link_cap"]), Format::Fau),
        (has(&["timestamp", "dl_bitrate", "ul_bitrate"]), Format::Ucc),
        (has(&["time", "throughput", "speed"]), Format::Starlink),
        (stamp && has(&["rtt", "uplink", "downlink"]), Format::LensIrtt),
        (stamp && names.len() == 2 && has(&["rtt"]), Format::LensPing),
        (has(&["timestamp_start", "download", "upload"]), Format::WetlinksIperf),
        (has(&["timestamp_start", "packet_loss", "ping_avg"]), Format::WetlinksPing),
        (has(&["operator", "technology", "download", "upload", "rtt"]), Format::Errant),
    ];
    let formats: Vec<_> =
        fits.iter().filter(|(fits, _)| *fits).map(|&(_, format)| format).collect();
    // Its reader names the column that is none.
    let meant = formats.is_empty() && matches!(names[..], ["time" | "time_ns", _, ..]);
    if meant { vec![Format::Punctual] } else { formats }
}

/// Whether a format is recognised by its numbers alone: the file itself does not name it.
pub(super) fn is_by_shape(format: Format) -> bool {
    use Format::{Cellreplay, Ghent, Hsdpa, Mahimahi, Pairs, TheaterqExtended};
    matches!(format, Cellreplay | Ghent | Hsdpa | Mahimahi | Pairs | TheaterqExtended)
}

/// By the numbers between commas.
fn by_commas(line: &str) -> Vec<Format> {
    let fields: Vec<_> = line.split(',').map(str::trim).collect();
    let numbers = fields.iter().all(|field| is_number(field));
    let epoch = |power: u32| {
        fields[0].parse::<f64>().is_ok_and(|at| at >= 10_f64.powi(power.cast_signed()))
    };
    match fields.len() {
        2 if numbers && epoch(9) => vec![Format::LensPing, Format::Pairs],
        4 if numbers && epoch(17) => vec![Format::LensIrtt],
        5 if numbers => vec![Format::Theaterq],
        8..=10 if numbers => vec![Format::TheaterqExtended],
        7.. if Date::parse(fields[1]).is_some() && is_number(fields[6]) => vec![Format::Fcc],
        _ => Vec::new(),
    }
}

/// By the numbers between blanks: a column, pairs, six columns, many.
fn by_words(lines: &[&str]) -> Vec<Format> {
    let rows: Vec<Vec<_>> = lines
        .iter()
        .map(|line| {
            line.split(|c: char| c.is_whitespace() || c == ',')
                .filter(|word| !word.is_empty())
                .collect()
        })
        .collect();
    let numbers = |row: &Vec<&str>| row.iter().all(|word| is_number(word));
    let Some(first) = rows.first().filter(|row| numbers(row)) else { return Vec::new() };
    let commas = lines[0].contains(',');
    match first.len() {
        1 if !commas => vec![Format::Mahimahi],
        2 if rows.iter().all(|row| row.len() == 2) && !(commas && is_epoch(first[0])) => {
            vec![Format::Pairs]
        }
        6 if !commas && is_position(first[2], first[3]) => {
            let millis = first[0].len() > 10;
            vec![if millis { Format::Ghent } else { Format::Hsdpa }]
        }
        2.. if !commas && rows.iter().all(|row| row.iter().all(|word| is_whole(word))) => {
            vec![Format::Cellreplay]
        }
        _ => Vec::new(),
    }
}

/// Seconds since 1970 rather than since the start of a recording.
fn is_epoch(word: &str) -> bool {
    word.parse::<f64>().is_ok_and(|at| at >= 1e9)
}

/// Degrees of latitude and longitude.
fn is_position(latitude: &str, longitude: &str) -> bool {
    let within = |word: &str, most: f64| {
        word.contains('.') && word.parse::<f64>().is_ok_and(|degrees| degrees.abs() <= most)
    };
    within(latitude, 90.0) && within(longitude, 180.0)
}

fn is_whole(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers of any kind, NaN among them: readers refuse those with the line.
fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}
