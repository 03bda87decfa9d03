//! A capture that was never taken: what a log says of packets, for Wireshark.

mod block;
mod frame;
mod order;

use std::io::{self, Write};

use punctual_sched::Instant;

use super::changes::News;
use super::row::{Fate, Row};
use super::survey::Survey;
use crate::log::{Arrival, Direction};
use block::{Block, EPB_FLAGS, EPB_PACKETID, IF_DESCRIPTION, IF_NAME, OPT_COMMENT, SHB_USERAPPL};
pub use frame::addresses;
use frame::{comment, header};
use order::{Frame, Order};

/// Packets as pcapng. Three interfaces for each direction: `up in` has a frame for each arrival,
/// `up out` for each release, `up drop` for each drop, all with stamps of nanoseconds, in the
/// order of their times.
#[derive(Debug)]
pub(super) struct Pcapng<W> {
    out: W,
    order: Order,
    directions: Vec<Direction>,
    epoch_unix_ns: u64,
    latest_unix_ns: u64,
}

/// Where a frame was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    In,
    Out,
    Drop,
}

impl Point {
    const ALL: [Self; 3] = [Self::In, Self::Out, Self::Drop];

    const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Drop => "drop",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::In => "packets as they were handed to the link, at their arrival",
            Self::Out => "packets as they left the link, at their release",
            Self::Drop => "packets that the link dropped, at the time of the decision",
        }
    }

    /// The two low bits of `epb_flags`: inbound, outbound, neither.
    const fn flags(self) -> u32 {
        match self {
            Self::In => 1,
            Self::Out => 2,
            Self::Drop => 0,
        }
    }
}

impl<W: Write> Pcapng<W> {
    pub(super) fn start(
        mut out: W,
        survey: &Survey,
        directions: Vec<Direction>,
    ) -> io::Result<Self> {
        let tool = format!("punctual {}", env!("CARGO_PKG_VERSION"));
        let section = Block::section()
            .option(OPT_COMMENT, section_comment(survey).as_bytes())
            .option(SHB_USERAPPL, tool.as_bytes());
        out.write_all(&section.finish(true))?;
        for direction in &directions {
            for point in Point::ALL {
                let name = format!("{} {}", direction.name(), point.name());
                let interface = Block::interface(LINKTYPE_RAW, SNAP_LENGTH)
                    .option(IF_NAME, name.as_bytes())
                    .option(IF_DESCRIPTION, point.description().as_bytes());
                out.write_all(&interface.finish(true))?;
            }
        }
        let epoch_unix_ns = survey.header.epoch.realtime_ns;
        let order = Order::new(survey.disorder_ns);
        Ok(Self { out, order, directions, epoch_unix_ns, latest_unix_ns: 0 })
    }

    pub(super) fn arrived(
        &mut self,
        direction: Direction,
        packet: u64,
        arrival: Arrival,
    ) -> io::Result<()> {
        let epoch_unix_ns = self.epoch_unix_ns;
        let fate = Fate::Unknown;
        self.order.arrived(Row { direction, packet, copy: 0, arrival, epoch_unix_ns, fate });
        self.drain(false)
    }

    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        self.order.fate(*row);
        self.drain(false)
    }

    pub(super) fn changed(
        &mut self,
        direction: Direction,
        at: Instant,
        news: &News,
    ) -> io::Result<()> {
        let words = news.iter().map(|(name, value)| format!(" {name}={value}"));
        let text = words.collect::<String>();
        self.order.changed(direction, at.as_nanos(), text);
        self.drain(false)
    }

    /// Ends the file; returns the most frames that were held.
    pub(super) fn finish(mut self, survey: &Survey) -> io::Result<usize> {
        self.drain(true)?;
        for direction in self.directions.clone() {
            let counts = survey.of(direction);
            let (received, dropped) = (counts.arrivals, counts.drops.values().sum());
            let interface = self.interface(direction, Point::In);
            let block =
                Block::statistics(interface, self.latest_unix_ns, received, dropped).finish(true);
            self.out.write_all(&block)?;
        }
        self.out.flush()?;
        Ok(self.order.peak())
    }

    fn drain(&mut self, all: bool) -> io::Result<()> {
        while let Some(frame) = self.order.pop(all) {
            let block = match &frame {
                Frame::Packet { point, row, known } => self.packet(*point, row, *known),
                Frame::Change { direction, at_ns, text } => {
                    journal(*direction, *at_ns, self.epoch_unix_ns, text)
                }
            };
            self.out.write_all(&block)?;
        }
        Ok(())
    }

    fn packet(&mut self, point: Point, row: &Row, known: bool) -> Vec<u8> {
        let at = match (point, &row.fate) {
            (Point::Out, Fate::Out(_)) => row.released(),
            (Point::Drop, Fate::Dropped(drop)) => Some(drop.at),
            _ => None,
        };
        let unix_ns = row.unix_ns(at.unwrap_or(row.arrival.at));
        self.latest_unix_ns = self.latest_unix_ns.max(unix_ns);
        // One packet has one identity wherever it is seen; both directions count from 1.
        let id = row.packet | u64::from(row.direction == Direction::Down) << 63;
        let interface = self.interface(row.direction, point);
        Block::packet(interface, unix_ns, &header(row, point), row.arrival.len)
            .option(OPT_COMMENT, comment(row, known).as_bytes())
            .option(EPB_FLAGS, &point.flags().to_le_bytes())
            .option(EPB_PACKETID, &id.to_le_bytes())
            .finish(true)
    }

    fn interface(&self, direction: Direction, point: Point) -> u32 {
        let second = self.directions.first() != Some(&direction);
        u32::from(second) * 3 + point as u32
    }
}

/// An entry of the journal, which Wireshark shows among the packets. Its own stamp has
/// microseconds only.
fn journal(direction: Direction, at_ns: u64, epoch_unix_ns: u64, words: &str) -> Vec<u8> {
    let direction = direction.name();
    let unix_ns = epoch_unix_ns.saturating_add(at_ns);
    let entry = format!(
        "__REALTIME_TIMESTAMP={}\nSYSLOG_IDENTIFIER=punctual\nPRIORITY=5\n\
         MESSAGE=change {direction}{words}\nPUNCTUAL_DIRECTION={direction}\n\
         PUNCTUAL_AT_NS={at_ns}\nPUNCTUAL_AT_UNIX_NS={unix_ns}\n",
        unix_ns / 1000
    );
    Block::journal(&entry).finish(false)
}

/// What a reader of the file has to know.
fn section_comment(survey: &Survey) -> String {
    let lack = survey.lack().map(|lack| format!(" Not all of the run is here: {lack}."));
    format!(
        "Made by punctual from the log of run {:?}; these are not captured bytes. A log has no \
         payload and no addresses: each frame has an IPv4 header only, whose addresses stand for \
         the hash of the packet's flow (upper half in 198.18.0.0/16, lower in 198.19.0.0/16) and \
         whose protocol is 253, whatever the packet was. Lengths, times, DSCP and ECN are the \
         packet's. Comments tell its fate and where its time went.{}",
        survey.header.run,
        lack.unwrap_or_default()
    )
}

/// Frames begin with an IP header.
const LINKTYPE_RAW: u16 = 101;
/// Bytes of that header, all that a frame has.
const SNAP_LENGTH: u32 = 20;
