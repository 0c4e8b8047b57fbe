//! One request of rtnetlink: attributes of an interface.
//!
//! Everything else about interfaces goes by ioctls (`netdev.rs`); one message needs no crate.
//! Source: netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

use super::cvt;

/// `struct nlmsghdr` and `struct ifinfomsg`.
const HEADERS_LEN: usize = 16 + 16;

/// `IPV4_DEVCONF_ROUTE_LOCALNET` of linux/ip.h: the number of route_localnet among an interface's settings.
const ROUTE_LOCALNET: u16 = 26;
/// `IFLA_INET_CONF` of linux/if_link.h.
const INET_CONF: u16 = 1;

/// An attribute with its header: length, type, value. All of ours are whole words long.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = (4 + value.len()) as u16;
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

/// Lets packets between the interface and 127/8 pass, as the sysctl route_localnet does.
pub(super) fn route_localnet() -> Vec<u8> {
    let on = attribute(ROUTE_LOCALNET, &1_u32.to_ne_bytes());
    let of_inet = attribute(libc::AF_INET as u16, &attribute(INET_CONF, &on));
    attribute(libc::IFLA_AF_SPEC, &of_inet)
}

/// Sets an attribute of the interface with this index.
pub(super) fn set_link(index: i32, attribute: &[u8]) -> io::Result<()> {
    let style = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: takes three numbers and touches no memory.
    let fd = cvt(unsafe { libc::socket(libc::AF_NETLINK, style, libc::NETLINK_ROUTE) })?;
    // SAFETY: the kernel has just made this descriptor, and no other value owns it.
    let mut socket = unsafe { File::from_raw_fd(fd) };
    socket.write_all(&request(index, attribute))?;
    let mut answer = [0; 256];
    let len = socket.read(&mut answer)?;
    acknowledged(&answer[..len])
}

fn request(index: i32, attribute: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let len = HEADERS_LEN + attribute.len();
    let mut request = Vec::with_capacity(len);
    // Length, type and flags, sequence number, port.
    request.extend((len as u32).to_ne_bytes());
    request.extend(libc::RTM_NEWLINK.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]);
    // Family and type: unspecified; index; flags and their mask: no change.
    request.extend([0; 4]);
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(attribute);
    request
}

/// Reads the kernel's answer: NLMSG_ERROR with a negative error number, or 0 for success.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let error = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
    match error.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_and_an_acknowledgement_is_none() {
        // Breaks if the kernel's refusal is taken for success, or a short answer for either.
        let answer = |error: i32| [[0; 16].as_slice(), &error.to_ne_bytes()].concat();
        assert!(acknowledged(&answer(0)).is_ok());
        let refused = acknowledged(&answer(-libc::EPERM)).map_err(|e| e.raw_os_error());
        assert_eq!(refused, Err(Some(libc::EPERM)));
        assert!(acknowledged(&[0; 18]).is_err());
    }

    #[test]
    fn a_request_is_as_long_as_it_says() {
        // Breaks if the kernel reads past the message or skips the attribute.
        let len = attribute(libc::IFLA_TXQLEN, &10_000_u32.to_ne_bytes());
        for attribute in [len, route_localnet()] {
            let request = request(7, &attribute);
            assert_eq!(request.len(), HEADERS_LEN + attribute.len());
            assert_eq!(request[..4], (request.len() as u32).to_ne_bytes());
            assert_eq!(attribute[..2], (attribute.len() as u16).to_ne_bytes());
            assert!(set_link(i32::MAX, &attribute).is_err(), "no such interface");
        }
    }
}
