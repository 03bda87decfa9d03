//! A network namespace of the test's own, with nothing in it but `lo`, up, with the MTU of an
//! Ethernet.

use std::fs;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use rustix::thread::UnshareFlags;

/// Moves the calling thread there; as an ordinary user it must be the only thread.
pub(crate) fn enter() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() || unshare(UnshareFlags::NEWNET).is_err() {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare(UnshareFlags::NEWUSER)?;
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &format!("0 {} 1", user.as_raw()))?;
        write("/proc/self/gid_map", &format!("0 {} 1", group.as_raw()))?;
        // Only now: the files under /proc/net/netfilter (mode 0440) belong to whoever is root in
        // the user namespace when the network namespace is made, and nobody is before it is mapped.
        unshare(UnshareFlags::NEWNET)?;
    }
    bring_up()
}

#[expect(deprecated, reason = "the one that is unsafe is so for CLONE_FILES, which is not used")]
fn unshare(flags: UnshareFlags) -> Result<(), String> {
    rustix::thread::unshare(flags).map_err(|error| format!("namespaces are refused: {error}"))
}

fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}"))
}

/// `RTM_NEWLINK` for interface 1, which is `lo` in every network namespace.
fn bring_up() -> Result<(), String> {
    let mut request = 40_u32.to_ne_bytes().to_vec();
    request.extend([RTM_NEWLINK.to_ne_bytes(), REQUEST_ACK.to_ne_bytes()].concat());
    // Sequence number, address, then family and type; then interface, flags, flags to change.
    for part in [0, 0, 0, 1, IFF_UP, IFF_UP] {
        request.extend(part.to_ne_bytes());
    }
    request.extend([8_u16.to_ne_bytes(), IFLA_MTU.to_ne_bytes()].concat());
    request.extend(1500_u32.to_ne_bytes());
    let answer = ask(&request).map_err(|error| format!("cannot ask to bring lo up: {error}"))?;
    match answer.get(16..20) {
        Some([0, 0, 0, 0]) => Ok(()),
        other => Err(format!("cannot bring lo up: {other:?}")),
    }
}

fn ask(request: &[u8]) -> Result<Vec<u8>, rustix::io::Errno> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    rustix::net::send(&socket, request, SendFlags::empty())?;
    let mut answer = vec![0; 4096];
    let (length, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

const RTM_NEWLINK: u16 = 16;
const REQUEST_ACK: u16 = 5;
const IFF_UP: u32 = 1;
const IFLA_MTU: u16 = 4;
