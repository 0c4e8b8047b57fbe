//! A client's question, and the server's reply: bytes to bytes.
//!
//! | question | reply |
//! |---|---|
//! | DISCOVER | OFFER; ACK at once if the client asks for that (RFC 4039) |
//! | REQUEST of the address that is leased | ACK |
//! | REQUEST of another | NAK |
//! | REQUEST to another server, DECLINE, RELEASE | none |
//! | INFORM | ACK without an address |
//! | BOOTP, which knows no leases | the address |
//!
//! Invariants: the client's identifier comes back as it was (RFC 6842); the mask is before the router (RFC 2132 3.3);
//! no message is longer than the client takes.
//! Locks: none. Sources: RFC 2131 sections 4.1 to 4.3, tables 3 and 4.

use std::net::Ipv4Addr;

use wire::dhcp4_option as option;
use wire::{Dhcp4Header, Dhcp4Options, Dhcp4Type, Dhcp4Writer};

use crate::gateway::search_list;

/// Seconds of a lease, until the client renews it, and until it asks any server (RFC 2131 section 4.4.5).
const LEASE_TIME: u32 = 86_400;
const RENEWAL_TIME: u32 = LEASE_TIME / 2;
const REBINDING_TIME: u32 = LEASE_TIME / 8 * 7;
/// Headers of IP and UDP, which option 57 counts.
const HEADERS_LEN: usize = 28;
/// The longest packet that each client takes (RFC 2131 section 2), and the longest that is sent.
const PACKET_MIN: u16 = 576;
const PACKET_MAX: u16 = 1500;

/// Options in the order of a client that names none.
const USUAL: &[u8] = &[
    option::ROUTER,
    option::DNS,
    option::HOST_NAME,
    option::DOMAIN_NAME,
    option::INTERFACE_MTU,
    option::BROADCAST,
    option::DOMAIN_SEARCH,
];

/// The values that a client is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct LeaseTerms {
    /// The address that is leased.
    pub(in super::super) addr: Ipv4Addr,
    pub(in super::super) prefix_len: u8,
    /// The server, which is the router.
    pub(in super::super) server: Ipv4Addr,
    /// Where names are asked for, if anywhere.
    pub(in super::super) dns: Option<Ipv4Addr>,
    pub(in super::super) mtu: u16,
    /// The client's name.
    pub(in super::super) hostname: Option<String>,
    /// Domains to search in.
    pub(in super::super) search: Vec<String>,
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dhcp4Reply {
    pub(super) to: Ipv4Addr,
    pub(super) message: Vec<u8>,
}

/// A question.
#[derive(Clone, Copy)]
struct Dhcp4Question<'a> {
    header: &'a Dhcp4Header,
    options: Dhcp4Options<'a>,
}

impl LeaseTerms {
    /// The reply to a question, if it is due one.
    pub(super) fn reply_to(&self, question: &[u8]) -> Option<Dhcp4Reply> {
        let (header, options) = Dhcp4Header::parse_request(question).ok()?;
        // There is no relay agent on the wire: an address behind one is no client's.
        if !header.relay_addr().is_unspecified() {
            return None;
        }
        let question = Dhcp4Question { header, options };
        if options.get(option::MESSAGE_TYPE).is_none() {
            return Some(self.write(question, None, self.addr));
        }
        match options.message_type()? {
            Dhcp4Type::Discover if options.get(option::RAPID_COMMIT).is_some() => {
                Some(self.write(question, Some(Dhcp4Type::Ack), self.addr))
            }
            Dhcp4Type::Discover => Some(self.write(question, Some(Dhcp4Type::Offer), self.addr)),
            Dhcp4Type::Request => self.requested(question),
            Dhcp4Type::Inform => self.informed(question),
            // The address is this guest's in any case; the others are a server's messages.
            Dhcp4Type::Decline
            | Dhcp4Type::Release
            | Dhcp4Type::Offer
            | Dhcp4Type::Ack
            | Dhcp4Type::Nak => None,
        }
    }

    /// RFC 2131 section 4.3.2.
    fn requested(&self, question: Dhcp4Question<'_>) -> Option<Dhcp4Reply> {
        let Dhcp4Question { header, options } = question;
        let chosen = options.addr(option::SERVER_ID);
        if chosen.is_some_and(|server| server != self.server) {
            return None;
        }
        let has = Some(header.client_addr()).filter(|addr| !addr.is_unspecified());
        let asked = options.addr(option::REQUESTED_ADDRESS).or(has)?;
        Some(match asked == self.addr {
            true => self.write(question, Some(Dhcp4Type::Ack), self.addr),
            false => self.refuse(question),
        })
    }

    /// A client with an address of its own asks for the rest (section 4.3.5).
    fn informed(&self, question: Dhcp4Question<'_>) -> Option<Dhcp4Reply> {
        let addr = question.header.client_addr();
        let is_near = wire::is_same_subnet(addr, self.server, self.prefix_len);
        let reply = || self.write(question, Some(Dhcp4Type::Ack), Ipv4Addr::UNSPECIFIED);
        is_near.then(reply)
    }

    fn refuse(&self, question: Dhcp4Question<'_>) -> Dhcp4Reply {
        let header = question.header.reply(Ipv4Addr::UNSPECIFIED);
        let header = header.with_client_addr(Ipv4Addr::UNSPECIFIED);
        let mut out = vec![0; question.len_max()];
        let mut writer = Dhcp4Writer::new(&mut out, &header);
        writer.put(option::MESSAGE_TYPE, &[Dhcp4Type::Nak as u8]);
        writer.put(option::SERVER_ID, &self.server.octets());
        question.identify(&mut writer);
        let len = writer.finish();
        out.truncate(len);
        Dhcp4Reply {
            to: Ipv4Addr::BROADCAST,
            message: out,
        }
    }

    /// A reply with `your` address and all that the client asks for; without a kind it is one of BOOTP's.
    fn write(
        &self,
        question: Dhcp4Question<'_>,
        kind: Option<Dhcp4Type>,
        your: Ipv4Addr,
    ) -> Dhcp4Reply {
        let mut out = vec![0; question.len_max()];
        let mut writer = Dhcp4Writer::new(&mut out, &question.header.reply(your));
        if let Some(kind) = kind {
            writer.put(option::MESSAGE_TYPE, &[kind as u8]);
            writer.put(option::SERVER_ID, &self.server.octets());
            question.identify(&mut writer);
            if !your.is_unspecified() {
                put_times(&mut writer);
            }
            // An OFFER must not have it: a client would take it for the lease.
            let at_once = question.options.message_type() == Some(Dhcp4Type::Discover);
            if at_once && kind == Dhcp4Type::Ack {
                writer.put(option::RAPID_COMMIT, &[]);
            }
        }
        writer.put(option::SUBNET_MASK, &self.mask().to_be_bytes());
        let asked = question.options.get(option::PARAMETER_LIST);
        for number in asked.unwrap_or(USUAL) {
            if let Some(value) = self.value(*number) {
                writer.put(*number, &value);
            }
        }
        let len = writer.finish();
        out.truncate(len);
        let has = question.header.client_addr();
        Dhcp4Reply {
            to: match has.is_unspecified() {
                true => Ipv4Addr::BROADCAST,
                false => has,
            },
            message: out,
        }
    }

    fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.prefix_len))
            .unwrap_or(0)
    }

    /// The value of an option that a client may ask for.
    fn value(&self, number: u8) -> Option<Vec<u8>> {
        let text = |text: &String| text.as_bytes().to_vec();
        match number {
            option::ROUTER => Some(self.server.octets().to_vec()),
            option::DNS => self.dns.map(|dns| dns.octets().to_vec()),
            option::HOST_NAME => self.hostname.as_ref().map(text),
            option::DOMAIN_NAME => self.search.first().map(text),
            option::INTERFACE_MTU => Some(self.mtu.to_be_bytes().to_vec()),
            option::BROADCAST => {
                let broadcast = self.server.to_bits() | !self.mask();
                Some(broadcast.to_be_bytes().to_vec())
            }
            option::DOMAIN_SEARCH if !self.search.is_empty() => {
                Some(search_list::encode(&self.search))
            }
            _ => None,
        }
    }
}

impl Dhcp4Question<'_> {
    /// Bytes of the longest reply.
    fn len_max(&self) -> usize {
        let asked = self.options.u16(option::MESSAGE_SIZE_MAX);
        let packet = asked.unwrap_or(PACKET_MIN).clamp(PACKET_MIN, PACKET_MAX);
        usize::from(packet) - HEADERS_LEN
    }

    /// The client finds its identifier in the reply.
    fn identify(&self, writer: &mut Dhcp4Writer<'_>) {
        if let Some(id) = self.options.get(option::CLIENT_ID) {
            writer.put(option::CLIENT_ID, id);
        }
    }
}

fn put_times(writer: &mut Dhcp4Writer<'_>) {
    let times = [
        (option::LEASE_TIME, LEASE_TIME),
        (option::RENEWAL_TIME, RENEWAL_TIME),
        (option::REBINDING_TIME, REBINDING_TIME),
    ];
    for (number, seconds) in times {
        writer.put(number, &seconds.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
