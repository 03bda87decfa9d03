//! What was meant: the nearest name, or what another tool's word is here.

use super::{Parameter, QUEUES, TABLES, Table, parameters, word};
use crate::config::{Limit, LinkConfig, QueueKind};
use crate::impair::Impair;
use crate::words;

/// Why there is no parameter of this name, and which one was meant; `config` is what is known of
/// the link.
pub(super) fn unknown(name: &str, value: &str, config: &LinkConfig) -> String {
    if LATER.contains(&name) {
        return format!("parameter \"{name}\" is not available in this version");
    }
    let meant = meant(name, value, config).unwrap_or_else(|| names(name));
    format!("unknown parameter \"{name}\", {meant}")
}

fn meant(name: &str, value: &str, config: &LinkConfig) -> Option<String> {
    of_link(name, value, config)
        .or_else(|| foreign(name, value, config))
        .or_else(|| of_discipline(name, config))
        .or_else(|| words::nearest(name, parameters().map(|p| p.name)).map(did_you_mean))
}

/// What is known of the link once `text` has chosen its disciplines.
pub(super) fn chosen(text: &str, config: &LinkConfig) -> LinkConfig {
    let mut config = config.clone();
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    for (name, value) in pairs.filter(|(name, _)| CHOOSERS.contains(name)) {
        // What is wrong with it is said where it is read.
        let _ = config.set(name, value);
    }
    config
}

/// What to give for a parameter without a value: for `ecn` the queue's own, which is meant where
/// it has one.
pub(super) fn usage(parameter: &Parameter, config: &LinkConfig) -> String {
    let own = (parameter.name == "ecn" && config.impair == Impair::Own)
        .then(|| Parameter::find(&format!("{}.ecn", queue(config))))
        .flatten();
    own.unwrap_or(parameter).usage()
}

/// What a word that stands alone means here, as a setting.
pub(super) fn setting(word: &str, config: &LinkConfig) -> Option<String> {
    if QUEUES.iter().any(|(name, _)| *name == word) {
        return Some(format!("write queue={word}"));
    }
    if word == "netem" {
        return Some("write impair=netem".into());
    }
    meant(word, "", config)
}

/// The discipline of this name, or what to do without it, where `limit` has been given or not.
pub(super) fn discipline(text: &str, limit: Option<Limit>) -> Result<QueueKind, String> {
    let fifo = |usual: &str| {
        let limit = limit.map_or_else(|| usual.to_owned(), |limit| limit.to_string());
        Err(format!("unknown word \"{text}\", did you mean \"fifo\" with limit={limit}?"))
    };
    match &*text.to_ascii_lowercase() {
        "pfifo" | "pfifo_fast" => fifo("1000p"),
        "bfifo" => fifo("200kb"),
        "noqueue" => Err(format!(
            "\"{text}\" is what a link has without a rate: leave out rate, queue and limit"
        )),
        "netem" => Err(format!("\"{text}\" is no queue here, expected impair=netem")),
        other if OTHER_DISCIPLINES.contains(&other) => {
            let known = words::join(QUEUES.iter().map(|(name, _)| *name));
            Err(format!("\"{text}\" is not available, expected one of {known}"))
        }
        _ => word(text, QUEUES),
    }
}

/// How a queue marks by its own decision, where `ecn` means random loss.
pub(super) fn marking(kind: QueueKind) -> Option<&'static str> {
    match kind {
        QueueKind::Codel => Some("codel marks with codel.ecn=on"),
        QueueKind::FqCodel => Some("fq_codel marks with fq_codel.ecn=on, its default"),
        QueueKind::Fq => Some("fq marks with fq.ce_threshold=TIME"),
        QueueKind::Dualpi2 => Some("dualpi2 always marks"),
        QueueKind::Jens => Some("jens always marks"),
        QueueKind::Fifo | QueueKind::Tbf => None,
    }
}

/// What a word of `tc` that takes no value sets with this discipline.
pub(super) fn flag(owner: &str, word: &str) -> Option<String> {
    match (owner, word) {
        ("codel" | "fq_codel", "ecn") => Some(format!("{owner}.ecn=on")),
        ("codel" | "fq_codel", "noecn") => Some(format!("{owner}.ecn=off")),
        ("netem", "ecn") => Some("ecn=on".into()),
        ("jens" | "fifo" | "tbf", _) => None,
        _ => {
            let mut flags = SYNONYMS.iter().filter(|(_, meant)| meant.contains('='));
            let (_, meant) = flags.find(|(known, _)| *known == word)?;
            let of_owner = meant.starts_with(owner) || meant.starts_with("gso=");
            of_owner.then(|| (*meant).to_owned())
        }
    }
}

/// Whether netem takes the queue's place.
pub(super) fn is_netem(config: &LinkConfig) -> bool {
    config.impair == Impair::Netem
}

/// `fq.limit`: a parameter of the link, or another tool's word for one, with a discipline's name
/// before it.
fn of_link(name: &str, value: &str, config: &LinkConfig) -> Option<String> {
    let (owner, rest) = name.split_once('.')?;
    let config = match owner {
        "netem" => chosen("queue=fifo impair=netem", config),
        _ if QUEUES.iter().any(|(known, _)| *known == owner) => {
            chosen(&format!("queue={owner} impair=own"), config)
        }
        _ => return None,
    };
    let mut link = TABLES.iter().filter(|table| table.name.is_empty()).flat_map(|t| t.rows);
    match link.find(|row| row.name == rest) {
        Some(_)
            if rest == "ecn"
                && let Some(marking) = marking(config.queue) =>
        {
            Some(marking.to_owned())
        }
        Some(row) => Some(format!("expected {} without \"{owner}.\"", row.usage())),
        None => foreign(rest, value, &config),
    }
}

/// What another tool's word is here.
fn foreign(name: &str, value: &str, config: &LinkConfig) -> Option<String> {
    let or = |usual| if value.is_empty() { usual } else { value };
    let own = config.impair == Impair::Own;
    match name {
        "latency" if own && config.queue == QueueKind::Tbf => {
            Some(did_you_mean(&format!("limit={}", or("TIME"))))
        }
        "rtt" => Some("did you mean \"delay\", half of it in each direction?".into()),
        "gap" => Some(did_you_mean(&format!("reorder=PERCENT,gap={}", or("N")))),
        "gemodel" | "state" | "random" => {
            Some(did_you_mean(&format!("loss={name},{}", or("PERCENT"))))
        }
        "noecn" => Some(unmarked(config)),
        // tc(8) takes them behind the slot's times.
        "packets" | "bytes" => {
            let slot = config.slot.as_ref().map_or_else(|| "MIN".to_owned(), ToString::to_string);
            Some(did_you_mean(&format!("slot={slot},{name}={}", or("N"))))
        }
        "minburst" => of_discipline("mtu", config),
        "seed" if own => {
            Some("expected netem.seed with impair=netem; that of the run is --seed".into())
        }
        _ => {
            let mut known = SYNONYMS.iter().filter(|(word, _)| *word == name);
            known.next().map(|(_, meant)| did_you_mean(meant))
        }
    }
}

/// `noecn`, as the queue takes it.
pub(super) fn unmarked(config: &LinkConfig) -> String {
    match config.queue {
        _ if config.impair == Impair::Netem => did_you_mean("ecn=off"),
        QueueKind::Codel => did_you_mean("codel.ecn=off"),
        QueueKind::FqCodel => did_you_mean("fq_codel.ecn=off"),
        QueueKind::Fq => did_you_mean("fq.ce_threshold=off"),
        QueueKind::Dualpi2 | QueueKind::Jens => format!("but {} always marks", queue(config)),
        QueueKind::Fifo | QueueKind::Tbf => "expected codel.ecn=off or fq_codel.ecn=off".into(),
    }
}

/// `target`: a discipline's parameter without the discipline's name before it; that of the
/// discipline chosen where it has one.
fn of_discipline(word: &str, config: &LinkConfig) -> Option<String> {
    let found = |table: &'static Table| {
        let named = |p: &&Parameter| {
            p.name.strip_prefix(table.name).and_then(|rest| rest.strip_prefix('.')) == Some(word)
        };
        table.rows.iter().find(named).map(|parameter| (table, parameter.name))
    };
    let tables = TABLES.iter().filter(|table| !table.name.is_empty());
    let all: Vec<_> = tables.filter_map(found).collect();
    let chosen = all.iter().find(|(table, _)| (table.applies)(config));
    match (chosen, &*all) {
        (Some((_, name)), _) => Some(did_you_mean(name)),
        (None, []) => None,
        (None, [(table, name)]) => Some(format!("did you mean \"{name}\" with {}?", table.needs)),
        (None, all) => {
            Some(format!("expected one of {}", words::join(all.iter().map(|(_, name)| *name))))
        }
    }
}

/// The names of the same discipline, of the link where it is none's: all names would be a page.
fn names(name: &str) -> String {
    let owner = name.split_once('.').map_or("", |(owner, _)| owner);
    let owner = if TABLES.iter().any(|table| table.name == owner) { owner } else { "" };
    let tables = TABLES.iter().filter(|table| table.name == owner);
    let names = tables.flat_map(|table| table.rows).map(|row| row.name);
    format!("expected one of {}", words::join(names))
}

fn queue(config: &LinkConfig) -> String {
    super::written(config.queue, QUEUES)
}

fn did_you_mean(word: &str) -> String {
    format!("did you mean \"{word}\"?")
}

/// Parameters that decide what others mean, or are kept in suggestions.
const CHOOSERS: &[&str] = &["queue", "impair", "limit", "slot"];

/// Words of other tools, and of the trade, for the same.
const SYNONYMS: &[(&str, &str)] = &[
    ("bandwidth", "rate"),
    ("bw", "rate"),
    ("capacity", "rate"),
    ("throughput", "rate"),
    ("latency", "delay"),
    ("owd", "delay"),
    ("buffer", "burst"),
    ("maxburst", "burst"),
    ("plr", "loss"),
    ("qdisc", "queue"),
    ("aqm", "queue"),
    ("qlen", "limit"),
    ("nopacing", "fq.pacing=off"),
    ("horizon_drop", "fq.horizon_mode=drop"),
    ("horizon_cap", "fq.horizon_mode=cap"),
    ("drop_on_overload", "dualpi2.overload=drop"),
    ("overflow", "dualpi2.overload=overflow"),
    ("drop_enqueue", "dualpi2.drop=enqueue"),
    ("drop_dequeue", "dualpi2.drop=dequeue"),
    ("l4s_ect", "dualpi2.classify=l4s_ect"),
    ("any_ect", "dualpi2.classify=any_ect"),
    ("split_gso", "gso=split"),
    ("no_split_gso", "gso=keep"),
];
/// Words that later versions know.
const LATER: &[&str] = &["backpressure"];
/// Disciplines of Linux that are not here, tc(8): no typing mistakes.
const OTHER_DISCIPLINES: &[&str] = &[
    "blue",
    "cake",
    "cbq",
    "cbs",
    "choke",
    "drr",
    "ets",
    "etf",
    "fq_pie",
    "gred",
    "hfsc",
    "hhf",
    "htb",
    "mq",
    "mqprio",
    "multiq",
    "pfifo_head_drop",
    "pie",
    "plug",
    "prio",
    "qfq",
    "red",
    "rr",
    "sfb",
    "sfq",
    "skbprio",
    "taprio",
    "teql",
];
