//! The thread that listens at a run's control socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow};
use punctual_linux::clock::monotonic;
use punctual_linux::wait;
use punctual_sched::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};

use super::bell::Bell;
use super::connection::{Answers, Connection};

/// A listening thread. It has the ordinary policy of the thread that starts it, and waits in one
/// `poll(2)` for everybody: a client can keep the others waiting for its share of lines at most.
#[derive(Debug)]
pub(crate) struct Server<A> {
    stop: Bell,
    thread: JoinHandle<A>,
}

impl<A: Answers<Pending: Send> + Send + 'static> Server<A> {
    /// Serves whoever connects to `listener`, which must not block. `answers` makes who answers, with
    /// the bell to ring when something that is pending may be over.
    pub(crate) fn start(listener: UnixListener, answers: impl FnOnce(Bell) -> A) -> Result<Self> {
        let (stop, over) = (Bell::new()?, Bell::new()?);
        let answers = answers(over.clone());
        let rounds = Rounds {
            listener,
            stop: stop.clone(),
            over,
            connections: Vec::new(),
            spare: stop.spare(),
            deaf_until: None,
        };
        let thread =
            Builder::new().name("control".to_owned()).spawn(move || rounds.run(answers)).context(
                "cannot start the control socket's thread; raise the limit of processes",
            )?;
        Ok(Self { stop, thread })
    }

    /// Closes the socket and all connections; a line that is being answered gets its answer, and
    /// what is pending is given up.
    pub(crate) fn stop(self) -> Result<A> {
        self.stop.ring();
        self.thread.join().map_err(|_| anyhow!("the control socket's thread panicked: a bug"))
    }
}

struct Rounds<P> {
    listener: UnixListener,
    stop: Bell,
    /// Something that was pending may be over.
    over: Bell,
    connections: Vec<Connection<P>>,
    /// Given up for a moment to tell a client that there is no descriptor for it.
    spare: Option<OwnedFd>,
    /// Nobody can be let in before: the process or the machine is out of descriptors.
    deaf_until: Option<Instant>,
}

impl<P> Rounds<P> {
    fn run<A: Answers<Pending = P>>(mut self, mut answers: A) -> A {
        // An error of poll is a mistake of ours or the end of the machine's memory: without the
        // socket the run goes on as before.
        while let Ok(Ready { stopped: false, clients, listener }) = self.wait() {
            let now = monotonic();
            let share = (SHARE / self.connections.len().max(1)).max(1);
            for (connection, events) in self.connections.iter_mut().zip(clients) {
                if !events.is_empty() {
                    connection.transfer(events, now);
                }
                if !events.is_empty() || connection.is_ready() || connection.is_pending() {
                    connection.serve(share, now, &mut answers);
                }
                connection.check(now, &mut answers);
            }
            self.connections.retain(|connection| !connection.is_over());
            if listener {
                self.accept(now, &mut answers);
            }
        }
        answers
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let now = monotonic();
        self.deaf_until = self.deaf_until.filter(|until| now < *until);
        let hears = if self.deaf_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.over, PollFlags::IN),
            PollFd::new(&self.listener, hears),
        ];
        let clients = self.connections.iter();
        fds.extend(clients.map(|client| PollFd::new(client, client.interest())));
        wait::any_readable(&mut fds, self.patience(now))?;
        let mut events = fds.iter().map(PollFd::revents);
        let [stopped, over, listener] = [events.next(), events.next(), events.next()]
            .map(|events| events.is_some_and(|events| !events.is_empty()));
        let clients = events.collect();
        if over {
            // Before it is looked at: what is over from now on rings again.
            self.over.hush();
        }
        Ok(Ready { stopped, listener: listener && self.deaf_until.is_none(), clients })
    }

    /// How long nothing has to be done unless something comes.
    fn patience(&self, now: Instant) -> Option<Duration> {
        if self.connections.iter().any(Connection::is_ready) {
            return Some(Duration::ZERO);
        }
        let deadlines = self.connections.iter().filter_map(Connection::deadline);
        deadlines.chain(self.deaf_until).min().map(|deadline| deadline.since(now))
    }

    /// Lets in one client a round.
    fn accept(&mut self, now: Instant, answers: &mut dyn Answers<Pending = P>) {
        match self.listener.accept() {
            Ok((stream, _)) if self.connections.len() < MOST_CLIENTS => {
                self.connections.extend(Connection::new(stream, now).ok());
            }
            Ok((stream, _)) => turn_away(&stream, answers, &full()),
            Err(error) if is_passing(&error) => {}
            Err(_) => {
                // What takes its place in between leaves nothing to tell with.
                drop(self.spare.take());
                let refused = self.listener.accept();
                match &refused {
                    Ok((stream, _)) => turn_away(stream, answers, STARVED),
                    Err(_) => self.deaf_until = Some(now + DEAF),
                }
                drop(refused);
                self.spare = self.stop.spare();
            }
        }
    }
}

/// What a wait found.
struct Ready {
    stopped: bool,
    listener: bool,
    /// Of each connection.
    clients: Vec<PollFlags>,
}

fn full() -> String {
    format!("{MOST_CLIENTS} clients are connected already")
}

fn turn_away<P>(stream: &UnixStream, answers: &mut dyn Answers<Pending = P>, problem: &str) {
    let mut answer = Vec::new();
    answers.refuse(problem, &mut answer);
    // A fresh socket has room for it, and a client that has gone does not miss it.
    let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
    let _ = rustix::net::send(stream.as_fd(), &answer, flags);
}

/// The client that was to be let in has gone, or another wake-up was first.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Clients at one time; one more gets an answer that says so, and is closed.
pub(super) const MOST_CLIENTS: usize = 64;
/// Lines that are answered in one round; each client's share of them, or one line, is answered
/// before the others have their turn. At some 20 us a line a full house of busy clients waits for 2 ms.
const SHARE: usize = 16;
/// What a client is told for which there is none.
const STARVED: &str =
    "the run has no descriptor for one more client: raise its limit of open files (ulimit -n)";
/// Time until the next try to let somebody in, when there was no descriptor for it.
const DEAF: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::path::PathBuf;

    use crate::control::socket;

    /// Says every line again.
    #[derive(Default)]
    struct Echo {
        lines: u64,
    }

    impl Answers for Echo {
        type Pending = Infallible;

        fn answer(
            &mut self,
            line: &[u8],
            _: Vec<OwnedFd>,
            _: Instant,
            out: &mut Vec<u8>,
        ) -> Option<Infallible> {
            self.lines += 1;
            out.extend_from_slice(line);
            out.push(b'\n');
            None
        }

        fn resume(&mut self, pending: Infallible, _: &mut Vec<u8>) -> Option<Infallible> {
            match pending {}
        }

        fn refuse(&mut self, problem: &str, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("refused: {problem}\n").as_bytes());
        }
    }

    struct Listening {
        directory: PathBuf,
        server: Server<Echo>,
    }

    impl Listening {
        fn new(test: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("punctual-server-{}-{test}", std::process::id()));
            std::fs::create_dir(&directory).unwrap();
            let server =
                Server::start(socket::listen(&directory).unwrap(), |_| Echo::default()).unwrap();
            Self { directory, server }
        }

        fn connect(&self) -> BufReader<UnixStream> {
            let deadline = monotonic() + Duration::from_secs(10);
            let stream = socket::connect(&self.directory, deadline).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            BufReader::new(stream)
        }

        /// How many lines were answered.
        fn stop(self) -> u64 {
            std::fs::remove_dir_all(&self.directory).unwrap();
            self.server.stop().unwrap().lines
        }
    }

    fn ask(client: &mut BufReader<UnixStream>, line: &str) -> String {
        client.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        answer(client)
    }

    fn answer(client: &mut BufReader<UnixStream>) -> String {
        let mut answer = String::new();
        client.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    #[test]
    fn more_clients_than_have_room_are_told_and_closed_and_places_come_free() {
        let listening = Listening::new("full");
        let mut clients: Vec<_> = (0..200).map(|_| listening.connect()).collect();
        let served = clients.iter_mut().enumerate().map(|(number, client)| {
            // One that was turned away may be gone already.
            let _ = client.get_mut().write_all(format!("{number}\n").as_bytes());
            let answer = answer(client);
            let full = answer == "refused: 64 clients are connected already";
            assert!(full || answer == number.to_string(), "{answer}");
            !full
        });
        let served: Vec<bool> = served.collect();
        assert_eq!(served.iter().filter(|&&served| served).count(), MOST_CLIENTS);
        let mut rest = String::new();
        let away = served.iter().position(|served| !served).unwrap();
        assert!(matches!(clients[away].read_to_string(&mut rest), Ok(0) | Err(_)));
        drop(clients);
        // Those that have gone are seen to have in one of the next rounds.
        let mut tries = 0;
        while ask(&mut listening.connect(), "again") != "again" {
            tries += 1;
            assert!(tries < 1_000);
        }
        assert_eq!(listening.stop(), 65);
    }

    #[test]
    fn clients_that_flood_or_never_read_keep_nobody_waiting() {
        let listening = Listening::new("flood");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reads in [true, false] {
                let flooder = listening.connect();
                let stop = &stop;
                scope.spawn(move || {
                    let mut stream = flooder.into_inner();
                    stream.set_nonblocking(true).unwrap();
                    let (lines, mut heard) = (b"xxxx\n".repeat(1_000), vec![0; 1 << 16]);
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let _ = stream.write(&lines);
                        if reads {
                            let _ = stream.read(&mut heard);
                        }
                    }
                });
            }
            let mut half = listening.connect();
            half.get_mut().write_all(b"{\"set\":").unwrap();
            let mut client = listening.connect();
            for number in 0..200 {
                assert_eq!(ask(&mut client, &number.to_string()), number.to_string());
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        listening.stop();
    }

    /// Notes every line, and waits at `gate` for one that says so.
    struct Noted {
        lines: Vec<String>,
        gate: std::sync::mpsc::Receiver<()>,
    }

    impl Answers for Noted {
        type Pending = Infallible;

        fn answer(
            &mut self,
            line: &[u8],
            _: Vec<OwnedFd>,
            _: Instant,
            out: &mut Vec<u8>,
        ) -> Option<Infallible> {
            let line = String::from_utf8(line.to_owned()).unwrap();
            if line == "wait" {
                self.gate.recv().unwrap();
            }
            self.lines.push(line);
            out.push(b'\n');
            None
        }

        fn resume(&mut self, pending: Infallible, _: &mut Vec<u8>) -> Option<Infallible> {
            match pending {}
        }

        fn refuse(&mut self, _: &str, _: &mut Vec<u8>) {}
    }

    #[test]
    fn one_line_waits_for_few_of_each_of_many_busy_clients() {
        let directory =
            std::env::temp_dir().join(format!("punctual-server-{}-turns", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (open, gate) = std::sync::mpsc::channel();
        let listener = socket::listen(&directory).unwrap();
        let noted = move |_| Noted { lines: Vec::new(), gate };
        let server = Server::start(listener, noted).unwrap();
        let connect = || {
            let stream =
                socket::connect(&directory, monotonic() + Duration::from_secs(10)).unwrap();
            let mut client = BufReader::new(stream);
            // It has been let in.
            assert_eq!(ask(&mut client, "hello"), "");
            client
        };
        let mut first = connect();
        let mut busy: Vec<_> = (0..30).map(|_| connect()).collect();
        let mut last = connect();
        first.get_mut().write_all(b"wait\n").unwrap();
        for client in &mut busy {
            client.get_mut().write_all(&b"busy\n".repeat(1_000)).unwrap();
        }
        last.get_mut().write_all(b"last\n").unwrap();
        open.send(()).unwrap();
        answer(&mut last);
        std::fs::remove_dir_all(&directory).unwrap();
        let lines = server.stop().unwrap().lines;
        let waited = lines.iter().position(|line| line == "last").unwrap()
            - lines.iter().position(|line| line == "wait").unwrap();
        assert!(waited <= 2 * 31, "it waited for {waited} lines");
    }

    #[test]
    fn garbage_is_answered_or_ends_with_its_connection_and_others_go_on() {
        let listening = Listening::new("garbage");
        let mut client = listening.connect();
        for garbage in [&b"\0\xff\xfe"[..], b"\n\n\r\n", b"half", &vec![b'x'; 1 << 20], b""] {
            let mut hostile = listening.connect();
            // A line without end may be cut off while it is being sent.
            let _ = hostile.get_mut().write_all(garbage);
            drop(hostile);
            assert_eq!(ask(&mut client, "still"), "still");
        }
        listening.stop();
    }

    #[test]
    fn a_thousand_clients_one_after_the_other_leave_no_descriptor_behind() {
        let listening = Listening::new("many");
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert_eq!(ask(&mut listening.connect(), "first"), "first");
        let before = open();
        let after = (0..1_000).map(|_| {
            assert_eq!(ask(&mut listening.connect(), "x"), "x");
            open()
        });
        // Other tests of this process open and close hundreds: what is left behind stays.
        let least = after.skip(500).min().expect("500 more");
        assert!(least < before + 100, "{least} after {before}");
        assert_eq!(listening.stop(), 1_001);
    }

    #[test]
    fn stopping_ends_every_connection() {
        let listening = Listening::new("stop");
        let mut client = listening.connect();
        assert_eq!(ask(&mut client, "x"), "x");
        assert_eq!(listening.stop(), 1);
        let mut rest = Vec::new();
        assert!(matches!(client.read_to_end(&mut rest), Ok(0) | Err(_)));
    }
}
