//! The router of the guest's network advertises itself to guests that solicit routers.
//!
//! Until a guest solicits, nothing is sent, because no guest needs it: the guests of `mbuma run` have their addresses
//! and routes already. After that it is also advertised to all from time to time ([`schedule`]).
//!
//! Invariants: a question costs one answer at most; [`TURN_MAX`] are answered in a turn; no lifetime ends before some
//! advertisements have been sent again.
//! Locks: none.
//! Sources: RFC 4861 sections 6.1.1 and 6.2, RFC 8106.

mod schedule;

use std::error::Error;
use std::net::Ipv6Addr;
use std::sync::Arc;

use kern::{CalloutId, Random, Time};
use mbuf::Chain;
use mbuma::runtime::TaskWaker;
use mbuma::socket::{Icmp6Datagram, Icmp6Socket};
use mbuma::{IfIndex, Membership, Stack};
use wire::{ALL_NODES, ALL_ROUTERS, MacAddr, NdpMessage, NdpOption, PrefixInfo, RouterAdvert};

use super::search_list;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use schedule::AdvertSchedule;

const TOKEN: Token = Token::only(SourceKind::RouterAdverts);
/// Questions that are answered in a turn at most.
const TURN_MAX: usize = 16;
/// The hop limit of each message (RFC 4861 section 4.2), and the one that guests are to send with.
const HOP_LIMIT: u8 = 255;
const CUR_HOP_LIMIT: u8 = 64;
/// Seconds for which it is a default router, and a name server: three times the longest pause between two
/// advertisements (RFC 4861 section 6.2.1, RFC 8106 section 5.1).
const ROUTER_LIFETIME: u16 = 3 * schedule::INTERVAL_MAX.as_secs() as u16;
/// Seconds for which addresses are preferred, and valid.
const PREFERRED: u32 = 14_400;
const VALID: u32 = 86_400;
/// The option of domains to search in (RFC 8106 section 5.2).
const DNSSL: u8 = 31;
/// The longest advertisement, behind the ICMP header: that of the smallest MTU.
const BODY_MAX: usize = 1280 - 48;

/// The values for guests.
#[derive(Clone, Debug)]
pub(super) struct AdvertTerms {
    /// The router's address on the link.
    pub(super) router: Ipv6Addr,
    /// Its Ethernet address.
    pub(super) mac: MacAddr,
    /// An address of the link's network, and the length of its prefix.
    pub(super) network: (Ipv6Addr, u8),
    /// Of the link.
    pub(super) mtu: u16,
    /// The name server, if there is one.
    pub(super) dns: Option<Ipv6Addr>,
    /// Domains to search in.
    pub(super) search: Vec<String>,
}

/// The router's advertisements.
pub(super) struct RouterAdverts {
    socket: Icmp6Socket,
    _routers: Membership,
    stack: Stack,
    wake: Arc<TaskWaker>,
    terms: AdvertTerms,
    schedule: AdvertSchedule,
    timer: Option<CalloutId>,
}

impl RouterAdverts {
    /// Advertises on these terms to guests that ask on `index`.
    pub(super) fn new(
        shared: &Shared,
        index: IfIndex,
        terms: AdvertTerms,
    ) -> Result<RouterAdverts, Box<dyn Error + Send + Sync>> {
        let stack = shared.stack.clone();
        let socket = stack.icmp6_bind(index, &[NdpMessage::ROUTER_SOLICIT])?;
        let wake = shared.wake_for(TOKEN);
        socket.set_waker(Some(wake.waker()));
        Ok(RouterAdverts {
            socket,
            _routers: stack.join_group(index, ALL_ROUTERS)?,
            stack,
            wake,
            terms,
            schedule: AdvertSchedule::new(Random::from_os()),
            timer: None,
        })
    }

    /// Answers questions that came.
    pub(super) fn answer(&mut self, shared: &mut Shared) {
        for _ in 0..TURN_MAX {
            let Ok(question) = self.socket.recv() else {
                return;
            };
            if is_valid(&question) {
                self.solicited(shared, question.src);
            }
        }
        self.wake.wake();
    }

    fn solicited(&mut self, shared: &mut Shared, guest: Ipv6Addr) {
        // There is no unicast to a guest without an address.
        let to_all = guest.is_unspecified();
        self.schedule.solicited(shared.now(), to_all);
        if !to_all {
            self.advertise(guest, ROUTER_LIFETIME);
            shared.counters.router_adverts += 1;
        }
        self.timer(shared);
    }

    /// Advertises to all, if an advertisement is due.
    pub(super) fn timer(&mut self, shared: &mut Shared) {
        let now = shared.now();
        if self.schedule.take_due(now) {
            self.advertise(ALL_NODES, ROUTER_LIFETIME);
            shared.counters.router_adverts += 1;
        }
        if let Some(timer) = self.timer.take() {
            shared.context.cancel(timer);
        }
        let next = self.schedule.next();
        self.timer = next.map(|at: Time| shared.context.schedule(at, TOKEN));
    }

    /// The router ends: advertises that to guests that may use it.
    pub(super) fn close(&mut self) {
        if self.schedule.next().is_some() {
            self.advertise(ALL_NODES, 0);
        }
    }

    fn advertise(&self, to: Ipv6Addr, lifetime: u16) {
        let advert = RouterAdvert {
            hop_limit: CUR_HOP_LIMIT,
            managed: false,
            other: true,
            lifetime,
            reachable_ms: 0,
            retrans_ms: 0,
        };
        let mut out = [0; BODY_MAX];
        let written = self.terms.write(&advert, &mut out);
        let body = written.and_then(|len| out.get(..len));
        // Without a buffer it is lost, as on a wire.
        if let Some(Ok(body)) = body.map(|body| Chain::from_slice(self.stack.pool(), body)) {
            self.socket.send(Icmp6Datagram {
                src: self.terms.router,
                dst: to,
                hop_limit: HOP_LIMIT,
                kind: NdpMessage::ROUTER_ADVERT,
                code: 0,
                rest: advert.rest(),
                body,
            });
        }
    }
}

impl AdvertTerms {
    /// Writes an advertisement behind its ICMP header.
    fn write(&self, advert: &RouterAdvert, out: &mut [u8]) -> Option<usize> {
        let (prefix, prefix_len) = self.network;
        let prefix = PrefixInfo {
            prefix_len,
            on_link: true,
            autonomous: true,
            valid_s: VALID,
            preferred_s: PREFERRED,
            prefix,
        };
        let mut options = vec![
            NdpOption::SourceLinkAddr(self.mac),
            NdpOption::Mtu(u32::from(self.mtu)),
            NdpOption::Prefix(prefix),
        ];
        let lifetime = u32::from(advert.lifetime);
        let servers: Vec<_> = self.dns.iter().map(Ipv6Addr::octets).collect();
        if !servers.is_empty() {
            options.push(NdpOption::Rdnss {
                lifetime,
                servers: &servers,
            });
        }
        let names = search_list::encode(&self.search);
        let body = [&[0; 2], &lifetime.to_be_bytes()[..], &names].concat();
        let with_names = NdpOption::Other {
            kind: DNSSL,
            body: &body,
        };
        if !names.is_empty() {
            options.push(with_names);
        }
        // If the domains do not fit they are left out: the addresses and the route are more important.
        advert
            .emit(&options, out)
            .or_else(|| advert.emit(options.split_last()?.1, out))
    }
}

/// The checks that the stack leaves to a router: a station without an address can't say where it is (RFC 4861
/// section 6.1.1).
fn is_valid(question: &Icmp6Datagram) -> bool {
    let bytes = question.body.to_vec();
    let parsed = NdpMessage::parse(question.kind, question.rest, &bytes);
    match parsed {
        Ok(NdpMessage::RouterSolicit { options }) => {
            !question.src.is_unspecified() || options.source().is_none()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
