//! A stack's counters.

use std::sync::Arc;

use mbuf::PoolStats;

use crate::drops::DropReason;
use crate::giant::{ComponentStats, GiantStats};
use crate::ifnet::{IfStats, Ifnet};
use crate::netisr::WorkStats;
use crate::stack::Stack;
use crate::tcp::{TcpHistogram, TcpStats};

impl Stack {
    /// The counts so far.
    ///
    /// ```
    /// # let stack = mbuma::Stack::new(mbuma::Config::from_system())?;
    /// stack.udp_bind("127.0.0.1:0")?.send_to(b"nobody listens there", "127.0.0.1:9")?;
    /// let stats = stack.stats();
    /// assert_eq!(stats.received, stats.ended());
    /// for (reason, packets) in &stats.dropped {
    ///     println!("{packets} packets dropped: {reason}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> StackStats {
        let _giant = self.0.enter_giant();
        let interfaces = self.0.interfaces.read().clone();
        StackStats {
            received: self.0.received.get(),
            delivered: self.0.delivered.get(),
            forwarded: self.0.forwarded.get(),
            dropped: self.0.drops.nonzero(),
            interfaces: interfaces.iter().map(|i| i.stats()).collect(),
            netisr: self.netisr_stats(),
            loopback: self.0.lo.stats(),
            tcp: self.0.tcp.stats(),
            tcp_histograms: self.0.tcp.histograms.get(),
            pool: self.0.pool.stats(),
            giant: self.giant_stats(&interfaces),
        }
    }

    fn giant_stats(&self, interfaces: &[Arc<Ifnet>]) -> GiantStats {
        let devices = interfaces
            .iter()
            .map(|ifp| ComponentStats::device(&ifp.component));
        GiantStats {
            over_all: self.0.config.giant.is_over_all(),
            components: devices.chain(self.0.components.stats()).collect(),
        }
    }
}

/// A stack's figures, as `netstat -s` and `-m` show them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StackStats {
    /// Packets taken in: frames, and datagrams put together from fragments.
    pub received: u64,
    /// Packets that reached their socket or protocol.
    pub delivered: u64,
    /// Forwarded packets.
    pub forwarded: u64,
    /// Packets dropped, by reason, on the way in or out.
    pub dropped: Vec<(DropReason, u64)>,
    /// Each interface that was attached.
    pub interfaces: Vec<IfStats>,
    /// How packets were dispatched, by CPU and protocol.
    pub netisr: Vec<WorkStats>,
    /// The loopback interface: every packet from this stack to itself.
    pub loopback: IfStats,
    /// TCP.
    pub tcp: TcpStats,
    /// Figures of TCP connections at their end.
    pub tcp_histograms: Vec<TcpHistogram>,
    /// Buffers.
    pub pool: PoolStats,
    /// The components that run under Giant.
    pub giant: GiantStats,
}

impl StackStats {
    /// Received packets that ended: delivered, forwarded, or dropped on their way in. Equal to
    /// [`received`](Self::received) whenever no packet waits inside of the stack.
    pub fn ended(&self) -> u64 {
        let inward = self.dropped.iter().filter(|(r, _)| !r.is_outward());
        let dropped: u64 = inward.map(|(_, n)| n).sum();
        self.delivered + self.forwarded + dropped
    }
}
