//! A client of DHCP or DHCPv6: it asks for a lease and gets it, again and again.
//!
//! ```text
//!   IPv4:  DISCOVER -> <- OFFER      REQUEST -> <- ACK       from port 68 to all, port 67
//!   IPv6:  Solicit  -> <- Advertise  Request -> <- Reply     from port 546 to ff02::1:2, port 547
//! ```
//!
//! The interface has its addresses already and keeps them: the kernel delivers the answers, and the client sets
//! nothing.

use super::bulk::PATIENCE;
use super::client::nanos;
use super::designs::interface;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};
use wire::{
    Dhcp4Header, Dhcp4Type, Dhcp4Writer, Dhcp6Header, Dhcp6Type, Dhcp6Writer, MacAddr,
    dhcp4_option, dhcp6_option, duid_of,
};

/// The time that each lease took, from the first question to the last answer, in nanoseconds.
pub(super) fn leases(ip6: bool, reading: Duration) -> io::Result<Vec<u32>> {
    let client = Client::new(ip6)?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < reading || times.is_empty() {
        let one = Instant::now();
        let number = times.len() as u32 + 1;
        match ip6 {
            true => client.lease6(number)?,
            false => client.lease4(number)?,
        }
        times.push(nanos(one.elapsed()));
    }
    Ok(times)
}

struct Client {
    socket: UdpSocket,
    servers: SocketAddr,
}

impl Client {
    fn new(ip6: bool) -> io::Result<Self> {
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
        let (own, servers) = match ip6 {
            true => {
                let servers = SocketAddrV6::new(all, 547, 0, interface()?);
                ((Ipv6Addr::UNSPECIFIED, 546).into(), servers.into())
            }
            false => (
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, 68)),
                SocketAddr::from((Ipv4Addr::BROADCAST, 67)),
            ),
        };
        let socket = UdpSocket::bind(own)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        if !ip6 {
            socket.set_broadcast(true)?;
        }
        Ok(Self { socket, servers })
    }

    fn lease4(&self, number: u32) -> io::Result<()> {
        let header = Dhcp4Header::request(number, MAC);
        let ask = |kind, options: &[(u8, [u8; 4])], due| {
            let mut message = [0; MESSAGE_MAX];
            let mut writer = Dhcp4Writer::new(&mut message, &header);
            let mut fits = writer.put(dhcp4_option::MESSAGE_TYPE, &[kind as u8]);
            for (option, value) in options {
                fits &= writer.put(*option, value);
            }
            let len = writer.finish();
            assert!(fits, "a question of a few options");
            self.ask(&message[..len], |answer| {
                let (header, options) = Dhcp4Header::parse_reply(answer).ok()?;
                let is_it = header.xid() == number && options.message_type() == Some(due);
                let server = options.addr(dhcp4_option::SERVER_ID)?;
                is_it.then(|| (header.your_addr(), server))
            })
        };
        let (yours, server) = ask(Dhcp4Type::Discover, &[], Dhcp4Type::Offer)?;
        let accepted = [
            (dhcp4_option::REQUESTED_ADDRESS, yours.octets()),
            (dhcp4_option::SERVER_ID, server.octets()),
        ];
        ask(Dhcp4Type::Request, &accepted, Dhcp4Type::Ack).map(drop)
    }

    fn lease6(&self, number: u32) -> io::Result<()> {
        let [_, transaction @ ..] = number.to_be_bytes();
        let ask = |kind, options: &[(u16, &[u8])], due| {
            let mut message = [0; MESSAGE_MAX];
            let mut writer = Dhcp6Writer::new(&mut message, &Dhcp6Header { kind, transaction });
            let mut fits = writer.put(dhcp6_option::CLIENT_ID, &duid_of(MAC));
            for (option, value) in options {
                fits &= writer.put(*option, value);
            }
            let len = writer.finish();
            assert!(fits, "a question of a few options");
            self.ask(&message[..len], |answer| {
                let (header, options) = Dhcp6Header::parse(answer).ok()?;
                let is_it = header.kind == due && header.transaction == transaction;
                let server = options.get(dhcp6_option::SERVER_ID)?.to_vec();
                let lease = options.get(dhcp6_option::IA_NA)?.to_vec();
                is_it.then_some((server, lease))
            })
        };
        let wanted: (_, &[u8]) = (dhcp6_option::IA_NA, &[0; 12]);
        let (server, lease) = ask(Dhcp6Type::Solicit, &[wanted], Dhcp6Type::Advertise)?;
        let accepted: [(u16, &[u8]); 2] = [
            (dhcp6_option::SERVER_ID, &server),
            (dhcp6_option::IA_NA, &lease),
        ];
        ask(Dhcp6Type::Request, &accepted, Dhcp6Type::Reply).map(drop)
    }

    /// Sends a question, and waits for the answer to it.
    fn ask<T>(&self, question: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        self.socket.send_to(question, self.servers)?;
        let mut answer = [0; MESSAGE_MAX];
        loop {
            let len = self.socket.recv(&mut answer)?;
            if let Some(found) = read(&answer[..len]) {
                return Ok(found);
            }
        }
    }
}

/// The client, to the server.
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x68]);
/// Bytes of a message at most.
const MESSAGE_MAX: usize = 1500;
