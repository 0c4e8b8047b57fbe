//! A device around another that is not MP-safe: each call of it is made under Giant.
//!
//! For code without a Giant of its own, such as a [bridge](super::bridge) whose port it is. A stack needs no wrapper:
//! it has [`mp_safe`](crate::IfConfig::mp_safe).
//!
//! Invariants: one thread at a time is in the device, and none while another is in a component that needs the same
//! Giant. Locks: Giant, with nothing held before; the device may take others inside. Source: seed 002, IFF_NEEDSGIANT.

use std::io;
use std::sync::Arc;

use kern::giant::Component;
use kern::{Giant, Time};
use mbuf::Mbufq;
use wire::MacAddr;

use super::{Budget, Capabilities, Device, Medium};
use crate::drops::DropReason;

/// A device whose every call is under Giant (seed 002).
///
/// ```
/// use std::sync::Arc;
/// use mbuma::{Giant, buf::Mbufq};
/// use mbuma::device::{Capabilities, Device, memory::Pipe, under_giant::UnderGiant};
///
/// let giant = Arc::new(Giant::new(false)); // that of the stacks and devices which it must not meet
/// let (old, _other_end) = Pipe::pair(Capabilities::whole(1500));
/// let port = UnderGiant::new("old0", old, giant);
/// port.transmit(&mut Mbufq::new())?;
/// assert_eq!(port.entered(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias = "IFF_NEEDSGIANT")]
pub struct UnderGiant<D> {
    device: D,
    giant: Arc<Giant>,
    component: Component,
}

impl<D: Device> UnderGiant<D> {
    /// Calls `device`, whose name WITNESS may report, under `giant`.
    pub fn new(name: impl Into<String>, device: D, giant: Arc<Giant>) -> Self {
        Self {
            device,
            giant,
            component: Component::new(name, false),
        }
    }

    /// The device within, not under Giant.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// How often it was called.
    pub fn entered(&self) -> u64 {
        self.component.entered()
    }

    fn call<R>(&self, call: impl FnOnce(&D) -> R) -> R {
        self.giant
            .call_outward(&self.component, || call(&self.device))
    }
}

impl<D: Device> Device for UnderGiant<D> {
    // Not under Giant: these are fixed, or asked for with locks held.
    super::forward_to!(device => capabilities: Capabilities, medium: Medium, mac: Option<MacAddr>,
        next_deadline: Option<Time>);

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        self.call(|device| device.receive(rx, budget))
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        self.call(Device::take_drops)
    }

    fn detached(&self) -> usize {
        self.call(Device::detached)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.call(|device| device.transmit(tx))
    }
}
