//! The state of a stack: one field a layer.
//!
//! A plain list, reached through [`Batch`](crate::batch::Batch): a layer names the fields of its own and of lower
//! layers only. Locks: `interfaces` (INTERFACES, read-mostly), `random` (RANDOM), `cpu_wakers` (PARKER); each layer's
//! state has its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use kern::{Clock, Counter, Cpus, LockClass, Mutex, QuietUntil, Random, RmLock, order};
use mbuf::MbufPool;
use uma::ZoneError;
use wire::is_link_local6;

use crate::config::Config;
use crate::drops::Drops;
use crate::faults::{StackFault, planted};
use crate::giant::Components;
use crate::icmp::IcmpState;
use crate::icmp6::Icmp6State;
use crate::ifnet::{IfIndex, Ifnet};
use crate::inet::policy_table::AddressPolicy;
use crate::ip::path_mtu::PathMtus;
use crate::ip4::{Ip4State, loopback};
use crate::ip6::Ip6State;
use crate::netisr::Netisr;
use crate::route::Routes;
use crate::stack::driver::Driver;
use crate::tcp::TcpState;
use crate::udp::UdpState;
use crate::unix::UnixState;

static INTERFACES: LockClass = LockClass::new("interfaces", order::INTERFACES);
static CPU_WAKER: LockClass = LockClass::new("cpu waker", order::PARKER);
static RANDOM: LockClass = LockClass::new("random", order::RANDOM);

/// The CPU that runs the shared timers. Every stack has a CPU of this number.
pub(crate) const SHARED_TIMERS_CPU: usize = 0;

/// The state that the layers share.
pub(crate) struct StackState {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cpus: Arc<dyn Cpus>,
    /// The waker of each CPU, for work that another CPU gave it.
    pub(crate) cpu_wakers: Vec<Mutex<Option<Waker>>>,
    pub(crate) pool: MbufPool,
    pub(crate) config: Config,
    /// The components that may need Giant.
    pub(crate) components: Components,
    pub(crate) drops: Drops,
    pub(crate) delivered: Counter,
    pub(crate) received: Counter,
    pub(crate) forwarded: Counter,
    pub(crate) routes: Routes<Ipv4Addr>,
    pub(crate) routes6: Routes<Ipv6Addr>,
    pub(crate) path_mtus: PathMtus,
    /// By which sources and destinations are selected; the interfaces share it.
    pub(crate) address_policy: Arc<AddressPolicy>,
    pub(crate) netisr: Netisr,
    pub(crate) ip4: Ip4State,
    pub(crate) ip6: Ip6State,
    pub(crate) icmp: IcmpState,
    pub(crate) icmp6: Icmp6State,
    pub(crate) udp: UdpState,
    pub(crate) tcp: TcpState,
    pub(crate) unix: Arc<UnixState>,
    /// The loopback interface. Not in the list, because it exists as long as the stack.
    pub(crate) lo: Arc<Ifnet>,
    pub(crate) interfaces: RmLock<Vec<Arc<Ifnet>>>,
    /// Until when [`Stack::poll`](crate::Stack::poll) finds no timer due.
    pub(crate) quiet: QuietUntil,
    /// The last index that was given. Relaxed: changed under `interfaces` only.
    last_index: AtomicU32,
    random: Mutex<Random>,
    /// The threads that drive it, if a runtime made it.
    pub(crate) driver: OnceLock<Weak<dyn Driver>>,
    /// Its driver has ended.
    pub(crate) abandoned: AtomicBool,
}

// No code of the program (devices, wakers) runs while a lock of the stack is held, so its panics leave the state whole:
// a program may take handles into `catch_unwind`, as it may those of std.
impl UnwindSafe for StackState {}
impl RefUnwindSafe for StackState {}

impl StackState {
    /// Builds all layers' state.
    pub(crate) fn new(mut config: Config) -> Result<Self, ZoneError> {
        let pool = MbufPool::new(config.pool)?;
        let mut random = config.random.fork();
        let mut flow_keys = config.random.fork();
        let mut label_key = config.random.fork();
        let address_policy = Arc::new(AddressPolicy::new());
        let lo = loopback::interface(Arc::clone(&address_policy));
        let (routes, routes6) = (Routes::new(), Routes::new());
        routes.add_connected(&lo, &lo.addrs.list());
        routes6.add_connected(&lo, &lo.addrs6.list());
        Ok(Self {
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
            routes6,
            path_mtus: PathMtus::new(),
            address_policy,
            lo,
            // A stream of its own, so that the draws of a stack with one CPU stay the same.
            netisr: Netisr::new(&config, &mut flow_keys),
            ip4: Ip4State::new(&config, &mut random),
            ip6: Ip6State::new(&config, &mut label_key),
            icmp: IcmpState::new(&config),
            icmp6: Icmp6State::new(&config, &mut label_key),
            udp: UdpState::new(&config, &mut random),
            tcp: TcpState::new(&config, &mut random),
            interfaces: RmLock::new(&INTERFACES, Vec::new()),
            quiet: QuietUntil::new(),
            last_index: AtomicU32::new(IfIndex::LOOPBACK.0),
            random: Mutex::new(&RANDOM, random),
            components: Components::new(),
            driver: OnceLock::new(),
            abandoned: AtomicBool::new(false),
            config,
        })
    }

    /// Calls one of `ifp`'s devices: without Giant, or under it if the device needs that.
    pub(crate) fn outward<R>(&self, ifp: &Ifnet, call: impl FnOnce() -> R) -> R {
        self.config.giant.call_outward(&ifp.component, call)
    }

    /// Draws from the stack's entropy.
    pub(crate) fn random<R>(&self, f: impl FnOnce(&mut Random) -> R) -> R {
        f(&mut self.random.lock())
    }

    /// Wakes the thread that is CPU `cpu`. The caller must hold no lock.
    pub(crate) fn wake_cpu(&self, cpu: usize) {
        let astray = usize::from(planted(StackFault::WrongCpuWoken));
        let cpu = (cpu + astray) % self.cpu_wakers.len();
        let waker = self.cpu_wakers[cpu].lock().clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// A shared timer was set that may be earlier than all others: wakes the CPU that runs them, unless the caller is
    /// that CPU.
    pub(crate) fn wake_for_shared_timer(&self) {
        self.quiet.end();
        let cpu = self.cpus.current();
        if !(cpu.is_own && cpu.index == SHARED_TIMERS_CPU) {
            self.wake_cpu(SHARED_TIMERS_CPU);
        }
    }

    /// Whether packets for other hosts that come in by this interface are forwarded.
    pub(crate) fn is_router_on(&self, ifp: &Ifnet) -> bool {
        !ifp.accept_any && self.ip4.forwards()
    }

    /// Whether neighbour advertisements on this interface say that we are a router: if this stack forwards, or if one
    /// of its programs advertises a router. A host removes a router from its list if such an advertisement lacks the
    /// flag (RFC 4861 section 7.2.5).
    pub(crate) fn tells_of_router(&self, ifp: &Ifnet) -> bool {
        let sockets = &self.icmp6.sockets;
        self.is_router_on(ifp) || sockets.has(ifp.index, wire::NdpMessage::ROUTER_SOLICIT)
    }

    /// Whether `addr` is an anycast address of this interface: that of the routers of a network of its, if it is one
    /// of them (RFC 4291 section 2.6.1).
    pub(crate) fn has_anycast6(&self, ifp: &Ifnet, addr: Ipv6Addr) -> bool {
        ifp.addrs6.is_subnet_router(addr) && self.tells_of_router(ifp)
    }

    /// Whether a packet to `addr` that came in by this interface is for an anycast address of this stack. A router has
    /// them on all interfaces.
    pub(crate) fn takes_anycast6(&self, ifp: &Ifnet, addr: Ipv6Addr) -> bool {
        // The last two bits of such an address are zero, so most packets need no list.
        let is_possible = addr.to_bits().trailing_zeros() >= 2 && !addr.is_multicast();
        let is_another = || {
            let has = |other: &Arc<Ifnet>| self.has_anycast6(other, addr);
            let is_router = !is_link_local6(addr) && self.is_router_on(ifp);
            is_router && self.interfaces.read().iter().any(has)
        };
        is_possible && (self.has_anycast6(ifp, addr) || is_another())
    }

    /// Whether `addr` is an address of this stack.
    pub(crate) fn owns(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => {
                addr.is_loopback() || self.interfaces.read().iter().any(|ifp| ifp.owns(addr))
            }
            IpAddr::V6(addr) => {
                addr.is_loopback() || self.interfaces.read().iter().any(|ifp| ifp.owns6(addr))
            }
        }
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

    /// An index that no interface has had before: a packet or socket with the index of a former interface must not find
    /// another one. After a wrap of the 32 bits, indices in use are skipped.
    pub(crate) fn new_index(&self, interfaces: &[Arc<Ifnet>]) -> IfIndex {
        loop {
            let last = self.last_index.fetch_add(1, Ordering::Relaxed);
            let index = IfIndex(last.wrapping_add(1));
            if index > IfIndex::LOOPBACK && interfaces.iter().all(|ifp| ifp.index != index) {
                return index;
            }
        }
    }
}
