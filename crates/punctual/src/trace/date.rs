//! Dates and times as logs write them, on one axis of nanoseconds.

/// A point in time and what its zone was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date<'a> {
    /// Nanoseconds since 1970, in the zone of the text unless that is a number.
    pub(super) nanos: u64,
    /// `CDT`; empty where there is none, or where it was a number and is applied.
    pub(super) zone: &'a str,
}

impl<'a> Date<'a> {
    /// Reads year, month, day, hour, minute, second in this order between any of `-./:_T` and
    /// blanks, a fraction of the second, and a zone: `2019.12.16_13.40.04`,
    /// `2023-04-12 10:40:20 CDT`, `2020-10-09T08:23:00.478+02:00`. `None` for anything else, and
    /// before 1970.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut rest = text;
        let mut parts = [0_u64; 6];
        for (index, part) in parts.iter_mut().enumerate() {
            if index > 0 {
                rest = rest.strip_prefix(['-', '.', '/', ':', '_', 'T', 't', ' '])?;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 || digits > 4 {
                return None;
            }
            *part = rest[..digits].parse().ok()?;
            rest = &rest[digits..];
        }
        let nanos = fraction(&mut rest);
        let seconds = seconds(parts)?;
        let (shift, zone) = zone(rest.trim())?;
        let seconds = u64::try_from(i64::try_from(seconds).ok()? - shift).ok()?;
        Some(Self { nanos: seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?, zone })
    }
}

/// Digits after a point, as nanoseconds.
fn fraction(rest: &mut &str) -> u64 {
    let Some(after) = rest.strip_prefix('.') else { return 0 };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let kept = after[..digits].bytes().chain(std::iter::repeat(b'0')).take(9);
    *rest = &after[digits..];
    kept.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'))
}

/// Seconds since 1970 of a date in the Gregorian calendar.
fn seconds([year, month, day, hour, minute, second]: [u64; 6]) -> Option<u64> {
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    // 60 is a leap second.
    if !valid || year < 1970 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years that begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = (365 * year + leap_days + day_of_year).checked_sub(DAYS_TO_1970)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Seconds by which the zone is ahead, and its name.
fn zone(text: &str) -> Option<(i64, &str)> {
    let Some(sign) = text.chars().next().filter(|sign| "+-".contains(*sign)) else {
        let name =
            text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'/' || byte == b'_');
        let utc = text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc");
        return name.then_some((0, if utc { "" } else { text }));
    };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    let four = if digits.len() == 2 { digits + "00" } else { digits };
    if four.len() != 4 || !four.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (four[..2].parse().ok()?, four[2..].parse().ok()?);
    let ahead = hours * 3_600 + minutes * 60;
    Some((if sign == '-' { -ahead } else { ahead }, ""))
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_logs_are_read_in_their_zones() {
        for (text, nanos, zone) in [
            ("1970-01-01T00:00:00Z", 0, ""),
            ("2019.12.16_13.40.04", 1_576_503_604_000_000_000, ""),
            ("2023-04-12 10:40:20 CDT", 1_681_296_020_000_000_000, "CDT"),
            ("2020-10-09T08:23:00.478+02:00", 1_602_224_580_478_000_000, ""),
            ("2012-04-23T18:25:43.511Z", 1_435_083_943_511_000_000 - 99_878_400_000_000_000, ""),
            ("2000-02-29 23:59:59.123456789123", 951_868_799_123_456_789, ""),
            ("2024-03-01 00:00:00-0530", 1_709_271_000_000_000_000, ""),
        ] {
            assert_eq!(Date::parse(text), Some(Date { nanos, zone }), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "12",
            "2019-13-01 00:00:00",
            "2019-01-01",
            "2019-01-01 24:00:00",
            "1969-12-31 23:59:59",
            "2019-01-01 00:00:00 +2",
            "99999-01-01 00:00:00",
            "2019-01-01 00:00:00 1",
            "é019-01-01",
            "2019-01-01 00:00:00+é0:00",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
