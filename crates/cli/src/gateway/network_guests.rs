//! The guests of a network join and leave.
//!
//! A guest that has ended may have sent data that its kernel still holds: its port stays until the guest has been
//! silent for a while, and the host has taken its data. Then its connections end, because its address may become
//! another guest's.
//!
//! Invariants: a guest's timer is set as long as the guest is leaving.
//! Locks: none.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use kern::Time;

use super::local_names::LocalNames;
use super::network_link::NetworkLink;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use super::{BUSY_QUIET, LINGER_MAX};
use crate::guests::{GuestChange, GuestId};

/// The guests.
pub(super) struct NetworkGuests {
    link: Arc<NetworkLink>,
    addrs: HashMap<GuestId, Vec<IpAddr>>,
    leaving: HashMap<GuestId, LeavingGuest>,
}

/// A guest that has ended.
struct LeavingGuest {
    since: Time,
    /// Frames from it by the time when its timer was set.
    frames: u64,
}

impl NetworkGuests {
    /// None yet.
    pub(super) fn new(link: Arc<NetworkLink>) -> NetworkGuests {
        NetworkGuests {
            link,
            addrs: HashMap::new(),
            leaving: HashMap::new(),
        }
    }

    /// A guest joins or leaves.
    ///
    /// # Errors
    /// It gets no port of the bridge.
    pub(super) fn change(
        &mut self,
        shared: &mut Shared,
        names: &mut LocalNames,
        change: GuestChange,
    ) -> io::Result<()> {
        match change {
            GuestChange::Joined(guest) => {
                let spec = guest.spec.clone();
                self.link.join(guest)?;
                names.add(&spec);
                self.addrs.insert(spec.id, spec.addrs().collect());
            }
            // A guest without a port has nothing to remove.
            GuestChange::Left(id) if !self.addrs.contains_key(&id) => {}
            GuestChange::Left(id) => {
                names.remove(id);
                let leaving = LeavingGuest {
                    since: shared.now(),
                    frames: self.link.frames_of(id).unwrap_or(0),
                };
                self.leaving.insert(id, leaving);
                shared.after(BUSY_QUIET, Token::nth(SourceKind::Guest, id));
            }
        }
        Ok(())
    }

    /// The address of IPv6 of the guest that has this one.
    pub(super) fn v6_of(&self, addr: Ipv4Addr) -> Option<IpAddr> {
        let its = |addrs: &&Vec<IpAddr>| addrs.contains(&addr.into());
        let addrs = self.addrs.values().find(its)?;
        addrs.iter().find(|addr| addr.is_ipv6()).copied()
    }

    /// The addresses of the guest that a timer is for, but for those that a later guest has.
    pub(super) fn addrs(&self, token: Token) -> Option<Vec<IpAddr>> {
        let id = token.index() as GuestId;
        let mut addrs = self.addrs.get(&id)?.clone();
        let later = || self.addrs.iter().filter(|(other, _)| **other > id);
        addrs.retain(|addr| !later().any(|(_, its)| its.contains(addr)));
        Some(addrs)
    }

    /// The timer of a leaving guest fired; `has_more`: its data is still being delivered. Returns true if the guest is
    /// removed now.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token, has_more: bool) -> bool {
        let id = token.index() as GuestId;
        let now = shared.now();
        let Some(leaving) = self.leaving.get_mut(&id) else {
            return false;
        };
        let frames = self.link.frames_of(id).unwrap_or(leaving.frames);
        let is_busy = has_more || frames != leaving.frames;
        if is_busy && now - leaving.since < LINGER_MAX {
            leaving.frames = frames;
            shared.after(BUSY_QUIET, token);
            return false;
        }
        self.leaving.remove(&id);
        self.link.leave(id);
        self.addrs.remove(&id);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use kern::{Clock, MonotonicClock};

    use super::super::test_gateway;
    use super::*;
    use crate::guest::GuestEnd;
    use crate::guests::{GuestSpec, JoinedGuest};
    use crate::sys::tap::Offloads;

    fn joined(id: GuestId, tap: OwnedFd) -> GuestChange {
        let spec = GuestSpec {
            id,
            addr: [10, 0, 2, 100].into(),
            addr6: Some([0xfd00, 0, 0, 0, 0, 0, 0, id as u16].into()),
            name: None,
            offloads: Offloads::default(),
        };
        GuestChange::Joined(JoinedGuest { spec, tap })
    }

    #[test]
    fn a_guest_that_could_not_join_is_not_waited_for() {
        // Breaks if the end of a guest that got no port sets a timer: no frame of it can come, and its address may be
        // that of a guest that lives.
        let (mut shared, _) = test_gateway::start();
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let link = NetworkLink::new(1500, &clock, shared.stack.pool()).expect("a descriptor");
        let mut guests = NetworkGuests::new(Arc::new(link));
        let mut names = LocalNames::new(&GuestEnd::usual());
        let mut change = |change, shared: &mut Shared, guests: &mut NetworkGuests| {
            guests.change(shared, &mut names, change)
        };
        // A file that can't be waited for.
        let refused = File::open("/dev/null").expect("it is there").into();
        let refused = change(joined(1, refused), &mut shared, &mut guests);
        assert!(refused.is_err());
        let left = change(GuestChange::Left(1), &mut shared, &mut guests);
        left.expect("there is nothing to remove");
        assert!(guests.leaving.is_empty() && guests.addrs.is_empty());
        // A guest that has joined has one.
        let (ours, _guests) = UnixDatagram::pair().expect("two descriptors");
        let joins = change(joined(2, ours.into()), &mut shared, &mut guests);
        joins.expect("it gets a port");
        let left = change(GuestChange::Left(2), &mut shared, &mut guests);
        left.expect("it is there");
        assert!(guests.leaving.contains_key(&2));
        // Breaks when the connections of a guest end with those of an earlier one, which had its address and still
        // delivers data.
        let (ours, _guests) = UnixDatagram::pair().expect("two descriptors");
        let joins = change(joined(3, ours.into()), &mut shared, &mut guests);
        joins.expect("it gets a port");
        let of = |id| guests.addrs(Token::nth(SourceKind::Guest, id));
        let v6 = |id| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, id]);
        assert_eq!(of(2), Some(vec![v6(2)]));
        assert_eq!(of(3), Some(vec![[10, 0, 2, 100].into(), v6(3)]));
    }
}
