//! Where runs are staged: a directory for their results, and as whom they run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use punctual_linux::clock::monotonic;
use punctual_linux::wait::sleep_until;
use punctual_sched::Duration;
use serde_json::Value;

use crate::bare;

/// The directory and the programs of all runs; removed on drop.
pub(crate) struct Stage {
    directory: PathBuf,
    punctual: PathBuf,
    path: PathBuf,
    user: bool,
    /// Root, who runs everything as somebody else.
    change_user: bool,
}

/// What lies between command and peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    /// The three namespaces and nothing more.
    Bare {
        /// Processors kept from idling, as `--precision strict` does where it may.
        hold: bool,
        /// A `tbf` of the kernel at the gate's egress towards the peer, in words of `tc`.
        tbf: Option<&'a str>,
    },
    /// A link of punctual.
    Link {
        /// `--precision`.
        precision: &'a str,
        /// `--both`; empty for none.
        both: &'a str,
    },
    /// The same with a log.
    Logged {
        /// `--precision`.
        precision: &'a str,
        /// `--both`; empty for none.
        both: &'a str,
    },
    /// The same, driven by several threads.
    Lanes {
        /// `--threads`.
        threads: u8,
        /// `--both`.
        both: &'a str,
    },
}

/// What goes on beside a run.
pub(crate) trait Beside {
    /// What is known of it then.
    type Ended;

    /// Ends it with the run.
    fn end(self) -> Result<Self::Ended>;
}

/// What runs at the two ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// Words after `punctual traffic` of what listens on [`PORT`] at the peer; empty for no peer.
    pub(crate) peer: String,
    /// A shell line; [`traffic`] makes one of words after `punctual traffic`.
    pub(crate) command: String,
    /// The run ends when the peer has written its result, not before.
    pub(crate) until_peer_ends: bool,
}

/// Results of one run; null where there is none.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) command: Value,
    pub(crate) peer: Value,
    pub(crate) report: Value,
}

/// Where the peer listens.
pub(crate) const PORT: u16 = 9000;

/// The shell line that runs `punctual traffic` with `words` and keeps its result.
pub(crate) fn traffic(words: &str) -> String {
    format!("\"$BENCH_PUNCTUAL\" traffic {words} > \"$BENCH_OUT/command\" || exit")
}

impl Stage {
    /// A fresh directory with copies of the programs, which an ordinary user can reach.
    pub(crate) fn prepare(user: bool) -> Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let name = format!("punctual-bench-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).context("cannot make a directory for results")?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        let change_user = user && root;
        if change_user {
            chown(&directory, Some(NOBODY), Some(NOBODY))?;
        }
        let place = |from: &Path, name: &str| -> Result<PathBuf> {
            let to = directory.join(name);
            fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
            Ok(to)
        };
        let punctual = place(Path::new(env!("CARGO_BIN_EXE_punctual")), "punctual")?;
        let path = place(&std::env::current_exe()?, "path")?;
        Ok(Self { directory, punctual, path, user: user || !root, change_user })
    }

    /// Whether runs are an ordinary user's.
    pub(crate) fn user(&self) -> bool {
        self.user
    }

    /// This program, to be run as the same user as everything else.
    pub(crate) fn own(&self) -> Command {
        let mut command = Command::new(&self.path);
        self.as_user(&mut command);
        command
    }

    /// Where a program of the runs may be found by others.
    pub(crate) fn own_path(&self) -> &Path {
        &self.path
    }

    /// Runs to the end and collects the results; fails when the command does.
    pub(crate) fn run(&self, way: &Way<'_>, load: &Load) -> Result<Outcome> {
        let mut run = self.start(way, load)?;
        let status = run.wait().context("cannot wait for a run")?;
        self.collect(way, load, status)
    }

    /// The same while something is done beside it, from when the run can be reached in its
    /// directory until its command ends.
    pub(crate) fn run_beside<B: Beside>(
        &self,
        way: &Way<'_>,
        load: &Load,
        start: impl FnOnce(&Path) -> Result<B>,
    ) -> Result<(Outcome, B::Ended)> {
        let mut run = self.start(way, load)?;
        let directory = self.run_directory();
        let patience = monotonic() + Duration::from_secs(10);
        while !directory.join("socket").exists() {
            if run.try_wait()?.is_some() || monotonic() > patience {
                let _ = run.kill();
                bail!("no run appears in {}", directory.display());
            }
            sleep_until(monotonic() + Duration::from_millis(5));
        }
        let beside = start(&directory)?;
        let status = run.wait().context("cannot wait for a run")?;
        let ended = beside.end()?;
        Ok((self.collect(way, load, status)?, ended))
    }

    /// The last run's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Fails unless the last run's log replays identically.
    pub(crate) fn verify(&self) -> Result<()> {
        let verified = Command::new(&self.punctual).arg("verify").arg(self.log()).output()?;
        let said = String::from_utf8_lossy(&verified.stdout);
        ensure!(verified.status.success(), "the run does not replay: {said}");
        Ok(())
    }

    /// `punctual` as the runs' user.
    pub(crate) fn punctual(&self) -> Command {
        let mut command = Command::new(&self.punctual);
        self.as_user(&mut command);
        command
    }

    fn run_directory(&self) -> PathBuf {
        let base = if self.user { self.directory.as_path() } else { Path::new("/run") };
        base.join("punctual").join(NAME)
    }

    fn start(&self, way: &Way<'_>, load: &Load) -> Result<Child> {
        for name in ["peer", "command", "report", "log"] {
            let _ = fs::remove_file(self.directory.join(name));
        }
        let mut command = match *way {
            Way::Bare { hold, tbf } => self.bare(hold, tbf),
            Way::Link { precision, both } => self.link(precision, both),
            Way::Logged { precision, both } => {
                let mut command = self.link(precision, both);
                command.arg("--log").arg(self.log());
                command
            }
            Way::Lanes { threads, both } => {
                let mut command = self.link("balanced", both);
                command.args(["--threads", &threads.to_string()]);
                command
            }
        };
        if !load.peer.is_empty() {
            command.args(["--peer", &peer_line(&load.peer), "--peer-port", &PORT.to_string()]);
        }
        command.args(["--", "sh", "-c", &command_line(load)]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.env("BENCH_PUNCTUAL", &self.punctual).env("BENCH_OUT", &self.directory);
        command.spawn().context("cannot start a run")
    }

    fn collect(&self, way: &Way<'_>, load: &Load, status: ExitStatus) -> Result<Outcome> {
        if !status.success() {
            bail!("{way:?} with {load:?}: {status}");
        }
        let [command, peer, report] = ["command", "peer", "report"].map(|name| self.result(name));
        Ok(Outcome { command: command?, peer: peer?, report: report? })
    }

    fn bare(&self, hold: bool, tbf: Option<&str>) -> Command {
        let mut command = self.own();
        command.arg(bare::WORD);
        if hold {
            command.arg("--hold");
        }
        if let Some(words) = tbf {
            command.args(["--tbf", words]);
        }
        command
    }

    fn link(&self, precision: &str, both: &str) -> Command {
        let mut command = Command::new(&self.punctual);
        self.as_user(&mut command);
        command.args(["run", "--name", NAME, "--net", "lab", "--quiet", "--duration", LONGEST]);
        command.args(["--precision", precision]).arg("--report").arg(self.directory.join("report"));
        if !both.is_empty() {
            command.args(["--both", both]);
        }
        command
    }

    fn as_user(&self, command: &mut Command) {
        if self.change_user {
            command.uid(NOBODY).gid(NOBODY);
            command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        }
        if self.user {
            command.env("XDG_RUNTIME_DIR", &self.directory);
        }
    }

    fn result(&self, name: &str) -> Result<Value> {
        match fs::read(self.directory.join(name)) {
            Ok(text) if text.is_empty() => Ok(Value::Null),
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("result of {name}")),
            Err(_) => Ok(Value::Null),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Left behind in the directory of temporary files at worst.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The result appears under its name when it is whole.
fn peer_line(words: &str) -> String {
    format!(
        "\"$BENCH_PUNCTUAL\" traffic {words} > \"$BENCH_OUT/peer.part\" \
         && mv \"$BENCH_OUT/peer.part\" \"$BENCH_OUT/peer\""
    )
}

fn command_line(load: &Load) -> String {
    if !load.until_peer_ends {
        return load.command.clone();
    }
    // Half a minute at most.
    format!(
        "{}; n=0; while [ ! -e \"$BENCH_OUT/peer\" ] && [ $n -lt 300 ]; \
         do sleep 0.1; n=$((n+1)); done",
        load.command
    )
}

/// Of user and group.
const NOBODY: u32 = 65_534;
const LONGEST: &str = "100s";
/// Of every run.
pub(crate) const NAME: &str = "bench";
