//! The Stack: an owned handle on one network stack, without globals, threads, clock or randomness of
//! its own.
//!
//! The embedder brings time and entropy ([`Config`]), attaches devices, and drives it:
//!
//! * [`Stack::poll_interface`] takes in frames that a device received;
//! * [`Stack::poll`] runs timers that are due and says when the next one is; [`Stack::poll_timers`] those of one
//!   CPU, where several threads drive it;
//! * sockets are used from any thread.
//!
//! Called by: the runtime at the edge (the tool, the simulator, an embedding program). Calls: every
//! layer below, inside of a [`Batch`].
//!
//! Locks: `interfaces` (INTERFACES, read-mostly), `random` (RANDOM); each layer's state has its own.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use kern::{Clock, Counter, Cpus, GiantGuard, LockClass, Mutex, Random, RmLock, Time, order};
use mbuf::{MbufPool, PoolStats};
use uma::ZoneError;
use wire::MacAddr;

use crate::batch::Batch;
use crate::config::Config;
use crate::device::{Budget, Device};
use crate::drops::{DropReason, Drops};
use crate::ether::arp;
use crate::ether::arp::Neighbours;
use crate::giant::{ComponentStats, Components, GiantStats};
use crate::icmp::IcmpState;
use crate::ifnet::planted::{Bug, planted};
use crate::ifnet::{IfConfig, IfIndex, IfStats, Ifnet};
use crate::ip4::{Ip4State, loopback};
use crate::netisr::{self, Netisr, Protocol, WorkStats};
use crate::route::Routes;
use crate::rx_queue::RxQueue;
use crate::socket::TcpInfo;
use crate::tcp::{Planted, TcpState, TcpStats};
use crate::udp::UdpState;
use crate::unix::UnixState;

static INTERFACES: LockClass = LockClass::new("interfaces", order::INTERFACES);
static CPU_WAKER: LockClass = LockClass::new("cpu waker", order::PARKER);
static RANDOM: LockClass = LockClass::new("random", order::RANDOM);

/// The CPU that runs the timers which no CPU has for itself. There is always one of this number.
pub(crate) const SHARED_TIMERS_CPU: usize = 0;

/// What one device may pass on of its own before other timers run.
const DUE_BUDGET: Budget = Budget {
    frames: 64,
    bytes: 1 << 20,
};

/// A network stack: clone the handle freely, use it from any thread.
#[derive(Clone)]
pub struct Stack(pub(crate) Arc<Inner>);

/// What the layers share.
pub(crate) struct Inner {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cpus: Arc<dyn Cpus>,
    /// The waker of each CPU, for work that another CPU gave it.
    cpu_wakers: Vec<Mutex<Option<Waker>>>,
    pub(crate) pool: MbufPool,
    pub(crate) config: Config,
    /// What may need Giant.
    pub(crate) components: Components,
    pub(crate) drops: Drops,
    pub(crate) delivered: Counter,
    pub(crate) received: Counter,
    pub(crate) forwarded: Counter,
    pub(crate) routes: Routes,
    pub(crate) netisr: Netisr,
    pub(crate) ip4: Ip4State,
    pub(crate) icmp: IcmpState,
    pub(crate) udp: UdpState,
    pub(crate) tcp: TcpState,
    pub(crate) unix: Arc<UnixState>,
    /// How it talks to itself. Not in the list: it is there as long as the stack is.
    pub(crate) lo: Arc<Ifnet>,
    interfaces: RmLock<Vec<Arc<Ifnet>>>,
    /// The index that was given last. Relaxed: changed under `interfaces` only.
    last_index: AtomicU32,
    random: Mutex<Random>,
}

impl Inner {
    /// Runs `f` as one batch and does the deferred work after it.
    #[track_caller]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Batch<'_>) -> R) -> R {
        // First: the batch begins when it has its turn.
        let giant = self.config.giant.enter();
        // It stays where it is to its end: it is larger than what is done in it, mostly.
        let mut batch = Batch::new(self);
        let result = f(&mut batch);
        batch.finish();
        drop(giant);
        batch.call();
        result
    }

    /// Looks at something without a batch: under Giant as long as the guard lives, if that is over the stack.
    #[track_caller]
    pub(crate) fn look(&self) -> GiantGuard<'_> {
        self.config.giant.enter()
    }

    /// A protocol's input: under Giant as long as the guard lives, if it needs that.
    #[track_caller]
    pub(crate) fn enter_protocol(&self, protocol: Protocol) -> GiantGuard<'_> {
        let component = self.components.protocol(protocol);
        self.config.giant.enter_component(component)
    }

    /// Calls one of `ifp`'s devices: without Giant, or under it if the device needs that.
    pub(crate) fn outward<R>(&self, ifp: &Ifnet, call: impl FnOnce() -> R) -> R {
        self.config.giant.call_outward(&ifp.component, call)
    }

    /// Draws from the stack's entropy.
    pub(crate) fn random<R>(&self, f: impl FnOnce(&mut Random) -> R) -> R {
        f(&mut self.random.lock())
    }

    /// Wakes the thread that is CPU `cpu`. With no lock held.
    pub(crate) fn wake_cpu(&self, cpu: usize) {
        let astray = usize::from(self.config.tcp.has_bug(Planted::WrongCpuWoken));
        let cpu = (cpu + astray) % self.cpu_wakers.len();
        let waker = self.cpu_wakers[cpu].lock().clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Wakes the CPU that runs the timers which no CPU has for itself, unless the caller is that CPU.
    pub(crate) fn wake_timers(&self) {
        let cpu = self.cpus.current();
        if !(cpu.is_own && cpu.index == SHARED_TIMERS_CPU) {
            self.wake_cpu(SHARED_TIMERS_CPU);
        }
    }

    /// Whether `addr` is an address of this stack.
    pub(crate) fn owns(&self, addr: Ipv4Addr) -> bool {
        addr.is_loopback() || self.interfaces.read().iter().any(|ifp| ifp.owns(addr))
    }

    pub(crate) fn interface(&self, index: IfIndex) -> Option<Arc<Ifnet>> {
        if index == IfIndex::LOOPBACK {
            return Some(Arc::clone(&self.lo));
        }
        self.interfaces
            .read()
            .iter()
            .find(|ifp| ifp.index == index)
            .map(Arc::clone)
    }

    /// An index that no interface has had before: what still names one that is gone (a packet, a
    /// socket) must not find another. Counting 32 bits round passes those that are in use.
    fn new_index(&self, interfaces: &[Arc<Ifnet>]) -> IfIndex {
        loop {
            let last = self.last_index.fetch_add(1, Ordering::Relaxed);
            let index = IfIndex(last.wrapping_add(1));
            if index > IfIndex::LOOPBACK && interfaces.iter().all(|ifp| ifp.index != index) {
                return index;
            }
        }
    }
}

impl Stack {
    /// Makes a stack that can talk to itself, at 127.0.0.1 and all of 127/8, and to no other host yet.
    ///
    /// # Errors
    /// The buffer zones could not reserve their address space.
    pub fn new(mut config: Config) -> Result<Self, ZoneError> {
        let pool = MbufPool::new(config.pool)?;
        let mut random = config.random.fork();
        let mut flow_keys = config.random.fork();
        let (lo, routes) = (loopback::interface(), Routes::new());
        routes.add_connected(&lo);
        Ok(Self(Arc::new(Inner {
            clock: Arc::clone(&config.clock),
            cpu_wakers: (0..config.cpus.count())
                .map(|_| Mutex::new(&CPU_WAKER, None))
                .collect(),
            cpus: Arc::clone(&config.cpus),
            unix: Arc::new(UnixState::new(&pool, &config.unix, &config.giant)),
            pool,
            drops: Drops::new(),
            delivered: Counter::new(),
            received: Counter::new(),
            forwarded: Counter::new(),
            routes,
            lo,
            // A stream of its own: the draws of a stack with one CPU stay the same.
            netisr: Netisr::new(&config, &mut flow_keys),
            ip4: Ip4State::new(&config, &mut random),
            icmp: IcmpState::new(&config),
            udp: UdpState::new(&config, &mut random),
            tcp: TcpState::new(&config, &mut random),
            interfaces: RmLock::new(&INTERFACES, Vec::new()),
            last_index: AtomicU32::new(IfIndex::LOOPBACK.0),
            random: Mutex::new(&RANDOM, random),
            components: Components::new(),
            config,
        })))
    }

    /// Attaches a device. Its connected networks become routes. The index is new: it will never be
    /// another interface's.
    pub fn attach(&self, device: Arc<dyn Device>, config: IfConfig) -> IfIndex {
        self.attach_queues(vec![device], config)
    }

    /// Attaches a device of several queues: `devices` are its queues, all with the same capabilities. A
    /// flow's frames all leave through one of them, in order.
    ///
    /// # Panics
    /// If `devices` is empty.
    pub fn attach_queues(&self, devices: Vec<Arc<dyn Device>>, config: IfConfig) -> IfIndex {
        assert!(!devices.is_empty(), "a device has at least one queue");
        if devices.len() > 1 {
            self.0.netisr.need_flows();
        }
        let mac = config
            .mac
            .or_else(|| devices[0].mac())
            .unwrap_or_else(|| self.random_mac());
        let _giant = self.0.look();
        let mut interfaces = self.0.interfaces.write();
        let index = self.0.new_index(&interfaces);
        let neighbours = Neighbours::new(self.0.config.arp_queue_max);
        let ifp = Arc::new(Ifnet::new(index, config, mac, devices, neighbours));
        interfaces.push(Arc::clone(&ifp));
        drop(interfaces);
        self.0.routes.add_connected(&ifp);
        index
    }

    /// Takes an interface away: its routes go, and packets queued on it, in either direction, are
    /// dropped and counted. A thread that is inside of it now finishes without it.
    #[doc(alias = "if_detach")]
    pub fn detach(&self, index: IfIndex) {
        let giant = self.0.look();
        let mut interfaces = self.0.interfaces.write();
        let Some(at) = interfaces.iter().position(|ifp| ifp.index == index) else {
            return;
        };
        let ifp = interfaces.remove(at);
        drop(interfaces);
        if planted(Bug::FlushedEarly) {
            self.0.enter(|batch| ifp.neighbours.flush(batch));
        }
        if !planted(Bug::Unmarked) {
            ifp.mark_detached();
        }
        self.0.routes.remove_interface(index);
        // Routes first: a look-up from now on finds another.
        self.0.tcp.forget_interface(index);
        self.0.udp.table.forget_interface(index);
        drop(giant);
        if !planted(Bug::FlushedEarly) {
            self.0.enter(|batch| ifp.neighbours.flush(batch));
        }
        let detached = || ifp.queues.iter().map(|q| q.device.detached() as u64).sum();
        let waited = self.0.outward(&ifp, detached);
        self.0.received.add(waited);
        self.0.drops.add(DropReason::NoInterface, waited);
    }

    /// Announces an interface's addresses to all stations on its link (RFC 5227 2.3), so that a station that
    /// knew them at another place sends here from now on. An epair's end does so when it is attached;
    /// for other devices the program that knows that the link is up must.
    #[doc(alias = "arp_ifinit")]
    pub fn announce(&self, index: IfIndex) {
        if let Some(ifp) = self.0.interface(index).filter(|ifp| !ifp.is_loopback()) {
            self.0.enter(|batch| arp::announce(batch, &ifp));
        }
    }

    /// A locally administered address drawn at random.
    pub(crate) fn random_mac(&self) -> MacAddr {
        let mut bytes = [0; 6];
        self.0.random(|r| r.fill(&mut bytes));
        bytes[0] = (bytes[0] & 0xfc) | 0x02;
        MacAddr(bytes)
    }

    /// Handles packets that wait for any CPU, and runs timers that are due, of all CPUs. Returns when the next
    /// one is: call again then at the latest, or earlier if anything else was called meanwhile.
    pub fn poll(&self) -> Option<Time> {
        netisr::run_all(&self.0);
        (0..self.0.tcp.wheels.cpus()).for_each(|cpu| self.run_timers(cpu));
        self.next_deadline()
    }

    /// Runs timers of CPU `cpu` that are due: those of connections that were set there, and, on CPU 0, those
    /// of what has no CPU of its own (neighbours, reassembly, devices that pass on frames of their own). Returns when
    /// its next one is; if another thread sets an earlier one meanwhile, the CPU's [waker](Stack::set_cpu_waker) is
    /// called.
    ///
    /// # Panics
    /// If there is no such CPU: see [`Config::cpus`].
    pub fn poll_timers(&self, cpu: usize) -> Option<Time> {
        self.run_timers(cpu);
        self.next_deadline_of(cpu)
    }

    fn run_timers(&self, cpu: usize) {
        if cpu == SHARED_TIMERS_CPU {
            self.receive_due();
        }
        self.0.enter(|batch| {
            batch.stack.tcp.run_timers(batch, cpu);
            if cpu != SHARED_TIMERS_CPU {
                return;
            }
            batch.stack.ip4.run_timers(batch);
            let interfaces = batch.stack.interfaces.read().clone();
            for ifp in &interfaces {
                ifp.neighbours.run_timers(batch, ifp);
                ifp.transmit_due(batch);
            }
        });
    }

    /// Receives from devices that have frames to pass on now, though none came. What waits in a device that is broken
    /// is nothing to wait for: the next poll of it fails.
    fn receive_due(&self) {
        let now = self.now();
        let interfaces = self.0.interfaces.read();
        let due = |ifp: &&Arc<Ifnet>| ifp.device_deadline().is_some_and(|at| at <= now);
        let due: Vec<Arc<Ifnet>> = interfaces.iter().filter(due).map(Arc::clone).collect();
        drop(interfaces);
        for ifp in due {
            for queue in ifp.due_queues(now) {
                let received = RxQueue::new(&self.0, &ifp, queue).poll(DUE_BUDGET);
                drop(received);
            }
        }
    }

    /// When [`Stack::poll`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.0.netisr.waits_anywhere() {
            return Some(self.0.clock.now());
        }
        let cpus = 0..self.0.tcp.wheels.cpus();
        cpus.filter_map(|cpu| self.next_deadline_of(cpu)).min()
    }

    /// When [`Stack::poll_timers`] has something to do next for CPU `cpu`.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn next_deadline_of(&self, cpu: usize) -> Option<Time> {
        let _giant = self.0.look();
        let tcp = self.0.tcp.deadline(cpu);
        if cpu != SHARED_TIMERS_CPU {
            return tcp;
        }
        let interfaces = self.0.interfaces.read();
        let arp = interfaces.iter().filter_map(|i| i.neighbours.deadline());
        let devices = interfaces.iter().filter_map(|i| i.device_deadline());
        arp.chain(devices)
            .chain(tcp)
            .chain(self.0.ip4.deadline())
            .min()
    }

    /// Sets the waker for work that another thread gives to CPU `cpu`: packets, or a timer earlier than
    /// those it had. It stays until another takes its place.
    ///
    /// # Panics
    /// If there is no such CPU: see [`Config::cpus`].
    pub fn set_cpu_waker(&self, cpu: usize, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.0.cpu_wakers[cpu].lock(), waker);
        drop(old);
    }

    /// The stack's time now.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// The buffers that this stack uses: allocate from here what is sent.
    pub fn pool(&self) -> &MbufPool {
        &self.0.pool
    }

    /// Every TCP connection now, as `netstat -a` lists them: our end, the peer's, figures.
    pub fn connections(&self) -> Vec<(SocketAddrV4, SocketAddrV4, TcpInfo)> {
        let _giant = self.0.look();
        let all = self.0.tcp.table.all();
        all.iter()
            .map(|pcb| {
                let info = TcpInfo::of(&pcb.tcb.lock(), &self.0.tcp.config);
                (pcb.key.local, pcb.key.peer, info)
            })
            .collect()
    }

    /// What happened so far.
    pub fn stats(&self) -> StackStats {
        let _giant = self.0.look();
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

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("pool", &self.0.pool)
            .finish_non_exhaustive()
    }
}

/// A stack's figures, as `netstat -s` and `-m` show them.
#[derive(Debug, Clone)]
pub struct StackStats {
    /// Packets taken in: frames, and datagrams put together from fragments.
    pub received: u64,
    /// Packets that reached their socket or protocol.
    pub delivered: u64,
    /// Packets for other hosts, sent on: `received = delivered + dropped + forwarded`,
    /// as far as the dropped ones were on their way in.
    pub forwarded: u64,
    /// Packets dropped, by reason, on the way in or out.
    pub dropped: Vec<(DropReason, u64)>,
    /// Each interface that was attached.
    pub interfaces: Vec<IfStats>,
    /// How packets got to protocols, by CPU and protocol.
    pub netisr: Vec<WorkStats>,
    /// The loopback interface: every packet from this stack to itself.
    pub loopback: IfStats,
    /// TCP.
    pub tcp: TcpStats,
    /// Buffers.
    pub pool: PoolStats,
    /// Which components run under Giant.
    pub giant: GiantStats,
}
