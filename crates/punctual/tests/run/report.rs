//! What tests read of a report.

use std::collections::BTreeMap;

use serde_json::Value;

/// A report that balances.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) json: Value,
    pub(crate) up: Direction,
    pub(crate) down: Direction,
}

/// One direction of it; counts in wire packets.
#[derive(Debug)]
pub(crate) struct Direction {
    pub(crate) json: Value,
    pub(crate) gso: String,
    pub(crate) arrived: u64,
    pub(crate) departed: u64,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) marked: u64,
    /// Lost before they reached the link.
    pub(crate) lost_before: u64,
    pub(crate) unread_at_end: u64,
    pub(crate) flushed: u64,
    /// Dropped at the lab's devices.
    pub(crate) devices: u64,
}

impl Report {
    /// Reads a report and checks that every packet in it has one fate.
    pub(crate) fn parse(json: &[u8]) -> Self {
        let json: Value = serde_json::from_slice(json).expect("a report is JSON");
        assert_eq!(json["schema"], "punctual.report/1");
        let report = Self {
            up: Direction::read(&json["directions"]["up"]),
            down: Direction::read(&json["directions"]["down"]),
            json,
        };
        assert!(!report.reasons().contains(&"unbalanced".to_owned()), "{:#}", report.json);
        assert_eq!(report.ok(), report.reasons().is_empty());
        report
    }

    pub(crate) fn ok(&self) -> bool {
        self.json["verdict"]["ok"].as_bool().expect("a verdict is a boolean")
    }

    /// The words of the verdict's reasons.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reasons = self.json["verdict"]["reasons"].as_array().expect("reasons are a list");
        reasons.iter().map(|reason| text(&reason["word"])).collect()
    }

    /// The words of the verdict's notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let notes = self.json["verdict"]["notes"].as_array().expect("notes are a list");
        notes.iter().map(|note| text(&note["word"])).collect()
    }

    pub(crate) fn run(&self) -> &Value {
        &self.json["run"]
    }
}

impl Direction {
    fn read(json: &Value) -> Self {
        let packets = &json["packets"];
        let dropped = packets["dropped"].as_object().expect("drops are a table");
        let drops = dropped.iter().map(|(reason, count)| (reason.clone(), number(count)));
        let lost = &json["lost_before"];
        let devices = json["devices"].as_array().expect("devices are a list");
        let direction = Self {
            gso: text(&json["gso"]),
            arrived: number(&packets["in"]),
            departed: number(&packets["out"]),
            dropped: drops.collect(),
            marked: number(&packets["marked"]),
            lost_before: ["receive_buffer", "nfqueue_full", "malformed", "too_big"]
                .map(|place| number(&lost[place]))
                .into_iter()
                .sum(),
            unread_at_end: number(&lost["unread_at_end"]),
            flushed: number(&json["flushed_by_kernel"]),
            devices: devices.iter().map(|device| number(&device["tx_dropped"])).sum(),
            json: json.clone(),
        };
        let (duplicated, queued) = (number(&packets["duplicated"]), number(&packets["queued"]));
        let fates = direction.departed + direction.all_dropped() + queued;
        assert_eq!(direction.arrived + duplicated, fates, "a packet has no fate: {json:#}");
        direction
    }

    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Wire packets that entered the gate from this side: all that has a count.
    pub(crate) fn seen(&self) -> u64 {
        self.arrived + self.lost_before + self.devices
    }

    /// Packets of UDP that were not dropped. (An end whose socket is closed answers with ICMP.)
    pub(crate) fn udp_departed(&self) -> u64 {
        let flows = self.json["flows"].as_array().expect("flows are a list");
        let udp = flows.iter().filter(|flow| text(&flow["flow"]).starts_with("udp "));
        udp.map(|flow| {
            let dropped = flow["dropped"].as_object().expect("drops are a table");
            number(&flow["packets"]) - dropped.values().map(number).sum::<u64>()
        })
        .sum()
    }

    /// A figure of the section by its path, such as `lateness.late`.
    pub(crate) fn figure(&self, path: &str) -> u64 {
        number(path.split('.').fold(&self.json, |value, key| &value[key]))
    }
}

/// A count or a time that must be there.
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
