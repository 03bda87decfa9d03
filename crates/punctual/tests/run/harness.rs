//! Starts the built program, waits for it, reads what it left.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::report::Report;

/// The program under test.
pub(crate) const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// A run to be started: `punctual run --net lab`, with a report, a log and a name of its own.
///
/// Scripts find the program as `$P`, this test as `$SELF` and a directory of the run's own, with a
/// fifo `peer` in it, as `$T`.
pub(crate) struct Run {
    directory: Directory,
    name: String,
    options: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    command: Vec<OsString>,
    stdin: Option<Vec<u8>>,
    under: Option<String>,
    quiet: bool,
    files: bool,
}

impl Run {
    /// A run with `link` in both directions.
    pub(crate) fn new(link: &str) -> Self {
        let mut run = Self::bare();
        run.options = ["--net", "lab", "--both", link].map(OsString::from).to_vec();
        run
    }

    /// A run without any option.
    pub(crate) fn bare() -> Self {
        let directory = Directory::new();
        let name = directory.name();
        Self {
            directory,
            name,
            options: Vec::new(),
            environment: Vec::new(),
            command: Vec::new(),
            stdin: None,
            under: None,
            quiet: true,
            files: true,
        }
    }

    pub(crate) fn option(mut self, option: &str) -> Self {
        self.options.push(option.into());
        self
    }

    pub(crate) fn options<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.extend(options.into_iter().map(OsString::from));
        self
    }

    /// A peer, waited for until it listens on [`PORT`].
    pub(crate) fn peer(self, script: &str) -> Self {
        self.options(["--peer", script, "--peer-port", PORT])
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// Without `--quiet`.
    pub(crate) fn loud(mut self) -> Self {
        self.quiet = false;
        self
    }

    /// Without `--report`, `--log` and `--name`.
    pub(crate) fn plain(mut self) -> Self {
        self.files = false;
        self
    }

    /// Started by a shell, after `script` and with `redirections`.
    pub(crate) fn under(mut self, script: &str, redirections: &str) -> Self {
        self.under = Some(format!("{script}\nexec \"$P\" \"$@\" {redirections}"));
        self
    }

    /// Started by another program that executes its last arguments.
    pub(crate) fn under_program(self, words: &[&str]) -> Self {
        let mut run = self;
        run.under = Some(format!("exec {} \"$P\" \"$@\"", words.join(" ")));
        run
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    pub(crate) fn command<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.command = words.into_iter().map(OsString::from).collect();
        self
    }

    /// `sh -c` as the command.
    pub(crate) fn sh(self, script: &str) -> Self {
        self.command(["sh", "-c", script])
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    pub(crate) fn start(self) -> Running {
        let mut command = match &self.under {
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh"]);
                shell
            }
            None => Command::new(PUNCTUAL),
        };
        command.arg("run").args(&self.options);
        if self.files {
            command.arg("--report").arg(self.file("report.json"));
            command.arg("--log").arg(self.file("log")).args(["--name", &self.name]);
        }
        if self.quiet {
            command.arg("--quiet");
        }
        if !self.command.is_empty() {
            command.arg("--").args(&self.command);
        }
        environment(&mut command, &self.directory.0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Running::spawn(command, self.stdin, self.directory, self.name)
    }

    pub(crate) fn finish(self) -> Ended {
        self.start().wait()
    }
}

/// The port on which peers listen.
pub(crate) const PORT: &str = "5001";

fn environment(command: &mut Command, directory: &Path) {
    command.env("P", PUNCTUAL).env("T", directory);
    command.env("SELF", std::env::current_exe().expect("this test is a file"));
    command.env("XDG_RUNTIME_DIR", base());
    for name in ["PUNCTUAL_FAULT", "PUNCTUAL_PEER", "PUNCTUAL_NAME", "SUDO_UID", "SUDO_GID"] {
        command.env_remove(name);
    }
}

/// The program with these arguments, outside of any run.
pub(crate) fn punctual<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Ended {
    started(arguments).wait()
}

/// The same, while it goes on.
pub(crate) fn started<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Running {
    let directory = Directory::new();
    let mut command = Command::new(PUNCTUAL);
    command.args(arguments);
    environment(&mut command, &directory.0);
    Running::spawn(command, None, directory, String::new())
}

/// This test again in a role (see `roles`).
pub(crate) fn role(name: &str, arguments: &[&str]) -> Ended {
    let directory = Directory::new();
    let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
    command.arg(format!("role={name}")).args(arguments);
    environment(&mut command, &directory.0);
    Running::spawn(command, None, directory, String::new()).wait()
}

/// A started run.
pub(crate) struct Running {
    pid: Pid,
    exit: Receiver<ExitStatus>,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    stdin: Option<ChildStdin>,
    directory: Directory,
    name: String,
    over: bool,
}

impl Running {
    fn spawn(
        mut command: Command,
        stdin: Option<Vec<u8>>,
        directory: Directory,
        name: String,
    ) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program under test can be started");
        let pid = Pid::from_child(&child);
        let mut input = child.stdin.take();
        if let Some(bytes) = stdin
            && let Some(mut pipe) = input.take()
        {
            // A command that does not read all of it is the test's affair.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let stdout = Stream::follow(child.stdout.take().expect("it is piped"));
        let stderr = Stream::follow(child.stderr.take().expect("it is piped"));
        let exit = wait_in_thread(child);
        Self { pid, exit, stdout, stderr, stdin: input, directory, name, over: false }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What scripts find as `$T`.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Where its own files are, for one that is no run.
    pub(crate) fn files(&self) -> Option<PathBuf> {
        let own = format!("{}\n", self.pid.as_raw_nonzero());
        let entries = fs::read_dir(runtime_directory("")).ok()?;
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut hidden = paths.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".files-"))
        });
        hidden.find(|path| fs::read_to_string(path.join("lock")).is_ok_and(|pid| pid == own))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the run is there to be signalled");
    }

    /// Sends `signal` to the first process of the run's PID namespace.
    pub(crate) fn signal_init(&self, signal: Signal) {
        let engine = self.pid.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{engine}/task/{engine}/children"));
        let children = children.expect("the engine is there");
        let init = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let init = init.and_then(Pid::from_raw).expect("it has one child");
        kill_process(init, signal).expect("the init is there to be signalled");
    }

    /// Sends `signal` again and again, `interval` apart, until the run has ended.
    pub(crate) fn signal_to_the_end(&self, signal: Signal, interval: Duration) -> ExitStatus {
        for _ in 0..PATIENCE.as_nanos() / interval.as_nanos() {
            // It may have ended just now.
            let _ = kill_process(self.pid, signal);
            if let Ok(exit) = self.exit.recv_timeout(interval) {
                return exit;
            }
        }
        panic!("the run does not end: {}", self.stderr.text());
    }

    /// Lets `span` pass while the run goes on.
    pub(crate) fn goes_on_for(&self, span: Duration) {
        match self.exit.recv_timeout(span) {
            Err(RecvTimeoutError::Timeout) => {}
            ended => panic!("the run ended: {ended:?}: {}", self.stderr.text()),
        }
    }

    /// Ends the command's input.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until the program has ended and every process that had its output has let go of it.
    pub(crate) fn wait(mut self) -> Ended {
        self.stdin = None;
        let Ok(exit) = self.exit.recv_timeout(PATIENCE) else {
            panic!("the run does not end: {}{}", self.stdout.text(), self.stderr.text());
        };
        self.ended(exit)
    }

    /// What is left of a run that ended so.
    pub(crate) fn ended(mut self, exit: ExitStatus) -> Ended {
        self.over = true;
        self.stdout.closed();
        self.stderr.closed();
        Ended {
            status: status(exit),
            stdout: self.stdout.bytes(),
            stderr: self.stderr.text(),
            name: std::mem::take(&mut self.name),
            directory: std::mem::replace(&mut self.directory, Directory(PathBuf::new())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            // A failed test leaves no run behind. It may just have ended.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

fn wait_in_thread(mut child: Child) -> Receiver<ExitStatus> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // Nobody listens when the test has failed.
            let _ = sender.send(status);
        }
    });
    receiver
}

/// As a shell tells it.
fn status(exit: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0))
}

/// Longer than any run here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An output stream, read as it comes.
#[derive(Clone)]
pub(crate) struct Stream(Arc<(Mutex<Written>, Condvar)>);

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    /// Nobody can write any more.
    closed: bool,
}

impl Stream {
    fn follow(mut pipe: impl Read + Send + 'static) -> Self {
        let stream = Self(Arc::default());
        let shared = stream.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let length = pipe.read(&mut buffer).unwrap_or(0);
                let (state, changed) = &*shared.0;
                let mut state = state.lock().expect("no holder panics");
                state.bytes.extend_from_slice(&buffer[..length]);
                state.closed = length == 0;
                changed.notify_all();
                if length == 0 {
                    return;
                }
            }
        });
        stream
    }

    /// Waits until `text` was written.
    pub(crate) fn says(&self, text: &str) {
        let said = |bytes: &[u8]| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        let waited = self.wait(|state| said(&state.bytes) || state.closed);
        assert!(waited && said(&self.bytes()), "\"{text}\" does not come: {}", self.text());
    }

    /// Waits until nobody can write to it any more.
    pub(crate) fn closed(&self) {
        assert!(self.wait(|state| state.closed), "somebody still holds an output: {}", self.text());
    }

    fn wait(&self, until: impl Fn(&Written) -> bool) -> bool {
        let (state, changed) = &*self.0;
        let state = state.lock().expect("no holder panics");
        let waited = changed.wait_timeout_while(state, PATIENCE, |state| !until(state));
        !waited.expect("no holder panics").1.timed_out()
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.0.lock().expect("no holder panics").bytes.clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) name: String,
    directory: Directory,
}

impl Ended {
    /// Its report, once its exit status was `status`. Every report must balance.
    pub(crate) fn report_after(&self, status: i32) -> Report {
        assert_eq!(self.status, status, "{}{}", self.text(), self.stderr);
        let path = self.file("report.json");
        let json = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Report::parse(&json)
    }

    pub(crate) fn report(&self) -> Report {
        self.report_after(0)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The JSON lines that its command wrote to standard output.
    pub(crate) fn results(&self) -> Vec<serde_json::Value> {
        let text = self.text();
        let parse = |line| {
            serde_json::from_str(line).unwrap_or_else(|error| {
                panic!("{error} in {line:?} of {text:?}, stderr {:?}", self.stderr)
            })
        };
        text.lines().map(parse).collect()
    }

    /// `punctual verify` finds every decision of `report` again.
    pub(crate) fn replays(&self, report: &Report) {
        let verified = punctual(["verify".as_ref(), self.file("log").as_os_str()]);
        let text = verified.text();
        assert_eq!(verified.status, 0, "{text}{}", verified.stderr);
        let numbers: Vec<u64> = text
            .strip_prefix("identical: ")
            .unwrap_or_else(|| panic!("{text}"))
            .split(", ")
            .filter_map(|part| part.split(' ').next()?.parse().ok())
            .collect();
        let [packets, drops, marks] = numbers[..] else { panic!("{text}") };
        assert!(packets > 0, "nothing was replayed: {text}");
        assert_eq!(marks, report.up.marked + report.down.marked, "{text}");
        assert_eq!(packets, report.up.arrived + report.down.arrived, "{text}");
        assert_eq!(drops, report.up.all_dropped() + report.down.all_dropped(), "{text}");
    }
}

/// Where runs put their own directories, and where their files are.
fn base() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let base = std::env::temp_dir().join(format!("punctual-run-{}", std::process::id()));
        fs::create_dir(&base).expect("a directory for this test process can be made");
        base
    })
}

/// Removes what this test process made.
pub(crate) fn tidy() {
    // What is left lies in a directory for temporary files.
    let _ = fs::remove_dir_all(base());
}

/// Where a run named `name` has its directory while it is there.
pub(crate) fn runtime_directory(name: &str) -> PathBuf {
    let base = if is_root() { "/run/punctual".into() } else { base().join("punctual") };
    base.join(name)
}

pub(crate) fn is_root() -> bool {
    getuid().is_root()
}

/// The directory of one run's files, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base().join(format!("t{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a directory for a run can be made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path.join("peer"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a fifo can be made");
        Self(path)
    }

    /// Unique among the runs of a machine.
    fn name(&self) -> String {
        let name = self.0.file_name().expect("it was made with one");
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A peer that receives numbered UDP and leaves its result in the fifo, where [`RESULT`] reads it.
pub(crate) fn udp_receiver(options: &str) -> String {
    format!("\"$P\" traffic udp-receive 0.0.0.0:{PORT} {options} | cat > \"$T/peer\"")
}

/// Ends a command with the peer's result.
pub(crate) const RESULT: &str = "cat \"$T/peer\"";

/// A command that sends numbered UDP and prints its result and the peer's.
pub(crate) fn udp_sender(options: &str) -> String {
    format!("\"$P\" traffic udp-send \"$PUNCTUAL_PEER:{PORT}\" {options}; {RESULT}")
}
