//! pcapng, taken apart by another parser.

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption, PcapNGReader};
use punctual::export::{Format, Request, addresses};
use punctual::log::Direction;

use crate::made::{EPOCH_UNIX_NS, export_of, exported, one_of_each, request};
use crate::run::{SCENARIOS, Scenario};

/// A frame as a reader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) interface: String,
    pub(crate) unix_ns: u64,
    pub(crate) length: u32,
    pub(crate) header: Vec<u8>,
    pub(crate) comment: String,
    pub(crate) flags: u32,
    pub(crate) id: u64,
}

/// What is in a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capture {
    pub(crate) section: String,
    pub(crate) interfaces: Vec<String>,
    pub(crate) frames: Vec<Seen>,
    pub(crate) journal: Vec<String>,
    /// Interface, received, dropped.
    pub(crate) statistics: Vec<(u32, u64, u64)>,
}

impl Capture {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut reader = PcapNGReader::new(1 << 20, bytes).unwrap();
        let mut capture = Self::default();
        loop {
            match reader.next() {
                Ok((length, PcapBlockOwned::NG(block))) => {
                    capture.take(&block);
                    reader.consume(length);
                }
                Err(PcapError::Eof) => return capture,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
                Ok(_) => panic!("not a block of pcapng"),
            }
        }
    }

    fn take(&mut self, block: &Block<'_>) {
        match block {
            Block::SectionHeader(section) => {
                self.section = text(&section.options, OptionCode::Comment);
            }
            Block::InterfaceDescription(interface) => {
                assert_eq!((interface.linktype.0, interface.snaplen), (101, 20));
                assert_eq!(interface.if_tsresol, 9);
                self.interfaces.push(text(&interface.options, OptionCode(2)));
            }
            Block::EnhancedPacket(packet) => {
                let captured = usize::try_from(packet.caplen).unwrap();
                let [flags, id] = [2, 5].map(|code| number(&packet.options, code));
                self.frames.push(Seen {
                    interface: self.interfaces[usize::try_from(packet.if_id).unwrap()].clone(),
                    unix_ns: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    length: packet.origlen,
                    header: packet.data[..captured].to_vec(),
                    comment: text(&packet.options, OptionCode::Comment),
                    flags: u32::try_from(flags).unwrap(),
                    id,
                });
            }
            Block::SystemdJournalExport(entry) => {
                self.journal.push(String::from_utf8(entry.data.to_vec()).unwrap());
            }
            Block::InterfaceStatistics(statistics) => {
                let [received, dropped] = [4, 5].map(|code| number(&statistics.options, code));
                self.statistics.push((statistics.if_id, received, dropped));
            }
            other => panic!("{other:?}"),
        }
    }

    fn on<'a>(&'a self, interface: &'a str) -> impl Iterator<Item = &'a Seen> {
        self.frames.iter().filter(move |frame| frame.interface == interface)
    }
}

fn option<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> &'a [u8] {
    let found = options.iter().find(|option| option.code == code).unwrap();
    &found.value[..usize::from(found.len)]
}

fn text(options: &[PcapNGOption<'_>], code: OptionCode) -> String {
    String::from_utf8(option(options, code).to_vec()).unwrap()
}

fn number(options: &[PcapNGOption<'_>], code: u16) -> u64 {
    let value = option(options, OptionCode(code));
    value.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[test]
fn one_of_everything_is_where_and_when_it_was() {
    let capture = Capture::parse(&export_of(&one_of_each(), Format::Pcapng));
    assert_eq!(
        capture.interfaces,
        ["up in", "up out", "up drop", "down in", "down out", "down drop"]
    );
    assert!(capture.section.contains("198.18.0.0/16"), "{}", capture.section);
    assert_eq!(capture.on("up in").count(), 18);
    assert_eq!(capture.on("up drop").count(), 13);
    assert_eq!(capture.on("up out").count(), 5);
    assert_eq!(capture.statistics, [(0, 18, 13), (3, 0, 0)]);

    let marked: Vec<_> = capture.frames.iter().filter(|frame| frame.id == 13).collect();
    let comment = "packet=13 fate=out total_ns=4130 pacing_ns=3 queue_ns=100 serialisation_ns=20 \
                   propagation_ns=4000 lateness_ns=7 mark=ce segments=48 flow=fffefdfc";
    assert_eq!(marked.len(), 2);
    assert!(marked.iter().all(|frame| frame.comment == comment), "{marked:?}");
    let places = marked.iter().map(|frame| (frame.interface.as_str(), frame.unix_ns, frame.flags));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [("up in", EPOCH_UNIX_NS + 13_000, 1), ("up out", EPOCH_UNIX_NS + 17_130, 2)]
    );
    // EF, ECT(0) before the link and CE behind it; a burst has no length that fits.
    assert_eq!(marked[0].header[..4], [0x45, 46 << 2 | 2, 0, 0]);
    assert_eq!(marked[1].header[..4], [0x45, 46 << 2 | 3, 0, 0]);
    assert!(marked.iter().all(|frame| frame.length == 70_000));
}

#[test]
fn comments_tell_what_no_field_can() {
    let capture = Capture::parse(&export_of(&one_of_each(), Format::Pcapng));
    let comments: Vec<_> = capture.frames.iter().map(|frame| frame.comment.as_str()).collect();
    for comment in [
        "packet=1 fate=loss age_ns=500 flow=01020304",
        "packet=11 fate=too_big age_ns=500 flow=01020304",
        "packet=15 copy=2 fate=hold_full age_ns=500 flow=fffefdfc",
        "packet=16 fate=out released=never pacing_ns=3 queue_ns=100 serialisation_ns=20 \
         propagation_ns=4000 flow=fffefdfc",
        "packet=17 fate=held flow=fffefdfc",
    ] {
        assert!(comments.contains(&comment), "{comment}: {comments:#?}");
    }
    let copies = comments.iter().filter(|comment| comment.starts_with("packet=15 copy=1 fate=out"));
    assert_eq!(copies.count(), 1);
    assert!(comments.iter().any(|comment| comment.contains(" corrupt_bit=77 ")));
}

#[test]
fn a_change_is_an_entry_among_the_frames() {
    let capture = Capture::parse(&export_of(&one_of_each(), Format::Pcapng));
    assert_eq!(capture.journal.len(), 1);
    let entry = capture.journal[0].trim_end_matches('\0');
    let lines = [
        format!("__REALTIME_TIMESTAMP={}", (EPOCH_UNIX_NS + 20_500) / 1000),
        "SYSLOG_IDENTIFIER=punctual".to_owned(),
        "PRIORITY=5".to_owned(),
        "MESSAGE=change down rate=5mbit loss=gemodel,1%,10%,100%,0%".to_owned(),
        "PUNCTUAL_DIRECTION=down".to_owned(),
        "PUNCTUAL_AT_NS=20500".to_owned(),
        format!("PUNCTUAL_AT_UNIX_NS={}", EPOCH_UNIX_NS + 20_500),
    ];
    assert_eq!(entry.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn frames_are_in_the_order_of_their_times_and_every_fate_has_one() {
    for log in SCENARIOS.iter().map(Scenario::log) {
        let (bytes, summary) = exported(&log, &request(Format::Pcapng)).unwrap();
        let capture = Capture::parse(&bytes);
        let times: Vec<_> = capture.frames.iter().map(|frame| frame.unix_ns).collect();
        assert!(times.is_sorted());
        for direction in Direction::BOTH {
            let (counts, name) = (summary.survey.of(direction), direction.name());
            let on = |point: &str| capture.on(&format!("{name} {point}")).count() as u64;
            let drops: u64 = counts.drops.values().sum();
            assert_eq!(
                (on("in"), on("out"), on("drop")),
                (counts.arrivals, counts.released, drops)
            );
        }
        assert!(capture.frames.iter().all(|frame| !frame.comment.contains("fate=later")));
    }
}

#[test]
fn one_direction_has_three_interfaces_and_an_identity_of_its_own() {
    let log = SCENARIOS[5].log();
    for direction in Direction::BOTH {
        let request = Request { direction: Some(direction), ..request(Format::Pcapng) };
        let capture = Capture::parse(&exported(&log, &request).unwrap().0);
        let names = ["in", "out", "drop"].map(|point| format!("{} {point}", direction.name()));
        assert_eq!(capture.interfaces, names);
        let down = direction == Direction::Down;
        assert!(capture.frames.iter().all(|frame| (frame.id >> 63 == 1) == down));
    }
}

#[test]
fn headers_are_those_of_ipv4_with_a_flow_in_their_addresses() {
    let capture = Capture::parse(&export_of(&SCENARIOS[1].log(), Format::Pcapng));
    for frame in &capture.frames {
        let header = &frame.header;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let sum: u32 = (0..20).step_by(2).map(|at| u32::from(word(at))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum of {header:?}");
        assert_eq!(u32::from(word(2)), frame.length);
        let flow = u32::from_be_bytes([header[14], header[15], header[18], header[19]]);
        assert!(frame.comment.ends_with(&format!("flow={flow:08x}")), "{}", frame.comment);
        let (source, destination) = addresses(flow);
        assert_eq!(header[12..16], source.octets());
        assert_eq!(header[16..20], destination.octets());
        assert!(source.to_string().starts_with("198.18."));
        assert!(destination.to_string().starts_with("198.19."));
    }
}
