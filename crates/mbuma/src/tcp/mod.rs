//! TCP: connections whose data stays in mbuf chains from socket to device and back.
//!
//! ```text
//!   inward                                       outward
//!   input   parse, find the connection           output   what to send next, one rule a step
//!     listen    SYN for a listener                 segment   headers before shared clusters
//!     handshake the SYNs of both ends
//!     steps     RFC 9293 3.10.7.4, in order      timers   what time makes happen; wheels: when
//!       ack       what was acknowledged          time_wait, orphans   without a program
//!       text      data, in order or not
//!     path_mtu  ICMP errors about our segments
//!                both
//!   options       what each segment carries; timestamps
//!   ack_policy    when the receiver acknowledges; reass: what it reports
//!   pace          how fast new data leaves
//!   sent          what is in flight              recovery  losses: rack finds them, tlp asks; cc: windows
//! ```
//!
//! A connection is an [`Inpcb`](pcb::Inpcb): its key, which never changes, and a [`Tcb`](pcb::Tcb) under one lock. A
//! step never sends: steps leave marks, and at the end of the batch each marked connection gets one turn ([`visit`]).
//!
//! Locks: `table` shards (CONN_TABLE), each connection (CONN), accept queues (ACCEPT_QUEUE), `wheels`, one a
//! CPU (CALLOUT), listeners (LISTENERS).
//!
//! Sources: RFC 9293 (TCP), 7323 (timestamps, window scale), 2018 and 2883 (SACK), 6298 (RTO), 5681 and 6582 (NewReno),
//! 8985 (RACK-TLP), 9937 (PRR), 5682 (F-RTO), 3168 and 9768 (ECN), 8899 (path MTU), 5961 (blind attacks), 6528 (initial
//! sequence numbers), 6056 (ports), 1122 4.2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kern::{Counter, Figure, KeyedHash, Random, Time, Unit};
use wire::SeqNum;

use crate::batch::Batch;
use crate::config::{Config, TcpConfig};
use crate::faults::{StackFault, planted};
use crate::ifnet::IfIndex;
use crate::inet::{Ends, dynamic_ports};
use pcb::{Inpcb, Predecessor};
use table::ConnectionTable;
use timestamps::TimestampClock;
use wheels::Wheels;

pub(crate) mod accept;
mod ack;
mod ack_policy;
pub mod cc;
mod challenge_acks;
mod cookies;
pub(crate) mod due;
mod ecn;
mod handshake;
pub(crate) mod histograms;
pub(crate) mod info;
pub(crate) mod input;
mod listen;
mod min_rtt;
#[cfg(all(test, shuttle))]
#[path = "../models/tcp.rs"]
mod models;
pub(crate) mod options;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod pace;
mod path_mtu;
pub(crate) mod pcb;
mod rack;
mod rate;
mod reass;
mod record_ends;
pub(crate) mod recovery;
mod recv_state;
mod recv_tuner;
pub(crate) mod reset;
mod rtt;
mod segment;
mod send_clocks;
mod send_state;
mod sent;
pub(crate) mod spliced;
mod state;
mod steps;
pub(crate) mod table;
mod tcb;
mod text;
pub(crate) mod time_wait;
pub(crate) mod timers;
mod timestamps;
mod tlp;
pub(crate) mod urgent;
pub(crate) mod user_options;
pub(crate) mod visit;
mod wheels;

pub use accept::TcpListenerInfo;
pub use histograms::TcpHistogram;
pub use info::{EcnBytes, TcpInfo};
pub use pcb::State;
pub use recovery::RecoveryPhase;
pub use user_options::TcpSocketOptions;

/// TCP's part of a stack.
pub(crate) struct TcpState {
    pub(crate) config: TcpConfig,
    pub(crate) table: ConnectionTable,
    pub(crate) listeners: accept::Listeners,
    pub(crate) counters: Counters,
    pub(crate) histograms: histograms::EndHistograms,
    time_wait: time_wait::TimeWait,
    pub(crate) orphans: orphans::Orphans,
    pub(crate) wheels: Wheels,
    pub(crate) idle_splices: spliced::IdleSplices,
    isn_secret: KeyedHash,
    port_secret: KeyedHash,
    timestamp_secret: KeyedHash,
    cookies: cookies::Cookies,
    pub(crate) failed_offers: ecn::FailedOffers,
    /// Next offset of the port search, shared by all threads; any value is correct.
    port_next: AtomicUsize,
}

impl TcpState {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            config: config.tcp.clone(),
            table: ConnectionTable::new(random),
            listeners: accept::Listeners::new(random),
            counters: Counters::default(),
            histograms: histograms::EndHistograms::default(),
            time_wait: time_wait::TimeWait::new(),
            orphans: orphans::Orphans::new(),
            wheels: Wheels::new(config.cpus.count(), config.clock.now()),
            idle_splices: spliced::IdleSplices::new(),
            isn_secret: KeyedHash::new(random),
            port_secret: KeyedHash::new(random),
            port_next: AtomicUsize::new(random.next_u32() as usize),
            timestamp_secret: KeyedHash::new(random),
            cookies: cookies::Cookies::new(random),
            failed_offers: ecn::FailedOffers::new(),
        }
    }

    /// The initial sequence number: a clock of 4 microseconds plus a keyed hash of the connection,
    /// so that no outsider can guess it and no incarnation overlaps the one before (RFC 6528 3).
    pub(crate) fn initial_sequence(&self, ends: &Ends, now: Time) -> SeqNum {
        let clock = (now.as_nanos() / 4_000) as u32;
        let hash = ends.with_bytes(|bytes| self.isn_secret.hash(bytes)) as u32;
        SeqNum(clock.wrapping_add(hash))
    }

    /// The same for a connection that replaces one in TIME-WAIT: larger than all sequence numbers of the old one (RFC
    /// 1122 4.2.2.13, RFC 9293 3.6.1). The clock alone would fall behind a transfer of more than 250 kB/s.
    pub(crate) fn initial_sequence_after(
        &self,
        ends: &Ends,
        now: Time,
        old: Option<&Predecessor>,
    ) -> SeqNum {
        /// A blind attacker does not know the old connection's last sequence number.
        const GAP: u32 = 1 << 16;
        let iss = self.initial_sequence(ends, now);
        match old {
            Some(old) if !iss.after(old.snd_max) => old.snd_max + GAP,
            _ => iss,
        }
    }

    /// The timestamps of a connection. All connections of two ends have the same offset, which reveals nothing about
    /// those of other ends (RFC 7323 7.1).
    pub(crate) fn timestamps(&self, ends: &Ends) -> TimestampClock {
        let offset = ends.with_bytes(|bytes| self.timestamp_secret.hash(bytes)) as u32;
        TimestampClock::new(self.config.timestamps).with_offset(offset)
    }

    /// A free port of ours for a connection between these ends (RFC 6056 3.3.3, 3.3.5): the start is a keyed hash of
    /// the destination, so ports of different destinations reveal nothing about each other. Each next port is a few
    /// numbers further, by a step that depends on the key, so the ports of one destination reveal neither the next port
    /// nor the number of other connections.
    pub(crate) fn free_port(&self, ends: Ends) -> Option<u16> {
        const STEP_MAX: u64 = 16;
        let probe = ends.with_local_port(0);
        let offset = probe.with_bytes(|bytes| self.port_secret.hash(bytes)) as usize;
        // Relaxed: only the start of a search; the table decides which connection gets the port.
        let last = self.port_next.load(Ordering::Relaxed);
        let step = 1 + self.port_secret.hash(&last.to_le_bytes()) % STEP_MAX;
        let from = self.port_next.fetch_add(step as usize, Ordering::Relaxed);
        let is_free = |&port: &u16| self.table.lookup(&ends.with_local_port(port)).is_none();
        dynamic_ports(offset.wrapping_add(from)).find(is_free)
    }

    /// Removes this connection from the table, which may already have a successor with its key; false if another thread
    /// removed it.
    pub(crate) fn remove(&self, pcb: &Arc<Inpcb>) -> bool {
        let by_key = planted(StackFault::LostSuccessor);
        (self.table).remove_if(&pcb.ends(), |found| by_key || Arc::ptr_eq(found, pcb))
    }

    /// Runs the connection timers of `cpu` that are due.
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>, cpu: usize) {
        for entry in self.wheels.turn(cpu, batch.now) {
            timers::expired(batch, &entry);
        }
        time_wait::sweep(batch);
    }

    /// Removes the kept routes through this interface from all connections.
    pub(crate) fn forget_interface(&self, index: IfIndex) {
        let all = self.table.all();
        all.iter()
            .for_each(|pcb| visit::begin(pcb).route.forget(index));
    }

    /// The earliest time at which a connection timer of `cpu` may be due.
    pub(crate) fn deadline(&self, cpu: usize) -> Option<Time> {
        self.wheels.deadline(cpu)
    }

    pub(crate) fn stats(&self) -> TcpStats {
        self.counters.stats(self.table.len())
    }
}

/// Declares each counter once, for counting and for display.
macro_rules! counters {
    ($($name:ident: $unit:ident, $help:literal;)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            fn stats(&self, connections: usize) -> TcpStats {
                TcpStats { connections, $($name: self.$name.get(),)* }
            }
        }

        /// TCP's figures, as `netstat -s -p tcp` shows them.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct TcpStats {
            /// Connections in the table now, in any state.
            pub connections: usize,
            $(#[doc = $help] pub $name: u64,)*
        }

        impl TcpStats {
            /// The counters, each with its declaration, in the order of the fields.
            pub fn figures(&self) -> impl Iterator<Item = (Figure, u64)> {
                let figure = |name, unit, help| Figure { name, unit, help };
                [$((figure(stringify!($name), Unit::$unit, $help), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    opened_active: Count, "Connections that this side began.";
    opened_passive: Count, "Connections that the peer began.";
    established: Count, "Connections that became established.";
    refused: Count, "Connection attempts that were refused, or had no listener.";
    closed: Count, "Connections that ended.";
    resets_in: Count, "Connections that a reset from the peer ended.";
    resets_out: Count, "Resets sent.";
    timed_out: Count, "Connections given up because the peer stayed silent.";
    segments_in: Count, "Segments received for a connection or listener.";
    segments_out: Count, "Segments sent; one cut by a device counts once.";
    bytes_in: Bytes, "Bytes received in order.";
    bytes_out: Bytes, "Bytes sent for the first time.";
    retransmitted_segments: Count, "Segments sent again.";
    retransmitted_bytes: Bytes, "Bytes sent again.";
    timeouts: Count, "Retransmission timeouts.";
    fast_retransmits: Count, "Recoveries that acknowledgements began: losses repaired before a timeout.";
    tail_loss_probes: Count, "Segments sent to learn whether the last ones of a flight were lost (RFC 8985).";
    spurious_recoveries: Count, "Recoveries and timeouts that were undone because nothing had been lost.";
    black_holes: Count, "Paths that seemed to drop full-sized segments without an error (RFC 8899 4.3).";
    mtu_probes: Count, "Segments sent larger than usual, to learn whether the path carries them (RFC 8899).";
    mtu_probes_acked: Count, "Of these, those that arrived.";
    reneged: Count, "Peers that dropped data which they had reported by SACK (RFC 2018 8).";
    ecn_reductions: Count, "Windows made smaller because a router had marked congestion (RFC 3168).";
    duplicate_acks: Count, "Duplicate acknowledgements received.";
    out_of_order: Count, "Segments that arrived out of order.";
    duplicate_bytes: Bytes, "Bytes that arrived more than once.";
    zero_window_probes: Count, "Probes of a closed window.";
    keepalive_probes: Count, "Keepalive probes.";
    challenge_acks: Count, "Challenge acknowledgements (RFC 5961).";
    cookies_sent: Count, "SYNs answered with a cookie: half-open connections were at their bound (RFC 4987 3.6).";
    cookies_taken: Count, "Connections made when such a cookie came back.";
    syns_evicted: Count, "Half-open connections evicted for newer ones: many mean a flood of SYNs (RFC 4987).";
    orphans_reset: Count, "Connections without a program that were reset for newer ones, or for buffers (RFC 6429).";
}
