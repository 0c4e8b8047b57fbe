//! Names of a network's guests: questions about them over UDP and [TCP](super::name_connections) are answered here, and
//! no resolver hears of them. Questions that can't be read go to a resolver, which knows no guest: those over TLS or
//! QUIC (port 853), and those of unusual length or form.
//!
//! | question | answer |
//! |---|---|
//! | an address of a guest's name | the guest's address of that version of IP, if it has one |
//! | another record of that name | none, but the name is there |
//! | the name of an address of the network (`in-addr.arpa`, `ip6.arpa`) | the guest's name, or that there is none |
//! | anything else | none from here: it goes to a resolver |
//!
//! Invariants: a message whose header announces more than one question with the usual extras is not read further.
//! Locks: none.
//! Sources: RFC 1035 sections 3.5 and 4.1, RFC 3596, RFC 6891.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mbuf::Chain;
use simple_dns::rdata::{A, AAAA, OPT, PTR, RData};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use crate::addressing::{Addressing, Addressing6};
use crate::guest::GuestEnd;
use crate::guests::{GuestId, GuestSpec};
use crate::resolv_conf::DNS_PORT;

/// Seconds for which an answer may be kept: a guest may be gone a moment later.
const TTL: u32 = 0;
/// The longest question with extras that programs send.
const QUESTION_MAX: usize = 512;
/// What follows the labels of a reversed address.
const REVERSED: &str = ".in-addr.arpa";
const REVERSED6: &str = ".ip6.arpa";

/// The names.
#[derive(Debug)]
pub(super) struct LocalNames {
    /// The networks, with the addresses where they are asked for.
    v4: Option<Addressing>,
    v6: Option<Addressing6>,
    guests: Vec<LocalName>,
}

#[derive(Debug)]
struct LocalName {
    id: GuestId,
    name: String,
    addr: Ipv4Addr,
    addr6: Option<Ipv6Addr>,
}

impl LocalNames {
    /// None yet, of a network whose guests have such ends.
    pub(super) fn new(guests: &GuestEnd) -> LocalNames {
        LocalNames {
            v4: guests.v4,
            v6: guests.v6,
            guests: Vec::new(),
        }
    }

    /// A guest joined.
    pub(super) fn add(&mut self, guest: &GuestSpec) {
        if let Some(name) = &guest.name {
            self.guests.push(LocalName {
                id: guest.id,
                name: name.to_ascii_lowercase(),
                addr: guest.addr,
                addr6: guest.addr6,
            });
        }
    }

    /// A guest left.
    pub(super) fn remove(&mut self, id: GuestId) {
        self.guests.retain(|guest| guest.id != id);
    }

    /// The answer to a question that was sent to `to`, if it is given here.
    pub(super) fn answer(&self, to: SocketAddr, question: &Chain) -> Option<Vec<u8>> {
        let is_short = question.len() <= QUESTION_MAX;
        let is_ours = self.is_server(to) && is_short;
        is_ours.then(|| self.answer_to(&question.to_vec()))?
    }

    /// The same for a question that was sent to the address for names.
    pub(super) fn answer_to(&self, question: &[u8]) -> Option<Vec<u8>> {
        if question.len() > QUESTION_MAX || !is_plain(question) {
            return None;
        }
        let packet = Packet::parse(question).ok()?;
        let question = packet.questions.first()?;
        let is_query = packet.opcode() == OPCODE::StandardQuery;
        if !is_query || packet.has_flags(PacketFlag::RESPONSE) {
            return None;
        }
        let name = question.qname.to_string().to_ascii_lowercase();
        let is_asked = |kind| [QTYPE::TYPE(kind), QTYPE::ANY].contains(&question.qtype);
        let found = if let Some(guest) = self.guests.iter().find(|guest| guest.name == name) {
            let v4 = RData::A(A::from(guest.addr));
            let v6 = guest.addr6.map(|addr| RData::AAAA(AAAA::from(addr)));
            let v4 = is_asked(TYPE::A).then_some(v4);
            let v6 = v6.filter(|_| is_asked(TYPE::AAAA));
            Some(v4.into_iter().chain(v6).collect())
        } else {
            let addr = reversed(&name).filter(|addr| self.has(*addr))?;
            let guest = self.guests.iter().find(|guest| guest.has(addr));
            guest.map(|guest| {
                let name = Name::new(&guest.name).ok();
                let name = name.filter(|_| is_asked(TYPE::PTR));
                name.into_iter()
                    .map(|name| RData::PTR(PTR(name)))
                    .collect::<Vec<_>>()
            })
        };
        let mut reply = packet.clone().into_reply();
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if packet.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        reply.additional_records.clear();
        *reply.opt_mut() = packet.opt().map(|_| edns());
        match found {
            Some(data) => {
                let name = question.qname.clone();
                let record = |data| ResourceRecord::new(name.clone(), CLASS::IN, TTL, data);
                reply.answers.extend(data.into_iter().map(record));
            }
            None => *reply.rcode_mut() = RCODE::NameError,
        }
        reply.build_bytes_vec().ok()
    }

    fn is_server(&self, to: SocketAddr) -> bool {
        let is_it = match to.ip() {
            IpAddr::V4(ip) => self.v4.is_some_and(|v4| v4.dns == ip),
            IpAddr::V6(ip) => self.v6.is_some_and(|v6| v6.dns == Some(ip)),
        };
        is_it && to.port() == DNS_PORT
    }

    /// Whether an address is one of the networks'.
    fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self
                .v4
                .is_some_and(|v4| wire::is_same_subnet(addr, v4.gateway, v4.prefix_len)),
            IpAddr::V6(addr) => self.v6.is_some_and(|v6| v6.contains(addr)),
        }
    }
}

impl LocalName {
    fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.addr == addr,
            IpAddr::V6(addr) => self.addr6 == Some(addr),
        }
    }
}

/// The extra of an answer to a question with EDNS (RFC 6891 section 6.1.1).
fn edns() -> OPT<'static> {
    OPT {
        opt_codes: Vec::new(),
        udp_packet_size: QUESTION_MAX as u16,
        version: 0,
    }
}

/// One question, no answers, and at most two extras, which EDNS and its signatures are.
fn is_plain(message: &[u8]) -> bool {
    let count = |at: usize| {
        message
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let counts = [count(4), count(6), count(8), count(10)];
    matches!(counts, [Some(1), Some(0), Some(0), Some(0..=2)])
}

/// The address that a name below `in-addr.arpa` or `ip6.arpa` means.
fn reversed(name: &str) -> Option<IpAddr> {
    let v4 = reversed4(name).map(IpAddr::from);
    v4.or_else(|| reversed6(name).map(IpAddr::from))
}

fn reversed6(name: &str) -> Option<Ipv6Addr> {
    let mut bits = 0;
    let mut digits = 0;
    for label in name.strip_suffix(REVERSED6)?.split('.') {
        let digit = label.parse::<char>().ok()?.to_digit(16)?;
        bits = bits >> 4 | u128::from(digit) << 124;
        digits += 1;
    }
    (digits == 32).then(|| bits.into())
}

fn reversed4(name: &str) -> Option<Ipv4Addr> {
    let octets = name.strip_suffix(REVERSED)?;
    let mut addr = [0; 4];
    let mut labels = octets.split('.');
    for octet in addr.iter_mut().rev() {
        *octet = labels.next()?.parse().ok()?;
    }
    labels.next().is_none().then(|| addr.into())
}

#[cfg(test)]
mod tests;
