//! NFQUEUE: packets that the kernel holds until we say what becomes of them.
//!
//! A packet's bytes stay in the kernel; its head comes to us in a netlink message, and the verdict
//! sends the packet on inside our own system call. Messages: linux/netfilter/nfnetlink_queue.h.

mod batch;
mod error;
mod statistics;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

pub use self::batch::{Batch, HeldPacket, PacketInfo, Received};
pub use self::error::OpenError;
use self::error::binding_error;
pub use self::statistics::{QueueStatistics, queue_statistics};
use super::attribute::{self, Head, Messages, Writer, native_u32};
use super::exchange::{ControlSocket, Exchange, SocketError};
use crate::sys::netlink::{self, SLOTS};

/// What a queue shall be.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfig {
    /// The number by which the rule hands packets to it; unique in the network namespace.
    pub number: u16,
    /// Bytes copied of each packet, from the IP header on: 128 holds all headers. 0 copies none,
    /// and then a packet's length is not told either; at most 65,531.
    pub copy_range: u32,
    /// Packets that the kernel holds at most; one more is dropped, or passes with `fail_open`.
    pub max_len: u32,
    /// Wanted size of the socket's receive buffer in bytes, in the kernel's accounting (a message
    /// about a small packet counts as 768 or more). More than `net.core.rmem_max` needs
    /// `CAP_NET_ADMIN` in the first user namespace; see [`Queue::receive_buffer`] for what was got.
    pub receive_buffer: usize,
    /// Bursts come as one packet with unfinished checksums; else the kernel cuts them first.
    pub gso: bool,
    /// A packet that the queue or the receive buffer has no room for passes instead of being
    /// dropped.
    pub fail_open: bool,
}

/// The socket of one queue.
///
/// Call [`receive`](Self::receive) until it returns less than [`BATCH`](Self::BATCH), and
/// give each packet exactly one verdict by [`send`](Self::send). Packets still held when the
/// queue is dropped are dropped by the kernel.
#[derive(Debug)]
pub struct Queue {
    socket: OwnedFd,
    config: QueueConfig,
    receive_buffer: usize,
    /// What arrived between the binding and its acknowledgement.
    early: VecDeque<Vec<u8>>,
    outgoing: Vec<u8>,
}

/// What becomes of a held packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The packet.
    pub id: u32,
    /// Let it pass, else drop it.
    pub accept: bool,
    /// Mark to set; `Some(0)` clears an arrival stamp.
    pub mark: Option<u32>,
    /// Bytes that take the place of the packet's, from the IP header on, at most 65,531. The
    /// kernel then takes no checksum for verified, and the routing already done stays.
    pub payload: Option<&'a [u8]>,
}

/// Packets that were lost on their way to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Messages for which the receive buffer had no room, since the queue was opened. With
    /// `fail_open` those packets passed by the link, else they are gone.
    pub receive_buffer: u64,
}

impl Queue {
    /// Datagrams that one [`receive`](Self::receive) reads at most.
    pub const BATCH: usize = SLOTS;

    /// Opens and binds the queue in the calling thread's network namespace.
    pub fn open(config: &QueueConfig) -> Result<Self, OpenError> {
        let config = QueueConfig { copy_range: config.copy_range.min(MAX_COPY), ..*config };
        let socket = netlink::netfilter_socket().map_err(|error| SocketError { error })?;
        let receive_buffer = prepare(&socket, config.receive_buffer)
            .map_err(|(option, error)| OpenError::Option { option, error })?;
        let mut queue = Self {
            socket,
            config,
            receive_buffer,
            early: VecDeque::new(),
            outgoing: Vec::with_capacity(MESSAGES_PER_SEND * VERDICT_SIZE),
        };
        queue.bind()?;
        Ok(queue)
    }

    /// Buffers that fit this queue's copy range.
    pub fn batch(&self) -> Batch {
        // Attributes beside the payload take under 250 bytes; twice that is free of risk.
        let slot = self.config.copy_range as usize + 512;
        Batch::new(slot.next_multiple_of(64))
    }

    /// Size of the receive buffer got, in the kernel's accounting (twice what `SO_RCVBUF` was
    /// given, as socket(7) has it).
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Reads what is there, without waiting. Returns how many datagrams came: [`Self::BATCH`]
    /// means that there may be more, 0 that there was nothing.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if !self.early.is_empty() {
            return Ok(self.receive_early(batch));
        }
        let (buffer, slot_size, filled) = batch.slots();
        let received = loop {
            match netlink::receive_batch(self.socket.as_fd(), buffer, slot_size, filled) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                other => break other?,
            }
        };
        batch.parse(received);
        Ok(received)
    }

    /// Gives verdicts. Returns how many the kernel took, from the first on: fewer than given means
    /// that it is short of memory or the socket busy, and that the rest is to be given again.
    ///
    /// The kernel acts on them before this returns. A verdict that it takes but cannot carry out
    /// is answered by [`Received::Refused`].
    pub fn send(&mut self, verdicts: &[Verdict<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < verdicts.len() {
            let count = self.write_some(&verdicts[taken..]);
            match send_all(&self.socket, &self.outgoing) {
                Ok(()) => taken += count,
                Err(error) if is_temporary(&error) || taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Changes, from the next packet on, whether bursts come as one packet. A refusal is answered
    /// by [`Received::ConfigurationRefused`].
    pub fn set_gso(&mut self, gso: bool) -> io::Result<()> {
        let mut request = Writer::default();
        request.message(self.head(attribute::REQUEST));
        write_flags(&mut request, QueueConfig { gso, ..self.config });
        send_all(&self.socket, request.bytes())?;
        self.config.gso = gso;
        Ok(())
    }

    /// Whether bursts come as one packet.
    pub fn keeps_bursts(&self) -> bool {
        self.config.gso
    }

    /// Losses so far.
    pub fn losses(&self) -> io::Result<Losses> {
        Ok(Losses { receive_buffer: u64::from(netlink::drops(&self.socket)?) })
    }

    /// Writes as many verdicts as one system call takes, at least one; how many they are.
    fn write_some(&mut self, verdicts: &[Verdict<'_>]) -> usize {
        self.outgoing.clear();
        let mut count = 0;
        for verdict in verdicts.iter().take(MESSAGES_PER_SEND) {
            let room = BYTES_PER_SEND.saturating_sub(self.outgoing.len());
            if count > 0 && VERDICT_SIZE + verdict.payload.map_or(0, <[u8]>::len) + 8 > room {
                break;
            }
            write_verdict(&mut self.outgoing, self.config.number, verdict);
            count += 1;
        }
        count
    }

    fn receive_early(&mut self, batch: &mut Batch) -> usize {
        let count = self.early.len().min(SLOTS);
        for (slot, datagram) in self.early.drain(..count).enumerate() {
            batch.place(slot, &datagram);
        }
        batch.parse(count);
        count
    }

    /// Everything in one message with one answer, so that no packet is queued to a socket whose
    /// limits are not yet set.
    fn bind(&mut self) -> Result<(), OpenError> {
        let mut request = Writer::default();
        request.message(self.head(attribute::REQUEST | attribute::ACK));
        write_binding(&mut request, self.config);
        let number = self.config.number;
        let answer = send_all(&self.socket, request.bytes())
            .and_then(|()| self.binding_answer())
            .map_err(|error| OpenError::Exchange { number, error })?;
        match answer {
            Some(0) => Ok(()),
            Some(error) => Err(binding_error(number, error, may_configure())),
            None => Err(OpenError::NoAnswer { number, receive_buffer: self.receive_buffer }),
        }
    }

    /// The error number of the answer to the binding. The kernel answers before `send` returns,
    /// but packets may stand before the answer: they are kept.
    fn binding_answer(&mut self) -> io::Result<Option<i32>> {
        let mut datagram = vec![0; self.config.copy_range as usize + 512];
        loop {
            let length = match rustix::net::recv(&self.socket, &mut datagram, RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let received = &datagram[..length];
            match Messages::new(received).next() {
                Some(Ok(message)) if message.kind == attribute::NLMSG_ERROR => {
                    let error = native_u32(message.body, 0).unwrap_or_default();
                    return Ok(Some(error.cast_signed().wrapping_neg()));
                }
                _ => self.early.push_back(received.to_vec()),
            }
        }
    }

    fn head(&self, flags: u16) -> Head {
        Head { kind: CONFIG, flags, sequence: 0, family: 0, resource: self.config.number }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Options and receive buffer; the size got.
fn prepare(socket: &OwnedFd, wanted: usize) -> Result<usize, (&'static str, io::Error)> {
    // Without it a lost message makes every later read fail with ENOBUFS; losses are counted by
    // SO_MEMINFO all the same.
    netlink::enable(socket.as_fd(), libc::NETLINK_NO_ENOBUFS)
        .map_err(|error| ("NETLINK_NO_ENOBUFS", error))?;
    // An error then answers with the header of the message only, not with all of it.
    netlink::enable(socket.as_fd(), libc::NETLINK_CAP_ACK)
        .map_err(|error| ("NETLINK_CAP_ACK", error))?;
    // The kernel doubles what it is given.
    let given = wanted.div_ceil(2);
    rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, given)
        .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(socket, given))
        .map_err(|error| ("SO_RCVBUF", error.into()))?;
    rustix::net::sockopt::socket_recv_buffer_size(socket)
        .map_err(|error| ("SO_RCVBUF", error.into()))
}

fn write_binding(request: &mut Writer, config: QueueConfig) {
    request.attribute(NFQA_CFG_CMD, &[NFQNL_CFG_CMD_BIND, 0, 0, 0]);
    let mode = if config.copy_range == 0 { NFQNL_COPY_META } else { NFQNL_COPY_PACKET };
    let [a, b, c, d] = config.copy_range.to_be_bytes();
    request.attribute(NFQA_CFG_PARAMS, &[a, b, c, d, mode]);
    request.number(NFQA_CFG_QUEUE_MAXLEN, config.max_len);
    write_flags(request, config);
}

fn write_flags(request: &mut Writer, config: QueueConfig) {
    let gso = if config.gso { NFQA_CFG_F_GSO } else { 0 };
    let fail_open = if config.fail_open { NFQA_CFG_F_FAIL_OPEN } else { 0 };
    request.number(NFQA_CFG_FLAGS, gso | fail_open);
    request.number(NFQA_CFG_MASK, NFQA_CFG_F_GSO | NFQA_CFG_F_FAIL_OPEN);
}

/// Written by hand: 100,000 of these a second. The sequence number is the packet's id, so that an
/// error names its packet.
fn write_verdict(bytes: &mut Vec<u8>, queue: u16, verdict: &Verdict<'_>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&VERDICT.to_ne_bytes());
    bytes.extend_from_slice(&attribute::REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&verdict.id.to_ne_bytes());
    bytes.extend_from_slice(&[0; 6]);
    bytes.extend_from_slice(&queue.to_be_bytes());
    bytes.extend_from_slice(&12_u16.to_ne_bytes());
    bytes.extend_from_slice(&NFQA_VERDICT_HDR.to_ne_bytes());
    let decision = if verdict.accept { NF_ACCEPT } else { NF_DROP };
    bytes.extend_from_slice(&decision.to_be_bytes());
    bytes.extend_from_slice(&verdict.id.to_be_bytes());
    if let Some(mark) = verdict.mark {
        bytes.extend_from_slice(&8_u16.to_ne_bytes());
        bytes.extend_from_slice(&NFQA_MARK.to_ne_bytes());
        bytes.extend_from_slice(&mark.to_be_bytes());
    }
    if let Some(payload) = verdict.payload {
        // Longer than the attribute's length can say: the kernel would take other bytes.
        let payload = &payload[..payload.len().min(MAX_PAYLOAD.into())];
        let length = u16::try_from(payload.len()).unwrap_or(MAX_PAYLOAD) + 4;
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&NFQA_PAYLOAD.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
    }
    let length = u32::try_from(bytes.len() - start).expect("a verdict is less than 64 kB long");
    bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// Netlink takes a datagram whole or not at all.
fn send_all(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map(|_| ()).map_err(io::Error::from),
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

fn may_configure() -> bool {
    let socket = ControlSocket::open().map_err(|refused| refused.error);
    socket.and_then(|mut socket| ask_nothing(&mut socket)).is_ok_and(|answer| answer == Some(0))
}

/// The error number with which NFQUEUE answers a request to do nothing: 0 if it is there and takes
/// requests from us. `PF_BIND` is obsolete: every kernel since Linux 3.8 that has NFQUEUE accepts
/// it and ignores it.
pub(super) fn ask_nothing(kernel: &mut impl Exchange) -> io::Result<Option<i32>> {
    let mut request = Writer::default();
    let flags = attribute::REQUEST | attribute::ACK;
    request.message(Head { kind: CONFIG, flags, sequence: 0, family: 0, resource: 0 });
    request.attribute(NFQA_CFG_CMD, &PF_BIND);
    let answers = kernel.exchange(request.bytes())?;
    Ok(answers.first().map(|answer| answer.error))
}

/// An attribute with its header must fit 16 bits: the kernel's own bound, both ways.
const MAX_PAYLOAD: u16 = 65_531;
const MAX_COPY: u32 = MAX_PAYLOAD as u32;
/// Verdicts per system call: 10 kB, which the kernel copies into one buffer.
const MESSAGES_PER_SEND: usize = 256;
const VERDICT_SIZE: usize = 40;
/// The same, where they carry payloads: a message with the largest one, or 40 of full frames. Half
/// of what a socket with the default send buffer (212,992 bytes) takes, which counts overhead.
const BYTES_PER_SEND: usize = 66_000;

pub(super) const QUEUE_SUBSYSTEM: u16 = 3 << 8;
const VERDICT: u16 = QUEUE_SUBSYSTEM | 1;
const CONFIG: u16 = QUEUE_SUBSYSTEM | 2;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NFQA_VERDICT_HDR: u16 = 2;
const NFQA_MARK: u16 = 3;
const NFQA_PAYLOAD: u16 = 10;
const NFQA_CFG_CMD: u16 = 1;
const NFQA_CFG_PARAMS: u16 = 2;
const NFQA_CFG_QUEUE_MAXLEN: u16 = 3;
const NFQA_CFG_MASK: u16 = 4;
const NFQA_CFG_FLAGS: u16 = 5;
const NFQNL_CFG_CMD_BIND: u8 = 1;
/// `NFQNL_CFG_CMD_PF_BIND` for `AF_INET`.
pub(super) const PF_BIND: [u8; 4] = [3, 0, 0, 2];
const NFQNL_COPY_META: u8 = 1;
const NFQNL_COPY_PACKET: u8 = 2;
const NFQA_CFG_F_FAIL_OPEN: u32 = 1;
const NFQA_CFG_F_GSO: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: QueueConfig = QueueConfig {
        number: 0x0102,
        copy_range: 128,
        max_len: 1000,
        receive_buffer: 1 << 20,
        gso: true,
        fail_open: false,
    };

    #[test]
    fn a_verdict_is_what_the_general_writer_would_write() {
        for (accept, mark, payload) in [
            (true, None, None),
            (false, Some(0), None),
            (true, Some(0xdead_beef), None),
            (true, None, Some(&[0x45, 6, 7, 8, 9][..])),
            (true, Some(1), Some(&[0x60; 8])),
        ] {
            let mut bytes = vec![1; 4];
            let verdict = Verdict { id: 0x0506_0708, accept, mark, payload };
            write_verdict(&mut bytes, 0x0102, &verdict);
            bytes.drain(..4);
            let mut expected = Writer::default();
            expected.message(Head {
                kind: VERDICT,
                flags: attribute::REQUEST,
                sequence: 0x0506_0708,
                family: 0,
                resource: 0x0102,
            });
            expected.attribute(NFQA_VERDICT_HDR, &[0, 0, 0, u8::from(accept), 5, 6, 7, 8]);
            if let Some(mark) = mark {
                expected.number(NFQA_MARK, mark);
            }
            if let Some(payload) = payload {
                expected.attribute(NFQA_PAYLOAD, payload);
            }
            assert_eq!(bytes, expected.bytes());
            assert!(payload.is_some() || bytes.len() <= VERDICT_SIZE);
        }
    }

    #[test]
    fn the_binding_carries_limits_and_flags_in_one_message() {
        let mut request = Writer::default();
        request.message(Head { kind: CONFIG, flags: 5, sequence: 0, family: 0, resource: 1 });
        write_binding(&mut request, CONFIGURATION);
        let messages: Vec<_> = Messages::new(request.bytes()).map(Result::unwrap).collect();
        let [message] = messages[..] else { panic!("not one message") };
        let attributes = message.attributes().unwrap();
        let value = |kind| attributes.clone().find(kind).unwrap().to_vec();
        assert_eq!(value(NFQA_CFG_CMD), [1, 0, 0, 0]);
        assert_eq!(value(NFQA_CFG_PARAMS), [0, 0, 0, 128, 2]);
        assert_eq!(value(NFQA_CFG_QUEUE_MAXLEN), 1000_u32.to_be_bytes());
        assert_eq!(value(NFQA_CFG_FLAGS), [0, 0, 0, 4]);
        assert_eq!(value(NFQA_CFG_MASK), [0, 0, 0, 5]);
    }

    #[test]
    fn packets_that_came_before_the_acknowledgement_are_read_first_and_in_order() {
        let mut queue = Queue {
            socket: netlink::netfilter_socket().unwrap(),
            config: CONFIGURATION,
            receive_buffer: 0,
            early: (0..70_u8).map(batch::tests::packet_with_id).collect(),
            outgoing: Vec::new(),
        };
        let mut batch = queue.batch();
        let mut read = || {
            let count = queue.receive(&mut batch).unwrap();
            let id = |received| match received {
                Received::Packet(packet) => packet.info.id,
                other => panic!("unexpected {other:?}"),
            };
            (count, batch.iter().map(id).collect::<Vec<_>>())
        };
        assert_eq!(read(), (64, (0..64).collect()));
        assert_eq!(read(), (6, (64..70).collect()));
        assert_eq!(read(), (0, vec![]));
    }

    #[test]
    fn only_a_shortage_is_worth_another_try() {
        let temporary = |error| is_temporary(&io::Error::from_raw_os_error(error));
        assert!(temporary(libc::EAGAIN) && temporary(libc::ENOBUFS) && temporary(libc::ENOMEM));
        assert!(!temporary(libc::EPERM) && !temporary(libc::ECONNREFUSED));
    }
}
