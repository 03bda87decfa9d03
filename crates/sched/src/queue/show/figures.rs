//! Figures as `tc` writes them.

use core::fmt::Display;

use crate::time::Duration;
use crate::units::{Probability, Rate};

/// `10Mbit`, `1500Kbit`: the largest decimal unit that leaves a whole number, from 10^6 of a unit
/// on the next one, cut.
pub(super) fn rate(rate: Rate) -> String {
    let mut number = rate.as_bps();
    let mut prefixes = ["", "K", "M", "G"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    for larger in prefixes.chain(["T"]) {
        let exact = number.is_multiple_of(1_000);
        if number < 1_000 || (!exact && number < 1_000_000) {
            break;
        }
        number /= 1_000;
        prefix = larger;
    }
    format!("{number}{prefix}bit")
}

/// `20Kb`, `32Mb`, `3028b`: a unit of 1024 when what it hides is below 16 bytes, one of 1024^2 when
/// it is below 1024.
pub(super) fn size(bytes: u64) -> String {
    for (unit, hidden, name) in [(1 << 20, 1_024, "Mb"), (1 << 10, 16, "Kb")] {
        let units = bytes / unit + u64::from(bytes % unit >= unit / 2);
        if bytes >= unit && units.saturating_mul(unit).abs_diff(bytes) < hidden {
            return format!("{units}{name}");
        }
    }
    format!("{bytes}b")
}

/// What `tc` keeps in microseconds: `8.39s`, `7.37ms`, `500us`.
pub(super) fn micros(time: Duration) -> String {
    match time.as_nanos() / 1_000 {
        micros @ 0..1_000 => format!("{micros}us"),
        micros => nanos(micros.saturating_mul(1_000)),
    }
}

/// Nanoseconds with three digits that count, in the largest unit not above: `9.81us`.
pub(in super::super) fn nanos(nanos: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(unit, _)| nanos >= *unit) {
        Some((unit, name)) => format!("{}{name}", significant(nanos.into(), *unit, 3)),
        None => format!("{nanos}ns"),
    }
}

/// `0.5%`, with six digits that count.
pub(super) fn percent(probability: Probability) -> String {
    let hundredfold = u128::from(probability.as_raw()) * 100;
    format!("{}%", significant(hundredfold, u32::MAX.into(), 6))
}

/// Steps of 1/256 with six decimals, a tie to the even one.
pub(super) fn gain(steps: u64) -> String {
    let quarters = steps.saturating_mul(1_000_000 / 64);
    let (millionths, rest) = (quarters / 4, quarters % 4);
    let up = rest == 3 || (rest == 2 && millionths % 2 == 1);
    let millionths = millionths + u64::from(up);
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

/// Values with a space between.
pub(super) fn list(values: &[impl Display]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// `number / unit` with so many digits that count, or all before the point; no zeros at the end.
fn significant(number: u128, unit: u64, digits: u32) -> String {
    let unit = u128::from(unit);
    let enough = 10_u128.pow(digits - 1);
    // A number of 64 bits and the decimals of the smallest probability stay below 2^128.
    let places = (0..MAX_PLACES).find(|places| number * 10_u128.pow(*places) / unit >= enough);
    let places = places.unwrap_or(MAX_PLACES);
    let one = 10_u128.pow(places);
    let (whole, rest) = (number * one / unit, number * one % unit);
    let steps = whole + u128::from(rest >= unit - rest);
    let width = usize::try_from(places).unwrap_or(0);
    if width == 0 {
        return steps.to_string();
    }
    let text = format!("{}.{:0width$}", steps / one, steps % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One in 2^32 - 1 has its sixth digit at the thirteenth place.
const MAX_PLACES: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_tc() {
        for (bits, text) in [
            (0, "0bit"),
            (999, "999bit"),
            (1_000, "1Kbit"),
            (1_500, "1500bit"),
            (550_000, "550Kbit"),
            (1_500_000, "1500Kbit"),
            (12_345_678, "12345Kbit"),
            (10_000_000, "10Mbit"),
            (2_500_000_000, "2500Mbit"),
            (1_000_000_000_000, "1Tbit"),
        ] {
            assert_eq!(rate(Rate::from_bps(bits).unwrap()), text);
        }
    }

    #[test]
    fn sizes_are_those_of_tc() {
        for (bytes, text) in [
            (0, "0b"),
            (1_023, "1023b"),
            (1_024, "1Kb"),
            (3_028, "3028b"),
            (10_000, "10000b"),
            (20_480, "20Kb"),
            (20_495, "20Kb"),
            (20_496, "20496b"),
            (32 << 20, "32Mb"),
            ((32 << 20) - 1_000, "32Mb"),
            (u64::MAX, "17592186044416Mb"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times_have_three_digits_that_count() {
        for (time, text) in [
            (999, "999ns"),
            (1_000, "1us"),
            (9_814, "9.81us"),
            (9_815, "9.82us"),
            (12_040, "12us"),
            (100_600, "101us"),
            (24_224_000, "24.2ms"),
            (1_500_000_000, "1.5s"),
            (100_000_000_000, "100s"),
            (1_234_500_000_000, "1235s"),
            (u64::MAX, "18446744074s"),
        ] {
            assert_eq!(nanos(time), text);
        }
        for (time, text) in [(999, "0us"), (1_999, "1us"), (7_372_800, "7.37ms")] {
            assert_eq!(micros(Duration::from_nanos(time)), text);
        }
    }

    #[test]
    fn shares_have_six_digits_that_count() {
        for (raw, text) in [
            (0, "0%"),
            (1, "0.0000000232831%"),
            (21_474_836, "0.5%"),
            (1_431_655_765, "33.3333%"),
            (u32::MAX, "100%"),
        ] {
            assert_eq!(percent(Probability::from_raw(raw)), text);
        }
    }

    #[test]
    fn gains_have_six_decimals() {
        for (steps, text) in [(40, "0.156250"), (818, "3.195312"), (819, "3.199219")] {
            assert_eq!(gain(steps), text);
        }
    }
}
