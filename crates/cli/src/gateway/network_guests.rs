//! The guests of a network come and go.
//!
//! A guest that has ended may have sent data that its kernel still holds: its port stays until the guest has been silent for
//! a while, and the host has taken its data. Then its connections end, because its address may become another guest's.
//!
//! Invariants: a guest's timer is set as long as the guest is leaving.
//! Locks: none.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use kern::Time;

use super::local_names::LocalNames;
use super::network_link::NetworkLink;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use super::{BUSY_QUIET, LINGER_MAX};
use crate::guests::{GuestChange, GuestId};
use crate::say;

/// The guests.
pub(super) struct NetworkGuests {
    link: Arc<NetworkLink>,
    addrs: HashMap<GuestId, Vec<IpAddr>>,
    leaving: HashMap<GuestId, LeavingGuest>,
}

/// A guest that has ended.
struct LeavingGuest {
    since: Time,
    /// Frames that had come from it when its timer was set.
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

    /// One more, or one less.
    pub(super) fn change(
        &mut self,
        shared: &mut Shared,
        names: &mut LocalNames,
        change: GuestChange,
    ) {
        match change {
            GuestChange::Joined(guest) => {
                let spec = guest.spec.clone();
                match self.link.join(guest) {
                    Ok(()) => {
                        names.add(&spec);
                        self.addrs.insert(spec.id, spec.addrs().collect());
                    }
                    Err(e) => say(&format!("a guest gets no port of the bridge: {e}")),
                }
            }
            // One that got no port has nothing to leave.
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
    }

    /// The addresses of the guest that a timer is for.
    pub(super) fn addrs(&self, token: Token) -> Option<Vec<IpAddr>> {
        self.addrs.get(&(token.index() as GuestId)).cloned()
    }

    /// A leaving guest's timer came, which `has_more` data on its way: true if it is gone now.
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
