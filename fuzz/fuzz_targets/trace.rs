//! Files of traces, as recognised or as the format that the first byte names: one line of refusal,
//! or a timeline in order that survives being written and read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual::log::Direction;
use punctual::trace::{Format, Hints, Summary, Unit, WINDOW, fluid, read_from, write};
use punctual_sched::trace::Course;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let format = FORMATS.get(usize::from(choice)).copied();
    let hints = Hints {
        format,
        unit: format.is_none_or(|format| format == Format::Pairs).then_some(Unit::Kbit),
        direction: Some(if choice & 1 == 0 { Direction::Up } else { Direction::Down }),
        ..Hints::default()
    };
    match read_from("f", bytes, &hints) {
        Ok(read) => {
            let ordered = match &read.timeline.course {
                Course::Steps(steps) => steps.is_sorted_by_key(|step| step.at),
                Course::Deliveries { at, .. } => at.is_sorted_by(|a, b| a.at < b.at),
            };
            assert!(ordered, "{:?}", read.timeline);
            let mut text = Vec::new();
            write(&mut text, &read.timeline, read.loops_by_nature).expect("memory takes it");
            let again = read_from("again", &text[..], &Hints::default()).expect("its own format");
            assert_eq!(again.timeline, read.timeline);
            let _ = Summary::of(&fluid(&read.timeline, WINDOW));
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("f:") && !line.contains('\n'), "{line}");
        }
    }
});

const FORMATS: [Format; 22] = [
    Format::Punctual,
    Format::Mahimahi,
    Format::MahimahiRate,
    Format::MahimahiLog,
    Format::NetemTrace,
    Format::Theaterq,
    Format::TheaterqExtended,
    Format::Fau,
    Format::Pairs,
    Format::Hsdpa,
    Format::Ghent,
    Format::Fcc,
    Format::FccRates,
    Format::Ucc,
    Format::Starlink,
    Format::LensIrtt,
    Format::LensPing,
    Format::WetlinksIperf,
    Format::WetlinksPing,
    Format::Errant,
    Format::Ntrace,
    Format::Cellreplay,
];
