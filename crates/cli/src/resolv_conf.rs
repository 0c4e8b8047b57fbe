//! The host's resolv.conf: its name servers.
//!
//! Locks: none. Sources: resolv.conf(5).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use crate::sys::socket;

/// Its path on the host.
pub(crate) const PATH: &str = "/etc/resolv.conf";
/// The port of name servers.
pub(crate) const DNS_PORT: u16 = 53;
/// Their port for encrypted questions (RFC 7858; RFC 9250 for QUIC).
pub(crate) const ENCRYPTED_DNS_PORT: u16 = 853;
/// Name servers that are kept at most. The C library takes three.
pub(crate) const NAME_SERVERS_MAX: usize = 16;

/// The name servers that the host itself asks. If the file names none, or is missing, that is one on the host, as for
/// the C library.
pub(crate) fn name_servers() -> Vec<SocketAddr> {
    // A comment may be in any encoding.
    parse(&String::from_utf8_lossy(
        &fs::read(PATH).unwrap_or_default(),
    ))
}

pub(crate) fn parse(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next())?
    });
    let servers: Vec<_> = servers.filter_map(server).take(NAME_SERVERS_MAX).collect();
    match servers.is_empty() {
        true => vec![(Ipv4Addr::LOCALHOST, DNS_PORT).into()],
        false => servers,
    }
}

/// An address of either version; a link-local one may name its interface behind a percent sign.
fn server(word: &str) -> Option<SocketAddr> {
    let (addr, zone) = word.split_once('%').unwrap_or((word, ""));
    match addr.parse().ok()? {
        IpAddr::V4(ip) => Some((ip, DNS_PORT).into()),
        IpAddr::V6(ip) => {
            let scope = zone
                .parse()
                .unwrap_or_else(|_| socket::interface_index(zone));
            Some(SocketAddrV6::new(ip, DNS_PORT, 0, scope).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameservers_are_found_among_other_lines() {
        // Breaks when a usual resolv.conf leaves the guest without names.
        let text = "# nameserver 192.0.2.9\nsearch example.org\n  nameserver 192.0.2.1 # first\n\
                    nameserver\t2001:db8::53\nnameserver fe80::1%1\nnameserver nonsense\nnameserver\n\
                    options edns0\nnameserverx 192.0.2.8\n";
        let found: Vec<_> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["192.0.2.1:53", "[2001:db8::53]:53", "[fe80::1%1]:53"]
        );
        for none in ["", "options edns0\n"] {
            assert_eq!(parse(none), ["127.0.0.1:53".parse().expect("an address")]);
        }
    }
}
