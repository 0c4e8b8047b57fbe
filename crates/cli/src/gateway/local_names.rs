//! Names of a network's guests: questions about them are answered here, and no resolver hears of them.
//!
//! | question | answer |
//! |---|---|
//! | the address of a guest's name | the guest's address |
//! | another record of that name | none, but the name is there |
//! | the name of an address of the network (`in-addr.arpa`) | the guest's name, or that there is none |
//! | anything else | none from here: it goes to a resolver |
//!
//! Called by: udp. Calls: the crate `simple_dns`.
//! Invariants: a message whose header announces more than one question with the usual extras is not read further.
//! Locks: none. Sources: RFC 1035 sections 3.5 and 4.1.

use std::net::{Ipv4Addr, SocketAddr};

use mbuf::Chain;
use simple_dns::rdata::{A, PTR, RData};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use crate::guests::{GuestId, GuestSpec};

/// Seconds for which an answer may be kept: a guest may be gone a moment later.
const TTL: u32 = 0;
/// The longest question with extras that programs send.
const QUESTION_MAX: usize = 512;
/// What precedes the labels of a name in a reversed address.
const REVERSED: &str = ".in-addr.arpa";

/// The names.
#[derive(Debug)]
pub(super) struct LocalNames {
    /// Where they are asked for.
    server: SocketAddr,
    prefix_len: u8,
    guests: Vec<LocalName>,
}

#[derive(Debug)]
struct LocalName {
    id: GuestId,
    name: String,
    addr: Ipv4Addr,
}

impl LocalNames {
    /// None yet, for questions to `server`, an address of the network.
    pub(super) fn new(server: SocketAddr, prefix_len: u8) -> LocalNames {
        LocalNames {
            server,
            prefix_len,
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
        let is_ours = to == self.server && is_short;
        is_ours.then(|| self.answer_to(&question.to_vec()))?
    }

    fn answer_to(&self, question: &[u8]) -> Option<Vec<u8>> {
        if !is_plain(question) {
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
            let data = RData::A(A::from(guest.addr));
            Some(is_asked(TYPE::A).then_some(data))
        } else {
            let addr = reversed(&name).filter(|addr| self.has(*addr))?;
            let guest = self.guests.iter().find(|guest| guest.addr == addr);
            guest.map(|guest| {
                let name = Name::new(&guest.name).ok()?;
                is_asked(TYPE::PTR).then_some(RData::PTR(PTR(name)))
            })
        };
        let mut reply = packet.clone().into_reply();
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if packet.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        match found {
            Some(data) => {
                let name = question.qname.clone();
                let record = |data| ResourceRecord::new(name, CLASS::IN, TTL, data);
                reply.answers.extend(data.map(record));
            }
            None => *reply.rcode_mut() = RCODE::NameError,
        }
        reply.build_bytes_vec().ok()
    }

    fn has(&self, addr: Ipv4Addr) -> bool {
        let SocketAddr::V4(server) = self.server else {
            return false;
        };
        wire::is_same_subnet(addr, *server.ip(), self.prefix_len)
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

/// The address that a name below `in-addr.arpa` means.
fn reversed(name: &str) -> Option<Ipv4Addr> {
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
