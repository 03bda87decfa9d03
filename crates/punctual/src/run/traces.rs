//! Traces that links follow, from files.

use std::path::Path;

use punctual_sched::parameter::ConfigBuilder;
use punctual_sched::trace::TraceOptions;

use crate::failure::Failure;
use crate::log::Direction;
use crate::trace::{Hints, read, resolve, warnings};

/// Reads the file that `trace` names, if it names one, for the link of `direction`. What the file
/// holds, and its format where that was recognised, become part of the link; `place` is named in
/// errors. What to beware of is returned.
pub(super) fn follow(
    builder: &mut ConfigBuilder,
    direction: Direction,
    place: &str,
) -> Result<Vec<String>, Failure> {
    let options = &builder.config().trace_options;
    let Some(file) = options.file.clone() else { return Ok(Vec::new()) };
    let refuse = |problem: String| Failure::usage(format!("{place}: {problem}"));
    let hints = hints(options, direction).map_err(&refuse)?;
    let found = read(Path::new(&*file), &hints)
        .map_err(|error| refuse(format!("trace: {error}{}", option(&error))))?;
    let format = found.format.name();
    let warned = |warning| format!("{file}: {warning}");
    let warnings = warnings(&found).into_iter().map(warned).collect();
    let trace = resolve(options, found).map_err(|problem| refuse(format!("trace: {problem}")))?;
    builder.set("trace.format", &format, place).map_err(Failure::usage)?;
    builder.follow(trace);
    Ok(warnings)
}

/// What the reader is told.
fn hints(options: &TraceOptions, direction: Direction) -> Result<Hints, String> {
    let of = |name: &str, problem: String| format!("trace.{name}: {problem}");
    let format = options.format.as_deref().map(str::parse).transpose();
    let unit = options.unit.as_deref().map(str::parse).transpose();
    let direction = match options.direction.as_deref() {
        Some("up") => Direction::Up,
        Some("down") => Direction::Down,
        _ => direction,
    };
    Ok(Hints {
        format: format.map_err(|problem| of("format", problem))?,
        unit: unit.map_err(|problem| of("unit", problem))?,
        direction: Some(direction),
        packet: Some(options.opportunity()),
        ..Hints::default()
    })
}

/// What the file leaves open, as a parameter.
fn option(error: &crate::trace::TraceError) -> String {
    match error.missing() {
        Some(missing) => format!(" (trace.{}=NAME)", missing.option()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use punctual_sched::{Duration, Instant, Link, LinkConfig, Packet};

    /// A link with a file of `text`, which is named `FILE` in its words.
    fn link(name: &str, text: &str, words: &str) -> Result<LinkConfig, String> {
        let file = format!("punctual-{}-{name}.trace", std::process::id());
        let path = std::env::temp_dir().join(file);
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let mut builder = ConfigBuilder::default();
        builder.words(&words.replace("FILE", path), "--up").unwrap();
        let followed = follow(&mut builder, Direction::Up, "--up");
        fs::remove_file(path).unwrap();
        let short = |error: String| error.replace(path, "FILE");
        followed.map_err(|error| short(error.to_string()))?;
        builder.finish().map_err(|error| short(error.to_string()))
    }

    fn brief(config: &LinkConfig) -> String {
        let entries = config.entries();
        let trace = entries.iter().find(|(name, _)| *name == "trace").unwrap();
        trace.1[trace.1.find(" (").unwrap()..].to_owned()
    }

    #[test]
    fn a_file_becomes_what_the_link_follows() {
        let lines = "7\n8\n8\n8\n8\n8\n14\n";
        let config = link("exact", lines, "trace=FILE").unwrap();
        let trace = config.trace.clone().unwrap();
        assert_eq!((trace.repeat, trace.per_packet, trace.schedule.len()), (true, Some(4), 3));
        assert_eq!(brief(&config), " (mahimahi, 14ms, mean 6016kbit, crc32 55b89b29)");
        let words = "trace=FILE trace.loop=no trace.packet=1500 trace.offset=3ms trace.scale=2";
        let trace = link("options", lines, words).unwrap().trace.unwrap();
        assert_eq!((trace.repeat, trace.per_packet), (false, Some(0)));
        assert_eq!(trace.offset, Duration::from_millis(3));
        assert_eq!(trace.schedule.bytes_of_round(), 14 * 1_500);
        let fluid = link("fluid", lines, "trace=FILE trace.mode=fluid").unwrap().trace.unwrap();
        assert_eq!(fluid.schedule.opportunity(), None);
        assert!(fluid.schedule.bytes_of_round().abs_diff(7 * 1_504) <= 1);
        assert_eq!(fluid.per_packet, Some(4));
        let pairs = link("pairs", "0 65.0\n1 5\n", "trace=FILE trace.unit=mbit").unwrap();
        assert!(brief(&pairs).starts_with(" (pairs, 2s, mean 35mbit"), "{}", brief(&pairs));
    }

    #[test]
    fn the_same_file_in_fluid_mode_carries_its_integral_in_every_round() {
        // Bursts, gaps, an outage: some 5 Mbit/s.
        let times =
            (1..2_000_u64).filter(|n| n % 7 != 3 && n % 900 > 80).map(|n| n * n % 5 + 2 * n);
        let mut lines: Vec<u64> = times.collect();
        lines.sort_unstable();
        let text = lines.iter().fold(String::new(), |text, line| text + &format!("{line}\n"));
        let words = "trace=FILE trace.mode=fluid limit=100000p";
        let config = link("integral", &text, words).unwrap();
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        for handle in 0..10 * lines.len() as u64 {
            link.arrive(Packet::on_path(handle, Instant::ZERO, 1_500, 1));
        }
        let (span, offered) = (*lines.last().unwrap(), lines.len() as u64 * 1_504);
        let mut before = 0;
        for round in 1..=10 {
            link.advance(Instant::ZERO + Duration::from_millis(round * span));
            let snapshot = link.snapshot();
            let passed = snapshot.packets_out * 1_504;
            let error = (passed - before).abs_diff(offered);
            // A tenth of a percent, beside the one packet that is on its way.
            assert!(error <= offered / 1_000 + 1_504, "round {round}: {error} of {offered}");
            // Nothing adds up over the rounds.
            assert!(passed.abs_diff(round * offered) <= 2 * 1_504, "round {round}: {passed}");
            before = passed;
        }
    }

    #[test]
    fn a_trace_of_a_packet_in_500_seconds_is_warned_of_before_the_run() {
        let path = std::env::temp_dir().join(format!("punctual-{}-slow", std::process::id()));
        fs::write(&path, "500000\n").unwrap();
        let mut builder = ConfigBuilder::default();
        builder.words(&format!("trace={}", path.display()), "--up").unwrap();
        let warnings = follow(&mut builder, Direction::Up, "--up");
        fs::remove_file(&path).unwrap();
        let slow = "nothing passes for 500.000 s from 0.000 s on: applications time out";
        assert_eq!(warnings.unwrap(), [format!("{}: {slow}", path.display())]);
    }

    #[test]
    fn small_packets_share_deliveries_in_exact_mode_and_flow_in_fluid_mode() {
        let due = |words: &str| -> Vec<u64> {
            let config = link("small", "1\n", &format!("trace=FILE limit=1000p {words}")).unwrap();
            let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
            for handle in 0..48 {
                link.arrive(Packet::on_path(handle, Instant::ZERO, 60, 1));
            }
            link.advance(Instant::ZERO + Duration::from_secs(1));
            let due = std::iter::from_fn(|| link.poll()).map(|output| match output {
                punctual_sched::Output::Depart { due, .. } => due.as_nanos(),
                punctual_sched::Output::Drop { .. } => panic!("{output:?}"),
            });
            due.collect()
        };
        // Each counts 64 of 1,504 bytes, or 60 of 1,500, of a millisecond.
        for (words, bytes, counted) in [("", 1_504, 64), ("trace.packet=1500", 1_500, 60)] {
            let at = |n: u64| n * counted * 1_000_000;
            let exact: Vec<_> =
                (1..=48).map(|n| (n * counted).div_ceil(bytes) * 1_000_000).collect();
            assert_eq!(due(words), exact);
            let fluid: Vec<_> = (1..=48).map(|n| at(n).div_ceil(bytes)).collect();
            assert_eq!(due(&format!("{words} trace.mode=fluid")), fluid);
        }
    }

    #[test]
    fn what_a_file_leaves_open_is_told_as_a_parameter() {
        for (name, text, words, message) in [
            ("unit", "0 65.0\n1 5\n", "trace=FILE", "--up: trace: FILE: "),
            ("empty", "", "trace=FILE", "--up: trace: FILE: is empty"),
            ("format", "1\n", "trace=FILE trace.format=mahi", "--up: trace.format: "),
            ("units", "0 1\n", "trace=FILE trace.unit=furlong", "--up: trace.unit: "),
            ("order", "2\n1\n", "trace=FILE", "--up: trace: FILE:2: "),
            ("little", "1\n", "trace=FILE trace.scale=0.1", "--up: trace: it is empty"),
            ("rate", "1\n", "trace=FILE rate=1mbit", "--up: rate: the trace sets it"),
        ] {
            let error = link(name, text, words).unwrap_err();
            assert!(error.starts_with(message), "{name}: {error}");
        }
        let unit = link("hint", "0 65.0\n1 5\n", "trace=FILE").unwrap_err();
        assert!(unit.ends_with("(trace.unit=NAME)"), "{unit}");
    }
}
