//! Sets up an interface of a stack that a runtime drives, in one expression.
//!
//! Locks: none.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use wire::{MacAddr, is_link_local6};

use crate::device::tap::{OpenTap, Tap};
use crate::device::{Device, Medium};
use crate::error::Error;
use crate::ifnet::{IfAddr, IfConfig, IfIndex};
use crate::stack::Stack;
use crate::stack::driver::Driver;

/// A device's queue, and the descriptor that is readable when it has received something.
type WatchedQueue = (Arc<dyn Device>, OwnedFd);

/// A device for an interface: an open TAP, or a [`Device`] that is also `AsFd`, such as the end of a tunnel, a device
/// of the program's own, or one of these in a [`Capture`](crate::device::capture::Capture) or under an emulated
/// [link](crate::device::impair::Impaired). Its descriptor must be readable while the device has frames to receive; a
/// worker of the runtime then polls it. The [guide](crate::guide#a-device-that-a-runtime-drives) has an example. A
/// device with several queues is attached by [`Stack::attach_queues`] and
/// [`Runtime::add_queue`](crate::Runtime::add_queue).
pub trait IntoInterface: sealed::Queues {}

impl IntoInterface for OpenTap {}
impl<D: Device + AsFd + 'static> IntoInterface for D {}

mod sealed {
    use std::io;

    use super::{Stack, WatchedQueue};

    pub trait Queues {
        /// The name of the interface in this stack, unless the program gives another.
        fn name(&self, stack: &Stack) -> String;

        /// Its queues.
        fn into_queues(self, stack: &Stack) -> io::Result<Vec<WatchedQueue>>;
    }
}

impl sealed::Queues for OpenTap {
    fn name(&self, _: &Stack) -> String {
        self.name.clone()
    }

    fn into_queues(self, stack: &Stack) -> io::Result<Vec<WatchedQueue>> {
        let options = self.options;
        let queue = |fd: OwnedFd| {
            let watched = fd.try_clone()?;
            let tap: Arc<dyn Device> = Arc::new(Tap::from_fd(fd, options, stack.pool()));
            Ok((tap, watched))
        };
        self.queues.into_iter().map(queue).collect()
    }
}

impl<D: Device + AsFd + 'static> sealed::Queues for D {
    fn name(&self, stack: &Stack) -> String {
        let kind = match self.medium() {
            Medium::Ethernet => "eth",
            Medium::Ip => "tun",
        };
        let taken = stack.0.interfaces.read().clone();
        let mut names = (0..=taken.len()).map(|n| format!("{kind}{n}"));
        let free = names.find(|name| taken.iter().all(|ifp| ifp.name != *name));
        free.unwrap_or_else(|| unreachable!("more names than interfaces"))
    }

    fn into_queues(self, _: &Stack) -> io::Result<Vec<WatchedQueue>> {
        let watched = self.as_fd().try_clone_to_owned()?;
        Ok(vec![(Arc::new(self), watched)])
    }
}

/// An interface to come: [`InterfaceBuilder::up`] makes it.
#[derive(Debug)]
#[must_use = "`up` makes the interface"]
pub struct InterfaceBuilder<'s, D> {
    stack: &'s Stack,
    device: D,
    /// The device's, if the program gives none.
    name: Option<String>,
    config: IfConfig,
    gateways: Vec<IpAddr>,
}

impl Stack {
    /// Begins an interface on a device. The runtime that drives the stack takes in its frames.
    pub fn add_interface<D: IntoInterface>(&self, device: D) -> InterfaceBuilder<'_, D> {
        InterfaceBuilder {
            stack: self,
            name: None,
            config: IfConfig::new(""),
            device,
            gateways: Vec::new(),
        }
    }
}

impl<D: IntoInterface> InterfaceBuilder<'_, D> {
    /// Sets the interface's name. Default: the device's, or for a device without a name the first free one of eth0,
    /// eth1, and so on (of tun0, if it takes IP packets).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives it an address, such as `"192.0.2.2/24".parse()?` or `"fd00::2/64".parse()?`. Several are possible.
    pub fn addr(mut self, addr: IfAddr) -> Self {
        self.config.addrs.push(addr);
        self
    }

    /// Gives it an Ethernet address; else one is drawn at random.
    pub fn mac(mut self, mac: MacAddr) -> Self {
        self.config.mac = Some(mac);
        self
    }

    /// Lets it answer for every address, as a gateway does that terminates connections.
    pub fn accept_any(mut self) -> Self {
        self.config.accept_any = true;
        self
    }

    /// Sets a default router for its version of IP: it must be in a network of the interface, or have a link-local
    /// address. Of several the first is used.
    pub fn default_route(mut self, gateway: IpAddr) -> Self {
        self.gateways.push(gateway);
        self
    }

    /// Changes further options, such as autoconfiguration. The name is set by [`name`](Self::name) alone.
    pub fn config(mut self, change: impl FnOnce(&mut IfConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Makes the interface, and begins to take in its frames.
    ///
    /// # Errors
    /// [`Error::NoRuntime`]; [`Error::Gateway`]; [`Error::Mtu`]; [`Error::NameInUse`]; a descriptor can't be watched.
    /// Then there is no interface.
    pub fn up(self) -> Result<IfIndex, Error> {
        let driver = self.stack.driver().ok_or(Error::NoRuntime)?;
        let is_near = |gateway: &IpAddr| {
            let is_link_local = matches!(gateway, IpAddr::V6(addr) if is_link_local6(*addr));
            is_link_local || self.config.addrs.iter().any(|net| net.contains(*gateway))
        };
        if let Some(far) = self.gateways.iter().find(|gateway| !is_near(gateway)) {
            return Err(Error::Gateway(*far));
        }
        let stack = self.stack;
        let mut config = self.config;
        config.name = self.name.unwrap_or_else(|| self.device.name(stack));
        let queues = self.device.into_queues(stack)?;
        let (devices, watched) = queues.into_iter().unzip();
        let index = stack.attach_queues(devices, config)?;
        let up = add_default_routes(stack, index, &self.gateways)
            .and_then(|()| watch(stack, &*driver, index, watched));
        if up.is_err() {
            driver.forget(stack, index);
            stack.detach(index);
        }
        up.map(|()| index)
    }
}

fn add_default_routes(stack: &Stack, index: IfIndex, gateways: &[IpAddr]) -> Result<(), Error> {
    for &gateway in gateways {
        let added = stack.add_default_route(index, gateway);
        added.map_err(|_| Error::Gateway(gateway))?;
    }
    Ok(())
}

const UNPOLLABLE: &str =
    "the device's descriptor can't be polled: it must be of a socket or the like, not of a file";

fn watch(
    stack: &Stack,
    driver: &dyn Driver,
    index: IfIndex,
    watched: Vec<OwnedFd>,
) -> Result<(), Error> {
    for (queue, fd) in watched.into_iter().enumerate() {
        let watched = driver.watch(stack, stack.rx_queue(index, queue)?, fd);
        watched.map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM) => io::Error::new(io::ErrorKind::Unsupported, UNPOLLABLE),
            _ => e,
        })?;
    }
    Ok(())
}
