//! The state that the UNIX-domain sockets of one stack share.
//!
//! Locks: those of its parts.

use std::sync::{Arc, OnceLock, Weak};

use kern::Giant;
use kern::prim::{AtomicU64, AtomicUsize, Ordering};
use mbuf::MbufPool;

use super::flight::Flight;
use super::name::Names;
use crate::config::UnixConfig;
use crate::state::StackState;

/// Names, sockets in flight, limits.
pub(crate) struct UnixState {
    pub(super) pool: MbufPool,
    pub(super) config: UnixConfig,
    pub(super) giant: Arc<Giant>,
    pub(super) names: Names,
    pub(super) flight: Flight,
    /// The stack that it is a part of.
    stack: OnceLock<Weak<StackState>>,
    /// Relaxed: the ids only have to differ.
    next_id: AtomicU64,
    /// Relaxed: read by statistics.
    sockets: AtomicUsize,
}

/// Figures about the UNIX-domain sockets of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnixStats {
    /// Sockets whose memory is in use.
    #[doc(alias = "net.local.sockcount")]
    pub sockets: usize,
    /// Sockets in messages that were not received yet, and connections that were not accepted yet.
    #[doc(alias = "net.local.inflight")]
    pub in_flight: usize,
    /// Sockets that were closed because they could not be received any more.
    pub collected: u64,
}

impl UnixState {
    pub(crate) fn new(pool: &MbufPool, config: &UnixConfig, giant: &Arc<Giant>) -> Self {
        Self {
            pool: pool.clone(),
            config: config.clone(),
            names: Names::new(giant),
            flight: Flight::new(giant),
            stack: OnceLock::new(),
            next_id: AtomicU64::new(1),
            sockets: AtomicUsize::new(0),
            giant: Arc::clone(giant),
        }
    }

    /// Sets the stack that it is a part of.
    pub(crate) fn belongs_to(&self, stack: &Arc<StackState>) {
        let _ = self.stack.set(Arc::downgrade(stack));
    }

    /// The stack that it is a part of, if that has handles still.
    pub(super) fn stack(&self) -> Option<Arc<StackState>> {
        self.stack.get()?.upgrade()
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn opened(&self) {
        self.sockets.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) {
        self.sockets.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> UnixStats {
        UnixStats {
            sockets: self.sockets.load(Ordering::Relaxed),
            in_flight: self.flight.len(),
            collected: self.flight.collected(),
        }
    }
}
