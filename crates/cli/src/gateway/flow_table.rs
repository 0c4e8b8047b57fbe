//! The UDP flows: found by token, by their ends and by their client, and by age within their group.
//!
//! Each group has a quota, and a flow beyond it ends the group's own flow that was idle longest. So a flood from
//! outside to one published port takes nothing from the guest, from its questions to name servers, or from other ports:
//!
//! | group | flows of it at most |
//! |---|---|
//! | the guest's own, a descriptor for each end of it | 4,096 of each version of IP |
//! | questions to name servers, a descriptor each | 1,024 |
//! | clients of outward ports, which are the guest's programs, a descriptor each | 4,096 |
//! | clients of a published port | a share of 4,096, the same for each port; 256 at least |
//!
//! In a network, each guest's flows of the first two rows have an age of their own, and the guest with most of them
//! loses its oldest one: a flood of one guest takes nothing from another that has fewer. A guest is an address here: it
//! has few at a time ([`AddressGuard`](super::address_guard::AddressGuard)).
//!
//! Where the limit on descriptors is low, the groups with descriptors have a part of it ([`OWN_SHARE`]), so that
//! datagrams to many addresses leave descriptors for TCP connections.
//!
//! ```text
//!   list:   oldest -> flow <-> flow <-> flow <- newest      a flow that is used becomes the newest
//! ```
//!
//! Invariants: a flow is in one list of its group, in `by_ends`, and, if it came through a published or outward port,
//! in `by_client`. One of the guest's own holds its socket in `shared_sockets`.
//! Locks: none.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use kern::Time;

use super::flow::{Flow, FlowEnds, Outlet};
use super::shared_sockets::SharedSockets;
use super::table::{SourceKind, Table, Token};
use crate::sys::pktinfo::DatagramClient;

/// Flows of one version of IP that the guest opened, at most; and of its loopback.
const OWN_MAX: usize = 4096;
/// Questions to name servers at most.
const QUESTIONS_MAX: usize = 1024;
/// One part in so many of the descriptors may be held by each of these, and by questions.
const OWN_SHARE: usize = 16;
const QUESTIONS_SHARE: usize = 32;
/// Flows of a group at least, however few descriptors there are.
const GROUP_LEAST: usize = 4;
/// Clients of all published ports at most, and of one port at least.
const CLIENTS_MAX: usize = 4096;
const CLIENTS_LEAST: usize = 256;

/// The index of a group: the first four, and then one for each port.
const OWN: usize = 0;
const OWN_V6: usize = 1;
const QUESTIONS: usize = 2;
const OUTWARD: usize = 3;
const FIRST_PORT: usize = 4;

/// The flows.
pub(super) struct FlowTable {
    flows: Table<Flow>,
    by_ends: HashMap<FlowEnds, Token>,
    by_client: HashMap<(usize, DatagramClient), Token>,
    pub(super) shared_sockets: SharedSockets,
    groups: Vec<FlowGroup>,
    lists: Vec<AgeList>,
    /// Where each flow is in its list, at its token's index.
    links: Vec<AgeLink>,
    /// The guests are several, with lists of their own.
    by_guest: bool,
}

/// Flows that share a quota.
#[derive(Debug, Default)]
struct FlowGroup {
    len: usize,
    max: usize,
    /// The indices of its lists: no more than it had flows at a time.
    lists: Vec<usize>,
}

/// Flows by age: of a group, or of one guest in it.
#[derive(Debug, Default)]
struct AgeList {
    group: usize,
    guest: Option<IpAddr>,
    oldest: Option<Token>,
    newest: Option<Token>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct AgeLink {
    list: usize,
    older: Option<Token>,
    newer: Option<Token>,
}

impl FlowTable {
    /// An empty table, with no published port, for a process that may have so many descriptors.
    pub(super) fn new(descriptors: usize) -> FlowTable {
        let group = |max: usize, share| FlowGroup {
            max: max.min(descriptors / share).max(GROUP_LEAST),
            ..FlowGroup::default()
        };
        let own = || group(OWN_MAX, OWN_SHARE);
        FlowTable {
            flows: Table::new(SourceKind::Flow),
            by_ends: HashMap::new(),
            by_client: HashMap::new(),
            shared_sockets: SharedSockets::new(),
            groups: vec![own(), own(), group(QUESTIONS_MAX, QUESTIONS_SHARE), own()],
            lists: Vec::new(),
            links: Vec::new(),
            by_guest: false,
        }
    }

    /// From now on the guests are several.
    pub(super) fn share_by_guest(&mut self) {
        self.by_guest = true;
    }

    /// Makes a group for one more published port. Groups that are fuller than they may be now lose a flow for each new
    /// one.
    pub(super) fn add_port(&mut self) {
        self.groups.push(FlowGroup::default());
        let ports = &mut self.groups[FIRST_PORT..];
        let max = (CLIENTS_MAX / ports.len()).max(CLIENTS_LEAST);
        ports.iter_mut().for_each(|port| port.max = max);
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().map(|(_, flow)| flow)
    }

    /// Those of the guest at one of these addresses.
    pub(super) fn of_guest(&self, addrs: &[IpAddr]) -> Vec<Token> {
        self.such(|flow| addrs.contains(&flow.ends.guest.ip()))
    }

    /// Those of the clients of a published or outward port.
    pub(super) fn of_port(&self, port: usize) -> Vec<Token> {
        let is_its = |(its, _): (usize, DatagramClient)| its == port;
        self.such(|flow| flow.outlet.client().is_some_and(is_its))
    }

    fn such(&self, is_such: impl Fn(&Flow) -> bool) -> Vec<Token> {
        let such = self.flows.iter().filter(|(_, flow)| is_such(flow));
        such.map(|(token, _)| token).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The flow between these ends.
    pub(super) fn between(&self, ends: &FlowEnds) -> Option<Token> {
        self.by_ends.get(ends).copied()
    }

    /// The flow of a client of a published port.
    pub(super) fn of_client(&self, port: usize, client: DatagramClient) -> Option<Token> {
        self.by_client.get(&(port, client)).copied()
    }

    /// The flow of a datagram from `peer`, or of an error about one to it, in the socket that this token leads to.
    pub(super) fn of_peer(&mut self, token: Token, peer: SocketAddr) -> Option<Token> {
        let socket = self.socket_token(token);
        let Some(ends) = self.shared_sockets.find(socket).map(|end| end.ends(peer)) else {
            // A connected one.
            return Some(socket);
        };
        let token = self.between(&ends)?;
        match self.flows.find(token)?.outlet {
            // The kernel may add a scope.
            Outlet::Shared { peer: to, .. } => {
                ((to.ip(), to.port()) == (peer.ip(), peer.port())).then_some(token)
            }
            _ => None,
        }
    }

    /// The socket that this token leads to: its own, or that of a flow.
    pub(super) fn socket(&mut self, token: Token) -> Option<BorrowedFd<'_>> {
        let socket = self.socket_token(token);
        match self.shared_sockets.find(socket) {
            Some(end) => Some(end.socket.as_fd()),
            None => self.flows.find(socket)?.outlet.socket(),
        }
    }

    fn socket_token(&mut self, token: Token) -> Token {
        match self.flows.find(token).map(|flow| &flow.outlet) {
            Some(Outlet::Shared { socket, .. }) => *socket,
            _ => token,
        }
    }

    /// The flow that `token` names, if it is still there.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut Flow> {
        self.flows.find(token)
    }

    /// The same, which is used now.
    pub(super) fn used(&mut self, token: Token, now: Time) -> Option<&mut Flow> {
        self.flows.find(token)?.last_used = now;
        let list = self.unlink(token)?;
        self.link(token, list);
        self.flows.find(token)
    }

    /// Takes out the flow that a new one with these ends and this way out has no room beside.
    pub(super) fn make_room(&mut self, ends: &FlowEnds, outlet: &Outlet) -> Option<Flow> {
        let group = self.groups.get(group_of(ends, outlet))?;
        if group.len < group.max {
            return None;
        }
        let lists = group.lists.iter().filter_map(|list| self.lists.get(*list));
        let oldest = lists.max_by_key(|list| list.len)?.oldest?;
        self.remove(oldest)
    }

    /// The token that the next [`FlowTable::insert`] gives.
    pub(super) fn next_token(&self) -> Token {
        self.flows.next_token()
    }

    /// Adds a flow, used now, for which [`FlowTable::make_room`] made room.
    pub(super) fn insert(&mut self, flow: Flow) -> Token {
        let (ends, group) = (flow.ends, group_of(&flow.ends, &flow.outlet));
        let client = flow.outlet.client();
        let token = self.flows.insert(flow);
        self.by_ends.insert(ends, token);
        if let Some(client) = client {
            self.by_client.insert(client, token);
        }
        if self.links.len() <= token.index() {
            self.links.resize(token.index() + 1, AgeLink::default());
        }
        let list = self.list_of(group, ends.guest.ip());
        self.link(token, list);
        token
    }

    /// The list for a flow of the group: one of this guest's, or a list that is empty.
    fn list_of(&mut self, group: usize, guest: IpAddr) -> usize {
        let guest = (self.by_guest && group < OUTWARD).then_some(guest);
        let own = || self.groups[group].lists.iter().copied();
        let has_some = own().find(|list| self.lists[*list].guest == guest);
        let found = has_some.or_else(|| own().find(|list| self.lists[*list].len == 0));
        let list = found.unwrap_or(self.lists.len());
        if found.is_none() {
            self.groups[group].lists.push(list);
            self.lists.push(AgeList {
                group,
                ..AgeList::default()
            });
        }
        self.lists[list].guest = guest;
        list
    }

    /// Takes a flow out.
    pub(super) fn remove(&mut self, token: Token) -> Option<Flow> {
        self.flows.find(token)?;
        self.unlink(token);
        let flow = self.flows.remove(token)?;
        self.by_ends.remove(&flow.ends);
        if let Outlet::Shared { socket, .. } = flow.outlet {
            self.shared_sockets.release(socket);
        }
        if let Some(client) = flow.outlet.client() {
            self.by_client.remove(&client);
        }
        Some(flow)
    }

    /// Takes all of them out.
    pub(super) fn clear(&mut self) {
        for token in self.such(|_| true) {
            self.remove(token);
        }
    }

    /// Makes a flow that is in no list the newest of this one.
    fn link(&mut self, token: Token, index: usize) {
        let list = &mut self.lists[index];
        let older = list.newest.replace(token);
        list.len += 1;
        self.groups[list.group].len += 1;
        match older {
            Some(older) => self.links[older.index()].newer = Some(token),
            None => list.oldest = Some(token),
        }
        self.links[token.index()] = AgeLink {
            list: index,
            older,
            newer: None,
        };
    }

    /// Takes a flow, which is there, out of its list: that list.
    fn unlink(&mut self, token: Token) -> Option<usize> {
        let AgeLink {
            list: index,
            older,
            newer,
        } = *self.links.get(token.index())?;
        let list = &mut self.lists[index];
        match older {
            Some(older) => self.links[older.index()].newer = newer,
            None => list.oldest = newer,
        }
        match newer {
            Some(newer) => self.links[newer.index()].older = older,
            None => list.newest = older,
        }
        list.len -= 1;
        self.groups[list.group].len -= 1;
        Some(index)
    }
}

/// Which group a flow with these ends and this way out is in.
fn group_of(ends: &FlowEnds, outlet: &Outlet) -> usize {
    match outlet {
        Outlet::Shared { .. } if ends.remote.is_ipv6() => OWN_V6,
        Outlet::Shared { .. } => OWN,
        Outlet::Resolver(_) => QUESTIONS,
        Outlet::Loopback { .. } => OUTWARD,
        Outlet::Inlet { index, .. } => FIRST_PORT + index,
    }
}

#[cfg(test)]
mod tests;
