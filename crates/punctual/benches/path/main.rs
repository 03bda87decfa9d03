//! What the datapath does to real packets, measured in pairs: each figure of a run through
//! punctual stands beside one of the bare path (the same three namespaces, nothing held) or of the
//! kernel's tbf, taken in turn with it, because single runs lie on a shared machine. What counts is
//! the median of the pairs, printed last.
//!
//! `cargo bench -p punctual --bench path -- [WHAT]... [--pairs N] [--runs N] [--user]`; without WHAT everything,
//! which takes about an hour and a half. Nothing else should run on the machine.

mod bare;
mod changes;
mod figures;
mod idle;
mod lanes;
mod lateness;
mod logging;
mod rate;
mod rtt;
mod spacing;
mod stage;
mod tcp;
mod trace;
mod udp;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use stage::Stage;

fn main() -> ExitCode {
    // This program is also what it runs: the first process of the bare path, and the hogs.
    if let Some(ended) = punctual_linux::process::init::dispatch() {
        return ended;
    }
    let hidden = std::env::args_os().nth(1);
    let result = match hidden.as_ref().and_then(|word| word.to_str()) {
        Some(bare::WORD) => return bare::main(),
        Some(verdict::HOG) => return verdict::hog(),
        _ => run(&Options::parse()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("path: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Parser)]
#[command(about = "Real-packet measurements in pairs")]
struct Options {
    /// What to measure (default: everything)
    what: Vec<What>,
    /// Pairs of runs
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Runs of each kind of which the verdict is taken
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Seconds of each run of `changes`
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// As an ordinary user (root runs everything as user 65534)
    #[arg(long)]
    user: bool,
    /// Handed on by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Rtt,
    Spacing,
    Rate,
    Tcp,
    Udp,
    Lanes,
    Lateness,
    Idle,
    Verdict,
    /// Lateness while the rate changes: `--pairs` times eight runs of `--seconds`
    Changes,
    /// From a store to the first packet at its rate
    FirstPacket,
    /// What a link carries whose rate changes
    Overload,
    /// Packets at a trace's opportunities
    Trace,
    /// Lateness with and without a log
    Logging,
}

fn run(options: &Options) -> Result<()> {
    if !options.bench {
        println!("path: built; `cargo bench` measures");
        return Ok(());
    }
    let stage = Stage::prepare(options.user)?;
    let all = What::value_variants();
    let wanted = if options.what.is_empty() { all } else { &options.what };
    println!(
        "as {}, {} pairs",
        if stage.user() { "an ordinary user" } else { "root" },
        options.pairs
    );
    for what in wanted {
        what.measure(&stage, options)?;
    }
    Ok(())
}

impl What {
    fn measure(self, stage: &Stage, options: &Options) -> Result<()> {
        let pairs = options.pairs.max(1);
        match self {
            Self::Rtt => rtt::measure(stage, pairs),
            Self::Spacing => spacing::measure(stage, pairs),
            Self::Rate => rate::measure(stage),
            Self::Tcp => tcp::measure(stage, pairs),
            Self::Udp => udp::measure(stage, pairs),
            Self::Lanes => lanes::measure(stage, pairs),
            Self::Lateness => lateness::measure(stage, pairs),
            Self::Idle => idle::measure(stage),
            Self::Verdict => verdict::measure(stage, options.runs),
            Self::Changes => changes::measure(stage, pairs, options.seconds.clamp(1, 90)),
            Self::FirstPacket => changes::first_packet(stage, pairs),
            Self::Overload => changes::overload(stage, pairs),
            Self::Trace => trace::measure(stage, pairs),
            Self::Logging => logging::measure(stage, pairs),
        }
    }
}
