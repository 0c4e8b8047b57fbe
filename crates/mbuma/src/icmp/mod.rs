//! ICMP: answers pings, sends errors, and handles received errors.
//!
//! Errors go to the sender of a refused packet ([`output::error`]); errors that arrive go to the tcp or udp socket
//! whose packet they are about.
//! Locks: the table of echo interceptors (UDP_TABLE); each has a queue (UDP).
//! Sources: RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 4.3, RFC 1191.

use std::sync::Arc;

use kern::{LockClass, RmLock, order};

use crate::batch::Batch;
use crate::config::Config;
use crate::ifnet::IfIndex;
use echo::EchoPcb;
use limit::Limiter;

pub(crate) mod echo;
pub(crate) mod input;
pub(crate) mod limit;
pub(crate) mod output;

static ECHO_TABLE: LockClass = LockClass::new("echo interceptors", order::UDP_TABLE);

/// ICMP's part of a stack.
#[derive(Debug)]
pub(crate) struct IcmpState {
    limiter: Limiter,
    /// Pings to the stack's own addresses are answered.
    pub(crate) echo_replies: bool,
    /// The sockets that answer pings to foreign addresses, at most one an interface.
    interceptors: RmLock<Vec<Arc<EchoPcb>>>,
}

impl IcmpState {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limiter: Limiter::new(config.icmp_errors_per_s),
            echo_replies: config.echo_replies,
            interceptors: RmLock::new(&ECHO_TABLE, Vec::new()),
        }
    }

    /// Makes `pcb` its interface's interceptor; false if there is one already.
    pub(crate) fn intercept(&self, pcb: &Arc<EchoPcb>) -> bool {
        let mut table = self.interceptors.write();
        let free = table.iter().all(|p| p.iface != pcb.iface);
        if free {
            table.push(Arc::clone(pcb));
        }
        free
    }

    /// Removes the interceptor of an owner that is gone.
    pub(crate) fn release(&self, pcb: &Arc<EchoPcb>) {
        self.interceptors.write().retain(|p| !Arc::ptr_eq(p, pcb));
    }

    pub(crate) fn interceptor(&self, iface: IfIndex) -> Option<Arc<EchoPcb>> {
        self.interceptors
            .read()
            .iter()
            .find(|p| p.iface == iface)
            .map(Arc::clone)
    }

    /// An interface is gone, and with it the pings for its interceptor.
    pub(crate) fn interface_gone(&self, batch: &mut Batch<'_>, index: IfIndex) {
        if let Some(pcb) = self.interceptor(index) {
            batch.wake(pcb.queue.cut_off());
        }
    }

    /// Whether one more error message, or one more reset for a closed port, may go out now.
    #[doc(alias = "badport_bandlim")]
    pub(crate) fn admit_error(&self, now: kern::Time) -> bool {
        self.limiter.admit(now)
    }
}
