//! The policies for packets: when and by which CPU they are handled, whether under Giant, and whether packets for other
//! hosts are forwarded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use kern::giant::Component;

use crate::config::{Dispatch, Protocol};
use crate::device::Budget;
use crate::dispatch::{ALL, run};
use crate::ether::groups;
use crate::giant::GiantWaker;
use crate::netisr::WorkStats;
use crate::stack::Stack;
use crate::state::StackState;

impl Stack {
    /// How a protocol's packets are handled from now on. Packets that wait are not overtaken.
    #[doc(alias = "net.isr.dispatch")]
    pub fn set_dispatch(&self, protocol: Protocol, dispatch: Dispatch) {
        self.0.netisr.set_policy(protocol, dispatch);
    }

    /// How a protocol's packets are handled.
    pub fn dispatch(&self, protocol: Protocol) -> Dispatch {
        self.0.netisr.policy(protocol)
    }

    /// Handles packets that wait for CPU `cpu`, about as many as `budget` allows, as one batch. If it returns true,
    /// more packets wait, and the caller must call it again. The thread that is CPU `cpu` must call this when it was
    /// woken ([`Stack::set_cpu_waker`]), and before it sleeps, because packets that it queued for itself do not wake
    /// it. If other threads call it too, each packet is still handled once, and flows stay in order.
    ///
    /// A thread that is a CPU of several stacks must check each of them ([`Stack::netisr_waits`]) before it sleeps: one
    /// stack may queue packets for another by an epair, and a thread is not woken for its own work.
    ///
    /// # Panics
    /// If there is no such CPU: see [`Config::cpus`](crate::Config::cpus).
    #[doc(alias = "swi_net")]
    pub fn run_netisr(&self, cpu: usize, budget: Budget) -> bool {
        if self.0.netisr.waits(cpu) {
            self.0.enter(|batch| run(batch, cpu, budget));
        }
        self.0.netisr.waits(cpu)
    }

    /// Whether [`Stack::run_netisr`] has something to do for CPU `cpu`.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn netisr_waits(&self, cpu: usize) -> bool {
        self.0.netisr.waits(cpu)
    }

    /// Each CPU's figures of each protocol, as `netstat -Q` shows them.
    pub fn netisr_stats(&self) -> Vec<WorkStats> {
        self.0.netisr.stats()
    }

    /// Makes this stack a router, which forwards packets for other hosts, or a host again. Packets that come in on an
    /// `accept_any` interface are for this stack in any case. A router of IPv6 is in more groups, and has the anycast
    /// addresses of its networks' routers (RFC 4291 section 2.6.1): there it answers pings and datagrams, from another
    /// address, and refuses connections.
    #[doc(alias = "net.inet.ip.forwarding")]
    pub fn set_forwarding(&self, on: bool) {
        if self.0.ip4.forwarding.swap(on, Ordering::Relaxed) == on {
            return;
        }
        // Packets to an anycast address have another way from now on.
        self.0.routes6.void_kept();
        let interfaces = self.0.interfaces.read().clone();
        self.0.enter(|batch| {
            for ifp in &interfaces {
                groups::changed(batch, ifp);
            }
        });
    }

    /// Whether this stack is a router now.
    pub fn forwards(&self) -> bool {
        self.0.ip4.forwards()
    }

    /// A waker that calls `waker` under this stack's Giant, for a callback that is not MP-safe. Giant excludes all
    /// other such callbacks, and devices and protocols that are not MP-safe. `name` is for the statistics.
    ///
    /// ```
    /// use std::task::Waker;
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let waker = stack.giant_waker("old callback", Waker::noop().clone());
    /// waker.wake_by_ref();
    /// let stats = stack.stats().giant;
    /// assert_eq!(stats.components.last().map(|c| c.entered), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "CALLOUT_MPSAFE")]
    pub fn giant_waker(&self, name: impl Into<String>, waker: Waker) -> Waker {
        let component = Arc::new(Component::new(name, false));
        self.0.components.add_callback(&component);
        let giant = Arc::clone(&self.0.config.giant);
        Waker::from(Arc::new(GiantWaker {
            giant,
            component,
            waker,
        }))
    }

    /// Sets whether the input of `protocol` runs without Giant (the default) or under it. IPv4 from devices and from
    /// this stack itself count as two protocols.
    #[doc(alias = "NETISR_MPSAFE")]
    pub fn set_mp_safe(&self, protocol: Protocol, mp_safe: bool) {
        self.0.components.protocol(protocol).set_mp_safe(mp_safe);
    }
}

/// Handles all waiting packets, for a stack that one thread drives. Handling may queue new packets; after a bounded
/// number of rounds this returns true, and the caller must call again.
pub(crate) fn run_all(stack: &StackState) -> bool {
    const ROUNDS: usize = 16;
    for _ in 0..ROUNDS {
        if !stack.netisr.waits_anywhere() {
            return false;
        }
        for cpu in 0..stack.netisr.cpus() {
            if stack.netisr.waits(cpu) {
                stack.enter(|batch| run(batch, cpu, ALL));
            }
        }
    }
    stack.netisr.waits_anywhere()
}
