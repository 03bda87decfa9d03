//! Who changes the rate while traffic flows: each way of doing it, and the same way of changing
//! nothing.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use punctual_linux::clock::monotonic;
use punctual_linux::control::{ControlBlock, Side};
use punctual_linux::wait::{sleep_until, tighten_timers};
use punctual_sched::{Duration, Instant};

use crate::stage::{Beside, NAME, Stage};

/// Who changes the rate, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody; both arms are alike, which shows how pairs scatter.
    None,
    /// A process each time.
    Set,
    /// One connection to the socket.
    Socket,
    /// Stores to the rate word.
    Stores,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Set, Self::Socket, Self::Stores];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Set => "50/s set",
            Self::Socket => "1,000/s socket",
            Self::Stores => "10,000/s stores",
        }
    }

    /// Between two changes.
    pub(super) const fn period(self) -> Duration {
        match self {
            Self::None => Duration::from_secs(1),
            Self::Set => Duration::from_millis(20),
            Self::Socket => Duration::from_millis(1),
            Self::Stores => Duration::from_micros(100),
        }
    }

    /// What makes the change with a number; with `live` false the same work that changes nothing.
    fn changer(self, stage: &Stage, run: &Path, live: bool) -> Result<Box<dyn Change>> {
        let rates = if live { RATES } else { [MEAN; 2] };
        Ok(match self {
            Self::None => Box::new(|_| Ok(())),
            Self::Set => {
                let mut commands = rates.map(|rate| {
                    let mut command = stage.punctual();
                    command.args(["set", NAME, &format!("up.rate={rate}bit")]);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    command
                });
                Box::new(move |number| {
                    let status = commands[of(number)].status().context("cannot start set")?;
                    ensure!(status.success(), "punctual set: {status}");
                    Ok(())
                })
            }
            Self::Socket => {
                let mut socket = UnixStream::connect(run.join("socket"))?;
                let mut answers = BufReader::new(socket.try_clone()?);
                let lines =
                    rates.map(|rate| format!("{{\"set\":{{\"up.rate\":\"{rate}bit\"}}}}\n"));
                let mut answer = String::new();
                Box::new(move |number| {
                    socket.write_all(lines[of(number)].as_bytes())?;
                    answer.clear();
                    answers.read_line(&mut answer)?;
                    ensure!(answer.contains("\"ok\":true"), "{answer}");
                    Ok(())
                })
            }
            Self::Stores => {
                let block = ControlBlock::open(&run.join("control"))?;
                Box::new(move |number| {
                    let rate = RATES[of(number)];
                    if live {
                        block.store_rate(Side::Up, rate);
                    } else {
                        block.store_spare(Side::Up, rate);
                    }
                    Ok(())
                })
            }
        })
    }
}

trait Change: FnMut(u64) -> Result<()> + Send {}
impl<F: FnMut(u64) -> Result<()> + Send> Change for F {}

fn of(number: u64) -> usize {
    usize::from(number % 2 == 1)
}

/// Changes the rate until the run's command has ended.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Instant>>>,
}

impl Writer {
    /// `run` is the directory of the run that is to be changed; begins with `number` 0, a `period`
    /// apart.
    pub(super) fn start(
        stage: &Stage,
        run: &Path,
        kind: Kind,
        live: bool,
        period: Duration,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut change = kind.changer(stage, run, live)?;
        let socket = run.join("socket");
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(move || {
            tighten_timers()?;
            let mut due = monotonic();
            let mut times = Vec::new();
            for number in 0_u64.. {
                times.push(monotonic());
                let result = change(number);
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                if let Err(error) = result {
                    // The run may have ended in the meantime.
                    sleep_until(monotonic() + Duration::from_millis(500));
                    ensure!(!socket.exists(), "{error:#}");
                    break;
                }
                // By the schedule; what has been missed is not made up for in a burst.
                due = (due + period).max(monotonic());
                sleep_until(due);
            }
            Ok(times)
        })?;
        Ok(Self { stop, thread })
    }
}

impl Beside for Writer {
    /// When each change was asked for.
    type Ended = Vec<Instant>;

    /// Fails when the rate could not be changed while the run went on.
    fn end(self) -> Result<Vec<Instant>> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => bail!("the writer panicked"),
        }
    }
}

/// In turn, in bit/s.
pub(super) const RATES: [u64; 2] = [19_000_000, 21_000_000];
/// Their mean, and what the link begins with.
const MEAN: u64 = 20_000_000;
