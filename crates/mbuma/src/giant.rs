//! Giant in a stack: the components that run under it, and their settings.
//!
//! | component | where it is told | how it is called |
//! |---|---|---|
//! | the stack | [`Config::giant`](crate::Config::giant) | each entry takes Giant if that is over all |
//! | a device | [`IfConfig::mp_safe`](crate::IfConfig::mp_safe) | receives and transmits under Giant if it is not MP-safe, else without |
//! | a protocol | [`Stack::set_mp_safe`](crate::Stack::set_mp_safe) | its input runs under Giant if it is not MP-safe, or Giant is over all |
//! | a callback | [`Stack::giant_waker`](crate::Stack::giant_waker) | under Giant |
//!
//! An entry is a [`Batch`](crate::batch::Batch), or a call that reads one socket. It releases Giant before the stack
//! calls anything outside of itself. Wakers and MP-safe devices therefore run without Giant, and two stacks with a
//! Giant each may call each other by an epair and never wait for each other. A device that is not MP-safe and leads
//! into another stack is the exception: both stacks must have the same Giant, or WITNESS reports two. The stack that
//! such a device calls releases Giant for its own calls outwards, as it would for a sleep. A bridge is outside of all
//! stacks, so a port that is not MP-safe is wrapped [under Giant](crate::device::under_giant).
//!
//! Locks: `callbacks` (PARKER), with nothing taken inside.
//! Source: seed 002, debug.mpsafenet, NETISR_MPSAFE, IFF_NEEDSGIANT.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use kern::giant::Component;
use kern::{Giant, LockClass, Mutex, order};

use crate::config::Protocol;

static CALLBACKS: LockClass = LockClass::new("giant callbacks", order::PARKER);

/// The components that a stack calls and that may need Giant, beside its devices.
#[derive(Debug)]
pub(crate) struct Components {
    protocols: [Component; Protocol::ALL.len()],
    /// They end with the last clone of their waker.
    callbacks: Mutex<Vec<Weak<Component>>>,
}

impl Components {
    pub(crate) fn new() -> Self {
        Self {
            protocols: Protocol::ALL.map(|protocol| Component::new(protocol.name(), true)),
            callbacks: Mutex::new(&CALLBACKS, Vec::new()),
        }
    }

    pub(crate) fn protocol(&self, protocol: Protocol) -> &Component {
        &self.protocols[protocol as usize]
    }

    pub(crate) fn add_callback(&self, component: &Arc<Component>) {
        let mut callbacks = self.callbacks.lock();
        callbacks.retain(|callback| callback.strong_count() > 0);
        callbacks.push(Arc::downgrade(component));
    }

    /// Protocols, then callbacks.
    pub(crate) fn stats(&self) -> Vec<ComponentStats> {
        let callbacks = self.callbacks.lock().clone();
        let callbacks: Vec<_> = callbacks.iter().filter_map(Weak::upgrade).collect();
        let protocols = self.protocols.iter().map(ComponentStats::protocol);
        let callbacks = callbacks.iter().map(|c| ComponentStats::callback(c));
        protocols.chain(callbacks).collect()
    }
}

/// A callback that needs Giant.
pub(crate) struct GiantWaker {
    pub(crate) giant: Arc<Giant>,
    pub(crate) component: Arc<Component>,
    pub(crate) waker: Waker,
}

impl Wake for GiantWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = &self.waker;
        self.giant
            .call_outward(&self.component, || waker.wake_by_ref());
    }
}

/// The kind of a component (seed 002).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComponentKind {
    /// An interface's device.
    Device,
    /// A protocol's input.
    Protocol,
    /// A waker.
    Callback,
}

/// One component.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentStats {
    /// Its kind.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
    /// Whether it runs without Giant, unless Giant is over the whole stack.
    pub mp_safe: bool,
    /// How often it was entered under Giant.
    pub entered: u64,
}

impl ComponentStats {
    fn of(kind: ComponentKind, component: &Component) -> Self {
        Self {
            kind,
            name: component.name().into(),
            mp_safe: component.is_mp_safe(),
            entered: component.entered(),
        }
    }

    pub(crate) fn device(component: &Component) -> Self {
        Self::of(ComponentKind::Device, component)
    }

    fn protocol(component: &Component) -> Self {
        Self::of(ComponentKind::Protocol, component)
    }

    fn callback(component: &Component) -> Self {
        Self::of(ComponentKind::Callback, component)
    }
}

/// The components that run under a stack's Giant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GiantStats {
    /// The whole stack does.
    #[doc(alias = "debug.mpsafenet")]
    pub over_all: bool,
    /// Devices, protocols, callbacks.
    pub components: Vec<ComponentStats>,
}

impl GiantStats {
    /// Whether any component runs under it.
    pub fn is_used(&self) -> bool {
        self.over_all || self.components.iter().any(|c| !c.mp_safe || c.entered > 0)
    }
}

/// `over the stack; device tap0: Giant, 12 times under it; protocol ip4: MP-safe`
impl fmt::Display for GiantStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.over_all {
            true => "over the stack",
            false => "not over the stack",
        })?;
        self.components.iter().try_for_each(|c| write!(f, "; {c}"))
    }
}

impl fmt::Display for ComponentStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ComponentKind::Device => "device",
            ComponentKind::Protocol => "protocol",
            ComponentKind::Callback => "callback",
        };
        let state = match self.mp_safe {
            true => "MP-safe",
            false => "Giant",
        };
        write!(f, "{kind} {}: {state}", self.name)?;
        match self.entered {
            0 => Ok(()),
            n => write!(f, ", {n} times under it"),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
