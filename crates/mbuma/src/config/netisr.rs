//! The settings of netisr: its protocols, when their packets are handled, and how many may wait.

/// The protocols that netisr tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// IPv4 packets from devices.
    #[doc(alias = "NETISR_IP")]
    Ip4 = 0,
    /// ARP.
    #[doc(alias = "NETISR_ARP")]
    Arp = 1,
    /// IP packets from this stack to itself.
    #[doc(alias = "if_simloop")]
    Loopback = 2,
    /// IPv6 packets from devices.
    #[doc(alias = "NETISR_IPV6")]
    Ip6 = 3,
}

/// How many there are.
pub(crate) const PROTOCOLS: usize = 4;

impl Protocol {
    /// Each of them.
    pub const ALL: [Self; PROTOCOLS] = [Self::Ip4, Self::Arp, Self::Loopback, Self::Ip6];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip4 => "ip4",
            Self::Arp => "arp",
            Self::Loopback => "loopback",
            Self::Ip6 => "ip6",
        }
    }
}

/// When and where packets are handled. A flow's packets stay in order under each, and when it changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dispatch {
    /// At once, by the thread that brings them in: nothing is queued, no CPU is woken, the packet is still in the
    /// cache. Where a device has a queue for each CPU, its queues spread the packets.
    #[default]
    #[doc(alias = "NETISR_DISPATCH_DIRECT")]
    Direct = 0,
    /// At once if the caller is the CPU of the packet's flow, else by that CPU.
    #[doc(alias = "NETISR_DISPATCH_HYBRID")]
    Hybrid = 1,
    /// By the CPU of the packet's flow, later: for a device with one queue and more work than one CPU
    /// does. A thread must serve each CPU:
    /// [`Stack::run_netisr`](crate::Stack::run_netisr), or [`Stack::poll`](crate::Stack::poll) for all.
    #[doc(alias = "NETISR_DISPATCH_DEFERRED")]
    Deferred = 2,
}

impl Dispatch {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Hybrid, Self::Deferred];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hybrid => "hybrid",
            Self::Deferred => "deferred",
        }
    }

    pub(crate) const fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Direct,
            1 => Self::Hybrid,
            _ => Self::Deferred,
        }
    }
}

/// How packets get from devices to protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetisrConfig {
    /// Each protocol's policy at first; [`Stack::set_dispatch`](crate::Stack::set_dispatch) changes it.
    /// Default [`Dispatch::Direct`].
    #[doc(alias = "net.isr.direct")]
    #[doc(alias = "net.isr.enable")]
    #[doc(alias = "net.isr.dispatch")]
    pub dispatch: Dispatch,
    /// Packets of one protocol at most that wait for one CPU or that it has taken in one step. There should be room for
    /// the whole window of a connection from this stack to itself: at 1448 bytes a segment, 1 MiB are 725 packets.
    /// Default 4096.
    #[doc(alias = "net.isr.defaultqlimit")]
    pub queue_max: usize,
}

impl Default for NetisrConfig {
    fn default() -> Self {
        Self {
            dispatch: Dispatch::Direct,
            queue_max: 4096,
        }
    }
}
