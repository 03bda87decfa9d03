//! Sockets: receive batches with kernel stamps, packet sockets, options by number.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Sets an option whose value is a C `int` (`setsockopt(2)`).
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: i32,
) -> io::Result<()> {
    set_raw_option(socket, level, name, &value)
}

/// Attaches a classic BPF program (`socket(7)`, `SO_ATTACH_FILTER`, Linux 2.2).
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the program and never writes through the pointer, which is C without const.
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    set_raw_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// A packet socket that receives nothing before it is bound (`packet(7)`: protocol 0).
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by the kernel and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Which packets a packet socket receives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// Every packet.
    All,
    /// None: it only sends.
    None,
}

/// Binds a packet socket to one interface; from here on it receives what `protocol` says.
pub(crate) fn bind_packet_socket(
    socket: BorrowedFd<'_>,
    interface: u32,
    protocol: Protocol,
) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain integers and bytes; all zeroes are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = as_u16(libc::AF_PACKET);
    address.sll_protocol = match protocol {
        Protocol::All => as_u16(libc::ETH_P_ALL).to_be(),
        Protocol::None => 0,
    };
    address.sll_ifindex = i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `address` lives across the call and its true size is passed.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            length_of::<libc::sockaddr_ll>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Packets a packet socket lost for want of buffer since the last call (`PACKET_STATISTICS` reads
/// and clears).
pub(crate) fn take_packet_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    raw_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics)?;
    Ok(statistics.tp_drops)
}

/// Datagrams this socket dropped for want of buffer so far, modulo 2^32 (`SO_MEMINFO`, Linux 4.12).
///
/// Unlike `SO_RXQ_OVFL`, which rides on the next datagram, it tells of the last drop as well.
pub(crate) fn socket_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`, the last of nine.
    const DROPS: usize = 8;
    let mut memory = [0_u32; DROPS + 1];
    raw_option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut memory)?;
    Ok(memory[DROPS])
}

/// Reads an option into `value`, of which every bit pattern must be valid.
fn raw_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<()> {
    let mut length = length_of::<T>();
    // SAFETY: both pointers lead to live memory, `length` is the size of the first, and both callers
    // pass plain integers, for which whatever the kernel writes is valid.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_mut(value).cast(),
            &raw mut length,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_raw_option<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` is a live `T` and its true size is passed; the kernel only reads it.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            length_of::<T>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Room for a batch of datagrams or packets, filled by one `recvmmsg(2)`.
///
/// The packet memory is allocated once; each receive allocates only its list of headers.
pub(crate) struct ReceiveBatch {
    snaplen: usize,
    data: Vec<u8>,
    slots: Vec<Slot>,
}

/// What the kernel said about one slot, apart from its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meta {
    /// Bytes kept, at most the snap length.
    pub(crate) kept: usize,
    /// Length on the wire (`MSG_TRUNC` asks the kernel for the true one).
    pub(crate) length: usize,
    /// `SCM_TIMESTAMPNS`: `CLOCK_REALTIME` in nanoseconds.
    pub(crate) stamp_ns: Option<i64>,
    /// `IP_TOS` or `IPV6_TCLASS`, where `IP_RECVTOS` or `IPV6_RECVTCLASS` asked for it.
    pub(crate) tos: Option<u8>,
    /// The sender of a datagram.
    pub(crate) source: Option<SocketAddr>,
    /// A packet socket's copy of a packet that leaves (`PACKET_OUTGOING`).
    pub(crate) outgoing: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    address: libc::sockaddr_storage,
    control: Control,
    meta: Meta,
}

/// Control messages need the alignment of `cmsghdr`; a stamp takes 32 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 128]);

impl ReceiveBatch {
    /// Room for `slots` messages (1 to 1024) of `snaplen` bytes each.
    pub(crate) fn new(slots: usize, snaplen: usize) -> Self {
        let slots = slots.clamp(1, 1024);
        // SAFETY: `sockaddr_storage` is plain integers and bytes; all zeroes are valid.
        let address: libc::sockaddr_storage = unsafe { zeroed() };
        let empty = Slot { address, control: Control([0; 128]), meta: Meta::default() };
        Self { snaplen, data: vec![0; slots * snaplen], slots: vec![empty; slots] }
    }

    /// Receives what is there without waiting; 0 when there is nothing.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (mut iovecs, mut headers) = (Vec::new(), Vec::new());
        self.describe(&mut iovecs, &mut headers);
        let slots = libc::c_uint::try_from(headers.len()).expect("at most 1024 slots");
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: `headers` holds as many entries as is said; each points to an iovec, an address
        // and a control buffer inside `iovecs`, `self.slots` and `self.data`, none of which moves or
        // is otherwise used before the call has returned. No time-out is passed.
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), slots, flags, ptr::null_mut())
        };
        let Ok(received) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            let nothing =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(0) } else { Err(error) };
        };
        for (header, slot) in headers.iter().zip(&mut self.slots).take(received) {
            slot.meta = parse(header, &slot.address, self.snaplen);
        }
        Ok(received)
    }

    /// The bytes kept and what the kernel said about message `index` of the last batch.
    pub(crate) fn message(&self, index: usize) -> (&[u8], Meta) {
        let meta = self.slots[index].meta;
        let start = index * self.snaplen;
        (&self.data[start..start + meta.kept], meta)
    }

    /// One header per slot. Both vectors are full before a pointer into the first is taken.
    fn describe(&mut self, iovecs: &mut Vec<libc::iovec>, headers: &mut Vec<libc::mmsghdr>) {
        iovecs.extend(self.data.chunks_exact_mut(self.snaplen).map(|chunk| libc::iovec {
            iov_base: chunk.as_mut_ptr().cast(),
            iov_len: chunk.len(),
        }));
        headers.extend(self.slots.iter_mut().zip(iovecs.iter_mut()).map(|(slot, iovec)| {
            // SAFETY: `mmsghdr` is integers and pointers; zero and null are valid for all.
            let mut header: libc::mmsghdr = unsafe { zeroed() };
            header.msg_hdr.msg_name = ptr::from_mut(&mut slot.address).cast();
            header.msg_hdr.msg_namelen = length_of::<libc::sockaddr_storage>();
            header.msg_hdr.msg_iov = ptr::from_mut(iovec);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = slot.control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = slot.control.0.len();
            header
        }));
    }
}

fn parse(header: &libc::mmsghdr, address: &libc::sockaddr_storage, snaplen: usize) -> Meta {
    let length = header.msg_len as usize;
    let mut meta = Meta { kept: length.min(snaplen), length, ..Meta::default() };
    (meta.source, meta.outgoing) = parse_address(address, header.msg_hdr.msg_namelen as usize);
    // SAFETY: the header was filled by the kernel and its control buffer is still alive in the slot;
    // the CMSG macros walk inside `msg_controllen` only.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
    while !message.is_null() {
        // SAFETY: not null, hence a complete, aligned `cmsghdr` inside the control buffer.
        let control = unsafe { &*message };
        // SAFETY: as above; the data follows its header.
        let data = unsafe { libc::CMSG_DATA(message) };
        if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: this type carries one `timespec`; the read needs no alignment.
            let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
            meta.stamp_ns = Some(time.tv_sec * 1_000_000_000 + time.tv_nsec);
        }
        match (control.cmsg_level, control.cmsg_type) {
            // SAFETY: this type carries one byte.
            (libc::IPPROTO_IP, libc::IP_TOS) => meta.tos = Some(unsafe { data.read() }),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: this type carries one `int`; the read needs no alignment.
                let class = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                meta.tos = u8::try_from(class).ok();
            }
            _ => {}
        }
        // SAFETY: both arguments are as the macro wants them: the header and a message inside it.
        message = unsafe { libc::CMSG_NXTHDR(&raw const header.msg_hdr, message) };
    }
    meta
}

/// The source of a datagram, and whether a packet socket's packet was leaving.
fn parse_address(address: &libc::sockaddr_storage, length: usize) -> (Option<SocketAddr>, bool) {
    let pointer = ptr::from_ref(address);
    match i32::from(address.ss_family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the family says which structure the kernel wrote; the storage is larger and
            // aligned for every socket address.
            let v4 = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            (Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into()), false)
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as for IPv4.
            let v6 = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
            (Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()), false)
        }
        // A `sockaddr_ll` as long as its hardware address: 12 bytes before it, at least.
        libc::AF_PACKET if length >= 12 => {
            // SAFETY: as for IPv4.
            let link = unsafe { &*pointer.cast::<libc::sockaddr_ll>() };
            (None, link.sll_pkttype == libc::PACKET_OUTGOING)
        }
        _ => (None, false),
    }
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("no structure passed here is 4 GB")
}

/// Protocol and family numbers are C `int`s in `libc` and 16 bits in the structures.
fn as_u16(number: i32) -> u16 {
    u16::try_from(number).expect("every AF_ and ETH_P_ constant fits 16 bits")
}
