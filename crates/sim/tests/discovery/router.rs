//! The link's router: a stack with addresses of its own, and a program that advertises it (RFC 4861 6.2).

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::{Random, Time};
use mbuf::Chain;
use mbuma::socket::{Icmp6Datagram, Icmp6Socket};
use mbuma::{IfIndex, Membership, Stack};
use wire::{
    ALL_NODES, ALL_ROUTERS, MacAddr, NdpMessage, NdpOption, PrefixInfo, RouterAdvert, link_local_of,
};

/// The link's prefix.
pub(crate) const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);
pub(crate) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xff]);

/// The program.
pub(crate) struct Router {
    stack: Stack,
    socket: Icmp6Socket,
    _routers: Membership,
    next: Time,
}

impl Router {
    pub(crate) fn new(stack: &Stack, index: IfIndex) -> Self {
        Self {
            stack: stack.clone(),
            socket: stack
                .icmp6_bind(index, &[NdpMessage::ROUTER_SOLICIT])
                .expect("it is the only one"),
            _routers: stack.join_group(index, ALL_ROUTERS).expect("there is room"),
            next: Time::ZERO,
        }
    }

    /// Answers hosts that asked, all at once, and advertises from time to time.
    pub(crate) fn step(&mut self, now: Time, random: &mut Random) {
        let mut asked = false;
        while self.socket.recv().is_ok() {
            asked = true;
        }
        if asked || self.next <= now {
            self.advertise();
            self.next = now + Duration::from_secs(5 + random.below(10));
        }
    }

    fn advertise(&self) {
        let advert = RouterAdvert {
            hop_limit: 64,
            managed: false,
            other: false,
            lifetime: 1800,
            reachable_ms: 10_000,
            retrans_ms: 0,
        };
        let prefix = PrefixInfo {
            prefix_len: 64,
            on_link: true,
            autonomous: true,
            valid_s: 86_400,
            preferred_s: 14_400,
            prefix: PREFIX,
        };
        let options = [NdpOption::SourceLinkAddr(MAC), NdpOption::Prefix(prefix)];
        let mut out = [0; 256];
        let len = advert.emit(&options, &mut out).expect("it has room");
        let body = Chain::from_slice(self.stack.pool(), &out[..len]).expect("buffers");
        self.socket.send(Icmp6Datagram {
            src: link_local_of(MAC),
            dst: ALL_NODES,
            hop_limit: 255,
            kind: NdpMessage::ROUTER_ADVERT,
            code: 0,
            rest: advert.rest(),
            body,
        });
    }
}
