//! The workers of a gateway as they see each other, beside the runtime's part: their traffic so far, and connections on
//! their way from one to another.
//!
//! Locks: a worker's share (STATS).

use std::sync::Arc;

use kern::{LockClass, Mutex, order};
use mbuma::runtime::{Inbox, WorkerPool};

use super::figures::Share;
use super::relay::Relay;
use super::table::{SourceKind, Token};

static SHARE: LockClass = LockClass::new("gateway share", order::STATS);

/// A worker each.
pub(super) struct Peers(Vec<Peer>);

struct Peer {
    share: Mutex<Share>,
    inbox: Inbox<Relay>,
}

impl Peers {
    /// The workers of `pool`.
    pub(super) fn new(pool: &WorkerPool) -> Arc<Peers> {
        let peer = |index| Peer {
            share: Mutex::new(&SHARE, Share::default()),
            inbox: Inbox::new(pool.ready(index), Token::only(SourceKind::Inbox)),
        };
        Arc::new(Peers((0..pool.len()).map(peer).collect()))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The traffic of worker `index` so far.
    pub(super) fn publish(&self, index: usize, share: Share) {
        *self.0[index].share.lock() = share;
    }

    /// The traffic of each so far, a moment ago.
    pub(super) fn shares(&self) -> Vec<Share> {
        self.0.iter().map(|peer| *peer.share.lock()).collect()
    }

    /// Connections on their way to worker `index`.
    pub(super) fn inbox(&self, index: usize) -> &Inbox<Relay> {
        &self.0[index].inbox
    }
}
