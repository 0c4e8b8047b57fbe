//! Requests of rtnetlink: attributes of an interface, an IPv6 address, a route.
//!
//! The rest goes by ioctls (`netdev.rs`), which know no addresses that are good without a probe; three messages need no
//! crate.
//! Source: netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// `IFLA_INET6_ADDR_GEN_MODE` of linux/if_link.h, and its value for "none".
const ADDR_GEN_MODE: u16 = 8;
const GEN_MODE_NONE: u8 = 1;

/// `IPV4_DEVCONF_ROUTE_LOCALNET` of linux/ip.h: the number of route_localnet among an interface's settings.
const ROUTE_LOCALNET: u16 = 26;
/// `IFLA_INET_CONF` of linux/if_link.h.
const INET_CONF: u16 = 1;

/// An attribute with its header: length, type, value; padded to whole words, which the length does not count.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = (4 + value.len()) as u16;
    let mut whole = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    whole.resize(whole.len().next_multiple_of(4), 0);
    whole
}

/// Lets packets between the interface and 127/8 pass, as the sysctl route_localnet does.
pub(super) fn route_localnet() -> Vec<u8> {
    let on = attribute(ROUTE_LOCALNET, &1_u32.to_ne_bytes());
    let of_inet = attribute(libc::AF_INET as u16, &attribute(INET_CONF, &on));
    attribute(libc::IFLA_AF_SPEC, &of_inet)
}

/// Lets the kernel make no link-local address by itself.
pub(super) fn no_link_local() -> Vec<u8> {
    let none = attribute(ADDR_GEN_MODE, &[GEN_MODE_NONE]);
    let of_inet6 = attribute(libc::AF_INET6 as u16, &none);
    attribute(libc::IFLA_AF_SPEC, &of_inet6)
}

/// Sets an attribute of the interface with this index.
pub(super) fn set_link(index: i32, attribute: &[u8]) -> io::Result<()> {
    // Family and type: unspecified; index; flags and their mask: no change.
    let body = [&[0; 4][..], &index.to_ne_bytes(), &[0; 8], attribute].concat();
    ask(libc::RTM_NEWLINK, 0, &body)
}

/// Adds an address to the interface with this index, good at once: no other station is asked whether it has it.
pub(super) fn add_addr6(index: i32, addr: Ipv6Addr, prefix_len: u8) -> io::Result<()> {
    let flags = libc::IFA_F_NODAD as u8;
    // Family, length of the prefix, flags, scope: the kernel's choice; index.
    let fixed = [libc::AF_INET6 as u8, prefix_len, flags, 0];
    let local = attribute(libc::IFA_LOCAL, &addr.octets());
    let body = [&fixed[..], &index.to_ne_bytes(), &local].concat();
    ask(
        libc::RTM_NEWADDR,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        &body,
    )
}

/// A route by the interface with this index.
pub(super) struct RouteMessage {
    pub(super) index: i32,
    /// A network: its address, and the length of its prefix.
    pub(super) to: (IpAddr, u8),
    /// On the interface's link; without one, so are the destinations.
    pub(super) gateway: Option<IpAddr>,
    pub(super) metric: u32,
}

/// Adds a route.
pub(super) fn add_route(route: &RouteMessage) -> io::Result<()> {
    let (network, prefix_len) = route.to;
    let (family, origin, flags) = match network {
        // As the ioctl SIOCADDRT does: an older route of another gateway stays.
        IpAddr::V4(_) => (libc::AF_INET, libc::RTPROT_BOOT, libc::NLM_F_CREATE),
        IpAddr::V6(_) => (
            libc::AF_INET6,
            libc::RTPROT_STATIC,
            libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        ),
    };
    let scope = match route.gateway {
        Some(_) => libc::RT_SCOPE_UNIVERSE,
        None => libc::RT_SCOPE_LINK,
    };
    // Family, lengths of the destination's and source's prefixes, type of service; table, origin, scope, type; flags.
    let kind = libc::RTN_UNICAST;
    let table = libc::RT_TABLE_MAIN;
    let fixed = [family as u8, prefix_len, 0, 0, table, origin, scope, kind];
    let to = (prefix_len > 0).then_some(network);
    let address = |kind, addr: Option<IpAddr>| match addr {
        Some(IpAddr::V4(addr)) => attribute(kind, &addr.octets()),
        Some(IpAddr::V6(addr)) => attribute(kind, &addr.octets()),
        None => Vec::new(),
    };
    let attributes = [
        address(libc::RTA_DST, to),
        address(libc::RTA_GATEWAY, route.gateway),
        attribute(libc::RTA_OIF, &route.index.to_ne_bytes()),
        attribute(libc::RTA_PRIORITY, &route.metric.to_ne_bytes()),
    ];
    let body = [&fixed[..], &[0; 4], &attributes.concat()].concat();
    ask(libc::RTM_NEWROUTE, flags, &body)
}

/// Sends a request, and waits for its acknowledgement.
fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    let (family, style) = (AddressFamily::NETLINK, SocketType::RAW);
    // No protocol is NETLINK_ROUTE.
    let mut socket = File::from(socket_with(family, style, SocketFlags::CLOEXEC, None)?);
    socket.write_all(&request(kind, flags, body))?;
    let mut answer = [0; 256];
    let len = socket.read(&mut answer)?;
    acknowledged(&answer[..len])
}

fn request(kind: u16, flags: libc::c_int, body: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
    let len = HEADER_LEN + body.len();
    let mut request = Vec::with_capacity(len);
    // Length, type and flags, sequence number, port.
    request.extend((len as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
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
        // Breaks if the kernel reads past the message or skips the attribute, one of an odd length above all.
        let len = attribute(libc::IFLA_TXQLEN, &10_000_u32.to_ne_bytes());
        for attribute in [len, route_localnet(), no_link_local()] {
            let request = request(libc::RTM_NEWLINK, 0, &attribute);
            assert_eq!(request.len(), HEADER_LEN + attribute.len());
            assert_eq!(request[..4], (request.len() as u32).to_ne_bytes());
            assert_eq!(attribute[..2], (attribute.len() as u16).to_ne_bytes());
            assert!(set_link(i32::MAX, &attribute).is_err(), "no such interface");
        }
        assert_eq!(
            attribute(1, &[7]),
            [5_u16.to_ne_bytes(), 1_u16.to_ne_bytes(), [7, 0], [0, 0]].concat()
        );
        let addr = Ipv6Addr::LOCALHOST;
        assert!(add_addr6(i32::MAX, addr, 64).is_err(), "no such interface");
        let route = RouteMessage {
            index: i32::MAX,
            to: (addr.into(), 128),
            gateway: Some(addr.into()),
            metric: 1,
        };
        assert!(add_route(&route).is_err(), "no such interface");
    }
}
