//! One client of the control socket: what it has sent and not ended with a line's end, what it has
//! not read of its answers.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use punctual_linux::memfd::{self, Received};
use punctual_sched::{Duration, Instant};
use rustix::event::PollFlags;

use super::handed::STRAY;

/// Who answers lines.
pub(crate) trait Answers {
    /// A line whose answer waits for what is done on another thread; given up when it is dropped.
    type Pending;

    /// Answers a line, without its end, that was read at `asked`: appends one line to `out`, unless
    /// it is pending. `fds` are the descriptors that came with it.
    fn answer(
        &mut self,
        line: &[u8],
        fds: Vec<OwnedFd>,
        asked: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Self::Pending>;

    /// Answers what was pending, or gives it back where it still is.
    fn resume(&mut self, pending: Self::Pending, out: &mut Vec<u8>) -> Option<Self::Pending>;

    /// The same where no line can be carried out.
    fn refuse(&mut self, problem: &str, out: &mut Vec<u8>);
}

/// A connection. Its memory is bounded: a line of [`LONGEST_LINE`] bytes, what one read
/// brings, and [`MOST_UNREAD`] bytes of answers besides the last one. It holds at most twice
/// [`memfd::MOST_FDS`] descriptors of the client's.
///
/// In each round of the server: [`Connection::transfer`], then [`Connection::serve`].
///
/// Answers keep the order of the lines: while one is pending, no other is read or answered.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Connection<P> {
    stream: UnixStream,
    input: Vec<u8>,
    /// Where the first line of `input` ends.
    end: Option<usize>,
    /// Descriptors, each with the byte of `input` with which it came: it belongs to the line of that.
    fds: Vec<(usize, OwnedFd)>,
    /// The rest of a line that was too long is passed over.
    skipping: bool,
    /// The line before them, whose answer takes its time.
    pending: Option<P>,
    output: Vec<u8>,
    /// A descriptor was sent for which there was no room.
    starved: bool,
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

impl<P> Connection<P> {
    /// A client that was let in; `now` is any time.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            end: None,
            fds: Vec::new(),
            skipping: false,
            pending: None,
            output: Vec::new(),
            starved: false,
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

    /// Whether a line was begun to be answered and is not over.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// When the client is cut off unless something comes or is taken before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let since = self.begun.into_iter().chain(self.unread).min();
        since.map(|since| since + PATIENCE)
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        let idle = self.input.is_empty() && self.output.is_empty() && self.pending.is_none();
        self.closed || self.ended && idle
    }

    /// Writes what is waiting, and reads once where there is room; `events` are what the wait found.
    ///
    /// Where a line is pending and the client has gone, not only ended its own side, that is over.
    pub(super) fn transfer(&mut self, events: PollFlags, now: Instant) {
        if self.is_pending() && events.intersects(PollFlags::HUP | PollFlags::ERR) {
            return self.close();
        }
        self.write(now);
        if self.may_read() {
            self.read(now);
        }
    }

    /// Has up to `share` lines answered, so that a client with many keeps nobody waiting.
    pub(super) fn serve(
        &mut self,
        share: usize,
        now: Instant,
        answers: &mut dyn Answers<Pending = P>,
    ) {
        if self.starved {
            // Which line it belonged to may not be known yet.
            answers.refuse(STARVED, &mut self.output);
            self.write(now);
            return self.close();
        }
        if let Some(pending) = self.pending.take() {
            self.pending = answers.resume(pending, &mut self.output);
        }
        for _ in 0..share {
            let Some(end) = self.end.filter(|_| self.may_answer()) else { break };
            let fds = self.take_fds(end);
            if !std::mem::take(&mut self.skipping) {
                match self.input[..end].trim_ascii() {
                    [] if fds.is_empty() => {}
                    [] => answers.refuse(STRAY, &mut self.output),
                    line if end <= LONGEST_LINE => {
                        let output = &mut self.output;
                        self.pending = answers.answer(line, fds, self.read_at, output);
                    }
                    _ => answers.refuse(&too_long(), &mut self.output),
                }
            }
            self.input.drain(..=end);
            self.begun = None;
            self.find_end(0);
        }
        if self.end.is_none() && self.may_answer() {
            self.look_at_rest(now, answers);
        }
        self.write(now);
    }

    /// Cuts off a client that has kept something unfinished for too long.
    pub(super) fn check(&mut self, now: Instant, answers: &mut dyn Answers<Pending = P>) {
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
    fn look_at_rest(&mut self, now: Instant, answers: &mut dyn Answers<Pending = P>) {
        if self.input.len() > LONGEST_LINE && !self.skipping {
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
        // From now on, not since it came: it may have waited for a line that was pending.
        self.begun = begun.then(|| self.begun.unwrap_or(now));
    }

    fn may_answer(&self) -> bool {
        !self.closed && !self.is_pending() && self.output.len() < MOST_UNREAD
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
            Ok(Received { bytes: 0, .. }) => self.ended = true,
            Ok(Received { bytes: length, starved }) => {
                self.starved |= starved;
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
        (self.end, self.begun, self.unread, self.pending) = (None, None, None, None);
    }
}

impl<P> AsFd for Connection<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn too_long() -> String {
    format!("the line is longer than {LONGEST_LINE} bytes")
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Of a line, bytes without its end. The longest change there is fits, with room for its names.
const LONGEST_LINE: usize = 640 << 10;
/// Bytes of answers that are kept for a client; as long as there are more, none of its lines is
/// answered and nothing is read.
const MOST_UNREAD: usize = 64 << 10;
/// How long a line may take from its beginning to its end, and a client to take some of its
/// answers: then it is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a client is told before it is cut off because of that.
const STARVED: &str = "a descriptor came with it for which the run has no room: raise its limit of \
                       open files (ulimit -n)";
/// Bytes of one read: some hundred changes.
const READ: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::wait::any_readable;
    use rustix::event::PollFd;
    use std::io::Read;
    use std::rc::Rc;

    /// Answers each line with its length; refusals are told.
    struct Lengths {
        asked: Vec<Instant>,
        /// Descriptors with each line.
        fds: Vec<usize>,
        /// What is told to be pending is over.
        over: bool,
    }

    impl Answers for Lengths {
        type Pending = Rc<str>;

        fn answer(
            &mut self,
            line: &[u8],
            fds: Vec<OwnedFd>,
            asked: Instant,
            out: &mut Vec<u8>,
        ) -> Option<Rc<str>> {
            self.asked.push(asked);
            self.fds.push(fds.len());
            let answer = format!("{}\n", line.len());
            if line.starts_with(b"later") {
                return Some(answer.into());
            }
            out.extend_from_slice(answer.as_bytes());
            None
        }

        fn resume(&mut self, pending: Rc<str>, out: &mut Vec<u8>) -> Option<Rc<str>> {
            if !self.over {
                return Some(pending);
            }
            out.extend_from_slice(pending.as_bytes());
            None
        }

        fn refuse(&mut self, problem: &str, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("refused: {problem}\n").as_bytes());
        }
    }

    struct Pair {
        client: UnixStream,
        connection: Connection<Rc<str>>,
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
                answers: Lengths { asked: Vec::new(), fds: Vec::new(), over: false },
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
            let events = events(&self.connection);
            self.connection.transfer(events, self.now);
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

    /// What a wait that does not wait finds.
    fn events<P>(connection: &Connection<P>) -> PollFlags {
        let mut fds = [PollFd::new(connection, connection.interest())];
        any_readable(&mut fds, Some(Duration::ZERO)).unwrap();
        fds[0].revents()
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
            (LONGEST_LINE, "655360\n"),
            (LONGEST_LINE + 1, "refused: the line is longer than 655360 bytes\n"),
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
        let long = vec![b'x'; LONGEST_LINE + 1];
        pair.send(&long);
        assert!(pair.connection.fds.is_empty(), "those of a line that is passed over are closed");
    }

    #[test]
    fn a_descriptor_with_a_blank_line_is_refused() {
        let mut pair = Pair::new();
        for blank in [&b"\n"[..], b" \r\n"] {
            memfd::send(&pair.client, blank, &pair.client).unwrap();
            pair.send(b"\na\n");
            assert_eq!(pair.received(), format!("refused: {STRAY}\n1\n"));
        }
    }

    #[test]
    fn lines_behind_one_that_is_pending_wait_for_it_and_keep_their_order() {
        let mut pair = Pair::new();
        pair.send(b"a\nlater\nbb\nlater.\nhalf");
        assert_eq!(pair.received(), "1\n");
        assert!(!pair.connection.is_ready(), "nobody turns round and round for it");
        pair.client.write_all(b" and half\n").unwrap();
        pair.settle();
        pair.after(Duration::from_secs(3_600));
        assert!(pair.connection.is_pending() && !pair.connection.is_over());
        assert_eq!((pair.received(), pair.answers.asked.len()), (String::new(), 2));
        pair.answers.over = true;
        pair.settle();
        assert_eq!(pair.received(), "5\n2\n6\n13\n");
        assert!(!pair.connection.is_over());
    }

    #[test]
    fn a_client_that_only_ends_its_own_side_gets_what_is_pending() {
        let mut pair = Pair::new();
        pair.send(b"later\na\n");
        pair.client.shutdown(std::net::Shutdown::Write).unwrap();
        pair.settle();
        pair.answers.over = true;
        pair.settle();
        assert_eq!(pair.received(), "5\n1\n");
        assert!(pair.connection.is_over());
    }

    #[test]
    fn what_is_pending_ends_with_its_client() {
        let mut pair = Pair::new();
        pair.send(b"later\na\n");
        let given_up = Rc::downgrade(pair.connection.pending.as_ref().unwrap());
        let (other, _) = UnixStream::pair().unwrap();
        drop(std::mem::replace(&mut pair.client, other));
        pair.round();
        assert!(pair.connection.is_over() && given_up.upgrade().is_none());
        assert_eq!(pair.answers.asked.len(), 1);
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
            connection.transfer(events(&connection), now);
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
            assert!(pair.connection.input.len() <= LONGEST_LINE + READ);
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
        let most = MOST_UNREAD + 100;
        assert!(sent > 0 && pair.connection.output.len() <= most);
        assert!(!pair.connection.interest().contains(PollFlags::IN));
        pair.after(PATIENCE);
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
