//! Figures as people read them: three or four significant digits and a unit.

/// A duration: `0`, `640 ns`, `85.3 us`, `1.20 ms`, `3.00 s`, `-12.0 us`.
pub fn duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    match ns {
        0 => "0".into(),
        1..1_000 => format!("{sign}{ns} ns"),
        // The limits are where rounding to three digits reaches the next unit.
        1_000..999_500 => format!("{sign}{} us", three_digits(ns, 1_000)),
        999_500..999_500_000 => format!("{sign}{} ms", three_digits(ns, 1_000_000)),
        _ => format!("{sign}{} s", three_digits(ns, 1_000_000_000)),
    }
}

/// [`duration`], or a dash where there is none.
pub fn duration_or_dash(ns: Option<i64>) -> String {
    ns.map_or_else(|| "-".into(), duration)
}

/// Two durations in the unit of the larger: `2.10/50.0 ms`, `0.045/1.20 ms`, `0`, `-`.
pub fn pair(first: Option<i64>, second: Option<i64>) -> String {
    let (Some(first), Some(second)) = (first, second) else { return "-".into() };
    let larger = first.unsigned_abs().max(second.unsigned_abs());
    let (unit, name) = match larger {
        0 => return "0".into(),
        1..1_000 => (1, "ns"),
        1_000..999_500 => (1_000, "us"),
        999_500..999_500_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let one = |ns: i64| {
        let sign = if ns < 0 { "-" } else { "" };
        let ns = ns.unsigned_abs();
        match ns {
            0 => "0".into(),
            _ if unit == 1 => format!("{sign}{ns}"),
            // A thousandth of the larger's unit is the last digit that says anything beside it.
            _ if ns * 10 < unit => format!("{sign}{}", fixed(ns.into(), unit.into(), 3)),
            _ => format!("{sign}{}", three_digits(ns, unit)),
        }
    };
    format!("{}/{} {name}", one(first), one(second))
}

/// A rate in bit/s: `640 bit/s`, `19.94 Mbit/s`.
pub fn rate(bps: u64) -> String {
    match bps {
        0..1_000 => format!("{bps} bit/s"),
        1_000..999_950 => format!("{} kbit/s", four_digits(bps, 1_000)),
        999_950..999_950_000 => format!("{} Mbit/s", four_digits(bps, 1_000_000)),
        _ => format!("{} Gbit/s", four_digits(bps, 1_000_000_000)),
    }
}

/// A share in ppm as a percentage: `0 %`, `0.013 %`, `2.31 %`, `99.8 %`, `100 %`. Neither 0 nor
/// 100 is shown unless it is exact to the digit: one late packet in a million is `0.0001 %`.
pub fn percent(ppm: u64) -> String {
    match ppm {
        0 => "0 %".into(),
        1..100 => format!("0.{ppm:04} %"),
        100..10_000 => format!("0.{:03} %", ppm / 10),
        10_000..100_000 => format!("{}.{:02} %", ppm / 10_000, ppm / 100 % 100),
        1_000_000 => "100 %".into(),
        _ => format!("{}.{} %", ppm / 10_000, ppm / 1_000 % 10),
    }
}

/// `part` of `whole` as a percentage, `-` without a whole; a part that is not 0 never reads 0.
pub fn share(part: u64, whole: u64) -> String {
    let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole));
    let Some(ppm) = ppm.and_then(|ppm| u64::try_from(ppm).ok()) else { return "-".into() };
    if ppm == 0 && part > 0 { "<0.0001 %".into() } else { percent(ppm) }
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 packet`, `1,500 packets`.
pub fn plural(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `text` with each character that moves the cursor, commands the terminal or cannot be seen
/// written as an escape: `\n`, `\u{1b}`, `\u{202e}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_layout(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Separators of lines, marks of direction (UAX #9) and what has no width: they are no control
/// characters (Cc), but a terminal that obeys them shows a line other than it is.
fn is_layout(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `line`, cut to `columns` characters with an ellipsis where it is longer.
pub fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.into();
    }
    let mut kept: String = line.chars().take(columns - 3).collect();
    kept.truncate(kept.trim_end().len());
    kept + "..."
}

/// `line` in lines of at most `columns` characters, each after the first behind `indent` spaces,
/// broken behind a comma where one is not far, else at a space. Each ends with a newline.
pub fn wrap(line: &str, columns: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut rest: Vec<char> = line.chars().collect();
    let mut lead = 0;
    while rest.len() > columns - lead {
        let room = columns - lead;
        let spaces = || (1..=room).rev().filter(|&at| rest[at] == ' ');
        let behind_comma = spaces().find(|&at| at > room / 2 && rest[at - 1] == ',');
        // Not into the label, which the first line begins with.
        let at = behind_comma.or_else(|| spaces().find(|&at| at > indent - lead)).unwrap_or(room);
        let tail: Vec<char> = rest[at..].iter().copied().skip_while(|c| *c == ' ').collect();
        let head: String = rest[..at].iter().collect();
        wrapped.extend([&" ".repeat(lead), head.trim_end(), "\n"]);
        (rest, lead) = (tail, indent);
    }
    let last: String = rest.into_iter().collect();
    wrapped + &" ".repeat(lead) + &last + "\n"
}

fn three_digits(value: u64, unit: u64) -> String {
    let scaled = u128::from(value);
    let unit = u128::from(unit);
    let whole = scaled / unit;
    let decimals = match whole {
        0..10 if rounded(scaled, unit, 2) < 1_000 => 2,
        0..100 if rounded(scaled, unit, 1) < 1_000 => 1,
        _ => 0,
    };
    fixed(scaled, unit, decimals)
}

fn four_digits(value: u64, unit: u64) -> String {
    let scaled = u128::from(value);
    let unit = u128::from(unit);
    let whole = scaled / unit;
    let decimals = match whole {
        0..10 if rounded(scaled, unit, 3) < 10_000 => 3,
        0..100 if rounded(scaled, unit, 2) < 10_000 => 2,
        0..1_000 if rounded(scaled, unit, 1) < 10_000 => 1,
        _ => 0,
    };
    fixed(scaled, unit, decimals)
}

/// `value / unit` in units of `10^-decimals`, rounded to the nearest.
fn rounded(value: u128, unit: u128, decimals: u32) -> u128 {
    (value * 10u128.pow(decimals) + unit / 2) / unit
}

fn fixed(value: u128, unit: u128, decimals: u32) -> String {
    let scaled = rounded(value, unit, decimals);
    let power = 10u128.pow(decimals);
    let width = decimals as usize;
    if width == 0 {
        return scaled.to_string();
    }
    format!("{}.{:0width$}", scaled / power, scaled % power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_never_a_thousand_of_a_unit() {
        let cases = [
            (0, "0"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_995, "10.0 us"),
            (99_950, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (999_500_000, "1.00 s"),
            (75_250_000_000, "75.3 s"),
            (-12_000, "-12.0 us"),
            (i64::MIN, "-9223372037 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn a_pair_shares_the_unit_of_the_larger() {
        let cases = [
            (2_100_000, 50_000_000, "2.10/50.0 ms"),
            (45_000, 50_000_000, "0.045/50.0 ms"),
            (600_000, 606_000, "600/606 us"),
            (0, 606_000, "0/606 us"),
            (3, 606_000, "0.003/606 us"),
            (3, 60, "3/60 ns"),
            (-3_000, 60_000, "-3.00/60.0 us"),
            (0, 0, "0"),
        ];
        for (first, second, text) in cases {
            assert_eq!(pair(Some(first), Some(second)), text);
        }
        assert_eq!(pair(None, None), "-");
    }

    #[test]
    fn rates_have_four_digits() {
        let cases = [
            (640, "640 bit/s"),
            (64_000, "64.00 kbit/s"),
            (999_949, "999.9 kbit/s"),
            (999_950, "1.000 Mbit/s"),
            (19_996_000, "20.00 Mbit/s"),
            (19_940_000, "19.94 Mbit/s"),
            (12_200_000_000, "12.20 Gbit/s"),
        ];
        for (bps, text) in cases {
            assert_eq!(rate(bps), text, "{bps}");
        }
    }

    #[test]
    fn a_share_is_zero_or_a_hundred_only_when_it_is() {
        let cases = [
            (0, 7, "0 %"),
            (1, 10_000_000, "<0.0001 %"),
            (1, 1_000_000, "0.0001 %"),
            (13, 100_000, "0.013 %"),
            (231, 10_000, "2.31 %"),
            (999_999, 1_000_000, "99.9 %"),
            (7, 7, "100 %"),
            (3, 2, "150.0 %"),
            (0, 0, "-"),
        ];
        for (part, whole, text) in cases {
            assert_eq!(share(part, whole), text, "{part}/{whole}");
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn nothing_of_a_text_commands_the_terminal() {
        let hostile = "a\nb\r\t\u{1b}[2J\u{7}\u{9b}1m\u{7f}\u{202e}\u{2028}\u{200b}\0";
        let shown = r"a\nb\r\t\u{1b}[2J\u{7}\u{9b}1m\u{7f}\u{202e}\u{2028}\u{200b}\u{0}";
        assert_eq!(visible(hostile), shown);
        assert_eq!(visible("größe \"x\" 'y' \\ 京"), "größe \"x\" 'y' \\ 京");
    }

    #[test]
    fn a_wrapped_line_keeps_every_word() {
        assert_eq!(wrap("up   1 in, 2 out", 16, 5), "up   1 in, 2 out\n");
        assert_eq!(
            wrap("up   1 in, 2 out, 3 lost", 16, 5),
            "up   1 in,\n     2 out,\n     3 lost\n"
        );
        assert_eq!(wrap("up   one two", 9, 5), "up   one\n     two\n");
        assert_eq!(wrap("up   0123456789", 9, 5), "up   0123\n     4567\n     89\n");
    }

    #[test]
    fn a_cut_line_fits_and_shows_that_it_was_cut() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abc defg", 7), "abc...");
    }
}
