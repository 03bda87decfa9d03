//! One client of the control socket: what it has sent and not ended with a line's end, what it has
//! not read of its answers.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use punctual_linux::memfd;
use punctual_sched::{Duration, Instant};
use rustix::event::PollFlags;

/// Who answers lines.
pub(crate) trait Answers {
    /// Answers a line, without its end, that was read at `asked`: appends one line to `out`. `fds`
    /// are the descriptors that came with it.
    fn answer(&mut self, line: &[u8], fds: Vec<OwnedFd>, asked: Instant, out: &mut Vec<u8>);

    /// The same where no line can be carried out.
    fn refuse(&mut self, problem: &str, out: &mut Vec<u8>);
}

/// A connection. Its memory is bounded: a line of [`Connection::LONGEST_LINE`] bytes, what one read
/// brings, and [`Connection::MOST_UNREAD`] bytes of answers besides the last one. It holds at most twice
/// [`memfd::MOST_FDS`] descriptors of the client's.
///
/// In each round of the server: [`Connection::transfer`], then [`Connection::serve`].
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    /// Where the first line of `input` ends.
    end: Option<usize>,
    /// Descriptors, each with the byte of `input` with which it came: it belongs to the line of that.
    fds: Vec<(usize, OwnedFd)>,
    /// The rest of a line that was too long is passed over.
    skipping: bool,
    output: Vec<u8>,
    /// Nothing more will come.
    ended: bool,
    /// It was cut off, or has gone.
    closed: bool,
    /// The latest read that brought something.
    read_at: Instant,
    /// When a line was begun that has no end yet.
    begun: Option<Instant>,
    /// Since when answers wait to be taken.
    unread: Option<Instant>,
}

impl Connection {
    /// Of a line, bytes without its end. The longest change there is fits, with room for its names.
    pub(super) const LONGEST_LINE: usize = 640 << 10;
    /// Bytes of answers that are kept for a client; as long as there are more, none of its lines is
    /// answered and nothing is read.
    pub(super) const MOST_UNREAD: usize = 64 << 10;
    /// How long a line may take from its beginning to its end, and a client to take some of its
    /// answers: then it is cut off.
    pub(super) const PATIENCE: Duration = Duration::from_secs(10);

    /// A client that was let in; `now` is any time.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            end: None,
            fds: Vec::new(),
            skipping: false,
            output: Vec::new(),
            ended: false,
            closed: false,
            read_at: now,
            begun: None,
            unread: None,
        })
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, !self.output.is_empty());
        flags.set(PollFlags::IN, self.may_read());
        flags
    }

    /// Whether there is work without waiting for anything.
    pub(super) fn is_ready(&self) -> bool {
        self.end.is_some() && self.may_answer()
    }

    /// When the client is cut off unless something comes or is taken before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let since = self.begun.into_iter().chain(self.unread).min();
        since.map(|since| since + Self::PATIENCE)
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.closed || self.ended && self.input.is_empty() && self.output.is_empty()
    }

    /// Writes what is waiting, and reads once where there is room.
    pub(super) fn transfer(&mut self, now: Instant) {
        self.write(now);
        if self.may_read() {
            self.read(now);
        }
    }

    /// Has up to `share` lines answered, so that a client with many keeps nobody waiting.
    pub(super) fn serve(&mut self, share: usize, now: Instant, answers: &mut dyn Answers) {
        for _ in 0..share {
            let Some(end) = self.end.filter(|_| self.may_answer()) else { break };
            let fds = self.take_fds(end);
            if !std::mem::take(&mut self.skipping) {
                match self.input[..end].trim_ascii() {
                    [] => {}
                    line if end <= Self::LONGEST_LINE => {
                        answers.answer(line, fds, self.read_at, &mut self.output);
                    }
                    _ => answers.refuse(&too_long(), &mut self.output),
                }
            }
            self.input.drain(..=end);
            self.begun = None;
            self.find_end(0);
        }
        if self.end.is_none() && self.may_answer() {
            self.look_at_rest(answers);
        }
        self.write(now);
    }

    /// Cuts off a client that has kept something unfinished for too long.
    pub(super) fn check(&mut self, now: Instant, answers: &mut dyn Answers) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.output.is_empty() {
            answers.refuse("the line had no end for 10 s: closed", &mut self.output);
            self.write(now);
        }
        self.close();
    }

    /// The beginning of a line, which may be too long already, or the last that will come of it.
    fn look_at_rest(&mut self, answers: &mut dyn Answers) {
        if self.input.len() > Self::LONGEST_LINE && !self.skipping {
            answers.refuse(&too_long(), &mut self.output);
            self.skipping = true;
        }
        if self.ended && !self.skipping && !self.input.trim_ascii().is_empty() {
            answers.refuse("the line has no end: it was not carried out", &mut self.output);
        }
        if self.skipping || self.ended {
            (self.input, self.fds) = (Vec::new(), Vec::new());
        }
        let begun = !self.ended && (self.skipping || !self.input.is_empty());
        self.begun = begun.then(|| self.begun.unwrap_or(self.read_at));
    }

    fn may_answer(&self) -> bool {
        !self.closed && self.output.len() < Self::MOST_UNREAD
    }

    fn may_read(&self) -> bool {
        self.end.is_none() && !self.ended && self.may_answer()
    }

    /// Looks for the first line's end from byte `from` on.
    fn find_end(&mut self, from: usize) {
        let rest = &self.input[from..];
        self.end = rest.iter().position(|&byte| byte == b'\n').map(|at| from + at);
    }

    /// Those of the line that ends at byte `end`, which is about to be taken off.
    fn take_fds(&mut self, end: usize) -> Vec<OwnedFd> {
        let later = self.fds.iter().position(|(at, _)| *at > end).unwrap_or(self.fds.len());
        let mine = self.fds.drain(..later).map(|(_, fd)| fd).collect();
        self.fds.iter_mut().for_each(|(at, _)| *at -= end + 1);
        mine
    }

    fn read(&mut self, now: Instant) {
        let (mut buffer, mut fds) = ([0; READ], Vec::new());
        match memfd::receive(&self.stream, &mut buffer, &mut fds) {
            Ok(0) => self.ended = true,
            Ok(length) => {
                self.read_at = now;
                let before = self.input.len();
                self.input.extend_from_slice(&buffer[..length]);
                self.find_end(before);
                // A line is begun at most, and as many are too many for it.
                self.fds.truncate(memfd::MOST_FDS);
                self.fds.extend(fds.into_iter().map(|fd| (before + length - 1, fd)));
            }
            Err(error) if is_for_now(&error) => {}
            Err(_) => self.close(),
        }
    }

    fn write(&mut self, now: Instant) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(length) => {
                    self.output.drain(..length);
                    self.unread = None;
                }
                Err(error) if is_for_now(&error) => {
                    self.unread = self.unread.or(Some(now));
                    return;
                }
                Err(_) => return self.close(),
            }
        }
        self.output.shrink_to(READ);
        self.input.shrink_to(READ);
    }

    /// Nobody is there to read what is left.
    fn close(&mut self) {
        self.closed = true;
        (self.input, self.output, self.fds) = (Vec::new(), Vec::new(), Vec::new());
        (self.end, self.begun, self.unread) = (None, None, None);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn too_long() -> String {
    format!("the line is longer than {} bytes", Connection::LONGEST_LINE)
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Bytes of one read: some hundred changes.
const READ: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Answers each line with its length; refusals are told.
    struct Lengths {
        asked: Vec<Instant>,
        /// Descriptors with each line.
        fds: Vec<usize>,
    }

    impl Answers for Lengths {
        fn answer(&mut self, line: &[u8], fds: Vec<OwnedFd>, asked: Instant, out: &mut Vec<u8>) {
            self.asked.push(asked);
            self.fds.push(fds.len());
            out.extend_from_slice(format!("{}\n", line.len()).as_bytes());
        }

        fn refuse(&mut self, problem: &str, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("refused: {problem}\n").as_bytes());
        }
    }

    struct Pair {
        client: UnixStream,
        connection: Connection,
        answers: Lengths,
        now: Instant,
    }

    impl Pair {
        fn new() -> Self {
            let (client, served) = UnixStream::pair().unwrap();
            client.set_nonblocking(true).unwrap();
            let connection = Connection::new(served, Instant::ZERO).unwrap();
            Self {
                client,
                connection,
                answers: Lengths { asked: Vec::new(), fds: Vec::new() },
                now: Instant::ZERO,
            }
        }

        /// Sends all of it, and lets as many rounds go by as that takes and one more.
        fn send(&mut self, mut bytes: &[u8]) {
            loop {
                match self.client.write(bytes) {
                    Ok(sent) => bytes = &bytes[sent..],
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                self.round();
                if bytes.is_empty() {
                    break;
                }
            }
            self.settle();
        }

        fn round(&mut self) {
            self.now = self.now + Duration::from_micros(1);
            self.connection.transfer(self.now);
            self.connection.serve(4, self.now, &mut self.answers);
            self.connection.check(self.now, &mut self.answers);
        }

        fn settle(&mut self) {
            for _ in 0..100 {
                self.round();
            }
        }

        fn received(&mut self) -> String {
            let mut bytes = Vec::new();
            // Ends as a stream without bytes that is not closed ends; a server that has closed with
            // bytes unread resets.
            let _ = self.client.read_to_end(&mut bytes);
            String::from_utf8(bytes).unwrap()
        }

        fn after(&mut self, span: Duration) {
            self.now = self.now + span;
            self.round();
        }
    }

    #[test]
    fn lines_are_answered_one_by_one_however_they_are_cut() {
        let mut pair = Pair::new();
        pair.send(b"a\nbb\r\n\n  \nccc");
        assert_eq!(pair.received(), "1\n2\n");
        pair.send(b"c\n");
        assert_eq!(pair.received(), "4\n");
        assert_eq!(pair.connection.deadline(), None);
        for byte in b"abcde\n" {
            pair.send(&[*byte]);
        }
        assert_eq!(pair.received(), "5\n");
        assert!(!pair.connection.is_over());
    }

    #[test]
    fn a_line_is_dated_when_its_last_byte_was_read() {
        let mut pair = Pair::new();
        pair.send(b"a");
        let before = pair.now;
        pair.send(b"b\nc");
        assert!(pair.answers.asked[0] > before && pair.answers.asked[0] < pair.now);
    }

    #[test]
    fn the_longest_line_is_answered_and_a_longer_one_is_passed_over() {
        let mut pair = Pair::new();
        for (length, answer) in [
            (Connection::LONGEST_LINE, "655360\n"),
            (Connection::LONGEST_LINE + 1, "refused: the line is longer than 655360 bytes\n"),
            (1 << 20, "refused: the line is longer than 655360 bytes\n"),
        ] {
            let mut line = vec![b'x'; length];
            line.extend_from_slice(b"\nnext\n");
            pair.send(&line);
            assert_eq!(pair.received(), format!("{answer}4\n"), "{length}");
            assert!(pair.connection.input.capacity() <= READ, "memory is given back");
        }
    }

    #[test]
    fn descriptors_belong_to_the_line_that_they_came_with() {
        let mut pair = Pair::new();
        let send = |pair: &mut Pair, bytes: &[u8]| {
            assert_eq!(memfd::send(&pair.client, bytes, &pair.client).unwrap(), bytes.len());
        };
        pair.client.write_all(b"none\n").unwrap();
        send(&mut pair, b"one\n");
        send(&mut pair, b"none\none\n");
        pair.client.write_all(b"none\n").unwrap();
        for _ in 0..9 {
            send(&mut pair, b"x");
        }
        send(&mut pair, b"many\n");
        pair.client.write_all(b"none\n").unwrap();
        send(&mut pair, b"half");
        pair.settle();
        let [none, one] = [0, 1];
        assert_eq!(pair.answers.fds[..5], [none, one, none, one, none]);
        assert!(pair.answers.fds[5] >= memfd::MOST_FDS);
        assert_eq!((pair.answers.fds.len(), pair.answers.fds[6]), (7, none));
        assert_eq!(pair.connection.fds.len(), 1);
        let long = vec![b'x'; Connection::LONGEST_LINE + 1];
        pair.send(&long);
        assert!(pair.connection.fds.is_empty(), "those of a line that is passed over are closed");
    }

    #[test]
    fn a_line_without_end_is_not_carried_out() {
        let mut pair = Pair::new();
        pair.send(b"whole\nhalf");
        pair.client.shutdown(std::net::Shutdown::Write).unwrap();
        pair.settle();
        assert_eq!(pair.received(), "5\nrefused: the line has no end: it was not carried out\n");
        assert!(pair.connection.is_over());
        assert_eq!(pair.answers.asked.len(), 1);
    }

    #[test]
    fn a_client_that_dies_half_way_through_a_line_is_forgotten() {
        let Pair { client, mut connection, mut answers, now } = Pair::new();
        (&client).write_all(b"{\"set\":{\"up.rate\":\"10m").unwrap();
        drop(client);
        for _ in 0..3 {
            connection.transfer(now);
            connection.serve(4, now, &mut answers);
        }
        assert!(connection.is_over());
        assert!(answers.asked.is_empty());
    }

    #[test]
    fn a_line_that_takes_too_long_costs_the_connection_and_idling_does_not() {
        let mut pair = Pair::new();
        pair.send(b"a\n");
        pair.after(Duration::from_secs(3_600));
        assert!(!pair.connection.is_over());
        pair.send(b"half");
        pair.after(Duration::from_millis(9_990));
        assert!(!pair.connection.is_over());
        pair.after(Duration::from_millis(10));
        assert!(pair.connection.is_over());
        assert_eq!(pair.received(), "1\nrefused: the line had no end for 10 s: closed\n");
    }

    #[test]
    fn a_line_that_never_ends_costs_the_connection_although_bytes_come() {
        let mut pair = Pair::new();
        for _ in 0..12 {
            if pair.connection.is_over() {
                break;
            }
            pair.send(&vec![b'x'; 200_000]);
            pair.after(Duration::from_secs(1));
            assert!(pair.connection.input.len() <= Connection::LONGEST_LINE + READ);
        }
        assert!(pair.connection.is_over());
    }

    #[test]
    fn a_client_that_never_reads_stops_being_read_and_is_cut_off() {
        let mut pair = Pair::new();
        let lines = b"x\n".repeat(50_000);
        let mut sent = 0;
        for _ in 0..1_000_000 {
            match pair.client.write(&lines) {
                Ok(length) => sent += length,
                Err(_) if !pair.connection.is_ready() => break,
                Err(_) => {}
            }
            pair.round();
        }
        pair.settle();
        let most = Connection::MOST_UNREAD + 100;
        assert!(sent > 0 && pair.connection.output.len() <= most);
        assert!(!pair.connection.interest().contains(PollFlags::IN));
        pair.after(Connection::PATIENCE);
        assert!(pair.connection.is_over());
    }

    #[test]
    fn a_client_that_reads_late_gets_every_answer() {
        let mut pair = Pair::new();
        let lines = b"x\n".repeat(100_000);
        let (mut sent, mut got) = (0, String::new());
        while sent < lines.len() || got.len() < lines.len() {
            if let Ok(length) = pair.client.write(&lines[sent..]) {
                sent += length;
            }
            pair.settle();
            got += &pair.received();
        }
        assert_eq!(got, "1\n".repeat(100_000));
        assert_eq!(pair.connection.deadline(), None);
    }
}
