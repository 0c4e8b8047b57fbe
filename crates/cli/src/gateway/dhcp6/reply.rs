//! A client's question, and the server's reply: bytes to bytes.
//!
//! | question | reply |
//! |---|---|
//! | SOLICIT | ADVERTISE; REPLY at once if the client asks for that |
//! | REQUEST, RENEW | REPLY with the address |
//! | REBIND | the same, whichever server the lease is from |
//! | CONFIRM | REPLY that says whether the addresses are of this link |
//! | RELEASE, DECLINE | REPLY that it is done |
//! | INFORMATION-REQUEST | REPLY without an address |
//!
//! The first association of a message has the guest's address, each other one none. If no address is leased, a client
//! that asks for one gets an error in its reply.
//!
//! Invariants: the client's identifier comes back as it was; a question for another server, or without the identifiers
//! that its kind must have, has no reply (section 16); a reply fits the smallest MTU.
//! Locks: none.
//! Sources: RFC 9915 sections 16, 18.3 and 21.

use std::net::Ipv6Addr;

use wire::dhcp6_option as option;
use wire::dhcp6_status as status;
use wire::{Dhcp6Association, Dhcp6Header, Dhcp6Options, Dhcp6Type, Dhcp6Writer};

use crate::gateway::search_list;

/// Seconds for which an address is preferred, and valid; until the client renews the lease (T1), and until it asks any
/// server (T2).
const PREFERRED: u32 = 14_400;
const VALID: u32 = 86_400;
const RENEWAL: u32 = PREFERRED / 2;
const REBINDING: u32 = PREFERRED / 5 * 4;
/// Seconds until a client without a lease asks again.
const REFRESH: u32 = 86_400;
/// The longest reply: that of the smallest MTU, less the headers of IPv6 and UDP.
const REPLY_MAX: usize = 1280 - 48;

/// The values that a client is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Dhcp6Terms {
    /// The address that is leased, if one is.
    pub(in super::super) addr: Option<Ipv6Addr>,
    /// An address of the link's network, and the length of its prefix.
    pub(in super::super) network: (Ipv6Addr, u8),
    /// The server's address on the link.
    pub(in super::super) server: Ipv6Addr,
    /// The server's DUID: the same after a restart, so that leases can be renewed.
    pub(in super::super) server_id: [u8; 10],
    /// The name server, if there is one.
    pub(in super::super) dns: Option<Ipv6Addr>,
    /// Domains to search in.
    pub(in super::super) search: Vec<String>,
}

/// A question that has the identifiers that it must have.
#[derive(Clone, Copy)]
struct Dhcp6Question<'a> {
    header: Dhcp6Header,
    client_id: Option<&'a [u8]>,
    options: Dhcp6Options<'a>,
}

impl Dhcp6Terms {
    /// The reply to a question, if it must have one.
    pub(super) fn reply_to(&self, question: &[u8]) -> Option<Vec<u8>> {
        let question = self.parse(question)?;
        let is_here = match question.header.kind {
            Dhcp6Type::Confirm => Some(self.confirmed(question)?),
            _ => None,
        };
        let rapid = question.options.get(option::RAPID_COMMIT).is_some();
        let kind = match question.header.kind {
            Dhcp6Type::Solicit if !rapid => Dhcp6Type::Advertise,
            _ => Dhcp6Type::Reply,
        };
        let header = Dhcp6Header {
            kind,
            ..question.header
        };
        let mut out = vec![0; REPLY_MAX];
        let mut writer = Dhcp6Writer::new(&mut out, &header);
        writer.put(option::SERVER_ID, &self.server_id);
        if let Some(id) = question.client_id {
            writer.put(option::CLIENT_ID, id);
        }
        match question.header.kind {
            Dhcp6Type::Confirm => {
                let code = is_here.unwrap_or(status::SUCCESS);
                put_status(&mut writer, code);
            }
            Dhcp6Type::Release | Dhcp6Type::Decline => {
                put_status(&mut writer, status::SUCCESS);
            }
            Dhcp6Type::InformationRequest => self.put_values(&mut writer, question),
            _ => {
                if kind == Dhcp6Type::Reply && question.header.kind == Dhcp6Type::Solicit {
                    writer.put(option::RAPID_COMMIT, &[]);
                }
                self.put_leases(&mut writer, question);
                self.put_values(&mut writer, question);
            }
        }
        let len = writer.finish();
        out.truncate(len);
        Some(out)
    }

    /// The question, if it may have a reply (section 16).
    fn parse<'a>(&self, question: &'a [u8]) -> Option<Dhcp6Question<'a>> {
        let (header, options) = Dhcp6Header::parse(question).ok()?;
        let client_id = options.get(option::CLIENT_ID);
        let server_id = options.get(option::SERVER_ID);
        let is_ours = server_id == Some(&self.server_id);
        let is_complete = match header.kind {
            Dhcp6Type::Solicit | Dhcp6Type::Confirm | Dhcp6Type::Rebind => {
                client_id.is_some() && server_id.is_none()
            }
            Dhcp6Type::Request | Dhcp6Type::Renew | Dhcp6Type::Release | Dhcp6Type::Decline => {
                client_id.is_some() && is_ours
            }
            Dhcp6Type::InformationRequest => {
                let mut associations = [option::IA_NA, option::IA_PD].into_iter();
                let asks_for_one = associations.any(|code| options.get(code).is_some());
                (server_id.is_none() || is_ours) && !asks_for_one
            }
            // A server's messages.
            Dhcp6Type::Advertise | Dhcp6Type::Reply | Dhcp6Type::Reconfigure => false,
        };
        is_complete.then_some(Dhcp6Question {
            header,
            client_id,
            options,
        })
    }

    /// Whether all addresses of a CONFIRM are of this link; nothing if it has none (section 18.3.3).
    fn confirmed(&self, question: Dhcp6Question<'_>) -> Option<u16> {
        let (near, prefix_len) = self.network;
        let mut addrs = question.associations(option::IA_NA).flat_map(|a| a.addrs());
        let is_near = |addr| wire::is_same_prefix(addr, near, prefix_len);
        let first = addrs.next()?;
        Some(match is_near(first) && addrs.all(is_near) {
            true => status::SUCCESS,
            false => status::NOT_ON_LINK,
        })
    }

    /// An association for each that the client named.
    fn put_leases(&self, writer: &mut Dhcp6Writer<'_>, question: Dhcp6Question<'_>) {
        let asks_again = matches!(question.header.kind, Dhcp6Type::Renew | Dhcp6Type::Rebind);
        let refusal = |code| if asks_again { status::NO_BINDING } else { code };
        let mut addr = self.addr;
        for association in question.associations(option::IA_NA) {
            match addr.take() {
                Some(addr) => put_lease(writer, &association, addr, asks_again),
                None => put_refusal(
                    writer,
                    option::IA_NA,
                    &association,
                    refusal(status::NO_ADDRS_AVAIL),
                ),
            };
        }
        for association in question.associations(option::IA_PD) {
            let code = refusal(status::NO_PREFIX_AVAIL);
            put_refusal(writer, option::IA_PD, &association, code);
        }
    }

    /// The other values that the client asks for.
    fn put_values(&self, writer: &mut Dhcp6Writer<'_>, question: Dhcp6Question<'_>) {
        if let Some(dns) = self.dns.filter(|_| question.asks_for(option::DNS_SERVERS)) {
            writer.put(option::DNS_SERVERS, &dns.octets());
        }
        if !self.search.is_empty() && question.asks_for(option::DOMAIN_LIST) {
            writer.put(option::DOMAIN_LIST, &search_list::encode(&self.search));
        }
        let is_for_information = question.header.kind == Dhcp6Type::InformationRequest;
        if is_for_information && question.asks_for(option::REFRESH_TIME) {
            writer.put(option::REFRESH_TIME, &REFRESH.to_be_bytes());
        }
    }
}

impl<'a> Dhcp6Question<'a> {
    /// The associations of this kind that are whole.
    fn associations(&self, kind: u16) -> impl Iterator<Item = Dhcp6Association<'a>> + use<'a> {
        let options = self.options.filter(move |(code, _)| *code == kind);
        options.filter_map(|(_, value)| Dhcp6Association::parse(value).ok())
    }

    fn asks_for(&self, code: u16) -> bool {
        let asked = self.options.get(option::OPTION_REQUEST).unwrap_or(&[]);
        asked.as_chunks().0.contains(&code.to_be_bytes())
    }
}

/// An association with the address. A client that has others is told to use them no more (section 18.3.4).
fn put_lease(
    writer: &mut Dhcp6Writer<'_>,
    association: &Dhcp6Association<'_>,
    addr: Ipv6Addr,
    asks_again: bool,
) -> bool {
    let value = association_value(association, RENEWAL, REBINDING);
    writer.put_with(option::IA_NA, &value, |inner| {
        let fits = inner.put(option::IA_ADDR, &addr_value(addr, PREFERRED, VALID));
        let others = association
            .addrs()
            .filter(|other| asks_again && *other != addr);
        // One that has no room is not confirmed either.
        for other in others {
            inner.put(option::IA_ADDR, &addr_value(other, 0, 0));
        }
        fits
    })
}

/// An association without an address or prefix, and the reason.
fn put_refusal(
    writer: &mut Dhcp6Writer<'_>,
    kind: u16,
    association: &Dhcp6Association<'_>,
    code: u16,
) -> bool {
    let value = association_value(association, 0, 0);
    writer.put_with(kind, &value, |inner| put_status(inner, code))
}

fn put_status(writer: &mut Dhcp6Writer<'_>, code: u16) -> bool {
    writer.put(option::STATUS_CODE, &code.to_be_bytes())
}

/// The part of an association before its options.
fn association_value(association: &Dhcp6Association<'_>, t1: u32, t2: u32) -> Vec<u8> {
    [association.id, t1.to_be_bytes(), t2.to_be_bytes()].concat()
}

/// The value of [`option::IA_ADDR`].
fn addr_value(addr: Ipv6Addr, preferred: u32, valid: u32) -> Vec<u8> {
    let lifetimes = [preferred.to_be_bytes(), valid.to_be_bytes()].concat();
    [&addr.octets()[..], &lifetimes].concat()
}

#[cfg(test)]
mod tests;
